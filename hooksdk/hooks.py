"""Every hook, in the order in which a run fires them, with its event and its answers.

Each section ends with its decorators: `@hooks.before_tool_call`. `None` means no opinion. Events are frozen, with fresh
copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hooksdk._firing.event import Answer, Around, AroundRun, Block, CallEvent, Checked, Event, RunInfo, Trace
from hooksdk._firing.hook import GRANTS, Hook, define
from hooksdk._firing.twins import Granted
from hooksdk._origins.origin import Origin, Origins, no_origins
from hooksdk._schema.fresh import Fresh, Made
from hooksdk.approvals import Question
from hooksdk.calls import Labels, ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.errors import did_you_mean
from hooksdk.records import CallStatus, EndReason, SessionEndReason
from hooksdk.tools import Deferral, Expose, Tool
from hooksdk.transcript import Results, TranscriptEditor

if TYPE_CHECKING:
    from hooksdk.costs import PriceList

__all__ = [
    "GRANTS",
    "HOOKS",
    "AddContext",
    "AfterCompaction",
    "AfterModelCall",
    "AfterToolCall",
    "AfterToolsResolved",
    "AgentEnd",
    "AgentStart",
    "Answer",
    "Around",
    "AroundRun",
    "AroundToolCall",
    "Ask",
    "AssembleTools",
    "BeforeAnswer",
    "BeforeCompaction",
    "BeforeModelCall",
    "BeforeToolCall",
    "Block",
    "CallStatus",
    "Checked",
    "Continue",
    "EndReason",
    "Event",
    "Label",
    "LabelResult",
    "NarrowTools",
    "Offer",
    "Origin",
    "Origins",
    "RecordDecision",
    "Replace",
    "ReplaceMessages",
    "ResolveSecrets",
    "Reveal",
    "Rewrite",
    "RewriteToolCall",
    "RunInfo",
    "Search",
    "Secrets",
    "SessionEnd",
    "SessionEndReason",
    "SessionStart",
    "ToolCallStart",
    "Trace",
    "TransformToolResult",
    "Trim",
    "UnwrapToolCall",
    "Withhold",
    "after_compaction",
    "after_model_call",
    "after_tool_call",
    "after_tools_resolved",
    "agent_end",
    "agent_start",
    "around_run",
    "around_tool_call",
    "assemble_tools",
    "before_answer",
    "before_compaction",
    "before_model_call",
    "before_tool_call",
    "label_result",
    "narrow_tools",
    "record_decision",
    "resolve_secrets",
    "rewrite_tool_call",
    "session_end",
    "session_start",
    "tool_call_start",
    "trace",
    "transform_tool_result",
    "unwrap_tool_call",
]


@dataclass(frozen=True, kw_only=True)
class SessionStart(Event):
    """A session has opened.

    Attributes:
        resumed: True when the session existed before.
    """

    resumed: bool = False


@define(kind="notify")
def session_start(event: SessionStart) -> None:
    """A session has a new set of plugin instances. Awaited; all handlers run; a failing one is logged."""


@dataclass(frozen=True, kw_only=True)
class AgentStart(Event):
    """A run is about to begin.

    Attributes:
        input: What the host gave as the run's input.
    """

    input: Fresh[Any] = Fresh(None)


@define(kind="decide", timeout=15)
def agent_start(event: AgentStart) -> Block | None:
    """A run is about to begin; nothing is recorded yet. `Block` blocks it, and so does a handler that fails."""


@define(kind="around")
def around_run(event: AroundRun) -> Around | None:
    """Hold something open around a run, in its own task: what the host does until its end sees the context
    variables."""


# What the model may use


@dataclass(frozen=True, kw_only=True)
class NarrowTools(Event):
    """The tools handed to this run, each with the name that the model would see."""

    tools: Sequence[Tool]


@dataclass(frozen=True)
class Withhold(Checked):
    """Take tools away from this run, by name or id."""

    names: Sequence[str]
    reason: str


@define(kind="narrow", timeout=15)
def narrow_tools(event: NarrowTools) -> Withhold | None:
    """Policy takes tools away, once per attempt (and anew when tools are renamed), and once more from the tools that
    plugins offer; it can never add any. Each handler sees what the ones before it left. A handler that fails ends the
    run: `PolicyFailed`."""


@dataclass(frozen=True, kw_only=True)
class AssembleTools(Event):
    """The granted tools that need not be shown; core tools are not among them and cannot be lost.

    Attributes:
        context_window: The model's context window in tokens, if the host knows it.
        tokens: What the deferrable tools' definitions cost together.
        catalog: Every granted tool.
        prompts: What the user asked, the newest first: the run's input and the last user message. Empty without
            `conversation`.
        expose: How a gateway's client is to be shown the tools: as the plugin decides (`auto`), behind a bridge
            whatever they cost (`bridge`, `hybrid`), all of them (`direct`). What is offered is listed to the client
            then, so short words save its tokens. None in an agent's own run.
        deferral: How the run's requests can declare tools that the model is not shown. None: its format could, and
            nobody said whether its provider takes it.
    """

    deferrable: Sequence[Tool]
    context_window: int | None = None
    tokens: int = 0
    catalog: Catalog = field(default=Catalog(), repr=False)
    prompts: Granted[Sequence[str]] = field(default=Granted("conversation", ()), repr=False)
    expose: Expose | None = None
    deferral: Deferral | None = None


@dataclass(frozen=True)
class Offer(Checked):
    """Tools to offer in addition (a new name each), and the names of deferrable tools not to show. What is offered is
    the plugin's, whatever it says of itself, and passes `narrow_tools` as well.

    Attributes:
        call_hint: How the model calls what is not shown, as a sentence for it to read.
        prefetched: Names of deferrable tools that are shown for what was asked: after everything else, in this order.
    """

    tools: Sequence[Tool] = ()
    defer: Sequence[str] = ()
    call_hint: str = ""
    prefetched: Sequence[str] = ()


@dataclass(frozen=True)
class Search(Offer):
    """An `Offer` whose tools find, show and call other tools through the run, and do nothing else: they are bridges,
    with executors too. Without the grant `search` it counts as an `Offer`.

    Attributes:
        declare: Declare what is deferred to the provider, which shows a tool from where a result of the search refers
            to it (`ToolResult.references`). Only where `event.deferral` is not `off`.
    """

    declare: bool = False


@define(kind="transform", timeout=15, grant="offer", answer_grants={Search: "search"})
def assemble_tools(event: AssembleTools) -> Search | Offer | None:
    """Decide what the model is shown, once per attempt. Each handler sees the deferrable tools that are still shown.
    When a handler fails the plain catalog is offered. A granted tool that has an offered tool's name is renamed first,
    and then all handlers are asked anew, those of `narrow_tools` as well."""


@dataclass(frozen=True, kw_only=True)
class AfterToolsResolved(Event):
    """The tools of this attempt are settled.

    Attributes:
        catalog: Every granted tool.
        offered: What the model is shown.
        prefetched: The names of those that are shown for what was asked.
    """

    catalog: Catalog
    offered: Sequence[Tool]
    prefetched: Sequence[str] = ()

    @property
    def fingerprint(self) -> str:
        """A hash of the catalog's names, descriptions and schemas: the same for an unchanged catalog."""
        return self.catalog.fingerprint


