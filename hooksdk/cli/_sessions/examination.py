"""`hooksdk sessions doctor`: what is wrong with what is stored, what can be done, and doing it."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from hooksdk.cli._console import counted, one_line, print_json, safe, stdout_console
from hooksdk.cli._doctor.store import outlived_lock
from hooksdk.cli._sessions.ids import find_session, place_of
from hooksdk.cli._sessions.look import Damaged, holder_of, look_at, with_store
from hooksdk.cli._sessions.mend import Plan, plan_session, plan_values, session_bases, session_id_of
from hooksdk.errors import StoreError
from hooksdk.stores import JsonlStore, Store
from hooksdk.stores.files import replace_file
from hooksdk.stores.jsonl import file_name
from hooksdk.stores.locks import Lease


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One thing that is wrong, and what became of it."""

    who: str
    """The session's id, or the name of its files where nothing says the id any more; `values` for those of a plugin."""
    file: str
    what: str
    remedy: str
    """What `--mend` does; empty where it can do nothing."""
    advice: str = ""
    state: Literal["open", "mended"] = "open"
    backup: str | None = None
    """The file as it was."""


def doctor(project: Path, place: str | None, session_ids: Sequence[str], *, mend: bool, as_json: bool) -> int:
    """Examine and print; the code is 1 while there are problems."""

    async def examine(store: Store) -> tuple[list[Damage], str]:
        ids = [
            typed if await _is_there(store, typed) else await find_session(store, typed, project)
            for typed in session_ids
        ]
        if isinstance(store, JsonlStore):
            return list(_examine_files(store.directory, ids, mend=mend)), place_of(store)
        return await _examine_any(store, ids), place_of(store)

    findings, where = with_store(project, place, examine)
    problems = sum(finding.state == "open" for finding in findings)
    if as_json:
        print_json({"schema": 1, "problems": problems, "findings": [asdict(finding) for finding in findings]})
    else:
        _print(findings, where, mend=mend)
    return 1 if problems else 0


async def _is_there(store: Store, session_id: str) -> bool:
    if isinstance(store, JsonlStore):  # by its file: the line that names it may be damaged
        return store.directory / file_name(session_id) in session_bases(store.directory)
    return await store.session_exists(session_id)


async def _examine_any(store: Store, session_ids: Sequence[str]) -> list[Damage]:
    """Of a store without files: whether each session can be read."""
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
    with _lease(lock) as lease:
        if lease is None:
            advice = f"It is held by {holder or 'another process'}: close it there first"
            for flaw in plan.flaws:
                yield Damage(who=who, file=str(flaw.path), what=flaw.what, remedy=flaw.remedy, advice=advice)
        else:
            yield from _carried_out(plan_session(base, session_id, is_held=False), who, mend=True)


@contextmanager
def _lease(path: Path) -> Generator[Lease | None]:
    lease = Lease.take(path)
    try:
        yield lease
    finally:
        if lease is not None:
            lease.release()


def _carried_out(plan: Plan, who: str, *, mend: bool) -> Iterator[Damage]:
    """The plan's flaws, after it was carried out if it is to be."""
    backups: dict[Path, str | None] = {}
    if mend:
        for path, content in plan.contents.items():
            backups[path] = _keep(path, moved=content is None)
            if content is not None:
                replace_file(path, content)
    for flaw in plan.flaws:
        is_mended = mend and bool(flaw.remedy)
        yield Damage(
            who=who, file=str(flaw.path), what=flaw.what, remedy=flaw.remedy, advice="" if is_mended else flaw.advice,
            state="mended" if is_mended else "open", backup=backups.get(flaw.path) if is_mended else None,
        )  # fmt: skip


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


def _print(findings: Sequence[Damage], where: str, *, mend: bool) -> None:
    console = stdout_console()

    def show(markup: str) -> None:
        console.print(markup, soft_wrap=True)

    for finding in findings:
        style = "[green]mended[/] " if finding.state == "mended" else "[red]problem[/]"
        name = f"{safe(Path(finding.file).name)}: " if finding.file else ""
        show(f"{style}  [bold]{one_line(finding.who)}[/]  {name}{safe(finding.what)}")
        if finding.state == "mended":
            show(f"         done: {safe(finding.remedy)}")
            if finding.backup:
                show(f"         as it was: {safe(finding.backup)}")
        elif finding.remedy:
            show(f"         --mend would {safe(finding.remedy)}")
        if finding.advice:
            show(f"         {safe(finding.advice)}")
    problems = sum(finding.state == "open" for finding in findings)
    can_be_mended = not mend and any(finding.remedy for finding in findings)
    hint = "; --mend keeps a backup of each file that it changes" if can_be_mended else ""
    show(f"{counted(problems, 'problem')} in {safe(where)}{hint}")
