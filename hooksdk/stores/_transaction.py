"""An open transaction of a database, as both drivers have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

# The version of the tables.
VERSION = 5
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Cursor(Protocol):
    """What a statement has found or done, as the Python Database API names it (PEP 249)."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Transaction(Protocol):
    """A transaction that is open now."""

    def execute(self, statement: str, parameters: Parameters | None = None) -> Cursor:
        """Run one statement, with a mapping of its `:name`s, or once for each of a list of them. `{now}` in it is the
        database's clock in seconds, `{skip_locked}` takes rows that nobody else takes, `{alone}` those that nobody else
        changes until the transaction ends."""
        ...


# Runs a step in one transaction.
Run = Callable[[Callable[[Transaction], Any]], Any]
