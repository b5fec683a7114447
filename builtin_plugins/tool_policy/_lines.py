"""What stands in a line for those who look for a path or an address: its words, the folders that it goes to, by `cd`
and by options of programs, and what its variables hold for that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from builtin_plugins.tool_policy._denied import base
from builtin_plugins.tool_policy._shell import read_line, with_holes
from builtin_plugins.tool_policy._shell_words import (
    ASSIGNMENT,
    CLOSE,
    COMMA,
    FOUND,
    HOLES,
    OPEN,
    SPLIT,
    Command,
    expanded,
)
from builtin_plugins.tool_policy._tables import BEGINNING_A_LINE, GOES_DOWN, LAUNCHERS, SHELLS

# Programs whose names are words as well, before what no sentence goes on with.
_WITH_A_PATH = re.compile(
    r"(?:cat|echo|find|head|less|more|nano|open|source|tail|touch|type|vi|vim)\s+[\"'<]?\s*(?:-|/|~|\.\.?/)"
)
_PARTS = re.compile(r"[=:,@]")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)

# Lines within lines, and variables that are made of variables.
_MAX_DEPTH = 4
_MAX_VALUES = 16
_MAX_FOLDERS = 50
# What every shell has at its start; `.` is wherever the line is.
_STARTING: Mapping[str, str] = MappingProxyType({"HOME": "~", "PWD": "."})
# Stands for a variable of which no value was read yet.
_UNSET = "\x08"
_BRACES = str.maketrans("{,}", OPEN + COMMA + CLOSE)
_GOING = frozenset({"cd", "chdir", "popd", "pushd"})
# Operands that mean a folder of before.
_STACKED = re.compile(r"-|[+-]\d+")
_DECLARING = frozenset({"declare", "export", "local", "readonly", "typeset"})
# Programs that fill a variable with something that the line need not say.
_SETTING = frozenset({"getopts", "mapfile", "printf", "read", "readarray"})
# Options that name the folder in which a program works: `git -C`, `tar --directory`.
_OPTION = re.compile(r"-[a-z]*C|--(?:chdir|cwd|(?:working-)?directory|work-tree)(?![\w-])")
_TOPLEVEL = re.compile(r"(?<=cd )(\"?)\$\(git rev-parse --show-toplevel(?: 2> ?/dev/null)?\)\1(?=[\s;&)]|$)")
_WENT = re.compile(r"(?:cd|pushd)\b[^;&\n]*[;&\n]")
_LEAVES = re.compile(r"\s*(?:cd|pushd)\s[^;&|()\n]*(?:&&|[;\n]|$)")
# The top of a work tree is some folder above; who goes upwards may be in each of these.
_UPWARDS = "../" * 40


def resembles_line(text: str) -> bool:
    """True for a text of one line that begins with a program which is hardly a word of a sentence, or has one after
    `;`, `|` or `&&`."""
    start = text.strip()
    if not start or "\n" in start or len(start) > 1000:
        return False
    first = re.findall(r"(?:^|[;&|`]|\$\()\s*(?:[\w./-]*/)?([\w.-]+)(?=[\s;&|)]|$)", start)
    if any(word in BEGINNING_A_LINE for word in first) and (" " in start or len(first) > 1):
        return True
    return _WITH_A_PATH.match(start) is not None


def texts_in(text: str, depth: int = 0, values: Mapping[str, str] | None = None) -> Iterator[str]:
    """Every word of a line without its quotes, the parts of words such as `--file=PATH` and `host:PATH`, and the words
    of lines within it. Parts that are filled in later are holes."""
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
    """The parts of a word such as `--file=PATH` or `host:PATH`; none of a word that has none, nor of an address of the
    web."""
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


@dataclass(frozen=True)
class Folders:
    """Where the commands of a line may be.

    Attributes:
        values: What its variables hold.
        goes: The folders that it goes to, each from the one before or from where it starts; a hole where that is not
            known.
        known: Those without what only substitutions go to, and nobody knows: these lead no command outside of them.
        leaves: The line begins by going to one folder, so that none of its commands runs where it starts.
    """

    values: Mapping[str, str]
    goes: tuple[str, ...]
    known: tuple[str, ...]
    leaves: bool

    def starts(self, command: Command, folder: str) -> tuple[str, ...]:
        """The folders in which a command may be: where its line starts, which is empty where it leaves that, and then
        where it goes to."""
        goes = [*(self.goes if command.inner else self.known), *_by_options(command)]
        if self.leaves and goes:
            outside = goes[0].startswith(("/", "~")) or goes[0][:1] in HOLES
            return ("", goes[0] if outside or not folder else f"{folder}/{goes[0]}", *goes[1:])
        return (folder or ".", *goes) if goes or folder else ()


@lru_cache(maxsize=32)
def folders_in(text: str) -> Folders:
    """The folders of a line with holes."""
    text = named_plainly(text)
    values = _values_in(text)
    going: list[tuple[str, bool]] = []
    for command in _commands_in(text, values):
        going += [
            (place, command.inner)
            for place in _goes(command, values, bool(going), typed="$" not in text and "`" not in text)
        ]
    going += [(place, False) for paths in expanded(values.get("CDPATH", "")) for place in paths.split(":") if place]
    if "glob" in text.casefold():  # the shell may be told that `*` is `.ssh`, too
        going = [(re.sub(r"[*?\[]", SPLIT, place), inner) for place, inner in going]
    goes = tuple(dict.fromkeys(place for place, _ in going))
    if len(goes) > _MAX_FOLDERS or "cdable" in text:
        return Folders(values, (SPLIT,), (SPLIT,), leaves=False)
    known = tuple(dict.fromkeys(place for place, inner in going if not inner or HOLES.isdisjoint(place)))
    return Folders(values, goes, known, leaves=_LEAVES.match(text) is not None)


def named_plainly(text: str) -> str:
    """The line with what everybody writes for the top of a work tree as a path upwards."""
    if "GIT_" in text or "worktree" in text:
        return text
    return _TOPLEVEL.sub(_UPWARDS, text)


def _commands_in(text: str, values: Mapping[str, str], depth: int = 0) -> Iterator[Command]:
    """The commands of a line, and of lines that these run."""
    commands = read_line(text, values).commands
    programs = [base("".join(command.words[:1])) for command in commands]
    runs = not SHELLS.isdisjoint(programs)  # what any of them says
    for command, program in zip(commands, programs, strict=True):
        yield command
        if depth < _MAX_DEPTH and (runs or program in LAUNCHERS):
            for inner in (*(as_printed(command, word) for word in command.words[1:]), *command.fed):
                if re.search(r"[\s;|&=]", inner):
                    yield from _commands_in(inner, values, depth + 1)


def _values_in(text: str) -> Mapping[str, str]:
    """What each variable that the line sets may hold anywhere in it."""
    found: dict[str, dict[str, None]] = {name: {value: None} for name, value in _STARTING.items()}
    if _WENT.search(text.partition("OLDPWD")[0]):
        found["OLDPWD"] = {".": None, "~": None}  # empty where it did not go, and `cd` without a word goes home
    for command in _commands_in(text, _STARTING):
        for name, _ in _assigned(command):
            found.setdefault(name, {})
    values = {name: _one_of(list(texts)) for name, texts in found.items()}
    for turn in range(_MAX_DEPTH):
        before = {name: len(texts) for name, texts in found.items()}
        for command in _commands_in(text, values):
            for name, value in _assigned(command):
                texts = [one for one in expanded(value.translate(_BRACES)) if _UNSET not in one]
                found.setdefault(name, {}).update(dict.fromkeys(texts))
        changed = [name for name, texts in found.items() if before.get(name) != len(texts)]
        last = turn == _MAX_DEPTH - 1
        # Made of itself: of what it was before the line, or longer with each turn.
        open_ended = [name for name in found if not found[name] and (last or not changed)] + changed * last
        for name in open_ended:
            found[name][SPLIT] = None
        values = {name: _one_of(list(texts)) for name, texts in found.items()}
        if len(found["HOME"]) > 1:
            values["~"] = values["HOME"]
        if not changed and not open_ended:
            break
    return values


def _one_of(texts: Sequence[str]) -> str:
    """The texts as a word that becomes each of them; an empty one is no word, so that anything may follow."""
    if len(texts) > _MAX_VALUES:
        return SPLIT
    texts = [text or SPLIT for text in texts] or [_UNSET]
    return texts[0] if len(texts) == 1 else f"{OPEN}{COMMA.join(texts)}{CLOSE}"


def _assigned(command: Command) -> Iterator[tuple[str, str]]:
    words = command.words
    program = words[0] if words else ""
    for word in (*command.assigned, *(words[1:] if program in _DECLARING else ())):
        if sign := ASSIGNMENT.match(word):
            name = re.split(r"\W", sign[0])[0]
            refers = program in _DECLARING and any(re.match("-[a-zA-Z]*n", option) for option in words)
            yield name, word[sign.end() :] if sign[0] == f"{name}=" and not refers else SPLIT
    if words:
        yield "_", words[-1]
    if program in {"for", "select"} and len(words) > 1:
        yield from ((words[1], value) for value in (words[3:] if words[2:3] == ["in"] else [SPLIT]))
    if program in _SETTING:
        yield from ((word, SPLIT) for word in words[1:] if word.isidentifier())


def _goes(command: Command, values: Mapping[str, str], before: bool, *, typed: bool) -> Iterator[str]:
    words = command.words
    launched = bool(words) and base(words[0]) in LAUNCHERS
    at = next((at for at, word in enumerate(words) if word in _GOING and (at == 0 or launched)), None)
    if at is None:
        return
    operands = [word for word in words[at + 1 :] if not word.startswith("-") or _STACKED.fullmatch(word)]
    if words[at] == "popd" or (words[at] == "pushd" and not operands):
        operands = ["-"]
    if len(operands) > 1 and typed:
        yield SPLIT  # zsh puts the second one in the place of the first, in the name of where it is
    for place in operands or expanded(values["HOME"]):
        if not before and (_STACKED.fullmatch(place) or re.match(r"~[+-]?\d+|~-", place)):
            yield SPLIT
        elif place and not _STACKED.fullmatch(place):
            yield place


def _by_options(command: Command) -> Iterator[str]:
    for at, word in enumerate(command.words):
        option = _OPTION.match(word)
        if option and option.end() == len(word):
            yield from command.words[at + 1 : at + 2]
        elif option and (word[option.end()] == "=" or not word.startswith("--")):
            yield word[option.end() :].lstrip("=")
    if command.words[:1] == ["tar"] and re.fullmatch(r"-?\w*C\w*", "".join(command.words[1:2])):
        yield from (
            word for word in command.words[2:] if not word.startswith("-")
        )  # the values of its letters, in their order
