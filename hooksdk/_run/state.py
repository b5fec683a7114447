"""What one run knows at this moment, and what its session hands to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, final

import anyio

from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._ledger.calls import CallInProgress
from hooksdk._ledger.effects import CallLedger
from hooksdk._masking.mask import SecretMask
from hooksdk._origins.labels import NO_LABELS, UNLABELLED, join_labels
from hooksdk._run.deferral import Declared
from hooksdk._run.families import SessionFamily
from hooksdk._run.masked import RunResults
from hooksdk._run.options import EXPOSE, check_choice, check_deferral
from hooksdk._run.plugin_states import PluginStates
from hooksdk._run.reading import Reading
from hooksdk._run.stats import RunStats
from hooksdk._run.unmatched import UnmatchedNames
from hooksdk.approvals import Approver
from hooksdk.calls import CallInDoubt, Labels, TrimReceipt
from hooksdk.catalog import Catalog
from hooksdk.errors import ConfigError, MissingGrant, RunAlreadyOpen, RunClosed, check_function, refuse
from hooksdk.formats import MessageFormat
from hooksdk.hooks import EndReason, RunInfo
from hooksdk.patterns import ToolPattern
from hooksdk.records import Content, Record, RestoreQueued, TrimQueued
from hooksdk.tools import Deferral, Expose, Tool
from hooksdk.transcript import Results, Store, Transcript

if TYPE_CHECKING:
    from hooksdk.costs import PriceList


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """What a session hands to its runs.

    Attributes:
        tools: The plugins' tools.
        missing_grants: Plugins that may not read or trim results, with the reason.
        secrets: The values that the session's calls were given.
        allowed: Which tools this session may be granted at all: each layer is a sub-agent's, and every layer must
            match.
        parent_run: The run whose sub-agent this session is.
        for_others: True where the run works for one in another process: what that one has read and what the user said
            there is not known.
        contracts: The names of tools that plugins' manifests list, by plugin; one that is not here may have any.
        expose: How the client of a gateway is shown the tools.
        deferral: What the host said of its requests.
        record_first: Run nothing whose decision is not durably written.
        continues: How often plugins may send the model on, instead of letting the run finish.
        drain_early: Drain queued trims before each model call already.
        transcript_kept: False for a host without a model: neither messages nor results are stored.
        in_doubt: Calls of other sessions that are in doubt.
        withhold: Why the host does not grant this run a tool, or None.
    """

    dispatcher: Dispatcher
    transcript: Transcript
    store: Store
    format: MessageFormat
    tools: Sequence[Tool]
    missing_grants: Mapping[str, MissingGrant]
    approver: Approver | None
    states: PluginStates
    family: SessionFamily
    reading: Reading
    secrets: SecretMask
    open_run: OpenRun
    prices: Callable[[], PriceList]
    allowed: Sequence[Sequence[ToolPattern]]
    parent_run: RunState | None = None
    for_others: bool = False
    contracts: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    expose: Expose | None = None
    deferral: Deferral | None = None
    unmatched: UnmatchedNames = field(default_factory=UnmatchedNames)
    record_first: bool = False
    continues: int = 3
    drain_early: bool = False
    transcript_kept: bool = True
    in_doubt: Callable[[], Sequence[CallInDoubt]] | None = None
    withhold: Callable[[Tool], str | None] | None = None

    def __post_init__(self) -> None:
        check_function("session.run(withhold=...)", self.withhold, "def (tool) -> the reason, or None")
        check_function("session.run(in_doubt=...)", self.in_doubt, "def () -> the calls in doubt elsewhere")
        is_count = isinstance(self.continues, int) and not isinstance(self.continues, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_count or self.continues < 0:
            expected = "a whole number of at least 0"
            refuse("session.run(continues=...)", self.continues, expected, "Write such as continues=3")
        check_choice("session.run(expose=...)", self.expose, EXPOSE)
        check_deferral(self.deferral)

    @property
    def limited(self) -> bool:
        """True in a sub-agent's session, and where the host withholds tools."""
        return bool(self.allowed) or self.parent_run is not None or self.withhold is not None

    def why_not(self, tool: Tool) -> str | None:
        """Why this session may not be granted the tool, or None. A bridge opens nothing by itself."""
        if tool.bridge:
            return None
        if self.withhold is not None and (reason := self.withhold(tool)):
            return reason
        if not all(any(pattern.matches(tool) for pattern in layer) for layer in self.allowed):
            return "not granted to this session"
        if self.parent_run is not None and not self.parent_run.has(tool):
            return "the run that this sub-agent belongs to does not have it"
        return None


