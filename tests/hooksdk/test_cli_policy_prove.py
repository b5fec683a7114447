"""`hooksdk policy prove`: properties of the configuration, proved or broken by a call that really runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import hooks
from hooksdk.cli._configuration import load_config
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._proofs.properties import PolicyConfig, policy_problems, read_properties
from hooksdk.cli._proofs.prove import Answer, prove_all
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.rules import DescribedRule, Rules, ToolNamed

pytest.importorskip("z3", reason="needs the extra `prove`")

from commands import hooksdk

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "prove-a-policy.md"


def proved(folder: Path, text: str, *, plugins: list[Any] | None = None) -> list[Answer]:
    (folder / "hooksdk.toml").write_text(text)
    config = load_config(folder=folder, environment={})
    properties = PolicyConfig.model_validate(config.policy).properties
    return anyio.run(prove_all, properties, config, folder, plugins or [])


def test_the_question_of_the_page_is_answered_by_a_call_that_ran(tmp_path: Path) -> None:
    blocks = PAGE.read_text("utf-8").split("```")
    rules = blocks[1].removeprefix("toml")
    (answer,) = proved(tmp_path, rules)
    assert (answer.status, answer.outcome) == ("broken", "ran")
    assert answer.call is not None
    assert answer.call["annotations"] == {"read_only": True, "destructive": True}
    (mended,) = proved(tmp_path, rules.replace("read_only = false", "destructive = true"))
    assert (mended.status, len(mended.rests_on)) == ("holds", 1)
    assert mended.rests_on[0] in blocks[5]


def test_a_call_after_a_yes_breaks_never_and_keeps_only_asked(tmp_path: Path) -> None:
    text = """
    [[plugins.tool_policy.config.rules]]
    action = "ask"
    tools = "pay"
    [policy.properties]
    closed = { never = { tools = "pay" } }
    asked = { only_asked = { tools = "pay" } }
    """
    closed, asked = proved(tmp_path, text)
    assert (closed.status, closed.outcome) == ("broken", "ran after a yes")
    assert asked.status == "holds"


def test_a_call_of_a_sub_agent_is_made_in_one(tmp_path: Path) -> None:
    text = """
    [[plugins.tool_policy.config.rules]]
    action = "deny"
    agents = "intern"
    [[plugins.tool_policy.config.rules]]
    action = "ask"
    triggers = "user"
    [policy.properties]
    below = { only_asked = { triggers = ["subagent"], agents = ["helper"] } }
    """
    (below,) = proved(tmp_path, text)
    assert below.status == "broken"
    assert below.call is not None
    assert (below.call["agents"], below.call["triggers"]) == (["helper"], ["subagent"])


def test_arguments_are_made_that_meet_a_condition(tmp_path: Path) -> None:
    text = """
    [plugins.tool_policy.config]
    default = "deny"
    [[plugins.tool_policy.config.rules]]
    action = "allow"
    tools = "host:*:read_file"
    path_inside = "/usr"
    [[plugins.tool_policy.config.rules]]
    action = "ask"
    tools = "host:*:read_file"
    path_inside = "/usr/share"
    [policy.properties]
    reads = { never = { tools = "host:*:read_file" } }
    """
    (reads,) = proved(tmp_path, text)
    assert reads.status == "broken"
    assert reads.call is not None
    assert reads.call["arguments"]["path"].startswith("/usr")


def test_what_the_rules_alone_do_not_prove_is_open(tmp_path: Path) -> None:
    text = """
    [[plugins.tool_policy.config.rules]]
    action = "deny"
    path_inside = "/etc"
    [policy.properties]
    ssh = { never = { path_inside = "/etc/ssh" } }
    """
    (ssh,) = proved(tmp_path, text)
    assert ssh.status == "open"
    assert "none could be made" in ssh.why


def test_a_tool_that_is_withheld_is_not_always_asked_about(tmp_path: Path) -> None:
    text = """
    [[plugins.tool_policy.config.rules]]
    action = "deny"
    tools = "pay"
    [policy.properties]
    asked = { always_asked = { tools = "pay" } }
    """
    (asked,) = proved(tmp_path, text)
    assert (asked.status, asked.outcome.partition(":")[0]) == ("broken", "withheld")


def test_a_plugin_in_shadow_mode_does_not_count(tmp_path: Path) -> None:
    text = """
    [plugins.tool_policy]
    mode = "MODE"
    config.rules = [{ action = "deny", tools = "pay" }]
    [policy.properties]
    closed = { never = { tools = "pay" } }
    """
    assert [one.status for one in proved(tmp_path, text.replace("MODE", "enforce"))] == ["holds"]
    config = {"plugins": {"tool_policy": {"mode": "shadow"}}}
    shadow = load_config(config, folder=tmp_path, environment={})
    properties = PolicyConfig.model_validate(shadow.policy).properties
    assert [one.status for one in anyio.run(prove_all, properties, shadow, tmp_path)] == ["broken"]


class NoPay:
    plugin_id = "no_pay"

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("no") if event.tool.own_name == "pay" else None


class Described(NoPay):
    plugin_id = "described"

    @classmethod
    def describe_rules(cls, config: object) -> Rules:
        return Rules([DescribedRule("deny", [ToolNamed(("pay",), exact=True)], 1, "no pay")])


def test_a_plugin_that_describes_its_rules_is_proved_with_and_another_may_only_stop_a_call(tmp_path: Path) -> None:
    text = """
    [plugins.tool_policy.config]
    default = "allow"
    [policy.properties]
    closed = { never = { tools = "host:*:pay" } }
    """
    (closed,) = proved(tmp_path, text, plugins=[Described])
    assert (closed.status, "".join(closed.rests_on)) == ("broken", ""), "by its words it means PAY as well"
    assert closed.call is not None
    assert closed.call["name"].casefold() == "pay" != closed.call["name"]
    rule = 'rules = [{ action = "deny", tools = "PAY" }]'
    (closed,) = proved(tmp_path, text.replace('default = "allow"', rule), plugins=[Described])
    assert (closed.status, closed.rests_on) == ("holds", ['tool_policy rule 1: action = "deny", tools = "PAY"'])
    (stopped,) = proved(tmp_path, text, plugins=[NoPay])
    assert stopped.status == "open"
    assert "one of no_pay stops it" in stopped.why


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"propertys": {}}, "Did you mean 'policy.properties'"),
        ({"properties": {"x": {"never": {}, "only_asked": {}}}}, "say one of never, only_asked, always_asked"),
        ({"properties": {"x": {"nevr": {}}}}, "Did you mean 'policy.properties.x.never'"),
        ({"properties": {"x": {"never": {}, "untrusted_project": "yes"}}}, "untrusted_project"),
    ],
)
def test_a_wrong_table_is_told(table: dict[str, Any], problem: str) -> None:
    assert problem in "; ".join(policy_problems(table))


def test_a_misspelt_class_is_told_with_its_property(tmp_path: Path) -> None:
    text = """
    [plugins.tool_policy.config]
    default = "deny"
    [policy.properties]
    x = { never = { tool = "pay" } }
    """
    with pytest.raises(CommandProblem, match=r"property 'x'.*Did you mean 'tools'"):
        proved(tmp_path, text)


def test_without_a_plugin_that_describes_rules_there_is_nothing_to_prove(tmp_path: Path) -> None:
    with pytest.raises(CommandProblem, match="switch tool_policy on"):
        proved(tmp_path, "[policy.properties]\nx = { never = { tools = 'pay' } }\n")


def test_a_property_of_your_own_file_beats_the_projects(tmp_path: Path) -> None:
    home = tmp_path / "home" / "hooksdk"
    home.mkdir(parents=True)
    (home / "config.toml").write_text("[policy.properties]\nx = { never = { tools = 'mine' } }\n")
    (tmp_path / "hooksdk.toml").write_text(
        "[policy.properties]\nx = { never = { tools = 'theirs' } }\ny = { never = { tools = 'more' } }\n"
    )
    config = load_config(folder=tmp_path, environment={"XDG_CONFIG_HOME": str(home.parent)})
    properties = PolicyConfig.model_validate(config.policy).properties
    assert {name: one.calls["tools"] for name, one in properties.items()} == {"x": "mine", "y": "more"}


@pytest.mark.heavy
@pytest.mark.anyio
async def test_the_command_exits_with_1_where_a_property_does_not_hold_and_says_all_as_json(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text(
        "[plugins.tool_policy.config]\nrules = [{ action = 'deny', tools = 'pay' }]\n"
    )
    file = tmp_path / "properties.toml"
    file.write_text("[policy.properties]\na = { never = { tools = 'pay' } }\n")
    assert (await hooksdk("policy", "prove", str(file), folder=tmp_path)).code == 0
    file.write_text("[policy.properties]\na = { never = { tools = 'pa?' } }\n")
    answer = await hooksdk("policy", "prove", str(file), "--json", folder=tmp_path)
    assert answer.code == 1
    assert json.loads(answer.out)["properties"][0]["status"] == "broken"
    assert (await hooksdk("policy", "prove", "no.toml", folder=tmp_path)).code == 2


def test_a_file_without_properties_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[plugins]\n")
    with pytest.raises(Exception, match=r"no \[policy.properties.NAME\]"):
        read_properties(file)
