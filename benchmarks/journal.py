"""What long sessions cost: `python benchmarks/journal.py [--json]`.

A drain of one trim beside one raw append and fsync with 0.5, 2 and 20 MB stored; the same in ten sessions of one process at
once, and in ten processes at once; recording 1,000 messages one by one beside raw
appends of the same bytes; opening 10 to 100,000 messages without and with the state that is kept of a session, with the memory that
it takes beside their size, and what the session is asked for then. All of it is in SQLite. "json.loads" is that of all
messages, one by one; "cpu" is processor time of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, cast

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message, get_format
from hooksdk.stores import SqlStore, Store
from hooksdk.transcript import Results, Transcript

FORM = get_format("openai-chat")
MEGABYTE = 1_000_000
Row = dict[str, float]


def turn(number: int, length: int) -> list[Message]:
    call = ToolCall(f"c{number}", "read_file", {"path": f"file{number}"})
    return [FORM.reply("", [call]), *FORM.result_messages([(call, ToolResult(f"{number} ".ljust(length, "x")))])]


async def opened(store: Store) -> Transcript:
    transcript = await Transcript.open(await store.open_session("s"), "s")
    await transcript.use_format(FORM)
    return transcript


def raw_append(file: int, data: bytes) -> float:
    started = time.perf_counter()
    os.write(file, data)
    os.fsync(file)
    return time.perf_counter() - started


def stored(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("hooksdk.db*"))


def fastest(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The least wall time and the least processor time."""
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


