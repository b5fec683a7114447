"""The rules of a plugin, and a class of calls, as facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from hooksdk.rules._facts import Fact

Action = Literal["allow", "ask", "deny"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""The mildest first; the gravest that fits a call counts."""
Claim = Literal["never", "only_asked", "always_asked"]
"""Of a class of calls: that none runs, that none runs unless a person was asked, that a person is asked about each."""
CLAIMS: tuple[Claim, ...] = get_args(Claim)


@dataclass(frozen=True)
class DescribedRule:
    """One rule: for a call of which all facts hold it says its action, unless a graver rule says another. A deny is
    graver than an ask, an ask than an allow."""

    action: Action
    facts: Sequence[Fact]
    number: int
    """From 1, by which people call it."""
    words: str = ""
    """The rule as it is written, in one line."""


@dataclass(frozen=True)
class Rules:
    """All that a plugin's settings say of calls. Of no call that begins may the plugin say anything milder than
    this."""

    rules: Sequence[DescribedRule]
    default: Action = "allow"
    """What holds where no rule fits."""
    added: Sequence[Action] = field(default=())
    """The actions of the rules that a project which nobody trusts may add."""


@dataclass(frozen=True)
class CallClass:
    """The calls of which all facts hold."""

    facts: Sequence[Fact]
