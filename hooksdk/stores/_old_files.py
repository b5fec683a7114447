"""Sessions that earlier versions have kept in files of JSON lines: read, and taken over into a database.

`NAME.messages.jsonl` has the messages, `NAME.journal.jsonl` the entries after a line that names the session, and
`values/SPACE.json` the plugins' values. A step of several lines was stored whole or not at all: each of its lines but
the last begins with a blank. A crash may have left a torn last step, or zeros in its place: it was never acknowledged.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

from hooksdk.errors import SessionBusy, StoreError
from hooksdk.stores import _digests
from hooksdk.stores._chains import JOURNAL, MESSAGES, End, chained, kind_of, named_ends
from hooksdk.stores._hashes import session_key
from hooksdk.stores._names import OLD_FILES, file_name, journal_of
from hooksdk.stores._sealing import Seal
from hooksdk.stores._values import value_in, value_row, write_value
from hooksdk.stores.files import BINARY
from hooksdk.stores.locks import lock

if TYPE_CHECKING:
    from hooksdk.stores._transaction import Run, Transaction

logger = logging.getLogger("hooksdk")

# The version in a journal's first line. A file of a higher version is refused.
VERSION = 1
# Files whose content is stored in one transaction.
BATCH = 100
# Seconds between two looks at a lock, and the looks at one of values.
PAUSE = 0.02
TRIES = 250
# The folder, beside the files, in which they stay once their content is in the database.
KEPT = "before-hooksdk.db"
# The space of values that names what was taken over, with the hash of each file.
TAKEN = "hooksdk.taken"
INSERT_SESSION = """
INSERT INTO hooksdk_sessions VALUES (
    :id, :name, :token, NULL, NULL, :changed, :messages, :messages_hash, :journal, :journal_hash)
