"""What one run, and one call in it, know at this moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, final

import anyio

from hooksdk import schema
from hooksdk._approvals.request import ApprovalRequest, Question
from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._masking.mask import SecretMask
from hooksdk._origins.labels import UNLABELLED, join_labels
from hooksdk._run.deferral import Declared
from hooksdk._run.parts import ParentRun, RunParts
from hooksdk._run.reading import Reading
from hooksdk._run.shadow import RunResults
from hooksdk._run.stats import RunStats
from hooksdk._run.waiting_calls import WaitingCalls
from hooksdk._tasks.limits import Attempt
from hooksdk.calls import CallInDoubt, Labels, ToolCall, ToolResult, TrimReceipt
from hooksdk.catalog import Catalog
from hooksdk.errors import ConfigError, RunClosed
from hooksdk.hooks import EndReason, RunInfo
from hooksdk.records import CallStatus, Content, Record, RestoreQueued, TrimQueued
from hooksdk.tools import Tool
from hooksdk.transcript import Results


@dataclass(frozen=True, slots=True)
class CallEnd:
    """What became of a call."""

    status: CallStatus
    result: ToolResult


@final
@dataclass(eq=False)
class CallInProgress:
    """One call on its way through the run."""

    written: ToolCall
    """The call as the model wrote it: the transcript keeps this one."""
    depth: int = 0
    parent: CallInProgress | None = None
    native: object = None
    """What the host gave its executor."""
    call: ToolCall = field(init=False)
    """The call that it stands for."""
    catalog: Catalog = field(init=False)
    """The tools of the run when the call was taken up."""
    beside: Tool | None = None
    """What the host gave for this call, where it is of none of the run's tools."""
    tool: Tool | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    """Final once they are validated; events hand out copies of them, and nobody changes them."""
    problems: Sequence[schema.Problem] = ()
    """What is wrong with them by the tool's schema."""
    own_arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    """The tool's own copy, taken before the first policy sees the call."""
    short_secrets: SecretMask | None = None
    """Values that were filled in and are too short to be looked for in the whole session."""
    attempt: Attempt | None = None
    """The tool's time limit, while it runs."""
    made: bool = False
    """It was judged and handed out before, and was made elsewhere: nobody can keep it from running any more."""
    only: Callable[[Tool], str | None] | None = None
    """Why the real tool may not be run on this way, or None."""
    abandoned: bool = False
    """The tool returned or was given up; a thread of it may go on."""
    questions: tuple[Question, ...] = ()
    """What a person is asked about it, and nobody has answered."""
    granted: tuple[Question, ...] = ()
    """What was asked about it and approved, in this run or an earlier one."""
    answered_by: str | None = None
    """Who approved the last of it; None while nobody has."""
    rewriters: tuple[str, ...] | None = ()
    """The plugins that were asked to rewrite it; None: all of them."""
    again: bool = False
    """It was judged before, in this run or an earlier one, and has waited since."""
    paused: bool = False
    """Its tool has paused."""
    let_through: bool = False
    """It was let through to its tool."""
    recorded: bool = False
    """What was decided about it is written down, as far as anybody writes it."""
    pending: ApprovalRequest | None = None
    """What it waits for."""
    runs_at_once: bool = False
    """It is executed as soon as it is judged, so an approval need not be kept until then."""
    replaced_by: CallInProgress | None = None
    """The same call, made again."""
    at_rest: anyio.Event | None = None
    """Set when nobody takes it further any more; made by whoever waits for that."""
    waiting: int = 0
    """How many wait for that."""
    effect: str = ""
    """The id of its effect, once somebody asked for it."""
    begun: bool = False
    """It is written that it begins."""
    entered: bool = False
    """Its tool may have done something."""
    is_again: bool = False
    """It is made in the place of one in doubt."""
    in_doubt: bool = False
    """Its end is not known."""
    answerer: str = ""
    """The plugin whose answer is its result."""
    read: list[Labels] = field(default_factory=list[Labels])
    """The labels of what its tool has read by calls of its own, and by sub-agents."""
    confirms: bool = False
    """Whoever executes it says when its result has arrived."""
    nested: dict[str, int] = field(default_factory=dict[str, int])
    """How often its tool made a call, by what that call says."""
    judged: bool = False
    running: bool = False
    """Somebody executes it, or supplies its result."""
    end: CallEnd | None = None
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.call = self.written

    @property
    def tool_name(self) -> str:
        """The name of the tool that it is for; empty where there is none."""
        return "" if self.tool is None else self.tool.name

    @property
    def newest(self) -> CallInProgress:
        """The one that stands for this call now."""
        work = self
        while work.replaced_by is not None:
            work = work.replaced_by
        return work

    @contextmanager
    def clock_stopped(self) -> Generator[None, None, None]:
        """While a person is asked, the time of the tools around this call stands still."""
        with ExitStack() as stack:
            outer = self.parent
            while outer is not None:
                if outer.attempt is not None:
                    stack.enter_context(outer.attempt.paused())
                outer = outer.parent
            yield


