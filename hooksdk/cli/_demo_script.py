"""What the demo's model does: a function of what it is sent, so it really must find its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

from hooksdk.testing import Call, Turn, call

FILE_NAME = "weather-station.xlsx"
PROMPT = "Put the log of our repository into a spreadsheet, and check that it is right."
NEEDS = {
    # What to search for, and the parameters that the right tool must have.
    "log": ("show the commit log of a git repository", {"repo_path", "max_count"}),
    "create": ("create a new excel workbook", {"path", "sheets"}),
    "write": ("write rows of values into spreadsheet cells", {"path", "sheet", "at", "rows"}),
    "read": ("read a range of spreadsheet cells", {"path", "sheet", "range"}),
}
HEADINGS = ["commit", "author", "date", "message"]

Answer = Call | str
Job = Generator[Answer, Turn, None]


def scripted_secretary(repository: Path, folder: Path, elsewhere: Path) -> Callable[[Turn], Answer]:
    """A script that logs `repository` into a spreadsheet in `folder`; it tries `elsewhere` first."""
    job: list[Job] = []

    def script(turn: Turn) -> Answer:
        if not job:
            job.append(_work(turn, repository, folder, elsewhere))
            return next(job[0])
        return job[0].send(turn)

    return script


def _work(turn: Turn, repository: Path, folder: Path, elsewhere: Path) -> Job:
    tools = yield from _find_tools(turn)
    if missing := [what for what in NEEDS if what not in tools]:
        yield f"I found no tool to {' or '.join(missing)}, so I cannot do this."
        return
    use = _caller(turn)

    turn = yield use(tools["log"], repo_path=str(repository), max_count=100)
    rows = _read_log(turn.result.text)
    if turn.result.is_error or not rows:
        yield f"The log could not be read: {turn.result.text[:200]}"
        return

    path = elsewhere / FILE_NAME
    turn = yield use(tools["create"], path=str(path), sheets=["Log"])
    if turn.result.is_error:
        # The refusal says where spreadsheets belong.
        path = folder / FILE_NAME
        turn = yield use(tools["create"], path=str(path), sheets=["Log"])
    if turn.result.is_error:
        yield f"I was not allowed to make the spreadsheet: {turn.result.text[:200]}"
        return

    turn = yield use(tools["write"], path=str(path), sheet="Log", at="A1", rows=[HEADINGS, *rows])
    turn = yield use(tools["read"], path=str(path), sheet="Log", range=f"A1:D{len(rows) + 1}")
    same = not turn.result.is_error and _cells(turn.result.text) == len(rows) + 1
    answer = f"{len(rows)} commits, {'all' if same else 'NOT all'} of them in {path.name}."

    if "trim-tool-result" in turn.offered:
        turn = yield call("list-tool-results", min_characters=1000)
        if handle := _longest(turn.result.text, tools["log"]):
            authors = sorted({row[1] for row in rows})
            replacement = f"{len(rows)} commits by {', '.join(authors)}; all of them are in {path.name}."
            yield call("trim-tool-result", id=handle, replacement=replacement, reason="it is in the spreadsheet now")
            yield call("list-tool-results", min_characters=1000)
    yield answer


def _find_tools(turn: Turn) -> Generator[Answer, Turn, dict[str, str]]:
    """By search where a bridge is offered, else among the definitions that are shown."""
    if "tool_search" not in turn.offered:
        known = {name: set(_properties(definition)) for name, definition in turn.definitions.items()}
        fitting = {what: [name for name, has in known.items() if needs <= has] for what, (_, needs) in NEEDS.items()}
        return {what: names[0] for what, names in fitting.items() if names}
    turn = yield call("tool_search", queries=[query for query, _ in NEEDS.values()])
    names: dict[str, str] = {}
    for (what, (_, needs)), group in zip(NEEDS.items(), turn.result.json()["results"], strict=True):
        for hit in group["hits"]:
            if what not in names and needs <= set(re.findall(r"(\w+)\??:", hit["call"])):
                names[what] = hit["name"]
    return names


def _properties(definition: Mapping[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = definition["parameters"] or {}
    return parameters.get("properties", {})


def _caller(turn: Turn) -> Callable[..., Call]:
    def use(tool: str, **arguments: Any) -> Call:
        if tool in turn.offered:
            return Call(tool, arguments)
        return call("tool_call", name=tool, arguments=arguments)

    return use


def _read_log(text: str) -> list[list[str]]:
    entries = re.findall(r"Commit: (\S+)\nAuthor: (.*?)\nDate: (\S+).*?\nMessage: (.*?)\n", text)
    return [[commit[:10], author, date, message] for commit, author, date, message in entries]


def _cells(text: str) -> int:
    try:
        return len(json.loads(text)["values"])
    except (ValueError, KeyError, TypeError):
        return -1


def _longest(text: str, tool: str) -> str | None:
    """The handle of the largest result of this tool that can be trimmed."""
    results = [one for one in json.loads(text)["results"] if one["trimmable"] and one["tool"] == tool]
    best = max(results, key=lambda one: one["characters"], default=None)
    return str(best["handle"]) if best else None
