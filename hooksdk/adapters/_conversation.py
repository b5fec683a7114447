"""The half that all adapters share: a framework's conversation is a session, and each run of its agent is a run of the
session."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast, final

import anyio

from hooksdk.adapters._calls import NO_LIMIT, Native, Texts
from hooksdk.adapters._hosts import SharedRun
from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.calls import CallInDoubt, ToolCall, ToolResult
from hooksdk.catalog import ToolContext
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
T = TypeVar("T")
# Tells the source and the owner of a framework's tool.
OwnerOf = Callable[[T], tuple[Any, str]]
# Options of `Session.run` that a sub-agent's own host keeps to itself: the hosts of its callers are not told them.
OF_OWN_HOST = ("approver", "family", "in_doubt", "requester", "trigger", "withhold", "workspace_dir")
# Provider and name of a model, as far as the framework knows them.
ModelName = tuple[str | None, str | None]


class SomeHost(Protocol):
    """A `hooksdk.Host` that is open, or a `hooksdk.sync.LazyHost`."""

    @property
    def approver(self) -> Any:
        """Whoever answers questions of policies; None: the framework pauses and asks."""
        ...

    async def hold(self, session_id: str, *, idle: float | None = 600.0) -> Session:
        """An open session."""
        ...

    def session(self, session_id: str | None = None, *, wait: float = 5.0) -> AbstractAsyncContextManager[Session]:
        """A session, within a block."""
        ...

    async def in_doubt(self, beginning: str = "") -> dict[str, list[CallInDoubt] | None]:
        """Calls in doubt of closed sessions, by session id; None for a session that somebody has open."""
        ...


@final
class Conversation:
    """One conversation of a framework's agent, while a run of it is open.

    Attributes:
        key: The session id that the adapter has asked for.
        id: The session id that is used. It differs from `key` where a tool runs several sub-agents at once.
        sub_agents: The session ids of its open sub-agents.
        corrections: Texts for the model in the place of answers that the framework has given itself, such as to a call
            whose outcome is in doubt.
        sessions: The session of each host with its host, the own host first. They stay known after the run's end.
        info: The `RunInfo` of the open run, or of the last one.
        working: The number of calls, or whole runs, that are at work.
        paused: The reason why the run pauses once nothing is at work; empty if it does not.
    """

    def __init__(self, conversations: Conversations, session_id: str) -> None:
        self._conversations, self.key, self.id = conversations, session_id, session_id
        self._outer = inside.get()
        self.sub_agents: set[str] = set()
        if self._outer is not None:
            while self.id in self._outer[0].sub_agents:
                self.id += "+"
            self._outer[0].sub_agents.add(self.id)
        self._lock = anyio.Lock()
        self._known: Sequence[Any] | None = None
        self.corrections: dict[tuple[str, int], str] = {}
        # The user's prompts that the model has not been sent yet.
        self._prompts: Sequence[str] = ()
        # The context window and the names of the model that the framework asks.
        self._asked: Sequence[Any] = ()
        # The model's name in its last reply.
        self._replied = ""
        self.sessions: list[tuple[SomeHost, Session]] = []
        self.run: Run | None = None
        self.info: RunInfo | None = None
        self.working = 0
        self.paused = ""

    async def begin(self, prompts: Sequence[str] = (), *, earlier: Sequence[str] = (), **options: Any) -> Run:
        """The open run; a new one where none is open.

        `prompts` are the texts that the caller hands in as the user's words, and `earlier` those in a history that the
        conversation begins with: nobody knows who wrote the framework's other messages. `options` are those of
        `Session.run` for this run alone.
        """
        async with self._lock:
            if self.run is None:
                try:
                    await self._open()
                    if earlier and self.session.format is None:
                        self._prompts = earlier
                    self._prompts = [*self._prompts, *prompts]
                    prompt = prompts[-1] if prompts else None
                    own, *around = [self._new_run(host, session, prompt, options) for host, session in self.sessions]
                    run = cast("Run", SharedRun(own, around)) if around else own
                    await run.__aenter__()
                except BaseException:
                    await self._close()
                    raise
                self.run, self.info = run, run.info
            return self.run

    @property
    def session(self) -> Session:
        """The session of the own host."""
        return self.sessions[0][1]

    async def _open(self) -> None:
        own, self.sessions = self._conversations.host, []
        outer = self._outer[0].sessions if self._outer else []
        if all(host is not own for host, _ in outer):
            self.sessions.append((own, await own.hold(self.id)))
        for number, (host, session) in enumerate(sorted(outer, key=lambda one: one[0] is not own)):
            child = session.child(self.id if host is own else f"{self.id}/judged-{number}")
            await child.__aenter__()
            self.sessions.append((host, child))

    def _new_run(self, host: SomeHost, session: Session, prompt: object, given: Mapping[str, Any]) -> Run:
        """A run at one host. The hosts of the callers know requester and workspace from their own runs; a sub-agent's
        own host is told them."""
        options: dict[str, Any] = {**self._conversations.options, **given}
        if host is not self._conversations.host:
            options = {name: one for name, one in options.items() if name not in OF_OWN_HOST}
        elif self._outer is not None and len(self.sessions) > 1 and (info := self._outer[0].info) is not None:
            inherited = {name: getattr(info, name) for name in ("requester", "workspace_dir", "family")}
            options = {**inherited, "trigger": "subagent", **options}
        approver = None if host.approver is not None else ask_later
        options = {"approver": approver, "deferral": "off", **options}
        return session.run(prompt, **options)

    async def ask_model(self, *names: ModelName, window: int | None = None) -> None:
        """Tell the run which model the framework asks next, or which ones, the first of which to answer counts."""
        known = [(provider, name) for provider, name in names if name]
        if self._asked != (asked := (window, *known)):
            run = await self.begin()
            self._asked, self._replied, self._known = asked, known[0][1] if len(known) == 1 else "", None
            self._use_model(run, *known, window=window)

    async def note_reply(self, provider: str | None, name: str | None) -> None:
        """Tell the run which model has replied: perhaps another one than the first that was asked, or the same by
        another name."""
        if name and name != self._replied:
            _, *asked = self._asked or (None,)
            self._replied = name
            self._use_model(await self.begin(), (provider or (asked[0][0] if asked else None), name), *asked)

    def _use_model(self, run: Run, *names: tuple[str | None, str], window: int | None = None) -> None:
        """Name the model to the run. The user's own `model`, `provider` and `context_window` override the
        framework's."""
        options = self._conversations.options
        if options.get("model"):
            names = ((None, options["model"]),)
        own = options.get("provider")
        names = tuple((own or provider, name.removeprefix("models/")) for provider, name in names)
        run.use_model(*names, context_window=options.get("context_window") or window)

    async def resolve(self, natives: Sequence[Any], make: Callable[[Any], Tool]) -> Run:
        """The run with these tools of the framework granted. The same tools are resolved once."""
        run = await self.begin()
        async with self._lock:
            known = self._known
            if known is None or [*map(id, known)] != [*map(id, natives)]:
                await run.resolve_tools([*map(make, natives)], core=self._conversations.core)
                self._known = [*natives]
        return run

    async def prepare(self, messages: Sequence[Message]) -> PreparedMessages:
        """The messages for the model, made of those that the framework keeps."""
        prompts, self._prompts = self._prompts, ()
        return await (await self.begin()).prepare_messages(messages, follow=True, said=prompts)

    async def play(
        self, prompts: Sequence[str], play: Callable[[], Awaitable[Any]], *, earlier: Sequence[str] = ()
    ) -> Any:
        """Open the run, let the framework play it by one call, and answer what that answers. The caller ends the run;
        an error ends it here. Raises `RunAlreadyOpen` while another call plays."""
        if self.working:
            raise RunAlreadyOpen(self.id, self.run.info.run_id if self.run else "")
        self.working += 1
        try:
            await self.begin(prompts, earlier=earlier)
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
        """End the open calls that the framework has answered itself, such as by a person's no or for an unknown name.

        `answers` are its texts by call id, and `made` the results of calls that ran outside the framework. `ids` are
        the call ids of all results in the framework's list, in which the adapter then puts the `corrections`.
        """
        run, made = await self.begin(), made or {}
        for call in run.pending:
            if call.id in answers:
                judged = await run.judge(call, made=call.id in made)
                if judged.result is None and judged.pending is None and call.id in made:
                    await judged.supply(made[call.id])
                elif judged.result is None:
                    result = await judged.refuse(text=answers[call.id], unanswered="not_told")
                    if result.text != answers[call.id] and call.id in ids:
                        self.corrections[call.id, ids.count(call.id) - 1] = result.text

    async def call(
        self,
        call: ToolCall,
        native: Native,
        ask: Callable[[JudgedCall, ApprovalRequest], Approval],
        judged: JudgedCall | None = None,
    ) -> ToolResult:
        """Judge a call, unless it is `judged` already, ask where a policy asks, and run the tool. `ask` pauses the
        framework by an exception, or answers what a person has decided."""
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
        """Let the plugins judge the agent's answer. An error ends the run, as does a plugin's text in the place of a
        `structured` answer."""
        try:
            finish = await (await self.begin()).finish(text, can_go_on=can_go_on)
            if structured and finish.replaced:
                raise RunBlocked("hooksdk", "a plugin has put a text in the place of a structured answer")
        except BaseException as error:
            await self.end(error)
            raise
        return finish

    async def end(self, error: BaseException | None = None) -> Texts:
        """End the run: by the error, as `paused` where `paused` says why, else as `completed`. Answers the trimmed
        texts."""
        run, self.run = self.run, None
        self._conversations.open.pop(self.key, None)
        if self._outer is not None:
            self._outer[0].sub_agents.discard(self.id)
        return {} if run is None else await run_shielded(self._end, run, error)

    async def _end(self, run: Run, error: BaseException | None) -> Texts:
        if self.paused and error is None:
            run.pause(self.paused)
        try:
            await run.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)
            trimmed = [session.trimmed for _, session in reversed(self.sessions)]
            return dict(item for texts in (self.corrections, *trimmed) for item in texts.items())
        finally:
            await self._close()

    async def _close(self) -> None:
        """Close a sub-agent's sessions, which live as long as its run; the host holds all others."""
        for _, session in self.sessions if self._outer is not None else ():
            await session.close()


