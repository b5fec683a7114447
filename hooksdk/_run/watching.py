"""A host that follows its configuration files: a session that begins has the newest rules, an open one keeps its own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import anyio

from hooksdk._run.sessions import SessionParts
from hooksdk._tasks.background import Background, Keeper, leave_all, logger
from hooksdk._tasks.limits import describe
from hooksdk.config import Config, ConfigWatch, config_files
from hooksdk.errors import ConfigError, check

# Seconds that the plugins of an older configuration have for their end.
LEAVE_TIMEOUT = 10.0
Renew = Callable[[SessionParts], Awaitable[SessionParts]]


@final
class HostWatch:
    """Reads the files of a host's configuration again before a session begins. What has changed counts for that session
    and those after it. Where the files are wrong now, or one that had settings is gone or empty, the older configuration
    stays, with a line in the log.

    A newer configuration is a host of its own inside the first one, which lends its plugins and leaves when the last
    session that began under it has closed.
    """

    def __init__(
        self,
        host: Any,
        watch: object,
        plugins: Sequence[Any],
        config: Mapping[str, Any] | Config | None,
        folder: Path,
        record_first: bool | None,
    ) -> None:
        check("Host(watch=...)", watch, bool, "True or False", "")
        if isinstance(config, Config):
            problem = "a whole Config stands in the place of the files that it follows"
            raise ConfigError("Host(watch=True)", (f"{problem}. Give a mapping, or leave `config` out",))
        self._host = host
        self._options = {"plugins": plugins, "folder": folder, "record_first": record_first, "store": "memory"}
        # Made in the host's event loop, which need not be the one that made the host.
        self._lock: anyio.Lock | None = None
        # The host of a newer configuration that is not open yet.
        self._next: Any = None
        # The newer hosts that are open, each with the number of its open sessions; the last one is for those that begin.
        self._users: Counter[Keeper[Any]] = Counter()
        self._newest: Keeper[Any] | None = None
        self._files = config_files(folder, os.environ)
        self._watch = ConfigWatch(config, folder=folder, check=self._check)
        self._filled = [path for path in self._files if _has_content(path)]

    def begin(self) -> tuple[Renew, Config]:
        """How the parts of a session are renewed, and the first configuration."""
        return self._renew, self._watch.config

    def _check(self, config: Config) -> None:
        # A file is empty for a moment while it is written anew, and gone while it is replaced: no rules are no change.
        if lost := next((path for path in self._filled if not _has_content(path)), None):
            advice = "Put it back; to go on without its rules, start the program again"
            raise ConfigError(str(lost), (f"it is gone or empty, and its rules count on. {advice}",))
        self._next = type(self._host)(config=config, **self._options)

    async def _renew(self, parts: SessionParts) -> SessionParts:
        self._lock = self._lock or anyio.Lock()
        async with self._lock:
            self._watch.catch_up()
            # Also what somebody has begun who was cancelled.
            if self._next is not None:
                await self._take_over(parts.background)
            host, keeper = self._host, self._newest
            own = {"config": host.config, "registry": host._registry, "shared": host._shared}  # noqa: SLF001
        if keeper is None:
            return replace(parts, renew=None, **own)

        def opened(session: Any) -> None:
            self._users[keeper] += 1
            parts.on_open(session)

        def closed(session: Any) -> None:
            parts.on_close(session)
            self._users[keeper] -= 1
            self._leave_unused(parts.background)

        return replace(parts, renew=None, on_open=opened, on_close=closed, **own)

    async def _take_over(self, background: Background) -> None:
        made, host = self._next, self._host
        made._plugin_host = host._plugin_host  # noqa: SLF001 - plugins see one host: the program's
        keeper: Keeper[Any] = Keeper(made, "the plugins of a newer configuration")
        try:
            await keeper.enter(background)
        except Exception as error:
            self._next = None
            logger.warning("the configuration stays as it was: its plugins could not be started: %s", describe(error))
            return
        self._next, self._newest, self._users[keeper] = None, keeper, 0
        host._keepers.append(keeper)  # noqa: SLF001
        host.config, host._registry, host._shared = made.config, made._registry, made._shared  # noqa: SLF001
        self._filled = [path for path in self._files if _has_content(path)]
        self._leave_unused(background)

    def _leave_unused(self, background: Background) -> None:
        for keeper in [one for one, users in self._users.items() if not users and one is not self._newest]:
            del self._users[keeper]
            background.spawn(self._leave, keeper, name=keeper.name)

    async def _leave(self, keeper: Keeper[Any]) -> None:
        await leave_all([keeper], LEAVE_TIMEOUT)
        if keeper in self._host._keepers:  # noqa: SLF001
            self._host._keepers.remove(keeper)  # noqa: SLF001


def _has_content(path: Path) -> bool:
    try:
        return bool(path.read_bytes().strip())
    except OSError:
        return False
