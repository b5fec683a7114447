"""The bridges by other names, and what the model is told of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from searching import CATALOG, configuration, searching

from builtin_plugins.tool_search import ToolSearch
from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block
from tests.stage import playing
from tests.stage import reply as a_reply

pytestmark = pytest.mark.anyio

RENAMED = {"tool_call": "use_found_tool", "tool_search": "find_tools"}


async def test_the_bridges_go_by_the_names_that_are_set() -> None:
    async with searching(names=RENAMED) as played:
        assert played.offered == ["read_file", "find_tools", "tool_describe", "use_found_tool"]
        (hit,) = json.loads((await played.call("find_tools", {"queries": ["create an issue"]})).text)["results"][0][
            "hits"
        ]
        written = {"name": hit["name"], "arguments": {"title": "x"}}
        assert (await played.call("use_found_tool", written)).text == 'ran with {"title": "x"}'


async def test_every_sentence_follows_the_names_that_are_set() -> None:
    async with searching(names=RENAMED) as played:
        find = {"queries": ["create an issue"]}
        told = [tool.description for tool in played.run.offered]
        calls: list[tuple[str, dict[str, Any]]] = [
            *[("find_tools", find)] * 4,
            ("find_tools", {}),
            *[("use_found_tool", {"name": "find_tools", "arguments": find})] * 2,
            *[("use_found_tool", {"name": "use_found_tool", "arguments": {"name": "create_issue"}})] * 2,
            *[("use_found_tool", {"name": "github", "arguments": {"command": "create"}})] * 2,
            ("use_found_tool", {"name": "read_file"}),
            ("use_found_tool", {"name": "zzz"}),
            ("use_found_tool", {}),
            ("use_found_tool", {"calls": []}),
            ("github", {"command": "create"}),
            ("slack_post", {"text": "x"}),
        ]
        for name, arguments in calls:
            told.append((await played.call(name, arguments)).text)
        await played.run.record(a_reply(text='{"name": "create_issue", "arguments": {"title": "x"}}'))
        told.append(played.run.reminder or "")
    assert "use_found_tool" in told[-1]
    assert not [text for text in told if "tool_call" in text or "tool_search" in text]


async def test_the_usual_name_of_a_renamed_bridge_is_answered_with_the_one_that_it_has() -> None:
    async with searching(names=RENAMED) as played:
        result = await played.call("tool_search", {"queries": ["x"]})
        assert result.text == "'tool_search' was not run: it is called find_tools here. Call find_tools."


@pytest.mark.parametrize("pattern", ["tool_search", "find_tools", "plugin:tool_search:tool_search", "*_search"])
async def test_a_policys_pattern_meets_a_bridge_by_its_usual_name_and_by_the_one_that_is_set(pattern: str) -> None:
    class Policy:
        @hooks.before_tool_call(tools=pattern)
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("no searching")

    async with searching(CATALOG, Policy, names=RENAMED) as played:
        assert "no searching" in (await played.call("find_tools", {"queries": ["x"]})).text


async def test_a_rule_of_the_policy_file_meets_a_renamed_bridge() -> None:
    rules = [{"tools": ["tool_search"], "action": "deny", "reason": "no searching"}]
    config = configuration(enabled="on", names=RENAMED)
    config["allow"].append("tool_policy")
    config["plugins"]["tool_policy"] = {"config": {"rules": rules}}
    async with playing(tools=CATALOG, config=config, context_window=200_000) as stage:
        assert "no searching" in (await stage.call("find_tools", {"queries": ["x"]})).text


async def test_the_trace_names_a_renamed_bridge_as_the_model_does_and_its_id_stays() -> None:
    seen: list[dict[str, Any]] = []

    class Watch:
        @hooks.trace
        async def keep(self, event: hooks.Trace) -> None:
            if event.kind in ("unwrapped", "call_started"):
                seen.append(event.record.as_dict())

    async with searching(CATALOG, Watch, names=RENAMED) as played:
        await played.call("find_tools", {"queries": ["x"]})
        await played.call("use_found_tool", {"name": "create_issue", "arguments": {"title": "x"}})
    assert [(one.get("name"), one.get("tool")) for one in seen if "bridge" not in one] == [
        ("find_tools", "plugin:tool_search:tool_search"),
        ("create_issue", "mcp:github:create_issue"),
    ]
    assert [one["bridge"] for one in seen if "bridge" in one] == ["use_found_tool"]


async def test_code_mode_goes_by_the_name_that_is_set() -> None:
    pytest.importorskip("pydantic_monty")
    async with searching(names={"tool_search_code": "run_script"}, mode="code") as played:
        assert played.offered == ["read_file", "run_script"]
        written = {"code": 'await call("create_issue", {"title": "x"})'}
        assert "ran with" in (await played.call("run_script", written)).text
        assert "run_script" in (await played.call("slack_post", {})).text


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"tool_find": "x"}, "'tool_find' is no bridge tool: use tool_search"),
        ({"tool_call": "use found"}, "'use found' is no name that every provider takes"),
        ({"tool_call": "x" * 65}, "is no name that every provider takes"),
        ({"tool_call": ""}, "is no name that every provider takes"),
        ({"tool_call": "tool_search"}, "two bridge tools are called 'tool_search'"),
        ({"tool_call": "Find", "tool_search": "find"}, "two bridge tools are called 'find'"),
    ],
)
def test_names_that_cannot_be_are_refused_when_the_configuration_is_read(names: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        ToolSearch.Config(names=names)


async def test_two_bridges_may_take_each_others_names() -> None:
    async with searching(names={"tool_call": "tool_describe", "tool_describe": "tool_call"}) as played:
        assert "create_issue" in (await played.call("tool_call", {"names": ["create_issue"]})).text
        assert (await played.call("tool_describe", {"name": "send_email", "to": "a"})).text == 'ran with {"to": "a"}'


async def test_the_bridge_says_when_to_search_and_that_sources_are_no_tools() -> None:
    async with searching() as played:
        (told,) = [tool.description for tool in played.run.offered if tool.name == "tool_search"]
    assert "Call this first whenever none of the tools shown does exactly what is asked" in told
    assert "do not write files or run commands in place of such a tool" in told
    assert "Sources (not tools): github (1), gmail (1), weather (1)." in told
