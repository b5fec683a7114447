"""`hooksdk sessions waiting`: what waits in a store, since when and for whom. No session is held or changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hooksdk.calls import CallInDoubt
from hooksdk.cli._console import CommandProblem, View
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._project import project_config
from hooksdk.cli._sessions.look import Damaged, look_at, place_of, timestamp, with_store
from hooksdk.desk import ApprovalRecord, ApprovalRecords
from hooksdk.errors import ConfigError
from hooksdk.stores import Store
from hooksdk.transcript import SharingStore
from hooksdk.values import clip

if TYPE_CHECKING:
    from hooksdk.adapters.dbos import StandingRuns

# The space in which workers of `hooksdk.adapters.dbos` note where DBOS's tables are, and the prefix of their own
# leases. The adapter itself cannot be imported where DBOS is not installed.
_DBOS, _WORKER = "hooksdk.dbos.schemas", "hooksdk~"


Dbos = Annotated[str | None, typer.Option("--dbos", metavar="URL")]


def list_waiting(dbos: Dbos = None, as_json: Json = False, project: Project = Path(), store: StorePlace = None) -> None:
    """Show what waits, since when and for whom: questions, answers that no call has taken, calls in doubt, sessions
    whose worker is gone, and runs on DBOS of a version without a worker.

    The code is 1 where something cannot be read.

    Options:
        dbos: DBOS's database, where it is not the store's.
    """
    url = (store if store is not None else project_config(project).store) or ""

    async def look(opened: Store) -> tuple[list[dict[str, Any]], list[str], str]:
        waits, problems = await _in_sessions(opened)
        waits += [_of_question(one) for one in await ApprovalRecords(opened).list()]
        try:
            waits += [_of_runs(one) for one in await standing_runs(opened, url, dbos=dbos)]
        except (CommandProblem, ConfigError) as problem:
            problems.append(f"runs on DBOS: {problem}")
        return sorted(filter(None, waits), key=itemgetter("since")), problems, place_of(opened)

    waits, problems, where = with_store(project, store, look)
    view = View({"waiting": waits, "problems": problems})
    rows = [[one["since"][:16].replace("T", " "), one["for"], one["session"], one["what"]] for one in waits]
    if rows:
        view.table(("since", "waits for", "session", "what"), [[cell or "-" for cell in row] for row in rows])
    elif not problems:
        view.text(f"Nothing waits in {where}.")
    for problem in problems:
        view.line("not read", problem, "red")
    view.show(as_json=as_json)
    raise typer.Exit(1 if problems else 0)


async def standing_runs(store: Store, url: str, *, dbos: str | None = None) -> Sequence[StandingRuns]:
    """The runs of which no worker lives, where workers on DBOS have this store: by DBOS's tables at the store's URL, or
    at that of `dbos`. Raises `CommandProblem` without DBOS, and `ConfigError` where its tables are not there."""
    if not isinstance(store, SharingStore) or not (dbos or await store.list_keys(_DBOS)):
        return ()
    try:
        from hooksdk.adapters.dbos import list_standing
    except ModuleNotFoundError:
        raise CommandProblem("they are seen where DBOS is installed: pip install 'hooksdk[dbos]'") from None
    return await list_standing(store, dbos or url)


async def _in_sessions(store: Store) -> tuple[list[dict[str, Any]], list[str]]:
    """The calls in doubt, the sessions whose worker is gone, and what is wrong with sessions that cannot be read."""
    waits, problems = list[dict[str, Any]](), list[str]()
    for session_id in [one for one in await store.list_sessions() if not one.startswith(_WORKER)]:
        try:
            seen = await look_at(store, session_id)
            held = await store.list_held(session_id) if isinstance(store, SharingStore) else {}
            doubts = [] if seen.holder or held.get(session_id) else seen.ledger.effects.described()
            doubts = doubts and await _still(store, session_id, doubts)
        except CommandProblem as problem:
            if isinstance(problem, Damaged):  # else it was deleted meanwhile
                problems.append(f"session '{session_id}': {problem}")
            continue
        waits += [_of_doubt(session_id, one) for one in doubts]
        if held.get(session_id) is False:
            waits.append(_wait("left", session_id, seen.changed, "a worker", "its worker is gone"))
    return waits, problems


async def _still(store: Store, session_id: str, doubts: Sequence[CallInDoubt]) -> list[CallInDoubt]:
    """Those that are in doubt now that nobody holds the session: others were running when they were read, and their
    worker has closed the session since."""
    now = {one.effect_id for one in (await look_at(store, session_id)).ledger.effects.described()}
    return [one for one in doubts if one.effect_id in now]


def _wait(kind: str, session: str, since: float | None, whom: str, what: str, **more: Any) -> dict[str, Any]:
    when = "" if since is None else timestamp(since)  # not known of a session without messages
    return {"kind": kind, "session": session, "since": when, "for": whom, "what": what, **more}


def _of_doubt(session_id: str, call: CallInDoubt) -> dict[str, Any]:
    what = f"{call.name} may have taken effect ({call.effect_id})"
    return _wait("in_doubt", session_id, call.began, "a person", what, call=asdict(call))


def _of_question(record: ApprovalRecord) -> dict[str, Any]:
    """What waits for the answer to a question, or has it and has not taken it; empty when neither does."""
    more = {"number": record.number, "requester": record.requester}
    what = f"question {record.number}, {clip(record.title, 80)} ({record.tool})"
    if record.state == "pending":
        return _wait("question", record.session, record.made, "a person", what, **more)
    if record.state not in {"granted", "denied"}:
        return {}
    told = f"{what}: {record.state}, and not taken"
    return _wait("answer", record.session, record.answered, "a worker", told, **more)


def _of_runs(runs: StandingRuns) -> dict[str, Any]:
    more = {"application": runs.application, "version": runs.version}
    ids = [one.workflow_id for one in runs.workflows]
    return _wait("runs", "", runs.since, "a worker of that version", str(runs), **more, workflows=ids)
