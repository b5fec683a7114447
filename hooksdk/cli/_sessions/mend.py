"""Damages in the files of a `JsonlStore`, and the content of each file without them. Nothing is written here.

Lines are read without holding the session and whatever state they are in. The same plan tells what could be done and
does it, so nobody reads of one thing and gets another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from hooksdk.cli._console import counted
from hooksdk.errors import StoreError
from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.stores.jsonl import VERSION, ValueFile, file_name
from hooksdk.transcript import Entry, Ledger, encode


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a file.

    Attributes:
        number: From 1.
        data: With its line feed.
        values: The one object that it holds; more where lines are glued together, none where it is empty or damaged.
        problem: Why it is no line of the store's; empty where nothing is wrong.
    """

    number: int
    data: bytes
    values: tuple[dict[str, Any], ...]
    problem: str = ""

    @property
    def is_glued(self) -> bool:
        """Several whole objects: the line feeds between them are lost."""
        return len(self.values) > 1


@dataclass(kw_only=True)
class Lines:
    """A file of JSON objects, a line each, as `JsonlStore` writes it.

    Attributes:
        lines: Those of the whole steps.
        whole: How many bytes the whole steps are.
    """

    data: bytes
    lines: list[Line] = field(default_factory=list[Line])
    whole: int = 0

    @property
    def torn(self) -> int:
        """The bytes at the end that belong to no whole step, as after a crash."""
        return len(self.data) - self.whole

    @property
    def problem(self) -> str:
        """The damage of the first damaged line; empty where there is none."""
        damaged = next((line for line in self.lines if line.problem), None)
        return f"line {damaged.number} {damaged.problem}" if damaged else ""

    @property
    def values(self) -> list[dict[str, Any]]:
        """Every object that can be read."""
        return [value for line in self.lines for value in line.values]


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One thing that is wrong, and what became of it.

    Attributes:
        who: The session's id, or the name of its files where nothing says the id any more; `values` for those of a
            plugin.
        remedy: What `--mend` does about it, as one says it to do; empty where it can do nothing.
        advice: What else a person can do.
        backup: The file as it was.
    """

    who: str = ""
    file: str
    what: str
    remedy: str = ""
    advice: str = ""
    state: Literal["open", "mended"] = "open"
    backup: str | None = None


@dataclass(kw_only=True)
class Plan:
    """The damages of some files that belong together, and the content of those that can be mended.

    Attributes:
        contents: By file; None for one that is only moved aside.
    """

    damages: list[Damage] = field(default_factory=list[Damage])
    contents: dict[Path, bytes | None] = field(default_factory=dict[Path, "bytes | None"])

    def tell(self, path: Path, what: str, remedy: str = "", advice: str = "") -> None:
        """Note what is wrong with a file."""
        self.damages.append(Damage(file=str(path), what=what, remedy=remedy, advice=advice))


def session_bases(directory: Path) -> list[Path]:
    """The files of each session, without the ends of their names; of damaged ones too."""
    ends = (".journal.jsonl", ".messages.jsonl")
    names = {path.name.removesuffix(end) for end in ends for path in directory.glob(f"*{end}")}
    return [directory / name for name in sorted(names)]


def session_id_of(base: Path) -> str | None:
    """The id of the session of these files; None where the journal does not say it any more."""
    try:
        values = read_lines(base.with_name(base.name + ".journal.jsonl")).values
    except OSError:
        return None
    return str(values[0].get("session")) if values and values[0].get("hooksdk") == "journal" else None


def plan_session(base: Path, known_id: str | None, *, is_held: bool) -> Plan:
    """Plan the mending of a session's two files. `known_id` is the session's id, where the caller knows it. While
    somebody holds the session, its last line may be half written, which is no damage."""
    plan = Plan()
    journal_path, messages_path = (base.with_name(f"{base.name}.{kind}.jsonl") for kind in ("journal", "messages"))
    try:
        # The journal first: its holder may go on writing, and the journal must not seem to be ahead.
        journal, messages = read_lines(journal_path), read_lines(messages_path)
    except OSError as error:
        plan.tell(base, f"they cannot be read: {error}", advice="Give the files to the user that runs hooksdk")
        return plan
    for path, lines in (journal_path, journal), (messages_path, messages):
        if lines.torn and not is_held:
            _cut_torn_end(plan, path, lines)
    values = _mend_messages(plan, messages_path, messages)
    if journal.values or values:  # else its first opening was cut short, and the next one begins it
        header = _mend_journal(plan, journal_path, journal, known_id, base)
        if header is not None:
            _mend_entries(plan, journal_path, header, values)
    return plan


def _cut_torn_end(plan: Plan, path: Path, lines: Lines) -> None:
    size = counted(lines.torn, "byte")
    what = f"it ends in {size} that belong to no whole line, as after a crash"
    plan.tell(path, what, "cut off this byte" if lines.torn == 1 else f"cut off these {size}")
    plan.contents[path] = lines.data[: lines.whole]


def _mend_messages(plan: Plan, path: Path, lines: Lines) -> list[Message]:
    """Part glued lines, and end the file before any other damaged line: every message has its number, and a result
    without its call would make the session useless. Answers the messages that stay."""
    parts: list[bytes] = []
    damaged: Line | None = None
    for line in lines.lines:
        if line.problem and not line.is_glued:
            damaged = line
            break
        if line.is_glued:
            _tell_glued(plan, path, line)
        parts.append(unglued(line) if line.is_glued else line.data)
    if damaged is not None and parts:
        parts[-1] = parts[-1].lstrip(b" ")  # the messages before it are whole, though their step goes on
    content = split_lines(b"".join(parts))
    if damaged is not None:
        lost = counted(len(lines.values) - len(content.values), "message")
        remedy = f"end the file before line {damaged.number}; {lost} after it would be in the backup alone"
        advice = "If you have a copy of the line, put it there instead"
        plan.tell(path, f"line {damaged.number} {damaged.problem}", remedy, advice)
    if content.data != lines.data[: lines.whole]:
        plan.contents[path] = content.data[: content.whole]
    return content.values


def _tell_glued(plan: Plan, path: Path, line: Line) -> None:
    plan.tell(path, f"line {line.number} {line.problem}", f"write its {len(line.values)} objects in a line each")


def _mend_journal(plan: Plan, path: Path, lines: Lines, known_id: str | None, base: Path) -> list[Entry] | None:
    """The header and the entries, damaged lines left out; None where nothing can be said without the header."""
    values = lines.values
    header = values[0] if values and values[0].get("hooksdk") == "journal" else None
    if header and int(header.get("version", 0)) > VERSION:
        what = f"it was written by a newer hooksdk (version {header['version']})"
        plan.tell(path, what, advice="Use that one")
        plan.contents.clear()
        return None
    if header is None:
        what = "its first line, which names the session, is lost" if lines.data else "the messages have no journal"
        if known_id is None or file_name(known_id) != base.name:
            plan.tell(path, what, advice="Say whose it is: hooksdk sessions doctor ID --mend")
            return None
        plan.tell(path, what, "write that line anew")
        header = {"hooksdk": "journal", "version": VERSION, "session": known_id}
        values = [header, *values]
    for line in lines.lines:
        if line.is_glued:
            _tell_glued(plan, path, line)
        elif line.problem and line.number > 1:
            remedy = "leave this line out; the others do not depend on it"
            plan.tell(path, f"line {line.number} {line.problem}", remedy)
    if any(damage.file == str(path) for damage in plan.damages):
        plan.contents[path] = _lines_of(values)
    return values


def _lines_of(values: Sequence[object]) -> bytes:
    return b"".join(encode(value) + b"\n" for value in values)


def _mend_entries(plan: Plan, path: Path, values: list[Entry], messages: list[Message]) -> None:
    """Find entries that are ahead of the messages, or cannot be understood."""
    entries = values[1:]
    name = next((str(entry.get("name")) for entry in entries if entry.get("kind") == "format"), None)
    try:
        ahead = max((int(entry.get("m", 0)) for entry in entries), default=0)
        if ahead > len(messages):
            entries = _without_lost(entries, len(messages))
            _tell_ahead(plan, path, ahead, len(messages), len(values) - 1 - len(entries))
            plan.contents[path] = _lines_of([values[0], *entries])
        Ledger.replay(messages, entries, get_format(str(name)) if name in FORMATS else None)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"it cannot be understood ({type(error).__name__}: {error})"
        advice = "Move it away: the messages stay, trims and plugin state are lost"
        plan.tell(path, what, advice=advice)


def _tell_ahead(plan: Plan, path: Path, ahead: int, count: int, dropped: int) -> None:
    lost = counted(ahead - count, "message")
    what = f"it was written when {counted(ahead, 'message')} were stored, and now there are {count:,}: {lost} lost"
    about = f"leave out {dropped:,} of its lines, which speak of lost messages, and " if dropped else ""
    advice = "If you have a backup of the messages, put it back instead"
    plan.tell(path, what, f"{about}let the others speak of those that are there", advice)


def _without_lost(entries: Sequence[Entry], count: int) -> list[Entry]:
    """The entries as if the lost messages had never been. What a replay makes of them stays the same."""
    rest = [entry for entry in entries if not _is_about_lost(entry, count)]
    return [{**entry, "m": min(int(entry["m"]), count)} if "m" in entry else entry for entry in rest]


def _is_about_lost(entry: Entry, count: int) -> bool:
    """True for an entry that a replay leaves out, since what it speaks of is not there."""
    kind = entry.get("kind")
    if kind in {"trim", "restore"}:
        return int(entry["at"]["position"]) >= count
    if kind in {"staged", "answered"}:
        return int(entry["reply"]) >= count
    return kind == "compact" and "hash" in entry and int(entry["upto"]) > count


def plan_values(directory: Path) -> Iterator[Plan]:
    """Plan the mending of the plugins' values: a plan for each damaged file."""
    for path in sorted((directory / "values").glob("*.json")):
        try:
            ValueFile(path, path.stem).read()
        except StoreError as error:
            plan = Plan(contents={path: None})
            remedy = "move the file aside: the plugin begins without stored values"
            plan.tell(path, f"the values {error.problem}", remedy)
            yield plan


