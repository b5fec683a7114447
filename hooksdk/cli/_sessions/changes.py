"""What `hooksdk sessions trim`, `restore`, `settle` and `delete` do."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hooksdk.calls import CallInDoubt, ToolResult, TrimReceipt
from hooksdk.cli._console import (
    CommandProblem,
    counted,
    one_line,
    print_json,
    safe,
    says_yes,
    stderr_console,
    stdout_console,
)
from hooksdk.cli._sessions.ids import find_session, place_of, unknown_session
from hooksdk.cli._sessions.look import with_session, with_store
from hooksdk.errors import SessionBusy
from hooksdk.formats import FORMATS
from hooksdk.stores import Store, list_summaries
from hooksdk.transcript import Results, Transcript

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

WAIT_SECONDS = 1.0
"""For a holder to let go: long enough for a command that only looks whether somebody holds the session."""
OWNER = "user"
"""Who trimmed, in the journal."""


def trim(
    project: Path,
    place: str | None,
    typed: str,
    handles: Sequence[str],
    replacement: str | None,
    *,
    as_json: bool,
) -> int:
    """Trim results at once; the code is 1 when one could not be trimmed."""
    session_id, receipts = with_session(
        project,
        place,
        typed,
        lambda store, one: _change(store, one, handles, lambda results, handle: results.trim(handle, replacement)),
    )
    words = {"applied": "trimmed", "already_trimmed": "trimmed already", "not_trimmed": ""}
    _report(session_id, receipts, words, as_json=as_json)
    return 1 if any(receipt.status == "not_trimmed" for receipt in receipts) else 0


def restore(project: Path, place: str | None, typed: str, handles: Sequence[str], *, as_json: bool) -> int:
    """Restore results at once; one that is whole already stays so."""
    session_id, receipts = with_session(
        project,
        place,
        typed,
        lambda store, one: _change(store, one, handles, lambda results, handle: results.restore(handle)),
    )
    _report(session_id, receipts, {"applied": "whole again", "not_trimmed": "was not trimmed"}, as_json=as_json)
    return 0


async def _change(
    store: Store,
    session_id: str,
    handles: Sequence[str],
    request: Callable[[Results, str], Awaitable[TrimReceipt]],
) -> list[TrimReceipt]:
    """Queue all requests and apply them in one step; nothing is queued when a handle is unknown."""
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


def settle(
    project: Path, place: str | None, typed: str, reference: str, text: str, *, failed: bool, as_json: bool
) -> int:
    """End the doubt about a call."""
    from hooksdk.cli._audit.chains import note  # with the plugin, which no other command about sessions needs

    async def work(store: Store, session_id: str) -> CallInDoubt:
        async with _opened(store, session_id) as transcript:
            call = await transcript.settle(reference, ToolResult(text, is_error=failed))
        fields = {"session_id": session_id, "call_id": call.call_id, "name": call.name, "effect_id": call.effect_id}
        await note(project, store, {"kind": "settled", **fields, "by": "hooksdk sessions settle"})
        return call

    session_id, call = with_session(project, place, typed, work)
    if as_json:
        print_json({"schema": 1, "session": session_id, "settled": asdict(call)})
    else:
        stdout_console().print(f"{one_line(call.call_id)}  settled  [dim]{one_line(call.name)}[/]", soft_wrap=True)
    return 0


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


def _report(session_id: str, receipts: Sequence[TrimReceipt], words: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json({"schema": 1, "session": session_id, "results": [asdict(receipt) for receipt in receipts]})
        return
    console = stdout_console()
    for receipt in receipts:
        what = words[receipt.status]
        if receipt.status == "applied":
            what += f"  [dim]{receipt.characters_before:,} to {receipt.characters_after:,} characters[/]"
        elif not what:
            what = one_line(receipt.text)
        console.print(f"{receipt.handle}  {what}", soft_wrap=True)


def delete(
    project: Path,
    place: str | None,
    session_ids: Sequence[str],
    *,
    older: float | None = None,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove these sessions, or those that were last written `older` seconds ago, after a question on a terminal."""
    deleted: list[str] = []

    async def work(store: Store) -> bool:
        if older is None:
            ids = list(dict.fromkeys([await find_session(store, typed, project) for typed in session_ids]))
        else:
            ids = await _older(store, time.time() - older)
        if ids and not yes and not _confirmed(ids, place_of(store)):
            return False
        for session_id in ids:
            try:
                if not await store.delete_session(session_id, wait=WAIT_SECONDS) and older is None:
                    raise await unknown_session(store, session_id)
            except SessionBusy as error:
                if older is None:
                    raise
                stderr_console().print(f"{one_line(session_id)}  stays: {one_line(str(error))}", soft_wrap=True)
                continue
            deleted.append(session_id)
            if not as_json:
                stdout_console().print(f"{one_line(session_id)}  deleted", soft_wrap=True)
        return True

    is_done = with_store(project, place, work)
    if as_json:
        print_json({"schema": 1, "deleted": deleted})
    elif not deleted:
        print("nothing was deleted")
    return 0 if is_done else 1


async def _older(store: Store, until: float) -> list[str]:
    summaries = await list_summaries(store)
    return [one.session_id for one in summaries if one.changed is not None and one.changed < until]


def _confirmed(ids: Sequence[str], where: str) -> bool:
    if not sys.stdin.isatty():
        raise CommandProblem("nobody is there to answer: --yes deletes without asking")
    names = ", ".join(one_line(each) for each in ids)
    question = f"Delete {counted(len(ids), 'session')} in {safe(where)} for good: {names}?"
    return says_yes(stdout_console(), question)
