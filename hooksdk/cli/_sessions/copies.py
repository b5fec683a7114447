"""`hooksdk sessions export` into files of JSON lines, and `hooksdk sessions backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk.cli._console import CommandProblem, View, counted, one_line, stdout_console
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._sessions.look import Damaged, find_session, look_at, place_of, with_store
from hooksdk.errors import StoreError
from hooksdk.stores import SqlStore
from hooksdk.stores.copies import backup, export_session, file_name
from hooksdk.stores.files import replace_file
from hooksdk.stores.upkeep import list_ends
from hooksdk.transcript import encode

# Seconds between two looks at sessions that are followed.
PAUSE = 0.25


def export_files(typed: str | None, folder: Path, project: Path, store: str | None, *, as_json: bool) -> None:
    """Write this session, or all, into two files each. The code is 1 where one cannot be read."""

    async def work(opened: SqlStore) -> tuple[list[dict[str, Any]], list[str]]:
        ids = [await find_session(opened, typed, project)] if typed is not None else await opened.list_sessions()
        written: list[dict[str, Any]] = []
        problems: list[str] = []
        for session_id in ids:
            try:
                files = await export_session(opened, session_id, folder)
                written.append({"session": session_id, "files": [str(path) for path in files]})
            except StoreError as error:
                problems.append(str(error))
        return written, problems

    written, problems = with_store(project, store, work)
    view = View({"folder": str(folder), "sessions": written, "problems": problems})
    view.text(f"{counted(len(written), 'session')} in {folder}, two files each")
    view.lines("problem", problems, "red")
    view.show(as_json=as_json)
    raise typer.Exit(1 if problems else 0)


def follow_views(typed: str | None, folder: Path, project: Path, store: str | None) -> None:
    """Write what the model sees of this session, or of all, into `NAME.view.jsonl`, anew after each change, until
    somebody interrupts it."""
    seen: dict[str, bytes] = {}

    async def work(opened: SqlStore) -> None:
        only = await find_session(opened, typed, project) if typed is not None else None
        while True:
            for session_id, end in (await list_ends(opened)).items():
                if only in (None, session_id) and seen.get(session_id) != end:
                    await write(opened, session_id)
                    seen[session_id] = end
            if only is not None and only not in seen:
                raise CommandProblem(f"session '{only}' was removed")
            await anyio.sleep(PAUSE)

    async def write(opened: SqlStore, session_id: str) -> None:
        path = folder / f"{file_name(session_id)}.view.jsonl"
        try:
            view = (await look_at(opened, session_id)).ledger.view
            await anyio.to_thread.run_sync(replace_file, path, b"".join(encode(message) + b"\n" for message in view))
        except Damaged as error:
            stdout_console().print(f"{one_line(session_id)}  {one_line(str(error))}", soft_wrap=True)
            return
        if session_id not in seen:
            stdout_console().print(f"{one_line(session_id)}  {one_line(str(path))}", soft_wrap=True)

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with_store(project, store, work)
    except KeyboardInterrupt:
        return


def backup_store(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Copy the SQLite database into a new file while others go on writing it, and examine the copy.

    The code is 1 where the copy has problems: the database has them, too.
    """

    async def work(opened: SqlStore) -> tuple[dict[str, Any], list[str]]:
        flaws = await backup(opened, file)
        problems = [f"{flaw.who}: {flaw.what}" for flaw in flaws]
        facts = {"database": place_of(opened), "file": str(file), "bytes": file.stat().st_size}
        return facts, problems

    facts, problems = with_store(project, store, work)
    view = View({**facts, "problems": problems}, indent=9)
    view.line("copied", f"{facts['database']} into {file}, {facts['bytes']:,} bytes", "green")
    view.lines("problem", problems, "red")
    view.show(as_json=as_json)
    raise typer.Exit(1 if problems else 0)
