"""R1 to R3 for the message formats: over generated and real conversations no trim breaks a request or touches a
foreign byte, and the same trim gives the same bytes."""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider_rules import PNG, in_format, neutral, tool_violations, violations

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format
from hooksdk.tools import Tool
from tests.measured import DATA

SHARED = Path(__file__).parents[3] / "shared"
TRANSCRIPTS = sorted((DATA / "transcripts").glob("*.jsonl"))
OPENAI, ANTHROPIC, RESPONSES, GEMINI = ALL = [get_format(name) for name in FORMATS]
EVERY = pytest.mark.parametrize("form", ALL, ids=FORMATS)
MARKER = "\x00target\x00"

words = st.text(st.characters(codec="utf-8"), max_size=40)
said = words.filter(str.strip)
text_block = said.map(lambda text: {"type": "text", "text": text})
image_block = st.just({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})
plain_content = words | st.lists(text_block, min_size=1, max_size=3)
mixed_content = st.lists(text_block | image_block, max_size=3)
input_text = words.map(lambda text: {"type": "input_text", "text": text})
input_image = st.just({"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"})
response = st.dictionaries(
    st.sampled_from(["output", "result", "error", "text", "type"]), words | st.integers(), max_size=3
)


@st.composite
def conversations(draw: st.DrawFn, form: MessageFormat) -> list[Message]:
    """A valid conversation: parallel calls answered out of order, ids that come again, errors, images."""
    turns: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 4))):
        turns.append({"user": draw(said)})
        for _ in range(draw(st.integers(0, 3))):
            ids = draw(st.lists(st.sampled_from("abcdefg"), unique=True, min_size=1, max_size=6))
            calls = [(call_id, "f", {"x": draw(words)}) for call_id in ids]
            results = [draw(answers(form, call_id)) for call_id in draw(st.permutations(ids))]
            turns.append({"text": draw(words), "calls": calls, "results": results})
        turns.append({"text": draw(said), "calls": [], "results": []})
    messages = in_format(form.name, turns)
    assert violations(form.name, messages) == []
    return messages


@st.composite
def answers(draw: st.DrawFn, form: MessageFormat, call_id: str) -> tuple[str, Any, bool]:
    if form is OPENAI:
        return call_id, draw(plain_content), False
    if form is RESPONSES:
        return call_id, draw(words | st.lists(input_text | input_image, min_size=1, max_size=3)), False
    if form is GEMINI:
        return call_id, draw(words | response), draw(st.booleans())
    if draw(st.booleans()):
        return call_id, draw(st.lists(text_block, min_size=1, max_size=3) | said), True
    return call_id, draw(plain_content | mixed_content), False


def places(form: MessageFormat, messages: list[Message]) -> list[tuple[int, int]]:
    return [(at, found.index) for at, message in enumerate(messages) for found in form.results(message)]


def set_content(form: MessageFormat, messages: list[Message], place: tuple[int, int], content: Any) -> Any:
    """Write the content of a result into a copy by hand, without the format; answers what stood there."""
    holder, key = messages[place[0]], "content"
    if form is ANTHROPIC:
        holder = [block for block in holder["content"] if block["type"] == "tool_result"][place[1]]
    elif form is RESPONSES:
        key = "output"
    elif form is GEMINI:
        holder, key = holder["parts"][place[1]]["functionResponse"], "response"
    before = holder.get(key)
    holder[key] = content
    return before


def trim_and_check(form: MessageFormat, messages: list[Message], place: tuple[int, int], text: str) -> list[Message]:
    """Trim one result and check everything that must hold of it."""
    at, index = place
    snapshot, refused = copy.deepcopy(messages), violations(form.name, messages)
    trimmed = [*messages[:at], form.replace(messages[at], index, text), *messages[at + 1 :]]

    assert messages == snapshot, "the input was changed"
    assert violations(form.name, trimmed) == refused
    assert form.check(trimmed[at]) is None
    assert [message.get("role") for message in trimmed] == [message.get("role") for message in messages]
    before, after = copy.deepcopy(messages), copy.deepcopy(trimmed)
    old, new = set_content(form, before, place, MARKER), set_content(form, after, place, MARKER)
    assert json.dumps(before).encode() == json.dumps(after).encode(), "a byte outside the target changed"
    assert type(old) is type(new) or old is None

    assert form.replace(trimmed[at], index, text) == trimmed[at]
    ids = [(found.call_id, found.index, found.is_error) for found in form.results(messages[at])]
    now = form.results(trimmed[at])
    if form in (ANTHROPIC, GEMINI):
        assert [(found.call_id, found.index, found.is_error) for found in now] == ids
    if text.strip():
        assert now[index].text == text
    return trimmed


