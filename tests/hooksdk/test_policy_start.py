"""`hooksdk policy start`: rules to begin with about where values come from, by the names of tools and arguments."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Annotations, Tool
from hooksdk.cli._policy_start import starter_rules
from tests.hooksdk.commands import hooksdk, write_servers


def tool(name: str, *arguments: str, **annotations: bool) -> Tool:
    properties: dict[str, Any] = {argument: {"type": "string"} for argument in arguments}
    return Tool(
        name=name, source="mcp", owner="app", parameters={"type": "object", "properties": properties},
        annotations=Annotations(**annotations),
    )  # fmt: skip


def paths_of(*tools: Tool) -> list[list[str]]:
    """The paths of the rules that are proposed."""
    config = tomllib.loads(starter_rules(tools))["plugins"]["tool_policy"]["config"]
    return [list(rule.values_from_elsewhere or ()) for rule in ToolPolicy.Config.model_validate(config).rules]


@pytest.mark.parametrize(
    ("acting", "paths"),
    [
        (tool("send_email", "recipients", "cc", "subject", "body"), ["recipients", "cc"]),
        (tool("postMessage", "channelId", "text"), ["channelId"]),
        (tool("create_event", "title", "attendees", "start"), ["attendees"]),
        (tool("send_money", "iban", "amount"), ["iban"]),
        (tool("get_page", "url"), ["url"]),
        (tool("get_page", "url", read_only=True), ["url"]),
        (tool("delete_file", "file_id"), ["file_id"]),
        (tool("write_file", "path", "content"), ["path"]),
        (tool("reserve", "hotel", "note"), ["hotel"]),
        (tool("get_everything_deleted", "id", read_only=False, destructive=True), ["id"]),
        (tool("say", "text"), []),
    ],
)
def test_a_tool_that_acts_is_asked_about_by_what_says_where_it_goes(acting: Tool, paths: list[str]) -> None:
    assert paths_of(acting) == [[*paths, "**addresses"]]


def test_tools_that_only_read_have_no_rule_and_are_named() -> None:
    reading = [tool("list_files", "path"), tool("anything", "to", read_only=True)]
    assert "# Only reads, as far as it says: mcp:app:list_files\n" in starter_rules([*reading, tool("send", "to")])
    assert paths_of(*reading, tool("send", "to")) == [["to", "**addresses"]]


def test_tools_with_the_same_arguments_share_a_rule_and_nothing_is_trusted() -> None:
    tools = [tool("send_mail", "to"), tool("forward_mail", "to")]
    config = tomllib.loads(starter_rules(tools))["plugins"]["tool_policy"]["config"]
    assert [rule["tools"] for rule in config["rules"]] == [["mcp:app:send_mail", "mcp:app:forward_mail"]]
    assert "results" not in config


@pytest.mark.heavy
@pytest.mark.anyio
async def test_the_rules_are_shown_and_written_only_after_a_yes(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "servers.json")
    shown = await hooksdk("policy", "start", "--mcp", servers, folder=tmp_path)
    assert (shown.code, "[plugins.tool_policy.config]" in shown.out) == (0, True)
    refused = await hooksdk("policy", "start", "--mcp", servers, "--write", folder=tmp_path)
    assert (refused.code != 0, "--yes writes the rules unasked" in refused.err) == (True, True)
    assert not (tmp_path / "hooksdk.toml").exists()
    written = await hooksdk("policy", "start", "--mcp", servers, "--yes", folder=tmp_path)
    assert written.code == 0, written.err
    assert (tmp_path / "hooksdk.toml").read_text("utf-8") == shown.out
    again = await hooksdk("policy", "start", "--mcp", servers, "--yes", folder=tmp_path)
    assert "has rules of tool_policy already" in again.err


@pytest.mark.heavy
@pytest.mark.anyio
async def test_without_tools_there_are_no_rules(tmp_path: Path) -> None:
    done = await hooksdk("policy", "start", folder=tmp_path)
    assert (done.code != 0, "name their servers with --mcp FILE" in done.err) == (True, True)
