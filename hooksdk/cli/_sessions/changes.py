"""`hooksdk sessions trim`, `restore`, `settle` and `delete`. A session is changed only while nobody else holds it."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hooksdk.calls import CallInDoubt, ToolResult, TrimReceipt
from hooksdk.cli._console import CommandProblem, View, counted, one_line, safe, says_yes, stderr_console, stdout_console
from hooksdk.cli._options import Json, Project, StorePlace, seconds_of
from hooksdk.cli._sessions.look import SessionId, find_session, place_of, unknown_session, with_session, with_store
from hooksdk.errors import SessionBusy
from hooksdk.formats import FORMATS
from hooksdk.stores import Store, list_summaries
from hooksdk.transcript import Results, Transcript

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# How long a holder may take to let go: enough for a command that looks whether somebody holds the session.
WAIT_SECONDS = 1.0
# Who trimmed, in the journal.
OWNER = "user"


Handles = Annotated[
    list[str], typer.Argument(metavar="HANDLE...", help="As `hooksdk sessions results` shows them, or call ids.")
]


def trim_results(
    session_id: SessionId,
    handles: Handles,
    replacement: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Let the model see a short note instead of these results. They stay stored, and `restore` brings them back.

    Options:
        replacement: What is to be kept of the result; for one result at a time.
    """
    if replacement is not None and len(handles) > 1:
        raise typer.BadParameter("it says what one result held: give one handle", param_hint="--replacement")

    async def trim(results: Results, handle: str) -> TrimReceipt:
        return await results.trim(handle, replacement)

    session_id, receipts = with_session(project, store, session_id, partial(_change, handles, trim))
    words = {"applied": "trimmed", "already_trimmed": "trimmed already", "not_trimmed": ""}
    _view(session_id, receipts, words).show(as_json=as_json)
    raise typer.Exit(int(any(receipt.status == "not_trimmed" for receipt in receipts)))


def restore_results(
    session_id: SessionId, handles: Handles, as_json: Json = False, project: Project = Path(), store: StorePlace = None
) -> None:
    """Let the model see trimmed results whole again."""
    session_id, receipts = with_session(project, store, session_id, partial(_change, handles, Results.restore))
    _view(session_id, receipts, {"applied": "whole again", "not_trimmed": "was not trimmed"}).show(as_json=as_json)


async def _change(
    handles: Sequence[str], request: Callable[[Results, str], Awaitable[TrimReceipt]], store: Store, session_id: str
) -> list[TrimReceipt]:
    """Queue all requests and apply them in one step. Nothing is queued when a handle is unknown."""
    async with _opened(store, session_id) as transcript:
        await transcript.drain()  # of a run that crashed, as a host does when it opens the session
        for handle in handles:
            transcript.read_result(handle)
        results = Results(transcript, OWNER)
        receipts = [await request(results, handle) for handle in handles]
        report = await transcript.drain()
    applied = {each.handle for each in report.trims if each.status == "applied"}
    return [
        replace(receipt, status="applied") if receipt.status == "queued" and receipt.handle in applied else receipt
        for receipt in receipts
    ]


def _view(session_id: str, receipts: Sequence[TrimReceipt], words: Mapping[str, str]) -> View:
    view = View({"session": session_id, "results": [asdict(receipt) for receipt in receipts]})
    for receipt in receipts:
        what = words[receipt.status] or one_line(receipt.text)
        if receipt.status == "applied":
            what += f"  [dim]{receipt.characters_before:,} to {receipt.characters_after:,} characters[/]"
        view.markup(f"{receipt.handle}  {what}")
    return view


