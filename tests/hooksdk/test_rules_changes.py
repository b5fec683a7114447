"""What two policies say differently: every difference is named, and each one that is named is there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Annotations, Tool, ToolCall
from hooksdk.hooks import Ask, BeforeToolCall, Block
from hooksdk.rules import Rules
from hooksdk.rules.proofs import Change, changes
from hooksdk.testing import event

Settings = dict[str, Any]
ACTIONS = st.sampled_from(["allow", "ask", "deny"])
PATTERNS = ["delete_*", "mcp:notes:*", "mcp:*:delete_*", "send*", "get_mail", "*:notes:*mail", "host:*:*"]
RULES = st.fixed_dictionaries(
    {"action": ACTIONS, "tools": st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2, unique=True)},
    optional={
        "annotations": st.dictionaries(st.sampled_from(["read_only", "destructive"]), st.booleans(), min_size=1),
        "owners": st.sampled_from(["notes", "No*"]),
        "triggers": st.sampled_from(["user", "schedule"]),
        "agents": st.sampled_from(["main", "sub*"]),
        "requester": st.sampled_from([{"is_owner": True}, {"is_owner": False}, {"roles": ["ops"]}]),
        "path_inside": st.sampled_from(["/etc", "/srv"]),
    },
)
POLICIES = st.fixed_dictionaries({"default": ACTIONS, "rules": st.lists(RULES, max_size=3)})
CALLS = st.fixed_dictionaries({
    "name": st.sampled_from(["delete_note", "deleteNote", "send_mail", "get_mail", "Delete-it", "mail"]),
    "own_name": st.sampled_from(["", "", "delete_note", "mail"]),
    "source": st.sampled_from(["mcp", "host", "client"]),
    "owner": st.sampled_from(["notes", "NOTES", "web", ""]),
    "annotations": st.dictionaries(st.sampled_from(["read_only", "destructive"]), st.booleans()),
    "trigger": st.sampled_from(["user", "schedule"]),
    "agent_id": st.sampled_from(["main", "sub1", "other"]),
    "requester": st.sampled_from([None, {"is_owner": True}, {"roles": ["ops"]}]),
    "path": st.sampled_from(["/etc/passwd", "/srv/a", "/tmp/b", "*"]),
})  # fmt: skip
PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
ARGUMENTS = [{"path": path} for path in ("/tmp/b", "/etc/passwd", "/srv/a", "*")]


def config(written: Settings) -> ToolPolicy.Config:
    """Checked; a rule that never decides is refused, which is another test's matter."""
    try:
        return ToolPolicy.Config.model_validate(written)
    except ValueError:
        assume(False)
        raise


def difference(old: Settings, new: Settings) -> list[Change]:
    described: list[Rules] = [ToolPolicy.describe_rules(config(one)) for one in (old, new)]
    return list(changes(*described))


def judged(tool: Tool, arguments: dict[str, Any], run: dict[str, Any]) -> BeforeToolCall:
    return event(BeforeToolCall, call=ToolCall("c", tool.name), tool=tool, arguments=arguments, **run)


def says(written: Settings, call: BeforeToolCall) -> str:
    """What the plugin itself answers."""
    answer = ToolPolicy(config(written)).judge(call)
    return "deny" if isinstance(answer, Block) else "ask" if isinstance(answer, Ask) else "allow"


@pytest.mark.heavy
@settings(max_examples=25, deadline=None)
@given(POLICIES, POLICIES, st.booleans(), st.lists(CALLS, min_size=25, max_size=25))
def test_where_no_change_is_reported_the_plugin_says_the_same(
    old: Settings, other: Settings, is_near: bool, calls: list[Settings]
) -> None:
    new = {**old, "rules": [*old["rules"][1:], *other["rules"][:1]]} if is_near else other
    reported = difference(old, new)
    for call in calls:
        tool = Tool(
            name=call["name"], own_name=call["own_name"], source=call["source"], owner=call["owner"],
            annotations=Annotations(**call["annotations"]), parameters=PATH,
        )  # fmt: skip
        run = {key: call[key] for key in ("trigger", "agent_id", "requester")}
        was, becomes = (says(one, judged(tool, {"path": call["path"]}, run)) for one in (old, new))
        if tool.own_name == tool.name:
            assert was == becomes or (was, becomes) in {(one.old, one.new) for one in reported}
        else:  # what a second name adds to a rule that is reported is not told again
            loosened = ["deny", "ask", "allow"].index(becomes) > ["deny", "ask", "allow"].index(was)
            assert was == becomes or loosened in {one.is_loosened for one in reported}


