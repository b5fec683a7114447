"""A session that a plain test drives: it lives in an event loop of its own, beside whatever runs the test."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Protocol, Self, TypeVar, final

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from hooksdk.approvals import Approver
from hooksdk.formats import GivenTools
from hooksdk.formats.intake import as_tools
from hooksdk.host import Host
from hooksdk.session import Session
from hooksdk.stores import MemoryStore
from hooksdk.testing._model import Script, ScriptedModel
from hooksdk.testing._session import Played, open_host, play
from hooksdk.tools import Tool
from hooksdk.transcript import Store

T = TypeVar("T")
# How often tasks that have been told to end are waited for, 10 ms each, after the host has closed.
LAST_STEPS = 100


@final
class HookSession:
    """One session with its host, opened when it is made. `close` ends both, and raises an `AssertionError` for what the
    test has left open; the fixture `hook_session` does it after the test. Its methods wait until they are done.

    ```python
    from hooksdk.testing import HookSession, call

    def now() -> str:
        "Tell the time."
        return "noon"

    with HookSession(tools=[now]) as session:
        played = session.play([call("now"), "It is noon."])
    assert played.call("now").status == "ok"
    ```
    """

    def __init__(
        self,
        *plugins: Any,
        tools: GivenTools = (),
        servers: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        store: Store | None = None,
        approver: Approver | None = None,
        grants: Iterable[str] | None = None,
        session_id: str = "test",
        loop: str = "asyncio",
    ) -> None:
        """`servers` are MCP servers, as a `mcpServers` mapping has them; `loop` is asyncio or trio. The others are
        those of `open_session`."""
        self._store: Store = MemoryStore() if store is None else store
        self._tools = as_tools(tools, "tools", owner="test")
        self._servers = servers
        self._grants = None if grants is None else list(grants)
        self._plugins, self._config, self._approver = plugins, config, approver
        self._session_id, self._loop = session_id, loop
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._strays: list[str] = []
        self._open()

    def _open(self) -> None:
        stack = ExitStack()
        with stack:
            portal = stack.enter_context(start_blocking_portal(self._loop))
            self._host, self._session, self._offered = stack.enter_context(
                portal.wrap_async_context_manager(self._stage())
            )
            self._stack, self._portal = stack.pop_all(), portal

    @asynccontextmanager
    async def _stage(self) -> AsyncGenerator[tuple[Host, Session, list[Tool]]]:
        before = {task.id for task in anyio.get_running_tasks()}
        async with open_host(
            *self._plugins,
            tools=self._tools,
            config=self._config,
            store=self._store,
            approver=self._approver,
            grants=self._grants,
        ) as host:
            offered = list(self._tools)
            if self._servers is not None:
                from hooksdk.mcp import McpServers

                offered += (await host.enter(McpServers(self._servers))).tools()
            async with host.session(self._session_id) as session:
                yield host, session, offered
        strays: list[str] = []
        for _ in range(LAST_STEPS):
            if not (strays := self._stray_tasks(before)):
                break
            await anyio.sleep(0.01)
        self._strays = strays

    def _stray_tasks(self, before: set[int]) -> list[str]:
        return [f"the task {task.name}" for task in anyio.get_running_tasks() if task.id not in before]

    @property
    def session(self) -> Session:
        """The session itself, for its properties; its methods that are async go through `run`."""
        return self._session

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The stored messages."""
        return self._session.messages

    def plugin(self, plugin_id: str) -> Any:
        """The session's instance of a plugin class. Raises `KeyError`."""
        return self._session.plugin(plugin_id)

    def play(
        self, script: Script | ScriptedModel, prompt: str | dict[str, Any] | None = "Go on.", **options: Any
    ) -> Played:
        """One whole run with a scripted model: `hooksdk.testing.play`, whose options are taken."""
        options.setdefault("tools", self._offered)

        async def run(session: Session) -> Played:
            return await play(session, script, prompt, **options)

        return self.run(run)

    def run(self, function: Callable[[Session], Awaitable[T]]) -> T:
        """Await a function of the session in its event loop, and answer what it answers."""
        if self._portal is None:
            raise RuntimeError("this session is closed; reopen() opens it again")
        return self._portal.call(function, self._session)

    def reopen(self) -> None:
        """Close it, and open a new session of the same id over the same store: what a restart of the program does."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close session and host; closing twice is fine. Raises `AssertionError` for a run or another session that is
        still open, and for tasks that outlive them."""
        if self._portal is None:
            return
        stack, self._portal = self._stack, None
        problems = self._left_open()
        stack.close()
        problems += self._strays
        if problems:
            raise AssertionError(f"the test has left open: {', '.join(problems)}")

    def _left_open(self) -> list[str]:
        others = [one.id for one in self._host.sessions if one is not self._session]
        problems = [f"session '{one}'" for one in others]
        if self._session.running:
            problems.append(f"a run of session '{self._session.id}'")
        return problems

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class OpenHookSession(Protocol):
    """The fixture `hook_session`, for tests that a type checker reads.

    ```python
    from hooksdk.testing import OpenHookSession, assert_ran, call

    def now() -> str:
        "Tell the time."
        return "noon"

    def test_the_time_is_told(hook_session: OpenHookSession) -> None:
        assert_ran(hook_session(tools=[now]).play([call("now"), "It is noon."]), text="noon")
    ```
    """

    def __call__(
        self,
        *plugins: Any,
        tools: GivenTools = (),
        servers: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        store: Store | None = None,
        approver: Approver | None = None,
        grants: Iterable[str] | None = None,
        session_id: str = "test",
    ) -> HookSession:
        """Open a session, which is closed after the test. The options are those of `HookSession`."""
        ...
