"""`hooksdk report`: a trace, a stored session, or both, as one page of HTML."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hooksdk import Config
from hooksdk.cli._console import (
    CommandProblem,
    complain,
    counted,
    print_json,
    printable,
    warnings_shown,
)
from hooksdk.cli._options import Json, Project, StorePlace, takes
from hooksdk.cli._policy_calls import judges_of
from hooksdk.cli._project import project_config
from hooksdk.cli._sessions.listing import requests_of
from hooksdk.cli._sessions.look import Damaged, place_of, read_as_sent, with_session
from hooksdk.cli._traces import configured_files, session_records
from hooksdk.costs import PriceList, requests_in
from hooksdk.errors import HookSDKError, StoreError, did_you_mean
from hooksdk.histories import HistoryError
from hooksdk.host import Plugin, load_plugins
from hooksdk.report import NoTrace, Report, StoredSession, build, is_page, read_trace, render
from hooksdk.rules import Rules
from hooksdk.stores import Store
from hooksdk.stores.copies import named_in, read_old_session
from hooksdk.trimming import list_results

report_app = typer.Typer(add_completion=False)
_PARTS_OF_SESSION = (".messages.jsonl", ".journal.jsonl")


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The options of `hooksdk report`.

    Attributes:
        source: A file of trace_file, a session's id or file, or a file of messages.
        trace: The trace of the session that is named first.
        run_id: Only this run of the trace.
        output: Where the page goes, NAME.html by default; - is stdout.
        open_browser: Open the page in the browser.
    """

    source: Annotated[str, typer.Argument(metavar="TRACE|SESSION")]
    trace: Annotated[Path | None, typer.Option("--trace", metavar="FILE", exists=True, dir_okay=False)] = None
    run_id: Annotated[str | None, typer.Option("--run", metavar="ID")] = None
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE")] = None
    open_browser: Annotated[bool, typer.Option("--open")] = False
    store: StorePlace = None
    as_json: Json = False
    project: Project = Path()


@dataclass(kw_only=True)
class _Input:
    """The records and sessions that were found under the source's name.

    Attributes:
        is_stored: The session is one of a store's.
    """

    name: str
    records: list[dict[str, Any]] | None = None
    sessions: tuple[StoredSession, ...] = ()
    sources: list[str] = dataclasses.field(default_factory=list[str])
    is_stored: bool = False


@report_app.command()
@takes(ReportOptions)
def report(options: ReportOptions) -> int:
    """Write one page of HTML that shows a run, a session, or both: timeline, decisions, tools, searches, trims,
    messages."""
    if options.as_json and (options.output is not None or options.open_browser):
        raise typer.BadParameter("--json prints what the page would hold, and writes none: leave -o and --open out")
    if options.open_browser and str(options.output) == "-":
        raise typer.BadParameter("--open needs a file, and -o - writes none")
    found = _read_source(options)
    if options.trace is not None:
        _add_trace(found, options.trace)
    elif found.records is None and found.is_stored:
        _add_own_trace(found, options.project)
    records, sessions = found.records, found.sessions
    if records is not None and sessions:
        records = _of_session(records, sessions[0].session_id)
    if options.run_id is not None:
        _check_run(records, options.run_id)
    config = project_config(options.project)
    policies = _policies(config, options.project) if records else None
    prices = PriceList(config.prices)
    try:
        made = build(records, sessions, sources=found.sources, run_id=options.run_id, prices=prices, policies=policies)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, HookSDKError) or not sessions:
            raise
        raise Damaged(
            f"the journal of session '{found.name}' cannot be understood ({type(error).__name__}: {error}). "
            "`hooksdk sessions doctor` says what can be done"
        ) from error
    if options.as_json:
        print_json({"schema": 1, **dataclasses.asdict(made)})
        return 0
    return _write(made, options, found.name, traced=records is not None)


def _policies(config: Config, project: Path) -> dict[str, Rules]:
    """The rules of the project as they are now. What cannot be loaded has none, and the page comes without it."""

    def refused(plugin: Plugin, error: HookSDKError) -> None:
        complain(f"plugin '{plugin.id}' cannot be loaded, so the page says nothing of its rules: {error}")

    with warnings_shown():
        try:
            plugins, _ = load_plugins((), config, folder=project, on_refusal=refused)
        except HookSDKError as error:
            complain(f"the plugins here cannot be loaded, so the page says nothing of their rules: {error}")
            return {}
        return judges_of(plugins, config).described


def _read_source(options: ReportOptions) -> _Input:
    path = Path(options.source).expanduser()
    if path.is_file():
        if path.name.endswith(_PARTS_OF_SESSION):
            return _read_exported(path)
        return _read_file(path)
    try:
        return _read_session(options.project, options.store, options.source)
    except CommandProblem as problem:
        if path.is_dir():
            advice = "is a folder: name a file in it, or a session in it with --store"
            raise CommandProblem(f"{problem} {printable(options.source)} {advice}") from None
        raise


def _read_exported(path: Path) -> _Input:
    """The session that this file is a part of, with the sub-agents' that lie beside it."""
    journal = path.with_name(re.sub(r"\.(messages|journal)\.jsonl$", ".journal.jsonl", path.name))
    if (session_id := named_in(journal)) is None:
        problem = f"{printable(str(journal))} does not name the session that it belongs to"
        raise CommandProblem(f"{problem}. Export the session again, or import what is left: hooksdk sessions import")
    below = [
        one for one in journal.parent.glob("*.journal.jsonl") if (named_in(one) or "").startswith(f"{session_id}/")
    ]
    try:
        whole, *others = map(read_old_session, [journal, *sorted(below)])
    except StoreError as error:
        raise Damaged(str(error)) from error
    stored = StoredSession(
        session_id=session_id,
        messages=list(map(json.loads, whole.messages)),
        journal=list(map(json.loads, whole.journal)),
        subagents=[one for other in others for one in requests_in(list(map(json.loads, other.journal)))],
    )
    told = f"session {session_id} in {journal.parent}, {counted(len(stored.messages), 'message')}"
    return _Input(name=session_id, sessions=(stored,), sources=[told], is_stored=True)


