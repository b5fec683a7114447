"""Conformance, first part: what happens to a call."""

from __future__ import annotations

from typing import Any

import anyio

from hooksdk import hooks
from hooksdk.catalog import ToolContext
from hooksdk.hooks import (
    BeforeToolCall,
    Block,
    NarrowTools,
    Replace,
    ResolveSecrets,
    Rewrite,
    RewriteToolCall,
    Secrets,
    TransformToolResult,
    Withhold,
)
from hooksdk.testing._conformance import Stage
from hooksdk.testing._model import Call, Turn, call, say
from hooksdk.tools import Tool, tool

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Town:
    """Tools that note what they were called with."""

    def __init__(self) -> None:
        self.ran: list[dict[str, Any]] = []
        self.tools = [self.make("get_weather", "Tell the weather."), self.make("delete_city", "Delete a city.")]

    def make(self, name: str, description: str, *, owner: str = "") -> Tool:
        async def execute(arguments: dict[str, Any]) -> str:
            self.ran.append({"tool": name, **arguments})
            return f"{name} of {arguments['city']}"

        source = "mcp" if owner else "host"
        return Tool(
            name=name,
            description=description,
            parameters=CITY,
            execute=execute,
            source=source,
            owner=owner,
            core=not owner,
        )

    def many(self, count: int) -> list[Tool]:
        """Tools that fill a small context window."""
        return [
            self.make(f"archive_report_{one}", f"Archive report number {one}.", owner="archive") for one in range(count)
        ]


WEATHER = call("get_weather", city="Rome")
DELETE = call("delete_city", city="Rome")


class Denies:
    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block:
        return Block("nothing is deleted here")


async def a_denied_call_does_not_run(stage: Stage) -> None:
    town = Town()
    async with stage.open(Denies, script=[[DELETE, WEATHER], "done"], tools=town.tools) as driver:
        answer = await driver.ask("go")
    assert (answer.text, [one["tool"] for one in town.ran]) == ("done", ["get_weather"])
    assert stage.statuses == {"delete_city": "blocked", "get_weather": "ok"}
    assert any("nothing is deleted here" in text for text in stage.shown())


async def _broken(stage: Stage, plugin: type) -> None:
    town = Town()
    async with stage.open(plugin, script=[WEATHER, "done"], tools=town.tools) as driver:
        answer = await driver.ask("go")
    assert (answer.text, town.ran, stage.statuses) == ("done", [], {"get_weather": "blocked"})


async def a_policy_that_raises_blocks(stage: Stage) -> None:
    class Raises:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            raise RuntimeError("broken")

    await _broken(stage, Raises)


async def a_policy_that_hangs_blocks(stage: Stage) -> None:
    class Hangs:
        @hooks.before_tool_call(timeout=0.05)
        async def judge(self, event: BeforeToolCall) -> None:
            await anyio.sleep_forever()

    await _broken(stage, Hangs)


async def a_policy_that_answers_nonsense_blocks(stage: Stage) -> None:
    class Babbles:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Any:
            return "fine"

    await _broken(stage, Babbles)


async def a_withheld_tool_is_neither_shown_nor_run(stage: Stage) -> None:
    class Withholds:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold(["delete_city"], "not in this house")

    town = Town()
    async with stage.open(Withholds, script=[DELETE, "done"], tools=town.tools) as driver:
        await driver.ask("go")
    assert [turn.offered for turn in stage.model.turns] == [["get_weather"]] * 2
    assert town.ran == []
    assert list(stage.statuses.values()) == ["blocked"]


async def rewritten_arguments_are_judged_and_run(stage: Stage) -> None:
    judged: list[object] = []

    class Rewrites:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"city": "Oslo"})

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            judged.append(event.arguments)

    town = Town()
    async with stage.open(Rewrites, script=[WEATHER, "done"], tools=town.tools) as driver:
        await driver.ask("go")
    assert (judged, town.ran) == ([{"city": "Oslo"}], [{"tool": "get_weather", "city": "Oslo"}])
    assert stage.shown() == ["get_weather of Oslo"]


async def a_rewrite_to_nonsense_is_refused(stage: Stage) -> None:
    class Rewrites:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"town": ["Oslo"]})

    town = Town()
    async with stage.open(Rewrites, script=[WEATHER, "done"], tools=town.tools) as driver:
        await driver.ask("go")
    assert town.ran == []
    assert stage.statuses["get_weather"] != "ok"


async def wrong_arguments_are_told_to_model_and_plugins(stage: Stage) -> None:
    town = Town()
    script = [Call("get_weather", {"city": ["Rome", 7]}), "done"]
    async with stage.open(script=script, tools=town.tools) as driver:
        answer = await driver.ask("go")
    assert (answer.text, town.ran, stage.statuses) == ("done", [], {"get_weather": "invalid"})
    assert "city" in stage.shown()[-1]


async def an_unknown_name_is_told_to_model_and_plugins(stage: Stage) -> None:
    town = Town()
    async with stage.open(script=[call("book_train", city="Rome"), "done"], tools=town.tools) as driver:
        answer = await driver.ask("go")
    assert (answer.text, town.ran, stage.statuses) == ("done", [], {"book_train": "unknown"})


