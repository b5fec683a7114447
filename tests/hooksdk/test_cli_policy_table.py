"""`hooksdk policy table`: what the rules say of every tool, the riskiest first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Annotations, MemoryStore, Tool, hooks
from hooksdk.cli._policy_calls import Judge, Judges, judges_of, misspelt
from hooksdk.cli._policy_table import Catalog, Line, lines_of, rows
from hooksdk.config import Config
from hooksdk.gateway import Profile
from hooksdk.hooks import Ask, BeforeToolCall, Block
from hooksdk.host import Plugin, load_plugins
from hooksdk.patterns import ToolPattern
from hooksdk.rules import Rules
from hooksdk.rules.verdicts import ToolVerdict, case_words, hint_words, riskiest_first, verdict_of
from hooksdk.testing import event, open_session, play

READS = Annotations(read_only=True, open_world=False)


def rules_of(*rules: dict[str, Any], default: str = "allow") -> Rules:
    return ToolPolicy.describe_rules(ToolPolicy.Config.model_validate({"rules": list(rules), "default": default}))


def verdict(tool: Tool, *rules: dict[str, Any], default: str = "allow") -> ToolVerdict:
    return verdict_of(tool, {"tool_policy": rules_of(*rules, default=default)})


def tool(name: str, annotations: Annotations = Annotations(), **options: Any) -> Tool:  # noqa: B008 - frozen
    return Tool(name=name, source="mcp", owner="files", annotations=annotations, **options)


# What rules say of one tool


def test_a_rule_without_conditions_decides_alone_and_the_gravest_wins() -> None:
    told = verdict(tool("delete_page"), {"action": "ask", "sources": "mcp"}, {"action": "deny", "tools": "delete_*"})
    assert (told.words, case_words(told)) == ("deny", "rule 2")


def test_where_no_rule_is_about_the_tool_the_default_decides() -> None:
    told = verdict(tool("list_pages"), {"action": "deny", "tools": "delete_*"}, default="ask")
    assert (told.words, case_words(told)) == ("ask", "default")


def test_what_the_call_decides_is_said_with_the_rule_that_holds_else() -> None:
    told = verdict(
        tool("read"), {"action": "deny", "path_inside": "/etc"}, {"action": "ask", "tools": "read", "agents": "helper"}
    )
    assert told.words == "allow, ask or deny"
    assert case_words(told) == (
        'rule 1 denies if path_inside = ["/etc"]; rule 2 asks for the agent helper; else the default allows'
    )


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"agents": ["a", "b*"]}, "the agent a or b*"),
        ({"triggers": "schedule"}, "runs begun by schedule"),
        ({"workspaces": "/srv/*"}, "the workspace /srv/*"),
        ({"requester": {"is_owner": False}}, "everybody but the owner"),
        ({"requester": {"is_owner": True, "roles": ["x", "y"]}}, "the owner with the role x or y"),
        ({"requester": {"id": "ann"}}, "the requester ann"),
    ],
)
def test_for_whom_a_rule_is_stands_in_words(condition: dict[str, Any], words: str) -> None:
    (case, _default) = verdict(tool("read"), {"action": "deny", **condition}).cases["tool_policy"]
    assert (case.whom, case.conditions) == ([words], [])


def test_a_rule_that_no_call_can_meet_after_a_graver_one_is_left_out() -> None:
    wide = {"action": "deny", "path_inside": ["/etc", "/root"]}
    told = verdict(tool("read"), wide, {"action": "ask", "path_inside": "/etc", "agents": "helper"})
    assert [case.number for case in told.cases["tool_policy"]] == [1, 0]


def test_a_limit_leaves_calls_until_it_is_reached() -> None:
    told = verdict(tool("search"), {"action": "deny", "tools": "search", "limit": {"calls": 5}})
    assert told.words == "allow or deny"
    assert "rule 1 denies if the limit of 5 calls" in case_words(told)


@pytest.mark.parametrize(
    ("annotations", "words"),
    [(READS, "allow"), (Annotations(open_world=False), "ask"), (Annotations(), "ask")],
)
def test_what_a_tool_says_of_itself_settles_what_it_does(annotations: Annotations, words: str) -> None:
    assert verdict(tool("a", annotations), {"action": "ask", "does": "write"}).words == words
    assert verdict(tool("a", annotations), {"action": "allow", "does": "read"}, default="ask").words == words


def test_of_a_tool_that_runs_lines_the_line_decides_what_it_does() -> None:
    shell = Tool(name="Bash", source="client", owner="claude-code")
    assert verdict(shell, {"action": "deny", "does": "write"}).words == "allow or deny"


def test_of_several_plugins_the_gravest_word_counts_for_every_call() -> None:
    policies = {"one": rules_of({"action": "deny", "path_inside": "/etc"}), "two": rules_of(default="ask")}
    told = verdict_of(tool("read"), policies)
    assert told.words == "ask or deny"
    assert case_words(told) == 'one rule 1 denies if path_inside = ["/etc"]; else one the default allows; two default'


RULES = st.fixed_dictionaries(
    {"action": st.sampled_from(["allow", "ask", "deny"])},
    optional={
        "tools": st.sampled_from(["read*", "mcp:files:*", "deletePage", "*_page"]),
        "annotations": st.sampled_from([{"read_only": True}, {"destructive": True}, {"open_world": False}]),
        "sources": st.sampled_from(["mcp", "host"]),
        "agents": st.sampled_from(["main", "help*"]),
        "requester": st.sampled_from([{"is_owner": True}, {"roles": "reader"}, {"id": "ann"}]),
        "path_inside": st.sampled_from(["/etc", "/srv"]),
        "command": st.just("ls"),
        "does": st.sampled_from(["read", "write"]),
    },
)
SAID = st.sampled_from([None, True, False])
TOOLS = st.one_of(
    st.builds(
        tool, st.sampled_from(["read_file", "delete_page", "run"]),
        st.builds(Annotations, read_only=SAID, destructive=SAID, open_world=SAID),
    ),
    st.builds(Tool, name=st.sampled_from(["Bash", "Read", "Edit", "apply_patch", "update_plan"]), source=st.just("client")),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(RULES, max_size=5), st.sampled_from(["allow", "ask", "deny"]), TOOLS,
    st.sampled_from(["main", "helper"]), st.sampled_from([None, {"id": "ann"}, {"is_owner": True, "roles": ["reader"]}]),
    st.sampled_from([{}, {"path": "/etc/passwd"}, {"path": "/srv/a"}, {"command": "ls"}, {"command": "rm -r /etc"}]),
)  # fmt: skip
def test_what_the_plugin_says_of_a_call_is_always_among_what_the_table_says(
    rules: list[dict[str, Any]], default: str, one: Tool, agent: str, requester: Any, arguments: dict[str, Any]
) -> None:
    try:
        config = ToolPolicy.Config.model_validate({"rules": rules, "default": default})
    except ValueError:  # a rule that another one always beats is a mistake
        return
    call = event(BeforeToolCall, tool=one, arguments=arguments, agent_id=agent, requester=requester)
    answer = ToolPolicy(config).judge(call)
    action = "deny" if isinstance(answer, Block) else "ask" if isinstance(answer, Ask) else "allow"
    assert action in verdict_of(one, {"tool_policy": ToolPolicy.describe_rules(config)}).actions


# The order


def test_what_runs_unasked_and_may_do_harm_comes_first_and_what_is_denied_last() -> None:
    tools = [
        tool("denied", Annotations(destructive=True)), tool("asked", Annotations(destructive=True)),
        tool("reads", READS), tool("browses", Annotations(read_only=True, open_world=True)),
        tool("adds", Annotations(destructive=False, open_world=False)), tool("unsaid"),
        tool("destroys", Annotations(destructive=True, open_world=False)),
        tool("sometimes", Annotations(destructive=True, open_world=False)),
    ]  # fmt: skip
    rules = [
        {"action": "deny", "tools": "denied"}, {"action": "ask", "tools": "asked"},
        {"action": "deny", "tools": "sometimes", "path_inside": "/etc"},
    ]  # fmt: skip
    order = riskiest_first(verdict(one, *rules) for one in tools)
    assert [one.tool.name for one in order] == [
        "destroys", "sometimes", "unsaid", "adds", "browses", "reads", "asked", "denied",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        (Annotations(), ["destructive?", "open_world?"]),
        (READS, ["read_only"]),
        (Annotations(read_only=True, destructive=True), ["read_only", "destructive", "open_world?"]),
        (Annotations(destructive=False, open_world=True), ["not destructive", "open_world"]),
    ],
)
def test_what_a_tool_does_not_say_is_marked(annotations: Annotations, words: list[str]) -> None:
    assert hint_words(annotations) == words


# Who judges


class Strict:
    """Describes its rules."""

    @classmethod
    def describe_rules(cls, config: Any) -> Rules:
        return rules_of({"action": "deny", "tools": "delete_*"})

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        return None


class Broken(Strict):
    """Fails to."""

    @classmethod
    def describe_rules(cls, config: Any) -> Rules:
        raise RuntimeError("not today")


class Silent:
    """Says nothing of them."""

    @hooks.before_tool_call(tools="send_*")
    def judge(self, event: BeforeToolCall) -> Block | None:
        return None


def judges(plugins: Sequence[type], config: dict[str, Any], folder: Path) -> Judges:
    def refused(plugin: Plugin, error: Exception) -> None:
        raise error

    whole = Config.model_validate(config)
    return judges_of(load_plugins(plugins, whole, folder=folder, on_refusal=refused)[0], whole)


def test_a_plugin_that_describes_its_rules_is_in_the_table_and_any_other_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = judges([Strict, Broken, Silent], {}, tmp_path)
    assert list(told.described) == ["strict"]
    assert [one.plugin for one in told.others] == ["broken", "silent"]
    assert "plugin 'broken': its describe_rules(...) raised RuntimeError: not today" in caplog.text
    mail, other = lines_of(Catalog(tools=[tool("send_mail"), tool("list")], judges=told, withheld={}, servers_down=[]))
    assert {mail.verdict.tool.name: list(mail.others), other.verdict.tool.name: list(other.others)} == {
        "send_mail": ["broken", "silent"], "list": ["broken"],
    }  # fmt: skip


def test_rules_in_shadow_mode_hold_nobody_back(tmp_path: Path) -> None:
    told = judges([Strict], {"plugins": {"strict": {"mode": "shadow"}}}, tmp_path)
    assert (told.described, told.shadowed) == ({}, ["strict"])


# A profile


def lines(profile: Profile, *rules: dict[str, Any], default: str = "allow") -> dict[str, Line]:
    catalog = Catalog(
        tools=[tool("read_file"), tool("delete_page"), Tool(name="pay", source="mcp", owner="bank")],
        judges=Judges(described={"tool_policy": rules_of(*rules, default=default)}),
        withheld={"delete_page": ("guard", "never")}, servers_down=[],
    )  # fmt: skip
    return {line.verdict.tool.name: line for line in lines_of(catalog, "reader", profile)}


def test_what_a_profile_or_a_plugin_takes_away_is_withheld_and_comes_last() -> None:
    told = lines(Profile(servers=["files"]))
    assert [(name, line.action) for name, line in told.items()] == [
        ("read_file", "allow"), ("pay", "withheld"), ("delete_page", "withheld"),
    ]  # fmt: skip
    assert told["delete_page"].withheld == ("guard", "never")
    assert told["pay"].withheld == ("gateway", "the profile 'reader' does not have it")


@pytest.mark.parametrize(
    ("requester", "words"),
    [
        ({"roles": "reader"}, "deny"),  # the profile's name is a role
        ({"roles": "writer"}, "allow"),
        ({"is_owner": True}, "deny"),
        ({"id": "ann"}, "allow or deny"),  # who it is, the token says
        ({"id": "ann", "roles": "writer"}, "allow"),
    ],
)
def test_what_a_profile_says_of_who_asks_is_settled(requester: dict[str, Any], words: str) -> None:
    told = lines(Profile(requester={"is_owner": True}), {"action": "deny", "requester": requester})
    assert told["read_file"].action == words


@pytest.mark.parametrize("default", ["allow", "deny"])
@pytest.mark.parametrize("action", ["deny", "ask"])
@pytest.mark.parametrize("closed", [False, True])
def test_the_table_says_what_becomes_of_calls_where_a_rule_is_misspelt(
    action: str, default: str, *, closed: bool
) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"amount": {}}, "additionalProperties": not closed}
    pay = Tool(name="pay", source="mcp", owner="bank", parameters=schema)
    config = ToolPolicy.Config.model_validate(
        {"rules": [{"action": action, "tools": "pay", "arguments": {"required": ["amunt"]}}], "default": default}
    )
    judges = Judges(described={"tool_policy": ToolPolicy.describe_rules(config)})
    (line,) = lines_of(Catalog(tools=[pay], judges=judges, withheld={}, servers_down=[]))
    said = ToolPolicy(config).judge(event(BeforeToolCall, tool=pay, arguments={"amount": 1}))
    assert ("deny" if isinstance(said, Block) else "ask" if isinstance(said, Ask) else "allow") in line.action
    assert not (closed and default == "allow") or line.action == action
    (problem,) = misspelt(judges, [pay])
    assert problem.startswith(
        "tool_policy rule 1: no tool of this rule has an argument 'amunt'. Did you mean 'amount'?"
    )


def test_a_handler_for_some_tools_judges_no_others() -> None:
    judge = Judge(plugin="guard", patterns=[ToolPattern("delete_*")])
    assert judge.may_judge(tool("deletePage"))
    assert not judge.may_judge(tool("list"))


# The report


@pytest.mark.anyio
async def test_the_report_of_a_run_says_what_the_rules_say_of_its_tools(tmp_path: Path) -> None:
    from reports import part, read_page
    from reports import rows as rows_on

    from hooksdk.report import build, render

    config = {"plugins": {"trace_file": {"config": {"path": str(tmp_path / "trace.jsonl")}}}}
    tools = [tool("delete_page"), tool("read_file", READS)]
    async with open_session("trace_file", tools=tools, config=config, store=MemoryStore()) as session:
        await play(session, ["Done."], "Hello")
    records = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text("utf-8").splitlines()]
    page = render(build(records, policies={"tool_policy": rules_of({"action": "deny", "tools": "delete_*"})}))
    assert rows_on(part(read_page(page), "What the rules say of these tools")) == [
        ["allow", "mcp:files:read_file", "read_only", "default"],
        ["deny", "mcp:files:delete_page", "destructive?, open_world?", "rule 1"],
    ]
    assert "What the rules say" not in render(build(records))


# Rows of tools of which the same is said


def rows_of(tools: list[Tool], *rules: dict[str, Any], default: str = "allow") -> list[tuple[str, str, str, str]]:
    judges = Judges(described={"tool_policy": rules_of(*rules, default=default)})
    return rows(lines_of(Catalog(tools=tools, judges=judges, withheld={}, servers_down=[])), judges)


def test_tools_with_the_same_verdict_by_the_same_rules_stand_in_one_row() -> None:
    tools = [tool("read", READS), tool("write"), Tool(name="pay", source="mcp", owner="bank")]
    rules = [{"action": "deny", "path_inside": f"/{name}"} for name in "abcd"]
    assert rows_of(tools, *rules, {"action": "ask", "tools": "pay", "url_host": "a.example"}) == [
        (
            "allow, ask or deny", "mcp:bank:pay", "rules 1 to 4 may deny, rule 5 may ask, else the default allows",
            "destructive?, open_world?",
        ),
        (
            "allow or deny", "2 tools: mcp:files:* (2)", "rules 1 to 4 may deny, else the default allows",
            "1 destructive?, 1 open_world?, 1 read_only",
        ),
    ]  # fmt: skip


def test_of_many_tools_of_a_row_the_first_are_named_and_the_others_counted() -> None:
    others = [Tool(name=f"add_{number}", source="mcp", owner="files") for number in range(998)]
    told, denied = rows_of([tool("a"), *others, tool("z")], {"action": "deny", "tools": "z"})
    assert told[1] == "999 tools: mcp:files:a, mcp:files:add_0, mcp:files:add_1, mcp:files:add_10 and 995 more"
    assert denied[1] == "mcp:files:z"


def test_rules_of_two_plugins_are_named_with_their_plugin() -> None:
    policies = {name: rules_of({"action": "deny", "path_inside": "/etc"}) for name in ("one", "two")}
    judges = Judges(described=policies)
    (row,) = rows(lines_of(Catalog(tools=[tool("read")], judges=judges, withheld={}, servers_down=[])), judges)
    assert row[2] == "one rule 1 may deny, else the default allows; two rule 1 may deny, else the default allows"


# The command


CONFIG = """
[plugins.tool_policy.config]
default = "ask"

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:plain:add"

