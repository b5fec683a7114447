"""What plugins keep for a session that several workers have open at once, each with a part of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from hooksdk import schema
from hooksdk._run.changing import change_stored
from hooksdk._run.families import SPACE as FAMILIES
from hooksdk.transcript import Store
from hooksdk.values import as_object

# The space of the store that holds it: no plugin's id begins like this. A key is SESSION/PLUGIN.
SPACE = "hooksdk.sessions"


@final
class SharedStates:
    """The plugins' states of one such session, in the store's key-value space."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def read(self, plugin: str) -> dict[str, Any]:
        """A plugin's state as it is now."""
        return as_object(await self._store.get_value(SPACE, self._key(plugin)))

    async def write(self, plugin: str, base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """Store what `own` changes of `base`, beside what others have changed meanwhile, in one step; answers what is stored
        now."""

        def step(stored: Any) -> tuple[Any, dict[str, Any]]:
            new = merged(base, own, as_object(stored))
            return new, new

        return await change_stored(self._store, SPACE, self._key(plugin), step)

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


async def forget_shared(store: Store, session_id: str) -> None:
    """Remove what plugins have kept for such a session: nobody has it any more."""
    for space in (SPACE, FAMILIES):
        for key in await store.list_keys(space):
            if key.startswith(f"{session_id}/"):
                await store.delete_value(space, key)
