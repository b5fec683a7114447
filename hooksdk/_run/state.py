"""What one run knows at this moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._run.parts import RunParts
from hooksdk._run.stats import RunStats
from hooksdk.calls import ResultInfo, Results, TrimReceipt
from hooksdk.catalog import Catalog
from hooksdk.errors import RunClosed
from hooksdk.hooks import RunInfo
from hooksdk.records import Record, RestoreQueued, TrimQueued
from hooksdk.tools import Tool

if TYPE_CHECKING:
    from hooksdk._run.call import CallInProgress

__all__ = ["RunState"]


@dataclass
class RunState:
    """What one run knows at this moment."""

    parts: RunParts
    info: RunInfo
    context_window: int | None = None
    open: bool = False
    catalog: Catalog | None = None
    bridges: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools that plugins offer beside the catalog, by name."""
    bridge_names: set[str] = field(default_factory=set[str])
    """Names of bridges that another tool has, too: that tool is renamed."""
    call_hint: str = ""
    """How the model calls what it is not shown."""
    reminder: str | None = None
    """What to tell a model whose last reply wrote a call as text."""
    open_calls: list[CallInProgress] = field(default_factory=list["CallInProgress"])
    """Calls that were begun and have no result yet."""
    stats: RunStats = field(default_factory=RunStats)

    @property
    def hooks(self) -> Dispatcher:
        """Fires the hooks."""
        return self.parts.dispatcher

    @property
    def tools(self) -> Catalog:
        """The resolved catalog. Raises `RunClosed` before it is."""
        if self.catalog is None:
            raise RunClosed("no tools are resolved yet: call run.resolve_tools(...) first")
        return self.catalog

    def check_open(self) -> None:
        """Raise `RunClosed` before the run has begun and after its end."""
        if not self.open:
            what = f"run '{self.info.run_id}' is not open: use it inside `async with session.run(...) as run`"
            raise RunClosed(what)

    async def trace(self, record: Record) -> None:
        """Hand a record of this run to the trace."""
        await self.parts.dispatcher.trace(self.info, record)

    def results(self, owner: str) -> Results:
        """The session's results, bound to a plugin; what it queues is told to the trace."""
        refused = self.parts.missing_grants.get(owner)
        return _TracedResults(self, owner, self.parts.transcript.results(owner, refused=refused))


@final
class _TracedResults:
    def __init__(self, state: RunState, owner: str, results: Results) -> None:
        self._state = state
        self._owner = owner
        self._results = results

    def list(self) -> Sequence[ResultInfo]:
        return self._results.list()

    def read(self, reference: str) -> str:
        return self._results.read(reference)

    async def trim(self, reference: str, replacement: str | None = None, *, reason: str = "") -> TrimReceipt:
        return await self._trace(TrimQueued, await self._results.trim(reference, replacement, reason=reason))

    async def restore(self, reference: str) -> TrimReceipt:
        return await self._trace(RestoreQueued, await self._results.restore(reference))

    async def _trace(self, kind: type[TrimQueued], receipt: TrimReceipt) -> TrimReceipt:
        if receipt.status == "queued":
            before, after = receipt.characters_before, receipt.characters_after
            await self._state.trace(
                kind(plugin=self._owner, handle=receipt.handle, characters_before=before, characters_after=after)
            )
        return receipt
