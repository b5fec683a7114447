"""`does`: what a call does, by the tool's name and by the commands of the lines in its arguments: which of them read,
write or reach, and the words that they do it with.

The tables hold programs of which it is known that they do no more. Everything else does everything with all its words.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, pairwise
from typing import Any, cast

from builtin_plugins.tool_policy import _tables as tables
from builtin_plugins.tool_policy._commands import read_plainly
from builtin_plugins.tool_policy._conditions import Condition, Words, folder_in
from builtin_plugins.tool_policy._denied import base
from builtin_plugins.tool_policy._lines import Folders, below, folders_in, parts_of, texts_in, texts_of
from builtin_plugins.tool_policy._paths import MAX_TEXTS
from builtin_plugins.tool_policy._shell import read_line, with_holes
from builtin_plugins.tool_policy._shell_words import HOLES, Command
from builtin_plugins.tool_policy._vocabulary import EVERYTHING, Kind, Use, Vocabulary
from hooksdk import Tool

# Lines within lines, such as `sh -c "sh -c '...'"`.
_MAX_LINES = 8

_FIND_DOES = re.compile(r"-(?:exec|ok|delete|fprint|fls)")
_SED_WRITES = re.compile(r"(?:^|[;{}\s\d$/])[eErRwW](?:[\s;}]|$)|[^\w\s]\w*[ew]\w*\s*(?:[;}]|$)|[^\w\s]\w*w\s")
_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--i")
_CURL_ONLY_ASKS = re.compile(
    r"-[sSfLkiIvgN46XHm]+|--(?:silent|show-error|fail|location|insecure|include|head|verbose|request|header|max-time|compressed)"
)
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): *(.+?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """What one command of a line does, and to which paths and addresses.

    Attributes:
        words: Its words that may be paths or addresses.
        starts: The folder where its line starts, and those that it changes to; empty for the run's workspace alone.
    """

    does: frozenset[Kind]
    words: tuple[str, ...]
    starts: tuple[str, ...] = ()


class Does:
    """The condition `does` of one rule, with its conditions on paths and addresses: a deny fits a call only where the
    same command meets all of them."""

    def __init__(self, wanted: Sequence[Kind], conditions: Sequence[Condition], vocabulary: Vocabulary) -> None:
        self._wanted = frozenset(wanted)
        self._said = ", ".join(wanted)
        self._conditions = conditions
        self._in_words = [one for one in conditions if one.key != "command"]
        self._vocabulary = vocabulary

    def knows(self, tool: Tool) -> bool:
        """True where the vocabulary or the tool itself says what the tool does."""
        return self._vocabulary.use_of(tool) is not None

    @property
    def allowed(self) -> frozenset[Kind]:
        """All that an allowed call may do. Writing includes reading what is changed."""
        return self._wanted | (frozenset[Kind]({"read"}) if "write" in self._wanted else frozenset[Kind]())

    def may_settled_by(self, tool: Tool) -> bool | None:
        """The answer of `why` for every call of the tool: True where it always fits, False where never, None where it
        depends."""
        use = self._vocabulary.use_of(tool)
        if use is None or (use.does & self._wanted and not use.patches):
            return None if self._conditions else True
        return None if use.lines or use.patches else False

    def surely_settled_by(self, tool: Tool) -> bool | None:
        """Whether an allow fits every call of the tool: True where always, False where never, None where it depends."""
        use = self._vocabulary.use_of(tool)
        return None if use is not None and use.lines else not self.why_not_surely({}, tool)

    def why_not_surely(self, arguments: Mapping[str, Any], tool: Tool) -> str:
        """Why an allow does not fit the call: it may do more."""
        kinds = self._surely(arguments, self._vocabulary.use_of(tool))
        if kinds <= self.allowed and kinds & self._wanted:
            return ""
        return f"it may do more than {self._said}, or something else" if kinds else "it does nothing of that"

    def _surely(self, arguments: Mapping[str, Any], use: Use | None) -> frozenset[Kind]:
        if use is None or any(parts is None for _, parts in self._parts(arguments, use) if use.patches):
            return EVERYTHING
        if not use.lines:
            return use.does
        lines = [line for _, line in _lines(arguments, use)]
        return frozenset({"read"}) if lines and all(map(surely_reads, lines)) else EVERYTHING

    def why(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:
        """Why a deny or an ask fits the call: what it may do. Empty when it surely does nothing of that."""
        use = self._vocabulary.use_of(tool)
        whole = {} if use is None else {name: one for name, one in arguments.items() if name not in use.texts}
        if use is None:
            return self._whole(arguments, workspace, "it counts as everything")
        if use.does & self._wanted and not use.patches and (why := self._whole(whole, workspace, "")):
            return why
        for name, parts in self._parts(arguments, use):
            if parts is None:
                return f"the argument {name!r} cannot be read for sure, so that it may {self._said}"
            for part in parts:
                if why := self._part(name, part, arguments, workspace):
                    return why
        return ""

    def _parts(self, arguments: Mapping[str, Any], use: Use) -> Iterator[tuple[str, list[Part] | None]]:
        folder = folder_in(arguments)
        for name, line in _lines(arguments, use):
            yield name, parts_of_line(line, folder)
        patches = [(name, arguments[name]) for name in use.patches if isinstance(arguments.get(name), str)]
        for name, patch in patches:
            yield name, parts_of_patch(patch)
        if use.patches and not patches:
            yield use.patches[0], None

    def _whole(self, arguments: Mapping[str, Any], workspace: str | None, doubt: str) -> str:
        whys = [one.why(arguments, workspace) for one in self._conditions]
        return "; ".join(filter(None, (f"it may {self._said}", doubt, *whys))) if all(whys) else ""

    def _part(self, name: str, part: Part, arguments: Mapping[str, Any], workspace: str | None) -> str:
        if not part.does & self._wanted:
            return ""
        if not all(one.fits_words(name, Words(part.words, part.starts), workspace) for one in self._in_words):
            return ""
        if not all(one.why(arguments, workspace) for one in self._conditions if one.key == "command"):
            return ""
        keys = " and ".join(one.key for one in self._in_words)
        return f"a command in {name!r} may {self._said}" + (f", with a word that fits {keys}, or may" if keys else "")


def _lines(arguments: Mapping[str, Any], use: Use) -> Iterator[tuple[str, str]]:
    """The command lines in a call, by argument; a list of words becomes a line."""
    for name in use.lines:
        value = arguments.get(name, "")
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, list) and all(isinstance(word, str) for word in cast("list[object]", value)):
            yield name, shlex.join(cast("list[str]", value))
        else:
            yield name, "'"  # no line, and nothing that could be read as one


def parts_of_line(line: str, folder: str = "") -> list[Part] | None:
    """What the commands of a line do; None where it cannot be read to its end. `folder`: where the line starts."""
    text = with_holes(line)
    parts = _parts(text, folders_in(text), folder, 0)
    return None if parts is None else [part for part in parts if part.does]


def parts_of_patch(patch: str) -> list[Part] | None:
    """The files of a patch in the form of `apply_patch`; None where it names none."""
    paths = _PATCHED.findall(patch)
    return [Part(frozenset[Kind]({"read", "write"}), tuple(paths))] if paths else None


def surely_reads(line: str) -> bool:
    """True for a plain line whose programs only read."""
    reading = read_plainly(line)
    return not reading.problem and all(
        words[0] in tables.READING or words[0] in tables.NOTHING - {"export", "for", "printf", "unset"}
        for words in reading.commands
    )


def _parts(text: str, folders: Folders, folder: str, depth: int) -> list[Part] | None:
    line = read_line(text, folders.values)
    if line.broken or depth > _MAX_LINES:
        return None
    filling = dict.fromkeys(word for command in line.commands for word in _filling(command))
    whole = cache(lambda: tuple(dict.fromkeys(islice(texts_in(text, 0, folders.values), MAX_TEXTS + 1))))
    parts: list[Part] = []
    for command in line.commands:
        inner = _line_within(command)
        if inner is not None:
            nested = _parts(inner, folders, folder, depth + 1)
            if nested is None:
                return None
            parts += nested
        starts = folders.starts(command, folder)
        if inner and inner[0] in HOLES:  # the line is the output of a substitution
            parts.append(Part(EVERYTHING, tuple(filling), starts))
        parts += (
            replace(part, starts=starts)
            for part in _parts_of_command(command, whole, folders.values, within=inner is not None)
        )
    # The value of a variable or the output of a substitution may stand in any hole.
    return [
        replace(part, words=(*part.words, *filling)) if filling and any(map(_has_hole, part.words)) else part
        for part in dict.fromkeys(parts)
    ]


def _filling(command: Command) -> list[str]:
    said = command.words[1:] if command.words[:1] in (["echo"], ["printf"], ["export"], ["for"]) else []
    fed = command.fed if command.words[:1] in ([], ["read"]) else []
    texts = [*said, *fed, *(one.partition("=")[2] for one in (*command.assigned, *said))]
    return [one for text in texts if not _has_hole(text) for one in (text, *(texts_in(text) if " " in text else ()))]


def _has_hole(word: str) -> bool:
    return not HOLES.isdisjoint(word) or word.startswith(("~+", "~-"))


def _line_within(command: Command) -> str | None:
    """The line of `sh -c LINE`, where nothing else stands beside it."""
    words = _without_prefixes(command)
    if len(words) == 3 and base(words[0]) in tables.SHELLS and re.fullmatch(r"-l?i?c|-cl?", words[1]):
        return words[2]
    return None


def _without_prefixes(command: Command) -> list[str]:
    """The words after `sudo`, `timeout 5` and the like, where these have no options."""
    words = command.words
    while (
        words and base(words[0]) in tables.PREFIXES and base(words[0]) not in {"xargs", "parallel", "busybox", "toybox"}
    ):
        rest = words[1 + tables.PREFIXES[base(words[0])] :]
        if not rest or any(word.startswith("-") or "=" in word for word in (*words[1 : -len(rest)], rest[0])):
            break
        words = rest
    return words


def _parts_of_command(
    command: Command, whole: Callable[[], tuple[str, ...]], values: Mapping[str, str], *, within: bool
) -> Iterator[Part]:
    inputs = [name for name in command.files if name not in command.outputs]
    if inputs:
        yield _part("read", words=inputs)
    if command.outputs:
        yield _part("write", words=command.outputs)
    if not command.words or within:
        return
    words = _without_prefixes(command)
    program = base(words[0])
    known = None if command.assigned or _has_hole(program) else _known_parts(program, words[1:], command)
    inside = tuple(below(words))
    if known is not None:
        yield from (replace(part, words=(*part.words, *inside)) for part in known)
    elif program in {"xargs", "parallel"} or program in tables.SHELLS or program in {"eval", "source", "."}:
        yield Part(EVERYTHING, whole())
    elif program in {"apply_patch", "applypatch"} and (patched := _PATCHED.findall("\n".join((*command.fed, *words)))):
        yield _part("read", "write", words=patched)
    else:
        yield Part(EVERYTHING, (*dict.fromkeys(islice(_beyond_program(command, values), MAX_TEXTS + 1)), *inside))


def _beyond_program(command: Command, values: Mapping[str, str]) -> Iterator[str]:
    return texts_of(Command(command.words[1:], command.assigned, fed=command.fed), 0, values)


def _part(*does: Kind, words: Sequence[str]) -> Part:
    return Part(frozenset(does), tuple(part for word in words for part in (word, *parts_of(word))))


def _known_parts(program: str, words: Sequence[str], command: Command) -> list[Part] | None:
    """What a known program does with its arguments; None for a program that may do anything."""
    if program in tables.NOTHING:
        return []
    if program in tables.SEARCHING:
        words = _without_pattern(words) if program != "sed" or not _may_write(words) else words
    if program in tables.READING or (program == "rg" and not _any(words, r"--p|--h")):
        return [_part("read", words=words)]
    if program in tables.WRITING:
        return [_part("write", words=words)]
    if program in tables.COPYING or program == "mv":
        last = command.last if words and not _any(words, r"-\w*t|--t") and program != "mv" else words
        return [_part("read", words=words), _part("write", words=last)]
    if program == "sed":
        if _runs_code(words):
            return None
        return [_part("read", words=words), *([_part("write", words=words)] if _may_write(words) else [])]
    if program == "find":
        return None if any(map(_FIND_DOES.match, words)) else [_part("read", words=words)]
    if program == "sort":
        return None if _any(words, r"-\w*o|--") else [_part("read", words=words)]
    if program in {"awk", "gawk", "mawk"}:
        return None if _any(words, r".*(?:system|[|>]|getline)|-[fiEl]|--|@") else [_part("read", words=words)]
    if program == "dd":
        return [
            _part("write" if word.startswith("of=") else "read", words=[word[3:]]) for word in words if word[2:3] == "="
        ]
    if program == "git":
        return _git(words)
    if program == "curl" and not command.fed:
        return _curl(words)
    return None


def _any(words: Sequence[str], pattern: str) -> bool:
    return any(re.match(pattern, word) for word in words)


def _without_pattern(words: Sequence[str]) -> Sequence[str]:
    """The arguments without the pattern, which is the first one unless an option holds it."""
    if _any(words, r"-[a-zA-Z]*[ef]|--(?:re|exp|f)"):
        return words
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    return [*words[:at], *words[at + 1 :]]


def _may_write(words: Sequence[str]) -> bool:
    return any(_IN_PLACE.match(word) or _SED_WRITES.search(word) for word in words) or _any(words, r"-\w*f|--f")


def _runs_code(words: Sequence[str]) -> bool:
    """True for a sed script that lies in a file, or has the command `e`, which runs a line."""
    return _any(words, r"-\w*f|--f") or any(
        re.search(r"(?:^|[;{}\s\d$/])e(?:[\s;}]|$)|/\w*e\w*\s*(?:[;}]|$)", word)
        for word in words
        if not word.startswith("-")
    )


def _git(words: Sequence[str]) -> list[Part] | None:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] not in {"-C", "--no-pager", "-P"}:
            return None
        at += 1 + (words[at] == "-C")
    name, rest = "".join(words[at : at + 1]), words[at + 1 :]
    words = [*words[:at], *rest]
    if name in tables.GIT_READS and not _any(rest, r"--o|--ext|--textconv"):
        return [_part("read", words=words)]
    if name not in tables.GIT_STAYS or _any(rest, r"--exec|-x"):
        return None
    words = [word for before, word in pairwise(("", *words)) if not re.fullmatch(r"-a?m|--message", before)]
    # What git changes lies in its work tree, whatever is filled in.
    return [_part("read", words=words), _part("write", words=[word for word in words if not _has_hole(word)])]


def _curl(words: Sequence[str]) -> list[Part] | None:
    """A request that only reaches a host; None where it may send or write a file."""
    for option, value in pairwise((*words, "")):
        if option.startswith("-") and not _CURL_ONLY_ASKS.fullmatch(option):
            return None
        if value.startswith("@") or option.casefold().startswith("file:"):
            return None
    return [_part("reach", words=words)]
