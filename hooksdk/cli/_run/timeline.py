"""A run on the terminal as it happens: a function for `session.on_event`, and the model's prose as it comes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO, final

from rich.cells import cell_len, set_cell_size
from rich.console import Console

from hooksdk import records
from hooksdk.cli._console import counted, first_line, one_line, print_line, printable, safe
from hooksdk.hooks import Trace
from hooksdk.values import clip

MARKS = {"ok": "[green]✓[/]", "answered": "[green]✓[/]", "blocked": "[red]✗[/]"}
FINE = ("ok", "answered")
# How the providers say that a reply was longer than it may be.
CUT_OFF = ("length", "max_tokens", "max_output_tokens")
# How they say that the model, or a filter, would not answer.
REFUSED = ("refusal", "content_filter")
# Cells before what belongs to a turn; `turn 1` stands there.
INDENT = 9
# Cells before what a step of a call says; its name stands there.
_STEP_INDENT = 27
# Characters of the prompt at most.
_MAX_PROMPT = 400
_MAX_VALUE, _MAX_ARGUMENTS = 44, 120
"""Characters of one argument, and of all in one line where there is no terminal to say how long a line is."""
# Cells in which the beginning of an argument is worth showing.
_LEAST = 15
# Hits of a search that are named.
_SHOWN_HITS = 3


@final
class Prose:
    """Prints the model's words on a terminal as they come. Other lines never begin in the middle of them.

    Attributes:
        stream: None: nothing is written.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream
        self._mid_line = False
        self._told = ""

    def write(self, text: str) -> None:
        """The next words."""
        self._told += text
        if self.stream is not None:
            self.stream.write(printable(text))
            self.stream.flush()
            self._mid_line = not text.endswith("\n")

    def begin_reply(self) -> None:
        """Begin another reply, or another attempt at one."""
        self.end_line()
        self._told = ""

    def end_line(self) -> None:
        """Whatever is written next begins a line."""
        if self.stream is not None and self._mid_line:
            self.stream.write("\n")
            self.stream.flush()
        self._mid_line = False

    def has_told(self, text: str) -> bool:
        """True when this is the newest reply, and stands there already."""
        return self.stream is not None and bool(text) and self._told.strip() == text.strip()


@dataclass
class _Session:
    """The state of one session, as far as lines have been printed.

    Attributes:
        calls: Of this turn.
        open: The numbers of the calls that have no result yet: `1`, `1.2`.
        beside: The ids of bridge tools, such as `tool_search`.
    """

    turn: int = 0
    calls: int = 0
    bridges: dict[str, str] = field(default_factory=dict[str, str])
    open: dict[str, str] = field(default_factory=dict[str, str])
    catalog: str | None = None
    beside: frozenset[str] = frozenset()


