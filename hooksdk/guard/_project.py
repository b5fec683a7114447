"""The host of one project, the agent sessions that its rules judge, and the files that say which project a session
belongs to: they outlive the judge."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from hooksdk.approvals import digest_of
from hooksdk.config import Config, PluginConfig, state_folder
from hooksdk.errors import ConfigError, SessionBusy
from hooksdk.guard._agents import AGENTS, HookEvent, Verdict
from hooksdk.guard._rules import RulesInForce, project_of
from hooksdk.guard._session import AgentSession
from hooksdk.guard._settings import GuardConfig
from hooksdk.guard._versions import make_private
from hooksdk.host import Host
from hooksdk.stores import Store, list_summaries, open_store
from hooksdk.stores.files import replace_file

logger = logging.getLogger("hooksdk")

DAY = 86_400.0
_SESSIONS = tuple(f"guard-{agent}-" for agent in AGENTS)
# Seconds without a hook after which a session is closed; an agent that was killed never ends its own.
SESSION_IDLE = 900.0

# Built-in plugins that are on by default and do nothing here, since an agent offers the tools to its model itself. One
# that the configuration names is loaded nevertheless.
_FOR_MODELS = ("tool_search",)


@final
class Project:
    """The host of one folder, with the rules that a person let count, and the sessions of agents that work there."""

    def __init__(self, folder: Path, group: TaskGroup, *, shadow: bool) -> None:
        self.folder = folder
        self._group, self._shadow = group, shadow
        self._rules = RulesInForce(folder, self._host)
        # Opened here, since it outlives each host.
        config = self._rules.config
        self._store = open_store(config.store or "jsonl", config.sessions)
        self._open: tuple[Host, anyio.Event, anyio.Event] | None = None
        self._sessions: dict[str, AgentSession] = {}
        # Keys of sessions whose run is resumed when their agent comes back.
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
        """As `RulesInForce.waits`."""
        return self._rules.waits

    @property
    def sessions(self) -> int:
        """The number of open agent sessions."""
        return len(self._sessions)

    async def answer(self, event: HookEvent, *, alone: bool) -> Verdict:
        """The verdict of the rules on one hook; `alone` as in `Judge.answer`."""
        if event.kind == "session_end":
            await self.leave(event)
            return Verdict()
        async with self._at_work() as host:
            await self._leave_idle()
            session = await self._session(host, event)
            session.used = anyio.current_time()
            if event.helper and event.kind in ("before_call", "after_call"):
                # A sub-agent may call only tools that its agent's session knows.
                whole = await self._session(host, _of_the_agent_itself(event))
                whole.used = session.used
                blocked = await whole.be_ready(event)
                if blocked.deny:
                    return blocked
            return await session.answer(event, alone=alone)

    async def leave(self, event: HookEvent) -> None:
        """End the session of this hook's agent, and those of its sub-agents."""
        name = f"{event.agent} {event.session} "
        await self._leave([key for key in self._sessions if f"{key} ".startswith(name)])

    @asynccontextmanager
    async def _at_work(self) -> AsyncGenerator[Host]:
        """The host with the rules in force; it is not replaced while a hook uses it."""
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
            self._rules.keep()  # a handler may have imported further files
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
        """True for a session of this project that has ended. `claude -p` has ended when a person answers its question,
        and the same call in the next session uses that answer."""
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
        """End sessions without a hook for `SESSION_IDLE` seconds, since each holds a lock and open files. They are
        resumed when their agent comes back."""
        if self._events > 1:  # a call of another hook may be in one of them
            return
        now = anyio.current_time()
        await self._leave([key for key, each in self._sessions.items() if now - each.used >= SESSION_IDLE], pauses=True)

    async def _leave(self, keys: Iterable[str], *, pauses: bool = False) -> None:
        """End these sessions, those of sub-agents first."""
        for key in reversed([*keys]):
            session = self._sessions.pop(key, None)
            # Another hook may have ended it in the meantime.
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


def session_places() -> Path:
    """The folder of the files that say in which project each session began: an agent may change its folder, and the
    same rules go on to judge it."""
    return state_folder() / "guard" / "sessions"


def _place(agent: str, session: str) -> Path:
    return session_places() / f"{digest_of([agent, session])[:32]}.json"


def began_in(session_id: str) -> Path | None:
    """The project in which a session of the guard began, by hooksdk's session id; None for other sessions and for
    removed ones."""
    prefix = next((prefix for prefix in _SESSIONS if session_id.startswith(prefix)), None)
    if prefix is None:
        return None
    agent, session = prefix.removeprefix("guard-")[:-1], session_id.removeprefix(prefix).partition("/")[0]
    try:
        return Path(json.loads(_place(agent, session).read_text("utf-8"))["folder"])
    except (OSError, ValueError, KeyError):
        return None


async def pinned_folder(event: HookEvent) -> tuple[Path, str, Path]:
    """The project of the agent's session, the rules that wait there (as in `project_of`), and the folder in which the
    session was first seen. Relative paths of rules mean that folder, also when the agent has gone to another one."""
    place = anyio.Path(_place(event.agent, event.session))
    try:
        facts = json.loads(await place.read_text("utf-8"))
    except FileNotFoundError:
        return await anyio.to_thread.run_sync(_pin, event, Path(place))
    await anyio.to_thread.run_sync(os.utime, place)
    return Path(facts["folder"]), facts.get("waits", ""), Path(facts.get("workspace", event.folder))


def last_seen(agent: str, session: str) -> float:
    """When a hook of this session of an agent last came before the judge, in seconds since 1970; 0 where none did."""
    try:
        return _place(agent, session).stat().st_mtime
    except (OSError, ValueError):  # an id that cannot be encoded, such as half of a surrogate pair
        return 0.0


def _pin(event: HookEvent, place: Path) -> tuple[Path, str, Path]:
    folder, waits = project_of(event.folder)
    facts = {
        "agent": event.agent,
        "session": event.session,
        "folder": str(folder),
        "waits": waits,
        "workspace": str(event.folder),
    }
    make_private(place.parent)
    # Half a file, left by a judge that is killed here, would refuse all calls of the session.
    replace_file(place, json.dumps(facts).encode())
    return folder, waits, event.folder


async def remove_old_sessions(store: Store, days: int) -> None:
    """Remove the guard's sessions without a hook for so many days, and the files on their projects."""
    oldest = time.time() - days * DAY
    try:
        for summary in await list_summaries(store):
            if summary.session_id.startswith(_SESSIONS) and (summary.changed or oldest) < oldest:
                with suppress(SessionBusy):
                    await store.delete_session(summary.session_id, wait=0)
        for place in session_places().glob("*.json"):
            if place.stat().st_mtime < oldest:
                place.unlink()
    except Exception:
        logger.exception("old sessions of the guard could not be removed")
