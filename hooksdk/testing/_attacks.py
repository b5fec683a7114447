"""Attacks on policies as data: files of spellings, filled with the values that a policy allows and denies."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hooksdk.errors import ConfigError, did_you_mean, problem_text, refuse
from hooksdk.values import map_strings

Kind = Literal["command", "path", "host", "call", "name", "description"]
Reach = Literal["denied", "elsewhere"]
# The folder has another name than the function: Python would import a folder `attacks` in the place of the function.
OWN = Path(__file__).with_name("corpus")
_FILL = re.compile(r"<([a-z-]+)((?:\|[^|<>]+)*)>")
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?")
_CYRILLIC = str.maketrans("aceopxy", "\u0430\u0441\u0435\u043e\u0440\u0445\u0443")
# Texts that are too long to be written down.
_FIXED = {
    "long": "a/" * 3000,
    "blanks": " " * 300,
    "lines": "\n" * 60,
    "wide-blanks": "\u3000" * 300,
    "wide-lines": "\u2003\r\n" * 60,
}


def _wide(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def _number(text: str) -> int:
    """An IPv4 address as a number. Raises `ValueError`."""
    return int(ipaddress.IPv4Address(text))


# The forms that may follow a placeholder behind a bar; those of numbers raise `ValueError` for what is no IPv4 address.
_FORMS: Mapping[str, Callable[[str], str]] = {
    "upper": str.upper,
    "wide": _wide,
    "cyrillic": lambda text: text.translate(_CYRILLIC),
    "percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "quoted": lambda text: quote(text, safe=""),
    "ideographic": lambda text: text.replace(".", "\u3002"),
    "backslashes": lambda text: text.replace("/", "\\"),
    "folder": lambda text: text.rpartition("/")[0] or "/",
    "name": lambda text: text.rpartition("/")[2],
    "word": lambda text: text.partition(" ")[0],
    "rest": lambda text: "".join(text.partition(" ")[1:]),
    "commas": lambda text: text.replace(" ", ","),
    "hyphens": lambda text: text.replace("_", "-"),
    "camel": lambda text: re.sub(r"_(\w)", lambda match: match[1].upper(), text),
    "decimal": lambda text: str(_number(text)),
    "hex": lambda text: hex(_number(text)),
    "octal": lambda text: f"0{_number(text):o}",
    "short": lambda text: f"{_number(text) >> 24}.{_number(text) & 0xFFFFFF}",
    "hex-first": lambda text: f"{_number(text) >> 24:#x}.{_number(text) & 0xFFFFFF}",
    "octal-first": lambda text: f"0{_number(text) >> 24:o}.{text.partition('.')[2]}",
    "groups": lambda text: f"{_number(text) >> 16:x}:{_number(text) & 0xFFFF:x}",
    "wide-digits": lambda text: re.sub(r"\d", lambda match: _wide(match[0]), text),
}


class _Group(BaseModel):
    """Attacks of a file that reach the same in one way."""

    model_config = ConfigDict(extra="forbid")
    kind: Kind
    reaches: Reach
    about: str = Field(min_length=1)
    values: list[Any] = Field(min_length=1)
    origin: str = ""
    links: bool = False


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    origin: Annotated[str, Field(min_length=1)]
    attacks: list[_Group] = Field(min_length=1)


@dataclass(frozen=True)
class Attack:
    """One value that must not get past a policy, as `attacks` makes it.

    ```python
    from hooksdk.testing import attacks

    attack = attacks("command", allowed="git", denied="rm")[0]
    assert (attack.value, attack.reaches, attack.origin) == ("rm", "denied", "hooksdk")
    ```

    Attributes:
        kind: What the value is: a `command` line, a `path`, an address (`host`), a tool's name in a `call`, the `name`
            or the `description` of a tool that a server brings.
        reaches: `denied`: what is denied, so every policy must stop it. `elsewhere`: something that is not allowed, or
            not surely; a policy must stop it that stops whatever it does not list.
        about: What the attack tries.
        origin: Who wrote it.
    """

    kind: Kind
    value: Any
    reaches: Reach
    about: str
    origin: str

    def __str__(self) -> str:
        return repr(self.value)[:80]


def attacks(
    kind: Kind,
    *,
    allowed: str = "",
    denied: str = "",
    server: str = "",
    files: Sequence[str | Path] = (),
    links: bool = False,
) -> list[Attack]:
    """The attacks of a kind, on a policy that allows the one and denies the other: programs, hosts, a folder and a
    file.

    They are hooksdk's own and those of `files`. `server` is the one of the denied tool, for calls. `links`: the allowed
    folder was made by `make_workspace`. Attacks that do not fit, such as other spellings of an IP address where a name
    is denied, are left out. Raises `ConfigError` for a file that is none.
    """
    if kind not in get_args(Kind):
        refuse("attacks(kind=...)", kind, f"one of {', '.join(get_args(Kind))}")
    words = {"allowed": allowed, "denied": denied, "server": server, **_FIXED}
    made: dict[str, Attack] = {}
    for path in (*sorted(OWN.glob("*.toml")), *map(Path, files)):
        own = _read(path)
        for group in own.attacks:
            if group.kind != kind or (group.links and not links):
                continue
            for value in _filled(group.values, words):
                made.setdefault(
                    repr(value), Attack(kind, value, group.reaches, group.about, group.origin or own.origin)
                )
    return list(made.values())


def make_workspace(folder: str | Path, denied: str) -> Path:
    """A folder with links in it that lead out, for attacks on paths with `links`: `away` to the denied file's folder,
    `dangling` to a file there that does not exist, `up`, `within` and `circle`. The folder must not exist yet."""
    workspace = Path(folder)
    (workspace / "sub").mkdir(parents=True)
    (workspace / "within").symlink_to(workspace / "sub")
    (workspace / "away").symlink_to(Path(denied).parent)
    (workspace / "dangling").symlink_to(Path(denied).parent / "hooksdk-new")
    (workspace / "up").symlink_to("..")
    (workspace / "circle").symlink_to(workspace / "circle")
    return workspace


def _read(path: Path) -> _File:
    try:
        file = _File.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ConfigError(str(path), (error.strerror or str(error),)) from None
    except ValidationError as error:
        raise ConfigError(str(path), tuple(problem_text(one) for one in error.errors())) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), (f"it is no TOML: {error}",)) from None

    def checked(text: str) -> str:
        for match in _FILL.finditer(text):
            _check(match, path)
        return text

    map_strings([group.values for group in file.attacks], checked)
    return file


def _check(match: re.Match[str], path: Path) -> None:
    word, forms = match[1], match[2].split("|")[1:]
    known = ("allowed", "denied", "server", *_FIXED)
    if word not in known:
        if advice := did_you_mean(word, known):
            raise ConfigError(str(path), (f"'{match[0]}' is nothing that is filled in.{advice}",))
        return
    for form in forms:
        if form not in _FORMS and not _SLICE.fullmatch(form):
            advice = did_you_mean(form, _FORMS) or f" It is a slice such as 1:, or one of {', '.join(_FORMS)}."
            raise ConfigError(str(path), (f"'{match[0]}' has a form that is not known.{advice}",))


def _filled(values: Sequence[Any], words: Mapping[str, str]) -> Iterator[Any]:
    """The values with their placeholders filled in, without those that have none for these words."""
    for value in values:
        try:
            yield map_strings(value, lambda text: _FILL.sub(lambda match: _form(match, words), text))
        except ValueError:
            continue


def _form(match: re.Match[str], words: Mapping[str, str]) -> str:
    if match[1] not in words:
        return match[0]
    text = words[match[1]]
    for form in match[2].split("|")[1:]:
        if cut := _SLICE.fullmatch(form):
            text = text[slice(*(int(end) if end else None for end in cut.groups()))]
        else:
            text = _FORMS[form](text)
    return text
