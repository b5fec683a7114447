"""Whether a command line may run a program, or a command of one, that a deny lists: directly, or through a shell, a
launcher such as `sudo`, an option that holds a line, or a file that the line writes first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from builtin_plugins.tool_policy import _tables as tables
from builtin_plugins.tool_policy._denied import HOLE, Denied, base
from builtin_plugins.tool_policy._shell import read_line, with_holes
from builtin_plugins.tool_policy._shell_words import FILE, FILLED, FOUND, HOLES, SPLIT, Command

# The most characters and words that are looked at, which takes some 0.3 s; a longer search counts as unreadable.
_MAX_STEPS = 200_000
# Lines within lines, such as `sh -c "sh -c '...'"`.
_MAX_LINES = 8
_IN_WORDS = re.compile(r"[\s;&|<>(){}$`'\"\\]")
_SED_RUNS = re.compile(r"(?:^|[\s\d$/;{}!])e\s|[^\w\s]\w*e\w*\s*(?:[;}]|$)")
_AWK_RUNS = re.compile(r"system|\||getline")
_DEFINES = re.compile(r"alias|GIT_CONFIG", re.IGNORECASE)
_WITH_LINE = re.compile(r"-[a-zA-Z]*c|--command|/c", re.IGNORECASE)
_INPUTS = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_OTHERS = tables.NAMING | tables.CODE | {"git", "sed"}
_RUNNERS = (
    frozenset(tables.PREFIXES)
    | frozenset(tables.JOINING)
    | tables.SHELLS
    | tables.SOURCING
    | tables.CODE
    | {"find", "git"}
)
_KNOWN = _RUNNERS | tables.QUIET | tables.NAMING | tables.GROUPING | {"sed"}
_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


class Unread(Exception):
    """The line is too long, nested too deeply or broken, so it may run anything."""


def may_run(text: str, wanted: Sequence[str], *, named: bool) -> bool:
    """True when the line may run what a deny lists. `named`: the argument's name says that it holds a line, so an
    unreadable one counts as running it."""
    denied = Denied(wanted)
    text = with_holes(text)
    if _DEFINES.search(text) and denied.mentioned(text):
        return True
    readings = [text, text.replace("\\\n", " ")] if "\\\n" in text else [text]
    try:
        return any(_Search(denied, text).line(one, literally=not named) for one in readings)
    except Unread:
        return named or denied.mentioned(text)


def _kind(program: str) -> str:
    """The name by which the tables know a program: `python3.11` is python."""
    name = base(program)
    return name if name in _KNOWN else name.rstrip("0123456789.-")


class _Search:
    """The search through one line and the lines within it."""

    def __init__(self, denied: Denied, text: str) -> None:
        self._denied = denied
        self._mentioned = denied.mentioned(text)
        self._steps = 0
        self._depth = 0
        self._inner: set[tuple[str, bool]] = set()
        # By file name, the texts that the line writes into files; None where they are not known.
        self._written: dict[str, list[str] | None] = {}

    def line(self, text: str, *, literally: bool) -> bool:
        self._step(len(text))
        line = read_line(text)
        for command in line.commands:
            self._note_files(command)
        if any(self._command(command, literally) for command in line.commands):
            return True
        if line.broken and not literally:
            raise Unread
        return line.broken and self._denied.mentioned(text)

    def _inner_line(self, text: str, *, literally: bool) -> bool:
        """Search a line that stands in an argument."""
        if not literally and re.search(f"[{SPLIT}{FILLED}{FILE}]", text):
            return True  # the hole may hold a whole command, after a semicolon
        if (text, literally) in self._inner:
            return False
        if self._depth >= _MAX_LINES:
            raise Unread
        self._inner.add((text, literally))
        self._depth += 1
        try:
            return self.line(text, literally=literally)
        finally:
            self._depth -= 1

    def _command(self, command: Command, literally: bool) -> bool:
        if not command.words:
            return False
        if self._texts(command.assigned):  # `PAGER='rm x' git log`
            return True
        if self._words(command.words, command, literally):
            return True
        if not any(SPLIT in word and len(word) > 1 for word in command.words):
            return False
        split = [part for word in command.words for part in re.split(f"({SPLIT})", word) if part]
        return self._words(split, command, literally)

    def _note_files(self, command: Command) -> None:
        tee = command.words[1:] if command.words[:1] == ["tee"] else []
        texts = _fed(command) if tee else _written(command)
        for name in (*command.files, *tee):
            known = self._written.setdefault(base(name), [])
            self._written[base(name)] = None if known is None or texts is None else [*known, *texts]

    def _words(self, words: list[str], command: Command, literally: bool) -> bool:
        """Look at each word that may be the name of a program that runs."""
        waiting, seen = [(0, literally)], set[int]()
        while waiting:
            at, weakly = waiting.pop()
            if at in seen or at >= len(words):
                continue
            seen.add(at)
            self._step(1 + (len(words) - at) // 8)
            if self._denied.fits(words[at:], literally=weakly):
                return True
            if self._runs_written(base(words[at]), weakly):
                return True
            program = _kind(words[at])
            if words[at] in HOLES:
                waiting.append((at + 1, weakly))
            elif program in tables.QUIET or _only_asks(program, words[at + 1 :]):
                continue
            elif program in tables.PREFIXES:
                last = len(words)
                if program in tables.APPENDING:
                    self._step(last)
                    words = [*_replaced(words), SPLIT]
                    last += program == "parallel"  # runs whole lines, too, where xargs echoes them
                waiting += [
                    (place, weakly) for place in self._places(words, at, tables.PREFIXES[program]) if place < last
                ]
                if self._texts([word for word in words[at + 1 :] if word.startswith("-") or "=" not in word]):
                    return True
            elif program in tables.SHELLS or program in tables.SOURCING:
                if self._shell(words[at + 1 :], command, weakly, sourcing=program in tables.SOURCING):
                    return True
            elif program in tables.JOINING:
                places = self._places(words, at, tables.JOINING[program])
                lines = [" ".join(words[place:]) for place in (at + 1, *places)[tables.JOINING[program] :]]
                if program == "trap":  # its line is the first argument, the others are signals
                    lines += words[at + 1 :]
                if any(self._inner_line(line, literally=weakly) for line in lines):
                    return True
                if self._texts(words[at + 1 :]):  # `-o ProxyCommand='rm x'`
                    return True
                if any(self._inner_line(text, literally=weakly) for text in command.fed):
                    return True
            elif program == "find":
                self._step(len(words))
                words = [word.replace("{}", FOUND) for word in words]
                waiting += [(place + 1, weakly) for place in range(at, len(words)) if words[place] in _EXEC]
            elif self._other(program, words[at + 1 :], command):
                return True
            elif program.startswith("python") and "-m" in words[at:]:
                waiting.append((words.index("-m", at) + 1, weakly))
            elif program not in _OTHERS:
                for place in range(at + 1 + _own_words(program, words[at + 1 :]), len(words)):
                    self._step()
                    if self._denied.fits(words[place:], literally=True):
                        return True
                    if _kind(words[place]) in _RUNNERS:
                        waiting.append((place, True))
        return False

    def _runs_written(self, program: str, weakly: bool) -> bool:
        """True where the program is a file that the line has written, and its text may run what is denied."""
        texts = self._written.get(program, [])
        return not weakly if texts is None else any(self._inner_line(text, literally=weakly) for text in texts)

    def _step(self, number: int = 1) -> None:
        self._steps += number
        if self._steps > _MAX_STEPS:
            raise Unread

    def _places(self, words: Sequence[str], at: int, own: int) -> Iterator[int]:
        """The places of words that may be the program which a launcher such as `sudo` runs."""
        program, place = _kind(words[at]), at + 1
        while place < len(words):
            self._step()
            word = words[place]
            if word.startswith("-") and word != "--":
                takes_value = _takes_value(program, word)
                following = words[place + 1 : place + 2]
                if takes_value is None and following and not following[0].startswith("-"):
                    # The next word may be the option's value, or already the program.
                    if own <= 1:
                        yield place + 1 + own
                    place += 1
                elif takes_value:
                    place += 1
            elif own:
                own -= word != "--"
                if word == SPLIT:
                    yield place
            elif word == "--" or (program not in tables.JOINING and re.match(r"[A-Za-z_]\w*=", word)):
                pass
            elif word == SPLIT:
                yield place
            else:
                yield place
                return
            place += 1

    def _texts(self, words: Sequence[str]) -> bool:
        """True where an argument is a denied line itself, also as the value of an option: `-S'git push'`,
        `--exec='git push'`."""
        for word in words:
            self._step()
            texts = [word] if _IN_WORDS.search(word) else []
            if word.startswith("-"):
                texts.append(word[2:])
            values = word.split("=", _MAX_LINES)
            texts += [value for value in ("=".join(values[at:]) for at in range(1, len(values))) if value]
            if any(self._inner_line(text, literally=True) for text in texts):
                return True
        return False

    def _shell(self, words: Sequence[str], command: Command, weakly: bool, *, sourcing: bool) -> bool:
        if any(FILE in word for word in words):
            return not weakly
        lined = next((at for at, word in enumerate(words) if _WITH_LINE.match(word)), None)
        if lined is not None and not sourcing:
            option, others = (
                words[lined],
                [word for word in words[lined + 1 :] if not word.startswith(("-", "+")) or _IN_WORDS.search(word)],
            )
            # The first word is the line; it may run the others as "$@".
            return any(
                self._inner_line(one, literally=weakly or at > 0) for at, one in enumerate(others)
            ) or self._texts([option, *words[:lined]])
        place = next((at for at, word in enumerate(words) if not word.startswith(("-", "+"))), None)
        script = "-" if place is None else words[place]
        fed: list[str] | None = None
        if base(script) in self._written:
            fed = self._written[base(script)]
        elif script not in _INPUTS and "-s" not in words:
            # A script is found by its name, as a program is.
            filled_in = script[-1:] in HOLES
            if self._denied.fits(words[place:], literally=filled_in) or (filled_in and self._mentioned):
                return True
            return self._texts(words)
        else:
            fed = _fed(command)
        if fed is None:
            return not weakly
        return any(self._inner_line(text, literally=weakly) for text in fed)

    def _other(self, program: str, words: Sequence[str], command: Command) -> bool:
        """True where a program runs a denied line or code in its arguments, its script or its input."""
        if program == "git":
            return self._git(words)
        scripts = [text for word in words for text in self._written.get(base(word)) or ()]
        texts = [*words, *scripts, *command.fed, *(_fed(command) or [])]
        if program == "sed":
            return any(_SED_RUNS.search(text) and self._denied.mentioned(text) for text in words)
        if program in tables.CODE:
            runs = _AWK_RUNS.search if program.endswith("awk") else bool
            wholly = any(option in {"-c", "-e", "-r"} and code in HOLES for option, code in pairwise(words))
            return wholly or any(
                runs(text) and self._denied.mentioned(text) for text in texts if _IN_WORDS.search(text)
            )
        return self._texts(words) or any(self._denied.mentioned(text) for text in command.fed)

    def _git(self, words: Sequence[str]) -> bool:
        """True where git runs a denied line: from its configuration, or for each commit or module."""
        if self._texts([value for option, value in pairwise(words) if option == "-c"]):
            return True
        first = next((at for at, word in enumerate(words) if word in tables.GIT_RUNS), None)
        if first is None:
            return False
        return self._texts(words[first:]) or any(
            self._denied.fits(words[at:], literally=True) for at in range(first + 2, len(words))
        )


def _takes_value(program: str, option: str) -> bool | None:
    """True where the next word is the option's value, False where it is not, None where it may be."""
    if "=" in option:
        return False
    values, flags = tables.OPTIONS.get(program, ("", ""))
    for at, letter in enumerate(option[1:], 2):
        if program in tables.APPENDING and letter in "eil":
            return False  # the value is part of the same word
        if letter in values:
            return at == len(option)
        if letter not in flags:
            return None
    return False


