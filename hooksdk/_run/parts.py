"""What a session hands to its runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, final

from hooksdk import schema
from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._ledger.effects import CallLedger
from hooksdk._masking.mask import SecretMask
from hooksdk._plugins.registry import Registry
from hooksdk._run.changing import change_stored, check_id
from hooksdk._run.families import FamilyMembers, SessionFamily
from hooksdk._run.reading import Reading
from hooksdk._run.sharing import SharedStates, is_other
from hooksdk._run.unmatched import UnmatchedNames
from hooksdk._tasks.background import Background, logger
from hooksdk.approvals import Approver
from hooksdk.calls import CallInDoubt, Labels
from hooksdk.config import Config
from hooksdk.errors import MissingGrant, RunAlreadyOpen
from hooksdk.formats import MessageFormat
from hooksdk.hooks import RunInfo
from hooksdk.patterns import ToolPattern
from hooksdk.state import PluginHost, PluginState
from hooksdk.tools import Deferral, Expose, Tool
from hooksdk.transcript import Store, Transcript

if TYPE_CHECKING:
    from hooksdk.costs import PriceList


class ParentRun(Protocol):
    """The run whose sub-agent a session is: what it lacks the sub-agent does not get."""

    @property
    def info(self) -> RunInfo:
        """Where it comes from."""
        ...

    @property
    def labels(self) -> Labels:
        """What is worth all that was read in it, and in those around it."""
        ...

    @property
    def reading(self) -> Reading:
        """What its session has read."""
        ...

    @property
    def for_others(self) -> bool:
        """True where it works for a run in another process."""
        ...

    @property
    def around(self) -> ParentRun | None:
        """The run whose sub-agent's run it is."""
        ...

    def read_below(self, labels: Labels) -> None:
        """A sub-agent has read something with these labels."""
        ...

    def said_by_agent(self, tool: str, arguments: Any) -> None:
        """A call of a sub-agent has said this."""
        ...

    @property
    def ledger(self) -> CallLedger:
        """Its calls that have no result yet, and what is written of them."""
        ...

    def has(self, tool: Tool) -> bool:
        """True when the run has the tool now."""
        ...

    def itself(self, tool: Tool) -> Tool:
        """The tool with its executor, where the run handed it out without."""
        ...


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
    parent_run: ParentRun | None = None
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
        self.run: ParentRun | None = None
        self.newest: ParentRun | None = None
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

    def claim(self, run: ParentRun) -> None:
        """Take the session for this run. Raises `RunAlreadyOpen`."""
        if self.run is not None:
            raise RunAlreadyOpen(self._session_id, self.run.info.run_id)
        self.run = run

    def began(self) -> None:
        """The run that has the session was let through."""
        self.newest = self.run

    def release(self, run: ParentRun) -> None:
        """Let the session go, if this run has it."""
        if self.run is run:
            self.run = None
            self._on_release()


@dataclass
class _Saved:
    state: PluginState
    # The state as it was last saved.
    text: str
    # Why it cannot be saved at the moment, logged once.
    problem: str = ""
    # Of a session that others have open, too: what was stored when we looked last.
    base: dict[str, Any] = field(default_factory=dict[str, Any])


