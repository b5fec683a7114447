"""Removing the sessions that `[sessions]` of the configuration keeps no longer, some at a time."""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hooksdk.config import retention_of
from hooksdk.stores.erasing import Erasure, erase
from hooksdk.tasks import describe

if TYPE_CHECKING:
    from hooksdk.stores import Store
    from hooksdk.stores._transaction import Transaction

logger = logging.getLogger("hooksdk")

__all__ = ["remove_some", "tidy"]

# Sessions that are removed at a time, and the seconds until a host looks again.
STEP, PAUSE = 20, 60.0
OLDEST = """
SELECT changed FROM hooksdk_sessions WHERE changed IS NOT NULL AND (expires IS NULL OR expires <= {now})
ORDER BY changed LIMIT 20"""
SIZE_OF_FILE = """
SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
SIZE_ON_SERVER = " + ".join(
    f"(SELECT coalesce(sum(pg_column_size(body)), 0) FROM hooksdk_{table})"
    for table in ("messages", "journal", "rows", "states", "values")
)
_next_look: WeakKeyDictionary[Any, float] = WeakKeyDictionary()


async def remove_some(store: Store, table: Mapping[str, Any], *, limit: int = STEP) -> int:
    """Remove some of the sessions that `[sessions]` of a configuration keeps no longer, and nothing that is open. Answers
    how many it were. Raises `StoreError`."""
    from hooksdk.stores.sql import SqlStore

    rule = retention_of(table)
    if not isinstance(store, SqlStore) or not rule.words:
        return 0
    removed = 0
    if rule.keep:
        receipt = await erase(store, Erasure(before=time.time() - rule.keep), limit=limit, scrub=False)
        removed = len(receipt.sessions) if receipt else 0
    while rule.keep_size and removed < limit:
        ages, size = await store.database.transaction(functools.partial(_ages_and_size, of_file=bool(store.file)))
        if size <= rule.keep_size or not ages:
            break
        receipt = await erase(store, Erasure(before=ages[-1] + 1e-6), limit=1, scrub=False)
        if receipt is None or not receipt.sessions:
            break
        removed += 1
    return removed


def _ages_and_size(transaction: Transaction, *, of_file: bool) -> tuple[list[float], int]:
    """When the oldest sessions were written last, and how many bytes the database has in use."""
    size = transaction.execute(SIZE_OF_FILE if of_file else f"SELECT {SIZE_ON_SERVER}").fetchone()[0]
    return [age for (age,) in transaction.execute(OLDEST).fetchall()], size


async def tidy(store: Store, table: Mapping[str, Any]) -> None:
    """Remove some in the background, at most once a minute for each store."""
    if time.monotonic() < _next_look.get(store, 0.0):
        return
    _next_look[store] = time.monotonic() + PAUSE
    try:
        if number := await remove_some(store, table):
            logger.info("sessions that were removed: %d, %s ([sessions])", number, retention_of(table).words)
    except Exception as error:
        logger.warning("sessions that are too old stay for now: %s", describe(error))