def settle_call(
    session_id: SessionId,
    call: Annotated[str, typer.Argument(metavar="CALL")],
    result: Annotated[str, typer.Argument(metavar="TEXT")],
    failed: Annotated[bool, typer.Option("--failed")] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Say what came of a call that is in doubt: it began, and nobody knows how it ended.

    Options:
        call: As `hooksdk sessions show` tells it: a call id or an effect id.
        result: What came of it, as the model is to read it.
        failed: It did not take effect: the text is an error.
    """
    from hooksdk.cli._audit.chains import note  # with the plugin, which no other command about sessions needs

    async def work(opened: Store, session_id: str) -> CallInDoubt:
        async with _opened(opened, session_id) as transcript:
            settled = await transcript.settle(call, ToolResult(result, is_error=failed))
        fields = {"call_id": settled.call_id, "name": settled.name, "effect_id": settled.effect_id}
        by = "hooksdk sessions settle"
        await note(project, opened, {"kind": "settled", "session_id": session_id, **fields, "by": by})
        return settled

    session_id, settled = with_session(project, store, session_id, work)
    view = View({"session": session_id, "settled": asdict(settled)})
    view.markup(f"{one_line(settled.call_id)}  settled  [dim]{one_line(settled.name)}[/]")
    view.show(as_json=as_json)


@asynccontextmanager
async def _opened(store: Store, session_id: str) -> AsyncGenerator[Transcript]:
    """The session, held by this command alone and without a plugin. Raises `SessionBusy`, which names the holder."""
    log = await store.open_session(session_id, wait=WAIT_SECONDS)
    try:
        _, journal = await log.read()
        name = next((str(entry.get("name")) for entry in journal if entry.get("kind") == "format"), None)
        if name is None:
            raise CommandProblem(f"session '{session_id}' has no messages yet")
        if name not in FORMATS:
            raise CommandProblem(f"session '{session_id}' is kept in '{name}', a format that only its host knows")
        transcript = await Transcript.open(log, session_id)
        yield transcript
    finally:
        await log.close()


def delete_sessions(
    session_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]")] = None,
    older: Annotated[str, typer.Option(metavar="DURATION")] = "",
    yes: Annotated[bool, typer.Option("--yes")] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Remove sessions for good. One that somebody holds is refused; with `--older` it stays.

    Options:
        session_ids: As `hooksdk sessions list` shows them.
        older: All that were last written so long ago, such as 30d.
        yes: Remove them without asking.
    """
    if as_json and not yes:
        raise typer.BadParameter("--json prints nothing but the document, so nothing can be asked: add --yes")
    if bool(session_ids) == bool(older):
        raise typer.BadParameter("expected either ids or --older DURATION")
    age = seconds_of(older) if older else None
    deleted: list[str] = []

    async def work(opened: Store) -> bool:
        if age is None:
            ids = list(dict.fromkeys([await find_session(opened, typed, project) for typed in session_ids or ()]))
        else:
            ids = await _older(opened, time.time() - age)
        if ids and not yes and not _confirmed(ids, place_of(opened)):
            return False
        for session_id in ids:
            try:
                if not await opened.delete_session(session_id, wait=WAIT_SECONDS) and age is None:
                    raise await unknown_session(opened, session_id)
            except SessionBusy as error:
                if age is None:
                    raise
                stderr_console().print(f"{one_line(session_id)}  stays: {one_line(str(error))}", soft_wrap=True)
                continue
            deleted.append(session_id)
            if not as_json:
                stdout_console().print(f"{one_line(session_id)}  deleted", soft_wrap=True)
        return True

    is_done = with_store(project, store, work)
    view = View({"deleted": deleted})
    if not deleted:
        view.text("nothing was deleted")
    view.show(as_json=as_json)
    raise typer.Exit(0 if is_done else 1)


async def _older(store: Store, until: float) -> list[str]:
    summaries = await list_summaries(store)
    return [one.session_id for one in summaries if one.changed is not None and one.changed < until]


def _confirmed(ids: Sequence[str], where: str) -> bool:
    if not sys.stdin.isatty():
        raise CommandProblem("nobody is there to answer: --yes deletes without asking")
    names = ", ".join(one_line(each) for each in ids)
    question = f"Delete {counted(len(ids), 'session')} in {safe(where)} for good: {names}?"
    return says_yes(stdout_console(), question)