CALLED: Message = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
ANSWER: Message = {"role": "tool", "tool_call_id": "a", "content": "x"}
USED: Message = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
RESULT: Message = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
ASKED: Message = {"role": "user", "content": "go"}
ITEM: Message = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT: Message = {"type": "function_call_output", "call_id": "a", "output": "x"}
PART_ASKED: Message = {"role": "user", "parts": [{"text": "go"}]}
PART_CALLED: Message = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
PART_ANSWER: Message = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}]}
WRONG: list[tuple[str, list[Message]]] = [
    ("openai-chat", [ASKED, CALLED, ASKED]),
    ("openai-chat", [ASKED, ANSWER]),
    ("openai-chat", [ASKED, CALLED, ANSWER, ANSWER]),
    ("openai-chat", [ASKED, CALLED, ANSWER | {"content": None}]),
    ("openai-chat", [ASKED, CALLED, ANSWER | {"content": [{"type": "image_url"}]}]),
    ("openai-chat", [ASKED, CALLED, ANSWER | {"content": "\ud800"}]),
    ("openai-responses", [ASKED, ITEM, ASKED]),
    ("openai-responses", [ASKED, OUTPUT]),
    ("openai-responses", [ASKED, ITEM, OUTPUT, OUTPUT]),
    ("openai-responses", [ASKED, ITEM, OUTPUT | {"type": "custom_tool_call_output"}]),
    ("openai-responses", [ASKED, ITEM, OUTPUT | {"output": [{"type": "text", "text": "x"}]}]),
    ("openai-responses", [ASKED, ITEM | {"arguments": {}}, OUTPUT]),
    ("openai-responses", [ASKED, ITEM | {"id": "call_1"}, OUTPUT]),
    ("openai-responses", [ASKED, {"type": "reasoning", "id": "rs_1", "summary": []}, ASKED]),
    ("gemini", [PART_ASKED, PART_CALLED, PART_ASKED]),
    ("gemini", [PART_CALLED, PART_ANSWER]),
    ("gemini", [PART_ASKED, PART_ANSWER]),
    ("gemini", [PART_ASKED, {"role": "model", "parts": [{"text": "so"}]}, PART_CALLED, PART_ANSWER]),
    ("gemini", [PART_ASKED, {"role": "model", "parts": PART_CALLED["parts"] * 2}, PART_ANSWER, PART_ANSWER]),
    ("gemini", [PART_ASKED, PART_CALLED, {"role": "user", "parts": [*PART_ANSWER["parts"], {"text": "so"}]}]),
    ("gemini", [PART_ASKED, PART_CALLED, {"parts": [{"functionResponse": {"name": "g", "response": {}}}]}]),
    ("gemini", [PART_ASKED, PART_CALLED, {"parts": [{"functionResponse": {"name": "f", "response": "x"}}]}]),
    ("gemini", [{"role": "user", "parts": [{"text": ""}]}]),
    ("anthropic", [ASKED, USED, ASKED]),
    ("anthropic", [USED, {"role": "user", "content": [RESULT]}]),
    ("anthropic", [ASKED, USED, {"role": "user", "content": [RESULT, RESULT]}]),
    ("anthropic", [ASKED, USED, {"role": "user", "content": [{"type": "text", "text": "so"}, RESULT]}]),
    ("anthropic", [ASKED, USED, {"role": "user", "content": [RESULT | {"content": "", "is_error": True}]}]),
    ("anthropic", [ASKED, USED, {"role": "user", "content": [RESULT | {"content": [{"type": "text", "text": " "}]}]}]),
    ("anthropic", [ASKED, USED, {"role": "user", "content": [RESULT | {"content": [{"type": "audio"}]}]}]),
]


@pytest.mark.parametrize(("form", "messages"), WRONG)
def test_the_rules_refuse_what_a_provider_refuses(form: str, messages: list[Message]) -> None:
    assert violations(form, messages)


@pytest.mark.in_ci(every=4)
@pytest.mark.heavy
@EVERY
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_trim_breaks_a_generated_conversation(form: MessageFormat, data: st.DataObject) -> None:
    messages = data.draw(conversations(form))
    found = places(form, messages)
    for place in data.draw(st.lists(st.sampled_from(found), max_size=5)) if found else []:
        messages = trim_and_check(form, messages, place, data.draw(words))


