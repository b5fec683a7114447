"""What a shell makes of a line: its commands with their words, those in substitutions and here-documents too.

Nothing is run, so what a variable or a substitution becomes is not known. It stands in a word as a hole, and whoever asks
what the word may be takes a hole for any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

MAX_LINE = 32_768
"""Characters of a line that is read: agents write whole files with here-documents."""
_MAX_DEPTH = 40
"""Substitutions within each other."""
_MAX_WORDS, _MAX_BRACES = 64, 16
"""Words that one word with braces may become, and the braces in it."""

SPLIT = "\x01"
"""A hole that may be no word, one or several: a variable outside of quotes."""
FILLED = "\x02"
"""A hole within one word: a variable in quotes, or a pattern of file names."""
FILE = "\x03"
"""The file that `<(...)` makes."""
FOUND = "\x04"
"""A file's name that `find` fills in."""
HOLES = frozenset(SPLIT + FILLED + FILE + FOUND)
_OPEN, _COMMA, _CLOSE = "\x05\x06\x07"  # braces outside of quotes, until they are expanded
_OWN = {**dict.fromkeys(range(1, 8), " "), 0: "\n", 13: "\n"}
"""Signs of ours in a text would be read as holes; for programs in C a text ends at NUL."""

_WITH_COMMA = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_WITHOUT_COMMA = re.compile(f"{_OPEN}([^{_OPEN}{_COMMA}{_CLOSE}]*){_CLOSE}")
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
"""`{{secret:NAME}}` is filled in after the call was judged, as a variable is."""
_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>(){},#*?\[\]\x01-\x07]+")
_REDIRECTION = re.compile(r"<<<|<<-?|<>|<&|<|>>|>\||>&|>")
_AFTER_WORD = frozenset({"", " ", "\t", "\n", ";", "&", "|", ")", "<", ">"})
_NAME = re.compile(r"\w+|[@*#?$!_-]")
_NUMBERS = frozenset("#?$!-")
"""`$?` and the like stand for a number."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_LEADING = frozenset({
    "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "esac",
})  # fmt: skip
"""Words of the shell after which a command may stand."""
_ESCAPES = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'",
    '"': '"', "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c([\s\S])|([\s\S]))"
)


@dataclass
class Command:
    """One command of a line."""

    words: list[str] = field(default_factory=list[str])
    """The program and its arguments, without quotes; a part that is filled in later is a hole."""
    assigned: list[str] = field(default_factory=list[str])
    """`NAME=value` before the program."""
    files: list[str] = field(default_factory=list[str])
    """Where it reads from and writes to."""
    fed: list[str] = field(default_factory=list[str])
    """The texts of its here-documents."""
    source: Command | None = None
    """The command before it in a pipeline."""
    piped: bool = False
    """It reads what another command writes."""


@dataclass
class Line:
    """A line that was read."""

    commands: list[Command]
    broken: bool = False
    """It could not be read to its end."""


def with_holes(text: str) -> str:
    """A text as it came, with holes for what hooksdk fills in, and without signs that would be taken for holes."""
    return _PLACEHOLDER.sub(SPLIT, text.translate(_OWN))


def read_line(text: str) -> Line:
    """The commands of a line or of a whole script, which may have holes."""
    if len(text) > MAX_LINE:
        return Line([], broken=True)
    reader = _Reader(text)
    commands = reader.commands(0, "")[0]
    return Line([*commands, *reader.inner], reader.broken)


@dataclass
class _HereDocument:
    command: Command
    end: str
    literal: bool
    tabs: bool


class _Reader:
    """Goes through a text once, from left to right."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self._text = text
        self._depth = depth
        self._waiting: list[_HereDocument] = []
        self.inner: list[Command] = []
        """The commands of substitutions."""
        self.broken = False

    def commands(self, at: int, closing: str) -> tuple[list[Command], int]:
        """The commands from here to a closing bracket, or to the end; and where they end."""
        if self._depth >= _MAX_DEPTH:
            self.broken = True
            return [], len(self._text)
        self._depth += 1
        level = _Level()
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

    def _step(self, level: _Level, char: str, at: int) -> int:
        """Reads what stands here; answers where the next thing begins."""
        text = self._text
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
        level.add(char if alone else {"{": _OPEN, ",": _COMMA, "}": _CLOSE}.get(char, char))
        return at + 1

    def _quoted(self, level: _Level, char: str, at: int) -> int:
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
        reader = _Reader(self._text[start:end], self._depth + 1)
        value, _ = reader._in_quotes(0, "")
        self._take(reader)
        return value

    def _take(self, reader: _Reader) -> None:
        self.inner += reader.inner
        self.broken = self.broken or reader.broken

    def _dollar(self, at: int, *, quoted: bool) -> tuple[str, int]:
        text = self._text
        hole = FILLED if quoted else SPLIT
        following = text[at + 1 : at + 2]
        if following == "'" and not quoted:
            string = re.compile(r"(?:[^'\\]|\\[\s\S])*").match(text, at + 2)
            end = len(text) if string is None else string.end()
            self.broken = self.broken or end >= len(text)
            return _ESCAPE.sub(_unescaped, text[at + 2 : end]), end + 1
        if following == '"' and not quoted:
            return self._in_quotes(at + 2, '"')
        if following == "(":
            return self._substitution(at, hole)
        if following == "{":
            end = self._closing_brace(at + 2)
            self._part_in_quotes(at + 2, end)
            return hole, end + 1
        if name := _NAME.match(text, at + 1):
            if following in _NUMBERS:
                return "0", at + 2
            # One digit alone names a parameter: $10 is $1 and a 0.
            return hole, at + 2 if following.isdigit() else name.end()
        return "$", at + 1

    def _substitution(self, at: int, hole: str) -> tuple[str, int]:
        if end := self._arithmetic_end(at + 1):
            self._part_in_quotes(at + 3, end)
            return hole, end + 2
        inner, end = self.commands(at + 2, ")")
        self.inner += inner
        return hole, end

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
        reader = _Reader(re.sub(r"\\([$`\\])", r"\1", self._text[at + 1 : end]), self._depth + 1)
        self.inner += reader.commands(0, "")[0]
        self._take(reader)
        return FILLED if quoted else SPLIT, end + 1

    def _redirection(self, level: _Level, at: int) -> int:
        text = self._text
        if text[at + 1 : at + 2] == "(":
            inner, end = self.commands(at + 2, ")")
            self.inner += inner
            level.add(FILE)
            return end
        if level.in_test:
            level.end_word()
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
        self._waiting.append(_HereDocument(level.command, end, end != word[1], operator[0] == "<<-"))
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

    def _operator(self, level: _Level, char: str, at: int) -> int:
        text = self._text
        if text.startswith(("&>", "&>>"), at):
            level.begin_redirection(">")
            return at + 2 + text.startswith("&>>", at)
        if level.in_test:
            level.end_word()
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

    def _bracket_in_word(self, level: _Level, at: int) -> int:
        """`a=(...)` is a list of words, `@(...)` a pattern, `f()` a function."""
        if level.is_assignment():
            values, end = self.commands(at + 1, ")")
            level.add(" ".join(word for value in values for word in value.words), quoted=True)
            return end
        level.bracket("(")
        return at + 1

    def _glob(self, level: _Level, char: str, at: int) -> int:
        text = self._text
        if char == "[":
            part = re.compile(r"\[[!^]?\]?[^\s\]\[/'\"]*\]").match(text, at)
            if part is None or level.is_index():
                level.add(char)
                return at + 1
            level.add(FILLED)
            return part.end()
        level.add(FILLED)
        return at + 1


