"""`hooksdk sessions import`: a history from elsewhere, recorded into a new session, and sessions that were exported."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Config, Host
from hooksdk.cli._console import CommandProblem, View, counted
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._project import project_config
from hooksdk.config import without_password
from hooksdk.formats import FORMATS
from hooksdk.histories import History, read_history
from hooksdk.stores import SqlStore, open_store
from hooksdk.stores.copies import import_session as insert
from hooksdk.stores.copies import named_in, read_old_session
from hooksdk.trimming import list_results

# How the files of an exported session end.
PARTS = re.compile(r"\.(messages|journal|view)\.jsonl$")


def import_session(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False)],
    source: Annotated[str | None, typer.Option("--format", metavar="NAME")] = None,
    into: Annotated[str | None, typer.Option("--into", metavar="FORMAT")] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID")] = None,
    store: StorePlace = None,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Record another program's history into a new session: OpenAI, Anthropic, Gemini, LangChain, pydantic-ai,
    openai-agents, Claude Code, OpenClaw. Files of `hooksdk sessions export --to` become the session that they were.

    Options:
        files: JSON, or one item a line; of an exported session one of its files is enough.
        source: Where it comes from; guessed by default.
        into: openai-chat, anthropic, openai-responses or gemini.
        session: The new session, by default the file's name, or the id that it had; of a file with several, which one.
    """
    config = project_config(project, store)
    opened = open_store(config.store, config.sessions)
    if not isinstance(opened, SqlStore):
        raise CommandProblem("the store is in memory, so the session would be gone at once; write --store FOLDER")
    paths = list(dict.fromkeys(_journal(path) or path for path in files))
    if session is not None and len(paths) > 1:
        raise typer.BadParameter("it names one session: give one file", param_hint="--session")

    async def work() -> list[Mapping[str, Any]]:
        async with aclosing(opened):
            return [await _import(opened, path, source, into, session) for path in paths]

    imported: list[dict[str, Any]] = [
        {**each, "store": without_password(str(config.store))} for each in anyio.run(work)
    ]
    view = View(imported[0] if len(imported) == 1 else {"imported": imported}, indent=10)
    for facts in imported:
        counts = f"{counted(facts['messages'], 'message')}, {counted(facts['results'], 'tool result')}"
        view.line("imported", f"session {facts['session']} in {facts['store']}", "green")
        view.line("", f"{counts} of about {counted(facts['result_tokens'], 'token')}")
        view.line("", f"{facts['source']}, kept as {facts['format']}")
        view.lines("note", facts["notes"], "yellow")
    view.show(as_json=as_json)


def _journal(path: Path) -> Path | None:
    """The journal beside this file, if it is one of an exported session's; else None."""
    journal = path.with_name(PARTS.sub(".journal.jsonl", path.name))
    return journal if PARTS.search(path.name) and named_in(journal) is not None else None


async def _import(
    store: SqlStore, path: Path, source: str | None, into: str | None, session_id: str | None
) -> Mapping[str, Any]:
    if _journal(path) is not None:
        if source or into:
            raise CommandProblem(
                f"{path} is an exported session: --format and --into are for other programs' histories"
            )
        exported = read_old_session(path)
        session_id = session_id or exported.session_id
        await insert(store, replace(exported, session_id=session_id))
        entries = map(json.loads, exported.journal)
        name = next((str(entry.get("name")) for entry in entries if entry.get("kind") == "format"), "")
        return _facts(session_id, History(list(map(json.loads, exported.messages)), name, "hooksdk", ()))
    history = read_history(path, source, into=into, session=session_id)
    session_id = session_id or path.stem
    async with (
        Host(store=store, config=Config()) as host,  # without plugins: an import is nobody's turn
        host.session(session_id) as new,
    ):
        if new.messages:
            raise CommandProblem(f"session '{session_id}' has messages already; write --session with a new id")
        await new.load(history.messages, history.format)
    return _facts(session_id, history)


def _facts(session_id: str, history: History) -> Mapping[str, Any]:
    results = list_results(history.messages, history.format) if history.format in FORMATS else ()
    return {
        "session": session_id,
        "source": history.source,
        "format": history.format,
        "messages": len(history.messages),
        "results": len(results),
        "trimmable": sum(one.trimmable for one in results),
        "result_tokens": sum(one.tokens for one in results),
        "notes": list(history.notes),
    }
