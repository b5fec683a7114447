"""A power cut, simulated: what was not synced of the database and of its log is lost, torn, mixed or zeros, and what was
acknowledged is there."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hooksdk.stores import SqlStore
from hooksdk.transcript import Transcript

HERE = Path(__file__).parent
MODES = ["lost", "torn", "mixed", "zeros"]
FILES = {1: "hooksdk.db", 2: "hooksdk.db-wal"}
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs Linux and gcc"),
]


class Operation(NamedTuple):
    what: str
    file: int
    offset: int
    data: bytes


def operations_in(path: Path) -> list[Operation]:
    data, at, found = path.read_bytes(), 0, list[Operation]()
    while at < len(data):
        offset, size = struct.unpack_from("<qI", data, at + 2)
        found.append(Operation(chr(data[at]), data[at + 1], offset, data[at + 14 : at + 14 + size]))
        at += 14 + size
    return found


def apply(content: bytearray, one: Operation) -> None:
    if one.what == "w":
        content.extend(b"\0" * (one.offset - len(content)))
        content[one.offset : one.offset + len(one.data)] = one.data
    elif one.what == "t":
        del content[one.offset :]
        content.extend(b"\0" * (one.offset - len(content)))
    elif one.what == "u":
        content.clear()


def after_a_cut(operations: list[Operation], chance: random.Random, mode: str) -> dict[str, bytearray]:
    """The files as a disk may have them: all that was synced, and of the rest what chance and the mode leave."""
    files = {1: bytearray(), 2: bytearray()}
    unsynced: dict[int, list[Operation]] = {1: [], 2: []}
    gone = {1: True, 2: True}
    for one in operations:
        gone[one.file] = one.what == "u"
        if one.what == "s":
            for each in unsynced[one.file]:
                apply(files[one.file], each)
            unsynced[one.file].clear()
        else:
            unsynced[one.file].append(one)
    for one in [each for waiting in unsynced.values() for each in waiting if mode != "lost"]:
        data, lot = one.data, chance.random()
        if one.what != "w" or mode == "mixed":
            if lot < 0.5:
                continue
        elif lot < 0.5:
            kept = chance.randrange(len(data)) // 512 * 512 if mode == "torn" else 0
            data = data[:kept] if mode == "torn" else b"\0" * len(data)
        apply(files[one.file], one._replace(data=data))
    return {FILES[file]: content for file, content in files.items() if not gone[file]}


async def lost_in(folder: Path, acknowledged: list[tuple[str, Any]]) -> list[str]:
    """What was acknowledged, and is not there."""
    if not acknowledged:
        return []
    store = SqlStore(folder)
    newest = dict(acknowledged)
    transcript = await Transcript.open(await store.open_session("s"), "s")
    try:
        lost = ["messages"] if transcript.count < newest.get("m", 0) else []
        asked = [str(message["content"]).split()[0] for message in transcript.messages if message["role"] == "user"]
        lost += ["order"] if asked != [f"u{number}" for number in range(len(asked))] else []
        lost += ["value"] if (await store.get_value("p", "k", -1)) < newest.get("v", -1) else []
        lost += ["state"] if transcript.state("q").get("turns", -1) < newest.get("q", -1) else []
        trimmed = {info.handle for info in transcript.list_results() if info.trimmed}
        return lost + [f"trim {handle}" for kind, handle in acknowledged if kind == "t" and handle not in trimmed]
    finally:
        await transcript.close()
        await store.aclose()


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(20))
async def test_after_a_power_cut_all_that_was_acknowledged_is_there(tmp_path: Path, seed: int) -> None:
    shim = tmp_path / "power_cut.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, HERE / "power_cut.c", "-ldl", "-lpthread"], check=True)
    work = tmp_path / "work"
    work.mkdir()
    variables = {**os.environ, "LD_PRELOAD": str(shim), "OPERATIONS": str(tmp_path / "operations")}
    subprocess.run([sys.executable, HERE / "power_child.py", work, str(seed)], env=variables, check=True)
    operations = operations_in(tmp_path / "operations")
    acknowledged: list[tuple[int, str, Any]] = json.loads((work / "acknowledged.json").read_text())
    chance = random.Random(seed)
    for number in range(25):
        cut, mode = chance.randrange(acknowledged[0][0], len(operations) + 1), chance.choice(MODES)
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in after_a_cut(operations[:cut], chance, mode).items():
            (folder / name).write_bytes(content)
        assert await lost_in(folder, [(kind, value) for at, kind, value in acknowledged if at <= cut]) == [], (
            cut,
            mode,
        )
