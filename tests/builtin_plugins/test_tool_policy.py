"""Rules from the configuration allow, deny and ask."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from builtin_plugins.tool_policy import ToolPolicy
from builtin_plugins.tool_policy._dead import _covers, _decides_first, candidates_of, dead_rules  # pyright: ignore[reportPrivateUsage]
from builtin_plugins.tool_policy._rule import Rule
from hooksdk import Annotations, ApprovalRequest, Host, MemoryStore, Tool, ToolCall, hooks
from hooksdk.config import Notice
from hooksdk.errors import ConfigError
from hooksdk.hooks import AssembleTools, BeforeToolCall, Offer
from hooksdk.patterns import ToolPattern
from hooksdk.testing import ScriptedApprover
from hooksdk.tools import Source
from tests.stage import USER, Stage, playing

pytestmark = pytest.mark.anyio


@dataclass
class Judged(Stage):
    """A stage with the names of the tools that ran, and what a person was asked."""

    ran: list[str] = field(default_factory=list[str])
    asked: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])

    @property
    def granted(self) -> list[str]:
        return [tool.name for tool in self.run.tools]


def settings(rules: Sequence[object] = (), **config: Any) -> dict[str, Any]:
    """The policy's configuration; `search=True` switches tool search on beside it."""
    search = config.pop("search", False)
    written = {"rules": list(rules), **config} if rules else config
    plugins: dict[str, Any] = {"tool_policy": {"config": written}}
    if search:
        plugins["tool_search"] = {"config": {"enabled": "on"}}
    return {"allow": list(plugins), "plugins": plugins}


@asynccontextmanager
async def judged(
    *rules: object, tools: Sequence[Tool] | None = None, approve: bool | None = None, plugins: Sequence[Any] = (),
    run: Mapping[str, Any] | None = None, **config: Any,
) -> AsyncGenerator[Judged, None]:  # fmt: skip
    ran: list[str] = []
    approver = None if approve is None else ScriptedApprover(approve)
    given = [noting(tool, ran) for tool in tools or TOOLS]
    config = settings(rules, **config)
    async with playing(
        *plugins, tools=given, config=config, approver=approver, context_window=200_000, **(run or {})
    ) as stage:
        await stage.run.record(USER)
        asked = approver.requests if approver else []
        yield Judged(stage.host, stage.session, stage.run, ran=ran, asked=asked)


def noting(tool: Tool, ran: list[str]) -> Tool:
    async def execute(arguments: dict[str, Any]) -> str:
        ran.append(tool.own_name)
        return "done"

    return tool.copy(execute=execute)


def make(name: str, source: Source = "mcp", owner: str = "github", label: str = "", **annotations: bool) -> Tool:
    return Tool(
        name=name, description=f"To {name}.", parameters={"type": "object"}, source=source, owner=owner, label=label,
        annotations=Annotations(**annotations),
    )  # fmt: skip


READ = make("read_file", "host", "core", read_only=True)
WRITE = make("write_file", "host", "core", destructive=True)
ISSUE = make("create_issue")
DELETE = make("delete_issue", destructive=True)
MAIL = make("send_mail", owner="gmail")
TOOLS = [READ, WRITE, ISSUE, DELETE, MAIL]
ALL = [tool.name for tool in TOOLS]
IN_TMP = {"properties": {"path": {"pattern": "^/tmp/"}}, "required": ["path"]}


# What a rule is about


@pytest.mark.parametrize(
    ("rule", "withheld"),
    [
        ({"tools": "delete_*"}, ["delete_issue"]),
        ({"tools": ["delete_*", "send_mail"]}, ["delete_issue", "send_mail"]),
        ({"tools": "mcp:github:*"}, ["create_issue", "delete_issue"]),
        ({"annotations": {"destructive": True}}, ["write_file", "create_issue", "delete_issue", "send_mail"]),
        ({"annotations": {"destructive": True}, "sources": "host"}, ["write_file"]),
        ({"annotations": {"read_only": True}}, ["read_file"]),
        ({"sources": ["host"]}, ["read_file", "write_file"]),
        ({"owners": "g*"}, ["create_issue", "delete_issue", "send_mail"]),
        ({"owners": ["gmai?"]}, ["send_mail"]),
        ({}, ALL),
    ],
)
async def test_a_deny_without_conditions_on_the_call_withholds_the_tools_it_is_about(
    rule: dict[str, Any], withheld: list[str]
):
    async with judged({"action": "deny", **rule}) as stage:
        assert stage.granted == [name for name in ALL if name not in withheld]
        assert list(stage.run.tools.withheld) == withheld


