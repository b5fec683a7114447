"""What firing hooks costs, beside bare awaits and pluggy, in one run.

    python benchmarks/dispatch.py [--json]

Times are medians of interleaved rounds; on a busy machine trust the ratios of one run, not the microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pluggy

from hooksdk import Config, Host, MemoryStore, Tool, ToolCall, hooks
from hooksdk._ledger.calls import CallInProgress
from hooksdk._run.judged import judge_call
from hooksdk.hooks import AfterToolCall, BeforeToolCall, Block, RunInfo
from hooksdk.stores import SqlStore

ROUNDS = 41
Measured = dict[str, float]
EVENT: Any = BeforeToolCall(
    info=RunInfo(), call=ToolCall("c", "t"), tool=Tool(name="t", source="host"), arguments={"path": "a"}
)
NOTHING = Config(deny=["tool_search", "tool_policy", "tool_results", "catalog_audit", "trace_file"])


def policy(number: int) -> type:
    class Policy:
        plugin_id = f"policy_{number}"

        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> Block | None:
            return None

    return Policy


def observer() -> type:
    class Observer:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            return None

    return Observer


async def measure(works: dict[str, Callable[[], Awaitable[None]]], repeats: int) -> Measured:
    """Microseconds of one repeat of each work: the median over rounds in which all take turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            started = time.perf_counter()
            for _ in range(repeats):
                await work()
            times[name].append((time.perf_counter() - started) / repeats * 1e6)
    return {name: statistics.median(samples) for name, samples in times.items()}


async def firing(count: int) -> Measured:
    plugins = [policy(number) for number in range(count)]
    async with Host(plugins, store=MemoryStore(), config=NOTHING) as host, host.session("a") as session:
        dispatcher = session._dispatcher
        assert dispatcher is not None
        calls = [handler.call for handler in dispatcher.plans["before_tool_call"]]
        manager = pluggy.PluginManager("hooksdk")
        manager.add_hookspecs(
            type("specs", (), {"before_tool_call": staticmethod(pluggy.HookspecMarker("hooksdk")(_spec()))})
        )
        for number, plugin in enumerate(plugins):
            manager.register(plugin(), str(number))

        async def bare() -> None:
            for call in calls:
                await call(EVENT)

        async def through_pluggy() -> None:
            for waiting in manager.hook.before_tool_call(event=EVENT):
                await waiting

        async def with_limits() -> None:
            async for outcome in dispatcher.fire("before_tool_call", EVENT):
                raise AssertionError(outcome)

        works = {"bare awaits": bare, "pluggy, then await": through_pluggy, "hooksdk, with time limits": with_limits}
        return await measure(works, max(20, 2000 // count))


def _spec() -> Any:
    def before_tool_call(event: object) -> None: ...

    return before_tool_call


async def nobody() -> Measured:
    async with Host(store=MemoryStore(), config=NOTHING) as host, host.session("a") as session:
        dispatcher = session._dispatcher
        assert dispatcher is not None

        async def ask() -> None:
            if dispatcher.has("before_tool_call"):
                await dispatcher.notify("before_tool_call", EVENT)

        async def empty() -> None:
            return None

        return await measure({"awaiting an empty coroutine": empty, "a hook that nobody handles": ask}, 5000)


async def observing() -> Measured:
    event: Any = AfterToolCall(info=RunInfo(), call=ToolCall("c", "t"), arguments={}, result=None)  # type: ignore[arg-type]
    samples: dict[str, list[float]] = {"worker asleep": [], "worker awake": []}
    async with Host([observer()], store=MemoryStore(), config=NOTHING) as host, host.session("a") as session:
        dispatcher = session._dispatcher
        assert dispatcher is not None
        for _ in range(400):
            await dispatcher.flush(1)
            await asyncio.sleep(0)
            for times in samples.values():
                started = time.perf_counter()
                dispatcher.observe("after_tool_call", event)
                times.append((time.perf_counter() - started) * 1e6)
        return {name: statistics.median(times) for name, times in samples.items()}


async def calling() -> Measured:
    async def execute(arguments: dict[str, Any]) -> str:
        return "done"

    tool = Tool(name="t", source="host", owner="core", execute=execute,
                parameters={"type": "object", "properties": {"path": {"type": "string"}}})  # fmt: skip
    async with (
        Host(store=MemoryStore(), config=NOTHING) as plain,
        Host([policy(number) for number in range(3)], store=MemoryStore(), config=NOTHING) as guarded,
        plain.session("a") as plain_session,
        guarded.session("a") as guarded_session,
        plain_session.run() as plain_run,
        guarded_session.run() as guarded_run,
    ):
        await plain_run.resolve_tools([tool])
        await guarded_run.resolve_tools([tool])

        # Nested calls, so that the transcript's growth is not measured.
        outer = CallInProgress(ToolCall("outer", "t", {}))

        async def call(run: Any) -> None:
            judged = await judge_call(run._state, CallInProgress(ToolCall("c", "t", {"path": "a"}), outer))
            await judged.execute()

        return await measure(
            {
                "a call without policies": lambda: call(plain_run),
                "a call with three policies": lambda: call(guarded_run),
            },
            50,
        )


async def draining() -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        syncs: list[float] = []
        drains: list[float] = []
        file = os.open(Path(folder) / "raw", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        async with Host(store=SqlStore(Path(folder) / "s"), config=NOTHING) as host, host.session("a") as session:
            async with session.run() as run:
                await run.record([{"role": "user", "content": "go"}])
                for number in range(60):
                    calls = [{"id": f"c{number}", "type": "function", "function": {"name": "t", "arguments": "{}"}}]
                    await run.record({"role": "assistant", "content": None, "tool_calls": calls})
                    await run.record({"role": "tool", "tool_call_id": f"c{number}", "content": "x" * 2000})
                await run.record({"role": "assistant", "content": "done"})
            transcript = session._transcript
            assert transcript is not None
            for number in range(1, 41):
                await session.results.trim(f"r{number}")
                started = time.perf_counter()
                await transcript.drain()
                drains.append((time.perf_counter() - started) * 1e6)
                started = time.perf_counter()
                os.write(file, b"x" * 200)
                os.fsync(file)
                syncs.append((time.perf_counter() - started) * 1e6)
        os.close(file)
        return {"one raw append and fsync": statistics.median(syncs), "a drain of one trim": statistics.median(drains)}


def show(title: str, table: Measured, limit: str = "") -> None:
    base = next(iter(table.values()))
    print(f"\n### {title}{f' ({limit})' if limit else ''}\n\n| what | microseconds | ratio |\n|---|---|---|")
    for name, value in table.items():
        print(f"| {name} | {value:.2f} | {value / base:.2f} |")


async def main(as_json: bool) -> None:
    tables = {
        "No handler": (await nobody(), "aim: nothing"),
        **{f"{count} async handlers": (await firing(count), "aim: <= 10 at 10 handlers") for count in (1, 10, 100)},
        "An observed event, as the run sees it": (await observing(), "aim: <= 2 us awake, <= 5 us to wake it"),
        "A tool call": (await calling(), "aim: three policies add <= 100 us"),
        "The drain": (await draining(), "aim: <= 2"),
    }
    if as_json:
        print(json.dumps({title: table for title, (table, _) in tables.items()}, indent=2))
        return
    for title, (table, limit) in tables.items():
        show(title, table, limit)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asyncio.run(main(parser.parse_args().json))