@cache
def transcript(path: Path) -> tuple[Message, ...]:
    return tuple(json.loads(line) for line in path.read_text("utf-8").splitlines())


@pytest.mark.light(every=5)
@EVERY
def test_no_trim_breaks_a_real_transcript(form: MessageFormat) -> None:
    chance = random.Random(7)  # the same trims at every run
    trimmed = 0
    for path in TRANSCRIPTS:
        messages: list[Message] = list(copy.deepcopy(transcript(path)))
        if form is not OPENAI:
            messages = in_format(form.name, neutral(messages))
        assert [form.check(message) for message in messages] == [None] * len(messages)
        for place in places(form, messages):
            if chance.random() < 0.6:
                messages = trim_and_check(form, messages, place, f"[result trimmed, {trimmed}]")
                trimmed += 1
    assert trimmed > 100


@pytest.mark.in_ci(every=4)
@pytest.mark.heavy
@EVERY
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_trims_in_any_order_give_the_same_bytes(form: MessageFormat, data: st.DataObject) -> None:
    messages = data.draw(conversations(form))
    chosen = {place: data.draw(words) for place in places(form, messages)}

    def view(order: list[tuple[int, int]]) -> str:
        made = list(messages)
        for at, index in order:
            made[at] = form.replace(made[at], index, chosen[at, index])
        return json.dumps(made)

    assert view(list(chosen)) == view(data.draw(st.permutations(list(chosen))))


@pytest.mark.in_ci(every=4)
@pytest.mark.heavy
@EVERY
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_context_breaks_no_request_and_no_prefix(form: MessageFormat, data: st.DataObject) -> None:
    messages = data.draw(conversations(form))
    ends = [
        at for at, message in enumerate(messages) if not form.is_reply(message) and _answered(form, messages[: at + 1])
    ]
    asked = messages[: data.draw(st.sampled_from(ends)) + 1]
    snapshot = copy.deepcopy(asked)
    made = form.add_context(asked, "the note")
    assert asked == snapshot
    assert violations(form.name, made) == []
    assert made[: len(asked) - 1] == asked[:-1]
    assert form.text(made[-1]).endswith("the note")
    assert [found.text for found in form.results(made[len(asked) - 1])] == [
        found.text for found in form.results(asked[-1])
    ]


def _answered(form: MessageFormat, messages: list[Message]) -> bool:
    return violations(form.name, [*messages, form.user("and?")]) == []


blocks = st.sampled_from([
    {"type": "text", "text": "x"}, {"type": "text", "text": ""}, {"type": "text"}, {"type": "image", "data": PNG, "mimeType": "image/png"},
    {"type": "image", "data": "?", "mimeType": "image/png"}, {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}, {"type": "new"},
    {"type": "resource", "resource": {"uri": "a://b", "text": "c\udfff"}}, {"type": "resource", "resource": {"uri": "a://b", "blob": "AA=="}},
])  # fmt: skip
results = st.builds(
    ToolResult,
    st.none() | st.text(max_size=20),
    is_error=st.booleans(),
    blocks=st.lists(blocks, max_size=4),
    structured=st.none() | st.dictionaries(st.text(max_size=3), st.floats() | st.text(max_size=3), max_size=2),
)


@EVERY
@settings(max_examples=100, deadline=None)
@given(given_results=st.lists(results, min_size=1, max_size=4))
def test_whatever_tools_answer_makes_a_valid_turn(form: MessageFormat, given_results: list[ToolResult]) -> None:
    calls = [ToolCall(f"c{n}", "f", {}) for n in range(len(given_results))]
    made = form.result_messages(list(zip(calls, given_results, strict=True)))
    assert violations(form.name, [form.user("go"), *form.reply_messages("", calls), *made]) == []
    found = [found for message in made for found in form.results(message)]
    assert [each.call_id for each in found] == [call.id for call in calls]
    assert all(each.is_error for each, result in zip(found, given_results, strict=True) if result.is_error)


keys = st.sampled_from([
    "role", "content", "type", "text", "tool_calls", "id", "function", "custom", "input", "name", "arguments", "tool_use_id", "is_error",
    "tool_call_id", "call_id", "output", "parts", "functionCall", "functionResponse", "function_response", "args", "response", "error",
    "result", "inlineData", "mimeType", "data", "function_call", "source", "resource", "image_url", "url", "citations", "enabled", "cache_control", "refusal",
])  # fmt: skip
values = st.sampled_from([
    "user", "assistant", "tool", "function", "system", "model", "text", "tool_use", "tool_result", "image", "custom", "x",
    "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning", "input_text",
])  # fmt: skip
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | values,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(keys, below, max_size=5),
    max_leaves=25,
)
roles = values | st.just(["x"]) | st.none()