class _Level:
    """The commands of a line, or of one substitution in it, while they are read."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.command = Command()
        self.word: str | None = None
        self._bare: str | None = None
        """What stands before the first quote of the word."""
        self.redirection = ""
        self.brackets = 0
        self.cases = 0
        self.pattern = False
        """A pattern of `case` stands here, not a command."""
        self.in_test = False
        """Within `[[ ... ]]`, where operators do not end a command."""
        self._keyword = ""
        self._piped_group = False
        """A group of commands reads from a pipe, so each of them may."""

    def add(self, text: str, *, quoted: bool = False) -> None:
        """A further part of the word that is read."""
        if quoted and self._bare is None:
            self._bare = self.word or ""
        self.word = (self.word or "") + text

    def is_assignment(self) -> bool:
        """True after `NAME=`, before anything else of the word."""
        return self.word is not None and self._bare is None and _ASSIGNMENT.fullmatch(self.word) is not None

    def is_index(self) -> bool:
        """True after a name with which an assignment to a place of a list may begin."""
        return self.word is not None and self.word.isidentifier() and not self.command.words

    def begin_redirection(self, operator: str) -> None:
        """The next word is a file, or the text of a here-string."""
        if self.word is not None and self.word.isdigit() and self._bare is None:
            self.word = None  # the number of a stream
        self.end_word()
        self.redirection = operator

    def end_word(self) -> None:
        if self.word is None:
            return
        word, bare = self.word, self.word if self._bare is None else self._bare
        self.word = self._bare = None
        command = self.command
        if self.redirection:
            texts = list(_expanded(word))
            if self.redirection == "<<<" or (self.redirection == "<" and FILE in word):
                command.fed += texts
            else:
                command.files += texts
            self.redirection = ""
        elif self.pattern and bare != "esac":
            pass
        elif not command.words and _ASSIGNMENT.match(bare):
            command.assigned.append(_plain(word))
        elif not command.words and bare == word and word in _LEADING:
            self._reserved(word)
        else:
            if not command.words:
                self._keyword = bare if bare == word else ""
            command.words += _expanded(word)
            self._after_keyword(word)

    def _after_keyword(self, word: str) -> None:
        """What words mean after those with which the shell begins something of its own."""
        if self._keyword == "[[":
            self.in_test = word != "]]"
        elif self._keyword == "case" and word == "in" and len(self.command.words) > 2:
            self.cases += 1
            self.pattern = True
            self.command = Command()
        elif self._keyword == "function" and len(self.command.words) == 2:
            self.command = Command()

    def _reserved(self, word: str) -> None:
        if word == "esac":
            self.cases = max(0, self.cases - 1)
            self.pattern = False
        if word in {"}", "fi", "done", "esac"}:
            self.command = Command()
        else:
            self._piped_group = self._piped_group or self.command.piped

    def end_pattern(self, sign: str) -> None:
        """Forgets a pattern of `case`; the commands that it leads to follow."""
        self.end_word()
        self.command = Command()
        self.pattern = sign != ")"

    def bracket(self, sign: str) -> None:
        """A group of commands begins or ends."""
        self._piped_group = self._piped_group or (sign == "(" and self.command.piped)
        self.end_command()
        self.brackets = max(0, self.brackets + (1 if sign == "(" else -1))

    def end_line(self) -> None:
        """A pipeline goes on after the end of a line."""
        self.end_word()
        if self.command.words or not self.command.piped:
            self.end_command()

    def end_command(self, *, pipe: bool = False) -> None:
        self.end_word()
        self.in_test = False
        self.redirection = self._keyword = ""
        command = self.command
        command.piped = command.piped or self._piped_group
        if command.words or command.assigned or command.files or command.fed:
            self.commands.append(command)
        self.command = Command(piped=pipe, source=command if pipe and command.words else None)


def _unescaped(escape: re.Match[str]) -> str:
    """What one escape in `$'...'` stands for."""
    digits = escape[1] or escape[2] or escape[3]
    if digits or escape[4]:
        number = int(digits, 16) if digits else int(escape[4], 8) & 255
        char = chr(number) if number < 0x110000 else FILLED
    elif escape[5]:
        char = chr(ord(escape[5]) & 31)
    else:
        char = _ESCAPES.get(escape[6], "\\" + escape[6])
    return FILLED if char < "\x08" else char


def _plain(word: str) -> str:
    """A word with the braces that mean nothing."""
    return word.translate({5: "{", 6: ",", 7: "}"})


def _expanded(word: str) -> list[str]:
    """What a word with braces becomes: `r{m,}` is `rm` and `r`."""
    for _ in range(_MAX_DEPTH):
        word, changes = _WITHOUT_COMMA.subn(_one_word, word)
        if not changes:
            break
    if word.count(_OPEN) > _MAX_BRACES:
        return [SPLIT]
    words: list[str] = []
    waiting = [word]
    while waiting:
        word = waiting.pop()
        braces = _WITH_COMMA.search(word)
        if braces is None:
            words.append(_plain(word))
            continue
        parts = braces[1].split(_COMMA)
        if len(words) + len(waiting) + len(parts) > _MAX_WORDS:
            return [SPLIT]
        waiting += [word[: braces.start()] + part + word[braces.end() :] for part in reversed(parts)]
    return words


def _one_word(braces: re.Match[str]) -> str:
    return FILLED if ".." in braces[1] else f"{{{braces[1]}}}"
