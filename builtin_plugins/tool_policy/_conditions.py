"""What the conditions on a call's arguments share: which arguments they are about, and which way doubt counts.

An allow must fit only what it surely means, a deny or an ask whatever it may mean. So every condition is asked in two
ways: `surely` answers why something is not sure (nothing when it is), `possibly` answers why something may be meant.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

from builtin_plugins.tool_policy._lines import resembles_line
from builtin_plugins.tool_policy._shell import MAX_LINE
from builtin_plugins.tool_policy._tables import FOLDER_NAMES, FOLDER_PAIRS, LINE_NAMES
from hooksdk import Tool
from hooksdk.values import BadArguments, json_in, place_of

# Under this name a condition holds what counts for arguments that it does not name.
EVERY = "*"
# Characters of a path, an address or a command line that is still read; POSIX has the same limit for paths.
MAX_CHARS = 4096

# Argument name, or `EVERY`, to what a condition lists for it.
Targets = dict[str, list[str]]


@dataclass(frozen=True)
class Leaf:
    """One value in the arguments, or one key of an object in them.

    Attributes:
        name: The names on the way to it, with dots and without places in lists: `files.path`.
    """

    name: str
    value: Any
    in_list: bool
    is_key: bool = False

    @property
    def argument(self) -> str:
        """The name of the argument that it is part of."""
        return self.name.partition(".")[0]


class Words(NamedTuple):
    """The words of one command of a line that may be paths or addresses.

    Attributes:
        starts: Where the line starts, and the folders that it goes to from there; none for the run's workspace alone.
    """

    texts: Sequence[str]
    starts: Sequence[str]


def leaves_of(arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    """Every value in the arguments that holds no other, and every key below the arguments' own names."""
    waiting: list[tuple[str, Any, bool]] = [(name, arguments[name], False) for name in reversed(list(arguments))]
    while waiting:
        name, value, in_list = waiting.pop()
        if isinstance(value, Mapping):
            for key, inner in cast("Mapping[str, Any]", value).items():
                yield Leaf(name, key, in_list, is_key=True)
                waiting.append((f"{name}.{key}", inner, in_list))
        elif isinstance(value, list):
            waiting.extend((name, inner, True) for inner in reversed(cast("list[Any]", value)))
        else:
            yield Leaf(name, value, in_list)


def words_of(name: str) -> list[str]:
    """The words of the last part of a name, in lower case: `sourceFile` and `source_file` have two."""
    last = name.rpartition(".")[2]
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", last)]


def folder_in(arguments: Mapping[str, Any]) -> str:
    """The folder that a call names for its command lines to start in: `workdir`, `dir_path`. Empty where it names
    none."""
    named = ((words_of(name), value) for name, value in arguments.items() if isinstance(value, str))
    return next((value for words, value in named if _names_folder(words)), "")


def _names_folder(words: Sequence[str]) -> bool:
    return bool(words) and (words[-1] in FOLDER_NAMES or tuple(words[-2:]) in FOLDER_PAIRS)


def is_line(leaf: Leaf, *, by_value: bool = True) -> bool:
    """True for a value that is a command line by the names on the way to it, or by its looks."""
    if any((words := words_of(name)) and words[-1] in LINE_NAMES for name in with_outer(leaf.name)):
        return True
    return by_value and isinstance(leaf.value, str) and resembles_line(leaf.value)


def _is_unread(leaf: Leaf) -> bool:
    """True for a command line that nobody reads, since it is too long. What only looks like one may be a file's
    content."""
    return isinstance(leaf.value, str) and len(leaf.value) > MAX_LINE and is_line(leaf, by_value=False)


class Reader(ABC):
    """One kind of condition: paths, addresses or command lines. Each is asked which way doubt counts.

    Attributes:
        noun: What an argument holds, such as `a path`.
        lists: Whether a list may hold several of them.
        only_named: Whether other arguments mean nothing where one has a name that says so.
    """

    noun: str
    lists = True
    only_named = False

    @abstractmethod
    def is_named(self, name: str) -> bool:
        """True for an argument whose name says that it holds one."""

    @abstractmethod
    def resembles(self, text: str) -> bool:
        """True for a text that a tool would hardly take for anything else."""

    @abstractmethod
    def surely(self, text: str, wanted: Sequence[str], workspace: str | None) -> str:
        """Why the text is not surely one of those wanted; empty when it is."""

    @abstractmethod
    def possibly(self, text: str, wanted: Sequence[str], workspace: str | None, *, named: bool) -> bool:
        """True when the text may be one of those wanted. `named`: the argument's name says that it holds one."""

    def in_line(self, line: str, wanted: Sequence[str], workspace: str | None) -> bool:  # noqa: ARG002 - of those that look
        """True when one of those wanted may stand in a command line; a command in a line is looked for by
        `possibly`."""
        return False

    def in_words(self, words: Words, wanted: Sequence[str], workspace: str | None) -> bool:  # noqa: ARG002 - of those that look
        """True when one of those wanted may stand among the words of one command of a line."""
        return False

    def joined(self, leaves: Sequence[Leaf], *, surely: bool) -> Iterable[Leaf]:  # noqa: ARG002 - of those that join
        """What a tool may make of several arguments, such as a line of a list of words. `surely`: what any tool may
        make of them, to be judged for an allow."""
        return ()


