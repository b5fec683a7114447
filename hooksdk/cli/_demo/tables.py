"""A plugin of the light demo: spreadsheets, kept as CSV files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from hooksdk import Annotations, ToolError, tool

Rows = list[list[str]]
READS = Annotations(read_only=True)


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
        _check_width(table, rows)
        begin = at_row - 1
        if not 0 <= begin <= len(table):
            raise ToolError(f"row {at_row} is beyond the end: the next free row is {len(table) + 1}")
        table[begin : begin + len(rows)] = rows
        _write(path, table)
        return f"{len(rows)} rows written to {path}, which has {len(table)} rows now"

    @tool(annotations=READS)
    def read_rows(self, path: str, first_row: int, last_row: int) -> str:
        """Read a range of rows from a spreadsheet, as JSON.

        Args:
            path: The spreadsheet.
            first_row: The number of the first row; 1 is the row with the headings.
            last_row: The number of the last row.

        """
        return json.dumps({"values": _read(path)[max(first_row - 1, 0) : last_row]}, ensure_ascii=False)


def _read(path: str) -> Rows:
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            table = list(csv.reader(file))
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {error.strerror}") from None
    if not table:
        raise ToolError(f"{path} is empty: it has no row of headings")
    return table


def _write(path: str, table: Rows) -> None:
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(table)


def _check_width(table: Rows, rows: Rows) -> None:
    wrong = next((number for number, row in enumerate(rows, 1) if len(row) != len(table[0])), None)
    if wrong is not None:
        raise ToolError(
            f"row {wrong} of yours has {len(rows[wrong - 1])} values, and there are {len(table[0])} columns"
        )