# The conversation whose tool runs here, and the id of the call: an agent that the tool runs is a sub-agent.
inside: ContextVar[tuple[Conversation, str] | None] = ContextVar("hooksdk conversation", default=None)


@final
class Conversations:
    """The open conversations of one `HookSDK(...)`, by session id."""

    def __init__(
        self, host: SomeHost, core: Sequence[str], options: Mapping[str, Any], owner_of: OwnerOf[Any] | None = None
    ) -> None:
        check_hook_sdk(host, core, options)
        self.host, self.core, self.options = host, core, options
        self._owner_of = owner_of
        self.open: dict[str, Conversation] = {}

    def tool(self, native: Any, description: str, parameters: Mapping[str, Any], *, name: str = "") -> Tool:
        """The framework's tool as a `Tool`, whose source and owner are what the user's `owner_of` says."""
        source, owner = self._owner_of(native) if self._owner_of else ("host", "")
        name = name or native.name

        async def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return await context.native.execute(name, arguments, context.call)

        return Tool(
            name=name,
            description=description,
            parameters=parameters,
            source=source,
            owner=owner,
            execute=execute,
            timeout=NO_LIMIT,
            core=False,
            keeps_secrets=False,  # whoever watches the framework reads the arguments
        )

    def get(self, session_id: str, *, anew: bool = False) -> Conversation:
        """The open conversation with this id, or a new one.

        Inside a tool of another conversation it is a sub-agent's, whose id comes from the tool's call; with `anew` it
        is a new one in any case, since a tool may run several at once.
        """
        if (outer := inside.get()) is not None:
            session_id = f"{outer[0].id}/{outer[1]}"
            while anew and session_id in self.open:
                session_id += "+"
        if session_id not in self.open:
            self.open[session_id] = Conversation(self, session_id)
        return self.open[session_id]

    async def begin(self, session_id: str, prompts: Sequence[str], *, earlier: Sequence[str] = ()) -> None:
        """Begin a run. An open one that the framework has abandoned ends first. Raises `RunAlreadyOpen` while its calls
        are at work."""
        left = self.get(session_id)
        if left.run is not None:
            if left.working:
                raise RunAlreadyOpen(left.id, left.run.info.run_id)
            await left.end(RuntimeError("the framework left it"))
        conversation = self.get(session_id)
        try:
            await conversation.begin(prompts, earlier=earlier)
        except BaseException:
            await conversation.end()
            raise


