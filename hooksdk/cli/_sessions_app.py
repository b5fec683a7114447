"""The command line of `hooksdk sessions`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._options import Json, Project

sessions_app = typer.Typer(help="Work with stored sessions.", no_args_is_help=True)


@sessions_app.callback()
def sessions() -> None:
    """Work with stored sessions."""


@sessions_app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="JSON, or one item a line.", exists=True, dir_okay=False)],
    source: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Where it comes from; guessed by default.")
    ] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="FORMAT", help="openai-chat, anthropic, or the source's own format."),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="The new session; by default the file's name.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", file_okay=False, help="The store's folder; by default the configuration's."),
    ] = None,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Record another program's history into a new session: OpenAI, Anthropic, Gemini, LangChain, pydantic-ai,
    openai-agents, Claude Code, OpenClaw."""
    from hooksdk.cli._sessions_import import ImportOptions, import_session

    options = ImportOptions(
        file=file, source=source, into=into, session=session, store=store, project=project, as_json=as_json
    )
    raise typer.Exit(import_session(options))
