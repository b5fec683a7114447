"""The plugins of a host that describe their rules, and those that judge calls without a word on how."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import ModuleType
from typing import Any

from hooksdk import Config, Tool
from hooksdk.cli._console import logger
from hooksdk.host import Plugin
from hooksdk.patterns import ToolPattern
from hooksdk.rules import Rules, is_about, unknown_arguments

# The hooks whose handlers hold a call back.
_BLOCKING = ("before_tool_call", "tool_call_start")


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A plugin that may ask about calls or block them, and does not say which.

    Attributes:
        patterns: The tools that its handlers are for; empty: every tool.
    """

    plugin: str
    patterns: Sequence[ToolPattern] = ()

    def may_judge(self, tool: Any) -> bool:
        """True for tools that one of its handlers is for."""
        return not self.patterns or any(pattern.may_mean(tool) for pattern in self.patterns)


@dataclass(frozen=True, kw_only=True)
class Judges:
    """Who judges calls here.

    Attributes:
        described: By plugin, what its settings say of calls.
        shadowed: Plugins in shadow mode: what they say of a call has no effect.
    """

    described: dict[str, Rules] = field(default_factory=dict[str, Rules])
    others: list[Judge] = field(default_factory=list[Judge])
    shadowed: list[str] = field(default_factory=list[str])


def judges_of(plugins: Sequence[Plugin], config: Config) -> Judges:
    """The loaded plugins that judge calls. One whose `describe_rules` fails counts as one that does not describe its
    rules, and a warning says so."""
    judges = Judges()
    for plugin in plugins:
        judging = [hook for hook in _BLOCKING if hook in plugin.hooks]
        if not (plugin.loaded and judging):
            continue
        section = config.plugin(plugin.id)
        if section is not None and section.mode == "shadow":
            judges.shadowed.append(plugin.id)
        elif (rules := _rules_of(plugin)) is not None:
            judges.described[plugin.id] = rules
        else:
            patterns = [plugin.tool_patterns.get(hook, []) for hook in judging]
            judges.others.append(Judge(plugin=plugin.id, patterns=[*chain(*patterns)] if all(patterns) else ()))
    return judges


def misspelt(judges: Judges, tools: Sequence[Tool], called: Tool | None = None, *, guessing: bool = False) -> list[str]:
    """The rules that name an argument which none of their tools has, in words; with `called` only the rules that may
    stop its calls. `guessing`: the schemas say little, so only a name that is nearly an argument's counts."""
    return [
        f"{plugin} rule {rule.number}: {one.words(rule.action)}"
        for plugin, rules in judges.described.items()
        for rule in rules.rules
        if called is None or (rule.action != "allow" and is_about(rule.facts, called))
        for one in unknown_arguments(rule.facts, tools)
        if one.near or not guessing
    ]


def _rules_of(plugin: Plugin) -> Rules | None:
    """What its `describe_rules(config)` answers: a class method, or a module's plain function."""
    member = inspect.getattr_static(plugin.holder, "describe_rules", None)
    is_ours = inspect.isfunction(member) if isinstance(plugin.holder, ModuleType) else isinstance(member, classmethod)
    if not is_ours:
        return None
    try:
        rules: object = plugin.holder.describe_rules(plugin.config)
    except Exception as error:
        problem = f"its describe_rules(...) raised {type(error).__name__}: {error}"
    else:
        if isinstance(rules, Rules):
            return rules
        problem = f"its describe_rules(...) answered {type(rules).__name__}, not Rules"
    logger.warning("plugin '%s': %s; it counts as one that may ask about calls or block them", plugin.id, problem)
    return None
