"""What a rule asks of tools, runs and calls, as facts: calls are matched by them, and proofs are made of them."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, product
from typing import Any, cast

from builtin_plugins.tool_policy._commands import CommandReader
from builtin_plugins.tool_policy._conditions import EVERY, Condition, Leaf, Reader, leaves_of, with_outer
from builtin_plugins.tool_policy._does import Does
from builtin_plugins.tool_policy._limits import Limit
from builtin_plugins.tool_policy._names import NameReader, OutsideReader
from builtin_plugins.tool_policy._origins import ADDRESSES, Reading
from builtin_plugins.tool_policy._paths import PathReader
from builtin_plugins.tool_policy._rule import Rule
from builtin_plugins.tool_policy._vocabulary import Vocabulary
from hooksdk import Tool, rules, schema
from hooksdk.hooks import BeforeToolCall
from hooksdk.values import place_of

# The conditions that an allow may have, by the rule's key.
_ALLOWING = ("path_inside", "url_host", "command")
_CONDITIONS = (*_ALLOWING, "path_outside", "path_name")
# What makes an allow unsure that has no condition for it. A path beside it does not: most shells and fetchers take one.
_GRAVE = ("command", "url_host")


@cache
def _reader_of(key: str) -> Reader:
    """What reads the arguments for a condition. The reader of addresses is loaded with the first rule about hosts."""
    if key == "url_host":
        from builtin_plugins.tool_policy._hosts import HostReader

        return HostReader()
    readers = {"path_inside": PathReader, "path_outside": OutsideReader, "path_name": NameReader}
    return readers.get(key, CommandReader)()


class Undecidable(ValueError):
    """The arguments cannot be checked against a rule's schema."""


class WrittenFact(rules.CallFact):
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

    def named(self) -> Iterator[rules.NamedArgument]:
        """Those under `properties`, `required` and the like, however deep."""
        return rules.names_in_schema(self.schema)

    def in_words(self) -> str:
        """The key with the schema."""
        return f"arguments = {self.text}"

    def examples(self) -> Iterator[Mapping[str, Any]]:
        """What the schema asks for, with all that it names and with no more than it requires."""
        from hooksdk.rules.samples import sample  # for proofs

        for required in (False, True):
            yield cast("Mapping[str, Any]", sample({"type": "object", **self.schema}, only_required=required))


@dataclass(frozen=True)
class Watched(WrittenFact):
    """Nothing in the call is a command or an address that the conditions of an allow do not look at: a command reads
    and writes any file, whatever is said of the paths beside it.

    Attributes:
        names: Arguments that the rule's JSON Schema names.
    """

    conditions: tuple[Means, ...]
    names: tuple[str, ...]

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(one.key for one in self.conditions)

    @cached_property
    def _named(self) -> frozenset[str]:
        """Arguments of which the rule speaks by name; with `EVERY` where a condition is about all of them."""
        return frozenset(self.names).union(*(one.condition.targets for one in self.conditions))

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:  # noqa: ARG002
        """Which command or address no condition looks at."""
        for leaf in leaves_of(arguments):
            if not isinstance(leaf.value, str) or not leaf.value or self._is_named(leaf.name):
                continue
            for key in _GRAVE:
                reader = _reader_of(key)
                meant = _is_meant(key, leaf) or (EVERY in self._named and reader.resembles(leaf.value))
                if meant and key not in self._keys:
                    return f"the argument '{leaf.name}' may hold {reader.noun}, and the rule has no {key} for it"
        return ""

    def unwatched_names(self, tool: Tool) -> list[tuple[str, str]]:
        """The arguments of a tool that by their names hold what no condition looks at, each with the condition that
        would."""
        return [
            (name, key)
            for name in tool.parameter_names
            for key in _ALLOWING
            if key not in self._keys and not self._is_named(name) and _is_meant(key, Leaf(name, "", in_list=False))
        ]

    def _is_named(self, name: str) -> bool:
        """True for an argument that the rule speaks of by its name, or that is part of one."""
        return not self._named.isdisjoint(with_outer(name))

    def in_words(self) -> str:
        """In a few words."""
        return "no command and no address beside its conditions"


