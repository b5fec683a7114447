"""Tools that a rule seems to be about and is not: its words are theirs, or only case and joining stand between them.

Told only where the rule would change what becomes of the tool, so that a rule for the tool itself ends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builtin_plugins.tool_policy._rules import GRAVITY, Action, CompiledRule
from hooksdk import Tool
from hooksdk.patterns import ToolPattern

_MOST_NAMED = 3


def near_misses_of(rules: Sequence[CompiledRule], default: Action, tools: Sequence[Tool]) -> Iterator[str]:
    """One line for each pattern that has any, with what to write."""
    for rule in rules:
        missed: dict[ToolPattern, list[str]] = {}
        for tool in tools:
            pattern = rule.near_miss(tool)
            if pattern is not None and would_count(rule, tool, rules, default):
                missed.setdefault(pattern, []).append(tool.id)
        for pattern, ids in missed.items():
            more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
            names = ", ".join(map(repr, ids[:_MOST_NAMED])) + more
            yield f"{rule.name} ({rule.rule.action} {', '.join(rule.rule.tools)}): {why(rule, pattern)} {names}"


def why(rule: CompiledRule, pattern: ToolPattern) -> str:
    """Why the rule is not about a tool that is near to this pattern of it; the tool's name comes next."""
    if rule.exact:
        return f"an allow counts as it is written, so {pattern.text!r} does not mean"
    return f"{pattern.text!r} has the same words, but does not mean"


def would_count(near: CompiledRule, tool: Tool, rules: Sequence[CompiledRule], default: Action) -> bool:
    """True where the rule, if it were about the tool, would change what becomes of some call of it."""
    fitting = [rule for rule in rules if rule.fits_tool(tool)]
    stopping = [rule.rule.action for rule in fitting if rule.always and not rule.exact]
    allowing = [rule for rule in fitting if rule.exact]
    if near.exact:
        return default != "allow" and not stopping and not allowing
    if any(tool.own_name in _last_parts(rule) for rule in allowing):
        return False  # somebody has thought of this tool
    actual: Action = min(stopping, key=GRAVITY.__getitem__, default="allow" if allowing else default)
    return GRAVITY[near.rule.action] < GRAVITY[actual]


def _last_parts(rule: CompiledRule) -> set[str]:
    return {pattern.text.rpartition(":")[2] for pattern in rule.patterns}