@pytest.mark.in_ci(every=4)
@pytest.mark.heavy
@EVERY
@settings(max_examples=100, deadline=None)
@given(body=st.dictionaries(keys, junk, max_size=6), role=roles, other=junk)
def test_no_json_makes_a_format_raise(form: MessageFormat, body: Message, role: Any, other: Any) -> None:
    message = body | {"role": role}
    assert form.check(other) is None or isinstance(form.check(other), str)
    form.check(message)
    assert isinstance(form.is_reply(message), bool)
    assert isinstance(form.text(message), str)
    assert all(isinstance(call.id, str) and isinstance(call.name, str) for call in form.calls(message))
    for found in form.results(message):
        assert form.results(form.replace(message, found.index, "short"))[found.index].text == "short"
    assert len(form.add_context([message], "note")) in (1, 2)


NAMED = {"a": {"type": "string"}, "b": {"type": "integer"}, "c": True, "d": {}}
properties = st.sets(st.sampled_from("abcd")).map(lambda names: {name: NAMED[name] for name in sorted(names)})
plain_schema: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", ["object", "null"]]),
        "properties": properties,
        "required": st.lists(st.sampled_from("abcd"), unique=True, max_size=2),
        "additionalProperties": st.booleans(),
    },
)


@st.composite
def combined(draw: st.DrawFn, below: st.SearchStrategy[Any]) -> dict[str, Any]:
    branches = st.lists(below | st.booleans() | st.just({"type": "null"}), min_size=1, max_size=3)
    return draw(plain_schema) | draw(
        st.dictionaries(st.sampled_from(["anyOf", "oneOf", "allOf"]), branches, min_size=1, max_size=2)
    )


schemas = st.recursive(plain_schema, combined, max_leaves=6)
objects = st.fixed_dictionaries(
    {}, optional={"a": st.just("x"), "b": st.just(1), "c": st.just("y"), "d": st.just(None)}
)


def takes(schema: Any, value: object) -> bool:
    from jsonschema import Draft202012Validator

    return cast("Any", Draft202012Validator(schema)).is_valid(value)


@settings(max_examples=100, deadline=None)
@given(parameters=schemas, arguments=st.lists(objects, min_size=1, max_size=4))
def test_the_schema_that_is_sent_takes_what_the_tool_takes(parameters: dict[str, Any], arguments: list[Any]) -> None:
    """And nothing else, unless its description says so."""
    (tool,) = ANTHROPIC.tools([Tool(name="f", description="", parameters=parameters)])
    sent = tool["input_schema"]
    assert not {"anyOf", "oneOf", "allOf"} & set(sent)
    for each in arguments:
        if takes(parameters, each) or "must also match" not in sent.get("description", ""):
            assert takes(sent, each) is takes(parameters, each), (parameters, sent, each)


NAUGHTY = SHARED / "suites" / "naughty-strings.json"


@pytest.mark.skipif(not NAUGHTY.exists(), reason=f"the list of naughty strings is not at {NAUGHTY}")
@EVERY
def test_naughty_strings_come_back_as_they_were(form: MessageFormat) -> None:
    call = ToolCall("a", "f", {})
    for text in json.loads(NAUGHTY.read_text("utf-8")):
        (message,) = form.result_messages([(call, ToolResult(text))])
        assert form.results(message)[0].text == (text if text.strip() or form is not ANTHROPIC else "")
        assert form.results(form.replace(message, 0, text)) == form.results(message)
        asked = [form.user("go"), *form.reply_messages(text, [call]), message]
        assert violations(form.name, form.add_context(asked, text)) == []


CATALOGS = sorted((DATA / "retrieval").glob("*/catalog.jsonl"))


@pytest.mark.light(every=5)
@EVERY
def test_real_tools_make_valid_definitions(form: MessageFormat) -> None:
    listed = [json.loads(line) for path in CATALOGS for line in path.read_text("utf-8").splitlines()[:80]]
    tools = [Tool(name=tool["name"], description=tool["description"], parameters=tool["parameters"]) for tool in listed]
    assert len(tools) > 300
    assert tool_violations(form.name, form.tools(tools)) == []
