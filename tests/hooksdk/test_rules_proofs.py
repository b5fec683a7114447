"""Proofs over all calls of what the rules of a policy let through: sound for every tool, run and call, and held to the real plugin."""

# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest
import z3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Annotations, Tool
from hooksdk.hooks import Ask, BeforeToolCall, Block, RunInfo
from hooksdk.patterns import SOURCES, ToolPattern, _read
from hooksdk.rules import CallFact, Claim
from hooksdk.rules._cells import Budget, name_cells
from hooksdk.rules._model import Model
from hooksdk.rules.proofs import Example, Search, Unknown, _Policy


def policy(rules: list[dict[str, Any]], **more: Any) -> ToolPolicy.Config:
    return ToolPolicy.Config.model_validate({"rules": rules, "default": "allow", **more})


def search(config: ToolPolicy.Config, calls: Mapping[str, Any], claim: Claim = "never", **more: Any) -> Search:
    described = {"tool_policy": ToolPolicy.describe_rules(config)}
    return Search(described, ToolPolicy.describe_calls(config, calls), claim, **more)


def example(config: ToolPolicy.Config, calls: Mapping[str, Any], claim: Claim = "never", **more: Any) -> Example | None:
    return next(search(config, calls, claim, **more).examples(), None)


def event_of(one: Example, arguments: dict[str, Any] | None = None) -> BeforeToolCall:
    tool = Tool(
        name=one.name, own_name=one.own_name, source=one.source, owner=one.owner,  # pyright: ignore[reportArgumentType]
        annotations=Annotations(**one.annotations), parameters={"type": "object", "properties": {name: {} for name in arguments or {}}},
    )  # fmt: skip
    info = RunInfo(
        agent_id=one.agents[-1], agents=tuple(one.agents), trigger=one.triggers[-1], triggers=tuple(one.triggers),
        workspace_dir=one.workspace_dir, requester=one.requester,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    return BeforeToolCall(info=info, call=None, tool=tool, arguments=arguments or {})  # pyright: ignore[reportArgumentType]


def verdict(config: ToolPolicy.Config, event: BeforeToolCall) -> str:
    answer = ToolPolicy(config).judge(event)
    return "deny" if isinstance(answer, Block) else "ask" if isinstance(answer, Ask) else "allow"


# Properties of one policy


def test_a_tool_that_says_read_only_and_destructive_passes_a_deny_of_what_writes() -> None:
    config = policy([{"action": "deny", "triggers": "schedule", "annotations": {"read_only": False}}])
    hole = example(config, {"triggers": "schedule", "annotations": {"destructive": True}})
    assert hole is not None
    assert hole.annotations == {"read_only": True, "destructive": True}
    assert verdict(config, event_of(hole)) == "allow"
    closed = policy([{"action": "deny", "triggers": "schedule", "annotations": {"destructive": True}}])
    assert example(closed, {"triggers": "schedule", "annotations": {"destructive": True}}) is None


@pytest.mark.light(every=5)
@pytest.mark.parametrize(
    ("calls", "claim", "holds"),
    [
        ({"tools": "delete_*"}, "never", True),
        ({"tools": "Delete_Issue"}, "never", True),
        ({"tools": "DeleteIssue"}, "never", False),
        ({"tools": "*delete*"}, "never", False),
        ({"tools": "mcp:GitHub:create_*"}, "only_asked", True),
        ({"tools": "mcp:git*:create_*"}, "only_asked", False),
        ({"tools": "mcp:github:create_*"}, "always_asked", True),
        ({"tools": "mcp:github:*"}, "always_asked", False),
        ({"agents": "intern-*", "tools": "get_mail"}, "never", True),
        ({"agents": "in*", "tools": "get_mail"}, "never", False),
        ({"workspaces": "/srv/live/app"}, "never", True),
        ({"workspaces": "/srv"}, "never", False),
        ({"requester": {"is_owner": False}, "tools": "send_mail"}, "only_asked", True),
        ({"requester": {"roles": "guest"}, "tools": "send_mail"}, "only_asked", False),
        ({"sources": "resource"}, "never", True),
        ({"owners": "SHOP"}, "never", True),
        ({"path_inside": "/etc"}, "never", True),
        ({"path_inside": ["/etc", "/root"]}, "never", False),
        ({"does": "write", "tools": "host:*:*"}, "never", True),
    ],
)
def test_what_the_rules_of_a_policy_say_of_a_class_of_calls(
    calls: dict[str, Any], claim: Claim, *, holds: bool
) -> None:
    config = policy(
        [
            {"action": "deny", "tools": "delete_*"},
            {"action": "ask", "tools": "mcp:github:*"},
            {"action": "deny", "agents": "intern-*"},
            {"action": "deny", "workspaces": "/srv/live"},
            {"action": "ask", "tools": "send_*", "requester": {"is_owner": False}},
            {"action": "deny", "sources": ["resource", "prompt"]},
            {"action": "deny", "owners": "shop"},
            {"action": "deny", "path_inside": "/etc"},
            {"action": "deny", "tools": "host:*:*", "does": ["write", "run"]},
        ]
    )
    if claim == "always_asked" and holds:  # nothing else may be said of them
        calls = {**calls, "triggers": "user"}
        config = policy([{"action": "ask", "tools": "mcp:github:*"}])
    assert (example(config, calls, claim) is None) is holds


def test_a_policy_that_denies_by_default_is_proved_by_its_default() -> None:
    config = policy([{"action": "allow", "tools": ["mcp:files:get_*", "mcp:files:read_*"]}], default="deny")
    asked = search(config, {"tools": "mcp:*:delete_*"})
    assert list(asked.examples()) == []
    assert [rule.number for rule in asked.rests_on()] == [0]
    through = example(config, {"tools": "mcp:files:*"})
    assert through is not None
    assert verdict(config, event_of(through)) == "allow"


def test_a_tool_of_two_names_is_looked_at_as_well() -> None:
    config = policy([{"action": "allow", "tools": "get_*"}], default="deny")
    found = example(config, {"tools": "delete_*"})
    assert found is not None
    assert (found.name[:4], found.own_name[:7]) in {("get_", "delete_"), ("delete_"[:4], "get_")}
    assert verdict(config, event_of(found)) == "allow"


@pytest.mark.parametrize(
    ("rules", "calls"),
    [
        ([{"action": "allow", "tools": "get_*"}, {"action": "deny", "tools": "get"}], {"tools": "get_*"}),
        ([{"action": "allow", "tools": "mcp:*:e*"}], {"tools": "mcp:*:\N{LATIN SMALL LETTER E WITH DOT ABOVE}"}),
        ([{"action": "allow", "owners": "?"}], {"owners": "ss"}),
        ([{"action": "allow", "agents": "*"}, {"action": "deny", "agents": "?*"}], {}),
    ],
    ids=["a name of one pattern begins one of another", "a letter and its mark", "an owner of two letters", "an agent without a name"],
)  # fmt: skip
def test_what_gets_through_is_seen_where_texts_differ_by_little(
    rules: list[dict[str, Any]], calls: dict[str, Any]
) -> None:
    config = policy(rules, default="deny")
    hole = example(config, calls)
    assert hole is not None
    assert verdict(config, event_of(hole)) == "allow"


OTHERS = ["中文", " .~", "1234567890٣", "xaeioubcdfghjklmnpqrstvwyzжшø", "XAEIOUBCDFGHJKLMNPQRSTVWYZЖШØ"]
"""What stands for characters that no pattern names, by kind; here the patterns name all of them."""


@pytest.mark.light(every=5)
@pytest.mark.parametrize("chars", OTHERS)
@pytest.mark.parametrize("shape", ["tools: mcp:x:q{}*", "owners: q{}*", "agents: q{}*", "workspaces: /q{}*"])
def test_patterns_that_name_every_character_of_a_kind_leave_others(chars: str, shape: str) -> None:
    key, _, pattern = shape.partition(": ")
    config = policy([{"action": "deny", key: [pattern.format(char) for char in chars]}])
    hole = example(config, {"tools": "mcp:*:act", key: pattern.replace("{}", "?")})
    assert hole is not None
    assert verdict(config, event_of(hole)) == "allow"


def test_a_pattern_of_two_letters_without_case_is_proved() -> None:
    config = policy([{"action": "deny", "tools": "*中文*"}])
    assert example(config, {"tools": "*中文_delete"}) is None
    assert example(config, {"tools": "*中*"}) is not None


MISSPELT: dict[str, Any] = {"tools": "host:*:pay", "arguments": {"required": ["amunt"]}}


@pytest.mark.light(every=5)
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("claim", ["never", "only_asked", "always_asked"])
@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
def test_a_claim_that_is_proved_holds_where_a_rule_is_misspelt(default: Any, claim: Claim, *, closed: bool) -> None:
    for rules in ([("deny", MISSPELT)], [("ask", MISSPELT)], [("ask", MISSPELT), ("allow", {"tools": "pay"})]):
        config = policy([{"action": action, **more} for action, more in rules], default=default)
        if example(config, {"tools": "host:*:pay"}, claim) is not None:
            continue
        parameters = {"type": "object", "properties": {"amount": {}}, "additionalProperties": not closed}
        info = RunInfo(agent_id="main", agents=("main",), trigger="user", triggers=("user",))
        pay = Tool(name="pay", source="host", owner="core", parameters=parameters)
        call = BeforeToolCall(info=info, call=None, tool=pay, arguments={"amount": 1})  # pyright: ignore[reportArgumentType]
        said = verdict(config, call)
        assert said in {"never": ["deny"], "only_asked": ["deny", "ask"], "always_asked": ["ask"]}[claim]


def test_the_answer_names_the_rules_without_which_it_would_be_another() -> None:
    config = policy(
        [{"action": "deny", "tools": "get_*"}, {"action": "deny", "tools": "delete_*"}, {"action": "ask", "tools": "x"}]
    )
    assert [rule.number for rule in search(config, {"tools": "delete_issue"}).rests_on()] == [2]


def test_a_default_is_not_enough_where_another_rule_allows() -> None:
    rules = [{"action": "allow", "tools": "host:*:get_*"}, {"action": "deny", "tools": "host:*:*get_mail"}]
    rested = search(policy(rules, default="deny"), {"tools": ["host:*:get_mail", "host:*:send_mail"]}).rests_on()
    assert [rule.number for rule in rested] == [0, 2]


def test_a_project_that_nobody_trusts_loosens_nothing_and_may_tighten() -> None:
    config = policy([{"action": "ask", "tools": "pay"}])
    calls: dict[str, Any] = {"tools": "host:*:pay"}
    assert example(config, calls, "only_asked", untrusted_project=True) is None
    assert example(config, calls, "always_asked") is None
    assert example(config, calls, "always_asked", untrusted_project=True) is not None


def test_a_condition_on_calls_is_free_so_that_nothing_is_proved_of_what_it_lets_through() -> None:
    config = policy([{"action": "allow", "tools": "read_file", "path_inside": "/workspace"}], default="deny")
    found = example(config, {"tools": "host:*:read_file", "path_inside": "/etc"})
    assert found is not None
    assert any("path_inside" in fact.in_words() for fact, holds in found.facts.items() if holds)


def test_a_rule_about_what_was_read_is_known_in_a_class_whatever_is_said_of_results() -> None:
    rule: dict[str, Any] = {"tools": "send_*", "after_reading": "untrusted"}
    results = [{"tools": "mcp:contacts:find_colleague", "label": "trusted"}]
    config = policy([{"action": "ask", **rule}], results=results)
    assert example(config, rule, "only_asked") is None


def test_a_limit_may_be_reached_or_not() -> None:
    config = policy([{"action": "ask", "tools": "pay", "limit": {"calls": 3}}])
    assert example(config, {"tools": "pay"}, "only_asked") is not None
    assert example(config, {"tools": "pay"}, "always_asked") is not None


def test_more_steps_than_the_budget_end_in_unknown() -> None:
    config = policy([{"action": "deny", "tools": [f"*{letter}*x*" for letter in "abcdefghij"]}])
    with pytest.raises(Unknown, match="budget"):
        example(config, {"tools": "*q*"}, budget=100_000)


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        ({"tool": "x"}, "Did you mean 'tools'"),
        ({"annotations": {"destructiv": True}}, "Did you mean 'destructive'"),
        ({"action": "deny"}, "'action' says nothing of which calls are meant"),
        ({"tools": "a|b"}, "looks like a regular expression"),
    ],
)
def test_a_class_of_calls_has_the_errors_of_a_rule(calls: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ToolPolicy.describe_calls(policy([], results=[]), calls)


# The model and the plugin

NAMES = ["delete_issue", "deleteIssue", "get_issue", "DELETE_issue", "issue_delete", "delete-it", "get", "x"]
PATTERNS = ["delete_*", "*issue*", "get_issue", "mcp:git*:*", "host:*:delete_*", "get*", "*", "mcp:Git:Delete_?ssue"]
RUNS = {
    "agents": st.lists(st.sampled_from(["main", "main-*", "*-2", "?"]), min_size=1, max_size=2, unique=True),
    "triggers": st.lists(st.sampled_from(["user", "schedule", "subagent"]), min_size=1, max_size=2, unique=True),
    "workspaces": st.lists(st.sampled_from(["/srv", "/srv/*/x", "/home/*"]), min_size=1, max_size=2, unique=True),
    "requester": st.sampled_from([{"is_owner": True}, {"is_owner": False}, {"roles": ["a", "b"]}, {"id": "7"}, {"id": "7", "roles": "a"}]),
}  # fmt: skip
TOOLS = {
    "annotations": st.dictionaries(st.sampled_from(Annotations.names()), st.booleans(), min_size=1, max_size=2),
    "sources": st.lists(st.sampled_from(["host", "mcp", "plugin"]), min_size=1, max_size=2, unique=True),
    "owners": st.lists(st.sampled_from(["git", "GIT", "g*", "x?"]), min_size=1, max_size=2, unique=True),
}
CALLS = {
    "path_inside": st.sampled_from(["/etc", ["/etc", "/srv"], "/srv"]),
    "url_host": st.sampled_from(["a.example", ["a.example", "b.example"]]),
    "does": st.sampled_from(["read", ["read", "write"], "run"]),
    "arguments": st.sampled_from([{"properties": {"n": {"type": "integer"}}, "required": ["n"]}]),
}
RULES = st.lists(
    st.fixed_dictionaries(
        {"action": st.sampled_from(["allow", "deny", "ask"]), "tools": st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2, unique=True)},
        optional={**RUNS, **TOOLS, **CALLS},
    ),
    max_size=4,
)  # fmt: skip


