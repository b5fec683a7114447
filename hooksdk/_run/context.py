"""The context that a tool gets with its arguments, while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, final

from hooksdk import hooks
from hooksdk._ledger.calls import CallInProgress, Stage
from hooksdk._run.plugin_states import PluginStorage
from hooksdk._run.state import RunState
from hooksdk.calls import CallOrigin, ToolResult
from hooksdk.catalog import Storage
from hooksdk.errors import RunClosed, SessionBusy, SessionClosed
from hooksdk.records import Progress
from hooksdk.transcript import Results

T = TypeVar("T")
# Judges and runs a call that a tool makes: the run, the tool's own call, and name, arguments and origin of the other.
NestedCall = Callable[[RunState, CallInProgress, str, Mapping[str, Any], CallOrigin], Awaitable[ToolResult]]
# Characters of a tool's progress text that reach the trace.
MAX_PROGRESS = 500


def without_secrets(state: RunState, work: CallInProgress, value: T) -> T:
    """The value without those of secrets, the short ones of this call among them."""
    value, short = state.secrets.value(value), work.input.short_secrets
    return short.value(value) if short else value


async def still_held(run: RunState | None) -> bool:
    """True while this worker holds the run's session, and those of the runs around it: another worker may have taken
    over one of them alone. Raises what the store raises."""
    try:
        while run is not None:
            await run.parts.transcript.verify()
            run = run.parts.parent_run
    except (SessionBusy, SessionClosed):
        return False
    return True


@final
class Context:
    """The `ToolContext` of one running call."""

    def __init__(self, state: RunState, work: CallInProgress, call_nested: NestedCall) -> None:
        self._state = state
        self._work = work
        self._call_nested = call_nested
        self.session_id, self.run_id = state.info.session_id, state.info.run_id
        self.agent_id, self.call, self.catalog = state.info.agent_id, work.call, state.tools
        self.count = state.stats.count

    @property
    def _owner(self) -> str:
        tool = self._work.tool
        assert tool is not None
        return tool.owner if tool.source == "plugin" else tool.id

    @property
    def results(self) -> Results:
        return self._state.results(self._owner)

    @property
    def storage(self) -> Storage:
        return PluginStorage(self._state.parts.store, self._owner, self._state.secrets)

    @property
    def attempt(self) -> int:
        return self._state.info.attempt

    @property
    def info(self) -> hooks.RunInfo:
        return self._state.info

    @property
    def native(self) -> Any:
        return self._work.native

    @property
    def effect_id(self) -> str:
        return self._state.ledger.effect_id(self._work)

    @property
    def fence(self) -> int:
        return [*self.fences.values()][-1]

    @property
    def fences(self) -> Mapping[str, int]:
        return self._state.info.fences

    async def still_held(self) -> bool:
        return await still_held(self._state)

    @property
    def _over(self) -> bool:
        return self._work.stage in {Stage.LEFT, Stage.ENDED}

    @property
    def cancelled(self) -> bool:
        if self._over or self._work.attempt is None:
            return self._over
        try:
            return self._work.attempt.cancelled
        except RuntimeError:  # trio tells it to the thread of its event loop only
            return False

    def mask(self, text: str) -> str:
        return without_secrets(self._state, self._work, text)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, origin: CallOrigin = "tool") -> ToolResult:
        if self._over:
            raise RunClosed(
                f"the call of '{self._work.call.name}' has returned, so its context calls no tools any more"
            )
        masked = without_secrets(self._state, self._work, dict(arguments))
        return await self._call_nested(self._state, self._work, name, masked, origin)

    async def progress(self, text: str, share: float | None = None) -> None:
        work = self._work
        if work.end is None:
            text = without_secrets(self._state, work, text)[:MAX_PROGRESS]
            await self._state.trace(Progress(call_id=work.call.id, text=text, share=share))