@define(kind="observe")
def after_tools_resolved(event: AfterToolsResolved) -> None:
    """The resolved catalog, once per attempt, in the background: never inside a compaction."""


# Each model call


def _no_own_prices() -> PriceList:
    from hooksdk.costs import PriceList

    return PriceList()


@dataclass(frozen=True, kw_only=True)
class BeforeModelCall(Event):
    """The request that is about to be made.

    Attributes:
        messages: The messages as the model would see them.
        context_window: The model's, in tokens, if the host knows it; `tokens` estimates what the messages take of it.
        results: The session's tool results, to list and to trim.
        prices: What models cost, by the configuration's `[prices]` and by genai-prices.
    """

    messages: Fresh[Sequence[Mapping[str, Any]]] = Fresh()
    tokens: int = 0
    context_window: int | None = None
    results: Results = field(repr=False)
    prices: Made[PriceList] = field(default=Made(_no_own_prices), repr=False)


@dataclass(frozen=True)
class AddContext(Checked):
    """Text for the model to read in this request only."""

    text: str


@dataclass(frozen=True)
class ReplaceMessages(Checked):
    """Other messages for this request only; the stored ones stay."""

    messages: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Trim(Checked):
    """Shorten these tool results from now on: journalled, so the bytes are the same next time. `small`: short ones,
    too."""

    handles: Sequence[str]
    reason: str = ""
    small: bool = False


@dataclass(frozen=True)
class Reveal(Checked):
    """Granted tools, by name, to offer from this request on: `run.offered` grows by those that it lacks. Those that are
    declared to a provider which takes additions are added by a message at the end of the conversation instead."""

    names: Sequence[str]


@define(kind="transform", timeout=15, grant="conversation", answer_grants={Reveal: "offer"})
def before_model_call(event: BeforeModelCall) -> AddContext | ReplaceMessages | Trim | Reveal | Block | None:
    """Before each model call. Each handler sees the messages that the ones before it left; a failing one is skipped.
    `Block` ends the run: the request is not made, and `run.prepare_messages` raises `RunBlocked` with the reason."""


