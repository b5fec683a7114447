"""`command`: which programs a shell command line runs, as far as that can be read off it.

The reader knows only what every POSIX shell reads alike: plain and quoted words, and commands joined by `|`, `&&`, `||`
and `;`. A whole shell grammar would not say more: what a variable or a substitution becomes stands in none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from builtin_plugins.tool_policy._conditions import MAX_CHARS, words_of

_LAST_WORDS = {"command", "commands", "cmd", "cmds", "commandline", "script", "shell", "bash", "exec", "argv"}
_TOKEN = re.compile(
    r"""
    (?P<blank> [ \t]+ )
    | (?P<joint> \|\| | && | \| | ; )
    | (?P<odd> [&\n\r(){}<>!\#] )        # in the background, a new line, a subshell, a redirection, a comment
    | (?P<word> (?: [A-Za-z0-9_./:=@%+,^~*?\[\]-] | '[^']*' | "(?: [^"$`\\] | \$\w+ | \$\{\w+\} | \\. )*"
                  | \$\w+ | \$\{\w+\} | \\[^\n] )+ )
    """,
    re.VERBOSE,
)
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
"""`{{secret:NAME}}` is filled in after the call was judged, as a variable is."""
_FILLED_IN = re.compile(r"""'[^']*'|([$!\\])""")
"""Whatever a shell replaces: nothing is replaced within single quotes."""
LAUNCHERS = frozenset({
    "ash", "awk", "bash", "builtin", "busybox", "chroot", "command", "coproc", "csh", "dash", "docker", "doas", "do",
    "elif", "else", "env", "eval", "exec", "find", "fish", "flock", "if", "ionice", "ksh", "nice", "node", "nohup", "parallel",
    "perl", "php", "podman", "python", "python3", "ruby", "script", "setsid", "sh", "source", "ssh", "stdbuf", "strace", "su",
    "sudo", "tcsh", "then", "time", "timeout", "until", "watch", "while", "xargs", "zsh", ".",
})  # fmt: skip
"""Programs and words of the shell that run what their arguments name."""


@dataclass(frozen=True)
class _Reading:
    commands: list[list[str]]
    """The words of each command, without quotes."""
    problem: str = ""
    """Why it may run something else, too."""
    hidden: bool = False
    """Part of it is filled in elsewhere, so that any program may be meant."""


class CommandReader:
    """Reads shell command lines."""

    noun = "a command line"
    lists = False  # one word each, or one line each: tools differ
    only_named = True

    def is_named(self, name: str) -> bool:
        """True for `command`, `shell_command`, `cmd`."""
        words = words_of(name)
        return bool(words) and words[-1] in _LAST_WORDS

    def resembles(self, text: str) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Any text may be a command, so none is taken for one by its looks."""
        return False

    def surely(self, text: str, wanted: Sequence[str], workspace: str | None) -> str:  # noqa: ARG002 - the protocol's parameter
        """Why the line may run something that is not listed; empty when it surely does not."""
        reading = _read(text)
        if reading.problem:
            return f"cannot be read for sure: {reading.problem}"
        other = next((words[0] for words in reading.commands if words[0] not in wanted), None)
        return "" if other is None else f"runs {other!r}, which is none of {', '.join(wanted)}"

    def possibly(self, text: str, wanted: Sequence[str], workspace: str | None, *, named: bool) -> bool:  # noqa: ARG002 - the protocol's parameter
        """True when the line may run one of these programs. Without a name that says so a text counts as a line only when
        it can be read as one."""
        reading = _read(text)
        if reading.hidden:
            return named or any(_mentions(text, program) for program in wanted)
        return any(_may_run(words, wanted) for words in reading.commands)


def check_program(text: str) -> str:
    """A program as a rule names it. Raises `ValueError`."""
    if not re.fullmatch(r"[A-Za-z0-9_./@+-]+", text):
        raise ValueError(f"'{text}' is not a program; write its name alone, such as 'git' or '/usr/bin/git'")
    return text


def _read(text: str) -> _Reading:
    if len(text) > MAX_CHARS:
        return _Reading([], "it is too long", hidden=True)
    text = _PLACEHOLDER.sub("$secret", text)
    commands: list[list[str]] = [[]]
    problem, hidden, at = "", False, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            part = text[at]
            return _Reading([], f"it has {part!r} outside of plain quotes", hidden=True)
        at = token.end()
        if token["odd"]:
            problem = problem or f"it has {token['odd']!r} in it"
        if token["odd"] or token["joint"]:
            if token["joint"] and not commands[-1]:
                problem = problem or "a command in it is empty"
            commands.append([])
        elif token["word"]:
            filled_in = any(match[1] for match in _FILLED_IN.finditer(token["word"]))
            word = _QUOTED.sub(_without_quotes, token["word"])
            if filled_in:
                problem = problem or "it has a variable or a \\ in it"
            if not word.isprintable():
                problem = problem or "it has control characters in it"
            if not commands[-1]:
                if "=" in word:
                    problem = problem or "it sets a variable for the program"
                if re.search(r"[$*?\[\]~%^]", word):
                    problem, hidden = problem or "the program is a pattern", True
            commands[-1].append(word)
    if not commands[-1]:
        problem = problem or "a command in it is empty"
    return _Reading([words for words in commands if words], problem, hidden)


def _without_quotes(quoted: re.Match[str]) -> str:
    if quoted[1] is not None:
        return quoted[1]
    return quoted[3] if quoted[2] is None else re.sub(r"\\(.)", r"\1", quoted[2], flags=re.DOTALL)


def _may_run(words: list[str], wanted: Sequence[str]) -> bool:
    """Whether one command may run one of these programs: by itself, or because what it runs takes a program."""
    while words and "=" in words[0]:
        words = words[1:]
    if not words:
        return False
    program = _base(words[0])
    if any(program == _base(one) for one in wanted):
        return True
    rest = " ".join(words[1:])
    return program in LAUNCHERS and ("$" in rest or any(_mentions(rest, one) for one in wanted))


def _mentions(text: str, program: str) -> bool:
    plain = re.sub(r"[\\'\"]", "", text)
    return re.search(rf"(?<![\w.-]){re.escape(_base(program))}(?![\w-])", plain, re.IGNORECASE) is not None


def _base(program: str) -> str:
    """The name without its folder; some file systems do not tell upper from lower case."""
    return program.rpartition("/")[2].casefold()
