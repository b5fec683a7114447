"""What one tool call goes through: files and functions of hooksdk, copies of its arguments, schema checks, time.

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
import threading
import time
from collections.abc import AsyncGenerator, Mapping
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
COUNTS = ("files", "functions", "copies", "checks")

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

    async def request(self) -> str:
        """Record the model's request for a call; answers the call's id."""
        self.requests += 1
        call_id = f"c{self.requests}"
        function = {"name": "t", "arguments": json.dumps(ARGUMENTS)}
        calls = [{"id": call_id, "type": "function", "function": function}]
        await self.run.record({"role": "assistant", "content": None, "tool_calls": calls})
        return call_id


@asynccontextmanager
async def _stage(policies: int) -> AsyncGenerator[_Stage]:
    from hooksdk import Config, Host, MemoryStore, Tool

    async def execute(arguments: dict[str, Any]) -> str:
        return "done"

    tool = Tool(name="t", source="host", owner="core", parameters=PARAMETERS, execute=execute)
    plugins = [_policy(number) for number in range(policies)]
    config = Config(deny=BUILT_INS)
    async with (
        Host(plugins, store=MemoryStore(), config=config) as host,
        host.session("s") as session,
        session.run() as run,
    ):
        await run.resolve_tools([tool])
        await run.record([{"role": "user", "content": "go"}])
        yield _Stage(run)


class _Profile:
    """Counts what happens in hooksdk while it is on, in every thread."""

    def __init__(self) -> None:
        import hooksdk

        self.folder = str(Path(hooksdk.__file__).parent) + os.sep
        self.codes: set[CodeType] = set()
        self.copies = 0
        self.checks = 0

    def __enter__(self) -> Self:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.folder):
            return
        self.codes.add(code)
        if code.co_qualname == "clone":
            self.copies += any(value == ARGUMENTS for value in frame.f_locals.values())
        elif code.co_qualname == "check":
            self.checks += "schema" in code.co_filename.removeprefix(self.folder)

    def counts(self) -> Counts:
        files = {code.co_filename for code in self.codes}
        return dict(zip(COUNTS, (len(files), len(self.codes), self.copies, self.checks), strict=True))


async def _count() -> Counts:
    """Of the second call of a run, so that nothing is compiled or imported in it."""
    from hooksdk import ToolCall

    async with _stage(1) as stage:
        await stage.run.call_tool(ToolCall(await stage.request(), "t", ARGUMENTS))
        call_id = await stage.request()
        with _Profile() as profile:
            result = await stage.run.call_tool(ToolCall(call_id, "t", ARGUMENTS))
        assert result.text == "done"
        return profile.counts()


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


def count(checkout: Path = ROOT, python: str = sys.executable) -> Counts:
    """What a call with one policy goes through in this checkout."""
    return _child("counts", checkout, python)


def times(checkouts: Mapping[Path, str], rounds: int) -> list[Times]:
    """Microseconds of a call in each checkout, given with its interpreter: medians over rounds in which all take turns."""
    rows: dict[Path, list[Times]] = {checkout: [] for checkout in checkouts}
    for _ in range(rounds):
        for checkout, python in checkouts.items():
            rows[checkout].append(_child("times", checkout, python))
    return [{name: statistics.median(row[name] for row in each) for name in POLICIES} for each in rows.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout of hooksdk, to compare with")
    parser.add_argument("--before-python", default=sys.executable, help="its interpreter; by default the same")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=["counts", "times"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(asyncio.run(_count() if options.child == "counts" else _time())))
        return
    checkouts = {options.before.resolve(): options.before_python} if options.before else {}
    checkouts[ROOT] = sys.executable
    counts = [count(checkout, python) for checkout, python in checkouts.items()]
    rows = {name: [each[name] for each in counts] for name in COUNTS}
    medians = times(checkouts, options.rounds)
    micros = {name: [each[name] for each in medians] for name in POLICIES}
    if options.json:
        print(json.dumps({"counts": rows, "microseconds": micros}, indent=2))
        return
    print("| one call |", *(f"{name} |" for name in ("before", "today")[-len(checkouts) :]))
    print("|---" * (len(checkouts) + 1) + "|")
    for name, values in rows.items():
        print(f"| {name} |", *(f"{value} |" for value in values))
    for name, values in micros.items():
        cells = [f"{value:.0f} ({value / values[0]:.2f}x) |" for value in values]
        print(f"| {name}, microseconds |", *cells)


if __name__ == "__main__":
    main()
