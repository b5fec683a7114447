"""Ids of clients' sessions: they say where a session lives, and so whether it is over. The next session of that place
may then take the answers that people have given to its questions.

Gateways of one deployment share a database. A token has one session at all of them in the protocol without
connections: each gateway that serves it stores a part of its own, with a journal and a lease, and plugins are told
the id of the whole.
"""

from __future__ import annotations

import os
import platform
import random
import time
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, final

import anyio

from hooksdk.approvals import digest_of
from hooksdk.errors import ConfigError
from hooksdk.gateway.status import gateway_folder, running_gateways
from hooksdk.host import Host
from hooksdk.stores import Store
from hooksdk.stores.locks import is_held, lock
from hooksdk.transcript import SharingStore

T = TypeVar("T")

# The space in the store. No plugin has it: none has an id that begins like this. A key stands for one token.
SESSIONS = "hooksdk.gateway.sessions"
# The space of long results. A key is the session's id, and behind a slash the handle of a result.
RESULTS = "hooksdk.gateway.results"
# The space of sessions that were closed with calls in doubt: a key is a session's id, a value when it was closed.
LEFT = "hooksdk.gateway.left"
# The space of calls in doubt that a gateway has made again: a key is an effect id, a value when that was.
MADE_AGAIN = "hooksdk.gateway.made-again"
# The space of calls whose questions are out with their clients: a key is the session's id, a slash and the call's
# state.
CALLS = "hooksdk.gateway.calls"
# The last use of a session is written at most this many times in `idle` seconds.
PRECISION = 20
# Other clients' sessions that are checked for being over when one begins.
LOOKED_AT = 8
# Seconds for which an unused session is left alone, however short `idle` is at the gateway that looks.
DAY = 24 * 3600.0
# Seconds for which a session that was left, and a call that was made again, is remembered.
LONGEST = 30 * DAY
# Seconds, at most, before a change of a stored value is tried again because another gateway was quicker.
CHANGE_PAUSE = 0.02

# The ids of this process's sessions that are not over.
_open: set[str] = set()


@final
class Deployment:
    """The gateways of one name that share one database.

    Attributes:
        prefix: The beginning of all its sessions' ids.
    """

    def __init__(self, name: str, host: Host, idle: float, clock: Callable[[], float] = time.time) -> None:
        """A session is over after `idle` seconds without a request. `clock` gives seconds since the epoch; the
        machines' clocks agree to within a minute. Raises `ConfigError` for a store that only one machine can
        reach."""
        store = host.store
        if not isinstance(store, SharingStore):
            problem = f"gateways that share their sessions need a database, and the store is a {type(store).__name__}"
            raise ConfigError("gateway.deployment", (f'{problem}: store = "postgresql://USER@HOST/DATABASE"',))
        self.prefix = f"gateway-{digest_of(['deployment', name])[:12]}-"
        self.store: Store = store
        self.lease = store.lease
        self._sharing: SharingStore = store
        self._host = host
        self._idle = idle
        self._clock = clock

    def prefix_of(self, client: str, requester: Mapping[str, Any]) -> str:
        """The beginning of the ids of one client's sessions. The client's key and what policies are told of it decide
        it."""
        return f"{self.prefix}{digest_of([client, requester])[:16]}-"

    async def shared_session(self, client: str, requester: Mapping[str, Any]) -> str:
        """The id of the session that a client has at all gateways: the one that is in use, or a new one once that was
        idle."""
        key = self.prefix_of(client, requester)
        while True:
            stored: dict[str, Any] | None = await self.store.get_value(SESSIONS, key)
            now = self._clock()
            session_id = f"{key}{uuid.uuid4().hex[:16]}"
            is_in_use = stored is not None and now - stored["seen"] <= self._idle
            if stored is not None and is_in_use:
                session_id = stored["id"]
                if now - stored["seen"] < self._idle / PRECISION:
                    return session_id
            if await self.store.change_value(SESSIONS, key, stored, {"id": session_id, "seen": now}):
                if not is_in_use:
                    await self._remove_old_values(stored)
                return session_id

    async def touch(self, session_id: str) -> None:
        """Note that the session is still in use."""
        key = _client_prefix(session_id)
        stored = await self.store.get_value(SESSIONS, key)
        if stored is not None and stored["id"] == session_id:
            await self.store.change_value(SESSIONS, key, stored, {**stored, "seen": self._clock()})

    async def is_over(self, session_id: str) -> bool:
        """True for a session that nobody has any more. A token's session is over once no gateway was asked for it for
        `idle` seconds; a connection's session, and a gateway's part of a session, once it was closed or its lease has
        lapsed."""
        if "~" not in session_id:
            stored = await self.store.get_value(SESSIONS, _client_prefix(session_id))
            return stored is None or stored["id"] != session_id or self._clock() - stored["seen"] > self._idle
        return not (await self.list_held(session_id)).get(session_id, False)

    async def list_held(self, prefix: str) -> dict[str, bool]:
        """The stored sessions that a gateway has open: True while that gateway lives, False once it has died."""
        return await self._sharing.list_held(prefix)

    async def _remove_old_values(self, before: Any) -> None:
        """Remove the values of the client's previous session, and those of a few other sessions that are over."""
        if before is not None:
            await self._remove_values(before["id"])
        for key in await self._some_keys(SESSIONS, self.prefix):
            stored: dict[str, Any] | None = await self.store.get_value(SESSIONS, key)
            if stored is None or self._clock() - stored["seen"] <= max(self._idle, DAY):
                continue
            if await self.store.change_value(SESSIONS, key, stored, None):
                await self._remove_values(stored["id"])
        for space in (LEFT, MADE_AGAIN):
            for key in await self._some_keys(space):
                if self._clock() - await self.store.get_value(space, key, self._clock()) > LONGEST:
                    await self.store.delete_value(space, key)

    async def _some_keys(self, space: str, prefix: str = "") -> list[str]:
        keys = [key for key in await self.store.list_keys(space) if key.startswith(prefix)]
        return random.sample(keys, min(LOOKED_AT, len(keys)))

    async def _remove_values(self, session_id: str) -> None:
        await self._host.forget_shared(session_id)
        for space in (RESULTS, CALLS):
            for key in await self.store.list_keys(space):
                if key == session_id or key.startswith(f"{session_id}/"):
                    await self.store.delete_value(space, key)


