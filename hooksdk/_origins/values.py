"""The values in a call's arguments, and the addresses in them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from hooksdk.values import BadArguments, is_list, is_object, json_in, parse_arguments, place_of

# The path that means all addresses in the arguments, wherever they stand.
ADDRESSES = "**addresses"

_LINK = r"(?:(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://|(?<!\w)www\.)[^\s\"'<>`{}|\\^\[\]()]+"
_MAIL = r"(?<![\w.+%&*!#$~-])[\w.+%&*!#$~-]+@[\w-]+(?:\.[\w-]+)*"
_ACCOUNT = (
    r"(?<!\w)[a-z]{2}\d{2}(?:(?:[ -]?\d{4}){2,7}(?:[ -]?\d{1,3})?"
    r"|(?-i:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?))(?!\w)"
)
# Each begins where no character before could belong to it: a long text is gone through once.
_ADDRESS = re.compile(rf"({_LINK})|({_MAIL})|{_ACCOUNT}", re.IGNORECASE)
# What stands after a link or a mail address in a sentence and is no part of it.
_ENDS = ".,;:!?*_~'"


class Value(NamedTuple):
    """One value of the arguments, or an address in one.

    Attributes:
        path: Such as `to`, `cc[1]` or `message.to`.
    """

    path: str
    text: str


def addresses_in(text: str) -> list[str]:
    """The addresses in a text, each once: of mail, of the web, and account numbers such as IBANs."""
    found = (
        match[0].rstrip(_ENDS) if match[1] or match[2] else match[0]
        for match in _ADDRESS.finditer(unicodedata.normalize("NFKC", text))
    )
    return list(dict.fromkeys(found))


def values_at(arguments: Any, path: str) -> list[Value]:
    """The texts and numbers at a path, however deep below it, and each address in a longer text by itself. Lists and
    objects in JSON text are gone through: `guests.mail` means that of each guest. Everything counts that a tool may
    take for the path: each spelling of it, and each of several that stand side by side. Empty where nothing is
    there."""
    if path == ADDRESSES:
        return _each_once(address for value in _leaves("", arguments) for address in _addresses(value))
    return _each_once(
        each
        for where, value in _at("", arguments, place_of(path))
        for leaf in _leaves(where, value)
        for each in ([] if leaf.is_key or not leaf.text.strip() else [Value(leaf.path, leaf.text)]) + _addresses(leaf)
    )


def parts_of(arguments: Any) -> tuple[list[str], list[str]]:
    """All keys in arguments, and all texts and numbers, in their order. What cannot be read is one text."""
    if isinstance(arguments, str):
        with suppress(BadArguments):
            arguments = parse_arguments(arguments)
    leaves = list(_leaves("", arguments))
    return [one.text for one in leaves if one.is_key], [one.text for one in leaves if not one.is_key]


class _Leaf(NamedTuple):
    path: str
    text: str
    is_key: bool


def _addresses(leaf: _Leaf) -> list[Value]:
    return [Value(leaf.path, address) for address in addresses_in(leaf.text)]


def _each_once(values: Iterator[Value] | Any) -> list[Value]:
    return list(dict.fromkeys(values))


def _at(where: str, value: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """What may stand at the place of these names, with the path of each."""
    if is_list(value):
        for number, each in enumerate(value):
            yield from _at(f"{where}[{number}]", each, names)
    elif is_object(value):
        for key, each in value.items():
            own = place_of(key)
            if own[: len(names)] == names:
                yield _joined(where, key), each
            elif names[: len(own)] == own:
                yield from _at(_joined(where, key), each, names[len(own) :])
    elif isinstance(value, str):
        try:
            inner = json_in(value)
        except BadArguments:  # a tool may read more than strict JSON
            yield where, value
        else:
            yield from _at(where, inner, names)


def _leaves(where: str, value: Any) -> Iterator[_Leaf]:
    if is_object(value):
        for key, each in value.items():
            place = _joined(where, key)
            yield _Leaf(place, key, is_key=True)
            yield from _leaves(place, each)
    elif is_list(value):
        for number, each in enumerate(value):
            yield from _leaves(f"{where}[{number}]", each)
    elif isinstance(value, str):
        yield _Leaf(where, value, is_key=False)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        yield _Leaf(where, str(number), is_key=False)


def _joined(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
