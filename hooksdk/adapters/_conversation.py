"""What the adapters share: a framework's conversation is a session, and each of its runs a run of it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, Protocol, cast, final

import anyio

from hooksdk.adapters._hosts import Runs
from hooksdk.adapters._native import Native
from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.calls import CallInDoubt, ToolCall, ToolResult
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
from hooksdk.formats import Message, get_format
from hooksdk.hooks import RunInfo
from hooksdk.run import Finish, JudgedCall, PreparedMessages, Run
from hooksdk.session import Session
from hooksdk.tasks import run_shielded
from hooksdk.tools import Tool

# Plugins see one format in every framework.
FORMAT = get_format("openai-chat")
# Options of `Session.run` that one host's run of a sub-agent does not say to another host.
OF_OWN_HOST = ("approver", "family", "in_doubt", "requester", "trigger", "withhold", "workspace_dir")
# Provider and name, as far as the framework knows them.
ModelName = tuple[str | None, str | None]
# By call id, and which of the results with this id: the text of each result that is trimmed.
Texts = Mapping[tuple[str, int], str]


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
class Conversation:
    """One run of a framework's agent, from its first sign to its end or its pause.

    Attributes:
        below: The session ids of its sub-agents that are open: two that one tool runs at once have one each.
        told: What the model is to read in the place of what the framework has answered itself: of a call in doubt that
            it is.
        sessions: Its own host's, and those of the hosts whose sub-agent it is; of its last run, where none is open.
        info: Of its run, or its last one.
        working: How many of its calls are at work.
        paused: Why it pauses when none is.
    """

    def __init__(self, conversations: Conversations, session_id: str) -> None:
        self._all, self.key, self.id = conversations, session_id, session_id
        self._outer = inside.get()
        self.below: set[str] = set()
        if self._outer is not None:
            while self.id in self._outer[0].below:
                self.id += "+"
            self._outer[0].below.add(self.id)
        self._lock = anyio.Lock()
        self._known: Sequence[Any] | None = None
        self.told: dict[tuple[str, int], str] = {}
        # What the caller has handed in as the user's, until the model is sent it.
        self._said: Sequence[str] = ()
        # The model that is asked: its window and its names.
        self._asked: Sequence[Any] = ()
        # The name in its last reply.
        self._replied = ""
        self.sessions: list[tuple[SomeHost, Session]] = []
        self.run: Run | None = None
        self.info: RunInfo | None = None
        self.working = 0
        self.paused = ""

    async def begin(self, said: Sequence[str] = (), *, before: Sequence[str] = (), **more: Any) -> Run:
        """Its run, opened where it is not. `said` is what the caller hands in as the user's, and `before` the same in a history
        that the conversation begins with: of the framework's other messages nobody knows who wrote them. `more` are options of
        `Session.run` that are of this run alone."""
        async with self._lock:
            if self.run is None:
                try:
                    await self._open()
                    if before and self.session.format is None:
                        self._said = before
                    self._said = [*self._said, *said]
                    prompt = said[-1] if said else None
                    own, *around = [self._new_run(host, session, prompt, more) for host, session in self.sessions]
                    run = cast("Run", Runs(own, around)) if around else own
                    await run.__aenter__()
                except BaseException:
                    await self._close()
                    raise
                self.run, self.info = run, run.info
            return self.run

    @property
    def session(self) -> Session:
        """That of its own host."""
        return self.sessions[0][1]

    async def _open(self) -> None:
        own, self.sessions = self._all.host, []
        outer = self._outer[0].sessions if self._outer else []
        if all(host is not own for host, _ in outer):
            self.sessions.append((own, await own.hold(self.id)))
        for number, (host, session) in enumerate(sorted(outer, key=lambda one: one[0] is not own)):
            child = session.child(self.id if host is own else f"{self.id}/judged-{number}")
            await child.__aenter__()
            self.sessions.append((host, child))

    def _new_run(self, host: SomeHost, session: Session, prompt: object, more: Mapping[str, Any]) -> Run:
        """A host around it knows the requester and the workspace of its own run; this one is told them, where it is another."""
        options: dict[str, Any] = {**self._all.options, **more}
        if host is not self._all.host:
            options = {name: one for name, one in options.items() if name not in OF_OWN_HOST}
        elif self._outer is not None and len(self.sessions) > 1 and (info := self._outer[0].info) is not None:
            inherited = {name: getattr(info, name) for name in ("requester", "workspace_dir", "family")}
            options = {**inherited, "trigger": "subagent", **options}
        approver = None if host.approver is not None else ask_later
        options = {"approver": approver, "deferral": "off", **options}
        return session.run(prompt, **options)

    async def ask_model(self, *names: ModelName, window: int | None = None) -> None:
        """The framework asks this model next, or the first of several that answers."""
        known = [(provider, name) for provider, name in names if name]
        if self._asked != (asked := (window, *known)):
            run = await self.begin()
            self._asked, self._replied, self._known = asked, known[0][1] if len(known) == 1 else "", None
            self._use_model(run, *known, window=window)

    async def note_reply(self, provider: str | None, name: str | None) -> None:
        """The reply says of which model it is: of another one where the first has failed, or goes by a name of its own."""
        if name and name != self._replied:
            _, *asked = self._asked or (None,)
            self._replied = name
            self._use_model(await self.begin(), (provider or (asked[0][0] if asked else None), name), *asked)

    def _use_model(self, run: Run, *names: tuple[str | None, str], window: int | None = None) -> None:
        """What the user has said of the model counts more than what the framework says."""
        options = self._all.options
        if options.get("model"):
            names = ((None, options["model"]),)
        own = options.get("provider")
        names = tuple((own or provider, name.removeprefix("models/")) for provider, name in names)
        run.use_model(*names, context_window=options.get("context_window") or window)

    async def resolve(self, natives: Sequence[Any], make: Callable[[Any], Tool]) -> Run:
        """The run, with these tools; the same are resolved once."""
        run = await self.begin()
        async with self._lock:
            known = self._known
            if known is None or [*map(id, known)] != [*map(id, natives)]:
                await run.resolve_tools([*map(make, natives)], core=self._all.core)
                self._known = [*natives]
        return run

    async def prepare(self, messages: Sequence[Message]) -> PreparedMessages:
        """What the model is sent, of a list that the framework keeps."""
        said, self._said = self._said, ()
        return await (await self.begin()).prepare_messages(messages, follow=True, said=said)

    async def whole(
        self, said: Sequence[str], play: Callable[[], Awaitable[Any]], *, before: Sequence[str] = ()
    ) -> Any:
        """A run that the framework plays in one call: what it answers, from the begin to what comes before the end."""
        if self.working:
            raise RunAlreadyOpen(self.id, self.run.info.run_id if self.run else "")
        self.working += 1
        try:
            await self.begin(said, before=before)
            return await play()
        except BaseException as error:
            await self.end(error)
            raise

    async def settle(
        self,
        answers: Mapping[str, str],
        ids: Sequence[str | None] = (),
        *,
        made: Mapping[str, ToolResult] | None = None,
    ) -> None:
        """Calls that the framework answered itself, by their ids: a person's no, and names that it does not know; and those that
        were let through and `made` elsewhere, with what came of them. `ids` are those of all results in the framework's list,
        which has then to say what is `told`."""
        run, made = await self.begin(), made or {}
        for call in run.pending:
            if call.id in answers:
                judged = await run.judge(call, made=call.id in made)
                if judged.result is None and judged.pending is None and call.id in made:
                    await judged.supply(made[call.id])
                elif judged.result is None:
                    result = await judged.refuse(text=answers[call.id], unanswered="not_told")
                    if result.text != answers[call.id] and call.id in ids:
                        self.told[call.id, ids.count(call.id) - 1] = result.text

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
        self._all.open.pop(self.key, None)
        if self._outer is not None:
            self._outer[0].below.discard(self.id)
        return {} if run is None else await run_shielded(self._end, run, error)

    async def _end(self, run: Run, error: BaseException | None) -> Texts:
        if self.paused and error is None:
            run.pause(self.paused)
        try:
            await run.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)
            trimmed = [session.trimmed for _, session in reversed(self.sessions)]
            return dict(item for texts in (self.told, *trimmed) for item in texts.items())
        finally:
            await self._close()

    async def _close(self) -> None:
        """A sub-agent's session lives as long as its run; the host holds the others."""
        for _, session in self.sessions if self._outer is not None else ():
            await session.close()


