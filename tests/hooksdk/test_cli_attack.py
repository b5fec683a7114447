"""`hooksdk policy attack`: which attacks on what is denied get past a project's policies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from commands import hooksdk, write_servers

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

LISTED = """
[plugins.tool_policy.config]
default = "deny"

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:shell:run"
command = "pytest"

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:files:read_file"
path_inside = "."

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:web:fetch"
url_host = "docs.example.org"
"""
SHELL = """
[[target]]
kind = "command"
tool = "mcp:shell:run"
argument = "command"
allowed = "pytest"
denied = "curl"
"""
OTHERS = """
[[target]]
kind = "path"
tool = "mcp:files:read_file"
argument = "path"
allowed = "."
denied = "/etc/passwd"

[[target]]
kind = "host"
tool = "mcp:web:fetch"
argument = "url"
allowed = "docs.example.org"
denied = "169.254.169.254"

[[target]]
kind = "call"
tool = "mcp:files:delete_file"
"""


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


async def attack(folder: Path, config: str, targets: str, *options: str) -> tuple[int, Any]:
    (folder / "hooksdk.toml").write_text(config)
    (folder / "targets.toml").write_text(targets)
    done = await hooksdk("policy", "attack", "targets.toml", "--json", *options, folder=folder)
    return done.code, done.json() if done.out else done.err


def deny(**rule: Any) -> str:
    """A policy that allows everything but this."""
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in rule.items() if key != "arguments")
    if "arguments" in rule:
        lines += f"\narguments = {{ properties = {{ command = {{ pattern = {json.dumps(rule['arguments'])} }} }} }}"
    return f'[[plugins.tool_policy.config.rules]]\naction = "deny"\n{lines}\n'


async def test_nothing_gets_past_rules_that_list_what_is_allowed(tmp_path: Path) -> None:
    code, told = await attack(tmp_path, LISTED, SHELL + OTHERS)
    assert (code, told["schema"]) == (0, 1)
    assert [(one["kind"], one["unlisted_is_stopped"], one["through"]) for one in told["targets"]] == [
        ("command", True, 0), ("path", True, 0), ("host", True, 0), ("call", True, 0),
    ]  # fmt: skip
    for one in told["targets"]:
        assert one["stopped"] == one["tried"] == one["origins"]["hooksdk"] > 15


async def test_a_pattern_over_a_command_lets_other_spellings_through_and_answers_one(tmp_path: Path) -> None:
    code, told = await attack(tmp_path, deny(tools="run", arguments="^curl"), SHELL)
    (target,) = told["targets"]
    values = [one["value"] for one in target["attacks"]]
    assert code == 1
    assert "/bin/curl x" in values
    assert "curl -rf /" not in values
    assert {one["reaches"] for one in target["attacks"]} == {"denied"}, "what is not listed may run under this policy"
    assert (target["unlisted_is_stopped"], target["through"]) == (False, len(values))


async def test_what_is_not_denied_at_all_is_through_as_it_stands(tmp_path: Path) -> None:
    code, told = await attack(tmp_path, deny(tools="other"), SHELL)
    assert code == 1
    assert told["targets"][0]["attacks"][0]["value"] == "curl"


@pytest.mark.in_ci(False)
async def test_a_limit_stops_no_attack_because_others_came_before_it(tmp_path: Path) -> None:
    limit = '[[plugins.tool_policy.config.rules]]\naction = "deny"\nlimit = { calls = 1, per = "requester" }\n'
    through = [
        (await attack(tmp_path, config, SHELL))[1]["targets"][0]["through"] for config in (deny(tools="other"), limit)
    ]
    assert through[0] == through[1] > 50


async def test_what_a_person_is_asked_about_is_counted_apart(tmp_path: Path) -> None:
    config = deny(tools="mcp:shell:run", command="curl").replace('"deny"', '"ask"')
    code, told = await attack(tmp_path, config, SHELL)
    (target,) = told["targets"]
    assert (code, target["through"], target["stopped"]) == (0, 0, 0)
    assert target["asked"] == target["tried"] > 50


async def test_where_nothing_is_allowed_no_attack_shows_anything_and_the_reason_is_told(tmp_path: Path) -> None:
    code, told = await attack(tmp_path, LISTED, SHELL.replace("mcp:shell:run", "mcp:shell:ruin"))
    assert code == 2
    assert "mcp:shell:ruin: 'pytest' is to be allowed, and is stopped, so no attack shows anything" in told
    assert "no rule of the tool policy allows it" in told


GUARD = '''
from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block, Rewrite, RewriteToolCall


class Guard:
    """Lets a session make one call, stops `curl` by its first word, and cuts what follows a semicolon."""

    def __init__(self):
        self.calls = 0

    @hooks.rewrite_tool_call
    def cut(self, event: RewriteToolCall) -> Rewrite | None:
        line = str(event.arguments["command"])
        return Rewrite({"command": line.partition(";")[0]}) if ";" in line else None

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        self.calls += 1
        if self.calls > 1 or str(event.arguments["command"]).split()[:1] == ["curl"]:
            return Block("no")
'''


async def test_a_policy_of_ones_own_is_attacked_in_fresh_sessions_and_what_it_makes_of_a_call_is_shown(
    tmp_path: Path,
) -> None:
    (tmp_path / "guard.py").write_text(GUARD)
    code, told = await attack(tmp_path, "", SHELL, "--plugin", "guard.py")
    runs = {one["value"]: one["runs_as"] for one in told["targets"][0]["attacks"] if isinstance(one["value"], str)}
    assert code == 1
    assert runs["pytest; curl x"] == "pytest"
    assert runs["pytest | curl x"] == "pytest | curl x"
    assert "curl" not in runs


@pytest.mark.in_ci(False)
async def test_strangers_cases_count_beside_the_projects_and_say_who_wrote_them(tmp_path: Path) -> None:
    cases = """
