"""The commands of a shell's line while they are read: words with holes, what a word becomes, and where a command ends."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from builtin_plugins.tool_policy._tables import words_in

_MAX_WORDS, _MAX_BRACES, _MAX_NESTED = 64, 16, 40
"""Words that one word with braces may become, the braces in it, and those within each other."""

SPLIT = "\x01"
"""A hole that may be no word, one or several: a variable outside of quotes."""
FILLED = "\x02"
"""A hole within one word: a variable in quotes, or a pattern of file names."""
FILE = "\x03"
"""The file that `<(...)` makes."""
FOUND = "\x04"
"""A file's name that `find` fills in."""
HOLES = frozenset(SPLIT + FILLED + FILE + FOUND)
OPEN, COMMA, CLOSE = "\x05\x06\x07"  # braces outside of quotes, until they are expanded
_WITH_COMMA = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_WITHOUT_COMMA = re.compile(f"{OPEN}([^{OPEN}{COMMA}{CLOSE}]*){CLOSE}")

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_LEADING = words_in("if then else elif fi do done while until ! { } esac")
"""Words of the shell after which a command may stand."""


@dataclass
class Command:
    """One command of a line."""

    words: list[str] = field(default_factory=list[str])
    """The program and its arguments, without quotes; a part that is filled in later is a hole."""
    last: list[str] = field(default_factory=list[str])
    """What the last of them as it is written may be."""
    assigned: list[str] = field(default_factory=list[str])
    """`NAME=value` before the program."""
    files: list[str] = field(default_factory=list[str])
    """Where it reads from and writes to."""
    outputs: list[str] = field(default_factory=list[str])
    """Those of them that it may write to."""
    fed: list[str] = field(default_factory=list[str])
    """The texts of its here-documents."""
    source: Command | None = None
    """The command before it in a pipeline."""
    piped: bool = False
    """It reads what another command writes."""
    inner: bool = False
    """It stands in a substitution."""


class Level:
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
        self._begun = False
        """Something of the command stands here already, so no word means anything to the shell itself."""
        self._piped_group = False
        """A group of commands reads from a pipe, so each of them may."""

    def add(self, text: str, *, quoted: bool = False) -> None:
        """A further part of the word that is read."""
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
        self.in_test = self._begun = False
        self.redirection = self._keyword = ""
        command = self.command
        command.piped = command.piped or self._piped_group
        if command.words or command.assigned or command.files or command.fed:
            self.commands.append(command)
        self.command = Command(piped=pipe, source=command if pipe and command.words else None)


def without_braces(word: str) -> str:
    """A word with the braces that mean nothing."""
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
