"""What the adapters share: a framework's conversation is a session, and each of its runs a run of it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, Protocol, final

import anyio

from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.calls import CallInDoubt, ToolCall, ToolResult
from hooksdk.catalog import ToolContext
from hooksdk.desk.console import MAX_CHARS, MAX_EVIDENCE, clip_visibly, visible
from hooksdk.errors import (
    ApprovalPending,
    ConfigError,
    RunAlreadyOpen,
    RunBlocked,
    WrongArgument,
    check_list,
    did_you_mean,
    refuse,
)
from hooksdk.formats import get_format
from hooksdk.run import Finish, JudgedCall, Run
from hooksdk.session import Session
from hooksdk.tasks import run_shielded
from hooksdk.tools import Tool

FORMAT = get_format("openai-chat")
"""Plugins see one format in every framework."""
NO_LIMIT = 7 * 24 * 3600.0
"""Seconds that a framework's tool may take here: its own limit counts."""
Texts = Mapping[tuple[str, int], str]
"""By call id, and which of the results with this id: the text of each result that is trimmed."""


class SomeHost(Protocol):
    """A `hooksdk.Host` that is open, or a `hooksdk.sync.LazyHost`."""

    @property
    def approver(self) -> Any:
        """Who answers; None: the framework's own pause asks."""
        ...

    async def hold(self, session_id: str, *, idle: float | None = 600.0) -> Session:
        """An open session."""
        ...

    def session(self, session_id: str | None = None, *, wait: float = 5.0) -> AbstractAsyncContextManager[Session]:
        """A session, within a block."""
        ...

    async def in_doubt(self, beginning: str = "") -> dict[str, list[CallInDoubt] | None]:
        """What sessions that are over have left in doubt."""
        ...


@final
class Native:
    """What an executor of a framework's tool gets beside its arguments, and what came of the call that the model made."""

    def __init__(
        self, run: Callable[[str, dict[str, Any], str], Awaitable[object]], read: Callable[[object], ToolResult],
        pauses: type[BaseException] | tuple[type[BaseException], ...],
    ) -> None:  # fmt: skip
        self._run, self._read, self._pauses = run, read, pauses
        self.value: object = None
        """The framework's own value."""
        self.result: ToolResult | None = None
        """The same, as hooksdk has it."""
        self.pause: BaseException | None = None
        """What the tool raised to pause the framework."""

    async def execute(self, name: str, arguments: dict[str, Any], call: ToolCall) -> ToolResult:
        """Run the framework's tool."""
        try:
            value = await self._run(name, arguments, call.id)
        except self._pauses as pause:
            self.pause = pause
            raise ApprovalPending from None
        result = self._read(value)
        if not call.parent_id:  # the model's own call, and none that a tool makes
            self.value, self.result = value, result
        return result


def native_tool(name: str, description: str, parameters: Mapping[str, Any], source: Any, owner: str) -> Tool:
    """A framework's tool. Whoever watches the framework reads its arguments, so it gets no secrets."""

    async def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.native.execute(name, arguments, context.call)

    return Tool(
        name=name, description=description, parameters=parameters, source=source, owner=owner, execute=execute,
        timeout=NO_LIMIT, core=False, keeps_secrets=False,
    )  # fmt: skip


