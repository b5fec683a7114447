"""`hooksdk sessions doctor`: damages of stored sessions, and mending them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._console import View, counted, one_line
from hooksdk.cli._doctor.store import outlived_lock
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._sessions.look import Damaged, find_session, holder_of, look_at, place_of, with_store
from hooksdk.cli._sessions.mend import Damage, Plan, plan_session, plan_values, session_bases, session_id_of
from hooksdk.errors import StoreError
from hooksdk.stores import JsonlStore, Store
from hooksdk.stores.files import replace_file
from hooksdk.stores.jsonl import file_name
from hooksdk.stores.locks import Lease


def examine_sessions(
    session_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]")] = None,
    mend: Annotated[bool, typer.Option("--mend")] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Find torn ends, damaged lines, lost messages, dead locks and unreadable values, and say what can be done.

    The code is 1 while there are problems.

    Options:
        session_ids: Only these; by default the whole store.
        mend: Do what can be done, with a backup of each file that changes.
    """

    async def examine(opened: Store) -> tuple[list[Damage], str]:
        ids = [
            typed if await _is_there(opened, typed) else await find_session(opened, typed, project)
            for typed in session_ids or ()
        ]
        if isinstance(opened, JsonlStore):
            return list(_examine_files(opened.directory, ids, mend=mend)), place_of(opened)
        return await _examine_any(opened, ids), place_of(opened)

    findings, where = with_store(project, store, examine)
    problems = sum(finding.state == "open" for finding in findings)
    view = View({"problems": problems, "findings": [asdict(finding) for finding in findings]}, indent=9)
    for finding in findings:
        _tell(view, finding)
    can_be_mended = not mend and any(finding.remedy for finding in findings)
    hint = "; --mend keeps a backup of each file that it changes" if can_be_mended else ""
    view.text(f"{counted(problems, 'problem')} in {where}{hint}")
    view.show(as_json=as_json)
    raise typer.Exit(1 if problems else 0)


def _tell(view: View, finding: Damage) -> None:
    is_mended = finding.state == "mended"
    name = f"{one_line(Path(finding.file).name)}: " if finding.file else ""
    head = "[green]mended[/] " if is_mended else "[red]problem[/]"
    view.markup(f"{head}  [bold]{one_line(finding.who)}[/]  {name}{one_line(finding.what)}")
    if is_mended:
        view.line("", f"done: {finding.remedy}")
        if finding.backup:
            view.line("", f"as it was: {finding.backup}")
    elif finding.remedy:
        view.line("", f"--mend would {finding.remedy}")
    if finding.advice:
        view.line("", finding.advice)


async def _is_there(store: Store, session_id: str) -> bool:
    if isinstance(store, JsonlStore):  # by its file: the line that names it may be damaged
        return store.directory / file_name(session_id) in session_bases(store.directory)
    return await store.session_exists(session_id)


async def _examine_any(store: Store, session_ids: Sequence[str]) -> list[Damage]:
    """The damaged sessions of a store without files: those that cannot be read."""
    findings: list[Damage] = []
    for session_id in session_ids or await store.list_sessions():
        try:
            await look_at(store, session_id)
        except Damaged as error:
            findings.append(Damage(who=session_id, file="", what=str(error), remedy=""))
    return findings


def _examine_files(directory: Path, session_ids: Sequence[str], *, mend: bool) -> Iterator[Damage]:
    known = {directory / file_name(session_id): session_id for session_id in session_ids}
    for base in known or session_bases(directory):
        session_id = known.get(base) or session_id_of(base)
        yield from _examine_lock(base, session_id or base.name, mend=mend)
        yield from _examine_session(base, session_id, mend=mend)
    if not session_ids:
        for plan in plan_values(directory):
            yield from _carried_out(plan, "values", mend=mend)


def _examine_lock(base: Path, who: str, *, mend: bool) -> Iterator[Damage]:
    """A lock that outlived its holder can be replaced: a forked child has it, and a child may not write."""
    path = base.with_name(base.name + ".lock")
    process = outlived_lock(path) if path.exists() else None
    if process is None:
        return
    what = f"it is held although process {process}, which took it, is gone: a child of it lives on"
    remedy = "put a new lock file in its place; the child could not write the session anyway"
    if mend:
        replace_file(path, path.read_bytes())
    yield Damage(who=who, file=str(path), what=what, remedy=remedy, state="mended" if mend else "open")


def _examine_session(base: Path, session_id: str | None, *, mend: bool) -> Iterator[Damage]:
    lock, who = base.with_name(base.name + ".lock"), session_id or base.name
    holder = holder_of(lock)
    plan = plan_session(base, session_id, is_held=bool(holder))
    if not mend or not plan.contents:
        yield from _carried_out(plan, who, mend=False)
        return
    lease = Lease.take(lock)
    if lease is None:
        advice = f"It is held by {holder or 'another process'}: close it there first"
        yield from (replace(damage, who=who, advice=advice) for damage in plan.damages)
        return
    try:
        yield from _carried_out(plan_session(base, session_id, is_held=False), who, mend=True)
    finally:
        lease.release()


def _carried_out(plan: Plan, who: str, *, mend: bool) -> Iterator[Damage]:
    """The damages of a plan; with `mend` the plan is carried out first."""
    backups: dict[str, str | None] = {}
    if mend:
        for path, content in plan.contents.items():
            backups[str(path)] = _keep(path, moved=content is None)
            if content is not None:
                replace_file(path, content)
    for damage in plan.damages:
        if mend and damage.remedy:
            yield replace(damage, who=who, advice="", state="mended", backup=backups.get(damage.file))
        else:
            yield replace(damage, who=who)


def _keep(path: Path, *, moved: bool) -> str | None:
    """Keep a file as it is beside it, under a new name; None for one that is not there. Raises `StoreError`."""
    if not path.exists():
        return None
    for number in itertools.count(1):
        backup = path.with_name(f"{path.name}.{number}.bak")
        if backup.exists():
            continue
        try:
            if moved:
                path.rename(backup)
            else:
                replace_file(backup, path.read_bytes())
        except OSError as error:
            raise StoreError(str(path), f"no backup can be made: {error}. Nothing was changed") from error
        return str(backup)
    raise AssertionError
