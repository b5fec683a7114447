"""`hooksdk sessions show`, `results` and `export`: a stored session for people, and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hooksdk.calls import ResultInfo, ToolCall, shown_labels
from hooksdk.cli._console import CommandProblem, View, counted, json_text, one_line, print_json, safe
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._sessions.copies import export_files, follow_views
from hooksdk.cli._sessions.look import Look, SessionId, look_at, timestamp, with_session
from hooksdk.formats import Message
from hooksdk.formats.content import describe_part
from hooksdk.transcript import Ledger, ResultRow, encode
from hooksdk.values import as_list, as_object, clip

TEXT_CHARS, TEXT_LINES = 600, 8
"""Of each text at most, without `--full`."""
# Of a call's arguments at most, without `--full`.
ARGUMENTS_CHARS = 160
# Types of parts that are printed as text, calls or results.
_SHOWN_ELSEWHERE = {"text", "tool_use", "tool_result", "refusal", "input_text", "output_text"}


ViewOption = Annotated[bool, typer.Option("--view", help="As the model sees it: compacted, and with the trims.")]


# results


def list_results(
    session_id: SessionId, as_json: Json = False, project: Project = Path(), store: StorePlace = None
) -> None:
    """List a session's tool results, and which of them can be trimmed."""
    session_id, look = with_session(project, store, session_id, look_at)
    results = [look.ledger.info(record) for record in look.ledger.records]
    entries = [{**_fields(info), "trimmable": info.trimmable} for info in results]
    view = View({"session": session_id, "results": entries})
    if results:
        headings = ("handle", "tool", "characters", "tokens", "turns ago", "labels", "trim")
        view.table(headings, [_row(info) for info in results])
    else:
        view.text("The session has no tool results.")
    view.show(as_json=as_json)


def _row(info: ResultInfo) -> Sequence[str | int]:
    labels, trim = ", ".join(shown_labels(info.labels)), info.why_not or "possible"
    return (info.handle, info.tool or "?", info.characters, info.tokens, info.turns_ago, labels, trim)


def _fields(info: ResultInfo) -> dict[str, Any]:
    return {**asdict(info), "labels": sorted(info.labels)}


# export


