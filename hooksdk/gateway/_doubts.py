"""Calls that began in sessions that are over, and of which nobody knows how they ended: a client whose gateway died gets another
session, and an equal call is asked about there, too."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import final

import anyio

from hooksdk.calls import CallInDoubt
from hooksdk.errors import HookSDKError, SessionBusy, StoreError
from hooksdk.gateway._deployment import LEFT, MADE_AGAIN
from hooksdk.gateway._places import Place
from hooksdk.host import Host
from hooksdk.run import JudgedCall
from hooksdk.session import Session
from hooksdk.stores import Store
from hooksdk.transcript import Ledger, ledger_of

logger = logging.getLogger("hooksdk")


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
            try:
                await self._host.store.set_value(LEFT, session_id, time.time())
            except HookSDKError as problem:  # its lease lapses then, as a rule, since it cannot be given back either
                logger.warning("others may not learn what session '%s' leaves in doubt: %s", session_id, problem)

    async def _take_from_dead(self, session_id: str) -> bool:
        """See to it that whoever had a session writes it no more, should they only have stalled; False where they go on, or another
        gateway does this at the same moment."""
        try:
            log = await self._host.store.open_session(session_id, wait=0)
        except SessionBusy:
            return False
        try:  # it has no lease soon by which others find it
            await self._host.store.set_value(LEFT, session_id, time.time())
        finally:
            await log.close()
        return True

    async def forget(self, session_id: str) -> None:
        """A gateway's part of a session is closed, and nothing in it is in doubt: it holds nothing else."""
        try:
            await self._host.store.delete_session(session_id, wait=0.5)
            await self._host.store.delete_value(LEFT, session_id)
        except HookSDKError as problem:
            logger.info("session '%s' stays, since it cannot be deleted: %s", session_id, problem)

    def _add(self, session_id: str, calls: Sequence[CallInDoubt]) -> None:
        self._calls.update((call.effect_id, (session_id, call)) for call in calls)

    async def look(self, held: Mapping[str, bool] | None = None) -> bool:
        """Look before the first call what the sessions of earlier gateways at this place have left. In a deployment `held` are its
        sessions that somebody has at this moment, and before each call that may take effect it is looked what gateways have left
        meanwhile, and what they have made again; False where another gateway is about to find out, so that one has to look anew."""
        store, is_settled = self._host.store, True
        async with self._lock:
            if held is None and self._is_known:
                return True
            held = held or {}
            if not self._is_known:
                ended = [one for one in await store.list_sessions() if not held.get(one, False)]
                ended = [one for one in ended if await self._place.is_over(one)]
            else:
                ended = [one for one, is_alive in held.items() if not is_alive] + await store.list_keys(LEFT)
            for session_id in ended:
                if session_id in self._read:
                    continue
                if held.get(session_id) is False and not await self._take_from_dead(session_id):
                    is_settled = False
                    continue
                self._read.add(session_id)
                if (ledger := await read_ledger(store, session_id)) is None:
                    continue
                self._add(session_id, calls := ledger.effects.described())
                if self._place.deployment is not None and not calls:
                    await self.forget(session_id)
            self._is_known = self._is_known or is_settled
            if self._place.deployment is not None and self._calls:
                for effect_id in await store.list_keys(MADE_AGAIN):
                    self._calls.pop(effect_id, None)
        return is_settled

    async def made_again(
        self, judged: JudgedCall, session: Session | None, elsewhere: Sequence[CallInDoubt] = ()
    ) -> None:
        """A call of `session` has its result. Where it was one of these, or of those `elsewhere`, it is in doubt no more, unless
        it is so again."""
        if judged.status not in {"ok", "error"}:
            return
        session_id, _ = self._calls.pop(judged.effect_id, (None, None))
        if session_id is None and all(one.effect_id != judged.effect_id for one in elsewhere):
            return
        if session is not None and any(one.effect_id == judged.effect_id for one in session.in_doubt):
            return  # the session that made it again tells of it
        try:
            if self._place.deployment is not None:
                await self._host.store.set_value(MADE_AGAIN, judged.effect_id, time.time())
            if session_id is None:
                return
            async with self._host.session(session_id) as left:
                await left.settle(judged.effect_id, "made again in another session")
                rest = left.in_doubt
            if self._place.deployment is not None and not rest:
                await self.forget(session_id)
        except HookSDKError as problem:
            logger.warning("call '%s' stays in doubt: %s", judged.effect_id, problem)


async def read_ledger(store: Store, session_id: str) -> Ledger | None:
    """What a session has begun and ended, whoever has it open; None where it is gone, and, with a warning, where that cannot be
    read."""
    try:
        return await ledger_of(store, session_id)
    except (HookSDKError, AttributeError, KeyError, TypeError, ValueError, IndexError) as problem:
        if isinstance(problem, StoreError) and not await store.session_exists(session_id):
            return None  # it ended just now
        logger.warning("what session '%s' was doing cannot be read: %s", session_id, problem)
        return None
