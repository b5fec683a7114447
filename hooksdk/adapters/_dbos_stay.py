"""Where a durable run is open: one worker's hold of its session, from the first step that is made there until the run
waits, ends, or goes on elsewhere."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

from hooksdk.agent import AgentLoop, Limits
from hooksdk.errors import HostError, SessionBusy
from hooksdk.formats import GivenMessage, GivenTools, get_format
from hooksdk.host import Host
from hooksdk.models import Model
from hooksdk.session import Session
from hooksdk.tools import Tool

logger = logging.getLogger("hooksdk")

T = TypeVar("T")

# The space of the store with the workflow that has each session.
SPACE = "hooksdk.dbos"
# Seconds between two checks whether the run that has the session is over.
TURN = 0.5
# Seconds of waiting for a session between two lines of the log.
PATIENCE = 30.0


@dataclass(eq=False)
class RunMovedOn(HostError):
    """A run cannot go on, since its session has been changed by others."""

    session_id: str
    workflow_id: str

    def __str__(self) -> str:
        return (
            f"workflow '{self.workflow_id}' does not have session '{self.session_id}': it was forked, rewound, or resumed after "
            "another run of the session. Its steps cannot be made again there. Start a run of its own, or fork it at step 1"
        )


@final
@dataclass(frozen=True, kw_only=True)
class Agent:
    """The parts of an agent that are equal in every worker."""

    model: Model
    tools: tuple[Tool, ...] | Callable[[], GivenTools]
    limits: Limits


@final
@dataclass(eq=False)
class Stay:
    """The session and the run, open while a task of their own holds them. So whoever is entered around the run is left
    by the task that entered it, and what a step calls is in no workflow: it cannot shift the workflow's own steps.

    Attributes:
        is_active: Tells whether the run of a workflow id is not over.
        start: The number of messages before the run; None until it is known.
    """

    host: Host
    agent: Agent
    session_id: str
    workflow_id: str
    prompt: str | GivenMessage | None
    options: Mapping[str, Any]
    is_active: Callable[[str], Awaitable[bool]]
    start: int | None = None
    _task: asyncio.Task[None] | None = None
    _opened: asyncio.Future[None] = field(default_factory=asyncio.Future[None])
    _ending: asyncio.Future[BaseException | str | None] = field(
        default_factory=asyncio.Future[BaseException | str | None]
    )
    _loop: AgentLoop | None = None
    _session: Session | None = None
    _context: contextvars.Context = field(default_factory=contextvars.Context)

    @property
    def is_open(self) -> bool:
        """True from the first step until `leave`."""
        return self._task is not None

    async def do(self, work: Callable[[Session, AgentLoop], Coroutine[Any, Any, T]]) -> T:
        """Make a step in the run, and open the run for the first one. A cancellation waits for the end of the step."""
        if self._task is None:
            self._opened, self._ending = asyncio.Future(), asyncio.Future()
            self._task = contextvars.Context().run(asyncio.create_task, self._hold())
        await asyncio.shield(self._opened)
        assert self._session is not None
        assert self._loop is not None
        return await self._context.copy().run(asyncio.create_task, work(self._session, self._loop))

    async def leave(self, ending: BaseException | str | None = None) -> None:
        """End the run and close the session. Without `ending` the run completes, a text pauses it for that reason, and
        an exception ends it as an error. Raises the error of storing its end."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._opened.done():
            self._ending.set_result(ending)
        else:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (problem := task.exception()) is not None and problem is not ending:
            raise problem

    async def _hold(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                session = await self._enter(stack)
                model, message_format = self.agent.model, get_format(self.agent.model.format)
                run = session.run(
                    self.prompt,
                    provider=getattr(model, "provider", None),
                    model=model.name,
                    context_window=model.context_window,
                    format=message_format,
                    deferral=getattr(model, "deferral", None),
                    continues=self.agent.limits.continues,
                    **self.options,
                )
                async with run:
                    loop = AgentLoop(run, model, message_format, self.agent.tools, self.agent.limits)
                    await loop.resolve_tools()
                    self._session, self._loop, self._context = session, loop, contextvars.copy_context()
                    self._opened.set_result(None)
                    ending = await self._ending
                    if isinstance(ending, str):
                        run.pause(ending)
                    elif ending is not None:
                        raise ending
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)
            self._opened.exception()  # marks the error as retrieved: whoever waits for it may have been cancelled

    async def _enter(self, stack: AsyncExitStack) -> Session:
        """Open the session, once no other run has it and no other worker holds it."""
        waited = 0.0
        while True:
            try:
                session = await stack.enter_async_context(self.host.session(self.session_id))
            except SessionBusy as error:
                waited = await self._wait(waited + error.seconds, error.holder or "another worker")
                continue
            if await self._claim(session):
                return session
            await stack.aclose()
            while not await self._may_have(await self.read_claim()):
                waited = await self._wait(waited, "another run of it")

    async def _wait(self, waited: float, whom: str) -> float:
        if waited // PATIENCE != (waited + TURN) // PATIENCE:
            logger.warning("workflow '%s' waits for session '%s': %s has it", self.workflow_id, self.session_id, whom)
        await asyncio.sleep(TURN)
        return waited + TURN

    async def read_claim(self) -> dict[str, Any] | None:
        """The workflow that has the session, and where its run began; None if none has it."""
        return await self.host.store.get_value(SPACE, self.session_id)

    async def _may_have(self, claim: Mapping[str, Any] | None) -> bool:
        return claim is None or claim["workflow"] == self.workflow_id or not await self.is_active(claim["workflow"])

    async def _claim(self, session: Session) -> bool:
        claim = await self.read_claim()
        if claim is not None and claim["workflow"] == self.workflow_id:
            self.start = claim["start"]
            return True
        if not await self._may_have(claim):
            return False  # another workflow was quicker
        if self.start is not None:
            raise RunMovedOn(self.session_id, self.workflow_id)
        self.start = len(session.messages)
        await self.host.store.set_value(SPACE, self.session_id, {"workflow": self.workflow_id, "start": self.start})
        return True

    async def give_up_claim(self) -> None:
        """Free the session for other runs."""
        await self.host.store.delete_value(SPACE, self.session_id)
