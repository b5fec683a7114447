"""A reference agent loop over a small `Model` protocol: all that `run.py` asks of a host, in one place.

Status: stable.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from hooksdk import schema
from hooksdk.agent._replies import check_model, tokens_of, with_written_calls
from hooksdk.approvals import Approver
from hooksdk.calls import ToolCall
from hooksdk.catalog import Catalog
from hooksdk.errors import ApprovalPending, RunBlocked, WrongArgument, check, check_function, check_text
from hooksdk.formats import GivenMessage, GivenTools, Message, MessageFormat, get_format
from hooksdk.formats.intake import as_tools, messages_in
from hooksdk.models import (
    DeferralRefused,
    Model,
    ModelReply,
    ModelUnavailable,
    OnText,
    StreamingModel,
    current_session,
    get_model,
)
from hooksdk.run import Run
from hooksdk.session import Session
from hooksdk.tools import Tool

__all__ = [
    "AgentLoop",
    "Limits",
    "Model",
    "ModelReply",
    "ModelUnavailable",
    "OnText",
    "Outcome",
    "OutcomeReason",
    "StreamingModel",
    "run_agent",
    "tokens_of",
]

OutcomeReason = Literal["completed", "paused", "blocked", "turn_limit", "token_limit", "time_limit"]
"""Why the agent stopped. `paused`: calls wait for an approval. `blocked`: a plugin blocked a request or the answer."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one run. A turn that has begun is finished; `seconds` alone cuts it off.

    ```python
    from hooksdk.agent import Limits

    careful = Limits(turns=5, tokens=50_000, seconds=60, parallel=1)
    ```

    Attributes:
        turns: Model replies.
        tokens: Of all model calls together, by the model's `usage`; estimated where it reports none.
        parallel: How many calls of one reply run at a time.
        attempts: How often the run may begin in all when the model is unavailable.
        continues: How often plugins may send the model on with a reason (`before_answer`), so that no run ends yet.
        reminders: How often a model that writes a call as text is told how to call, instead of ending the run.
        text_calls: `run`: an answer of calls written as JSON is read as calls of offered tools (`from_text_1`).
    """

    turns: int = 20
    tokens: int | None = None
    seconds: float | None = None
    parallel: int = 8
    attempts: int = 1
    continues: int = 3
    reminders: int = 0
    text_calls: Literal["notice", "run"] = "notice"

    def __post_init__(self) -> None:
        for name, least in {"turns": 1, "parallel": 1, "attempts": 1, "reminders": 0, "continues": 0}.items():
            number = getattr(self, name)
            check(f"Limits({name}=...)", number, int, "a whole number")
            if number < least:
                raise WrongArgument(f"Limits({name}={number!r})", f"it must be at least {least}")
        for name in ("tokens", "seconds"):
            check(f"Limits({name}=...)", getattr(self, name), (int, float, type(None)), "a number or None")
        if self.text_calls not in ("notice", "run"):
            raise WrongArgument(f"Limits(text_calls={self.text_calls!r})", "it is 'notice' or 'run'")


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run of the agent ended.

    ```python
    import anyio

    from hooksdk.agent import run_agent
    from hooksdk.testing import ScriptedModel, open_session

    async def main() -> None:
        async with open_session() as session:
            outcome = await run_agent(session, ScriptedModel(["Four."]), "What is two and two?")
        assert (outcome.text, outcome.reason, outcome.turns) == ("Four.", "completed", 1)

    anyio.run(main)
    ```

    Attributes:
        text: The prose of the last reply, as plugins left it; empty when there was none, and when a plugin blocked it.
        turns: Replies that the model gave.
        stats: The run's counters, with those of the trims at its end.
        blocked: The plugin that blocked the next request or the answer, and why, when the reason is `blocked`.
        overruled: Reasons for which plugins wanted the model to go on after `Limits(continues=...)` was used up.
        pending: The calls that wait for an approval when the run is paused. `run_agent(session, model, None)` asks
            again, and goes on.
    """

    text: str
    reason: OutcomeReason
    turns: int
    attempts: int
    stats: Mapping[str, Any] = field(repr=False)
    blocked: str = ""
    overruled: Sequence[str] = ()
    pending: Sequence[ToolCall] = ()


