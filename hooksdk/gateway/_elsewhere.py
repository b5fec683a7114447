"""Calls of a client that other gateways of the deployment have begun, and of whose end this one does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import anyio

from hooksdk.approvals import digest_of
from hooksdk.calls import CallInDoubt
from hooksdk.gateway._deployment import MADE_AGAIN, Deployment
from hooksdk.gateway._doubts import read_ledger
from hooksdk.gateway._places import Place
from hooksdk.session import Session
from hooksdk.tools import Tool


@final
class Elsewhere:
    """Those of one client, for one of its sessions."""

    def __init__(self, deployment: Deployment, prefix: str, own: str) -> None:
        """`prefix` is what the ids of all the client's sessions begin with, `own` that of the session here, or of this gateway's
        part of it."""
        self._deployment = deployment
        self._prefix = prefix
        self._own = own
        self._calls: Sequence[CallInDoubt] = ()
        self._lock = anyio.Lock()

    def calls(self) -> Sequence[CallInDoubt]:
        """Those that count as in doubt: the others' that were cut off, and such that a gateway had begun when it was looked at."""
        return self._calls

    async def look(self, held: Mapping[str, bool], tool: Tool, arguments: object) -> bool:
        """Look before a call at what the sessions have begun that somebody has at this moment. False where an equal one runs: it is
        worth waiting for, until it ends, or its gateway turns out to be dead. Where nobody waits longer it is asked about."""
        digest = digest_of(arguments)
        async with self._lock:
            running, cut_off = await self._read(held)
            self._calls = [*cut_off, *running]
        return all((one.tool, one.digest) != (tool.id, digest) for one in running)

    async def settle(self, session: Session) -> None:
        """End the doubt about calls of this gateway's own part that another one has made again."""
        if in_doubt := session.in_doubt:
            made_again = await self._deployment.store.list_keys(MADE_AGAIN)
            for call in in_doubt:
                if call.effect_id in made_again:
                    await session.settle(call.effect_id, "made again at another gateway")

    def _is_same(self, session_id: str) -> bool:
        """True for another part of the same session in this process, which goes by a former configuration."""
        return session_id != self._own and session_id.rpartition("~")[0] == self._own.rpartition("~")[0]

    async def _read(self, held: Mapping[str, bool]) -> tuple[list[CallInDoubt], list[CallInDoubt]]:
        """The calls that run at other gateways, and those that were cut off there."""
        running: list[CallInDoubt] = []
        cut_off: list[CallInDoubt] = []
        for session_id, is_alive in held.items():
            if (
                not is_alive
                or not session_id.startswith(self._prefix)
                or (Place.is_here(session_id) and not self._is_same(session_id))
            ):
                continue
            if (ledger := await read_ledger(self._deployment.store, session_id)) is not None:
                for one in ledger.effects.without_end():
                    (cut_off if one.in_doubt else running).append(one.described())
        if cut_off:
            made_again = await self._deployment.store.list_keys(MADE_AGAIN)
            cut_off = [one for one in cut_off if one.effect_id not in made_again]
        return running, cut_off
