"""`command`: which programs a shell command line runs, as far as that can be read off it.

The reader knows only what every POSIX shell reads alike: plain and quoted words, and commands joined by `|`, `&&`, `||`
and `;`. A whole shell grammar would not say more: what a variable or a substitution becomes stands in none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builtin_plugins.tool_policy._conditions import MAX_CHARS, Leaf, Reader, words_of
from builtin_plugins.tool_policy._lines import resembles_line
from builtin_plugins.tool_policy._running import may_run
from builtin_plugins.tool_policy._tables import INPUT_NAMES, LINE_NAMES, WORDS_NAMES

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
# `{{secret:NAME}}` is filled in after the call was judged, as a variable is.
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
# Whatever a shell replaces: nothing is replaced within single quotes.
_FILLED_IN = re.compile(r"""'[^']*'|([$!\\])""")


@dataclass(frozen=True)
class Reading:
    """A line that was read plainly.

    Attributes:
        commands: The words of each command, without quotes.
        problem: Why it may run something else, too.
    """

    commands: list[list[str]]
    problem: str = ""


class CommandReader(Reader):
    """Reads shell command lines."""

    noun = "a command line"
    lists = False  # one word each, or one line each: tools differ
    only_named = True

    def is_named(self, name: str) -> bool:
        """True for `command`, `shell_command`, `cmd`."""
        words = words_of(name)
        return bool(words) and words[-1] in LINE_NAMES

    def resembles(self, text: str) -> bool:
        """True for a text that begins with a well-known program."""
        return resembles_line(text)

    def surely(self, text: str, wanted: Sequence[str], workspace: str | None) -> str:  # noqa: ARG002 - the protocol's parameter
        """Why the line may run something that is not listed; empty when it surely does not."""
        if "*" in wanted:
            return ""
        reading = read_plainly(text)
        if reading.problem:
            return f"cannot be read for sure: {reading.problem}"
        listed = [one.split(" ") for one in wanted]
        for words in reading.commands:
            if not any(words[: len(one)] == one for one in listed):
                return f"runs {' '.join(words[: max(map(len, listed))])!r}, which is none of {', '.join(wanted)}"
        return ""

    def possibly(self, text: str, wanted: Sequence[str], workspace: str | None, *, named: bool) -> bool:  # noqa: ARG002 - the protocol's parameter
        """True when the line may run one of these programs. Without a name that says so a text counts as a line only
        when it can be read as one."""
        return "*" in wanted or may_run(text, wanted, named=named)

    def joined(self, leaves: Sequence[Leaf], *, surely: bool) -> Iterator[Leaf]:
        """A list of words as a line; and a line with the arguments, and for a deny the input, that stand beside it."""
        lists: dict[str, list[str]] = {}
        for leaf in leaves:
            if leaf.in_list:
                lists.setdefault(leaf.name, []).append(str(leaf.value))
        lines = [
            leaf for leaf in leaves if isinstance(leaf.value, str) and not leaf.in_list and self.is_named(leaf.name)
        ]
        if not surely:
            lists_as_lines = [Leaf(name, shlex.join(words), in_list=False) for name, words in lists.items()]
            yield from lists_as_lines
            lines += [leaf for leaf in lists_as_lines if self.is_named(leaf.name)]
        for line in lines:
            for other in {leaf.name: leaf for leaf in leaves if _parent(leaf) == _parent(line)}.values():
                words = lists.get(other.name, [str(other.value)])
                last = (words_of(other.name) or [""])[-1]
                if last in WORDS_NAMES:
                    # A tool may hand the words on as they are, or put them into a line.
                    texts = [" ".join(words)] if surely else [" ".join(words), shlex.join(words)]
                    yield from (Leaf(line.name, f"{line.value} {text}", in_list=False) for text in texts)
                elif last in INPUT_NAMES and not surely:
                    yield Leaf(line.name, f"{line.value} <<< {shlex.quote(words[0])}", in_list=False)


def _parent(leaf: Leaf) -> str:
    return leaf.name.rpartition(".")[0]


def check_command(text: str) -> str:
    """A program as a rule names it, alone or with the words of one of its commands; `*` is any. Raises `ValueError`."""
    if text == "*":
        return text
    program, *words = text.split(" ")
    option = next((word for word in words if word.startswith(("-", "+"))), None)
    if option is not None:
        raise ValueError(
            f"'{text}' names the option '{option}', which has other spellings; name the command alone, such as 'git push'"
        )
    if not re.fullmatch(r"[A-Za-z0-9_./@+-]+", program) or not all(
        re.fullmatch(r"[A-Za-z0-9_./@:+-]+", one) for one in words
    ):
        raise ValueError(
            f"'{text}' is not a program or a command of one; write such as 'git', '/usr/bin/git' or 'git push', one blank between words"
        )
    return text


def read_plainly(text: str) -> Reading:
    """The commands of a line as every shell reads them, and what is not plain about it."""
    if len(text) > MAX_CHARS:
        return Reading([], "it is too long")
    text = _PLACEHOLDER.sub("$secret", text)
    commands: list[list[str]] = [[]]
    problem, at = "", 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            part = text[at]
            return Reading([], f"it has {part!r} outside of plain quotes")
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
                    problem = problem or "the program is a pattern"
            commands[-1].append(word)
    if not commands[-1]:
        problem = problem or "a command in it is empty"
    return Reading([words for words in commands if words], problem)


def _without_quotes(quoted: re.Match[str]) -> str:
    if quoted[1] is not None:
        return quoted[1]
    return quoted[3] if quoted[2] is None else re.sub(r"\\(.)", r"\1", quoted[2], flags=re.DOTALL)
