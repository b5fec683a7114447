"""What plugins keep: for a session, in its journal or beside other workers that have it open, and in key-value spaces
of their own. What others change too is changed in one step that nobody's write comes between."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, final
from weakref import WeakValueDictionary

import anyio
from anyio.lowlevel import RunVar

from hooksdk import schema
from hooksdk._masking.mask import SecretMask
from hooksdk._tasks.background import logger
from hooksdk.errors import PluginRefused, StoreError
from hooksdk.state import PluginState
from hooksdk.transcript import Store, Transcript, is_same
from hooksdk.values import as_object

T = TypeVar("T")

# Seconds: how long one waits at most, after others came first, before it tries again.
LONGEST_PAUSE = 0.05


_locks: RunVar[WeakValueDictionary[tuple[int, str, str], anyio.Lock] | None] = RunVar("hooksdk changing", None)
OWN_IDS = "hooksdk."


def check_id(plugin_id: str) -> None:
    """Approvals that are remembered, calls that wait, and families are kept beside what plugins keep: no plugin may
    reach them."""
    if plugin_id.casefold().startswith(OWN_IDS):
        raise PluginRefused(plugin_id, f"ids that begin with '{OWN_IDS}' are hooksdk's own", "Give it another id")


async def change_stored(store: Store, space: str, key: str, change: Callable[[Any], tuple[Any, T]]) -> T:
    """Read a value, and put what `change` makes of it in its place; answers what `change` answers besides. None stands
    for no value. Where somebody else was faster all of it is done again with what is stored then, so of several one
    always comes through. What is not changed is not written. Raises `StoreError`, for a store without `change_value` as
    well, and what `change` raises."""
    if not callable(getattr(store, "change_value", None)):
        problem = "what agents share needs a store with change_value(space, key, old, new), and this has none"
        raise StoreError(type(store).__name__, problem)
    place, pause = f"storage '{space}'", 0.001
    async with _turn_at(store, space, key):
        while True:
            stored = await store.get_value(space, key)
            new, answer = change(schema.clone(stored))
            if is_same(place, stored, new) or await store.change_value(space, key, stored, new):
                return answer
            await anyio.sleep(pause * random.random())  # noqa: S311 - nothing secret hangs on it
            pause = min(pause * 2, LONGEST_PAUSE)


def _turn_at(store: Store, space: str, key: str) -> anyio.Lock:
    """The tasks of one event loop take turns, so that only those of other processes come in between."""
    locks = _locks.get()
    if locks is None:
        _locks.set(locks := WeakValueDictionary())
    return locks.setdefault((id(store), space, key), anyio.Lock())


# The space of the store that holds it: no plugin's id begins like this. A key is SESSION/PLUGIN.
SHARED = "hooksdk.sessions"


@final
class SharedStates:
    """The plugins' states of one such session, in the store's key-value space."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def read(self, plugin: str) -> dict[str, Any]:
        """A plugin's state as it is now."""
        return as_object(await self._store.get_value(SHARED, self._key(plugin)))

    async def write(self, plugin: str, base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """Store what `own` changes of `base`, beside what others have changed meanwhile, in one step; answers what is
        stored now."""

        def step(stored: Any) -> tuple[Any, dict[str, Any]]:
            return (new := merged(base, own, as_object(stored))), new

        return await change_stored(self._store, SHARED, self._key(plugin), step)

    def _key(self, plugin: str) -> str:
        return f"{self._session_id}/{plugin}"


def merged(base: Mapping[str, Any], own: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Entry by entry: our own where we have changed it since `base`, else the others'."""
    changed = {key for key in {*base, *own} if is_other(base, own, key)}
    new = {key: value for key, value in others.items() if key not in changed}
    return {**new, **{key: own[key] for key in own if key in changed}}


def is_other(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    """True where the two differ at this key."""
    if key not in one or key not in other:
        return (key in one) is not (key in other)
    return schema.canonical(one[key]) != schema.canonical(other[key])


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
        """Put what `change` makes of the value (None: there is none) in its place, in one step; answers it. With None
        it is removed. `change` is called anew where somebody else was faster."""

        def step(stored: Any) -> tuple[Any, Any]:
            return (new := self._mask.value(change(stored))), new

        return await change_stored(self._store, self._space, self._mask.text(key), step)

    async def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        return sorted(await self._store.list_keys(self._space))

    async def now(self) -> float:
        """What time it is in the store."""
        clock = getattr(self._store, "now", None)
        return time.time() if clock is None else await clock()
