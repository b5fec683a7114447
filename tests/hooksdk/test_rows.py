"""What a session knows of its messages is kept as rows beside them: a long session opens without its messages, and knows
what it would know if it had read them."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import hashlib
import re
import tempfile
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledgers import STEPS, knowledge, play_steps
from transcripts import ALL, ANTHROPIC, GEMINI, OPENAI, RESPONSES, House, history, opened

from hooksdk._transcript import messages, rows
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.keeping import unstored
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import SessionBusy, StoreError
from hooksdk.formats import Message, MessageFormat
from hooksdk.stores import MemoryStore, SqlStore, Store, _chains, _kept_rows, _sql_log
from hooksdk.stores._hashes import session_key
from hooksdk.stores.upkeep import examine, mend
from hooksdk.transcript import Results, Transcript
from tests.hooksdk.tables import rewrite, run_sql, select
from tests.postgres import Postgres

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session counts as a long one: next to nothing stays in memory, and all is read in several pages."""
    monkeypatch.setattr(messages, "KEPT_BYTES", 200)
    for name, number in {"PAGE": 4, "KEPT_ROWS": 3, "MOST_PAGES": 2}.items():
        monkeypatch.setattr(messages, name, number)
    monkeypatch.setattr(_chains, "PAGE", 5)
    for name, number in {"RECENT_BYTES": 300, "RECENT_ROWS": 3, "MIN_STATE_BYTES": 1}.items():
        monkeypatch.setattr(_kept_rows, name, number)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.heavy)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SqlStore]:
    """One that is empty."""
    store = SqlStore(tmp_path if request.param == "sqlite" else request.getfixturevalue("postgres").url())
    yield store
    await store.aclose()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The position of each message that is read from the database."""
    positions: list[int] = []
    read_chain = _chains.read_chain

    def counting(transaction: Any, table: Any, session_id: str, start: int, stop: int, *more: Any) -> list[bytes]:
        positions.extend(range(start, stop) if table is _chains.MESSAGES else ())
        return read_chain(transaction, table, session_id, start, stop, *more)

    for module in (_chains, _kept_rows, _sql_log):
        monkeypatch.setattr(module, "read_chain", counting)
    return positions


def ledger_of(transcript: Transcript) -> Ledger:
    return transcript._ledger


async def eager(store: Store, form: MessageFormat, session_id: str = "s") -> dict[str, Any]:
    """What a ledger knows that has read everything."""
    stored, journal = await store.read_session(session_id)
    return knowledge(Ledger.replay(stored, journal, form))


async def filled(store: Store, turns: int = 6, session_id: str = "s") -> None:
    """A closed session with an applied trim and one that waits."""
    async with opened(store, session_id) as transcript:
        await transcript.append(history(OPENAI, [f"{session_id} {number} " * 300 for number in range(turns)]))
        await Results(transcript, "p").trim("r2")
        await transcript.drain()
    async with opened(store, session_id) as transcript:  # its state was kept by now
        await Results(transcript, "p").trim("r3")


async def opens_right(store: SqlStore) -> None:
    stored, _ = await store.read_session("s")
    async with opened(store, form=None) as transcript:
        assert knowledge(ledger_of(transcript)) == await eager(store, OPENAI)
        await transcript.append([OPENAI.user("more")])
        assert transcript.messages == [*stored, OPENAI.user("more")]


# --- the same as from a list ---


async def _knows_the_same(
    store: Store, session_id: str, steps: list[Any], more: list[Any], form: MessageFormat
) -> None:
    async with opened(store, session_id, form=form) as transcript:
        await play_steps(transcript, steps, form)
    async with opened(store, session_id, form=None) as transcript:
        assert knowledge(ledger_of(transcript)) == await eager(store, form, session_id)
        await play_steps(transcript, more, form)
        assert knowledge(ledger_of(transcript)) == await eager(store, form, session_id)
        assert transcript.messages == (await store.read_session(session_id))[0]
    async with opened(store, session_id, form=None) as transcript:
        assert knowledge(ledger_of(transcript)) == await eager(store, form, session_id)


@pytest.mark.heavy
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, STEPS, st.sampled_from(ALL), st.sampled_from([1, 500, 5_000]), st.booleans())
def test_a_session_that_opens_by_its_rows_knows_what_one_knows_that_reads_everything(
    steps: list[Any], more: list[Any], form: MessageFormat, state_bytes: int, in_memory: bool
) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = MemoryStore() if in_memory else SqlStore(Path(folder))
            await _knows_the_same(store, "s", steps, more, form)
            await store.aclose()

    _kept_rows.MIN_STATE_BYTES = state_bytes
    anyio.run(run)


NUMBERS = count(1)


@pytest.mark.heavy
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(STEPS, STEPS, st.sampled_from(ALL))
def test_in_postgresql_it_knows_that_too(
    shared_url: str, steps: list[Any], more: list[Any], form: MessageFormat
) -> None:
    async def run() -> None:
        store = SqlStore(shared_url)
        await _knows_the_same(store, f"s{next(NUMBERS)}", steps, more, form)
        await store.aclose()

    anyio.run(run)


@pytest.fixture(scope="module")
def shared_url(postgres: Postgres) -> str:
    """Of one database for all sessions."""
    return postgres.url()


# --- what is read ---


async def test_an_opening_reads_the_newest_messages_and_those_that_came_after_the_state(
    store: SqlStore, read: list[int]
) -> None:
    await filled(store, turns=50)
    read.clear()
    async with opened(store, form=None) as transcript:
        assert {99, 100, 101} <= set(read) <= {4, 6, 99, 100, 101}  # two results are short in the view, or will be
        assert len(transcript.messages) == 102
    log = await store.open_session("s")
    await log.append_messages([OPENAI.user("later"), OPENAI.reply("yes")])
    await log.close()
    read.clear()
    async with opened(store, form=None):
        assert {102, 103} <= set(read)
        assert len(set(read)) <= 7
    await opens_right(store)


async def test_of_old_messages_a_trim_reads_those_alone_that_it_shortens(store: SqlStore, read: list[int]) -> None:
    await filled(store, turns=50)
    async with opened(store, form=None) as transcript:
        read.clear()
        await Results(transcript, "p").trim("r10")
        await transcript.drain()
        assert set(read) <= {4, 6, 20}  # of r2, r3 and r10
        assert len(transcript.list_results()) == 50
        assert set(read) <= {4, 6, 20}
    await opens_right(store)


async def test_a_short_session_keeps_no_rows(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kept_rows, "MIN_STATE_BYTES", 1_000_000)
    await filled(store)
    assert await select(store, "SELECT 1 FROM hooksdk_rows UNION ALL SELECT 1 FROM hooksdk_states") == []
    await opens_right(store)


async def test_a_format_of_a_hosts_own_keeps_no_rows(store: SqlStore) -> None:
    async with opened(store, form=House()) as transcript:
        await transcript.append(history(House(), ["short"] * 20))
    async with opened(store, form=House()) as transcript:
        assert knowledge(ledger_of(transcript)) == await eager(store, House())
    assert await select(store, "SELECT 1 FROM hooksdk_rows UNION ALL SELECT 1 FROM hooksdk_states") == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_bodies_that_were_read_are_the_callers_own(tmp_path: Path, kind: str) -> None:
    store = MemoryStore() if kind == "memory" else SqlStore(tmp_path)
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, ["text"] * 20))
    async with opened(store) as transcript:
        before = transcript.view
        for message in [*transcript.view, *transcript.messages]:
            message["content"] = "spoilt"
        assert transcript.view == transcript.messages == before
    await store.aclose()


@pytest.mark.heavy
async def test_a_long_session_that_opens_by_its_rows_holds_a_tenth_of_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "KEPT_BYTES", 200_000)
    for name, number in {"PAGE": 256, "KEPT_ROWS": 2_000, "MOST_PAGES": 64}.items():
        monkeypatch.setattr(messages, name, number)
    store = SqlStore(tmp_path)
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [f"{number} ".ljust(3_000) for number in range(10_000)]))
        await transcript.compact([OPENAI.user("all that was"), *transcript.view[-51:]])
    ((size,),) = await select(store, "SELECT sum(length(body)) FROM hooksdk_messages")
    async with opened(store, form=None):
        pass
    tracemalloc.start()
    try:
        async with opened(store, form=None):
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 10
    await store.aclose()


# --- rows and states that are not what was stored ---

KEEPERS = ("hooksdk_states", "hooksdk_rows")


async def _is_right_or_refused(store: SqlStore, copy: dict[str, list[Any]], what: str) -> None:
    """An opening knows what is true, or raises, and then the next one does."""
    for _ in range(2):
        try:
            async with opened(store, form=None) as transcript:
                assert knowledge(ledger_of(transcript)) == await eager(store, OPENAI), what
        except StoreError:
            continue
        return
    pytest.fail(f"{what}: refused twice")


async def _backup(store: SqlStore) -> dict[str, list[Any]]:
    return {name: await select(store, f"SELECT * FROM hooksdk_{name}") for name in ("rows", "states")}


async def _restore(store: SqlStore, copy: dict[str, list[Any]]) -> None:
    for name, stored in copy.items():
        await run_sql(store, f"DELETE FROM hooksdk_{name}")
        for row in stored:
            given = {f"c{number}": value for number, value in enumerate(row)}
            await run_sql(store, f"INSERT INTO hooksdk_{name} VALUES ({', '.join(f':{c}' for c in given)})", given)


@pytest.mark.heavy
async def test_a_state_with_another_byte_anywhere_changes_nothing(store: SqlStore) -> None:
    await filled(store)
    copy = await _backup(store)
    ((body,),) = await select(store, "SELECT body FROM hooksdk_states")
    assert len(body) > 300
    cuts = [body[:length] for length in range(0, len(body), 41)]
    cuts += [body[:at] + chr(ord(body[at]) ^ 1) + body[at + 1 :] for at in range(0, len(body), 7)]
    for other in cuts:
        await run_sql(store, "UPDATE hooksdk_states SET body = :body", {"body": other})
        await _is_right_or_refused(store, copy, other)
        await _restore(store, copy)
    for column in ("messages", "journal", "upto"):
        for number in (-1, 0, 1, 5, 10_000):
            await run_sql(store, f"UPDATE hooksdk_states SET {column} = :number", {"number": number})
            await _is_right_or_refused(store, copy, f"{column} {number}")
            await _restore(store, copy)
    await run_sql(store, "UPDATE hooksdk_states SET hash = :hash", {"hash": b"\0" * 16})
    await _is_right_or_refused(store, copy, "hash")
    await run_sql(store, "DELETE FROM hooksdk_states")
    await _is_right_or_refused(store, copy, "gone")
    await opens_right(store)


CHANGED_ROWS = {
    "body": "UPDATE hooksdk_rows SET body = '[0, 1, 1]' WHERE kind = :kind AND number = :number",
    "a digit": "UPDATE hooksdk_rows SET body = replace(body, '1', '2') WHERE kind = :kind AND number = :number",
    "empty": "UPDATE hooksdk_rows SET body = 'x' WHERE kind = :kind AND number = :number",
    "hash": "UPDATE hooksdk_rows SET hash = tag WHERE kind = :kind AND number = :number",
    "number": "UPDATE hooksdk_rows SET number = number + 1000 WHERE kind = :kind AND number = :number",
    "kind": "UPDATE hooksdk_rows SET kind = 'else' WHERE kind = :kind AND number = :number",
    "tag": "UPDATE hooksdk_rows SET tag = hash WHERE kind = :kind AND number = :number",
    "gone": "DELETE FROM hooksdk_rows WHERE kind = :kind AND number = :number",
}


@pytest.mark.heavy
@pytest.mark.parametrize("change", CHANGED_ROWS)
async def test_a_row_that_somebody_changed_is_refused_once_and_made_anew(store: SqlStore, change: str) -> None:
    await filled(store)
    async with opened(store, form=None) as transcript:
        for summary in ("first", "second"):
            await Results(transcript, "p").trim("r5", summary)
            await transcript.drain()
        await transcript.append([OPENAI.user("Begin"), OPENAI.reply("fine " * 1_000)])
    copy = await _backup(store)
    stored = await select(store, "SELECT kind, number FROM hooksdk_rows ORDER BY kind, number")
    assert {kind for kind, _ in stored} == {"message", "result", "prompt", "shown"}
    for kind, number in stored:
        if change in {"kind", "tag", "gone"} and kind in {"prompt", "shown"}:
            continue  # see the next test
        await run_sql(store, CHANGED_ROWS[change], {"kind": kind, "number": number})
        await _is_right_or_refused(store, copy, f"{change} of {kind} {number}")
        await _restore(store, copy)
    await opens_right(store)


@pytest.mark.heavy
@pytest.mark.parametrize("change", ["kind", "tag", "gone"])
async def test_a_prompts_row_that_somebody_took_away_is_missed(store: SqlStore, change: str) -> None:
    await filled(store)
    async with opened(store, form=None) as transcript:
        await transcript.drain()
        await transcript.append([OPENAI.user("Begin"), OPENAI.reply("fine " * 1_000)])
    await run_sql(store, CHANGED_ROWS[change], {"kind": "prompt", "number": 14})
    (flaw,) = await examine(store)
    assert "hooksdk_rows, " in flaw.what
    async with opened(store, form=None) as transcript:
        with pytest.raises(StoreError, match="prompt: a row is missing, or is an older one"):
            ledger_of(transcript).lookup.has_prompt("begin")
    async with opened(store, form=None) as transcript:
        assert ledger_of(transcript).lookup.has_prompt("begin")
    assert await examine(store) == []


async def test_tables_of_version_4_whose_states_had_no_sums_are_led_to_this_version(store: SqlStore) -> None:
    await filled(store)
    await run_sql(store, "ALTER TABLE hooksdk_states DROP COLUMN sums")
    await run_sql(store, "UPDATE hooksdk_schema SET version = 4")
    later = SqlStore(store.file.parent if store.file else store._url)
    await opens_right(later)
    assert await examine(later) == []
    await opens_right(later)
    await later.aclose()


async def test_rows_of_another_session_in_the_place_of_ones_own_are_refused(store: SqlStore) -> None:
    await filled(store, session_id="other")
    await filled(store)
    copy = await _backup(store)
    ((other,), (mine,)) = sorted(
        await select(store, "SELECT id FROM hooksdk_sessions"), key=lambda row: row[0] == session_key("s")
    )
    for table in KEEPERS:
        await run_sql(store, f"DELETE FROM {table} WHERE session = :mine", {"mine": mine})
        await run_sql(
            store, f"UPDATE {table} SET session = :mine WHERE session = :other", {"mine": mine, "other": other}
        )
        await _is_right_or_refused(store, copy, table)
        await _restore(store, copy)


async def test_an_older_state_with_its_rows_is_good_for_what_came_before(store: SqlStore, read: list[int]) -> None:
    await filled(store)
    copy = await _backup(store)
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, ["more"] * 30))
    await _restore(store, copy)
    read.clear()
    async with opened(store, form=None) as transcript:
        assert not {0, 1, 2, 3, 5, 7} & set(read)
        assert knowledge(ledger_of(transcript)) == await eager(store, OPENAI)
    await opens_right(store)


async def test_an_older_row_in_the_place_of_a_newer_one_is_found_by_the_doctor(store: SqlStore) -> None:
    await filled(store)
    older = await _backup(store)
    async with opened(store, form=None) as transcript:
        await transcript.drain()  # r3 is short now
        await transcript.append(history(OPENAI, ["more " * 200] * 3))
    newer = await _backup(store)
    assert await examine(store) == []
    await _restore(store, {"rows": older["rows"]})
    missing = [row for row in newer["rows"] if row[1:3] not in [row[1:3] for row in older["rows"]]]
    for row in missing:
        given = {f"c{number}": value for number, value in enumerate(row)}
        await run_sql(store, f"INSERT INTO hooksdk_rows VALUES ({', '.join(f':{c}' for c in given)})", given)
    (flaw,) = await examine(store)
    assert flaw.what == "hooksdk_rows, result: a row is missing, was added, or is an older one"
    await mend(store, flaw)
    assert await examine(store) == []
    await opens_right(store)


async def test_a_state_of_another_version_is_not_used(
    store: SqlStore, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hooksdk._transcript import reading

    await filled(store)
    monkeypatch.setattr(reading, "ROWS_VERSION", rows.ROWS_VERSION + 1)
    read.clear()
    async with opened(store, form=None):
        assert min(read) == 0
    await opens_right(store)


async def test_who_lost_the_session_keeps_no_state(store: SqlStore) -> None:
    await filled(store)
    async with opened(store, form=None) as transcript:
        before = await _backup(store)
        await run_sql(store, "UPDATE hooksdk_sessions SET token = token + 1, holder = 'x'")
        log: Any = transcript._log
        with pytest.raises(SessionBusy):
            await log.keep_state("{}", [], known=ledger_of(transcript).count, upto=0, anew=True)
        assert await _backup(store) == before


async def test_a_database_that_takes_no_rows_keeps_the_session_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlStore(tmp_path)
    await store.set_value("space", "key", 1)
    full = "BEFORE INSERT ON hooksdk_rows BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    await run_sql(store, f"CREATE TRIGGER full {full}")
    for _ in range(2):
        async with opened(store) as transcript:
            await transcript.append(history(OPENAI, ["result"]))
    assert "what a session knows of its messages was not kept" in caplog.text
    assert await select(store, "SELECT 1 FROM hooksdk_states") == []
    await opens_right(store)
    await store.aclose()


async def test_deleting_a_session_deletes_its_rows_and_its_state(store: SqlStore) -> None:
    await filled(store, session_id="other")
    await filled(store)
    others = {name: len(stored) for name, stored in (await _backup(store)).items()}
    assert await store.delete_session("s")
    assert {name: 2 * len(stored) for name, stored in (await _backup(store)).items()} == others


async def test_a_journal_that_is_written_anew_takes_its_state_along(store: SqlStore) -> None:
    await filled(store)
    log = await store.open_session("s")
    await log.read()
    await log.rewrite_journal((await store.read_session("s"))[1])
    await log.close()
    assert (await _backup(store)) == {"rows": [], "states": []}
    await opens_right(store)


# --- messages and entries that are not what was stored ---

Stored = list[tuple[Any, ...]]
Change = Callable[[Stored, int], Stored]


def renumbered(stored: Stored) -> Stored:
    return [(row[0], number, *row[2:]) for number, row in enumerate(stored)]


def with_body(row: tuple[Any, ...], body: str) -> tuple[Any, ...]:
    return (*row[:-2], body, row[-1])


CHANGES: dict[str, Change] = {
    "a letter": lambda stored, at: [*stored[:at], with_body(stored[at], stored[at][-2].replace("e", "f", 1)), *stored[at + 1 :]],
    "a blank": lambda stored, at: [*stored[:at], with_body(stored[at], stored[at][-2].replace(":", ": ", 1)), *stored[at + 1 :]],
    "a key twice": lambda stored, at: [*stored[:at], with_body(stored[at], '{"m":0,' + stored[at][-2][1:]), *stored[at + 1 :]],
    "no JSON": lambda stored, at: [*stored[:at], with_body(stored[at], "x"), *stored[at + 1 :]],
    "a hash": lambda stored, at: [*stored[:at], (*stored[at][:-1], b"0" * 32), *stored[at + 1 :]],
    "an older body": lambda stored, at: [*stored[:at], with_body(stored[at], stored[at - 1][-2]), *stored[at + 1 :]],
    "an older row": lambda stored, at: renumbered([*stored[:at], stored[at - 1], *stored[at + 1 :]]),
    "dropped": lambda stored, at: [*stored[:at], *stored[at + 1 :]],
    "dropped, and the others move up": lambda stored, at: renumbered([*stored[:at], *stored[at + 1 :]]),
    "doubled": lambda stored, at: renumbered([*stored[: at + 1], *stored[at:]]),
    "swapped": lambda stored, at: renumbered([*stored[: at - 1], stored[at], stored[at - 1], *stored[at + 1 :]]),
    "put in": lambda stored, at: renumbered([*stored[:at], with_body(stored[at], '{"role":"user","content":"hi"}'), *stored[at:]]),
    "put at the end": lambda stored, at: renumbered([*stored, stored[at]]),
    "cut off": lambda stored, at: stored[:at],
    "of another session": lambda stored, at: [*stored[:at], (7, *stored[at][1:]), *stored[at + 1 :]],
}  # fmt: skip
"""What was done to the rows of a table, at one of them. The body stands last but one, the hash last."""
CHANGED_TABLES = ("hooksdk_messages", "hooksdk_journal")


async def _rows_of(store: SqlStore, table: str) -> Stored:
    stored = await select(store, f"SELECT * FROM {table} ORDER BY position")
    return [(*row[:-1], bytes(row[-1])) for row in stored]


async def _store_rows(store: SqlStore, table: str, stored: Stored) -> None:
    await run_sql(store, f"DELETE FROM {table}")
    for row in stored:
        given = {f"c{number}": value for number, value in enumerate(row)}
        await run_sql(store, f"INSERT INTO {table} VALUES ({', '.join(f':{name}' for name in given)})", given)


async def _is_told(step: Awaitable[Any], table: str, most: int) -> None:
    """It is a `StoreError` that names the session, the table, and a row that is near."""
    with pytest.raises(StoreError) as caught:
        await step
    named = re.fullmatch(rf"session 's', {table}, position (\d+): (?s:.*)", str(caught.value))
    assert named, str(caught.value)
    assert most - 1 <= int(named[1]) <= most + 1, str(caught.value)


async def _opened(store: SqlStore) -> None:
    async with opened(store, form=None):
        pass


@pytest.mark.heavy
@pytest.mark.light(every=4)
@pytest.mark.parametrize("table", CHANGED_TABLES)
@pytest.mark.parametrize("change", CHANGES)
async def test_whichever_message_or_entry_somebody_changed_is_told_with_its_place(
    store: SqlStore, table: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kept_rows, "MIN_STATE_BYTES", 1_000_000)  # each opening reads everything
    await filled(store)
    stored = await _rows_of(store, table)
    for at in range(1, len(stored)):
        changed = CHANGES[change](stored, at)
        assert changed != stored
        await _store_rows(store, table, changed)
        place = len(stored) if change == "put at the end" else at
        await _is_told(store.read_session("s"), table, place)
        await _is_told(_opened(store), table, place)
        await _store_rows(store, table, stored)
    await opens_right(store)


@pytest.mark.heavy
@pytest.mark.parametrize("change", [name for name in CHANGES if "end" not in name])
async def test_an_old_message_that_somebody_changed_is_told_when_it_is_read(store: SqlStore, change: str) -> None:
    await filled(store, turns=12)
    stored = await _rows_of(store, "hooksdk_messages")
    for at in (1, 4, 9):
        async with opened(store, form=None) as transcript:
            await _store_rows(store, "hooksdk_messages", CHANGES[change](stored, at))

            async def read(transcript: Transcript = transcript) -> None:
                _ = transcript.messages

            await _is_told(read(), "hooksdk_messages", at)
            await _store_rows(store, "hooksdk_messages", stored)
            assert transcript.messages == (await store.read_session("s"))[0]


ENDS = ("messages", "journal")


@pytest.mark.parametrize("by_state", [True, False])
@pytest.mark.parametrize("column", ENDS)
@pytest.mark.parametrize("value", ["{0} - 1", "{0} + 1", "0", "1000", "{0}_hash"])
async def test_a_sessions_row_that_does_not_fit_its_messages_and_entries_is_told(
    store: SqlStore, column: str, value: str, by_state: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_state:
        monkeypatch.setattr(_kept_rows, "MIN_STATE_BYTES", 1_000_000)
    await filled(store)
    if value.endswith("hash"):
        await run_sql(store, f"UPDATE hooksdk_sessions SET {column}_hash = :hash", {"hash": b"0" * 32})
    else:
        await run_sql(store, f"UPDATE hooksdk_sessions SET {column} = {value.format(column)}")
    for step in (store.read_session("s"), _opened(store)):
        with pytest.raises(StoreError, match=rf"session 's', hooksdk_{column}, position -?\d+: "):
            await step


async def test_a_changed_value_is_told_and_goes_with_the_next(store: SqlStore) -> None:
    await store.set_value("p", "k", {"n": 1})
    for column, value in (("body", '{"n": 2}'), ("hash", b"0" * 16), ("body", "x")):
        await run_sql(store, f"UPDATE hooksdk_values SET {column} = :value", {"value": value})
        for attempt in (store.get_value("p", "k"), store.change_value("p", "k", {"n": 2}, {"n": 3})):
            with pytest.raises(StoreError, match=r"hooksdk_values, space p-\w+, key k-\w+: this row was changed"):
                await attempt
        await store.set_value("p", "k", {"n": 1})
        assert await store.get_value("p", "k") == {"n": 1}


async def test_messages_that_were_stored_anew_with_hashes_that_fit_are_what_is_read(store: SqlStore) -> None:
    await filled(store)
    await rewrite(store, lambda whole: [{**message, "name": "x"} for message in whole])
    assert {message["name"] for message in (await store.read_session("s"))[0]} == {"x"}
    await opens_right(store)


# --- what is said of a message ---

SAMPLES: list[tuple[MessageFormat, list[Message]]] = [
    (form, [
        form.user("Häuser?"),
        *form.reply_messages("Let me look.", [ToolCall("t1", "read_file", {"path": "a"}), ToolCall("t2", "now", {"zone": "UTC " * 100})]),
        *form.result_messages([
            (ToolCall("t1", "read_file", {"path": "a"}), ToolResult("text " * 300)),
            (ToolCall("t2", "now", {}), ToolResult("no", is_error=True, blocks=[
                {"type": "text", "text": "no"}, {"type": "image", "mimeType": "image/png", "data": "QUJD"}])),
        ]),
        form.reply("done"),
    ])
    for form in (OPENAI, ANTHROPIC, RESPONSES, GEMINI)
]  # fmt: skip

SAID = "b12ec6ee4e5046da757f80cad883b170011f1df43eabe0abe3a82a0673803500"
"""What this version says of these messages."""


def test_what_is_said_of_a_message_changes_with_its_version_alone() -> None:
    """When this fails: raise ROWS_VERSION, and put what stands here now in the place of SAID."""
    said = hashlib.sha256()
    for form, sample in SAMPLES:
        ledger = Ledger.replay(sample, [], form)
        said.update(repr([(kind, *row) for kind, row in unstored(ledger)]).encode())
    assert (rows.ROWS_VERSION, said.hexdigest()) == (6, SAID)
