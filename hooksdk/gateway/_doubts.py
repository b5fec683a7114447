"""Calls that began in sessions that are over, and of which nobody knows how they ended: a client whose gateway died gets another
session, and an equal call is asked about there, too."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import final

import anyio

from hooksdk.calls import CallInDoubt
from hooksdk.errors import HookSDKError, SessionBusy
from hooksdk.formats import get_format
from hooksdk.gateway._places import Place
from hooksdk.host import Host
from hooksdk.run import JudgedCall
from hooksdk.session import Session
from hooksdk.stores import Store
from hooksdk.transcript import Ledger

logger = logging.getLogger("hooksdk")

LEFT = "hooksdk.gateway.left"
"""The space of what gateways of a deployment have closed with calls in doubt. A key is a session's id."""
MADE_AGAIN = "hooksdk.gateway.made-again"
"""The space of calls that were in doubt, and that one of the gateways has made again. A key is an effect id."""


@final
class Doubts:
    """Those of one place: of any of its clients, since what one has done another need not do again."""

    def __init__(self, host: Host, place: Place) -> None:
        self._host = host
        self._place = place
        self._calls: dict[str, tuple[str, CallInDoubt]] = {}
        """By effect id, each with the session that it began in."""
        self._read: set[str] = set()
        """The sessions that were looked at."""
        self._is_known = False
        self._lock = anyio.Lock()

    def calls(self) -> Sequence[CallInDoubt]:
        """All that are known."""
        return [call for _, call in self._calls.values()]

    async def end(self, session_id: str, calls: Sequence[CallInDoubt]) -> None:
        """A session ends with these."""
        self._add(session_id, calls)
        self._read.add(session_id)
        if calls and self._place.deployment is not None:
            await self._host.store.set_value(LEFT, session_id, time.time())

    def _add(self, session_id: str, calls: Sequence[CallInDoubt]) -> None:
        self._calls.update((call.effect_id, (session_id, call)) for call in calls)

    async def look(self) -> None:
        """Look before the first call what the sessions of earlier gateways at this place have left; in a deployment before each
        one that may take effect, what gateways have left meanwhile, and what they have made again."""
        deployment, store = self._place.deployment, self._host.store
        async with self._lock:
            if not self._is_known:
                ended = await store.list_sessions()
            elif deployment is None:
                return
            else:
                held = await deployment.list_held(self._place.prefix)
                ended = [session_id for session_id, is_alive in held.items() if not is_alive]
                ended += await store.list_keys(LEFT)
            for session_id in ended:
                if session_id not in self._read and await self._place.is_over(session_id):
                    self._read.add(session_id)
                    if (ledger := await read_ledger(store, session_id)) is not None:
                        self._add(session_id, ledger.effects.described())
            self._is_known = True
            if deployment is not None and self._calls:
                for effect_id in await store.list_keys(MADE_AGAIN):
                    self._calls.pop(effect_id, None)

    async def made_again(
        self, judged: JudgedCall, session: Session | None, elsewhere: Sequence[CallInDoubt] = ()
    ) -> None:
        """A call of `session` has its result. Where it was one of these, or of those `elsewhere`, it is in doubt no more, unless
        it is so again."""
        if judged.status not in {"ok", "error"}:
            return
        session_id, call = self._calls.pop(judged.effect_id, (None, None))
        if call is None and all(one.effect_id != judged.effect_id for one in elsewhere):
            return
        if session is not None and any(one.effect_id == judged.effect_id for one in session.in_doubt):
            return  # the session that made it again tells of it
        if self._place.deployment is not None:
            await self._host.store.set_value(MADE_AGAIN, judged.effect_id, time.time())
        if session_id is None or call is None:
            return
        try:
            async with self._host.session(session_id) as left:
                await left.settle(call.effect_id, "made again in another session")
        except SessionBusy:
            logger.info(
                "session '%s' is open elsewhere, and learns there that '%s' was made again", session_id, call.name
            )
        except HookSDKError as problem:
            logger.warning("call '%s' of session '%s' stays in doubt: %s", call.call_id, session_id, problem)


async def read_ledger(store: Store, session_id: str) -> Ledger | None:
    """What a session has begun and ended, whoever has it open; None, and a warning, where that cannot be read."""
    try:
        messages, journal = await store.read_session(session_id)
        return Ledger.replay(messages, journal, get_format("openai-chat"))
    except (HookSDKError, KeyError, TypeError, ValueError) as problem:
        logger.warning("what session '%s' was doing cannot be read: %s", session_id, problem)
        return None
