"""A host: one process's plugins, configuration, store and background work."""

from __future__ import annotations

import contextlib
import inspect
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from os import PathLike
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, final

import anyio

from hooksdk._plugins.discovery import find_plugins
from hooksdk._plugins.handlers import judging_line
from hooksdk._plugins.installed import installed_plugins
from hooksdk._plugins.plugin import Plugin
from hooksdk._plugins.registry import Registry
from hooksdk._run.families import forget_shared
from hooksdk._run.plugin_states import PluginStorage
from hooksdk._run.sessions import HeldSession, SessionParts
from hooksdk._tasks.background import Background, Keeper, leave_all, logger
from hooksdk._tasks.limits import describe, run_shielded
from hooksdk.approvals import Approver
from hooksdk.calls import CallInDoubt
from hooksdk.catalog import Storage
from hooksdk.config import Config, load_config, project_folder
from hooksdk.errors import (
    AsyncOnly,
    ConfigError,
    PluginRefused,
    SessionClosed,
    check,
    check_function,
    check_list,
    check_number,
    check_path,
    check_text,
    refuse,
)
from hooksdk.stores import open_store
from hooksdk.transcript import Store

if TYPE_CHECKING:
    from hooksdk._plugins.files import names_file, plugins_at
    from hooksdk._plugins.survey import load_plugins, look_at, survey
    from hooksdk.session import Session

