"""`path_inside`: whether a path that a model wrote lies in a folder, as the tool that opens it would see it."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from builtin_plugins.tool_policy._conditions import MAX_CHARS, Reader, Words, words_of
from builtin_plugins.tool_policy._lines import folders_in, texts_of
from builtin_plugins.tool_policy._shell import read_line, with_holes
from builtin_plugins.tool_policy._shell_words import FILLED, FOUND, HOLES
from builtin_plugins.tool_policy._tables import PATH_NAMES, PATH_PAIRS

# Words of a line that are looked up on the disk.
MAX_TEXTS = 500
# Looks at the disk for one command, which takes some 0.3 s.
MAX_LOOKS = 5000
# Entries of folders that are looked through for links which a pattern may be.
MAX_ENTRIES = 50_000
_PATTERN = re.compile(r"[*?\[]")
_SAYS_NOTHING = re.compile(rf"[*?{''.join(sorted(HOLES))}]|\[[^\]]*\]")
_READ_ANOTHER_WAY = re.compile(
    r"""
    ^[~\-@"']                 # a home, an option of a command, a file of arguments, quotes
    | ^[A-Za-z][A-Za-z0-9+.-]*:   # file:, a drive
    | [*?\[{]                 # patterns that some tools expand, and {{secret:...}}
    | \$[A-Za-z_({] | %[0-9A-Za-z_]+% | %[0-9A-Fa-f]{2} | `   # variables, percent-encoding, commands
    | //                      # a share, or what a tool makes of an empty name
    """,
    re.VERBOSE,
)


class PathReader(Reader):
    """Reads paths."""

    noun = "a path"

    def is_named(self, name: str) -> bool:
        """True for `path`, `source_file`, `fileName`."""
        words = words_of(name)
        return bool(words) and (words[-1] in PATH_NAMES or tuple(words[-2:]) in PATH_PAIRS)

    def resembles(self, text: str) -> bool:
        """True for a text that begins as a path from the root, from a home or upwards, or that is a file's address."""
        start = text.strip().casefold()
        return start.startswith(("/", "~", "\\", "file:", "..", "./")) or bool(re.match(r"[a-z]:[/\\]", start))

    def surely(self, text: str, wanted: Sequence[str], workspace: str | None) -> str:
        """Why the path is not surely inside one of the folders; empty when it is."""
        if problem := _doubt(text):
            return problem
        place = absolute(text, workspace)
        if place is None:
            return "is a relative path, and the run has no workspace"
        real = os.path.realpath(place)
        if not _is_settled(real):
            return "leads through something that cannot be followed"
        folders = [absolute(folder, workspace) for folder in wanted]
        if any(folder is not None and is_inside(real, os.path.realpath(folder)) for folder in folders):
            return ""
        return f"does not lie inside {' or '.join(wanted)}"

    def possibly(self, text: str, wanted: Sequence[str], workspace: str | None, *, named: bool) -> bool:
        """True when some reading of the text lies inside one of the folders, or when it cannot be read for sure."""
        if (named or self.resembles(text)) and hides_something(text):
            return True
        if len(text) > MAX_CHARS and named:
            return True
        folders = [absolute(folder, workspace) for folder in wanted]
        if None in folders:
            return named or self.resembles(text)  # a folder of a workspace that nobody named
        ends = {folded(end) for folder in folders if folder for end in (os.path.normpath(folder), resolved(folder))}
        if len(text) > MAX_CHARS:  # other text; no system opens a path of this length before it is shortened
            short = os.path.normpath(absolute(text.strip(), workspace) or text.strip())
            return any(is_inside(folded(short), end) for end in ends)
        for reading in readings(text):
            # What a tool may fill in for a pattern lies below the last folder before it.
            fixed, pattern, rest = (
                reading.partition(first[0]) if (first := re.search(r"[*?\[{]", reading)) else (reading, "", "")
            )
            place = absolute(
                fixed.rpartition("/")[0] + "/" if pattern and "/" in fixed else "." if pattern else fixed, workspace
            )
            if place is None or (pattern and ".." in rest):
                if named or self.resembles(text):
                    return True
                continue
            led = linked(absolute(reading, workspace) or place) if pattern else ()
            for real in {folded(way) for way in (os.path.normpath(place), resolved(place), *led)}:
                if any(is_inside(real, end) or (pattern and is_inside(end, real)) for end in ends):
                    return True
        return False

    def in_line(self, line: str, wanted: Sequence[str], workspace: str | None) -> bool:
        """True when a word of the line, or a part of one, may be a path inside one of the folders."""
        text = with_holes(line)
        folders = folders_in(text)
        judged, all_words = set[tuple[tuple[str, ...], bool]](), set[str]()
        for command in read_line(text, folders.values).commands:
            words = tuple(dict.fromkeys(islice(texts_of(command, 0, folders.values), MAX_TEXTS + 1)))
            if (words, command.inner) in judged:
                continue
            judged.add((words, command.inner))
            all_words.update(words)
            starts = folders.starts(command, "")
            opened = () if command.words[:1] in (["cd"], ["pushd"], ["echo"]) else words[1:]
            if (
                len(all_words) > MAX_TEXTS
                or _may_be_any(opened, starts)
                or self._in_folders(words, starts, wanted, workspace)
            ):
                return True
        return False

    def in_words(self, words: Words, wanted: Sequence[str], workspace: str | None) -> bool:
        """The same of the words of one command, and of the folders that the line goes to."""
        return _may_be_any(*words) or self._in_folders(*words, wanted, workspace)

    def _in_folders(
        self, texts: Sequence[str], starts: Sequence[str], wanted: Sequence[str], workspace: str | None
    ) -> bool:
        wanted = [absolute(folder, workspace) or folder for folder in wanted]
        ends = [folded(way) for folder in wanted if folder.startswith("/") for way in both_ways(folder)]
        # From where one of several folders was not gone to, `..` leads to another one of them, or to one above.
        wandering = len(starts) > 2 or any(_goes_up(start) for start in starts)
        upwards = [_without_upwards(text) for text in texts if wandering and _goes_up(text)]
        texts = [*texts, *upwards]
        places = _reached(starts, workspace, ends, upwards=bool(upwards))
        if len(texts) > MAX_TEXTS or len(texts) * len(places) > MAX_LOOKS:
            return True
        if any(place and _meets(place, end, inside=True) for place in places[1:] for end in ends):
            return True  # whatever runs there is in it
        # What `find`, `parallel` and `xargs -I` put a name in the place of.
        marks = ["{}", *(re.findall(r"\n-I\n?([^\n]+)", "\n".join(("", *texts))) if "xargs" in texts else ())]
        for word in texts:
            text = home_filled(word)
            for mark in marks:
                text = text.replace(mark, FILLED) if text != mark else text
            if word.startswith("~") and any(_in_some_home(word, end) for end in ends):
                return True
            hole, below = not HOLES.isdisjoint(text), text.endswith(f"/{FOUND}")
            if hole and not below and any(_may_become(text, end) for end in ends):
                return True
            if text.startswith("~") or text[:1] in HOLES:
                continue
            for place in places[:1] if text.startswith("/") else places:
                if hole or _PATTERN.search(place or ""):
                    way = os.path.normpath(absolute(text, place) or "")
                    # A search in the workspace itself is everyday work, whatever lies in it.
                    if not (below and workspace and is_inside(way, workspace)) and any(
                        _meets(one, end, inside=True) for one in both_ways(way) for end in ends
                    ):
                        return True
                elif self.possibly(text, wanted, place, named=False):
                    return True
        return False


def check_folder(text: str) -> str:
    """A folder as a rule names it, with the home filled in. Raises `ValueError`."""
    folder = os.path.expanduser(text)  # noqa: PTH111 - the text's own form stays: `.` is not made absolute here
    if folder.startswith("~") or not folder.isprintable() or re.search(r"[*?\[{$]|//", folder):
        raise ValueError(
            f"'{text}' is not a folder; write one such as '/workspace', or '.' for the run's workspace, without * and $"
        )
    if ".." in folder.split("/"):
        raise ValueError(f"'{text}' goes upwards; write the folder that it means")
    return folder


def _doubt(text: str) -> str:
    """Why a tool may read this text as another path than we do; empty when it can hardly."""
    if not text or len(text) > MAX_CHARS:
        return "is empty" if not text else "is too long for a path"
    if not text.isprintable() or text != text.strip():
        return "has control characters or blanks at its ends"
    if _READ_ANOTHER_WAY.search(text) or (os.sep == "/" and "\\" in text):
        return "has something in it that tools read in several ways (such as ~, $, *, %2F, // or file:)"
    compatible = unicodedata.normalize("NFKC", text)
    if any(text.count(mark) != compatible.count(mark) for mark in "/\\.:~"):
        return "has characters that look like separators"
    if ".." in re.split(r"[/\\]", text):
        return "goes upwards (..)"
    return ""


def absolute(text: str, workspace: str | None) -> str | None:
    """The path from the root; None for a relative one in a run without a workspace."""
    if Path(text).is_absolute():
        return text
    if workspace is None or not Path(workspace).is_absolute():
        return None
    return os.path.join(workspace, text)  # noqa: PTH118 - a text that holds NUL is looked at too, and must not raise


def _is_settled(real: str) -> bool:
    """False when part of a resolved path is still a link (a circle), or cannot be looked at."""
    for part in reversed([Path(real), *Path(real).parents]):
        try:
            mode = part.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return True  # nothing is there yet, so nothing leads away from there
        except (OSError, ValueError):
            return False
        if stat.S_ISLNK(mode):
            return False
    return True


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def hides_something(text: str) -> bool:
    """True for a path of which a part is filled in elsewhere: a home, a variable, a secret, a command."""
    return re.search(r"^\s*@?~(/|[\w-]*(/|$))|`|\{\{|\$[A-Za-z_({]|%[A-Za-z_]\w*%", text) is not None


def readings(text: str) -> Iterator[str]:
    """The ways in which a tool may read a path: as it stands, decoded, without blanks, with other slashes."""
    stripped = "".join(char for char in text if char.isprintable()).strip()
    plain = re.sub(r"^(?i:file):(//[^/]*(?=/))?", "", stripped).lstrip("@")
    for one in dict.fromkeys((text, stripped, text.partition("\0")[0], text.strip().partition("\n")[0], plain)):
        decoded = unquote(unquote(one))
        unquoted = re.sub(r"""^["'`(\[<]+|["'`)\]>]+$""", "", decoded)
        for reading in dict.fromkeys(
            (one, decoded, unquoted, unicodedata.normalize("NFKC", decoded).replace("\\", "/"))
        ):
            # An option such as --file=/etc/passwd holds its path behind the sign.
            yield from (reading, reading.partition("=")[2]) if reading.startswith("-") else (reading,)
        if named_part := re.match(r"[\w.@-]+:(?=[/~.])", decoded):
            yield decoded[named_part.end() :]  # another machine's, for scp and docker, which may be this one


def _may_be_any(texts: Sequence[str], starts: Sequence[str]) -> bool:
    """Whether a word stands for a path from a folder that nobody knows, which may be any."""
    unknown = any(start[:1] in HOLES or home_filled(start).startswith("~") for start in starts)
    return unknown and any(
        text[:1] not in {"", "/", "~", "-"} and "://" not in text and not HOLES.issuperset(text) for text in texts
    )


def places_of(starts: Sequence[str], workspace: str | None) -> list[str | None]:
    """Where a line may be: each folder from where it starts, and from the one before; None for one that is not
    known."""
    first = at = absolute(home_filled(starts[0]), workspace) if starts else workspace
    places = [first] if starts and starts[0] else list[str | None]()
    for start in map(home_filled, starts[1:]):
        fixed = HOLES.isdisjoint(start) and not start.startswith("~")
        at = absolute(start, at) if fixed else None
        places += dict.fromkeys((absolute(start, first) if fixed else None, at))
    return places


def _goes_up(text: str) -> bool:
    return os.path.normpath(text).startswith("..")


def _without_upwards(text: str) -> str:
    return re.sub(r"^(?:\.\./?)+", "", os.path.normpath(text)) or "."


def _reached(starts: Sequence[str], workspace: str | None, ends: Sequence[str], *, upwards: bool) -> list[str | None]:
    """The workspace, and the folders that a line may be in when it goes to these: in their order, and those on the way
    to the folders of a rule in any order and as often as it likes, since what runs how often is not known."""
    places: dict[str | None, None] = {workspace: None}
    at = workspace
    names = set[str]()
    for start in map(home_filled, starts):
        at = absolute(start, at) if start[:1] not in HOLES else None
        if at is not None:
            at = os.path.normpath(at)
            places.update(dict.fromkeys(both_ways(at)))
        if not start.startswith("/"):
            names.add(os.path.normpath(start))
    waiting = [place for place in places if place]
    if upwards or any(name.startswith("..") for name in names):
        waiting += [str(above) for place in waiting for above in Path(place).parents]
    names = {".", *(_without_upwards(name) for name in names if name[:1] not in HOLES)}
    while waiting and len(places) <= MAX_LOOKS:
        place = waiting.pop()
        for name in names:
            for way in both_ways(os.path.normpath(f"{place}/{name}")):
                if way not in places and any(_meets(way, end, inside=False) for end in ends):
                    places[way] = None
                    waiting += [] if any(_meets(way, end, inside=True) for end in ends) else [way]
    return list(places)


def _meets(way: str, end: str, *, inside: bool) -> bool:
    """Whether a path, of which names may be patterns, may lead into a folder; or else to one above it, which is on the
    way."""
    parts, names = folded(way).rstrip("/").split("/"), end.rstrip("/").split("/")
    for part, name in zip(parts, names, strict=False):
        fixed = re.split(f"[{''.join(sorted(HOLES))}]", part, maxsplit=1)[0]
        if fixed != part or part == "**":
            return fnmatchcase(name, f"{fixed}*")
        if part != name and (not _PATTERN.search(part) or not _may_be_called(part, name)):
            return False
    return not inside or len(parts) >= len(names)


def _may_be_called(pattern: str, name: str) -> bool:
    """Whether a shell puts the name in the place of the pattern; a dot at its start is one that the pattern has,
    too."""
    if name.startswith(".") and pattern[0] in "*?[":
        return False
    return fnmatchcase(name, re.sub(r"\[[^\]]+\]", "?", pattern))


def _in_some_home(word: str, folder: str) -> bool:
    """Whether a path below a home may lie in the folder, whoever's home it is."""
    parts = os.path.normpath(word.partition("/")[2].casefold()).split("/")
    return any(folder.endswith("/" + "/".join(parts[: at + 1])) for at in range(len(parts)))


def _may_become(text: str, folder: str) -> bool:
    """Whether a word of a line with something to be filled in may lie in the folder. What a variable at its start holds
    is not known, so the rest of the word decides: `$ROOT/etc/passwd` may lie in `/etc`."""
    text = folded(text) if text.startswith("/") else text.casefold()
    start = re.split(f"[{''.join(sorted(HOLES))}]", text, maxsplit=1)[0]
    if start.startswith("/"):
        return folder.startswith(start) or start.startswith(f"{folder}/")
    name = folder.rpartition("/")[2]
    return bool(name) and any(
        part == name or (len(_SAYS_NOTHING.sub("", part)) > 1 and _may_be_called(part, name))
        for part in re.split(r"[/\\]", text)
    )


def home_filled(text: str) -> str:
    """A word of a line with the home that it begins with; `~-` and the like are folders that the line has been in."""
    if stacked := re.match(r"~(?:[+-]\d*|\d+)(?=/|$)", text):
        return f".{text[stacked.end() :]}"
    return os.path.expanduser(text)  # noqa: PTH111 - the text's own form stays


def both_ways(path: str) -> set[str]:
    """A path as it is written, and where its links lead, those as well that a pattern in it may be."""
    plain = os.path.normpath(path)
    if not HOLES.isdisjoint(path):
        return {plain}
    return {plain, *linked(plain)} if _PATTERN.search(path) else {plain, resolved(path)}


def linked(path: str) -> Iterator[str]:
    """Where the links lead that the patterns in a path from the root may be; any place, where these are too many to
    look at."""
    waiting, left = [("", path.strip("/").split("/"))], MAX_ENTRIES
    while waiting:
        at, (name, *rest) = waiting.pop()
        goes_on = any(map(_PATTERN.search, rest))
        if not _PATTERN.search(name):
            waiting += [(f"{at}/{name}", rest)] if goes_on else []
            continue
        for entry in _entries(at or "/"):
            left -= 1
            if _may_be_called(name, entry.name):
                way = resolved(entry.path) if entry.is_symlink() else entry.path
                if entry.is_symlink():
                    yield "/".join((way, *rest))
                waiting += [(way, rest)] if goes_on else []
        if left < 0:
            yield "/**"
            return


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (OSError, ValueError):
        return []


def resolved(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # NUL, too long
        return os.path.normpath(path)


def folded(path: str) -> str:
    """For file systems that do not tell upper from lower case; POSIX keeps two slashes at the start apart."""
    return "/" + unicodedata.normalize("NFKC", path).casefold().lstrip("/")
