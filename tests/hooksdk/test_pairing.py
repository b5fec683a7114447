"""Whatever is recorded, in one message, a list or a compaction: every call has its result and every result its call."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider_rules import violations
from transcripts import ALL, ANTHROPIC, RESPONSES, call, opened, texts

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import TranscriptChanged
from hooksdk.formats import FORMATS, Message, MessageFormat
from hooksdk.stores import MemoryStore

pytestmark = pytest.mark.anyio
EVERY = pytest.mark.parametrize("form", ALL, ids=FORMATS)


def results(form: MessageFormat, *ids: str, text: str = "done") -> list[Message]:
    return form.result_messages([(ToolCall(each, "read_file", {}), ToolResult(text)) for each in ids])


@EVERY
async def test_a_result_that_no_reply_asked_for_is_refused_with_its_place(form: MessageFormat) -> None:
    async with opened(MemoryStore(), form=form) as transcript:
        with pytest.raises(
            TranscriptChanged, match="message 1: it answers call 'c9', which was made by no reply before"
        ):
            await transcript.append([form.user("question"), *results(form, "c9")])
        assert transcript.messages == []


@EVERY
async def test_a_second_result_with_another_text_is_refused(form: MessageFormat) -> None:
    async with opened(MemoryStore(), form=form) as transcript:
        await transcript.append([form.user("question"), form.reply("", [call(1)]), *results(form, "c1")])
        with pytest.raises(TranscriptChanged, match=r"'c1', which has a result already\. Leave this result out"):
            await transcript.append(results(form, "c1", text="something else"))


@EVERY
async def test_a_result_that_comes_after_its_turn_was_closed_is_refused(form: MessageFormat) -> None:
    async with opened(MemoryStore(), form=form) as transcript:
        await transcript.append([form.user("question"), form.reply("", [call(1)])])
        await transcript.append([form.user("never mind")])
        with pytest.raises(TranscriptChanged, match="has a result already"):
            await transcript.append(results(form, "c1"))
        assert violations(form.name, transcript.view) == []


@EVERY
async def test_an_open_call_inside_a_list_gets_the_result_that_it_gets_between_lists(form: MessageFormat) -> None:
    conversation = [form.user("question"), form.reply("", [call(1)]), form.user("go on"), form.reply("fine")]
    views: list[list[Message]] = []
    for batches in ([conversation], [[message] for message in conversation]):
        async with opened(MemoryStore(), form=form) as transcript:
            for batch in batches:
                await transcript.append(batch)
            views.append(transcript.view)
    async with opened(MemoryStore(), form=form) as transcript:
        await transcript.match(conversation)
        views.append(transcript.view)
    assert views[0] == views[1] == views[2]
    assert violations(form.name, views[0]) == []


@EVERY
async def test_a_compaction_keeps_the_reply_whose_call_is_open(form: MessageFormat) -> None:
    reply = form.reply("", [call(1)])
    async with opened(MemoryStore(), form=form) as transcript:
        await transcript.append([form.user("question"), reply])
        with pytest.raises(
            TranscriptChanged, match="call 'c1' waits for its result, so its reply must stay at the list's end"
        ):
            await transcript.compact([form.user("summary")])
        await transcript.compact([form.user("summary"), reply])
        await transcript.answer(call(1), ToolResult("done"), None)
        assert texts(transcript, transcript.view) == ["done"]
        assert violations(form.name, transcript.view) == []


@EVERY
async def test_a_compaction_with_a_result_but_not_its_call_is_refused(form: MessageFormat) -> None:
    async with opened(MemoryStore(), form=form) as transcript:
        await transcript.append(
            [form.user("question"), form.reply("", [call(1)]), *results(form, "c1"), form.reply("ok")]
        )
        with pytest.raises(TranscriptChanged, match="message 1: it answers call 'c1', which was made by no reply"):
            await transcript.compact([form.user("summary"), *results(form, "c1")])
        await transcript.compact([form.user("summary"), form.reply("", [call(1)]), form.reply("and so on")])
        assert violations(form.name, transcript.view) == []


async def test_a_reply_in_one_message_a_block_is_one_reply() -> None:
    """As Claude Code stores its sessions: the API reads replies that follow each other as one."""
    blocks: list[Message] = [
        {"type": "thinking", "thinking": "...", "signature": "c2lnbmVk"},
        *ANTHROPIC.reply("Both.", [call(1), call(2)])["content"],
    ]
    async with opened(MemoryStore(), form=ANTHROPIC) as transcript:
        await transcript.append([ANTHROPIC.user("question")])
        for block in blocks:
            await transcript.append([{"role": "assistant", "content": [block]}])
        assert ([each.id for each in transcript.pending], transcript.replies) == (["c1", "c2"], 1)
        await transcript.append([*results(ANTHROPIC, "c1"), *results(ANTHROPIC, "c2"), ANTHROPIC.reply("fine")])
        assert texts(transcript, transcript.view) == ["done", "done"]
        assert [info.turns_ago for info in transcript.list_results()] == [1, 1]
        assert violations("anthropic", transcript.view) == []


@EVERY
async def test_a_compaction_that_ends_with_a_call_nobody_waits_for_gets_a_result(form: MessageFormat) -> None:
    async with opened(MemoryStore(), form=form) as transcript:
        await transcript.append([form.user("question"), form.reply("", [call(1)]), *results(form, "c1")])
        await transcript.compact([form.user("summary"), form.reply("", [call(1)])])
        await transcript.append([form.user("go on")])
        assert violations(form.name, transcript.view) == []


IDS = ["a", "b", "same"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["user", "reply", "result", "cut"]), st.lists(st.sampled_from(IDS), max_size=3), st.booleans()
    ),
    max_size=12,
)


@pytest.mark.heavy
@EVERY
@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_what_was_accepted_can_be_sent(form: MessageFormat, steps: Sequence[tuple[str, list[str], bool]]) -> None:
    async def play() -> None:
        async with opened(MemoryStore(), form=form) as transcript:
            await transcript.append([form.user("question")])
            batch: list[Message] = []
            for kind, ids, goes_on in steps:
                batch += _messages(form, kind, ids)
                if not goes_on:
                    before = transcript.messages
                    try:
                        await transcript.append(batch)
                    except TranscriptChanged:
                        assert transcript.messages == before
                    batch = []
            await transcript.close_turn("not run")
            assert [each for each in violations(form.name, transcript.view) if "non-empty" not in each] == []

    anyio.run(play)


def _messages(form: MessageFormat, kind: str, ids: list[str]) -> list[Message]:
    if kind == "user":
        return [form.user("go on")]
    if kind == "cut":  # a reply that ended before it said anything
        return [{"type": "reasoning", "id": "rs_1", "summary": []} if form is RESPONSES else form.reply("te")]
    if kind == "reply":
        return form.reply_messages("text", [ToolCall(each, "read_file", {}) for each in dict.fromkeys(ids)])
    return results(form, *dict.fromkeys(ids))
