"""Tools that a rule seems to be about and is not: its words are theirs, or only case and joining stand between them.

Told only where the rule would change what becomes of the tool, so that a rule for the tool itself ends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builtin_plugins.tool_policy._rules import GRAVITY, Action, CompiledRule
from hooksdk import Tool
from hooksdk.patterns import ToolPattern, near_miss


def near_misses_of(rules: Sequence[CompiledRule], default: Action, tools: Sequence[Tool]) -> Iterator[str]:
    """One line for each pattern that has any, with what to write."""
    for rule in rules:
        missed: dict[ToolPattern, list[str]] = {}
        for tool in tools:
            pattern = rule.near_miss(tool)
            if pattern is not None and would_count(rule, tool, rules, default):
                missed.setdefault(pattern, []).append(tool.id)
        for pattern, ids in missed.items():
            where = f"{rule.name} ({rule.rule.action} {', '.join(rule.rule.tools)})"
            yield f"{where}: {near_miss(pattern, ids, exact=rule.exact)}"


def would_count(near: CompiledRule, tool: Tool, rules: Sequence[CompiledRule], default: Action) -> bool:
    """True where the rule, if it were about the tool, would change what becomes of some call of it."""
    fitting = [rule for rule in rules if rule.fits_tool(tool)]
    stopping: list[Action] = [rule.rule.action for rule in fitting if rule.always and not rule.exact]
    allowing = [rule for rule in fitting if rule.exact]
    if near.exact:
        return default != "allow" and not stopping and not allowing
    if any(tool.own_name in _last_parts(rule) for rule in allowing):
        return False  # somebody has thought of this tool
    if not stopping:
        stopping = ["allow"] if allowing else [default]
    return all(GRAVITY[near.rule.action] < GRAVITY[action] for action in stopping)


def _last_parts(rule: CompiledRule) -> set[str]:
    return {pattern.text.rpartition(":")[2] for pattern in rule.patterns}