async def change(store: Store, space: str, key: str, step: Callable[[Any], tuple[Any, T]]) -> T:
    """Replace a stored value by what `step` makes of it; None stands for no value. `step` gives the new value and an
    answer, which is returned; it is called again where another gateway has changed the value meanwhile."""
    while True:
        stored = await store.get_value(space, key)
        new, answer = step(stored)
        if await store.change_value(space, key, stored, new):
            return answer
        await anyio.sleep(random.uniform(0, CHANGE_PAUSE))  # noqa: S311 - so that two do not go on in step


@final
class SessionIds:
    """The ids of sessions at one place: gateways of a project on one machine that serve the same files, or one
    deployment.

    Attributes:
        prefix: The beginning of all session ids of the place.
    """

    def __init__(self, *parts: str, deployment: Deployment | None = None) -> None:
        """`parts` name the place on this machine, the same after a restart; a deployment is one place on all
        machines."""
        self.deployment = deployment
        self.prefix = deployment.prefix if deployment else f"gateway-{digest_of([platform.node(), *parts])[:12]}-"

    def new(self, client: str, requester: Mapping[str, Any], shared_id: str | None = None) -> str:
        """The id under which a session of this process is stored, until `release`. With `shared_id` it is this
        gateway's part of a session that the deployment's gateways share."""
        beginning = self.prefix
        if self.deployment is not None:
            beginning = f"{shared_id or self.deployment.prefix_of(client, requester)}~"
        session_id = f"{beginning}{_this_process(os.getpid())}-{uuid.uuid4().hex}"
        _open.add(session_id)
        return session_id

    @staticmethod
    def is_own(session_id: str) -> bool:
        """True for a session that this process has, or has had."""
        return session_id.rpartition("~")[2].partition("-")[0] == _this_process(os.getpid())

    async def is_over(self, session_id: str) -> bool:
        """True for a session of this place that nobody has any more, also where its process was killed."""
        if not session_id.startswith(self.prefix) or session_id in _open:
            return False
        if self.deployment is not None:
            return self.is_own(session_id) or await self.deployment.is_over(session_id)
        process = session_id.removeprefix(self.prefix).partition("-")[0]
        return process == _this_process(os.getpid()) or _has_ended(process)


def release(session_id: str) -> None:
    """Let others take over what a session of this process has asked: it is over."""
    _open.discard(session_id)


def _client_prefix(session_id: str) -> str:
    """The key of a shared session: the beginning of its client's ids."""
    beginning, dash, _ = session_id.rpartition("-")
    return beginning + dash


@lru_cache
def _this_process(_pid: int) -> str:
    """A name that no other process has. A lock of that name, which the system releases with the process, says that it
    runs; where the lock cannot be taken, the name says that this is unknown."""
    name = uuid.uuid4().hex[:16]
    try:
        path = _lock_of(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        running_gateways()  # removes the files of gateways that have ended
        lock(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return f"unknown{name}"
    return name


def _has_ended(process: str) -> bool:
    try:
        return process.isalnum() and not process.startswith("unknown") and not is_held(_lock_of(process))
    except FileNotFoundError:  # it was removed with other files of gateways that have ended
        return True
    except OSError:
        return False


def _lock_of(process: str) -> Path:
    return gateway_folder() / "running" / f"{process}.lock"