@final
class PluginStates:
    """What the plugins keep in a session, saved when it changed."""

    def __init__(self, transcript: Transcript, mask: SecretMask, shared: SharedStates | None = None) -> None:
        """They are kept in the journal, or where the session is shared with other workers, in `shared`."""
        self._transcript = transcript
        self._mask = mask
        self._shared = shared
        self.opened: dict[str, _Saved] = {}

    async def open(self, plugin_id: str) -> PluginState:
        """A plugin's state, as it was last saved."""
        check_id(plugin_id)
        base = {} if self._shared is None else await self._shared.read(plugin_id)
        state = PluginState(self._transcript.state(plugin_id) if self._shared is None else schema.clone(base))
        self.opened[plugin_id] = _Saved(state, schema.canonical(dict(state)), base=base)
        return state

    async def save(self) -> None:
        """Make every state durable that changed; one that is not JSON is logged, and kept as it was."""
        for plugin_id, saved in self.opened.items():
            try:
                text = schema.canonical(dict(saved.state))
                if text != saved.text:
                    masked = self._mask.value(schema.clone(dict(saved.state)))
                    if self._shared is None:
                        await self._transcript.save_state(plugin_id, masked)
                        saved.text = text
                    else:
                        stored = await self._shared.write(plugin_id, saved.base, masked)
                        saved.text = text
                        self._take(saved, masked, stored)
                saved.problem = ""
            except (ValueError, TypeError) as error:
                if str(error) != saved.problem:
                    saved.problem = str(error)
                    logger.warning("plugin '%s': its state is not kept: %s", plugin_id, _why_not(saved.state, error))

    async def refresh(self) -> None:
        """Take over what other workers have saved since."""
        if self._shared is None:
            return
        for plugin_id, saved in self.opened.items():
            stored = await self._shared.read(plugin_id)
            with contextlib.suppress(ValueError, TypeError):  # a state that is not JSON is told when it is saved
                self._take(saved, self._mask.value(schema.clone(dict(saved.state))), stored)

    def _take(self, saved: _Saved, own: Mapping[str, Any], stored: dict[str, Any]) -> None:
        """Bring the plugin's mapping up to what is stored now, but for the entries that it has changed itself."""
        state, base, saved.base = saved.state, saved.base, stored
        is_saved = schema.canonical(dict(state)) == saved.text
        for key in {*base, *stored}:
            if is_other(base, stored, key) and not is_other(base, own, key):
                if key in stored:
                    state[key] = schema.clone(stored[key])
                else:
                    state.pop(key, None)
        if is_saved:
            saved.text = schema.canonical(dict(state))


def _why_not(state: PluginState, error: Exception) -> str:
    """The entry of the state that is not JSON, and what is wrong with it."""
    for key, value in state.items():
        try:
            schema.canonical(value)
        except (ValueError, TypeError) as problem:
            return f"state[{key!r}]: {problem}"
    return str(error)


@final
class PluginStorage:
    """One plugin's key-value space in a store; what goes into it out of a session holds no value of a secret."""

    def __init__(self, store: Store, plugin_id: str, mask: SecretMask | None = None) -> None:
        check_id(plugin_id)
        self._store = store
        self._space = plugin_id
        self._mask = SecretMask() if mask is None else mask

    async def get(self, key: str, default: Any = None) -> Any:
        """The value kept under `key`, or `default`."""
        return await self._store.get_value(self._space, self._mask.text(key), default)

    async def set(self, key: str, value: Any) -> None:
        """Keep `value` under `key`; durable when this returns."""
        await self._store.set_value(self._space, self._mask.text(key), self._mask.value(value))

    async def delete(self, key: str) -> None:
        """Forget `key`."""
        await self._store.delete_value(self._space, self._mask.text(key))

    async def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Put what `change` makes of the value (None: there is none) in its place, in one step; answers it. With None it is
        removed. `change` is called anew where somebody else was faster."""

        def step(stored: Any) -> tuple[Any, Any]:
            new = self._mask.value(change(stored))
            return new, new

        return await change_stored(self._store, self._space, self._mask.text(key), step)

    async def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        return sorted(await self._store.list_keys(self._space))


@dataclass(frozen=True, kw_only=True)
class SessionParts:
    """What a host hands to its sessions.

    Attributes:
        shared: What `shared` of each plugin class yielded, by plugin.
        on_idle: Called when the session may be idle now: it has opened, or a run of it has ended.
        families: Those of the session and of its sub-agents.
        wait: Seconds to wait for a session that somebody else holds.
    """

    config: Config
    registry: Registry
    background: Background
    store: Store
    approver: Approver | None
    shared: Mapping[str, Any]
    on_open: Callable[[Any], None]
    on_close: Callable[[Any], None]
    on_idle: Callable[[], None]
    plugin_host: PluginHost
    families: FamilyMembers = field(default_factory=FamilyMembers)
    wait: float