@final
class Conversation:
    """One run of a framework's agent, from its first sign to its end or its pause."""

    def __init__(self, conversations: Conversations, session_id: str) -> None:
        self._all, self.id = conversations, session_id
        self._outer = inside.get()
        self._lock = anyio.Lock()
        self._known: Sequence[Any] | None = None
        self.session: Session
        self.run: Run | None = None
        self.working = 0
        """How many of its calls are at work."""
        self.paused = ""
        """Why it pauses when none is."""

    async def begin(self, prompt: object = None, **more: Any) -> Run:
        """Its run, opened where it is not. `more` are options of `Session.run` that are of this run alone."""
        async with self._lock:
            if self.run is None:
                self.session = await self._opened()
                approver = None if self._all.host.approver is not None else ask_later
                options: dict[str, Any] = {"approver": approver, "deferral": "off", **self._all.options, **more}
                run = self.session.run(prompt, **options)
                try:
                    await run.__aenter__()
                except BaseException:
                    await self._close()
                    raise
                self.run = run
            return self.run

    async def _opened(self) -> Session:
        if self._outer is None:
            return await self._all.host.hold(self.id)
        session = self._outer[0].session.child(self.id)
        await session.__aenter__()
        return session

    async def resolve(self, natives: Sequence[Any], make: Callable[[Any], Tool]) -> Run:
        """The run, with these tools; the same are resolved once."""
        run = await self.begin()
        async with self._lock:
            known = self._known
            if known is None or [*map(id, known)] != [*map(id, natives)]:
                await run.resolve_tools([*map(make, natives)], core=self._all.core)
                self._known = [*natives]
        return run

    async def whole(self, prompt: object, play: Callable[[], Awaitable[Any]]) -> Any:
        """A run that the framework plays in one call: what it answers, from the begin to what comes before the end."""
        if self.working:
            raise RunAlreadyOpen(self.id, self.run.info.run_id if self.run else "")
        self.working += 1
        try:
            await self.begin(prompt)
            return await play()
        except BaseException as error:
            await self.end(error)
            raise

    async def settle(self, answers: Mapping[str, str]) -> None:
        """Calls that the framework answered itself, by their ids: a person's no, and names that it does not know."""
        run = await self.begin()
        for call in run.pending:
            if call.id in answers:
                judged = await run.judge(call)
                if judged.result is None:
                    await judged.refuse(text=answers[call.id], unanswered="not_told")

    async def call(
        self,
        call: ToolCall,
        native: Native,
        ask: Callable[[JudgedCall, ApprovalRequest], Approval],
        judged: JudgedCall | None = None,
    ) -> ToolResult:
        """Take a call from its judging, where it is not judged yet, to its result. `ask` pauses the framework, or answers what a
        person said."""
        if judged is None:
            judged = await (await self.begin()).judge(call)
        while judged.pending is not None:
            await judged.approve(ask(judged, judged.pending))
        if judged.result is not None:
            return judged.result
        token = inside.set((self, call.id))
        try:
            return await judged.execute(native=native)
        except ApprovalPending:
            raise native.pause or AssertionError from None
        finally:
            inside.reset(token)

    async def finish(self, text: str, *, structured: bool = False, can_go_on: bool = True) -> Finish:
        """What the plugins say of the framework's last reply; the run is over where they raise. A `structured` answer is no text
        that a plugin could replace."""
        try:
            finish = await (await self.begin()).finish(text, can_go_on=can_go_on)
            if structured and finish.replaced:
                raise RunBlocked("hooksdk", "a plugin has put a text in the place of a structured answer")
        except BaseException as error:
            await self.end(error)
            raise
        return finish

    async def end(self, error: BaseException | None = None) -> Texts:
        """End the run: by the error, `paused` where something has paused it, else `completed`. Answers what is trimmed then."""
        run, self.run = self.run, None
        self._all.open.pop(self.id, None)
        return {} if run is None else await run_shielded(self._end, run, error)

    async def _end(self, run: Run, error: BaseException | None) -> Texts:
        if self.paused and error is None:
            run.pause(self.paused)
        try:
            await run.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)
            return self.session.trimmed
        finally:
            await self._close()

    async def _close(self) -> None:
        """A sub-agent's session lives as long as its run; the host holds the others."""
        if self._outer is not None:
            await self.session.close()


inside: ContextVar[tuple[Conversation, str] | None] = ContextVar("hooksdk conversation", default=None)
"""The conversation whose tool runs here, and the tool's call: an agent that it runs is a sub-agent."""


