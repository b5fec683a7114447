"""Trims over a plain list: functions alone, and the list stays as it is."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from provider_rules import in_format, neutral, violations
from test_formats_properties import SHARED, TRANSCRIPTS, transcript
from transcripts import ALL, ANTHROPIC, GEMINI, OPENAI, RESPONSES, body, call, history, texts_of

from hooksdk.calls import ToolResult
from hooksdk.errors import ConfigError, UnknownResult
from hooksdk.formats import FORMATS, Message, MessageFormat
from hooksdk.histories import read_history
from hooksdk.testing import open_session
from hooksdk.trimming import NotTrimmed, guess_format, list_results, problem, read, repair, trim

EVERY = pytest.mark.parametrize("form", ALL, ids=FORMATS)


@EVERY
def test_results_are_listed_read_and_trimmed_and_the_list_stays_as_it_is(form: MessageFormat) -> None:
    messages = history(form, [body(1), body(2), body(3)])
    before = copy.deepcopy(messages)
    assert [(info.handle, info.tool, info.characters) for info in list_results(messages)] == [
        (f"r{number}", "read_file", 1_000) for number in (1, 2, 3)
    ]
    assert read(messages, "c2").text == body(2)
    shorter = trim(messages, {"r1": "the first", "c2": None})
    assert messages == before
    assert [len(text) < 250 for text in texts_of(form, shorter)] == [True, True, False]
    assert texts_of(form, shorter)[0].endswith("the first")
    assert trim(messages, ["r1"]) == trim(messages, {"r1": None})


@EVERY
def test_the_format_is_guessed(form: MessageFormat) -> None:
    assert guess_format(history(form, ["text"])) == form.name


def test_a_history_of_another_kind_is_refused_and_not_read_as_empty() -> None:
    stored = [{"type": "user", "message": {"role": "user", "content": "hello"}}]
    for form in (None, *FORMATS):
        with pytest.raises(ConfigError, match="message 0: this is no message of format"):
            list_results(stored, form)


@EVERY
def test_what_cannot_be_trimmed_says_why(form: MessageFormat) -> None:
    messages = history(form, ["short", body(2)])
    with pytest.raises(NotTrimmed, match="r1 cannot be trimmed: too short"):
        trim(messages, ["r1"])
    with pytest.raises(UnknownResult, match="Handles go from r1 to r2"):
        trim(messages, ["r9"])
    with pytest.raises(NotTrimmed, match="r2 cannot be trimmed: the model has not read it yet"):
        trim(messages[:-1], ["r2"])


@EVERY
def test_a_list_that_a_provider_would_refuse_is_told_with_the_place(form: MessageFormat) -> None:
    result = form.result_messages([(call(1), ToolResult("done"))])
    whole = [form.user("question"), form.reply("", [call(1)]), *result, form.reply("answer")]
    assert problem(whole) is None
    assert problem([whole[0], whole[1], whole[0]], form) == "message 2: a call before it has no result"
    assert str(problem([whole[0], *result], form)).startswith("message 1: it answers call 'c1', which was made by no")
    assert str(problem([{"role": "nobody"}])).startswith("message 0: this is no message of format")


@EVERY
def test_a_call_without_a_result_gets_one_and_what_cannot_be_repaired_is_refused(form: MessageFormat) -> None:
    messages = [form.user("question"), form.reply("", [call(1)]), form.user("go on")]
    repaired = repair(messages, form)
    assert violations(form.name, repaired) == []
    assert problem(repaired) is None
    assert repair(repaired) == repaired
    with pytest.raises(ConfigError, match="message 1: it answers call 'c1'"):
        repair([form.user("question"), *form.result_messages([(call(1), ToolResult("done"))])], form)


@pytest.mark.anyio
@pytest.mark.parametrize("form", [ANTHROPIC, GEMINI], ids=["anthropic", "gemini"])
async def test_results_of_one_turn_in_several_messages_are_put_into_one(form: MessageFormat) -> None:
    calls = [call(1), call(2), call(3)]
    apart = [each for made in calls for each in form.result_messages([(made, ToolResult(f"{made.id} done"))])]
    messages = [form.user("question"), form.reply("", calls), *apart, form.reply("answer")]
    if form is ANTHROPIC:
        apart[0]["content"].append({"type": "text", "text": "while you wait"})
    repaired = repair(messages, form)
    assert len(repaired) == 4
    assert texts_of(form, repaired) == ["c1 done", "c2 done", "c3 done"]
    assert violations(form.name, repaired) == []
    assert problem(repaired, form) is None
    async with open_session() as session:
        await session.load(messages, form)
        assert session.view == repaired


def test_reasoning_that_nothing_follows_is_told_and_left_out() -> None:
    reasoning: Message = {"type": "reasoning", "id": "rs_1", "summary": []}
    messages = [
        RESPONSES.user("question"),
        reasoning,
        RESPONSES.user("go on"),
        reasoning,
        RESPONSES.reply("fine"),
        reasoning,
    ]
    why = "message 1: its reply was cut off, and it cannot be sent without what follows"
    assert problem(messages, RESPONSES) == why
    repaired = repair(messages, RESPONSES)
    assert repaired == [messages[0], *messages[2:5]]
    assert problem(repaired, RESPONSES) is None
    history = read_history(messages, into="openai-responses")
    assert history.messages == repaired
    assert "left out: reasoning of replies that were cut off (2)" in history.notes


def test_a_message_that_is_of_no_format_is_refused_with_its_place() -> None:
    with pytest.raises(
        ConfigError, match=r"message 1: this is no message of format 'openai-chat': a message needs a 'role'"
    ):
        list_results([OPENAI.user("question"), {"text": "hello"}])


@pytest.mark.light(every=5)
@pytest.mark.skipif(not TRANSCRIPTS, reason=f"the real transcripts are not at {SHARED / 'benchmarks' / 'transcripts'}")
@EVERY
def test_no_trim_of_a_real_transcript_breaks_it_or_makes_it_longer(form: MessageFormat) -> None:
    chance, trimmed = random.Random(7), 0
    for path in TRANSCRIPTS:
        messages: list[Message] = in_format(form.name, neutral(list(copy.deepcopy(transcript(path)))))
        messages = repair(messages, form)
        assert violations(form.name, messages) == []
        handles = [info.handle for info in list_results(messages, form) if info.trimmable]
        chosen: dict[str, Any] = {handle: chance.choice([None, "short"]) for handle in handles if chance.random() < 0.5}
        shorter = trim(messages, chosen, form)
        trimmed += len(chosen)
        assert violations(form.name, shorter) == []
        assert len(json.dumps(shorter)) < len(json.dumps(messages)) or not chosen
    assert trimmed > 50
