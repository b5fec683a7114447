"""The last word before a tool is entered, the observer that a run waits for, and a request that is not made."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, Host, ToolCall, hooks
from hooksdk.agent import run_agent
from hooksdk.approvals import Later
from hooksdk.errors import ApprovalPending, PluginRefused, RunBlocked
from hooksdk.hooks import AfterModelCall, AgentEnd, Ask, BeforeModelCall, BeforeToolCall, Block, ToolCallStart
from hooksdk.testing import ScriptedModel, call, open_session
from tests.stage import make, playing

pytestmark = pytest.mark.anyio


class Starts:
    """Notes what begins."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[str]]] = []

    @hooks.tool_call_start
    def start(self, event: ToolCallStart) -> Block | None:
        self.seen.append((event.arguments.get("path", ""), [question.title for question in event.granted]))
        return Block("held back") if event.arguments.get("path") == "late" else None


class Judges:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | Ask | None:
        path = event.arguments.get("path")
        return Block("no") if path == "no" else Ask("May it?") if path == "ask" else None


@pytest.mark.both_loops
async def test_it_is_fired_once_for_each_call_that_nothing_holds_back_any_more() -> None:
    async def approver(request: ApprovalRequest) -> Approval:
        return Approval(True)

    async with playing(Starts, Judges, tools=[make()], approver=approver) as stage:
        texts = [(await stage.call("read_file", {"path": path})).text for path in ("a", "no", "ask", "late")]
        assert stage.session.plugin("starts").seen == [("a", []), ("ask", ["May it?"]), ("late", [])]
    assert ["ran with" in text for text in texts] == [True, False, True, False]
    assert texts[3] == "Blocked by starts: held back"


async def test_run_judge_fires_it_as_it_hands_out_a_call_that_may_run_and_execute_does_not_again() -> None:
    async with playing(Starts, Judges, tools=[make()]) as stage:
        for path in ("no", "a", "late"):
            judged = await stage.run.judge(ToolCall(path, "read_file", {"path": path}))
            if judged.result is None:
                await judged.execute()
        assert [path for path, _ in stage.session.plugin("starts").seen] == ["a", "late"]


async def test_a_call_that_waits_has_not_begun_and_its_approval_lets_it_begin() -> None:
    async def approver(request: ApprovalRequest) -> Any:
        return Later()

    async with playing(Starts, Judges, tools=[make()], approver=approver) as stage:
        judged = await stage.run.judge(ToolCall("c", "read_file", {"path": "ask"}))
        assert (judged.pending is not None, stage.session.plugin("starts").seen) == (True, [])
        await judged.approve()
        assert stage.session.plugin("starts").seen == [("ask", ["May it?"])]
        assert "ran with" in (await judged.execute()).text
        assert len(stage.session.plugin("starts").seen) == 1