__all__ = ["Host", "Plugin", "installed_plugins", "load_plugins", "look_at", "names_file", "plugins_at", "survey"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """What commands ask of plugins, and no host needs: it is imported when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module 'hooksdk.host' has no attribute '{name}'", name=name)
        if name in {"names_file", "plugins_at"}:
            from hooksdk._plugins import files as place
        else:
            from hooksdk._plugins import survey as place
        return getattr(place, name)


T = TypeVar("T")
CLOSE_TIMEOUT = 10.0
_CONFIG_ADVICE = "A file hooksdk.toml is found in the folder: Host(folder=...)"


@final
class Host(AsyncOnly):
    """Plugins, configuration, stores and background workers of one process.

    - `plugins`: modules and classes, in the order in which their handlers run; installed plugins come after them.
    - `store`: where transcripts and plugins' values live: a store such as `SqlStore(Path("sessions"))`, the `Path` of its
      folder, or text as in the configuration (`"memory"`, `"jsonl:sessions"`, `"sqlite:///sessions.db"`). Without it,
      and without one in the configuration, they are in memory. The host closes a store that it opened.
    - `config`: a mapping laid over the configuration files and the environment, or a whole `Config` instead of them.
    - `approver`: how a person is asked, `async def (request) -> Approval`; without one every `Ask` is refused.
    - `folder`: whose configuration counts; by default the nearest one with a `hooksdk.toml`, in the same repository.
    - `restart`: how the program is restarted, `async def (reason)`; without one no plugin can ask for it.
    - `record_first`: no tool runs, not even a reading one, before a plugin such as `audit`, which handles
      `record_decision`, has durably written that it may; by default as the configuration says.
    - `watch`: a session that begins has the rules that the files say then; one that is open keeps its own.

    Raises `ConfigError`, `PluginError` or `MissingGrant` at once for what cannot be loaded, and `WrongArgument`.

    ```python
    import anyio
    from hooksdk import Host, hooks
    from hooksdk.hooks import SessionStart

    class Greeter:
        @hooks.session_start
        def greet(self, event: SessionStart) -> None:
            print(f"hello, {event.info.session_id}")

    async def main() -> None:
        async with Host(plugins=[Greeter]) as host, host.session("ann") as session:
            assert session.plugin("greeter") is not None
    anyio.run(main)
    ```"""

    def __init__(
        self,
        plugins: Iterable[Any] = (),
        *,
        store: Store | str | PathLike[str] | None = None,
        config: Mapping[str, Any] | Config | None = None,
        approver: Approver | None = None,
        folder: Path | str | None = None,
        restart: Callable[[str], Awaitable[None]] | None = None,
        record_first: bool | None = None,
        watch: bool = False,
    ) -> None:
        if isinstance(plugins, (type, ModuleType)):
            refuse("Host(plugins=...)", plugins, "a list of modules and classes", f"Write plugins=[{plugins.__name__}]")
        plugins = check_list("Host(plugins=...)", plugins, "modules and classes", "Write such as plugins=[MyPlugin]")
        check("Host(config=...)", config, (Mapping, Config, type(None)), "a mapping or a Config", _CONFIG_ADVICE)
        check_function("Host(approver=...)", approver, "async def (request) -> Approval")
        check_path("Host(folder=...)", folder)
        check_function("Host(restart=...)", restart, "async def (reason)")
        check("Host(record_first=...)", record_first, (bool, type(None)), "True or False", "")
        where = project_folder(Path.cwd()) if folder is None else Path(folder)
        self._renew: Callable[[SessionParts], Awaitable[SessionParts]] | None = None
        if watch:
            from hooksdk._run.watching import HostWatch

            self._renew, config = HostWatch(self, watch, plugins, config, where, record_first).begin()
        self.config = config if isinstance(config, Config) else load_config(config, folder=where)
        if record_first is not None:
            self.config = self.config.model_copy(update={"record_first": record_first})
        self._approver = approver
        self._registry = Registry(self.config)
        find_plugins(self._registry, plugins, self.config, folder=where)
        if self.config.record_first and "record_decision" not in self._registry.plan:
            raise ConfigError(
                "record_first", ("no plugin here writes decisions down, so nothing could run. Enable `audit`",)
            )
        self._own_store = store is None or isinstance(store, (str, PathLike))
        self._store: Store = _store(self.config.store if store is None else store, self.config.sessions)
        self._background: Background | None = None
        self._keepers: list[Keeper[Any]] = []
        self._shared: dict[str, Any] = {}
        self._sessions: dict[str, Session] = {}
        self._held: dict[str, HeldSession[Session]] = {}
        # Made by whoever waits until nobody is at work.
        self._idle: anyio.Event | None = None
        self._plugin_host = _PluginHost(self, restart)

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Every plugin that the host knows, loaded or not, with the reason."""
        return tuple(self._registry.plugins)

    @property
    def store(self) -> Store:
        """Where transcripts and plugins' values live."""
        return self._store

    @property
    def approver(self) -> Approver | None:
        """Who answers when a plugin asks for an approval; None: nobody."""
        return self._approver

    @property
    def judging(self) -> str:
        """How many handlers judge tool calls, and whose: the line that is logged when the host starts."""
        return judging_line(self._registry.plan.get("before_tool_call", ()))

    def describe(self) -> Sequence[dict[str, Any]]:
        """The plugins as JSON."""
        return [plugin.describe() for plugin in self._registry.plugins]

    def __repr__(self) -> str:
        plugins = ", ".join(plugin.id for plugin in self._registry.loaded) or "no plugins"
        sessions = ", ".join(map(repr, self._sessions)) or "no open session"
        return f"<Host of {plugins}: {sessions if self._background else 'not open'}>"

    async def __aenter__(self) -> Self:
        background = Background()
        await background.start()
        self._background = background
        try:
            for plugin in (one for one in self._registry.loaded if one.is_class and hasattr(one.holder, "shared")):
                share = plugin.holder.shared
                try:
                    asks_for_host = "host" in inspect.signature(share).parameters
                    manager = share(plugin.config, **({"host": self._plugin_host} if asks_for_host else {}))
                    self._shared[plugin.id] = await self.enter(manager, name=f"shared of {plugin.id}")
                except Exception as error:
                    raise PluginRefused(plugin.id, f"its shared(...) raised {describe(error)}") from error
            logger.info("%s", self.judging)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        problems: list[Exception] = []
        await run_shielded(self._leave, problems)
        if problems and error is None:
            raise problems[0]

    async def _leave(self, problems: list[Exception]) -> None:
        for session in reversed(list(self._sessions.values())):
            try:
                await session.close("shutdown")
            except Exception as problem:
                problems.append(problem)
                logger.error("session '%s' could not be closed: %s", session.id, describe(problem))
        await self._close()

    async def _close(self) -> None:
        try:
            await leave_all(self._keepers, CLOSE_TIMEOUT)
        finally:
            background, self._background = self._background, None
            if background is not None:
                await background.stop()
            if self._own_store:
                await self._store.aclose()

    async def enter(self, manager: AbstractAsyncContextManager[T], *, name: str = "") -> T:
        """Let the host hold something that its sessions share, such as MCP connections: it is entered now, in a task of
        its own, and left when the host closes."""
        if self._background is None:
            raise SessionClosed("the host")
        if isinstance(manager, type) or not hasattr(manager, "__aexit__"):
            refuse("host.enter(...)", manager, "an async context manager, as `async with` takes it")
        keeper = Keeper(manager, name or type(manager).__name__)
        value = await keeper.enter(self._background)
        self._keepers.append(keeper)
        return value

    def session(self, session_id: str | None = None, *, wait: float = 5.0) -> Session:
        """A session, for `async with host.session("id") as session`. An id is any text, and random unless given. While
        somebody else holds the session, entering waits `wait` seconds, and then raises `SessionBusy`."""
        check_text("host.session(...)", session_id, "An id is text, such as str(7)")
        if wait != 0:
            check_number("host.session(wait=...)", wait, "wait=5, or wait=0")
        return self._session(uuid.uuid4().hex if session_id is None else session_id, self._tell_idle, wait)

    def _session(
        self, session_id: str, on_idle: Callable[[], None], wait: float = 5.0, shared_as: str | None = None
    ) -> Session:
        if self._background is None:
            raise SessionClosed("the host")
        from hooksdk.session import Session  # with the first one: who only asks about plugins has none

        parts = SessionParts(
            config=self.config,
            registry=self._registry,
            background=self._background,
            store=self._store,
            approver=self._approver,
            shared=self._shared,
            on_open=self._add_session,
            on_close=self._remove_session,
            on_idle=on_idle,
            plugin_host=self._plugin_host,
            wait=wait,
            renew=self._renew,
        )
        return Session(session_id, parts, shared_as=shared_as)

    async def hold(self, session_id: str, *, idle: float | None = 600.0, shared_as: str | None = None) -> Session:
        """The open session of this id, opened where it is not, and kept open for whoever holds it next, without a block
        of anybody's own. Hold it again before each run.

        It is closed as `idle` once nobody held it and no run was open for `idle` seconds (None: never), which its first
        holder says, and else with the host; never while it is in use. Raises what opening a session raises, such as
        `SessionBusy` where somebody has opened it in a block.

        `shared_as` is for a session that several workers have open at once, on one database: each holds a part under an
        id of its own, and plugins are told this one. They share their `PluginState`, entry by entry as it was stored
        last, once `session.refresh()` was called; their `FamilyState`, remembered answers, approvals and limits for the
        session are those of this id everywhere.
        """
        check("host.hold(...)", session_id, str, "the session's id")
        check_text("host.hold(shared_as=...)", shared_as, "It is the id that plugins are told")
        check_number("host.hold(idle=...)", idle, "idle=600", optional=True)
        while True:
            held = self._held.get(session_id)
            if held is None:
                held = self._held[session_id] = HeldSession["Session"](idle, self._tell_idle)
                held.session = self._session(session_id, held.tell_idle, shared_as=shared_as)
                assert self._background is not None
                self._background.spawn(self._keep, session_id, held, name=f"session '{session_id}'")
            await held.settled.wait()
            if held.error is not None:
                raise held.error
            if held.session is not None and held.session.open:
                held.touch()
                return held.session
            await held.ended.wait()  # it closes just now: the next one is opened after it

    async def _keep(self, session_id: str, held: HeldSession[Session]) -> None:
        try:
            await held.keep()
        finally:
            if self._held.get(session_id) is held:
                del self._held[session_id]
            held.end()

    @property
    def sessions(self) -> Sequence[Session]:
        """The open sessions, sub-agents' among them, in the order in which they were opened."""
        return tuple(self._sessions.values())

    async def wait_idle(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - False at the limit, no error
        """Wait until no session is at work (`Session.running`), `timeout` seconds at most; False when one still is. When
        this returns True, no run begins before the caller's next `await`: for a shutdown that cuts nobody short."""
        check_number("host.wait_idle(...)", timeout or None, "30", optional=True)
        with anyio.move_on_after(timeout):
            while any(session.running for session in self._sessions.values()):
                if self._idle is None:
                    self._idle = anyio.Event()
                await self._idle.wait()
            return True
        return False

    async def forget_shared(self, shared_as: str) -> None:
        """Remove what plugins have kept for a session that several workers had open: none has it any more."""
        await forget_shared(self._store, shared_as)

    def _tell_idle(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.set()

    async def in_doubt(self, beginning: str = "") -> dict[str, list[CallInDoubt] | None]:
        """What sessions that are over have left in doubt, by their ids, of those whose ids begin so: for a host whose
        sessions have new ids after a crash, to be given to `session.run(in_doubt=...)`. They are only read; the host's
        open ones are left out, one of another process has None: look again. `session.settle` ends a doubt."""
        check("host.in_doubt(...)", beginning, str, "the beginning of session ids, such as 'bot-'")
        from hooksdk._ledger.doubts import calls_in_doubt

        return await calls_in_doubt(self._store, beginning, self._sessions.keys())

    def storage(self, plugin_id: str) -> Storage:
        """A plugin's own key-value space."""
        return PluginStorage(self._store, plugin_id)

    def _add_session(self, session: Session) -> None:
        self._sessions[session.id] = session

    def _remove_session(self, session: Session) -> None:
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
        if (held := self._held.get(session.id)) is not None and held.session is session:
            held.closed.set()
        self._tell_idle()


@final
class _PluginHost:
    """The `PluginHost` of one host. Not the host itself: with that one a plugin could open any session and read it."""

    def __init__(self, host: Host, restart: Callable[[str], Awaitable[None]] | None) -> None:
        self._host = host
        self._restart = restart

    @property
    def running(self) -> Sequence[str]:
        return [session.id for session in self._host.sessions if session.running]

    async def wait_idle(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - False at the limit, no error
        return await self._host.wait_idle(timeout)

    async def save(self) -> None:
        for session in self._host.sessions:
            with contextlib.suppress(SessionClosed):  # it closes just now, which saves it
                await session.save()

    @property
    def can_restart(self) -> bool:
        return self._restart is not None

    async def restart(self, reason: str) -> None:
        if self._restart is None:
            raise RuntimeError("this host was not told how it is restarted: Host(restart=...)")
        await self._restart(reason)


def _store(given: Store | str | PathLike[str] | None, sessions: Mapping[str, Any]) -> Store:
    if given is None or isinstance(given, (str, PathLike)):
        return open_store(given, sessions)
    if isinstance(given, type) or not all(
        callable(getattr(given, method, None)) for method in ("open_session", "aclose")
    ):
        known = '"memory", "jsonl:DIRECTORY", "sqlite:///FILE", a Path, or an object such as SqlStore(Path("sessions"))'
        advice = f"Give an instance: {given.__name__}(...)" if isinstance(given, type) else ""
        refuse("Host(store=...)", given, f"a store: {known}", advice)
    return given
