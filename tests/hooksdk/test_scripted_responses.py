"""The scripted provider at `/v1/responses`: it refuses what OpenAI refuses, in its words, and streams every kind of item."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from hooksdk.testing.server import ScriptedServer

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "hi"}
CALL: Json = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{}"}
OUTPUT: Json = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
CUSTOM: Json = {"type": "custom_tool_call", "call_id": "call_2", "name": "run", "input": "1 + 1"}
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo"}
IMAGE: Json = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}
ADD: Json = {"type": "function", "name": "add", "description": "Add.", "parameters": {}, "strict": False}
LATER: Json = {**ADD, "defer_loading": True}
SUMS: Json = {"type": "namespace", "name": "sums", "description": "Sums.", "tools": [ADD]}
SEARCH: Json = {"type": "tool_search", "execution": "client", "description": "Find tools.", "parameters": {}}
SEARCHED: Json = {
    "type": "tool_search_output", "call_id": "call_0", "execution": "client", "status": "completed",
    "tools": [{**SUMS, "tools": [LATER]}],
}  # fmt: skip
MORE: Json = {"type": "additional_tools", "role": "developer", "tools": [SUMS]}
NOT_FOUND = (
    "Item with id '{}' not found. Items are not persisted when `store` is set to false. "
    "Try again with `store` set to true, or remove this item from your input."
)
NO_NAMESPACE = "Missing namespace for function_call 'add'. It does not exist in the default namespace."
DEFERRED = "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search."

REFUSED: dict[str, tuple[Json, int, str, str]] = {
    "an output without its call": (
        {"input": [USER, OUTPUT]}, 400, "No tool call found for function call output with call_id call_1.", "input",
    ),
    "a call without its output": (
        {"input": [USER, CALL]}, 400, "No tool output found for function call call_1.", "input",
    ),
    "a custom call without its output": (
        {"input": [USER, CUSTOM]}, 400, "No tool output found for custom tool call call_2.", "input",
    ),
    "a call whose function is in a namespace": (
        {"input": [USER, CALL, OUTPUT], "tools": [SUMS]}, 400, NO_NAMESPACE, "input",
    ),
    "a call whose function was found in a namespace": (
        {"input": [USER, SEARCHED, CALL, OUTPUT], "tools": [SEARCH]}, 400, NO_NAMESPACE, "input",
    ),
    "a call whose function was added in a namespace": (
        {"input": [USER, MORE, CALL, OUTPUT], "tools": [SEARCH]}, 400, NO_NAMESPACE, "input",
    ),
    "a call whose function is deferred by itself": (
        {"input": [USER, CALL, OUTPUT], "tools": [SEARCH, LATER]}, 400, NO_NAMESPACE, "input",
    ),
    "a deferred function without a search": ({"input": [USER], "tools": [LATER]}, 400, DEFERRED, "tools"),
    "a deferred function of a namespace without a search": (
        {"input": [USER], "tools": [{**SUMS, "tools": [LATER]}]}, 400, DEFERRED, "tools",
    ),
    "a search of the client's without a description": (
        {"input": [USER], "tools": [{**SEARCH, "description": None}]}, 400,
        "Missing required parameter: 'tools[0].description'.", "tools[0].description",
    ),
    "reasoning that nobody stored": (
        {"input": [USER, {**REASONING, "encrypted_content": None}, CALL, OUTPUT], "store": False}, 404,
        NOT_FOUND.format("rs_1"), "input",
    ),
    "an image that nobody stored": ({"input": [USER, IMAGE], "store": False}, 404, NOT_FOUND.format("ig_1"), "input"),
    "reasoning that nothing follows": (
        {"input": [USER, REASONING, USER]}, 400,
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.", "input",
    ),
    "a field that only answers have": (
        {"input": [USER, {**CALL, "created_by": "x"}, OUTPUT]}, 400, "Unknown parameter: 'input[1].created_by'.",
        "input[1].created_by",
    ),
}  # fmt: skip
FINE: dict[str, Json] = {
    "text": {"input": "hi"},
    "a call and its output": {"input": [USER, REASONING, CALL, OUTPUT], "tools": [ADD], "store": False},
    "a call of a function that is no longer there": {"input": [USER, CALL, OUTPUT]},
    "a call with its namespace": {"input": [USER, SEARCHED, {**CALL, "namespace": "sums"}, OUTPUT], "tools": [SEARCH]},
    "a call of a function that is in a namespace as well": {"input": [USER, CALL, OUTPUT], "tools": [ADD, SUMS]},
    "a deferred function with a search": {"input": [USER], "tools": [LATER, {"type": "tool_search"}]},
    "an output whose call the provider has": {"input": [OUTPUT], "previous_response_id": "resp_1"},
    "an image that is stored": {"input": [USER, IMAGE]},
}


async def post(server: ScriptedServer, body: Json) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=30) as client:
        return await client.post(f"{server.openai_url}/responses", json={"model": "any", **body})


@pytest.mark.parametrize("case", REFUSED)
async def test_what_openai_refuses_is_refused_in_its_words(case: str):
    body, status, text, param = REFUSED[case]
    async with ScriptedServer([]) as server:
        answer = await post(server, body)
        assert (len(server.requests), server.turns) == (1, []), "seen, and never asked of the script"
    error = answer.json()["error"]
    assert (answer.status_code, error["message"], error["param"]) == (status, text, param)
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("case", FINE)
async def test_what_openai_takes_is_answered(case: str):
    async with ScriptedServer(["ok"]) as server:
        answer = await post(server, FINE[case])
    assert (answer.status_code, answer.json()["status"]) == (200, "completed")


async def test_items_are_answered_as_they_are_and_streamed_in_pieces():
    refusal: Json = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    async with ScriptedServer([[REASONING, CUSTOM, refusal]]) as server:
        answer = await post(server, {"input": "hi", "stream": True})
    told = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    begun = [event["item"] for event in told if event["type"] == "response.output_item.added"]
    assert done[0] == REASONING
    assert REASONING["encrypted_content"].startswith(begun[0]["encrypted_content"])
    assert begun[0] != REASONING
    assert [item["id"] for item in done] == ["rs_1", "ctc_1_1", "msg_1_2"]
    for kind, text in (("response.custom_tool_call_input", "1 + 1"), ("response.refusal", "I will not.")):
        assert "".join(event["delta"] for event in told if event["type"] == f"{kind}.delta") == text
    assert told[-1]["response"]["output"] == done


@pytest.mark.parametrize("stream", [False, True])
async def test_a_whole_response_says_what_else_there_is_to_say(stream: bool):
    failed: Json = {
        "object": "response",
        "status": "failed",
        "output": [],
        "error": {"code": "server_error", "message": "x"},
    }
    async with ScriptedServer([failed]) as server:
        answer = await post(server, {"input": "hi", "stream": stream})
    body = json.loads(answer.text.splitlines()[-2].removeprefix("data: "))["response"] if stream else answer.json()
    assert (body["status"], body["error"]["code"], body["output"]) == ("failed", "server_error", [])
    assert ("event: response.failed" in answer.text) is stream