def _is_meant(key: str, leaf: Leaf) -> bool:
    """True for a value that by its name is what this condition looks at."""
    if key == "url_host" and " " in leaf.value.strip() and "//" not in leaf.value:
        return False  # the address of a house
    return any(_reader_of(key).is_named(one) for one in with_outer(leaf.name))


@dataclass(frozen=True)
class Means(WrittenFact):
    """The arguments surely hold nothing but what a condition lists (`exact`, for an allow), or may hold it (for a deny
    or an ask)."""

    key: str
    targets: tuple[tuple[str, tuple[str, ...]], ...]
    exact: bool
    condition: Condition = field(compare=False)

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:
        """What they hold besides; or that nothing in them may be meant."""
        if self.exact:
            return self.condition.why_not(arguments, tool, workspace)
        return "" if self.condition.why(arguments, workspace) else f"nothing in the arguments fits {self.key}"

    def implies(self, other: rules.CallFact) -> bool:
        """Whoever lists more is met by more; but for folders that paths lie outside of."""
        if not isinstance(other, Means) or self.exact is not other.exact:
            return False
        return other.lists_less(self) if self.key == "path_outside" else self.lists_less(other)

    def lists_less(self, other: Means) -> bool:
        """True where the other one lists the same for the same arguments, or more."""
        theirs = dict(other.targets)
        return (self.key, theirs.keys()) == (other.key, dict(self.targets).keys()) and all(
            set(texts) <= set(theirs[name]) for name, texts in self.targets
        )

    def named(self) -> Iterator[rules.NamedArgument]:
        """Those that it lists something for by name."""
        return (_named(name, None if self.exact else texts) for name, texts in self.targets if name != EVERY)

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


@dataclass(frozen=True)
class DoesKinds(WrittenFact):
    """The call surely does nothing but what is listed, and something of it (`exact`, for an allow); or it may do
    something of that, with what meets the conditions (for a deny or an ask)."""

    kinds: frozenset[str]
    conditions: tuple[Means, ...]
    vocabulary: tuple[tuple[str, frozenset[str]], ...]
    exact: bool
    does: Does = field(compare=False)

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:
        """It may do something else; or it surely does."""
        if self.exact:
            return self.does.why_not_surely(arguments, tool)
        done = self.does.why(arguments, tool, workspace)
        return "" if done else "nothing in the call does that, as far as it says"

    def settled_by(self, tool: Tool) -> bool | None:
        """What is said of the tool, where it runs no lines."""
        return self.does.surely_settled_by(tool) if self.exact else self.does.may_settled_by(tool)

    def implies(self, other: rules.CallFact) -> bool:
        """Whoever lists more is met by more, in the same vocabulary."""
        if not isinstance(other, DoesKinds) or (self.exact, self.vocabulary) != (other.exact, other.vocabulary):
            return False
        return self.kinds <= other.kinds and other.conditions in {(), self.conditions}

    def named(self) -> Iterator[rules.NamedArgument]:
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


@dataclass(frozen=True)
class FitsReading(rules.CallFact):
    """What was read, or where the values of the call come from.

    Attributes:
        labels: What the configuration says of results, by which it is judged.
    """

    text: str
    reading: Reading = field(compare=False)
    labels: str = ""

    def holds(self, event: BeforeToolCall) -> bool:
        """True where they hold, and where it is known."""
        try:
            return not self.reading.why_not(event)
        except LookupError:
            return False

    def named(self) -> Iterator[rules.NamedArgument]:
        """Those at its paths."""
        return (_named(path, any_of) for path, any_of in self.reading.paths.items() if path != ADDRESSES)

    def examples(self) -> Iterator[Mapping[str, Any]]:
        """A value that nobody has written, at each path."""
        yield {path.lstrip("*").partition(".")[0]: "somebody@elsewhere.example" for path in self.reading.paths}

    def in_words(self) -> str:
        """The conditions as they are written."""
        return f"{self.text}, by results = {self.labels}" if self.labels else self.text


