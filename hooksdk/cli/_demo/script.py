"""The demo's model as a script: it answers by the messages that it is sent, so it really must find its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooksdk.testing import Call, Turn, call
from hooksdk.values import as_object

PROMPT = "Make a spreadsheet of the log of our repository, and check that it is right."
HEADINGS = ["commit", "author", "date", "message"]

Answer = Call | str
Job = Generator[Answer, Turn, None]
Rows = list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Office:
    """The tools that a spreadsheet is made with: what to search for, and how they are called.

    Attributes:
        needs: By what it is for (log, create, write, read): the query, and the parameters that the right tool must
            have.
        create: The arguments beside `path`.
        read: Of the number of rows, with the headings.
    """

    file_name: str
    needs: Mapping[str, tuple[str, set[str]]]
    create: Mapping[str, Any]
    write: Callable[[Rows], dict[str, Any]]
    read: Callable[[int], dict[str, Any]]


LIGHT = Office(
    file_name="weather-station.csv",
    needs={
        "log": ("show the commit log of a repository", {"repo_path", "max_count"}),
        "create": ("create a new spreadsheet", {"path", "columns"}),
        "write": ("write rows of values into spreadsheet cells", {"path", "rows", "at_row"}),
        "read": ("read a range of spreadsheet rows", {"path", "first_row", "last_row"}),
    },
    create={"columns": HEADINGS},
    write=lambda rows: {"rows": rows, "at_row": 2},
    read=lambda count: {"first_row": 1, "last_row": count},
)
REAL = Office(
    file_name="weather-station.xlsx",
    needs={
        "log": ("show the commit log of a git repository", {"repo_path", "max_count"}),
        "create": ("create a new excel workbook", {"path", "sheets"}),
        "write": ("write rows of values into spreadsheet cells", {"path", "sheet", "at", "rows"}),
        "read": ("read a range of spreadsheet cells", {"path", "sheet", "range"}),
    },
    create={"sheets": ["Log"]},
    write=lambda rows: {"sheet": "Log", "at": "A1", "rows": [HEADINGS, *rows]},
    read=lambda count: {"sheet": "Log", "range": f"A1:D{count}"},
)


def scripted_secretary(office: Office, repository: Path, folder: Path, elsewhere: Path) -> Callable[[Turn], Answer]:
    """A script that logs `repository` into a spreadsheet in `folder`; it tries `elsewhere` first."""
    job: list[Job] = []

    def script(turn: Turn) -> Answer:
        if not job:
            job.append(_work(turn, office, repository, folder, elsewhere))
            return next(job[0])
        return job[0].send(turn)

    return script


def _work(turn: Turn, office: Office, repository: Path, folder: Path, elsewhere: Path) -> Job:
    tools = yield from _find_tools(turn, office)
    if missing := [what for what in office.needs if what not in tools]:
        yield f"I found no tool to {' or '.join(missing)}, so I cannot do this."
        return
    offered = turn.offered

    def use(tool: str, **arguments: Any) -> Call:
        return Call(tool, arguments) if tool in offered else call("tool_call", name=tool, arguments=arguments)

    turn = yield use(tools["log"], repo_path=str(repository), max_count=100)
    rows = _read_log(turn.result.text)
    if turn.result.is_error or not rows:
        yield f"The log could not be read: {turn.result.text[:200]}"
        return

    path = elsewhere / office.file_name
    turn = yield use(tools["create"], path=str(path), **office.create)
    if turn.result.is_error:
        # The refusal says where spreadsheets belong.
        path = folder / office.file_name
        turn = yield use(tools["create"], path=str(path), **office.create)
    if turn.result.is_error:
        yield f"I was not allowed to make the spreadsheet: {turn.result.text[:200]}"
        return

    turn = yield use(tools["write"], path=str(path), **office.write(rows))
    turn = yield use(tools["read"], path=str(path), **office.read(len(rows) + 1))
    same = not turn.result.is_error and _values(turn.result.text) == [HEADINGS, *rows]
    answer = f"{len(rows)} commits, {'all' if same else 'NOT all'} of them in {path.name}."

    if "trim-tool-result" in turn.offered:
        turn = yield call("list-tool-results", min_characters=1000)
        results = json.loads(turn.result.text)["results"]
        if handle := next((one["handle"] for one in results if one["trimmable"] and one["tool"] == tools["log"]), None):
            authors = sorted({row[1] for row in rows})
            replacement = f"{len(rows)} commits by {', '.join(authors)}; all of them are in {path.name}."
            yield call("trim-tool-result", id=handle, replacement=replacement, reason="it is in the spreadsheet now")
            yield call("list-tool-results", min_characters=1000)
    yield answer


def _find_tools(turn: Turn, office: Office) -> Generator[Answer, Turn, dict[str, str]]:
    """The name of a fitting tool for each need, from a search, or from the definitions where there is no search."""
    found: list[dict[str, set[str]]] = []
    if "tool_search" in turn.offered:
        turn = yield call("tool_search", queries=[query for query, _ in office.needs.values()])
        for one in turn.result.json()["results"]:
            found.append({hit["name"]: set(re.findall(r"(\w+)\??:", hit["call"])) for hit in one["hits"]})
    else:
        parameters = {name: as_object(definition["parameters"]) for name, definition in turn.definitions.items()}
        shown = {name: set(as_object(schema.get("properties"))) for name, schema in parameters.items()}
        found = [shown] * len(office.needs)
    names: dict[str, str] = {}
    for (what, (_, needs)), tools in zip(office.needs.items(), found, strict=True):
        if fitting := [name for name, has in tools.items() if needs <= has]:
            names[what] = fitting[0]
    return names


def _read_log(text: str) -> Rows:
    entries = re.findall(r"Commit: (\S+)\nAuthor: (.*?)\nDate: (\S+).*?\nMessage: (.*?)\n", text)
    return [[commit[:10], author, date, message] for commit, author, date, message in entries]


def _values(text: str) -> Rows:
    try:
        return [[str(cell) for cell in row] for row in json.loads(text)["values"]]
    except (ValueError, KeyError, TypeError):
        return []
