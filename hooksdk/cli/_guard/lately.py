"""What coding agents did lately, read from the transcripts that they keep themselves. Nothing is changed there."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from hooksdk.cli._guard.hooks import own_folder
from hooksdk.values import as_list, as_object, is_object

MAX_LINE = 20_000_000
"""Characters of a line that is still read."""
_NO_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """One call that an agent made."""

    agent: str
    session: str
    folder: str
    """Where the agent worked; empty where its transcript does not say."""
    tool: str
    arguments: Mapping[str, Any]
    when: datetime


@dataclass
class Reading:
    """What was found, and what could not be read."""

    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    files: int = 0
    problems: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])


@dataclass(frozen=True)
class Transcripts:
    """Where an agent keeps its transcripts, and how one is read."""

    title: str
    folder: str
    """In the agent's own."""
    pattern: str
    read: Callable[[Path, Sequence[Path]], Iterator[RecordedCall]]


def read_lately(
    agent: str, since: datetime, projects: Sequence[Path], each: Callable[[Path], None], *, max_bytes: float = math.inf
) -> Reading:
    """The calls of one agent since then, in their order. `projects` are folders whose names an agent may keep as a digest;
    `each` is told of a file before it is read. Of all files the newest are read, up to `max_bytes`."""
    transcripts = TRANSCRIPTS[agent]
    reading = Reading()
    seen: set[tuple[Any, ...]] = set()
    left: list[Path] = []
    folder = own_folder(agent) / transcripts.folder
    try:
        newest = _newest(folder, transcripts.pattern)
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
            for call in transcripts.read(path, projects):
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
    """Files and when each was changed, the newest first."""
    found: list[tuple[float, Path]] = []
    for path in folder.glob(pattern):
        with suppress(OSError):  # gone since
            if path.is_file():
                found.append((path.stat().st_mtime, path))
    return sorted(found, reverse=True)


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """The objects of a file of JSON lines. A line that is none is left out: an agent may be writing the last one, whose end is not
    there yet."""
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


def _time(text: Any) -> datetime:
    """A moment as transcripts have it; the beginning of time where it is none, or none that an agent can have had."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return _NO_TIME
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if 2000 < moment.year < 9999 else _NO_TIME


def _claude_code(path: Path, projects: Sequence[Path]) -> Iterator[RecordedCall]:  # noqa: ARG001 - one form for all
    for entry in _lines(path):
        if entry.get("type") != "assistant":
            continue
        for block in map(as_object, as_list(as_object(entry.get("message")).get("content"))):
            if block.get("type") == "tool_use":
                yield RecordedCall(
                    agent="claude-code", session=str(entry.get("sessionId") or path.stem), folder=str(entry.get("cwd") or ""),
                    tool=str(block.get("name")), arguments=as_object(block.get("input")), when=_time(entry.get("timestamp")),
                )  # fmt: skip


def _codex(path: Path, projects: Sequence[Path]) -> Iterator[RecordedCall]:  # noqa: ARG001 - one form for all
    session, folder = "", ""
    for entry in _lines(path):
        payload = as_object(entry.get("payload"))
        if entry.get("type") in {"session_meta", "turn_context"}:
            # A sub-agent's own file has the id of the session that it works for, a fork below its own that of the one before it.
            session = session or str(payload.get("session_id") or payload.get("id") or "")
            folder = str(payload.get("cwd") or folder)
        kind = payload.get("type") if entry.get("type") == "response_item" else ""
        if kind == "function_call":
            arguments = as_object(_json(payload.get("arguments")))
        elif kind == "custom_tool_call":
            arguments = {"input": payload.get("input")}
        elif kind == "local_shell_call":
            arguments = as_object(payload.get("action"))
        else:
            continue
        yield RecordedCall(
            agent="codex", session=session or path.stem, folder=str(arguments.get("workdir") or folder),
            tool=str(payload.get("name") or "local_shell"), arguments=arguments, when=_time(entry.get("timestamp")),
        )  # fmt: skip


def _gemini(path: Path, projects: Sequence[Path]) -> Iterator[RecordedCall]:
    # A file of one object, or since 0.61 of lines, of which the first has no messages yet.
    entries: Iterator[Mapping[str, Any]] = (
        _lines(path) if path.suffix == ".jsonl" else iter([as_object(json.loads(path.read_text("utf-8")))])
    )
    head = as_object(next(entries, None))
    if "messages" not in head and "sessionId" not in head:
        raise ValueError("it has no list of messages, so its form is not known")
    # The agent keeps the digest of the folder alone.
    folders = {hashlib.sha256(str(folder).encode()).hexdigest(): str(folder) for folder in projects}
    # A sub-agent's file lies in a folder with the id of the session that it works for.
    session = path.parent.name if head.get("kind") == "subagent" else str(head.get("sessionId") or path.stem)
    messages: Iterable[Any] = chain([head], entries) if "messages" not in head else as_list(head.get("messages"))
    for message in map(as_object, messages):
        for call in map(as_object, as_list(message.get("toolCalls"))):
            # The call's own time is that of its end.
            yield RecordedCall(
                agent="gemini", session=session, folder=folders.get(str(head.get("projectHash")), ""), tool=str(call.get("name")),
                arguments=as_object(call.get("args")), when=_time(message.get("timestamp") or call.get("timestamp")),
            )  # fmt: skip


def _qwen(path: Path, projects: Sequence[Path]) -> Iterator[RecordedCall]:  # noqa: ARG001 - one form for all
    for entry in _lines(path):
        for part in map(as_object, as_list(as_object(entry.get("message")).get("parts"))):
            if call := as_object(part.get("functionCall")):
                yield RecordedCall(
                    agent="qwen", session=str(entry.get("sessionId") or path.stem), folder=str(entry.get("cwd") or ""),
                    tool=str(call.get("name")), arguments=as_object(call.get("args")), when=_time(entry.get("timestamp")),
                )  # fmt: skip


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return {"arguments": text}


TRANSCRIPTS: Mapping[str, Transcripts] = {
    "claude-code": Transcripts("Claude Code", "projects", "**/*.jsonl", _claude_code),
    "codex": Transcripts("Codex", "sessions", "**/rollout-*.jsonl", _codex),
    "gemini": Transcripts("Gemini CLI", "tmp", "*/chats/**/*.json*", _gemini),
    "qwen": Transcripts("Qwen Code", "projects", "*/chats/*.jsonl", _qwen),
}
"""How each agent's are read."""