def _only_asks(program: str, words: Sequence[str]) -> bool:
    """True for `command -v rm`, which only prints where rm is."""
    return program == "command" and bool(words) and re.fullmatch(r"-\w*[vV]\w*", words[0]) is not None


def _own_words(program: str, words: Sequence[str]) -> int:
    """The number of words after a program that are commands of its own, such as `image ls` of docker."""
    if program not in tables.GROUPING:
        return 0
    return 1 if words and words[0] in tables.RUNNING else 2


def _fed(command: Command) -> list[str] | None:
    """The texts that the command reads as its input; None where they are not known."""
    if command.fed or not command.piped:
        return None if any(FILE in text for text in command.fed) else command.fed
    return None if command.source is None else _written(command.source)


def _written(command: Command) -> list[str] | None:
    """The texts that the command writes to its output; None where they are not known."""
    if not command.words:
        return []
    program, *words = command.words
    if program == "cat" and not words:
        return _fed(command)
    text = " ".join(word for word in words if word not in {"-n", "-e", "-E"})
    return [text] if base(program) in {"echo", "printf"} and not re.search(rf"[\\%]|{HOLE}", text) else None


def _replaced(words: Sequence[str]) -> list[str]:
    """The words with a hole for each mark that xargs or parallel replaces."""
    marks = ["{}", *(word[2:] for word in words if re.match(r"-[IJ].", word))]
    marks += [mark for option, mark in pairwise(words) if option in {"-I", "-J"} and mark]
    pattern = re.compile("|".join(map(re.escape, marks)))
    return [pattern.sub(FILLED, word) for word in words]
