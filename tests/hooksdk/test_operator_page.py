"""The page for operators: its blocks together are one configuration that works, and each of its commands does."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import hooksdk

from hooksdk import Host, MemoryStore
from hooksdk.mcp import McpServers

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

PAGE = (Path(__file__).parents[2] / "docs/how-to/operate-safely.md").read_text("utf-8")
STEPS = re.split(r"^## (?=\d\. )", PAGE, flags=re.MULTILINE)[1:]


def blocks(language: str, text: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


CONFIG = "\n".join(block for block in blocks("toml") if "plugins" in tomllib.loads(block))
(TARGETS,) = (block for block in blocks("toml") if "target" in tomllib.loads(block))
COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the page's configuration as the user's own, and a project in it."""
    (tmp_path / "config" / "hooksdk").mkdir(parents=True)
    (tmp_path / "config" / "hooksdk" / "config.toml").write_text(CONFIG)
    (tmp_path / "targets.toml").write_text(TARGETS)
    return tmp_path


def test_each_of_the_eight_steps_has_something_to_copy() -> None:
    assert [step[0] for step in STEPS] == list("12345678")
    assert all("```" in step for step in STEPS)


async def test_the_blocks_together_are_one_configuration_whose_plugins_all_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with Host(store=MemoryStore(), config=tomllib.loads(CONFIG), folder=tmp_path) as host:
        loaded = {plugin.id for plugin in host.plugins if plugin.loaded}
        assert loaded >= {"tool_policy", "catalog_audit", "secrets", "trace_file"}
        assert "tool_policy" in host.judging


@pytest.mark.parametrize("line", COMMANDS)
async def test_a_command_of_the_page_works_with_that_configuration(line: str, home: Path) -> None:
    program, *words = line.split()
    assert program == "hooksdk"
    done = await hooksdk(*words, folder=home, variables={"XDG_CONFIG_HOME": str(home / "config")})
    assert (done.code, "Traceback" in done.err) == (0, False), done.out + done.err


async def test_the_attacks_of_the_page_are_of_every_kind_of_its_rules_and_none_gets_through(home: Path) -> None:
    variables = {"XDG_CONFIG_HOME": str(home / "config")}
    done = await hooksdk("policy", "attack", "targets.toml", "--json", folder=home, variables=variables)
    told: dict[str, Any] = done.json()
    assert [(one["kind"], one["through"]) for one in told["targets"]] == [
        ("command", 0), ("path", 0), ("name", 0), ("description", 0),
    ]  # fmt: skip
    assert all(one["stopped"] == one["tried"] > 15 for one in told["targets"])


def test_the_servers_file_of_the_page_is_read(tmp_path: Path) -> None:
    (text,) = blocks("json")
    (tmp_path / "mcp.json").write_text(text)
    servers = McpServers.from_file(tmp_path / "mcp.json")
    assert {name: status.problem for name, status in servers.status.items()} == {"shell": ""}
    options: list[str] = json.loads(text)["mcpServers"]["shell"]["args"]
    assert options[options.index("--network") + 1] == "none"