STYLED = [make("delete_comment"), make("deleteIssue"), make("bulkDelete"), make("Delete-All", owner="GitHub")]


@pytest.mark.parametrize(
    ("rule", "others"),
    [
        ({"tools": "*delete*"}, []),
        ({"tools": "delete_*"}, ["bulkDelete"]),
        ({"tools": "Delete*"}, ["bulkDelete"]),
        ({"tools": "delete_issue"}, ["delete_comment", "bulkDelete", "Delete-All"]),
        ({"tools": "mcp:GITHUB:delete_*"}, ["bulkDelete"]),
        ({"tools": "mcp__github__delete_*"}, ["bulkDelete"]),
        ({"owners": "github"}, []),
        ({"owners": "GIT*", "tools": "*_delete"}, ["delete_comment", "deleteIssue", "Delete-All"]),
    ],
)
@pytest.mark.parametrize("action", ["deny", "ask"])
async def test_a_deny_and_an_ask_take_names_by_their_words_and_owners_in_any_case(
    rule: dict[str, Any], others: list[str], action: str
):
    async with judged({"action": action, **rule}, tools=STYLED) as stage:
        for tool in STYLED:
            await stage.call(tool.name)
        assert stage.ran == others


@pytest.mark.parametrize(
    ("rule", "granted"),
    [
        ({"tools": "*delete*"}, ["delete_comment", "deleteIssue"]),
        ({"tools": "delete_*"}, ["delete_comment"]),
        ({"tools": "*Delete*"}, ["bulkDelete", "Delete-All"]),
        ({"tools": "mcp:github:*"}, ["delete_comment", "deleteIssue", "bulkDelete"]),
        ({"tools": "mcp__github__delete_*"}, []),
        ({"owners": "GitHub"}, ["Delete-All"]),
    ],
)
async def test_an_allow_takes_names_and_owners_as_they_are_written(rule: dict[str, Any], granted: list[str]):
    async with judged({"action": "allow", **rule}, tools=STYLED, default="deny") as stage:
        assert stage.granted == granted


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("name", ["read_only", "destructive", "idempotent", "open_world"])
async def test_an_allow_never_goes_by_an_annotation_that_a_tool_does_not_say(name: str, wanted: bool):
    async with judged({"action": "allow", "annotations": {name: wanted}}, tools=[ISSUE], default="deny") as stage:
        assert stage.granted == []


@pytest.mark.parametrize(
    ("name", "unsaid"), [("read_only", False), ("destructive", True), ("idempotent", False), ("open_world", True)]
)
async def test_of_a_tool_that_says_nothing_a_deny_takes_what_mcp_takes(name: str, unsaid: bool):
    async with judged({"action": "deny", "annotations": {name: unsaid}}, tools=[ISSUE]) as stage:
        assert stage.granted == []
    async with judged({"action": "deny", "annotations": {name: not unsaid}}, tools=[ISSUE]) as stage:
        assert stage.granted == ["create_issue"]


async def test_an_answer_says_what_a_tool_is_taken_for_that_says_nothing_of_itself():
    silent = make("read_notes")
    rule = {"annotations": {"destructive": True, "read_only": False}}
    counts = "read_notes says nothing of it, so it counts as destructive and not read-only"
    async with judged({"action": "ask", "title": "Go on?", **rule}, tools=[silent]) as stage:
        assert f"'Go on? ({counts})' was not approved" in (await stage.call("read_notes")).text
    async with judged({"action": "deny", "arguments": {"type": "object"}, **rule}, tools=[silent]) as stage:
        assert f"denies it ({counts})" in (await stage.call("read_notes")).text
    async with judged(
        {"action": "ask", "title": "Go on?", "annotations": {"destructive": True}}, tools=[DELETE]
    ) as stage:
        assert "'Go on?' was not approved" in (await stage.call("delete_issue")).text


async def test_a_tool_that_says_that_it_only_reads_is_not_taken_for_destructive():
    async with judged({"action": "deny", "annotations": {"destructive": True}}, tools=[READ]) as stage:
        assert stage.granted == ["read_file"]


DENY_ISSUES = {"action": "deny", "tools": "*_issue", "arguments": {"required": ["force"]}}
ASK_ISSUES = {"action": "ask", "tools": "*_issue", "arguments": {"required": ["title"]}}
ALLOW_ISSUES = {"action": "allow", "tools": "*_issue"}


