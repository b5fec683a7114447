"""Conformance, first part: calls of tools, from the catalog to the result."""

from __future__ import annotations

from typing import Any

import anyio

from hooksdk import hooks
from hooksdk.catalog import ToolContext
from hooksdk.testing._conformance import CITY, DELETE, NO_DELETES, WEATHER, Stage, answering, case, handling
from hooksdk.testing._model import Call, Turn, call, say
from hooksdk.tools import Tool, tool


@case("01")
async def a_denied_call_does_not_run(stage: Stage) -> None:
    answer = await stage.play(NO_DELETES, script=[[DELETE, WEATHER], "done"])
    assert (answer.text, stage.ran) == ("done", ["get_weather of Rome"])
    assert stage.statuses == {"delete_city": "blocked", "get_weather": "ok"}
    assert any("nothing is deleted here" in text for text in stage.shown())


async def _broken(stage: Stage, plugin: type) -> None:
    answer = await stage.play(plugin, script=[WEATHER, "done"])
    assert (answer.text, stage.ran, stage.statuses) == ("done", [], {"get_weather": "blocked"})


@case("02")
async def a_policy_that_raises_blocks(stage: Stage) -> None:
    class Raises:
        @hooks.before_tool_call
        def judge(self, event: hooks.BeforeToolCall) -> None:
            raise RuntimeError("broken")

    await _broken(stage, Raises)


@case("02")
async def a_policy_that_hangs_blocks(stage: Stage) -> None:
    class Hangs:
        @hooks.before_tool_call(timeout=0.05)
        async def judge(self, event: hooks.BeforeToolCall) -> None:
            await anyio.sleep_forever()

    await _broken(stage, Hangs)


@case("02")
async def a_policy_that_answers_nonsense_blocks(stage: Stage) -> None:
    await _broken(stage, answering("before_tool_call", "fine"))


@case("03")
async def a_withheld_tool_is_neither_shown_nor_run(stage: Stage) -> None:
    withholds = answering("narrow_tools", hooks.Withhold(["delete_city"], "not in this house"))
    await stage.play(withholds, script=[DELETE, "done"])
    assert [turn.offered for turn in stage.model.turns] == [["get_weather"]] * 2
    assert (stage.ran, list(stage.statuses.values())) == ([], ["blocked"])


@case("04")
async def rewritten_arguments_are_judged_and_run(stage: Stage) -> None:
    judged: list[object] = []

    rewrites = answering("rewrite_tool_call", hooks.Rewrite({"city": "Oslo"}))
    judges = handling("before_tool_call", lambda event: judged.append(event.arguments))
    await stage.play(rewrites, judges, script=[WEATHER, "done"])
    assert (judged, stage.ran) == ([{"city": "Oslo"}], ["get_weather of Oslo"])
    assert stage.shown() == ["get_weather of Oslo"]


@case("04b")
async def a_rewrite_to_nonsense_is_refused(stage: Stage) -> None:
    await stage.play(answering("rewrite_tool_call", hooks.Rewrite({"town": ["Oslo"]})), script=[WEATHER, "done"])
    assert stage.ran == []
    assert stage.statuses["get_weather"] != "ok"


@case("05")
async def wrong_arguments_are_told_to_model_and_plugins(stage: Stage) -> None:
    answer = await stage.play(script=[Call("get_weather", {"city": ["Rome", 7]}), "done"])
    assert (answer.text, stage.ran, stage.statuses) == ("done", [], {"get_weather": "invalid"})
    assert "city" in stage.shown()[-1]


@case("05b")
async def an_unknown_name_is_told_to_model_and_plugins(stage: Stage) -> None:
    answer = await stage.play(script=[call("book_train", city="Rome"), "done"])
    assert (answer.text, stage.ran, stage.statuses) == ("done", [], {"book_train": "unknown"})


@case("06")
async def the_catalog_is_told_once_a_run(stage: Stage) -> None:
    await stage.play(script=[WEATHER, WEATHER, "done"])
    (told,) = stage.seen.of(hooks.AfterToolsResolved)
    assert sorted(one.name for one in told.catalog) == ["delete_city", "get_weather"]


@case("07")
async def every_call_is_seen_once(stage: Stage) -> None:
    cities = ["Rome", "Oslo", "Lima", "Bern"]
    await stage.play(script=[[call("get_weather", city=one) for one in cities], "done"])
    assert stage.shown() == [f"get_weather of {one}" for one in cities]
    assert sorted(stage.ran) == sorted(stage.shown())
    assert sorted(one.call.arguments["city"] for one in stage.calls) == sorted(cities)


@case("07b")
async def calls_of_a_script_are_judged_each(stage: Stage) -> None:
    class Script:
        @tool
        async def run_script(self, city: str, context: ToolContext) -> str:
            """Run the script."""
            results = [await context.call_tool(name, {"city": city}) for name in ("get_weather", "delete_city")]
            return " / ".join(result.text for result in results)

    await stage.play(NO_DELETES, Script, script=[call("run_script", city="Rome"), "done"])
    assert stage.ran == ["get_weather of Rome"]
    assert stage.statuses == {"get_weather": "ok", "delete_city": "blocked", "run_script": "ok"}


@case("07c")
async def prose_beside_calls_is_kept(stage: Stage) -> None:
    await stage.play(script=[say("One moment.", WEATHER), "done"])
    assert "One moment." in str(stage.model.turns[1].messages)
    assert stage.shown() == ["get_weather of Rome"]


async def _search(stage: Stage, script: Any, tools: list[Tool], *, prompt: str = "go", **settings: Any) -> str:
    """A run with tool search, by these settings of it; the answer."""
    config = {"plugins": {"tool_search": {"config": settings}}}
    answer = await stage.play(script=script, tools=tools, allow=["tool_search"], config=config, prompts=[prompt])
    return answer.text


