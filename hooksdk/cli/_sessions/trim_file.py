"""`hooksdk trim`: a copy of another program's history with its old tool results short, and the same to the byte else."""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
from collections.abc import Mapping
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from hooksdk.cli._console import CommandProblem, View, counted, one_line
from hooksdk.cli._options import Json
from hooksdk.errors import StoreError
from hooksdk.formats import Message, get_format
from hooksdk.formats.content import result_of
from hooksdk.histories import History, read_history
from hooksdk.stores.files import replace_file
from hooksdk.transcript import Ledger
from hooksdk.trimming import list_results, trim
from hooksdk.values import as_object, is_list

trim_app = typer.Typer(add_completion=False)

# Keys that name the call of a result, and those of its text.
_CALLS = {"tool_call_id", "tool_use_id", "toolCallId", "call_id"}
_TEXTS = ("content", "output")
_BETWEEN = re.compile(r"[ \t\r\n,:\ufeff]*")
_decode = json.JSONDecoder().raw_decode
# Characters of a value in the file below which a trim saves nothing.
_SHORTEST = 100
# The documents of a file by their rows in a database; a file of JSON is the document 0.
Documents = Mapping[int, str]
# A document, and where in it the text of a result begins and ends.
Place = tuple[int, int, int]


@trim_app.command("trim")
def trim_history(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False)],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="NEW")],
    older: Annotated[int, typer.Option(metavar="TURNS", min=0)] = 3,
    source: Annotated[str | None, typer.Option("--format", metavar="NAME")] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID")] = None,
    replace: Annotated[bool, typer.Option("--replace")] = False,
    as_json: Json = False,
) -> None:
    """Copy another program's history with its old tool results short: OpenAI, Anthropic, Gemini, LangChain,
    pydantic-ai, openai-agents, Claude Code, OpenClaw. The rest of the file stays the same to the byte. Nothing is
    stored.

    Options:
        file: JSON, one item a line, or a database of openai-agents.
        output: The copy, in the same format.
        older: Results of so many turns ago, and before.
        source: Where it comes from; guessed by default.
        session: Of a file with several conversations, which one.
        replace: Write over NEW, which may be FILE itself.
    """
    history = read_history(file, source, session=session)
    content = file.read_bytes()
    is_database = content.startswith(b"SQLite format 3\0")
    rows = _rows(file, session) if is_database else {0: content.decode()}
    old = [one for one in list_results(history.messages, history.format) if one.trimmable and one.turns_ago >= older]
    notes = _texts(trim(history.messages, [one.handle for one in old], history.format), history.format)
    places = _places(rows, history)
    edits = {places[one.handle]: notes[one.handle] for one in old if one.handle in places}
    changed = _edited(rows, edits)
    written = _read_again(changed, history)  # what is told was measured on what is written
    if is_database and replace:
        raise CommandProblem("--replace is for files of JSON: a program may have the database open. Name another NEW")
    try:
        if not replace:
            output.touch(exist_ok=False)  # nobody else writes it now
    except FileExistsError:
        raise CommandProblem(f"{output} is there already: give another name, or --replace to write over it") from None
    except OSError as error:
        raise CommandProblem(f"{output} cannot be written: {error.strerror}") from None
    try:
        if is_database:
            _copy_rows(file, output, {row: text for row, text in changed.items() if text != rows[row]})
        else:
            replace_file(output.resolve(), changed[0].encode(), mode=file.stat().st_mode & 0o777)
    except BaseException as error:
        if not replace:
            output.unlink(missing_ok=True)
        if not isinstance(error, (OSError, StoreError, sqlite3.Error)):
            raise
        raise CommandProblem(f"{output} cannot be written: {one_line(error)}") from None
    before, after = _size(history), _size(written)
    remarks = [note for note in history.notes if note.startswith("read as")]  # all that is left out of messages stays
    if whole := len(old) - len(edits):
        remarks.append(f"left whole: {counted(whole, 'result')} whose text has no place of its own in the file")
    facts: dict[str, Any] = {"file": str(file), "output": str(output), "source": history.source, "trimmed": len(edits)}
    view = View({**facts, "before": before, "after": after, "notes": remarks}, indent=9)
    view.line("written", f"{one_line(output)}, as {history.source}", "green")
    view.line("trimmed", f"{len(edits)} of {counted(before['results'], 'tool result')}")
    for unit in ("characters", "tokens"):
        view.line("" if unit == "tokens" else "results", f"{before[unit]:,} to {after[unit]:,} {unit}")
    view.lines("note", remarks, "yellow")
    view.show(as_json=as_json)


