"""Calls in doubt of sessions that are over: a client whose server died has another session, and an equal call is asked about there,
too."""

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
    """Those of all clients of a server: what one has done another need not do again."""

    def __init__(self, host: SomeHost, beginning: str) -> None:
        """`beginning` is how the ids of earlier sessions begin."""
        self._host = host
        # By effect id, each with the session that it began in.
        self._calls: dict[str, tuple[str, CallInDoubt]] = {}
        # How the ids begin of sessions that are to be looked at: all at first, then those that somebody had open.
        self._unread = {beginning}
        self._lock = anyio.Lock()

    def calls(self) -> Sequence[CallInDoubt]:
        """All that are known."""
        return [call for _, call in self._calls.values()]

    def end(self, session_id: str, calls: Sequence[CallInDoubt]) -> None:
        """A session ends with these."""
        self._calls.update((call.effect_id, (session_id, call)) for call in calls)

    def begin(self, session_id: str) -> None:
        """A session goes on: it knows its own."""
        self._calls = {effect: one for effect, one in self._calls.items() if one[0] != session_id}

    async def look(self) -> None:
        """Look before a call what earlier sessions have left, until those that others had open are over."""
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

    async def made_again(self, judged: JudgedCall, run: Run) -> None:
        """A call has its result. Where it was one of these, it is in doubt no more, unless it is so again."""
        if judged.effect_id not in self._calls or judged.status not in {"ok", "error"}:
            return
        session_id, call = self._calls.pop(judged.effect_id)
        if any(one.effect_id == call.effect_id for one in run.in_doubt):
            return  # the session that made it again tells of it
        try:
            async with self._host.session(session_id) as session:
                await session.settle(call.effect_id, "made again in another session")
        except HookSDKError as problem:
            logger.warning("call '%s' of session '%s' stays in doubt: %s", call.call_id, session_id, problem)
