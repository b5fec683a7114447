"""Changing a stored value that others change too, in one step that nobody's write comes between."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.lowlevel import RunVar

from hooksdk import schema
from hooksdk.errors import PluginRefused, StoreError
from hooksdk.transcript import Store, is_same

T = TypeVar("T")

# Seconds: how long one waits at most, after others came first, before it tries again.
LONGEST_PAUSE = 0.05


_locks: RunVar[WeakValueDictionary[tuple[int, str, str], anyio.Lock] | None] = RunVar("hooksdk changing", None)
OWN_IDS = "hooksdk."


def check_id(plugin_id: str) -> None:
    """Approvals that are remembered, calls that wait, and families are kept beside what plugins keep: no plugin may reach them."""
    if plugin_id.casefold().startswith(OWN_IDS):
        raise PluginRefused(plugin_id, f"ids that begin with '{OWN_IDS}' are hooksdk's own", "Give it another id")


async def change_stored(store: Store, space: str, key: str, change: Callable[[Any], tuple[Any, T]]) -> T:
    """Read a value, and put what `change` makes of it in its place; answers what `change` answers besides. None stands for no
    value. Where somebody else was faster all of it is done again with what is stored then, so of several one always comes
    through. What is not changed is not written. Raises `StoreError`, for a store without `change_value` as well, and what
    `change` raises."""
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
    name = (id(store), space, key)
    lock = locks.get(name)
    if lock is None:
        lock = locks[name] = anyio.Lock()
    return lock
