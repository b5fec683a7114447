"""What a store promises."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

from hooksdk._tasks.limits import describe
from hooksdk._transcript.encoding import Entry
from hooksdk._transcript.messages import MessageSource
from hooksdk._transcript.rows import RowKind, StoredRow
from hooksdk.errors import HookSDKError, StoreError
from hooksdk.formats import Message


def unknown_session(session_id: str) -> StoreError:
    """What `Store.read_session` raises for a session that was never opened."""
    return StoreError(f"session '{session_id}'", "there is none of this id; list_sessions() names those there are")


class SessionLog(Protocol):
    """One session of a store, held by one owner at a time. Everything appended is durable when the call returns, and
    stored whole or not at all; an append that was begun completes, whoever cancels the caller.

    Attributes:
        existed: The session had been opened before.
        token: Rises with every holder. One who lost the session gets `SessionBusy` or `StoreError` for an append.
    """

    existed: bool
    token: int

    async def read(self) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal. A last line torn by a crash is left out; other damage is a `StoreError`."""
        ...

    async def append_messages(self, messages: Sequence[Message]) -> None:
        """Store more messages. Each is a dict that knows its JSON already: `encode_for` answers that, and encodes none
        again."""
        ...

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:
        """Store more journal entries in one atomic step; with `verify`, only if `verify()` finds nothing changed."""
        ...

    async def verify(self) -> None:
        """Raise `TranscriptChanged` when somebody else changed what is stored. A file that was only touched is no
        change."""
        ...

    async def close(self) -> None:
        """Let the session go."""
        ...


@contextmanager
def as_store_errors(where: str) -> Generator[None]:
    """Raise what a host's own store raises as a `StoreError`, as the stores of hooksdk do."""
    try:
        yield
    except HookSDKError:
        raise
    except Exception as error:
        raise StoreError(where, describe(error)) from error


@runtime_checkable
class RewritableLog(Protocol):
    """What a `SessionLog` may do besides: put a shorter journal in the place of the one that is stored."""

    async def rewrite_journal(self, entries: Sequence[Entry]) -> None:
        """Store these entries instead of all that were read: whole, or not at all. It is asked for at opening only, and
        the session opens as well when it raises `StoreError`.
        """
        ...


@runtime_checkable
class LazyLog(Protocol):
    """What a `SessionLog` may do besides: leave the messages where they are, and read one when it is asked for."""

    async def read_encoded(self) -> tuple[MessageSource, Sequence[bytes], list[Entry]]:
        """The journal and the messages as `read` would give them, each message as its JSON, and where to read messages
        again: these, and those that are appended later."""
        ...


class SessionState(NamedTuple):
    """What a session opens with, instead of all that is stored.

    Attributes:
        state: The JSON that was kept with the rows; of another version it may be of no use.
        known: The number of messages whose rows are stored.
        recent: The newest of those messages, as JSON, the oldest first.
        messages: The messages that came later, as JSON.
        journal: The entries that came after the state was kept.
    """

    state: str
    known: int
    recent: Sequence[bytes]
    messages: Sequence[bytes]
    journal: list[Entry]


@runtime_checkable
class RowLog(Protocol):
    """What a `SessionLog` may do besides: keep rows of what is known about the messages, so that a long session opens
    without them. Rows and state are never needed: what is damaged or of another version is made anew from what `read`
    gives."""

    @property
    def state_is_due(self) -> bool:
        """True when so much was stored since the state was kept that the next opening would be slow."""
        ...

    async def read_state(self) -> SessionState | None:
        """The state that was kept, and what came later; None where there is none."""
        ...

    async def keep_state(
        self, state: str, rows: Sequence[tuple[RowKind, StoredRow]], *, known: int, upto: int, anew: bool
    ) -> None:
        """Keep the state of the first `known` messages, which are all, and of all entries, and more rows, or other ones with the same
        numbers, in one atomic step. The view begins after `upto` messages. `anew`: no earlier row counts any more."""
        ...

    def scan(self, start: int, stop: int) -> Iterator[Message]:
        """See `MessageSource`."""
        ...

    def read_rows(self, kind: RowKind, start: int, stop: int) -> list[StoredRow]:
        """See `RowSource`."""
        ...

    def find_rows(self, kind: RowKind, tag: str) -> list[StoredRow]:
        """See `RowSource`."""
        ...

    def read_entries(self, kind: str) -> list[Entry]:
        """See `RowSource`."""
        ...


