"""Trims over a plain list: functions alone, and the list stays as it is."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from provider_rules import in_format, neutral, violations
from test_formats_properties import SHARED, TRANSCRIPTS, transcript
from transcripts import ALL, OPENAI, body, call, history, texts_of

from hooksdk.calls import ToolResult
from hooksdk.errors import ConfigError, UnknownResult
from hooksdk.formats import FORMATS, Message, MessageFormat
from hooksdk.trimming import NotTrimmed, guess_format, list_results, problem, read, repair, trim

EVERY = pytest.mark.parametrize("form", ALL, ids=FORMATS)


@EVERY
def test_results_are_listed_read_and_trimmed_and_the_list_stays_as_it_is(form: MessageFormat) -> None:
    messages = history(form, [body(1), body(2), body(3)])
    before = copy.deepcopy(messages)
    assert [(info.handle, info.tool, info.characters) for info in list_results(messages)] == [
        (f"r{number}", "read_file", 500) for number in (1, 2, 3)
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


def test_a_message_that_is_of_no_format_is_refused_with_its_place() -> None:
    with pytest.raises(
        ConfigError, match=r"message 1: this is no message of format 'openai-chat': a message needs a 'role'"
    ):
        list_results([OPENAI.user("question"), {"text": "hello"}])


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
