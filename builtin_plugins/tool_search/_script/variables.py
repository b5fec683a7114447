"""What the scripts of a session assign at their top level, kept for its later scripts."""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

from builtin_plugins.tool_search._script.last_value import TEXT_OR_COMMENT, statements
from builtin_plugins.tool_search._script.sandbox import Variables
from builtin_plugins.tool_search._script.script import Variable
from builtin_plugins.tool_search._sentences import SCRIPT_MODULES
from hooksdk import PluginState
from hooksdk.values import compact

MAX_NAMES = 100
"""Variables that a session keeps, and that are looked for in one script."""
MAX_VALUE = 100_000
"""Characters of JSON that one variable may have."""
MAX_ALL = 200_000
"""Characters of all variables of a session: they are stored with it."""
FUNCTIONS = ("search", "describe", "call")
"""What a script can call."""
STATE = "variables"
"""Where they are in the plugin's state."""
_TAKEN = frozenset({*FUNCTIONS, *SCRIPT_MODULES, *dir(builtins), *keyword.kwlist})
"""What has a meaning of its own at the beginning of each script."""
_QUIET = re.compile(TEXT_OR_COMMENT)
_WORD = re.compile(r"[^\W\d]\w*")
_OPENS = re.compile(r"(?:(?:async\s+)?def|class)\b")
_IN_PASSING = re.compile(r"([^\W\d]\w*)\s*:=")
_ASSIGNS = re.compile(r"(?<![=!<>:])=(?!=)")
_TARGET = re.compile(r"(?<![\w.])[^\W\d]\w*(?![\w]|\s*[.(\[])")


def assigned_in(code: str) -> list[str]:
    """The names that a script may assign at its top level, blocks such as `if` and `for` included. A name too many is looked
    up in vain; the code is no tree here, since building one of any script could bring down the host."""
    names: dict[str, None] = {}
    for statement in _top_level(_QUIET.sub(_without_text, code)):
        names.update(dict.fromkeys(_IN_PASSING.findall(statement)))
        *targets, _ = _ASSIGNS.split(_flat(statement))
        for target in targets:
            names.update(dict.fromkeys(_TARGET.findall(target)))
    return [name for name in names if name not in _TAKEN and not name.startswith("__")][:MAX_NAMES]


def _without_text(match: re.Match[str]) -> str:
    return "" if match[0].startswith("#") else '""'


def _top_level(code: str) -> Iterator[str]:
    """The statements that are in no function and in no class."""
    inside: list[int] = []
    for start, end in statements(code):
        text = code[start:end]
        indent = len(text) - len(text.lstrip())
        if code[start - 1 : start] != ";":
            while inside and indent <= inside[-1]:
                inside.pop()
            if _OPENS.match(text.lstrip()):
                inside.append(indent)
        if not inside:
            yield text


def _flat(statement: str) -> str:
    """The statement without what stands in the brackets of calls and indexes, where `=` assigns nothing."""
    text: list[str] = []
    hides: list[bool] = []
    last = ""
    for char in statement:
        if char in "([{":
            hides.append(hides[-1:] == [True] or last.isalnum() or last in {"_", ")", "]"})
        text.append(" " if hides and hides[-1] and char not in "([{" else char)
        if char in ")]}" and hides:
            hides.pop()
        last = char if not char.isspace() else last
    return "".join(text)


@final
class SessionVariables:
    """The variables of one session. They hold what its scripts may see, so no value of a secret."""

    def __init__(self, state: PluginState) -> None:
        self._state = state
        self._texts: dict[str, str] = {
            name: compact(value) for name, value in state.get(STATE, dict[str, Any]()).items()
        }
        """Their values, each as JSON."""

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [*self._texts]

    def wanted(self, code: str, mask: Callable[[str], str]) -> Variables:
        """What this script gets. A value that has become known as a secret's since is masked."""
        named = dict.fromkeys(name for name in _WORD.findall(code) if name in self._texts)
        values: dict[str, object] = {}
        for name in named:
            try:
                values[name] = json.loads(mask(self._texts[name]))
            except ValueError:  # the mask has cut into its form
                self._texts.pop(name)
        names = tuple(dict.fromkeys([*named, *assigned_in(code)]))
        others = sum(len(text) for name, text in self._texts.items() if name not in names)
        return Variables(values, names, MAX_VALUE, MAX_ALL - others)

    def take(self, assigned: Mapping[str, Variable]) -> list[str]:
        """Keep what a script has left. Answers why the others are not kept; what they were before is gone."""
        problems: list[str] = []
        for name, one in assigned.items():
            text = "" if one.problem else compact(one.value)
            self._texts.pop(name, None)
            if one.problem:
                problems.append(one.problem)
            elif len(self._texts) >= MAX_NAMES:
                problems.append(f"{name} is one more than {MAX_NAMES}")
            elif sum(map(len, self._texts.values())) + len(text) > MAX_ALL:
                problems.append(f"with {name} all have more than {MAX_ALL:,} characters")
            else:
                self._texts[name] = text
        kept = {name: json.loads(text) for name, text in self._texts.items()}
        if kept != self._state.get(STATE, dict[str, Any]()):
            self._state[STATE] = kept
        return problems
