"""The rules of a plugin, and a class of calls, as facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from hooksdk.rules._facts import Fact

Action = Literal["allow", "ask", "deny"]
# The mildest first; the gravest that fits a call counts.
ACTIONS: tuple[Action, ...] = get_args(Action)
# Of a class of calls: that none runs, that none runs unless a person was asked, that a person is asked about each.
Claim = Literal["never", "only_asked", "always_asked"]
CLAIMS: tuple[Claim, ...] = get_args(Claim)


@dataclass(frozen=True)
class DescribedRule:
    """One rule: for a call of which all facts hold it says its action, unless a graver rule says another. A deny is
    graver than an ask, an ask than an allow.

    Attributes:
        number: From 1, by which people call it.
        words: The rule as it is written, in one line.
    """

    action: Action
    facts: Sequence[Fact]
    number: int
    words: str = ""


@dataclass(frozen=True)
class Rules:
    """All that a plugin's settings say of calls. Of no call that begins may the plugin say anything milder than
    this.

    Attributes:
        default: What holds where no rule fits.
        added: The actions of the rules that a project which nobody trusts may add.
    """

    rules: Sequence[DescribedRule]
    default: Action = "allow"
    added: Sequence[Action] = field(default=())


@dataclass(frozen=True)
class CallClass:
    """The calls of which all facts hold."""

    facts: Sequence[Fact]
