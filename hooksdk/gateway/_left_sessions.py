"""Calls in doubt that sessions have left: they began, and nobody knows how they ended. A client whose gateway died
gets another session, and an equal call is asked about there, too."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import anyio

from hooksdk.approvals import digest_of
from hooksdk.calls import CallInDoubt
from hooksdk.errors import HookSDKError, SessionBusy, StoreError
from hooksdk.gateway._session_ids import LEFT, MADE_AGAIN, Deployment, SessionIds
from hooksdk.host import Host
from hooksdk.run import JudgedCall
from hooksdk.session import Session
from hooksdk.stores import Store, list_summaries
from hooksdk.tools import Tool
from hooksdk.transcript import Ledger, ledger_of

logger = logging.getLogger("hooksdk")

# Seconds between two looks while an equal call runs at another gateway.
LOOK_AGAIN = 0.1
# Seconds beyond a lease for which such a call is waited for: by then it is known whether its gateway lives.
MARGIN = 5.0


@final
@dataclass(eq=False)
class LeftCalls:
    """The calls in doubt of a place's sessions that are over: those of any client, since what one has done another
    need not do again."""

    _host: Host
    _ids: SessionIds
    # The calls by effect id, each with the session that it began in.
    _calls: dict[str, tuple[str, CallInDoubt]] = field(default_factory=dict[str, tuple[str, CallInDoubt]])
    # The sessions whose ledgers were read.
    _read: set[str] = field(default_factory=set[str])
    # True once all sessions that were over at the start were read.
    _is_complete: bool = False
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    def known(self) -> Sequence[CallInDoubt]:
        """The calls that were found so far."""
        return [call for _, call in self._calls.values()]

    async def add(self, session_id: str, calls: Sequence[CallInDoubt]) -> None:
        """Take in the calls with which a session of this process ends."""
        self._calls.update((call.effect_id, (session_id, call)) for call in calls)
        self._read.add(session_id)
        if calls and self._ids.deployment is not None:
            try:
                await self._host.store.set_value(LEFT, session_id, time.time())
            except HookSDKError as problem:  # its lease lapses then, as a rule, since it cannot be given back either
                logger.warning("others may not learn what session '%s' leaves in doubt: %s", session_id, problem)

    async def find(self, held: Mapping[str, bool] | None = None) -> bool:
        """Find what sessions have left. Without a deployment that is done before the first call alone.

        In a deployment it is done before each call that may take effect, and `held` are the sessions that a gateway
        has open at this moment. False where another gateway is just taking over a session of a dead one, so that the
        caller has to look again."""
        store, is_settled, deployment = self._host.store, True, self._ids.deployment
        async with self._lock:
            if held is None and self._is_complete:
                return True
            held = held or {}
            for session_id in await self._ended(held):
                if session_id in self._read:
                    continue
                if held.get(session_id) is False and not await self._take_over(session_id):
                    is_settled = False
                    continue
                self._read.add(session_id)
                if (ledger := await _read_ledger(store, session_id)) is None:
                    continue
                calls = ledger.effects.described()
                self._calls.update((call.effect_id, (session_id, call)) for call in calls)
                if deployment is not None and not calls:
                    await self._delete(session_id)
            self._is_complete = self._is_complete or is_settled
            if deployment is not None and self._calls:
                for effect_id in await store.list_keys(MADE_AGAIN):
                    self._calls.pop(effect_id, None)
        return is_settled

    async def _ended(self, held: Mapping[str, bool]) -> list[str]:
        store = self._host.store
        if self._is_complete:
            return [one for one, is_alive in held.items() if not is_alive] + await store.list_keys(LEFT)
        ended = [one for one in await store.list_sessions() if not held.get(one, False)]
        return [one for one in ended if await self._ids.is_over(one)]

    async def _take_over(self, session_id: str) -> bool:
        """Keep a gateway that has lost a session from writing it, should it only have stalled; False where it goes
        on, or another gateway takes the session over at this moment."""
        try:
            log = await self._host.store.open_session(session_id, wait=0)
        except SessionBusy:
            return False
        try:  # others cannot find it by its lease any more
            await self._host.store.set_value(LEFT, session_id, time.time())
        finally:
            await log.close()
        return True

    async def settle(self, judged: JudgedCall, session: Session, running: Sequence[CallInDoubt]) -> None:
        """End the doubt about a call that `session` has made again and that has a result now. `running` are such
        calls of sessions that are open at other gateways."""
        if judged.status not in {"ok", "error"}:
            return
        effect_id, store = judged.effect_id, self._host.store
        session_id, _ = self._calls.pop(effect_id, (None, None))
        if session_id is None and all(one.effect_id != effect_id for one in running):
            return
        if any(one.effect_id == effect_id for one in session.in_doubt):
            return  # the session that made it again tells of it
        try:
            if self._ids.deployment is not None:
                await store.set_value(MADE_AGAIN, effect_id, time.time())
            if session_id is None:
                return
            async with self._host.session(session_id) as left:
                await left.settle(effect_id, "made again in another session")
                rest = left.in_doubt
            if self._ids.deployment is not None and not rest:
                await self._delete(session_id)
        except HookSDKError as problem:
            logger.warning("call '%s' stays in doubt: %s", effect_id, problem)

    async def _delete(self, session_id: str) -> None:
        """Delete a gateway's closed part of a session: without a call in doubt nothing in it is needed."""
        try:
            await self._host.store.delete_session(session_id, wait=0.5)
            await self._host.store.delete_value(LEFT, session_id)
        except HookSDKError as problem:
            logger.info("session '%s' stays, since it cannot be deleted: %s", session_id, problem)

    async def remove_old(self, seconds: float) -> None:
        """Remove the place's sessions that are over and in which nothing has happened for so long: approvals that
        waited there have expired. One with a call in doubt stays until somebody has settled the call."""
        store = self._host.store
        try:
            over = [one for one in await store.list_sessions() if await self._ids.is_over(one)]
            if not over:
                return  # the usual case: the ids alone are cheap to read
            oldest = time.time() - seconds
            summaries = await list_summaries(store)
            old = [one.session_id for one in summaries if one.session_id in over and (one.changed or oldest) < oldest]
            for session_id in old:
                if not (await ledger_of(store, session_id)).effects.described():
                    await remove(store, session_id)
        except Exception as problem:  # no request depends on it
            logger.warning("old sessions of the gateway could not be removed: %s", problem)