@pytest.mark.parametrize("rules", list(itertools.permutations([DENY_ISSUES, ASK_ISSUES, ALLOW_ISSUES])))
async def test_deny_beats_ask_beats_allow_in_every_order(rules: Sequence[object]):
    async with judged(*rules, default="deny", approve=True) as stage:
        assert (await stage.call("create_issue", {"force": True, "title": "x"})).is_error
        assert stage.asked == []
        assert not (await stage.call("create_issue", {"title": "x"})).is_error
        assert len(stage.asked) == 1
        assert not (await stage.call("create_issue", {})).is_error
        assert len(stage.asked) == 1


async def test_of_two_denies_that_fit_the_first_one_gives_the_reason():
    conditions = {"tools": "*_issue", "arguments": {"required": ["force"]}}
    rules = [{"action": "deny", **conditions, "reason": "one"}, {"action": "deny", **conditions, "reason": "two"}]
    async with judged(*rules) as stage:
        assert "one" in (await stage.call("create_issue", {"force": True})).text


@pytest.mark.parametrize(
    ("condition", "fitting", "other"),
    [
        ({"agents": "worker-*"}, {"agent_id": "worker-3"}, {"agent_id": "main"}),
        ({"triggers": ["schedule", "subagent"]}, {"trigger": "schedule"}, {"trigger": "user"}),
        ({"requester": {"is_owner": False}}, {"requester": {"is_owner": False}}, {"requester": {"is_owner": True}}),
        ({"requester": {"is_owner": False}}, {}, {"requester": {"is_owner": True}}),
        ({"requester": {"is_owner": True}}, {"requester": {"is_owner": True}}, {}),
        (
            {"requester": {"roles": ["guest"]}},
            {"requester": {"roles": ["x", "guest"]}},
            {"requester": {"roles": ["x"]}},
        ),
        ({"requester": {"roles": "guest"}}, {"requester": {"roles": "guest"}}, {}),
        ({"requester": {"id": "u1"}}, {"requester": {"id": "u1"}}, {"requester": {"id": "u2"}}),
        ({"requester": {"id": "7"}}, {"requester": {"id": 7}}, {}),
        ({"workspaces": "/srv"}, {"workspace_dir": "/srv/a/b"}, {"workspace_dir": "/srvother"}),
        ({"workspaces": "/srv/*"}, {"workspace_dir": "/srv/a"}, {"workspace_dir": "/srv"}),
        ({"workspaces": "/srv/*/web"}, {"workspace_dir": "/srv/a/web/x"}, {"workspace_dir": "/srv/a/b/web"}),
        ({"workspaces": ["/opt", "/srv/"]}, {"workspace_dir": "/srv"}, {"workspace_dir": "/srv/../etc"}),
        ({"workspaces": "/srv"}, {"workspace_dir": "/etc/../srv"}, {}),
    ],
)
async def test_conditions_on_the_run_withhold_in_the_runs_they_fit(
    condition: dict[str, Any], fitting: dict[str, Any], other: dict[str, Any]
):
    rule = {"action": "deny", "tools": "write_file", **condition}
    async with judged(rule, run=fitting) as stage:
        assert "write_file" not in stage.granted
    async with judged(rule, run=other) as stage:
        assert "write_file" in stage.granted


# Conditions on the call


async def test_a_deny_with_conditions_on_the_arguments_blocks_the_call_and_only_this_one():
    rule = {"action": "deny", "tools": "write_file", "arguments": IN_TMP, "reason": "not in /tmp"}
    async with judged(rule) as stage:
        assert "write_file" in stage.granted
        blocked = await stage.call("write_file", {"path": "/tmp/x"})
        assert blocked.is_error
        assert "not in /tmp" in blocked.text
        assert (await stage.call("write_file", {"path": "/home/x"})).text == "done"
        assert stage.ran == ["write_file"]


async def test_an_allow_with_conditions_lets_only_the_fitting_calls_past_a_default_of_deny():
    async with judged({"action": "allow", "tools": "write_file", "arguments": IN_TMP}, default="deny") as stage:
        assert "write_file" in stage.granted
        assert not (await stage.call("write_file", {"path": "/tmp/x"})).is_error
        assert (await stage.call("write_file", {"path": "/etc/x"})).is_error
        assert (await stage.call("write_file")).is_error
        assert stage.ran == ["write_file"]


async def test_a_tool_of_which_no_call_could_be_allowed_is_withheld_though_a_condition_stands_before():
    rules = [{"action": "deny", "tools": "write_file", "arguments": IN_TMP}, {"action": "deny", "tools": "write_file"}]
    async with judged(*rules) as stage:
        assert "write_file" not in stage.granted


async def test_a_deny_without_a_reason_names_its_rule():
    async with judged({"action": "allow", "tools": "x"}, {"action": "deny", "arguments": IN_TMP}) as stage:
        assert "rule 2 of the tool policy" in (await stage.call("write_file", {"path": "/tmp/x"})).text


