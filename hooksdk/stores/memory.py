"""Sessions in memory: gone with the process, otherwise the same promises as on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from hooksdk.errors import SessionBusy, StoreError
from hooksdk.formats import Message
from hooksdk.tasks import keep_trying
from hooksdk.transcript import (
    EncodedMessages,
    Entry,
    SessionBeginning,
    encode_for,
    is_same,
    unknown_session,
)

__all__ = ["MemoryLog", "MemoryStore"]


@dataclass
class _StoredSession:
    messages: list[bytes] = field(default_factory=list[bytes])
    journal: list[bytes] = field(default_factory=list[bytes])
    token: int = 0
    is_held: bool = False
    changed: float | None = None

    def read(self) -> tuple[list[Message], list[Entry]]:
        return [json.loads(line) for line in self.messages], [json.loads(line) for line in self.journal]


@final
class MemoryLog:
    """One session in memory.

    Attributes:
        volatile: True: the log ends with the process, so no beginning of a call is kept for a later one.
    """

    volatile = True

    def __init__(self, session_id: str, stored: _StoredSession) -> None:
        self.session_id = session_id
        self.existed = stored.token > 0
        stored.token += 1
        self.token = stored.token
        self._stored = stored
        self._open = True

    def _encode(self, values: Sequence[object]) -> list[bytes]:
        return [encode_for(f"session '{self.session_id}'", value) for value in values]

    def _check(self) -> None:
        if self._stored.token != self.token:
            raise SessionBusy(self.session_id, 0)
        if not self._open:
            raise StoreError(f"session '{self.session_id}'", "it was closed")

    async def read(self) -> tuple[list[Message], list[Entry]]:
        self._check()
        return self._stored.read()

    async def read_encoded(self) -> tuple[EncodedMessages, Sequence[bytes], list[Entry]]:
        """The journal and the messages; these stay as they are stored."""
        self._check()
        lines = self._stored.messages
        return EncodedMessages(lines), lines[:], [json.loads(line) for line in self._stored.journal]

    async def append_messages(self, messages: Sequence[Message]) -> None:
        self._check()
        self._stored.messages.extend(self._encode(messages))
        self._stored.changed = time.time()

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:  # noqa: ARG002 - nobody else can write
        self._check()
        self._stored.journal.extend(self._encode(entries))
        self._stored.changed = time.time()

    async def rewrite_journal(self, entries: Sequence[Entry]) -> None:
        """Store these entries instead of the journal."""
        self._check()
        self._stored.journal = self._encode(entries)

    async def verify(self) -> None:
        self._check()

    async def close(self) -> None:
        if self._open:
            self._open = False
            self._stored.is_held = False


@final
class MemoryStore:
    """Sessions and plugin storage in memory, shared by all hosts that are given this object.

    ```python
    import anyio

    from hooksdk import Host, MemoryStore

    async def main() -> None:
        store = MemoryStore()
        for resumed in (False, True):
            async with Host(store=store) as host, host.session("ann") as session:
                assert session.resumed is resumed

    anyio.run(main)
    ```
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _StoredSession] = {}
        self._values: dict[str, dict[str, bytes]] = {}

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> MemoryLog:
        """Take hold of a session, new or old. Raises `SessionBusy` when another holder does not let go in time."""
        return MemoryLog(session_id, await self._hold(session_id, wait))

    async def _hold(self, session_id: str, wait: float) -> _StoredSession:
        stored = self._sessions.setdefault(session_id, _StoredSession())

        async def take() -> bool:
            free = not stored.is_held
            stored.is_held = True
            return free

        await keep_trying(take, session_id, wait)
        return stored

    async def delete_session(self, session_id: str, *, wait: float = 5.0) -> bool:
        """Remove a session for good; False where there is none. Raises `SessionBusy` when a holder does not let go in
        time."""
        if not await self.session_exists(session_id):
            return False
        stored = await self._hold(session_id, wait)
        # Emptied in place: others may be waiting for this very object.
        stored.messages, stored.journal, stored.token, stored.is_held, stored.changed = [], [], 0, False, None
        return True

    async def read_session(self, session_id: str) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal of a session as they are now, whoever holds it. Raises `StoreError`."""
        stored = self._sessions.get(session_id)
        if stored is None or not stored.token:
            raise unknown_session(session_id)
        return stored.read()

    async def session_exists(self, session_id: str) -> bool:
        """True when the session has been opened before."""
        return session_id in self._sessions and self._sessions[session_id].token > 0

    async def list_sessions(self) -> list[str]:
        """The ids of all sessions, sorted."""
        return sorted(name for name, stored in self._sessions.items() if stored.token)

    async def list_beginnings(self) -> list[SessionBeginning]:
        """The first lines of every session, and when it was last written."""
        from hooksdk.stores.summaries import FIRST_ENTRIES, FIRST_MESSAGES

        return [
            SessionBeginning(
                session_id=name,
                messages=[json.loads(line) for line in stored.messages[:FIRST_MESSAGES]],
                journal=[json.loads(line) for line in stored.journal[:FIRST_ENTRIES]],
                changed=stored.changed,
            )
            for name, stored in self._sessions.items()
            if stored.token
        ]

    async def get_value(self, space: str, key: str, default: Any = None) -> Any:
        """A stored value, a fresh copy."""
        line = self._values.get(space, {}).get(key)
        return default if line is None else json.loads(line)

    async def set_value(self, space: str, key: str, value: Any) -> None:
        """Store a JSON value."""
        self._values.setdefault(space, {})[key] = encode_for(f"storage '{space}'", value)

    async def change_value(self, space: str, key: str, old: Any, new: Any) -> bool:
        """Put `new` in the place of `old`, if that is what is stored now; None stands for no value."""
        place, values = f"storage '{space}'", self._values.setdefault(space, {})
        line = None if new is None else encode_for(place, new)
        if not is_same(place, json.loads(values.get(key, b"null")), old):
            return False
        values.pop(key, None)
        if line is not None:
            values[key] = line
        return True

    async def delete_value(self, space: str, key: str) -> None:
        """Remove a value; one that is not there is no error."""
        self._values.get(space, {}).pop(key, None)

    async def list_keys(self, space: str) -> list[str]:
        """The keys of a space, sorted."""
        return sorted(self._values.get(space, {}))

    async def aclose(self) -> None:
        """Let every session go. Stored messages and values stay."""
        for stored in self._sessions.values():
            stored.is_held = False
