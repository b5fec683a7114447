"""What one tool call goes through: files, functions and lines of hooksdk, and how often it changes from one file to another;
copies of its arguments, schema checks, what a large result costs, time.

    python benchmarks/call_path.py [--before CHECKOUT] [--before-python PYTHON] [--rounds 9] [--json]

Everything is measured in child processes, with the checkout's folder on PYTHONPATH, so that an older checkout of hooksdk
can be measured by the same script. Times are the processor's and taken in turns; trust the ratios of one run, not the microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Self

ROOT = Path(__file__).parents[1]
ARGUMENTS = {"path": "notes/today.md"}
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
BUILT_INS = ["tool_search", "tool_policy", "tool_results", "catalog_audit", "trace_file"]
POLICIES = {"bare call": 0, "call with one policy": 1, "call with three policies": 3}
CALLS = 200
"""Calls of each kind in one child process."""
LARGE = "a line of text, äöü\n" * 50_000
"""A result of a megabyte."""
WAYS = ("call", "call, nothing stored", "turn")
"""What is traced: a call with one policy; the same in a run without a transcript; a reply that is recorded, its call, and the
messages of the next request."""
COUNTS = ("files", "functions", "lines", "changes of file", "changes of file per 100 lines", "copies", "checks")

Counts = dict[str, int]
Times = dict[str, float]


# In the child: hooksdk is the checkout's.


def _policy(number: int) -> ModuleType:
    """A plugin module with one policy."""
    from hooksdk import hooks

    module = ModuleType(f"policy_{number}")

    async def judge(event: hooks.BeforeToolCall) -> hooks.Block | None:
        return None

    judge.__module__ = module.__name__
    module.judge = hooks.before_tool_call(judge)  # type: ignore[attr-defined]
    return module


class _Stage:
    """An open run that has one tool."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.requests = 0

    def next_id(self) -> str:
        """The id of another call."""
        self.requests += 1
        return f"c{self.requests}"

    async def request(self) -> str:
        """Record the model's request for a call; answers the call's id."""
        call_id = self.next_id()
        function = {"name": "t", "arguments": json.dumps(ARGUMENTS)}
        calls = [{"id": call_id, "type": "function", "function": function}]
        await self.run.record({"role": "assistant", "content": None, "tool_calls": calls})
        return call_id


@asynccontextmanager
async def _stage(policies: int, *, transcript: bool = True, text: str = "done") -> AsyncGenerator[_Stage]:
    from hooksdk import Config, Host, MemoryStore, Tool

    async def execute(arguments: dict[str, Any]) -> str:
        return text

    tool = Tool(name="t", source="host", owner="core", parameters=PARAMETERS, execute=execute)
    plugins = [_policy(number) for number in range(policies)]
    config = Config(deny=BUILT_INS)
    async with (
        Host(plugins, store=MemoryStore(), config=config) as host,
        host.session("s") as session,
        session.run(transcript=transcript) as run,
    ):
        await run.resolve_tools([tool])
        if transcript:
            await run.record([{"role": "user", "content": "go"}])
        yield _Stage(run)


