"""Stores whose operations go wrong: fail, tear, take too long, or die with their process."""

from __future__ import annotations

import functools
import json
import os
import signal
import uuid
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, final

import anyio
import anyio.from_thread

from hooksdk.errors import StoreError
from hooksdk.testing._store_cases import LONG, MakeStore
from hooksdk.transcript import RewritableLog, SessionLog, Store

FaultKind = Literal["fail", "tear", "delay", "kill"]
MESSAGES = [{"n": 1}, {"n": 2, "text": "x" * 200}, {"n": 3}]
JOURNAL = [{"kind": "a"}, {"kind": "b"}]
# The states of each kind of data that a session stores, one after the other.
STATES: dict[str, list[Any]] = {
    "messages": [[], MESSAGES[:1], MESSAGES],
    "journal": [[], JOURNAL, JOURNAL[1:]],  # the last one takes the other's place, in a store that can do so
    "value": [None, "new", "newer"],
}
# The steps of a session, in their order, and the state that each one leads to.
STEPS = {
    "one": ("messages", 1),
    "more": ("messages", 2),
    "journal": ("journal", 1),
    "value": ("value", 1),
    "change": ("value", 2),
    "shorter": ("journal", 2),
}


@final
class Fault:
    """One operation of a store that goes wrong: the `number`-th, counted from 1.

    The store under test asks `strikes()` once for each of its operations (a write, an fsync, a statement, a commit),
    before it is done. True means that this one must raise what a broken disk or server raises: with kind `fail` without
    being done, with `tear` after it was done in part, or done and not answered. `delay` and `kill` need no more than
    the question: the caller gives up while the operation is under way, or the process dies there.

    ```python
    from hooksdk.testing import Fault

    fault = Fault("fail", 2)
    assert [fault.strikes() for _ in range(3)] == [False, True, False]
    ```

    Attributes:
        hit: It has happened.
        session: Its session, of which the store knows nothing yet, and the key of its value.
    """

    def __init__(self, kind: FaultKind, number: int) -> None:
        self.kind: FaultKind = kind
        self.number = number
        self.hit = False
        self.session = uuid.uuid4().hex
        self._count = 0
        self._give_up: Callable[[], None] = lambda: None

    def strikes(self) -> bool:
        """Count one operation; True when it must raise."""
        self._count += 1
        if self._count != self.number:
            return False
        self.hit = True
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "delay":
            self._give_up()
        return self.kind in {"fail", "tear"}

    async def run(self, step: Callable[[], Awaitable[object]]) -> bool:
        """Run a step whose caller gives up when this fault says so. True when it came to its end and was not
        cancelled."""
        with anyio.CancelScope() as scope:
            self._give_up = lambda: _cancel(scope)
            await step()
            return True
        return False


def _cancel(scope: anyio.CancelScope) -> None:
    try:
        anyio.from_thread.run_sync(scope.cancel)
    except RuntimeError:  # no worker thread: the loop itself
        scope.cancel()


def check_fault(make: MakeStore, fault: Fault) -> bool:
    """Play a session in which one operation goes wrong, and check what is stored: everything that was acknowledged,
    once and in order, and of the rest whole steps or nothing. Raises `AssertionError`.

    False when the session has fewer operations than `fault.number`, so try 1, 2, 3 and so on until then. `make` makes
    the store with this fault in it, over a place of your choice: each fault has a session of its own. Runs an event
    loop of its own (asyncio), so call it from a plain function; `kill` forks.

    ```python
    import itertools
    import os

    from hooksdk.stores import SqlStore
    from hooksdk.testing import Fault, check_fault

    fsync = os.fdatasync
    for number in itertools.count(1):
        fault = Fault("fail", number)

        def failing(fd: int) -> None:
            if fault.strikes():
                raise OSError("the disk is broken")
            fsync(fd)

        os.fdatasync = failing
        if not check_fault(lambda: SqlStore("sqlite:///place.db"), fault):
            break
    os.fdatasync = fsync
    ```
    """
    if fault.kind == "kill":
        return _check_kill(make, fault)
    steps: list[str] = []
    anyio.run(_play, make, fault, steps.append)
    fault.number = 0  # from here on every operation must work
    anyio.run(_check, make, fault.session, steps)
    return fault.hit


def _check_kill(make: MakeStore, fault: Fault) -> bool:
    with TemporaryDirectory() as folder:
        told = Path(folder, "acknowledged")
        told.touch()
        with warnings.catch_warnings():
            # It is about forking beside threads: the child uses none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _play_and_exit(make, fault, told)
        _, status = os.waitpid(child, 0)
        fault.hit = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not fault.hit and os.waitstatus_to_exitcode(status):
            raise AssertionError(f"the child failed: {told.read_text()[-2000:]}")
        steps = told.read_text().split()
    fault.number = 0  # from here on every operation must work
    anyio.run(_check, make, fault.session, steps)
    return fault.hit


def _play_and_exit(make: MakeStore, fault: Fault, told: Path) -> None:
    code = 1
    with told.open("wb", buffering=0) as file:
        try:
            anyio.run(_play, make, fault, lambda step: file.write(f"{step}\n".encode()))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            code = 0
        except BaseException as error:
            file.write(repr(error).encode())
        finally:
            os._exit(code)


async def _play(make: MakeStore, fault: Fault, acknowledge: Callable[[str], object]) -> None:
    """The session. A step that failed or was cut short is tried again, as a host does it."""
    store = make()
    log = await _open(store, fault)
    acknowledge("open")
    key = fault.session
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "one": lambda: log.append_messages(MESSAGES[:1]),
        "more": lambda: log.append_messages(MESSAGES[1:]),
        "journal": lambda: log.append_journal(JOURNAL, verify=True),
        "value": lambda: store.set_value("p", key, "new"),
        "change": lambda: store.change_value("p", key, "new", "newer"),
    }
    if isinstance(log, RewritableLog):
        steps["shorter"] = functools.partial(log.rewrite_journal, JOURNAL[1:])
    for name, step in steps.items():
        kind, state = STEPS[name]
        try:
            is_done = await fault.run(step)
        except StoreError:  # the step counts as not done, whatever is on the disk
            await step()
        else:
            if not is_done and (await _stored(store, log, key))[kind] != STATES[kind][state]:
                await step()
        acknowledge(name)
    await fault.run(log.close)
    await store.aclose()


async def _open(store: Store, fault: Fault) -> SessionLog:
    logs: list[SessionLog] = []

    async def step() -> None:
        logs.append(await store.open_session(fault.session, wait=LONG))

    try:
        await fault.run(step)
    except StoreError:
        await step()
    if not logs:  # its caller gave up, so it must be free
        await step()
    return logs[0]


async def _stored(store: Store, log: SessionLog, key: str) -> dict[str, Any]:
    messages, journal = await log.read()
    return {"messages": messages, "journal": journal, "value": await store.get_value("p", key)}


async def _check(make: MakeStore, session: str, acknowledged: list[str]) -> None:
    store = make()
    log = await store.open_session(session, wait=LONG)
    stored = await _stored(store, log, session)
    for kind, states in STATES.items():
        least = max((STEPS[name][1] for name in acknowledged if name in STEPS and STEPS[name][0] == kind), default=0)
        if stored[kind] not in states[least:]:
            raise AssertionError(f"the {kind} after {acknowledged} were acknowledged: {json.dumps(stored)}")
    await log.append_messages([{"n": 4}])
    if (await log.read())[0] != [*stored["messages"], {"n": 4}]:
        raise AssertionError("the session cannot go on")
    await log.close()
    await store.aclose()