async def run_agent(
    session: Session,
    model: Model | str,
    prompt: str | GivenMessage | None,
    *,
    tools: GivenTools | Callable[[], GivenTools] = (),
    limits: Limits = DEFAULT_LIMITS,
    system: str | None = None,
    agent_id: str = "main",
    workspace_dir: str | None = None,
    requester: Mapping[str, Any] | None = None,
    trigger: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    family: str | None = None,
    approver: Approver | None = None,
    on_text: OnText | None = None,
) -> Outcome:
    """Run the agent until it answers without calling a tool, or a limit is reached.

    `model` is a model, or the name of one as `get_model` takes it, such as `"openai:gpt-5"`, whose key is found in the
    environment. `prompt` is text or a whole message; None goes on where the session stands, and runs the calls that a
    pause left open. `system` is recorded if the session has no messages yet. `tools` are as for `Run.resolve_tools`:
    functions, `Tool`s, a provider's JSON; or a function that answers them, which is asked again for each attempt.
    `approver` answers in this run instead of the host's. While calls wait for its answer, the run is paused when the
    other calls of the reply have their results. `family` is as for `session.run`. `on_text` gets the model's prose: in
    pieces from a `StreamingModel`, whole from any other model. An attempt that fails may have given it some prose
    already.

    Raises what the model raises (the run ends as `error`), `RunBlocked` before the run began, `PolicyFailed` and the
    store's errors; a cancellation ends the run as `cancelled`. However it ends, every call has a result, but for calls
    that wait for an approval.
    """
    check("run_agent(session, ...)", session, Session, "a session", "Open one: `async with host.session() as session`")
    check("run_agent(limits=...)", limits, Limits, "Limits(...)", "Write such as Limits(turns=5)")
    check_text("run_agent(system=...)", system)
    check_function("run_agent(on_text=...)", on_text, "that takes a piece of text")
    async with get_model(model) if isinstance(model, str) else nullcontext(model) as opened:
        check_model(opened)
        message_format = get_format(opened.format)
        if not isinstance(prompt, (str, type(None))):
            (prompt,) = messages_in([prompt], message_format, "run_agent(..., prompt)").messages
        run = session.run(
            prompt,
            agent_id=agent_id,
            workspace_dir=workspace_dir,
            requester=requester,
            trigger=trigger,
            metadata=metadata,
            family=family,
            provider=getattr(opened, "provider", None),
            model=opened.name,
            context_window=opened.context_window,
            format=message_format,
            approver=approver,
            deferral=getattr(opened, "deferral", None),
            continues=limits.continues,
        )
        given = tools if callable(tools) else tuple(as_tools(tools, "run_agent(tools=...)"))
        loop = AgentLoop(run, opened, message_format, given, limits, on_text)
        blocked = ""
        try:
            async with run:
                loop.began = True
                with anyio.move_on_after(limits.seconds) as clock:
                    await loop.begin(prompt, None if session.messages else system)
                    await loop.go_on()
                if clock.cancelled_caught:
                    loop.reason = "time_limit"
        except RunBlocked as error:
            if not loop.began:
                raise
            loop.reason, blocked = "blocked", str(error)
        return Outcome(
            text=loop.text,
            reason=loop.reason,
            turns=loop.turns,
            attempts=run.info.attempt,
            stats=run.stats,
            blocked=blocked,
            overruled=loop.overruled,
            pending=tuple(run.pending),
        )


