"""The gateway behind real clients from npm: the inspector's command line, and coding agents whose model is a script."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from real_clients import AGENTS, TIME_LIMIT, Agent, Desk, Plan, program
from scripted_servers import Scripted

from hooksdk import schema
from hooksdk.testing.server import ScriptedServer

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

LIBRARY = Path(__file__).parents[1] / "servers" / "library.py"


def tool(name: str, description: str) -> dict[str, Any]:
    path = {"type": "object", "properties": {"path": {"type": "string", "description": "Which note."}}}
    return {"name": name, "description": description, "inputSchema": path}


NOTES = (
    tool("read_note", "Read a note by its path."),
    tool("delete_note", "Delete a note for ever."),
    tool("mail_note", "Mail a note to somebody."),
)
RULES = """
[plugins.tool_search.config]
enabled = "on"

[plugins.tool_policy.config]
rules = [
  { action = "deny", tools = "delete_note", reason = "Notes are kept." },
  { action = "ask", tools = "mail_note", reason = "Mail leaves the house." },
]
"""


def many(count: int) -> list[dict[str, Any]]:
    return [tool(f"task_{number}", f"Do task {number} for somebody, and say how it went.") for number in range(count)]


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> Agent:
    agent = AGENTS[request.param]
    program(agent.program)
    return agent


async def test_an_agent_works_behind_the_gateway_that_was_installed_in_its_servers_place(tmp_path: Path, agent: Agent):
    plan = Plan(
        agent,
        ("tool_search", {"queries": ["read a note"]}),
        ("tool_call", {"name": "read_note", "arguments": {"path": "a"}}),
        ("tool_call", {"name": "mail_note", "arguments": {"path": "a"}}),
        ("tool_call", {"name": "delete_note", "arguments": {"path": "a"}}),
    )
    async with ScriptedServer(plan) as server:
        desk = Desk(tmp_path, agent, server, *NOTES, *many(60))
        desk.configure(RULES)
        before = desk.servers()
        installed = await desk.gateway("install")
        assert (installed.code, list(desk.servers())) == (0, ["hooksdk"]), installed
        done = await desk.ask()
        assert done.code == 0, done
    assert len(plan.results) == 4, (plan.results, done)
    found, read, mailed, deleted = plan.results
    assert "read_note(path?: string)" in found.text
    assert "delete_note" not in found.text
    assert "read_note by" in read.text
    assert "approv" in mailed.text
    assert "Notes are kept." in deleted.text
    assert "Notes are kept." in done.out
    assert desk.notes.asked.count("tools/call") == 1
    assert (await desk.gateway("uninstall")).code == 0
    assert desk.servers() == before


@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if agent.dialog])
async def test_a_person_at_an_agents_terminal_is_asked_and_says_yes(tmp_path: Path, name: str):
    agent = AGENTS[name]
    program(agent.program)
    plan = Plan(agent, ("tool_call", {"name": "mail_note", "arguments": {"path": "a"}}))
    async with ScriptedServer(plan) as server:
        desk = Desk(tmp_path, agent, server, *NOTES)
        desk.configure(RULES + "\n[gateway.approvals]\nwait = 120\n")
        await desk.gateway("install")
        await desk.sit_down()
    assert "mail_note by" in plan.results[0].text
    assert desk.notes.asked.count("tools/call") == 1


async def test_claude_code_keeps_its_commands_and_resources_behind_the_gateway(tmp_path: Path):
    agent = AGENTS["claude-code"]
    program(agent.program)
    plan = Plan(agent, ("ReadMcpResourceTool", {"server": "hooksdk", "uri": "note://a"}))
    entry = {"type": "stdio", "command": sys.executable, "args": [str(LIBRARY)]}
    async with ScriptedServer(plan) as server:
        desk = Desk(tmp_path, agent, server, entry=entry)
        await desk.gateway("install")
        done = await desk.ask(prompt="/mcp__hooksdk__review diary.md")
    assert done.code == 0, done
    assert any("Review the note diary.md with great care." in json.dumps(one.body) for one in server.requests)
    assert "buy milk" in plan.results[0].text


async def test_an_agents_requests_are_smaller_with_the_gateway(tmp_path: Path, agent: Agent):
    tokens: list[int] = []
    for installs in (False, True):
        async with ScriptedServer(Plan(agent)) as server:
            desk = Desk(tmp_path / str(installs), agent, server, *many(1860))
            if installs:
                await desk.gateway("install")
            done = await desk.ask()
        assert done.code == 0, done
        tokens.append(max(schema.estimate_tokens(request.body) for request in server.requests))
    directly, through = tokens
    print(f"{agent.name}: {directly} tokens without the gateway, {through} with it")
    assert through < directly / 2


async def test_claude_codes_request_has_the_four_tools_that_install_has_promised(tmp_path: Path):
    agent = AGENTS["claude-code"]
    program(agent.program)
    sizes: list[tuple[int, int]] = []
    for expose in ("direct", "auto"):
        async with ScriptedServer(Plan(agent)) as server:
            desk = Desk(tmp_path / expose, agent, server, *many(61))
            figures = (await desk.gateway("install", "--expose", expose, "--json")).json()["figures"]
            done = await desk.ask()
        assert done.code == 0, done
        requests = [[one for one in request.body.get("tools", ()) if is_ours(one)] for request in server.requests]
        most = max(requests, key=len)
        sizes.append((len(most), len(json.dumps(most).encode())))
        assert len(most) in ((61, 62) if expose == "direct" else (figures["behind"],))
    (_, directly), (count, through) = sizes
    print(f"tools and bytes of its request: {sizes}")
    assert (count, through < directly / 5) == (4, True)


def is_ours(tool: dict[str, Any]) -> bool:
    return str(tool.get("name")).startswith("mcp__hooksdk__")


async def inspect(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the inspector's command line prints of a gateway in front of the notes."""
    command = program("mcp-inspector")
    notes = Scripted(folder / "notes", *NOTES, *many(60))
    (folder / "notes.json").write_text(json.dumps({"mcpServers": {"notes": notes.entry}}))
    (folder / ".config" / "hooksdk").mkdir(parents=True)
    (folder / ".config" / "hooksdk" / "config.toml").write_text(RULES)
    # A program without arguments: the inspector takes options of the server's command for its own.
    gateway = folder / "gateway"
    command_line = [sys.executable, "-P", "-m", "hooksdk", "gateway", "--config", str(folder / "notes.json")]
    gateway.write_text(f"#!/bin/sh\nexec {shlex.join(command_line)} 2> gateway.err\n")
    gateway.chmod(0o755)
    kept = [f"HOOKSDK_HOME={folder / 'kept'}", f"XDG_CONFIG_HOME={folder / '.config'}"]
    how = ["--cli", *(part for pair in kept for part in ("-e", pair)), str(gateway)]
    with anyio.fail_after(TIME_LIMIT):
        done = await anyio.run_process([str(command), *how, *arguments], cwd=folder, check=False)
    assert done.returncode == 0, (done.stderr, (folder / "gateway.err").read_text())
    return json.loads(done.stdout)


async def test_the_inspector_lists_the_bridge(tmp_path: Path):
    listed = await inspect(tmp_path, "--method", "tools/list")
    names = ["tool_call", "tool_call_readonly", "tool_describe", "tool_search"]
    assert sorted(tool["name"] for tool in listed["tools"]) == names


@pytest.mark.parametrize(
    ("name", "arguments", "is_error", "said"),
    [
        ("tool_search", ['queries=["read a note"]'], False, "read_note(path?: string)"),
        ("tool_call", ["name=read_note", 'arguments={"path": "a"}'], False, "read_note by"),
        ("tool_call", ["name=delete_note", 'arguments={"path": "a"}'], True, "Notes are kept."),
        ("delete_note", ["path=a"], True, "Notes are kept."),
    ],
    ids=["search", "call", "blocked", "blocked by its own name"],
)
async def test_the_inspector_calls_tools(tmp_path: Path, name: str, arguments: list[str], is_error: bool, said: str):
    given = [part for argument in arguments for part in ("--tool-arg", argument)]
    result = await inspect(tmp_path, "--method", "tools/call", "--tool-name", name, *given)
    assert said in result["content"][0]["text"], result
    assert result.get("isError", False) is is_error
