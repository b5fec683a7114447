"""The types of the official SDKs accept every view: all real transcripts in all formats, with random trims."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, cast

import pytest
from provider_rules import PNG, in_format, neutral, violations
from pydantic import TypeAdapter, ValidationError
from test_formats_properties import ALL, EVERY, SHARED, TRANSCRIPTS, transcript

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format
from hooksdk.tools import Tool
from hooksdk.trimming import guess_format, list_results, repair, trim

Accepts = Callable[[list[Message]], object]
"""Raises where the SDK's types do not fit."""


def typed(adapter: TypeAdapter[Any]) -> Accepts:
    def check(messages: list[Message]) -> None:
        for message in messages:
            _read_to_the_end(adapter.validate_python(message))

    return check


def _read_to_the_end(value: Any) -> None:
    """Iterables in the types are only validated as they are read."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).values()
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for each in cast("Iterable[Any]", value):
            _read_to_the_end(each)


@cache
def accepts(name: str) -> Accepts:
    """What checks messages of this format by the types of its provider's SDK."""
    if name == "openai-chat":
        from openai.types.chat import ChatCompletionMessageParam

        return typed(TypeAdapter(ChatCompletionMessageParam))
    if name == "openai-responses":
        from openai.types.responses import ResponseInputItemParam

        return typed(TypeAdapter(ResponseInputItemParam))
    if name == "anthropic":
        from anthropic.types import MessageParam

        return typed(TypeAdapter(MessageParam))
    genai: Any = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    content = TypeAdapter[Any](genai.Content)  # forbids unknown keys, and reads base64 in JSON alone
    return lambda messages: [content.validate_json(json.dumps(message)) for message in messages]


@pytest.mark.heavy
@pytest.mark.skipif(not TRANSCRIPTS, reason=f"the real transcripts are not at {SHARED / 'benchmarks' / 'transcripts'}")
@EVERY
def test_the_sdks_types_accept_every_view(form: MessageFormat) -> None:
    chance, trimmed = random.Random(7), 0  # the same trims at every run
    for path in TRANSCRIPTS:
        messages = repair(in_format(form.name, neutral(list(copy.deepcopy(transcript(path))))), form)
        assert guess_format(messages) == form.name
        accepts(form.name)(messages)
        handles = [info.handle for info in list_results(messages, form) if info.trimmable]
        for _ in range(5):
            chosen: dict[str, Any] = {each: chance.choice([None, "short"]) for each in handles if chance.random() < 0.5}
            shorter = trim(messages, chosen, form)
            accepts(form.name)(shorter)
            assert violations(form.name, shorter) == []
            trimmed += len(chosen)
    assert trimmed > 200


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
PDF = {"type": "resource", "resource": {"uri": "a.pdf", "mimeType": "application/pdf", "blob": "AAAA"}}
ANSWERS = [
    ToolResult("text"),
    ToolResult("see", blocks=[{"type": "text", "text": "see"}, IMAGE, PDF]),
    ToolResult.error("failed"),
    ToolResult(structured={"x": 1}),
]


@EVERY
def test_the_sdks_types_accept_what_the_format_writes(form: MessageFormat) -> None:
    calls = [ToolCall(f"c{number}", "f", {"x": number}) for number in range(len(ANSWERS))]
    answered = list(zip(calls, ANSWERS, strict=True))
    messages = [form.user("go"), *form.reply_messages("so", calls), *form.result_messages(answered)]
    messages = form.add_context(messages, "note")
    accepts(form.name)(messages)
    assert violations(form.name, messages) == []
    trimmed = [form.replace(each, 0, "short") if form.results(each) else each for each in messages]
    accepts(form.name)(trimmed)


@EVERY
def test_the_sdks_types_refuse_the_replies_of_another_format(form: MessageFormat) -> None:
    for name in FORMATS:
        if name != form.name:
            with pytest.raises(ValidationError):
                accepts(name)([form.reply("", [ToolCall("c", "f", {})])])


def test_the_items_of_openais_sdk_are_sent_back_as_they_came() -> None:
    from openai.types.responses import ResponseOutputItem

    items: list[Message] = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": None,
            "encrypted_content": "Z0FB",
            "status": None,
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "d", "name": "g", "input": "1"},
    ]
    read = [TypeAdapter[Any](ResponseOutputItem).validate_python(item) for item in items]
    recorded = [item.to_dict(exclude_none=True) for item in read]
    assert recorded == [{key: value for key, value in item.items() if value is not None} for item in items]
    form = get_format("openai-responses")
    calls = [call for item in recorded for call in form.calls(item)]
    messages = [form.user("go"), *recorded, *form.result_messages([(call, ToolResult("x")) for call in calls])]
    assert violations(form.name, messages) == []
    accepts(form.name)(messages)


def test_the_sdks_types_accept_the_tools() -> None:
    from anthropic.types import ToolParam
    from openai.types.chat import ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam

    genai: Any = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    types: dict[str, Any] = dict(
        zip(FORMATS, (ChatCompletionToolParam, ToolParam, FunctionToolParam, genai.Tool), strict=True)
    )
    tool = Tool(name="f", description="F.", parameters={"type": "object", "properties": {"x": {"type": "string"}}})
    for form in ALL:
        for definition in form.tools([tool, tool]):
            TypeAdapter[Any](types[form.name]).validate_python(definition)
