"""Stored sessions as the commands read them: without holding them, and whoever holds them; and files of histories."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer

from hooksdk import schema
from hooksdk.cli._console import CommandProblem, printable, stderr_console, warnings_shown
from hooksdk.cli._project import project_config
from hooksdk.cli._sessions.ids import find_session, unknown_session
from hooksdk.errors import StoreError
from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.histories import History, read_history
from hooksdk.stores import JsonlStore, SessionSummary, Store, open_store, summarize
from hooksdk.stores.jsonl import file_name
from hooksdk.stores.locks import Lease, is_held
from hooksdk.tasks import in_thread
from hooksdk.transcript import Entry, Ledger, SessionBeginning
from hooksdk.values import clip

T = TypeVar("T")

# What is known of a session once all of it was read.
SIZES = ("messages", "results", "trimmed", "queued", "tokens")
SessionId = Annotated[
    str, typer.Argument(metavar="ID", help="As `hooksdk sessions list` shows it; `last` is the newest of this folder.")
]
# Characters of a prompt in a list at most.
PROMPT_CHARS = 500


class Damaged(CommandProblem):
    """Stored lines that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """One session as it is stored now.

    Attributes:
        changed: When it was last written, in seconds; None where that is not known.
        holder: Who holds it, such as `process 4711`; empty when nobody does.
    """

    session_id: str
    messages: Sequence[Message]
    journal: Sequence[Entry]
    ledger: Ledger
    changed: float | None
    holder: str

    @property
    def format_name(self) -> str | None:
        """The format's name, one of a host's own too; None before the first message."""
        return self.ledger.format_name

    def about(self) -> SessionSummary:
        """What it is about."""
        beginning = SessionBeginning(
            session_id=self.session_id, messages=self.messages, journal=self.journal, changed=self.changed
        )
        return summarize(beginning)

    def summary(self) -> dict[str, Any]:
        """What `list --sizes` tells of it."""
        ledger = self.ledger
        trimmed = sum(record.short_text is not None for record in ledger.records)
        tokens = sum(schema.estimate_tokens(message) for message in ledger.view)
        numbers = (len(self.messages), len(ledger.records), trimmed, len(ledger.queue), tokens)
        sizes = dict(zip(SIZES, numbers, strict=True))
        return {**described(self.about()), **sizes, "held_by": self.holder or None, "problem": None}


def described(summary: SessionSummary) -> dict[str, Any]:
    """What a session is about, as `list` tells it."""
    return {
        "id": summary.session_id,
        "prompt": clip(summary.prompt, PROMPT_CHARS),
        "model": summary.model,
        "folder": summary.folder,
        "format": summary.format or None,
        "changed": None if summary.changed is None else timestamp(summary.changed),
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
    elif place.strip() and Path(place).expanduser().is_dir():
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


def with_session(
    project: Path, place: str | None, typed: str, work: Callable[[Store, str], Awaitable[T]]
) -> tuple[str, T]:
    """Do some work on the session that is meant; answers its id, too. Raises as `with_store`, and as `find_session`."""

    async def find(store: Store) -> tuple[str, T]:
        session_id = await find_session(store, typed, project)
        return session_id, await work(store, session_id)

    return with_store(project, place, find)


async def look_at(store: Store, session_id: str) -> Look:
    """A session as it is stored now, whoever holds it. Raises `CommandProblem` where there is none, and `Damaged`."""
    if not await store.session_exists(session_id):
        raise await unknown_session(store, session_id)
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
    return Look(
        session_id=session_id, messages=messages, journal=journal, ledger=ledger, changed=changed, holder=holder
    )


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


def read_as_sent(file: Path, source: str | None = None) -> History:
    """The history in a file, or on stdin (`-`), in the format that it was sent in, where that is one of ours. Raises
    `HistoryError`."""
    content = sys.stdin.buffer.read() if str(file) == "-" else None

    def read(into: str | None) -> History:
        return read_history(file if content is None else BytesIO(content), source, into=into)

    history = read(None)
    return read(history.source) if history.source in FORMATS else history
