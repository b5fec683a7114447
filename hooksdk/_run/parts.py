"""What a session hands to its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from hooksdk import schema
from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._tasks.background import logger
from hooksdk.approvals import Approver
from hooksdk.errors import MissingGrant, PluginRefused, RunAlreadyOpen
from hooksdk.formats import MessageFormat
from hooksdk.patterns import ToolPattern
from hooksdk.state import PluginState
from hooksdk.tools import Tool
from hooksdk.transcript import Store, Transcript

OWN_IDS = "hooksdk."


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """What a session hands to its runs."""

    dispatcher: Dispatcher
    transcript: Transcript
    store: Store
    format: MessageFormat
    tools: Sequence[Tool]
    """The plugins' tools."""
    missing_grants: Mapping[str, MissingGrant]
    """Plugins that may not read or trim results, with the reason."""
    approver: Approver | None
    states: PluginStates
    open_run: OpenRun
    allowed: Sequence[Sequence[ToolPattern]]
    """Which tools this session may be granted at all: each layer is a sub-agent's, and every layer must match."""
    drain_early: bool = False
    """Drain queued trims before each model call already."""

    def allows(self, tool: Tool) -> bool:
        """True when this session may be granted the tool."""
        return all(any(pattern.matches(tool) for pattern in layer) for layer in self.allowed)


@final
class OpenRun:
    """The one run that a session has open."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._run_id: str | None = None

    def claim(self, run_id: str) -> None:
        """Take the session for this run. Raises `RunAlreadyOpen`."""
        if self._run_id is not None:
            raise RunAlreadyOpen(self._session_id, self._run_id)
        self._run_id = run_id

    def release(self, run_id: str) -> None:
        """Let the session go, if this run has it."""
        if self._run_id == run_id:
            self._run_id = None


@dataclass
class _Saved:
    state: PluginState
    text: str
    """The state as it was last saved."""
    problem: str = ""
    """Why it cannot be saved at the moment, logged once."""


def _check_id(plugin_id: str) -> None:
    """Approvals that are remembered, and verdicts, are kept beside what plugins keep: no plugin may reach them."""
    if plugin_id.casefold().startswith(OWN_IDS):
        raise PluginRefused(plugin_id, f"ids that begin with '{OWN_IDS}' are hooksdk's own", "Give it another id")


@final
class PluginStates:
    """What the plugins keep in a session, saved when it changed."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._by_plugin: dict[str, _Saved] = {}

    def open(self, plugin_id: str) -> PluginState:
        """A plugin's state, as it was last saved."""
        _check_id(plugin_id)
        state = PluginState(self._transcript.state(plugin_id))
        self._by_plugin[plugin_id] = _Saved(state, schema.canonical(dict(state)))
        return state

    async def save(self) -> None:
        """Make every state durable that changed; one that is not JSON is logged, and kept as it was."""
        for plugin_id, saved in self._by_plugin.items():
            try:
                text = schema.canonical(dict(saved.state))
                if text != saved.text:
                    await self._transcript.save_state(plugin_id, schema.clone(dict(saved.state)))
                    saved.text = text
                saved.problem = ""
            except (ValueError, TypeError) as error:
                if str(error) != saved.problem:
                    saved.problem = str(error)
                    logger.warning("plugin '%s': its state is not kept: %s", plugin_id, _why_not(saved.state, error))


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
    """One plugin's key-value space in a store."""

    def __init__(self, store: Store, plugin_id: str) -> None:
        _check_id(plugin_id)
        self._store = store
        self._space = plugin_id

    async def get(self, key: str, default: Any = None) -> Any:
        """The value kept under `key`, or `default`."""
        return await self._store.get_value(self._space, key, default)

    async def set(self, key: str, value: Any) -> None:
        """Keep `value` under `key`; durable when this returns."""
        await self._store.set_value(self._space, key, value)

    async def delete(self, key: str) -> None:
        """Forget `key`."""
        await self._store.delete_value(self._space, key)

    async def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        return sorted(await self._store.list_keys(self._space))
