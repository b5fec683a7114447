"""What each message format does with one message, awkward ones included."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from provider_rules import PNG, violations

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ConfigError
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format

OPENAI, ANTHROPIC, RESPONSES, GEMINI = ALL = [get_format(name) for name in FORMATS]
EVERY = pytest.mark.parametrize("form", ALL, ids=FORMATS)
CHAT = pytest.mark.parametrize("form", [OPENAI, ANTHROPIC], ids=FORMATS[:2])
"""For what the other two formats say in other words."""
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
A, B = ToolCall("a", "f", {"x": 1}), ToolCall("b", "g", "{}")


def holding(form: MessageFormat, content: Any, **more: Any) -> Message:
    """A message with one result of this content."""
    if form is OPENAI:
        return {"role": "tool", "tool_call_id": "a", "content": content, **more}
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content, **more}]}


def content_of(message: Message) -> Any:
    return message["content"] if message["role"] == "tool" else message["content"][0].get("content")


# --- choosing a format ---


def test_an_unknown_format_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="openai-chat"):
        get_format("openai_chat")


@EVERY
def test_a_format_object_is_taken_as_it_is(form: MessageFormat) -> None:
    assert get_format(form) is form


# --- checking ---


@CHAT
@pytest.mark.parametrize(
    ("message", "words"),
    [
        ([], "must be an object with a 'role', not a list"),
        (None, "must be an object with a 'role', not null"),
        ("x", "not text"),
        ({}, "it is missing"),
        ({"role": 7}, "it is a number"),
        ({"role": ["user"]}, "it is a list"),
        ({"role": "boss"}, "it is 'boss'"),
        ({"role": "user", "content": None}, "'content'"),
        ({"role": "user", "content": {}}, "not an object"),
        ({"role": "user", "content": True}, "not a boolean"),
        ({"role": "user", "content": ["x"]}, r"content\[0\] must be an object with a 'type'"),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, r"content\[0\].text must be text, not null"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(form: MessageFormat, message: Any, words: str) -> None:
    assert re.search(words, form.check(message) or "")


WRONG_FOR_OPENAI: list[tuple[Message, str]] = [
    ({"role": "tool", "content": "x"}, "tool_call_id"),
    ({"role": "function", "content": "x"}, "'name'"),
    ({"role": "assistant", "tool_calls": {}}, "'tool_calls' must be a list, not an object"),
    ({"role": "assistant", "tool_calls": [{}]}, r"tool_calls\[0\] needs an 'id'"),
    ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "'function' object with a 'name'"),
    ({"role": "assistant", "tool_calls": [{"id": "a", "type": "custom"}]}, "'custom' object"),
    ({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": 7}}]}, "not a number"),
    ({"role": "assistant", "function_call": "f"}, "'function_call'"),
    ({"role": "user", "content": [{"type": "tool_result"}]}, "format 'anthropic'"),
]


@pytest.mark.parametrize(("message", "words"), WRONG_FOR_OPENAI)
def test_what_is_wrong_with_an_openai_message_is_said(message: Message, words: str) -> None:
    assert re.search(words, OPENAI.check(message) or "")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "tool", "content": "x"}, "format 'openai-chat'"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "format 'openai-chat'"),
        ({"role": "assistant", "content": [{"type": "tool_result"}]}, "role 'user', not 'assistant'"),
        ({"role": "user", "content": [{"type": "tool_result"}]}, "tool_use_id"),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": 7}]}, "not a number"),
        ({"role": "user", "content": [{"type": "tool_use"}]}, "role 'assistant', not 'user'"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}, "an 'id' and a 'name'"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}]}, "not text"),
    ],
)
def test_what_is_wrong_with_an_anthropic_message_is_said(message: Message, words: str) -> None:
    assert re.search(words, ANTHROPIC.check(message) or "")


@CHAT
def test_unknown_keys_and_unknown_blocks_are_fine(form: MessageFormat) -> None:
    assert form.check({"role": "user", "content": [{"type": "hologram"}], "_meta": {"x": 1}}) is None


@pytest.mark.parametrize("content", [None, "", "x", [], [{"type": "text", "text": "x"}]])
def test_openai_results_of_every_server_are_taken(content: Any) -> None:
    assert OPENAI.check({"role": "tool", "tool_call_id": "a", "content": content}) is None
    assert OPENAI.check({"role": "assistant", "content": content}) is None


# --- reading calls ---


def test_openai_arguments_stay_the_text_that_the_model_wrote() -> None:
    broken = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{x"}}],
    }
    assert OPENAI.calls(broken) == [ToolCall("c", "f", "{x")]


def test_an_openai_custom_call_has_its_text_as_input() -> None:
    message = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "1+1"}}],
    }
    assert OPENAI.check(message) is None
    assert OPENAI.calls(message) == [ToolCall("c", "f", {"input": "1+1"})]


def test_what_is_no_call_is_passed_over() -> None:
    assert OPENAI.calls({"role": "assistant", "tool_calls": ["x", {}, {"id": "c"}]}) == [ToolCall("c", "")]


def test_a_legacy_function_call_is_answered_by_a_function_message() -> None:
    reply = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    (call,) = OPENAI.calls(reply)
    answers = OPENAI.result_messages([(call, ToolResult("x"))])
    assert violations("openai-chat", [reply, *answers]) == []
    assert OPENAI.results(answers[0])[0].call_id == call.id


def test_anthropic_input_stays_an_object() -> None:
    reply = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"x": [1]}}]}
    assert ANTHROPIC.calls(reply) == [ToolCall("c", "f", {"x": [1]})]


def test_what_the_providers_own_tools_leave_is_neither_call_nor_result() -> None:
    blocks: list[Message] = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    ]
    message: Message = {"role": "assistant", "content": blocks}
    assert ANTHROPIC.check(message) is None
    assert (ANTHROPIC.calls(message), ANTHROPIC.results(message)) == ([], [])


@EVERY
def test_parallel_calls_come_in_the_order_of_the_message(form: MessageFormat) -> None:
    calls = [ToolCall(f"c{n}", "f", {}) for n in range(6)]
    reply = form.reply_messages("x", calls)
    assert [call.id for each in reply for call in form.calls(each)] == [call.id for call in calls]


@EVERY
def test_the_same_id_twice_in_one_message_gives_two_calls_and_two_results(form: MessageFormat) -> None:
    twice = [A, ToolCall("a", "g", {})]
    messages = form.result_messages([(call, ToolResult(call.name)) for call in twice])
    results = [result for message in messages for result in form.results(message)]
    assert len([call for each in form.reply_messages("", twice) for call in form.calls(each)]) == 2
    assert [(result.call_id, result.text) for result in results] == [("a", "f"), ("a", "g")]


@CHAT
@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_the_models_messages_hold_calls(form: MessageFormat, role: str) -> None:
    message = {**form.reply("x", [A]), "role": role}
    assert (form.is_reply(message), form.calls(message)) == (False, [])


def test_arguments_nested_too_deeply_never_become_empty_arguments() -> None:
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"x": deep}
    (call,) = ANTHROPIC.calls(
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": deep}]}
    )
    assert "cannot be read" in call.arguments


# --- reading results ---


@CHAT
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("x", "x"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "x"}], "x"),
        ([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}], "x\ny"),
    ],
    ids=["text", "empty text", "null", "empty list", "one block", "two blocks"],
)
def test_a_result_reads_as_its_text(form: MessageFormat, content: Any, text: str) -> None:
    (result,) = form.results(holding(form, content))
    assert (result.call_id, result.index, result.text, result.content) == ("a", 0, text, content)
    assert result.why_not is None


def test_parts_that_are_not_text_are_named_in_what_is_read() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "x" * 12_345}
    mixed = [{"type": "text", "text": "see"}, {"type": "image", "source": source}]
    assert ANTHROPIC.results(holding(ANTHROPIC, mixed))[0].text == "see\n[image image/png, 12,345 characters]"
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert OPENAI.results(holding(OPENAI, [url]))[0].text == "[image_url image/png, 26 characters]"


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ({"type": "tool_reference", "tool_name": "f"}, "tool references"),
        ({"type": "document", "source": {}, "citations": {"enabled": True}}, "cited"),
        ({"type": "search_result", "content": [], "citations": {"enabled": True}}, "cited"),
        ({"type": "hologram"}, "'hologram'"),
        ("text", "not known"),
    ],
)
def test_blocks_that_a_request_rests_on_cannot_be_trimmed(block: Any, reason: str) -> None:
    (result,) = ANTHROPIC.results(holding(ANTHROPIC, [{"type": "text", "text": "x"}, block]))
    assert reason in (result.why_not or "")


@pytest.mark.parametrize("block_type", ["text", "image", "document", "search_result"])
def test_blocks_without_citations_can_be_trimmed(block_type: str) -> None:
    assert ANTHROPIC.results(holding(ANTHROPIC, [{"type": block_type, "text": "x"}]))[0].why_not is None


@CHAT
def test_content_of_an_unknown_kind_cannot_be_trimmed(form: MessageFormat) -> None:
    assert form.results(holding(form, [{"type": "hologram"}]))[0].why_not
    assert form.results(holding(form, 7))[0].why_not


# --- replacing ---


@CHAT
def test_text_stays_text_and_a_list_stays_a_list(form: MessageFormat) -> None:
    assert content_of(form.replace(holding(form, "long"), 0, "short")) == "short"
    assert content_of(form.replace(holding(form, None), 0, "short")) == "short"
    several = [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]
    assert content_of(form.replace(holding(form, several), 0, "short")) == [{"type": "text", "text": "short"}]


def test_a_result_without_content_gets_text() -> None:
    bare = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}
    assert content_of(ANTHROPIC.replace(bare, 0, "short")) == "short"


@CHAT
def test_everything_beside_the_content_stays(form: MessageFormat) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    before = holding(form, [{"type": "text", "text": "x", **mark}], is_error=True, name="f", other=[1], **mark)
    after = form.replace(before, 0, "short")
    assert content_of(after) == [{"type": "text", "text": "short", **mark}]
    assert json.dumps(after) == json.dumps(before).replace('"text": "x"', '"text": "short"')


def test_only_the_numbered_result_of_a_message_changes() -> None:
    (message,) = ANTHROPIC.result_messages([(A, ToolResult("one")), (A, ToolResult("two"))])
    message["content"].append({"type": "text", "text": "and?"})
    after = ANTHROPIC.replace(message, 1, "short")
    assert [result.text for result in ANTHROPIC.results(after)] == ["one", "short"]
    assert (after["content"][0], after["content"][2]) == (message["content"][0], message["content"][2])


@EVERY
@pytest.mark.parametrize("index", [1, -1])
def test_a_result_that_is_not_there_is_refused(form: MessageFormat, index: int) -> None:
    with pytest.raises(IndexError, match=f"number {index}"):
        form.replace(form.result_messages([(A, ToolResult("x"))])[0], index, "short")
    with pytest.raises(IndexError, match="number 0"):
        form.replace(form.user("x"), 0, "short")


@CHAT
@pytest.mark.parametrize("text", ["", " \n"])
def test_blank_text_breaks_no_request(form: MessageFormat, text: str) -> None:
    for content in ("long", [{"type": "text", "text": "long"}]):
        after = form.replace(holding(form, content), 0, text)
        assert violations(form.name, [form.user("go"), form.reply("", [A]), after]) == []
        assert type(content_of(after)) is type(content)


def test_an_anthropic_error_keeps_a_few_words() -> None:
    after = ANTHROPIC.replace(holding(ANTHROPIC, "long", is_error=True), 0, "")
    assert ANTHROPIC.results(after)[0].text == "The tool failed without a message."


# --- context for one request ---


@EVERY
def test_context_follows_the_results_of_an_answered_turn(form: MessageFormat) -> None:
    turn = [
        form.user("go"),
        *form.reply_messages("", [A, B]),
        *form.result_messages([(A, ToolResult("1")), (B, ToolResult("2"))]),
    ]
    made = form.add_context(turn, "note")
    assert violations(form.name, made) == []
    assert form.text(made[-1]) == "note"
    assert len(made) == len(turn) + (form is not ANTHROPIC)


@CHAT
@pytest.mark.parametrize("content", ["go", [{"type": "text", "text": "go"}]], ids=["text", "list"])
def test_context_joins_the_newest_user_message(form: MessageFormat, content: Any) -> None:
    made = form.add_context([form.user("before"), form.reply("yes"), {"role": "user", "content": content}], "note")
    assert len(made) == 3
    assert form.text(made[2]) == ("go\n\nnote" if form is OPENAI and content == "go" else "go\nnote")


@CHAT
def test_context_alone_is_a_user_message(form: MessageFormat) -> None:
    assert [form.text(message) for message in form.add_context([], "note")] == ["note"]
    assert [message["role"] for message in form.add_context([form.reply("hi")], "note")].count("user") == 1
    assert form.add_context([{"role": "user", "content": ""}], "note")[0]["content"] in (
        "note",
        [{"type": "text", "text": "note"}],
    )


@EVERY
def test_blank_context_changes_nothing(form: MessageFormat) -> None:
    assert form.add_context([form.user("go")], " ") == [form.user("go")]


@EVERY
def test_context_never_stands_between_a_call_and_its_result(form: MessageFormat) -> None:
    turn = [form.user("go"), *form.reply_messages("", [A, B]), *form.result_messages([(A, ToolResult("1"))])]
    made = form.add_context(turn, "note")
    assert [form.is_reply(message) for message in made] == [form.is_reply(message) for message in turn]
    assert "note" in form.text(made[-1] if form is ANTHROPIC else made[0])


@EVERY
def test_every_method_leaves_what_it_was_given_as_it_is(form: MessageFormat) -> None:
    result = ToolResult("x", blocks=[{"type": "text", "text": "x"}, IMAGE], structured={"n": [1]})
    messages = [
        form.user("go"),
        *form.reply_messages("so", [A, B]),
        *form.result_messages([(A, result), (B, ToolResult("y"))]),
    ]
    before = copy.deepcopy(messages)
    for message in messages:
        for read in (form.check, form.is_reply, form.calls, form.text):
            read(message)
        for found in form.results(message):
            form.replace(message, found.index, "short")
    form.add_context(messages, "note")
    form.add_context(messages[:1], "note")
    assert messages == before
    assert result == ToolResult("x", blocks=[{"type": "text", "text": "x"}, IMAGE], structured={"n": [1]})
