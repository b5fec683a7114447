"""`hooksdk approvals`, `show`, `watch`, `grant` and `deny`: the questions that wait for a person, of every gateway and host that has the project's store."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer

from hooksdk.approvals import Approval
from hooksdk.cli._console import CommandProblem, complain, counted, print_columns, print_json, printable, stderr_console
from hooksdk.cli._options import Project
from hooksdk.cli._project import project_config
from hooksdk.desk import ApprovalRecord, ApprovalRecords, ConsoleApprover, NotWaiting
from hooksdk.stores import MemoryStore, Store, open_store

T = TypeVar("T")
MAX_ARGUMENTS = 60
"""Characters of the arguments in the table; `show` and the JSON document have all."""
MAX_TITLE = 80
"""Characters of a question in the table."""
POLL = 0.5
"""Seconds between two looks for new questions."""

Number = Annotated[int, typer.Argument(metavar="N", help="The question's number, as `hooksdk approvals` shows it.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Folder = Annotated[
    str | None,
    typer.Option("--store", metavar="FOLDER|URL", help="The store's folder or URL; by default the configuration's."),
]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who answers; by default your user name.")]


def list_waiting(project: Path, store: str | None, *, as_json: bool, everything: bool) -> None:
    """Print the questions that wait."""
    shown = _with_records(project, store, lambda records: records.list(waiting=not everything))
    if as_json:
        print_json({"schema": 1, "approvals": [_document(record) for record in shown]})
    elif not shown:
        print("No call waits for an approval in this store.")
    else:
        headings = ("number", "state", "severity", "question", "tool", "arguments", "asked by", "for", "until")
        print_columns(headings, [_row(record) for record in shown], numbers="number")


def show(number: Number, as_json: Json = False, project: Project = Path(), store: Folder = None) -> None:
    """Show one question with all its arguments."""
    record = _with_records(project, store, lambda records: _find(records, number))
    if as_json:
        print_json({"schema": 1, "approval": _document(record)})
        return
    for label, text in _lines(record):
        print(f"{label:<12}{text}")


def grant(
    number: Number,
    always: Annotated[
        bool, typer.Option("--always", help="Remember the yes for these arguments, in every session.")
    ] = False,
    session: Annotated[bool, typer.Option("--session", help="Remember the yes in this session.")] = False,
    values: Annotated[
        bool, typer.Option("--values", help="Let the values that are shown as evidence pass in this session.")
    ] = False,
    by: By = None,
    as_json: Json = False,
    project: Project = Path(),
    store: Folder = None,
) -> None:
    """Approve a waiting call: it runs once, at the agent's next try."""
    if always and session:
        raise typer.BadParameter("give one of --always and --session", param_hint="--always")
    scope = "always" if always else "session" if session else "once"
    approval = Approval(True, scope=scope, by=_who(by), agree="values" if values else "")
    _answer(number, approval, project, store, as_json=as_json)


def deny(
    number: Number,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What the model reads.")] = "",
    by: By = None,
    as_json: Json = False,
    project: Project = Path(),
    store: Folder = None,
) -> None:
    """Refuse a call."""
    _answer(number, Approval(False, reason, by=_who(by)), project, store, as_json=as_json)


def watch(
    by: By = None,
    once: Annotated[bool, typer.Option("--once", help="Leave when nothing waits any more.")] = False,
    project: Project = Path(),
    store: Folder = None,
) -> None:
    """Ask at this terminal about every question that waits, as they come, until Ctrl-C or the end of stdin."""
    approver = ConsoleApprover(stderr_console(), by=_who(by))

    async def ask_about_all(records: ApprovalRecords) -> int:
        answered = 0
        while True:
            waiting = await records.list(waiting=True)
            if not waiting and once:
                return answered
            for record in waiting:
                answer = await approver(record.as_request())
                if approver.at_end:
                    return answered
                if answer.unanswered:
                    complain(f"approval {record.number} goes on waiting: {answer.reason}")
                    continue
                try:
                    await records.answer(record.number, answer)
                except NotWaiting as problem:
                    complain(str(problem))
                else:
                    answered += 1
            await anyio.sleep(0 if waiting else POLL)

    print(f"{counted(_with_records(project, store, ask_about_all), 'question')} answered")


