"""A reference agent loop over a small `Model` protocol: what `run.py` asks of a host, in one place.

Take it as it is, or as the pattern for a loop of your own. Policies, approvals, traces and trims are done by
the session's plugins; nothing here knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from uuid import uuid4

import anyio

from hooksdk import schema
from hooksdk._run.text_calls import calls_written_in
from hooksdk.approvals import Approver
from hooksdk.calls import ToolCall
from hooksdk.catalog import Catalog
from hooksdk.errors import ApprovalPending, HookSDKError
from hooksdk.formats import Message, MessageFormat, get_format
from hooksdk.run import Run
from hooksdk.session import Session
from hooksdk.tools import Tool

__all__ = ["Limits", "Model", "ModelReply", "ModelUnavailable", "Outcome", "OutcomeReason", "run_agent", "tokens_of"]

OutcomeReason = Literal["completed", "paused", "turn_limit", "token_limit", "time_limit"]
"""Why the agent stopped: it had no more calls to make, calls wait for an approval, or a limit was reached."""
WAITS = "calls wait for an approval"


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """What a model answered.

    ```python
    from hooksdk.agent import ModelReply

    reply = ModelReply(message={"role": "assistant", "content": "Four."}, usage={"input_tokens": 12, "output_tokens": 2})
    assert reply.stop_reason is None
    ```
    """

    message: Message
    """The reply in the session's format, as the provider returned it."""
    more: Sequence[Message] = ()
    """Its further messages, where the format has several to a reply, as `openai-responses` has its items."""
    usage: Mapping[str, Any] | None = None
    """The provider's own counts; numbers are added up under their own names in `Outcome.stats["usage"]`."""
    stop_reason: str | None = None


class Model(Protocol):
    """A model as the loop needs it. A `provider` attribute is passed on to events where there is one.

    ```python
    from hooksdk.agent import Model, ModelReply

    class Echo:
        name, format, context_window = "echo", "openai-chat", None

        async def reply(self, messages, tools) -> ModelReply:
            return ModelReply(message={"role": "assistant", "content": messages[-1]["content"]})

    model: Model = Echo()
    ```
    """

    @property
    def name(self) -> str:
        """The model's name, as events show it."""
        ...

    @property
    def format(self) -> str | MessageFormat:
        """The format of its messages: one of `hooksdk.formats.FORMATS`, or a format object."""
        ...

    @property
    def context_window(self) -> int | None:
        """Its context window in tokens, if it is known."""
        ...

    async def reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """Answer these messages; `tools` are the definitions of what is offered, in the provider's JSON. What it raises
        ends the run; `ModelUnavailable` says that another attempt may go well."""
        ...


@dataclass(eq=False)
class ModelUnavailable(HookSDKError):
    """A model raises this when the same request may go well a little later: a rate limit, an overload, a lost line.

    ```python
    from hooksdk.agent import ModelUnavailable

    class Busy:
        name, format, context_window = "busy", "openai-chat", None

        async def reply(self, messages, tools):
            raise ModelUnavailable("the server is overloaded", seconds=2)
    ```
    """

    problem: str
    seconds: float = 0.0
    """How long to wait before the next attempt."""

    def __str__(self) -> str:
        return self.problem


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one run may take. A turn that has begun is finished, but for `seconds`, which cuts it off.

    ```python
    from hooksdk.agent import Limits

    careful = Limits(turns=5, tokens=50_000, seconds=60, parallel=1)
    ```
    """

    turns: int = 20
    """Model replies."""
    tokens: int | None = None
    """Tokens of all model calls together, by the model's `usage`; estimated where it reports none."""
    seconds: float | None = None
    parallel: int = 8
    """How many calls of one reply run at a time."""
    attempts: int = 1
    """How often the run may be begun in all when the model is unavailable."""
    reminders: int = 0
    """How often a model that writes a call as text into its answer is told how to call, instead of ending the run."""
    text_calls: Literal["notice", "run"] = "notice"
    """`run`: an answer that is nothing but calls written as JSON is read as calls of tools that are offered. Their ids begin
    with `from_text_`."""

    def __post_init__(self) -> None:
        for name in ("turns", "parallel", "attempts"):
            if getattr(self, name) < 1:
                raise ValueError(f"Limits({name}={getattr(self, name)!r}): it must be at least 1")
        if self.reminders < 0:
            raise ValueError(f"Limits(reminders={self.reminders!r}): it must be at least 0")
        if self.text_calls not in ("notice", "run"):
            raise ValueError(f"Limits(text_calls={self.text_calls!r}): it is 'notice' or 'run'")


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
    """

    text: str
    """The prose of the last reply; empty when there was none."""
    reason: OutcomeReason
    turns: int
    """Replies that the model gave."""
    attempts: int
    stats: Mapping[str, Any] = field(repr=False)
    """The run's counters, those of the drain at its end among them."""
    pending: Sequence[ToolCall] = ()
    """The calls that wait, when it is paused. `run_agent(session, model, None)` asks about them again, and goes on."""


