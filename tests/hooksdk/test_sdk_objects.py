"""The objects of the providers' SDKs go in as they are: messages, items, blocks, calls, whole answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hooksdk import Session, ToolCall
from hooksdk.errors import WrongArgument
from hooksdk.testing import open_session
from hooksdk.trimming import list_results

openai_chat: Any = pytest.importorskip("openai.types.chat", reason="openai is not installed")
openai_responses: Any = pytest.importorskip("openai.types.responses", reason="openai is not installed")
anthropic: Any = pytest.importorskip("anthropic.types", reason="anthropic is not installed")
genai: Any = pytest.importorskip("google.genai.types", reason="google-genai is not installed")

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"left": 1, "right": 2}'},
}
COMPLETION: dict[str, Any] = {
    "id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": {
        "role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [CALL]}}],
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 2},
    "content": [{"type": "text", "text": "", "citations": None}, {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"left": 1, "right": 2}}],
}  # fmt: skip
RESPONSE: dict[str, Any] = {
    "id": "r1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "parallel_tool_calls": True,
    "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
    "temperature": None, "top_p": None, "usage": None,
    "output": [{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e", "status": None},
               {"type": "function_call", "id": "f", "call_id": "c1", "name": "add", "arguments": '{"left": 1, "right": 2}'}],
}  # fmt: skip
CONTENT: dict[str, Any] = {
    "role": "model",
    "parts": [{"functionCall": {"name": "add", "args": {"left": 1, "right": 2}}, "thoughtSignature": b"\xff\xfe"}],
}


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


SDKS: dict[str, tuple[str, Any, list[dict[str, Any]], Callable[[Any], Any]]] = {
    "chat message": (
        "openai-chat", openai_chat.ChatCompletion.model_validate(COMPLETION).choices[0].message,
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}], lambda given: given.tool_calls[0],
    ),
    "chat completion": (
        "openai-chat", openai_chat.ChatCompletion.model_validate(COMPLETION),
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}], lambda given: given.choices[0].message.tool_calls[0],
    ),
    "chat choice": (
        "openai-chat", openai_chat.ChatCompletion.model_validate(COMPLETION).choices[0],
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}], lambda given: CALL,
    ),
    "anthropic message": (
        "anthropic", anthropic.Message.model_validate(ANSWER),
        [{"role": "assistant", "content": ANSWER["content"][1:]}], lambda given: given.content[2],
    ),
    "anthropic blocks in a dict": (
        "anthropic", {"role": "assistant", "content": anthropic.Message.model_validate(ANSWER).content},
        [{"role": "assistant", "content": ANSWER["content"][1:]}], lambda given: ANSWER["content"][2],
    ),
    "response": (
        "openai-responses", openai_responses.Response.model_validate(RESPONSE),
        [{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}, RESPONSE["output"][1]],
        lambda given: given.output[1],
    ),
    "response items": (
        "openai-responses", openai_responses.Response.model_validate(RESPONSE).output,
        [{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}, RESPONSE["output"][1]],
        lambda given: given[1],
    ),
    "gemini content": (
        "gemini", genai.Content.model_validate(CONTENT),
        [{"role": "model", "parts": [{"functionCall": CONTENT["parts"][0]["functionCall"], "thoughtSignature": "__4="}]}],
        lambda given: given.parts[0].function_call,
    ),
    "gemini answer": (
        "gemini", genai.GenerateContentResponse.model_validate({"candidates": [{"content": CONTENT}]}),
        [{"role": "model", "parts": [{"functionCall": CONTENT["parts"][0]["functionCall"], "thoughtSignature": "__4="}]}],
        lambda given: given.function_calls[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SDKS)
async def test_an_sdks_reply_is_recorded_and_its_call_runs(name: str) -> None:
    message_format, given, stored, take_call = SDKS[name]
    async with open_session() as session, session.run(format=message_format) as run:
        await run.resolve_tools([add])
        await run.record(run.format.user("1 + 2?"))
        await run.record(given)
        assert session.messages[1:] == stored
        result = await run.call_tool(take_call(given))
        assert (result.text, run.pending) == ("3", ())
        assert json.loads(json.dumps(session.messages)) == session.messages


@pytest.mark.parametrize("name", SDKS)
async def test_an_sdks_call_is_judged(name: str) -> None:
    message_format, given, _, take_call = SDKS[name]
    async with open_session() as session, session.run(format=message_format) as run:
        await run.resolve_tools([add])
        await run.record(given)
        judged = await run.judge(take_call(given))
        assert judged.arguments == {"left": 1, "right": 2}
        await judged.supply("3")
        assert run.pending == ()


@pytest.mark.parametrize("name", ["chat completion", "anthropic message"])
async def test_a_whole_answer_brings_its_usage(name: str) -> None:
    message_format, given, _, _ = SDKS[name]
    async with open_session() as session, session.run(format=message_format) as run:
        await run.record(given)
        assert sum(run.stats["usage"].values()) in (7, 14)


async def test_a_host_list_of_sdk_objects_is_matched_and_loaded() -> None:
    given = SDKS["chat message"][1]
    history: list[Any] = [
        {"role": "user", "content": "1 + 2?"}, given, {"role": "tool", "tool_call_id": "c1", "content": "3"}
    ]  # fmt: skip
    async with open_session() as session:
        await session.load(history)
        assert session.messages[1] == SDKS["chat message"][2][0]
        async with session.run() as run:
            assert len(await run.prepare_messages([*history, {"role": "assistant", "content": "3"}])) == 4
    assert [info.tool for info in list_results(history)] == ["add"]


async def open_and(session: Session, message_format: str, given: Any) -> None:
    async with session.run(format=message_format) as run:
        await run.record(given)


REFUSED: dict[str, tuple[str, Any, str]] = {
    "two choices": (
        "openai-chat", openai_chat.ChatCompletion.model_validate({**COMPLETION, "choices": COMPLETION["choices"] * 2}),
        r"the answer has 2 choices\. Record the message of one of them",
    ),
    "a piece of a stream": (
        "openai-chat",
        openai_chat.ChatCompletionChunk.model_validate(
            {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {}}]}
        ),
        r"a piece of a stream",
    ),
    "anthropic's in a chat": ("openai-chat", SDKS["anthropic message"][1], r"session\.run\(format='anthropic'\)"),
    "a response in a chat": ("openai-chat", SDKS["response"][1], r"session\.run\(format='openai-responses'\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_an_answer_that_is_no_message_of_the_run_is_refused_with_the_cure(name: str) -> None:
    message_format, given, words = REFUSED[name]
    async with open_session() as session:
        with pytest.raises(WrongArgument, match=words):
            await open_and(session, message_format, given)
        assert session.messages == []


async def test_what_parse_adds_to_a_message_is_left_out() -> None:
    parsed = {**COMPLETION["choices"][0]["message"], "parsed": None, "content": "{}"}
    message = openai_chat.ParsedChatCompletionMessage.model_validate(parsed)
    message.parsed = {"a": 1}
    async with open_session() as session, session.run() as run:
        await run.record(message)
        assert session.messages == [{"role": "assistant", "content": "{}", "tool_calls": [CALL]}]


@pytest.mark.parametrize(
    "given",
    [
        CALL,
        {"id": "c1", "name": "add", "arguments": {"left": 1, "right": 2}},
        ToolCall("c1", "add", '{"left": 1, "right": 2}'),
    ],
)
async def test_a_call_is_taken_as_a_dict(given: Any) -> None:
    async with open_session() as session, session.run() as run:
        await run.resolve_tools([add])
        await run.record({"role": "assistant", "content": None, "tool_calls": [CALL]})
        assert (await run.call_tool(given)).text == "3"
