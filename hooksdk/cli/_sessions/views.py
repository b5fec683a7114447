"""What `hooksdk sessions show`, `results` and `export` print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from hooksdk.calls import ResultInfo, ToolCall, shown_labels
from hooksdk.cli._console import (
    CommandProblem,
    counted,
    json_text,
    one_line,
    print_columns,
    print_json,
    printable,
    safe,
    stdout_console,
)
from hooksdk.cli._sessions.look import Look, look_at, timestamp, with_session
from hooksdk.formats import Message
from hooksdk.formats.content import describe_part
from hooksdk.transcript import ResultRow, encode
from hooksdk.values import as_list, as_object, clip

TEXT_CHARS, TEXT_LINES = 600, 8
"""Of each text at most, without `--full`."""
ARGUMENTS_CHARS = 160
"""Of a call's arguments at most, without `--full`."""
_SHOWN_ELSEWHERE = {"text", "tool_use", "tool_result", "refusal", "input_text", "output_text"}
"""Types of parts that are printed as text, calls or results."""


def _cell(text: str) -> str:
    return printable(text).replace("\n", "\N{REPLACEMENT CHARACTER}").replace("\t", "\N{REPLACEMENT CHARACTER}")


def _date(changed: str | None) -> str:
    return "-" if changed is None else changed[:16].replace("T", " ")


# results


def list_results(project: Path, place: str | None, typed: str, *, as_json: bool) -> int:
    """One line or object for each result."""
    session_id, look = with_session(project, place, typed, look_at)
    results = [look.ledger.info(record) for record in look.ledger.records]
    if as_json:
        entries = [{**_fields(info), "trimmable": info.trimmable} for info in results]
        print_json({"schema": 1, "session": session_id, "results": entries})
    elif not results:
        print("The session has no tool results.")
    else:
        headings = ("handle", "tool", "characters", "tokens", "turns ago", "labels", "trim")
        rows = [
            (_cell(info.handle), _cell(info.tool) or "?", f"{info.characters:,}", f"{info.tokens:,}", str(info.turns_ago),
             ", ".join(shown_labels(info.labels)), info.why_not or "possible")
            for info in results
        ]  # fmt: skip
        print_columns(headings, rows)
    return 0


def _fields(info: ResultInfo) -> dict[str, Any]:
    return {**asdict(info), "labels": sorted(info.labels)}


# export


@dataclass(frozen=True, kw_only=True)
class Export:
    """What is to be written, and where."""

    output: Path | None
    view: bool
    file_format: Literal["jsonl", "json"]
    as_json: bool


def export(project: Path, place: str | None, typed: str, order: Export) -> int:
    """Write the messages to a new file or to stdout."""
    session_id, look = with_session(project, place, typed, look_at)
    messages = look.ledger.view if order.view else look.messages
    envelope = {"schema": 1, "session": session_id, "format": look.format_name, "view": order.view}
    if order.output is None:
        if order.as_json:
            print_json({**envelope, "messages": messages})
        elif order.file_format == "json":
            print_json(messages)
        else:
            for message in messages:
                print(json_text(message))
        return 0
    lines = [encode(message) for message in messages]
    data = b"".join(line + b"\n" for line in lines)
    if order.file_format == "json":
        data = b"[\n" + b",\n".join(lines) + b"\n]\n"
    try:
        with order.output.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise CommandProblem(f"{order.output} is there already, and is not overwritten. Name a new file") from None
    except OSError as error:
        raise CommandProblem(f"{order.output} cannot be written: {error.strerror}") from error
    if order.as_json:
        print_json({**envelope, "file": str(order.output), "messages": len(lines)})
    else:
        print(f"{counted(len(lines), 'message')} in {printable(str(order.output))}")
    return 0


# show


def show(project: Path, place: str | None, typed: str, *, full: bool, view: bool, as_json: bool) -> int:
    """Print a session for a person, or as one document."""
    _, look = with_session(project, place, typed, look_at)
    if as_json:
        results = [
            {**_fields(look.ledger.info(record)), "text_in_place": record.short_text} for record in look.ledger.records
        ]
        messages = look.ledger.view if view else look.messages
        in_doubt = [asdict(call) for call in look.ledger.effects.described()]
        document = {"session": look.summary(), "view": view, "messages": messages, "results": results}
        print_json({"schema": 1, **document, "in_doubt": in_doubt})
        return 0
    console = stdout_console()
    console.print(_title(look), soft_wrap=True)
    if look.format_name and look.ledger.format is None:
        console.print(f"[dim]messages in {safe(look.format_name)}, a host's own format: as they are stored[/]")
    for call in look.ledger.effects.described():
        what = "runs now, or may have taken effect" if look.holder else "may have taken effect"
        console.print(
            f"[yellow]{what}[/]: {one_line(call.name)} {safe(clip(call.arguments, ARGUMENTS_CHARS))} began "
            f"{timestamp(call.began)}, and its end is not known: "
            f"hooksdk sessions settle {one_line(look.session_id)} {one_line(call.effect_id)} TEXT",
            soft_wrap=True,
        )
    _Printer(look, console, full=full).show(view=view)
    return 0