# The conversation whose tool runs here, and the tool's call: an agent that it runs is a sub-agent.
inside: ContextVar[tuple[Conversation, str] | None] = ContextVar("hooksdk conversation", default=None)


@final
class Conversations:
    """The runs of a framework's agent that are open, by session."""

    def __init__(self, host: SomeHost, core: Sequence[str], options: Mapping[str, Any]) -> None:
        check_hook_sdk(host, core, options)
        self.host, self.core, self.options = host, core, options
        self.open: dict[str, Conversation] = {}

    def get(self, session_id: str, *, anew: bool = False) -> Conversation:
        """The open one, or a new one. Inside of another's tool it is a sub-agent's, whatever id it has, and `anew` one of several
        that the tool runs at once."""
        if (outer := inside.get()) is not None:
            session_id = f"{outer[0].id}/{outer[1]}"
            while anew and session_id in self.open:
                session_id += "+"
        if session_id not in self.open:
            self.open[session_id] = Conversation(self, session_id)
        return self.open[session_id]

    async def begin(self, session_id: str, said: Sequence[str], *, before: Sequence[str] = ()) -> None:
        """A run begins. One that the framework has left without a word ends first. Raises `RunAlreadyOpen` while its calls are
        at work."""
        left = self.get(session_id)
        if left.run is not None:
            if left.working:
                raise RunAlreadyOpen(left.id, left.run.info.run_id)
            await left.end(RuntimeError("the framework left it"))
        conversation = self.get(session_id)
        try:
            await conversation.begin(said, before=before)
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


def split_names(name: str) -> list[ModelName]:
    """All that a router's name can mean: the names of some providers' models have a slash of their own."""
    parts = name.split("/")
    return [split_name(name), *((parts[at - 1], "/".join(parts[at:])) for at in range(len(parts) - 2, 0, -1))]


def split_name(name: object) -> ModelName:
    """Of a name with its provider before it, as routers have it: `litellm/openai/gpt-4o`, `models/gemini-2.5-flash`."""
    *before, own = str(name or "").split("/")
    return before[-1] if before and before[-1] != "models" else None, own


def short_texts(call_ids: Iterable[str | None], texts: Texts) -> list[str | None]:
    """For each message of a framework's list, by the call that it answers, if any: the text in its place, or None."""
    times = Counter[str]()
    found: list[str | None] = []
    for call_id in call_ids:
        found.append(None if call_id is None else texts.get((call_id, times[call_id])))
        times[call_id or ""] += 1
    return found
