"""The key-value spaces of plugins in a database."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hooksdk.errors import StoreError
from hooksdk.stores import _digests
from hooksdk.stores._database import Database
from hooksdk.stores._hashes import digest
from hooksdk.stores._names import file_name, name_in
from hooksdk.stores._sealing import Seal
from hooksdk.stores._transaction import Transaction
from hooksdk.transcript import encode_for, is_same

T = TypeVar("T")

ADD_VALUE = """
INSERT INTO hooksdk_values VALUES (:space, :key, :name, :body, :hash) ON CONFLICT (space, key) DO NOTHING"""
LOOK_AT_VALUE = "SELECT body, hash FROM hooksdk_values WHERE space = :space AND key = :key"
REPLACE_VALUE = "UPDATE hooksdk_values SET body = :body, hash = :hash WHERE space = :space AND key = :key"
DELETE_VALUE = "DELETE FROM hooksdk_values WHERE space = :space AND key = :key"


class SqlValues(Protocol):
    """The part of `SqlStore` that keeps values."""

    seal: Seal

    @property
    def database(self) -> Database: ...
    async def look(self, step: Callable[[Transaction], T], absent: T) -> T: ...
    async def fetch(self, statement: str, **parameters: object) -> Sequence[Any]: ...
    async def _is_absent(self) -> bool: ...

    async def get_value(self, space: str, key: str, default: Any = None) -> Any:
        """A stored value, a fresh copy."""
        row = {"space": file_name(space), "key": file_name(key)}
        body, _ = await self.look(functools.partial(value_in, row=row, seal=self.seal), (None, None))
        return default if body is None else json.loads(body)

    async def set_value(self, space: str, key: str, value: Any) -> None:
        """Store a JSON value; durable when this returns."""
        row = value_row(space, key, encode_for(f"storage '{space}'", value).decode(), self.seal)
        await self.database.transaction(functools.partial(_put, row=row))

    async def change_value(self, space: str, key: str, old: Any, new: Any) -> bool:
        """Put `new` in the place of `old`, if that is what is stored now; None stands for no value. Durable when this
        returns. Raises `StoreError`, also where the connection was lost in between, and it is not known whether it was
        stored."""
        place = f"storage '{space}'"
        row = value_row(space, key, encode_for(place, new).decode(), self.seal)
        begun = False

        def change(transaction: Transaction) -> bool:
            nonlocal begun
            stored, found = value_in(transaction, row, self.seal, alone=True)
            if not is_same(place, None if stored is None else json.loads(stored), old):
                if begun:  # by this, and its answer was lost, or by somebody else
                    raise StoreError(
                        str(self), f"the connection was lost while a value of {place} changed: read it anew"
                    )
                return False
            if stored is None and new is None:
                return True
            begun = True
            return write_value(transaction, row if new is not None else {**row, "hash": None}, found)

        return await self.database.transaction(change)

    async def delete_value(self, space: str, key: str) -> None:
        """Remove a value; one that is not there is no error."""
        database, row = self.database, {"space": file_name(space), "key": file_name(key), "hash": None}
        if not await self._is_absent():
            await database.transaction(functools.partial(_put, row=row))

    async def list_keys(self, space: str) -> list[str]:
        """The keys of a space, sorted."""
        rows = await self.fetch("SELECT key, name FROM hooksdk_values WHERE space = :space", space=file_name(space))
        for key, name in rows:
            if key != file_name(name_in(name)):
                raise _changed(file_name(space), key)
        return sorted(json.loads(name) for _, name in rows)


def value_row(space: str, key: str, text: str, seal: Seal) -> dict[str, Any]:
    """The row of a value, by its JSON."""
    return with_body({"space": file_name(space), "key": file_name(key), "name": json.dumps(key)}, text, seal)


def with_body(place: dict[str, Any], text: str, seal: Seal) -> dict[str, Any]:
    """The row at a space and key with its JSON, encrypted where the store has keys, and the hash of it."""
    body = seal.close(text, "value", place["space"], place["key"])
    return {**place, "body": body, "hash": digest(place["space"], place["key"], body)}


def value_in(
    transaction: Transaction, row: dict[str, Any], seal: Seal, *, alone: bool = False
) -> tuple[str | None, bytes | None]:
    """The JSON of a stored value, and its hash; with `alone` nobody else changes it until the transaction ends. Raises `StoreError`
    for one that somebody else has changed."""
    found: Any = transaction.execute(f"{LOOK_AT_VALUE} {{alone}}" if alone else LOOK_AT_VALUE, row).fetchone()
    if found is not None and digest(row["space"], row["key"], found[0]) != found[1]:
        raise _changed(row["space"], row["key"])
    if found is None:
        return None, None
    return seal.open(found[0], "value", row["space"], row["key"]), found[1]


def _changed(space: str, key: str) -> StoreError:
    problem = "this row was changed by somebody else. Nothing was changed here; delete the value, or set it anew"
    return StoreError(f"hooksdk_values, space {space}, key {key}", problem)


def _put(transaction: Transaction, row: dict[str, Any]) -> None:
    """Store a value, whatever was there; remove it where its new hash is None."""
    while True:
        found: Any = transaction.execute(f"{LOOK_AT_VALUE} {{alone}}", row).fetchone()
        if (found is None and row["hash"] is None) or write_value(transaction, row, found and found[1]):
            return


def write_value(transaction: Transaction, row: dict[str, Any], old: bytes | None) -> bool:
    """Put a value in the place of the one with the hash `old`, which nobody else changes meanwhile. False where another
    worker has stored a first one."""
    new = row["hash"]
    statement = DELETE_VALUE if new is None else ADD_VALUE if old is None else REPLACE_VALUE
    if transaction.execute(statement, row).rowcount < 1:
        return False
    _digests.note_value(transaction, row["space"], row["key"], old, new)
    return True