@dataclass(frozen=True, kw_only=True)
class AfterModelCall(Event):
    """The model's reply, as recorded.

    Attributes:
        prices: What models cost, by the configuration's `[prices]` and by genai-prices.
    """

    message: Fresh[Mapping[str, Any]] = Fresh()
    usage: Fresh[Mapping[str, Any] | None] = Fresh(None)
    stop_reason: str | None = None
    prices: Made[PriceList] = field(default=Made(_no_own_prices), repr=False)


@define(kind="observe", options={"wait"}, grant="conversation")
def after_model_call(event: AfterModelCall) -> None:
    """The model has replied; in the background. With `wait=True` the run waits for the handler before it goes on: for
    what must be counted before the next call."""


# Each tool call


@dataclass(frozen=True, kw_only=True)
class UnwrapToolCall(CallEvent):
    """A call by a name that means no tool of the catalog: a bridge tool's, or an unknown one.

    Attributes:
        tool: The bridge tool, or None for an unknown name.
    """

    tool: Tool | None = None
    catalog: Catalog = field(repr=False)


@define(kind="first_answer", grant="offer")
def unwrap_tool_call(event: UnwrapToolCall) -> ToolCall | None:
    """Turn a bridge call into the call that it stands for; the first answer counts. The named tool must be in the
    catalog, or be one that the plugin offers itself. A handler that raises is answered to the model; raise `ToolError`
    to choose the words."""


@dataclass(frozen=True, kw_only=True)
class _ToolEvent(CallEvent):
    # The real tool, never the bridge.
    tool: Tool


@dataclass(frozen=True, kw_only=True)
class RewriteToolCall(_ToolEvent):
    """A call whose arguments may still change."""


@dataclass(frozen=True)
class Rewrite(Checked):
    """Other arguments: the whole object, so a key can also be removed."""

    arguments: Mapping[str, Any]


@define(kind="transform", timeout=15, options={"tools"}, grant="rewrite")
def rewrite_tool_call(event: RewriteToolCall) -> Rewrite | None:
    """Change a call's arguments before they are checked and judged. Each handler sees the last one's. A failing handler
    blocks the call."""


@dataclass(frozen=True, kw_only=True)
class BeforeToolCall(_ToolEvent):
    """A call with its final arguments: what is judged is what runs.

    Attributes:
        again: True where this very call was judged before, has waited for a person or for its tool since, and may run
            now: policies are asked once more, so that rules which were tightened meanwhile hold. For a policy that
            counts calls: it has counted this one. A policy that asks answers the same `Ask` as before, which is not
            asked again once a person has said yes to it.
        labels: What is worth all that the agent has read up to now, and those that it works for, joined: `untrusted` is
            among them as soon as one result was. Empty where nothing was read.
        origins: Where the values of an argument come from, looked up when it is called: `event.origins("to")`,
            `event.origins("message.to")`, and `event.origins("**addresses")` for all addresses wherever they stand. One
            `Origin` for each text and number at the path, and for each address in a longer text; none where nothing
            stands there. Raises without the grant `conversation`.
        begun: True where the call was let through to its tool already, which has paused: `tool_call_start` is not fired
            for it again.
    """

    again: bool = False
    labels: Labels = frozenset()
    origins: Granted[Origins] = field(default=Granted("conversation", no_origins), repr=False)
    begun: bool = False


@dataclass(frozen=True)
class Ask(Checked):
    """Ask a person first. Refused when nobody can be asked, when they say no, and after `timeout` seconds. An answer
    counts for the same words, of the same plugin and `rule`: leave what changes from one judging to the next, such as a
    time, out of them.

    Attributes:
        rule: Which rule of the plugin's asks, for a plugin that has several: an answer to one is none to another.
        evidence: Which values are strange, and where they stand: shown to the person before all arguments. No part of
            the words: an answer counts whatever it is.
    """

    title: str
    description: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"
    timeout: float = 120.0
    rule: str = field(default="", kw_only=True)
    evidence: Iterable[Origin] = field(default=(), kw_only=True)


@define(kind="decide", timeout=15, options={"tools"}, answer_grants={Answer: "answer"})
def before_tool_call(event: BeforeToolCall) -> Block | Ask | Answer | None:
    """Judge a call. `Block` beats `Ask` beats `Answer` whatever the order: the first `Block` or `Answer` counts, a
    person is asked all questions at once, and only a `Block` stops later handlers. A handler that raises, is late or
    answers nonsense blocks the call."""


