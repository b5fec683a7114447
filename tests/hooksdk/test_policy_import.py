"""`hooksdk policy import`: what Cedar says of a request is what the rules say that are made of its policies."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

cedarpy: Any = pytest.importorskip("cedarpy", reason="needs the extra `cedar`")

from commands import hooksdk

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Annotations, Tool, ToolCall
from hooksdk.cli._proofs.cedar import read_cedar, rules_text
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import event

TOOLS = ["mcp:github:merge", "mcp:github:read_file", "mcp:files:read_file", "host:github:merge"]
OTHER_SPELLINGS = ["mcp:github:Merge", "mcp:GitHub:merge"]
ROLES = ["ops", "dev"]
PRINCIPALS = [
    "principal",
    "principal is Agent",
    'principal == Agent::"main"',
    *(f'principal in Role::"{role}"' for role in ROLES),
]
RESOURCES = [
    "resource", "resource is Tool", 'resource in Server::"github"', *(f'resource == Tool::"{tool}"' for tool in TOOLS[:3]),
]  # fmt: skip
CONDITIONS = [
    "resource.read_only", "!resource.destructive", "resource.open_world == false", 'context.trigger == "schedule"',
    'context.trigger != "user"', '["user", "other"].contains(context.trigger)', "!(context.is_owner)",
    'context.requester == "ann"', 'principal in [Role::"ops", Role::"dev"]',
    'resource == Tool::"mcp:files:read_file"', "!(resource.read_only || context.is_owner)",
]  # fmt: skip
UNLESS = [
    one for one in CONDITIONS if "Role" not in one and "Tool" not in one and "requester" not in one and "||" not in one
]


def written(effect: str, principal: str, resource: str, whens: list[str], unless: list[str]) -> str:
    conditions = [*(f"when {{ {one} }}" for one in whens), *(f"unless {{ {one} }}" for one in unless)]
    return f"{effect}({principal}, action, {resource}) {' '.join(conditions)};"


POLICIES = st.builds(
    written,
    st.sampled_from(["permit", "permit", "forbid"]), st.sampled_from(PRINCIPALS), st.sampled_from(RESOURCES),
    st.lists(st.sampled_from(CONDITIONS), max_size=2), st.lists(st.sampled_from(UNLESS), max_size=1),
)  # fmt: skip
SAID = st.fixed_dictionaries({name: st.booleans() for name in Annotations.names()})
REQUESTS = st.fixed_dictionaries({
    "agent": st.sampled_from(["main", "helper"]), "roles": st.lists(st.sampled_from(ROLES), unique=True),
    "tool": st.sampled_from([*TOOLS, *TOOLS, *OTHER_SPELLINGS]), "trigger": st.sampled_from(["user", "schedule", "other"]),
    "is_owner": st.booleans(), "requester": st.sampled_from(["ann", "bob"]),
    "annotations": SAID | st.dictionaries(st.sampled_from(Annotations.names()), st.booleans()),
})  # fmt: skip


def cedar_allows(policies: str, request: dict[str, Any]) -> bool:
    source, owner, _ = request["tool"].split(":", 2)
    agent, tool = {"type": "Agent", "id": request["agent"]}, {"type": "Tool", "id": request["tool"]}
    entities = [
        {"uid": agent, "attrs": {}, "parents": [{"type": "Role", "id": role} for role in request["roles"]]},
        {"uid": tool, "attrs": request["annotations"], "parents": [{"type": "Server", "id": owner}] if source == "mcp" else []},
    ]  # fmt: skip
    context = {key: request[key] for key in ("trigger", "is_owner", "requester")}
    asked = {"principal": agent, "action": {"type": "Action", "id": "call"}, "resource": tool, "context": context}
    return cedarpy.is_authorized(asked, policies, entities).allowed


def rules_allow(policy: ToolPolicy, request: dict[str, Any]) -> bool:
    source, owner, name = request["tool"].split(":", 2)
    tool = Tool(name=name, source=source, owner=owner, annotations=Annotations(**request["annotations"]))
    requester = {"id": request["requester"], "is_owner": request["is_owner"], "roles": request["roles"]}
    call = event(
        BeforeToolCall, call=ToolCall("c", name), tool=tool, arguments={}, agent_id=request["agent"], trigger=request["trigger"],
        requester=requester,
    )  # fmt: skip
    answer = policy.judge(call)
    assert answer is None or isinstance(answer, Block)  # nobody is asked
    return answer is None


def imported(policies: str) -> dict[str, Any]:
    """The settings that the rules are."""
    read = read_cedar(policies, "x.cedar")
    return tomllib.loads(rules_text([one for one in read if one.rule is not None], "x.cedar"))["plugins"][
        "tool_policy"
    ]["config"]


@pytest.mark.heavy
@settings(max_examples=60, deadline=None)
@given(st.lists(POLICIES, min_size=1, max_size=4), st.lists(REQUESTS, min_size=20, max_size=20))
def test_both_say_the_same_of_random_requests(policies: list[str], requests: list[dict[str, Any]]) -> None:
    mapped = [one for one in policies if all(each.rule for each in read_cedar(one, "x.cedar"))]
    text = "\n".join(mapped)
    assume(mapped)
    try:
        policy = ToolPolicy(ToolPolicy.Config.model_validate(imported(text)))
    except ValueError as error:  # Cedar may repeat itself
        assume("never decides" not in str(error))
        raise
    for request in requests:
        by_cedar, by_rules = cedar_allows(text, request), rules_allow(policy, request)
        assert by_cedar or not by_rules
        if len(request["annotations"]) == len(Annotations.names()) and request["tool"] in TOOLS:
            assert by_cedar == by_rules


def test_each_of_these_parts_maps() -> None:
    single = [f"permit(principal, action, resource) when {{ {one} }};" for one in CONDITIONS]
    single += [f"forbid(principal, action, resource) unless {{ {one} }};" for one in UNLESS]
    single += [f"permit({one}, action, {other});" for one in PRINCIPALS for other in RESOURCES]
    assert [one.problem for policy in single for one in read_cedar(policy, "x.cedar") if one.rule is None] == []


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ('permit(principal == User::"ann", action, resource);', 'principal == User::"ann"; what maps is'),
        ('permit(principal, action == Action::"delete", resource);', 'action == Action::"delete"; what maps is'),
        ('permit(principal, action, resource == Tool::"merge");', 'resource == Tool::"merge"; what maps is'),
        ('permit(principal, action, resource in Server::"git*");', "'git*' would be a pattern in a rule"),
        ('permit(principal, action, resource) when { resource.name like "x*" };', "'like' in a condition"),
        ("permit(principal, action, resource) when { resource.read_only || context.is_owner };", "'||' is for several policies"),
        ("permit(principal, action, resource) unless { resource.read_only && context.is_owner };", "'&&' in what must not be is for"),
        ("permit(principal, action, resource) when { context.amount == 5 };", "what maps is resource.read_only and the other"),
        ('permit(principal, action, resource) unless { principal in Role::"ops" };', "'in' in a condition"),
        ("permit(principal, action, resource) when { context.is_owner && !context.is_owner };", "a rule says 'is_owner' once"),
        ("permit(principal, action, resource == ?resource);", "it is a template"),
    ],
)  # fmt: skip
def test_what_does_not_map_is_named_with_its_line(policy: str, problem: str) -> None:
    (one,) = read_cedar(f"// permit(\n{policy}", "x.cedar")
    assert (one.line, one.rule) == (2, None)
    assert problem in one.problem


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


READ = 'permit(principal, action, resource in Server::"github") when { resource.read_only };\n'
NAMED = 'permit(principal, action, resource) when { resource.name like "get*" };\n'


@pytest.mark.heavy
@pytest.mark.anyio
async def test_the_command_prints_rules_or_says_what_does_not_map(tmp_path: Path) -> None:
    (tmp_path / "x.cedar").write_text(
        READ + '@reason("no")\nforbid(principal, action, resource) when { resource.destructive };\n'
    )
    done = await hooksdk("policy", "import", "x.cedar", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert tomllib.loads(done.out)["plugins"]["tool_policy"]["config"] == {
        "default": "deny",
        "rules": [
            {"action": "allow", "sources": ["mcp"], "owners": ["github"], "annotations": {"read_only": True}},
            {"action": "deny", "annotations": {"destructive": True}, "reason": "no"},
        ],
    }
    (tmp_path / "x.cedar").write_text(READ + NAMED)
    done = await hooksdk("policy", "import", "x.cedar", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("hooksdk: x.cedar, line 2: this permit does not map: 'like' in a condition")
    done = await hooksdk("policy", "import", "x.cedar", "--partial", "--write", "--yes", folder=tmp_path)
    assert done.code == 0
    assert 'owners = ["github"]' in (tmp_path / "hooksdk.toml").read_text()


@pytest.mark.heavy
@pytest.mark.anyio
async def test_a_forbid_is_never_left_out(tmp_path: Path) -> None:
    (tmp_path / "x.cedar").write_text(READ + NAMED.replace("permit", "forbid"))
    done = await hooksdk("policy", "import", "x.cedar", "--partial", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    (tmp_path / "x.cedar").write_text("permit(")
    done = await hooksdk("policy", "import", "x.cedar", folder=tmp_path)
    assert (done.code, done.err) == (1, "hooksdk: x.cedar is not Cedar: unexpected end of input\n")
    (tmp_path / "x.cedar").write_bytes(b"\xff\xfe")
    done = await hooksdk("policy", "import", "x.cedar", folder=tmp_path)
    assert done.code == 1
    assert done.err.startswith("hooksdk: x.cedar cannot be read as UTF-8: ")
