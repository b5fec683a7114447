"""The items of a history, read from a file or from objects, with the place of each."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from hooksdk import schema
from hooksdk.errors import HookSDKError, did_you_mean
from hooksdk.formats import Message, MessageFormat
from hooksdk.formats.kit import encodable
from hooksdk.transcript import MismatchError, check_message
from hooksdk.values import JsonObject, as_object, clip, is_list, is_object, kind_of

_DUMP = "Pass plain dicts; most libraries have a function for it, such as model_dump(mode='json')"
_GUESS = "Leave the format out to have it guessed, or correct this item"
# Begins every SQLite file.
_SQLITE = b"SQLite format 3\0"
# Keys of the items in an object around them: a request body, a response, a saved state.
_CONTAINERS = ("messages", "contents", "input", "output", "items", "data")


@dataclass(eq=False)
class HistoryError(HookSDKError, ValueError):
    """A history that cannot be read.

    ```python
    from hooksdk.histories import HistoryError, read_history

    try:
        read_history([{"speaker": "ann", "says": "Hello"}])
    except HistoryError as error:
        assert error.place == "item 0"
    ```

    Attributes:
        place: File and line, or which item, counted from 0.
    """

    place: str
    problem: str
    advice: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}. {self.advice}"


@dataclass(frozen=True)
class Source:
    """The items of a history.

    Attributes:
        name: The file, or nothing for objects.
        lines: The line of each item, in a file with one item a line.
        head: The object around the items, if there is one.
    """

    name: str
    items: list[JsonObject]
    lines: list[int] = field(default_factory=list[int])
    head: JsonObject = field(default_factory=dict[str, Any])
    notes: list[str] = field(default_factory=list[str])

    def place(self, index: int) -> str:
        """The place of an item, for an error."""
        if index < len(self.lines):
            return f"{self.name}, line {self.lines[index]}"
        return f"{self.name}, item {index}" if self.name else f"item {index}"

    def wrong(self, index: int, expected: str, advice: str = _GUESS) -> HistoryError:
        """The error for an item of another shape."""
        keys = ", ".join(f"'{key}'" for key in list(self.items[index])[:8]) or "none"
        return HistoryError(self.place(index), f"expected {expected}, but this item has the keys {keys}", advice)

    def need(self, index: int, key: str, item_type: type[list[Any] | dict[str, Any]], expected: str) -> Any:
        """A value that an item must have. Raises `HistoryError`."""
        value: Any = self.items[index].get(key)
        if isinstance(value, item_type):
            return self.items[index][key]
        raise self.wrong(index, expected)


def open_source(source: object, session: str | None = None) -> Source:
    """Read a path or an open file, or take objects: a list, or an object with a list inside. `session` names one of
    several conversations in a file. Raises `HistoryError`."""
    if isinstance(source, (str, Path)):
        return _from_file(Path(source), session)
    if isinstance(source, BufferedIOBase):
        return _from_content(str(getattr(source, "name", "the history")), source.read())
    return _from_value("", _plain(source))


def _plain(value: object) -> object:
    """A copy, list by list: each item may be as large as one message."""
    if isinstance(value, (list, tuple)):
        return [_plain_item(index, item) for index, item in enumerate(cast("list[object]", value))]
    if is_object(value):
        return {key: _plain(each) for key, each in value.items()}
    return _plain_item(0, value)


def _plain_item(index: int, item: object) -> object:
    try:
        return schema.clone(item)
    except schema.Uncloneable as error:
        raise HistoryError(f"item {index}", str(error), _DUMP) from None


def _from_file(path: Path, session: str | None) -> Source:
    try:
        content = path.read_bytes()
    except OSError as error:
        advice = "Check the path; pass JSON text as json.loads(text)"
        raise HistoryError(clip(str(path), 80), f"it cannot be read: {error.strerror}", advice) from None
    return _from_sqlite(path, session) if content.startswith(_SQLITE) else _from_content(path.name, content)


def _from_content(name: str, content: bytes) -> Source:
    if content.startswith(_SQLITE):
        raise HistoryError(name, "it is an SQLite file", "Pass its path")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HistoryError(name, f"it is no UTF-8 text (byte {error.start})", "Export it as JSON or JSONL") from None
    rows = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        raise HistoryError(name, "it is empty", "Pass a file with messages in it")
    whole = _parsed(rows[0][1]) if len(rows) > 1 else None
    return _from_value(name, _whole(name, text)) if whole is None else _from_rows(name, rows, text)


def _from_sqlite(path: Path, session: str | None) -> Source:
    """The items of openai-agents' `SQLiteSession`, which keeps every conversation of a program in one file."""
    import sqlite3

    name = path.name
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT session_id, message_data FROM agent_messages ORDER BY id").fetchall()
    except sqlite3.Error as error:
        problem = f"it is an SQLite file, but not one of openai-agents' sessions ({error})"
        raise HistoryError(name, problem, "Export the history as JSON") from None
    sessions = list(dict.fromkeys(str(one) for one, _ in rows))
    if len(sessions) > 1 and session not in sessions:
        listing = ", ".join(f"'{one}'" for one in sessions[:8])
        problem = f"it holds {len(sessions)} sessions: {listing}{', ...' if len(sessions) > 8 else ''}"
        hint = did_you_mean(session, sessions) if session else ""
        advice = f"Say which: read_history({name!r}, session={sessions[0]!r}), or --session {sessions[0]} of `hooksdk sessions import`"
        raise HistoryError(name, f"{problem}, and none is '{session}'.{hint}" if session else problem, advice)
    return _from_value(name, [_parsed(item) for one, item in rows if len(sessions) == 1 or str(one) == session])


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _whole(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"this is not valid JSON: {error.msg}, column {error.colno}"
        place = f"{name}, line {error.lineno}"
        raise HistoryError(place, problem, "Pass one JSON document, or one item a line") from None
    except RecursionError:
        raise HistoryError(name, "the JSON is nested too deep", "Pass a history of messages") from None


def _from_rows(name: str, rows: list[tuple[int, str]], text: str) -> Source:
    items: list[JsonObject] = []
    lines: list[int] = []
    notes: list[str] = []
    for number, line in rows:
        item = _parsed(line)
        if is_object(item):
            items.append(item)
            lines.append(number)
        elif item is None and number == rows[-1][0] and not text.endswith("\n"):
            notes.append(f"left out line {number}, which is cut off")  # its writer is not done yet, or died
        else:
            problem = (
                f"expected a JSON object, but this is {kind_of(item)}" if item is not None else "this is not valid JSON"
            )
            raise HistoryError(f"{name}, line {number}", problem, "Correct this line, or remove it")
    return Source(name, items, lines, notes=notes)


def _from_value(name: str, value: object) -> Source:
    head = as_object(value)
    if head:
        value = next((head[key] for key in _CONTAINERS if is_list(head.get(key))), [head])
    if not is_list(value):
        problem = f"expected a list of messages, but this is {kind_of(value)}"
        raise HistoryError(name or "the history", problem, "Pass the list itself, or an object with 'messages'")
    if not value:
        raise HistoryError(name or "the history", "it has no messages", "Pass a history with messages in it")
    source = Source(name, value, head=head if value != [head] else {})
    for index, item in enumerate(value):
        if not is_object(item):
            problem = f"expected an object, but this is {kind_of(item)}"
            raise HistoryError(source.place(index), problem, _DUMP)
    return source


def checked(source: Source, form: MessageFormat) -> list[Message]:
    """The items as messages of the format. Raises `HistoryError` with the place of one that is none."""
    try:
        return [check_message(encodable(message), form, index) for index, message in enumerate(source.items)]
    except MismatchError as error:
        raise wrong_message(source, error) from None


def wrong_message(source: Source, error: MismatchError) -> HistoryError:
    return HistoryError(source.place(error.position), str(error), "Correct this item, or name another format")