class _Trace:
    """Counts what happens in hooksdk while it is on. A change of file is a line that is run in another file than the one before."""

    def __init__(self) -> None:
        import hooksdk

        self.folder = str(Path(hooksdk.__file__).parent) + os.sep
        self.functions: set[CodeType] = set()
        self.lines: set[tuple[str, int]] = set()
        self.files: set[str] = set()
        self.file = ""
        self.changes = self.copies = self.checks = 0

    def __enter__(self) -> Self:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.folder):
            return None
        self._be_in(code.co_filename)
        if not code.co_name.startswith("<"):  # lambdas and comprehensions: those are functions up to Python 3.11 only
            self.functions.add(code)
        if code.co_qualname == "clone":
            self.copies += any(value == ARGUMENTS for value in frame.f_locals.values())
        elif code.co_qualname == "check":
            self.checks += "schema" in code.co_filename.removeprefix(self.folder)
        return self._step

    def _step(self, frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line":
            self._be_in(frame.f_code.co_filename)
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._step

    def _be_in(self, file: str) -> None:
        self.files.add(file)
        if file != self.file:
            self.file = file
            self.changes += 1

    def counts(self) -> Counts:
        share = round(100 * self.changes / len(self.lines))
        values = (len(self.files), len(self.functions), len(self.lines), self.changes, share, self.copies, self.checks)
        return dict(zip(COUNTS, values, strict=True))


async def _count() -> dict[str, Counts]:
    """Of the third of each kind in a run, so that nothing is compiled or imported in it."""
    from hooksdk import ToolCall

    counts: dict[str, Counts] = {}
    for way in WAYS:
        async with _stage(1, transcript=way != "call, nothing stored") as stage:
            for _ in range(3):
                if way == "turn":
                    with _Trace() as trace:
                        call_id = await stage.request()
                        await stage.run.call_tool(ToolCall(call_id, "t", ARGUMENTS))
                        await stage.run.prepare_messages()
                else:
                    call_id = await stage.request() if way == "call" else stage.next_id()
                    with _Trace() as trace:
                        result = await stage.run.call_tool(ToolCall(call_id, "t", ARGUMENTS))
                    assert result.text == "done"
            counts[way] = trace.counts()
    return counts


async def _large() -> float:
    """The time of a call whose result is `LARGE`, in the time of one `json.dumps` of that text as bytes: the least of each."""
    from hooksdk import ToolCall

    calls: list[float] = []
    dumps: list[float] = []
    async with _stage(0, text=LARGE) as stage:
        for _ in range(15):
            call_id = await stage.request()
            start = time.process_time()
            await stage.run.call_tool(ToolCall(call_id, "t", ARGUMENTS))
            calls.append(time.process_time() - start)
            start = time.process_time()
            json.dumps(LARGE, ensure_ascii=False).encode()
            dumps.append(time.process_time() - start)
    return min(calls) / min(dumps)


async def _time() -> Times:
    """Microseconds of the processor, since others may keep it busy: medians over calls, for which the kinds take turns."""
    from hooksdk import ToolCall

    times: dict[str, list[float]] = {name: [] for name in POLICIES}
    async with AsyncExitStack() as stack:
        stages = {name: await stack.enter_async_context(_stage(count)) for name, count in POLICIES.items()}
        for _ in range(CALLS):
            for name, stage in stages.items():
                call_id = await stage.request()
                start = time.process_time()
                await stage.run.call_tool(ToolCall(call_id, "t", ARGUMENTS))
                times[name].append((time.process_time() - start) * 1e6)
    return {name: statistics.median(each) for name, each in times.items()}


# In the parent.


def _child(what: str, checkout: Path, python: str) -> Any:
    command = [python, __file__, "--child", what]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    output = subprocess.run(command, env=environment, cwd=checkout, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(output.stdout)


def count(checkout: Path = ROOT, python: str = sys.executable) -> dict[str, Counts]:
    """What each of `WAYS` goes through in this checkout."""
    return _child("counts", checkout, python)


def large_result(checkout: Path = ROOT, python: str = sys.executable) -> float:
    """How many `json.dumps` of itself a result of a megabyte costs in this checkout."""
    return _child("large", checkout, python)


def times(checkouts: Mapping[Path, str], rounds: int) -> list[Times]:
    """Microseconds of a call in each checkout, given with its interpreter: medians over rounds in which all take turns."""
    rows: dict[Path, list[Times]] = {checkout: [] for checkout in checkouts}
    for _ in range(rounds):
        for checkout, python in checkouts.items():
            rows[checkout].append(_child("times", checkout, python))
    return [{name: statistics.median(row[name] for row in each) for name in POLICIES} for each in rows.values()]


def rows_of(checkouts: Mapping[Path, str], rounds: int) -> dict[str, list[float]]:
    """Everything, by the name of its row, for each checkout with its interpreter."""
    counts = [count(checkout, python) for checkout, python in checkouts.items()]
    rows: dict[str, list[float]] = {
        f"{way}: {name}": [each[way][name] for each in counts] for way in WAYS for name in COUNTS
    }
    rows["result of 1 MB, in json.dumps of itself"] = [round(large_result(*each), 1) for each in checkouts.items()]
    medians = times(checkouts, rounds)
    rows |= {f"microseconds, {name}": [round(each[name]) for each in medians] for name in POLICIES}
    return rows


CHILDREN: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {"counts": _count, "large": _large, "times": _time}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout of hooksdk, to compare with")
    parser.add_argument("--before-python", default=sys.executable, help="its interpreter; by default the same")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=list(CHILDREN), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(asyncio.run(CHILDREN[options.child]())))
        return
    checkouts = {options.before.resolve(): options.before_python} if options.before else {}
    checkouts[ROOT] = sys.executable
    rows = rows_of(checkouts, options.rounds)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print("| one call |", *(f"{name} |" for name in ("before", "today")[-len(checkouts) :]))
    print("|---" * (len(checkouts) + 1) + "|")
    for name, values in rows.items():
        print(f"| {name} |", *(f"{value:,} |" for value in values))


if __name__ == "__main__":
    main()