[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "environment"

[gateway.profiles.reader]
allow = "mcp:plain:add"
"""


@pytest.mark.heavy
@pytest.mark.anyio
async def test_the_command_shows_every_tool_of_the_servers_and_the_rules(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra `mcp`")
    from commands import hooksdk, write_servers, write_user_file

    write_user_file(tmp_path, CONFIG)
    servers = write_servers(tmp_path / "mcp.json")
    done = await hooksdk("policy", "table", "--mcp", servers, folder=tmp_path)
    listed = done.out.splitlines()
    assert done.code == 0
    assert listed[0].split() == ["verdict", "tools", "decided", "by", "they", "say"]
    assert listed[1].split() == ["allow", "mcp:plain:add", "rule", "1", "read_only,", "open_world?"]
    assert listed[2].split()[:3] == ["ask", "4", "tools:"]
    assert listed[3].split()[:2] == ["deny", "mcp:plain:environment"]
    assert listed[-1] == "in all       6 tools: 1 unasked, 4 asked about, 1 denied"
    told = (await hooksdk("policy", "table", "--mcp", servers, "--json", "--profile", "reader", folder=tmp_path)).json()
    assert [(one["id"], one["verdict"]) for one in told["tools"] if not one["withheld"]] == [("mcp:plain:add", "allow")]
    assert told["rules"] == [
        {
            "plugin": "tool_policy",
            "number": 1,
            "action": "allow",
            "tools": 1,
            "text": 'action = "allow", tools = "mcp:plain:add"',
        }
    ]
    done = await hooksdk("policy", "table", "--mcp", servers, "--profile", "raeder", folder=tmp_path)
    assert (done.code, done.complaint) == (
        1,
        "hooksdk: --profile: there is no profile 'raeder'. Did you mean 'reader'?",
    )
