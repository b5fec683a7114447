"""`OpenAIResponsesModel` over the official SDK: what only the Responses API has, and that all of it can be sent again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Literal, Required, Union, get_args, get_origin, get_type_hints

import pytest

from hooksdk import Tool
from hooksdk.agent import ModelReply, ModelUnavailable, run_agent
from hooksdk.costs import usage_of
from hooksdk.errors import WrongArgument
from hooksdk.formats.openai_responses import as_input
from hooksdk.models import get_model
from hooksdk.models.openai_responses import OpenAIResponsesModel
from hooksdk.testing import Call, Reply, Turn, call, open_session, say
from hooksdk.testing.server import interrupt, refuse
from tests.hooksdk.providers import TOOLS, USER, Json, Serve, sent, serving

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo-all-of-it"}
DONE: Json = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final_answer",
    "content": [{"type": "output_text", "text": "Done.", "annotations": [], "logprobs": []}],
}  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    """Asyncio only: on trio the SDK leaves generators of a stream behind, which trio warns of."""
    return "asyncio"


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
async def serve(stream: bool) -> AsyncIterator[Serve]:
    async with serving("openai-responses", stream) as begin:
        yield begin


def cut_off(items: list[Json]) -> Json:
    """A response that reached its limit."""
    details = {"reason": "max_output_tokens"}
    return {"object": "response", "status": "incomplete", "output": items, "incomplete_details": details}


def items_of(reply: ModelReply) -> list[Json]:
    return [reply.message, *reply.more]


# What is asked for


async def test_nothing_is_stored_at_the_provider_and_reasoning_comes_encrypted(serve: Serve):
    setting = serve(["ok"])
    async with setting.model() as model:
        await model.reply(USER, [])
    body = setting.server.requests[0].body
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])


async def test_extra_may_have_the_provider_store_it(serve: Serve):
    setting = serve([[{**REASONING, "encrypted_content": None}, DONE], "ok"])
    async with setting.model(extra={"store": True, "include": None}) as model:
        first = items_of(await model.reply(USER, []))
        await model.reply([*USER, *first, *USER], [])
    body = setting.server.requests[1].body
    assert (body["store"], "include" in body) == (True, False)
    assert body["input"] == [*USER, {"type": "reasoning", "id": "rs_1", "summary": []}, DONE, *USER]


async def test_a_model_that_does_not_reason_is_asked_without_encrypted_content_from_then_on(serve: Serve):
    no = refuse(400, text="Encrypted content is not supported with this model.")
    setting = serve([no, "one", "two"])
    async with setting.model() as model:
        for _ in range(2):
            await model.reply(USER, [])
    included = ["include" in request.body for request in setting.server.requests]
    assert included == [True, False, False]


async def test_system_messages_stay_where_they_are(serve: Serve):
    setting = serve(["ok"])
    messages = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "In German."}, *USER]
    async with setting.model() as model:
        await model.reply(messages, [])
    assert sent(setting.server.requests[0]) == messages


def test_get_model_makes_one():
    model = get_model("openai-responses:gpt-5", api_key="none", max_tokens=9)
    assert isinstance(model, OpenAIResponsesModel)
    assert (model.name, model.format, model.provider) == ("gpt-5", "openai-responses", "openai")


# What is sent again


async def test_reasoning_comes_back_whole_with_the_call_it_led_to(serve: Serve):
    def script(turn: Turn) -> Any:
        made = {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path": "a"}'}
        return [REASONING, made] if turn.number == 1 else [DONE]

    setting = serve(script)
    async with open_session() as session, setting.model() as model:
        assert (await run_agent(session, model, "go", tools=TOOLS)).text == "Done."
        assert session.messages[-1] == DONE
    _, reasoning, made, output = sent(setting.server.requests[1])
    assert reasoning == REASONING
    assert (made["call_id"], output["call_id"], output["output"]) == ("call_1", "call_1", "content of a")


async def test_a_call_keeps_its_namespace(serve: Serve):
    async with serve([call("word.create_document", title="a")]).model() as model:
        reply = await model.reply(USER, [])
    assert (reply.message["namespace"], reply.message["name"]) == ("word", "create_document")


async def test_a_search_of_the_clients_and_its_output_go_back_as_they_came(serve: Serve):
    found: Json = {
        "type": "function", "name": "create_document", "description": "Make one.", "parameters": {}, "strict": False,
        "defer_loading": True,
    }  # fmt: skip
    search: Json = {
        "type": "tool_search_call", "id": "tsc_1", "call_id": "call_1", "execution": "client", "status": "completed",
        "arguments": {"queries": ["create a word document"]},
    }  # fmt: skip
    space = {"type": "namespace", "name": "word", "description": "Tools of word", "tools": [found]}
    output: Json = {
        "type": "tool_search_output", "call_id": "call_1", "execution": "client", "status": "completed", "tools": [space],
    }  # fmt: skip
    made: Json = {
        "type": "function_call", "id": "fc_1", "call_id": "call_2", "name": "create_document", "namespace": "word",
        "arguments": "{}", "status": "completed",
    }  # fmt: skip
    result = {"type": "function_call_output", "call_id": "call_2", "output": "made"}
    tool: Json = {
        "type": "tool_search",
        "execution": "client",
        "description": "Find tools by what they do.",
        "parameters": {},
    }
    setting = serve([[{**search, "created_by": "model"}], [made], [DONE]])
    setting.check = lambda: None  # no rule of the tests knows these tools
    async with setting.model() as model:
        history = [*USER]
        for more in ([output], [result], []):
            history += [*items_of(await model.reply(history, [tool])), *more]
    assert history == [*USER, search, output, made, result, DONE]
    assert sent(setting.server.requests[2]) == history[:-1]


async def test_items_of_hosted_tools_go_back_with_the_nulls_that_they_must_have(serve: Serve):
    ran: Json = {
        "type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "status": "completed", "code": "1 + 1",
        "outputs": None,
    }  # fmt: skip
    setting = serve([[ran, DONE], "ok"])
    async with setting.model() as model:
        first = items_of(await model.reply(USER, []))
        await model.reply([*USER, *first, *USER], [])
    assert sent(setting.server.requests[1]) == [*USER, ran, DONE, *USER]


async def test_what_the_provider_could_only_look_up_is_not_sent(serve: Serve):
    bare: Json = {"type": "reasoning", "id": "rs_2", "summary": []}
    image: Json = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}
    open_reasoning: Json = {
        "type": "reasoning", "id": "rs_3", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}],
    }  # fmt: skip
    setting = serve(["ok"])
    async with setting.model() as model:
        await model.reply([*USER, bare, DONE, *USER, REASONING, image, *USER, open_reasoning, DONE, *USER], [])
    assert sent(setting.server.requests[0]) == [*USER, DONE, *USER, *USER, open_reasoning, DONE, *USER]


def test_openai_itself_is_sent_no_ids_of_items_that_it_did_not_store():
    search: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    model = OpenAIResponsesModel("gpt", api_key="none")
    body = model._request([*USER, REASONING, search, DONE], [], streamed=False)  # pyright: ignore[reportPrivateUsage] - nobody may be asked
    ids = [item.get("id") for item in body["input"]]
    assert ids == [None, None, "ws_1", None]
    assert body["input"][1] == {key: value for key, value in REASONING.items() if key != "id"}


def test_what_only_answers_have_is_known_from_the_sdks_types():
    from openai.types.responses.response_input_item_param import ResponseInputItemParam
    from openai.types.responses.response_output_item import ResponseOutputItem

    kinds = [kind for kind in get_args(ResponseInputItemParam) if "role" not in kind.__annotations__]
    wanted: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        hints = get_type_hints(kind, include_extras=True)
        for name in _literals(hints.get("type")):
            wanted[name] = hints
    checked = set[str]()
    for kind in get_args(get_args(ResponseOutputItem)[0]):
        (name,) = get_args(kind.model_fields["type"].annotation)
        if name not in wanted or name.endswith("call_output"):  # results are ours
            continue
        fields = {field.alias or key for key, field in kind.model_fields.items()}
        null: Json = {**dict.fromkeys(fields), "type": name}
        must = {key for key, hint in wanted[name].items() if get_origin(hint) is Required and _may_be_null(hint)}
        checked |= must
        assert as_input(null).keys() >= must & fields, f"{name}: required, null or not"
        filled = as_input({**dict.fromkeys(fields, "x"), "type": name})
        assert filled.keys() <= wanted[name].keys(), f"{name}: has what requests do not have"
    assert checked == {"code", "outputs", "result"}


def _literals(hint: Any) -> tuple[Any, ...]:
    while hint is not None and get_origin(hint) is not Literal:
        hint = next((each for each in get_args(hint) if get_args(each)), None)
    return get_args(hint) if hint is not None else ()


def _may_be_null(hint: Any) -> bool:
    (inner,) = get_args(hint)
    return get_origin(inner) is Union and type(None) in get_args(inner)


# What it answers


async def test_usage_is_the_providers_and_costs_read_it(serve: Serve):
    usage = {
        "input_tokens": 1_000, "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300}, "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 40}, "total_tokens": 1_050,
    }  # fmt: skip
    async with serve([Reply("hi", usage=usage)]).model() as model:
        reply = await model.reply(USER, [])
    used = usage_of(reply.usage)
    assert reply.usage == usage
    assert used is not None
    assert (used.prompt, used.fresh, used.read, used.written, used.output) == (1_000, 100, 600, 300, 50)


async def test_what_a_session_used_is_known_by_the_provider_and_its_model(serve: Serve):
    setting = serve(["one", "two"])
    async with open_session() as session, setting.model() as model:
        for _ in range(2):
            await run_agent(session, model, "word " * 2_000)
        first, second = session.requests
    assert {first.model, second.model} == {"openai:any"}
    assert (first.usage.read, second.usage.read > 1_000) == (0, True)


async def test_texts_of_several_items_are_streamed_on_lines_of_their_own(serve: Serve):
    setting = serve([[{**DONE, "id": "msg_0", "phase": "commentary"}, DONE]])
    setting.stream = True
    told: list[str] = []
    async with open_session() as session, setting.model() as model:
        outcome = await run_agent(session, model, "go", on_text=told.append)
    assert "".join(told) == outcome.text == "Done.\nDone."


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
async def test_an_incomplete_answer_says_why(serve: Serve, reason: str):
    async with serve([Reply("Once upon", stop_reason=reason)]).model() as model:
        reply = await model.reply(USER, [])
    assert (reply.stop_reason, reply.message["content"][0]["text"]) == (reason, "Once upon")


@pytest.mark.parametrize("arguments", ['{"path": "/"}', '{"pa', ""])
async def test_a_call_that_was_cut_off_is_never_run_on_half_of_its_arguments(serve: Serve, arguments: str):
    deleted: list[Any] = []
    half: Json = {"type": "function_call", "call_id": "call_1", "name": "delete", "arguments": arguments}

    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return cut_off([{**half, "status": "incomplete"}])
        assert "the reply was cut off" in turn.result.text
        return [DONE]

    tool = Tool(name="delete", description="Delete it.", source="host", execute=deleted.append)  # takes any arguments
    async with open_session() as session, serve(script).model() as model:
        assert (await run_agent(session, model, "go", tools=[tool])).text == "Done."
    assert deleted == []


async def test_of_custom_calls_that_were_cut_off_only_the_last_may_be_a_half(serve: Serve):
    one, half = ({"type": "custom_tool_call", "call_id": each, "name": "sh", "input": "rm -r /"} for each in "ab")
    async with serve([cut_off([{**one, "status": None}, {**half, "status": None}])]).model() as model:
        reply = await model.reply(USER, [])
    assert [item["call_id"] for item in items_of(reply)] == ["a"]


async def test_an_answer_without_items_is_an_empty_reply(serve: Serve):
    setting = serve([{"object": "response", "output": []}, "here again"])
    async with open_session() as session, setting.model() as model:
        assert (await run_agent(session, model, "one")).text == ""
        assert (await run_agent(session, model, "two")).text == "here again"


async def test_a_reply_that_ended_in_its_reasoning_does_not_break_the_next_request(serve: Serve):
    setting = serve([cut_off([REASONING]), "here again"])
    async with open_session() as session, setting.model() as model:
        assert (await run_agent(session, model, "one")).text == ""
        assert (await run_agent(session, model, "two")).text == "here again"


def test_a_server_that_tells_its_items_only_at_the_end_is_read_as_well():
    from hooksdk.models.openai_responses import _Stream  # pyright: ignore[reportPrivateUsage] - no server of ours does so

    told = _Stream()
    told.add({"type": "response.completed", "response": {"status": "completed", "output": [DONE]}})
    assert told.answer()["output"] == [DONE]


# What goes wrong


@pytest.mark.parametrize("code", ["server_error", "rate_limit_exceeded", "vector_store_timeout"])
async def test_an_answer_that_failed_at_the_provider_may_go_well_a_little_later(serve: Serve, code: str):
    failed: Json = {
        "object": "response",
        "status": "failed",
        "output": [],
        "error": {"code": code, "message": "Try again."},
    }
    async with serve([failed, "there"]).model() as model:
        with pytest.raises(ModelUnavailable, match=r"openai \(any\): APIError: Try again\."):
            await model.reply(USER, [])
        assert (await model.reply(USER, [])).message["role"] == "assistant"


@pytest.mark.parametrize("code", ["invalid_prompt", "bio_policy", "context_length_exceeded"])
async def test_an_answer_that_failed_for_good_is_the_sdks_error(serve: Serve, code: str):
    import openai

    failed: Json = {
        "object": "response",
        "status": "failed",
        "output": [],
        "error": {"code": code, "message": "Not this."},
    }
    async with serve([failed]).model() as model:
        with pytest.raises(openai.APIError, match=r"^Not this\.$"):
            await model.reply(USER, [])


@pytest.mark.parametrize("stream", [False], indirect=True)
async def test_an_answer_in_the_background_is_an_error_that_says_so(serve: Serve):
    async with serve([{"object": "response", "status": "queued", "output": []}]).model() as model:
        with pytest.raises(WrongArgument, match=r"extra=.*the answer is 'queued'.*Leave 'background' out"):
            await model.reply(USER, [])


@pytest.mark.parametrize("stream", [True], indirect=True)
async def test_an_error_in_the_middle_of_a_stream_leaves_nothing_of_the_reply(serve: Serve):
    async with open_session() as session, serve([interrupt("Once upon a time")]).model() as model:
        with pytest.raises(ModelUnavailable, match=r"Overloaded\."):
            await run_agent(session, model, "go")
        assert [message["role"] for message in session.messages] == ["user"]


async def test_arguments_stay_the_text_that_the_model_wrote(serve: Serve):
    def script(turn: Turn) -> Any:
        return Call("read_file", '{"path": ') if turn.number == 1 else say("sorry")

    setting = serve(script)
    async with open_session() as session, setting.model() as model:
        await run_agent(session, model, "go", tools=TOOLS)
    _, made, output = sent(setting.server.requests[1])
    assert made["arguments"] == '{"path": '
    assert json.dumps(output["output"]).startswith('"Error: ')