def read_lines(path: Path) -> Lines:
    """All lines of a file; none of one that does not exist. Raises `OSError`."""
    try:
        return split_lines(path.read_bytes())
    except FileNotFoundError:
        return Lines(data=b"")


def split_lines(data: bytes) -> Lines:
    """The lines of a file's content. Every line of a step but the last begins with a blank."""
    result = Lines(data=data)
    step: list[Line] = []
    end = 0
    for number, text in enumerate(re.findall(rb"[^\n]*\n|[^\n]+", data), 1):
        values, problem = _parse(text)
        line = Line(number=number, data=text, values=tuple(values), problem=problem)
        end += len(text)
        is_complete = text.endswith(b"\n") or (not line.problem and bool(line.values))
        step.append(line)
        if not text.startswith(b" ") and is_complete:
            result.lines += step
            step, result.whole = [], end
    return result


def _parse(data: bytes) -> tuple[list[dict[str, Any]], str]:
    if not data.strip():
        return [], ""
    if b"\0" in data:
        return [], "holds a block of zeros, as after a power cut"
    values: list[object] = []
    try:
        text = data.decode().strip()
        while text:
            value, end = json.JSONDecoder().raw_decode(text)
            values.append(value)
            text = text[end:].lstrip()
    except (ValueError, RecursionError):
        return [], "is not JSON"
    if not all(isinstance(value, dict) for value in values):
        return [], "is no JSON object"
    objects = cast("list[dict[str, Any]]", values)
    return objects, "is several lines glued together" if len(objects) > 1 else ""


def unglued(line: Line) -> bytes:
    """The objects of a glued line, a line each."""
    return b"".join(encode(value) + b"\n" for value in line.values)
