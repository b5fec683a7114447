"""What a rule asks of tools, runs and calls, as facts: calls are matched by them, and proofs are made of them."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any, cast

from builtin_plugins.tool_policy._conditions import EVERY, Condition
from builtin_plugins.tool_policy._does import Does
from builtin_plugins.tool_policy._limits import Limit
from builtin_plugins.tool_policy._names import NameReader, OutsideReader
from builtin_plugins.tool_policy._origins import ADDRESSES, Reading
from builtin_plugins.tool_policy._rule import Rule
from builtin_plugins.tool_policy._vocabulary import Vocabulary
from builtin_plugins.tool_policy._watch import READERS, Watch
from hooksdk import Tool, schema
from hooksdk.hooks import BeforeToolCall
from hooksdk.rules import (
    ByAgent,
    CallFact,
    Fact,
    FromSource,
    InWorkspace,
    NamedArgument,
    OwnedBy,
    Says,
    ToolNamed,
    Triggered,
    names_in_schema,
)
from hooksdk.values import place_of

_READERS = {**READERS, "path_outside": OutsideReader(), "path_name": NameReader()}


class Undecidable(ValueError):
    """The arguments cannot be checked against a rule's schema."""


class WrittenFact(CallFact):
    """Something about what stands in the call."""

    @abstractmethod
    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:
        """Why it is not so; empty where it is. Raises `Undecidable`."""

    def holds(self, event: BeforeToolCall) -> bool:
        """True where it is so, and certain."""
        try:
            return not self.why_not(event.arguments, event.tool, event.workspace_dir)
        except Undecidable:
            return False


@dataclass(frozen=True)
class FitsSchema(WrittenFact):
    """The arguments fit a JSON Schema."""

    text: str
    schema: Mapping[str, Any] = field(compare=False)

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:  # noqa: ARG002
        """Why they do not. Raises `Undecidable`."""
        problems = schema.check(dict(self.schema), arguments, quote_values=False)
        unsure = next((one for one in problems if one.constraint in {"schema", "limit", "json"}), None)
        if unsure is not None:
            raise Undecidable(unsure.message)
        return f"they do not fit its schema: {problems[0].message}" if problems else ""

    def named(self) -> Iterator[NamedArgument]:
        """Those under `properties`, `required` and the like, however deep."""
        return names_in_schema(self.schema)

    def in_words(self) -> str:
        """The key with the schema."""
        return f"arguments = {self.text}"

    def examples(self) -> Iterator[Mapping[str, Any]]:
        """What the schema asks for, with all that it names and with no more than it requires."""
        for required in (False, True):
            yield cast("Mapping[str, Any]", _sample({"type": "object", **self.schema}, only_required=required))


@dataclass(frozen=True)
class Watched(WrittenFact):
    """Nothing in the call is a command or an address that the conditions of an allow do not look at."""

    conditions: tuple[MayMean | SurelyMeans, ...]
    names: tuple[str, ...]
    watch: Watch = field(compare=False)

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:  # noqa: ARG002
        """What is."""
        return self.watch.problem(arguments)

    def in_words(self) -> str:
        """In a few words."""
        return "no command and no address beside its conditions"


@dataclass(frozen=True)
class _Means(WrittenFact):
    key: str
    targets: tuple[tuple[str, tuple[str, ...]], ...]
    condition: Condition = field(compare=False)

    def named(self) -> Iterator[NamedArgument]:
        """Those that it lists something for by name."""
        any_of = isinstance(self, MayMean)
        return (_named(name, texts if any_of else None) for name, texts in self.targets if name != EVERY)

    def in_words(self) -> str:
        """The key with what it lists."""
        return f"{self.key} = {json.dumps(sorted({text for _, texts in self.targets for text in texts}))}"

    def examples(self) -> Iterator[Mapping[str, Any]]:
        """Each text that is listed, as a value of its argument."""
        argument, text = _ARGUMENTS[self.key]
        for name, wanted in self.targets:
            for one in wanted:
                plain = one.replace("*", "x").replace("?", "x").rstrip("/")
                yield {argument if name == EVERY else name: text.format(plain) if plain != "." else "x"}

    def lists_less(self, other: _Means) -> bool:
        """True where the other one lists the same for the same arguments, or more."""
        theirs = dict(other.targets)
        return (self.key, theirs.keys()) == (other.key, dict(self.targets).keys()) and all(
            set(texts) <= set(theirs[name]) for name, texts in self.targets
        )


