"""One database: the tables and their versions, and transactions that are tried again.

Both drivers are synchronous. A transaction runs in a worker thread, so the same code serves asyncio, trio and a process
that has forked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, final

import anyio

from hooksdk.errors import StoreError
from hooksdk.stores._sealing import PLAIN, Seal
from hooksdk.stores._transaction import VERSION, Run, Transaction
from hooksdk.tasks import in_thread, run_shielded

T = TypeVar("T")

# Seconds before each further try of a transaction that met a conflict, a busy file or a lost connection.
PAUSES = (0.02, 0.1, 0.3, 1.0)
# How many more tries there are, one each second, while a server of databases restarts.
RESTART = 30
# How long one try waits for another transaction, of one session or of the file.
LOCK_SECONDS = 2
# Two workers that start at the same time make the tables one after the other.
MIGRATION_LOCK = 0x686F6F6B73646B


class Driver(Protocol):
    """What differs between the databases. All methods but `passes` and `is_away` may wait: call them in a thread.

    Attributes:
        is_remote: True for a server.
    """

    is_remote: bool

    def run(self, step: Callable[[Transaction], T], *, writes: bool, patient: bool) -> T:
        """Run `step` in one transaction; what it wrote is durable when this returns. All that it reads without
        `writes` is of one moment."""
        ...

    def version(self) -> int:
        """The version of the tables; 0 where there are none. Makes what they stand in, as a file."""
        ...

    def is_absent(self) -> bool:
        """True for a file that nobody has written yet; looking does not make it."""
        ...

    def problem(self, error: Exception) -> str | None:
        """Why the database refuses, in one line; None for an error that is not its own."""
        ...

    def passes(self, error: Exception) -> bool:
        """True for what another try may not meet again."""
        ...

    def is_away(self, error: Exception) -> bool:
        """True for a server that goes down or starts, and for a connection that was lost."""
        ...

    def scrub(self) -> str:
        """Overwrite in the files what was deleted. Answers why some of it is still there; empty where none is."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


@final
class Database:
    """One database, for every event loop and thread of this process."""

    def __init__(
        self, driver: Driver, where: str, begin: Callable[[Run], None] | None = None, seal: Seal = PLAIN
    ) -> None:
        """`where` names it in errors, without a password. `begin` is called before the first transaction, once the
        tables are there, in a worker thread."""
        self._begin = begin
        self.seal = seal
        self.where = where
        self._driver = driver
        self._ready = False

    async def is_absent(self) -> bool:
        """True for an SQLite file that nobody has written yet; looking does not make it."""
        return not self._ready and await in_thread(self._driver.is_absent)

    async def transaction(self, step: Callable[[Transaction], T], *, writes: bool = True, patient: bool = True) -> T:
        """Run `step` in one transaction in a worker thread, to its end whoever cancels the caller: durable when this
        returns. It runs again after a conflict, a busy file or a lost connection, a few times at most, and while the
        server restarts half a minute long, if it is `patient`. Raises `StoreError`.
        """
        return await run_shielded(self._persist, step, writes, patient)

    async def work(self, task: Callable[[Run], T]) -> T:
        """Run a task of several transactions in a worker thread, to its end. Raises `StoreError`."""

        def prepared() -> T:
            if not self._ready:
                self._prepare()
            return task(self._run)

        try:
            return await run_shielded(in_thread, prepared)
        except Exception as error:
            problem = self._driver.problem(error)
            if problem is None:
                raise
            raise StoreError(self.where, problem) from error

    async def scrub(self) -> str:
        """Overwrite in the database's files what was deleted. Answers why some of it is still there; empty where none
        is. Raises `StoreError`."""
        return await self.work(lambda _run: self._driver.scrub())

    def _run(self, step: Callable[[Transaction], Any]) -> Any:
        return self._driver.run(step, writes=True, patient=True)

    async def _persist(self, step: Callable[[Transaction], T], writes: bool, patient: bool) -> T:
        for number in range(len(PAUSES) + RESTART + 1):
            try:
                return await in_thread(self._once, step, writes, patient)
            except Exception as error:
                problem = self._driver.problem(error)
                if problem is None:
                    raise
                is_away = self._driver.is_away(error)
                tries = len(PAUSES) + (RESTART if patient and is_away else 0)
                if number >= tries or not (is_away or self._driver.passes(error)):
                    raise StoreError(self.where, problem) from error
            await anyio.sleep(PAUSES[number] if number < len(PAUSES) else 1)
        raise AssertionError  # the last try answers or raises

    def _once(self, step: Callable[[Transaction], T], writes: bool, patient: bool) -> T:
        if not self._ready:
            self._prepare()
        return self._driver.run(step, writes=writes, patient=patient)

    def _prepare(self) -> None:
        """Make what is missing: the file, the tables, and what newer versions added to them."""
        version = self._driver.version()
        if type(version) is not int:
            raise StoreError(self.where, f"the version of its tables is {version!r}, no number. Nothing was changed")
        if version < VERSION:
            from hooksdk.stores._tables import migrate  # most processes find the tables as they should be

            version = self._driver.run(migrate, writes=True, patient=True)
        if version > VERSION:
            problem = f"its tables were made by a newer hooksdk (version {version}, known up to {VERSION})"
            raise StoreError(self.where, f"{problem}. Nothing was changed; update hooksdk")
        if self._begin is not None:
            self._begin(self._run)
        self._ready = True

    def look(self, step: Callable[[Transaction], T]) -> T:
        """Read in one transaction, in the caller's thread, which waits. Raises `StoreError`."""
        try:
            return self._once(step, writes=False, patient=False)
        except Exception as error:
            problem = self._driver.problem(error)
            if problem is None:
                raise
            raise StoreError(self.where, problem) from error

    @property
    def is_remote(self) -> bool:
        """True where each look waits for a server."""
        return self._driver.is_remote

    async def aclose(self) -> None:
        """Close all connections."""
        await run_shielded(in_thread, self._driver.close)


@functools.lru_cache(maxsize=256)
def in_dialect(statement: str, dialect: type[Dialect]) -> str:
    """A statement in the words and with the parameters of one database."""
    for word, meaning in dialect.WORDS.items():
        statement = statement.replace(word, meaning)
    return re.sub(r"(?<![:\w]):(\w+)", dialect.PARAMETER, statement)


class Dialect(Protocol):
    """How one database says what both can: its words for `{now}` and the like, and how it writes a parameter."""

    WORDS: Mapping[str, str]
    PARAMETER: str
