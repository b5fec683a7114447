"""What an audit costs, and what damage it shows: `python benchmarks/audit.py [--records 100000] [--json]`.

A chain of 100,000 records, written, verified by one signature for each row and, for comparison, by each record's own; a call of a
tool that does nothing, without the plugin, with it, and where the host records first, beside one raw append and fsync; and random
damage of each kind to a chain in several files, found without a head and with one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from builtin_plugins.audit import _writer as writer
from hooksdk import Host, MemoryStore, Run, Tool, ToolCall
from hooksdk.audit import (
    LINE_TORN,
    file_source,
    hash_of,
    is_genuine,
    numbered_files,
    parse_line,
    read_records,
    seal,
    verify,
)

Files = dict[str, list[bytes]]
KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
TOOL = Tool(name="look", source="host", owner="core", parameters={"type": "object"}, execute=lambda _arguments: "done")


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# A long chain


def long_chain(folder: Path, count: int) -> dict[str, float]:
    samples = asyncio.run(sample_records(folder / "sample"))
    chain = writer.FileChain(folder / "audit.jsonl", KEY, max_bytes=50_000_000)

    def write() -> None:
        for number in range(count - 1):
            chain.append(samples[number % len(samples)])
        chain.sync()

    written = seconds(write)
    chain.close()
    files = [*numbered_files(folder / "audit.jsonl"), folder / "audit.jsonl"]
    lines = [line for path in files for line in path.read_bytes().split(b"\n")[:-1]]
    public = KEY.public_key()
    report = verify([file_source(path) for path in files], public)
    assert report.damage is None
    records = [record for path in files for record in read_records(path)]
    return {
        "records": len(lines), "files": len(files), "bytes a record": sum(map(len, lines)) / len(lines) + 1,
        "write us": written / count * 1e6, "verify s": min(seconds(lambda: verify([file_source(p) for p in files], public)) for _ in range(3)),
        "json.loads s": min(seconds(lambda: [json.loads(line) for line in lines]) for _ in range(3)),
        "each signature s": seconds(lambda: all(is_genuine(public, record) for record in records)),
    }  # fmt: skip


async def sample_records(folder: Path) -> list[dict[str, Any]]:
    """What the plugin writes of 20 calls, without what the chain adds."""
    async with host(folder, audit=True) as one:
        await calls(one, 20)
    own = {"n", "prev", "time"}
    records = [record.fields for record in read_records(folder / "audit.jsonl")][1:]
    return [{name: value for name, value in fields.items() if name not in own} for fields in records]


# A call


def host(folder: Path, *, audit: bool, record_first: bool = False) -> Host:
    settings = {"path": f"{folder}/", "key": str(folder / "key.pem")}
    config: dict[str, Any] = {
        "allow": ["audit"] if audit else [],
        "plugins": {"audit": {"config": settings}} if audit else {},
    }
    return Host(store=MemoryStore(), config=config, folder=Path(os.devnull), record_first=record_first)


async def calls(one: Host, count: int) -> None:
    async with one.session("s") as session, session.run(transcript=False) as run:
        await run.resolve_tools([TOOL])
        for number in range(count):
            await run.call_tool(ToolCall(f"c{number}", "look", {"path": f"src/{number}.py"}))


async def call_costs(folder: Path, rounds: int = 300) -> dict[str, float]:
    """Means, taken in turns, so that a slow disk is slow for all: a disk answers in steps."""
    names = {"without": (False, False), "audit": (True, False), "record_first": (True, True)}
    times: dict[str, list[float]] = defaultdict(list)
    file = os.open(folder / "raw", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    hosts = {name: host(folder / name, audit=audit, record_first=first) for name, (audit, first) in names.items()}
    runs: dict[str, Run] = {}
    opened: list[Any] = []
    for name, one in hosts.items():
        await one.__aenter__()
        session = await one.session("s").__aenter__()
        run = await session.run(transcript=False).__aenter__()
        await run.resolve_tools([TOOL])
        runs[name] = run
        opened += [one, session, run]
    for number in range(rounds):
        started = time.perf_counter()
        os.write(file, b"x" * 700)
        os.fdatasync(file)
        times["raw"].append(time.perf_counter() - started)
        for name, run in runs.items():
            started = time.perf_counter()
            await run.call_tool(ToolCall(f"c{number}", "look", {"path": f"src/{number}.py"}))
            times[name].append(time.perf_counter() - started)
            await asyncio.sleep(0.005)  # the records in the background are not another call's time
    for one in reversed(opened):
        await one.__aexit__(None, None, None)
    os.close(file)
    means = {f"{name} ms": statistics.fmean(values) * 1e3 for name, values in times.items()}
    extra = means["record_first ms"] - means["without ms"]
    medians = {f"{name} median ms": statistics.median(values) * 1e3 for name, values in times.items()}
    return {**means, **medians, "record_first ratio": extra / means["raw ms"]}


# Damage


def damages() -> dict[str, Callable[[random.Random, Files, Files], object]]:
    """Each kind by its words: what it does to the lines of a chain's files. `foreign` is another chain of the same key."""

    def at(rng: random.Random, files: Files) -> tuple[list[bytes], int]:
        lines = files[rng.choice(list(files))]
        return lines, rng.randrange(len(lines))

    def flip(rng: random.Random, files: Files, _foreign: Files) -> None:
        lines, place = at(rng, files)
        line = bytearray(lines[place])
        line[rng.randrange(len(line))] ^= 1 << rng.randrange(8)
        lines[place] = bytes(line)

    def resign(rng: random.Random, files: Files, _foreign: Files) -> None:
        start, before = rng.randrange(sum(map(len, files.values()))), ""
        for lines in files.values():
            for place, line in enumerate(lines):
                record = parse_line(line)
                assert record is not None
                if record.number > start:
                    lines[place] = seal({**record.fields, "prev": before or record.previous, "forged": True}, OTHER)
                    before = hash_of(lines[place])

    def leave_out(rng: random.Random, files: Files, _foreign: Files) -> None:
        lines, place = at(rng, dict(list(files.items())[:-1]))
        del lines[place]

    def repeat(rng: random.Random, files: Files, _foreign: Files) -> None:
        lines, place = at(rng, files)
        lines.insert(rng.randrange(len(lines) + 1), lines[place])

    def swap(rng: random.Random, files: Files, _foreign: Files) -> None:
        lines, place = at(rng, files)
        other = (place + rng.randrange(1, len(lines))) % len(lines)
        lines[place], lines[other] = lines[other], lines[place]

    def move(rng: random.Random, files: Files, _foreign: Files) -> None:
        one, two = rng.sample(list(files), 2)
        files[two].insert(rng.randrange(len(files[two]) + 1), files[one].pop(rng.randrange(len(files[one]))))

    def splice(rng: random.Random, files: Files, foreign: Files) -> None:
        lines, place = at(rng, files)
        theirs, other = at(rng, foreign)
        lines[place] = theirs[other]

    def torn(rng: random.Random, files: Files, _foreign: Files) -> None:
        lines, place = at(rng, files)
        record = parse_line(lines[place])
        assert record is not None
        half = b'{"n":'
        mark = {
            "n": record.number,
            "prev": record.previous,
            "kind": LINE_TORN,
            "bytes": len(half),
            "sha256": hash_of(half),
        }
        lines[place : place + 1] = [half, seal(mark, OTHER)]

    def lose_file(rng: random.Random, files: Files, _foreign: Files) -> None:
        del files[rng.choice(list(files)[:-1])]

    def copy_file(rng: random.Random, files: Files, _foreign: Files) -> None:
        files["copy.jsonl"] = list(files[rng.choice(list(files))])

    def foreign_file(rng: random.Random, files: Files, foreign: Files) -> None:
        name = rng.choice(list(files)[1:])
        files[name] = list(foreign[name])

    def cut(rng: random.Random, files: Files, _foreign: Files) -> None:
        lines = files[list(files)[-1]]
        del lines[rng.randrange(1, len(lines)) :]

    def cut_file(_rng: random.Random, files: Files, _foreign: Files) -> None:
        del files[list(files)[-1]]

    def anew(_rng: random.Random, files: Files, foreign: Files) -> None:
        files.clear()
        files.update({name: list(lines) for name, lines in foreign.items()})

    return {
        "a bit changed": flip, "all from a record on forged and signed with another key": resign, "a record left out": leave_out,
        "a record twice": repeat, "two records swapped": swap, "a record moved to another file": move,
        "a record of another chain of the same key in its place": splice, "a record replaced by a made-up unfinished line": torn,
        "a file removed, but the last": lose_file, "a file twice": copy_file, "a file of another chain in its place": foreign_file,
        "the end cut": cut, "the last file removed": cut_file, "another chain of the same key, or one made anew with it": anew,
    }  # fmt: skip


