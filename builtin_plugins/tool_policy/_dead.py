"""Rules that never decide, because another one decides first whatever they are about. Only certain cases are told."""

from __future__ import annotations

from collections.abc import Sequence

from builtin_plugins.tool_policy._patterns import all_hold, tools_hold
from builtin_plugins.tool_policy._rules import GRAVITY, Rule
from hooksdk.rules import says_part_of_a_name

_CONDITIONS = (
    "does",
    "arguments",
    "path_inside",
    "path_outside",
    "path_name",
    "url_host",
    "command",
    "limit",
    "after_reading",
    "values_from",
    "values_from_elsewhere",
)


def dead_rules(rules: Sequence[Rule]) -> list[tuple[int, int]]:
    """Each rule that never decides, and the one that always decides before it, both by number from 1."""
    pairs: list[tuple[int, int]] = []
    for number, rule in enumerate(rules, 1):
        for other_number, other in enumerate(rules, 1):
            if other_number != number and _covers(other, rule) and _decides_first(other, rule, other_number < number):
                pairs.append((number, other_number))
                break
    return pairs


def problem_of(rules: Sequence[Rule], dead: int, by: int) -> str:
    """What is wrong with a dead rule, and what to write."""
    rule, other = rules[dead - 1], rules[by - 1]
    advice = "take one of them out, or say more in the one that decides"
    if rule.action == "allow" and other.action == "deny" and set(",".join(other.tools)) <= set("*:,"):
        advice = 'deny always beats allow, so write default = "deny" in its place'
    return (
        f"rule {dead} ({rule.action} {', '.join(rule.tools)}) never decides: rule {by} "
        f"({other.action} {', '.join(other.tools)}) decides the same calls first; {advice}"
    )


def _decides_first(other: Rule, rule: Rule, stands_before: bool) -> bool:
    """True when the first rule decides what both fit."""
    if GRAVITY[other.action] != GRAVITY[rule.action]:
        return GRAVITY[other.action] < GRAVITY[rule.action]
    # Among denies and asks the first one gives the reason. An allow gives none: beside a wider one it changes nothing,
    # whichever comes first.
    return stands_before or (rule.action == "allow" and not _covers(rule, other))


def _covers(wide: Rule, narrow: Rule) -> bool:
    """True when the one fits every call that the other fits."""
    if any(getattr(wide, name) is not None for name in _CONDITIONS):
        return False
    exact = {"wide_exact": wide.action == "allow", "narrow_exact": narrow.action == "allow"}
    if not tools_hold(wide.tools, narrow.tools, **exact):
        return False
    if narrow.action != "allow":
        # A bridge tool is met by patterns that say part of its name, not by those for all names.
        named = [pattern for pattern in wide.tools if says_part_of_a_name(pattern)]
        if not tools_hold(named, [pattern for pattern in narrow.tools if _may_be_a_bridge(pattern)], **exact):
            return False
    pairs = ((wide.owners, narrow.owners), (wide.agents, narrow.agents))
    if not all(all_hold(*pair) for pair in pairs):
        return False
    for ours, theirs in ((wide.sources, narrow.sources), (wide.triggers, narrow.triggers)):
        if ours is not None and (theirs is None or not set(theirs) <= set(ours)):
            return False
    if wide.workspaces is not None and wide.workspaces != narrow.workspaces:
        return False
    if wide.requester is not None and wide.requester != narrow.requester:
        return False
    return wide.annotations is None or wide.annotations.items() <= (narrow.annotations or {}).items()


def _may_be_a_bridge(pattern: str) -> bool:
    source = pattern.partition(":")[0] if ":" in pattern else "*"
    return says_part_of_a_name(pattern) and (source == "plugin" or not source.isalpha())
