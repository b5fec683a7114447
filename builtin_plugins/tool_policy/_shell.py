"""Reads a command line as a POSIX shell does: all its commands with their words, also within substitutions.

Nothing is run, so what a variable or a substitution becomes is not known. In its place a word has a *hole* (a control
character, see `_shell_words`), and whoever asks what the word may be takes a hole for any text. What a reader must
check here: no command is left out, no word lacks what the shell would give it, and whatever is not understood ends as a
hole, or makes the line `broken`, which a deny takes for anything. `_Reader` goes through the text once; `_step` decides
by the next character. A `Level` has the command that is being read, one for the line and one for each substitution.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from builtin_plugins.tool_policy._shell_words import (
    CLOSE,
    COMMA,
    FILE,
    FILLED,
    HOLES,
    OPEN,
    SPLIT,
    Command,
    HereDocument,
    Level,
    unescape,
)

# Characters of a line that is read: agents write whole files with here-documents.
MAX_LINE = 32_768
# Substitutions within each other; a deeper line counts as broken.
_MAX_DEPTH = 40

# Control characters that would be read as holes become blanks, and what ends a line for some program, its end.
_OWN = {**dict.fromkeys(range(1, 9), " "), **dict.fromkeys((0, 11, 12, 13, 0x85, 0x2028, 0x2029), "\n")}

# `{{secret:NAME}}`, which is filled in after the call was judged, as a variable is.
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>(){},#*?\[\]\x01-\x07]+")
_REDIRECTION = re.compile(r"<<<|<<-?|<>|<&|<|>>|>\||>&|>")
_AFTER_WORD = frozenset({"", " ", "\t", "\n", ";", "&", "|", ")", "<", ">"})
_NAME = re.compile(r"\w+|[@*#?$!_-]")
# `NAME:-` and the like, before the text that is taken where the variable has no value.
_OTHERWISE = re.compile(r"(\w+):?[-=+](?=.)", re.DOTALL)
# `$?` and the like are numbers.
_NUMBERS = frozenset("#?$!-")


@dataclass
class Line:
    """The commands of a line. `broken`: the line could not be read to its end, so that it may run anything."""

    commands: list[Command]
    broken: bool = False


def with_holes(text: str) -> str:
    """A text as it came, with holes for secrets that are filled in, and without characters that look like holes."""
    return _PLACEHOLDER.sub(SPLIT, text.translate(_OWN))


def read_line(text: str, values: Mapping[str, str] | None = None) -> Line:
    """The commands of a line or of a whole script, which may have holes. With `values`, for who looks for paths, a
    variable is what the line sets it to, in the place of a hole, and patterns of file names stay as they are
    written."""
    if len(text) > MAX_LINE:
        return Line([], broken=True)
    reader = _Reader(text, values=values)
    commands = reader.commands(0, "")[0]
    for command in reader.inner:
        command.inner = True
    return Line([*commands, *reader.inner], reader.broken)


class _Reader:
    """Reads a text once, from left to right. The methods get a place in the text, and answer the place after what they
    have read. `inner`: the commands of substitutions."""

    def __init__(self, text: str, depth: int = 0, values: Mapping[str, str] | None = None) -> None:
        self._text = text
        self._depth = depth
        self._values = values
        self._waiting: list[HereDocument] = []
        self.inner: list[Command] = []
        self.broken = False

    def commands(self, at: int, closing: str) -> tuple[list[Command], int]:
        """The commands from here to a closing bracket, or to the end; and where they end."""
        if self._depth >= _MAX_DEPTH:
            self.broken = True
            return [], len(self._text)
        self._depth += 1
        level = Level()
        text = self._text
        while at < len(text):
            char = text[at]
            if char == ")" and closing and not level.brackets and not level.pattern:
                break
            at = self._step(level, char, at)
        else:
            self.broken = self.broken or bool(closing)
        level.end_command()
        self._depth -= 1
        return level.commands, at + 1

    def _step(self, level: Level, char: str, at: int) -> int:
        """Read one thing: a part of a word, a quote, an operator, a comment; answers where the next one begins."""
        text = self._text
        if (
            char == "~"
            and self._values
            and (home := self._values.get("~"))
            and (level.word is None or level.is_assignment())
        ):
            level.add(home)
            return at + 1
        if plain := _PLAIN.match(text, at):
            level.add(plain[0])
            return plain.end()
        if char == "\n":
            level.end_line()
            return self._here_documents(at + 1)
        if char.isspace():
            level.end_word()
            return at + 1
        if char in "'\"\\$`" or char in HOLES:
            return self._quoted(level, char, at)
        if char in "<>":
            return self._redirection(level, at)
        if char in ";&|()":
            return self._operator(level, char, at)
        if char == "#" and level.word is None:
            end = text.find("\n", at)
            return len(text) if end < 0 else end
        if char in "*?[":
            return self._glob(level, char, at)
        alone = level.word is None and text[at + 1 : at + 2] in _AFTER_WORD
        level.add(char if alone else {"{": OPEN, ",": COMMA, "}": CLOSE}.get(char, char))
        return at + 1

    def _quoted(self, level: Level, char: str, at: int) -> int:
        """Read a quote, an escaped character, or what begins with `$` or a backtick."""
        text = self._text
        if char in HOLES:
            level.add(char)
            return at + 1
        if char == "'":
            end = self._find("'", at + 1)
            level.add(text[at + 1 : end], quoted=True)
            return end + 1
        if char == "\\":
            if text[at + 1 : at + 2] != "\n":
                level.add(text[at + 1 : at + 2], quoted=True)
            return at + 2
        if char == '"':
            value, end = self._in_quotes(at + 1, '"')
            level.add(value, quoted=True)
            return end
        value, end = self._dollar(at, quoted=False) if char == "$" else self._backticks(at, quoted=False)
        level.add(value, quoted=text[at : at + 2] in {"$'", '$"'})
        return end

    def _find(self, mark: str, at: int) -> int:
        end = self._text.find(mark, at)
        self.broken = self.broken or end < 0
        return len(self._text) if end < 0 else end

    def _in_quotes(self, at: int, closing: str) -> tuple[str, int]:
        """The text up to a closing quote, with holes where something is filled in."""
        text, parts = self._text, list[str]()
        while at < len(text):
            char = text[at]
            if char == closing:
                return "".join(parts), at + 1
            if char == "\\":
                following = text[at + 1 : at + 2]
                parts.append({"\n": "", "$": "$", "`": "`", '"': '"', "\\": "\\"}.get(following, "\\" + following))
                at += 2
            elif char in "$`":
                value, at = self._dollar(at, quoted=True) if char == "$" else self._backticks(at, quoted=True)
                parts.append(value)
            else:
                end = at + 1
                while end < len(text) and text[end] not in '\\$`"':
                    end += 1
                parts.append(text[at:end])
                at = end
        self.broken = self.broken or bool(closing)
        return "".join(parts), at

    def _part_in_quotes(self, start: int, end: int) -> str:
        """The text between two places, as if it stood in quotes: a here-document, or an arithmetic expression."""
        if self._depth >= _MAX_DEPTH:
            self.broken = True
            return FILLED
        reader = _Reader(self._text[start:end], self._depth + 1, self._values)
        value, _ = reader._in_quotes(0, "")
        self._take(reader)
        return value

    def _take(self, reader: _Reader) -> None:
        self.inner += reader.inner
        self.broken = self.broken or reader.broken

    def _dollar(self, at: int, *, quoted: bool) -> tuple[str, int]:
        """What stands for something else: a variable, a substitution, `$'...'`; its text as far as it is known, and
        where it ends."""
        text = self._text
        hole = FILLED if quoted else SPLIT
        following = text[at + 1 : at + 2]
        if following == "'" and not quoted:
            string = re.compile(r"(?:[^'\\]|\\[\s\S])*").match(text, at + 2)
            end = len(text) if string is None else string.end()
            self.broken = self.broken or end >= len(text)
            return unescape(text[at + 2 : end]), end + 1
        if following == '"' and not quoted:
            return self._in_quotes(at + 2, '"')
        if following == "(":
            return self._substitution(at, hole)
        if following == "{":
            end = self._closing_brace(at + 2)
            other = _OTHERWISE.match(text, at + 2, end)
            value = self._value(other[1] if other else text[at + 2 : end], hole)
            if end < len(text):
                said = self._part_in_quotes(other.end() if other else at + 2, end)
                if other and self._values is not None:
                    value = f"{OPEN}{value}{COMMA}{_one_word(said, hole)}{CLOSE}"
            return value, end + 1
        if name := _NAME.match(text, at + 1):
            if following in _NUMBERS:
                return "0", at + 2
            # One digit alone names a parameter: $10 is $1 and a 0.
            end = at + 2 if following.isdigit() else name.end()
            return self._value(text[at + 1 : end], hole), end
        return "$", at + 1

    def _value(self, name: str, hole: str) -> str:
        return _one_word((self._values or {}).get(name, hole), hole)

    def _printed(self, commands: list[Command], text: str, hole: str) -> str:
        """What a substitution prints, where that is a folder which the line names; else a hole."""
        match [command.words for command in commands] if self._values is not None else []:
            case [["pwd", *_]]:
                return "."
            case [["echo", *words]] if not re.search(r"^-|\\", said := " ".join(words)):
                return _one_word(said, hole)
            case [["cd", place], ["pwd", *_]] if re.fullmatch(r"[^;|&\n]+&&[^;|&\n]+", text):
                return _one_word(place, hole)
            case _:
                return hole

    def _substitution(self, at: int, hole: str) -> tuple[str, int]:
        """`$(...)`, whose commands are read as well, or `$((...))`."""
        if end := self._arithmetic_end(at + 1):
            self._part_in_quotes(at + 3, end)
            return hole, end + 2
        inner, end = self.commands(at + 2, ")")
        self.inner += inner
        return self._printed(inner, self._text[at + 2 : end - 1], hole), end

    def _arithmetic_end(self, at: int) -> int:
        """Where the last two brackets of an arithmetic expression stand; 0 where none begins here."""
        ends = self._bracket_pairs
        end = ends.get(at + 1, 0) if self._text.startswith("((", at) else 0
        return end if end and ends.get(at) == end + 1 else 0

    @cached_property
    def _bracket_pairs(self) -> dict[int, int]:
        """Where each bracket's partner stands. An arithmetic expression has no quotes, so none are minded."""
        pairs: dict[int, int] = {}
        waiting: list[int] = []
        for bracket in re.compile(r"[()]").finditer(self._text):
            if bracket[0] == "(":
                waiting.append(bracket.start())
            elif waiting:
                pairs[waiting.pop()] = bracket.start()
        return pairs

    def _closing_brace(self, at: int) -> int:
        depth = 1
        for mark in re.compile(r"\\[\s\S]|'[^']*'|[{}]").finditer(self._text, at):
            depth += {"{": 1, "}": -1}.get(mark[0], 0)
            if not depth:
                return mark.start()
        self.broken = True
        return len(self._text)

    def _backticks(self, at: int, *, quoted: bool) -> tuple[str, int]:
        body = re.compile(r"(?:[^`\\]|\\[\s\S])*").match(self._text, at + 1)
        end = len(self._text) if body is None else body.end()
        self.broken = self.broken or end >= len(self._text)
        reader = _Reader(re.sub(r"\\([$`\\])", r"\1", self._text[at + 1 : end]), self._depth + 1, self._values)
        inner = reader.commands(0, "")[0]
        self.inner += inner
        self._take(reader)
        return self._printed(inner, self._text[at + 1 : end], FILLED if quoted else SPLIT), end + 1

    def _redirection(self, level: Level, at: int) -> int:
        """`<`, `>` and the like: the next word is a file, a here-string, or the end of a here-document; `<(...)` is a
        file itself."""
        text = self._text
        if text[at + 1 : at + 2] == "(":
            inner, end = self.commands(at + 2, ")")
            self.inner += inner
            level.add(FILE)
            return end
        if level.still_in_test():
            return at + 1
        operator = _REDIRECTION.match(text, at)
        assert operator is not None  # one of the two signs stands here
        level.begin_redirection(operator[0])
        if operator[0] not in {"<<", "<<-"}:
            return operator.end()
        word = re.compile(r"[ \t]*((?:\\[\s\S]|'[^']*'|\"[^\"]*\"|[^\s;&|<>()'\"\\])+)").match(text, operator.end())
        level.redirection = ""
        if word is None:
            self.broken = True
            return operator.end()
        end = re.sub(r"""['"\\]""", "", word[1])
        self.broken = self.broken or not end.isprintable() or any(sign in end for sign in "$`")
        self._waiting.append(HereDocument(level.command, end, end != word[1], operator[0] == "<<-"))
        return word.end()

    def _here_documents(self, at: int) -> int:
        """Reads the here-documents that begin on this line."""
        waiting, self._waiting = self._waiting, []
        for document in waiting:
            tabs = r"\t*" if document.tabs else ""
            last = re.compile(rf"^{tabs}{re.escape(document.end)}$", re.MULTILINE).search(self._text, at)
            end = len(self._text) if last is None else last.start()
            self.broken = self.broken or last is None
            document.command.fed.append(self._text[at:end] if document.literal else self._part_in_quotes(at, end))
            at = end if last is None else last.end()
        return at

    def _operator(self, level: Level, char: str, at: int) -> int:
        """`;`, `&`, `|` and brackets, which end a command; within `[[ ... ]]` and in a pattern of `case` they do
        not."""
        text = self._text
        if text.startswith(("&>", "&>>"), at):
            level.begin_redirection(">")
            return at + 2 + text.startswith("&>>", at)
        if level.still_in_test():
            return at + 1
        if level.pattern and char in "|()":
            level.end_pattern(char)
            return at + 1
        if char == "(" and level.word is not None:
            return self._bracket_in_word(level, at)
        if char == "(" and (end := self._arithmetic_end(at)):
            self._part_in_quotes(at + 2, end)
            return end + 2
        if char in "()":
            level.bracket(char)
            return at + 1
        if char == "|" and text[at + 1 : at + 2] != "|":
            level.end_command(pipe=True)
            return at + 1 + text.startswith("|&", at)
        level.end_command()
        length = 3 if text.startswith(";;&", at) else 2 if text[at : at + 2] in {"&&", "||", ";;", ";&"} else 1
        level.pattern = level.pattern or (level.cases > 0 and char == ";" and length > 1)
        return at + length

    def _bracket_in_word(self, level: Level, at: int) -> int:
        """`a=(...)` is a list of words, `@(...)` a pattern, `f()` a function."""
        if level.is_assignment():
            values, end = self.commands(at + 1, ")")
            level.add(" ".join(word for value in values for word in value.words), quoted=True)
            return end
        end = self._bracket_pairs.get(at, 0)
        if end and self._values is not None and level.word and level.word[-1] in "?*+@!":
            names = self._part_in_quotes(at + 1, end)
            level.word = level.word[:-1] + (FILLED if "." in names else "*")
            return end + 1
        level.bracket("(")
        return at + 1

    def _glob(self, level: Level, char: str, at: int) -> int:
        """`*`, `?` and `[...]`: a hole, since files are not looked up; who looks for paths gets them as they are
        written."""
        text = self._text
        if char == "[":
            part = re.compile(r"\[[!^]?\]?[^\s\]\[/'\"]*\]").match(text, at)
            if part is None or level.is_index():
                level.add(char)
                return at + 1
            level.add(FILLED if self._values is None else part[0])
            return part.end()
        level.add(FILLED if self._values is None else char)
        return at + 1


def _one_word(text: str, hole: str) -> str:
    """What is filled in; a hole where the shell would make several words of it."""
    return hole if hole == SPLIT and re.search(r"\s", text) else text