async def test_arguments_that_cannot_be_checked_are_blocked():
    steps: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
    chain = {"$defs": {**steps, "d30": {"type": "object"}}, "$ref": "#/$defs/d0"}
    for action in ("allow", "deny"):
        async with judged({"action": action, "tools": "write_file", "arguments": chain}) as stage:
            result = await stage.call("write_file", {"path": "x"})
            assert result.is_error
            assert "cannot be checked against rule 1" in result.text
            assert stage.ran == []


async def test_a_withheld_tool_cannot_be_called_and_the_model_reads_why():
    async with judged({"action": "deny", "tools": "delete_*", "reason": "nothing is deleted here"}) as stage:
        result = await stage.call("delete_issue")
        assert result.is_error
        assert "nothing is deleted here" in result.text
        assert stage.ran == []


async def test_a_tool_that_a_plugin_offers_is_withheld_like_any_other():
    class Sneaky:
        @hooks.assemble_tools
        def offer(self, event: AssembleTools) -> Offer:
            return Offer(tools=[make("delete_all", "plugin", "sneaky").copy(execute=lambda arguments: "gone")])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    async with judged({"action": "deny", "tools": "delete_*"}, plugins=[Sneaky]) as stage:
        result = await stage.call("delete_all")
        assert result.is_error
        assert "the tool policy denies it" in result.text


# Asking


async def test_an_ask_runs_the_call_once_a_person_agrees():
    rule = {"action": "ask", "tools": "send_mail", "title": "Send it?", "reason": "mail leaves", "severity": "critical"}
    async with judged(rule, approve=True) as stage:
        assert not (await stage.call("send_mail", {"to": "a@b"})).is_error
        (request,) = stage.asked
        assert (request.title, request.description, request.severity) == ("Send it?", "mail leaves", "critical")


async def test_an_ask_that_is_refused_blocks_the_call():
    async with judged({"action": "ask", "tools": "send_mail"}, approve=False) as stage:
        assert (await stage.call("send_mail")).is_error
        assert stage.asked[0].title == "Run send_mail?"
        assert stage.ran == []


async def test_an_ask_that_nobody_can_answer_blocks_the_call():
    async with judged({"action": "ask", "tools": "send_mail"}) as stage:
        assert (await stage.call("send_mail")).is_error
        assert stage.ran == []


async def test_an_asked_tool_is_named_by_its_label():
    async with judged(default="ask", tools=[make("send_mail", label="Send mail")], approve=True) as stage:
        await stage.call("send_mail")
        assert stage.asked[0].title == "Run Send mail?"


# The default, and the bridge tools


async def test_under_a_default_of_deny_only_what_a_rule_allows_is_granted():
    async with judged({"action": "allow", "tools": "mcp:github:*"}, default="deny") as stage:
        assert stage.granted == ["create_issue", "delete_issue"]


async def test_under_a_default_of_deny_a_conditional_allow_keeps_the_tool_and_judges_each_call():
    async with judged({"action": "allow", "tools": "write_file", "arguments": IN_TMP}, default="deny") as stage:
        assert stage.granted == ["write_file"]
        assert not (await stage.call("write_file", {"path": "/tmp/x"})).is_error
        assert "no rule of the tool policy allows it" in (await stage.call("write_file", {"path": "/x"})).text


async def test_under_a_default_of_ask_everything_is_granted_and_every_call_is_asked():
    async with judged({"action": "allow", "tools": "read_file"}, default="ask", approve=True) as stage:
        assert stage.granted == ALL
        await stage.call("read_file")
        await stage.call("write_file")
        assert [request.call.name for request in stage.asked] == ["write_file"]


@pytest.mark.parametrize("default", ["deny", "ask"])
async def test_a_strict_default_does_not_close_the_search_for_allowed_tools(default: str):
    rules = [{"action": "allow", "tools": "create_issue"}]
    async with judged(*rules, default=default, search=True, approve=False) as stage:
        found = await stage.call("tool_search", {"queries": ["create issue", "send mail"]})
        described = await stage.call("tool_describe", {"names": ["create_issue"]})
        called = await stage.call("tool_call", {"name": "create_issue", "arguments": {}})
        assert not found.is_error
        assert not described.is_error
        assert "create_issue" in found.text
        assert called.text == "done"
        assert stage.asked == []


async def test_a_rule_for_all_tools_does_not_close_the_search_either():
    rules = [{"action": "deny", "arguments": {"required": ["force"]}}, {"action": "deny", "tools": "*:gmail:*"}]
    async with judged(*rules, search=True) as stage:
        assert "create_issue" in (await stage.call("tool_search", {"queries": ["create issue"]})).text


