"""What a rule can ask of a tool, a run or a call: facts. Each is data, by which it is matched here and modelled in proofs.
The rules of a plugin, and a class of calls, are made of them."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Literal, cast, get_args

from hooksdk.hooks import BeforeToolCall, Event
from hooksdk.patterns import ToolPattern
from hooksdk.tools import Tool

# Set by whoever judges a call that runs in another folder than its run's workspace. Rules take a relative word of such
# a call for a path from either; the relative paths of the rules themselves mean the workspace.
current_folder: ContextVar[str | None] = ContextVar("hooksdk folder of the call that is judged", default=None)
# What MCP says of a tool that says nothing; one that only reads destroys nothing.
UNSAID = {"read_only": False, "destructive": True, "idempotent": False, "open_world": True}


@dataclass(frozen=True)
class NamedArgument:
    """An argument that a condition names: the keys on the way to it, without places in lists.

    Attributes:
        dotted: True where keys that follow each other may also be one key with dots in it.
        written: The name as it is written, where it differs.
        asked: What is asked of it, where one of the condition's names is enough; None where each must be there.
        choices: Where one of several schemas is enough: which choice it stands in, and in which schema of it.
    """

    keys: tuple[str, ...]
    dotted: bool = False
    written: str = ""
    asked: tuple[str, ...] | None = None
    choices: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        return self.written or ".".join(self.keys)


class Fact(ABC):  # noqa: B024 - what there is to ask differs by kind
    """One thing that a rule asks for. Facts that are equal hold for the same calls."""


class ToolFact(Fact):
    """Something about the tool alone."""

    @abstractmethod
    def holds(self, tool: Tool) -> bool:
        """True for tools of which it is so."""


class RunFact(Fact):
    """Something about the run alone."""

    @abstractmethod
    def holds(self, event: Event) -> bool:
        """True in runs of which it is so."""

    @abstractmethod
    def in_words(self) -> str:
        """For whom that is, for people: `the agent helper`."""


class CallFact(Fact):
    """Something about the call itself, such as its arguments. A proof knows nothing of it but what it implies, so it
    may hold or not."""

    @abstractmethod
    def in_words(self) -> str:
        """What it asks for, for people: `path_inside = "/etc"`."""

    @abstractmethod
    def holds(self, event: BeforeToolCall) -> bool:
        """True for calls of which it is so."""

    def examples(self) -> Iterable[Mapping[str, Any]]:
        """Some arguments of calls for which it may hold, to show what a proof comes upon."""
        return ()

    def named(self) -> Iterable[NamedArgument]:
        """The arguments that it names. It never holds as it is meant where no tool has one of them."""
        return ()

    def settled_by(self, tool: Tool) -> bool | None:  # noqa: ARG002 - the parameter of those that know more
        """True where it holds for every call of this tool, False where for none; None where the call decides."""
        return None

    def implies(self, other: CallFact) -> bool:
        """True where the other one surely holds for every call for which this one does."""
        return self == other


@dataclass(frozen=True)
class ToolNamed(ToolFact):
    """One of the patterns means the tool: as it is written (`exact`), or by its words."""

    patterns: tuple[str, ...]
    exact: bool

    @cached_property
    def compiled(self) -> list[ToolPattern]:
        """The patterns, ready to be compared."""
        return [ToolPattern(text) for text in self.patterns]

    @cached_property
    def _of_bridges(self) -> list[ToolPattern]:
        # A bridge tool opens nothing by itself, so a pattern for all names of some source is not meant for it.
        return [one for one in self.compiled if says_part_of_a_name(one.text)]

    def holds(self, tool: Tool) -> bool:
        """True where one of them means it. Of a bridge tool a pattern must say part of the name."""
        means = ToolPattern.matches if self.exact else ToolPattern.may_mean
        return any(means(pattern, tool) for pattern in (self._of_bridges if tool.bridge else self.compiled))


@dataclass(frozen=True)
class Says(ToolFact):
    """What the tool says of itself: as it says it (`exact`), or with MCP's defaults for what it does not say."""

    annotations: tuple[tuple[str, bool], ...]
    exact: bool

    def holds(self, tool: Tool) -> bool:
        """True where all of it is so."""
        said = {name: getattr(tool.annotations, name) for name, _ in self.annotations}
        if not self.exact:
            unsaid = {**UNSAID, "destructive": tool.annotations.read_only is not True}
            said = {name: unsaid[name] if value is None else value for name, value in said.items()}
        return all(said[name] is value for name, value in self.annotations)


@dataclass(frozen=True)
class FromSource(ToolFact):
    """The tool comes from one of these sources."""

    sources: tuple[str, ...]

    def holds(self, tool: Tool) -> bool:
        """True where it does."""
        return tool.source in self.sources