async def the_catalog_is_told_once_a_run(stage: Stage) -> None:
    town = Town()
    async with stage.open(script=[WEATHER, WEATHER, "done"], tools=town.tools) as driver:
        await driver.ask("go")
    (told,) = stage.seen.of(hooks.AfterToolsResolved)
    assert sorted(one.name for one in told.catalog) == ["delete_city", "get_weather"]


async def every_call_is_seen_once(stage: Stage) -> None:
    town = Town()
    cities = ["Rome", "Oslo", "Lima", "Bern"]
    script = [[call("get_weather", city=one) for one in cities], "done"]
    async with stage.open(script=script, tools=town.tools) as driver:
        await driver.ask("go")
    assert sorted(one["city"] for one in town.ran) == sorted(cities)
    assert sorted(one.call.arguments["city"] for one in stage.calls) == sorted(cities)
    assert stage.shown() == [f"get_weather of {one}" for one in cities]


async def calls_of_a_script_are_judged_each(stage: Stage) -> None:
    class Script:
        @tool
        async def run_script(self, city: str, context: ToolContext) -> str:
            """Run the script."""
            results = [await context.call_tool(name, {"city": city}) for name in ("get_weather", "delete_city")]
            return " / ".join(result.text for result in results)

    town = Town()
    async with stage.open(Denies, Script, script=[call("run_script", city="Rome"), "done"], tools=town.tools) as driver:
        await driver.ask("go")
    assert [one["tool"] for one in town.ran] == ["get_weather"]
    assert stage.statuses == {"get_weather": "ok", "delete_city": "blocked", "run_script": "ok"}


def _search(**settings: Any) -> dict[str, Any]:
    return {"plugins": {"tool_search": {"config": settings}}}


SEARCH = _search(enabled="on", prefetch=0, reveal="off")
REVEALS = _search(enabled="on", prefetch=0)
PREFETCHES = _search(enabled="on", reveal="off")
AUTO = _search(prefetch=0)


async def below_the_threshold_all_tools_are_shown(stage: Stage) -> None:
    town = Town()
    tools = [*town.tools, *town.many(5)]
    async with stage.open(script=["done"], tools=tools, allow=["tool_search"], config=AUTO) as driver:
        await driver.ask("go")
    assert sorted(stage.model.turns[0].offered) == sorted(one.name for one in tools)


async def above_the_threshold_tools_are_deferred(stage: Stage) -> None:
    town = Town()
    async with stage.open(
        script=["done"], tools=[*town.tools, *town.many(40)], allow=["tool_search"], config=SEARCH
    ) as driver:
        await driver.ask("go")
    offered = stage.model.turns[0].offered
    assert {"get_weather", "tool_search", "tool_call"} <= set(offered)
    assert not [name for name in offered if name.startswith("archive_")]


async def a_deferred_tool_is_found_and_called(stage: Stage) -> None:
    town = Town()
    wanted = town.make("plant_tree", "Plant a tree in a city.", owner="garden")

    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return call("tool_search", queries=["plant a tree"])
        if turn.number == 2:
            assert "plant_tree" in turn.result.text
            return call("tool_call", name="plant_tree", arguments={"city": "Rome"})
        return call("plant_tree", city="Oslo") if turn.number == 3 else "done"

    async with stage.open(
        script=script, tools=[*town.many(40), wanted], allow=["tool_search"], config=SEARCH
    ) as driver:
        answer = await driver.ask("go")
    assert answer.text == "done"
    assert town.ran == [{"tool": "plant_tree", "city": "Rome"}, {"tool": "plant_tree", "city": "Oslo"}]
    assert [one.call.origin for one in stage.calls if one.call.name == "plant_tree"] == ["bridge", "model"]


async def a_revealed_tool_is_offered_from_the_next_request_on(stage: Stage) -> None:
    town = Town()
    wanted = town.make("plant_tree", "Plant a tree in a city.", owner="garden")
    script = [call("tool_search", queries=["plant a tree in a city"]), call("plant_tree", city="Rome"), "done"]
    async with stage.open(
        script=script, tools=[*town.many(40), wanted], allow=["tool_search"], config=REVEALS
    ) as driver:
        await driver.ask("go")
    assert ["plant_tree" in turn.offered for turn in stage.model.turns] == [False, True, True]
    assert town.ran == [{"tool": "plant_tree", "city": "Rome"}]


async def a_prefetched_tool_is_offered(stage: Stage) -> None:
    town = Town()
    wanted = town.make("plant_tree", "Plant a tree in a city.", owner="garden")
    script = [call("plant_tree", city="Rome"), "done"]
    async with stage.open(
        script=script, tools=[*town.many(40), wanted], allow=["tool_search"], config=PREFETCHES
    ) as driver:
        await driver.ask("Plant a tree in the city of Rome.")
    assert "plant_tree" in stage.model.turns[0].offered
    assert town.ran == [{"tool": "plant_tree", "city": "Rome"}]