def _title(look: Look) -> str:
    summary = look.summary()
    about = look.about()
    began = [one_line(about.model), f"in {one_line(about.folder)}" if about.folder else ""]
    parts = [
        f"session [bold]{one_line(look.session_id)}[/]",
        *filter(None, [" ".join(filter(None, began))]),
        one_line(look.format_name or "no format yet"),
        f"{counted(len(look.messages), 'message')}, {counted(summary['results'], 'result')}, {summary['tokens']:,} tokens",
    ]
    if look.changed is not None:
        parts.append(f"changed {_date(summary['changed'])}")
    if look.holder:
        parts.append(f"held by {look.holder}")
    return " · ".join(parts)


class _Printer:
    """Prints the messages of one session."""

    def __init__(self, look: Look, console: Console, *, full: bool) -> None:
        self._look = look
        self._ledger = look.ledger
        self._console = console
        self._full = full

    def show(self, *, view: bool) -> None:
        """All messages: as they are stored, or as the model sees them."""
        ledger = self._ledger
        if not view:
            for position, message in enumerate(ledger.messages):
                if position == ledger.upto > 0:
                    self._print("[dim]the model sees a shorter form of what stands above: --view shows it[/]")
                self._message(f"#{position}", message, ledger.records.at(position))
            return
        for place, message in ledger.shown():
            if isinstance(place, int):
                self._message(f"#{place}", message, ledger.records.at(place), view=True)
            else:
                self._message("#-", message, ())

    def _print(self, markup: str) -> None:
        self._console.print(markup, soft_wrap=True)

    def _message(self, place: str, message: Message, records: Sequence[ResultRow], *, view: bool = False) -> None:
        message_format = self._ledger.format
        self._print("")
        if message_format is None:
            self._print(f"[bold]{place}[/]")
            self._text(json.dumps(message, ensure_ascii=False))
            return
        results, calls, text = (
            message_format.results(message),
            message_format.calls(message),
            message_format.text(message),
        )
        others = [
            describe_part(part)
            for part in as_list(message.get("content"))
            if as_object(part).get("type") not in _SHOWN_ELSEWHERE and not isinstance(part, str)
        ]
        if text or calls or others or not results:
            role = "assistant" if message_format.is_reply(message) else message.get("role") or message.get("type")
            self._print(f"[bold]{place} {one_line(role)}[/]")
            self._text("\n".join(filter(None, [text, *others])))
            for call in calls:
                self._print(f"  [cyan]→ {one_line(call.name)}[/] {safe(self._arguments(call))}")
            if not (text or calls or others):
                self._text(json.dumps(message, ensure_ascii=False))
        for number, result in enumerate(results):
            record = records[number] if number < len(records) else None
            self._result(place, record, result.text, is_error=result.is_error, view=view)

    def _arguments(self, call: ToolCall) -> str:
        arguments = call.arguments
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        text = " ".join(text.split())
        return text if self._full else clip(text, ARGUMENTS_CHARS)

    def _result(self, place: str, record: ResultRow | None, text: str, *, is_error: bool, view: bool) -> None:
        state = " [red]error[/]" if is_error else ""
        if record is None:  # of a compacted list: it has no handle any more
            self._print(f"[bold]{place} result[/]{state}")
            self._text(text)
            return
        name = f"[bold]{place} result {record.handle}[/] of [cyan]{one_line(record.tool or '?')}[/]"
        size = f"{record.characters:,} characters, {record.tokens:,} tokens"
        state += "".join(f" [magenta]{safe(label)}[/]" for label in shown_labels(record.labels))
        if queued := record.marks.queued_entry:
            state += f" [yellow]{queued['kind']} queued[/]"
        if record.short_text is None:
            self._print(f"{name} [dim]{size}[/]{state}")
            self._text(text)
            return
        self._print(f"{name} [dim]{size}[/]{state} [yellow]trimmed[/]: in its place the model sees")
        self._text(record.short_text)
        if self._full and not view:
            self._print("  [yellow]whole:[/]")
            self._text(text)

    def _text(self, text: str) -> None:
        """A text, indented, so that no line of it can look like a line of ours."""
        lines = text.splitlines()
        short = clip("\n".join(lines[:TEXT_LINES]), TEXT_CHARS).splitlines()
        is_clipped = not self._full and short != lines
        for line in short if is_clipped else lines:
            self._print(f"  {safe(line)}")
        if is_clipped:
            self._print(f"  [dim]… {len(text):,} characters in all: --full[/]")
