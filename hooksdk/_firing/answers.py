"""Answers about one tool call, beside `Block` and `Answer`: what a person is asked, other arguments, secrets, another
result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hooksdk._firing.event import Checked
from hooksdk._origins.origin import Origin
from hooksdk.calls import ToolResult


@dataclass(frozen=True)
class Rewrite(Checked):
    """Other arguments: the whole object, so a key can also be removed."""

    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Ask(Checked):
    """Ask a person first. Refused when nobody can be asked, when they say no, and after `timeout` seconds. An answer
    counts for the same words, of the same plugin and `rule`: leave what changes from one judging to the next, such as a
    time, out of them.

    Attributes:
        rule: Which rule of the plugin's asks, for a plugin that has several: an answer to one is none to another.
        evidence: Which values are strange, and where they stand: shown to the person before all arguments. No part of
            the words: an answer counts whatever it is.
    """

    title: str
    description: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"
    timeout: float = 120.0
    rule: str = field(default="", kw_only=True)
    evidence: Iterable[Origin] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Secrets(Checked):
    """Values for the placeholders, by name."""

    values: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Replace(Checked):
    """Another result for the same call, or another answer of the run. Text replaces the old text and the structured
    form; other content stays."""

    result: ToolResult | str
