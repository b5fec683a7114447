"""`hooksdk audit`: the chain that the plugin `audit` writes, verified, shown and exported."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hooksdk.audit import ChainRecord, Head, Report, event_of, public_text, read_public_key, verify
from hooksdk.cli._audit.chains import audit_plugin, records_of, sources_of, typed_sources
from hooksdk.cli._console import CommandProblem, View, counted, json_text, one_line
from hooksdk.cli._options import Json, Project
from hooksdk.cli._project import project_config
from hooksdk.values import clip

# The most characters of a record's own fields in the table.
_DETAIL = 120
# Fields that are not among a record's own in the table.
_SHOWN_ELSEWHERE = (
    "n prev time kind session_id run_id agent_id call_id name happened tool origin parent_id tool_fingerprint "
    "arguments_sha256 result_sha256 effect_id"
)
# Kinds of damage that are not words.
_WORDS = {"left_out": "left out", "cut": "cut off", "anew": "made anew"}

audit_app = typer.Typer(help="Verify and show the chain of records that the plugin audit writes.", no_args_is_help=True)

_FILES = (
    "Files of the chain, in any order, an export, or the store that has it; older files beside audit.jsonl come along."
)
Files = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE|URL]...", help=f"{_FILES} By default those of the configuration.")
]


@audit_app.command("verify")
def verify_chain(
    files: Annotated[list[str], typer.Argument(metavar="FILE|URL...", help=_FILES)],
    key: Annotated[str, typer.Option("--key", metavar="PUB|FILE")],
    head: Annotated[list[str] | None, typer.Option("--head", metavar="NUMBER:HASH")] = None,
    as_json: Json = False,
) -> None:
    """Verify that nothing in a chain was changed, left out or added. Needs no configuration. The code is 1 where
    something was.

    Options:
        key: The public key, as `hooksdk audit key` prints it, or a file with it.
        head: A head that was kept elsewhere; may be given several times. Only it shows a cut end.
    """
    public = read_public_key(key)
    with _readable():
        report = verify(typed_sources(files), public, [Head.of(text) for text in head or ()])
    view = View(
        {
            "whole": report.damage is None,
            "records": report.records,
            "first": report.first,
            "head": str(report.head) if report.head else None,
            "key": public_text(public),
            "against_heads": head or [],
            "damage": asdict(report.damage) if report.damage else None,
            "notes": report.notes,
        },
        indent=9,
    )
    _add_report(view, report, against_heads=bool(head))
    view.show(as_json=as_json)
    raise typer.Exit(0 if report.damage is None else 1)


def _add_report(view: View, report: Report, *, against_heads: bool) -> None:
    if (damage := report.damage) is not None:
        where = f"record {damage.record}" if damage.record is not None else "the chain"
        view.markup(f"[red]{_WORDS.get(damage.kind, damage.kind)}[/]  {where}: {one_line(damage.text)}")
        head, unknown = report.head, "nothing before it is vouched for"
        view.line("before", f"up to record {head.number} nothing is wrong" if head else unknown, "dim")
    else:
        view.line("whole", f"{counted(report.records, 'record')}, each as it was signed", "green")
        view.line("head", report.head)
        if not against_heads:
            note = "without --head a cut end, and a chain that the holder of the key made anew, are not seen"
            view.line("note", note, "dim")
    view.lines("note", report.notes, "dim")


@audit_app.command("key")
def print_key(as_json: Json = False, project: Project = Path()) -> None:
    """Print the public half of the key, with which others verify the chain."""
    plugin = audit_plugin(project_config(project))
    if plugin is None:
        raise CommandProblem("the plugin audit is not installed here")
    key: str = plugin.holder.public_key(plugin.config)
    view = View({"key": key})
    view.text(key)
    view.show(as_json=as_json)


@audit_app.command("head")
def print_head(files: Files = None, as_json: Json = False, project: Project = Path()) -> None:
    """Print the head of the chain, to be kept in a place that nobody who can change the chain can change."""
    with _readable():
        newest = deque(records_of(sources_of(project, files or ())), 1)
    if not newest:
        raise CommandProblem("the chain has no record")
    head = newest[0].head
    view = View({"head": str(head), "record": head.number, "time": newest[0].fields.get("time")})
    view.text(str(head))
    view.show(as_json=as_json)


@audit_app.command("show")
def show_records(
    files: Files = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID")] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", metavar="KIND")] = None,
    call: Annotated[str | None, typer.Option("--call", metavar="ID")] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, metavar="N")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show the records of a chain, as they are: `verify` says whether they are genuine.

    Options:
        session: Only this session's.
        kind: Only these; may be given several times.
        call: Only those about this call, by its id or effect id.
        last: Only the last N of them.
    """
    with _readable():
        records = list(_wanted(records_of(sources_of(project, files or ())), session, kind, call))[-(last or 0) :]
    view = View({"records": [{**record.fields, "hash": record.hash} for record in records]})
    if records:
        headings = ("record", "time", "session", "kind", "call", "what")
        view.table(headings, [_row(record) for record in records], numbers="record")
    else:
        view.markup("[dim]no record[/]")
    view.show(as_json=as_json)


def _wanted(
    records: Iterable[ChainRecord], session: str | None, kinds: list[str] | None = None, call: str | None = None
) -> Iterator[ChainRecord]:
    """The records that were asked for."""
    for record in records:
        fields = record.fields
        if session is not None and fields.get("session_id") != session:
            continue
        if call is not None and call not in (fields.get("call_id"), fields.get("effect_id")):
            continue
        if not kinds or record.kind in kinds:
            yield record


def _row(record: ChainRecord) -> list[str]:
    fields = record.fields
    hidden = _SHOWN_ELSEWHERE.split()
    own = [f"{name}={_word(value)}" for name, value in fields.items() if name not in hidden and value not in ([], "")]
    call = " ".join(str(word) for word in (fields.get("call_id"), fields.get("name")) if word)
    return [
        str(record.number),
        time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.happened)),
        clip(str(fields.get("session_id", "")), 24),
        record.kind,
        clip(call, 40),
        clip(" ".join(own), _DETAIL),
    ]


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@audit_app.command("export")
def export_records(
    files: Files = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", dir_okay=False)] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Write the records as CloudEvents, one a line, each with its signed line; with --json as one batch.

    Options:
        output: Where they go; by default to stdout.
        session: Only this session's.
    """
    with _readable():
        sources = sources_of(project, files or ())
        key = _key_in(records_of(sources))
        events = (event_of(record, key) for record in _wanted(records_of(sources), session))
        if as_json:
            text = iter([f"{json_text(list(events), indent=2)}\n"])
        else:
            text = (f"{json.dumps(event)}\n" for event in events)
        with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as file:
            file.writelines(text)


def _key_in(records: Iterator[ChainRecord]) -> str:
    """The key in the chain's first record."""
    first = next(records, None)
    return str(first.fields.get("key", "")) if first is not None else ""


@contextmanager
def _readable() -> Generator[None]:
    """Turn an unreadable file into a `CommandProblem`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandProblem(f"{error.filename or 'the output'} cannot be read or written: {error.strerror}") from None
