"""Stored sessions as the commands read them: by the ids that people type, without holding them, and whoever holds them;
and files of histories."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer

from hooksdk import schema
from hooksdk.cli._console import CommandProblem, printable, warnings_shown
from hooksdk.cli._project import project_config
from hooksdk.config import state_folder
from hooksdk.errors import StoreError, did_you_mean
from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.histories import History, read_history
from hooksdk.stores import SessionSummary, SqlStore, Store, list_summaries, open_store, summarize
from hooksdk.stores.sql import FILE_NAME
from hooksdk.stores.upkeep import list_holders
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
LAST = "last"
_DIGITS, _LETTERS = "0123456789", "bcdfghjkmnpqrstvwxyz"
_PAIRS = 4
# Matches an id that hooksdk made, in `new_id` or `host.session()`. A name that somebody gave is found whole only:
# `user-1` is not `user-10`.
_MADE = re.compile(rf"(?:[{_DIGITS}][{_LETTERS}]){{{_PAIRS}}}|[0-9a-f]{{32}}")
_LEAST_PREFIX = 4
_SHOWN_CHARS = 8


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
        """The prompt, model and folder with which it began."""
        beginning = SessionBeginning(
            session_id=self.session_id, messages=self.messages, journal=self.journal, changed=self.changed
        )
        return summarize(beginning)

    def summary(self) -> dict[str, Any]:
        """The entry of `list --sizes`."""
        ledger = self.ledger
        trimmed = sum(record.short_text is not None for record in ledger.records)
        tokens = sum(schema.estimate_tokens(message) for message in ledger.view)
        numbers = (len(self.messages), len(ledger.records), trimmed, len(ledger.queue), tokens)
        sizes = dict(zip(SIZES, numbers, strict=True))
        return {**described(self.about()), **sizes, "held_by": self.holder or None, "problem": None}


def described(summary: SessionSummary) -> dict[str, Any]:
    """The entry of a session in `list`."""
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


def with_store(project: Path, place: str | None, work: Callable[[SqlStore], Awaitable[T]]) -> T:
    """Do some work on the project's store, or the one at a folder or URL. Raises `CommandProblem` and `ConfigError`."""
    if place is None:
        spec = project_config(project).store
    elif "://" in place:
        spec = place
    elif place.strip() and (path := Path(place).expanduser()).exists():
        spec = f"jsonl:{place}" if path.is_dir() else f"sqlite:///{path}"
    else:
        what = f"there is no folder or database {printable(place)}"
        raise CommandProblem(f"{what}. --store takes the folder of a store, its file, or a URL")
    store = open_store(spec, project_config(project).sessions)
    if not isinstance(store, SqlStore):
        raise CommandProblem(
            "the configuration keeps sessions in memory, so none outlives its process. Name another store with --store"
        )

    async def open_and_close() -> T:
        async with aclosing(store):
            return await work(store)

    with warnings_shown():
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
    holder = (await holders_in(store)).get(session_id, "")
    return Look(
        session_id=session_id, messages=messages, journal=journal, ledger=ledger, changed=changed, holder=holder
    )


async def holders_in(store: Store) -> dict[str, str]:
    """Who holds each session that is open, such as `process 4711 on HOST`."""
    return await list_holders(store) if isinstance(store, SqlStore) else {}


def read_as_sent(file: Path, source: str | None = None) -> History:
    """The history in a file, or on stdin (`-`), in the format that it was sent in, where that is one of ours. Raises
    `HistoryError`."""
    content = sys.stdin.buffer.read() if str(file) == "-" else None

    def read(into: str | None) -> History:
        return read_history(file if content is None else BytesIO(content), source, into=into)

    history = read(None)
    return read(history.source) if history.source in FORMATS else history


async def new_id(store: Store) -> str:
    """A new id that is short to type, such as `7k2m9x4q`: one of 1.6 thousand million. The session's lock keeps two
    processes apart that make the same one at the same moment."""
    while True:
        made = "".join(secrets.choice(_DIGITS) + secrets.choice(_LETTERS) for _ in range(_PAIRS))
        if not await store.session_exists(made):
            return made


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """For each id the beginning that is enough to type. Only ids that hooksdk made are shortened."""
    made = sorted(each for each in ids if _MADE.fullmatch(each))
    shown = dict.fromkeys(made, _SHOWN_CHARS)
    for one, other in itertools.pairwise(made):
        needed = len(os.path.commonprefix([one, other])) + 1  # noqa: RUF071 - of characters
        shown[one], shown[other] = max(shown[one], needed), max(shown[other], needed)
    return {each: each[: shown.get(each)] for each in ids}


async def find_session(store: Store, typed: str, project: Path) -> str:
    """The session that is meant. Raises `CommandProblem` where there is none, or more than one."""
    found = await match_session(store, typed, project)
    if found is None:
        raise await unknown_session(store, typed)
    return found


async def match_session(store: Store, typed: str, project: Path) -> str | None:
    """The session with this id, or the newest for `last`, or the one whose id, made by hooksdk, begins with it; None
    where there is none. Raises `CommandProblem` where several begin so, and for `last` where no session was begun
    here."""
    if await store.session_exists(typed):
        return typed
    if typed == LAST:
        return (await newest(store, project)).session_id
    if len(typed) < _LEAST_PREFIX or typed.isdigit():  # a number may well be somebody's own new name
        return None
    fitting = [each for each in await store.list_sessions() if each.startswith(typed) and _MADE.fullmatch(each)]
    if len(fitting) > 1:
        raise CommandProblem(await _several(store, typed, fitting))
    return fitting[0] if fitting else None


async def _several(store: Store, typed: str, fitting: Sequence[str]) -> str:
    summaries = [one for one in await list_summaries(store) if one.session_id in fitting]
    lines = [f"\n  {one.session_id}  {clip(' '.join(one.prompt.split()), 60)}" for one in summaries]
    return f"'{printable(typed)}' fits {len(fitting)} sessions; type more of one:{''.join(lines)}"


async def newest(store: Store, project: Path) -> SessionSummary:
    """The session that was changed last, sub-agents' sessions left out. The state folder is shared by all projects, so
    there only sessions that began in this folder count. Raises `CommandProblem` where there is none."""
    summaries = await list_summaries(store)
    ids = {one.session_id for one in summaries}
    whole = [one for one in summaries if one.session_id.rpartition("/")[0] not in ids]
    here = _real(project)
    if isinstance(store, SqlStore) and store.file == state_folder() / FILE_NAME:
        whole = [one for one in whole if one.folder in {"", here}]
    if not whole:
        others = " `hooksdk sessions list` shows those of other folders." if ids else ""
        raise CommandProblem(f"no session was begun in {printable(here)} yet.{others}")
    return whole[0]


def _real(folder: Path) -> str:
    return str(folder.resolve())


async def unknown_session(store: Store, session_id: str) -> CommandProblem:
    """The problem of an id that names no session."""
    known = await store.list_sessions()
    hint = did_you_mean(session_id, known)
    if not hint:
        hint = " `hooksdk sessions list` shows those that are there." if known else " The store is empty."
    return CommandProblem(f"there is no session '{session_id}' in {place_of(store)}.{hint}")


def place_of(store: Store) -> str:
    """The place of a store's sessions, for a message."""
    return str(store.file or store) if isinstance(store, SqlStore) else "this store"
