"""`hooksdk sessions import`: a history from elsewhere, recorded into a new session."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Config, Host
from hooksdk.cli._console import CommandProblem, View, counted
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._project import project_config
from hooksdk.config import without_password
from hooksdk.histories import read_history
from hooksdk.stores import open_store
from hooksdk.trimming import list_results


def import_session(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    source: Annotated[str | None, typer.Option("--format", metavar="NAME")] = None,
    into: Annotated[str | None, typer.Option("--into", metavar="FORMAT")] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID")] = None,
    store: StorePlace = None,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Record another program's history into a new session: OpenAI, Anthropic, Gemini, LangChain, pydantic-ai,
    openai-agents, Claude Code, OpenClaw.

    Options:
        file: JSON, or one item a line.
        source: Where it comes from; guessed by default.
        into: openai-chat, anthropic, openai-responses or gemini.
        session: The new session, by default the file's name; of a file with several, which one.
    """
    config = project_config(project, store)
    if config.store == "memory":
        raise CommandProblem("the store is in memory, so the session would be gone at once; write --store FOLDER")
    history = read_history(file, source, into=into, session=session)
    session_id = session or file.stem

    async def record() -> None:
        async with (
            aclosing(open_store(config.store)) as opened,
            Host(store=opened, config=Config()) as host,  # without plugins: an import is nobody's turn
            host.session(session_id) as new,
        ):
            if new.messages:
                raise CommandProblem(f"session '{session_id}' has messages already; write --session with a new id")
            await new.load(history.messages, history.format)

    anyio.run(record)
    results = list_results(history.messages, history.format)
    facts: dict[str, Any] = {
        "session": session_id,
        "store": without_password(str(config.store)),
        "source": history.source,
        "format": history.format,
        "messages": len(history.messages),
        "results": len(results),
        "trimmable": sum(one.trimmable for one in results),
        "result_tokens": sum(one.tokens for one in results),
        "notes": list(history.notes),
    }
    counts = f"{counted(facts['messages'], 'message')}, {counted(facts['results'], 'tool result')}"
    view = View(facts, indent=10)
    view.line("imported", f"session {session_id} in {facts['store']}", "green")
    view.line("", f"{counts} of about {counted(facts['result_tokens'], 'token')}")
    view.line("", f"{history.source}, kept as {history.format}")
    view.lines("note", history.notes, "yellow")
    view.show(as_json=as_json)