class Store(Protocol):
    """Where sessions and the plugins' key-value spaces are kept.

    ```python
    from hooksdk import MemoryStore
    from hooksdk.stores import Store

    store: Store = MemoryStore()
    ```
    """

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> SessionLog:
        """Take hold of a session, new or old. Raises `SessionBusy` when another holder does not let go in time."""
        ...

    async def read_session(self, session_id: str) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal of a session as they are now, whoever holds it: nothing is taken, written or
        waited for. Raises `StoreError` for a session that was never opened."""
        ...

    async def delete_session(self, session_id: str, *, wait: float = 5.0) -> bool:
        """Remove a session for good; False where there is none. Raises `SessionBusy` when a holder does not let go in
        time."""
        ...

    async def session_exists(self, session_id: str) -> bool:
        """True when the session has been opened before."""
        ...

    async def list_sessions(self) -> list[str]:
        """The ids of all sessions, sorted."""
        ...

    async def get_value(self, space: str, key: str, default: Any = None) -> Any:
        """A stored value, a fresh copy."""
        ...

    async def set_value(self, space: str, key: str, value: Any) -> None:
        """Store a JSON value; durable when this returns."""
        ...

    async def change_value(self, space: str, key: str, old: Any, new: Any) -> bool:
        """Put `new` in the place of `old`, if that is what is stored now, in one step that nobody's write comes
        between; False, and nothing is changed, where it is not. None stands for no value: as `old` for one that is not
        there, as `new` to remove it. The order of an object's members does not count. Durable when this returns, and of
        several that change one value at once, in whichever process or on whichever machine, one gets True. Raises
        `StoreError`; where it cannot be known whether the value was stored, too: read it then.
        """
        ...

    async def delete_value(self, space: str, key: str) -> None:
        """Remove a value; one that is not there is no error."""
        ...

    async def list_keys(self, space: str) -> list[str]:
        """The keys of a space, sorted."""
        ...

    async def aclose(self) -> None:
        """Let everything go."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBeginning:
    """The first lines of one session: enough to say what it is about.

    Attributes:
        messages: The first few; fewer where they are long.
        journal: The first few entries. The one of kind `format` says with which model and in which folder the first run
            began.
        changed: When the session was last written, in seconds since 1970; None where that is not known.
        problem: Why these lines cannot be read; empty where nothing is wrong with them.
    """

    session_id: str
    messages: Sequence[Message] = ()
    journal: Sequence[Entry] = ()
    changed: float | None = None
    problem: str = ""


@runtime_checkable
class ListingStore(Protocol):
    """What a `Store` may do besides: show how every session begins, whatever its length. Without it, whoever lists
    sessions with what they are about reads all of each."""

    async def list_beginnings(self) -> list[SessionBeginning]:
        """One for each session, in any order. Nothing is taken, written or waited for; damage is told, not raised."""
        ...


@runtime_checkable
class SharingStore(Protocol):
    """What a `Store` may do besides, where workers of several machines have it: say which sessions somebody holds. With
    it (and `change_value`) several gateways behind one address can have the sessions of their clients in common."""

    @property
    def lease(self) -> float:
        """After how many seconds a session whose worker died or hangs is nobody's."""
        ...

    async def list_held(self, prefix: str = "") -> dict[str, bool]:
        """The sessions that somebody has opened and not closed, by id, those whose ids begin so: True while their
        holder is alive, False where its worker has died or hangs. Nothing is taken or waited for."""
        ...