@st.composite
def policies(draw: st.DrawFn) -> ToolPolicy.Config:
    rules, default = draw(RULES), draw(st.sampled_from(["allow", "ask", "deny"]))
    alive: list[dict[str, Any]] = []
    for rule in rules:  # rules that never decide are refused
        try:
            policy([*alive, rule], default=default)
        except ValueError:
            continue
        alive.append(rule)
    return policy(alive, default=default)


CONCRETE = st.builds(
    Example,
    name=st.sampled_from(NAMES), own_name=st.sampled_from(NAMES), source=st.sampled_from(["host", "mcp", "plugin"]),
    owner=st.sampled_from(["", "git", "Git", "xy"]), annotations=st.dictionaries(st.sampled_from(Annotations.names()), st.booleans()),
    agents=st.lists(st.sampled_from(["main", "main-2", "a"]), min_size=1, max_size=2), triggers=st.lists(st.sampled_from(["user", "schedule", "subagent"]), min_size=1, max_size=2),
    workspace_dir=st.sampled_from([None, "/srv", "/srv/a/x/y", "/home/me", "/"]),
    requester=st.sampled_from([None, {"is_owner": True}, {"id": 7}, {"roles": ["a"]}, {"id": "7", "roles": "b"}]),
)  # fmt: skip
ARGUMENTS = st.sampled_from(
    [{}, {"path": "/etc/passwd"}, {"path": "/srv/x"}, {"url": "https://b.example/"}, {"command": "ls"}, {"n": 1}]
)


