"""What it costs to write down that a call begins, beside a bare fsync of the same bytes in the same run.

    python benchmarks/effects.py [--folder DIR] [--rounds 15] [--json]

Each round makes, in turns: a raw append of a beginning's bytes with fdatasync; one call of a tool that only reads (of which
nothing is written before it runs) and one of a tool that may take effect; and ten of each at once, in one reply. What is printed
are medians, and what the beginning adds as a multiple of the raw append. DIR should be on a disk: a file system in memory has
no fsync to speak of.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hooksdk import Annotations, Host, Run, Tool, ToolCall
from hooksdk.formats import get_format
from hooksdk.stores import SqlStore

CHAT = get_format("openai-chat")
CALLS = {"alone": 1, "ten at once": 10}
STORES = {"a session with messages": True, "a run without a transcript": False}


async def act(arguments: dict[str, Any]) -> str:
    """A tool that takes no time."""
    return "done"


def raw_append(folder: Path, line: bytes) -> float:
    """Seconds for one append that is on the disk."""
    began = time.perf_counter()
    fd = os.open(folder / "raw", os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        os.write(fd, line)
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return time.perf_counter() - began


async def make_calls(run: Run, name: str, count: int, number: int) -> float:
    """Seconds for so many calls of one reply."""
    calls = [ToolCall(f"c{number}-{each}", name, {"path": f"{number}/{each}"}) for each in range(count)]
    if run.info.transcript:
        await run.record([CHAT.user("go on"), CHAT.reply("", calls)])
    began = time.perf_counter()
    await asyncio.gather(*map(run.call_tool, calls))
    return time.perf_counter() - began


async def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """By store and number of calls: milliseconds of a raw append, of a call that only reads and of one that may take effect."""
    times: dict[tuple[str, str], dict[str, list[float]]] = {}
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = [
        Tool(name=name, source="host", parameters=parameters, execute=act, annotations=Annotations(read_only=name == "read"))
        for name in ("read", "act")
    ]  # fmt: skip
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(Host(store=SqlStore(folder / "store"), config={"allow": []}))
        runs: dict[str, Run] = {}
        for place, kept in STORES.items():
            session = await stack.enter_async_context(host.session(place))
            runs[place] = await stack.enter_async_context(session.run(transcript=kept))
            await runs[place].resolve_tools(tools)
        for number in range(rounds + 1):
            for place, run in runs.items():
                for how, count in CALLS.items():
                    seconds = {"raw": raw_append(folder, b"x" * 350 + b"\n")}
                    for name in ("read", "act") if number % 2 else ("act", "read"):
                        seconds[name] = await make_calls(run, name, count, number * 100 + len(seconds))
                    if number:  # the first one warms up
                        kept_times = times.setdefault((place, how), {})
                        for name, one in seconds.items():
                            kept_times.setdefault(name, []).append(one * 1000)
    return {f"{place}, {how}": summary(one) for (place, how), one in times.items()}


def summary(times: Mapping[str, list[float]]) -> dict[str, float]:
    """Medians in milliseconds, and what a beginning adds, in raw appends."""
    middle = {name: statistics.median(one) for name, one in times.items()}
    added = statistics.median(act - read for act, read in zip(times["act"], times["read"], strict=True))
    return {**middle, "added": added, "ratio": added / middle["raw"]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure; a temporary one by default")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = asyncio.run(measure(Path(folder), options.rounds))
    if options.json:
        print(json.dumps(found))
        return
    print(
        "| calls | raw append, ms | only reads, ms | may take effect, ms | added, in raw appends |\n|---|---|---|---|---|"
    )
    for name, one in found.items():
        print(f"| {name} | {one['raw']:.2f} | {one['read']:.2f} | {one['act']:.2f} | {one['ratio']:.1f} |")


if __name__ == "__main__":
    main()
