"""A chain in a store: each record is a value under its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

from hooksdk.audit._verify import Source
from hooksdk.transcript import Store

# The space of the plugin's values in a store.
SPACE = "audit"
_PREFIX = "record/"


def record_key(number: int) -> str:
    """The key of a record."""
    return f"{_PREFIX}{number:012d}"


async def record_keys(values: Values) -> list[str]:
    """The keys of all records, in their order."""
    return [key for key in await values.keys() if key.startswith(_PREFIX)]


class Values(Protocol):
    """The part of a store that a chain needs: `hooksdk.Storage` has it."""

    async def get(self, key: str) -> Any:
        """The value under a key, or None."""
        ...

    async def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Replace the value by what `change` makes of it, in one step, and answer that."""
        ...

    async def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        ...


@final
class StoredValues:
    """The plugin's values in a store, for a writer without a host."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, key: str) -> Any:
        """The value under a key, or None."""
        return await self._store.get_value(SPACE, key)

    async def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Replace the value by what `change` makes of it, in one step, and answer that."""
        while True:
            stored = await self._store.get_value(SPACE, key)
            new = change(stored)
            if new == stored or await self._store.change_value(SPACE, key, stored, new):
                return new

    async def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        return sorted(await self._store.list_keys(SPACE))


async def read_store(store: Store, name: str) -> Source:
    """The chain in a store, for `verify`. Raises `StoreError`."""
    values = StoredValues(store)
    lines = [(str(await values.get(key)).encode("utf-8", "replace"), True) for key in await record_keys(values)]
    return Source(name, lambda: lines)
