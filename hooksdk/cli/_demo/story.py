"""The demo as a short story for a terminal of 80 columns and 24 lines: a line for what matters in each turn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from hooksdk import records
from hooksdk.cli._console import counted, first_line, one_line, print_line
from hooksdk.cli._run.timeline import FINE, MARKS
from hooksdk.hooks import Trace

# Seconds before each reply of the model, so that an eye can follow.
BEAT = 0.6


@final
class Story:
    """A listener for `session.on_event`. Calls that simply run share a line."""

    def __init__(self, console: Console, folder: Path, *, asks: bool = False) -> None:
        """With `asks` the person is asked, so the question itself is on the terminal, too."""
        self._console = console
        self._asks = asks
        # It stands before every path, and is left out.
        self._folder = f"{folder}/"
        self._turn = 0
        # Cells of the line that is not ended yet.
        self._used = 0
        # The ids of the calls that a line is there for already.
        self._asked: set[str] = set()
        # What the line of the open call says of the trim that it asked for.
        self._trim = ""
        self.asked = 0

    def __call__(self, event: Trace) -> None:
        """Print what this event says, if it says anything here."""
        content = event.content or records.Content()
        match event.record:
            case records.RunStarted():
                self._line(f"[bold]> {one_line(content.text)}[/]")
            case records.ToolsResolved() as record if record.tokens_offered < record.tokens:
                self._line(
                    f"{counted(record.tools, 'tool')}, {record.tokens:,} tokens: tool search shows the model "
                    f"{record.offered} of them, {record.tokens_offered:,} tokens"
                )
                if not self._asks:  # a question takes the room
                    self._console.print()
            case records.ModelCalled():
                self._turn += 1
            case records.ApprovalAsked() as record:
                self.asked += 1
                self._asked.add(record.call_id)
                if self._asks:
                    self.end_line()
                else:
                    self._line(f"{self._turn} [bold]{one_line(record.plugin)}[/] asks: {one_line(content.text)}")
            case records.TrimQueued() as record:
                sizes = f"{record.characters_before:,} to {record.characters_after:,} characters"
                self._trim = f"a result, {sizes}, once the run is over"
            case records.CallFinished() as record:
                self._call(record, content)
            case records.TrimDrained() as record:
                self._line(
                    f"after the run: the result of {one_line(record.tool)} is trimmed, {record.tokens_saved:,} tokens less "
                    "a request"
                )
            case _:
                pass

    def _call(self, record: records.CallFinished, content: records.Content) -> None:
        mark = MARKS.get(record.status, "[red]![/]")
        name = f"[bold]{one_line(record.name)}[/]"
        trim, self._trim = self._trim, ""
        if record.status not in FINE:
            reason = first_line(content.text.replace(self._folder, "")) or record.status
            self._line(f"{self._turn} {name} {mark} {reason}")
        elif groups := records.searches_in(content.text):
            hits = ", ".join(group["hits"][0]["name"] for group in groups if group["hits"])
            self._line(f"{self._turn} {name} {mark} finds {one_line(hits)}")
        elif trim:
            self._line(f"{self._turn} {name} {mark} {trim}")
        else:
            self._piece(f"{self._turn} {name} {mark}{' approved' if record.call_id in self._asked else ''}")

    def _piece(self, markup: str) -> None:
        width = cell_len(Text.from_markup(markup).plain)
        if self._used + 3 + width > self._console.width:
            self.end_line()
        self._console.print(("   " if self._used else "") + markup, end="", soft_wrap=True)
        self._used += (3 if self._used else 0) + width

    def _line(self, markup: str) -> None:
        self.end_line()
        print_line(self._console, "", markup, indent=0)

    def end_line(self) -> None:
        """Whatever is printed next begins a line."""
        if self._used:
            self._console.print()
        self._used = 0


def seen(summary: Mapping[str, Any], asked: int) -> str:
    """One line of what was to be seen; `asked` is how often an approval was asked for."""
    direct, offered = summary["tokens_direct"], summary["tokens_offered"]
    blocked = summary["tool_calls"].get("blocked", 0)
    trimmed = sum(one["trimmed"] for one in summary["results"])
    parts = [
        f"{counted(blocked, 'call')} blocked" if blocked else "",
        f"{asked} asked about" if asked else "",
        f"{counted(trimmed, 'result')} trimmed" if trimmed else "",
        f"{100 - 100 * offered / direct:.0f} % fewer tool tokens" if offered < direct else "",
    ]
    return ", ".join(filter(None, parts)) or "every call ran"