@final
class OpenRun:
    """The one run that a session has open.

    Attributes:
        run: The open run.
        newest: The open run, or the one that was open last.
    """

    def __init__(self, session_id: str, on_release: Callable[[], None]) -> None:
        self._session_id = session_id
        self.run: RunState | None = None
        self.newest: RunState | None = None
        self._on_release = on_release

    @property
    def info(self) -> RunInfo | None:
        """Of the open run, or of the one that was open last."""
        run = self.run or self.newest
        return None if run is None else run.info

    @property
    def claimed(self) -> bool:
        """True while a run has the session."""
        return self.run is not None

    def claim(self, run: RunState) -> None:
        """Take the session for this run. Raises `RunAlreadyOpen`."""
        if self.run is not None:
            raise RunAlreadyOpen(self._session_id, self.run.info.run_id)
        self.run = run

    def began(self) -> None:
        """The run that has the session was let through."""
        self.newest = self.run

    def release(self, run: RunState) -> None:
        """Let the session go, if this run has it."""
        if self.run is run:
            self.run = None
            self._on_release()


@dataclass
class RunState:
    """What one run knows at this moment.

    Attributes:
        input: What the host gave as the run's input.
        ended: Why it is over; None until then. What runs in other tasks may outlive it.
        replies_at_end: How many replies of the model the transcript had then.
        bridges: Tools that plugins offer beside the catalog, by name.
        runnable: The tools with their executors, by name. Everything else here, and everything that is handed out, is
            without.
        offered: What the model is shown now.
        prefetched: The names of those that are shown for what was asked.
        revealed: Names of what was hidden and is shown since a model call of this run, in that order.
        bridge_names: Names of bridges that another tool has, too: that tool is renamed.
        call_hint: How the model calls what it is not shown.
        keeps_list: The host passes its own list of messages, and not the transcript's.
        asked_model: Messages were prepared for the model, and no reply is recorded since: the calls of the newest
            recorded one are over.
        reminder: What to tell a model whose last reply wrote a call as text.
        continued: How often plugins have sent the model on, instead of letting the run finish; None until they are
            asked.
        calls_over: Made by the run's end: set when no call is at work any more.
    """

    parts: RunParts
    info: RunInfo
    context_window: int | None = None
    input: object = None
    open: bool = False
    ended: EndReason | None = None
    replies_at_end: int | None = None
    catalog: Catalog | None = None
    bridges: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    runnable: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    offered: tuple[Tool, ...] = ()
    prefetched: tuple[str, ...] = ()
    revealed: list[str] = field(default_factory=list[str])
    bridge_names: set[str] = field(default_factory=set[str])
    call_hint: str = ""
    keeps_list: bool = False
    asked_model: bool = False
    reminder: str | None = None
    continued: int | None = None
    calls_over: anyio.Event | None = None

    def __post_init__(self) -> None:
        self.hooks: Dispatcher = self.parts.dispatcher
        parts = self.parts
        self.ledger = CallLedger(
            parts.transcript,
            parts.store,
            self.info,
            parts.secrets,
            transcript_kept=parts.transcript_kept,
            in_doubt_elsewhere=parts.in_doubt,
        )
        self._ids: set[str] = set()
        self._ids_of: Catalog | None = None
        self.declared = Declared(self.parts.format, self.parts.deferral)
        self.secrets: SecretMask = self.parts.secrets
        self.stats = RunStats(self.secrets.text)

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
        return self.granted(name) if work.options.tool is None else work.catalog.get(name)

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

    @property
    def labels(self) -> Labels:
        """What is worth all that was read in this session, and in those whose sub-agent it is."""
        own, parent = self.parts.reading.labels, self.parts.parent_run
        around = parent.labels if parent is not None else UNLABELLED if self.parts.for_others else None
        if around is None:
            return own or NO_LABELS
        return around if own is None else join_labels(own, around)

    def note_result(self, work: CallInProgress, text: str, labels: Labels) -> None:
        """A call's result was read here: the answer of the agent, and the results of the calls around this one, may be
        made of its text, and may repeat its arguments."""
        reading, parent = self.parts.reading, self.parts.parent_run
        reading.note(labels)
        if parent is not None:
            parent.read_below(labels)
        if work.parent is not None:
            work.parent.read.append(labels)
        if "before_tool_call" not in self.hooks.plans:  # nobody asks where values come from
            return
        if work.parent is not None or not self.parts.transcript_kept:
            reading.keep(text, labels, arguments=work.arguments, tool=work.tool_name)
        outer = work.parent
        while outer is not None:
            reading.note_asked(work.arguments, tool=outer.tool_name)
            outer = outer.parent
        if parent is not None:
            parent.said_by_agent(work.tool_name, work.arguments)

    def read_below(self, labels: Labels) -> None:
        """A sub-agent has read something with these labels: it may have been asked by any call that is under way."""
        for work in self.ledger.open_calls:
            if labels not in work.read:
                work.read.append(labels)
        self.parts.reading.note_below(labels)
        if self.parts.parent_run is not None:
            self.parts.parent_run.read_below(labels)

    def said_by_agent(self, tool: str, arguments: Any) -> None:
        """A call of a sub-agent has said this: the sub-agent may have been asked by any call that is under way."""
        for name in {tool, *(work.tool_name for work in self.ledger.open_calls)}:
            self.parts.reading.note_asked(arguments, tool=name, by_agent=True)
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
