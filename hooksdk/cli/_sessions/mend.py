"""Damages in the files of JSON lines that earlier versions have kept, and the content of each file without them.

What is whole is taken over into the database without a command; here are those that were not. Nothing is written here:
the same plan tells what could be done and is carried out, so nobody reads of one thing and gets another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from hooksdk.cli._console import counted
from hooksdk.errors import StoreError
from hooksdk.stores.copies import VERSION, file_name, read_old_session
from hooksdk.transcript import encode


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One thing that is wrong, and what became of it.

    Attributes:
        who: The session's id, or the name of its files where nothing says the id any more; `values` for those of a
            plugin, `database` for the whole.
        file: Empty for what is in the database.
        remedy: What `--mend` does about it, as one says it to do; empty where it can do nothing.
        advice: What else a person can do.
        backup: The file as it was.
    """

    who: str = ""
    file: str = ""
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
    """The files of each session, without the ends of their names."""
    ends = (".journal.jsonl", ".messages.jsonl")
    names = {path.name.removesuffix(end) for end in ends for path in directory.glob(f"*{end}")}
    return [directory / name for name in sorted(names)]


def plan_session(base: Path, known_id: str | None) -> Plan:
    """Plan the mending of a session's two files. `known_id` is the session's id, where the caller knows it."""
    plan = Plan()
    journal, messages = (base.with_name(f"{base.name}.{kind}.jsonl") for kind in ("journal", "messages"))
    try:
        if journal.exists():
            read_old_session(journal)
            return plan
    except StoreError as error:
        if "newer hooksdk" in error.problem:
            plan.tell(journal, error.problem, advice="Use that one")
            return plan
    try:
        entries, lines = _read(journal), _read(messages)
    except OSError as error:
        plan.tell(base, f"they cannot be read: {error}", advice="Give the files to the user that runs hooksdk")
        return plan
    _mend_messages(plan, messages, lines)
    if entries or lines:  # else its first opening was cut short
        _mend_journal(plan, journal, entries, known_id)
    return plan


def _mend_messages(plan: Plan, path: Path, lines: list[Any]) -> None:
    """Part glued lines, and end the file before any other damaged line: every message has its number, and a result
    without its call would make the session useless."""
    kept: list[Any] = []
    for number, line in enumerate(lines, 1):
        if isinstance(line, str):
            lost = sum(len(each) for each in lines[number:] if not isinstance(each, str))
            remedy = (
                f"end the file before line {number}; {counted(lost, 'message')} after it would be in the backup alone"
            )
            plan.tell(path, f"line {number} {line}", remedy, "If you have a copy of the line, put it there instead")
            break
        _tell_glued(plan, path, number, line)
        kept += line
    _rewrite(plan, path, kept)


def _mend_journal(plan: Plan, path: Path, lines: list[Any], known_id: str | None) -> None:
    """Leave damaged lines out, and write the first one anew where the session is known."""
    values = [value for line in lines if not isinstance(line, str) for value in line]
    if not values or values[0].get("hooksdk") != "journal":
        what = "its first line, which names the session, is lost" if lines else "the messages have no journal"
        if known_id is None or not path.name.startswith(f"{file_name(known_id)}."):
            plan.tell(path, what, advice="Say whose it is: hooksdk sessions doctor ID --mend")
            plan.contents.clear()
            return
        plan.tell(path, what, "write that line anew")
        values = [{"hooksdk": "journal", "version": VERSION, "session": known_id}, *values]
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            _tell_glued(plan, path, number, line)
        elif number > 1:
            plan.tell(path, f"line {number} {line}", "leave this line out; the others do not depend on it")
    _rewrite(plan, path, values)


def _tell_glued(plan: Plan, path: Path, number: int, values: list[Any]) -> None:
    if len(values) > 1:
        plan.tell(
            path, f"line {number} is several lines glued together", f"write its {len(values)} objects in a line each"
        )


def _rewrite(plan: Plan, path: Path, values: list[Any]) -> None:
    if any(damage.file == str(path) for damage in plan.damages):
        plan.contents[path] = b"".join(encode(value) + b"\n" for value in values)


def plan_values(directory: Path) -> Iterator[Plan]:
    """Plan the mending of the plugins' values: a plan for each damaged file."""
    for path in sorted((directory / "values").glob("*.json")):
        try:
            content = json.loads(path.read_bytes())
            dict(content["values"], space=content["space"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            plan = Plan(contents={path: None})
            what = f"the values cannot be read ({type(error).__name__}: {error})"
            plan.tell(path, what, "move the file aside: the plugin begins without stored values")
            yield plan


def _read(path: Path) -> list[Any]:
    """What each line of the whole steps holds: its objects, or in words why there is none. Every line of a step but the
    last begins with a blank; the rest of a torn step was never acknowledged. Raises `OSError`."""
    texts = path.read_bytes().split(b"\n") if path.exists() else [b""]
    if isinstance(_objects(texts[-1]), str):
        texts.pop()
    while texts and (texts[-1].startswith(b" ") or not texts[-1].strip()):
        texts.pop()
    return [_objects(text) for text in texts if text.strip()]


def _objects(text: bytes) -> list[dict[str, Any]] | str:
    if b"\0" in text:
        return "holds a block of zeros, as after a power cut"
    values: list[object] = []
    try:
        rest = text.decode().strip()
        while rest:
            value, end = json.JSONDecoder().raw_decode(rest)
            values.append(value)
            rest = rest[end:].lstrip()
    except (ValueError, RecursionError):
        return "is not JSON"
    if not all(isinstance(value, dict) for value in values):
        return "is no JSON object"
    return cast("list[dict[str, Any]]", values)
