"""The scripted provider: both APIs as they are on the wire, its script, its faults, and its end."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from hooksdk.testing import Call, Reply, Turn, call, say
from hooksdk.testing.server import ScriptedServer, cut, garble, hang, refuse

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

Json = dict[str, Any]
PATHS = {"openai-chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
TOOLS: dict[str, Json] = {
    "openai-chat": {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {}}},
    "anthropic": {"name": "add", "description": "Add.", "input_schema": {}},
}


@pytest.fixture(params=list(PATHS))
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=30) as client:
        yield client


def asking(*messages: Json, **fields: Any) -> Json:
    return {"model": "any", "messages": list(messages or [{"role": "user", "content": "hi"}]), **fields}


async def post(http: httpx2.AsyncClient, server: ScriptedServer, form: str, **fields: Any) -> httpx2.Response:
    return await http.post(server.url + PATHS[form], json=asking(**fields))


def events(text: str) -> list[Json]:
    """The data of server-sent events."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


# What it answers


async def test_a_text_is_answered_in_openais_shape(http: httpx2.AsyncClient):
    async with ScriptedServer(["hello"]) as server:
        body = (await post(http, server, "openai-chat")).json()
    (choice,) = body["choices"]
    assert (body["object"], body["model"], choice["finish_reason"]) == ("chat.completion", "any", "stop")
    assert choice["message"] == {"role": "assistant", "content": "hello", "refusal": None, "annotations": []}
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


async def test_a_text_is_answered_in_anthropics_shape(http: httpx2.AsyncClient):
    async with ScriptedServer(["hello"]) as server:
        body = (await post(http, server, "anthropic")).json()
    assert (body["type"], body["role"], body["stop_reason"]) == ("message", "assistant", "end_turn")
    assert body["content"] == [{"type": "text", "text": "hello"}]
    cached = {"cache_read_input_tokens", "cache_creation_input_tokens"}
    assert set(body["usage"]) == {"input_tokens", "output_tokens"} | cached


async def test_calls_have_ids_of_their_own_and_their_own_reason_to_stop(http: httpx2.AsyncClient):
    async with ScriptedServer([say("Two:", call("add", a=1), Call("add", {"a": 2}, "mine")), call("add")]) as server:
        first = (await post(http, server, "openai-chat")).json()["choices"][0]
        second = (await post(http, server, "anthropic")).json()
    assert first["finish_reason"] == "tool_calls"
    assert [one["id"] for one in first["message"]["tool_calls"]] == ["c1", "mine"]
    assert second["stop_reason"] == "tool_use"
    assert second["content"] == [{"type": "tool_use", "id": "c2", "name": "add", "input": {}}]