async def run_agent(
    session: Session,
    model: Model,
    prompt: str | Message | None,
    *,
    tools: Iterable[Tool] | Callable[[], Iterable[Tool]] = (),
    limits: Limits = DEFAULT_LIMITS,
    system: str | None = None,
    agent_id: str = "main",
    workspace_dir: str | None = None,
    requester: Mapping[str, Any] | None = None,
    trigger: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    approver: Approver | None = None,
) -> Outcome:
    """Run the agent until it answers without calling a tool, or a limit is reached.

    `prompt` is text or a whole message; None goes on where the session stands, and runs the calls that a pause left
    open. `system` is recorded when the session has no messages yet. `tools` may be a function, which is asked again for
    each attempt. `approver` answers in this run, in the place of the host's; while calls wait for its answer, the run is
    paused when the others of the reply have their results. Raises what the model raises (the run ends as `error`), `RunBlocked`, `PolicyFailed` and the errors of
    the store; a cancellation ends the run as `cancelled`. However it ends, no call stays without a result but those that
    wait for an approval.
    """
    message_format = get_format(model.format)
    run = session.run(
        prompt, agent_id=agent_id, workspace_dir=workspace_dir, requester=requester, trigger=trigger,
        metadata=metadata, provider=getattr(model, "provider", None), model=model.name,
        context_window=model.context_window, format=message_format, approver=approver,
    )  # fmt: skip
    loop = _Loop(run, model, message_format, tools if callable(tools) else tuple(tools), limits)
    async with run:
        with anyio.move_on_after(limits.seconds) as clock:
            await loop.begin(prompt, None if session.messages else system)
            await loop.go_on()
        if clock.cancelled_caught:
            loop.reason = "time_limit"
    return Outcome(
        text=loop.text, reason=loop.reason, turns=loop.turns, attempts=run.info.attempt, stats=run.stats,
        pending=tuple(run.pending),
    )  # fmt: skip


@dataclass
class _Loop:
    run: Run
    model: Model
    message_format: MessageFormat
    tools: tuple[Tool, ...] | Callable[[], Iterable[Tool]]
    limits: Limits
    definitions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    text: str = ""
    turns: int = 0
    tokens: int = 0
    reminders: int = 0
    shown: Sequence[Message] = ()
    """What the model was sent last."""
    reason: OutcomeReason = "completed"

    async def begin(self, prompt: str | Message | None, system: str | None) -> None:
        await self.resolve_tools()
        if system:
            await self.run.record({"role": "system", "content": system})
        if prompt is None:
            await self.run_calls(self.run.pending)
        else:
            await self.run.record(self.message_format.user(prompt) if isinstance(prompt, str) else prompt)

    async def resolve_tools(self) -> None:
        self.definitions = self.message_format.tools(await self.run.resolve_tools(self.tools))

    async def go_on(self) -> None:
        while self.reason != "paused":
            if self.turns >= self.limits.turns:
                self.reason = "turn_limit"
                return
            if self.limits.tokens is not None and self.tokens >= self.limits.tokens:
                self.reason = "token_limit"
                return
            reply = await self.ask_model()
            messages = self.with_text_calls([reply.message, *reply.more])
            await self.run.record(messages, usage=reply.usage, stop_reason=reply.stop_reason)
            self.turns += 1
            self.text = "\n".join(filter(None, map(self.message_format.text, messages)))
            calls = [call for message in messages for call in self.message_format.calls(message)]
            if calls:
                await self.run_calls(calls)
            elif self.run.reminder and self.reminders < self.limits.reminders:
                self.reminders += 1
                await self.run.record(self.message_format.user(self.run.reminder))
            else:
                return

    def with_text_calls(self, messages: list[Message]) -> list[Message]:
        """The reply, or the one that it was meant as, where it is calls written as text and these are to be run."""
        if self.limits.text_calls != "run" or any(map(self.message_format.calls, messages)):
            return messages
        offered = Catalog(self.run.offered)

        def name_of(written: str) -> str | None:
            tool = offered.meant(written)
            return tool.name if tool is not None else None

        results = (found.text for message in self.shown for found in self.message_format.results(message))
        text = "\n".join(filter(None, map(self.message_format.text, messages)))
        lead_in, written = calls_written_in(text, name_of, results)
        calls = [ToolCall(f"from_text_{uuid4().hex[:16]}", name, arguments) for name, arguments in written]
        return self.message_format.reply_messages(lead_in, calls) if calls else messages

    async def ask_model(self) -> ModelReply:
        while True:
            messages = self.shown = await self.run.prepare_messages()
            try:
                reply = await self.model.reply(messages, self.definitions)
            except ModelUnavailable as error:
                if self.run.info.attempt >= self.limits.attempts:
                    raise
                await anyio.sleep(error.seconds)
                await self.run.retry()
                await self.resolve_tools()
                continue
            used = tokens_of(reply.usage)
            if used is None:
                used = schema.estimate_tokens([messages, self.definitions, reply.message, *reply.more])
            self.tokens += used
            return reply

    async def run_calls(self, calls: Sequence[ToolCall]) -> None:
        """Each worker takes the next call, so calls begin in their order; the run records the results in it, too."""
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
            self.run.pause(WAITS)
            self.reason = "paused"


_USED = (
    "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
    "prompt_tokens", "completion_tokens",
)  # fmt: skip


def tokens_of(usage: Mapping[str, Any] | None) -> int | None:
    """All tokens of one model call, under whichever names the provider counts them; None when it counts nothing."""
    if usage is None:
        return None
    total = usage.get("total_tokens")
    counts = [total] if isinstance(total, int) else [usage[name] for name in _USED if isinstance(usage.get(name), int)]
    return sum(counts) if counts else None
