"""What the plugin `telemetry` costs a tool call: without it, with it and nobody listening, and with the SDK that exports.

    python benchmarks/telemetry.py [--rounds 9]

Everything runs in one process, in turns; trust the ratios, not the microseconds. Needs `pip install 'hooksdk[dev]'`.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from builtin_plugins.telemetry import Telemetry
from hooksdk import Tool, ToolCall, hooks
from hooksdk.formats import get_format
from hooksdk.testing import open_session

CALLS = 50
FORMAT = get_format("openai-chat")


class Policy:
    """What every setup has: one policy."""

    @hooks.before_tool_call
    async def judge(self, event: hooks.BeforeToolCall) -> hooks.Block | None:
        return None


class Listener:
    """Somebody who takes the trace and does nothing with it."""

    @hooks.trace
    async def take(self, event: hooks.Trace) -> None:
        pass


class Nowhere(SpanExporter):
    """Exports to nobody."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def read_file(path: str) -> str:
    """Read a file."""
    return path


async def measure(run: Any) -> float:
    """Microseconds of the processor's time for one call, its model turn included."""
    calls = [ToolCall(f"c{number}", "read_file", {"path": "a"}) for number in range(CALLS)]
    began = time.process_time()
    for call in calls:
        await run.prepare_messages()
        await run.record(FORMAT.reply("", [call]))
        await run.call_tool(call)
    return (time.process_time() - began) / CALLS * 1e6


async def rounds(setups: dict[str, list[type]], number: int) -> dict[str, list[float]]:
    """The times of each setup, measured in turns, each in a new session."""
    times: dict[str, list[float]] = {name: [] for name in setups}
    for _ in range(number):
        for name, plugins in setups.items():
            async with AsyncExitStack() as stack:
                session = await stack.enter_async_context(open_session(*plugins))
                run = await stack.enter_async_context(session.run())
                await run.resolve_tools([Tool.from_function(read_file, source="host")])
                times[name].append(await measure(run))
    return times


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    number = parser.parse_args().rounds
    silent = {"no plugin but a policy": [Policy], "a listener to the trace": [Policy, Listener],
              "telemetry, nobody listens": [Policy, Telemetry]}  # fmt: skip
    times = await rounds(silent, number)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    trace.set_tracer_provider(provider)
    again = await rounds({"no plugin (2)": [Policy], "telemetry, with the SDK": [Policy, Telemetry]}, number)
    provider.shutdown()
    base = statistics.median(times["no plugin but a policy"])
    second = statistics.median(again.pop("no plugin (2)"))
    print("| setup | one call | ratio |\n|---|---|---|")
    for name, values in {**times, **again}.items():
        median = statistics.median(values)
        print(f"| {name} | {median:,.0f} µs | {median / (second if name in again else base):.2f} |")


asyncio.run(main())
