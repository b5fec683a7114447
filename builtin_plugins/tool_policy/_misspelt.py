"""Rules that name an argument which none of their tools has: most often a slip of the pen, and then a policy would be
missing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from builtin_plugins.tool_policy._compiled import CompiledRule
from builtin_plugins.tool_policy._rule import text_of
from hooksdk import FamilyState, Tool
from hooksdk.hooks import BeforeToolCall, NarrowTools, ToolCallStart
from hooksdk.rules import UnknownArgument, is_about, named_arguments, unknown_arguments

logger = logging.getLogger("hooksdk")


class Misspelt:
    """The rules of one session, beside the tools that it has seen. What the tools of a run have, its sub-agents' rules
    may name, too: they are given some of the tools on purpose."""

    def __init__(self, rules: Sequence[CompiledRule], family: FamilyState | None) -> None:
        self._rules = {text_of(rule.rule): rule for rule in rules if any(named_arguments(rule.facts))}
        self._family = family
        self._tools: dict[str, Tool] = {}
        # By rule, what no tool of the session has.
        self._unknown: dict[str, list[UnknownArgument]] = {text: [] for text in self._rules}
        # By rule, the arguments that tools of the outermost run have.
        self._around: dict[str, list[str]] = {}
        self._doubts: dict[CompiledRule, list[UnknownArgument]] = {}
        self._told: set[str] = set()
        # The family for which the tools were looked at last.
        self._seen_in = ""

    async def resolve(self, event: NarrowTools) -> None:
        """Look at the tools of a run, and say in the log what no rule can be about."""
        if not self._see(event.tools) and event.family == self._seen_in:
            return
        self._seen_in = event.family
        if self._family is not None and len(event.agents) > 1:
            self._around = await self._family.get("arguments", {})
        elif self._family is not None:
            own = {
                text: known for text, rule in self._rules.items() if (known := self._known(rule, self._unknown[text]))
            }
            await self._family.update(lambda state: state.update(arguments=own))
        self._look(tell=True)

    def doubt(self, rule: CompiledRule, event: BeforeToolCall | ToolCallStart) -> str:
        """Why a rule that stops calls may be meant for this one; empty where its conditions say that it is not. Raises
        as `why_not`."""
        tool = event.tool
        if rule.exact or not self._rules:
            return ""
        if tool.id not in self._tools and self._see([tool]):  # it came another way than by a catalog
            self._look()
        found = self._doubts.get(rule, []) if is_about(rule.facts, tool) else []
        if not found or rule.why_not(event, [one.fact for one in found]):
            return ""
        return found[0].words(rule.rule.action)

    def _see(self, tools: Iterable[Tool]) -> bool:
        """False where they are as they were."""
        new = {tool.id: tool for tool in tools if not _is_same(self._tools.get(tool.id), tool)}
        self._tools |= new
        if new:
            self._unknown = {
                text: list(unknown_arguments(rule.facts, self._tools.values())) for text, rule in self._rules.items()
            }
        return bool(new)

    def _known(self, rule: CompiledRule, unknown: Sequence[UnknownArgument]) -> list[str]:
        """The arguments that the rule names and that a tool of the session has, or may have."""
        if not any(is_about(rule.facts, tool) for tool in self._tools.values()):
            return []
        return sorted({*map(str, named_arguments(rule.facts))} - {one.name for one in unknown})

    def _look(self, *, tell: bool = False) -> None:
        self._doubts.clear()
        for text, rule in self._rules.items():
            for one in self._unknown[text]:
                if one.name in self._around.get(text, ()):
                    continue
                if one.closed:
                    self._doubts.setdefault(rule, []).append(one)
                if tell and (line := f"{rule.name} ({text}): {one.words(rule.rule.action)}") not in self._told:
                    self._told.add(line)
                    logger.warning("tool_policy: %s", line)


def _is_same(old: Tool | None, new: Tool) -> bool:
    if old is None or old is new:
        return old is new
    return old.fingerprint == new.fingerprint and old.annotations == new.annotations
