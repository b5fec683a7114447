"""Conformance, third part: the ends of runs, conversations side by side, sub-agents, and results lost in a crash."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread

from hooksdk import hooks
from hooksdk.errors import RunAlreadyOpen, RunBlocked
from hooksdk.state import PluginState
from hooksdk.stores import SqlStore
from hooksdk.testing._conformance import DELETE, NO_DELETES, WEATHER, Answer, Driver, Stage, answering, case, handling
from hooksdk.testing._model import Call, call


class Signal:
    """An event for whatever loops and threads a framework has."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        wait = partial(self._event.wait, 60.0)
        assert await anyio.to_thread.run_sync(wait, abandon_on_cancel=True), "what should come within a minute did not"

    async def set_and_hang(self, _given: object) -> str:
        """The executor or the script that a run is cut off in."""
        self.set()
        await anyio.sleep_forever()
        return ""


async def cancelled(driver: Driver, reached: Signal) -> None:
    """A run that is cancelled once it has set the signal."""
    async with anyio.create_task_group() as group:
        group.start_soon(driver.ask, "go")
        await reached.wait()
        group.cancel_scope.cancel()


@case("19")
async def a_cancelled_tool_is_seen_before_the_runs_end(stage: Stage) -> None:
    reached = Signal()
    slow = stage.tools[0].copy(execute=reached.set_and_hang)
    async with stage.open(script=[WEATHER], tools=[slow]) as driver:
        await cancelled(driver, reached)
    assert (stage.statuses, stage.ends) == ({"get_weather": "error"}, ["cancelled"])
    fired = stage.seen.fired()
    assert fired.index("after_tool_call") < fired.index("agent_end")


@case("19b")
async def a_run_cancelled_in_the_model_ends_as_cancelled(stage: Stage) -> None:
    reached = Signal()
    async with stage.open(script=reached.set_and_hang, tools=[]) as driver:
        await cancelled(driver, reached)
    assert stage.ends == ["cancelled"]


@case("20")
async def an_error_of_the_model_ends_the_run_as_error(stage: Stage) -> None:
    class Down(Exception):
        pass

    def script(_turn: object) -> str:
        raise Down("the provider is down")

    raised: Exception | None = None
    async with stage.open(script=script) as driver:
        try:
            await driver.ask("go")
        except Exception as error:
            raised = error
    assert "the provider is down" in repr(raised)
    assert stage.ends == ["error"]


async def _same_hooks(stage: Stage, ask: Callable[[Driver], Awaitable[Answer]]) -> None:
    """A denied call and an allowed one, by another entry of the framework."""
    async with stage.open(NO_DELETES, script=[[DELETE, WEATHER], "done"]) as driver:
        answer = await ask(driver)
    assert (answer.text, stage.ran) == ("done", ["get_weather of Rome"])
    assert stage.statuses == {"delete_city": "blocked", "get_weather": "ok"}


@case("21")
async def streaming_passes_the_same_hooks(stage: Stage) -> None:
    await _same_hooks(stage, lambda driver: driver.stream("go"))
    assert stage.ends == ["completed"]


@case("26")
async def plain_code_passes_the_same_hooks(stage: Stage) -> None:
    await _same_hooks(stage, lambda driver: anyio.to_thread.run_sync(driver.ask_plainly, "go"))


class OnceASession:
    """A budget: one call in each conversation."""

    def __init__(self, state: PluginState) -> None:
        self.state = state

    @hooks.before_tool_call
    def judge(self, event: hooks.BeforeToolCall) -> hooks.Block | None:
        if self.state.get("spent"):
            return hooks.Block("the budget is spent")
        self.state["spent"] = True
        return None


@case("24")
async def state_lasts_over_the_runs_of_a_conversation(stage: Stage) -> None:
    await stage.play(OnceASession, script=[WEATHER, "one", WEATHER, "two"], prompts=["first", "second"])
    assert [one.status for one in stage.calls] == ["ok", "blocked"]


@case("24b")
async def two_conversations_at_once_do_not_mix(stage: Stage) -> None:
    started: list[str] = []
    both = Signal()

    def script(turn: Any) -> Any:
        return "done" if turn.results else call("get_weather", city=turn.prompt)

    async def wait(arguments: dict[str, Any]) -> str:
        started.append(arguments["city"])
        if len(started) == 2:
            both.set()
        await both.wait()
        return f"weather of {arguments['city']}"

    tools = [stage.tools[0].copy(execute=wait)]
    async with stage.open(OnceASession, script=script, tools=tools) as driver, anyio.create_task_group() as group:
        group.start_soon(driver.ask, "Rome", "a")
        group.start_soon(driver.ask, "Oslo", "b")
    assert sorted((one.call.arguments["city"], one.status) for one in stage.calls) == [("Oslo", "ok"), ("Rome", "ok")]
    sessions = {one.info.session_id for one in stage.calls}
    assert (len(sessions), "" in sessions) == (2, False)