def _answer(number: int, approval: Approval, project: Path, store: str | None, *, as_json: bool) -> None:
    async def answer(records: ApprovalRecords) -> ApprovalRecord:
        await _find(records, number)
        return await records.answer(number, approval)

    record = _with_records(project, store, answer)
    if as_json:
        print_json({"schema": 1, "approval": _document(record)})
    else:
        print(f"{record.state}: {number}, {printable(record.title)} ({printable(record.tool)})")


async def _find(records: ApprovalRecords, number: int) -> ApprovalRecord:
    record = await records.get(number)
    if record is None:
        numbers = ", ".join(str(one.number) for one in await records.list(waiting=True))
        waiting = f"Those that wait: {numbers}." if numbers else "None waits."
        raise CommandProblem(f"there is no approval {number} here. {waiting}")
    return record


def with_store(project: Path, folder: str | None, look: Callable[[Store], Awaitable[T]]) -> T:
    """What `look` makes of a project's store, or of the one that `--store` names."""

    async def work() -> T:
        store = open_store(project_config(project, folder).store)
        try:
            return await look(store)
        finally:
            await store.aclose()

    return anyio.run(work)


def _with_records(project: Path, folder: str | None, look: Callable[[ApprovalRecords], Awaitable[T]]) -> T:
    async def work(store: Store) -> T:
        if isinstance(store, MemoryStore):
            raise CommandProblem(
                'this project keeps nothing on disk (store = "memory"), so what waits in its processes cannot be seen or '
                'answered from another one. Set store = "jsonl", or name another store with --store'
            )
        return await look(ApprovalRecords(store))

    return with_store(project, folder, work)


def _who(by: str | None) -> str:
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _document(record: ApprovalRecord) -> dict[str, Any]:
    return record.as_dict() | {"title": record.title, "severity": record.questions[0].severity}


def _row(record: ApprovalRecord) -> Sequence[str]:
    from hooksdk.values import clip

    cells = (
        str(record.number), record.state, record.questions[0].severity, clip(record.title, MAX_TITLE), record.tool,
        clip(_json(record), MAX_ARGUMENTS), ", ".join(dict.fromkeys(one.plugin for one in record.questions)),
        record.requester or "-", date(record.expires),
    )  # fmt: skip
    return [printable(cell).replace("\n", " ").replace("\t", " ") for cell in cells]


def _lines(record: ApprovalRecord) -> Sequence[tuple[str, str]]:
    """Label and text of each line; others' words stay in theirs."""
    from hooksdk.desk.console import visible
    from hooksdk.values import canonical

    lines = [("number", str(record.number)), ("state", record.state)]
    for question in record.questions:
        lines.append((question.severity, f"{question.plugin} asks: {question.title}"))
        if question.description:
            lines.append(("", question.description))
        lines += [("known" if one.cleared else "strange", str(one)) for one in question.evidence]
    lines.append(("tool", record.tool))
    lines += [("argument", f"{name} = {canonical(value)}") for name, value in record.arguments.items()]
    lines += [("session", record.session), ("requester", record.requester or "-")]
    lines += [("asked", date(record.made)), ("until", date(record.expires))]
    if record.answer is not None:
        said = f"{'yes' if record.answer.granted else 'no'} by {record.answer.by or '-'} {record.answer.reason}"
        lines.append(("answer", said.rstrip()))
    return [(label, visible(text)) for label, text in lines]


def _json(record: ApprovalRecord) -> str:
    from hooksdk.values import canonical

    return canonical(dict(record.arguments))


def date(seconds: float) -> str:
    """The minute, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