def _hidden(stage: Stage) -> list[Tool]:
    """One tool that is searched for, among many."""
    return [*stage.many_tools(40), stage.tool("plant_tree", "Plant a tree in a city.", owner="garden")]


@case("08")
async def below_the_threshold_all_tools_are_shown(stage: Stage) -> None:
    tools = [*stage.tools, *stage.many_tools(5)]
    await _search(stage, ["done"], tools, prefetch=0)
    assert sorted(stage.model.turns[0].offered) == sorted(one.name for one in tools)


@case("08b")
async def above_the_threshold_tools_are_deferred(stage: Stage) -> None:
    await _search(stage, ["done"], [*stage.tools, *stage.many_tools(40)], enabled="on", prefetch=0, reveal="off")
    offered = stage.model.turns[0].offered
    assert {"get_weather", "tool_search", "tool_call"} <= set(offered)
    assert not [name for name in offered if name.startswith("archive_")]


@case("09")
async def a_deferred_tool_is_found_and_called(stage: Stage) -> None:
    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return call("tool_search", queries=["plant a tree"])
        if turn.number == 2:
            assert "plant_tree" in turn.result.text
            return call("tool_call", name="plant_tree", arguments={"city": "Rome"})
        return call("plant_tree", city="Oslo") if turn.number == 3 else "done"

    text = await _search(stage, script, _hidden(stage), enabled="on", prefetch=0, reveal="off")
    assert (text, stage.ran) == ("done", ["plant_tree of Rome", "plant_tree of Oslo"])
    assert [one.call.origin for one in stage.calls if one.call.name == "plant_tree"] == ["bridge", "model"]


@case("09b")
async def a_revealed_tool_is_offered_from_the_next_request_on(stage: Stage) -> None:
    script = [call("tool_search", queries=["plant a tree in a city"]), call("plant_tree", city="Rome"), "done"]
    await _search(stage, script, _hidden(stage), enabled="on", prefetch=0)
    assert ["plant_tree" in turn.offered for turn in stage.model.turns] == [False, True, True]
    assert stage.ran == ["plant_tree of Rome"]


@case("09c")
async def a_prefetched_tool_is_offered(stage: Stage) -> None:
    script = [call("plant_tree", city="Rome"), "done"]
    prompt = "Plant a tree in the city of Rome."
    await _search(stage, script, _hidden(stage), prompt=prompt, enabled="on", reveal="off")
    assert "plant_tree" in stage.model.turns[0].offered
    assert stage.ran == ["plant_tree of Rome"]


@case("10")
async def a_plugins_own_tool_is_offered_and_runs(stage: Stage) -> None:
    class Clock:
        @tool
        def tell_time(self, city: str) -> str:
            """Tell the time."""
            return f"noon in {city}"

    await stage.play(Clock, script=[call("tell_time", city="Rome"), "done"])
    assert "tell_time" in stage.model.turns[0].offered
    assert (stage.shown(), stage.statuses) == (["noon in Rome"], {"tell_time": "ok"})


@case("10b")
async def a_rule_by_owner_holds(stage: Stage) -> None:
    no_archive = answering("before_tool_call", hooks.Block("the archive is closed"), tools="mcp:archive:*")
    script = [[call("archive_report_0", city="Rome"), WEATHER], "done"]
    await stage.play(no_archive, script=script, tools=[*stage.tools, *stage.many_tools(1)])
    assert stage.statuses == {"archive_report_0": "blocked", "get_weather": "ok"}


@case("14")
async def repeated_call_ids_are_told_apart(stage: Stage) -> None:
    script = [Call("get_weather", {"city": "Rome"}, "same"), Call("get_weather", {"city": "Oslo"}, "same"), "done"]
    answer = await stage.play(script=script)
    assert answer.text == "done"
    assert stage.ran == stage.shown() == ["get_weather of Rome", "get_weather of Oslo"]


@case("18")
async def a_tool_that_raises_is_a_result(stage: Stage) -> None:
    def fail(arguments: dict[str, Any]) -> str:
        raise RuntimeError(f"no such city: {arguments['city']}")

    broken = Tool(name="get_weather", description="Tell the weather.", parameters=CITY, execute=fail, source="host")
    answer = await stage.play(script=[WEATHER, "done"], tools=[broken])
    assert (answer.text, stage.statuses, stage.ends) == ("done", {"get_weather": "error"}, ["completed"])
    assert "no such city: Rome" in stage.shown()[-1]


@case("23")
async def a_changed_result_is_what_model_and_store_have(stage: Stage) -> None:
    redacts = handling(
        "transform_tool_result", lambda event: hooks.Replace(event.result.text.replace("Rome", "[city]"))
    )
    async with stage.open(redacts, script=[WEATHER, "done"]) as driver:
        await driver.ask("go")
        stored = await driver.stored()
    assert (stage.shown(), list(stored)) == (["get_weather of [city]"], ["get_weather of [city]"])


@case("27")
async def a_secret_is_never_shown_to_model_or_plugins(stage: Stage) -> None:
    vault = answering("resolve_secrets", hooks.Secrets({"TOWN": "s3cr3t-value"}))
    async with stage.open(vault, script=[call("get_weather", city="{{secret:TOWN}}"), "done"]) as driver:
        await driver.ask("go")
        stored = await driver.stored()
    assert "s3cr3t-value" not in str([turn.messages for turn in stage.model.turns]) + str(stage.calls) + str(stored)
    (seen,) = stage.calls
    assert (seen.status, stage.ran) in (("ok", ["get_weather of s3cr3t-value"]), ("blocked", []))