@dataclass
class AgentLoop:
    """The steps of `run_agent` in an open run, for an engine that makes them one by one and can go on after each.
    `shown`: what the model was sent last. `refused`: it has refused deferred tools, so no later attempt declares any.

    ```python
    import anyio

    from hooksdk.agent import AgentLoop
    from hooksdk.formats import get_format
    from hooksdk.testing import ScriptedModel, open_session

    async def main() -> None:
        async with open_session() as session, session.run() as run:
            loop = AgentLoop(run, ScriptedModel(["Four."]), get_format("openai-chat"))
            await loop.begin("What is two and two?", system=None)
            assert await loop.take_turn() == []
            assert (loop.text, loop.turns) == ("Four.", 1)

    anyio.run(main)
    ```
    """

    run: Run
    model: Model
    message_format: MessageFormat
    tools: tuple[Tool, ...] | Callable[[], GivenTools] = ()
    limits: Limits = DEFAULT_LIMITS
    on_text: OnText | None = None
    definitions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    text: str = ""
    turns: int = 0
    tokens: int = 0
    reminders: int = 0
    refused: bool = False
    shown: Sequence[Message] = ()
    reason: OutcomeReason = "completed"
    overruled: Sequence[str] = ()
    began: bool = False

    async def begin(self, prompt: str | Message | None, system: str | None) -> None:
        """Settle the catalog and record the prompt; without a prompt make the calls that a pause left open."""
        await self.resolve_tools()
        if system:
            await self.run.record({"role": "system", "content": system})
        if prompt is None:
            await self.run_calls(self.run.pending)
        else:
            await self.run.record(self.message_format.user(prompt) if isinstance(prompt, str) else prompt)

    async def resolve_tools(self) -> None:
        """Settle the catalog of this attempt."""
        await self.run.resolve_tools(self.tools)

    async def go_on(self) -> None:
        """Take turns until the run is done, is paused, or is at a limit."""
        if self.run.waits_for_finish and await self.finish():
            return  # the answer was recorded by a process that died
        while self.reason != "paused" and not self.is_at_limit():
            calls = await self.take_turn()
            if calls:
                await self.run_calls(calls)
            elif await self.is_done():
                return

    def is_at_limit(self) -> bool:
        """True, with the reason set, when no other turn may begin."""
        if self.turns >= self.limits.turns:
            self.reason = "turn_limit"
        elif self.limits.tokens is not None and self.tokens >= self.limits.tokens:
            self.reason = "token_limit"
        else:
            return False
        return True

    async def take_turn(self) -> list[ToolCall]:
        """Ask the model, record its reply, and answer the calls in it."""
        reply = await self._ask_model()
        messages = self._with_text_calls([reply.message, *reply.more])
        await self.run.record(messages, usage=reply.usage, stop_reason=reply.stop_reason)
        self.turns += 1
        return self.read_reply(messages)

    def read_reply(self, messages: Sequence[Message]) -> list[ToolCall]:
        """Take the reply's prose as the newest text, and answer its calls."""
        self.text = self._text_of(messages)
        return [call for message in messages for call in self.message_format.calls(message)]

    async def is_done(self) -> bool:
        """Whether the run may end with the newest reply, which has no calls. A model that wrote a call as text is told
        how to call, as often as the limits say."""
        if not self.run.reminder or self.reminders >= self.limits.reminders:
            return await self.finish()
        self.reminders += 1
        await self.run.record(self.message_format.user(self.run.reminder))
        return False

    async def finish(self) -> bool:
        """Whether plugins let the run end with the newest reply."""
        self.text = ""  # no answer before plugins have let it through
        finish = await self.run.finish()
        self.text, self.overruled = finish.text, finish.overruled
        return not finish.refused

    def _with_text_calls(self, messages: list[Message]) -> list[Message]:
        """The reply, with calls in the place of calls that it has written as text, if the limits say so."""
        if self.limits.text_calls != "run" or any(map(self.message_format.calls, messages)):
            return messages
        return with_written_calls(messages, self.shown, Catalog(self.run.offered), self.message_format)

    async def _ask_model(self) -> ModelReply:
        while True:
            messages = self.shown = await self.run.prepare_messages()
            self.definitions = self.run.definitions
            session = current_session.set(self.run.info.session_id)
            try:
                reply = await self._ask(messages)
            except DeferralRefused as error:
                if self.refused:
                    raise
                self.refused = True
                await self.run.retry(deferral="off", reason=str(error))
                await self.resolve_tools()
                continue
            except ModelUnavailable as error:
                if self.run.info.attempt >= self.limits.attempts:
                    raise
                await anyio.sleep(error.seconds)
                await self.run.retry()
                await self.resolve_tools()
                continue
            finally:
                current_session.reset(session)
            used = tokens_of(reply.usage)
            if used is None:
                used = schema.estimate_tokens([messages, self.definitions, reply.message, *reply.more])
            self.tokens += used
            return reply

    async def _ask(self, messages: Sequence[Message]) -> ModelReply:
        if self.on_text is None:
            return await self.model.reply(messages, self.definitions)
        if isinstance(self.model, StreamingModel):
            return await self.model.stream_reply(messages, self.definitions, self.on_text)
        reply = await self.model.reply(messages, self.definitions)
        if text := self._text_of([reply.message, *reply.more]):
            pending = self.on_text(text)
            if inspect.isawaitable(pending):
                await pending
        return reply

    def _text_of(self, messages: Sequence[Message]) -> str:
        return "\n".join(filter(None, map(self.message_format.text, messages)))

    async def run_calls(self, calls: Sequence[ToolCall]) -> None:
        """Make calls at the same time: they begin in their order, in which the run records the results, too."""
        waiting = iter(calls)
        failed: list[Exception] = []
        pending: list[ToolCall] = []

        async def work() -> None:
            for call in waiting:
                try:
                    await self.run.call_tool(call)
                except ApprovalPending:
                    pending.append(call)
                except Exception as error:
                    failed.append(error)
                    group.cancel_scope.cancel()
                    return

        async with anyio.create_task_group() as group:
            for _ in range(min(self.limits.parallel, len(calls))):
                group.start_soon(work)
        if failed:
            raise failed[0]
        if pending:
            self.run.pause("calls wait for an approval")
            self.reason = "paused"
