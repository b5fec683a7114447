"""Ids of sessions that say where a session lives: what people answered to one that is over, the next one at its place may take."""

from __future__ import annotations

import os
import platform
import uuid
from typing import final

from hooksdk._approvals.request import digest_of
from hooksdk.gateway._status import is_alive

_open: set[str] = set()
"""Ids of this process's sessions that are not over."""


@final
class Place:
    """Where a gateway stands: the same after a restart, in front of the same files of servers."""

    def __init__(self, *parts: str) -> None:
        self._prefix = f"gateway-{digest_of([platform.node(), *parts])[:12]}-"

    def enter(self) -> str:
        """The id of a new session here."""
        session_id = f"{self._prefix}{os.getpid()}-{uuid.uuid4().hex}"
        _open.add(session_id)
        return session_id

    def is_over(self, session_id: str) -> bool:
        """True for a session of this place that nobody has any more; also where its process was killed. A number that another
        process has by now is taken for the old one: then people are asked anew."""
        if not session_id.startswith(self._prefix) or session_id in _open:
            return False
        pid = session_id.removeprefix(self._prefix).partition("-")[0]
        return pid.isdecimal() and (int(pid) == os.getpid() or not is_alive(int(pid)))


def leave(session_id: str) -> None:
    """The session is over."""
    _open.discard(session_id)
