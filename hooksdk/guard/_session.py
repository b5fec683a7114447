"""One session of a coding agent, held open by a task of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, final

import anyio
from anyio.abc import TaskStatus

from hooksdk.approvals import Approval, ApprovalRequest, Later, digest_of
from hooksdk.errors import PolicyFailed, RunBlocked, SessionClosed
from hooksdk.guard._agents import AGENTS, HookEvent, Verdict
from hooksdk.guard._calls import AgentCalls
from hooksdk.host import Host
from hooksdk.run import Run
from hooksdk.session import Session

if TYPE_CHECKING:
    from hooksdk.desk import ApprovalDesk

logger = logging.getLogger("hooksdk")


@final
class AgentSession:
    """One session of an agent, or of a sub-agent: a hooksdk session with a run for each prompt. One task holds both
    open, since the same task must enter and leave a run; hooks hand it steps.

    Attributes:
        used: The time of its last hook.
    """

    def __init__(
        self,
        host: Host,
        event: HookEvent,
        parent: Session | None,
        *,
        shadow: bool,
        continues: int,
        is_over: Callable[[str], bool],
    ) -> None:
        self.ended = anyio.Event()
        self.used = anyio.current_time()
        self._agent = AGENTS[event.agent]
        self._about, self._shadow, self._continues, self._is_over = event, shadow, continues, is_over
        self._is_alone = False
        name = f"guard-{event.agent}-{event.session}"
        self.session = parent.child(f"{parent.id}/{event.helper}") if parent else host.session(name)
        self._run: Run | None = None
        self._calls = AgentCalls(event.agent)
        # Ids of calls that wait at the desk, by the digest of tool and arguments: a repeated call keeps its id.
        self._waiting: dict[str, str] = {}
        # The step that the task takes next, or is taking.
        self._step = _Step()
        self._news = anyio.Event()
        self._turn = anyio.Lock()
        # The reason that the model was given for going on, if any.
        self._reason = ""

    async def keep(self, *, task_status: TaskStatus[None]) -> None:
        """Hold the session open, with one run after the other, until a step ends it."""
        opened = False
        try:
            async with self.session:
                opened = True
                task_status.started()
                step = await self._receive()
                while not step.ends:
                    step = await self._keep_run(step)
        except Exception:
            if not opened:
                raise  # in the task that starts this one
            logger.exception("the guard's session '%s' ended with an error", self.session.id)
        finally:
            self.ended.set()
            self._step.done.set()

    async def _keep_run(self, step: _Step) -> _Step:
        """Hold one run open until a step ends it; returns the next step."""
        about = self._about
        facts = {"agent": about.agent, "session": about.session, "helper": about.helper or None, "shadow": self._shadow}
        run = self.session.run(
            step.prompt or None,
            agent_id=about.helper_type or about.agent,
            workspace_dir=str(about.began_in or about.folder),
            trigger=None if about.helper else "user",
            metadata={"guard": facts},
            transcript=False,
            approver=self._ask,
            continues=self._continues,
        )
        try:
            async with run:
                await run.resolve_tools(self._calls.tools)
                self._run = run
                step.done.set()
                step = await self._receive()
                self._run = None
                if step.blocked is not None:
                    raise step.blocked
                if step.pauses:
                    run.pause("the guard's host is another")
        except (RunBlocked, PolicyFailed) as error:
            step.problem = error
        finally:
            self._run = None
            self._calls.clear()
        if step.ends:
            return step
        step.done.set()
        return await self._receive()

    async def leave(self, *, pauses: bool = False) -> bool:
        """End the run and the session. With `pauses` an open run is paused, for `go_on` to resume it in the next
        session: its limits go on to count. True where a run was paused."""
        async with self._turn:
            pauses = pauses and self._run is not None
            if not self.ended.is_set():
                await self._take(_Step(ends=True, pauses=pauses))
                await self.ended.wait()
            return pauses

    async def go_on(self) -> None:
        """Resume the paused run."""
        async with self._turn:
            if self._run is None:  # a call at the same time may have resumed it
                await self._begin_run("")

    @cached_property
    def _desk(self) -> ApprovalDesk:
        """The desk at which a question waits for a person, where the agent cannot ask it."""
        from hooksdk.desk import ApprovalDesk  # most sessions have no such question

        return ApprovalDesk(wait=0)

    @property
    def _asks(self) -> bool:
        """True where the agent's own question reaches a person."""
        return self._agent.asks and not self._is_alone

    async def answer(self, event: HookEvent, *, alone: bool) -> Verdict:
        """The verdict of the rules on one hook; `alone` as in `Judge.answer`."""
        self._is_alone = alone
        if event.kind == "prompt" and self._run is not None and event.prompt.strip() == self._reason.strip() != "":
            return Verdict()  # Gemini CLI and Qwen Code announce the reason as a prompt
        if event.kind == "prompt" and (
            event.prompt or self._run is None
        ):  # Qwen Code fires an empty one after each result
            async with self._turn:
                await self._end_run()
                return await self._begin_run(event.prompt)
        if event.kind == "stop":
            async with self._turn:
                return await self._finish(event)
        elif event.kind in ("before_call", "after_call"):
            blocked = await self.be_ready(event)
            if blocked.deny:
                return blocked
            if event.kind == "before_call":
                return await self._judge(event)
            assert self._run is not None
            return await self._calls.take_result(self._run, event)
        return Verdict()

    async def be_ready(self, event: HookEvent) -> Verdict:
        """Begin a run if none is open, and add the tool of this call to its catalog; a refusal if no run may begin."""
        async with self._turn:
            blocked = Verdict() if self._run else await self._begin_run("")
            if not blocked.deny:
                await self._know(event)
            return blocked

    async def _begin_run(self, prompt: str) -> Verdict:
        step = _Step(prompt=prompt)
        await self._take(step)
        if self._run is None and step.problem is None:
            raise SessionClosed(self.session.id)
        return Verdict(deny=str(step.problem)) if step.problem else Verdict()

    async def _finish(self, event: HookEvent) -> Verdict:
        """End the run with the model's turn, unless a plugin sends the model on."""
        if self._run is None:  # the turn began with an earlier judge
            await self._begin_run("")
        verdict, blocked = Verdict(), None
        try:
            if self._run is not None:
                verdict = await self._calls.finish(self._run, event)
        except RunBlocked as error:
            verdict, blocked = Verdict(note=f"{error}. The agent has shown the answer all the same"), error
        self._reason = verdict.go_on
        if not verdict.go_on:
            await self._end_run(blocked)
        return verdict

    async def _end_run(self, blocked: RunBlocked | None = None) -> None:
        if self._run is not None:
            await self._take(_Step(blocked=blocked))

    async def _take(self, step: _Step) -> None:
        if not self.ended.is_set():
            self._step = step
            self._news.set()
            await step.done.wait()

    async def _receive(self) -> _Step:
        await self._news.wait()
        self._news = anyio.Event()
        return self._step

    async def _know(self, event: HookEvent) -> None:
        """Add the tool of this call to the catalog, since an agent does not list its tools."""
        assert self._run is not None
        if self._calls.know(event):
            await self._run.resolve_tools(self._calls.tools)

    async def _ask(self, request: ApprovalRequest) -> Approval | Later:
        if self._calls.has_run(request.call.id):
            return Approval(True, by=f"{self._agent.title}, which has run it")
        return Later() if self._asks else await self._desk.ask(request, wait=0, is_over=self._is_over)

    async def _judge(self, event: HookEvent) -> Verdict:
        assert self._run is not None
        same = digest_of([event.tool, event.arguments])
        call_id = self._waiting.pop(same, "") or event.call_id or same
        judged = await self._calls.judge(self._run, event, call_id)
        if judged.pending is not None and not self._asks:
            self._waiting[same] = call_id
            record = await self._desk.records_in(judged.pending.store).find(judged.pending)
            number = f"{record.number}" if record else "N"
            how = f"A person says yes with `hooksdk approvals grant {number}`, and then the same call goes through."
            return Verdict(deny=f"{judged.pending.title}: it waits for a person. {how}")
        return self._calls.let_run(event, judged)


class _Step:
    """A step for the task of a session: begin a run with a prompt, end the open run, or end the session."""

    def __init__(
        self, *, prompt: str = "", ends: bool = False, pauses: bool = False, blocked: RunBlocked | None = None
    ) -> None:
        self.prompt, self.ends, self.pauses, self.blocked = prompt, ends, pauses, blocked
        self.done = anyio.Event()
        self.problem: Exception | None = None
