"""Which arguments a tool can be called with, by its schema: a rule that names one which none of its tools has is
misspelt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from typing import Any

from hooksdk import schema
from hooksdk.errors import did_you_mean
from hooksdk.rules._facts import Action, CallFact, DescribedRule, Fact, NamedArgument, Rules, ToolFact, ToolNamed
from hooksdk.tools import Tool
from hooksdk.values import as_list, as_object, is_object, place_of

_NEVER, _OPEN, _UNSAID, _KNOWN = range(4)
"""Of an argument the schema: forbids it; names others, and does not forbid it; says nothing of names; has it."""
_Keys = tuple[str, ...]
_Choices = tuple[tuple[int, int], ...]
_ELEMENTS = ("items", "additionalItems", "unevaluatedItems", "contains")
_MOST_NAMES = 1000


@dataclass(frozen=True)
class UnknownArgument:
    """A name in the conditions of a rule, and no tool that the rule is about has such an argument.

    Attributes:
        fact: The condition.
        near: ` Did you mean 'x'?`, or nothing where no argument has a name like it.
        closed: True where each of these tools refuses an argument of this name.
    """

    fact: CallFact
    name: str
    near: str
    closed: bool

    def words(self, action: Action) -> str:
        """What is wrong, and what becomes of the calls of these tools because of it."""
        effect = "So the condition counts as met by every call of them"
        if action == "allow":
            effect = "So nothing is allowed that depends on it"
        elif not self.closed:
            effect = "Their schemas are open, so calls run that the rule may be meant for"
        return f"no tool of this rule has an argument {self.name!r}.{self.near} {effect}"


def unknown_arguments(facts: Collection[Fact], tools: Iterable[Tool]) -> Iterator[UnknownArgument]:
    """The arguments that the facts of a rule name and none of the tools has that it is about. A tool that does not say
    what it takes may take anything. Of a condition with several names any of which is enough, one is left out that is
    like no argument of the tools, or only like one of which the condition asks the same, where another one is there: it
    may be written for other tools."""
    named = {fact: list(dict.fromkeys(fact.named())) for fact in facts if isinstance(fact, CallFact)}
    schemas = [tool.parameters for tool in tools if is_about(facts, tool)] if any(named.values()) else []
    for fact, arguments in named.items() if schemas else ():
        standings: dict[NamedArgument, int] = {}
        seen = set[str]()
        for argument in arguments:
            looks = [_Look(one, dotted=argument.dotted) for one in schemas]
            standings[argument] = max(look.standing(argument.keys) for look in looks)
            seen.update(*(look.names for look in looks))
        unknown: dict[str, UnknownArgument] = {}
        for argument, best in standings.items():
            if best >= _UNSAID:
                continue
            # The same is asked of these as well, so a slip of the pen for one of them would lose nothing.
            alike = {
                place_of(str(one)) for one in arguments if argument.asked is not None and one.asked == argument.asked
            }
            candidates = [
                name for name in seen if place_of(name) not in alike and _is_near(argument.keys, place_of(name))
            ]
            near = did_you_mean(str(argument), sorted(candidates))
            if near or not _is_spare(argument, standings):
                unknown[str(argument)] = UnknownArgument(fact, str(argument), near, closed=best == _NEVER)
        yield from unknown.values()


def _is_near(keys: _Keys, others: _Keys) -> bool:
    """True where the one may be meant by the other, whatever objects both of them stand in."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(keys, others, strict=False)))
    return bool(did_you_mean(".".join(keys[same:]), [".".join(others[same:])]))


def _is_spare(argument: NamedArgument, standings: Mapping[NamedArgument, int]) -> bool:
    """True where the tools may have all that another way asks for to meet the condition."""
    if argument.asked is not None:
        return max(standings.values()) >= _UNSAID
    others: dict[tuple[int, int], int] = {}
    for one, standing in standings.items():
        for choice in one.choices:
            others[choice] = min(standing, others.get(choice, standing))
    own = dict(argument.choices)
    return any(own.get(at, way) != way and worst >= _UNSAID for (at, way), worst in others.items())


def as_judged(rules: Rules, tools: Sequence[Tool]) -> Rules:
    """The rules without the conditions that count as met, since they name an argument which none of their tools can
    have."""
    changed: list[DescribedRule] = []
    for rule in rules.rules:
        # Doubt loosens nothing, so an ask stays as it is where everything else is denied.
        counts = rule.action == "deny" or (rule.action == "ask" and rules.default != "deny")
        met = [one.fact for one in unknown_arguments(rule.facts, tools) if one.closed] if counts else []
        changed.append(replace(rule, facts=[fact for fact in rule.facts if fact not in met]))
    return replace(rules, rules=changed)


def is_about(facts: Iterable[Fact], tool: Tool) -> bool:
    """True where nothing but the run and what stands in the call may keep a rule of these facts from fitting."""
    named = not tool.bridge
    for fact in facts:
        if (isinstance(fact, ToolFact) and not fact.holds(tool)) or (
            isinstance(fact, CallFact) and fact.settled_by(tool) is False
        ):
            return False
        named = named or isinstance(fact, ToolNamed)
    return named


def names_in_schema(document: Mapping[str, Any]) -> Iterator[NamedArgument]:
    """The arguments that a condition names which is a JSON Schema itself."""
    return islice(_names_below(document), _MOST_NAMES)