def pinned(model: Model, event: BeforeToolCall) -> Iterator[Any]:
    """The solver's variables as they are for one call; of texts the cell that they are in, by the patterns themselves."""

    def key_of(text: str, languages: Iterable[tuple[str, ...]]) -> int:
        return sum(any(re.fullmatch(one, text, re.DOTALL) for one in each) << at for at, each in enumerate(languages))

    def cell(text: Any, key: int) -> Any:
        return text.cell == next(at for at, (one, _) in enumerate(text.cells) if one == key)

    tool, info = event.tool, event.info
    written, words = model._name_languages
    for text, name in ((model._own_name, tool.own_name), (model._name, tool.name)):
        by_words = sum(
            any(re.fullmatch(one, read, re.DOTALL) for one in each for read in _read(name)) << at
            for at, each in enumerate(words)
        )
        yield cell(text, key_of(name, written) | by_words << len(written))
    owners = [(tool.owner.casefold() if folded else tool.owner, texts) for folded, texts in model._owner_languages]
    yield cell(model._owner, sum(key_of(owner, [texts]) << at for at, (owner, texts) in enumerate(owners)))
    yield model._source == SOURCES.index(tool.source)
    for name, (said, value) in model._annotations.items():
        own = getattr(tool.annotations, name)
        yield z3.And(said == (own is not None), value == bool(own))
    chain = {key_of(agent, list(model._agent_languages)) for agent in info.agents}
    yield from (agent == (key in chain) for agent, key, _ in model._agents)
    yield from (trigger == (name in info.triggers) for name, trigger in model._trigger.items())
    yield model._has_workspace == (info.workspace_dir is not None)
    if info.workspace_dir is not None:
        yield cell(model._workspace, key_of(info.workspace_dir, list(model._folder_languages)))
    requester: Mapping[str, Any] = info.requester or {}
    ids = model._ids
    yield z3.Bool("is the owner") == (requester.get("is_owner") is True)
    yield model._id == (ids.index(str(requester["id"])) if str(requester.get("id")) in ids else len(ids))
    yield from (role == (name in requester.get("roles", ())) for name, role in model._role.items())
    yield from (model._frees[fact] == fact.holds(event) for fact in model.call_facts)