async def draining(folder: Path, megabytes: float, repeats: int = 100) -> Row:
    """One trim queued and drained, beside one raw append and fsync; taken in turns, so that a slow disk is slow for all."""
    length = max(2_000, int(megabytes * MEGABYTE / 250))
    transcript = await opened(SqlStore(folder))
    turns = [message for number in range(1, 251) for message in turn(number, length)]
    await transcript.append([FORM.user("go"), *turns, FORM.reply("done")])
    times: dict[str, list[float]] = {"raw": [], "queue": [], "drain": []}
    file = os.open(folder / "raw", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    for number in range(1, repeats + 1):
        times["raw"].append(raw_append(file, b"x" * 200))
        started = time.perf_counter()
        await Results(transcript, "p").trim(f"r{number}")
        queued = time.perf_counter()
        await transcript.drain()
        times["queue"].append(queued - started)
        times["drain"].append(time.perf_counter() - queued)
    os.close(file)
    size = stored(folder)
    await transcript.close()
    means = {name: statistics.fmean(values) * 1e3 for name, values in times.items()}  # a disk answers in steps
    ratios = {f"{name} ratio": means[name] / means["raw"] for name in ("queue", "drain")}
    return {"MB": size / MEGABYTE, **{f"{name} ms": value for name, value in means.items()}, **ratios}


async def recording(folder: Path, count: int = 1_000) -> Row:
    transcript = await opened(SqlStore(folder))
    messages: Sequence[Message] = [FORM.user(f"{number} ".ljust(500, "x")) for number in range(count)]
    file = os.open(folder / "raw", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    raw = ours = 0.0
    for message in messages:
        raw += raw_append(file, json.dumps(message).encode())
        started = time.perf_counter()
        await transcript.append([message])
        ours += time.perf_counter() - started
    os.close(file)
    await transcript.close()
    return {"messages": count, "raw s": raw, "recorded s": ours, "ratio": ours / raw}


def raw_mean(folder: Path, times: int = 50) -> float:
    file = os.open(folder / "raw", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        return statistics.fmean(raw_append(file, b"x" * 200) for _ in range(times))
    finally:
        os.close(file)


async def filled(store: Store, session_id: str, trims: int) -> Transcript:
    transcript = await Transcript.open(await store.open_session(session_id), session_id)
    await transcript.use_format(FORM)
    turns = [message for number in range(1, trims + 1) for message in turn(number, 2_000)]
    await transcript.append([FORM.user("go"), *turns, FORM.reply("done")])
    return transcript


async def drain_each(transcript: Transcript, trims: int) -> list[float]:
    """How long each drain of one trim takes."""
    waits: list[float] = []
    for number in range(1, trims + 1):
        await Results(transcript, "p").trim(f"r{number}")
        started = time.perf_counter()
        await transcript.drain()
        waits.append(time.perf_counter() - started)
    return waits


async def at_once(folder: Path, sessions: int, trims: int = 40) -> Row:
    """Sessions of one process that drain at the same time; raw is measured before and after."""
    store = SqlStore(folder)
    transcripts = [await filled(store, f"s{number}", trims) for number in range(sessions)]
    raw = raw_mean(folder)
    waits = [*itertools.chain(*await asyncio.gather(*(drain_each(each, trims) for each in transcripts)))]
    raw = (raw + raw_mean(folder)) / 2
    for transcript in transcripts:
        await transcript.close()
    await store.aclose()
    mean = statistics.fmean(waits)
    return {
        "sessions": sessions,
        "raw ms": raw * 1e3,
        "drain ms": mean * 1e3,
        "ratio": mean / raw,
        "longest s": max(waits),
    }


async def one_process(folder: Path, name: str, trims: int) -> None:
    """What each process of `processes` does: it says that it is ready, waits for a line, and drains."""
    store = SqlStore(folder)
    transcript = await filled(store, name, trims)
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.perf_counter()
    waits = await drain_each(transcript, trims)
    print(json.dumps([time.perf_counter() - started, max(waits)]), flush=True)
    await transcript.close()
    await store.aclose()


def processes(folder: Path, count: int = 10, trims: int = 40) -> Row:
    """Processes that drain at the same time, each in a file of its own and then all in one."""
    seconds: dict[str, tuple[float, float]] = {}
    for kind in ("own", "one"):
        command = [sys.executable, __file__, "--process"]
        places = [folder / (f"{kind}{number}" if kind == "own" else kind) for number in range(count)]
        children = [
            subprocess.Popen(
                [*command, place, f"s{number}", str(trims)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for number, place in enumerate(places)
        ]
        outs = [cast("IO[str]", child.stdout) for child in children]
        for out in outs:
            assert out.readline() == "ready\n"
        for child in children:
            cast("IO[str]", child.stdin).write("go\n")
            cast("IO[str]", child.stdin).flush()
        times = [json.loads(out.readline()) for out in outs]
        for child in children:
            child.communicate()
        seconds[kind] = max(wall for wall, _ in times), max(longest for _, longest in times)
    (own, longest_own), (one, longest) = seconds["own"], seconds["one"]
    row = {"processes": count, "own files s": own, "one file s": one, "ratio": one / own}
    return {**row, "longest of own s": longest_own, "longest of one s": longest}


class Clock:
    """Wall time and processor time since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


async def opening_times(store: Store, tries: int, forget: Callable[[], object]) -> tuple[float, float]:
    times: list[tuple[float, float]] = []
    for _ in range(tries):
        forget()
        clock = Clock()
        transcript = await opened(store)
        times.append(clock.stop())
        await transcript.close()
    return fastest(times)


def judging(lines: Sequence[bytes]) -> float:
    clock = Clock()
    for line in lines:
        json.loads(line)
    return clock.stop()[1]


async def openings(store: Store, count: int, length: int, forget: Callable[[], object]) -> tuple[Row, Transcript]:
    """A session of so many messages, opened after its state was forgotten and with it. Answers it, open, as well."""
    tries = 5 if count <= 1_000 else 2
    transcript = await opened(store)
    turns = [message for number in range(1, count // 2) for message in turn(number, length)]
    await transcript.append([FORM.user("go"), *turns, FORM.reply("done")])
    await transcript.close()
    del turns
    lines = [json.dumps(message, ensure_ascii=False).encode() for message in (await store.read_session("s"))[0]]
    judged, size = judging(lines), sum(map(len, lines))
    del lines
    first, again = [await opening_times(store, tries, each) for each in (forget, lambda: None)]
    forget()
    tracemalloc.start()
    transcript = await opened(store)
    first_peak = tracemalloc.get_traced_memory()[1]
    await transcript.close()
    del transcript
    tracemalloc.reset_peak()
    transcript = await opened(store)
    memory, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    row = {
        "messages": count, "MB": size / MEGABYTE, "json.loads s": judged, "first open s": first[0], "cpu": first[1],
        "open s": again[0], "open cpu": again[1], "first peak / size": first_peak / size, "memory / size": memory / size,
        "peak / size": peak / size,
    }  # fmt: skip
    return row, transcript


async def opening(folder: Path, count: int, length: int) -> list[Row]:
    def forget() -> None:
        with sqlite3.connect(folder / "hooksdk.db") as connection:
            connection.execute("DELETE FROM hooksdk_states")
        connection.close()

    row, transcript = await openings(SqlStore(folder), count, length, forget)
    size = stored(folder)
    work: Row = {"messages": count, "MB": size / MEGABYTE}
    clock = Clock()
    view = transcript.view
    work["view"] = clock.stop()[1] * 1e3
    clock = Clock()
    await transcript.match(view)
    work["match"] = clock.stop()[1] * 1e3
    clock = Clock()
    transcript.list_results()
    work["list"] = clock.stop()[1] * 1e3
    clock = Clock()
    for number in range(10):
        await transcript.append([FORM.user(str(number))])
    work["record"] = clock.stop()[1] * 1e3 / 10
    await Results(transcript, "p").trim("r1")
    clock = Clock()
    await transcript.drain()
    work["drain, wall"] = clock.stop()[0] * 1e3
    await transcript.close()
    return [row, work]


async def main(as_json: bool) -> None:
    titles = (
        "A trim, queued and drained",
        "Sessions of one process at once",
        "Ten processes at once",
        "Recording one by one",
        "Opening",
        "Then, processor ms",
    )
    tables: dict[str, list[Row]] = {title: [] for title in titles}
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in (0.5, 2, 20):
            tables["A trim, queued and drained"].append(await draining(Path(folder) / f"drain{megabytes}", megabytes))
        for sessions in (1, 10):
            tables["Sessions of one process at once"].append(await at_once(Path(folder) / f"once{sessions}", sessions))
        tables["Ten processes at once"].append(processes(Path(folder)))
        tables["Recording one by one"].append(await recording(Path(folder) / "record"))
        for count, length in ((10, 300), (1_000, 300), (10_000, 300), (10_000, 2_000), (100_000, 300)):
            rows = await opening(Path(folder) / f"open{count}-{length}", count, length)
            for title, row in zip(titles[-2:], rows, strict=True):
                tables[title].append(row)
    print(json.dumps(tables, indent=2)) if as_json else show(tables)


def show(tables: dict[str, list[Row]]) -> None:
    for title, rows in tables.items():
        print(f"\n### {title}\n\n| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
        for row in rows:
            print(f"| {' | '.join(f'{value:,.4g}' for value in row.values())} |")


if __name__ == "__main__":
    parser: Any = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    if sys.argv[1:2] == ["--process"]:
        asyncio.run(one_process(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
        raise SystemExit
    asyncio.run(main(parser.parse_args().json))
