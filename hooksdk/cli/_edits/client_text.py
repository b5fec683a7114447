"""Edits of a client's settings: the gateway replaces its servers, and its servers replace the gateway."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hooksdk.cli._edits import json_text, toml_text
from hooksdk.errors import ConfigError
from hooksdk.mcp.settings import read_text

Servers = dict[str, Any]


@dataclass(frozen=True)
class Hunk:
    """The difference of a text and its edit: `new` replaces the characters from `start` to `old_end`."""

    start: int
    old_end: int
    new: str

    @classmethod
    def between(cls, old: str, new: str) -> Hunk:
        """The difference as one piece."""
        shorter = min(len(old), len(new))
        start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
        room = shorter - start
        same = next((at for at in range(room) if old[-1 - at] != new[-1 - at]), room)
        return cls(start, len(old) - same, new[start : len(new) - same])


@dataclass(frozen=True)
class ClientText:
    """Reads and edits the settings of one client. `path` tells JSON from TOML, `keys` lead to the servers."""

    path: Path
    keys: Sequence[str]

    def read(self, text: str) -> dict[str, Any]:
        """Parse the settings. Raises `ConfigError`."""
        plain = text.removeprefix("\ufeff")
        return read_text(self.path, plain) if plain.strip() else {}

    def servers(self, text: str) -> Servers:
        """The servers, by name. Raises `ConfigError` when the keys lead to something else."""
        inner: Any = self.read(text)
        for key in self.keys:
            inner = cast("dict[str, Any]", inner).get(key)
            if inner is None:
                return {}
            if not isinstance(inner, dict):
                raise ConfigError(str(self.path), (f"'{'.'.join(self.keys)}' must be an object with servers",))
        return cast("Servers", inner)

    def replace(self, text: str, taken: Collection[str], name: str, entry: Mapping[str, Any]) -> str:
        """The text with one server instead of the taken ones. Raises `ConfigError` when it cannot be edited so."""
        if self.path.suffix == ".toml":
            try:
                left = toml_text.take_out(text, self.keys[0], taken)
            except ValueError as error:
                raise ConfigError(str(self.path), (str(error),)) from None
            new = toml_text.add_table(left.rest, (*self.keys, name), entry, at=left.place)
        elif taken and set(self.servers(text)) <= set(taken):
            new = json_text.set_member(text, self.keys[:-1], self.keys[-1], {name: entry})
        else:
            new = text if text.strip("\ufeff \t\r\n") else f"{text.rstrip()}{{}}\n"
            for one in taken:
                new = json_text.remove_member(new, self.keys, one)
            new = json_text.set_member(new, self.keys, name, entry)
        known = self.servers(text)
        expected = {one: value for one, value in known.items() if one not in taken} | {name: dict(entry)}
        return self._checked(new, text, expected)

    def put_back(self, text: str, original: str, hunk: Hunk, taken: Collection[str], name: str) -> str:
        """The text with the taken servers as in `original`, and with everything else as it is now, servers that were
        added or changed meanwhile included. Raises `ConfigError` when it cannot be edited so."""
        now, before = self.servers(text), self.servers(original)
        back = [one for one in before if one in taken and one not in now]
        others = {one: value for one, value in now.items() if one != name}
        expected = {one: before[one] for one in back} | others
        if text.count(hunk.new) == 1 and len(back) == len(taken):
            try:
                return self._checked(text.replace(hunk.new, original[hunk.start : hunk.old_end]), text, expected)
            except ConfigError:
                pass  # the text around it was changed, too
        if self.path.suffix == ".toml":
            return self._checked(self._put_back_toml(text, original, back, name), text, expected)
        span = json_text.find(original, self.keys)
        if span is None or not span.is_object:
            new = json_text.remove_member(text, self.keys, name)
            if not self.servers(new) and not before:
                new = json_text.remove_member(new, self.keys[:-1], self.keys[-1])
            return self._checked(new, text, expected)
        place = json_text.find(text, self.keys)
        if place is None:
            text_with_place = json_text.set_member(text, self.keys[:-1], self.keys[-1], {})
            place = json_text.find(text_with_place, self.keys)
        else:
            text_with_place = text
        assert place is not None
        new = text_with_place[: place.start] + original[span.start : span.end] + text_with_place[place.end :]
        for one, value in others.items():
            if one not in before or before[one] != value:
                new = json_text.set_member(new, self.keys, one, value)
        for one in before:
            if one not in expected:
                new = json_text.remove_member(new, self.keys, one)
        return self._checked(new, text, expected)

    def _put_back_toml(self, text: str, original: str, back: Collection[str], name: str) -> str:
        table = self.keys[0]
        left = toml_text.take_out(text, table, [name])
        try:
            pieces = toml_text.take_out(original, table, back).pieces
            return toml_text.put_in(left.rest, table, pieces, at=left.place)
        except ValueError:  # they are in one statement with one that is there again
            new = left.rest
            for one in back:
                new = toml_text.add_table(new, (table, one), self.servers(original)[one])
            return new

    def _checked(self, new: str, old: str, expected: Servers) -> str:
        """The new text. Raises `ConfigError` unless it has these servers, and everything else of the old one."""
        read, before = self.read(new), self.read(old)
        if self.servers(new) != expected or _without(read, self.keys) != _without(before, self.keys):
            raise ConfigError(str(self.path), ("its servers cannot be changed without changing more of it",))
        return new


def _without(settings: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """The settings without the value under these keys, and without objects that are left empty on the way to it."""
    first, *rest = keys
    inner = settings.get(first)
    others = {key: value for key, value in settings.items() if key != first}
    if rest and isinstance(inner, Mapping) and (left := _without(cast("Mapping[str, Any]", inner), rest)):
        others[first] = left
    return json.loads(json.dumps(others, default=str))
