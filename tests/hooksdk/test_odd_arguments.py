"""Arguments that nobody can copy or store are the model's mistake: it reads a refusal, and the host's loop goes on."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hooksdk import Tool, ToolCall
from hooksdk.errors import TranscriptChanged
from hooksdk.formats import Message, get_format
from hooksdk.testing import open_session
from tests.stage import make, playing

pytestmark = pytest.mark.anyio


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["x"] = value
    return value


ODD: dict[str, Any] = {
    "too deep": nested(300),
    "a circle": circle(),
    "a set": {"path": {1, 2}},
    "an object": {"path": object()},
    "a key that is no text": {1: 2},
    "too many values": {"path": [0] * 300_000},
}


@pytest.mark.parametrize("arguments", ODD.values(), ids=ODD)
async def test_a_call_with_arguments_that_are_not_json_is_refused_in_words(arguments: Any) -> None:
    ran: list[object] = []

    def note(arguments: dict[str, Any]) -> str:
        ran.append(arguments)
        return "ran"

    async with playing(tools=[Tool(name="open", source="host", execute=note)]) as stage:
        result = await stage.call("open", arguments)
    assert result.is_error
    assert "could not be read: the value " in result.text
    assert ran == []


def answer(_arguments: dict[str, Any]) -> str:
    return "ran"


def written(name: str, arguments: Any) -> Message:
    """A reply as a client hands it over whose SDK has read the arguments already."""
    if name == "anthropic":
        return {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "open", "input": arguments}]}
    if name == "gemini":
        return {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "open", "args": arguments}}]}
    call = {"id": "c1", "type": "function", "function": {"name": "open", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.light(every=5)
@pytest.mark.parametrize("form", ["anthropic", "gemini", "openai-chat"])
@pytest.mark.parametrize("arguments", ODD.values(), ids=ODD)
async def test_a_reply_with_such_arguments_is_recorded_and_its_call_refused(form: str, arguments: Any) -> None:
    async with open_session() as session, session.run(format=form) as run:
        await run.resolve_tools([Tool(name="open", source="host", execute=answer)])
        await run.record(get_format(form).user("Go on."))
        await run.record(written(form, arguments))
        (call,) = run.pending
        result = await run.call_tool(call)
        assert result.is_error
        assert "could not be read: the value " in result.text
        sent = await run.prepare_messages()
    assert get_format(form).results(sent[-1])[0].text.endswith(result.text)
    assert all(get_format(form).check(message) is None for message in sent)


async def test_the_call_that_the_host_makes_of_the_same_reply_is_the_recorded_one() -> None:
    async with open_session() as session, session.run(format="anthropic") as run:
        await run.resolve_tools([Tool(name="open", source="host", execute=answer)])
        await run.record(written("anthropic", nested(199)))  # the message is deeper than its arguments are
        await run.call_tool(ToolCall("c1", "open", nested(199)))
        assert run.pending == ()


async def test_arguments_that_look_like_the_refusal_are_refused_too() -> None:
    async with playing(tools=[make("open", properties={})]) as stage:
        result = await stage.call("open", "arguments that cannot be read: says the model")
    assert result.is_error


async def test_an_odd_message_of_the_host_is_still_its_own_mistake() -> None:
    async with open_session() as session, session.run() as run:
        with pytest.raises(TranscriptChanged, match="nested deeper than 200 levels"):
            await run.record({"role": "user", "content": [{"type": "text", "text": "x", "extra": nested(300)}]})


async def test_numbers_that_json_lacks_are_stored_as_null() -> None:
    async with open_session() as session, session.run(format="anthropic") as run:
        await run.resolve_tools([Tool(name="open", source="host", execute=answer)])
        await run.record(written("anthropic", {"path": [math.nan, -math.inf, 1.5]}))
        assert run.pending[0].arguments == {"path": [None, None, 1.5]}
        assert (await run.call_tool(run.pending[0])).text