async def a_plugins_own_tool_is_offered_and_runs(stage: Stage) -> None:
    class Clock:
        @tool
        def tell_time(self, city: str) -> str:
            """Tell the time."""
            return f"noon in {city}"

    async with stage.open(Clock, script=[call("tell_time", city="Rome"), "done"], tools=Town().tools) as driver:
        await driver.ask("go")
    assert "tell_time" in stage.model.turns[0].offered
    assert (stage.shown(), stage.statuses) == (["noon in Rome"], {"tell_time": "ok"})


async def a_rule_by_owner_holds(stage: Stage) -> None:
    class NoArchive:
        @hooks.before_tool_call(tools="mcp:archive:*")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("the archive is closed")

    town = Town()
    script = [[call("archive_report_0", city="Rome"), WEATHER], "done"]
    async with stage.open(NoArchive, script=script, tools=[*town.tools, *town.many(1)]) as driver:
        await driver.ask("go")
    assert stage.statuses == {"archive_report_0": "blocked", "get_weather": "ok"}


async def repeated_call_ids_are_told_apart(stage: Stage) -> None:
    town = Town()
    script = [Call("get_weather", {"city": "Rome"}, "same"), Call("get_weather", {"city": "Oslo"}, "same"), "done"]
    async with stage.open(script=script, tools=town.tools) as driver:
        answer = await driver.ask("go")
    assert answer.text == "done"
    assert [one["city"] for one in town.ran] == ["Rome", "Oslo"]
    assert stage.shown() == ["get_weather of Rome", "get_weather of Oslo"]


async def a_tool_that_raises_is_a_result(stage: Stage) -> None:
    def fail(arguments: dict[str, Any]) -> str:
        raise RuntimeError(f"no such city: {arguments['city']}")

    broken = Tool(name="get_weather", description="Tell the weather.", parameters=CITY, execute=fail, source="host")
    async with stage.open(script=[WEATHER, "done"], tools=[broken]) as driver:
        answer = await driver.ask("go")
    assert (answer.text, stage.statuses, stage.ends) == ("done", {"get_weather": "error"}, ["completed"])
    assert "no such city: Rome" in stage.shown()[-1]


async def a_changed_result_is_what_model_and_store_have(stage: Stage) -> None:
    class Redacts:
        @hooks.transform_tool_result
        def redact(self, event: TransformToolResult) -> Replace:
            return Replace(event.result.text.replace("Rome", "[city]"))

    async with stage.open(Redacts, script=[WEATHER, "done"], tools=Town().tools) as driver:
        await driver.ask("go")
        stored = await driver.stored()
    assert (stage.shown(), list(stored)) == (["get_weather of [city]"], ["get_weather of [city]"])


async def a_secret_is_never_shown_to_model_or_plugins(stage: Stage) -> None:
    class Vault:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets:
            return Secrets({"TOWN": "s3cr3t-value"})

    town = Town()
    script = [call("get_weather", city="{{secret:TOWN}}"), "done"]
    async with stage.open(Vault, script=script, tools=town.tools) as driver:
        await driver.ask("go")
        stored = await driver.stored()
    assert "s3cr3t-value" not in str([turn.messages for turn in stage.model.turns]) + str(stage.calls) + str(stored)
    (seen,) = stage.calls
    filled = [{"tool": "get_weather", "city": "s3cr3t-value"}]
    assert (seen.status, town.ran) in (("ok", filled), ("blocked", []))


async def prose_beside_calls_is_kept(stage: Stage) -> None:
    async with stage.open(script=[say("One moment.", WEATHER), "done"], tools=Town().tools) as driver:
        await driver.ask("go")
    assert "One moment." in str(stage.model.turns[1].messages)
    assert stage.shown() == ["get_weather of Rome"]


CASES = [
    ("01", a_denied_call_does_not_run),
    ("02", a_policy_that_raises_blocks),
    ("02", a_policy_that_hangs_blocks),
    ("02", a_policy_that_answers_nonsense_blocks),
    ("03", a_withheld_tool_is_neither_shown_nor_run),
    ("04", rewritten_arguments_are_judged_and_run),
    ("04b", a_rewrite_to_nonsense_is_refused),
    ("05", wrong_arguments_are_told_to_model_and_plugins),
    ("05b", an_unknown_name_is_told_to_model_and_plugins),
    ("06", the_catalog_is_told_once_a_run),
    ("07", every_call_is_seen_once),
    ("07b", calls_of_a_script_are_judged_each),
    ("08", below_the_threshold_all_tools_are_shown),
    ("08b", above_the_threshold_tools_are_deferred),
    ("09", a_deferred_tool_is_found_and_called),
    ("09b", a_revealed_tool_is_offered_from_the_next_request_on),
    ("09c", a_prefetched_tool_is_offered),
    ("10", a_plugins_own_tool_is_offered_and_runs),
    ("10b", a_rule_by_owner_holds),
    ("14", repeated_call_ids_are_told_apart),
    ("18", a_tool_that_raises_is_a_result),
    ("07c", prose_beside_calls_is_kept),
    ("23", a_changed_result_is_what_model_and_store_have),
    ("27", a_secret_is_never_shown_to_model_or_plugins),
]
