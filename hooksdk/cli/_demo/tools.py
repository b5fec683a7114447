"""The plugins of the light demo, and tools without a use among which the model has to find theirs. They need no
programs."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from hooksdk import Annotations, Tool, ToolError, tool

# One commit a line, the newest last: `commit`, `author`, `mail`, `date`, `message`, `files`.
HISTORY = "history.jsonl"
DATA = files("hooksdk.cli._demo")


def commits() -> list[dict[str, Any]]:
    """The commits of the demo's repository, the oldest first."""
    return [json.loads(line) for line in (DATA / HISTORY).read_text("utf-8").splitlines()]


def make_history(folder: Path) -> int:
    """Write the history into a new folder, where git is not needed; answers how many commits it has."""
    folder.mkdir(parents=True)
    (folder / HISTORY).write_bytes((DATA / HISTORY).read_bytes())
    return len(commits())


def other_tools() -> list[Tool]:
    """Tools that the script has no use for, and among which a model has to find the right ones. None can be run."""
    listed = json.loads((DATA / "office.json").read_text("utf-8"))
    return [Tool.from_json(one, source="plugin", owner=owner) for owner, tools in listed.items() for one in tools]


class Commits:
    """Reads the history of a repository."""

    plugin_id = "commits"

    @tool
    def commit_log(self, repo_path: str, max_count: int = 10) -> str:
        """Show the commit log of a repository, the newest commit first.

        Args:
            repo_path: The repository's folder.
            max_count: How many commits to show at most.

        """
        path = Path(repo_path) / HISTORY
        if not path.is_file():
            raise ToolError(f"{repo_path} is no repository: it has no file {HISTORY}")
        newest = [json.loads(line) for line in path.read_text("utf-8").splitlines()[-max_count:]]
        shown = ("commit", "author", "date", "message")
        entries = ("".join(f"{name.capitalize()}: {one[name]}\n" for name in shown) for one in reversed(newest))
        return "\n".join(entries)


class Tables:
    """Makes, reads and changes spreadsheets."""

    plugin_id = "tables"

    @tool
    def create_spreadsheet(self, path: str, columns: list[str]) -> str:
        """Create a new spreadsheet (CSV) with these column headings. There must be no such file yet.

        Args:
            path: Where the file is to be.
            columns: The headings, from left to right.

        """
        file = Path(path)
        if file.exists():
            raise ToolError(f"{path} is there already: write into it, or choose another name")
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(path, [columns])
        return f"{path} made, with {len(columns)} columns"

    @tool
    def write_rows(self, path: str, rows: list[list[str]], at_row: int) -> str:
        """Write rows of values into the cells of a spreadsheet, over what is there.

        Args:
            path: The spreadsheet.
            rows: The values, row by row.
            at_row: The number of the first row to write; 1 is the row with the headings.

        """
        table = _read(path)
        width = len(table[0])
        for number, row in enumerate(rows, 1):
            if len(row) != width:
                raise ToolError(f"row {number} of yours has {len(row)} values, and there are {width} columns")
        begin = at_row - 1
        if not 0 <= begin <= len(table):
            raise ToolError(f"row {at_row} is beyond the end: the next free row is {len(table) + 1}")
        table[begin : begin + len(rows)] = rows
        _write(path, table)
        return f"{len(rows)} rows written to {path}, which has {len(table)} rows now"

    @tool(annotations=Annotations(read_only=True))
    def read_rows(self, path: str, first_row: int, last_row: int) -> str:
        """Read a range of rows from a spreadsheet, as JSON.

        Args:
            path: The spreadsheet.
            first_row: The number of the first row; 1 is the row with the headings.
            last_row: The number of the last row.

        """
        return json.dumps({"values": _read(path)[max(first_row - 1, 0) : last_row]}, ensure_ascii=False)


def _read(path: str) -> list[list[str]]:
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            table = list(csv.reader(file))
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {error.strerror}") from None
    if not table:
        raise ToolError(f"{path} is empty: it has no row of headings")
    return table


def _write(path: str, table: list[list[str]]) -> None:
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(table)