@final
class Timeline:
    """Prints what happens in a session and its sub-agents', a few lines each: a listener for `session.on_event`."""

    def __init__(self, console: Console, prose: Prose | None = None) -> None:
        self._console = console
        self._prose = prose
        self._sessions: dict[str, _Session] = {}
        # The newest call's id and its arguments, which are left out where they stand beside what was found.
        self._waiting: tuple[str, str] | None = None

    def __call__(self, event: Trace) -> None:
        """Print what this event says, if it says anything to a person."""
        first = next(iter(self._sessions), event.session_id)
        session = self._sessions.setdefault(event.session_id, _Session())
        where = "" if event.session_id == first else f" [dim]in {safe(event.session_id)}[/]"
        content = event.content or records.Content()
        match event.record:
            case records.RunStarted():
                self._show_prompt(content.text)
            case records.ModelCalled():
                session.turn += 1
                session.calls = 0
            case records.Unwrapped(call_id=call_id, bridge=bridge):
                session.bridges[call_id] = bridge
            case records.CallStarted() as record:
                self._show_start(session, record, content.arguments or {}, where)
            case records.CallFinished() as record:
                self._show_end(session, record, content)
            case records.ToolsResolved() as record:
                # Another attempt resolves the tools anew, mostly to the same.
                session.beside = frozenset(one["tool"] for one in record.catalog if one["place"] == "bridge")
                line, previous = _catalog(record), session.catalog
                session.catalog = line
                if line != previous:
                    self._print("catalog", line, indent=12)
                    self._console.print()
            case record:
                for label, text in _lines(record, content):
                    self._print(label, text, indent=_STEP_INDENT if label.startswith(" ") else 12)

    def _print(self, label: str, text: str, *, indent: int = INDENT) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._print("", waiting[1])
        if self._prose is not None:
            self._prose.end_line()
        print_line(self._console, label, text, indent=indent)

    def _show_prompt(self, text: str) -> None:
        if text.strip():
            self._print("you", f"[bold]{one_line(clip(text, _MAX_PROMPT))}[/]", indent=12)

    def _show_start(
        self, session: _Session, record: records.CallStarted, arguments: Mapping[str, Any], where: str
    ) -> None:
        bridge = session.bridges.get(record.call_id)
        through = f" [dim]through {one_line(bridge)}[/]" if bridge else ""
        if record.origin == "code":
            through = " [dim]in the script[/]"
        elif record.origin == "bridge" and record.parent_id:
            through = " [dim]one of several[/]"
        session.calls += 1
        # The first is `1`, and mostly the only one.
        number = str(session.turn) if session.calls == 1 else f"{session.turn}.{session.calls}"
        session.open[record.call_id] = number
        self._print(f"[default]turn {number}[/]", f"[bold]{one_line(record.name)}[/]{through}{where}")
        if arguments:
            room = self._console.width - INDENT if self._console.is_terminal else _MAX_ARGUMENTS
            line = f"[dim]{one_line(_arguments(arguments, max(room, 20)))}[/]"
            if record.tool in session.beside:
                self._waiting = record.call_id, line
            else:
                self._print("", line)

    def _show_end(self, session: _Session, record: records.CallFinished, content: records.Content) -> None:
        # Of several calls each end says whose it is.
        number = session.open.pop(record.call_id, "")
        who = f"{number} {one_line(record.name)}: " if session.calls > 1 or session.open else ""
        searches = _searches(record, content) if record.tool in session.beside else []
        if searches and self._waiting and self._waiting[0] == record.call_id:
            self._waiting = None
        for query, hits in searches:
            self._print("", f"[dim]{one_line(query)}[/]: {hits}")
        mark = MARKS.get(record.status, "[red]![/]")
        duration = f"{record.seconds * 1000:,.0f} ms"
        self._print("", f"{mark} {who}{record.status}, {counted(record.characters, 'character')}, {duration}")
        if record.status not in FINE and (line := first_line(content.text)):
            self._print("", line, indent=INDENT + 2)


def _arguments(arguments: Mapping[str, Any], room: int) -> str:
    """Arguments in one line, as many as there is room for, each value cut, so that the later ones are seen, too."""
    line = ""
    for name, value in arguments.items():
        part = f"{', ' if line else ''}{name}={_value(value)}"
        if cell_len(line + part) > room - len(", …"):
            left = room - cell_len(line) - 1
            if line and (left < _LEAST or "/" in part):  # a path is not cut anywhere
                return f"{line}, …"
            return f"{line}{set_cell_size(part, left).rstrip(' …')}…"
        line += part
    return line


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > _MAX_VALUE and isinstance(value, str) and "/" in value and not re.search(r"\s", value):
        end = text[2 - _MAX_VALUE :]  # of a path the end tells more
        return f'"…{end[max(end.find("/"), 0) :]}'
    return clip(text, _MAX_VALUE)


def _searches(record: records.CallFinished, content: records.Content) -> list[tuple[str, str]]:
    """The queries of a search, each with the names of its first hits."""
    groups = records.searches_in(content.text) if record.status in FINE else ()
    return [(group["query"], _hits([hit["name"] for hit in group["hits"]])) for group in groups]


