"""What one run knows at this moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._ledger.calls import CallInProgress
from hooksdk._ledger.effects import CallLedger
from hooksdk._masking.mask import SecretMask
from hooksdk._origins.labels import NO_LABELS, UNLABELLED, join_labels
from hooksdk._run.deferral import Declared
from hooksdk._run.parts import ParentRun, RunParts
from hooksdk._run.reading import Reading
from hooksdk._run.shadow import RunResults
from hooksdk._run.stats import RunStats
from hooksdk.calls import Labels, TrimReceipt
from hooksdk.catalog import Catalog
from hooksdk.errors import ConfigError, RunClosed
from hooksdk.hooks import EndReason, RunInfo
from hooksdk.records import Content, Record, RestoreQueued, TrimQueued
from hooksdk.tools import Tool
from hooksdk.transcript import Results


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
            parts.transcript, parts.store, self.info, parts.secrets, transcript_kept=parts.transcript_kept,
            in_doubt_elsewhere=parts.in_doubt,
        )  # fmt: skip
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
        for work in self.ledger.open_calls:
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
        for name in {tool, *(work.tool_name for work in self.ledger.open_calls)}:
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
