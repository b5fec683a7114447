"""`hooksdk sessions import`: a history from elsewhere, recorded into a new session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from hooksdk import Config, Host
from hooksdk.cli._console import CommandProblem, counted
from hooksdk.cli._project import project_config
from hooksdk.cli._view import View
from hooksdk.config import without_password
from hooksdk.histories import read_history
from hooksdk.stores import open_store
from hooksdk.trimming import list_results


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What to import, and where to."""

    file: Path
    source: str | None = None
    into: str | None = None
    session: str | None = None
    store: str | None = None
    project: Path = Path()
    as_json: bool = False


def import_session(options: ImportOptions) -> int:
    """Read the file, record it and print what was left out."""
    config = project_config(options.project, options.store)
    if config.store == "memory":
        raise CommandProblem("the store is in memory, so the session would be gone at once; write --store FOLDER")
    history = read_history(options.file, options.source, into=options.into, session=options.session)
    session_id = options.session or options.file.stem

    async def record() -> None:
        store = open_store(config.store)
        try:
            # No plugins: an import is nobody's turn.
            async with Host(store=store, config=Config()) as host, host.session(session_id) as session:
                if session.messages:
                    raise CommandProblem(f"session '{session_id}' has messages already; write --session with a new id")
                await session.load(history.messages, history.format)
        finally:
            await store.aclose()

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
    view.show(as_json=options.as_json)
    return 0
