"""`hooksdk sessions doctor`: damages of stored sessions, mending what can be, and a copy of all that is whole."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hooksdk.cli._console import CommandProblem, View, counted, one_line, printable
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._sessions.look import Damaged, find_session, look_at, place_of, with_store
from hooksdk.cli._sessions.mend import Damage, Plan, plan_session, plan_values, session_bases
from hooksdk.errors import SessionBusy, StoreError
from hooksdk.stores import SqlStore
from hooksdk.stores.copies import file_name, named_in, rescue
from hooksdk.stores.files import BINARY, replace_file
from hooksdk.stores.locks import lock
from hooksdk.stores.upkeep import Flaw, examine, mend
from hooksdk.tasks import in_thread


def examine_sessions(
    session_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]")] = None,
    mend: Annotated[bool, typer.Option("--mend")] = False,
    rescue: Annotated[str | None, typer.Option("--rescue", metavar="FILE|URL")] = None,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Find rows that are missing or were changed, damaged pages, and files of earlier versions that were not taken over.

    The code is 1 while there are problems.

    Options:
        session_ids: Only these; by default the whole store.
        mend: Do what can be done, with a backup of each file that changes.
        rescue: Copy every session and value that is whole into a new database.
    """
    if rescue is not None and (mend or session_ids):
        raise typer.BadParameter("--rescue copies the whole store, and mends nothing: leave --mend and the ids out")

    url = rescue if rescue is None or "://" in rescue else f"sqlite:///{Path(rescue).expanduser().absolute()}"

    async def work(opened: SqlStore) -> tuple[list[Damage], str, dict[str, Any]]:
        if url is not None:
            return await _rescued(opened, url)
        ids = [
            typed if _base(opened, typed) in _bases(opened) else await find_session(opened, typed, project)
            for typed in session_ids or ()
        ]
        findings = [*_examine_files(opened, ids, mend=mend), *await _examine_rows(opened, ids, mend=mend)]
        return findings, place_of(opened), {}

    findings, where, copied = with_store(project, store, work)
    problems = sum(finding.state == "open" for finding in findings)
    document = {**copied, "problems": problems, "findings": [asdict(finding) for finding in findings]}
    view = View(document, indent=9)
    for finding in findings:
        _tell(view, finding)
    if copied:
        counts = f"{counted(copied['sessions'], 'session')} and {counted(copied['values'], 'value')}"
        view.line("copied", f"{counts} into {copied['target']}", "green")
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


async def _rescued(store: SqlStore, place: str) -> tuple[list[Damage], str, dict[str, Any]]:
    async with aclosing(SqlStore(place)) as target:
        if await in_thread(lambda: target.file is not None and target.file.exists()) or await target.list_sessions():
            raise CommandProblem(f"{printable(place_of(target))} is there already. --rescue makes a new database")
        sessions, values, left = await rescue(store, target)
        findings = [Damage(who=flaw.who, what=flaw.what) for flaw in left]
        return findings, place_of(store), {"target": place_of(target), "sessions": sessions, "values": values}


# The database


async def _examine_rows(store: SqlStore, session_ids: Sequence[str], *, mend: bool) -> list[Damage]:
    ids = [session_id for session_id in session_ids if await store.session_exists(session_id)]
    if session_ids and not ids:
        return []
    findings = [await _found(store, flaw, mending=mend) for flaw in await examine(store, ids)]
    told = {finding.who for finding in findings}
    for session_id in ids or await store.list_sessions():
        try:
            if session_id not in told:
                await look_at(store, session_id)
        except Damaged as error:
            findings.append(Damage(who=session_id, what=str(error)))
    return findings


async def _found(store: SqlStore, flaw: Flaw, *, mending: bool) -> Damage:
    found = Damage(who=flaw.who, what=flaw.what, remedy=flaw.remedy)
    if not flaw.remedy:
        return replace(found, advice="--rescue FILE copies all that is whole into a new database")
    try:
        if mending:
            await mend(store, flaw)
            return replace(found, state="mended")
    except SessionBusy as error:
        return replace(found, advice=str(error))
    return found


# Files of earlier versions


def _base(store: SqlStore, session_id: str) -> Path | None:
    return store.old_files / file_name(session_id) if store.old_files else None


def _bases(store: SqlStore) -> list[Path]:
    return session_bases(store.old_files) if store.old_files else []


def _examine_files(store: SqlStore, session_ids: Sequence[str], *, mend: bool) -> Iterator[Damage]:
    known = {_base(store, session_id): session_id for session_id in session_ids}
    for base in _bases(store):
        if not known or base in known:
            session_id = known.get(base) or named_in(base.with_name(f"{base.name}.journal.jsonl"))
            yield from _examine_session(base, session_id, mend=mend)
    if not session_ids and store.old_files:
        for plan in plan_values(store.old_files):
            yield from _carried_out(plan, "values", mend=mend)


def _examine_session(base: Path, session_id: str | None, *, mend: bool) -> Iterator[Damage]:
    plan, who = plan_session(base, session_id), session_id or base.name
    if not mend or not plan.contents:
        yield from _carried_out(plan, who, mend=False)
        return
    fd = os.open(base.with_name(f"{base.name}.lock"), os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    try:
        if lock(fd):
            yield from _carried_out(plan_session(base, session_id), who, mend=True)
        else:
            advice = "A process with an earlier version of hooksdk has it open: close it there first"
            yield from (replace(damage, who=who, advice=advice) for damage in plan.damages)
    finally:
        os.close(fd)


def _carried_out(plan: Plan, who: str, *, mend: bool) -> Iterator[Damage]:
    """The damages of a plan; with `mend` the plan is carried out first."""
    backups: dict[str, str | None] = {}
    if mend:
        for path, content in plan.contents.items():
            backups[str(path)] = _keep(path, moved=content is None)
            if content is not None:
                replace_file(path, content)
    for damage in plan.damages:
        if mend and damage.remedy and damage.file in backups:
            yield replace(damage, who=who, advice="", state="mended", backup=backups.get(damage.file))
        else:
            yield replace(damage, who=who)


def _keep(path: Path, *, moved: bool) -> str | None:
    """Keep a file as it is beside it, under a new name; None for one that is not there. Raises `StoreError`."""
    if not path.exists():
        return None
    backup = next(
        one for number in itertools.count(1) if not (one := path.with_name(f"{path.name}.{number}.bak")).exists()
    )
    try:
        if moved:
            path.rename(backup)
        else:
            replace_file(backup, path.read_bytes())
    except OSError as error:
        raise StoreError(str(path), f"no backup can be made: {error}. Nothing was changed") from error
    return str(backup)
