"""`run_agent(on_text=...)`: the prose of every reply as it comes, and a run that is the same as without."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

pytest.importorskip("openai", reason="needs the extra `openai`")
pytest.importorskip("anthropic", reason="needs the extra `anthropic`")

from hooksdk.agent import Limits, ModelUnavailable, StreamingModel, run_agent
from hooksdk.testing import Reply, ScriptedModel, Turn, call, open_session, say
from hooksdk.testing.server import ScriptedServer, cut, hang
from tests.hooksdk.provider_rules import violations
from tests.hooksdk.providers import FORMATS, TOOLS, model_of, sent

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """Asyncio only, as the SDKs are."""
    return "asyncio"


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


def two_turns(turn: Turn) -> Any:
    """Prose and two calls at a time, then an answer made of what came back."""
    if not turn.results:
        return say("I read both.", call("read_file", path="a"), call("read_file", path="b"))
    return " and ".join(result.text for result in turn.results)


async def played(form: str, **options: Any) -> tuple[Any, list[Any], list[dict[str, Any]]]:
    """The outcome of a run of two turns, its messages, and the requests."""
    async with ScriptedServer(two_turns) as server, open_session() as session, model_of(server, form) as model:
        outcome = await run_agent(session, model, "Read a and b.", tools=TOOLS, **options)
        return outcome, session.messages, [request.body for request in server.requests]


async def test_a_streamed_run_is_the_same_as_one_that_is_not(form: str) -> None:
    told: list[str] = []
    whole, messages, requests = await played(form)
    streamed, same, streams = await played(form, on_text=told.append)
    assert "".join(told) == f"I read both.{streamed.text}"
    assert len(told) > 2, "in pieces"
    assert (streamed.text, streamed.turns) == (whole.text, whole.turns) == ("content of a and content of b", 2)
    assert same == messages, "calls put together from their pieces among them"
    assert [request.get("stream", False) for request in (*requests, *streams)] == [False, False, True, True]


async def test_the_next_piece_is_read_when_the_one_before_was_taken() -> None:
    order: list[str] = []

    async def slowly(text: str) -> None:
        order.append(f"{text} begins")
        await anyio.sleep(0)
        order.append(f"{text} ends")

    await played("openai-chat", on_text=slowly)
    assert order
    assert all(begun.replace("begins", "ends") == ended for begun, ended in zip(order[::2], order[1::2], strict=True))


async def test_the_prose_of_a_model_that_does_not_stream_comes_at_once() -> None:
    told: list[str] = []
    model = ScriptedModel([Reply("I read.", [call("read_file", path="a")]), "Done."])
    assert not isinstance(model, StreamingModel)
    async with open_session() as session:
        await run_agent(session, model, "Read.", tools=TOOLS, on_text=told.append)
    assert told == ["I read.", "Done."]


async def test_a_stream_that_breaks_off_is_a_clear_error_and_nothing_of_it_is_kept(form: str) -> None:
    told: list[str] = []
    async with ScriptedServer([cut("Once upon a time")]) as server, open_session() as session:
        async with model_of(server, form) as model:
            with pytest.raises(ModelUnavailable, match=r"\(any\): "):
                await run_agent(session, model, "Tell.", on_text=told.append)
        assert "Once upon a time".startswith("".join(told))
        assert [message["role"] for message in session.messages] == ["user"]


async def test_another_attempt_after_a_broken_stream_gives_the_prose_anew(form: str) -> None:
    told: list[str] = []
    script = [cut("Once upon a time"), "Once."]
    async with ScriptedServer(script) as server, open_session() as session, model_of(server, form) as model:
        outcome = await run_agent(session, model, "Tell.", on_text=told.append, limits=Limits(attempts=2))
    assert (outcome.text, outcome.attempts) == ("Once.", 2)
    assert "".join(told).endswith("Once.")


async def test_a_run_that_is_cancelled_in_the_middle_of_a_stream_leaves_what_a_provider_takes(form: str) -> None:
    script = [say("I read.", call("read_file", path="a")), hang("Once upon a time"), "Here I am."]
    async with ScriptedServer(script) as server, open_session() as session, model_of(server, form) as model:
        with anyio.CancelScope() as scope:

            def stop(text: str) -> None:
                if text.startswith("Once"):
                    scope.cancel()

            await run_agent(session, model, "Read a.", tools=TOOLS, on_text=stop)
        assert scope.cancelled_caught
        outcome = await run_agent(session, model, "Are you there?", tools=TOOLS)
        assert outcome.text == "Here I am."
        for request in server.requests:
            assert violations(form, sent(request)) == []


async def test_what_on_text_raises_ends_the_run(form: str) -> None:
    def fail(text: str) -> None:
        raise RuntimeError("no paper")

    script = ["Once upon a time"]
    async with ScriptedServer(script) as server, open_session() as session, model_of(server, form) as model:
        with pytest.raises(RuntimeError, match="no paper"):
            await run_agent(session, model, "Tell.", on_text=fail)
