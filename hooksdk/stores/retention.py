"""`[sessions]` of the configuration: how long sessions are kept, and removing those that are older, some at a time."""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import functools
import logging
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, cast, final
from weakref import WeakKeyDictionary

import pydantic
from pydantic import BaseModel, ConfigDict

from hooksdk.errors import table_problems
from hooksdk.stores._sealing import check_source
from hooksdk.stores.erasing import Erasure, erase
from hooksdk.tasks import describe

if TYPE_CHECKING:
    from hooksdk.stores import Store
    from hooksdk.stores._transaction import Transaction

logger = logging.getLogger("hooksdk")

__all__ = ["Retention", "remove_some"]

SECONDS: Final = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
BYTES: Final = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
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


def _number_of(units: Mapping[str, int], example: str) -> Any:
    def number_of(value: object) -> int:
        found = re.fullmatch(rf"([1-9]\d{{0,8}})\s*({'|'.join(units)})", value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"expected a whole number above 0 and one of {', '.join(units)}, such as {example!r}")
        return int(found[1]) * units[found[2]]

    return pydantic.BeforeValidator(number_of)


@final
class Retention(BaseModel):
    """`[sessions]`.

    Attributes:
        keep: Seconds after its last write for which a session is kept, written as "30d" (h, d, w); None: for good.
        keep_size: Bytes of the database above which the sessions go that were written last the longest ago, written as
            "2GB" (MB, GB, TB).
        key: Where the keys are by which sessions are encrypted: `env:NAME` or `keyring:NAME`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    keep: Annotated[int | None, _number_of(SECONDS, "30d")] = None
    keep_size: Annotated[int | None, _number_of(BYTES, "2GB")] = None

    key: str | None = None

    @property
    def words(self) -> str:
        """The rule in words; empty where sessions are kept for good."""
        rules = [f"not written for {self.keep / 86_400:g} days"] if self.keep else []
        rules += [f"the oldest above {self.keep_size / 10**9:g} GB"] if self.keep_size else []
        return " and ".join(rules)


def check_retention(table: object) -> None:
    """Raises `ValueError` for a table that is wrong, which shows no key."""
    try:
        if isinstance(table, dict) and "key" in table:
            check_source(cast("dict[str, Any]", table)["key"])
        Retention.model_validate(table)
    except pydantic.ValidationError as error:
        fields = [f"sessions.{name}" for name in Retention.model_fields]
        raise ValueError(". ".join(table_problems(error, "sessions", lambda _path: fields))) from None


async def remove_some(store: Store, rule: Retention, *, limit: int = STEP) -> int:
    """Remove some of the sessions that are not to be kept, and nothing that is open. Answers how many it were. Raises
    `StoreError`."""
    from hooksdk.stores.sql import SqlStore

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
        rule = Retention.model_validate(table)
        if number := await remove_some(store, rule):
            logger.info("sessions that were removed: %d, %s ([sessions])", number, rule.words)
    except Exception as error:
        logger.warning("sessions that are too old stay for now: %s", describe(error))