def export_session(
    session_id: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
    folder: Annotated[Path | None, typer.Option("--to", metavar="FOLDER")] = None,
    follow: Annotated[bool, typer.Option("--follow")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE")] = None,
    view: ViewOption = False,
    file_format: Annotated[Literal["jsonl", "json"], typer.Option("--format")] = "jsonl",
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Write a session's messages out, in the shape that their provider takes; with --to all that is stored of it, in
    files that `hooksdk sessions import` reads.

    Options:
        session_id: As `hooksdk sessions list` shows it; `last` is the newest of this folder.
        everything: All sessions, into this folder or that of --to.
        folder: NAME.messages.jsonl and NAME.journal.jsonl of each session go there.
        follow: Write NAME.view.jsonl, what the model sees, anew after each change, until Ctrl-C.
        output: A new file; by default stdout.
        file_format: A message a line, or one JSON list.
    """
    if (session_id is None) is not everything:
        raise typer.BadParameter("expected either an id or --all")
    if everything or follow or folder is not None:
        if output is not None or view or file_format != "jsonl":
            raise typer.BadParameter("-o, --view and --format are for the messages of one session alone")
        if not follow:
            export_files(session_id, folder or Path(), project, store, as_json=as_json)
        if as_json:
            raise typer.BadParameter("--follow has no end, and --json prints one document")
        follow_views(session_id, folder or Path(), project, store)
        return
    session_id, look = with_session(project, store, session_id or "", look_at)
    messages = look.ledger.view if view else look.messages
    facts = {"session": session_id, "format": look.format_name, "view": view}
    if output is not None:
        _write(output, messages, file_format)
        answer = View({**facts, "file": str(output), "messages": len(messages)})
        answer.text(f"{counted(len(messages), 'message')} in {output}")
        answer.show(as_json=as_json)
    elif as_json:
        print_json({"schema": 1, **facts, "messages": messages})
    elif file_format == "json":
        print_json(messages)
    else:
        for message in messages:
            print(json_text(message))


def _write(output: Path, messages: Sequence[Message], file_format: Literal["jsonl", "json"]) -> None:
    lines = [encode(message) for message in messages]
    data = b"".join(line + b"\n" for line in lines)
    if file_format == "json":
        data = b"[\n" + b",\n".join(lines) + b"\n]\n"
    try:
        with output.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise CommandProblem(f"{output} is there already, and is not overwritten. Name a new file") from None
    except OSError as error:
        raise CommandProblem(f"{output} cannot be written: {error.strerror}") from error


# show


def show_session(
    session_id: SessionId,
    full: Annotated[bool, typer.Option("--full")] = False,
    view: ViewOption = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Show a session's messages, calls and results. Works while another process holds it.

    Options:
        full: Every text whole, trimmed results too.
    """
    _, look = with_session(project, store, session_id, look_at)
    ledger = look.ledger
    results = [{**_fields(ledger.info(record)), "text_in_place": record.short_text} for record in ledger.records]
    messages = ledger.view if view else look.messages
    in_doubt = ledger.effects.described()
    document = {"session": look.summary(), "view": view, "messages": messages, "results": results}
    answer = View({**document, "in_doubt": [asdict(call) for call in in_doubt]})
    answer.markup(_title(look))
    if look.format_name and ledger.format is None:
        answer.markup(f"[dim]messages in {safe(look.format_name)}, a host's own format: as they are stored[/]")
    what = "runs now, or may have taken effect" if look.holder else "may have taken effect"
    for call in in_doubt:
        began = f"{safe(clip(call.arguments, ARGUMENTS_CHARS))} began {timestamp(call.began)}, and its end is not known"
        settle = f"hooksdk sessions settle {one_line(look.session_id)} {one_line(call.effect_id)} TEXT"
        answer.markup(f"[yellow]{what}[/]: {one_line(call.name)} {began}: {settle}")
    _Messages(answer, ledger, full=full).add(as_model_sees=view)
    answer.show(as_json=as_json)


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
        parts.append(f"changed {summary['changed'][:16].replace('T', ' ')}")
    if look.holder:
        parts.append(f"held by {look.holder}")
    return " · ".join(parts)


class _Messages:
    """The messages of one session, for a person."""

    def __init__(self, view: View, ledger: Ledger, *, full: bool) -> None:
        self._view = view
        self._ledger = ledger
        self._full = full

    def add(self, *, as_model_sees: bool) -> None:
        """Add all of them: as they are stored, or as the model sees them."""
        ledger = self._ledger
        if not as_model_sees:
            for position, message in enumerate(ledger.messages):
                if position == ledger.upto > 0:
                    self._view.markup("[dim]the model sees a shorter form of what stands above: --view shows it[/]")
                self._message(f"#{position}", message, ledger.results_at(position))
            return
        for place, message in ledger.shown():
            if isinstance(place, int):
                self._message(f"#{place}", message, ledger.results_at(place), view=True)
            else:
                self._message("#-", message, ())

    def _message(self, place: str, message: Message, records: Sequence[ResultRow], *, view: bool = False) -> None:
        message_format = self._ledger.format
        self._view.markup()
        if message_format is None:
            self._view.markup(f"[bold]{place}[/]")
            self._indented(json.dumps(message, ensure_ascii=False))
            return
        results, calls = message_format.results(message), message_format.calls(message)
        text = message_format.text(message)
        others = [
            describe_part(part)
            for part in as_list(message.get("content"))
            if as_object(part).get("type") not in _SHOWN_ELSEWHERE and not isinstance(part, str)
        ]
        if text or calls or others or not results:
            role = "assistant" if message_format.is_reply(message) else message.get("role") or message.get("type")
            self._view.markup(f"[bold]{place} {one_line(role)}[/]")
            self._indented("\n".join(filter(None, [text, *others])))
            for call in calls:
                self._view.markup(f"  [cyan]→ {one_line(call.name)}[/] {safe(self._arguments(call))}")
            if not (text or calls or others):
                self._indented(json.dumps(message, ensure_ascii=False))
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
            self._view.markup(f"[bold]{place} result[/]{state}")
            self._indented(text)
            return
        name = f"[bold]{place} result {record.handle}[/] of [cyan]{one_line(record.tool or '?')}[/]"
        size = f"{record.characters:,} characters, {record.tokens:,} tokens"
        state += "".join(f" [magenta]{safe(label)}[/]" for label in shown_labels(record.labels))
        if queued := record.marks.queued_entry:
            state += f" [yellow]{queued['kind']} queued[/]"
        if record.short_text is None:
            self._view.markup(f"{name} [dim]{size}[/]{state}")
            self._indented(text)
            return
        self._view.markup(f"{name} [dim]{size}[/]{state} [yellow]trimmed[/]: in its place the model sees")
        self._indented(record.short_text)
        if self._full and not view:
            self._view.markup("  [yellow]whole:[/]")
            self._indented(text)

    def _indented(self, text: str) -> None:
        """A text, indented, so that no line of it can look like a line of ours."""
        lines = text.splitlines()
        short = clip("\n".join(lines[:TEXT_LINES]), TEXT_CHARS).splitlines()
        is_clipped = not self._full and short != lines
        for line in short if is_clipped else lines:
            self._view.markup(f"  {safe(line)}")
        if is_clipped:
            self._view.markup(f"  [dim]… {len(text):,} characters in all: --full[/]")