@dataclass(frozen=True)
class Condition:
    """A reader with what one rule lists for it.

    Attributes:
        key: The rule's key, such as `path_inside`.
    """

    key: str
    reader: Reader
    targets: Targets

    def why_not(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:
        """Why an allow does not fit the call; empty when it surely fits."""
        judged: set[str] = set()
        declared = set(tool.parameter_names)
        others = self.targets.get(EVERY)
        leaves = list(leaves_of(arguments))
        joined: dict[str, str] = {leaf.name: leaf.value for leaf in self.reader.joined(leaves, surely=True)}
        for leaf in leaves:
            wanted = self._named(leaf.name)
            if wanted is None:
                if self._may_name(leaf.name):
                    return f"the argument '{leaf.name}' is another spelling of one that {self.key} names"
                unknown = leaf.argument not in declared
                if not (unknown or self._is_meant(leaf, by_value=others is not None)):
                    continue
                if unknown and (declared or others is None):
                    return f"the argument '{leaf.argument}' is not in the tool's schema, so what it does is not known"
                if others is None:
                    return f"the argument '{leaf.name}' may hold {self.reader.noun}, and {self.key} does not name it"
                wanted = others
            if not isinstance(leaf.value, str):
                return f"the argument '{leaf.name}' is not text"
            if leaf.in_list and not (self.reader.lists and _takes_list(tool, leaf.argument)):
                return f"the argument '{leaf.name}' is a list, which the tool's schema does not ask for"
            if problem := self.reader.surely(joined.get(leaf.name, leaf.value), wanted, workspace):
                return f"the argument '{leaf.name}' {problem}"
            judged.update(with_outer(leaf.name))
        if missing := [name for name in self.targets if name not in {EVERY, *judged}]:
            return f"the argument '{missing[0]}' is missing, and what the tool does then is not known"
        return "" if judged else f"no argument holds {self.reader.noun}"

    def why(self, arguments: Mapping[str, Any], workspace: str | None) -> str:
        """Why a deny or an ask fits the call: what it may mean. Empty when it surely means something else."""
        leaves = list(leaves_of(arguments))
        leaves += [inner for leaf in leaves for inner in self._in_text(leaf)]
        leaves += self.reader.joined(leaves, surely=False)
        named_ones = [leaf for leaf in leaves if self._may_name(leaf.name) or self._is_meant(leaf, by_value=False)]
        for leaf in named_ones if named_ones and self.reader.only_named else leaves:
            named = leaf in named_ones
            if leaf.value is None:
                continue
            for wanted in self._listed(leaf.name):
                if not isinstance(leaf.value, str):
                    if named:
                        return f"the argument '{leaf.name}' is not text, so it cannot be read as {self.reader.noun}"
                elif self.reader.possibly(leaf.value, wanted, workspace, named=named) or (
                    is_line(leaf) and (_is_unread(leaf) or self.reader.in_line(leaf.value, wanted, workspace))
                ):
                    return f"the argument '{leaf.name}' fits {self.key} ({', '.join(wanted)}), or may fit it"
        return ""

    def fits_words(self, argument: str, words: Words, workspace: str | None) -> bool:
        """Whether a deny or an ask fits one command of a line that stands in this argument."""
        return any(self.reader.in_words(words, wanted, workspace) for wanted in self._listed(argument))

    def _listed(self, name: str) -> list[list[str]]:
        """What a deny or an ask lists for an argument, or for all that it does not name."""
        return self._may_name(name) or [self.targets[EVERY] for _ in self.targets.keys() & {EVERY}]

    def _may_name(self, name: str) -> list[list[str]]:
        """What is listed for what a tool may take for this argument, or for one that it is part of: each spelling of a
        name counts, while an allow goes by the very name."""
        place, very = place_of(name), self._named(name)
        return [very] if very else [wanted for outer, wanted in self._places if place[: len(outer)] == outer]

    @cached_property
    def _places(self) -> list[tuple[tuple[str, ...], list[str]]]:
        return [(place_of(name), wanted) for name, wanted in self.targets.items() if name != EVERY]

    def _in_text(self, leaf: Leaf) -> list[Leaf]:
        """What is named in JSON text, which a tool may read."""
        place = place_of(leaf.name)
        near = [outer for outer, _ in self._places if place[: len(outer)] == outer[: len(place)]]
        if not (near and isinstance(leaf.value, str)):
            return []
        try:
            inner = json_in(leaf.value)
        except BadArguments:  # a tool may read more than strict JSON: something stands there, and it is not known what
            return [Leaf(".".join(outer), False, leaf.in_list) for outer in near if len(outer) > len(place)]
        found = leaves_of({leaf.name: inner} if inner is not None else {})
        return [one for each in found for one in (each, *self._in_text(each)) if self._may_name(one.name)]

    def _named(self, name: str) -> list[str] | None:
        """What is listed for this argument by its name, or for one that it is part of."""
        return next((self.targets[outer] for outer in with_outer(name) if outer in self.targets), None)

    def _is_meant(self, leaf: Leaf, *, by_value: bool) -> bool:
        if any(self.reader.is_named(name) for name in with_outer(leaf.name)):
            return True
        return by_value and isinstance(leaf.value, str) and self.reader.resembles(leaf.value)


def with_outer(name: str) -> Iterator[str]:
    """`a.b.c`, `a.b`, `a`."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _takes_list(tool: Tool, argument: str) -> bool:
    properties: Any = (tool.parameters or {}).get("properties") or {}
    declared: Any = properties.get(argument)
    kind: Any = cast("dict[str, Any]", declared).get("type") if isinstance(declared, dict) else None
    return kind == "array" or (isinstance(kind, list) and "array" in cast("list[Any]", kind))
