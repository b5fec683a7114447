"""Which arguments hold a command line, and what stands in it for those who look for a path or an address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from builtin_plugins.tool_policy._shell import read_line, with_holes
from builtin_plugins.tool_policy._shell_words import FOUND, Command
from builtin_plugins.tool_policy._tables import BEGINNING_A_LINE, GOES_DOWN

_WITH_A_PATH = re.compile(
    r"(?:cat|echo|find|head|less|more|nano|open|source|tail|touch|type|vi|vim)\s+[\"'<]?\s*(?:-|/|~|\.\.?/)"
)
"""Programs whose names are words as well, before what no sentence goes on with."""
_MAX_DEPTH = 4
_PARTS = re.compile(r"[=:,@]")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


def resembles_line(text: str) -> bool:
    """True for a text of one line that begins with a program which is hardly a word of a sentence, or has one after `;`,
    `|` or `&&`."""
    start = text.strip()
    if not start or "\n" in start or len(start) > 1000:
        return False
    first = re.findall(r"(?:^|[;&|`]|\$\()\s*(?:[\w./-]*/)?([\w.-]+)(?=[\s;&|)]|$)", start)
    if any(word in BEGINNING_A_LINE for word in first) and (" " in start or len(first) > 1):
        return True
    return _WITH_A_PATH.match(start) is not None


def texts_in(text: str, depth: int = 0, values: Mapping[str, str] | None = None) -> Iterator[str]:
    """Every word of a line without its quotes, the parts of words such as `--file=PATH` and `host:PATH`, and the words of lines
    within it. Parts that are filled in later are holes."""
    for command in read_line(with_holes(text) if depth == 0 else text, values).commands:
        yield from texts_of(command, depth, values)


def texts_of(command: Command, depth: int = 0, values: Mapping[str, str] | None = None) -> Iterator[str]:
    """The same of one command."""
    yield from below(command.words)
    for word in (*command.words, *command.assigned, *command.files):
        yield word
        yield from parts_of(word)
        line = as_printed(command, word)
        if depth < _MAX_DEPTH and re.search(r"[\s;|&()<>\"']", line):
            yield from texts_in(line, depth + 1, values)
    if depth < _MAX_DEPTH:
        for fed in command.fed:
            yield from texts_in(fed, depth + 1, values)


def as_printed(command: Command, word: str) -> str:
    """A word as `printf` and `echo -e` print it, for who runs that."""
    return re.sub(r"\\[nt]", "\n", word) if command.words[:1] in (["printf"], ["echo"]) else word


def parts_of(word: str) -> list[str]:
    """The parts of a word such as `--file=PATH` or `host:PATH`; none of a word that has none, nor of an address of the web."""
    return _PARTS.split(word) if _PARTS.search(word) and not _ADDRESS.match(word) else []


def below(words: Sequence[str]) -> list[str]:
    """What a program opens that goes through whole folders: something in each."""
    program, *options = words or [""]
    program = program.rpartition("/")[2]
    if program not in GOES_DOWN or not any(map(GOES_DOWN[program].match, options)):
        return []
    folders = [word for word in options if word and not word.startswith("-")]
    return [
        f"{folder}/{FOUND}"
        for folder in (*folders, *(["."] if program.endswith("g") or "grep" in program or program == "git" else []))
    ]
