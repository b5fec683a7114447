"""The transcripts that coding agents keep themselves: their calls of late, and the calls that no judge has seen.

Nothing is changed there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from hooksdk.cli._configuration import load_config
from hooksdk.cli._console import counted
from hooksdk.cli._guard.hooks import matching_files, own_folder
from hooksdk.cli._options import Scope
from hooksdk.errors import ConfigError
from hooksdk.guard import AGENTS, GuardConfig, last_seen
from hooksdk.values import JsonObject, as_list, as_object, is_object

# The most characters of a line that is read.
MAX_LINE = 20_000_000
# The days of transcripts that are compared with what the judge has seen.
DAYS = 7
# The most bytes of an agent's transcripts that are compared, the newest first.
MAX_BYTES = 100_000_000
# A newer call may be before the judge just now.
ON_ITS_WAY = timedelta(minutes=1)
_NO_TIME = datetime.min.replace(tzinfo=UTC)

# A call in a transcript: session, folder, tool, arguments, time.
RawCall = tuple[Any, Any, Any, Any, Any]


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """A call that an agent made.

    Attributes:
        folder: The agent's working folder; empty when its transcript does not say.
    """

    agent: str
    session: str
    folder: str
    tool: str
    arguments: Mapping[str, Any]
    when: datetime


@dataclass
class Reading:
    """The calls in an agent's transcripts, and the transcripts that could not be read."""

    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    files: int = 0
    problems: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])


def read_lately(
    agent: str, since: datetime, projects: Sequence[Path], each: Callable[[Path], None], *, max_bytes: float = math.inf
) -> Reading:
    """The calls of one agent since then, in their order. `projects` are folders whose names an agent may keep as a
    digest; `each` is told of a file before it is read. Of all files the newest are read, up to `max_bytes`."""
    inside, pattern, read = TRANSCRIPTS[agent]
    reading = Reading()
    seen: set[tuple[Any, ...]] = set()
    left: list[Path] = []
    folder = own_folder(agent) / inside
    try:
        newest = _newest(folder, pattern)
    except OSError as error:
        newest = []
        reading.problems.append((folder, str(error)))
    for changed, path in newest:
        if changed < since.timestamp():
            break
        try:
            size, untimed = path.stat().st_size, 0
            if size > max_bytes:
                left.append(path)
                continue
            max_bytes -= size
            each(path)
            reading.files += 1
            for session, place, tool, arguments, time in read(path, projects):
                call = RecordedCall(
                    agent=agent,
                    session=str(session or path.stem),
                    folder=str(place or ""),
                    tool=str(tool),
                    arguments=as_object(arguments),
                    when=_moment(time),
                )
                untimed += call.when == _NO_TIME
                key = (call.session, call.when, call.tool, json.dumps(call.arguments, sort_keys=True))
                if call.when >= since and key not in seen:  # a resumed session has the lines of the one before it
                    seen.add(key)
                    reading.calls.append(call)
            if untimed:
                raise ValueError(f"{untimed} of its calls do not say when they were made")
        except (OSError, ValueError, RecursionError) as error:
            reading.problems.append((path, str(error) or type(error).__name__))
    if left:
        more = f", and neither were {len(left) - 1} more" if left[1:] else ""
        reading.problems.append((left[0], f"it was not read{more}: it and what is newer are too large"))
    reading.calls.sort(key=lambda call: call.when)
    return reading


def _newest(folder: Path, pattern: str) -> list[tuple[float, Path]]:
    """Files with the time of their last change, the newest first. Raises `OSError` for a folder that may not be
    read."""
    found: list[tuple[float, Path]] = []
    for path in matching_files(folder, pattern):
        with suppress(OSError):  # removed meanwhile
            if path.is_file():
                found.append((path.stat().st_mtime, path))
    return sorted(found, reverse=True)


def _lines(path: Path) -> Iterator[JsonObject]:
    """The objects of a file of JSON lines. An unfinished last line is left out: an agent may be writing it."""
    broken = read = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line) if len(line) <= MAX_LINE else None
            except (ValueError, RecursionError):
                entry = None
            if is_object(entry):
                read += 1
                yield entry
            elif line.strip():
                broken += line.endswith("\n") or not read
    if broken:
        raise ValueError(f"{broken} of its lines are no JSON objects; the others were read")


def _objects(value: object) -> Iterator[JsonObject]:
    """The items of a JSON array, each as an object."""
    return map(as_object, as_list(value))