@dataclass(frozen=True)
class OwnedBy(ToolFact):
    """One of these patterns fits the tool's owner: as it is written (`exact`), or in any case."""

    owners: tuple[str, ...]
    exact: bool

    @cached_property
    def compiled(self) -> list[re.Pattern[str]]:
        """The patterns, ready to be compared."""
        return [wildcard(text if self.exact else text.casefold()) for text in self.owners]

    def holds(self, tool: Tool) -> bool:
        """True where one does."""
        return _any(self.compiled, tool.owner if self.exact else tool.owner.casefold())


@dataclass(frozen=True)
class ByAgent(RunFact):
    """One of these patterns fits the agent of the run, or of one around it."""

    agents: tuple[str, ...]

    @cached_property
    def compiled(self) -> list[re.Pattern[str]]:
        """The patterns, ready to be compared."""
        return [wildcard(text) for text in self.agents]

    def holds(self, event: Event) -> bool:
        """True where one does."""
        return any(_any(self.compiled, agent) for agent in event.agents)

    def in_words(self) -> str:
        """The agents."""
        return f"the agent {' or '.join(self.agents)}"


@dataclass(frozen=True)
class Triggered(RunFact):
    """One of these began the run, or one around it."""

    triggers: tuple[str, ...]

    def holds(self, event: Event) -> bool:
        """True where one did."""
        return not set(self.triggers).isdisjoint(event.triggers)

    def in_words(self) -> str:
        """The triggers."""
        return f"runs begun by {' or '.join(self.triggers)}"


@dataclass(frozen=True)
class InWorkspace(RunFact):
    """The run's workspace is one of these folders or lies below one; `*` and `?` stand for part of one folder's
    name."""

    folders: tuple[str, ...]

    @cached_property
    def compiled(self) -> list[re.Pattern[str]]:
        """The folders, ready to be compared."""
        return [_folder(text) for text in self.folders]

    def holds(self, event: Event) -> bool:
        """True where it does; without a workspace it is false."""
        place = event.workspace_dir
        return place is not None and _any(self.compiled, os.path.normpath(place).replace(os.sep, "/"))

    def in_words(self) -> str:
        """The folders."""
        return f"the workspace {' or '.join(self.folders)}"


@dataclass(frozen=True)
class Requested(RunFact):
    """Whoever asked for the run is the owner or not, has one of the roles and one of the ids. What is None is not asked
    for."""

    is_owner: bool | None = None
    roles: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None

    def holds(self, event: Event) -> bool:
        """True where all of it is so. Of a requester that nobody named only `is_owner=False` holds."""
        return self.means(event.requester or {})

    def means(self, requester: Mapping[str, Any]) -> bool:
        """True where all of it is so of this requester."""
        if self.is_owner is not None and (requester.get("is_owner") is True) is not self.is_owner:
            return False
        own_id: object = requester.get("id")
        if self.ids is not None and (own_id is None or str(own_id) not in self.ids):
            return False
        own_roles: object = requester.get("roles")
        roles = {own_roles} if isinstance(own_roles, str) else set(map(str, cast("list[object]", own_roles or ())))
        return self.roles is None or not roles.isdisjoint(self.roles)

    def in_words(self) -> str:
        """Whoever it is."""
        words = [] if self.is_owner is None else ["the owner" if self.is_owner else "everybody but the owner"]
        words += [f"the role {' or '.join(self.roles)}"] if self.roles is not None else []
        words += [f"the requester {' or '.join(self.ids)}"] if self.ids is not None else []
        return " with ".join(words)


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


def named_arguments(facts: Iterable[Fact]) -> list[NamedArgument]:
    """Those that the facts of a rule name, each once."""
    return list(dict.fromkeys(chain.from_iterable(fact.named() for fact in facts if isinstance(fact, CallFact))))


def says_part_of_a_name(pattern: str) -> bool:
    """False for patterns for all names of some source (`*`, `plugin:*:*`)."""
    return bool(pattern.rpartition(":")[2].strip("*?"))


def wildcard(text: str) -> re.Pattern[str]:
    """`*` stands for any text, `?` for one character."""
    return re.compile(_pieces(text, ".*", "."), re.DOTALL)


def _folder(text: str) -> re.Pattern[str]:
    return re.compile(_pieces(text.rstrip("/"), "[^/]*", "[^/]") + "(/.*)?", re.DOTALL)


def _pieces(text: str, star: str, mark: str) -> str:
    pieces = re.split(r"(\*+|\?)", text)
    return "".join(star if piece[:1] == "*" else mark if piece == "?" else re.escape(piece) for piece in pieces)


def _any(patterns: Iterable[re.Pattern[str]], text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in patterns)