def _hits(names: Sequence[str]) -> str:
    if not names:
        return "nothing"
    more = f" [dim]and {len(names) - _SHOWN_HITS} more[/]" if len(names) > _SHOWN_HITS else ""
    return one_line(", ".join(names[:_SHOWN_HITS])) + more


def _catalog(record: records.ToolsResolved) -> str:
    catalog = f"{counted(record.tools, 'tool')}, {record.tokens:,} tokens of schemas"
    if not record.tools:
        return "no tools"
    if (record.tools, record.tokens) == (record.offered, record.tokens_offered):
        return f"{catalog}: all are offered"
    offered = f"{counted(record.offered, 'tool')}, {record.tokens_offered:,} tokens"
    prefetched = sum(entry["place"] == "prefetched" for entry in record.catalog)
    asked = f", {prefetched:,} of them for what was asked" if prefetched else ""
    return f"{catalog}; tool search is on and offers {offered}{asked}"


def _lines(record: records.Record, content: records.Content) -> list[tuple[str, str]]:
    """The label and the text of what one record tells; nothing for most."""
    match record:
        case records.Withheld():
            names, reason = one_line(", ".join(record.names)), one_line(record.reason)
            return [("withheld", f"by {safe(record.plugin)}: {names} ({reason})")]
        case records.Revealed():
            names = one_line(", ".join(record.names))
            return [("revealed", f"by {safe(record.plugin)}: {names} ({record.tokens:,} tokens of schemas)")]
        case records.ModelReplied() if record.stop_reason in CUT_OFF:
            return [("[yellow]cut off[/]", "the model's reply reached its limit of tokens")]
        case records.ModelReplied() if record.stop_reason in REFUSED:
            return [("[yellow]refused[/]", f"the provider ended the model's reply: {one_line(record.stop_reason)}")]
        case records.CallInText():
            names = one_line(", ".join(record.names))
            return [("[yellow]no call[/]", f"the model wrote a call of {names} as text, which does nothing")]
        case records.Decision():
            shadow = " in shadow mode, without effect" if record.shadow else ""
            return [_step(record.hook, f"{record.plugin} says {record.decision}{shadow}")]
        case records.AnswerJudged(outcome="continued"):
            return [_step("before_answer", f"the model goes on, time {record.continued}: {content.text}")]
        case records.AnswerJudged() if record.overruled:
            late = f"{', '.join(record.overruled)} would have it go on, and the limit is used up"
            return [("[yellow]let through[/]", one_line(late))]
        case records.ApprovalAsked():
            return [_step("approval", f"{record.plugin} asks: {content.text or 'may it run?'} ({record.severity})")]
        case records.ApprovalAnswered():
            who = " as before" if record.remembered else f" by {record.by}" if record.by else ""
            unanswered = f", nobody answered: {record.unanswered.replace('_', ' ')}" if record.unanswered else ""
            return [_step("approval", f"{'granted' if record.granted else 'refused'}{who}{unanswered}")]
        case records.RestoreQueued():
            return []
        case records.TrimQueued():
            sizes = f"{record.characters_before:,} to {record.characters_after:,} characters"
            return [_step("trim queued", f"{record.handle}, {sizes}; stored, and applied once the run is over")]
        case records.TrimDrained():
            name = one_line(f"{record.handle} ({record.tool})")
            if record.status != "applied":
                return [("[default]agent_end[/]", f"after the run: the trim of {name} is {one_line(record.status)}")]
            saved = f"{record.tokens_saved:,} tokens less in every request"
            if record.pays_back_after:
                saved += f"; the prompt cache that this costs is paid back after {counted(record.pays_back_after, 'request')}"
            return [("[default]agent_end[/]", f"after the run: {name} is shortened, {saved}")]
        case _:
            return []


def _step(what: str, text: str) -> tuple[str, str]:
    return f"{'':{INDENT}}{what}", one_line(text)
