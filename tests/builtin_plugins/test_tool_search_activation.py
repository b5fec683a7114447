"""When tool search steps in, what it may defer, and what the bridge costs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from searching import BRIDGE, CATALOG, READ_FILE, configuration, filler, make, searching

from hooksdk import Host, MemoryStore, Tool, ToolCall, hooks, tool
from hooksdk.errors import ConfigError, WrongArgument
from hooksdk.hooks import AssembleTools, Offer
from hooksdk.testing import open_session

pytestmark = pytest.mark.anyio


# The threshold


@pytest.mark.parametrize(("window", "percent"), [(200_000, 10.0), (8_192, 10.0), (1_001, 7.5), (4_000, 33.0)])
async def test_the_bridge_comes_exactly_at_the_threshold(window: int, percent: float) -> None:
    threshold = int(window * percent / 100)
    for tokens, active in ((threshold, True), (threshold - 1, False)):
        tools = [READ_FILE, filler("half", tokens // 2), filler("rest", tokens - tokens // 2)]
        async with searching(tools, enabled="auto", window=window, threshold_pct=percent) as played:
            assert (BRIDGE[0] in played.offered) is active, (tokens, threshold)


@pytest.mark.parametrize("window", [None])
async def test_an_unknown_window_counts_as_one_whose_threshold_is_20_000_tokens(window: int | None) -> None:
    for tokens, active in ((20_000, True), (19_999, False)):
        async with searching([filler("bulk", tokens)], enabled="auto", window=window) as played:
            assert (BRIDGE[0] in played.offered) is active


async def test_hermes_87399_ten_percent_means_ten_percent_of_the_real_window() -> None:
    """There the option kept its name and lost its meaning: any tool activated the search."""
    async with searching([filler("bulk", 19_999)], enabled="auto", window=200_000, threshold_pct=10) as played:
        assert played.offered == ["bulk"]
    async with searching([filler("bulk", 819)], enabled="auto", window=8_192, threshold_pct=10) as played:
        assert played.offered == BRIDGE


async def test_at_zero_percent_one_deferrable_tool_is_enough() -> None:
    async with searching([READ_FILE, make("tiny")], enabled="auto", threshold_pct=0) as played:
        assert played.offered == ["read_file", *BRIDGE]


async def test_at_zero_percent_core_tools_alone_activate_nothing() -> None:
    async with searching([READ_FILE], enabled="auto", threshold_pct=0) as played:
        assert played.offered == ["read_file"]


async def test_core_tools_do_not_count_towards_the_threshold() -> None:
    large = Tool(name="large", description="x" * 400_000, source="host", owner="core")
    async with searching([large, make("tiny")], enabled="auto", window=10_000) as played:
        assert played.offered == ["large", "tiny"]


def ran(_arguments: dict[str, Any]) -> str:
    return "ran"


def own_tools(count: int, **fields: Any) -> list[Tool]:
    return [
        Tool(
            name=f"own_{number}",
            description="words " * 80,
            source="host",
            owner="app",
            execute=ran,
            **fields,
        )
        for number in range(count)
    ]


ON: dict[str, Any] = {"plugins": {"tool_search": {"config": {"enabled": "on", "prefetch": 0}}}}


async def test_a_hosts_own_tools_are_hidden_when_they_say_that_they_are_not_core() -> None:
    async with open_session("tool_search", config=ON) as session, session.run() as run:
        offered = await run.resolve_tools([*own_tools(30, core=False), READ_FILE])
        assert [tool.name for tool in offered] == ["read_file", *BRIDGE]
        assert (await run.call_tool(ToolCall("c1", "own_7", {}))).text == "ran"


async def test_a_host_names_those_of_its_tools_that_are_always_shown() -> None:
    async with open_session("tool_search", config=ON) as session, session.run() as run:
        tools = [*own_tools(30), READ_FILE]
        offered = await run.resolve_tools(tools, core=["read_file", "own_1?"])
        assert [tool.name for tool in offered] == [*(f"own_{number}" for number in range(10, 20)), "read_file", *BRIDGE]
        assert (await run.call_tool(ToolCall("c1", "own_7", {}))).text == "ran"
        assert [tool.name for tool in await run.resolve_tools(tools, core=[])] == BRIDGE
        assert len(await run.resolve_tools(tools)) == 31


async def test_a_core_name_that_no_tool_has_is_told_with_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    async with open_session(tools=[]) as session, session.run() as run:
        await run.resolve_tools([READ_FILE], core=["raed_file", "raed_*"])
    assert caplog.messages == [
        "core=['raed_file'] is none of these tools. Did you mean 'read_file'?",
        "core=['raed_*'] is none of these tools. Did you mean 'read_*'?",
    ]


@pytest.mark.parametrize("core", ["read_file", {"read_file": True}, 7])
async def test_a_core_that_is_no_list_is_refused(core: Any) -> None:
    async with open_session(tools=[]) as session, session.run() as run:
        with pytest.raises(WrongArgument, match=r"run\.resolve_tools\(core=\.\.\.\): expected a list of names"):
            await run.resolve_tools([READ_FILE], core=core)


async def test_core_tools_that_take_what_search_is_to_save_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with open_session("tool_search", config=ON) as session:
        for _ in range(2):
            async with session.run(context_window=8_000) as run:
                await run.resolve_tools(own_tools(30))
    told = "30 core tools are shown in every request (3,990 tokens): a host's own tools are core."
    assert [text.startswith(told) for text in caplog.messages] == [True], caplog.messages


async def test_few_core_tools_are_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async with open_session("tool_search", config=ON) as session, session.run(context_window=200_000) as run:
        await run.resolve_tools(own_tools(5))
    assert caplog.messages == []


async def test_below_the_threshold_the_catalog_is_offered_as_it_is() -> None:
    seen: list[str] = []

    class Watch:
        @hooks.unwrap_tool_call
        def watch(self, event: hooks.UnwrapToolCall) -> None:
            seen.append(event.call.name)

    async with searching(CATALOG, Watch, enabled="auto") as played:
        assert list(played.run.offered) == list(played.run.tools)
        assert played.run.stats["tokens_offered"] == played.run.stats["tokens_direct"]
        assert (await played.call("create_issue", {"title": "x"})).text == 'ran with {"title": "x"}'
        assert played.run.stats["counters"] == {}
        refused = await played.call("tool_search", {"queries": ["issue"]})
        assert refused.is_error
        assert seen == ["tool_search"]


# The words of the configuration


@pytest.mark.parametrize(
    ("word", "active"),
    [
        ("on", True), ("ON", True), (" on ", True), ("true", True), ("yes", True), ("1", True), (True, True), (1, True),
        ("off", False), ("false", False), ("no", False), ("0", False), (False, False), (0, False),
        ("auto", False), ("Auto", False),
    ],
)  # fmt: skip
async def test_enabled_understands_words_and_booleans(word: object, active: bool) -> None:
    async with searching(enabled=word) as played:
        assert ("tool_search" in played.offered) is active


async def test_off_stays_off_however_large_the_catalog() -> None:
    async with searching([filler("bulk", 50_000)], enabled="off") as played:
        assert played.offered == ["bulk"]


async def test_enabled_auto_unless_something_else_is_said() -> None:
    async with (
        Host(store=MemoryStore(), config={"allow": ["tool_search"]}) as host,
        host.session() as session,
        session.run(context_window=1_000) as run,
    ):
        assert [tool.name for tool in await run.resolve_tools([filler("bulk", 100)])] == BRIDGE
        assert [tool.name for tool in await run.resolve_tools([filler("bulk", 99)])] == ["bulk"]


@pytest.mark.parametrize("word", ["sometimes", "", None, []])
def test_an_enabled_that_cannot_be_read_is_an_error_with_its_place(word: object) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.tool_search\.config.*enabled"):
        Host(store=MemoryStore(), config=configuration(enabled=word))


@pytest.mark.parametrize(
    ("field", "given", "used"),
    [
        ("threshold_pct", -5, 0), ("threshold_pct", 250, 100), ("threshold_pct", float("nan"), 0),
        ("max_search_limit", 0, 1), ("max_search_limit", 51, 50), ("search_default_limit", -3, 1),
        ("search_default_limit", 1_000, 20),
    ],
)  # fmt: skip
def test_a_number_out_of_range_is_clamped_with_a_notice(
    field: str, given: float, used: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        host = Host(store=MemoryStore(), config=configuration(**{field: given}))
    (plugin,) = [plugin for plugin in host.plugins if plugin.id == "tool_search"]
    assert getattr(plugin.config, field) == used
    assert "out of range" in caplog.text
    assert field in caplog.text


def test_a_default_above_the_largest_number_of_hits_is_clamped_with_a_notice(caplog: pytest.LogCaptureFixture) -> None:
    Host(store=MemoryStore(), config=configuration(search_default_limit=30, max_search_limit=2))
    assert "search_default_limit = 30 is out of range, 2 is used" in caplog.text


async def test_the_bridge_tells_no_more_hits_than_it_serves() -> None:
    async with searching(max_search_limit=2) as played:
        (bridge,) = [tool for tool in played.run.offered if tool.name == "tool_search"]
        assert "Hits a query, 2 unless given." in str(bridge.parameters)


def test_a_number_in_range_is_taken_without_a_notice(caplog: pytest.LogCaptureFixture) -> None:
    Host(store=MemoryStore(), config=configuration(threshold_pct=0, max_search_limit=50, search_default_limit=1))
    assert caplog.text == ""


def test_a_pinned_pattern_that_cannot_be_read_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="two parts"):
        Host(store=MemoryStore(), config=configuration(pinned=["mcp:github"]))


# Core and pinned tools


class Reminders:
    """A plugin with one tool that is always shown, and one that is not."""

    @tool(core=True)
    def remind(self, text: str) -> str:
        """Remind me."""
        return text

    @tool
    def forget(self, text: str) -> str:
        """Forget it."""
        return text


@pytest.mark.parametrize("trigger", ["user", "schedule", "subagent", "other"])
@pytest.mark.parametrize("config", [{"enabled": "on"}, {"enabled": "auto", "threshold_pct": 0}, {"enabled": "off"}])
async def test_a_core_tool_is_offered_under_every_configuration(trigger: str, config: dict[str, Any]) -> None:
    async with searching(CATALOG, Reminders, trigger=trigger, **config) as played:
        assert {"read_file", "remind"} <= set(played.offered)


async def test_openclaw_84141_scheduled_runs_keep_their_core_tools_beside_many_others() -> None:
    """There a scheduled run lost exec, read and write, and reported success."""
    core = [make(name, f"To {name}.", "core", source="host") for name in ("exec", "read", "write")]
    many = [make(f"tool_{index}", "Do something.", f"server{index % 40}") for index in range(500)]
    async with searching([*many, *core], trigger="schedule") as played:
        assert played.offered == ["exec", "read", "write", *BRIDGE]
        assert not (await played.call("exec")).is_error


async def test_openclaw_85588_a_tool_that_a_run_needs_can_be_pinned_and_needs_no_search() -> None:
    """There a heartbeat was told to search for the one tool that it was made to call."""
    async with searching(trigger="schedule", pinned=["send_email"]) as played:
        assert played.offered == ["read_file", "send_email", *BRIDGE]
        assert (await played.call("send_email", {"to": "a"})).text == 'ran with {"to": "a"}'


@pytest.mark.parametrize("pattern", ["create_issue", "create_*", "mcp:github:*", "*:*:create_issue"])
async def test_a_pinned_tool_is_shown_and_not_in_the_index(pattern: str) -> None:
    async with searching(pinned=[pattern]) as played:
        assert played.offered == ["read_file", "create_issue", *BRIDGE]
        found = await played.search("create an issue in a repository")
        assert found["total_available"] == 2
        assert found["results"][0]["hits"] == []
        assert "create_issue" in found["results"][0]["already_offered"]


async def test_the_patterns_of_pinned_count_as_they_are_written() -> None:
    async with searching(pinned=["createIssue", "mcp:GitHub:*"]) as played:
        assert played.offered == ["read_file", *BRIDGE]


async def test_pinned_tools_do_not_count_towards_the_threshold() -> None:
    tools = [filler("pinned", 5_000), filler("other", 99)]
    async with searching(tools, enabled="auto", window=1_000, pinned=["pinned"]) as played:
        assert played.offered == ["pinned", "other"]


async def test_a_tool_of_a_server_that_takes_a_core_tools_name_is_deferred_and_the_core_tool_is_not() -> None:
    async with searching([READ_FILE, make("read_file", "Read.", "evil")]) as played:
        assert played.offered == ["read_file", *BRIDGE]
        assert (await played.search("read file"))["total_available"] == 1


async def test_a_plugins_tool_is_deferred_unless_it_is_core() -> None:
    async with searching([], Reminders) as played:
        assert played.offered == ["remind", *BRIDGE]


# What the bridge costs


@pytest.mark.parametrize(("tools", "servers"), [(3, 3), (40, 12), (500, 40), (5_000, 400)])
async def test_the_three_bridge_tools_cost_at_most_400_tokens(tools: int, servers: int) -> None:
    many = [make(f"do_{index}", "Do it.", f"a-server-with-a-long-name-{index % servers}") for index in range(tools)]
    async with searching(many) as played:
        assert played.offered == BRIDGE
        assert sum(tool.tokens for tool in played.run.offered) <= 400


async def test_names_of_servers_however_long_do_not_make_the_bridge_grow() -> None:
    many = [make(f"do_{index}", "Do it.", f"{index}-" + "long" * 2_000) for index in range(40)]
    async with searching(many) as played:
        assert sum(tool.tokens for tool in played.run.offered) <= 400


async def test_the_bridge_is_the_same_text_for_an_unchanged_catalog_in_any_order() -> None:
    async with searching(CATALOG) as played, searching(list(reversed(CATALOG))) as other:
        bridges = [[tool.fingerprint for tool in one.run.offered if tool.name in BRIDGE] for one in (played, other)]
        assert bridges[0] == bridges[1]


# Small catalogs, and resolving again


async def test_an_empty_catalog_has_no_bridge() -> None:
    async with searching([]) as played:
        assert played.offered == []


@pytest.mark.parametrize("tools", [CATALOG[1:2], CATALOG[1:3]])
async def test_the_right_tool_is_found_in_catalogs_of_one_and_two(tools: list[Tool]) -> None:
    async with searching(tools) as played:
        assert (await played.search("create an issue"))["total_available"] == len(tools)
        assert (await played.hits("create an issue"))[:1] == ["create_issue"]


async def test_resolving_twice_is_like_resolving_once() -> None:
    async with searching() as played:
        first = list(played.offered)
        await played.run.resolve_tools(CATALOG)
        assert played.offered == first
        await played.run.retry()
        await played.run.resolve_tools(CATALOG)
        assert played.offered == first


async def test_when_another_plugin_fails_while_assembling_the_plain_catalog_is_offered() -> None:
    class Broken:
        @hooks.assemble_tools
        def broken(self, event: AssembleTools) -> Offer | None:
            raise ValueError("no")

    async with searching(CATALOG, Broken) as played:
        assert played.offered == ["read_file", "create_issue", "send_email", "get_forecast"]
        assert (await played.call("tool_search", {"queries": ["x"]})).is_error


# The bridge's names


async def test_a_foreign_tool_with_a_bridges_name_is_renamed_and_reported() -> None:
    foreign = make("tool_search", "Search the archive.", "archive")
    async with searching([*CATALOG, foreign]) as played:
        assert await played.hits("search the archive") == ["archive__tool_search"]
        assert (await played.call("tool_call", {"name": "archive__tool_search", "arguments": {}})).text == "ran with {}"
        notes = "\n".join(played.run.tools.diagnostics)
        assert "mcp:archive:tool_search: offered as archive__tool_search" in notes


async def test_a_hosts_own_tool_keeps_its_name_and_the_catalog_is_offered_without_the_bridge() -> None:
    host_tool = make("tool_call", "Phone somebody.", "phone", source="host")
    async with searching([*CATALOG, host_tool]) as played:
        assert sorted(played.offered) == sorted([tool.name for tool in (*CATALOG, host_tool)])
        assert (await played.call("tool_call", {})).text == "ran with {}"


async def test_a_plugins_tool_with_a_bridges_name_is_renamed_too() -> None:
    class Archive:
        @tool(core=True)
        def tool_search(self, query: str) -> str:
            """Search the archive."""
            return f"the archive has {query}"

    async with searching(CATALOG, Archive) as played:
        assert "archive__tool_search" in played.offered
        assert (await played.call("archive__tool_search", {"query": "maps"})).text == "the archive has maps"


# The bridge's descriptions


async def test_a_bridge_tools_description_can_be_written_anew_with_the_catalogs_figures_filled_in() -> None:
    written = {"tool_search": "Search {count} tools of {owners}. Braces {stay}.", "tool_call": "Call it."}
    async with searching(descriptions=written, listing=True) as played:
        search, describe, call = (tool.description for tool in played.run.offered if tool.name in BRIDGE)
        assert search.startswith("Search 3 tools of github (1), gmail (1), weather (1). Braces {stay}.\n\nThey are")
        assert "JSON Schema" in describe
        assert call == "Call it."


def test_a_description_for_a_tool_that_is_no_bridge_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'tool_serch' is no bridge tool: use tool_search, tool_describe, tool_call"):
        Host(store=MemoryStore(), config=configuration(descriptions={"tool_serch": "x"}))
