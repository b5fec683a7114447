"""What a command found, said once: `--json` prints its document, people get the lines and tables that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from rich.cells import cell_len
from rich.console import Console, RenderableType

from hooksdk.cli._console import one_line, print_columns, print_json, print_line, printable, safe, stdout_console


@final
class View:
    """The answer of one command. `show` prints it to stdout: as a document, or as lines and tables.

    `line` and `table` take any text: whatever a name, a reply or an error holds stays in its line and steers no
    terminal."""

    def __init__(self, document: Mapping[str, Any], *, indent: int = 12, wraps: bool = False) -> None:
        """`document` is what `--json` prints behind `schema`, and `indent` how many cells labels take. With `wraps` a
        long line goes on below itself on a terminal, behind a label that is dim unless it has a style."""
        self.document = {"schema": 1, **document}
        self._indent = indent
        self._wraps = wraps
        self._parts: list[Callable[[Console], None]] = []

    def line(self, label: str, text: object = "", style: str = "") -> None:
        """Add a line: a text behind its label, in one line whatever it holds."""
        head = f"[{style}]{safe(label)}[/]" if style and label else safe(label)
        if self._wraps:
            self._parts.append(lambda console: print_line(console, head, one_line(text), indent=self._indent))
        else:
            gap = " " * max(self._indent - cell_len(label), 1)
            self.markup(f"{head}{gap}{one_line(text)}")

    def lines(self, label: str, texts: Sequence[object], style: str = "") -> None:
        """Add a line for each text, all behind the same label."""
        for text in texts:
            self.line(label, text, style)

    def markup(self, markup: RenderableType = "") -> None:
        """Add a line of rich's markup, an empty one by default, or anything else that rich prints. Others' words in
        markup have to go through `one_line`."""
        self._parts.append(lambda console: console.print(markup, soft_wrap=isinstance(markup, str)))

    def text(self, text: str) -> None:
        """Add a text as it is, but for what could steer a terminal."""
        self._parts.append(lambda _console: print(printable(text)))

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str | int]], *, numbers: str = "") -> None:
        """Add a table, of which no cell is wrapped. Integers are written with commas; `numbers` is the heading of a
        column that stands to the right."""
        cells = [[_cell(cell) for cell in row] for row in rows]
        self._parts.append(lambda _console: print_columns(headings, cells, numbers=numbers))

    def show(self, *, as_json: bool) -> None:
        """Print the document, or what was added for people."""
        if as_json:
            print_json(self.document)
            return
        console = stdout_console()
        for part in self._parts:
            part(console)


def _cell(cell: str | int) -> str:
    return f"{cell:,}" if isinstance(cell, int) else printable(cell).replace("\n", " ").replace("\t", " ")
