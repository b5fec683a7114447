"""A host for a module that a server or a framework loads."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from os import PathLike
from typing import Any, cast, final

import anyio.to_thread

from hooksdk.calls import CallInDoubt
from hooksdk.config import Config
from hooksdk.errors import SessionClosed
from hooksdk.session import Session
from hooksdk.sync._host import open_hosts
from hooksdk.sync._mirror import Approver, Restart
from hooksdk.sync._portal import Loop, LoopProxy, call_in
from hooksdk.sync._twins import Host
from hooksdk.transcript import Store


@final
class LazyHost:
    """A host that opens at its first use and closes at the program's end, for an agent that a server loads from a
    module, where nobody can write `async with Host(...)`.

    ```python
    import anyio

    from hooksdk.sync import LazyHost

    host = LazyHost()  # at the top of a module: nothing is opened yet

    async def main() -> None:
        async with host.session("ann") as session, session.run("Hello") as run:
            await run.record({"role": "user", "content": "Hello"})

    anyio.run(main)
    anyio.run(main)  # another event loop, the same host
    ```

    It lives in a thread of its own, so that all event loops and threads of the program share one, and one that ends
    closes nothing. What `session` and `hold` answer is used as the async classes are. Executors and approvers that are
    async run in the loop of whoever gave them. Plugins run in the host's. `plain` is the same host for plain code. A
    forked process opens a host of its own. An opening that fails raises, and the next use tries again.

    The parameters are those of `hooksdk.Host`; what is wrong with them is raised at once. With `watch=True` it follows
    its configuration files: sessions that begin have the newest rules.
    """

    def __init__(
        self,
        plugins: Iterable[Any] = (),
        *,
        store: Store | str | PathLike[str] | None = None,
        config: Mapping[str, Any] | Config | None = None,
        approver: Approver | None = None,
        folder: str | PathLike[str] | None = None,
        restart: Restart | None = None,
        record_first: bool | None = None,
        watch: bool = False,
    ) -> None:
        given = plugins if isinstance(plugins, type) else list(plugins)
        options: dict[str, Any] = {"store": store, "config": config, "approver": approver, "folder": folder}
        options |= {"restart": restart, "record_first": record_first, "watch": watch}
        self._new = partial(Host, given, **options)
        self._host, self._is_fresh = self._new(), True
        self._loop: Loop | None = None
        self._lock, self._process = threading.Lock(), os.getpid()

    def __repr__(self) -> str:
        return f"<lazy {self._host!r}"

    @property
    def approver(self) -> object:
        """Who answers when a plugin asks for an approval; None: nobody."""
        return self._host.approver

    @property
    def plain(self) -> Host:
        """The host for plain code, open."""
        return self._opened()[0]

    def _opened(self) -> tuple[Host, Loop]:
        if self._process != os.getpid():  # a forked process: a thread that it does not have may hold the lock
            self._lock, self._process = threading.Lock(), os.getpid()
        with self._lock:
            loop = self._loop if self._host.portal.is_open else None
            if loop is None:
                if not threading.main_thread().is_alive():
                    raise SessionClosed("the host")  # the program has ended
                if not self._is_fresh:
                    self._host.portal.close()
                    self._host = self._new()
                self._is_fresh = False
                self._host.__enter__()
                open_hosts.add(self._host, is_left=False)
                self._loop = loop = cast("Loop", self._host.call(Loop))
            return self._host, loop

    @asynccontextmanager
    async def session(self, session_id: str | None = None, *, wait: float = 5.0) -> AsyncGenerator[Session, None]:
        """`Host.session` of the open host, from any event loop."""
        host, loop = await anyio.to_thread.run_sync(self._opened)
        session = cast("Session", LoopProxy(host.twin.session(session_id, wait=wait), host.portal, loop))
        async with session:
            yield session

    async def in_doubt(self, beginning: str = "") -> dict[str, list[CallInDoubt] | None]:
        """`Host.in_doubt` of the open host, from any event loop."""
        host, loop = await anyio.to_thread.run_sync(self._opened)
        return await call_in(loop, host.twin.in_doubt, beginning)

    async def hold(self, session_id: str, *, idle: float | None = 600.0) -> Session:
        """`Host.hold` of the open host, from any event loop."""
        host, loop = await anyio.to_thread.run_sync(self._opened)
        session = await call_in(loop, host.twin.hold, session_id, idle=idle)
        return cast("Session", LoopProxy(session, host.portal, loop))
