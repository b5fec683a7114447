"""The status of running gateways: a small file for each, which `hooksdk gateway status` reads. The file is removed
when the gateway ends. A lock beside it, which the system releases with the process, says that the gateway runs;
without the lock the next reader removes the file. The number of the process would not do: after a restart of the
machine another process has it."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, final

from hooksdk.config import state_folder
from hooksdk.stores.locks import is_held, lock, unlock

__all__ = ["GatewayStatus", "ServerLine", "StatusFile", "gateway_folder", "running_gateways"]

# Seconds for which a lock or a half-written file without a status is left alone: a gateway may be starting.
_BEGINNING = 60.0


@dataclass(frozen=True, kw_only=True)
class ServerLine:
    """One server behind a gateway.

    Attributes:
        state: The state of a `hooksdk.mcp.ServerStatus`: `up`, `starting`, `failed`, `down`, `disabled`, or `idle`,
            where its tools are known and it was not needed yet.
        scope: The clients that share its process: those of a `session`, of a `token`, or all of the `gateway`.
        holder: The token of a process that a single token or session has, or `local`.
    """

    name: str
    state: str
    tools: int = 0
    problem: str = ""
    scope: str = "gateway"
    holder: str = ""


@dataclass(frozen=True, kw_only=True)
class GatewayStatus:
    """The status of a running gateway. Its counters count from its start on, over all sessions.

    Attributes:
        started: Seconds since the epoch.
        changed: Seconds since the epoch at which this was written.
        address: The address on which it listens; empty for stdio.
        config: The files of servers.
        client: The name that the client gives itself; of several clients, the last one's.
        problem: The reason why the present files do not count, in one line.
        sessions: The sessions that are open now.
        tokens_direct: Estimated tokens of all tools' schemas, over all lists of tools.
        tokens_listed: Estimated tokens of the schemas in those lists.
        shown: For each client, by the name that it gives itself, the list that it got last: `4 tools, 354 tokens (auto), of 61 tools`.
    """

    pid: int
    started: float
    changed: float
    transport: Literal["stdio", "http"] = "stdio"
    address: str = ""
    config: Sequence[str] = ()
    profile: str = ""
    client: str = ""
    problem: str = ""
    servers: Sequence[ServerLine] = ()
    sessions: int = 0
    tokens_direct: int = 0
    tokens_listed: int = 0
    shown: Mapping[str, str] = field(default_factory=dict[str, str])
    calls: int = 0
    blocked: int = 0
    asked: int = 0
    failed: int = 0

    @property
    def tokens_saved(self) -> int:
        """Estimated tokens of schemas that no model had to read."""
        return max(self.tokens_direct - self.tokens_listed, 0)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {
            **asdict(self),
            "config": list(self.config),
            "servers": [asdict(one) for one in self.servers],
            "tokens_saved": self.tokens_saved,
        }


@final
class StatusFile:
    """Writes the status of the gateway in this process. A status that cannot be written never stops a gateway.

    `update` takes the fields of `GatewayStatus`; a server is a `ServerLine`. Each update is one small file, replaced
    whole, without waiting for the disk.
    """

    def __init__(self, folder: Path | None = None, **fields: Any) -> None:
        """`fields` are those of `GatewayStatus` that are known at the start. Raises `TypeError` for a field that is
        none."""
        now = time.time()
        self._path = (folder or gateway_folder() / "running") / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.json"
        self._status = GatewayStatus(pid=os.getpid(), started=now, changed=now, **fields)
        self._lock: int | None = None

    @property
    def status(self) -> GatewayStatus:
        """The status that was written last."""
        return self._status

    def update(self, **fields: Any) -> None:
        """Change these fields, and write the file where that changed anything. Raises `TypeError` for a field that is
        none."""
        new = replace(self._status, **fields)
        if new == self._status and self._path.exists():
            return
        self._status = replace(new, changed=time.time())
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._hold()
            beside = self._path.with_suffix(".tmp")
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                json.dump(self._status.as_dict(), file)
            beside.replace(self._path)

    def _hold(self) -> None:
        """Take the lock, before a status is written."""
        place = _lock_of(self._path)
        if self._lock is None or not place.exists():
            if self._lock is not None:
                os.close(self._lock)
            self._lock = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
            lock(self._lock)

    def close(self) -> None:
        """Remove the file: the gateway ends."""
        if self._lock is not None:
            unlock(self._lock)
            os.close(self._lock)
            self._lock = None
        for path in (self._path, _lock_of(self._path)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.update()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def gateway_folder() -> Path:
    """The folder for the state of this user's gateways."""
    return state_folder() / "gateway"


def running_gateways(folder: Path | None = None) -> list[GatewayStatus]:
    """Every gateway of this user that runs, the oldest first. Files of those that have ended are removed."""
    found: list[GatewayStatus] = []
    for path in (folder or gateway_folder() / "running").glob("*"):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):  # a gateway that ends just now
            if path.suffix == ".json":
                if _lock_of(path).exists() and is_held(_lock_of(path)):
                    found.append(_read(json.loads(path.read_bytes())))
                else:
                    path.unlink()
            elif time.time() - path.stat().st_mtime > _BEGINNING and not (path.suffix == ".lock" and is_held(path)):
                path.unlink()
    return sorted(found, key=lambda one: one.started)


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


def _read(fields: Mapping[str, Any]) -> GatewayStatus:
    known: dict[str, Any] = {name: one for name, one in fields.items() if name in GatewayStatus.__dataclass_fields__}
    known |= {"servers": tuple(ServerLine(**one) for one in fields["servers"]), "config": tuple(fields["config"])}
    return GatewayStatus(**known)
