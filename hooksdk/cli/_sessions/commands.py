"""`hooksdk sessions`: look at what is stored, shorten it, take it elsewhere, remove it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hooksdk.cli._options import Json, Project, StorePlace, seconds_of
from hooksdk.cli._sessions.cost import cost

sessions_app = typer.Typer(help="Look at stored sessions, and change them.", no_args_is_help=True)

SessionId = Annotated[
    str, typer.Argument(metavar="ID", help="As `hooksdk sessions list` shows it; `last` is the newest of this folder.")
]
Handles = Annotated[
    list[str], typer.Argument(metavar="HANDLE...", help="As `hooksdk sessions results` shows them, or call ids.")
]
View = Annotated[bool, typer.Option("--view", help="As the model sees it: compacted, and with the trims.")]


@sessions_app.command("list")
def list_sessions(
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Read all of each: messages, results, trims and tokens.")
    ] = False,
    used: Annotated[
        bool, typer.Option("--used", help="What each has used, also with its sub-agents: requests, tokens, money.")
    ] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """List the sessions, the last changed first: what was asked, which model, where and when."""
    from hooksdk.cli._sessions import listing

    raise typer.Exit(listing.list_sessions(project, store, sizes=sizes, used=used, as_json=as_json))


@sessions_app.command("show")
def show_session(
    session_id: SessionId,
    full: Annotated[bool, typer.Option("--full", help="Every text whole, trimmed results too.")] = False,
    view: View = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Show a session's messages, calls and results. Works while another process holds it."""
    from hooksdk.cli._sessions import views

    raise typer.Exit(views.show(project, store, session_id, full=full, view=view, as_json=as_json))


@sessions_app.command("results")
def list_results(
    session_id: SessionId, as_json: Json = False, project: Project = Path(), store: StorePlace = None
) -> None:
    """List a session's tool results, and which of them can be trimmed."""
    from hooksdk.cli._sessions import views

    raise typer.Exit(views.list_results(project, store, session_id, as_json=as_json))


@sessions_app.command("export")
def export_session(
    session_id: SessionId,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="A new file; by default stdout.")
    ] = None,
    view: View = False,
    file_format: Annotated[
        Literal["jsonl", "json"], typer.Option("--format", help="A message a line, or one JSON list.")
    ] = "jsonl",
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Write a session's messages out, in the shape that their provider takes."""
    from hooksdk.cli._sessions import views

    order = views.Export(output=output, view=view, file_format=file_format, as_json=as_json)
    raise typer.Exit(views.export(project, store, session_id, order))


@sessions_app.command("trim")
def trim_results(
    session_id: SessionId,
    handles: Handles,
    replacement: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What is to be kept of the result; for one result at a time.")
    ] = None,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Let the model see a short note instead of these results. They stay stored, and `restore` brings them back."""
    from hooksdk.cli._sessions import changes

    if replacement is not None and len(handles) > 1:
        raise typer.BadParameter("it says what one result held: give one handle", param_hint="--replacement")
    raise typer.Exit(changes.trim(project, store, session_id, handles, replacement, as_json=as_json))


@sessions_app.command("restore")
def restore_results(
    session_id: SessionId,
    handles: Handles,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Let the model see trimmed results whole again."""
    from hooksdk.cli._sessions import changes

    raise typer.Exit(changes.restore(project, store, session_id, handles, as_json=as_json))


@sessions_app.command("settle")
def settle_call(
    session_id: SessionId,
    call: Annotated[
        str, typer.Argument(metavar="CALL", help="As `hooksdk sessions show` tells it: a call id or an effect id.")
    ],
    result: Annotated[str, typer.Argument(metavar="TEXT", help="What came of it, as the model is to read it.")],
    failed: Annotated[bool, typer.Option("--failed", help="It did not take effect: the text is an error.")] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Say what came of a call that is in doubt: it began, and nobody knows how it ended."""
    from hooksdk.cli._sessions import changes

    raise typer.Exit(changes.settle(project, store, session_id, call, result, failed=failed, as_json=as_json))


@sessions_app.command("delete")
def delete_sessions(
    session_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID...]", help="As `hooksdk sessions list` shows them.")
    ] = None,
    older: Annotated[
        str, typer.Option(metavar="DURATION", help="All that were last written so long ago, such as 30d.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Remove them without asking.")] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Remove sessions for good. One that somebody holds is refused; with `--older` it stays."""
    from hooksdk.cli._sessions import changes

    if as_json and not yes:
        raise typer.BadParameter("--json prints nothing but the document, so nothing can be asked: add --yes")
    if bool(session_ids) == bool(older):
        raise typer.BadParameter("expected either ids or --older DURATION")
    age = seconds_of(older) if older else None
    raise typer.Exit(changes.delete(project, store, session_ids or [], older=age, yes=yes, as_json=as_json))


@sessions_app.command("doctor")
def examine_sessions(
    session_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID...]", help="Only these; by default the whole store.")
    ] = None,
    mend: Annotated[
        bool, typer.Option("--mend", help="Do what can be done, with a backup of each file that changes.")
    ] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Find torn ends, damaged lines, lost messages, dead locks and unreadable values, and say what can be done.

    The code is 1 while there are problems.
    """
    from hooksdk.cli._sessions import examination

    raise typer.Exit(examination.doctor(project, store, session_ids or [], mend=mend, as_json=as_json))


@sessions_app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="JSON, or one item a line.", exists=True, dir_okay=False)],
    source: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Where it comes from; guessed by default.")
    ] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="FORMAT", help="openai-chat, anthropic, openai-responses or gemini."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            metavar="ID",
            help="The new session, by default the file's name; of a file with several, which one.",
        ),
    ] = None,
    store: StorePlace = None,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Record another program's history into a new session: OpenAI, Anthropic, Gemini, LangChain, pydantic-ai,
    openai-agents, Claude Code, OpenClaw."""
    from hooksdk.cli._sessions.import_history import ImportOptions, import_session

    options = ImportOptions(
        file=file, source=source, into=into, session=session, store=store, project=project, as_json=as_json
    )
    raise typer.Exit(import_session(options))


sessions_app.command("cost")(cost)