def find_damage(folder: Path, repeats: int = 200) -> dict[str, dict[str, int]]:
    chains: list[Files] = []
    for name in ("one", "two"):
        chain = writer.FileChain(folder / name / "audit.jsonl", KEY, max_bytes=4_000)
        for number in range(40):
            chain.append({"kind": "decision", "session_id": name, "call_id": f"c{number}"})
        chain.close()
        paths = [*numbered_files(folder / name / "audit.jsonl"), folder / name / "audit.jsonl"]
        chains.append({path.name: path.read_bytes().split(b"\n")[:-1] for path in paths})
    own, foreign = chains
    last = parse_line(own["audit.jsonl"][-1])
    assert last is not None
    rng, rows = random.Random(1), {}
    for words, damage in damages().items():
        found: Counter[str] = Counter()
        for _ in range(repeats):
            files = {name: list(lines) for name, lines in own.items()}
            damage(rng, files, foreign)
            if files == own:
                continue
            work = folder / "work"
            work.mkdir(exist_ok=True)
            for path in work.iterdir():
                path.unlink()
            for name, lines in files.items():
                (work / name).write_bytes(b"".join(line + b"\n" for line in lines))
            sources = [file_source(work / name) for name in files]
            found["damaged"] += 1
            found["without a head"] += verify(sources, KEY.public_key()).damage is not None
            found["with a head"] += verify(sources, KEY.public_key(), [last.head]).damage is not None
        rows[words] = dict(found)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("long", "calls", "damage"):
            (folder / name).mkdir()
        results = {
            "chain": long_chain(folder / "long", options.records),
            "call": asyncio.run(call_costs(folder / "calls")),
            "damage": find_damage(folder / "damage"),
        }
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name in ("chain", "call"):
        print(name, *(f"{key} {value:.4g}" for key, value in results[name].items()), sep="  ")
    for words, row in results["damage"].items():
        print(f"{words:66}", *(f"{key} {value}" for key, value in row.items()), sep="  ")


if __name__ == "__main__":
    main()
