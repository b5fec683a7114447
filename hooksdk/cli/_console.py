"""The commands' words to a person: text made safe for a terminal, tables, warnings and problems; and the answer of a
command, said once: `--json` prints its document, people get the lines and tables that belong to it."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.text import Text

from hooksdk.errors import HookSDKError
from hooksdk.values import clip

logger = logging.getLogger("hooksdk")

# The least cells of a table's last column, on a terminal of any width.
_LAST_COLUMN_CELLS = 20
# The most characters of a first sentence; some descriptions have no other.
_SENTENCE_CHARS = 300


class CommandProblem(HookSDKError):
    """The reason why a command cannot go on, in one line."""


class _Answer(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end the process with 1; `run` in _app.py decides


class _Progress(Console):
    def on_broken_pipe(self) -> None:
        self.quiet = True  # rich would end the process; without a reader of the progress the answer still comes


def stdout_console() -> Console:
    """The console for the answer."""
    return _Answer(highlight=False, emoji=False)


def stderr_console() -> Console:
    """The console for everything but the answer."""
    return _Progress(stderr=True, highlight=False, emoji=False)


def says_yes(console: Console, question: str) -> bool:
    """Ask the person at the terminal; `question` is rich's markup. Only keys typed after the question count."""
    from hooksdk.desk.terminal import read_typed

    answer = read_typed(lambda: console.print(f"{question} \\[y/N] ", end="", soft_wrap=True))
    return answer.lower() in {"y", "yes"}


def complain(text: str) -> None:
    """Say what is wrong, on stderr."""
    stderr_console().print(f"[red]hooksdk:[/red] {safe(text)}", soft_wrap=True)


def print_json(document: Any) -> None:
    """Print one JSON document to stdout."""
    print(json_text(document, indent=2))


def json_text(document: Any, *, indent: int | None = None) -> str:
    """A document as JSON for stdout, in ASCII for an encoding that lacks characters. Characters that could steer a
    terminal are escaped, so the document means the same."""
    encoding = str(getattr(sys.stdout, "encoding", "utf-8")).lower()
    text = json.dumps(document, indent=indent, ensure_ascii=not encoding.startswith("utf"))
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def printable(text: str) -> str:
    """The text without characters that steer a terminal or reorder words: names, titles and replies are others'
    words."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def safe(value: object) -> str:
    """The value's text as rich prints it: printable, and never markup."""
    return escape(printable(str(value)))


def one_line(value: object) -> str:
    """The value's text in one line, `safe`: others' words cannot look like a line of ours."""
    return safe(" ".join(str(value).split()))


def first_line(text: str) -> str:
    """The first line of a text that is not blank, `safe` and not too long."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return one_line(clip(line, _SENTENCE_CHARS))


def print_line(console: Console, label: str, text: str, *, indent: int = 12) -> None:
    """Print markup behind a label, which is dim unless it has a style of its own. On a terminal the text goes on below
    itself, and is broken at blanks only: a word that is too long, such as a path, moves to the left as far as it
    must."""
    head = Text().append_text(Text.from_markup(label, style="" if label.startswith("[") else "dim"))
    head.append(" " * max(indent - head.cell_len, 1 if label else indent))
    body = Text.from_markup(text)
    if not console.is_terminal:
        console.print(head + body, soft_wrap=True)
        return
    for number, line in enumerate(body.divide(_breaks(body.plain, console.width - indent))):
        line.rstrip()
        start = head if number == 0 else Text(" " * indent)
        too_long = start.cell_len + line.cell_len - console.width
        if too_long > 0 and number == 0 and label:
            head.rstrip()
            console.print(head, soft_wrap=True)
            start = Text(" " * indent)
        if too_long > 0:
            start = Text(" " * max(console.width - line.cell_len, 0))
        console.print(start + line, soft_wrap=True)


def _breaks(text: str, width: int) -> list[int]:
    """The places of line breaks: before words only, so that a line has at least one word."""
    breaks: list[int] = []
    used = 0
    for word in re.finditer(r"\S+\s*", text):
        if used and used + cell_len(word[0].rstrip()) > width:
            breaks.append(word.start())
            used = 0
        used += cell_len(word[0])
    return breaks


def first_sentence(text: str) -> str:
    """The first sentence of a description, in one line."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return clip(printable(re.split(r"(?<=[.!?])\s+(?![a-z])", paragraph, maxsplit=1)[0]), _SENTENCE_CHARS)


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: str = "") -> None:
    """Print a table to stdout without wrapping a cell; `numbers` is the heading of a column of numbers, if there is
    one. On a terminal the last column is cut at the end of the line. (A table of rich's would leave out whole columns
    instead.)"""
    console = stdout_console()
    widths = [max(cell_len(row[at]) for row in (headings, *rows)) for at in range(len(headings) - 1)]
    room = max(console.width - sum(widths) - 2 * len(widths), _LAST_COLUMN_CELLS) if console.is_terminal else None
    right = headings.index(numbers) if numbers else -1
    for row in (headings, *rows):
        blanks = [" " * (width - cell_len(cell)) for width, cell in zip(widths, row, strict=False)]
        cells = [
            blank + cell if at == right else cell + blank
            for at, (blank, cell) in enumerate(zip(blanks, row, strict=False))
        ]
        last = row[-1] if room is None or cell_len(row[-1]) <= room else f"{set_cell_size(row[-1], room - 1)}…"
        console.print(escape("  ".join([*cells, last])), soft_wrap=True, style="bold" if row is headings else None)


def counted(number: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _WarningPrinter(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = safe(record.getMessage())
        if message not in self._printed:
            self._printed.add(message)
            self._console.print(f"[yellow]warning[/]     {message}", soft_wrap=True)


@contextmanager
def warnings_shown(console: Console | None = None) -> Generator[None]:
    """Print what hooksdk logs as a warning or worse, each once, by default to stderr."""
    handler = _WarningPrinter(console or stderr_console())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


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
