"""What a store promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from hooksdk._transcript.entries import Entry
from hooksdk.errors import StoreError
from hooksdk.formats import Message


def unknown_session(session_id: str) -> StoreError:
    """What `Store.read_session` raises for a session that was never opened."""
    return StoreError(f"session '{session_id}'", "there is none of this id; list_sessions() names those there are")


class SessionLog(Protocol):
    """One session of a store, held by one owner at a time. Everything appended is durable when the call returns, and
    stored whole or not at all; an append that was begun completes, whoever cancels the caller.
    """

    existed: bool
    """The session had been opened before."""
    token: int
    """Rises with every holder. One who lost the session gets `SessionBusy` or `StoreError` for an append."""
    materialized: bool
    """True when the store wants `write_view` after each drain."""

    async def read(self) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal. A last line torn by a crash is left out; other damage is a `StoreError`."""
        ...

    async def append_messages(self, messages: Sequence[Message]) -> None:
        """Store more messages."""
        ...

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:
        """Store more journal entries in one atomic step; with `verify`, only if `verify()` finds nothing changed."""
        ...

    async def write_view(self, messages: Sequence[Message]) -> None:
        """Write the model's view beside the stored messages, for tools that read it."""
        ...

    async def verify(self) -> None:
        """Raise `TranscriptChanged` when somebody else changed what is stored. A file that was only touched is no change."""
        ...

    async def close(self) -> None:
        """Let the session go."""
        ...


@runtime_checkable
class RewritableLog(Protocol):
    """What a `SessionLog` may do besides: put a shorter journal in the place of the one that is stored."""

    async def rewrite_journal(self, entries: Sequence[Entry]) -> None:
        """Store these entries instead of all that were read: whole, or not at all. It is asked for at opening only, and
        the session opens as well when it raises `StoreError`.
        """
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

    async def delete_value(self, space: str, key: str) -> None:
        """Remove a value; one that is not there is no error."""
        ...

    async def list_keys(self, space: str) -> list[str]:
        """The keys of a space, sorted."""
        ...

    async def aclose(self) -> None:
        """Let everything go."""
        ...