@final
class Conversations:
    """The runs of a framework's agent that are open, by session."""

    def __init__(self, host: SomeHost, core: Sequence[str], options: Mapping[str, Any]) -> None:
        check_hook_sdk(host, core, options)
        self.host, self.core, self.options = host, core, options
        self.open: dict[str, Conversation] = {}

    def get(self, session_id: str) -> Conversation:
        """The open one, or a new one. Inside of another's tool it is a sub-agent's, whatever id it has."""
        if (outer := inside.get()) is not None:
            session_id = f"{outer[0].id}/{outer[1]}"
        return self.open.setdefault(session_id, Conversation(self, session_id))

    async def begin(self, session_id: str, prompt: object) -> None:
        """A run begins. One that the framework has left without a word ends first. Raises `RunAlreadyOpen` while its calls are
        at work."""
        before = self.get(session_id)
        if before.run is not None:
            if before.working:
                raise RunAlreadyOpen(before.id, before.run.info.run_id)
            await before.end(RuntimeError("the framework left it"))
        conversation = self.get(session_id)
        try:
            await conversation.begin(prompt)
        except BaseException:
            await conversation.end()
            raise


def check_hook_sdk(host: SomeHost, core: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raises where `HookSDK(...)` was given what no adapter takes. `options` are to be those of `Session.run`."""
    if isinstance(host, type) or not hasattr(host, "hold"):
        refuse("HookSDK(host)", host, "a Host that is open, or a LazyHost", "Plugins go into Host([MyPlugin])")
    known = inspect.signature(Session.run).parameters.keys() - {"self", "input", "format", "transcript"}
    for name in options.keys() - known:
        raise WrongArgument("HookSDK(...)", f"it takes no option {name!r}.{did_you_mean(name, sorted(known))}")
    check_list("HookSDK(core=...)", core, "tool patterns", "Write such as core=['read_file']")


async def ask_later(_request: ApprovalRequest) -> Later:
    """The approver of a run whose framework asks."""
    return Later()


def plain_call(host: SomeHost, entry: str, other: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call it in a lazy host's own event loop. `entry` is what the user called, and `other` what to call with a `Host`."""
    plain = getattr(host, "plain", None)
    if plain is None:
        problem = f"{entry} needs HookSDK(LazyHost(...)), with LazyHost of hooksdk.sync; with a Host call {other}"
        raise ConfigError("HookSDK(host)", (problem,))
    return plain.call(function, *args)


def short_texts(call_ids: Iterable[str | None], texts: Texts) -> list[str | None]:
    """For each message of a framework's list, by the call that it answers, if any: the text in its place, or None."""
    times = Counter[str]()
    found: list[str | None] = []
    for call_id in call_ids:
        found.append(None if call_id is None else texts.get((call_id, times[call_id])))
        times[call_id or ""] += 1
    return found


NO_ANSWER = Approval(False, "the answer was neither an approval nor a refusal", unanswered="not_an_answer")


def read_decision(answer: Any) -> Approval:
    """What a person decided, as LangChain's `HumanInTheLoopMiddleware` has it: anything but an approval is a no."""
    try:
        (decision,) = answer["decisions"]
        kind, message = decision["type"], decision.get("message")
    except (AttributeError, KeyError, TypeError, ValueError):
        kind, message = "", ""
    if kind in {"approve", "reject"}:
        return Approval(True) if kind == "approve" else Approval(False, str(message or ""))
    return NO_ANSWER


def description_of(request: ApprovalRequest) -> str:
    """What a person reads beside the title: why it is asked, and a line for each value that is strange, without what others wrote
    to steer a terminal."""
    strange = [one for one in request.evidence if not one.cleared][:MAX_EVIDENCE]
    lines = [visible(clip_visibly(str(request.mask(str(one))), MAX_CHARS)) for one in strange]
    return "\n".join(filter(None, (request.description, *lines)))
