"""The policies that the documentation shows do not let through what they seem to keep out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from test_policy_conditions import ATTACKS_ON_COMMANDS, ATTACKS_ON_HOSTS, ATTACKS_ON_PATHS, filled

from builtin_plugins.tool_policy import ToolPolicy
from builtin_plugins.tool_policy._lint import problems_of
from builtin_plugins.tool_policy._rule import Rule
from hooksdk import Tool
from hooksdk.hooks import BeforeToolCall
from hooksdk.testing import event, make_workspace

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SAMPLES = {"branch": "feature/log-in", "label": "bug"}
"""What the arguments of the pages' JSON Schemas may be: a page that shows another one adds it here."""


def policies() -> list[Any]:
    """The configuration of tool_policy in each TOML block of the pages."""
    shown: list[Any] = []
    for page in PAGES:
        blocks = re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        for number, block in enumerate(blocks, 1):
            config = tomllib.loads(block).get("plugins", {}).get("tool_policy", {}).get("config")
            if config is not None:
                shown.append(pytest.param(config, id=f"{page.relative_to(ROOT)}-{number}"))
    return shown


def allow_rules() -> list[Any]:
    """Each rule of the pages that allows by conditions, alone."""
    rules: list[Any] = []
    for shown in policies():
        for number, rule in enumerate(shown.values[0].get("rules", []), 1):
            if rule["action"] == "allow" and {"path_inside", "url_host", "command", "arguments"} & set(rule):
                rules.append(pytest.param(rule, id=f"{shown.id}-rule-{number}"))
    return rules


def test_the_pages_show_rules_of_every_kind() -> None:
    keys = {key for rule in allow_rules() for key in rule.values[0]}
    assert keys >= {"path_inside", "url_host", "command", "arguments"}


@pytest.mark.parametrize("config", policies())
def test_a_documented_policy_is_valid_and_has_nothing_unsafe_in_it(config: dict[str, Any]) -> None:
    rules = ToolPolicy.Config.model_validate(config).rules
    assert [problem for problem in problems_of(rules, None) if "is no wall" not in problem] == []


@pytest.mark.light(every=5)
@pytest.mark.parametrize("rule", allow_rules())
def test_no_attack_gets_past_a_documented_rule_that_allows(rule: dict[str, Any], tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "workspace", "/etc/passwd")
    policy = ToolPolicy(ToolPolicy.Config.model_validate({"rules": [rule], "default": "deny"}))
    name = Rule.model_validate(rule).tools[0].rpartition(":")[2].replace("*", "x")
    owner = rule["tools"] if isinstance(rule["tools"], str) else rule["tools"][0]
    _, owner, _ = owner.split(":")

    def allowed(arguments: dict[str, Any], declared: list[str]) -> bool:
        properties: dict[str, Any] = {one: {} for one in declared}
        tool = Tool(name=name, source="mcp", owner=owner, parameters={"type": "object", "properties": properties})
        place = str(workspace) if "workspaces" not in rule else str(rule["workspaces"]).replace("*", "x")
        call = event(BeforeToolCall, tool=tool, arguments=arguments, workspace_dir=place)
        return policy.judge(call) is None

    cases = good_and_bad(rule)
    good = {argument: value for argument, (value, _) in cases.items()}
    assert allowed(good, list(good))
    for argument, (_, attacks) in cases.items():
        for attack in attacks:
            bad = {**good, argument: filled(attack, workspace)}
            assert not allowed(bad, list(good)), bad
            assert not allowed(bad, []), bad
        rest = {key: value for key, value in good.items() if key != argument}
        assert not allowed(rest, list(good))
    for more in (
        {"file": "/etc/passwd"},
        {"url": "https://evil.com"},
        {"command": "rm"},
        {"x": 5},
        {"x": ["/etc/passwd"]},
    ):
        assert not allowed({**good, **more}, list(good))


def good_and_bad(rule: dict[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """Each argument with a value that the rule allows, and with values that it must not be replaced by."""
    cases: dict[str, tuple[Any, list[Any]]] = {}
    if "url_host" in rule:
        cases["url"] = (f"https://{rule['url_host'][0]}/x", [*ATTACKS_ON_HOSTS, "https://docs.example.org.evil.com"])
    if "command" in rule:
        cases["command"] = (f"{rule['command'][0]} x", ATTACKS_ON_COMMANDS)
    if "arguments" in rule:
        for name in rule["arguments"]["properties"]:
            one = SAMPLES[name]
            bent = [f"{one}\n", f"\n{one}", f"{one}\n/../../etc", f"x{one}", [one], one.upper(), {one: 1}]
            cases[name] = (one, [*bent, 5, True, None, [], {}, "", "/etc/passwd", "a\0"])
    folders: str | list[str] | dict[str, str] = rule.get("path_inside", {})
    if isinstance(folders, dict):
        # The source may be anything below /, so only what cannot be read is no path in there.
        unread: list[Any] = ["a\n", "{w}//a", "..", "~/x", "$HOME/x", "file:///etc/passwd", "{{secret:P}}", 5, None, [], {}, ["/x"], "*", "\\x"]  # fmt: skip
        for name, folder in folders.items():
            cases[name] = ("/usr/x" if folder == "/" else f"{folder}/a", unread)
    else:
        folder = folders if isinstance(folders, str) else folders[0]
        attacks = [one for one in ATTACKS_ON_PATHS if folder == "." or one != "{w}/within/../../../etc/passwd"]
        cases["path"] = (f"{folder}/a", attacks)
    return cases


@pytest.mark.light(every=5)
@pytest.mark.parametrize("config", policies())
def test_what_a_documented_policy_denies_or_asks_is_proved_of_all_calls(config: dict[str, Any]) -> None:
    proofs = pytest.importorskip("hooksdk.rules.proofs", reason="needs the extra `prove`")
    settings = ToolPolicy.Config.model_validate(config)
    rules = {"tool_policy": ToolPolicy.describe_rules(settings)}
    for rule in config.get("rules", []):
        if rule["action"] == "allow" or "limit" in rule:
            continue
        said = {key: value for key, value in rule.items() if key not in {"action", "reason", "title", "severity"}}
        calls = ToolPolicy.describe_calls(settings, said)
        claim = "never" if rule["action"] == "deny" else "only_asked"
        # A project that nobody trusts changes nothing of it.
        search = proofs.Search(rules, calls, claim, untrusted_project=True)
        assert next(search.examples(), None) is None, rule


def test_the_policy_of_the_reference_lets_no_tool_of_a_server_run_that_it_does_not_name() -> None:
    proofs = pytest.importorskip("hooksdk.rules.proofs", reason="needs the extra `prove`")
    (config,) = [one.values[0] for one in policies() if one.id == "docs/reference/tool_policy.md-1"]
    settings = ToolPolicy.Config.model_validate(config)

    def runs(**calls: Any) -> bool:
        rules = {"tool_policy": ToolPolicy.describe_rules(settings)}
        return (
            next(proofs.Search(rules, ToolPolicy.describe_calls(settings, calls), "never").examples(), None) is not None
        )

    assert not runs(tools="mcp:github:delete_*")
    assert not runs(tools="mcp:shop:*")
    assert runs(tools="mcp:github:*")
    assert runs(tools="mcp:files:read_file")
