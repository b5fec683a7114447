"""What each message format writes: results, replies, the person's messages and tool definitions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from provider_rules import PNG, tool_violations, violations

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format
from hooksdk.tools import Tool

OPENAI, ANTHROPIC, RESPONSES, GEMINI = ALL = [get_format(name) for name in FORMATS]
EVERY = pytest.mark.parametrize("form", ALL, ids=FORMATS)
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
A, B = ToolCall("a", "f", {"x": 1}), ToolCall("b", "g", "{}")


def answer(form: MessageFormat, result: ToolResult) -> Message:
    """The message that answers a call with this result, after a check of the whole turn."""
    messages = form.result_messages([(A, result)])
    assert violations(form.name, [form.user("go"), form.reply("", [A]), *messages]) == []
    assert [form.check(message) for message in messages] == [None]
    return messages[0]


def content_of(message: Message) -> Any:
    if "output" in message:
        return message["output"]
    if "parts" in message:
        return message["parts"][0]["functionResponse"]["response"]["output"]
    return message["content"] if message["role"] == "tool" else message["content"][0]["content"]


# --- writing results ---


def test_openai_answers_one_message_for_each_call_in_order() -> None:
    messages = OPENAI.result_messages([(B, ToolResult("two")), (A, ToolResult("one"))])
    assert messages == [
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
    ]


def test_anthropic_answers_one_message_for_all_calls_in_order() -> None:
    (message,) = ANTHROPIC.result_messages([(B, ToolResult("two")), (A, ToolResult.error("one"))])
    assert message["content"] == [
        {"type": "tool_result", "tool_use_id": "b", "content": "two"},
        {"type": "tool_result", "tool_use_id": "a", "content": "one", "is_error": True},
    ]


@EVERY
def test_no_calls_need_no_message(form: MessageFormat) -> None:
    assert form.result_messages([]) == []


@EVERY
def test_empty_text_stays_empty(form: MessageFormat) -> None:
    assert content_of(answer(form, ToolResult(""))) == ""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("no such file", "Error: no such file"),
        ("Error: no such file", "Error: no such file"),
        ("error reading it", "Error: error reading it"),
        ("ValueError: x", "Error: ValueError: x"),
        ("", "Error: The tool failed without a message."),
    ],
)
def test_openai_marks_an_error_once(text: str, written: str) -> None:
    assert content_of(answer(OPENAI, ToolResult.error(text))) == written


@pytest.mark.parametrize(("text", "is_error"), [("Error: no such file", True), ("Error handling in Rust", False)])
def test_in_openais_format_only_the_word_with_a_colon_says_that_a_result_is_an_error(text: str, is_error: bool) -> None:
    (result,) = OPENAI.results({"role": "tool", "tool_call_id": "c1", "content": text})
    assert result.is_error is is_error


def test_openai_names_what_it_cannot_hold() -> None:
    audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    link = {"type": "resource_link", "uri": "file:///a.txt", "name": "a"}
    result = ToolResult(blocks=[{"type": "text", "text": "see"}, IMAGE, audio, link])
    named = f"[image image/png, {len(PNG)} characters]\n[audio audio/wav, 4 characters]\n[resource_link file:///a.txt]"
    assert content_of(answer(OPENAI, result)) == f"see\n{named}"


def test_anthropic_shows_images_in_their_place() -> None:
    result = ToolResult(blocks=[IMAGE, {"type": "text", "text": "a"}, {"type": "audio", "mimeType": "audio/wav"}])
    assert content_of(answer(ANTHROPIC, result)) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "[audio audio/wav]"},
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"mimeType": "image/tiff"},
        {"data": "not base64!"},
        {"data": "AAAA" * 1_400_000},
        {"data": None},
        {"mimeType": []},
    ],
    ids=["type", "base64", "size", "no data", "odd type"],
)
def test_an_image_that_anthropic_refuses_is_named(change: dict[str, Any]) -> None:
    (block,) = content_of(answer(ANTHROPIC, ToolResult(blocks=[IMAGE | change])))
    assert block["text"].startswith("[image")


def test_an_anthropic_error_holds_text_only() -> None:
    result = ToolResult(blocks=[{"type": "text", "text": "no"}, IMAGE], is_error=True)
    assert content_of(answer(ANTHROPIC, result)) == f"no\n[image image/png, {len(PNG)} characters]"


@EVERY
def test_the_text_of_an_embedded_resource_is_read_by_the_model(form: MessageFormat) -> None:
    resource = {"uri": "repo://a.py", "mimeType": "text/x-python", "text": "print(1)"}
    message = answer(form, ToolResult(blocks=[{"type": "resource", "resource": resource}]))
    assert form.results(message)[0].text == "[resource repo://a.py text/x-python]\nprint(1)"


@EVERY
def test_the_text_that_a_hook_put_in_place_wins_over_older_blocks(form: MessageFormat) -> None:
    message = answer(form, ToolResult("redacted", blocks=[{"type": "text", "text": "secret"}, IMAGE]))
    assert "secret" not in json.dumps(message)
    assert form.results(message)[0].text.startswith(("redacted\n[image", "redacted\n[input_image"))


@EVERY
def test_structured_content_is_shown_only_where_there_is_no_text(form: MessageFormat) -> None:
    assert content_of(answer(form, ToolResult("1", structured={"n": 1}))) == "1"
    assert content_of(answer(form, ToolResult("", structured={"n": 1}))) == '{"n": 1}'
    assert content_of(answer(form, ToolResult("a\n", blocks=[{"type": "text", "text": "a\n"}], structured=1))) == "a\n"
    assert '{"n": 1}' in form.results(answer(form, ToolResult(blocks=[IMAGE], structured={"n": 1})))[0].text


@EVERY
def test_half_a_surrogate_pair_never_reaches_the_provider(form: MessageFormat) -> None:
    text = "a\ud800b"
    call = ToolCall("a", "f", {"x": text})
    turn = [form.user(text), *form.reply_messages(text, [call]), *form.result_messages([(call, ToolResult(text))])]
    turn[-1] = form.replace(turn[-1], 0, text)
    assert violations(form.name, form.add_context(turn, text)) == []
    assert form.results(turn[-1])[0].text == "a\ufffdb"


@EVERY
def test_an_error_is_known_again_by_what_was_written(form: MessageFormat) -> None:
    for text in ("no such file", "Error executing tool f: no", "", "ValueError: x"):
        assert form.results(answer(form, ToolResult.error(text)))[0].is_error
    assert not form.results(answer(form, ToolResult("Errors: none")))[0].is_error


# --- the model's and the person's messages ---


@EVERY
def test_a_reply_reads_as_it_was_made(form: MessageFormat) -> None:
    reply = form.reply_messages("so", [A, B])
    assert all(map(form.is_reply, reply))
    assert "".join(map(form.text, reply)) == "so"
    assert [(call.id, call.name) for each in reply for call in form.calls(each)] == [("a", "f"), ("b", "g")]
    assert [form.check(each) for each in [*reply, form.reply("")]] == [None] * (len(reply) + 1)
    assert form.reply_messages("so") == [form.reply("so")]


def test_a_reply_with_arguments_that_are_no_object_stays_sendable() -> None:
    reply = ANTHROPIC.reply("", [ToolCall("a", "f", "{x"), ToolCall("b", "f"), ToolCall("c", "f", "[1]")])
    assert [block["input"] for block in reply["content"]] == [{"INVALID_JSON": "{x"}, {}, {"INVALID_JSON": "[1]"}]
    made = OPENAI.reply("", [ToolCall("a", "f", "{x"), ToolCall("b", "f")])
    assert [call["function"]["arguments"] for call in made["tool_calls"]] == ["{x", "{}"]


@EVERY
def test_the_prose_of_a_message_has_no_results(form: MessageFormat) -> None:
    assert form.text(form.result_messages([(A, ToolResult("x"))])[0]) == ""
    kind = "input_text" if form is RESPONSES else "text"
    parts = [{"type": kind, "text": "a"}, {"type": "image"}]
    assert form.text({"role": "user", "parts" if form is GEMINI else "content": parts}) == "a"
    assert form.text(form.user("hello")) == "hello"


def test_a_refusal_is_prose() -> None:
    assert OPENAI.text({"role": "assistant", "content": None, "refusal": "no"}) == "no"
    assert OPENAI.text({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}) == "no"


# --- tools ---


def shape(form: MessageFormat, parameters: dict[str, Any] | None) -> dict[str, Any]:
    """The schema that the provider gets for a tool with these parameters."""
    made = form.tools([Tool(name="f", description="Does it.", parameters=parameters)])
    assert tool_violations(form.name, made) == []
    if form is GEMINI:
        return made[0]["functionDeclarations"][0]["parametersJsonSchema"]
    body: dict[str, Any] = made[0]["function"] if form is OPENAI else made[0]
    return body["input_schema" if form is ANTHROPIC else "parameters"]


def test_openai_tools_stand_in_a_function_object() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    wanted = {"name": "f", "description": "Does it.", "parameters": schema}
    made = OPENAI.tools([Tool(name="f", description="Does it.", parameters=schema)])
    assert made == [{"type": "function", "function": wanted}]


def test_anthropic_tools_have_an_input_schema() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    made = ANTHROPIC.tools([Tool(name="f", description="Does it.", parameters=schema)])
    assert made == [{"name": "f", "description": "Does it.", "input_schema": schema}]


@EVERY
def test_long_descriptions_are_kept_whole(form: MessageFormat) -> None:
    assert "x" * 5_000 in json.dumps(form.tools([Tool(name="f", description="x" * 5_000)]))


@EVERY
@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"properties": None, "required": None}])
def test_a_tool_without_parameters_takes_an_empty_object(form: MessageFormat, parameters: Any) -> None:
    assert shape(form, parameters) == {"type": "object", "properties": {}}


@EVERY
def test_a_missing_type_is_added_and_nothing_else_changes(form: MessageFormat) -> None:
    kept = {
        "properties": {"type": {"enum": [None, 1]}},
        "required": ["type"],
        "additionalProperties": False,
        "title": "F",
    }
    assert shape(form, kept) == {"type": "object", **kept}


@EVERY
def test_a_reference_at_the_top_is_followed(form: MessageFormat) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/a~1b"}}}
    made = shape(
        form, {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/$defs/a~1b", "$defs": {"a/b": node}}
    )
    assert made == {**node, "$defs": {"a/b": node}}


@EVERY
@pytest.mark.parametrize("reference", ["https://example.com/s.json", "#/$defs/none", "#", "#anchor"])
def test_a_reference_that_leads_nowhere_is_told_in_words(form: MessageFormat, reference: str) -> None:
    assert reference in shape(form, {"$ref": reference})["description"]


@EVERY
def test_an_optional_object_is_the_object(form: MessageFormat) -> None:
    only = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": False}
    assert shape(form, {"anyOf": [only, {"type": "null"}]}) == only


@EVERY
def test_alternatives_become_properties_and_words(form: MessageFormat) -> None:
    choice = [{"required": ["id"]}, {"required": ["path"]}]
    made = shape(form, {"type": "object", "description": "One.", "properties": {"id": {}, "path": {}}, "anyOf": choice})
    assert made["properties"] == {"id": {}, "path": {}}
    assert "required" not in made
    assert (
        made["description"] == f"One.\nThe arguments must also match this JSON Schema: {json.dumps({'anyOf': choice})}"
    )


@EVERY
def test_alternatives_of_one_property_are_joined_below_the_top(form: MessageFormat) -> None:
    kinds = [{"properties": {"kind": {"const": name}, name: {}}, "required": ["kind", name]} for name in ("a", "b")]
    made = shape(form, {"oneOf": kinds})
    assert made["properties"] == {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "a": {}, "b": {}}
    assert made["required"] == ["kind"]


@EVERY
def test_all_of_is_merged_where_that_loses_nothing(form: MessageFormat) -> None:
    parts = [
        {"title": "F", "properties": {"a": {"minLength": 1}}, "required": ["a"]},
        {"properties": {"a": {"maxLength": 9}, "b": {}}, "required": ["a", "b"]},
    ]
    assert shape(form, {"allOf": parts}) == {
        "type": "object",
        "properties": {"a": {"allOf": [{"minLength": 1}, {"maxLength": 9}]}, "b": {}},
        "title": "F",
        "required": ["a", "b"],
    }


@EVERY
def test_what_cannot_be_merged_is_told_and_offers_no_property_that_is_refused(form: MessageFormat) -> None:
    closed: Message = {"properties": {"a": {}}, "additionalProperties": False}
    for word in ("allOf", "anyOf"):
        more: list[Message] = [{"properties": {"a": {}, "b": {}}}, {"properties": {"a": {}}, "minProperties": 1}]
        made = shape(form, {**closed, word: more})
        assert made["properties"] == {"a": {}}
        assert json.dumps(more) in made["description"]


@EVERY
def test_every_combination_is_told(form: MessageFormat) -> None:
    first, second = [{"required": ["a"]}, {"required": ["b"]}], [{"required": ["c"]}, {"required": ["d"]}]
    told = shape(form, {"anyOf": first, "oneOf": [{"anyOf": second}], "not": {"required": ["e"]}})["description"]
    assert json.dumps({"allOf": [{"anyOf": first}, {"anyOf": second}, {"not": {"required": ["e"]}}]}) in told


@EVERY
def test_a_schema_that_turns_in_circles_ends(form: MessageFormat) -> None:
    circle = {"$ref": "#/$defs/x", "$defs": {"x": {"anyOf": [{"$ref": "#/$defs/x"}]}}}
    assert "must also match" in shape(form, circle)["description"]


@EVERY
def test_older_and_odd_spellings_are_brought_up_to_date(form: MessageFormat) -> None:
    old = {
        "pair": {"type": "array", "items": [{"type": "string"}, True], "additionalItems": False},
        "any": {"type": "array"},
        "share": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1, "exclusiveMaximum": False},
        "nullable": {"type": "string", "enum": None, "required": True, "default": None},
        "free": True,
        "never": False,
        "typed": {"type": ["String", "Date", None]},
        "odd": {"type": "Enum", "enum": "a, b", "examples": "a"},
    }
    assert shape(form, {"type": "object", "properties": old})["properties"] == {
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {}], "items": False},
        "any": {"type": "array", "items": {}},
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "nullable": {"type": "string", "default": None},
        "free": {},
        "never": False,
        "typed": {"type": "string"},
        "odd": {"examples": ["a"]},
    }


@EVERY
def test_examples_and_defaults_are_no_schemas(form: MessageFormat) -> None:
    kept = {"type": "object", "properties": {"x": {"default": {"type": "array"}, "enum": [{"type": "array"}, None]}}}
    assert shape(form, kept) == kept


@EVERY
def test_a_schema_with_half_a_surrogate_pair_can_be_sent(form: MessageFormat) -> None:
    made = shape(form, {"properties": {"x\ud800": {"enum": ["\ud800", 1]}}})
    assert made["properties"] == {"x\ufffd": {"enum": ["\ufffd", 1]}}
