"""Calls in doubt of closed sessions: after a crash of the server a client has a new session, and an equal call is asked
about there, too."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import final

import anyio

from hooksdk.adapters._conversation import SomeHost
from hooksdk.calls import CallInDoubt
from hooksdk.errors import HookSDKError
from hooksdk.run import JudgedCall, Run

logger = logging.getLogger("hooksdk")


@final
class Doubts:
    """The calls in doubt of all clients of one server."""

    def __init__(self, host: SomeHost, beginning: str) -> None:
        """`beginning` is the prefix of the session ids of this server."""
        self._host = host
        # By effect id: the session in which the call began, and the call.
        self._calls: dict[str, tuple[str, CallInDoubt]] = {}
        # Prefixes of the session ids that are still to be read: at first all, then the sessions that somebody had open.
        self._unread = {beginning}
        self._lock = anyio.Lock()

    def calls(self) -> Sequence[CallInDoubt]:
        """All known calls in doubt."""
        return [call for _, call in self._calls.values()]

    def end(self, session_id: str, calls: Sequence[CallInDoubt]) -> None:
        """Add the calls in doubt of a session that ends."""
        self._calls.update((call.effect_id, (session_id, call)) for call in calls)

    def begin(self, session_id: str) -> None:
        """Drop the calls of a session that is opened again, since the session itself knows them."""
        self._calls = {effect: one for effect, one in self._calls.items() if one[0] != session_id}

    async def look(self) -> None:
        """Read the calls in doubt of earlier sessions. Sessions that somebody has open are read at a later call."""
        if not self._unread:
            return
        async with self._lock:
            for beginning in sorted(self._unread):
                sessions = await self._host.in_doubt(beginning)
                self._unread.remove(beginning)
                for session_id, calls in sessions.items():
                    if calls is None:
                        self._unread.add(session_id)
                    else:
                        self.end(session_id, calls)

    async def settle(self, judged: JudgedCall, run: Run) -> None:
        """Settle the call in doubt that this call has repeated, unless its outcome is in doubt again."""
        if judged.effect_id not in self._calls or judged.status not in {"ok", "error"}:
            return
        session_id, call = self._calls.pop(judged.effect_id)
        if any(one.effect_id == call.effect_id for one in run.in_doubt):
            return  # the session that has repeated it keeps the doubt
        try:
            async with self._host.session(session_id) as session:
                await session.settle(call.effect_id, "made again in another session")
        except HookSDKError as problem:
            logger.warning("call '%s' of session '%s' stays in doubt: %s", call.call_id, session_id, problem)