@dataclass(frozen=True)
class MayMean(_Means):
    """The arguments may hold what a condition lists, for a deny or an ask."""

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:  # noqa: ARG002
        """Nothing in them may."""
        return "" if self.condition.why(arguments, workspace) else f"nothing in the arguments fits {self.key}"

    def implies(self, other: CallFact) -> bool:
        """Whoever lists more is met by more; but for folders that paths lie outside of."""
        if not isinstance(other, MayMean):
            return False
        return other.lists_less(self) if self.key == "path_outside" else self.lists_less(other)


@dataclass(frozen=True)
class SurelyMeans(_Means):
    """The arguments surely hold nothing but what a condition lists, for an allow."""

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:
        """What they hold besides."""
        return self.condition.why_not(arguments, tool, workspace)

    def implies(self, other: CallFact) -> bool:
        """Whoever lists more is met by more."""
        return isinstance(other, SurelyMeans) and self.lists_less(other)


@dataclass(frozen=True)
class _DoesFact(WrittenFact):
    kinds: frozenset[str]
    conditions: tuple[_Means, ...]
    vocabulary: tuple[tuple[str, frozenset[str]], ...]
    does: Does = field(compare=False)

    def named(self) -> Iterator[NamedArgument]:
        """Those of its conditions."""
        return chain.from_iterable(one.named() for one in self.conditions)

    def in_words(self) -> str:
        """The key with its words, and what that must meet."""
        return " with ".join([f"does = {json.dumps(sorted(self.kinds))}", *(one.in_words() for one in self.conditions)])

    def examples(self) -> Iterator[Mapping[str, Any]]:
        """Those of its conditions; else a line that nobody can read for sure, where there is a line."""
        if not self.conditions:
            yield from ({}, {"command": "x"}, {"command": "ls"}, {"path": "x"}, {"url": "https://x/"})
        for some in product(*(list(one.examples()) for one in self.conditions)):
            yield {name: value for one in some for name, value in one.items()}

    def _in_same_words(self, other: _DoesFact) -> bool:
        return self.vocabulary == other.vocabulary


@dataclass(frozen=True)
class MayDo(_DoesFact):
    """The call may do something of what is listed, with what meets the conditions, for a deny or an ask."""

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:
        """It surely does something else."""
        done = self.does.why(arguments, tool, workspace)
        return "" if done else "nothing in the call does that, as far as it says"

    def settled_by(self, tool: Tool) -> bool | None:
        """What is said of the tool, where it runs no lines."""
        return self.does.may_settled_by(tool)

    def implies(self, other: CallFact) -> bool:
        """Whoever lists more is met by more."""
        if not isinstance(other, MayDo) or not self._in_same_words(other):
            return False
        return self.kinds <= other.kinds and other.conditions in {(), self.conditions}


@dataclass(frozen=True)
class SurelyDoes(_DoesFact):
    """The call surely does nothing but what is listed, and something of it, for an allow."""

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:  # noqa: ARG002
        """It may do something else."""
        return self.does.why_not_surely(arguments, tool)

    def settled_by(self, tool: Tool) -> bool | None:
        """What is said of the tool, where it runs no lines."""
        return self.does.surely_settled_by(tool)

    def implies(self, other: CallFact) -> bool:
        """Whoever lists more is met by more."""
        return isinstance(other, SurelyDoes) and self._in_same_words(other) and self.kinds <= other.kinds


@dataclass(frozen=True)
class FitsReading(CallFact):
    """What was read, or where the values of the call come from."""

    text: str
    reading: Reading = field(compare=False)
    labels: str = ""
    """What the configuration says of results, by which it is judged."""

    def holds(self, event: BeforeToolCall) -> bool:
        """True where they hold, and where it is known."""
        try:
            return not self.reading.why_not(event)
        except LookupError:
            return False

    def named(self) -> Iterator[NamedArgument]:
        """Those at its paths."""
        return (_named(path, any_of) for path, any_of in self.reading.paths.items() if path != ADDRESSES)

    def examples(self) -> Iterator[Mapping[str, Any]]:
        """A value that nobody has written, at each path."""
        yield {path.lstrip("*").partition(".")[0]: "somebody@elsewhere.example" for path in self.reading.paths}

    def in_words(self) -> str:
        """The conditions as they are written."""
        return f"{self.text}, by results = {self.labels}" if self.labels else self.text