@case("25")
async def a_second_run_while_one_is_open_is_refused(stage: Stage) -> None:
    reached, leave = Signal(), Signal()
    refused: list[BaseException] = []

    async def wait(arguments: dict[str, Any]) -> str:
        reached.set()
        await leave.wait()
        return "sun"

    slow = stage.tools[0].copy(execute=wait)
    async with stage.open(script=[WEATHER, "done"], tools=[slow]) as driver, anyio.create_task_group() as group:
        group.start_soon(driver.ask, "go")
        await reached.wait()
        try:
            await driver.ask("again")
        except RunAlreadyOpen as error:
            refused.append(error)
        leave.set()
    assert len(refused) == 1, "the second run should be refused"
    assert stage.ends == ["completed"]


@case("28")
async def without_plugins_definitions_and_messages_are_as_given(stage: Stage) -> None:
    await stage.play(script=[WEATHER, "done"])
    first, second = stage.model.turns
    assert sorted(first.offered) == ["delete_city", "get_weather"]
    given = first.definitions["get_weather"]
    assert (given["description"], given["parameters"]["required"]) == ("Tell the weather.", ["city"])
    roles = [message["role"] for message in second.messages if message["role"] != "system"]
    assert roles == ["user", "assistant", "tool"]
    assert stage.shown() == ["get_weather of Rome"]


@case("29")
async def context_that_a_plugin_adds_is_read_and_not_stored(stage: Stage) -> None:
    adds = handling("before_model_call", lambda event: hooks.AddContext(f"This is request {len(event.messages)}."))
    await stage.play(adds, script=["one", "two"], tools=[], prompts=["first", "second"])
    assert ["This is request" in str(turn.messages) for turn in stage.model.turns] == [True, True]
    assert str(stage.model.turns[1].messages).count("This is request") == 1


@case("30")
async def a_run_that_a_plugin_blocks_does_not_begin(stage: Stage) -> None:
    raised: BaseException | None = None
    async with stage.open(answering("agent_start", hooks.Block("closed today")), script=["hello"], tools=[]) as driver:
        try:
            await driver.ask("go")
        except RunBlocked as error:
            raised = error
    assert "closed today" in str(raised)
    assert stage.model.turns == []


class Unfinished:
    """Sends the model on until it has looked at the weather."""

    def __init__(self) -> None:
        self._looked = False

    @hooks.after_tool_call(tools="get_weather")
    def note(self, event: hooks.AfterToolCall) -> None:
        self._looked = True

    @hooks.before_answer
    def judge(self, event: hooks.BeforeAnswer) -> hooks.Continue | None:
        return None if self._looked else hooks.Continue(LOOK)


LOOK = "Look at the weather first."


def _told(stage: Stage, turn: int) -> list[str]:
    """The texts of the user and of the model that the model reads in one of its turns."""
    messages = stage.model.turns[turn].messages
    return [
        str(one.get("content")) for one in messages if one.get("role") in ("user", "assistant") and one.get("content")
    ]


@case("31")
async def a_finish_that_is_refused_goes_on_with_the_reason(stage: Stage) -> None:
    async with stage.open(Unfinished, script=["Done.", WEATHER, "Sunny.", "Bye."]) as driver:
        answer = await driver.ask("go")
        await driver.ask("thanks")
    assert (answer.text, stage.statuses, stage.ends) == ("Sunny.", {"get_weather": "ok"}, ["completed", "completed"])
    assert _told(stage, 1) == ["go", "Done.", LOOK]
    assert _told(stage, 3) == ["go", "Done.", LOOK, "Sunny.", "thanks"], "the framework's own history has it"


@case("31b")
async def streaming_goes_on_as_well(stage: Stage) -> None:
    async with stage.open(Unfinished, script=["Done.", WEATHER, "Sunny."]) as driver:
        answer = await driver.stream("go")
    assert (answer.text, stage.statuses, stage.ends) == ("Sunny.", {"get_weather": "ok"}, ["completed"])


@case("31c")
async def a_finish_that_is_refused_too_often_goes_through(stage: Stage) -> None:
    answer = await stage.play(Unfinished, script=["one", "two", "three", "four", "five"], tools=[])
    assert (answer.text, len(stage.model.turns), stage.ends) == ("four", 4, ["completed"])


