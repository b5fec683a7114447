"""What gateways behind one address have in common, in the store: whose session is which, and whether it is over.

A token's session in the protocol without connections is one for all of them. Each gateway that serves it has a part of its own
open, with a journal and a lease, and plugins are told the id of the whole.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, final

import anyio

from hooksdk.approvals import digest_of
from hooksdk.errors import ConfigError
from hooksdk.host import Host
from hooksdk.stores import Store
from hooksdk.transcript import SharingStore

T = TypeVar("T")

SESSIONS = "hooksdk.gateway.sessions"
"""The space in the store. No plugin has it: none has an id that begins like this. A key stands for one token."""
RESULTS = "hooksdk.gateway.results"
"""The space of long results. A key is the session's id, and behind a slash what is kept for it."""
LEFT = "hooksdk.gateway.left"
"""The space of what gateways have closed with calls in doubt: a key is a session's id, a value when that was."""
MADE_AGAIN = "hooksdk.gateway.made-again"
"""The space of calls that were in doubt, and that one of the gateways has made again: a key is an effect id, a value when that
was."""
CALLS = "hooksdk.gateway.calls"
"""The space of calls whose questions are out with their clients; keys likewise."""
PRECISION = 20
"""So many times in `idle` a session's last use is written at most."""
LOOKED_AT = 8
"""How many sessions of others are looked at, as one begins, whether they are over."""
DAY = 24 * 3600.0
"""Seconds for which one is left alone, whatever `idle` the gateway that looks has."""
LONGEST = 30 * DAY
"""Seconds for which it is remembered what was left, and what was made again."""
PAUSE = 0.02
"""Seconds before a change begins anew where somebody else was quicker, at most."""


@final
class Deployment:
    """The gateways of one name that have one database."""

    def __init__(self, name: str, host: Host, idle: float, clock: Callable[[], float] = time.time) -> None:
        """`idle` is after how many seconds without a request a session is over; `clock` gives seconds since the epoch, and the
        machines' clocks agree to within a minute. Raises `ConfigError` for a store that is on one machine alone."""
        store = host.store
        if not isinstance(store, SharingStore):
            problem = f"gateways that share their sessions need a database, and the store is a {type(store).__name__}"
            raise ConfigError("gateway.deployment", (f'{problem}: store = "postgresql://USER@HOST/DATABASE"',))
        self.prefix = f"gateway-{digest_of(['deployment', name])[:12]}-"
        """What the ids of its sessions begin with."""
        self.store: Store = store
        self.lease = store.lease
        self._sharing: SharingStore = store
        self._host = host
        self._idle = idle
        self._clock = clock

    def sessions_of(self, client: str, requester: Mapping[str, Any]) -> str:
        """What the ids of all sessions begin with of the client that `client` stands for, and all that is known of it."""
        return f"{self.prefix}{digest_of([client, requester])[:16]}-"

    async def session_of(self, client: str, requester: Mapping[str, Any]) -> str:
        """The id of the session that the one that `client` stands for has at all gateways, which is in use now; a new one where it has
        none, or it was idle for too long."""
        key = self.sessions_of(client, requester)
        while True:
            stored: dict[str, Any] | None = await self.store.get_value(SESSIONS, key)
            now = self._clock()
            if stored is not None and now - stored["seen"] <= self._idle:
                if now - stored["seen"] < self._idle / PRECISION:
                    return stored["id"]
                session_id: str = stored["id"]
            else:
                session_id = f"{key}{uuid.uuid4().hex[:16]}"
            new = {"id": session_id, "seen": now}
            if await self.store.change_value(SESSIONS, key, stored, new):
                if stored is None or stored["id"] != session_id:
                    await self._sweep(stored)
                return session_id

    async def touch(self, session_id: str) -> None:
        """The session is in use still."""
        key = _key_of(session_id)
        stored = await self.store.get_value(SESSIONS, key)
        if stored is not None and stored["id"] == session_id:
            await self.store.change_value(SESSIONS, key, stored, {**stored, "seen": self._clock()})

    async def is_over(self, session_id: str) -> bool:
        """True for a session, or a gateway's part of one, that nobody has any more: of a connection or a part once its gateway has
        closed it or its lease has lapsed, of a token's once no gateway was asked for it long enough."""
        if "~" not in session_id:
            stored = await self.store.get_value(SESSIONS, _key_of(session_id))
            return stored is None or stored["id"] != session_id or self._clock() - stored["seen"] > self._idle
        return not (await self.list_held(session_id)).get(session_id, False)

    async def list_held(self, prefix: str) -> dict[str, bool]:
        """The stored sessions that somebody has open: True while that gateway lives, False where it has died."""
        return await self._sharing.list_held(prefix)

    async def _sweep(self, before: Any) -> None:
        """A session has begun: remove what was kept for the one before it, and for some of others' that are over."""
        if before is not None:
            await self._forget(before["id"])
        keys = [key for key in await self.store.list_keys(SESSIONS) if key.startswith(self.prefix)]
        for key in random.sample(keys, min(LOOKED_AT, len(keys))):
            stored: dict[str, Any] | None = await self.store.get_value(SESSIONS, key)
            if stored is None or self._clock() - stored["seen"] <= max(self._idle, DAY):
                continue
            if await self.store.change_value(SESSIONS, key, stored, None):
                await self._forget(stored["id"])
        for space in (LEFT, MADE_AGAIN):
            keys = await self.store.list_keys(space)
            for key in random.sample(keys, min(LOOKED_AT, len(keys))):
                if self._clock() - await self.store.get_value(space, key, self._clock()) > LONGEST:
                    await self.store.delete_value(space, key)

    async def _forget(self, session_id: str) -> None:
        await self._host.forget_shared(session_id)
        for space in (RESULTS, CALLS):
            for key in await self.store.list_keys(space):
                if key == session_id or key.startswith(f"{session_id}/"):
                    await self.store.delete_value(space, key)


def _key_of(session_id: str) -> str:
    """Under which a session is known whose id this is."""
    beginning, dash, _ = session_id.rpartition("-")
    return beginning + dash


async def change(store: Store, space: str, key: str, step: Callable[[Any], tuple[Any, T]]) -> T:
    """Put what `step` makes of a stored value (None: there is none) in its place; answers what it answers besides. It is called
    anew where somebody else was quicker."""
    while True:
        stored = await store.get_value(space, key)
        new, answer = step(stored)
        if await store.change_value(space, key, stored, new):
            return answer
        await anyio.sleep(random.uniform(0, PAUSE))  # noqa: S311 - so that two do not go on in step