async def test_a_stream_of_openais_comes_in_pieces_and_ends_with_done(http: httpx2.AsyncClient):
    async with ScriptedServer([say("Hello, you.", call("add", a=1))]) as server:
        answer = await post(http, server, "openai-chat", stream=True, stream_options={"include_usage": True})
    chunks = events(answer.text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text.endswith("data: [DONE]\n\n")
    assert [delta["content"] for delta in deltas if "content" in delta] == ["", "Hell", "o, y", "ou."]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert (calls[0]["id"], calls[0]["function"]) == ("c1", {"name": "add", "arguments": ""})
    assert json.loads("".join(one["function"]["arguments"] for one in calls)) == {"a": 1}
    assert [chunk["usage"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]


async def test_a_stream_of_openais_counts_only_when_asked(http: httpx2.AsyncClient):
    async with ScriptedServer(["hello"]) as server:
        answer = await post(http, server, "openai-chat", stream=True)
    assert not any("usage" in chunk for chunk in events(answer.text))


async def test_a_stream_of_anthropics_names_every_event_and_closes_every_block(http: httpx2.AsyncClient):
    async with ScriptedServer([say("Hello.", call("add", a=1))]) as server:
        answer = await post(http, server, "anthropic", stream=True)
    told = events(answer.text)
    names = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert names == [event["type"] for event in told]
    assert (names[0], names[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert names.count("content_block_start") == names.count("content_block_stop") == 2
    parts = [event["delta"]["partial_json"] for event in told if "partial_json" in event.get("delta", {})]
    assert (len(parts) > 1, json.loads("".join(parts))) == (True, {"a": 1})


async def test_a_whole_message_is_sent_as_it_is(http: httpx2.AsyncClient, form: str):
    message = {"role": "assistant", "content": [{"type": "text", "text": "as it is", "odd": 1}]}
    async with ScriptedServer([message]) as server:
        body = (await post(http, server, form)).json()
    assert (body if form == "anthropic" else body["choices"][0]["message"])["content"] == message["content"]


async def test_usage_and_stop_reason_may_be_given(http: httpx2.AsyncClient, form: str):
    async with ScriptedServer([Reply("hi", usage={"input_tokens": 7}, stop_reason="length")]) as server:
        body = (await post(http, server, form)).json()
    assert body["usage"] == {"input_tokens": 7}
    assert (body.get("stop_reason") or body["choices"][0]["finish_reason"]) == "length"


# Its script


async def test_the_script_decides_from_the_request(http: httpx2.AsyncClient, form: str):
    def script(turn: Turn) -> str:
        return f"{turn.number}: {turn.prompt} {turn.offered}"

    async with ScriptedServer(script) as server:
        await post(http, server, form)
        answer = await post(http, server, form, tools=[TOOLS[form]])
        assert "2: hi ['add']" in answer.text
        assert [turn.number for turn in server.turns] == [1, 2]


async def test_the_system_text_reads_the_same_in_both_formats(http: httpx2.AsyncClient):
    async with ScriptedServer(["ok"]) as server:
        await post(http, server, "anthropic", system="Be brief.")
    assert server.turns[0].messages[0] == {"role": "system", "content": "Be brief."}


@pytest.mark.both_loops
async def test_an_async_script_runs_in_the_loop_of_the_test(http: httpx2.AsyncClient, form: str):
    asked, answered = anyio.Event(), anyio.Event()

    async def script(turn: Turn) -> str:
        asked.set()
        await answered.wait()
        return "after all"

    async with ScriptedServer(script) as server, anyio.create_task_group() as group:

        async def ask() -> None:
            assert "after all" in (await post(http, server, form)).text

        group.start_soon(ask)
        await asked.wait()
        answered.set()


async def test_every_request_is_recorded_with_its_size(http: httpx2.AsyncClient, form: str):
    raw = json.dumps(asking(note="ü"), ensure_ascii=False).encode()
    async with ScriptedServer(["ok"]) as server:
        await http.post(server.url + PATHS[form], content=raw, headers={"X-Who": "me"})
    (seen,) = server.requests
    assert (seen.path, seen.size, seen.body) == (PATHS[form], len(raw), json.loads(raw))
    assert seen.headers["x-who"] == "me"


@pytest.mark.both_loops
async def test_a_script_that_fails_is_told_to_the_client_and_to_the_test(http: httpx2.AsyncClient, form: str):
    def script(turn: Turn) -> str:
        raise AssertionError("two tools were expected")

    server = ScriptedServer(script)

    async def ask() -> None:
        async with server:
            answer = await post(http, server, form)
            assert answer.status_code == 400
            assert "AssertionError: two tools were expected" in answer.json()["error"]["message"]

    with pytest.raises(AssertionError, match=r"^two tools were expected$"):
        await ask()


async def test_a_list_that_is_used_up_is_a_failure(http: httpx2.AsyncClient):
    async def ask_twice() -> None:
        async with ScriptedServer(["only this"]) as server:
            for _ in range(2):
                await post(http, server, "openai-chat")

    with pytest.raises(AssertionError, match="has 1 replies, and the server was asked for number 2"):
        await ask_twice()


@pytest.mark.both_loops
async def test_the_failure_of_the_test_itself_comes_first(http: httpx2.AsyncClient):
    async def fail() -> None:
        async with ScriptedServer([]) as server:
            await post(http, server, "openai-chat")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


# What goes wrong


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit_error"), (500, "api_error"), (529, "overloaded_error")])
async def test_a_refusal_has_the_status_the_error_and_when_to_come_again(
    http: httpx2.AsyncClient, form: str, status: int, kind: str
):
    async with ScriptedServer([refuse(status, retry_after=1.5, text="later")]) as server:
        answer = await post(http, server, form)
    assert (answer.status_code, answer.headers["retry-after"]) == (status, "1.5")
    assert (answer.json()["error"]["type"], answer.json()["error"]["message"]) == (kind, "later")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_answer_ends_the_connection_before_its_end(http: httpx2.AsyncClient, form: str, stream: bool):
    async with ScriptedServer([cut("never whole"), "whole"]) as server:
        with pytest.raises(httpx2.RemoteProtocolError):
            await post(http, server, form, stream=stream)
        assert "whole" in (await post(http, server, form)).text


async def test_a_garbled_answer_is_no_json(http: httpx2.AsyncClient, form: str):
    async with ScriptedServer([garble(), garble()]) as server:
        with pytest.raises(ValueError):
            (await post(http, server, form)).json()
        with pytest.raises(ValueError):
            events((await post(http, server, form, stream=True)).text)


@pytest.mark.both_loops
async def test_a_hanging_answer_waits_for_the_client_to_go(http: httpx2.AsyncClient, form: str):
    async with ScriptedServer([hang(), hang("Once upon a time")]) as server:
        with pytest.raises(httpx2.ReadTimeout):
            await http.post(server.url + PATHS[form], json=asking(), timeout=httpx2.Timeout(30, read=0.2))
        body = json.dumps(asking(stream=True)).encode()
        head = f"POST {PATHS[form]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        async with await anyio.connect_tcp("127.0.0.1", int(server.url.rpartition(":")[2])) as line:
            await line.send(head.encode() + body)
            heard = b""
            while b"Once" not in heard:
                heard += await line.receive()
        assert b"time" not in heard
        with anyio.fail_after(120):
            while server.connections:
                await anyio.sleep(0.01)


async def test_what_is_no_request_is_refused(http: httpx2.AsyncClient):
    async with ScriptedServer([]) as server:
        assert (await http.post(server.url + "/v1/embeddings", json={})).status_code == 404
        assert (await http.post(server.url + "/v1/messages", content=b"{")).status_code == 400
        assert server.requests == []


# Its end


async def test_it_listens_on_loopback_at_a_port_of_its_own():
    async with ScriptedServer([]) as one, ScriptedServer([]) as other:
        assert one.url.startswith("http://127.0.0.1:")
        assert one.url != other.url
        assert (one.openai_url, one.anthropic_url) == (f"{one.url}/v1", one.url)


async def lose(http: httpx2.AsyncClient, server: ScriptedServer, form: str) -> None:
    """Ask for something that never comes."""
    with pytest.raises(httpx2.TransportError):
        await post(http, server, form)


@pytest.mark.both_loops
async def test_leaving_ends_every_thread_and_connection_even_those_that_hang(http: httpx2.AsyncClient):
    server, urls, before = ScriptedServer([hang(), "ok"]), list[str](), set(threading.enumerate())
    async with anyio.create_task_group() as group, server:
        urls.append(server.url)
        group.start_soon(lose, http, server, "openai-chat")
        while not server.requests:
            await anyio.sleep(0.01)
        await post(http, server, "openai-chat")
        assert server.connections == 2
    names = [one.name for one in threading.enumerate() if one not in before]
    assert not [name for name in names if "process_request" in name or "serve_forever" in name]
    with pytest.raises(httpx2.ConnectError):
        await http.post(urls[0] + "/v1/messages")


@pytest.mark.both_loops
async def test_leaving_ends_an_async_script_that_waits_for_ever(http: httpx2.AsyncClient):
    async def script(turn: Turn) -> str:
        await anyio.sleep_forever()
        return ""

    async with anyio.create_task_group() as group, ScriptedServer(script) as server:
        group.start_soon(lose, http, server, "anthropic")
        while not server.turns:
            await anyio.sleep(0.01)


@pytest.mark.both_loops
async def test_a_cancelled_test_leaves_no_server_behind():
    server, before = ScriptedServer([]), set(threading.enumerate())
    with anyio.move_on_after(0.05) as scope:
        async with server:
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert not [one for one in threading.enumerate() if "serve_forever" in one.name and one not in before]


# The other two APIs


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_are_answered_with_items(http: httpx2.AsyncClient, stream: bool):
    function: Json = {"type": "function", "name": "add", "description": "Add.", "parameters": {}}
    space: Json = {"type": "namespace", "name": "mcp__sums", "tools": [function]}
    body: Json = {"model": "any", "instructions": "Be brief.", "input": "hi", "tools": [space], "stream": stream}
    async with ScriptedServer([say("One moment.", call("mcp__sums.add", a=1))]) as server:
        answer = await http.post(f"{server.openai_url}/responses", json=body)
    (turn,) = server.turns
    assert (turn.prompt, turn.offered) == ("hi", ["mcp__sums.add"])
    seen = events(answer.text)
    response = seen[-1]["response"] if stream else answer.json()
    message, called = response["output"]
    assert (response["status"], message["content"][0]["text"]) == ("completed", "One moment.")
    assert (called["namespace"], called["name"], json.loads(called["arguments"])) == ("mcp__sums", "add", {"a": 1})
    if stream:
        assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
        text = "".join(event["delta"] for event in seen if event["type"] == "response.output_text.delta")
        assert text == "One moment."


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent"])
async def test_gemini_is_answered_with_parts(http: httpx2.AsyncClient, method: str):
    declared: Json = {"functionDeclarations": [{"name": "add", "parametersJsonSchema": {}}]}
    body: Json = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "tools": [declared]}
    async with ScriptedServer([say("One moment.", call("add", a=1))]) as server:
        answer = await http.post(f"{server.gemini_url}/v1beta/models/any:{method}", json=body)
    (turn,) = server.turns
    assert (turn.prompt, turn.offered) == ("hi", ["add"])
    chunks = events(answer.text) if method == "streamGenerateContent" else [answer.json()]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    assert "".join(part.get("text", "") for part in parts) == "One moment."
    assert [part["functionCall"] for part in parts if "functionCall" in part] == [
        {"id": "c1", "name": "add", "args": {"a": 1}}
    ]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


HIDDEN: Json = {"name": "write", "description": "Write.", "input_schema": {}, "defer_loading": True}
SHOWN = TOOLS["anthropic"]
USED: Json = {"type": "tool_use", "id": "t1", "name": "add", "input": {}}
ADDITION: Json = {
    "role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "write"}}]
}  # fmt: skip


def answered(content: list[Json]) -> list[Json]:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": content}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [USED]},
        {"role": "user", "content": [result]},
    ]


REFERENCE: Json = {"type": "tool_reference", "tool_name": "write"}
BETA = {"anthropic-beta": "mid-conversation-tool-changes-2026-07-01"}
REFUSED: dict[str, tuple[Json, Json, str]] = {
    "nothing but hidden tools": (asking(tools=[HIDDEN]), {}, "All tools cannot be deferred"),
    "two tools of one name": (asking(tools=[SHOWN, {**HIDDEN, "name": "add"}]), {}, "Tool names must be unique"),
    "a mark on a hidden tool": (asking(tools=[SHOWN, {**HIDDEN, "cache_control": {"type": "ephemeral"}}]), {}, "prompt caching"),
    "a reference to a tool that is not declared": (asking(*answered([REFERENCE]), tools=[SHOWN]), {}, "'write' not found"),
    "a result without content": (asking(*answered([]), tools=[SHOWN]), {}, "must not be empty"),
    "an addition without the beta": (asking(*answered([REFERENCE]), ADDITION, tools=[SHOWN, HIDDEN]), {}, "beta"),
    "an addition of a tool that is not declared": (asking({"role": "user", "content": "hi"}, ADDITION, tools=[SHOWN]), BETA, "not found"),
    "an addition before a user": (asking(ADDITION, *answered([REFERENCE]), tools=[SHOWN, HIDDEN]), BETA, "must precede"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
async def test_what_anthropic_refuses_is_refused(case: str, http: httpx2.AsyncClient):
    body, headers, text = REFUSED[case]
    async with ScriptedServer([]) as server:
        answer = await http.post(f"{server.url}{PATHS['anthropic']}", json=body, headers=headers)
        assert (len(server.requests), server.turns) == (1, []), "seen, and never asked of the script"
    assert answer.status_code == 400
    assert text in answer.json()["error"]["message"]


async def test_what_anthropic_takes_of_hidden_tools_is_answered(http: httpx2.AsyncClient):
    body = asking(*answered([REFERENCE]), ADDITION, tools=[SHOWN, HIDDEN])
    async with ScriptedServer(["ok"]) as server:
        answer = await http.post(f"{server.url}{PATHS['anthropic']}", json=body, headers=BETA)
    assert answer.status_code == 200
