"""`hooksdk sessions erase` and `keep`: remove for good what is stored of sessions and of people, asked or by age."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._console import CommandProblem, View, counted, one_line, safe, says_yes, stdout_console
from hooksdk.cli._options import DryRun, Json, Project, StorePlace, Yes
from hooksdk.cli._project import project_config
from hooksdk.cli._sessions.look import match_session, place_of, unknown_session, with_store
from hooksdk.config import retention_of
from hooksdk.stores import SqlStore, Store
from hooksdk.stores.erasing import Erasure, Receipt, erase, find
from hooksdk.stores.retention import remove_some

# The code where the words may still be in the files: the same command finishes it.
WAITS = 3
# Sessions that `keep` removes before it looks again.
STEP = 100


def erase_sessions(
    session_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]")] = None,
    requester: Annotated[str, typer.Option(metavar="ID")] = "",
    before: Annotated[datetime | None, typer.Option(metavar="DATE", formats=["%Y-%m-%d"])] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Erase sessions with all that belongs to them, and say what is gone from the files.

    Sub-agents' sessions, questions and answers of approvals, values, and copies of earlier versions go with them. The
    code is 3 while the words may still be in the database's files: the same command finishes it.

    Options:
        session_ids: As `hooksdk sessions list` shows them.
        requester: Every session with a run for this requester, and what is kept for them.
        before: Sessions that were not written since this day (UTC), such as 2026-01-31.
    """
    if as_json and not (yes or dry_run):
        raise typer.BadParameter("--json prints nothing but the document, so nothing can be asked: add --yes")
    if bool(session_ids) + bool(requester) + bool(before) != 1:
        raise typer.BadParameter("expected ids, --requester ID or --before DATE, and one of them alone")

    async def work(opened: Store) -> tuple[list[str], Receipt | None]:
        kept = _database(opened)
        ids = [await match_session(kept, typed, project) or typed for typed in session_ids or ()]
        day = before.replace(tzinfo=UTC).timestamp() if before else None
        erasure = Erasure(sessions=ids, requester=requester, before=day)
        found = await find(kept, erasure)
        if dry_run or not (yes or not found or _confirmed(found, place_of(kept))):
            return found, None
        receipt = await erase(kept, erasure)
        if receipt is None and ids:
            raise await unknown_session(kept, ids[0])
        if receipt is not None:
            from hooksdk.cli._audit.chains import note  # with the plugin

            names = {"sessions_sha256": [*map(_digest, receipt.sessions)]}
            names |= {"requester_sha256": [_digest(requester)]} if requester else {}
            state = "waits" if receipt.waits else "erased"
            await note(project, kept, {"kind": "erased", **names, "state": state, "by": "hooksdk sessions erase"})
        return found, receipt

    found, receipt = with_store(project, store, work)
    if receipt is None:
        view = View({"erased": False, "would_erase": found})
        view.lines("would erase" if dry_run else "stays", found)
        view.text("nothing was erased")
        view.show(as_json=as_json)
        raise typer.Exit(int(bool(found) and not dry_run))
    view = View({"erased": not receipt.waits, **asdict(receipt), "waits": receipt.waits or None})
    number = f"{counted(len(receipt.sessions), 'session')}, {counted(receipt.values, 'value')}"
    state = f", removed, and not erased: {receipt.waits}. Type it again later" if receipt.waits else ""
    view.line("waits" if receipt.waits else "erased", number + state, "yellow" if receipt.waits else "green")
    held = [f"{session_id}: {holder} holds it" for session_id, holder in receipt.held.items()]
    parts = {"session": receipt.sessions, "file": receipt.files, "stays": held, "not reached": receipt.not_reached}
    for label, texts in parts.items():
        view.lines(label, texts)
    view.show(as_json=as_json)
    raise typer.Exit(WAITS if receipt.waits else 0)


def keep_sessions(as_json: Json = False, project: Project = Path(), store: StorePlace = None) -> None:
    """Remove the sessions that the configuration keeps no longer, but for open ones: for cron."""
    table = project_config(project).sessions
    rule = retention_of(table)

    async def work(opened: Store) -> int:
        removed = number = 0
        while number := await remove_some(_database(opened), table, limit=STEP):
            removed += number
        return removed

    removed = with_store(project, store, work)
    view = View({"rule": rule.words or None, "removed": removed})
    view.text(
        f"{counted(removed, 'session')} removed: {rule.words or 'they are kept for good, without [sessions] keep'}"
    )
    view.show(as_json=as_json)


def _database(store: Store) -> SqlStore:
    if not isinstance(store, SqlStore):
        raise CommandProblem("only sessions in a database can be erased with a receipt")
    return store


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _confirmed(ids: list[str], where: str) -> bool:
    if not sys.stdin.isatty():
        raise CommandProblem("nobody is there to answer: --yes erases without asking")
    names = ", ".join(map(one_line, ids))
    question = (
        f"Erase {counted(len(ids), 'session')} in {safe(where)} for good, with all that belongs to them: {names}?"
    )
    return says_yes(stdout_console(), question)