@dataclass(frozen=True)
class LimitReached(rules.CallFact):
    """So much was used that a limit leaves nothing.

    Attributes:
        whose: For whom it is counted, in which time, and which calls count.
    """

    amounts: tuple[tuple[str, float], ...]
    whose: tuple[object, ...]
    limit: Limit = field(compare=False)

    def implies(self, other: rules.CallFact) -> bool:
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


# By key, the argument of an example and what it holds.
_ARGUMENTS: Mapping[str, tuple[str, str]] = {
    "path_inside": ("path", "{}/x"),
    "path_outside": ("path", "/outside{}/x"),
    "path_name": ("path", "/{}"),
    "url_host": ("url", "https://{}/"),
    "command": ("command", "{}"),
}


def _named(name: str, asked: Sequence[str] | None) -> rules.NamedArgument:
    texts = None if asked is None else tuple(sorted(asked))
    return rules.NamedArgument(place_of(name) or (name,), dotted=True, written=name, asked=texts)


def facts_of(rule: Rule, vocabulary: Vocabulary, labels: str = "") -> list[rules.Fact]:
    """All that the rule asks for. `labels` is what the configuration says of results."""
    exact = rule.action == "allow"
    facts: list[rules.Fact] = [] if rule.tools == ["*"] else [rules.ToolNamed(tuple(rule.tools), exact)]
    if rule.annotations is not None:
        facts.append(rules.Says(tuple(sorted(rule.annotations.items())), exact))
    if rule.owners is not None:
        facts.append(rules.OwnedBy(tuple(rule.owners), exact))
    listed = {
        rules.FromSource: rule.sources,
        rules.ByAgent: rule.agents,
        rules.Triggered: rule.triggers,
        rules.InWorkspace: rule.workspaces,
    }
    facts += [kind(tuple(names)) for kind, names in listed.items() if names is not None]
    if rule.requester is not None:
        facts.append(rule.requester.fact)
    facts += _written_facts(rule, vocabulary, exact=exact)
    if reading := Reading(rule.after_reading, rule.values_from, rule.values_from_elsewhere):
        facts.append(FitsReading(json.dumps(reading.as_written(), sort_keys=True), reading, labels))
    return facts if rule.limit is None else [*facts, _limit_fact(rule.limit, facts)]


def _limit_fact(limit: Limit, facts: Sequence[rules.Fact]) -> LimitReached:
    whose = (tuple(sorted(limit.per)), limit.seconds, tuple(facts))
    return LimitReached(tuple(limit.amounts.items()), whose, limit)


def _written_facts(rule: Rule, vocabulary: Vocabulary, *, exact: bool) -> list[WrittenFact]:
    facts: list[WrittenFact] = []
    if rule.arguments is not None:
        facts.append(FitsSchema(json.dumps(rule.arguments, sort_keys=True), rule.arguments))
    means = tuple(
        Means(
            key,
            tuple((name, tuple(texts)) for name, texts in sorted(targets.items())),
            exact,
            Condition(key, _reader_of(key), targets),
        )
        for key in _CONDITIONS
        if (targets := getattr(rule, key))
    )
    if rule.does is not None:
        does = Does(rule.does, [one.condition for one in means], vocabulary)
        facts.append(DoesKinds(frozenset(rule.does), () if exact else means, vocabulary.said, exact, does))
    if not exact:  # what a deny is about and does it must meet the conditions, too
        return facts if rule.does is not None else [*facts, *means]
    names: Mapping[str, Any] = (rule.arguments or {}).get("properties") or {}
    return [*facts, *([Watched(means, tuple(sorted(names)))] if means else []), *means]