def check_hook_sdk(host: SomeHost, core: Sequence[str], options: Mapping[str, Any]) -> None:
    """Check the arguments of `HookSDK(...)`; `options` are those of `Session.run`. Raises `WrongArgument`."""
    if isinstance(host, type) or not hasattr(host, "hold"):
        refuse("HookSDK(host)", host, "a Host that is open, or a LazyHost", "Plugins go into Host([MyPlugin])")
    known = inspect.signature(Session.run).parameters.keys() - {"self", "input", "format", "transcript"}
    for name in options.keys() - known:
        raise WrongArgument("HookSDK(...)", f"it takes no option {name!r}.{did_you_mean(name, sorted(known))}")
    check_list("HookSDK(core=...)", core, "tool patterns", "Write such as core=['read_file']")


async def ask_later(_request: ApprovalRequest) -> Later:
    """The approver of a run whose framework asks the person."""
    return Later()


def plain_call(host: SomeHost, entry: str, other: str, function: Callable[..., Any], *args: Any) -> Any:
    """Run an async function from plain code, in the event loop of a `LazyHost`. Raises `ConfigError` for a `Host`,
    which names the `entry` that the user called and the `other` one to call."""
    plain = getattr(host, "plain", None)
    if plain is None:
        problem = f"{entry} needs HookSDK(LazyHost(...)), with LazyHost of hooksdk.sync; with a Host call {other}"
        raise ConfigError("HookSDK(host)", (problem,))
    return plain.call(function, *args)


def split_name(name: object) -> ModelName:
    """Provider and name in a router's name, such as `litellm/openai/gpt-4o` or `models/gemini-2.5-flash`."""
    *before, own = str(name or "").split("/")
    return before[-1] if before and before[-1] != "models" else None, own