ON CONFLICT (id) DO NOTHING"""


@final
@dataclass(frozen=True, slots=True)
class OldSession:
    """One session as its files have it.

    Attributes:
        messages: Each as its JSON.
        journal: Each entry as its JSON, without the line that names the session.
        token: The number of its holders so far.
        changed: When its files were last written, in seconds since 1970.
        fingerprint: The hash of the journal's file, which is moved last.
    """

    session_id: str
    messages: Sequence[bytes]
    journal: Sequence[bytes]
    token: int
    changed: float
    fingerprint: str


def old_files(folder: Path) -> list[Path]:
    """The journals of sessions, and the files of values, that are not in the database yet."""
    return sorted(path for pattern in OLD_FILES for path in folder.glob(pattern))


def named_in(journal: Path) -> str | None:
    """The id of the session whose journal this is; None if its first line does not name it."""
    try:
        with journal.open("rb") as file:
            return _session_in(journal, file.readline())
    except (OSError, StoreError):
        return None


def read_old_session(journal: Path) -> OldSession:
    """The session of this journal. Raises `StoreError` for damage other than a torn end."""
    messages = journal.with_name(journal.name.replace(".journal.jsonl", ".messages.jsonl"))
    try:
        data = [path.read_bytes() if path.exists() else b"" for path in (journal, messages)]
        changed = max(path.stat().st_mtime for path in (journal, messages) if path.exists())
    except OSError as error:
        raise StoreError(str(journal), f"cannot be read: {error}") from error
    entries, lines = (whole_lines(path, each) for path, each in zip((journal, messages), data, strict=True))
    if not entries:
        raise StoreError(str(journal), "this file is empty, so no session is named. Nothing was changed")
    session_id = _session_in(journal, entries[0])
    for path, each in ((journal, entries), (messages, lines)):
        for number, line in enumerate(each, 1):
            parse_line(path, line, number)
    fingerprint = hashlib.sha256(data[0]).hexdigest()
    header = parse_line(journal, entries[0], 1)  # an exported one says more
    token = header.get("token") or _token(journal.with_name(journal.name.replace(".journal.jsonl", ".lock")))
    changed = header.get("changed", changed)
    return OldSession(session_id, lines, entries[1:], token, changed, fingerprint)


def _session_in(journal: Path, line: bytes) -> str:
    header = parse_line(journal, line, 1)
    version = header.get("version")
    if header.get("hooksdk") != "journal" or not isinstance(version, int) or "session" not in header:
        raise StoreError(f"{journal}, line 1", "this is not the header of a journal. Nothing was changed")
    if version > VERSION:
        raise StoreError(str(journal), f"it was written by a newer hooksdk (version {version}). Nothing was changed")
    return str(header["session"])


def whole_lines(path: Path, data: bytes) -> list[bytes]:
    """The lines of all whole steps, without blanks around them. What a crash left at the end is left out."""
    lines = data.split(b"\n")
    tail = lines.pop().strip(b"\0")
    if tail.strip() and not tail.startswith((b"{", b" ")):
        raise _damage(path, len(lines) + 1, "this is no line that was begun here, but foreign text")
    text = tail.decode(errors="replace").lstrip(" ")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        end = 0  # nothing, or the rest of a torn write
    if end and text[end:].strip():
        raise _damage(path, len(lines) + 1, "this line is not JSON (two lines glued together?)")
    if end and not tail.startswith(b" "):
        lines.append(tail)
    while lines and lines[-1].startswith(b" "):
        lines.pop()
    return [line.strip() for line in lines if line.strip()]


def parse_line(path: Path, line: bytes, number: int) -> dict[str, Any]:
    """The object of a whole line. Raises `StoreError` with its place."""
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        glued = " (two lines glued together?)" if b"}{" in line else " (a block of zeros)" if b"\0" in line else ""
        raise _damage(path, number, f"this line is not JSON{glued}: {error}") from error
    if not isinstance(value, dict):
        raise _damage(path, number, f"this line is a {type(value).__name__}, not an object")
    return cast("dict[str, Any]", value)


def _damage(path: Path, number: int, problem: str) -> StoreError:
    advice = "`hooksdk sessions doctor --mend` leaves it out"
    return StoreError(f"{path}, line {number}", f"{problem}. Nothing was changed; {advice}")


def _token(path: Path) -> int:
    try:
        return int(path.read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return 1


# Taking over


def take_over(run: Run, folder: Path, seal: Seal) -> None:
    """Take everything over that the files of this folder have. They stay, in a folder beside. What an earlier version
    has open, and what is damaged, is left for later and told of in the log. Raises `StoreError` where the database
    cannot be written."""
    if not old_files(folder):
        return
    with _alone(folder):
        paths = old_files(folder)
        if len(paths) > BATCH:
            logger.warning("%d files of an earlier version are taken over from %s", len(paths), folder)
        for start in range(0, len(paths), BATCH):
            with ExitStack() as locks:
                batch = [path for path in paths[start : start + BATCH] if locks.enter_context(_held(path))]
                for path in run(partial(_take, batch, seal)):
                    _keep(path)


def take_over_session(run: Run, folder: Path, session_id: str, seal: Seal) -> None:
    """Take one session over, if it is in files still. Raises `SessionBusy` while an earlier version has it open, and
    `StoreError` for damage."""
    path = journal_of(folder, session_id)
    if not path.exists():
        return
    with _alone(folder), _held(path) as is_ours:
        if is_ours:
            session = read_old_session(path)
            if not run(lambda transaction: _insert(transaction, path, session, seal)):
                problem = "the database has another session of this id"
                raise StoreError(str(path), f"{problem}. Move this file away, or import it under another id")
            _keep(path)
        elif path.exists():
            raise SessionBusy(session_id, 0)


def _take(paths: Sequence[Path], seal: Seal, transaction: Transaction) -> list[Path]:
    """Store what these files have, each as it is read; answers those whose content the database has by now."""
    return [path for path in paths if (step := _step(path, seal)) is not None and step(transaction)]


def _step(path: Path, seal: Seal) -> Callable[[Transaction], bool] | None:
    try:
        if path.suffix == ".json":
            data = path.read_bytes()
            content = json.loads(data)
            space, values = str(content["space"]), dict(content["values"])
            return lambda transaction: _insert_values(transaction, path, data, space, values, seal)
        session = read_old_session(path)
    except (StoreError, OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s is not taken over: %s", path, error)
        return None
    return lambda transaction: _insert(transaction, path, session, seal)


def _insert(transaction: Transaction, path: Path, session: OldSession, seal: Seal) -> bool:
    """Store a session. False where another one of this id is stored already."""
    before = _taken_before(transaction, path, seal)
    if before is not None:  # and the process died before it moved the files
        return before == session.fingerprint
    if not insert_session(transaction, session, seal):
        logger.warning("%s is not taken over: the database has another session '%s'", path, session.session_id)
        return False
    _note_taken(transaction, path, session.fingerprint, seal)
    return True


def insert_session(transaction: Transaction, session: OldSession, seal: Seal) -> bool:
    """Store a session; False where there is one of this id already."""
    row: dict[str, Any] = {"id": session_key(session.session_id), "name": json.dumps(session.session_id)}
    kinds = [kind_of(json.loads(line)) for line in session.journal]
    parts = [
        (MESSAGES, *chained(row["id"], MESSAGES, End(), session.messages, seal=seal)),
        (JOURNAL, *chained(row["id"], JOURNAL, End(), session.journal, kinds, seal)),
    ]
    row |= {"token": session.token, "changed": session.changed, **named_ends({table: end for table, _, end in parts})}
    if not transaction.execute(INSERT_SESSION, row).rowcount:
        return False
    _digests.note_session(transaction, row["name"], 1)
    for table, rows, _ in parts:
        if rows:
            transaction.execute(table.insert, rows)
    return True


def _insert_values(
    transaction: Transaction, path: Path, data: bytes, space: str, values: dict[str, Any], seal: Seal
) -> bool:
    """Store the values of a space. Those that are stored already stay as they are."""
    fingerprint = hashlib.sha256(data).hexdigest()
    if _taken_before(transaction, path, seal) == fingerprint:
        return True
    for key, value in values.items():
        write_value(transaction, value_row(space, key, json.dumps(value), seal), None)
    _note_taken(transaction, path, fingerprint, seal)
    return True


def _taken_before(transaction: Transaction, path: Path, seal: Seal) -> str | None:
    row = {"space": file_name(TAKEN), "key": file_name(path.name)}
    found, _ = value_in(transaction, row, seal)
    return None if found is None else json.loads(found)


def _note_taken(transaction: Transaction, path: Path, fingerprint: str, seal: Seal) -> None:
    write_value(transaction, value_row(TAKEN, path.name, json.dumps(fingerprint), seal), None)


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """One process at a time takes over, and the others wait for it: without its values they would go on as if there
    were none."""
    fd = os.open(folder / f"{KEPT}.lock", os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    try:
        while not lock(fd):
            time.sleep(PAUSE)
        yield
    finally:
        os.close(fd)


@contextmanager
def _held(path: Path) -> Generator[bool]:
    """True while this process alone has the session, or the values, of a file that is still there."""
    is_values = path.suffix == ".json"
    beside = path.with_suffix(".lock") if is_values else path.with_name(path.name.replace(".journal.jsonl", ".lock"))
    fd = os.open(beside, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    try:
        is_ours = lock(fd)
        for _ in range(TRIES if is_values else 0):  # an earlier version locks values for one change
            if not is_ours:
                time.sleep(PAUSE)
                is_ours = lock(fd)
        if not is_ours:
            logger.warning("%s is not taken over: a process with an earlier version of hooksdk has it open", path)
        yield is_ours and path.exists()
    finally:
        os.close(fd)


def _keep(path: Path) -> None:
    """Move the files of a session, or of values, into the folder of those that are in the database."""
    name = path.name.removesuffix(".journal.jsonl")
    kept = path.parent / KEPT
    kept.mkdir(mode=0o700, exist_ok=True)
    ends = (".messages.jsonl", ".view.jsonl", ".index", ".lock", ".journal.jsonl")
    for each in [path] if path.suffix == ".json" else [path.with_name(name + end) for end in ends]:
        if each.exists():
            each.replace(kept / each.name)
