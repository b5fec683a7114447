"""What other hands change in a database, and what a session makes of messages and entries that are gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from provider_rules import violations
from transcripts import OPENAI, body, call, filled, history, opened, statuses, texts

from hooksdk.calls import ToolResult
from hooksdk.errors import SessionBusy, StoreError, TranscriptChanged
from hooksdk.formats import Message
from hooksdk.stores import SqlStore
from hooksdk.transcript import Results
from tests.hooksdk.tables import rewrite, run_sql, select

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqlStore]:
    made = SqlStore(tmp_path)
    yield made
    await made.aclose()


# --- a session of which the end is missing ---


STATES = [{}, {"seen": [1]}, {"seen": [1, 2]}, {"seen": [1, 2, 3]}]


async def lived_in(store: SqlStore) -> list[Message]:
    """A closed session whose journal has an entry of every kind; answers its messages."""
    async with opened(store) as transcript:
        results = Results(transcript, "p")
        await transcript.append(history(OPENAI, [body(1, 600), body(2, 600)]))
        await transcript.save_state("p", STATES[1])
        for handle in ("r1", "r2"):
            await results.trim(handle, "short")
        await transcript.drain()
        await results.restore("r1")
        await transcript.append([OPENAI.user("more"), OPENAI.reply("", [call(3), call(4)])])
        for number in (4, 3):  # the second waits for the first
            await transcript.answer(call(number), ToolResult(body(number, 600)), None)
        await transcript.append([OPENAI.reply("seen")])
        await transcript.save_state("p", STATES[2])
        await transcript.drain()
        await transcript.compact([OPENAI.user("summary"), *transcript.view[-5:]])
        await results.trim("r3", "short")
        await transcript.drain()
        await transcript.append([OPENAI.user("and now?"), OPENAI.reply("done")])
        await transcript.save_state("p", STATES[3])
        await results.trim("r4", "short")
        return transcript.messages


@pytest.mark.heavy
@pytest.mark.parametrize("lost", ["messages", "journal"])
async def test_a_session_that_ends_at_any_row_opens_and_goes_on(store: SqlStore, lost: str) -> None:
    whole = await lived_in(store)
    messages, journal = await store.read_session("s")
    assert {entry["kind"] for entry in journal} == {"format", "staged", "trim", "restore", "drain", "compact", "state"}
    for length in range(len(messages if lost == "messages" else journal) + 1):
        if lost == "messages":
            await rewrite(store, lambda _, end=length: messages[:end], lambda _: journal)
        else:
            await rewrite(store, lambda _: messages, lambda _, end=length: journal[:end])
        async with opened(store) as transcript:
            kept = transcript.messages
            assert kept == whole[: len(kept)]
            assert len(kept) >= (length if lost == "messages" else len(whole))  # or a result that waited for others
            assert transcript.state("p") in STATES
            await transcript.append([OPENAI.user("NEW")])
            await transcript.drain()
            shown = transcript.view
            assert shown[-1] == OPENAI.user("NEW")
            assert violations("openai-chat", shown) == []
        async with opened(store) as transcript:
            assert transcript.view == shown


async def test_a_lost_journal_leaves_the_messages_whole_and_their_results_trimmable(store: SqlStore) -> None:
    await filled(store)
    await rewrite(store, journal=lambda _: [])
    async with opened(store) as transcript:
        assert transcript.existed
        assert transcript.view == transcript.messages
        await Results(transcript, "p").trim("r1")
        assert statuses(await transcript.drain()) == ["applied"]


# --- foreign hands at an open session ---

HANDS = {
    "appended": "INSERT INTO {table} SELECT {columns} FROM {table} AS last ORDER BY position DESC LIMIT 1",
    "cut": "DELETE FROM {table} WHERE position = (SELECT max(position) FROM {table})",
    "emptied": "DELETE FROM {table}",
    "gone": "DELETE FROM hooksdk_sessions",
}
COLUMNS = {
    "hooksdk_messages": "session, position + 1, body, hash",
    "hooksdk_journal": "session, position + 1, kind, body, hash",
}


@pytest.mark.parametrize("hand", HANDS)
@pytest.mark.parametrize("table", COLUMNS)
async def test_a_foreign_change_stops_the_next_append(store: SqlStore, table: str, hand: str) -> None:
    await filled(store)
    async with opened(store) as transcript:
        await run_sql(store, HANDS[hand].format(table=table, columns=COLUMNS[table]))
        append = (
            transcript.append([OPENAI.user("x")])
            if table == "hooksdk_messages"
            else transcript.save_state("p", {"n": 1})
        )
        with pytest.raises(SessionBusy if hand == "gone" else TranscriptChanged):
            await append


async def test_a_changed_message_does_not_stop_a_drain_and_is_told_when_it_is_read(store: SqlStore) -> None:
    await filled(store)
    async with opened(store) as transcript:
        await run_sql(store, "UPDATE hooksdk_messages SET body = replace(body, 'result 3', 'edited 3')")
        assert statuses(await transcript.drain()) == ["applied"]
    with pytest.raises(StoreError, match="session 's', hooksdk_messages, position 6: this row was changed"):
        await store.read_session("s")


async def test_a_damaged_session_is_refused_and_nothing_in_it_is_touched(store: SqlStore) -> None:
    await filled(store)
    await run_sql(store, "UPDATE hooksdk_messages SET body = '[]' WHERE position = 2")
    before = [await select(store, f"SELECT * FROM hooksdk_{name}") for name in ("messages", "journal")]
    for _ in range(2):
        with pytest.raises(StoreError, match="position 2: this row was changed"):
            async with opened(store):
                pass
    assert [await select(store, f"SELECT * FROM hooksdk_{name}") for name in ("messages", "journal")] == before


async def test_trims_of_a_result_that_was_edited_meanwhile_are_stale_and_not_shown(store: SqlStore) -> None:
    await filled(store)

    def edit(messages: list[Message]) -> list[Message]:
        return [{**each, "content": str(each["content"]).replace("result", "edited")} for each in messages]

    await rewrite(store, edit)
    async with opened(store) as transcript:
        assert statuses(await transcript.drain()) == ["stale"]
        assert transcript.view == transcript.messages
        assert [text[:8] for text in texts(transcript, transcript.view)] == ["edited 1", "edited 2", "edited 3"]


# --- messages that are gone while the journal speaks of them ---


async def compacted(store: SqlStore) -> None:
    """A closed session of five messages, the first three of which are compacted away."""
    async with opened(store) as transcript:
        await transcript.append([OPENAI.user(text) for text in ("one", "two", "three")])
        await transcript.compact([OPENAI.user("SUMMARY")])
        await transcript.append([OPENAI.user("four"), OPENAI.user("five")])


def words(messages: Sequence[Message]) -> list[str]:
    return [str(message["content"]) for message in messages]


async def test_messages_recorded_after_others_were_lost_are_in_the_view(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    await compacted(store)
    messages, journal = await store.read_session("s")
    for length in range(len(messages)):
        await rewrite(store, lambda _, end=length: messages[:end], lambda _: journal)
        async with opened(store) as transcript:
            await transcript.append([OPENAI.user("NEW")])
            live = transcript.view
        async with opened(store) as transcript:
            assert transcript.view == live
            assert words(live)[-1] == "NEW"
    assert "the journal was written when 3 messages were stored, and now there are 0" in caplog.text


async def test_a_message_taken_out_by_hand_hides_no_other(store: SqlStore, caplog: pytest.LogCaptureFixture) -> None:
    await compacted(store)
    await rewrite(store, lambda messages: [*messages[:1], *messages[2:]])
    async with opened(store) as transcript:
        assert words(transcript.view) == ["one", "three", "four", "five"]
    assert "a compaction of 3 messages is left out" in caplog.text


async def test_a_compaction_of_an_earlier_release_goes_by_its_count(store: SqlStore) -> None:
    await compacted(store)
    await rewrite(store, journal=lambda entries: [{k: v for k, v in each.items() if k != "hash"} for each in entries])
    async with opened(store) as transcript:
        assert words(transcript.view) == ["SUMMARY", "four", "five"]
