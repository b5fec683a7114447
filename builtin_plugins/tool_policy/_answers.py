"""What the policy says of a call: a refusal, a question, or an explanation of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from builtin_plugins.tool_policy._compiled import CompiledRule
from builtin_plugins.tool_policy._rule import Action, text_of
from hooksdk import Tool
from hooksdk.hooks import Ask, Block, Origin

NO_RULE: dict[Action, str] = {"allow": "", "deny": "no rule of the tool policy allows it", "ask": ""}


@dataclass(frozen=True, kw_only=True)
class RuleFit:
    """One rule that fits a call, or that is about its tool and does not fit.

    Attributes:
        number: Of the rule, from 1; 0 for the default.
        text: The rule as it is written, in one line.
        why: What it goes by, or why it does not fit.
    """

    number: int
    action: Action
    text: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The policy's word on a call, and what led to it.

    Attributes:
        deciding: None where nothing of the policy is about the tool: a bridge tool, which runs nothing itself.
        also_fit: Rules that fit too, and that another one beats.
        do_not_fit: Rules about this tool that this call does not fit.
        near_misses: Rules that are not about this tool, though one of their patterns has its words.
    """

    action: Action
    deciding: RuleFit | None
    also_fit: list[RuleFit] = field(default_factory=list[RuleFit])
    do_not_fit: list[RuleFit] = field(default_factory=list[RuleFit])
    near_misses: list[RuleFit] = field(default_factory=list[RuleFit])


def denial(rule: CompiledRule) -> str:
    return rule.rule.reason or f"{rule.name} of the tool policy denies it"


def undecidable(rule: CompiledRule, problem: Exception) -> str:
    return f"the call cannot be checked against {rule.name} of the tool policy: {problem}"


def answer_of(compiled: CompiledRule, tool: Tool, strange: Sequence[Origin], doubt: str = "") -> Block | Ask | None:
    rule, unsaid = compiled.rule, doubt or compiled.unsaid(tool)
    if rule.action == "deny":
        reason = f"{denial(compiled)} ({strange[0].place})" if strange else denial(compiled)
        return Block(f"{reason} ({unsaid})" if unsaid else reason)
    if rule.action == "ask":
        title = rule.title or f"Run {tool.label or tool.name}?"
        title = f"{title} ({unsaid})" if unsaid else title  # the refusal where nobody can be asked has the title alone
        description = rule.reason or f"{compiled.name} of the tool policy asks for a person."
        words = text_of(rule) if compiled.number else "default"
        return Ask(title, description, rule.severity, rule=words, evidence=strange)
    return None