async def test_nothing_that_is_denied_comes_through_the_bridge():
    async with judged({"action": "allow", "tools": "create_issue"}, default="deny", search=True) as stage:
        found = await stage.call("tool_search", {"queries": ["delete issue", "send mail"]})
        called = await stage.call("tool_call", {"name": "delete_issue", "arguments": {}})
        assert "delete_issue" not in found.text
        assert called.is_error
        assert stage.ran == []


async def test_a_call_through_the_bridge_is_judged_under_its_real_name():
    rule = {"action": "deny", "tools": "create_issue", "arguments": {"required": ["secret"]}, "reason": "no secrets"}
    async with judged(rule, search=True) as stage:
        result = await stage.call("tool_call", {"name": "create_issue", "arguments": {"secret": 1}})
        assert "no secrets" in result.text
        assert stage.ran == []


async def test_a_rule_that_spells_a_bridge_tool_out_closes_it():
    async with judged({"action": "deny", "tools": "tool_search", "reason": "no searching"}, search=True) as stage:
        assert "no searching" in (await stage.call("tool_search", {"queries": ["create issue"]})).text
        assert not (await stage.call("tool_describe", {"names": ["create_issue"]})).is_error


async def test_a_foreign_tool_that_is_named_like_a_bridge_is_judged_like_any_other():
    async with judged(tools=[make("tool_search", owner="evil")], default="deny") as stage:
        assert stage.granted == []


# Mistakes in the configuration


@pytest.mark.light(every=7)
@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({}, "it has no action"),
        ({"action": "denny"}, "Did you mean 'deny'?"),
        ({"action": "deny", "tool": "x"}, "'tool' is not a known setting. Did you mean 'tools'?"),
        ({"action": "deny", "tools": "mpc:x:*"}, "Did you mean 'mcp'?"),
        ({"action": "deny", "tools": "github:*"}, "write all three"),
        ({"action": "deny", "tools": []}, "an empty list fits nothing"),
        ({"action": "deny", "tools": [3]}, "tools.0"),
        ({"action": "deny", "agents": []}, "an empty list fits nothing"),
        ({"action": "deny", "sources": "mpc"}, "'mpc' is not a known source. Did you mean 'mcp'?"),
        ({"action": "deny", "triggers": "scheduled"}, "Did you mean 'schedule'?"),
        ({"action": "deny", "annotations": {}}, "it is empty"),
        ({"action": "deny", "annotations": {"destructve": True}}, "Did you mean 'destructive'?"),
        ({"action": "deny", "annotations": {"destructive": "maybe"}}, "annotations.destructive"),
        ({"action": "deny", "requester": {}}, "write is_owner, roles or id"),
        ({"action": "deny", "requester": {"role": "x"}}, "Did you mean 'roles'?"),
        ({"action": "deny", "arguments": {}}, "every call fits"),
        ({"action": "deny", "arguments": {"type": "objct"}}, "not a JSON Schema"),
        ({"action": "deny", "arguments": {"$ref": "#/nowhere"}}, "not a JSON Schema"),
        ({"action": "deny", "arguments": {"path": {"const": "x"}}}, 'Arguments stand under properties: {"properties"'),
        ({"action": "deny", "arguments": {"properties": {"path": {"patern": "x"}}}}, "'properties.path.patern'"),
        ({"action": "deny", "arguments": {"anyOf": [{"requird": ["x"]}]}}, "'anyOf.0.requird'"),
        ({"action": "deny", "arguments": {"not": {"requird": ["x"]}}}, "'not.requird'"),
        ({"action": "ask", "severity": "high"}, "severity"),
        ({"action": "deny", "workspaces": "srv"}, "not an absolute folder"),
        ({"action": "deny", "path_inside": {}}, "it is empty"),
        ({"action": "deny", "path_inside": []}, "an empty list fits nothing"),
        ({"action": "deny", "path_inside": "/srv/*"}, "is not a folder"),
        ({"action": "deny", "path_inside": "/srv/../etc"}, "goes upwards"),
        ({"action": "deny", "url_host": "https://example.org"}, "without scheme, port and path"),
        ({"action": "deny", "url_host": {"url": "exam*.org"}}, "is not a host"),
        ({"action": "deny", "url_host": "b\u00fccher.example"}, "write 'xn--bcher-kva.example'"),
        ({"action": "deny", "command": "git push --force"}, "name the command alone"),
        ("deny", "dictionary"),
    ],
)
async def test_a_mistake_in_a_rule_is_told_at_the_start_with_its_number_and_what_to_write(rule: object, told: str):
    with pytest.raises(ConfigError) as caught:
        Host(store=MemoryStore(), config=settings([{"action": "allow", "tools": "x"}, rule]))
    assert "rule 2: " in str(caught.value)
    assert told in str(caught.value)


