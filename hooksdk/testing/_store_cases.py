"""The promises of a store, as cases that any test runner can run: each public coroutine of this file is one."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from hooksdk.errors import SessionBusy, StoreError
from hooksdk.transcript import LazyLog, ListingStore, RewritableLog, RowLog, Store, StoredRow

# Makes a store over the same place each time, as another worker would have it. A store that lives in one process alone
# may answer the same object each time.
MakeStore = Callable[[], Store]

_PATHS = [".", "..", "../../etc/passwd", "a/b\\c", "C:\\x", "CON", "*?<>|", "-rf", "session"]
_LETTERS = ["naïve 会话 🙂", "\u0301", "\ud800", "\u017fession", "a" * 39 + "é", "nul\0byte", "line\nbreak", "", " "]
ODD_IDS = ["plain", "Plain", "PLAIN", "x" * 10_000, "x" * 10_001, *_PATHS, *_LETTERS]
# A message with what JSON can say and a database may not.
MESSAGE: dict[str, Any] = {
    "role": "user",
    "content": "é\ud800\0 \u2028 🙂",
    "number": [1, -2.5, None, True, 10**20],
    "": {},
    "deep": [[[]]],
}
# Seconds to wait for an event that is certain to come, on a busy machine, too.
LONG = 60.0

Workers = Callable[[], Store]
Check = Callable[[Workers], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True)
class StoreCase:
    """One promise of a store. Its name is the promise; awaiting `case(make)` checks it, and raises `AssertionError`.

    ```python
    import anyio

    from hooksdk.stores import SqlStore
    from hooksdk.testing import store_cases

    async def main() -> None:
        for number, case in enumerate(store_cases()):
            await case(lambda: SqlStore(f"sqlite:///place{number}.db"))

    anyio.run(main)
    ```
    """

    name: str
    check: Check

    def __str__(self) -> str:
        """The name."""
        return self.name

    async def __call__(self, make: MakeStore) -> None:
        """Check it in a place that is empty. `make` is called once for each worker; all stores are closed in the
        end."""
        async with _closing(make) as worker:
            await self.check(worker)


@asynccontextmanager
async def _closing(make: MakeStore) -> AsyncGenerator[Workers]:
    stores: list[Store] = []

    def worker() -> Store:
        stores.append(make())
        return stores[-1]

    try:
        yield worker
    finally:
        for store in stores:
            await store.aclose()


def store_cases() -> list[StoreCase]:
    """Every promise of a store.

    In pytest: `@pytest.mark.parametrize("case", store_cases(), ids=str)`.
    """
    return [
        StoreCase(name, check)
        for name, check in globals().items()
        if inspect.iscoroutinefunction(check) and not name.startswith("_")
    ]


def _same(answer: T, expected: T, what: str) -> None:
    if answer != expected:
        raise AssertionError(f"{what}: expected {expected!r:.500}, got {answer!r:.500}")


async def _raises(
    kinds: type[Exception] | tuple[type[Exception], ...], step: Awaitable[object], what: str
) -> Exception:
    try:
        answer = await step
    except kinds as error:
        return error
    raise AssertionError(f"{what}: expected an error, got {answer!r:.200}")


async def messages_and_journal_come_back_in_order(worker: Workers) -> None:
    log = await worker().open_session("s")
    _same((log.existed, await log.read()), (False, ([], [])), "a new session")
    await log.append_messages([{"n": 1}, MESSAGE])
    await log.append_journal([{"kind": "a"}, {"kind": "b"}], verify=True)
    await log.append_messages([{"n": 3}])
    await log.append_messages([])
    stored = ([{"n": 1}, MESSAGE, {"n": 3}], [{"kind": "a"}, {"kind": "b"}])
    _same(await log.read(), stored, "what its holder reads")
    await log.close()
    log = await worker().open_session("s")
    _same((log.existed, await log.read()), (True, stored), "what the next worker reads")
    await log.append_messages([{"n": 4}])
    _same((await log.read())[0][3:], [{"n": 4}], "what it goes on with")


async def messages_that_stay_in_the_store_are_read_as_they_were_stored(worker: Workers) -> None:
    log = await worker().open_session("s")
    if not isinstance(log, LazyLog):
        return
    await log.append_messages([{"n": 1}, MESSAGE])
    await log.append_journal([{"kind": "a"}])
    source, lines, journal = await log.read_encoded()
    _same(([json.loads(line) for line in lines], journal), ([{"n": 1}, MESSAGE], [{"kind": "a"}]), "what is read")
    await log.append_messages([{"n": 3}])
    parts = [list(source.scan(*part)) for part in ((0, 3), (1, 2), (2, 2))]
    _same(parts, [[{"n": 1}, MESSAGE, {"n": 3}], [MESSAGE], []], "what is read again, with what came since")
    next(iter(source.scan(1, 2))).clear()
    _same(list(source.scan(1, 2)), [MESSAGE], "a message after its copy was changed")


async def rows_and_a_state_spare_the_next_opening_the_messages(worker: Workers) -> None:
    log = await worker().open_session("s")
    if not isinstance(log, RowLog):
        return
    await log.append_messages([{"n": 1}, MESSAGE])
    await log.append_journal([{"kind": "a"}])
    rows = [StoredRow(0, "one", "[0]"), StoredRow(1, "two \0\ud800", "[1]"), StoredRow(2, "one", '["é"]')]
    await log.keep_state('{"of": 2}', [("result", row) for row in rows], known=2, upto=1, anew=True)
    await log.append_messages([{"n": 3}])
    await log.append_journal([{"kind": "b"}])
    await log.close()
    log = await worker().open_session("s", wait=LONG)
    assert isinstance(log, RowLog)
    state = await log.read_state()
    assert state is not None
    _same((json.loads(state.state), state.known, state.journal), ({"of": 2}, 2, [{"kind": "b"}]), "the state")
    lines = [json.loads(line) for line in (*state.recent, *state.messages)]
    _same(lines, [MESSAGE, {"n": 3}], "the newest of the view, and what came after the state")
    _same([row.body for row in log.read_rows("result", 1, 3)], ["[1]", '["é"]'], "rows by number")
    tagged = [[row.number for row in log.find_rows(kind, "one")] for kind in ("result", "message")]
    _same(tagged, [[0, 2], []], "rows by tag and kind")
    _same(log.read_entries("b"), [{"kind": "b"}], "entries by kind")
    await log.keep_state('{"of": 3}', [("result", StoredRow(1, "one", "[2]"))], known=3, upto=1, anew=False)
    _same([row.body for row in log.find_rows("result", "one")], ["[0]", "[2]", '["é"]'], "rows after a change of one")


async def what_is_not_json_is_refused_and_nothing_of_the_step_is_stored(worker: Workers) -> None:
    log = await worker().open_session("s")
    for append in (log.append_messages, log.append_journal):
        await _raises(StoreError, append([{"fine": 1}, {"not": object()}]), "a step that is not JSON")
    _same(await log.read(), ([], []), "after it")


async def a_shorter_journal_takes_the_place_of_the_stored_one(worker: Workers) -> None:
    log = await worker().open_session("s")
    if not isinstance(log, RewritableLog):
        return
    await log.append_messages([MESSAGE])
    await log.append_journal([{"n": number} for number in range(5)])
    await log.rewrite_journal([{"n": 3}, {"n": 4}])
    await log.append_journal([{"n": 5}], verify=True)
    stored = ([MESSAGE], [{"n": 3}, {"n": 4}, {"n": 5}])
    _same(await log.read(), stored, "after the new journal")
    _same(await worker().read_session("s"), stored, "what others see")
    await _raises(StoreError, log.rewrite_journal([{"x": object()}]), "a journal that is not JSON")
    _same(await log.read(), stored, "after it was refused")
    await log.close()
    second = await worker().open_session("s", wait=LONG)
    _same(await second.read(), stored, "what the next holder reads")


async def a_session_has_one_holder_at_a_time_and_its_token_rises(worker: Workers) -> None:
    first = await worker().open_session("s")
    with anyio.fail_after(LONG):
        error = await _raises(SessionBusy, worker().open_session("s", wait=0.05), "a second holder")
    _same(vars(error).get("session_id"), "s", "the error's session")
    await (await worker().open_session("other", wait=0)).close()
    await first.close()
    await first.close()
    second = await worker().open_session("s", wait=LONG)
    _same(second.token > first.token, True, "the token rises")


async def who_waits_gets_the_session_when_its_holder_lets_go(worker: Workers) -> None:
    first, order = await worker().open_session("s"), list[str]()

    async def wait(store: Store) -> None:
        second = await store.open_session("s", wait=LONG)
        order.append("second")
        _same((await second.read())[0], [{"n": 1}], "what the second worker reads")

    async with anyio.create_task_group() as group:
        group.start_soon(wait, worker())
        await anyio.wait_all_tasks_blocked()
        order.append("first")
        await first.append_messages([{"n": 1}])
        await first.close()
    _same(order, ["first", "second"], "the order")


async def a_former_holder_can_neither_write_nor_read(worker: Workers) -> None:
    first = await worker().open_session("s")
    await first.close()
    second = await worker().open_session("s", wait=LONG)
    for attempt in (first.append_messages([{}]), first.append_journal([{}]), first.read(), first.verify()):
        await _raises((SessionBusy, StoreError), attempt, "a former holder")
    _same(await second.read(), ([], []), "after it")


async def waiting_for_a_session_can_be_cancelled_and_leaves_it_free(worker: Workers) -> None:
    first = await worker().open_session("s")
    with anyio.move_on_after(0.05) as scope:
        await worker().open_session("s", wait=LONG)
    _same(scope.cancelled_caught, True, "the wait was cancelled")
    await first.close()
    await (await worker().open_session("s", wait=LONG)).close()


async def a_session_that_somebody_holds_can_be_looked_at(worker: Workers) -> None:
    log, reader = await worker().open_session("s"), worker()
    _same(await reader.read_session("s"), ([], []), "a new session")
    await log.append_messages([{"n": 1}, MESSAGE])
    await log.append_journal([{"kind": "a"}])
    _same(await reader.read_session("s"), ([{"n": 1}, MESSAGE], [{"kind": "a"}]), "while it is held")
    await log.append_messages([{"n": 3}])
    await log.close()
    _same((await reader.read_session("s"))[0][2:], [{"n": 3}], "after it was closed")
    await _raises(StoreError, reader.read_session("t"), "a session that was never opened")
    _same(await reader.list_sessions(), ["s"], "looking makes no session")


async def how_every_session_begins_is_told_whoever_holds_it(worker: Workers) -> None:
    store = worker()
    if not isinstance(store, ListingStore):
        return
    _same(await store.list_beginnings(), [], "of an empty store")
    messages = [{"n": number, "text": "x" * 100} for number in range(50)]
    for name in ("held", "free", "empty"):
        log = await store.open_session(name)
        if name != "empty":
            await log.append_journal([{"kind": "format", "name": name}])
            await log.append_messages(messages)
        if name == "free":
            await log.close()
    beginnings = {one.session_id: one for one in await store.list_beginnings()}
    _same(sorted(beginnings), ["empty", "free", "held"], "the sessions")
    for name in ("held", "free"):
        one = beginnings[name]
        _same(list(one.messages), messages[: len(one.messages)], "the first messages")
        _same(bool(one.messages) and one.changed is not None, True, "that there are messages and a time")
        _same(list(one.journal), [{"kind": "format", "name": name}], "the first entries")
    _same(list(beginnings["empty"].messages), [], "the messages of an empty session")


async def any_text_is_a_session_id(worker: Workers) -> None:
    store, other = worker(), worker()
    for number, name in enumerate(ODD_IDS):
        _same(await store.session_exists(name), False, f"{name!r:.50} before it was opened")
        log = await store.open_session(name, wait=0)
        await log.append_messages([{"n": number}])
        await log.close()
    _same(await other.list_sessions(), sorted(ODD_IDS), "the ids")
    for number, name in enumerate(ODD_IDS):
        _same((await other.read_session(name))[0], [{"n": number}], f"the messages of {name!r:.50}")


async def steps_side_by_side_are_stored_one_by_one(worker: Workers) -> None:
    log = await worker().open_session("s")
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(log.append_messages, [{"n": number, "part": part} for part in (1, 2)])
    stored = (await log.read())[0]
    _same(sorted(each["n"] for each in stored[::2]), list(range(8)), "every step")
    _same([each["n"] for each in stored[::2]], [each["n"] for each in stored[1::2]], "each step is whole")


async def a_cancelled_append_is_stored_whole_or_not_at_all(worker: Workers) -> None:
    log = await worker().open_session("s")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await log.append_messages([{"n": 1}, {"n": 2}])
    _same((await log.read())[0] in ([], [{"n": 1}, {"n": 2}]), True, "a step that was cancelled")


async def values_are_kept_by_space_and_key(worker: Workers) -> None:
    store, other = worker(), worker()
    _same(await store.get_value("plugin", "k"), None, "a value that is not there")
    _same(await store.get_value("plugin", "k", 7), 7, "its default")
    for key in ("k", "../x", "", "é\ud800"):
        await store.set_value("plugin", key, {"key": "old"})
        await store.set_value("plugin", key, {"key": key, "list": [1, None, 2.5]})
        _same(await other.get_value("plugin", key), {"key": key, "list": [1, None, 2.5]}, f"the value of {key!r}")
    await store.set_value("../plugin", "k", "another space")
    await store.delete_value("plugin", "../x")
    await store.delete_value("plugin", "never there")
    _same(await other.list_keys("plugin"), ["", "k", "é\ud800"], "the keys")
    _same(await other.list_keys("empty"), [], "the keys of no space")


async def a_value_is_apart_from_what_was_passed_and_what_is_handed_out(worker: Workers) -> None:
    store, value = worker(), {"list": [1]}
    await store.set_value("p", "k", value)
    value["list"].append(2)
    (await store.get_value("p", "k"))["list"].append(3)
    _same(await store.get_value("p", "k"), {"list": [1]}, "the stored value")


async def a_value_that_is_not_json_is_refused_and_the_old_one_stays(worker: Workers) -> None:
    store = worker()
    await store.set_value("p", "k", 1)
    await _raises(StoreError, store.set_value("p", "k", {"x": object()}), "a value that is not JSON")
    _same(await store.get_value("p", "k"), 1, "the old value")


async def parallel_changes_of_one_space_lose_nothing(worker: Workers) -> None:
    stores = [worker(), worker()]
    async with anyio.create_task_group() as group:
        for number in range(16):
            group.start_soon(stores[number % 2].set_value, "p", f"k{number:02}", number)
    values = [await stores[0].get_value("p", key) for key in await stores[1].list_keys("p")]
    _same(values, list(range(16)), "the values")


async def a_value_is_changed_only_where_it_is_what_was_expected(worker: Workers) -> None:
    store, other = worker(), worker()
    value = {"b": [1, None], "a": "é\ud800"}
    steps: list[tuple[Any, Any, bool]] = [
        (1, 2, False),
        (None, value, True),
        (None, 1, False),
        ({**value, "b": [1]}, 1, False),
        (dict(reversed(value.items())), 1, True),
        *[(unlike, 2, False) for unlike in (True, 1.0, "1")],
        (2, None, False),
        (1, None, True),
        (1, None, False),
        (None, None, True),
    ]
    stored: Any = None
    for old, new, changes in steps:
        what = f"from {old!r} to {new!r}"
        _same(await store.change_value("p", "k", old, new), changes, what)
        stored = new if changes else stored
        _same(await other.get_value("p", "k"), stored, f"what others read after a change {what}")
    _same(await other.list_keys("p"), [], "the keys once it was removed")
    for refused in ((None, {"x": object()}), ({"x": object()}, 1)):
        await _raises(StoreError, store.change_value("p", "k", *refused), "a value that is not JSON")
    _same(await other.get_value("p", "k", "none"), "none", "after it was refused")


async def of_all_who_change_a_value_at_once_one_does(worker: Workers) -> None:
    stores = [worker(), worker()]

    async def count_up(store: Store) -> None:
        for _ in range(8):
            while not await store.change_value("p", "k", count := await store.get_value("p", "k"), (count or 0) + 1):
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(count_up, stores[number % 2])
    _same(await stores[0].get_value("p", "k"), 32, "what all have counted")


async def closing_the_store_lets_every_session_go(worker: Workers) -> None:
    store = worker()
    logs = [await store.open_session(name) for name in ("a", "b")]
    for log in logs:
        await log.append_messages([{"n": 1}])
    await store.aclose()
    for name in ("a", "b"):
        store = worker()
        log = await store.open_session(name, wait=LONG)
        _same((await log.read())[0], [{"n": 1}], "what the next worker reads")
