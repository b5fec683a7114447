"""Allow, deny or ask, by rules from the configuration. The first rule that fits decides; after the last, `default`.

What no call could ever be allowed is withheld: the model does not see it. What depends on a call's arguments is judged when
the call is made. Every call is judged in full, so a tool that came round the narrowing is caught there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from builtin_plugins.tool_policy._layers import add_project
from builtin_plugins.tool_policy._rules import Action, CompiledRule, Rule, Undecidable, read_rules
from hooksdk import Tool, hooks
from hooksdk.config import ProjectSettings
from hooksdk.hooks import Ask, BeforeToolCall, Block, NarrowTools, Withhold

__all__ = ["ToolPolicy"]


class ToolPolicy:
    """Allow, deny or ask by rules."""

    class Config(BaseModel):
        """Settings."""

        model_config = ConfigDict(extra="forbid")
        rules: Annotated[list[Rule], BeforeValidator(read_rules)] = Field(default_factory=list[Rule])
        """Asked in order; the first that fits decides."""
        default: Action = "allow"
        """What holds where no rule fits."""

        @model_validator(mode="after")
        def _check(self) -> ToolPolicy.Config:
            if not self.rules and "default" not in self.model_fields_set:
                raise ValueError('there are no rules; write one, such as {action = "deny", tools = "delete_*"}')
            return self

        @classmethod
        def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
            """The user's rules, with those of a project's file that may be added to them."""
            return add_project(own, project.values, trusted=project.trusted)

    def __init__(self, config: Config) -> None:
        self._rules = [CompiledRule(rule, f"rule {number}") for number, rule in enumerate(config.rules, 1)]
        self._default = CompiledRule(Rule(action=config.default, reason=_NO_RULE[config.default]), "the default")

    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold | None:
        """Withhold the tools of which no call could be allowed."""
        rules = [rule for rule in self._rules if rule.fits_run(event)]
        closed = {tool.id: rule for tool in event.tools if (rule := self._closing(tool, rules))}
        reasons = {rule.rule.reason for rule in closed.values()}
        reason = reasons.pop() if len(reasons) == 1 else ""
        return Withhold(list(closed), reason or "the tool policy denies it") if closed else None

    def _closing(self, tool: Tool, rules: list[CompiledRule]) -> CompiledRule | None:
        """The rule that denies every call which the rules before it leave open; None when some call may be allowed."""
        for rule in self._for_tool(tool, rules):
            if rule.rule.action != "deny":
                return None
            if not rule.conditional:
                return rule
        return None

    @hooks.before_tool_call.first
    def judge(self, event: BeforeToolCall) -> Block | Ask | None:
        """Let the first rule that fits the call decide."""
        arguments = event.arguments
        for rule in self._for_tool(event.tool, self._rules):
            if not rule.fits_run(event):
                continue
            try:
                if rule.conditional and not rule.fits_arguments(arguments):
                    continue
            except Undecidable as problem:
                return Block(f"the arguments cannot be checked against {rule.name} of the tool policy: {problem}")
            return _verdict(rule, event.tool)
        return None

    def _for_tool(self, tool: Tool, rules: list[CompiledRule]) -> Iterator[CompiledRule]:
        """The rules that are about this tool, then the default. It is not meant for the bridge tools, which show and run
        nothing but what is allowed anyway."""
        yield from (rule for rule in rules if rule.fits_tool(tool))
        if not tool.bridge:
            yield self._default


_NO_RULE: dict[Action, str] = {"allow": "", "deny": "no rule of the tool policy allows it", "ask": ""}


def _verdict(compiled: CompiledRule, tool: Tool) -> Block | Ask | None:
    rule = compiled.rule
    if rule.action == "deny":
        return Block(rule.reason or f"{compiled.name} of the tool policy denies it")
    if rule.action == "ask":
        title = rule.title or f"Run {tool.label or tool.name}?"
        return Ask(title, rule.reason or f"{compiled.name} of the tool policy asks for a person.", rule.severity)
    return None