@dataclass(frozen=True, kw_only=True)
class ResolveSecrets(_ToolEvent):
    """A judged call whose arguments hold `{{secret:NAME}}`.

    Attributes:
        names: The names of the secrets that the arguments ask for.
    """

    names: Sequence[str]


@dataclass(frozen=True)
class Secrets(Checked):
    """Values for the placeholders, by name."""

    values: Mapping[str, str] = field(repr=False)


@define(kind="first_answer", options={"tools"}, grant="secrets")
def resolve_secrets(event: ResolveSecrets) -> Secrets | None:
    """Give values for secret placeholders, after the call was judged. Nobody else sees them. A failing handler
    blocks."""


@dataclass(frozen=True, kw_only=True)
class ToolCallStart(_ToolEvent):
    """A call that was judged, and that nothing holds back any more.

    Attributes:
        granted: What a person was asked about it, now or when it waited, and approved.
    """

    granted: tuple[Question, ...] = ()


@define(kind="decide", timeout=15, options={"tools"})
def tool_call_start(event: ToolCallStart) -> Block | None:
    """The call is let through to its tool: once for each call, after every policy and every answer of a person, and
    with the values of its secrets at hand. For what counts calls: one that was blocked or waits is none. `run.judge`
    fires it as it hands out a call that may run. `Block`, and a handler that fails, still hold the call back, though
    handlers before it have counted it."""


@dataclass(frozen=True, kw_only=True)
class RecordDecision(_ToolEvent):
    """A call that may run, with what decided it. Its arguments are as they may be stored: placeholders stand for values
    of secrets.

    Attributes:
        judged_by: The plugins that were asked about the call and let it pass, in firing order; those in shadow mode are
            not among them.
        granted: What a person was asked about it, now or when it waited, and approved.
        approved_by: Who approved the last of it, as the approver says; None where nobody had to.
        labels: What is worth all that the agent has read up to now, as in `BeforeToolCall`.
        effect_id: Stands for what the call does: the same whenever it is made again.
        required: True with `Host(record_first=True)`: the call runs only once it is durably written.
    """

    judged_by: tuple[str, ...] = ()
    granted: tuple[Question, ...] = ()
    approved_by: str | None = None
    labels: Labels = frozenset()
    effect_id: str = ""
    required: bool = False


@define(kind="notify", timeout=15)
def record_decision(event: RecordDecision) -> None:
    """The last step before a call's tool, after `tool_call_start`: write down what was decided. Awaited; all handlers
    run. A failing one is logged; with `Host(record_first=True)` it holds the call back, also one that only reads. Fired
    anew where a call that has waited is judged again."""


@dataclass(frozen=True, kw_only=True)
class AroundToolCall(_ToolEvent):
    """A judged call whose tool runs now.

    Attributes:
        began: When the call began to be judged, in seconds since the epoch.
    """

    began: float = 0.0


@define(kind="around", options={"tools"})
def around_tool_call(event: AroundToolCall) -> Around | None:
    """Hold something open around a tool while it runs, in its own task: it sees the context variables that are set."""


@dataclass(frozen=True, kw_only=True)
class _ResultEvent(CallEvent):
    # None for an unknown one.
    tool: Tool | None = None
    result: ToolResult
    # What became of the call: the tool ran (`ok`, `error`), a plugin answered (`answered`), or it did not run.
    status: CallStatus = "ok"
    # The id of the plugin whose answer the result is; empty where the tool ran, and where the call was refused.
    answered_by: str = ""

    @property
    def handle(self) -> str:
        """Of the earlier result whose text this is once more, such as `r17`; empty for a new one."""
        return self.result.handle


@dataclass(frozen=True, kw_only=True)
class LabelResult(_ResultEvent):
    """A result whose text somebody made, such as the tool, a plugin that answers, or whoever wrote a loaded history:
    not a refusal of hooksdk's own."""


@dataclass(frozen=True)
class Label(Checked):
    """What the text of a result is worth: one label or several, such as `trusted` or `untrusted`."""

    labels: str | Iterable[str]


@define(kind="transform", options={"tools"}, grant="conversation")
def label_result(event: LabelResult) -> Label | None:
    """Say what a result's text is worth, before anybody reads it and before it is stored. All handlers are asked; what
    they, the tool and the result say is joined, so `untrusted` by one of them beats `trusted`. A handler that fails
    says `untrusted`."""


@dataclass(frozen=True, kw_only=True)
class TransformToolResult(_ResultEvent):
    """A result, before it is recorded.

    Attributes:
        count: `event.count("redactions", 1)` adds to a counter of the plugin's own in the run's stats.
    """

    count: Callable[[str, int], None] = field(default=lambda _counter, _amount=1: None, repr=False)


