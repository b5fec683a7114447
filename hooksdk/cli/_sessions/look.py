"""Looking at stored sessions without holding them: `hooksdk sessions list`, `show`, `results` and `export`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio

from hooksdk import schema
from hooksdk.cli._console import CommandProblem, printable, stderr_console, warnings_shown
from hooksdk.cli._project import project_config
from hooksdk.errors import StoreError, did_you_mean
from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.stores import JsonlStore, Store, open_store
from hooksdk.stores.jsonl import file_name
from hooksdk.stores.locks import Lease, is_held
from hooksdk.tasks import in_thread
from hooksdk.transcript import Ledger

T = TypeVar("T")


class Damaged(CommandProblem):
    """Stored lines that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """One session as it is stored now."""

    session_id: str
    messages: Sequence[Message]
    ledger: Ledger
    changed: float | None
    """When it was last written, in seconds; None where that is not known."""
    holder: str
    """Who holds it, such as `process 4711`; empty when nobody does."""

    @property
    def format_name(self) -> str | None:
        """The format's name, one of a host's own too; None before the first message."""
        return self.ledger.format_name

    def summary(self) -> dict[str, Any]:
        """What `list` tells of it."""
        ledger = self.ledger
        return {
            "id": self.session_id,
            "format": self.format_name,
            "messages": len(self.messages),
            "results": len(ledger.records),
            "trimmed": sum(record.short_text is not None for record in ledger.records),
            "queued": len(ledger.queue),
            "tokens": sum(schema.estimate_tokens(message) for message in ledger.view),
            "changed": None if self.changed is None else timestamp(self.changed),
            "held_by": self.holder or None,
            "problem": None,
        }


def timestamp(seconds: float) -> str:
    """A time for people and programs."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def with_store(project: Path, place: str | None, work: Callable[[Store], Awaitable[T]]) -> T:
    """Do some work on the project's store, or the one at a folder or URL. Raises `CommandProblem` and `ConfigError`."""
    if place is None:
        spec = project_config(project).store
    elif "://" in place:
        spec = place
    elif Path(place).expanduser().is_dir():
        spec = f"jsonl:{place}"
    else:
        raise CommandProblem(f"there is no folder {printable(place)}. --store takes the folder of a store, or a URL")
    if spec == "memory":
        raise CommandProblem(
            "the configuration keeps sessions in memory, so none outlives its process. Name another store with --store"
        )
    store = open_store(spec)

    async def open_and_close() -> T:
        try:
            return await work(store)
        finally:
            await store.aclose()

    with warnings_shown(stderr_console()):
        return anyio.run(open_and_close)


async def need_session(store: Store, session_id: str) -> None:
    """Raise `CommandProblem` for a session that is not there, with the nearest one."""
    if not await store.session_exists(session_id):
        raise await unknown_session(store, session_id)


async def unknown_session(store: Store, session_id: str) -> CommandProblem:
    """The problem of an id that names no session."""
    known = await store.list_sessions()
    hint = did_you_mean(session_id, known)
    if not hint:
        hint = " `hooksdk sessions list` shows those that are there." if known else " The store is empty."
    return CommandProblem(f"there is no session '{session_id}' in {place_of(store)}.{hint}")


def place_of(store: Store) -> str:
    """Where a store keeps its sessions, for a message."""
    return str(store.directory) if isinstance(store, JsonlStore) else "this store"


async def look_at(store: Store, session_id: str) -> Look:
    """A session as it is stored now, whoever holds it. Raises `CommandProblem` where there is none, and `Damaged`."""
    await need_session(store, session_id)
    try:
        messages, journal = await store.read_session(session_id)
    except StoreError as error:
        raise Damaged(f"{error}. `hooksdk sessions doctor` says what can be done") from error
    name = next((str(entry.get("name")) for entry in journal if entry.get("kind") == "format"), None)
    message_format = get_format(name) if name in FORMATS else None
    try:
        ledger = await in_thread(Ledger.replay, messages, journal, message_format)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        problem = f"the journal of session '{session_id}' cannot be understood ({type(error).__name__}: {error})"
        raise Damaged(problem) from error
    changed = max((float(entry.get("time", 0)) for entry in journal), default=0) or None
    holder = ""
    if isinstance(store, JsonlStore):
        changed, holder = await in_thread(_look_at_files, store.directory / file_name(session_id))
    return Look(session_id=session_id, messages=messages, ledger=ledger, changed=changed, holder=holder)


def _look_at_files(base: Path) -> tuple[float, str]:
    """When they were last written, and who holds them."""
    paths = [base.with_name(f"{base.name}.{kind}.jsonl") for kind in ("journal", "messages")]
    return max(path.stat().st_mtime for path in paths), holder_of(base.with_name(base.name + ".lock"))


def holder_of(lock_path: Path) -> str:
    """Who holds this lock; empty when nobody does."""
    try:
        return (Lease.holder(lock_path) or "another process") if is_held(lock_path) else ""
    except OSError:  # no lock yet, or a disk that can only be read: nobody writes there
        return ""
