"""The value of a script's last line, and the variables that it assigns at its top level, kept for later scripts of its
session."""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from builtin_plugins.tool_search._sentences import SCRIPT_MODULES
from hooksdk import PluginState
from hooksdk.values import compact

# Variables that a session keeps, and that are looked for in one script.
MAX_NAMES = 100
# Characters of JSON that one variable may have.
MAX_VALUE = 100_000
# Characters of all variables of a session: they are stored with it.
MAX_ALL = 200_000
# The functions that a script can call.
FUNCTIONS = ("search", "describe", "call")
# Where they are in the plugin's state.
STATE = "variables"
# Names that have a meaning at the beginning of each script.
_TAKEN = frozenset({*FUNCTIONS, *SCRIPT_MODULES, *dir(builtins), *keyword.kwlist})
# The texts and comments of a script, as a pattern that needs no second look, however they are left open.
TEXT_OR_COMMENT = (
    r'"""(?s:\\.|[^\\])*?(?:"""|\Z)|\'\'\'(?s:\\.|[^\\])*?(?:\'\'\'|\Z)'
    r'|"(?:\\(?:\r\n|(?s:.))|[^"\\\n])*"?|\'(?:\\(?:\r\n|(?s:.))|[^\'\\\n])*\'?|#[^\n]*'
)
_TOKEN = re.compile(TEXT_OR_COMMENT + r"|\\\r?\n|(?P<mark>[()\[\]{};\n])")
_DEFINES = re.compile(r"(?:async\s+)?def\b")
_RETURNS = re.compile(
    r"((?:if|elif|else|for|while|with|try|except|finally)\b[^\"'#]*:\s*)?return\b(?=.*\S)",  # also in the line of a block
    re.DOTALL,
)
_QUIET = re.compile(TEXT_OR_COMMENT)
_WORD = re.compile(r"[^\W\d]\w*")
_OPENS = re.compile(r"(?:(?:async\s+)?def|class)\b")
_IN_PASSING = re.compile(r"([^\W\d]\w*)\s*:=")
_ASSIGNS = re.compile(r"(?<![=!<>:])=(?!=)")
_TARGET = re.compile(r"(?<![\w.])[^\W\d]\w*(?![\w]|\s*[.(\[])")


@dataclass(frozen=True, slots=True)
class Variables:
    """The global variables that a script begins with, and those that are read when it has ended.

    Attributes:
        most: Characters of JSON that one of them may have.
        room: Characters that all may have together.
    """

    values: Mapping[str, object]
    names: Sequence[str]
    most: int
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One global variable as a script has left it.

    Attributes:
        value: As JSON.
        problem: Why its value cannot be kept; empty where it can.
    """

    value: object = None
    problem: str = ""


def keeping_value(code: str) -> list[str]:
    """The script with the value of its last line kept under a name, and what a `return` at the top level gives, too.
    Where that line is no expression the first of these is a syntax error, and the second keeps only the others."""
    lines = list(statements(code))
    returns = list(_returns(code, lines))
    edited = [_edited(code, [*returns, *_last(code, lines, returns)]), _edited(code, returns)]
    return list(dict.fromkeys(one for one in edited if one != code))


def _edited(code: str, edits: Sequence[tuple[int, int, str]]) -> str:
    for start, end, text in reversed(edits):
        code = f"{code[:start]}{text}{code[end:]}"
    return code


def _last(
    code: str, lines: Sequence[tuple[int, int]], returns: Sequence[tuple[int, int, str]]
) -> list[tuple[int, int, str]]:
    if not lines or (returns and returns[-1][1] == lines[-1][1]):
        return []
    start, end = lines[-1]
    line = code[start:end]
    if line[0].isspace():
        if code[start - 1 : start] != ";":
            return []  # in a block
        start += len(line) - len(line.lstrip())
    return [(start, end, f"__value__ = ({code[start:end]}\n)")]


def _returns(code: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Of each `return` with a value that is in no function, and how its value is kept. In one line, so that an error
    after it has the line that it had; before a comment in the middle of the script that cannot be, and the value is
    lost."""
    functions: list[int] = []
    for start, end in lines:
        line = code[start:end]
        text = line.lstrip()
        indent = len(line) - len(text)
        if code[start - 1 : start] != ";":
            while functions and indent <= functions[-1]:
                functions.pop()
            if _DEFINES.match(text):
                functions.append(indent)
        match = _RETURNS.match(text)
        comment = "#" in text
        if match and not functions and not (comment and end != lines[-1][1]):
            value = text[match.end() :].strip() + ("\n" if comment else "")
            yield start + indent, end, f"{match[1] or ''}__value__ = ({value}); return"


def statements(code: str) -> Iterator[tuple[int, int]]:
    """Where the statements begin and end: a line each, or the parts of one between semicolons."""
    start = depth = 0
    for token in (*_TOKEN.finditer(code), None):
        mark = token["mark"] if token else "\n"
        if mark is None:
            continue
        if mark not in ";\n":
            depth = max(0, depth + (1 if mark in "([{" else -1))
        elif token is None or depth == 0:
            end = token.start() if token else len(code)
            if (line := code[start:end].strip()) and not line.startswith("#"):
                yield start, end
            start = end + 1


def assigned_in(code: str) -> list[str]:
    """The names that a script may assign at its top level, blocks such as `if` and `for` included. A name too many is
    looked up in vain; the code is no tree here, since building one of any script could bring down the host."""
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
    """The statement without the contents of call and index brackets, where `=` assigns nothing."""
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
        # Their values, each as JSON.
        self._texts: dict[str, str] = {
            name: compact(value) for name, value in state.get(STATE, dict[str, Any]()).items()
        }

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [*self._texts]

    def wanted(self, code: str, mask: Callable[[str], str]) -> Variables:
        """The variables for this script. A value that has become known as a secret's since is masked."""
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
        """Keep the variables that a script has left. Answers why the others are not kept; their earlier values are
        dropped."""
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