def _names_below(root: Mapping[str, Any]) -> Iterator[NamedArgument]:
    seen: dict[int, list[_Keys]] = {}
    waiting: list[tuple[object, _Keys, _Choices]] = [(root, (), ())]
    while waiting:
        node, keys, choices = waiting.pop()
        places = seen.setdefault(id(node), [])
        if not is_object(node) or any(
            keys[: len(one)] == one for one in places
        ):  # a reference to what is around it ends
            continue
        places.append(keys)
        properties, required_by = (as_object(node.get(key)) for key in ("properties", "dependentRequired"))
        by_name = {**as_object(node.get("dependencies")), **as_object(node.get("dependentSchemas"))}
        lists = map(as_list, [node.get("required"), *required_by.values(), *by_name.values()])
        values = [one for one in (node.get("const"), *as_list(node.get("enum"))) if is_object(one)]
        for name in (*properties, *by_name, *required_by, *chain.from_iterable([*lists, *values])):
            yield NamedArgument((*keys, str(name)), choices=choices)
        same = [node.get(key) for key in (*_ELEMENTS, "not", "if", "then", "else")]
        same += [one for key in ("allOf", "prefixItems", "items") for one in as_list(node.get(key))]
        waiting += [(inner, keys, choices) for inner in (*same, *by_name.values(), _target(root, node))]
        waiting += [(inner, (*keys, name), choices) for name, inner in properties.items()]
        for several in (as_list(node.get("anyOf")), as_list(node.get("oneOf"))):
            waiting += [(inner, keys, (*choices, (id(several), at))) for at, inner in enumerate(several)]


def _target(root: object, node: Mapping[str, Any]) -> object:
    """What the node refers to; None where it refers to nothing in the document."""
    try:
        return schema.local_target(root, node.get("$ref"))
    except LookupError:
        return None


class _Look:
    """One look for an argument in a tool's schema.

    Attributes:
        names: What the schema has where the arguments would be that were asked for.
    """

    def __init__(self, root: object, *, dotted: bool) -> None:
        self.names: set[str] = set()
        self._root = root
        self._dotted = dotted
        self._known: dict[tuple[int, _Keys], int] = {}

    def standing(self, keys: _Keys) -> int:
        """Whether there can be an argument at the end of these keys."""
        try:
            return self._at(self._root, keys, ())
        except RecursionError:  # who nests so deep says nothing that could be held against a rule
            return _UNSAID

    def _at(self, node: object, keys: _Keys, before: _Keys) -> int:
        if node is False:
            return _NEVER
        if not keys:
            return _KNOWN
        if not is_object(node):
            return _UNSAID
        place = id(node), keys
        if place not in self._known:
            self._known[place] = _UNSAID  # a reference to itself says nothing
            self._known[place] = self._through(node, keys, before)
        return self._known[place]

    def _through(self, node: Mapping[str, Any], keys: _Keys, before: _Keys) -> int:
        """By the kinds of value that the node takes: an object's own keys, or those of what is in a list."""
        types = as_list(node.get("type")) or [node.get("type")]
        elements = [node[key] for key in _ELEMENTS if is_object(node.get(key))]
        elements += [one for key in ("prefixItems", "items") for one in as_list(node.get(key))]
        ways = [_NEVER]
        if types == [None] or "object" in types:
            parts = range(1, len(keys) + 1 if self._dotted else 2)
            heads = [(".".join(keys[:at]), *keys[at:]) for at in parts]
            ways += [self._in_object(node, head, before) for head in heads]
        if self._dotted and "string" in types:  # a tool may read JSON text, so conditions do
            ways.append(_UNSAID)
        if "array" in types or (types == [None] and elements):
            ways.append(max((self._at(one, keys, before) for one in elements), default=_UNSAID))
        return max(ways)

    def _in_object(self, node: Mapping[str, Any], keys: _Keys, before: _Keys) -> int:
        said = [self._own(node, keys, before)]
        said += [self._at(one, keys, before) for one in (*as_list(node.get("allOf")), _target(self._root, node))]
        choices = [as_list(node.get("anyOf")), as_list(node.get("oneOf"))]
        choices += [[node.get("then"), node.get("else")]] if "if" in node else []
        choices += [[one, None] for one in (node.get("if"), *as_object(node.get("dependentSchemas")).values())]
        said += [max(self._at(one, keys, before) for one in choice) for choice in choices if choice]
        together = _together(said)
        rest = node.get("unevaluatedProperties")
        if together < _KNOWN and (rest is False or is_object(rest)):
            return self._at(rest, keys[1:], (*before, keys[0]))
        return together

    def _is_meant(self, key: str, name: str) -> bool:
        return key == name or (self._dotted and place_of(key) == place_of(name))

    def _own(self, node: Mapping[str, Any], keys: _Keys, before: _Keys) -> int:
        """What the node says itself, without what it is joined with."""
        key, inner = keys[0], (*before, keys[0])
        properties = node.get("properties")
        self.names.update(".".join((*before, name)) for name in as_object(properties))
        if (names := node.get("propertyNames")) is not None and _refuses({"propertyNames": names}, key):
            return _NEVER
        ways = [one for name, one in as_object(properties).items() if self._is_meant(key, name)]
        for pattern, one in as_object(node.get("patternProperties")).items():
            ways += [one] if _refuses({"patternProperties": {pattern: False}}, key) else []
        if ways:
            return _together([self._at(one, keys[1:], inner) for one in ways])
        rest = node.get("additionalProperties")
        if rest is False or is_object(rest):
            return self._at(rest, keys[1:], inner)
        return _OPEN if is_object(properties) or "patternProperties" in node else _UNSAID


def _refuses(part: Mapping[str, Any], key: str) -> bool:
    """True where a schema certainly refuses an object with this key."""
    return any(one.constraint not in {"schema", "limit", "json"} for one in schema.check(part, {key: None}))


def _together(said: Sequence[int]) -> int:
    """Of schemas that hold at once: one that forbids is enough, and one that says nothing adds nothing."""
    if _NEVER in said:
        return _NEVER
    return max((one for one in said if one != _UNSAID), default=_UNSAID)