@case("31d")
async def an_answer_that_a_plugin_replaces_is_the_answer(stage: Stage) -> None:
    redacts = handling("before_answer", lambda event: hooks.Replace(event.text.replace("Rome", "[city]")))
    async with stage.open(redacts, script=["It is Rome.", "Bye."], tools=[]) as driver:
        answer = await driver.ask("go")
        await driver.ask("thanks")
    assert (answer.text, _told(stage, 1)[-2:]) == ("It is [city].", ["It is [city].", "thanks"])


@case("31e")
async def an_answer_that_a_plugin_blocks_reaches_nobody(stage: Stage) -> None:
    answer = Answer()
    with contextlib.suppress(RunBlocked):  # `run_agent` has an outcome for it
        blocks = answering("before_answer", hooks.Block("not for outsiders"))
        answer = await stage.play(blocks, script=["It is Rome."], tools=[])
    assert (answer.text, stage.ends) == ("", ["blocked"])


async def _asked_again(stage: Stage, name: str, *, lost: bool) -> None:
    """A run is cut off while the city is deleted; the model repeats one of its calls, and the person says no."""
    reached = Signal()
    tools = [stage.tools[0], stage.tools[1].copy(execute=reached.set_and_hang)]
    with TemporaryDirectory() as folder:
        stage.store = SqlStore(Path(folder))
        async with stage.open(script=[WEATHER, DELETE], tools=tools) as driver:
            await cancelled(driver, reached)
            for _ in range(1000):  # some frameworks tell late that a run was cancelled
                await anyio.sleep(0 if stage.ends else 0.01)
        async with stage.open(script=[Call(name, {"city": "Rome"}, "again"), "done"], tools=tools) as driver:
            if lost:
                with contextlib.suppress(IndexError, KeyError):  # it has stored nothing of a run that was cut off
                    await driver.cut(0)
            answer = await driver.ask("Go on.")
            assert len(answer.waiting) == 1, "an equal call ran unasked"
            answer = await driver.answer(dict.fromkeys(answer.waiting, False))
            stored = await driver.stored()
    assert (answer.text, stage.ran) == ("done", ["get_weather of Rome"])
    words = "has lost its result" if lost else "may have taken effect"
    assert [words in text for text in (stage.shown()[-1], stored[-1])] == [True, True], "it is told of the first call"


@case("32")
async def a_call_whose_reply_the_framework_has_lost_is_asked_about(stage: Stage) -> None:
    await _asked_again(stage, "get_weather", lost=True)


@case("32b")
async def a_refused_call_in_doubt_is_told_as_such(stage: Stage) -> None:
    await _asked_again(stage, "delete_city", lost=False)


async def _in_a_tool(stage: Stage, *, outer: list[Any], inner: list[Any]) -> None:
    """An agent with plugins and a host of its own, run by a tool of another agent: no call gets past either's
    policies."""
    sub = Stage(type(stage.driver)())

    async def consult(arguments: dict[str, Any]) -> str:
        prompts = [f"Delete {arguments['city']}."]
        script = [[DELETE, WEATHER], "deleted"]
        return (await sub.play(*inner, script=script, tools=stage.tools, prompts=prompts)).text

    asks = stage.tool("consult", "Consult the city's agent.").copy(execute=consult)
    answer = await stage.play(*outer, script=[call("consult", city="Rome"), "done"], tools=[*stage.tools, asks])
    assert (answer.text, sub.statuses) == ("done", {"delete_city": "blocked", "get_weather": "ok"})
    assert stage.ran == ["get_weather of Rome"]
    assert any("nothing is deleted here" in text for text in sub.shown())


@case("33")
async def a_sub_agents_own_policies_hold(stage: Stage) -> None:
    await _in_a_tool(stage, outer=[], inner=[NO_DELETES])


@case("33b")
async def policies_hold_for_a_sub_agent_with_a_host_of_its_own(stage: Stage) -> None:
    await _in_a_tool(stage, outer=[NO_DELETES], inner=[])


@case("34")
async def the_frameworks_model_is_known(stage: Stage) -> None:
    asked: list[str | None] = []

    notes = handling("before_model_call", lambda event: asked.append(event.model))
    rule = {"action": "deny", "limit": {"dollars": 5.0}}
    config = {
        "prices": {"acme:scripted": {"input": 1.0, "output": 4.0}},
        "plugins": {"tool_policy": {"config": {"rules": [rule]}}},
    }
    answer = await stage.play(notes, script=[WEATHER, "done"], allow=["tool_policy"], config=config)
    assert (answer.text, asked) == ("done", [stage.model.name] * 2)