async def test_all_mistakes_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        Host(store=MemoryStore(), config=settings([{"action": "allow", "tool": "x"}, {"action": "no"}]))
    assert "rule 1: " in str(caught.value)
    assert "rule 2: " in str(caught.value)


@pytest.mark.parametrize("config", [{}, {"ruls": []}, {"default": "maybe"}, {"rules": {"action": "deny"}}])
async def test_a_policy_without_rules_or_with_wrong_settings_is_refused(config: dict[str, Any]):
    with pytest.raises(ConfigError):
        Host(store=MemoryStore(), config=settings(**config))


@pytest.mark.parametrize(
    ("dead", "by"),
    [
        ({"action": "allow", "tools": "read_file"}, {"action": "deny"}),
        ({"action": "allow", "tools": "mcp:github:delete_issue"}, {"action": "deny", "tools": "delete_*"}),
        ({"action": "ask", "tools": "mcp:github:delete_*"}, {"action": "deny", "tools": "mcp:g*:*"}),
        ({"action": "allow", "tools": ["a_x", "b_x"]}, {"action": "ask", "tools": ["a_*", "b_*", "c"]}),
        (
            {"action": "allow", "tools": "x", "agents": "worker-1"},
            {"action": "deny", "tools": "x", "agents": "worker-*"},
        ),
        (
            {"action": "allow", "tools": "x", "triggers": "user"},
            {"action": "ask", "tools": "x", "triggers": ["user", "other"]},
        ),
        ({"action": "allow", "path_inside": "/srv", "tools": "x"}, {"action": "deny", "tools": "x"}),
        ({"action": "allow", "path_inside": "/srv", "tools": "x"}, {"action": "allow", "tools": "x*"}),
        ({"action": "allow", "tools": "deleteIssue"}, {"action": "deny", "tools": "delete_*"}),
        ({"action": "allow", "tools": "mcp:GitHub:deleteIssue"}, {"action": "ask", "tools": "mcp:github:delete-*"}),
    ],
)
async def test_a_rule_that_another_one_always_beats_is_told_at_the_start_with_both_numbers(
    dead: dict[str, Any], by: dict[str, Any]
):
    for rules, numbers in (([dead, by], (1, 2)), ([by, dead], (2, 1))):
        with pytest.raises(ConfigError) as caught:
            Host(store=MemoryStore(), config=settings(rules))
        assert f"rule {numbers[0]} (" in str(caught.value)
        assert f"never decides: rule {numbers[1]} (" in str(caught.value)


pieces = st.lists(st.sampled_from(["a", "B", "c2", "_", "-", "*", "?"]), min_size=1, max_size=6).map("".join)


@pytest.mark.heavy
@limits(max_examples=400, deadline=None)
@given(pieces, pieces, st.text("aAbBcC2_-.", min_size=1, max_size=8), st.sampled_from(["ask", "allow"]))
def test_whatever_a_rule_that_never_decides_is_about_the_other_one_is_about_too(
    wide: str, narrow: str, name: str, action: str
):
    rules = [{"action": "deny", "tools": wide}, {"action": action, "tools": narrow}]
    try:
        ToolPolicy.Config.model_validate({"rules": rules})
    except ValueError:
        tool, pattern = make(name), ToolPattern(narrow)
        if pattern.matches(tool) or (action == "ask" and pattern.may_mean(tool)):
            assert ToolPattern(wide).may_mean(tool)


MANY: dict[str, Callable[[int], dict[str, Any]]] = {
    "tools": lambda at: {"tools": f"mcp:server{at}:delete_{at}_*"},
    "names that hold others": lambda at: {"tools": [f"get_{at}", f"*_set{at}_?"]},
    "names in other letters": lambda at: {"tools": f"*_\u4e2d\u6587{at}"},
    "agents": lambda at: {"tools": "pay", "agents": f"team-{at}-*"},
    "owners": lambda at: {"owners": f"server{at}"},
    "requesters": lambda at: {"tools": "pay", "requester": {"id": f"user-{at}"}},
    "workspaces": lambda at: {"tools": "pay", "workspaces": f"/srv/{at}"},
    "conditions": lambda at: {"tools": "pay", "path_inside": f"/srv/{at}"},
}  # fmt: skip


