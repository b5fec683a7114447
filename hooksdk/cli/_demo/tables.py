"""A plugin of the light demo: spreadsheets, kept as CSV files."""

from __future__ import annotations

import csv
import html
import json
import statistics
from collections import Counter
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

    @tool
    def append_row(self, path: str, values: list[str]) -> str:
        """Add one row at the end of a spreadsheet.

        Args:
            path: The spreadsheet.
            values: The row's values, from left to right.

        """
        table = _read(path)
        _check_width(table, [values])
        _write(path, [*table, values])
        return f"row {len(table) + 1} added to {path}"

    @tool(annotations=Annotations(destructive=True))
    def delete_rows(self, path: str, first_row: int, last_row: int) -> str:
        """Delete rows from a spreadsheet; those below move up.

        Args:
            path: The spreadsheet.
            first_row: The number of the first row to delete; the headings, row 1, cannot be deleted.
            last_row: The number of the last one.

        """
        table = _read(path)
        begin = max(first_row - 1, 1)
        removed = len(table[begin:last_row])
        del table[begin:last_row]
        _write(path, table)
        return f"{removed} rows deleted from {path}"

    @tool
    def set_cell(self, path: str, row: int, column: str, value: str) -> str:
        """Set the value of a single cell of a spreadsheet.

        Args:
            path: The spreadsheet.
            row: The number of the row; 1 is the row with the headings.
            column: The heading of the column.
            value: What is to stand there.

        """
        table = _read(path)
        at = _column(table, column)
        if not 1 <= row <= len(table):
            raise ToolError(f"{path} has no row {row}: it has {len(table)}")
        before, table[row - 1][at] = table[row - 1][at], value
        _write(path, table)
        return f"{column} of row {row} was {before!r} and is {value!r}"

    @tool
    def add_column(self, path: str, name: str, value: str = "") -> str:
        """Add a column at the right of a spreadsheet.

        Args:
            path: The spreadsheet.
            name: The new heading.
            value: What stands in each of its cells.

        """
        head, *rows = _read(path)
        _write(path, [[*head, name], *([*row, value] for row in rows)])
        return f"{path} has {len(head) + 1} columns now"

    @tool
    def rename_column(self, path: str, name: str, new_name: str) -> str:
        """Change the heading of a column.

        Args:
            path: The spreadsheet.
            name: The heading as it is.
            new_name: The heading as it is to be.

        """
        table = _read(path)
        table[0][_column(table, name)] = new_name
        _write(path, table)
        return f"{name} is {new_name} now"

    @tool
    def sort_spreadsheet(self, path: str, column: str, descending: bool = False) -> str:
        """Sort the rows of a spreadsheet by one column.

        Args:
            path: The spreadsheet.
            column: The heading of the column to sort by.
            descending: The greatest value first.

        """
        table = _read(path)
        at = _column(table, column)
        _write(path, [table[0], *sorted(table[1:], key=lambda row: row[at], reverse=descending)])
        return f"{path} is sorted by {column}"

    @tool(annotations=READS)
    def filter_rows(self, path: str, column: str, equals: str) -> str:
        """Read the rows of a spreadsheet in which a column has a certain value, as JSON.

        Args:
            path: The spreadsheet.
            column: The heading of the column.
            equals: The value.

        """
        table = _read(path)
        at = _column(table, column)
        return json.dumps({"values": [row for row in table[1:] if row[at] == equals]}, ensure_ascii=False)

    @tool(annotations=READS)
    def describe_spreadsheet(self, path: str) -> str:
        """Tell the headings of a spreadsheet, and how many rows it has.

        Args:
            path: The spreadsheet.

        """
        table = _read(path)
        return json.dumps({"columns": table[0], "rows": len(table) - 1}, ensure_ascii=False)

    @tool(annotations=READS)
    def summarize_column(self, path: str, column: str) -> str:
        """Compute minimum, maximum, mean and median of a column of numbers.

        Args:
            path: The spreadsheet.
            column: The heading of the column.

        """
        table = _read(path)
        at = _column(table, column)
        try:
            values = [float(row[at]) for row in table[1:]]
        except ValueError as error:
            raise ToolError(f"{column} is not a column of numbers: {error}") from None
        if not values:
            raise ToolError(f"{path} has no rows yet")
        parts = (min(values), max(values), statistics.fmean(values), statistics.median(values))
        return json.dumps(dict(zip(("minimum", "maximum", "mean", "median"), parts, strict=True)))

    @tool(annotations=READS)
    def count_values(self, path: str, column: str) -> str:
        """Count how often each value stands in a column.

        Args:
            path: The spreadsheet.
            column: The heading of the column.

        """
        table = _read(path)
        at = _column(table, column)
        return json.dumps(dict(Counter(row[at] for row in table[1:]).most_common()), ensure_ascii=False)

    @tool
    def export_spreadsheet_as_html(self, path: str, html_path: str) -> str:
        """Write a spreadsheet as an HTML page with one table.

        Args:
            path: The spreadsheet.
            html_path: The page to write.

        """
        lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in _read(path)]
        body = "\n".join(f"<tr>{line}</tr>" for line in lines)
        Path(html_path).write_text(f"<!doctype html><table>\n{body}\n</table>\n", "utf-8")
        return f"{html_path} written"


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


def _column(table: Rows, name: str) -> int:
    if name not in table[0]:
        raise ToolError(f"there is no column {name!r}; the columns are {', '.join(table[0])}")
    return table[0].index(name)


def _check_width(table: Rows, rows: Rows) -> None:
    wrong = next((number for number, row in enumerate(rows, 1) if len(row) != len(table[0])), None)
    if wrong is not None:
        raise ToolError(
            f"row {wrong} of yours has {len(rows[wrong - 1])} values, and there are {len(table[0])} columns"
        )
