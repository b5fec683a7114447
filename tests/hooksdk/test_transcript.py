"""What is stored, and how calls and results meet, in both stores and both formats."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from transcripts import (
    ANTHROPIC,
    DISPOSABLE,
    OPENAI,
    House,
    body,
    call,
    history,
    open_transcript,
    opened,
    shape,
    texts,
    turn,
)

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ConfigError, SessionClosed, StoreError, TranscriptChanged
from hooksdk.formats import Message, MessageFormat
from hooksdk.stores import SessionLog, SqlStore, Store
from hooksdk.transcript import Entry, Results, Transcript
from tests.hooksdk.tables import select

pytestmark = pytest.mark.anyio


@pytest.fixture
async def transcript(store: Store, form: MessageFormat) -> AsyncIterator[Transcript]:
    async with opened(store, form=form) as transcript:
        yield transcript


class ShoutingLog:
    """A log as somebody else writes it, with what the protocol asks for and no more: it stores other messages than it gets."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.existed, self.token = log.existed, log.token

    async def read(self) -> tuple[list[Message], list[Entry]]:
        return await self.log.read()

    async def append_messages(self, messages: Sequence[Message]) -> None:
        await self.log.append_messages(
            [{**message, "content": str(message["content"]).upper()} for message in messages]
        )

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:
        await self.log.append_journal(entries, verify=verify)

    async def verify(self) -> None:
        await self.log.verify()

    async def close(self) -> None:
        await self.log.close()


# --- messages ---


async def test_stored_messages_come_back_when_the_session_is_opened_again(store: Store, form: MessageFormat) -> None:
    async with opened(store, form=form) as transcript:
        assert not transcript.existed
        await transcript.append(history(form, [body(1)]))
    async with opened(store, form=None) as transcript:
        assert transcript.existed
        assert transcript.messages == transcript.view == history(form, [body(1)])


async def test_what_is_stored_is_apart_from_what_was_passed_and_what_is_handed_out(
    transcript: Transcript, form: MessageFormat
) -> None:
    message = form.user("hello")
    await transcript.append([message])
    message["content"] = "changed"
    transcript.messages[0]["content"] = transcript.view[0]["content"] = "changed"
    assert transcript.messages == transcript.view == [form.user("hello")]


async def test_a_message_that_is_not_of_the_format_is_refused_and_nothing_of_its_batch_is_stored(
    transcript: Transcript, form: MessageFormat
) -> None:
    with pytest.raises(TranscriptChanged, match="message 1: this is no message of format"):
        await transcript.append([form.user("hello"), {"text": "no role"}])
    assert transcript.messages == []


async def test_a_message_that_is_not_json_is_refused_and_breaks_nothing(store: Store) -> None:
    async with opened(store) as transcript:
        for strange in (object(), {1: 2}, {"deep": b"bytes"}):
            with pytest.raises(TranscriptChanged, match="cannot be stored"):
                await transcript.append([{"role": "user", "content": "x", "extra": strange}])
        await transcript.append([OPENAI.user("fine")])
    async with opened(store) as transcript:
        assert transcript.messages == [OPENAI.user("fine")]


async def test_numbers_that_json_lacks_are_stored_as_null(tmp_path: Path) -> None:
    """Readers of other languages refuse `NaN`."""
    store = SqlStore(tmp_path)
    async with opened(store) as transcript:
        await transcript.append([{"role": "user", "content": "x", "n": [math.nan, math.inf, -math.inf, 1.5]}])
        assert transcript.view[0]["n"] == [None, None, None, 1.5]
    ((stored,),) = await select(store, "SELECT body FROM hooksdk_messages")
    assert stored == '{"role":"user","content":"x","n":[null,null,null,1.5]}'


async def test_text_with_half_a_surrogate_pair_is_stored_as_it_is(store: Store) -> None:
    async with opened(store) as transcript:
        await transcript.append([{"role": "user", "content": "a\ud800b\u2028é😀"}])
    async with opened(store) as transcript:
        assert transcript.messages == [{"role": "user", "content": "a\ud800b\u2028é😀"}]


@pytest.mark.parametrize(
    "strange", ["\ud83d\ude00", "\x1b[1m\\ud83d", ("a", "b"), {"n": [math.nan, {"deep": math.inf}]}]
)
async def test_what_is_in_memory_is_what_comes_back_from_the_store(store: Store, strange: object) -> None:
    async with opened(store) as transcript:
        await transcript.append([{"role": "user", "content": "x", "strange": strange}])
        await transcript.append([OPENAI.reply("", [call(1)])])
        await transcript.answer(call(1), ToolResult("text \ud83d\ude00", structured=strange), None)
        before = transcript.messages, transcript.view
    async with opened(store) as transcript:
        assert (transcript.messages, transcript.view) == before