def _read_session(project: Path, place: str | None, typed: str) -> _Input:
    async def read(store: Store, session_id: str) -> tuple[StoredSession, str]:
        try:
            messages, journal = await store.read_session(session_id)
        except StoreError as error:
            raise Damaged(f"{error}. `hooksdk sessions doctor` says what can be done") from error
        below = [
            one for one in await store.list_sessions() if one.startswith(f"{session_id}/")
        ]  # as `session.child()` calls them
        subagents = [one for requests in (await requests_of(store, below)).values() for one in requests]
        stored = StoredSession(session_id=session_id, messages=messages, journal=journal, subagents=subagents)
        return stored, place_of(store)

    session_id, (session, where) = with_session(project, place, typed, read)
    told = f"session {session_id} in {where}, {counted(len(session.messages), 'message')}"
    return _Input(name=session_id, sessions=(session,), sources=[told], is_stored=True)


def _read_file(path: Path) -> _Input:
    """A trace, or a file of messages: the first line tells."""
    try:
        records, told = _read_trace(path)
    except NoTrace as problem:
        try:
            history = read_as_sent(path)
        except HistoryError as other:
            advice = "Give a file of trace_file, a session's id, or a history"
            raise CommandProblem(f"{problem}; and it holds no messages either ({other}). {advice}") from None
        told = f"{path.name}, {counted(len(history.messages), 'message')}"
        list_results(history.messages, history.format)  # raises with the place of what is not of the format
        session = StoredSession(session_id=path.stem, messages=history.messages, format=history.format)
        return _Input(name=path.stem, sessions=(session,), sources=[told])
    return _Input(name=path.stem, records=records, sources=[told])


def _read_trace(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The records of a trace, and how many those are in words. Raises `NoTrace`, and `CommandProblem`."""
    try:
        records, others = read_trace(path)
    except OSError as error:
        raise CommandProblem(f"{printable(str(path))} cannot be read: {error.strerror}") from None
    lost = sum(int(record.get("records", 0)) for record in records if record["kind"] == "records_lost")
    told = f"trace {path.name}, {counted(len(records), 'record')}"
    told += f"; {counted(others, 'line')} of it could not be read" if others else ""
    return records, told + (f"; {counted(lost, 'record')} were lost when it was written" if lost else "")


def _add_trace(found: _Input, path: Path) -> None:
    if found.records is not None:
        problem = "a trace is given already. With --trace the first argument is a session"
        raise CommandProblem(f"{printable(str(path))}: {problem}")
    found.records, told = _read_trace(path)
    found.sources.append(told)


def _add_own_trace(found: _Input, project: Path) -> None:
    """Add the session's records in the files that `trace_file` writes here."""
    paths = configured_files(project_config(project))
    try:
        records = session_records(paths, found.sessions[0].session_id)
    except OSError as error:
        complain(f"the trace cannot be read, so the page has none: {error}")
        return
    if records:
        found.records = records
        found.sources.append(f"trace {paths[-1].name}, {counted(len(records), 'record')} of it")


def _of_session(records: list[dict[str, Any]], session_id: str) -> list[dict[str, Any]]:
    """The records of the session and of its sub-agents."""
    family = {session_id}
    for record in records:
        if record["kind"] == "session_started" and record.get("parent") in family:
            family.add(str(record.get("session_id")))
    return [record for record in records if record.get("session_id") in family]


def _check_run(records: list[dict[str, Any]] | None, run_id: str) -> None:
    known = list(dict.fromkeys(str(record.get("run_id")) for record in records or () if record.get("run_id")))
    if run_id not in known:
        if records is None:
            raise CommandProblem("--run needs a trace")
        hint = did_you_mean(run_id, known) or (f" The newest is {known[-1]}." if known else " There is no run in it.")
        raise CommandProblem(f"no run '{run_id}' is in the trace.{hint}")


def _write(made: Report, options: ReportOptions, name: str, *, traced: bool) -> int:
    text = render(made)
    if options.output is not None and str(options.output) == "-":
        sys.stdout.buffer.write(text.encode())  # the page says that it is UTF-8, whatever the terminal's encoding is
        return 0
    path = options.output or Path(f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name).strip('._') or 'report'}.html")
    shown = printable(str(path))
    try:
        if path.exists() and not is_page(path.read_text(encoding="utf-8", errors="replace")):
            problem = "is there already and is no report, so it is not overwritten. Name another file with -o"
            raise CommandProblem(f"{shown} {problem}")
        path.touch(mode=0o600)  # it may hold a conversation
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandProblem(f"{shown} cannot be written: {error.strerror}") from None
    runs = counted(len(made.runs) + made.runs_left_out, "run") if traced else "no trace"
    messages = counted(sum(session.count for session in made.sessions), "message")
    size = f"{len(text) / 1e6:.1f} MB" if len(text) >= 1e6 else f"{len(text) / 1e3:,.0f} kB"
    print(f"{shown}: {runs}, {messages}, {size}")
    if options.open_browser and not webbrowser.open(path.absolute().as_uri()):
        complain("no browser could be opened here")
    return 0
