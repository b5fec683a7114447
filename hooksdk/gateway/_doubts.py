"""Calls that began in sessions that are over, and of which nobody knows how they ended: a client whose gateway died gets another
session, and an equal call is asked about there, too."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import final

import anyio

from hooksdk.calls import CallInDoubt
from hooksdk.errors import HookSDKError
from hooksdk.formats import get_format
from hooksdk.gateway._places import Place
from hooksdk.host import Host
from hooksdk.run import JudgedCall, Run
from hooksdk.transcript import Ledger

logger = logging.getLogger("hooksdk")


@final
class Doubts:
    """Those of one place: of any of its clients, since what one has done another need not do again."""

    def __init__(self, host: Host, place: Place) -> None:
        self._host = host
        self._place = place
        self._calls: dict[str, tuple[str, CallInDoubt]] = {}
        """By effect id, each with the session that it began in."""
        self._is_known = False
        self._lock = anyio.Lock()

    def calls(self) -> Sequence[CallInDoubt]:
        """All that are known."""
        return [call for _, call in self._calls.values()]

    def add(self, session_id: str, calls: Sequence[CallInDoubt]) -> None:
        """A session ends with these."""
        self._calls.update((call.effect_id, (session_id, call)) for call in calls)

    async def look(self) -> None:
        """Look once, before the first call, what the sessions of earlier gateways at this place have left."""
        async with self._lock:
            if self._is_known:
                return
            store = self._host.store
            for session_id in await store.list_sessions():
                if self._place.is_over(session_id):
                    try:
                        messages, journal = await store.read_session(session_id)
                        ledger = Ledger.replay(messages, journal, get_format("openai-chat"))
                    except (HookSDKError, KeyError, TypeError, ValueError) as problem:
                        logger.warning("what session '%s' was doing cannot be read: %s", session_id, problem)
                        continue
                    self.add(session_id, ledger.effects.described())
            self._is_known = True

    async def made_again(self, judged: JudgedCall, run: Run | None) -> None:
        """A call has its result. Where it was one of these, it is in doubt no more, unless it is so again."""
        if not self._calls or judged.effect_id not in self._calls or judged.status not in {"ok", "error"}:
            return
        session_id, call = self._calls.pop(judged.effect_id)
        if run is not None and any(one.effect_id == call.effect_id for one in run.in_doubt):
            return  # the session that made it again tells of it
        try:
            async with self._host.session(session_id) as session:
                await session.settle(call.effect_id, "made again in another session")
        except HookSDKError as problem:
            logger.warning("call '%s' of session '%s' stays in doubt: %s", call.call_id, session_id, problem)
