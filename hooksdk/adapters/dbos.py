"""hooksdk on DBOS: `run_agent` as a durable workflow, for whoever outgrows one machine.

    agent = DurableAgent("support", "openai:gpt-5", tools=[refund])

    async with Host(store=SqlStore(URL)) as host, Worker(host, [agent], {"name": "shop", "system_database_url": URL}):
        handle = await agent.start("ann", "Refund order 7")
        print((await handle.get_result())["text"])

Queues, schedules, versions and retries are DBOS's. Where a worker dies, another one goes on at the next step, and what
the session's journal says of a call that had begun decides whether it may be made again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self, cast, final

from dbos import DBOS, DBOSConfig, EnqueueOptions, WorkflowHandleAsync

from hooksdk.adapters import _dbos_versions as versions
from hooksdk.adapters._dbos_run import TOPIC, DurableOutcome, DurableRun, RunFailed
from hooksdk.adapters._dbos_stay import Agent, RunMovedOn, Stay
from hooksdk.adapters._dbos_versions import ACTIVE, PREFIX, StandingRuns, list_standing
from hooksdk.agent import Limits
from hooksdk.desk import ApprovalDesk
from hooksdk.errors import (
    ConfigError,
    SessionBusy,
    StoreError,
    WrongArgument,
    check,
    check_number,
    check_text,
)
from hooksdk.formats import GivenMessage, GivenTools
from hooksdk.formats.intake import as_tools
from hooksdk.host import Host
from hooksdk.models import Model, get_model
from hooksdk.tasks import describe
from hooksdk.tools import Tool
from hooksdk.transcript import SessionLog, SharingStore

logger = logging.getLogger("hooksdk")

__all__ = ["DurableAgent", "DurableOutcome", "RunFailed", "RunMovedOn", "StandingRuns", "Worker", "list_standing"]

OPTIONS = ("agent_id", "workspace_dir", "requester", "trigger", "metadata", "family")
"""Keywords of `Session.run` that a run may be started with: those whose values are JSON."""


@final
class DurableAgent:
    """An agent whose runs are workflows of DBOS. Make it before the worker begins, in every worker alike: by its name a
    worker knows what to do with a run that another one has left.

    - `name`: of the workflow, and of the queue of its runs.
    - `model`, `tools`, `system`, `limits` are those of `run_agent`; `limits.seconds` is the engine's
      (`workflow_timeout`).
    - `at_once`: how many runs of it one worker has at a time, those that wait for a person among them.
    - `polling`: how often, in seconds, a worker looks for the next runs.

    The runs of one session are one after the other, in the order in which they were started.

    Attributes:
        workflow: DBOS's own workflow, for schedules and workflows of yours: `await agent.workflow(session_id, prompt,
            options)`.
    """

    def __init__(
        self,
        name: str,
        model: Model | str,
        *,
        tools: GivenTools | Callable[[], GivenTools] = (),
        system: str | None = None,
        limits: Limits | None = None,
        at_once: int = 100,
        polling: float = 1.0,
    ) -> None:
        check("DurableAgent(name)", name, str, "the workflow's name")
        check_text("DurableAgent(system=...)", system)
        check_number("DurableAgent(polling=...)", polling, "polling=1")
        limits = Limits() if limits is None else limits
        check("DurableAgent(limits=...)", limits, Limits, "Limits(...)", "Write such as Limits(turns=5)")
        if limits.seconds is not None:
            advice = "give the run a workflow_timeout: agent.start(..., workflow_timeout=60)"
            raise WrongArgument("DurableAgent(limits=Limits(seconds=...))", f"the engine keeps the time; {advice}")
        self.name = name
        self.model = model
        self.system = system
        self.limits = limits
        self.at_once = at_once
        self.polling = polling
        self._tools: tuple[Tool, ...] | Callable[[], GivenTools] = (
            tools if callable(tools) else tuple(as_tools(tools, "DurableAgent(tools=...)"))
        )
        self._worker: Worker | None = None
        self._opened: Model | None = None

        async def run_agent(
            session_id: str, prompt: str | dict[str, Any] | None, options: dict[str, Any] | None = None
        ) -> DurableOutcome:
            return await self._run(session_id, prompt, options or {})

        self.workflow = DBOS.workflow(name=name)(run_agent)

    def __repr__(self) -> str:
        return f"<DurableAgent '{self.name}'>"

    async def start(
        self,
        session_id: str,
        prompt: str | GivenMessage | None,
        *,
        workflow_id: str | None = None,
        requester: Mapping[str, Any] | None = None,
        trigger: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        agent_id: str = "main",
        workspace_dir: str | None = None,
        family: str | None = None,
        **enqueue: Any,
    ) -> WorkflowHandleAsync[DurableOutcome]:
        """Queue a run, in a process with a worker; `await handle.get_result()` answers its outcome. Of several with one
        `workflow_id` one is run, and all have its handle. The other keywords are those of `run_agent`, and then DBOS's
        `EnqueueOptions`, such as `workflow_timeout` in seconds, `priority` and `delay_seconds`."""
        check("agent.start(session_id)", session_id, str, "the session's id")
        options: dict[str, Any] = {
            "agent_id": agent_id,
            "workspace_dir": workspace_dir,
            "requester": requester,
            "trigger": trigger,
            "metadata": metadata,
            "family": family,
        }
        given = {name: value for name, value in options.items() if value is not None}
        queued: dict[str, Any] = {
            "workflow_name": self.name,
            "queue_name": self.name,
            "queue_partition_key": session_id,
            **enqueue,
        }
        if workflow_id is not None:
            queued["workflow_id"] = workflow_id
        return await DBOS.enqueue_workflow_with_options_async(cast("EnqueueOptions", queued), session_id, prompt, given)

    async def _run(self, session_id: str, prompt: Any, options: Mapping[str, Any]) -> DurableOutcome:
        worker, model, workflow_id = self._worker, self._opened, DBOS.workflow_id
        if worker is None or model is None or workflow_id is None:
            raise ConfigError(
                "worker", (f"agent '{self.name}' is in no worker: async with Worker(host, [agent], config)",)
            )
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise WrongArgument(f"a run of '{self.name}'", f"it takes {', '.join(OPTIONS)}, not {', '.join(unknown)}")
        stay = Stay(
            host=worker.host,
            agent=Agent(model=model, tools=self._tools, limits=self.limits),
            session_id=session_id,
            workflow_id=workflow_id,
            prompt=prompt,
            options=options,
            is_active=_is_active,
        )
        return await worker.run(DurableRun(stay=stay, system=self.system, bell=worker))

    async def open_in(self, worker: Worker, stack: AsyncExitStack) -> None:
        """Belong to this worker, with an open model, until the stack is closed."""
        if self._worker is not None:
            raise ConfigError("worker", (f"agent '{self.name}' is in another worker of this process",))
        model = self.model
        self._opened = await stack.enter_async_context(get_model(model)) if isinstance(model, str) else model
        self._worker = worker
        stack.callback(self._close)

    def _close(self) -> None:
        self._worker = self._opened = None


@final
class Worker:
    """DBOS in this process, and the runs of these agents with it.

    `config` is DBOS's own; its `executor_id` gets `hooksdk~` before it, and is unique where none is given. The host's
    store is a `SqlStore`: with one PostgreSQL in both URLs all records are in one database. By leases in the store each
    worker knows which ones have died, and gives their workflows back to the queue: what DBOS needs its Conductor for.
    `look` is how often, in seconds. Leaving the block takes no more runs, waits `drain` seconds for those at work, and
    leaves the others to the next worker.
    """

    def __init__(
        self, host: Host, agents: Sequence[DurableAgent], config: DBOSConfig, *, look: float = 2.0, drain: float = 10.0
    ) -> None:
        check("Worker(host)", host, Host, "an open Host")
        check_number("Worker(look=...)", look, "look=2")
        if not isinstance(host.store, SharingStore):
            advice = "Host(store=SqlStore('postgresql://...')), or SqlStore('sqlite:///FILE') on one machine"
            raise ConfigError(
                "store",
                (f"workers know of each other by leases, and {type(host.store).__name__} has none. Take {advice}",),
            )
        self.host = host
        self.agents = tuple(agents)
        self.config = config
        self.look = look
        self.drain = drain
        self.executor_id = PREFIX + (
            config.get("executor_id") or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        )
        self._stack = AsyncExitStack()
        self._lease: SessionLog | None = None
        self._runs: set[asyncio.Task[Any]] = set()
        # The numbers of the desk's questions that each workflow waits for, and its task.
        self._waiting: dict[str, Sequence[int]] = {}
        self._waiters: dict[str, asyncio.Task[Any]] = {}
        # The versions of which it was said that their runs stand still.
        self._told: Collection[str] = ()

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _open(self) -> None:
        self._stack.push_async_callback(self._let_lease_go)
        self._lease = await self._take_lease()  # before anything runs under its id
        for agent in self.agents:
            await agent.open_in(self, self._stack)
        DBOS(config=versions.with_version({**self.config, "executor_id": self.executor_id}))
        if DBOS.executor_id != self.executor_id:
            raise ConfigError(
                "worker", ("DBOS was made before it: give its configuration to Worker(..., config), which makes it",)
            )
        self._stack.push_async_callback(self._stop)
        DBOS.launch()
        await self.host.store.set_value(versions.SCHEMAS, self.config.get("dbos_system_schema") or "dbos", True)
        await self.host.store.set_value(versions.WORKERS, self.executor_id, DBOS.application_version)
        for agent in self.agents:
            await DBOS.register_queue_async(
                agent.name,
                partition_concurrency=1,
                worker_concurrency=agent.at_once,
                polling_interval_sec=agent.polling,
            )
        for work in (self._recover, self._ring, self._warn):
            task = asyncio.create_task(self._repeat(work), name=f"hooksdk: {work.__name__}")
            self._stack.push_async_callback(_cancel, [task])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _stop(self) -> None:
        """Take no more workflows, wait for those at work, and leave those that wait to the next worker."""
        stopping = asyncio.create_task(
            asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=int(self.drain) + 10)
        )
        until = asyncio.get_running_loop().time() + self.drain
        while self._runs and asyncio.get_running_loop().time() < until:
            await _cancel([self._waiters[one] for one in [*self._waiters]])
            await asyncio.sleep(0.05)
        await _cancel([*self._runs])
        await stopping

    # Runs

    async def run(self, run: DurableRun) -> DurableOutcome:
        """Run a workflow to its end; leaving the worker waits for it."""
        task = asyncio.current_task()
        assert task is not None
        self._runs.add(task)
        try:
            return await run.go()
        finally:
            self._runs.discard(task)

    def add(self, workflow_id: str, questions: Sequence[int]) -> None:
        """Note that a workflow waits for the answers to these questions of the desk."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting[workflow_id], self._waiters[workflow_id] = questions, task

    def remove(self, workflow_id: str) -> None:
        """Note that a workflow waits no more."""
        self._waiting.pop(workflow_id, None)
        self._waiters.pop(workflow_id, None)

    async def _ring(self) -> None:
        """Wake the runs whose questions have been answered, and those that have been cancelled."""
        desk = self.host.approver
        waiting = dict(self._waiting)
        if not waiting:
            return
        cancelled = await DBOS.list_workflows_async(
            workflow_ids=[*waiting], status="CANCELLED", load_input=False, load_output=False
        )
        awake = {one.workflow_id for one in cancelled}
        if isinstance(desk, ApprovalDesk):
            records = desk.records_in(self.host.store)
            for workflow_id, questions in waiting.items():
                if questions and not all([await records.is_pending(number) for number in questions]):
                    awake.add(workflow_id)
        for workflow_id in awake & set(self._waiting):
            self._waiting[workflow_id] = ()
            await DBOS.send_async(workflow_id, None, TOPIC)

    # Workflows of dead workers

    async def _recover(self) -> None:
        """Give the workflows of dead workers back to the queue. The workflows are read before the leases, since a
        worker takes its lease before it runs anything."""
        self._lease = await self._keep_lease()
        pending = await DBOS.list_workflows_async(status="PENDING", load_input=False, load_output=False)
        store = self.host.store
        held = await cast("SharingStore", store).list_held(PREFIX)
        names = {one.executor_id for one in pending if one.executor_id and one.executor_id.startswith(PREFIX)} | set(
            held
        )
        dead = sorted(name for name in names - {self.executor_id} if not held.get(name, False))
        own = {one.executor_id for one in pending if one.app_version == DBOS.application_version}
        if left := [name for name in dead if name in own]:  # runs of another version stay as they are
            logger.info("workers that died: %s; their workflows go on elsewhere", ", ".join(left))
            # Meant for DBOS's Conductor. It takes only workflows that still belong to these executors.
            await asyncio.to_thread(DBOS._recover_pending_workflows, left)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        for name in dead:
            if not await DBOS.list_workflows_async(status="PENDING", executor_id=name, limit=1, load_input=False):
                with suppress(SessionBusy):
                    await store.delete_session(name, wait=0)
                    await store.delete_value(versions.WORKERS, name)

    async def _warn(self) -> None:
        self._told = await versions.warn_of_standing(self.host.store, self.config.get("name"), self._told)

    async def _take_lease(self) -> SessionLog:
        return await self.host.store.open_session(self.executor_id, wait=30)

    async def _keep_lease(self) -> SessionLog:
        assert self._lease is not None
        try:
            await self._lease.verify()
        except (SessionBusy, StoreError):  # another worker has taken this one for dead
            await self._lease.close()
            self._lease = await self._take_lease()
            await self.host.store.set_value(versions.WORKERS, self.executor_id, DBOS.application_version)
        return self._lease

    async def _let_lease_go(self) -> None:
        if self._lease is not None:
            await self._lease.close()
            await self.host.store.delete_session(self.executor_id)
            await self.host.store.delete_value(versions.WORKERS, self.executor_id)

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception as error:
                logger.warning(
                    "worker '%s': %s failed, and is tried again: %s", self.executor_id, work.__name__, describe(error)
                )
            await asyncio.sleep(self.look)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def _is_active(workflow_id: str) -> bool:
    """True for a run that is not over. A queued run is started outside of the queue: whoever asks waits for it, and may
    occupy the last place of the queue."""
    status = await DBOS.get_workflow_status_async(workflow_id)
    if status is not None and status.status == "ENQUEUED":
        await DBOS.resume_workflow_async(workflow_id)
    return status is not None and status.status in ACTIVE
