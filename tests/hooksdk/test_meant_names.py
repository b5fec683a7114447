"""Calls by names that mean one tool: they go through the whole gate under its real name."""

from __future__ import annotations

from typing import Any

import pytest

from hooksdk import ToolContext, hooks, tool
from hooksdk.hooks import BeforeToolCall, Block, NarrowTools, Trace, Withhold
from tests.stage import make, playing

pytestmark = pytest.mark.anyio

TOOLS = [
    make("scale", source="mcp", owner="kubectl", required=["path"]),
    make("scale", source="mcp", owner="image", properties={"image": {"type": "string"}}, required=["image"]),
    make("git_log", source="mcp", owner="git"),
]
WAYS: list[tuple[str, dict[str, Any], str]] = [
    ("git.git_log", {}, "git_log"),
    ("functions.git_log", {}, "git_log"),
    ("git_log(path?: string)", {}, "git_log"),
    ("kubectl.scale", {"path": "a"}, "kubectl__scale"),
    ("scale", {"image": "a"}, "image__scale"),
]


class Recorder:
    """Judges and keeps what it is shown."""

    def __init__(self) -> None:
        self.judged: list[str] = []
        self.written: list[tuple[str, str, str]] = []

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> None:
        assert event.call.name == event.tool.name
        self.judged.append(event.call.name)

    @hooks.trace
    async def keep(self, event: Trace) -> None:
        if event.kind == "unwrapped":
            record = event.record.as_dict()
            self.written.append((record["bridge"], record["tool"], record["written"]))

    @tool
    async def relay(self, name: str, arguments: dict[str, Any], context: ToolContext) -> str:
        """Call another tool."""
        return (await context.call_tool(name, arguments)).text


@pytest.mark.parametrize("nested", [False, True], ids=["direct", "nested"])
@pytest.mark.parametrize(("written", "arguments", "meant"), WAYS)
async def test_a_call_by_another_name_is_judged_and_run_under_the_real_one_and_traced_as_written(
    written: str, arguments: dict[str, Any], meant: str, nested: bool
) -> None:
    async with playing(Recorder, tools=TOOLS) as stage:
        if nested:
            result = await stage.call("relay", {"name": written, "arguments": arguments})
        else:
            result = await stage.call(written, arguments)
        assert result.text.startswith("ran with")
        recorder = stage.session.plugin("recorder")
        assert [name for name in recorder.judged if name != "relay"] == [meant]
        assert stage.session.results.list()[0].tool == ("relay" if nested else meant)
    assert recorder.written == [("", meant, written)]


@pytest.mark.parametrize(("written", "arguments", "meant"), WAYS)
async def test_a_policy_by_the_real_name_blocks_every_way_of_writing_it(
    written: str, arguments: dict[str, Any], meant: str
) -> None:
    class Policy:
        @hooks.before_tool_call(tools=meant)
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("not here")

    async with playing(Policy, tools=TOOLS) as stage:
        assert "not here" in (await stage.call(written, arguments)).text


@pytest.mark.parametrize(("written", "arguments", "meant"), WAYS)
async def test_a_withheld_tool_is_reached_by_no_way_of_writing_its_name(
    written: str, arguments: dict[str, Any], meant: str
) -> None:
    class Policy:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold([meant], "not here")

    async with playing(Policy, tools=TOOLS) as stage:
        result = await stage.call(written, arguments)
        assert result.is_error
        assert "was not run" in result.text
