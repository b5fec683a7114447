"""Ids of sessions that say where a session lives: what people answered to one that is over, the next one at its place may take."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, final

from hooksdk.approvals import digest_of
from hooksdk.gateway._deployment import Deployment
from hooksdk.gateway.status import gateway_folder, running_gateways
from hooksdk.stores.locks import is_held, lock

_open: set[str] = set()
"""Ids of this process's sessions that are not over."""


@final
class Place:
    """Where a gateway stands: the same after a restart, in front of the same files of servers; for gateways of one deployment it
    is the deployment, whichever machine they are on."""

    def __init__(self, *parts: str, deployment: Deployment | None = None) -> None:
        self.deployment = deployment
        self.prefix = deployment.prefix if deployment else f"gateway-{digest_of([platform.node(), *parts])[:12]}-"
        """What the ids of its sessions begin with."""

    async def shared_session(self, client: str, requester: Mapping[str, Any]) -> str | None:
        """The id of the session that the one that `client` stands for has at all gateways of the deployment; None where there is none."""
        return await self.deployment.session_of(client, requester) if self.deployment else None

    def enter(self, client: str, requester: Mapping[str, Any], shared_as: str | None = None) -> str:
        """The id of a new session here of the one that `client` stands for, or of this process's part of one that others have, too."""
        beginning = self.prefix
        if self.deployment is not None:
            beginning = f"{shared_as or self.deployment.sessions_of(client, requester)}~"
        session_id = f"{beginning}{_this_process(os.getpid())}-{uuid.uuid4().hex}"
        _open.add(session_id)
        return session_id

    @staticmethod
    def is_here(session_id: str) -> bool:
        """True for a session that this process has had."""
        return session_id.rpartition("~")[2].partition("-")[0] == _this_process(os.getpid())

    async def is_over(self, session_id: str) -> bool:
        """True for a session of this place that nobody has any more; also where its process was killed."""
        if not session_id.startswith(self.prefix) or session_id in _open:
            return False
        if self.deployment is not None:
            return self.is_here(session_id) or await self.deployment.is_over(session_id)
        process = session_id.removeprefix(self.prefix).partition("-")[0]
        return process == _this_process(os.getpid()) or _is_gone(process)


def leave(session_id: str) -> None:
    """The session is over."""
    _open.discard(session_id)


@lru_cache
def _this_process(_pid: int) -> str:
    """A name that no other process has. Its lock, which the system lets go with the process, says that it runs; where there
    can be none, the name is one of which nobody knows whether it runs."""
    name = uuid.uuid4().hex[:16]
    try:
        path = _lock_of(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        running_gateways()  # sweeps away what earlier ones have left
        lock(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return f"unknown{name}"
    return name


def _is_gone(process: str) -> bool:
    try:
        return process.isalnum() and not process.startswith("unknown") and not is_held(_lock_of(process))
    except FileNotFoundError:  # it was swept away with other traces of gateways that have ended
        return True
    except OSError:
        return False


def _lock_of(process: str) -> Path:
    return gateway_folder() / "running" / f"{process}.lock"