@dataclass(frozen=True)
class Replace(Checked):
    """Another result for the same call, or another answer of the run. Text replaces the old text and the structured
    form; other content stays."""

    result: ToolResult | str


@define(kind="transform", timeout=15, options={"tools", "required"}, grant="conversation")
def transform_tool_result(event: TransformToolResult) -> Replace | None:
    """Change a result before the model sees it and before it is stored. When a handler fails the result is kept; when
    the handler is `required=True` (a redactor) the result is withheld."""


@dataclass(frozen=True, kw_only=True)
class AfterToolCall(CallEvent):
    """What became of a call."""

    tool: Tool | None = None
    result: ToolResult
    status: CallStatus = "ok"
    seconds: float = 0.0


@define(kind="observe", options={"tools"}, grant="conversation")
def after_tool_call(event: AfterToolCall) -> None:
    """Fires once for every call, whatever became of it; in the background."""


# Runs and sessions end


@dataclass(frozen=True, kw_only=True)
class BeforeAnswer(Event):
    """The model's last reply, which calls no tool: with it the run completes.

    Attributes:
        text: Its prose, as the handlers before have left it; of a structured answer its JSON.
        input: What the host gave as the run's input; None where it goes on with what an earlier run has left.
        continued: How often the model was sent on already, instead of finishing.
        limit: How often it is sent on at most: a `Continue` counts for nothing once `continued` has come to it.
        results: The session's tool results, to list and to read; none in a run that keeps no messages.
    """

    text: str
    input: Fresh[Any] = Fresh(None)
    continued: int = 0
    limit: int = 3
    results: Results = field(repr=False)


@dataclass(frozen=True)
class Continue(Checked):
    """Not done yet: the loop goes on, with the reason as a message to the model."""

    reason: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.reason.strip():
            raise ValueError("Continue(reason=...) is empty: say what is missing, since the model reads it")


@define(kind="decide", timeout=15, options={"required"}, grant="conversation")
def before_answer(event: BeforeAnswer) -> Continue | Replace | Block | None:
    """May the run finish with this reply? `Block` beats `Continue` beats `Replace`, whatever the order: a `Block` ends
    the run and later handlers are not asked, the reasons of all `Continue`s are one message to the model, and each
    handler sees the text that the ones before it left. Observers have seen what came before. A handler that fails lets
    the reply through; one that is `required=True` blocks it then."""


@dataclass(frozen=True, kw_only=True)
class AgentEnd(Event):
    """A run is over, and the fence is open.

    Attributes:
        error: The error's type and text, when the reason is `error`; who blocked and why, when it is `blocked`; the
            pause's reason, when it is `paused`.
        transcript: The one place where a transcript may be edited; closed once `agent_end` is over.
    """

    reason: EndReason = "completed"
    error: str | None = None
    stats: Fresh[Mapping[str, Any]] = Fresh()
    transcript: TranscriptEditor = field(repr=False)


@define(kind="notify", timeout=30, grant="conversation")
def agent_end(event: AgentEnd) -> None:
    """A run is over, however it ended. Awaited, in reverse order; then the queue of trims drains."""


@dataclass(frozen=True, kw_only=True)
class SessionEnd(Event):
    """A session is closing."""

    reason: SessionEndReason = "closed"


@define(kind="notify")
def session_end(event: SessionEnd) -> None:
    """A session is closing. Awaited, within the close's time limit; a failing handler is logged."""


@dataclass(frozen=True, kw_only=True)
class BeforeCompaction(Event):
    """The host is about to shorten its transcript."""

    tokens: int = 0


@define(kind="notify", grant="conversation")
def before_compaction(event: BeforeCompaction) -> None:
    """The host is about to compact its messages."""


@dataclass(frozen=True, kw_only=True)
class AfterCompaction(Event):
    """The host has shortened its transcript."""

    tokens: int = 0


@define(kind="notify", grant="conversation")
def after_compaction(event: AfterCompaction) -> None:
    """The host has compacted its messages."""


@define(kind="trace")
def trace(event: Trace) -> None:
    """Records of everything above, in order, none lost. A handler that stalls past its limit is taken out."""


HOOKS: Mapping[str, Hook[Any, Any]] = {hook.name: hook for hook in list(globals().values()) if type(hook) is Hook}  # pyright: ignore[reportUnknownVariableType]
"""Every hook by its name, in firing order."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        advice = did_you_mean(name, HOOKS if name.islower() else __all__) or " See docs/reference/hooks.md."
        raise AttributeError(f"hooksdk has no hook or event called '{name}'.{advice}", name=name)
