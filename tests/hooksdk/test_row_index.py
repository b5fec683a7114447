"""The index that a database keeps beside a session's messages, which nothing depends on."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from ledgers import knowledge
from transcripts import OPENAI, history, opened

from hooksdk._transcript import messages
from hooksdk._transcript.journal import Ledger
from hooksdk.errors import SessionBusy
from hooksdk.stores import SqlStore, _index, _lines, _sql_log
from hooksdk.stores._sql_log import KEEP_INDEX
from hooksdk.stores.jsonl import file_name

pytestmark = [pytest.mark.anyio, pytest.mark.heavy, pytest.mark.in_ci(store=["sqlite"])]


@pytest.fixture(autouse=True)
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session counts as a long one, and is read in several pages."""
    monkeypatch.setattr(messages, "KEPT_BYTES", 200)
    monkeypatch.setattr(_lines, "MIN_INDEX_BYTES", 1)
    monkeypatch.setattr(_sql_log, "PAGE", 5)


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SqlStore]:
    """With the session `s` of 16 messages and its index."""
    is_file = request.param == "sqlite"
    store = SqlStore(
        f"sqlite:///{tmp_path / 'sessions.db'}" if is_file else request.getfixturevalue("postgres").url(), lease=60
    )
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [f"result {number}" for number in range(7)]))
    yield store
    await store.aclose()


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The position of each message that was judged at an opening."""
    positions: list[int] = []
    parse = _sql_log._parse_body

    def counting(line: bytes, table: _sql_log.Table, session_id: str, position: int) -> dict[str, Any]:
        positions.extend([position] if table is _sql_log.MESSAGES else [])
        return parse(line, table, session_id, position)

    monkeypatch.setattr(_sql_log, "_parse_body", counting)
    return positions


async def change(store: SqlStore, statement: str, **row: object) -> None:
    await store._open().transaction(lambda transaction: transaction.execute(statement, {"key": file_name("s"), **row}))


async def index_of(store: SqlStore, session_id: str = "s") -> bytes:
    rows = await store._rows("SELECT body FROM hooksdk_indexes WHERE key = :key", key=file_name(session_id))
    return bytes(rows[0]) if rows else b""


async def opens_right(store: SqlStore) -> None:
    """It opens as it reads, goes on, and its messages are the stored ones."""
    stored, journal = await store.read_session("s")
    async with opened(store, form=None) as transcript:
        assert knowledge(transcript._ledger) == knowledge(Ledger.replay(stored, journal, OPENAI))
        await transcript.append([OPENAI.user("more")])
        assert transcript.messages == [*stored, OPENAI.user("more")]


async def test_of_what_the_index_covers_no_row_is_judged_again(store: SqlStore, judged: list[int]) -> None:
    count = len((await store.read_session("s"))[0])
    judged.clear()
    async with opened(store, form=None):
        pass
    assert judged == []
    log = await store.open_session("s")
    await log.append_messages([OPENAI.user("more")])
    await log.close()
    await store.read_session("s")
    judged.clear()
    async with opened(store, form=None):
        pass
    assert judged == [count]
    await opens_right(store)


async def test_an_index_that_was_cut_or_has_another_byte_loses_nothing(store: SqlStore, judged: list[int]) -> None:
    whole = await index_of(store)
    assert len(whole) > 500
    damaged = [whole[:length] for length in range(0, len(whole), 97)]
    damaged += [whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :] for at in range(0, len(whole), 97)]
    for body in damaged:
        await change(store, KEEP_INDEX, body=body)
        judged.clear()
        async with opened(store, form=None):
            assert judged[0] == 0
    await opens_right(store)


@pytest.mark.parametrize("note", [b"", b"\n", b"{}\n", b"[]\n", b"null\n", b"\0" * 500])
async def test_an_index_that_fits_with_a_nonsense_in_it_loses_nothing(store: SqlStore, note: bytes) -> None:
    log = await store.open_session("s")
    await log.read_lazily(_Takes())
    count = len((await store.read_session("s"))[0])
    await log.keep_index(note, count)
    await log.close()
    assert (await index_of(store))[-32 - len(note) : -32] == note
    await opens_right(store)


class _Takes:
    def begin(self, journal: object, index: bytes | None) -> int:
        return 0

    def take(self, message: object, size: int) -> None:
        pass


async def test_rows_that_were_edited_or_deleted_while_it_was_closed_are_what_is_read(
    store: SqlStore, judged: list[int]
) -> None:
    edit = "UPDATE hooksdk_messages SET body = replace(body, 'result 3', 'edited 3') WHERE key = :key"
    for statement in (edit, "DELETE FROM hooksdk_messages WHERE key = :key AND position > 12"):
        await change(store, statement)
        await store.read_session("s")
        judged.clear()
        async with opened(store, form=None) as transcript:
            assert "edited 3" in str(transcript.messages)
        assert judged[0] == 0
    await opens_right(store)


async def test_an_older_index_is_good_for_what_it_covers(store: SqlStore, judged: list[int]) -> None:
    older, count = await index_of(store), len((await store.read_session("s"))[0])
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, ["more"] * 20))
    assert await index_of(store) != older
    await change(store, KEEP_INDEX, body=older)
    judged.clear()
    async with opened(store, form=None):
        assert judged[0] == count
    await opens_right(store)


async def test_an_index_of_another_session_or_version_is_not_used(
    store: SqlStore, judged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store, "other") as transcript:
        await transcript.append(history(OPENAI, [f"result {number}" for number in range(7)]))
    await change(store, KEEP_INDEX, body=await index_of(store, "other"))
    judged.clear()
    async with opened(store, form=None):
        assert judged[0] == 0
    monkeypatch.setattr(_index, "VERSION", _index.VERSION + 1)
    judged.clear()
    async with opened(store, form=None):
        assert judged[0] == 0


async def test_deleting_a_session_deletes_its_index(store: SqlStore) -> None:
    assert await index_of(store)
    assert await store.delete_session("s")
    assert not await index_of(store)


async def test_who_lost_the_session_keeps_no_index(store: SqlStore) -> None:
    async with opened(store, form=None) as transcript:
        before = await index_of(store)
        await change(store, "UPDATE hooksdk_sessions SET token = token + 1, holder = 'x' WHERE key = :key")
        log: Any = transcript._log
        with pytest.raises(SessionBusy):
            await log.keep_index(b"late", transcript._ledger.count)
        assert await index_of(store) == before


async def test_a_database_that_takes_no_index_keeps_the_session_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    store = SqlStore(f"sqlite:///{file}")
    assert await store.list_sessions() == []
    await store.set_value("space", "key", 1)
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON hooksdk_indexes BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
    connection.close()
    for _ in range(2):
        async with opened(store) as transcript:
            await transcript.append(history(OPENAI, ["result"]))
    assert await index_of(store) == b""
    await opens_right(store)
    await store.aclose()