@pytest.mark.parametrize("kind", MANY)
def test_a_rule_is_compared_with_few_others_however_many_there_are(kind: str):
    actions = ("deny", "ask", "allow")
    rules = [Rule.model_validate({"action": actions[at % 3], **MANY[kind](at)}) for at in range(400)]
    assert sum(len(others) for _, others in candidates_of(rules)) < 4 * len(rules)


names = st.lists(st.sampled_from(["get", "Issue", "get_issue", "getIssue", "\u00e9", "e\u0301", "\u4e2d", "\u00df", "SS", "\u0345", "*", "?", "_"]), min_size=1, max_size=3).map("".join)  # fmt: skip
rules_of_any_kind = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["allow", "ask", "deny"]),
        "tools": st.lists(
            names | names.map("mcp:g*:{}".format) | names.map("mcp:Git:{}".format), min_size=1, max_size=2
        ),
    },
    optional={"agents": names, "owners": names, "requester": st.sampled_from([{"id": "a"}, {"id": "b"}])},
)


@pytest.mark.heavy
@limits(max_examples=200, deadline=None)
@example([{"action": "deny", "tools": ["\u0345"]}, {"action": "allow", "tools": ["_"]}])
@given(st.lists(rules_of_any_kind, min_size=2, max_size=8))
def test_no_dead_rule_is_missed_because_others_were_not_compared(written: list[dict[str, Any]]):
    rules = [Rule.model_validate(one) for one in written]
    numbered = [*enumerate(rules, 1)]
    every = {
        number
        for number, rule in numbered
        for at, other in numbered
        if at != number and _covers(other, rule) and _decides_first(other, rule, at < number)
    }
    assert {number for number, _ in dead_rules(rules)} == every


async def test_the_second_of_two_like_rules_is_told():
    with pytest.raises(ConfigError, match=r"rule 2 \(deny x\) never decides: rule 1"):
        Host(
            store=MemoryStore(), config=settings([{"action": "deny", "tools": "*x*"}, {"action": "deny", "tools": "x"}])
        )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"action": "allow", "tools": "x"}, {"action": "deny", "tools": "x", "triggers": "schedule"}),
        ({"action": "allow", "tools": "x"}, {"action": "deny", "tools": "x", "requester": {"is_owner": False}}),
        ({"action": "allow", "tools": "x"}, {"action": "deny", "tools": "x", "arguments": {"required": ["force"]}}),
        ({"action": "allow", "tools": "x"}, {"action": "deny", "tools": "x", "path_inside": "/etc"}),
        ({"action": "allow", "tools": "x"}, {"action": "deny", "annotations": {"destructive": True}}),
        ({"action": "allow", "tools": "x"}, {"action": "deny", "sources": "mcp"}),
        ({"action": "allow", "tools": "a*"}, {"action": "deny", "tools": "a?"}),
        ({"action": "allow", "tools": "x"}, {"action": "deny", "tools": "mcp:github:x"}),
        ({"action": "allow", "tools": "deleteIssue*"}, {"action": "deny", "tools": "delete_*"}),
        ({"action": "allow", "tools": "deleteIssue"}, {"action": "deny", "tools": "mcp:*:delete_*"}),
        ({"action": "allow", "tools": "getIssue", "path_inside": "."}, {"action": "allow", "tools": "get_*"}),
        ({"action": "ask", "tools": "a_c"}, {"action": "deny", "tools": "a?c"}),
        ({"action": "ask", "tools": "a__c"}, {"action": "deny", "tools": "a_*_c"}),
        ({"action": "deny", "tools": "tool_search"}, {"action": "deny"}),
        ({"action": "deny", "tools": "x", "reason": "one"}, {"action": "deny", "tools": "x*", "reason": "other"}),
    ],
)
async def test_rules_that_can_both_decide_are_no_mistake(one: dict[str, Any], other: dict[str, Any]):
    Host(store=MemoryStore(), config=settings([one, other]))


async def test_a_schema_may_have_arguments_that_are_named_like_a_misspelling():
    schema = {"properties": {"patern": {"x-note": "ours", "additionalProperties": {"type": "string"}}}}
    Host(store=MemoryStore(), config=settings([{"action": "deny", "arguments": schema}]))


