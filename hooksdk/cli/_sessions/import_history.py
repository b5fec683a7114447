"""`hooksdk sessions import`: a history from elsewhere, recorded into a new session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from hooksdk import Config, Host
from hooksdk.cli._console import CommandProblem, counted, one_line, print_json, stdout_console
from hooksdk.cli._project import project_config
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
    answer: dict[str, Any] = {
        "schema": 1, "session": session_id, "store": without_password(str(config.store)), "source": history.source, "format": history.format,
        "messages": len(history.messages), "results": len(results), "trimmable": sum(one.trimmable for one in results),
        "result_tokens": sum(one.tokens for one in results), "notes": list(history.notes),
    }  # fmt: skip
    if options.as_json:
        print_json(answer)
    else:
        _print(answer)
    return 0


def _print(answer: dict[str, Any]) -> None:
    console = stdout_console()
    counts = f"{counted(answer['messages'], 'message')}, {counted(answer['results'], 'tool result')}"
    console.print(
        f"[green]imported[/]  session {one_line(answer['session'])} in {one_line(answer['store'])}", soft_wrap=True
    )
    console.print(f"          {counts} of about {counted(answer['result_tokens'], 'token')}", soft_wrap=True)
    console.print(f"          {answer['source']}, kept as {answer['format']}", soft_wrap=True)
    for note in answer["notes"]:
        console.print(f"[yellow]note[/]      {one_line(note)}", soft_wrap=True)