def modelled(config: ToolPolicy.Config, events: Iterable[BeforeToolCall]) -> Iterator[str]:
    """What the solver's model says of each call."""
    rules = ToolPolicy.describe_rules(config)
    model = Model([fact for rule in rules.rules for fact in rule.facts], Budget(10**6), single_name=False)
    policy = _Policy.of("", rules, model)
    said = {action: policy.says(action) for action in ("allow", "ask", "deny")}
    for event in events:
        solver = z3.Solver()
        solver.add(*pinned(model, event), *model.rules)
        assert solver.check() == z3.sat, "what holds of every call holds of this one"
        answer = solver.model()
        (action,) = [action for action, term in said.items() if z3.is_true(answer.eval(term, model_completion=True))]
        yield action


def check_agreement(config: ToolPolicy.Config, calls: list[tuple[Example, dict[str, Any]]]) -> None:
    events = [event_of(one, arguments) for one, arguments in calls]
    assert list(modelled(config, events)) == [verdict(config, event) for event in events]


@pytest.mark.heavy
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
@given(policies(), st.lists(st.tuples(CONCRETE, ARGUMENTS), min_size=10, max_size=10))
def test_the_model_says_of_each_call_what_the_plugin_says(
    config: ToolPolicy.Config, calls: list[tuple[Example, dict[str, Any]]]
) -> None:
    check_agreement(config, calls)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@settings(
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
@given(policies(), st.lists(st.tuples(CONCRETE, ARGUMENTS), min_size=10, max_size=10))
def test_the_model_says_of_ten_thousand_calls_what_the_plugin_says(
    config: ToolPolicy.Config, calls: list[tuple[Example, dict[str, Any]]]
) -> None:
    check_agreement(config, calls)


LINES = [
    "ls -la",
    "cat /etc/passwd",
    "rm -rf x",
    "git push",
    "curl https://b.example/x",
    "echo a > b.txt",
    "x",
    "'",
    "sh -c 'rm x'",
    "head a | wc",
]
LISTED = {
    "path_inside": ["/etc", "/srv", "."], "path_outside": ["/etc", "/srv", "."], "path_name": [".env", "*.pem", "x"],
    "url_host": ["a.example", "*.example", "b.example"], "command": ["rm", "git push", "git", "curl"], "does": ["read", "write", "run", "reach"],
}  # fmt: skip
VALUES = [
    *LINES,
    "/etc/passwd",
    "/srv/.env",
    "a/b.pem",
    "../x",
    "https://a.example/",
    "$HOME/x",
    5,
    None,
    ["/etc/x", "/srv/y"],
]


@st.composite
def call_facts(draw: st.DrawFn) -> CallFact:
    key = draw(st.sampled_from(list(LISTED)))
    wanted = draw(st.lists(st.sampled_from(LISTED[key]), min_size=1, max_size=3, unique=True))
    action = draw(st.sampled_from(["deny", "allow"] if key not in {"path_outside", "path_name"} else ["deny"]))
    more = draw(st.sampled_from([{}, {"path_inside": "/etc"}])) if key == "does" and action == "deny" else {}
    facts = ToolPolicy.describe_rules(policy([{"action": action, key: wanted, **more}])).rules[0].facts
    return next(fact for fact in facts if isinstance(fact, CallFact) and type(fact).__name__ != "Watched")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(call_facts(), min_size=8, max_size=8),
    st.lists(st.dictionaries(st.sampled_from(["path", "command", "url", "content", "cmd"]), st.sampled_from(VALUES), max_size=2), min_size=10, max_size=10),
    st.sampled_from([("Bash", "host"), ("Read", "host"), ("Write", "host"), ("apply_patch", "host"), ("x", "mcp")]), st.booleans(),
)  # fmt: skip
def test_what_one_condition_says_of_another_is_so_for_every_call(
    facts: list[CallFact],
    calls: list[dict[str, Any]],
    tool: tuple[str, str],
    reads: bool,
) -> None:
    plain = Example(
        *tool[:1], tool[0], tool[1], "", {"read_only": True} if reads else {}, ["main"], ["user"], "/srv/app", None
    )
    for arguments in calls:
        event = event_of(plain, arguments)
        holds = {fact: fact.holds(event) for fact in facts}
        for one, other in product(facts, facts):
            if holds[one] and one.implies(other):
                assert holds[other], f"{one.in_words()} implies {other.in_words()}"