@dataclass
class RunState:
    """What one run knows at this moment."""

    parts: RunParts
    info: RunInfo
    context_window: int | None = None
    input: object = None
    """What the host gave as the run's input."""
    open: bool = False
    ended: EndReason | None = None
    """Why it is over; None until then. What runs in other tasks may outlive it."""
    replies_at_end: int | None = None
    """How many replies of the model the transcript had then."""
    catalog: Catalog | None = None
    bridges: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools that plugins offer beside the catalog, by name."""
    runnable: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """The tools with their executors, by name. Everything else here, and everything that is handed out, is without."""
    offered: tuple[Tool, ...] = ()
    """What the model is shown now."""
    prefetched: tuple[str, ...] = ()
    """The names of those that are shown for what was asked."""
    revealed: list[str] = field(default_factory=list[str])
    """Names of what was hidden and is shown since a model call of this run, in that order."""
    bridge_names: set[str] = field(default_factory=set[str])
    """Names of bridges that another tool has, too: that tool is renamed."""
    call_hint: str = ""
    """How the model calls what it is not shown."""
    keeps_list: bool = False
    """The host passes its own list of messages, and not the transcript's."""
    asked_model: bool = False
    """Messages were prepared for the model, and no reply is recorded since: the calls of the newest recorded one are over."""
    reminder: str | None = None
    """What to tell a model whose last reply wrote a call as text."""
    continued: int | None = None
    """How often plugins have sent the model on, instead of letting the run finish; None until they are asked."""
    open_calls: list[CallInProgress] = field(default_factory=list[CallInProgress])
    """Calls that were begun and have no result yet."""
    busy: dict[CallInProgress, anyio.CancelScope] = field(default_factory=dict[CallInProgress, anyio.CancelScope])
    """Those of them that somebody takes further now."""
    calls_over: anyio.Event | None = None
    """Made by the run's end: set when no call is at work any more."""

    def __post_init__(self) -> None:
        self.hooks: Dispatcher = self.parts.dispatcher
        self.failures_before: int = self.parts.transcript.unwritten.failures
        """How many records of the session could not be written when the run began."""
        self._ids: set[str] = set()
        self._ids_of: Catalog | None = None
        self.declared = Declared(self.parts.format, self.parts.deferral)
        self.secrets: SecretMask = self.parts.secrets
        self.stats = RunStats(self.secrets.text)

    @cached_property
    def waiting(self) -> WaitingCalls:
        """Calls that were judged and have no result yet."""
        return WaitingCalls(self.parts.transcript, self.info)

    @property
    def tools(self) -> Catalog:
        """The resolved catalog. Raises `RunClosed` before it is."""
        if self.catalog is None:
            raise RunClosed("no tools are resolved yet: call run.resolve_tools(...) first")
        return self.catalog

    def granted(self, name: str) -> Tool | None:
        """The tool that goes by this name in the newest attempt, or the one that a plugin offers under it; None also
        where the run that this is a sub-agent's run of has lost it."""
        tool = None if self.catalog is None else self.catalog.get(name) or self.bridges.get(name)
        parent = self.parts.parent_run
        return tool if tool is None or parent is None or tool.bridge or parent.has(tool) else None

    def granted_to(self, work: CallInProgress, name: str) -> Tool | None:
        """The same for a call, which may be of a tool that the host gave for it alone."""
        return self.granted(name) if work.beside is None else work.catalog.get(name)

    def has(self, tool: Tool) -> bool:
        """True when the newest attempt has a tool of this id."""
        if self._ids_of is not self.catalog:
            self._ids_of = self.catalog
            self._ids = {each.id for each in (*(self.catalog or ()), *self.bridges.values())}
        parent = self.parts.parent_run
        return tool.id in self._ids and (parent is None or parent.has(tool))

    def itself(self, tool: Tool) -> Tool:
        """The tool with its executor, where this run or one around it handed it out without."""
        if tool.execute is None and self.catalog is not None and self.catalog.get(tool.name) is tool:
            return self.runnable[tool.name]
        return self.parts.parent_run.itself(tool) if self.parts.parent_run else tool

    def in_doubt(self) -> list[CallInDoubt]:
        """The session's calls that began, and of which nobody knows how they ended."""
        begun = self.parts.transcript.without_end
        if self.parts.in_doubt is not None:
            own = {one.effect_id for one in begun}
            begun = [*begun, *(one for one in self.parts.in_doubt() if one.effect_id not in own)]
        return [one for one in begun if one.effect_id not in self.at_work] if begun else []

    def asked_about(self) -> list[CallInDoubt]:
        """Those, and the calls that ran and whose reply the conversation has lost: an equal one waits for a person."""
        return [*self.in_doubt(), *self.parts.transcript.lost]

    @property
    def at_work(self) -> frozenset[str]:
        """The effect ids of its calls that have begun and are not over, or whose results are on their way, but for those whose turn
        was closed without their result: the model has read that their end is not known."""
        begun = frozenset(work.effect for work in (*self.open_calls, *self.busy) if work.begun)
        begun = begun - self.parts.transcript.doubted if begun else begun
        return begun | self.parts.transcript.unconfirmed

    @property
    def labels(self) -> Labels:
        """What is worth all that was read in this session, and in those whose sub-agent it is."""
        parent = self.parts.parent_run
        others = UNLABELLED if self.parts.for_others else None
        each = [self.parts.reading.labels, others if parent is None else parent.labels]
        return join_labels(*(labels for labels in each if labels is not None))

    @property
    def reading(self) -> Reading:
        """What the session has read."""
        return self.parts.reading

    @property
    def for_others(self) -> bool:
        """True where it works for a run in another process."""
        return self.parts.for_others

    @property
    def around(self) -> ParentRun | None:
        """The run whose sub-agent's run it is."""
        return self.parts.parent_run

    def read(self, labels: Labels) -> None:
        """Something with these labels was read here, or by a sub-agent: its answer may be made of it."""
        self.parts.reading.note(labels)
        if self.parts.parent_run is not None:
            self.parts.parent_run.read_below(labels)

    def read_below(self, labels: Labels) -> None:
        """The same, of a sub-agent: it may have been asked by any call that is under way."""
        for work in self.open_calls:
            if labels not in work.read:
                work.read.append(labels)
        self.parts.reading.note_below(labels)
        if self.parts.parent_run is not None:
            self.parts.parent_run.read_below(labels)

    def said(self, work: CallInProgress) -> None:
        """A call has said its arguments: the results of those around it, in this run and those around, may repeat them."""
        outer = work.parent
        while outer is not None:
            self.reading.note_asked(work.arguments, tool=outer.tool_name)
            outer = outer.parent
        if self.parts.parent_run is not None:
            self.parts.parent_run.said_by_agent(work.tool_name, work.arguments)

    def said_by_agent(self, tool: str, arguments: Any) -> None:
        """The same, of a sub-agent: it may have been asked by any call that is under way."""
        for name in {tool, *(work.tool_name for work in self.open_calls)}:
            self.reading.note_asked(arguments, tool=name, by_agent=True)
        if self.parts.parent_run is not None:
            self.parts.parent_run.said_by_agent(tool, arguments)

    def check_open(self) -> None:
        """Raise `RunClosed` before the run has begun and after its end."""
        if not self.open:
            what = f"run '{self.info.run_id}' is not open: use it inside `async with session.run(...) as run`"
            raise RunClosed(what)

    def check_transcript(self) -> None:
        """Raise `RunClosed` before and after the run, and `ConfigError` where it keeps no transcript."""
        self.check_open()
        if not self.parts.transcript_kept:
            problem = "this run keeps no messages; leave transcript=False out for a run with a model"
            raise ConfigError("session.run(transcript=False)", (problem,))

    async def trace(self, record: Record, content: Callable[[], Content] | None = None) -> None:
        """Hand a record of this run to the trace; `content` is asked only where somebody listens to it."""
        await self.parts.dispatcher.trace(self.info, record, content)

    def results(self, owner: str) -> Results:
        """The session's results, bound to a plugin; what it queues is told to the trace."""

        async def on_queued(kind: Literal["trim", "restore"], receipt: TrimReceipt) -> None:
            record = TrimQueued if kind == "trim" else RestoreQueued
            before, after = receipt.characters_before, receipt.characters_after
            await self.trace(
                record(plugin=owner, handle=receipt.handle, characters_before=before, characters_after=after)
            )

        missing_grant = self.parts.missing_grants.get(owner)
        return RunResults(
            self.parts.transcript, owner, missing_grant=missing_grant, on_queued=on_queued, mask=self.secrets
        )
