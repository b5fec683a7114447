"""What one folder's rules are, and the agents' sessions that they judge."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hooksdk.config import Config, PluginConfig
from hooksdk.errors import ConfigError
from hooksdk.guard._agents import HookEvent, Verdict
from hooksdk.guard._places import DAY, began_in, remove_old_sessions
from hooksdk.guard._rules import RulesInForce
from hooksdk.guard._session import AgentSession
from hooksdk.guard._settings import GuardConfig
from hooksdk.host import Host
from hooksdk.stores import open_store

# Seconds without a hook after which a session is closed; an agent that was killed never ends its own.
SESSION_IDLE = 900.0

# Built-in plugins that are on by default, and of no use here: an agent offers its model the tools itself. One that the
# configuration names is loaded all the same.
_FOR_MODELS = ("tool_search",)


@final
class Project:
    """One folder's host, by the rules that a person let count, and the sessions of the agents that work there."""

    def __init__(self, folder: Path, group: TaskGroup, *, shadow: bool) -> None:
        self.folder = folder
        self._group, self._shadow = group, shadow
        self._rules = RulesInForce(folder, self._host)
        # Not the host's own: the next one goes on with it.
        self._store = open_store(self._rules.config.store or "jsonl")
        self._open: tuple[Host, anyio.Event, anyio.Event] | None = None
        self._sessions: dict[str, AgentSession] = {}
        # Keys of sessions whose run goes on when they come back.
        self._paused: set[str] = set()
        self._changing = anyio.Lock()
        self._tidy_next = 0.0
        self._events = 0
        self._at_rest = anyio.Event()

    def _host(self, config: Config) -> Host:
        idle = [name for name in _FOR_MODELS if config.plugin(name) is None and name not in (config.allow or ())]
        config = config.model_copy(update={"deny": [*config.deny, *idle]})
        host = Host(config=config, folder=self.folder, store=self._store)
        if not self._shadow:
            return host
        sections = {each.id: config.plugin(each.id) or PluginConfig() for each in host.plugins if each.loaded}
        shadows = {name: section.model_copy(update={"mode": "shadow"}) for name, section in sections.items()}
        without_effect = config.model_copy(update={"plugins": {**config.plugins, **shadows}})
        return Host(config=without_effect, folder=self.folder, store=self._store)

    @property
    def waits(self) -> str:
        """What its files say that does not count, as in `RulesInForce`."""
        return self._rules.waits

    @property
    def sessions(self) -> int:
        """How many sessions of agents are open."""
        return len(self._sessions)

    async def answer(self, event: HookEvent, *, alone: bool) -> Verdict:
        """What the rules say of one hook; `alone` as in `Judge.answer`."""
        if event.kind == "session_end":
            await self.leave(event)
            return Verdict()
        async with self._at_work() as host:
            await self._leave_idle()
            session = await self._session(host, event)
            session.used = anyio.current_time()
            if event.helper and event.kind in ("before_call", "after_call"):
                # A sub-agent gets no tool that the agent around it does not have.
                whole = await self._session(host, _of_the_agent_itself(event))
                whole.used = session.used
                blocked = await whole.be_ready(event)
                if blocked.deny:
                    return blocked
            return await session.answer(event, alone=alone)

    async def leave(self, event: HookEvent) -> None:
        """End the agent's session that this hook is of, and those of its sub-agents."""
        name = f"{event.agent} {event.session} "
        await self._leave([key for key in self._sessions if f"{key} ".startswith(name)])

    @asynccontextmanager
    async def _at_work(self) -> AsyncGenerator[Host]:
        """The host of the configuration of now; it stays while somebody is at work with it."""
        async with self._changing:
            if await self._rules.catch_up() or self._open is None:
                while self._events:
                    self._at_rest = anyio.Event()
                    await self._at_rest.wait()
                await self.close(pauses=True)
                try:
                    self._open = await self._group.start(_keep_host, self._host(self._rules.config))
                except ConfigError as error:
                    raise self._rules.explained(error) from None
            self._rules.keep()
            assert self._open is not None
            host = self._open[0]
            self._events += 1
        try:
            yield host
        finally:
            self._rules.keep()  # a handler may have imported more
            self._events -= 1
            self._at_rest.set()

    async def _session(self, host: Host, event: HookEvent) -> AgentSession:
        whole_key = f"{event.agent} {event.session}"
        key = f"{whole_key} {event.helper}" if event.helper else whole_key
        session = self._sessions.get(key)
        if session is None or session.ended.is_set():
            parent = None
            if event.helper:
                whole = await self._session(host, _of_the_agent_itself(event))
                parent = whole.session
            continues = GuardConfig.of(self._rules.config).continues
            session = self._sessions[key] = AgentSession(
                host, event, parent, shadow=self._shadow, continues=continues, is_over=self._is_over
            )
            self._forget_old()
            try:
                await self._group.start(session.keep)
            except BaseException:
                self._sessions.pop(key, None)
                raise
            if key in self._paused:
                self._paused.discard(key)
                await session.go_on()
        return session

    def _is_over(self, session_id: str) -> bool:
        """True for a session of this project that has ended: `claude -p` is gone when a person has answered its
        question, and the same call in the next session takes the answer."""
        is_open = any(session.session.id == session_id for session in self._sessions.values())
        return not is_open and began_in(session_id) == self.folder

    def _forget_old(self) -> None:
        """Remove sessions that are older than the user's `[guard] keep`, once a day."""
        now = anyio.current_time()
        if now >= self._tidy_next:
            self._tidy_next = now + DAY
            keep = GuardConfig.of(self._rules.config).keep
            self._group.start_soon(remove_old_sessions, self._store, keep)

    async def _leave_idle(self) -> None:
        """End what an agent has left without a word: each open session has a lock and files. Whose agents come back go
        on."""
        if self._events > 1:  # somebody else's call may be in one of them
            return
        now = anyio.current_time()
        await self._leave([key for key, each in self._sessions.items() if now - each.used >= SESSION_IDLE], pauses=True)

    async def _leave(self, keys: Iterable[str], *, pauses: bool = False) -> None:
        """End these sessions, sub-agents' before those that they work for."""
        for key in reversed([*keys]):
            session = self._sessions.pop(key, None)
            # Another hook may have ended it meanwhile.
            if session is not None and await session.leave(pauses=pauses):
                self._paused.add(key)

    async def close(self, *, pauses: bool = False) -> None:
        """End all sessions, and the host; `pauses` as in `AgentSession.leave`."""
        await self._leave(self._sessions, pauses=pauses)
        if self._open is not None:
            _, leave, left = self._open
            self._open = None
            leave.set()
            await left.wait()

    async def aclose(self) -> None:
        """Close what is open, the store as well."""
        await self.close()
        await self._store.aclose()


def _of_the_agent_itself(event: HookEvent) -> HookEvent:
    return replace(event, kind="other", helper="", helper_type="")


async def _keep_host(host: Host, *, task_status: TaskStatus[tuple[Host, anyio.Event, anyio.Event]]) -> None:
    leave, left = anyio.Event(), anyio.Event()
    try:
        async with host:
            task_status.started((host, leave, left))
            await leave.wait()
    finally:
        left.set()
