"""A chain in a store: each record has its number as key, which only one writer can take."""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

import anyio

from hooksdk import audit
from hooksdk.audit import Head, Values

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@final
class StoreChain:
    """Appends records to a store. Several processes and machines may write one chain with one key: the first to take a
    number has it, and the others continue after that record."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._alone: anyio.Lock | None = None
        self._head: Head | None = None

    @property
    def head(self) -> Head | None:
        """The last record that this writer knows of."""
        return self._head

    async def append(self, values: Values, fields: Mapping[str, Any]) -> Head:
        """Write one record; it is durable when this returns. Raises `StoreError`, `OSError`, `TypeError` and
        `ValueError` if it is not written."""
        if self._alone is None:
            self._alone = anyio.Lock()
        async with self._alone:
            if self._head is None:
                self._head = await self._catch_up(values)
            if self._head is None:
                key = audit.public_text(self._key.public_key())
                await self._put(
                    values, {"kind": audit.CHAIN_BEGUN, "schema": audit.SCHEMA, "key": key}, only_first=True
                )
            return await self._put(values, fields)

    async def _catch_up(self, values: Values) -> Head | None:
        first = audit.parse_line(str(await values.get(audit.record_key(1))).encode("ascii", "replace"))
        if first is not None and not audit.is_genuine(self._key.public_key(), first):
            raise OSError(errno.EINVAL, "the chain was begun with another key: name that one")
        return await _last_in(values)

    async def _put(self, values: Values, fields: Mapping[str, Any], *, only_first: bool = False) -> Head:
        while True:
            before = self._head or Head(0, audit.NO_HASH)
            record = {"n": before.number + 1, "prev": before.hash, "time": round(time.time(), 6), **fields}
            line = audit.seal(record, self._key).decode("ascii")
            stored = await values.update(
                audit.record_key(before.number + 1), lambda value, line=line: line if value is None else value
            )
            if stored == line:
                self._head = Head(before.number + 1, audit.hash_of(line.encode()))
                return self._head
            other = audit.parse_line(str(stored).encode("ascii", "replace"))
            if (
                other is None
                or other.number != before.number + 1
                or not audit.is_genuine(self._key.public_key(), other)
            ):
                raise OSError(errno.EINVAL, f"record {before.number + 1} of the chain was not written with this key")
            self._head = other.head
            if only_first:
                return self._head


async def _last_in(values: Values) -> Head | None:
    numbered = await audit.record_keys(values)
    if not numbered:
        return None
    record = audit.parse_line(str(await values.get(numbered[-1])).encode("ascii", "replace"))
    if record is None:
        raise OSError(errno.EINVAL, f"{numbered[-1]} in the store is no record of a chain")
    return record.head