origin = "a stranger"
[[attacks]]
kind = "command"
reaches = "denied"
about = "through the stranger's tool"
values = ["./copy-of-<denied> x", "curl"]
"""
    (tmp_path / "cases.toml").write_text(cases)
    config = deny(tools="run", command="curl")
    code, told = await attack(tmp_path, config, SHELL, "--cases", "cases.toml")
    (target,) = told["targets"]
    assert code == 1
    assert [(one["value"], one["origin"]) for one in target["attacks"]] == [("./copy-of-curl x", "a stranger")]
    assert target["origins"]["a stranger"] == 1
    done = await hooksdk("policy", "attack", "targets.toml", "--cases", "cases.toml", folder=tmp_path)
    assert "through  mcp:shell:run  './copy-of-curl x'" in done.out
    assert done.out.rstrip().endswith("by hooksdk, 1 by a stranger")
    assert f"1 of {target['tried']} attacks through" in done.out


@pytest.mark.in_ci(False)
async def test_tools_that_are_not_what_they_seem_get_through_unless_they_are_withheld(tmp_path: Path) -> None:
    targets = '[[target]]\nkind = "name"\ntool = "mcp:files:read_file"\n[[target]]\nkind = "description"\ntool = "mcp:files:read_file"\n'
    code, told = await attack(tmp_path, "[plugins.catalog_audit.config]\n", targets)
    assert code == 1
    assert all(one["through"] == one["tried"] > 15 for one in told["targets"])
    audit = '[plugins.catalog_audit.config]\non_lookalike = "withhold"\nhidden_text = "withhold"\ninstructions = "withhold"\n'
    code, told = await attack(tmp_path, audit, targets)
    assert (code, [one["through"] for one in told["targets"]]) == (0, [0, 0])
    done = await hooksdk("policy", "attack", "targets.toml", folder=tmp_path)
    assert done.err == ""


async def test_with_a_server_its_own_schema_counts_and_nothing_is_stored(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    target = SHELL.replace("mcp:shell:run", "mcp:plain:environment").replace('"command"\nallowed', '"name"\nallowed')
    code, told = await attack(tmp_path, "", target, "--mcp", servers)
    through = [one["value"] for one in told["targets"][0]["attacks"]]
    assert code == 1
    assert "/bin/curl x" in through
    assert {"line": "curl x"} not in through, "the server takes text alone"
    code, told = await attack(tmp_path, "", target.replace("environment", "enviroment"), "--mcp", servers)
    assert code == 2
    assert "Did you mean 'mcp:plain:environment'" in told
    assert not (tmp_path / "kept" / "sessions").exists()


async def test_calls_that_the_tools_schema_refuses_show_nothing_and_that_is_told(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    target = '[[target]]\nkind = "call"\ntool = "mcp:plain:environment"\n'
    code, told = await attack(tmp_path, "", target, "--mcp", servers)
    assert code == 2
    assert "mcp:plain:environment: " in told
    assert "so no call is made at all and no attack shows anything" in told
    code, told = await attack(tmp_path, "", target + 'arguments = { name = "HOME" }\n', "--mcp", servers)
    assert code == 1
    assert told["targets"][0]["through"]


async def test_the_example_of_the_how_to_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/attack-your-policies.md").read_text("utf-8")
    (targets, config, *_), (shown,) = (
        re.findall(rf"^```{kind}\n(.*?)^```", page, re.M | re.S) for kind in ("toml", "text")
    )
    await attack(tmp_path, config, targets.partition("\n\n")[0])
    done = await hooksdk("policy", "attack", "targets.toml", folder=tmp_path)
    begin, _, end = shown.partition("\n")[2].partition("...\n")
    lines, shown_lines = done.out.splitlines(), [*begin.splitlines(), end.strip()]
    for line, shown_line in zip([*lines[: len(shown_lines) - 1], lines[-1]], shown_lines, strict=True):
        # Attacks are added, and their number is no part of the example.
        assert re.sub(r"\d+ *", "N ", line) == re.sub(r"\d+ *", "N ", shown_line)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('kind = "command"', 'kind = "comand"', "target 1: 'kind': "),
        ("argument =", "argumnt =", "Did you mean 'argument' or 'arguments'?"),
        ('denied = "curl"', "", "a command needs denied = ..."),
        ("mcp:shell:run", "run", "tool = 'run' is no tool's id"),
        ('kind = "command"', 'kind = "path"', "'pytest' is neither '.' nor a folder from the root"),
        ("[[target]]", "[[targets]]", "it has no [[target]]"),
        ("[[target]]", "[[target]", "it is no TOML"),
    ],
)
async def test_a_wrong_file_is_told_and_answers_two(old: str, new: str, problem: str, tmp_path: Path) -> None:
    code, told = await attack(tmp_path, LISTED, SHELL.replace(old, new))
    assert code == 2
    assert problem in told