# What doctor is told


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"arguments": {"properties": {"a": {"pattern": "^x$"}}}}, 'add type = "string"'),
        ({"arguments": {"properties": {"a": {"type": "string", "pattern": "^x"}}}}, "end it with $"),
        ({"arguments": {"properties": {"a": {"type": "string", "pattern": "^x.*$"}}}}, "stops at the end of a line"),
        ({"arguments": {"properties": {"a": {"type": "string", "pattern": "^x$"}}}}, "add required = ['a']"),
        (
            {"arguments": {"properties": {"a": {"type": "string", "pattern": "^x$"}}}},
            "add additionalProperties = false",
        ),
        ({"action": "deny", "arguments": {"properties": {"a": {"pattern": "^/etc"}}}}, "use path_inside"),
        ({"command": ["git", "/usr/bin/env"]}, "/usr/bin/env runs any other program"),
        ({"action": "deny", "command": "rm"}, "is no wall"),
        ({"action": "deny", "url_host": "example.org"}, "is no wall"),
        ({"tools": ["act", "atc"]}, "no tool here is meant by 'atc'"),
    ],
)
async def test_the_doctor_is_told_of_rules_that_stop_less_than_they_seem_to(rule: dict[str, Any], problem: str):
    config = ToolPolicy.Config.model_validate({"rules": [{"action": "allow", "tools": "act", **rule}]})
    problems = list(ToolPolicy.diagnose(config, [make("act")]))
    assert [one for one in problems if problem in one and one.startswith("rule 1 (")], problems


ISSUES = [make("delete_issue"), make("deleteComment"), make("issue_delete"), make("remove_issue")]


@pytest.mark.parametrize(
    ("rules", "default", "told"),
    [
        ([("deny", "delete_*")], "allow", "'delete_*' has the same words as 'mcp:github:issue_delete', and does not mean it"),
        ([("ask", "delete_*")], "allow", "has the same words as 'mcp:github:issue_delete'"),
        ([("allow", "delete_*")], "deny", "'delete_*' counts as it is written here, and does not mean 'mcp:github:deleteComment'"),
        ([("allow", "delete_*")], "ask", "does not mean 'mcp:github:deleteComment'"),
        ([("deny", "delete_*"), ("allow", "mcp:github:*")], "deny", "'mcp:github:issue_delete'"),
        # Nothing would become of the tool otherwise, or somebody has thought of it.
        ([("deny", "delete_*"), ("deny", "iss*")], "allow", None),
        ([("ask", "delete_*"), ("deny", "iss*")], "allow", None),
        ([("deny", "delete_*"), ("allow", "issue_delete")], "allow", None),
        ([("deny", "delete_*")], "deny", None),
        ([("allow", "delete_*")], "allow", None),
        ([("allow", "delete_*"), ("allow", "*Comment")], "deny", None),
        ([("allow", "delete_*"), ("deny", "delete_c*")], "ask", None),
    ],
)  # fmt: skip
async def test_the_doctor_and_policy_check_are_told_of_tools_that_a_rule_is_near_to(
    rules: list[tuple[str, str]], default: str, told: str | None
):
    written = [{"action": action, "tools": tools} for action, tools in rules]
    config = ToolPolicy.Config.model_validate({"rules": written, "default": default})
    notices = [one for one in ToolPolicy.diagnose(config, ISSUES) if isinstance(one, Notice)]
    async with judged(*written, tools=ISSUES, default=default) as stage:
        policy = stage.session.plugin("tool_policy")
        events = [BeforeToolCall(call=ToolCall("c", one.name), tool=one, arguments={}) for one in ISSUES]
        near = [rule.why for event in events for rule in policy.explain(event).near_misses]
    if told is None:
        assert (notices, near) == ([], [])
    else:
        (notice,), (why,) = notices, near
        assert notice.startswith(f"rule 1 ({rules[0][0]} delete_*): ")
        assert told in notice
        assert told in why


async def test_a_pattern_that_meets_nothing_is_told_with_the_owner_that_may_be_meant():
    rules = [{"action": "allow", "tools": "mcp:GitHub:*"}]
    config = ToolPolicy.Config.model_validate({"rules": rules, "default": "deny"})
    problem, near = ToolPolicy.diagnose(config, ISSUES)
    assert (
        problem == "rule 1 (allow mcp:GitHub:*): no tool here is meant by 'mcp:GitHub:*'. Did you mean 'mcp:github:*'?"
    )
    assert "counts as it is written here, and does not mean 'mcp:github:delete_issue', " in near


async def test_the_doctor_has_nothing_to_say_of_a_safe_rule():
    schema = {
        "type": "object", "required": ["a"], "additionalProperties": False,
        "properties": {"a": {"type": "string", "pattern": r"^[\s\S.]\.x{1,2}[^.]$"}},
    }  # fmt: skip
    rules = [{"action": "allow", "tools": "act", "arguments": schema}, {"action": "deny", "path_inside": "/etc"}]
    assert list(ToolPolicy.diagnose(ToolPolicy.Config.model_validate({"rules": rules}), None)) == []
