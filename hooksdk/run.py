"""One run, top to bottom: the order in which things happen is the order of the methods.

A run is opened by a session, which hands it its parts. It holds no cancel scope and no task group across its body.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, cast, final

import anyio

from hooksdk import hooks, schema
from hooksdk._approvals.request import identity_of
from hooksdk._ledger.calls import CallInProgress, CallOptions
from hooksdk._run import messages as messaging
from hooksdk._run.asking import keep_let_through
from hooksdk._run.call import call_once, end_calls
from hooksdk._run.context import still_held
from hooksdk._run.finishing import Finish, judge_answer, newest_reply, waits_for_finish
from hooksdk._run.hook_steps import AroundStack, fill_for_owner, label_loaded
from hooksdk._run.judged import JudgedCall, judge_call
from hooksdk._run.masked import MaskedEditor
from hooksdk._run.messages import Compaction, PreparedMessages
from hooksdk._run.options import check_deferral
from hooksdk._run.prompts import prompt_text, prompt_texts
from hooksdk._run.state import RunParts, RunState
from hooksdk._run.tools import grant_uncatalogued, settle_tools, tell_settled, with_core
from hooksdk._run.written_calls import notice_text_calls
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe, run_shielded
from hooksdk._transcript.encoding import is_reason
from hooksdk._transcript.journal import Ledger
from hooksdk.calls import CallInDoubt, ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.errors import AsyncOnly, PolicyFailed, RunBlocked, WrongArgument, check
from hooksdk.formats import GivenMessage, GivenTools, Message, MessageFormat, ProviderJson, SdkObject
from hooksdk.formats.intake import as_tools, call_in, messages_in, usage_in
from hooksdk.formats.kit import replies_in
from hooksdk.formats.usage import model_name
from hooksdk.hooks import EndReason, RunInfo
from hooksdk.records import AttemptStarted, Content, ModelCalled, ModelReplied, RunEnded, RunStarted
from hooksdk.tools import Deferral, Tool

__all__ = ["Compaction", "Finish", "JudgedCall", "PreparedMessages", "Run"]

END_TIMEOUT = 60.0
"""Seconds that the end of a run may take in all, before the drain is done without waiting for more handlers."""
NOT_RUN = "not run: cancelled"
FLUSH_TIMEOUT = 5.0
"""Seconds that observers have to see what came before `agent_end`."""


@final
class Run(AsyncOnly):
    """One agent run: from a user's message to the final answer, a pause or an error. `Session.run` opens it.

    ```python
    import anyio
    from hooksdk import Host, Tool, ToolCall

    async def greet(arguments: dict[str, str]) -> str:
        return f"Hello {arguments['name']}"

    async def main() -> None:
        async with Host() as host, host.session("s1") as session, session.run("Greet Ada.") as run:
            await run.resolve_tools([Tool(name="greet", source="host", execute=greet)])
            await run.record({"role": "user", "content": "Greet Ada."})
            call = {"id": "c1", "type": "function", "function": {"name": "greet", "arguments": '{"name": "Ada"}'}}
            await run.record({"role": "assistant", "content": None, "tool_calls": [call]})
            results = [await run.call_tool(call) for call in run.pending]
            assert [result.text for result in results] == ["Hello Ada"]

    anyio.run(main)
    ```

    Leaving the block ends the run: an exception makes it an `error`, `RunBlocked` `blocked`, a cancellation
    `cancelled`, `pause()` before it `paused`; else it is `completed`. Its `agent_end` handlers and the drain of trims
    are done when the block is left.
    """

    def __init__(self, parts: RunParts, info: RunInfo, *, input: object, context_window: int | None) -> None:  # noqa: A002
        self._parts = parts
        self._hooks = parts.dispatcher
        self._transcript = parts.transcript
        self._state = RunState(parts, info, context_window, input)
        self._announced = 0
        # Names and ids that tools of this run had in some attempt, and whose tools they were.
        self._earlier: dict[str, str] = {}
        self._compacting = False
        self._paused: str | None = None
        self._around = AroundStack()

    # What whoever runs it may ask

    def __repr__(self) -> str:
        return f"<Run '{self.info.run_id}' of session '{self.info.session_id}': {'open' if self._state.open else 'not open'}>"

    @property
    def info(self) -> RunInfo:
        """Session, run, attempt, agent, provider, model and so on."""
        return self._state.info

    @property
    def format(self) -> MessageFormat:
        """The format of its messages: `run.format.tools(...)` writes what is offered as the provider's request wants
        it."""
        return self._parts.format

    @property
    def tools(self) -> Catalog:
        """The resolved catalog, for whoever wants to pull instead of being told; its tools have no executors. Raises
        `RunClosed` before it is."""
        return self._state.tools

    @property
    def offered(self) -> Sequence[Tool]:
        """What the model is shown now: it may grow with `prepare_messages`, at its end. Read it before each request."""
        return self._state.offered

    @property
    def definitions(self) -> list[ProviderJson]:
        """What is offered now as the `tools` of a request, with what is declared to the provider without being shown,
        where a plugin does that (`session.run(deferral=...)`); else `run.format.tools(run.offered)`. Ask after
        `prepare_messages`."""
        return self._state.declared.definitions(self._state.offered)

    @property
    def stats(self) -> dict[str, Any]:
        """Counters of this run so far: `docs/reference/stats.md` names them."""
        return self._state.stats.as_dict()

    @property
    def pending(self) -> Sequence[ToolCall]:
        """Calls of the newest reply that have no result yet, such as after a pause."""
        return self._transcript.pending

    @property
    def in_doubt(self) -> Sequence[CallInDoubt]:
        """The session's calls that began, and of which nobody knows how they ended: they may have taken effect. Those
        of the newest reply are among `pending`, too."""
        return self._state.ledger.in_doubt()

    @property
    def reminder(self) -> str | None:
        """What to tell the model when its newest reply wrote a call as text, where it does nothing; else None. Record
        it as a message to go on, or leave it: the trace has noticed it, and such a call is never run."""
        return self._state.reminder

    # A run begins

    async def __aenter__(self) -> Self:
        self._parts.open_run.claim(self._state)
        self._hooks.on_shadow = self._state.stats.in_shadow
        try:
            await self._agent_start()
            if not self._parts.for_others:
                *earlier, newest = prompt_texts(self._state.input, self._parts.format)
                for text in (*(one for one in earlier if not is_reason(one, self._parts.reading.reasons)), newest):
                    self._parts.reading.say(text)
            began = {"model": self.info.model, "folder": self.info.workspace_dir}
            began["requester"] = self.mask(identity_of(self.info.requester))
            began["parent"] = (self.info.metadata or {}).get("parent_session")
            await self._transcript.use_format(self._parts.format, began)
            await self._around.enter(self._state, "around_run", lambda: hooks.AroundRun(info=self.info))
            started = RunStarted(trigger=self.info.trigger, model=self.info.model, provider=self.info.provider)
            await self._state.trace(started, lambda: Content(text=prompt_text(self._state.input, self._parts.format)))
        except BaseException as error:
            self._around.leave()
            self._parts.open_run.release(self._state)
            self._parts.secrets.error(error)
            raise
        self._parts.open_run.began()
        self._state.open = True
        self._transcript.close_fence()
        return self

    async def _agent_start(self) -> None:
        event = hooks.AgentStart(info=self.info, input=self._state.input)
        async for outcome in self._hooks.fire("agent_start", event):
            if outcome.failure is not None:
                raise PolicyFailed("agent_start", outcome.handler.who, str(outcome.failure))
            raise RunBlocked(f"plugin '{outcome.handler.plugin}'", outcome.answer.reason)

    # What the model may use

    async def resolve_tools(
        self,
        tools: GivenTools | Callable[[], GivenTools] = (),
        *,
        core: Sequence[str] | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> list[Tool]:
        """Settle the catalog of this attempt and answer what to offer the model. `tools` are `Tool`s, functions that
        become tools, and definitions in a provider's JSON, which have no executor (`Tool.from_json` gives them one).
        They and the plugins' tools pass `narrow_tools` and `assemble_tools`. What it answers has no executors:
        `call_tool` runs the tools. Raises `PolicyFailed` when a narrowing plugin fails. `core` names the tools of
        yours, by name or pattern, that are always shown, and lets tool search hide the others; without it each says so
        itself (`Tool.core`). `missing` are owners whose tools cannot be called now, by name, and why: a model that
        searches, or calls a tool that is not there, is told. By default it is what the object has as `missing` whose
        method `tools` is, such as an `McpServers`."""
        self._state.check_open()
        state = self._state
        check("run.resolve_tools(missing=...)", missing, (Mapping, type(None)), "a mapping of names to reasons")
        given = [*map(state.itself, as_tools(tools, "run.resolve_tools(...)"))]
        if missing is None:
            source: object = getattr(getattr(tools, "__self__", None), "missing", None)
            missing = cast("Mapping[str, str]", source) if isinstance(source, Mapping) else {}
        earlier = {name for name, owner in self._earlier.items() if owner not in missing}
        candidates = [*(given if core is None else with_core(given, core)), *self._parts.tools]
        try:
            offered = await settle_tools(state, candidates, earlier, missing)
        except BaseException as error:
            state.catalog = None  # what an earlier attempt was granted is granted no more
            state.secrets.error(error)
            raise
        catalog = state.tools
        await state.parts.unmatched.check_patterns(self._hooks, self.info, [*candidates, *catalog, *offered])
        self._earlier |= {name: tool.owner for tool in (*catalog, *offered) for name in (tool.name, tool.id)}
        state.stats.resolved(catalog, offered, state.prefetched)
        await label_loaded(state)
        await tell_settled(state, offered)
        self._after_tools_resolved(catalog)
        return offered

    def _after_tools_resolved(self, catalog: Catalog) -> None:
        if self._compacting or self._announced == self.info.attempt:
            return
        self._announced = self.info.attempt
        if self._hooks.has("after_tools_resolved"):
            event = hooks.AfterToolsResolved(
                info=self.info, catalog=catalog, offered=self._state.offered, prefetched=self._state.prefetched
            )
            self._hooks.observe("after_tools_resolved", event)

    # Each model call

    def use_model(self, *names: tuple[str | None, str], context_window: int | None = None) -> None:
        """Say which model the next requests go to, for a framework that tells so late, or changes it: provider (None:
        not known) and name. Of several names for one model the first that has a price counts. Without a
        `context_window` it is the one that genai-prices has, if any."""
        prices = self._parts.prices()
        known = [one for one in names if len(names) == 1 or prices.price(model_name(*one))] or names
        for provider, model in known[:1]:
            self._state.info = replace(self.info, provider=provider, model=model)
            context_window = context_window or prices.context_window(model_name(provider, model))
        self._state.context_window = context_window or self._state.context_window

    async def prepare_messages(
        self, messages: Sequence[GivenMessage] | None = None, *, follow: bool = False, said: Sequence[str] = ()
    ) -> PreparedMessages:
        """The messages for the next model call: the transcript (or the list that you keep, which must match it) with
        trims applied and the plugins' edits for this request. Raises `TranscriptChanged` for a list that does not
        match, and `RunBlocked` where a plugin says that the request is not made: leave the run then. With `follow` your
        list is the truth: of a fork, or of a list that was filtered or rewritten, the results keep their trims, and no
        compaction is told. Such a list is never refused: what no call of it waits for becomes a text. Of its messages
        in the user's place only those count as the user's that are the run's input or among the texts that were
        `said`."""
        self._state.check_transcript()
        self._state.keeps_list = messages is not None
        if messages is not None:
            await self._show_replies(await messaging.take_messages(self._state, messages, follow=follow, said=said))
        await self._state.ledger.write_running()
        await self._transcript.close_turn("not run: no result came before the next model call")
        if self._parts.drain_early:
            await messaging.drain_trims(self._state)
        prepared = await messaging.before_model_call(self._state, follow=follow)
        self._state.asked_model = True
        self._state.stats.sent(prepared)
        await self._state.trace(ModelCalled(messages=len(prepared), characters=self._state.stats.message_characters))
        return prepared

    async def record(
        self,
        message: GivenMessage | Sequence[GivenMessage],
        *,
        usage: Mapping[str, Any] | SdkObject | None = None,
        stop_reason: str | None = None,
    ) -> None:
        """Append a message (or several) to the transcript; durable when this returns. A reply of the model opens its
        calls and is shown to `after_model_call`. Objects of the provider's SDK are taken as they are; of a whole answer
        its message, usage and reason to stop. Raises `WrongArgument` for what is no message."""
        self._state.check_transcript()
        reply = messages_in(message, self._parts.format, "run.record(...)")
        messages, counts = reply.messages, usage_in(reply.usage if usage is None else usage, "run.record(usage=...)")
        stop_reason = reply.stop_reason if stop_reason is None else stop_reason
        check("run.record(stop_reason=...)", stop_reason, (str, type(None)), "text")
        if self._state.secrets.active:
            messages = [self._state.secrets.value(one) for one in messages]
        await self._transcript.append(messages, messaging.used_by(self._state.info, counts))
        await self._show_replies(messages, counts, stop_reason)
        await self._parts.states.save()

    async def _show_replies(
        self, messages: Sequence[Message], usage: Mapping[str, Any] | None = None, stop_reason: str | None = None
    ) -> None:
        for reply in replies_in(messages, self._parts.format):
            self._state.asked_model = False
            await self._after_model_call(reply, usage, stop_reason)

    async def _after_model_call(
        self, reply: Sequence[Message], usage: Mapping[str, Any] | None, stop_reason: str | None
    ) -> None:
        self._state.stats.replied(usage)
        self._state.reminder = None
        text = "\n".join(filter(None, map(self._parts.format.text, reply)))
        await self._state.trace(ModelReplied(usage=usage or None, stop_reason=stop_reason), lambda: Content(text=text))
        if not any(self._parts.format.calls(message) for message in reply):
            await notice_text_calls(self._state, text)
        if self._hooks.has("after_model_call"):
            for message in reply:
                is_last = message is reply[-1]  # what the reply cost is said once
                event = hooks.AfterModelCall(
                    info=self.info,
                    message=schema.clone(message),
                    usage=usage if is_last else None,
                    stop_reason=stop_reason if is_last else None,
                    prices=self._parts.prices,
                )
                self._hooks.observe("after_model_call", event)
                await self._hooks.attend("after_model_call", event)

    # Each tool call: its steps are in `_run/call.py`

    async def call_tool(
        self, call: ToolCall | GivenMessage, *, only: Callable[[Tool], str | None] | None = None
    ) -> ToolResult:
        """Judge a call, run its tool, and record its result. `call` is one of `pending`, or a call as the provider's
        SDK or API has it. Whatever goes wrong with the call is a result that the model can read; only the host's own
        mistakes raise, and `StoreError` for a record that cannot be written: the run takes no call then.
        `ApprovalPending` is for a call whose approval comes later: call it again then, in this run or in a later one.
        It is judged again, by the policies of now, and runs with the arguments that were judged. A call of the newest
        reply that has its result already, such as when a loop is resumed, is not run again: that result is the answer,
        and while somebody else makes the same call, the one that comes of that. `only` is asked about the real tool
        before anybody judges the call: the reason that it answers refuses it."""
        self._state.check_open()
        call = self._call_of(call, "run.call_tool(...)")
        return await call_once(self._state, CallInProgress(call, options=CallOptions(only=only, at_once=True)))

    def _call_of(self, given: object, where: str) -> ToolCall:
        """A call as the host has it, under the id that it has in the transcript."""
        call = given if isinstance(given, ToolCall) else call_in(given, self._transcript.pending, where)
        return self._transcript.ask(partial(Ledger.stored_call, call=call))

    async def judge(
        self,
        call: ToolCall | GivenMessage,
        *,
        only: Callable[[Tool], str | None] | None = None,
        tool: Tool | None = None,
        made: bool = False,
    ) -> JudgedCall:
        """Take one call through every policy and approval, without running it: for a loop that runs its tools itself.
        One that was judged before is judged again, with the arguments of then, and what was approved of it is not asked
        again. `only` is as for `call_tool`. `tool` is what the call is of where that is none of the catalog, and no
        model is to be offered it, such as a resource that a person picks: the plugins that narrow the catalog are asked
        about it first. One that waited, and was `made` elsewhere since, is not judged again: `supply` it the result."""
        self._state.check_open()
        check("run.judge(tool=...)", tool, (Tool, type(None)), "a Tool")
        call = self._call_of(call, "run.judge(...)")
        options = CallOptions(tool=tool, only=only, made=made)
        return await judge_call(self._state, CallInProgress(call, options=options))

    async def grant(self, tools: Sequence[Tool]) -> Catalog:
        """Which of these tools, that are none of the catalog, the session may have: what `judge(tool=...)` would find
        withheld is in `withheld`. Raises `PolicyFailed` when a narrowing plugin fails."""
        self._state.check_open()
        return await grant_uncatalogued(self._state, tools)

    def mask(self, value: Any) -> Any:
        """A JSON value with the session's secrets as placeholders, for what reaches somebody on another way than by a
        call."""
        return self._state.secrets.value(value) if self._state.secrets.active else value

    async def still_held(self) -> bool:
        """As `ToolContext.still_held`, for tools that run elsewhere. Their fences are `run.info.fences`."""
        return await still_held(self._state)

    async def fill_secrets(self, tool: Tool, value: Any, *, shared: bool = False) -> Any:
        """A copy of a JSON value with each `{{secret:NAME}}` filled in, as for a call of `tool`: for what is started
        before the first call, such as a server with a key in its environment. `shared` is for what others use as well:
        the plugins are told of no requester. The values are masked in the session from then on. Raises `ConfigError`
        for a secret without a value."""
        self._state.check_open()
        return await fill_for_owner(self._state, tool, value, shared=shared)

    # The last reply

    @property
    def waits_for_finish(self) -> bool:
        """True where the session ends with a reply that calls nothing and that no plugin was asked about yet, though
        one handles `before_answer`: `finish` it before you ask the model, where you go on with what a crash has
        left."""
        return self._state.parts.transcript_kept and waits_for_finish(self._state)

    async def finish(
        self, reply: GivenMessage | Sequence[GivenMessage] | str | None = None, *, can_go_on: bool = True
    ) -> Finish:
        """Ask the plugins whether the run may finish with the newest reply, which calls no tool, once it is recorded.
        Where one says no, `refused` is why: it is recorded as a message, so prepare the messages for the model again.
        `reply` is what is judged in its place: a message, or text such as a structured answer. `can_go_on=False` is for
        a loop that is over whatever they say: it counts as a limit that is used up. Raises `RunBlocked` where a plugin
        blocks it: leave the run then. Where no plugin handles `before_answer`, nothing is asked and nothing is
        written."""
        self._state.check_open()
        if isinstance(reply, str):
            text = reply
        elif reply is not None:
            given = messages_in(reply, self._parts.format, "run.finish(...)").messages
            text = "\n".join(filter(None, map(self._parts.format.text, given)))
        else:
            self._state.check_transcript()
            if pending := self.pending:
                problem = f"the newest reply calls '{pending[0].name}', which has no result yet"
                raise WrongArgument(
                    "run.finish()", problem, "Give it the reply that is to be judged, or call the tools first"
                )
            text = newest_reply(self._state)
        return await judge_answer(self._state, self.mask(text), can_go_on=can_go_on)

    # Between turns

    @asynccontextmanager
    async def compaction(self) -> AsyncGenerator[Compaction, None]:
        """While the host shortens its messages: `async with run.compaction() as compaction:`, and in it
        `await compaction.replace(messages)`. The stored messages stay whole; the view starts anew from these."""
        self._state.check_transcript()
        compaction = Compaction(self._transcript, self._state.secrets)
        self._compacting = True
        try:
            if self._hooks.has("before_compaction"):
                event = hooks.BeforeCompaction(info=self.info, tokens=self._transcript.tokens)
                await self._hooks.notify("before_compaction", event)
            yield compaction
            if self._hooks.has("after_compaction"):
                after = hooks.AfterCompaction(info=self.info, tokens=self._transcript.tokens)
                await self._hooks.notify("after_compaction", after)
        finally:
            self._compacting = False

    async def retry(self, *, deferral: Deferral | None = None, reason: str = "") -> None:
        """Begin the next attempt, such as with another model: resolve the tools anew, then go on. `deferral` takes the
        place of what was said when the run began, such as `off` for a provider that refused declared tools. The trace
        has the `reason`."""
        self._state.check_open()
        check_deferral(deferral)
        if deferral is not None:
            self._state.declared.say(deferral)
        self._state.info = replace(self.info, attempt=self.info.attempt + 1)
        await self._state.trace(AttemptStarted(attempt=self.info.attempt, reason=reason))

    def pause(self, reason: str) -> None:
        """Let the run end as `paused` when the block is left: calls without a result stay open for the next run."""
        self._state.check_open()
        check("run.pause(...)", reason, str, "the reason")
        self._paused = reason

    # A run ends

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        reason, message = self._ending(error)
        self._state.open, self._state.ended = False, reason
        self._state.replies_at_end = self._transcript.replies
        problems: list[Exception] = []
        try:
            with anyio.CancelScope(shield=True) as scope:
                scope.deadline = anyio.current_time() + END_TIMEOUT
                await self._end(reason, message, problems)
        finally:
            try:
                await run_shielded(self._make_durable, reason, problems)  # also when asyncio cancels the task once more
            finally:
                self._around.leave()
                self._parts.open_run.release(self._state)
        if problems and error is None:
            raise problems[0]

    def _ending(self, error: BaseException | None) -> tuple[EndReason, str | None]:
        if error is None:
            return ("paused", self._paused) if self._paused is not None else ("completed", None)
        if isinstance(error, RunBlocked):
            return "blocked", self._state.secrets.text(str(error))
        if isinstance(error, (Exception, SystemExit)):
            return "error", describe(error, clean=self._state.secrets.text)
        return "cancelled", None

    async def _end(self, reason: EndReason, message: str | None, problems: list[Exception]) -> None:
        if reason != "paused":
            try:
                await end_calls(self._state)
                await self._state.ledger.record_again()  # of a call that ran nobody says that it did not
                await self._transcript.close_turn(NOT_RUN)
            except Exception as problem:
                problems.append(problem)
        await self._hooks.flush(FLUSH_TIMEOUT)
        self._transcript.open_fence()
        if self._hooks.has("agent_end"):
            editor = MaskedEditor(self._transcript, "agent_end", mask=self._state.secrets)
            event = hooks.AgentEnd(info=self.info, reason=reason, error=message, stats=self.stats, transcript=editor)
            await self._hooks.notify("agent_end", event, backwards=True)

    async def _make_durable(self, reason: EndReason, problems: list[Exception]) -> None:
        """What must happen however the run ended: every call has a result, the queue of trims drains, plugins' state is
        saved."""
        self._transcript.open_fence()
        self._transcript.end_run()

        async def close_turn() -> None:
            await self._state.ledger.record_again()
            await self._state.ledger.write_running()
            if reason == "paused":
                await keep_let_through(self._state)
            elif self._transcript.pending:
                await self._transcript.close_turn(NOT_RUN)

        for step in (
            close_turn,
            partial(messaging.drain_trims, self._state),
            partial(self._parts.family.end_run, reason),
            self._parts.reading.save,
            self._parts.states.save,
            self._transcript.write_ended,
        ):
            try:
                await step()
            except Exception as problem:
                problems.append(problem)
                logger.error("the end of run %s could not be stored: %s", self.info.run_id, describe(problem))
        if reason == "completed":
            self._transcript.forget_ended(self.info.run_id)
        self._transcript.close_fence()
        self._state.stats.log_shadow(self.info.run_id)
        await self._state.trace(RunEnded(reason=reason, stats=self.stats))
