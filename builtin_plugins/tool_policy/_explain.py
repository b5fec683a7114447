"""What the policy says of one call, in words."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from builtin_plugins.tool_policy._rules import Action, Rule

_SETTINGS_LEFT_OUT = {"reason", "title", "severity"}


@dataclass(frozen=True, kw_only=True)
class RuleFit:
    """One rule that fits a call, or that is about its tool and does not fit."""

    number: int
    """Of the rule, from 1; 0 for the default."""
    action: Action
    text: str
    """The rule as it is written, in one line."""
    why: str = ""
    """What it goes by, or why it does not fit."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The policy's word on a call, and what led to it."""

    action: Action
    deciding: RuleFit | None
    """None where nothing of the policy is about the tool: a bridge tool, which runs nothing itself."""
    also_fit: list[RuleFit] = field(default_factory=list[RuleFit])
    """Rules that fit too, and that another one beats."""
    do_not_fit: list[RuleFit] = field(default_factory=list[RuleFit])
    """Rules about this tool that this call does not fit."""
    near_misses: list[RuleFit] = field(default_factory=list[RuleFit])
    """Rules that are not about this tool, though one of their patterns has its words."""


def text_of(rule: Rule) -> str:
    """A rule in one line, as it stands in TOML."""
    written = rule.model_dump(exclude_unset=True, exclude=_SETTINGS_LEFT_OUT, mode="json")
    return ", ".join(f"{name} = {_toml(value)}" for name, value in written.items())


def _toml(value: object) -> str:
    if isinstance(value, dict):
        if set(value) == {"*"}:  # pyright: ignore[reportUnknownArgumentType]
            return _toml(value["*"])  # pyright: ignore[reportUnknownArgumentType]
        inner = ", ".join(f"{_key(str(name))} = {_toml(one)}" for name, one in value.items() if one is not None)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return _toml(value[0]) if len(value) == 1 else f"[{', '.join(map(_toml, value))}]"  # pyright: ignore[reportUnknownArgumentType]
    return json.dumps(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
