"""The example of one plugin, unchanged in every framework: denied, asked (yes, no, a restart in between) and trimmed."""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from hooksdk import Host, MemoryStore, Tool, hooks
from hooksdk.approvals import Later
from hooksdk.config import Config
from hooksdk.hooks import AfterToolsResolved
from hooksdk.testing import Driver, Program, ScriptedApprover, ScriptedModel, call
from tests.hooksdk.loop_drivers import JudgeDriver, RunAgentDriver, SyncDriver

EXAMPLE = Path(__file__).parents[2] / "examples" / "one_plugin.py"
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
LISTING = "a file of many\n" * 300


def keeper() -> Any:
    spec = importlib.util.spec_from_file_location("one_plugin", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Keeper


def tools(deleted: list[str]) -> list[Tool]:
    def delete_file(arguments: dict[str, Any]) -> str:
        deleted.append(arguments["path"])
        return f"deleted {arguments['path']}"

    def list_files(arguments: dict[str, Any]) -> str:
        return f"{arguments['path']}: {LISTING}"

    return [
        Tool(name="delete_file", description="Delete a file.", source="host", parameters=PATH, execute=delete_file),
        Tool(name="list_files", description="List a folder.", source="host", parameters=PATH, execute=list_files),
    ]


OWN: list[type[Driver]] = [RunAgentDriver, JudgeDriver, SyncDriver]
FRAMEWORKS = {
    "langchain": "LangChainDriver", "openai_agents": "OpenAIAgentsDriver", "google_adk": "GoogleADKDriver",
    "pydantic_ai": "PydanticAIDriver", "strands": "StrandsDriver",
}  # fmt: skip


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_the_same_file_in_a_framework(framework: str):
    pytest.importorskip(f"hooksdk.adapters.{framework}", reason=f"{framework} is not installed", exc_type=ImportError)
    driver = getattr(importlib.import_module(f"tests.hooksdk.{framework}_driver"), FRAMEWORKS[framework])
    await denies_asks_and_trims(driver(), approver=None)


async def test_the_same_file_in_front_of_a_server_whose_conversations_nobody_sees():
    """Denied and asked; what is trimmed is up to the client."""
    fastmcp = pytest.importorskip("fastmcp", reason="fastmcp is not installed")
    adapter = importlib.import_module("hooksdk.adapters.fastmcp")
    driver = importlib.import_module("tests.hooksdk.fastmcp_driver")
    deleted: list[str] = []
    server = fastmcp.FastMCP("files", tools=[*map(driver.ServedTool.of, tools(deleted))])
    host = Host([keeper()], store=MemoryStore(), config=Config(allow=[]), folder=str(EXAMPLE.parent))

    async def person(message: str, *_: object) -> dict[str, str]:
        return {"value": "allow" if "a.txt" in message else "deny"}

    async with host, aclosing(adapter.HookSDK(host)) as hooked:
        server.add_middleware(hooked)
        async with fastmcp.Client(server, elicitation_handler=person) as client:
            told = [
                str((await client.call_tool("delete_file", {"path": path}, raise_on_error=False)).content)
                for path in ("a.toml", "a.txt", "b.txt")
            ]
    assert ["settings stay" in told[0], "deleted a.txt" in told[1], "said no" in told[2]] == [True] * 3
    assert deleted == ["a.txt"]


@pytest.mark.parametrize("driver", OWN)
async def test_the_same_file_in_a_loop_of_hooksdks(driver: type[Driver]):
    await denies_asks_and_trims(driver(), approver=ScriptedApprover(Later()))


async def test_the_same_file_in_claude_sdk_whose_own_program_asks_in_place_and_keeps_its_messages():
    pytest.importorskip("hooksdk.adapters.claude_sdk", reason="claude_sdk is not installed", exc_type=ImportError)
    sdk: Any = importlib.import_module("claude_agent_sdk")
    driver: Any = importlib.import_module("tests.hooksdk.claude_sdk_driver")
    asked: list[str] = []

    async def person(name: str, arguments: dict[str, Any], context: Any) -> Any:
        if name == "list_files":
            return sdk.PermissionResultAllow()
        asked.append(context.decision_reason)
        return (
            sdk.PermissionResultAllow() if arguments["path"] == "a.txt" else sdk.PermissionResultDeny(message="keep it")
        )

    playing, deleted = driver.ClaudeSDKDriver(), list[str]()
    playing.more = {"can_use_tool": person, "allowed_tools": []}
    asks = [call("delete_file", path="a.txt"), call("delete_file", path="b.txt")]
    script = [[call("list_files", path="."), call("delete_file", path="a.toml")], "listed", asks, "done"]
    whole = program(keeper(), MemoryStore(), None, deleted, *script)
    async with playing.start(whole):
        assert (await playing.ask("list and delete")).text == "listed"
        assert "settings stay" in str(whole.model.turns[1].messages)
        assert (await playing.ask("delete two more")).text == "done"
    assert (asked, deleted) == (["Delete a.txt?", "Delete b.txt?"], ["a.txt"])


def program(plugin: Any, store: Any, approver: Any, deleted: list[str], *script: Any) -> Program:
    config = Config(allow=[])
    host: Any = {
        "plugins": [plugin],
        "store": store,
        "config": config,
        "approver": approver,
        "folder": str(EXAMPLE.parent),
    }
    return Program(host=host, tools=tools(deleted), model=ScriptedModel(script))


async def denies_asks_and_trims(playing: Driver, approver: Any) -> None:
    deleted: list[str] = []
    plays = partial(program, keeper(), MemoryStore(), approver, deleted)

    asks = [call("delete_file", path="a.txt"), call("delete_file", path="b.txt")]
    first = plays([call("list_files", path="."), call("delete_file", path="a.toml")], "listed", asks)
    async with playing.start(first):
        assert (await playing.ask("list and delete")).text == "listed"
        assert "settings stay" in str(first.model.turns[1].messages)
        yes, no = (await playing.ask("delete two more")).waiting
        assert deleted == []
    trimmed = [one for one in first.model.turns[2].messages if one["role"] == "tool"]
    assert "read already" in trimmed[0]["content"]
    assert len(trimmed[0]["content"]) < 200
    second = plays("done")
    async with playing.start(second):
        assert (await playing.answer({yes: True, no: False})).text == "done"
    assert deleted == ["a.txt"]


class LooksAtLimits:
    limits: list[float] = []

    @hooks.after_tools_resolved
    def look(self, event: AfterToolsResolved) -> None:
        self.limits.extend(tool.timeout for tool in event.offered)


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_tool_of_a_framework_may_take_as_long_as_that_lets_it(framework: str):
    pytest.importorskip(f"hooksdk.adapters.{framework}", reason=f"{framework} is not installed", exc_type=ImportError)
    driver = getattr(importlib.import_module(f"tests.hooksdk.{framework}_driver"), FRAMEWORKS[framework])()
    LooksAtLimits.limits.clear()
    options: Any = {
        "plugins": [LooksAtLimits],
        "config": Config(allow=[]),
        "store": MemoryStore(),
        "folder": str(EXAMPLE.parent),
    }
    async with driver.start(Program(host=options, tools=tools([]), model=ScriptedModel(["done"]))):
        await driver.ask("hello")
    assert len(LooksAtLimits.limits) == 2
    assert min(LooksAtLimits.limits) > 24 * 3600