async def test_a_call_whose_tool_has_paused_has_begun_also_in_the_next_run() -> None:
    entered: list[bool] = []

    async def pausing(arguments: dict[str, Any]) -> str:
        entered.append(True)
        if len(entered) < 3:
            raise ApprovalPending(None, ToolCall("c", "read_file", arguments))  # pyright: ignore[reportArgumentType]
        return "done"

    begun: list[bool] = []

    class Sees:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            begun.append(event.begun)

    async with open_session(Starts, Sees) as session:
        written = {"id": "c", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
        for number in range(2):
            async with session.run() as run:
                await run.resolve_tools([make(execute=pausing)])
                if not number:
                    await run.record({"role": "assistant", "content": None, "tool_calls": [written]})
                for _ in range(2 - number):
                    with suppress(ApprovalPending):
                        assert (await run.call_tool(run.pending[0])).text == "done"
                if not number:
                    run.pause("later")
        assert session.plugin("starts").seen == [("a", [])]
    assert begun == [False, True, True]


async def test_a_handler_that_fails_holds_the_call_back() -> None:
    class Fails:
        @hooks.tool_call_start
        def start(self, event: ToolCallStart) -> None:
            raise RuntimeError("broken")

    async with playing(Fails, tools=[make()]) as stage:
        assert "ran with" not in (await stage.call("read_file", {"path": "a"})).text


@pytest.mark.both_loops
async def test_the_run_waits_for_an_observer_that_says_so_and_logs_one_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    order: list[str] = []

    class Waited:
        @hooks.after_model_call(wait=True)
        async def count(self, event: AfterModelCall) -> None:
            await anyio.sleep(0.01)
            order.append("counted")

        @hooks.after_model_call(wait=True)
        def fail(self, event: AfterModelCall) -> None:
            raise RuntimeError("broken")

    async with open_session(Waited) as session, session.run() as run:
        await run.record({"role": "assistant", "content": "Hello."})
        order.append("recorded")
    assert order == ["counted", "recorded"]
    assert "Waited.fail" in caplog.text


class Ends:
    def __init__(self) -> None:
        self.ends: list[str] = []

    @hooks.before_model_call
    def stop(self, event: BeforeModelCall) -> Block | None:
        return Block("two are enough") if len(event.messages) > 2 else None

    @hooks.agent_end
    def end(self, event: AgentEnd) -> None:
        self.ends.append(f"{event.reason}: {event.error}")


async def test_a_block_before_a_request_ends_the_run_and_the_next_one_begins() -> None:
    async with open_session(Ends) as session:
        model = ScriptedModel([call("read_file", path="a"), "never"])
        outcome = await run_agent(session, model, "Go.", tools=[make()])
        assert (outcome.reason, outcome.turns, outcome.pending) == ("blocked", 1, ())
        assert outcome.blocked == "run blocked by plugin 'ends': two are enough"
        async with session.run() as run:
            with pytest.raises(RunBlocked, match="two are enough"):
                await run.prepare_messages()
        assert session.plugin("ends").ends == [f"blocked: {outcome.blocked}", "completed: None"]


async def test_a_run_that_is_blocked_before_it_begins_is_an_error_as_ever() -> None:
    class Never:
        @hooks.agent_start
        def start(self, event: hooks.AgentStart) -> Block:
            return Block("never")

    async with open_session(Never) as session:
        with pytest.raises(RunBlocked, match="never"):
            await run_agent(session, ScriptedModel(["Hello."]), "Go.")


class Chooses:
    """Its settings say whether it judges."""

    needed: ClassVar[list[str]] = ["note"]

    @classmethod
    def handlers_for(cls, config: Any) -> list[str]:
        return cls.needed

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block:
        return Block("no")

    @hooks.before_tool_call
    def note(self, event: BeforeToolCall) -> None: ...

    @hooks.agent_end
    def end(self, event: AgentEnd) -> None: ...


async def test_a_plugin_says_which_of_its_handlers_its_settings_need() -> None:
    async with playing(Chooses, tools=[make()]) as stage:
        assert "ran with" in (await stage.call("read_file", {"path": "a"})).text
        assert stage.host.judging == "1 handler judges tool calls: chooses"
        assert next(one.hooks for one in stage.host.plugins if one.id == "chooses") == ["before_tool_call"]


def test_a_name_that_is_no_handler_of_it_is_refused() -> None:
    class Misspelt(Chooses):
        needed: ClassVar[list[str]] = ["jugde"]

    class Fails(Chooses):
        @classmethod
        def handlers_for(cls, config: Any) -> list[str]:
            raise ValueError("no settings")

    for holder, problem in (
        (Misspelt, "its handlers_for names 'jugde', which is no handler of it. Did you mean 'judge'?"),
        (Fails, "its handlers_for raised ValueError: no settings"),
    ):
        with pytest.raises(PluginRefused) as refused:
            Host(plugins=[holder], config={"allow": []})
        assert problem in str(refused.value)
