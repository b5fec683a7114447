"""The reference loop: limits, errors, retries, and what the transcript holds afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from hooksdk import Session, Tool, ToolCall, hooks
from hooksdk.agent import Limits, ModelReply, ModelUnavailable, run_agent, tokens_of
from hooksdk.errors import RunBlocked, SessionClosed
from hooksdk.hooks import AfterToolsResolved, AgentEnd, AgentStart, Block
from hooksdk.testing import Reply, ScriptedModel, Turn, call, open_session, play, recorder, say

pytestmark = pytest.mark.anyio


def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


def results(session: Session) -> list[str]:
    """The text of each stored result, by handle."""
    return [session.results.read(info.handle) for info in session.results.list()]


def open_calls(session: Session) -> int:
    """Calls of the stored messages that have no result."""
    made = sum(len(message.get("tool_calls") or ()) for message in session.messages)
    return made - sum(message["role"] == "tool" for message in session.messages)


class Broken:
    """A model whose line breaks a few times."""

    name = "broken"
    format = "openai-chat"
    context_window = None
    provider = "acme"

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def reply(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> ModelReply:
        if self.errors:
            raise self.errors.pop(0)
        return ModelReply(message={"role": "assistant", "content": "back again"})


# What a run is


async def test_a_run_ends_with_the_first_reply_that_calls_nothing():
    async with open_session() as session:
        outcome = await run_agent(session, ScriptedModel(["hello"]), "hi")
        assert (outcome.text, outcome.reason, outcome.turns) == ("hello", "completed", 1)
        assert session.messages == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


async def test_the_system_text_is_recorded_once_per_session():
    async with open_session() as session:
        for _ in range(2):
            await run_agent(session, ScriptedModel(["ok"]), "hi", system="Be brief.")
        assert [message["role"] for message in session.messages] == ["system", "user", "assistant", "user", "assistant"]


async def test_the_prompt_may_be_a_whole_message():
    message = {"role": "user", "content": [{"type": "text", "text": "look"}]}
    async with open_session() as session:
        await run_agent(session, ScriptedModel(["ok"]), message)
        assert session.messages[0] == message


async def test_events_know_where_the_run_comes_from():
    seen = recorder("agent_start")
    async with open_session(seen) as session:
        await run_agent(
            session, Broken(), "hi", agent_id="helper", workspace_dir="/work", requester={"id": "ann"},
            trigger="schedule", metadata={"ticket": 7},
        )  # fmt: skip
    (start,) = seen.of(AgentStart)
    assert (start.input, start.agent_id, start.workspace_dir) == ("hi", "helper", "/work")
    assert (start.requester, start.trigger, start.metadata) == ({"id": "ann"}, "schedule", {"ticket": 7})
    assert (start.provider, start.model) == ("acme", "broken")


async def test_a_refused_run_records_nothing():
    class Closed:
        @hooks.agent_start
        def refuse(self, event: AgentStart) -> Block | None:
            return Block("out of hours")

    async with open_session(Closed) as session:
        with pytest.raises(RunBlocked, match="out of hours"):
            await run_agent(session, ScriptedModel(["never"]), "hi")
        assert session.messages == []


async def test_the_stats_hold_usage_and_calls():
    script = [
        Reply("", [call("read_file", path="a")], usage={"prompt_tokens": 5}),
        Reply("ok", usage={"prompt_tokens": 7}),
    ]
    async with open_session(tools=[read_file]) as session:
        outcome = (await play(session, script)).outcome
    assert outcome.stats["usage"] == {"prompt_tokens": 12}
    assert outcome.stats["tool_calls"] == {"ok": 1}


# Calls


@pytest.mark.both_loops
async def test_no_more_calls_run_at_a_time_than_the_limit_says():
    running, most = 0, 0

    async def work(number: int) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(10):
            await anyio.sleep(0)
        running -= 1
        return str(number)

    async with open_session(tools=[work]) as session:
        script = [[call("work", number=number) for number in range(6)], "ok"]
        await play(session, script, limits=Limits(parallel=2))
        assert most == 2
        assert results(session) == list("012345")


@pytest.mark.both_loops
async def test_with_a_parallelism_of_one_calls_run_in_their_order():
    begun: list[int] = []

    async def work(number: int) -> None:
        """Work."""
        begun.append(number)

    async with open_session(tools=[work]) as session:
        await play(session, [[call("work", number=number) for number in range(5)], "ok"], limits=Limits(parallel=1))
    assert begun == [0, 1, 2, 3, 4]


@pytest.mark.both_loops
async def test_the_hosts_own_failure_in_a_call_is_raised_as_it_is():
    async with open_session() as session:

        async def close_everything() -> None:
            """Close the session under the run."""
            await session.close()

        script = [[call("close_everything"), call("close_everything")], "never"]
        with pytest.raises(SessionClosed):
            await play(session, script, tools=[close_everything])


# Limits


async def test_a_turn_limit_ends_the_run_with_every_call_answered():
    async with open_session(tools=[read_file]) as session:
        played = await play(session, lambda turn: say("and on", call("read_file", path="a")), limits=Limits(turns=3))
        assert (played.reason, played.outcome.turns, played.text) == ("turn_limit", 3, "and on")
        assert [one.status for one in played.calls] == ["ok", "ok", "ok"]
        assert open_calls(session) == 0


async def test_a_run_stopped_by_a_limit_can_go_on():
    async with open_session(tools=[read_file]) as session:
        await play(session, [call("read_file", path="a")], limits=Limits(turns=1))
        played = await play(session, lambda turn: f"it says: {turn.result.text}", None)
        assert played.text == "it says: content of a"


async def test_a_token_limit_stops_before_the_next_model_call():
    script = [Reply(calls=[call("read_file", path="a")], usage={"total_tokens": 60})] * 5
    async with open_session(tools=[read_file]) as session:
        played = await play(session, script, limits=Limits(tokens=100))
        assert (played.reason, played.outcome.turns) == ("token_limit", 2)
        assert open_calls(session) == 0


async def test_a_final_reply_counts_as_completed_whatever_it_cost():
    async with open_session() as session:
        played = await play(session, [Reply("done", usage={"total_tokens": 1_000})], limits=Limits(tokens=10))
        assert played.reason == "completed"


async def test_tokens_are_estimated_where_the_model_tells_none():
    class Silent(Broken):
        async def reply(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> ModelReply:
            made = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
            return ModelReply(message={"role": "assistant", "content": None, "tool_calls": [made]})

    async with open_session() as session:
        tools = [Tool.from_function(read_file, source="host")]
        outcome = await run_agent(session, Silent(), "x" * 4_000, tools=tools, limits=Limits(tokens=900))
        assert (outcome.reason, outcome.turns) == ("token_limit", 1)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, 7),
        ({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 5}, 18),
        ({"input_tokens": 1, "cache_read_input_tokens": None}, 1),
        ({"server_tool_use": {"web_search_requests": 1}}, None),
        (None, None),
    ],
)
async def test_usage_is_read_in_every_providers_words(usage: dict[str, Any] | None, tokens: int | None):
    assert tokens_of(usage) == tokens


@pytest.mark.both_loops
@pytest.mark.jumping_clock
async def test_a_time_limit_cuts_a_slow_model_off():
    async def script(turn: Turn) -> str:
        await anyio.sleep_forever()
        return "never"

    async with open_session() as session:
        played = await play(session, script, "hi", limits=Limits(seconds=10))
        assert (played.reason, played.text, played.outcome.turns) == ("time_limit", "", 0)
        assert [message["role"] for message in session.messages] == ["user"]


@pytest.mark.both_loops
@pytest.mark.jumping_clock
async def test_a_time_limit_cuts_slow_calls_off_and_answers_every_one():
    async def slow(number: int) -> str:
        """Take long, but for number 0."""
        if number:
            await anyio.sleep_forever()
        return f"{number} is done"

    seen = recorder("agent_end")
    async with open_session(seen, tools=[slow]) as session:
        script = [[call("slow", number=number) for number in range(4)]]
        played = await play(session, script, limits=Limits(seconds=10, parallel=2))
        assert played.reason == "time_limit"
        first, *others = results(session)
        assert first == "0 is done"
        assert [("cancelled" in text) for text in others] == [True, True, True]
        assert open_calls(session) == 0
    assert [end.reason for end in seen.of(AgentEnd)] == ["completed"]


@pytest.mark.parametrize("name", ["turns", "parallel", "attempts"])
async def test_limits_below_one_are_refused(name: str):
    with pytest.raises(ValueError, match=rf"{name}=0\): it must be at least 1"):
        Limits(**{name: 0})  # pyright: ignore[reportArgumentType] - wrong on purpose


# Errors and retries


async def test_a_models_error_is_raised_and_ends_the_run_as_an_error():
    seen = recorder("agent_end")
    async with open_session(seen) as session:
        with pytest.raises(ValueError, match="bad key"):
            await run_agent(session, Broken(ValueError("bad key")), "hi")
        assert [message["role"] for message in session.messages] == ["user"]
        assert (await run_agent(session, Broken(), "again")).text == "back again"
    assert [(end.reason, end.error) for end in seen.of(AgentEnd)] == [
        ("error", "ValueError: bad key"),
        ("completed", None),
    ]


async def test_an_unavailable_model_is_asked_again_as_often_as_attempts_allow():
    async with open_session() as session:
        model = Broken(ModelUnavailable("overloaded"), ModelUnavailable("overloaded", seconds=0.01))
        outcome = await run_agent(session, model, "hi", limits=Limits(attempts=3))
        assert (outcome.text, outcome.attempts, outcome.turns) == ("back again", 3, 1)
        assert [message["role"] for message in session.messages] == ["user", "assistant"]


async def test_an_unavailable_model_is_an_error_when_the_attempts_are_used_up():
    async with open_session() as session:
        with pytest.raises(ModelUnavailable, match="overloaded"):
            await run_agent(session, Broken(ModelUnavailable("overloaded")), "hi")


async def test_each_attempt_asks_for_the_tools_anew():
    asked: list[int] = []

    def tools() -> list[Tool]:
        asked.append(len(asked))
        return [Tool(name=f"tool_{len(asked)}", source="host")]

    seen = recorder("after_tools_resolved")
    async with open_session(seen) as session:
        await run_agent(session, Broken(ModelUnavailable("busy")), "hi", tools=tools, limits=Limits(attempts=2))
    found = [(event.attempt, [tool.name for tool in event.offered]) for event in seen.of(AfterToolsResolved)]
    assert found == [(1, ["tool_1"]), (2, ["tool_2"])]


async def test_tools_given_as_an_iterator_last_for_all_attempts():
    async with open_session() as session:
        seen: list[int] = []

        class Counting(Broken):
            async def reply(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> ModelReply:
                seen.append(len(tools))
                return await super().reply(messages, tools)

        tools = (Tool(name=name, source="host") for name in ("a", "b"))
        model = Counting(ModelUnavailable("busy"))
        await run_agent(session, model, "hi", tools=tools, limits=Limits(attempts=2))
    assert seen == [2, 2]


@pytest.mark.both_loops
async def test_a_cancelled_run_ends_as_cancelled_with_every_call_answered():
    begun = anyio.Event()

    async def slow(number: int) -> str:
        begun.set()
        await anyio.sleep_forever()
        return str(number)

    seen = recorder("agent_end")
    async with open_session(seen, tools=[slow]) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(play, session, [[call("slow", number=number) for number in range(3)]])
            await begun.wait()
            group.cancel_scope.cancel()
        assert len(results(session)) == 3
        assert open_calls(session) == 0
    assert [end.reason for end in seen.of(AgentEnd)] == ["cancelled"]


# Going on


async def test_without_a_prompt_the_calls_left_open_by_a_pause_are_run():
    async with open_session(tools=[read_file]) as session:
        model = ScriptedModel([call("read_file", path="a")])
        async with session.run() as run:
            await run.resolve_tools()
            await run.record({"role": "user", "content": "hi"})
            await run.record((await model.reply(await run.prepare_messages(), [])).message)
            run.pause("waiting for the office to open")
        assert open_calls(session) == 1
        played = await play(session, lambda turn: turn.result.text, None)
        assert played.text == "content of a"
        assert open_calls(session) == 0


@pytest.mark.both_loops
async def test_two_sessions_run_at_the_same_time_without_meeting():
    async with open_session(tools=[read_file]) as session, session.child() as other:
        texts: dict[str, str] = {}

        async def go(one: Session, path: str) -> None:
            script = [call("read_file", path=path), "unused"]
            played = await play(one, script)
            texts[path] = played.call("read_file").result.text

        async with anyio.create_task_group() as group:
            group.start_soon(go, session, "a")
            group.start_soon(go, other, "b")
    assert texts == {"a": "content of a", "b": "content of b"}


async def test_a_call_by_the_same_id_twice_in_one_reply_gets_two_results():
    async with open_session() as session:
        made = [ToolCall("same", "read_file", {"path": path}) for path in "ab"]

        class Repeating(Broken):
            async def reply(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> ModelReply:
                if messages[-1]["role"] == "tool":
                    return await super().reply(messages, tools)
                form = [
                    {
                        "id": one.id,
                        "type": "function",
                        "function": {"name": one.name, "arguments": f'{{"path": "{one.arguments["path"]}"}}'},
                    }
                    for one in made
                ]
                return ModelReply(message={"role": "assistant", "content": None, "tool_calls": form})

        await run_agent(session, Repeating(), "hi", tools=[Tool.from_function(read_file, source="host")])
        assert results(session) == ["content of a", "content of b"]