NAME_PIECES = ["delete", "get", "Issue", "_", "-", "a", "B", "2", "é", "É", "ė", "x", ".", "中", "DELETE"]
ODD = [
    "\N{FULLWIDTH LATIN SMALL LETTER D}",
    "\N{COMBINING ACUTE ACCENT}",
    "\N{COMBINING DOT ABOVE}",
    "\N{ZERO WIDTH SPACE}",
    "\N{COMBINING ENCLOSING CIRCLE}",
]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([*NAME_PIECES, "*", "?"]), min_size=1, max_size=5).map("".join), min_size=1, max_size=4, unique=True),
    st.one_of(st.lists(st.sampled_from([*NAME_PIECES, *ODD]), min_size=1, max_size=6).map("".join), st.text(min_size=1, max_size=8)),
)  # fmt: skip
def test_every_name_of_a_tool_is_one_of_those_that_a_proof_looks_at(texts: list[str], name: str) -> None:
    patterns = [ToolPattern(text) for text in texts]
    cells = name_cells([one.parts for one in patterns], [[one.words] for one in patterns], Budget(10**7))
    key = sum(one.matches(Tool(name=name)) << at for at, one in enumerate(patterns))
    by_words = [any(one.words.fullmatch(text) for text in _read(name)) for one in patterns]
    assert key | sum(fits << (len(patterns) + at) for at, fits in enumerate(by_words)) in cells