@final
@dataclass(eq=False)
class OtherSessionsCalls:
    """The calls that count as in doubt for one session, though they began in others."""

    _left: LeftCalls
    _session: Session
    # The id under which the session is stored here.
    _stored_id: str
    _ids: SessionIds
    # The beginning of the ids of its client's sessions in the deployment.
    _client_prefix: str
    # Calls of the client's sessions at other gateways: those that run, and those that were cut off.
    _running: Sequence[CallInDoubt] = field(default=(), init=False)
    _lock: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    @property
    def in_doubt(self) -> Sequence[CallInDoubt]:
        """The calls that were found so far."""
        return [*self._left.known(), *self._running]

    async def find(self, tool: Tool | None, arguments: object) -> None:
        """Learn before a call what happened in other sessions that it depends on. In a deployment a call that may
        take effect waits for an equal one that runs at another gateway: until it ends, or its gateway turns out to be
        dead."""
        deployment = self._ids.deployment
        if deployment is None:
            await self._left.find()
            return
        await self._session.refresh()
        if tool is not None and tool.annotations.read_only is True:
            return
        await self._settle_own(deployment)
        until = anyio.current_time() + deployment.lease + MARGIN
        while True:
            # One look at who has which session serves both: a dead session is found in doubt, wherever it goes
            # meanwhile.
            held = await deployment.list_held(self._ids.prefix)
            is_free = tool is None or await self._is_free(deployment, held, tool, arguments)
            is_settled = await self._left.find(held)
            if (is_free and is_settled) or anyio.current_time() > until:
                return
            await anyio.sleep(LOOK_AGAIN)

    async def settle(self, judged: JudgedCall) -> None:
        """End the doubt about a call that this session has made again and that has a result now."""
        await self._left.settle(judged, self._session, self._running)

    async def _settle_own(self, deployment: Deployment) -> None:
        """End the doubt about calls of this session that another gateway has made again."""
        if in_doubt := self._session.in_doubt:
            made_again = await deployment.store.list_keys(MADE_AGAIN)
            for call in in_doubt:
                if call.effect_id in made_again:
                    await self._session.settle(call.effect_id, "made again at another gateway")

    async def _is_free(self, deployment: Deployment, held: Mapping[str, bool], tool: Tool, arguments: object) -> bool:
        """Read what the client's other sessions have begun; False where an equal call runs there."""
        digest = digest_of(arguments)
        running: list[CallInDoubt] = []
        cut_off: list[CallInDoubt] = []
        async with self._lock:
            for session_id in [one for one, is_alive in held.items() if is_alive and self._is_other(one)]:
                if (ledger := await _read_ledger(deployment.store, session_id)) is not None:
                    for one in ledger.effects.without_end():
                        (cut_off if one.in_doubt else running).append(one.described())
            if cut_off:
                made_again = await deployment.store.list_keys(MADE_AGAIN)
                cut_off = [one for one in cut_off if one.effect_id not in made_again]
            self._running = [*cut_off, *running]
        return all((one.tool, one.digest) != (tool.id, digest) for one in running)

    def _is_other(self, session_id: str) -> bool:
        """True for a session of this client elsewhere, and for a part of this very session that goes by a former
        configuration."""
        if not session_id.startswith(self._client_prefix):
            return False
        whole, own_whole = session_id.rpartition("~")[0], self._stored_id.rpartition("~")[0]
        return not self._ids.is_own(session_id) or (session_id != self._stored_id and whole == own_whole)


async def remove(store: Store, session_id: str) -> None:
    """Remove a session in which nothing is left. One that cannot be removed now is removed when a gateway starts."""
    try:
        await store.delete_session(session_id, wait=0)
    except SessionBusy:
        return
    except HookSDKError as problem:
        logger.warning("session '%s' is over and could not be removed: %s", session_id, problem)


async def _read_ledger(store: Store, session_id: str) -> Ledger | None:
    """The calls that a session has begun and ended, whoever has it open; None where it is gone, or with a warning
    where that cannot be read."""
    try:
        return await ledger_of(store, session_id)
    except (HookSDKError, AttributeError, KeyError, TypeError, ValueError, IndexError) as problem:
        if isinstance(problem, StoreError) and not await store.session_exists(session_id):
            return None  # it ended just now
        logger.warning("what session '%s' was doing cannot be read: %s", session_id, problem)
        return None