def _moment(text: Any) -> datetime:
    """The time of a transcript's entry; `_NO_TIME` for an unreadable or impossible one."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return _NO_TIME
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if 2000 < moment.year < 9999 else _NO_TIME


def _claude_code(path: Path, projects: Sequence[Path]) -> Iterator[RawCall]:  # noqa: ARG001 - one form for all
    for entry in _lines(path):
        content = as_object(entry.get("message")).get("content") if entry.get("type") == "assistant" else ()
        for block in _objects(content):
            if block.get("type") == "tool_use":
                when = entry.get("timestamp")
                yield entry.get("sessionId"), entry.get("cwd"), block.get("name"), block.get("input"), when


def _codex(path: Path, projects: Sequence[Path]) -> Iterator[RawCall]:  # noqa: ARG001 - one form for all
    session, folder = None, None
    for entry in _lines(path):
        payload = as_object(entry.get("payload"))
        if entry.get("type") in {"session_meta", "turn_context"}:
            # A sub-agent's file has the id of the session that it works for; a fork has its original's id below its own.
            session = session or payload.get("session_id") or payload.get("id")
            folder = payload.get("cwd") or folder
        kind = payload.get("type") if entry.get("type") == "response_item" else ""
        if kind == "function_call":
            arguments = as_object(_json(payload.get("arguments")))
        elif kind == "custom_tool_call":
            arguments = {"input": payload.get("input")}
        elif kind == "local_shell_call":
            arguments = as_object(payload.get("action"))
        else:
            continue
        tool = payload.get("name") or "local_shell"
        yield session, arguments.get("workdir") or folder, tool, arguments, entry.get("timestamp")


def _gemini(path: Path, projects: Sequence[Path]) -> Iterator[RawCall]:
    # A file of one object, or since 0.61 of lines, of which the first has no messages yet.
    is_lines = path.suffix == ".jsonl"
    entries = _lines(path) if is_lines else iter([as_object(json.loads(path.read_text("utf-8")))])
    head = as_object(next(entries, None))
    if "messages" not in head and "sessionId" not in head:
        raise ValueError("it has no list of messages, so its form is not known")
    # The agent keeps only the digest of the folder.
    folders = {hashlib.sha256(str(folder).encode()).hexdigest(): folder for folder in projects}
    # A sub-agent's file lies in a folder with the id of the session that it works for.
    session = path.parent.name if head.get("kind") == "subagent" else head.get("sessionId")
    for message in _objects(head["messages"]) if "messages" in head else chain([head], entries):
        for call in _objects(message.get("toolCalls")):
            # The call's own time is that of its end.
            when = message.get("timestamp") or call.get("timestamp")
            yield session, folders.get(str(head.get("projectHash"))), call.get("name"), call.get("args"), when


def _qwen(path: Path, projects: Sequence[Path]) -> Iterator[RawCall]:  # noqa: ARG001 - one form for all
    for entry in _lines(path):
        for part in _objects(as_object(entry.get("message")).get("parts")):
            if call := as_object(part.get("functionCall")):
                when = entry.get("timestamp")
                yield entry.get("sessionId"), entry.get("cwd"), call.get("name"), call.get("args"), when


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return {"arguments": text}


# The transcripts of each agent: their folder in the agent's own, the pattern of their names, and their reader.
TRANSCRIPTS: Mapping[str, tuple[str, str, Callable[[Path, Sequence[Path]], Iterator[RawCall]]]] = {
    "claude-code": ("projects", "**/*.jsonl", _claude_code),
    "codex": ("sessions", "**/rollout-*.jsonl", _codex),
    "gemini": ("tmp", "*/chats/**/*.json*", _gemini),
    "qwen": ("projects", "*/chats/*.jsonl", _qwen),
}


@dataclass(frozen=True)
class Guarded:
    """An installation of the guard, and its time.

    Attributes:
        since: Seconds since 1970.
    """

    agent: str
    scope: Scope
    file: Path
    since: float

    def counts_for(self, call: RecordedCall, began: str) -> bool:
        """True for a call that the judge should have seen, of a session that began in this folder."""
        is_here = self.scope in ("user", "managed") or Path(began) == self.file.parent.parent
        return is_here and call.when.timestamp() > self.since


@dataclass
class Unseen:
    """A session with calls that the judge has not seen.

    Attributes:
        folder: The folder of its last call; empty when the transcript does not say.
    """

    agent: str
    session: str
    folder: str
    last: datetime
    calls: int = 0

    def __str__(self) -> str:
        where = f" in {self.folder}" if self.folder else ""
        what = f"{counted(self.calls, 'call')} of its tools that no judge has seen, the last at"
        when = f"{self.last.astimezone():%Y-%m-%d %H:%M}"
        return f"{AGENTS[self.agent].title}'s session {self.session}{where} made {what} {when}"


def unseen_sessions(installed: Sequence[Guarded], here: Path) -> tuple[list[Unseen], list[str]]:
    """The sessions with unseen calls, the newest first, and why a transcript could not be read. `here` is a folder that
    can be found by its digest, which is all that some agents keep."""
    found: dict[tuple[str, str], Unseen] = {}
    problems: list[str] = []
    now = datetime.now(UTC)
    earliest = now - timedelta(days=min(DAYS, _days_kept()))
    for agent in dict.fromkeys(place.agent for place in installed):
        own = [place for place in installed if place.agent == agent]
        since = max(earliest, datetime.fromtimestamp(min(place.since for place in own), UTC))
        folders = [here, *(place.file.parent.parent for place in own)]
        reading = read_lately(agent, since, folders, lambda _path: None, max_bytes=MAX_BYTES)
        problems += [f"{path} is not compared with what the judge has seen: {why}" for path, why in reading.problems]
        began, seen = dict[str, str](), dict[str, float]()
        for call in reading.calls:
            folder = began.setdefault(call.session, call.folder)
            if call.session not in seen:
                seen[call.session] = last_seen(agent, call.session)
            is_seen = call.when.timestamp() <= seen[call.session] + 1 or abs(call.when - now) < ON_ITS_WAY
            if not is_seen and any(place.counts_for(call, folder) for place in own):
                one = found.setdefault((agent, call.session), Unseen(agent, call.session, "", call.when))
                one.calls, one.last, one.folder = one.calls + 1, call.when, call.folder
    return sorted(found.values(), key=lambda one: one.last, reverse=True), problems


def _days_kept() -> int:
    """The days for which the judge knows the sessions that it has seen."""
    try:
        return GuardConfig.of(load_config()).keep
    except (ConfigError, ValueError):  # the judge refuses every call then
        return GuardConfig().keep