@dataclass(frozen=True)
class LimitReached(CallFact):
    """So much was used that a limit leaves nothing."""

    amounts: tuple[tuple[str, float], ...]
    whose: tuple[object, ...]
    """For whom it is counted, in which time, and which calls count."""
    limit: Limit = field(compare=False)

    def implies(self, other: CallFact) -> bool:
        """Who has used more has used less, where the same is counted."""
        if not isinstance(other, LimitReached) or self.whose != other.whose:
            return False
        theirs = dict(other.amounts)
        return all(theirs.get(unit, math.inf) <= amount for unit, amount in self.amounts)

    def holds(self, event: BeforeToolCall) -> bool:  # noqa: ARG002
        """Never: the call alone does not say it."""
        return False

    def in_words(self) -> str:
        """What is limited."""
        return f"the limit of {' or '.join(map(self.limit.words, self.limit.amounts))} is reached"


_ARGUMENTS: Mapping[str, tuple[str, str]] = {
    "path_inside": ("path", "{}/x"), "path_outside": ("path", "/outside{}/x"), "path_name": ("path", "/{}"),
    "url_host": ("url", "https://{}/"), "command": ("command", "{}"),
}  # fmt: skip
"""By key, the argument of an example and what it holds."""
_SAMPLES: Mapping[str, object] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}


def _sample(schema: Mapping[str, Any], *, only_required: bool) -> object:
    """Something that is likely to fit a JSON Schema."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if choices := [*schema.get("enum", ()), *schema.get("examples", ())]:
        return choices[0]
    if schema.get("type") != "object":
        return schema.get("minimum", _SAMPLES.get(str(schema.get("type")), "x"))
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties") or {}
    names = schema.get("required", ()) if only_required else {**properties, **dict.fromkeys(schema.get("required", ()))}
    return {name: _sample(properties.get(name, {}), only_required=only_required) for name in names}


def _named(name: str, asked: Sequence[str] | None) -> NamedArgument:
    texts = None if asked is None else tuple(sorted(asked))
    return NamedArgument(place_of(name) or (name,), dotted=True, written=name, asked=texts)


def facts_of(rule: Rule, vocabulary: Vocabulary, labels: str = "") -> list[Fact]:
    """All that the rule asks for. `labels` is what the configuration says of results."""
    exact = rule.action == "allow"
    facts: list[Fact] = [] if rule.tools == ["*"] else [ToolNamed(tuple(rule.tools), exact)]
    if rule.annotations is not None:
        facts.append(Says(tuple(sorted(rule.annotations.items())), exact))
    if rule.sources is not None:
        facts.append(FromSource(tuple(rule.sources)))
    if rule.owners is not None:
        facts.append(OwnedBy(tuple(rule.owners), exact))
    if rule.agents is not None:
        facts.append(ByAgent(tuple(rule.agents)))
    if rule.triggers is not None:
        facts.append(Triggered(tuple(rule.triggers)))
    if rule.workspaces is not None:
        facts.append(InWorkspace(tuple(rule.workspaces)))
    if rule.requester is not None:
        facts.append(rule.requester.fact)
    facts += _written_facts(rule, vocabulary, exact=exact)
    if reading := Reading(rule.after_reading, rule.values_from, rule.values_from_elsewhere):
        facts.append(FitsReading(json.dumps(reading.as_written(), sort_keys=True), reading, labels))
    return facts if rule.limit is None else [*facts, _limit_fact(rule.limit, facts)]


def _limit_fact(limit: Limit, facts: Sequence[Fact]) -> LimitReached:
    whose = (tuple(sorted(limit.per)), limit.seconds, tuple(facts))
    return LimitReached(tuple(limit.amounts.items()), whose, limit)


def _written_facts(rule: Rule, vocabulary: Vocabulary, *, exact: bool) -> list[WrittenFact]:
    facts: list[WrittenFact] = []
    if rule.arguments is not None:
        facts.append(FitsSchema(json.dumps(rule.arguments, sort_keys=True), rule.arguments))
    kind = SurelyMeans if exact else MayMean
    means = tuple(
        kind(
            key, tuple((name, tuple(texts)) for name, texts in sorted(targets.items())), Condition(key, reader, targets)
        )
        for key, reader in _READERS.items()
        if (targets := getattr(rule, key))
    )
    if rule.does is not None:
        does = Does(rule.does, [one.condition for one in means], vocabulary)
        facts.append(
            (SurelyDoes if exact else MayDo)(frozenset(rule.does), () if exact else means, vocabulary.said, does)
        )
    if not exact:  # what a deny is about and does it must meet the conditions, too
        return facts if rule.does is not None else [*facts, *means]
    names: Mapping[str, Any] = (rule.arguments or {}).get("properties") or {}
    watch = Watch({one.key: one.condition.targets for one in means}, names)
    return [*facts, *([Watched(means, tuple(sorted(names)), watch)] if means else []), *means]
