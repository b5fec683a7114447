"""The models over the official SDKs, against the scripted provider: real clients, real HTTP, no network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hooksdk import Tool, hooks
from hooksdk.agent import run_agent
from hooksdk.formats import get_format
from hooksdk.models.openai import OpenAIModel
from hooksdk.testing import Call, Reply, Turn, call, open_session, say
from hooksdk.values import parse_arguments
from tests.hooksdk.provider_rules import violations
from tests.hooksdk.providers import FORMATS, TOOLS, USER, Json, Serve, replies, sent, serving

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """Asyncio only: on trio the SDKs leave generators of a stream behind, which trio warns of."""
    return "asyncio"


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
async def serve(form: str, stream: bool) -> AsyncIterator[Serve]:
    async with serving(form, stream) as begin:
        yield begin


# One reply


async def test_a_reply_is_recorded_as_the_format_has_it(serve: Serve, form: str):
    setting = serve([say("Two files.", call("read_file", path="a"), call("read_file", path="ü"))])
    form_object = get_format(form)
    async with setting.model() as model:
        reply = await model.reply(USER, form_object.tools(TOOLS))
    messages = [reply.message, *reply.more]
    calls = [each for message in messages for each in form_object.calls(message)]
    assert [form_object.check(message) for message in messages] == [None] * len(messages)
    assert "".join(map(form_object.text, messages)) == "Two files."
    assert [(one.id, one.name, parse_arguments(one.arguments)) for one in calls] == [
        ("c1", "read_file", {"path": "a"}),
        ("c2", "read_file", {"path": "ü"}),
    ]
    reasons = {"anthropic": "tool_use", "openai-chat": "tool_calls", "openai-responses": "completed"}
    assert reply.stop_reason == reasons[form]


async def test_usage_is_kept_without_nulls(serve: Serve, form: str):
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    if form == "anthropic":
        usage = {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3}
    async with serve([Reply("hi", usage=usage)]).model() as model:
        assert (await model.reply(USER, [])).usage == usage


async def test_messages_and_tools_are_sent_as_they_are(serve: Serve, form: str):
    setting = serve(["ok"])
    kind = "input_text" if form == "openai-responses" else "text"
    messages = [{"role": "user", "content": [{"type": kind, "text": "look", "cache_control": {"type": "ephemeral"}}]}]
    tools = get_format(form).tools(TOOLS)
    async with setting.model(**({"cache": "off"} if form == "anthropic" else {})) as model:
        await model.reply(messages, tools)
    (request,) = setting.server.requests
    assert (request.body["model"], sent(request), request.body["tools"]) == ("any", messages, tools)


async def test_no_tools_are_no_empty_list(serve: Serve):
    setting = serve(["ok"])
    async with setting.model() as model:
        await model.reply(USER, [])
    assert "tools" not in setting.server.requests[0].body


async def test_extra_fields_and_headers_go_with_the_request_and_none_takes_one_out(serve: Serve):
    setting = serve(["ok"])
    extra = {"temperature": 0, "x_unknown": {"a": None}, "tools": None}
    async with setting.model(extra=extra, headers={"X-Who": "me"}) as model:
        await model.reply(USER, [{"name": "withheld"}])
    (request,) = setting.server.requests
    assert (request.body["temperature"], request.body["x_unknown"]) == (0, {"a": None})
    assert "tools" not in request.body
    assert request.headers["x-who"] == "me"


async def test_the_prose_is_told_as_it_comes(serve: Serve):
    setting = serve([say("Once upon a time", call("read_file", path="a"))] * 2)
    told: list[str] = []

    async def later(text: str) -> None:
        told.append(text)

    setting.stream = True
    for on_text in (told.append, later):
        told.clear()
        async with setting.model(stream=False, on_text=on_text) as model:
            await model.reply(USER, [])
        assert (len(told) > 1, "".join(told)) == (True, "Once upon a time")


async def test_the_limit_of_a_reply_goes_by_the_name_that_the_server_knows(serve: Serve, form: str):
    setting = serve(["ok"])
    async with setting.model(max_tokens=99) as model:
        await model.reply(USER, [])
    name = "max_output_tokens" if form == "openai-responses" else "max_tokens"
    assert setting.server.requests[0].body[name] == 99


def test_openai_itself_wants_another_name_for_the_limit():
    request = OpenAIModel("gpt", max_tokens=99)._request(USER, [], streamed=False)  # pyright: ignore[reportPrivateUsage] - nobody may be asked
    assert (request.get("max_tokens"), request["max_completion_tokens"]) == (None, 99)


# What only one of the APIs has


@pytest.mark.parametrize("form", ["anthropic"], indirect=True)
async def test_the_first_system_messages_become_the_system_parameter(serve: Serve):
    setting = serve(["ok"] * 3)
    rule: Json = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}
    brief = {"role": "system", "content": "Be brief."}
    async with setting.model(cache="off") as model:
        await model.reply([brief, *USER], [])
        await model.reply([brief, {"role": "system", "content": [rule]}, *USER], [])
        await model.reply(USER, [])
    systems = [request.body.get("system") for request in setting.server.requests]
    assert systems == ["Be brief.", [{"type": "text", "text": "Be brief."}, rule], None]
    assert all(request.body["messages"] == USER for request in setting.server.requests)


@pytest.mark.parametrize("form", ["anthropic"], indirect=True)
async def test_thinking_and_signatures_are_kept_and_blank_text_is_not(serve: Serve):
    thinking = {"type": "thinking", "thinking": "Let me think it over.", "signature": "c2lnbmVk"}
    redacted = {"type": "redacted_thinking", "data": "c2VjcmV0"}
    used = {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": None}}
    blank = {"type": "text", "text": "\n\n", "citations": None}
    async with serve([{"role": "assistant", "content": [thinking, redacted, blank, used]}]).model() as model:
        reply = await model.reply(USER, [])
    assert reply.message["content"] == [thinking, redacted, used]


@pytest.mark.parametrize("form", ["anthropic"], indirect=True)
async def test_an_empty_reply_does_not_break_the_next_request(serve: Serve):
    setting = serve([{"role": "assistant", "content": []}, "here again"])
    async with open_session() as session, setting.model(cache="off") as model:
        assert (await run_agent(session, model, "one")).text == ""
        assert (await run_agent(session, model, "two")).text == "here again"
        assert [message["content"] for message in session.messages[:2]] == ["one", []]
    sent = setting.server.requests[1].body["messages"]
    said = [{"type": "text", "text": "(no content)"}]
    assert [(one["role"], one["content"]) for one in sent] == [("user", "one"), ("assistant", said), ("user", "two")]


@pytest.mark.parametrize("form", ["anthropic"], indirect=True)
@pytest.mark.parametrize("stream", [False], indirect=True)
async def test_a_call_that_max_tokens_cut_off_is_never_run_on_half_of_its_arguments(serve: Serve):
    def script(turn: Turn) -> Any:
        return (
            Reply(calls=[Call("delete", {"path": "/"})], stop_reason="max_tokens") if turn.number == 1 else "so be it"
        )

    deleted: list[str] = []

    def delete(path: str) -> str:
        """Delete it."""
        deleted.append(path)
        return "gone"

    async with open_session() as session, serve(script).model() as model:
        await run_agent(session, model, "go", tools=[Tool.from_function(delete, source="host")])
        assert deleted == []
        assert replies(session)[0]["content"][0]["input"] == {"INVALID_JSON": '{"path": "/"}'}


@pytest.mark.parametrize("form", ["openai-chat"], indirect=True)
async def test_what_a_request_may_not_have_is_left_out_and_what_servers_add_is_kept(serve: Serve):
    made = {
        "role": "assistant",
        "content": "hi",
        "function_call": None,
        "audio": None,
        "reasoning_content": "Hmm, well.",
    }
    async with serve([made, {"role": "assistant", "content": None}]).model() as model:
        first, second = [(await model.reply(USER, [])).message for _ in range(2)]
    assert first == {"role": "assistant", "content": "hi", "reasoning_content": "Hmm, well."}
    assert second == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("form", ["openai-chat", "openai-responses"], indirect=True)
async def test_a_refusal_is_the_text_of_the_reply_and_told_as_it_comes(serve: Serve, form: str):
    part = {"type": "refusal", "refusal": "I will not."}
    refused: Json = {"role": "assistant", "content": None, "refusal": "I will not."}
    if form == "openai-responses":
        refused = {"type": "message", "role": "assistant", "content": [part]}
    told: list[str] = []
    setting = serve([refused])
    setting.stream = True
    async with open_session() as session, setting.model() as model:
        outcome = await run_agent(session, model, "go", on_text=told.append)
    assert (len(told) > 1, "".join(told), outcome.text) == (True, "I will not.", "I will not.")


@pytest.mark.parametrize("form", ["openai-chat"], indirect=True)
async def test_a_call_without_an_id_gets_one(serve: Serve):
    function = {"name": "read_file", "arguments": '{"path": "a"}'}
    nameless = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "", "type": "function", "function": function}],
    }
    async with open_session() as session, serve([nameless, "done"]).model() as model:
        assert (await run_agent(session, model, "go", tools=TOOLS)).text == "done"
        assert replies(session)[0]["tool_calls"][0]["id"].startswith("call_")


# Whole runs


async def test_a_run_with_parallel_calls_goes_over_the_line(serve: Serve, form: str):
    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return say("I look.", call("read_file", path="a"), call("read_file", path="b"), call("nothing"))
        assert [result.is_error for result in turn.results] == [False, False, True]
        return " and ".join(result.text for result in turn.results[:2])

    setting = serve(script)
    async with open_session() as session, setting.model(context_window=1000) as model:
        outcome = await run_agent(session, model, "Read a and b.", tools=TOOLS, system="Be brief.")
        assert (outcome.text, outcome.turns) == ("content of a and content of b", 2)
        assert violations(form, session.messages) == []
        assert outcome.stats["usage"]
    second = setting.server.requests[1]
    assert second.size > setting.server.requests[0].size


async def test_arguments_that_are_no_json_are_answered_and_the_run_goes_on(serve: Serve):
    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return Call("read_file", '{"path": "a')
        assert turn.result.is_error
        return "sorry"

    async with open_session() as session, serve(script).model() as model:
        assert (await run_agent(session, model, "go", tools=TOOLS)).text == "sorry"


async def test_plugins_read_provider_and_model(serve: Serve, form: str):
    seen: list[tuple[str | None, str | None]] = []

    class Watch:
        @hooks.agent_start
        def begin(self, event: hooks.AgentStart) -> None:
            seen.append((event.provider, event.model))

    async with open_session(Watch) as session, serve(["ok"]).model() as model:
        await run_agent(session, model, "go")
    assert seen == [("anthropic" if form == "anthropic" else "openai", "any")]
