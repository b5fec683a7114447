"""Run by test_mutations.py: changes of a database by somebody else, each in a copy of its own, and what is told of them.

python mutations.py FOLDER TIMES SEED
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import json
import random
import shutil
import sqlite3
import sys
import traceback
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
from ledgers import knowledge
from transcripts import OPENAI, history, opened

from hooksdk._transcript import messages
from hooksdk.errors import HookSDKError
from hooksdk.stores import SqlStore, _chains, _kept_rows
from hooksdk.stores.upkeep import examine
from hooksdk.transcript import Results

SESSIONS = ("s", "s/1-child", "short")
SPACES = ("approvals", "limits")
TABLES = ("sessions", "messages", "journal", "rows", "states", "values", "digests", "schema")
FILE = "hooksdk.db"
IN_ROWS = ("update", "other type", "delete", "swap", "move", "copy")
IN_FILES = ("bit", "bits", "zeros", "cut", "log bit", "log zeros", "log cut", "log gone", "old page")
# A session's token, and the times and the holder of its lease, are written by every renewal, and no hash holds them.
LEASE = {"token", "holder", "expires", "changed"}


def shorten() -> None:
    """Let every session count as a long one, so that rows and states are kept and read."""
    for name, number in {"KEPT_BYTES": 200, "PAGE": 4, "KEPT_ROWS": 3, "MOST_PAGES": 2}.items():
        setattr(messages, name, number)
    _chains.PAGE = 5
    for name, number in {"RECENT_BYTES": 300, "RECENT_ROWS": 3, "MIN_STATE_BYTES": 1}.items():
        setattr(_kept_rows, name, number)


async def make(folder: Path) -> None:
    """A database as a day of work leaves it, some of it in the log beside the file; and as it was some writes before."""
    store = SqlStore(folder / "made")
    for session_id in SESSIONS:
        for turns in (2,) if session_id == "short" else (4, 3):
            async with opened(store, session_id) as transcript:
                await transcript.append(history(OPENAI, [f"{session_id} {number} " * 60 for number in range(turns)]))
                await transcript.save_state("plugin", {"turns": turns})
                await Results(transcript, "p").trim("r2")
                await transcript.drain()
        async with opened(store, session_id) as transcript:
            await transcript.append([OPENAI.user("prompt"), OPENAI.reply("fine")])
    for space in SPACES:
        for number in range(8):
            await store.set_value(space, f"k{number}", {"number": number, "text": "granted"})
    await store.aclose()  # the log is empty now
    shutil.copy(folder / "made" / FILE, folder / "old")
    store = SqlStore(folder / "made")
    async with opened(store, "s") as transcript:
        await transcript.append([OPENAI.user("question"), OPENAI.reply("answer")])
        await Results(transcript, "p").trim("r3")
        await transcript.drain()
    await store.set_value("limits", "k3", {"number": 33})
    shutil.copytree(folder / "made", folder / "base")
    await store.aclose()


async def observe(folder: Path) -> dict[str, Any]:
    """By part: what is read of it, or the error that refuses it."""
    store = SqlStore(folder)
    seen: dict[str, Any] = {}

    async def look(part: str, reading: Any) -> None:
        try:
            seen[part] = await reading()
        except HookSDKError as error:
            seen[part] = error

    async def session(session_id: str) -> Any:
        async with opened(store, session_id, form=None) as transcript:
            return knowledge(transcript._ledger)

    await look("sessions", store.list_sessions)
    for session_id in SESSIONS:
        await look(f"stored {session_id}", lambda session_id=session_id: store.read_session(session_id))
        await look(f"opened {session_id}", lambda session_id=session_id: session(session_id))
    for space in SPACES:
        await look(f"keys {space}", lambda space=space: store.list_keys(space))
        for number in range(8):
            key = f"k{number}"
            await look(f"{space} {key}", lambda space=space, key=key: store.get_value(space, key))
    await store.aclose()
    return seen


# How somebody changes it


def change_rows(folder: Path, what: str, chance: random.Random) -> str | None:
    """Change rows of one table; None where that changes none."""
    table = f"hooksdk_{chance.choice(TABLES)}"
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as file:
        columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
        rows = file.execute(f"SELECT rowid, * FROM {table}").fetchall()
        if table == "hooksdk_sessions":
            columns = [column for column in columns if column not in LEASE]
        if not rows or (len(rows) < 2 and what in {"swap", "move", "copy"}):
            return None
        (row, *_), column = chance.sample(rows, 1), chance.choice(columns)
        at = file.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", row[:1]).fetchone()[0]
        other = chance.choice(rows)
        try:
            if what == "delete":
                file.execute(f"DELETE FROM {table} WHERE rowid = ?", row[:1])
            elif what in {"update", "other type"}:
                new = altered(at, chance) if what == "update" else chance.choice([None, "x", 1.5, b"\xff", -1, ""])
                file.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row[0]))
            elif what == "swap":  # all that is not their place
                for name in ("body", "hash", "tag", "kind", "name"):
                    if name in columns:
                        pair = f"SELECT {name} FROM {table} WHERE rowid = ?"
                        one, two = (file.execute(pair, (each,)).fetchone()[0] for each in (row[0], other[0]))
                        for value, place in ((one, other[0]), (two, row[0])):
                            file.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = ?", (value, place))
            elif what == "move":
                place = next(
                    name for name in ("position", "number", "key", "session", "id", "part", *columns) if name in columns
                )
                value = at if not isinstance(row[1], int) else row[1] + chance.choice([-1, 1, 1000])
                file.execute(f"UPDATE {table} SET {place} = ? WHERE rowid = ?", (value, row[0]))
            else:
                given = list(row[1:])
                numbers = [place for place, value in enumerate(given) if isinstance(value, int)] or [0]
                place = numbers[min(1, len(numbers) - 1)]
                given[place] = given[place] + 1000 if isinstance(given[place], int) else f"{given[place]}x"
                file.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(given))})", given)
        except sqlite3.IntegrityError:
            return None  # SQLite itself refuses it
    return f"{what} in {table}.{column}, row {row[0]} of {len(rows)}"


def altered(value: Any, chance: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, (int, float)):
        return value + chance.choice([-1, 1, 7])
    if not value:
        return "y"
    at = chance.randrange(len(value))
    if isinstance(value, bytes):
        return value[:at] + bytes([value[at] ^ (1 << chance.randrange(8))]) + value[at + 1 :]
    return (
        value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
        if chance.random() < 0.7
        else value[:at] + value[at + 1 :]
    )


def change_file(folder: Path, what: str, chance: random.Random) -> str | None:
    """Change bytes of the database, or of the log beside it."""
    path = folder / (f"{FILE}-wal" if what.startswith("log") else FILE)
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    if what in {"bit", "bits", "log bit"}:
        for place in [at, *(chance.randrange(len(data)) for _ in range(20 if what == "bits" else 0))]:
            data[place] ^= 1 << chance.randrange(8)
    elif what in {"zeros", "log zeros"}:
        at = at // 512 * 512
        data[at : at + 512] = bytes(len(data[at : at + 512]))
    elif what in {"cut", "log cut"}:
        del data[at:]
    elif what == "old page":
        old = (folder.parent / "old").read_bytes()
        at = chance.randrange(len(old) // 4096) * 4096
        data[at : at + 4096] = bytes(data[at : at + 4096][::-1]) if chance.random() < 0.3 else old[-4096:]
    else:
        path.unlink()
        return what
    path.write_bytes(data)
    return f"{what} at {at} of {len(data)}"


async def run(folder: Path, times: int, seed: int) -> dict[str, Any]:
    """Count what was told of each change, by its kind."""
    shorten()
    await make(folder)
    chance = random.Random(seed)
    shutil.copytree(folder / "base", folder / "copy")
    true = await observe(folder / "copy")
    counts: dict[str, Counter[str]] = {}
    silent: list[str] = []
    for number in range(times):
        what = (*IN_ROWS, *IN_FILES)[number % (len(IN_ROWS) + len(IN_FILES))]
        shutil.rmtree(folder / "copy")
        shutil.copytree(folder / "base", folder / "copy", ignore=shutil.ignore_patterns("*-shm"))
        done = (change_rows if what in IN_ROWS else change_file)(folder / "copy", what, chance)
        seen = counts.setdefault(what, Counter())
        if done is None:
            seen["no change"] += 1
            continue
        try:
            store = SqlStore(folder / "copy")
            try:
                flaws = [flaw.what for flaw in await examine(store)]
            except HookSDKError as error:
                flaws = [str(error)]
            await store.aclose()
            found = await observe(folder / "copy")
        except Exception:  # what a user would see as a traceback
            seen["tracebacks"] += 1
            silent.append(f"{done}\n{traceback.format_exc(limit=-3)}")
            continue
        refused = [part for part, value in found.items() if isinstance(value, HookSDKError)]
        changed = [part for part, value in found.items() if part not in refused and value != true[part]]
        seen["mutations"] += 1
        seen["told by doctor"] += bool(flaws)
        seen["refused at opening"] += bool(refused)
        seen["changed nothing"] += not refused and not changed
        seen["read changed, told by doctor alone"] += bool(changed and flaws)
        if changed and not flaws:
            # a log that ends with an earlier commit is whole: nothing in the folder tells of the later ones
            is_older = what in {"log cut", "log gone"} and not refused
            seen["an older commit" if is_older else "silent"] += 1
            if not is_older:
                silent.append(f"{done}: {changed[:3]}")
        elif refused and not flaws:
            seen["refused, not told by doctor"] += 1
            silent.append(f"{done}: refused alone {refused[:2]} {found[refused[0]]}")
        elif changed:
            silent.append(f"(told) {done}: {changed[:3]} {flaws[:1]}")
    return {"counts": {what: dict(each) for what, each in counts.items()}, "silent": silent}


if __name__ == "__main__":
    _, place, times, seed = sys.argv
    print(json.dumps(anyio.run(run, Path(place), int(times), int(seed))))