def _size(history: History) -> dict[str, int]:
    results = list_results(history.messages, history.format)
    characters, tokens = sum(one.characters for one in results), sum(one.tokens for one in results)
    return {"results": len(results), "characters": characters, "tokens": tokens}


def _texts(messages: list[Message], form: str) -> dict[str, str]:
    """The text of each result by its handle."""
    ledger = Ledger.replay(messages, (), get_format(form))
    return {record.handle: result_of(ledger.body(record)).text for record in ledger.records}


def _places(rows: Documents, history: History) -> dict[str, Place]:
    """Where in the file each result stands, by its handle: the history is read once more, with a mark in each place
    where a result may stand. What another branch, or the arguments of a call, show of it is in no result."""
    found: list[Place] = []
    for row, text in rows.items():
        at = _between(text, 0)
        while at < len(text):
            try:
                at = _between(text, _walk(row, text, at, found))
            except json.JSONDecodeError:
                break  # the last line, which is cut off
            except RecursionError:
                raise CommandProblem("the JSON is nested too deep") from None
    mark = uuid.uuid4().hex
    marked = _edited(rows, {place: f"{mark}-{number}-" for number, place in enumerate(found)})
    again = _read_again(marked, history)
    shown = {name: re.search(f"{mark}-([0-9]+)-", text) for name, text in _texts(again.messages, again.format).items()}
    return {handle: found[int(match[1])] for handle, match in shown.items() if match}


def _walk(row: int, text: str, at: int, found: list[Place]) -> int:
    """Gather where the values of results stand in the JSON value that begins here, and answer where it ends."""
    if text[at] not in "{[":
        return _decode(text, at)[1]
    is_object, values = text[at] == "{", dict[str, tuple[int, int]]()
    at = _between(text, at + 1)
    while text[at : at + 1] not in ("}", "]"):
        key = ""
        if is_object:
            key, at = _decode(text, at)
            at = _between(text, at)
        start, at = at, _walk(row, text, at, found)
        values[key] = start, at
        at = _between(text, at)
    is_result = bool(_CALLS & values.keys()) or text[slice(*values.get("role", (0, 0)))] == '"function"'
    names = _TEXTS if is_result else ("response",) if "name" in values else ()
    for start, end in [values[name] for name in names if name in values]:
        # OpenAI takes an object there for results that are no text, such as screenshots.
        if end - start >= _SHORTEST and not (text[start] == "{" and "call_id" in values):
            while found and found[-1][:2] >= (row, start):
                found.pop()  # it stands inside of this one
            found.append((row, start, end))
    return at + 1


def _between(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _edited(rows: Documents, edits: Mapping[Place, str]) -> dict[int, str]:
    """The documents with other texts in these places."""
    pieces: dict[int, list[str]] = {row: [] for row in rows}
    ends = dict.fromkeys(rows, 0)
    for (row, start, end), new in sorted(edits.items()):
        old = _decode(rows[row], start)[0]
        pieces[row] += [rows[row][ends[row] : start], json.dumps(_in_the_shape_of(old, new))]
        ends[row] = end
    return {row: "".join([*pieces[row], text[ends[row] :]]) for row, text in rows.items()}


def _in_the_shape_of(old: Any, text: str) -> Any:
    """A text as the program writes the value in whose place it stands."""
    if is_list(old) and any("type" in as_object(one) for one in old):
        first = next((one for one in map(as_object, old) if "text" in one), {"type": "text"})
        return [{**first, "text": text}]
    body = as_object(old)
    key = next((name for name in ("output", "error", "result") if name in body), None)
    return {key: text} if key and len(body) == 1 else text if not body else {"output": text}


def _read_again(rows: Documents, history: History) -> History:
    if list(rows) == [0]:
        return read_history(BytesIO(rows[0].encode()), history.source, into=history.format)
    return read_history([json.loads(text) for text in rows.values()], history.source, into=history.format)


def _rows(file: Path, session: str | None) -> dict[int, str]:
    """The items of openai-agents' sessions, of this one where it is named."""
    query = "SELECT id, message_data FROM agent_messages WHERE ? IN (session_id, '') ORDER BY id"
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
        return dict(database.execute(query, (session or "",)).fetchall())


def _copy_rows(file: Path, output: Path, changed: Documents) -> None:
    with (
        closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(output)) as copy,
    ):
        source.backup(copy)
        with copy:
            copy.executemany(
                "UPDATE agent_messages SET message_data = ? WHERE id = ?", [(t, i) for i, t in changed.items()]
            )
        copy.execute("VACUUM")  # what was trimmed is not to lie in unused pages
    output.chmod(file.stat().st_mode & 0o777)