@pytest.mark.parametrize("result", [ToolResult(body(1)), ToolResult(body(1), structured={"lines": [body(1)]})])
async def test_a_result_is_encoded_once_on_its_way_to_the_store_and_not_parsed(
    transcript: Transcript, form: MessageFormat, result: ToolResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded, parsed, dumps, loads = list[str](), list[object](), json.dumps, json.loads

    def count(value: Any, **options: Any) -> str:
        encoded.append(dumps(value, **options))
        return encoded[-1]

    def read(text: Any, **options: Any) -> Any:
        parsed.append(text)
        return loads(text, **options)

    await transcript.append([form.reply("", [call(1)])])
    monkeypatch.setattr(json, "dumps", count)
    monkeypatch.setattr(json, "loads", read)
    await transcript.answer(call(1), result, None)
    assert len([text for text in encoded if body(1) in text]) == 1
    assert parsed == []


async def test_a_store_that_knows_nothing_of_encoded_messages_stores_what_it_makes_of_them(store: Store) -> None:
    log = await store.open_session("s")
    transcript = await Transcript.open(ShoutingLog(log), "s")
    await transcript.use_format(OPENAI)
    await transcript.append([OPENAI.user("hello"), OPENAI.reply("", [call(1)])])
    await transcript.answer(call(1), ToolResult("done"), None)
    await transcript.close()
    async with opened(store) as again:
        assert [message["content"] for message in again.messages] == ["HELLO", "NONE", "DONE"]


async def test_the_format_of_a_session_stays_the_same_for_good(store: Store) -> None:
    async with opened(store, form=ANTHROPIC):
        pass
    async with opened(store, form=None) as transcript:
        assert transcript.format is not None
        assert transcript.format.name == "anthropic"
        with pytest.raises(ConfigError, match="format='anthropic'"):
            await transcript.use_format(OPENAI)
        await transcript.use_format(ANTHROPIC)


async def test_messages_without_a_declared_format_are_refused(store: Store) -> None:
    async with opened(store, form=None) as transcript:
        assert transcript.format is None
        with pytest.raises(ConfigError, match="no message format yet"):
            await transcript.append([OPENAI.user("hello")])


async def test_a_session_in_a_format_of_the_hosts_own_is_rebuilt_when_the_format_is_declared(store: Store) -> None:
    form = House()
    async with opened(store, form=form) as transcript:
        await transcript.append(history(form, [body(1)]))
        await Results(transcript, "p").trim("r1")
        await transcript.drain()
        await transcript.save_state("p", {"n": 1})
        shown = transcript.view
    async with opened(store, form=None) as transcript:
        assert transcript.format is None
        assert transcript.state("p") == {"n": 1}
        await transcript.use_format(form)
        assert transcript.view == shown


async def test_a_closed_transcript_takes_nothing_more(store: Store) -> None:
    transcript = await open_transcript(store)
    await transcript.close()
    await transcript.close()
    with pytest.raises(SessionClosed):
        await transcript.append([OPENAI.user("late")])


async def test_plugin_state_is_kept_and_journalled_only_when_it_changed(store: Store) -> None:
    log = await store.open_session("s")
    transcript = await Transcript.open(log, "s")
    state = {"left": [1]}
    await transcript.save_state("budget", state)
    written = len((await log.read())[1])
    await transcript.save_state("budget", {"left": [1]})
    await transcript.save_state("other", {})
    assert len((await log.read())[1]) == written
    state["left"].append(2)
    assert transcript.state("budget") == {"left": [1]}
    await transcript.close()
    async with opened(store) as transcript:
        assert transcript.state("budget") == {"left": [1]}
        assert transcript.state("unknown") == {}


async def test_plugin_state_that_is_not_json_is_refused_and_the_old_one_stays(store: Store) -> None:
    async with opened(store) as transcript:
        await transcript.save_state("p", {"n": 1})
        with pytest.raises(StoreError, match="state of plugin 'p'"):
            await transcript.save_state("p", {"n": object()})
        assert transcript.state("p") == {"n": 1}


async def test_journal_entries_of_a_newer_version_are_kept_and_ignored(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    log = await store.open_session("s")
    await log.read()
    await log.append_journal(
        [{"kind": "hologram", "m": 0}, {"kind": "state", "plugin": "p", "state": {"n": 1}, "m": 0}]
    )
    await log.close()
    with caplog.at_level(logging.WARNING, logger="hooksdk"):
        async with opened(store, form=None) as transcript:
            assert transcript.state("p") == {"n": 1}
    assert "hologram" in caplog.text
    log = await store.open_session("s")
    assert (await log.read())[1][0]["kind"] == "hologram"


async def test_a_journal_entry_without_its_fields_is_told_as_a_store_error(store: Store) -> None:
    log = await store.open_session("s")
    await log.read()
    await log.append_journal([{"kind": "state", "m": 0}])
    with pytest.raises(StoreError, match="journal cannot be understood"):
        await Transcript.open(log, "s")


# --- calls and results ---


async def test_a_reply_opens_its_calls_and_answers_close_them(transcript: Transcript, form: MessageFormat) -> None:
    await transcript.append([form.user("q"), *form.reply_messages("", [call(1), call(2)])])
    assert [each.id for each in transcript.pending] == ["c1", "c2"]
    await transcript.answer(transcript.pending[0], ToolResult("one"), None)
    assert [each.id for each in transcript.pending] == ["c2"]
    await transcript.answer(transcript.pending[0], ToolResult("two"), None)
    assert transcript.pending == ()
    assert texts(transcript, transcript.messages) == ["one", "two"]


async def test_results_join_the_messages_in_the_order_of_the_calls_grouped_as_the_format_asks(
    transcript: Transcript, form: MessageFormat
) -> None:
    await transcript.append([form.user("q"), *form.reply_messages("", [call(1), call(2), call(3)])])
    before = len(transcript.messages)
    stored: list[int] = []
    for number in (2, 1, 3):
        await transcript.answer(call(number), ToolResult(f"text {number}"), None)
        stored.append(len(transcript.messages) - before)
    assert stored == ([0, 0, 1] if form.grouped else [0, 2, 3])
    assert texts(transcript, transcript.messages) == ["text 1", "text 2", "text 3"]


@pytest.mark.both_loops
async def test_answers_from_parallel_tasks_keep_the_order_of_the_calls(
    transcript: Transcript, form: MessageFormat
) -> None:
    calls = [call(number) for number in range(8)]
    await transcript.append([form.user("q"), *form.reply_messages("", calls)])
    async with anyio.create_task_group() as group:
        for each in reversed(calls):
            group.start_soon(transcript.answer, each, ToolResult(each.id), None)
    assert texts(transcript, transcript.messages) == [each.id for each in calls]


async def test_a_result_that_the_host_records_itself_answers_its_call(
    transcript: Transcript, form: MessageFormat
) -> None:
    await transcript.append([form.user("q"), *turn(form, 1, "mine")])
    assert transcript.pending == ()


async def test_open_calls_and_waiting_results_survive_until_the_session_is_opened_again(
    store: Store, form: MessageFormat
) -> None:
    async with opened(store, form=form) as transcript:
        await transcript.append([form.user("q"), *form.reply_messages("", [call(1), call(2)])])
        await transcript.answer(call(2), ToolResult("two", structured={"n": 2}), DISPOSABLE)
    async with opened(store, form=form) as transcript:
        assert [each.id for each in transcript.pending] == ["c1"]
        await transcript.answer(transcript.pending[0], ToolResult("one"), None)
        assert texts(transcript, transcript.messages) == ["one", "two"]
        assert [info.disposable for info in transcript.list_results()] == [False, True]


async def test_an_answer_waits_for_the_reply_that_made_the_call(store: Store, form: MessageFormat) -> None:
    async with opened(store, form=form) as transcript:
        await transcript.append([form.user("q")])
        await transcript.answer(call(1), ToolResult("early"), DISPOSABLE)
        assert len(transcript.messages) == 1
    async with opened(store, form=form) as transcript:
        await transcript.append([*form.reply_messages("", [call(1)])])
        assert transcript.pending == ()
        assert texts(transcript, transcript.messages) == ["early"]
        assert transcript.list_results()[0].disposable


async def test_an_answer_whose_reply_never_comes_is_left_out_with_a_warning(
    store: Store, form: MessageFormat, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(store, form=form) as transcript:
        await transcript.append([form.user("q")])
        await transcript.answer(call(1), ToolResult("lost"), None)
        with caplog.at_level(logging.WARNING, logger="hooksdk"):
            assert await transcript.close_turn("not run") == 0
    assert "c1" in caplog.text
    async with opened(store, form=form) as transcript:
        await transcript.append([*form.reply_messages("", [call(1)])])
        assert len(transcript.pending) == 1


async def test_the_end_of_a_turn_gives_open_calls_an_error_result(transcript: Transcript, form: MessageFormat) -> None:
    await transcript.append([form.user("q"), *form.reply_messages("", [call(1), call(2), call(3)])])
    await transcript.answer(call(3), ToolResult("three"), None)
    assert await transcript.close_turn("not run: cancelled") == 2
    assert [text.removeprefix("Error: ") for text in texts(transcript, transcript.messages)] == [
        *["not run: cancelled"] * 2,
        "three",
    ]
    assert [info.is_error for info in transcript.list_results()] == [True, True, False]
    assert await transcript.close_turn("not run: cancelled") == 0


async def test_equal_ids_in_one_reply_are_told_apart_by_arguments_and_then_by_order(
    transcript: Transcript, form: MessageFormat
) -> None:
    calls = [call(1, "same"), call(2, "same"), call(2, "same")]
    await transcript.append([form.user("q"), *form.reply_messages("", calls)])
    await transcript.answer(ToolCall("same", "read_file", '{"path": "file2"}'), ToolResult("two"), None)
    await transcript.answer(call(2, "same"), ToolResult("three"), None)
    await transcript.answer(call(1, "same"), ToolResult("one"), None)
    assert texts(transcript, transcript.messages) == ["one", "two", "three"]


async def test_an_id_that_comes_again_in_a_later_turn_is_a_new_call(store: Store, form: MessageFormat) -> None:
    async with opened(store, form=form) as transcript:
        await transcript.append([form.user("q"), *form.reply_messages("", [call(1, "same"), call(2, "other")])])
        await transcript.answer(call(2, "other"), ToolResult("staged first"), None)
        await transcript.answer(call(1, "same"), ToolResult("first"), None)
        await transcript.append([*form.reply_messages("", [call(3, "same"), call(4, "other")])])
    async with opened(store, form=form) as transcript:
        assert len(transcript.pending) == 2
        await transcript.answer(call(3, "same"), ToolResult("second"), None)
        await transcript.close_turn("closed")
        found = [text.removeprefix("Error: ") for text in texts(transcript, transcript.messages)]
        assert found == ["first", "staged first", "second", "closed"]


async def test_a_result_that_the_run_recorded_is_not_stored_a_second_time(
    transcript: Transcript, form: MessageFormat
) -> None:
    await transcript.append([form.user("q"), *form.reply_messages("", [call(1), call(2)])])
    answers = [(call(1), ToolResult("one")), (call(2), ToolResult.error("no such file"))]
    for made, result in answers:
        await transcript.answer(made, result, None)
    stored = transcript.messages
    await transcript.append(form.result_messages(answers))
    assert transcript.messages == stored


async def test_an_error_result_in_the_hosts_plain_words_is_the_one_that_the_run_recorded(store: Store) -> None:
    async with opened(store) as transcript:
        await transcript.append([OPENAI.user("q"), OPENAI.reply("", [call(1)])])
        await transcript.answer(call(1), ToolResult.error("no such file"), None)
        plain: Message = {"role": "tool", "tool_call_id": "c1", "content": "no such file"}
        await transcript.append([plain])
    async with opened(store) as transcript:
        await transcript.match([*transcript.view[:-1], plain])
        assert shape(transcript.messages) == ["user", "assistant", "tool"]


async def test_another_text_for_a_result_that_the_run_recorded_is_refused(
    transcript: Transcript, form: MessageFormat
) -> None:
    await transcript.append([form.user("q"), *form.reply_messages("", [call(1)])])
    await transcript.answer(call(1), ToolResult("one"), None)
    with pytest.raises(TranscriptChanged, match="Leave this message out"):
        await transcript.append(form.result_messages([(call(1), ToolResult("two"))]))


async def test_when_the_conversation_goes_on_open_calls_get_a_result_first(
    transcript: Transcript, form: MessageFormat
) -> None:
    await transcript.append([form.user("q"), *form.reply_messages("", [call(1)])])
    await transcript.append([form.user("never mind")])
    assert "conversation went on" in texts(transcript, transcript.messages)[0]
    assert form.text(transcript.messages[-1]) == "never mind"


async def test_a_result_that_is_not_json_keeps_its_text(transcript: Transcript, form: MessageFormat) -> None:
    await transcript.append([form.user("q"), *form.reply_messages("", [call(1), call(2)])])
    await transcript.answer(call(2), ToolResult("two", structured=b"\xff"), None)
    await transcript.answer(call(1), ToolResult("one\ud800"), None)
    assert texts(transcript, transcript.messages)[1] == "two"
    assert transcript.pending == ()
