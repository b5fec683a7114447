"""What goes wrong between a model over an official SDK and its provider."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest

from hooksdk.agent import Limits, ModelUnavailable, run_agent
from hooksdk.errors import ConfigError
from hooksdk.formats import get_format
from hooksdk.hooks import AgentEnd
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.models.openai import OpenAIModel
from hooksdk.models.openai_responses import OpenAIResponsesModel
from hooksdk.testing import call, open_session, recorder
from hooksdk.testing.server import ScriptedServer, cut, garble, hang, interrupt, refuse
from tests.hooksdk.providers import FORMATS, TOOLS, USER, Json, Model, Serve, model_of, sdk_of, serving

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


@pytest.mark.parametrize("fault", [refuse(429, 0.01), refuse(500, 0.01), refuse(529, 0.01)])
async def test_an_error_that_passes_is_another_attempt_after_the_time_told(serve: Serve, fault: Any):
    async with open_session() as session, serve([fault, "there"]).model() as model:
        outcome = await run_agent(session, model, "go", limits=Limits(attempts=2))
        assert (outcome.text, outcome.attempts) == ("there", 2)
        assert [message["role"] for message in session.messages] == ["user", "assistant"]


@pytest.mark.parametrize("fault", [cut(), garble(), hang("Once upon a time")], ids=["cut", "garbled", "hanging"])
async def test_an_answer_that_does_not_come_whole_is_another_attempt(serve: Serve, fault: Any):
    setting = serve([fault, "there"])
    async with setting.model(timeout=3) as model:
        with pytest.raises(ModelUnavailable) as caught:
            await model.reply(USER, [])
        assert caught.value.seconds == 0.5
        assert (await model.reply(USER, [])).message["role"] == "assistant"


@pytest.mark.parametrize("kind", ["seconds", "date", "nothing"])
async def test_the_time_to_wait_is_the_servers_or_grows(serve: Serve, kind: str):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    told: dict[str, Any] = {"seconds": 7, "date": date, "nothing": None}
    expected = {"seconds": [7, 7], "date": [100, 100], "nothing": [0.5, 1.0]}
    waits: list[float] = []
    async with serve([refuse(429, told[kind])] * 2).model() as model:
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match=r"RateLimitError: Refused by the script\.$") as caught:
                await model.reply(USER, [])
            waits.append(caught.value.seconds)
    assert waits == pytest.approx(expected[kind], abs=5 if kind == "date" else 0)


@pytest.mark.parametrize("status", [400, 401])
async def test_an_error_that_stays_ends_the_run_with_the_sdks_own(serve: Serve, form: str, status: int):
    sdk = sdk_of(form)
    setting = serve([refuse(status, text="No such thing.")])
    ends = recorder("agent_end")
    async with open_session(ends) as session, setting.model() as model:
        with pytest.raises(sdk.APIStatusError, match="No such thing"):
            await run_agent(session, model, "go", limits=Limits(attempts=3))
    assert len(setting.server.requests) == 1
    assert [end.reason for end in ends.of(AgentEnd)] == ["error"]


async def test_a_server_that_is_not_there_may_come_back(form: str):
    async with ScriptedServer([]) as server:
        model = model_of(server, form)
    with pytest.raises(ModelUnavailable, match="ConnectionError"):
        await model.reply(USER, [])


async def test_a_cancellation_in_the_middle_of_a_stream_ends_the_run_and_the_connection(form: str):
    ends = recorder("agent_end")
    script = [call("read_file", path="a"), hang("Once upon a time")]
    async with ScriptedServer(script) as server, open_session(ends) as session:
        with anyio.CancelScope() as scope:

            def stop(text: str) -> None:
                scope.cancel()

            async with model_of(server, form, on_text=stop) as model:
                await run_agent(session, model, "go", tools=TOOLS)
        assert scope.cancelled_caught
        assert len(session.messages) == 3
        with anyio.fail_after(120):
            while server.connections:
                await anyio.sleep(0.01)
    assert [end.reason for end in ends.of(AgentEnd)] == ["cancelled"]


async def test_an_error_inside_an_answer_passes_too(serve: Serve):
    async with serve([interrupt("Once upon")]).model() as model:
        with pytest.raises(ModelUnavailable, match=r"Overloaded\."):
            await model.reply(USER, [])


async def test_an_answer_that_is_none_passes_too(serve: Serve):
    async with serve([refuse(200, text="upstream is gone")]).model() as model:
        with pytest.raises(ModelUnavailable, match=r"upstream is gone|the stream ended in the middle"):
            await model.reply(USER, [])


@pytest.mark.parametrize("form", ["openai-chat"], indirect=True)
@pytest.mark.parametrize("stream", [True], indirect=True)
async def test_calls_that_a_server_numbers_all_alike_stay_apart(serve: Serve):
    def made(call_id: str, path: str) -> Json:
        function = {"name": "read_file", "arguments": f'{{"path": "{path}"}}'}
        return {"index": 0, "id": call_id, "type": "function", "function": function}

    message = {"role": "assistant", "content": None, "tool_calls": [made("x", "a"), made("y", "b")]}
    async with serve([message]).model() as model:
        reply = await model.reply(USER, [])
    calls = [(one.id, one.arguments) for one in get_format("openai-chat").calls(reply.message)]
    assert calls == [("x", '{"path": "a"}'), ("y", '{"path": "b"}')]
    assert all("index" not in one for one in reply.message["tool_calls"])


async def test_an_error_inside_an_answer_that_no_waiting_changes_is_the_sdks_own(serve: Serve, form: str):
    sdk = sdk_of(form)
    async with serve([interrupt("Once", status=400, text="too long")]).model() as model:
        with pytest.raises(sdk.APIError, match="too long"):
            await model.reply(USER, [])


@pytest.mark.parametrize("form", ["openai-chat", "openai-responses"], indirect=True)
async def test_a_used_up_quota_is_no_rate_limit(serve: Serve):
    import openai

    async with serve([refuse(429, code="insufficient_quota")]).model() as model:
        with pytest.raises(openai.RateLimitError):
            await model.reply(USER, [])


async def test_a_connection_is_kept_inside_the_block_and_closed_after_it(serve: Serve):
    setting = serve(["ok"] * 4)
    async with setting.model() as model:
        for _ in range(2):
            await model.reply(USER, [])
        assert setting.server.connections == 1
    for _ in range(2):
        await model.reply(USER, [])
    with anyio.fail_after(120):
        while setting.server.connections:
            await anyio.sleep(0.01)


@pytest.mark.parametrize("kind", [OpenAIModel, OpenAIResponsesModel, AnthropicModel])
def test_a_missing_package_is_one_error_with_the_command(kind: type[Model], monkeypatch: pytest.MonkeyPatch):
    package = "anthropic" if kind is AnthropicModel else "openai"
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Without(package), *sys.meta_path])
    with pytest.raises(ConfigError, match=rf"{kind.__name__}: .* pip install 'hooksdk\[{package}\]'"):
        kind("any")


class Without:
    """A finder that knows of one package that it is not there."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


async def test_the_key_is_in_no_text_of_the_model(form: str):
    async with ScriptedServer([refuse(429)]) as server:
        model = model_of(server, form)
        with pytest.raises(ModelUnavailable) as caught:
            await model.reply(USER, [])
    assert "none" not in repr(model) + str(caught.value)
