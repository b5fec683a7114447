"""What `_shell` keeps of a command line while it reads: the words of the commands, with a hole for whatever is filled
in later."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from builtin_plugins.tool_policy._tables import words_in

_MAX_WORDS, _MAX_BRACES, _MAX_NESTED = 64, 16, 40
"""The most words, braces in a word, and braces within braces that are expanded; a word with more is a hole."""

# A hole that may be no word, one or several: a variable outside of quotes.
SPLIT = "\x01"
# A hole within one word: a variable in quotes, or a pattern of file names.
FILLED = "\x02"
# The file that `<(...)` makes.
FILE = "\x03"
# A file's name that `find` fills in.
FOUND = "\x04"
HOLES = frozenset(SPLIT + FILLED + FILE + FOUND)
OPEN, COMMA, CLOSE = "\x05\x06\x07"  # braces outside of quotes, until they are expanded
_WITH_COMMA = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_WITHOUT_COMMA = re.compile(f"{OPEN}([^{OPEN}{COMMA}{CLOSE}]*){CLOSE}")

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
# Words of the shell that a command may follow.
_LEADING = words_in("if then else elif fi do done while until ! { } esac")
# What a letter after a backslash stands for in `$'...'`.
_ESCAPES = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c([\s\S])|([\s\S]))"
)


@dataclass
class Command:
    """One command of a line.

    Attributes:
        words: The program and its arguments, without quotes; a part that is filled in later is a hole.
        last: What the last word may be, as it is written: several where it has braces.
        assigned: `NAME=value` before the program.
        files: The files of its redirections.
        outputs: Those of `files` that it may write to.
        fed: The texts of its here-documents.
        source: The command before it in a pipeline.
        piped: Its input is what another command writes.
        inner: It stands in a substitution.
    """

    words: list[str] = field(default_factory=list[str])
    last: list[str] = field(default_factory=list[str])
    assigned: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    outputs: list[str] = field(default_factory=list[str])
    fed: list[str] = field(default_factory=list[str])
    source: Command | None = None
    piped: bool = False
    inner: bool = False


@dataclass
class HereDocument:
    """A text on the following lines, up to one that is `end`, which the command reads as its input."""

    command: Command
    end: str
    literal: bool
    tabs: bool


class Level:
    """The commands of a line, or of one substitution in it, and the word that is being read.

    Attributes:
        pattern: A pattern of `case` stands here, not a command.
        in_test: Within `[[ ... ]]`, where operators do not end a command.
    """

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.command = Command()
        self.word: str | None = None
        # The part of the word before its first quote; None while it has no quote.
        self._bare: str | None = None
        self.redirection = ""
        self.brackets = 0
        self.cases = 0
        self.pattern = False
        self.in_test = False
        self._keyword = ""
        # The command has begun, so that no further word of it is a keyword of the shell.
        self._begun = False
        # A group of commands has a pipe as its input, so that each of them may read it.
        self._piped_group = False

    def add(self, text: str, *, quoted: bool = False) -> None:
        """Add a part to the word."""
        if quoted and self._bare is None:
            self._bare = self.word or ""
        self.word = (self.word or "") + text

    def is_assignment(self) -> bool:
        """True after `NAME=`, before anything else of the word."""
        return self.word is not None and self._bare is None and ASSIGNMENT.fullmatch(self.word) is not None

    def is_index(self) -> bool:
        """True after a name with which an assignment to a place of a list may begin."""
        return self.word is not None and self.word.isidentifier() and not self.command.words

    def begin_redirection(self, operator: str) -> None:
        """The next word is a file, or the text of a here-string."""
        if self.word is not None and self.word.isdigit() and self._bare is None:
            self.word = None  # the number of a stream
        self.end_word()
        self.redirection = operator
        self._begun = True

    def end_word(self) -> None:
        """The word is over: it is a file, an assignment, a keyword, or a word of the command."""
        if self.word is None:
            return
        word, bare = self.word, self.word if self._bare is None else self._bare
        self.word = self._bare = None
        command = self.command
        if self.redirection:
            texts = list(expanded(word))
            if self.redirection == "<<<" or (self.redirection == "<" and FILE in word):
                command.fed += texts
            else:
                command.files += texts
                command.outputs += texts if ">" in self.redirection else []
            self.redirection = ""
        elif self.pattern and bare != "esac":
            pass
        elif not command.words and ASSIGNMENT.match(bare):
            command.assigned.append(without_braces(word))
            self._begun = True
        elif not command.words and bare == word and word in _LEADING:
            self._reserved(word)
        else:
            if not command.words:
                self._keyword = bare if bare == word and not self._begun else ""
            command.last = expanded(word)
            command.words += command.last
            self._after_keyword(word)

    def still_in_test(self) -> bool:
        """Whether an operator stands within `[[ ... ]]`; it ends the word before it, which may be the last one."""
        if self.in_test:
            self.end_word()
        return self.in_test

    def _after_keyword(self, word: str) -> None:
        """Note what follows a keyword: a test, the patterns of `case`, the name of a function."""
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
        """Forget a pattern of `case`: its commands follow."""
        self.end_word()
        self.command = Command()
        self.pattern = sign != ")"

    def bracket(self, sign: str) -> None:
        """A group of commands begins or ends."""
        self._piped_group = self._piped_group or (sign == "(" and self.command.piped)
        self.end_command()
        self.brackets = max(0, self.brackets + (1 if sign == "(" else -1))

    def end_line(self) -> None:
        """The line is over, and with it the command; a pipeline may go on in the next one."""
        self.end_word()
        if self.command.words or not self.command.piped:
            self.end_command()

    def end_command(self, *, pipe: bool = False) -> None:
        """The command is over; with `pipe` the next one reads what it writes."""
        self.end_word()
        self.in_test = self._begun = False
        self.redirection = self._keyword = ""
        command = self.command
        command.piped = command.piped or self._piped_group
        if command.words or command.assigned or command.files or command.fed:
            self.commands.append(command)
        self.command = Command(piped=pipe, source=command if pipe and command.words else None)


def without_braces(word: str) -> str:
    """A word with its braces as plain characters."""
    return word.translate({5: "{", 6: ",", 7: "}"})


def expanded(word: str) -> list[str]:
    """What a word with braces becomes: `r{m,}` is `rm` and `r`."""
    for _ in range(_MAX_NESTED):
        word, changes = _WITHOUT_COMMA.subn(_one_word, word)
        if not changes:
            break
    if word.count(OPEN) > _MAX_BRACES:
        return [SPLIT]
    words: list[str] = []
    waiting = [word]
    while waiting:
        word = waiting.pop()
        braces = _WITH_COMMA.search(word)
        if braces is None:
            words.append(without_braces(word))
            continue
        parts = braces[1].split(COMMA)
        if len(words) + len(waiting) + len(parts) > _MAX_WORDS:
            return [SPLIT]
        waiting += [word[: braces.start()] + part + word[braces.end() :] for part in reversed(parts)]
    return words


def _one_word(braces: re.Match[str]) -> str:
    return FILLED if ".." in braces[1] else f"{{{braces[1]}}}"


def unescape(text: str) -> str:
    """What a text within `$'...'` stands for."""
    return _ESCAPE.sub(_unescaped, text)


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