@pytest.mark.heavy
@settings(max_examples=25, deadline=None)
@given(POLICIES, POLICIES)
def test_each_example_that_can_be_made_is_judged_as_it_says(old: Settings, new: Settings) -> None:
    for change in difference(old, new):
        example = change.example
        tool = Tool(
            name=example.name, own_name=example.own_name, source=example.source, owner=example.owner,  # pyright: ignore[reportArgumentType]
            annotations=Annotations(**example.annotations), parameters=PATH,
        )  # fmt: skip
        run = {
            "agent_id": example.agents[-1], "agents": tuple(example.agents), "trigger": example.triggers[-1],
            "triggers": tuple(example.triggers), "requester": example.requester,
        }  # fmt: skip
        events = [judged(tool, one, run) for one in ARGUMENTS]
        call = next(
            (one for one in events if all(fact.holds(one) is is_so for fact, is_so in change.depends_on.items())), None
        )
        if call is not None:
            assert (change.old, change.new) == tuple(says(one, call) for one in (old, new))
        else:  # an allow looks at paths otherwise than a deny does, and no path may be in both folders
            assert len(change.depends_on) > 1


def test_equal_rules_in_another_order_change_nothing() -> None:
    rules = [{"action": "deny", "tools": "delete_*"}, {"action": "allow", "tools": "mcp:notes:*"}]
    assert not difference({"default": "ask", "rules": rules}, {"default": "ask", "rules": rules[::-1]})


def test_what_two_rules_say_together_is_what_one_says_of_both() -> None:
    apart = [{"action": "deny", "tools": ["a*"]}, {"action": "deny", "tools": ["b*"]}]
    assert not difference({"rules": apart}, {"rules": [{"action": "deny", "tools": ["a*", "b*"]}]})


def test_an_example_says_on_which_facts_about_the_call_it_depends() -> None:
    rule = {"action": "deny", "tools": "write", "path_inside": "/etc"}
    other = {"action": "ask", "tools": "send", "url_host": "example.org"}
    (change,) = difference({"rules": [rule, other]}, {"rules": [other]})
    assert [(fact.in_words(), holds) for fact, holds in change.depends_on.items()] == [('path_inside = ["/etc"]', True)]
    assert (change.old, change.new, change.is_loosened) == ("deny", "allow", True)


def test_a_pattern_that_takes_either_name_differs_from_one_for_the_owners_alone() -> None:
    rules = [[{"action": "allow", "tools": pattern}] for pattern in ("*:*:mail", "mail")]
    (change,) = difference(*({"default": "deny", "rules": one} for one in rules))
    assert change.example.name == "mail" != change.example.own_name


def test_a_higher_limit_is_only_looser() -> None:
    low, high = ({"rules": [{"action": "deny", "tools": "send", "limit": {"calls": calls}}]} for calls in (5, 9))
    assert [one.is_loosened for one in difference(low, high)] == [True]
    assert [one.is_loosened for one in difference(high, low)] == [False]


def test_a_limit_that_counts_other_calls_is_another_one() -> None:
    narrow, wide = ({"rules": [{"action": "deny", "tools": tools, "limit": {"calls": 5}}]} for tools in ("a*", "*"))
    tightened = [one for one in difference(narrow, wide) if not one.is_loosened]
    assert any(one.old_rule.number == 0 and one.example.own_name.startswith("a") for one in tightened)


def test_other_labels_of_results_may_change_what_values_are_cleared_by() -> None:
    rules = [{"action": "ask", "tools": "send", "values_from_elsewhere": "to"}]
    trusting = {"rules": rules, "results": [{"tools": "mcp:contacts:find", "label": "trusted"}]}
    assert {one.is_loosened for one in difference({"rules": rules}, trusting)} == {True, False}
