"""Variables in an entry's texts, which are filled in as the clients do that share these files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInput:
    """A value that a file leaves to its user, as VS Code's `inputs` describe it.

    Attributes:
        secret: True where it must not be shown while it is typed.
        options: The values to choose from; empty: any.
    """

    id: str
    description: str = ""
    secret: bool = False
    options: tuple[str, ...] = ()
    default: str = ""


# Asks a person for the value. An empty answer counts as none.
AskInput = Callable[[ServerInput], str]


@dataclass(kw_only=True)
class Filling:
    """The values of variables, and the secrets among those filled in so far. Each file has one of these.

    Attributes:
        bare_names: True where `$NAME` is a variable, too, as in the settings of Gemini CLI and Qwen Code.
        secrets: Values that no message may have.
    """

    folder: Path
    inputs: Mapping[str, ServerInput] = field(default_factory=dict[str, ServerInput])
    ask: AskInput | None = None
    bare_names: bool = False
    answers: dict[str, str] = field(default_factory=dict[str, str])
    secrets: set[str] = field(default_factory=set[str])

    def fill(self, text: str) -> str:
        """The text with its variables filled in. Raises `ValueError` for one without a value."""
        text = _VARIABLE.sub(lambda match: self._value(match[1], match[0]), text)
        return _BARE.sub(lambda match: self._value(match[1], match[0]), text) if self.bare_names else text

    def _value(self, name: str, written: str) -> str:
        if name.startswith("input:"):
            return self._secret(self._answer(name.removeprefix("input:"), written))
        variable = _NAME.fullmatch(name)
        if variable is None:
            kind, colon, _ = name.partition(":")
            if colon and kind.isidentifier():
                raise ValueError(
                    f"{written} means something to another client alone. Write the value, or ${{NAME}} for an "
                    "environment variable"
                )
            return written if name != "/" else os.sep
        value = os.environ.get(variable[1])
        if value:
            return self._secret(value)
        if variable[2] is not None or value is not None:
            return variable[2] or ""
        if (place := self._places().get(name)) is not None:
            return place
        raise ValueError(
            f"the environment variable {variable[1]} is not set. Set it, or write a default as "
            f"${{{variable[1]}:-value}}"
        )

    def _places(self) -> dict[str, str]:
        """The variables of VS Code and Cursor for places."""
        return {
            "userHome": str(Path.home()),
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "pathSeparator": os.sep,
        }

    def _answer(self, name: str, written: str) -> str:
        if name not in self.answers:
            one = self.inputs.get(name) or ServerInput(id=name, secret=True)
            answer = (self.ask(one) if self.ask else "") or one.default
            if not answer:
                described = f" ({one.description})" if one.description else ""
                missing = "and no value was given" if self.ask else "and nobody is there to be asked"
                raise ValueError(
                    f"{written}{described} is asked for on a terminal, {missing}. "
                    "To take it from an environment variable, write ${NAME} in its place"
                )
            self.answers[name] = answer
        return self.answers[name]

    def _secret(self, value: str) -> str:
        self.secrets.add(value)
        return value


def read_inputs(inputs: Sequence[Any]) -> dict[str, ServerInput]:
    """VS Code's `inputs` by id; entries of another shape are left out."""
    known: dict[str, ServerInput] = {}
    for one in inputs:
        if not isinstance(one, Mapping):
            continue
        entry = cast("Mapping[str, Any]", one)
        options = cast("list[Any]", entry["options"]) if isinstance(entry.get("options"), list) else []
        known[str(entry.get("id"))] = ServerInput(
            id=str(entry.get("id")),
            description=str(entry.get("description") or ""),
            secret=entry.get("password") is True,
            options=tuple(option for option in options if isinstance(option, str)),
            default=entry["default"] if isinstance(entry.get("default"), str) else "",
        )
    return known
