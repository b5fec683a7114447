"""How the event loop of a plain host begins and ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, final

from hooksdk import host as async_side
from hooksdk.config import Config
from hooksdk.sync._mirror import Approver, Opened, Restart, as_async
from hooksdk.sync._portal import Portal
from hooksdk.transcript import Store

logger = logging.getLogger("hooksdk")

T = TypeVar("T")
# Seconds after which the thread that waits for the program's end looks whether a host is still open.
BETWEEN_LOOKS = 1.0
# How the names of anyio's threads begin. An idle one lives as long as its loop, so nobody waits for its end.
WORKERS = "AnyIO worker thread"


class OpenedHost(Opened[async_side.Host]):
    """The part of a plain `Host` that the async one does not have: the thread of its event loop."""

    def __init__(
        self,
        plugins: Iterable[Any] = (),
        *,
        store: Store | None = None,
        config: Mapping[str, Any] | Config | None = None,
        approver: Approver | None = None,
        folder: Path | str | None = None,
        restart: Restart | None = None,
        record_first: bool | None = None,
        watch: bool = False,
    ) -> None:
        twin = async_side.Host(
            plugins,
            store=store,
            config=config,
            folder=folder,
            approver=None if approver is None else as_async(approver),
            restart=None if restart is None else as_async(restart),
            record_first=record_first,
            watch=watch,
        )
        super().__init__(twin, Portal())

    def __enter__(self) -> Self:
        self.portal.open()
        try:
            super().__enter__()
        except BaseException:
            self.portal.close()
            raise
        open_hosts.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        open_hosts.remove(self)
        try:
            super().__exit__(kind, error, traceback)
        finally:
            self.portal.close()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call any function, plain or async, in the host's event loop, and wait for its answer: for what has no plain
        form here, such as `host.call(servers.refresh)`."""
        return self.portal.call(function, *args)


@final
class _OpenHosts:
    """The open hosts of this process. Those that are still open when the program ends, as in a notebook, are closed."""

    def __init__(self) -> None:
        # Each host, and whether the program should have left its `with` block.
        self._hosts: dict[OpenedHost, bool] = {}
        self._lock = threading.Lock()
        self._closer: threading.Thread | None = None

    def add(self, host: OpenedHost, *, is_left: bool = True) -> None:
        with self._lock:
            self._hosts[host] = is_left
            if self._closer is None or not self._closer.is_alive():  # a forked process does not have this thread
                self._closer = threading.Thread(target=self._close_at_exit, name="hooksdk exit")
                self._closer.start()

    def remove(self, host: OpenedHost) -> None:
        with self._lock:
            self._hosts.pop(host, None)

    def _close_at_exit(self) -> None:
        while threads := [each for each in threading.enumerate() if _may_use_a_host(each)]:
            threads[0].join(BETWEEN_LOOKS)
            with self._lock:
                if not self._hosts:
                    self._closer = None
                    return
        for host, is_left in list(self._hosts.items()):
            if is_left:
                logger.warning("%r was not left: use it as `with Host(...) as host`. It is closed now", host)
            host.__exit__(None, None, None)


def _may_use_a_host(thread: threading.Thread) -> bool:
    is_ours = thread is threading.current_thread() or thread.name.startswith(WORKERS)
    return thread.is_alive() and not thread.daemon and not is_ours


# The only one of this process.
open_hosts = _OpenHosts()
