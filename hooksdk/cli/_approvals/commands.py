"""`hooksdk approvals`: the questions that wait for a person, of every gateway and host with the project's store, and
the answers that are remembered there."""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer

from hooksdk.approvals import Approval, Remembered
from hooksdk.cli._console import CommandProblem, View, complain, counted, printable, stderr_console
from hooksdk.cli._groups import GroupWithOptions
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._project import project_config
from hooksdk.desk import ApprovalRecord, ApprovalRecords, ConsoleApprover, NotWaiting
from hooksdk.desk.console import visible
from hooksdk.errors import did_you_mean
from hooksdk.stores import MemoryStore, Store, open_store
from hooksdk.values import canonical, clip

T = TypeVar("T")
MAX_ARGUMENTS, MAX_PATTERN, MAX_TITLE = 60, 80, 80
"""The most characters of a table's cells for arguments, a pattern of arguments, and a question; `show` and the JSON
document have all."""
# Seconds between two looks for new questions.
POLL = 0.5

# Other words for the commands: the question at a client says `allow`.
MEANT = {"accept": "grant", "allow": "grant", "approve": "grant", "refuse": "deny", "reject": "deny"}


class ApprovalGroup(GroupWithOptions):
    """The commands; for a word that means one of them the error names the command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed."""
        meant = MEANT.get(args[0]) if args and args[0] not in self.commands else None
        if meant is not None and not ctx.resilient_parsing:
            _, _, rest = super().resolve_command(ctx, [meant, *args[1:]])
            typed = shlex.join(["hooksdk", "approvals", meant, *rest])
            ctx.fail(f"no such command '{args[0]}'; did you mean: {typed}")
        return super().resolve_command(ctx, args)


approvals_app = typer.Typer(
    cls=ApprovalGroup,
    help="Look at the calls that wait for an approval and answer them; look at the answers that are remembered.",
    invoke_without_command=True,
)
Number = Annotated[int, typer.Argument(metavar="N", help="The question's number, as `hooksdk approvals` shows it.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who answers; by default your user name.")]


@approvals_app.callback()
def list_waiting(
    context: typer.Context,
    as_json: Json = False,
    everything: Annotated[bool, typer.Option("--all")] = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Show the calls that wait for an approval, each with its number, and answer them; `list` shows the answers that
    are remembered.

    Options:
        everything: Those that were answered or have expired, too.
    """
    if context.invoked_subcommand is not None:
        return
    shown = _with_records(project, store, lambda records: records.list(waiting=not everything))
    view = View({"approvals": [_document(record) for record in shown]})
    headings = ("number", "state", "severity", "question", "tool", "arguments", "asked by", "for", "until")
    if shown:
        view.table(headings, [_row(record) for record in shown], numbers="number")
    else:
        view.text("No call waits for an approval in this store.")
    view.show(as_json=as_json)


@approvals_app.command("list")
def list_approvals(as_json: Json = False, project: Project = Path(), store: StorePlace = None) -> None:
    """List the answers that are remembered, each with the id that revokes it."""
    remembered = _with_store(project, store, lambda store: Remembered(store).list())
    view = View({"approvals": [one.as_dict() for one in remembered]})
    rows: list[list[str]] = []
    for one in remembered:
        equal = [f"{name} = {value!r}" for name, value in (one.arguments or {}).items()]
        pattern = clip(", ".join(equal), MAX_PATTERN) or "any"
        rows.append(
            [
                one.id,
                "yes" if one.granted else "no",
                one.tool,
                "as answered" if one.arguments is None else pattern,
                ", ".join(dict.fromkeys(plugin for plugin, _ in one.questions)),
                "all sessions" if one.session is None else f"session {one.session}",
                _date(one.answered),
                one.by or "-",
                _date(one.expires),
            ]
        )
    headings = ("id", "answer", "tool", "arguments", "asked by", "counts in", "answered", "by", "until")
    if rows:
        view.table(headings, rows)
    else:
        view.text("No approvals are remembered. Calls that wait for one: hooksdk approvals")
    view.show(as_json=as_json)


@approvals_app.command("revoke")
def revoke_approval(
    approval_id: Annotated[str | None, typer.Argument(metavar="ID")] = None,
    revoke_all: Annotated[bool, typer.Option("--all")] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Forget a remembered answer: the person is asked anew, in sessions that are open now, too.

    Options:
        approval_id: As `hooksdk approvals list` shows it.
        revoke_all: Forget every answer.
    """
    if revoke_all is (approval_id is not None):
        raise typer.BadParameter("give an id, or --all", param_hint="ID")

    async def forget(store: Store) -> int:
        remembered = Remembered(store)
        if approval_id is None:
            return await remembered.revoke_all()
        if await remembered.revoke(approval_id):
            return 1
        known = [one.id for one in await remembered.list()]
        hint = did_you_mean(approval_id, known) or " `hooksdk approvals list` shows those that are."
        raise CommandProblem(f"no approval '{printable(approval_id)}' is remembered here.{hint}")

    count = _with_store(project, store, forget)
    view = View({"revoked": count})
    view.text(f"{counted(count, 'answer')} forgotten")
    view.show(as_json=as_json)


@approvals_app.command()
def show(number: Number, as_json: Json = False, project: Project = Path(), store: StorePlace = None) -> None:
    """Show one question with all its arguments."""
    record = _with_records(project, store, lambda records: _find(records, number))
    view = View({"approval": _document(record)})
    _add_lines(view, record)
    view.show(as_json=as_json)


@approvals_app.command()
def grant(
    number: Number,
    always: Annotated[bool, typer.Option("--always")] = False,
    session: Annotated[bool, typer.Option("--session")] = False,
    values: Annotated[bool, typer.Option("--values")] = False,
    by: By = None,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Approve a waiting call: it runs once, at the agent's next try.

    Options:
        always: Remember the yes for these arguments, in every session.
        session: Remember the yes in this session.
        values: Let the values that are shown as evidence pass in this session.
    """
    if always and session:
        raise typer.BadParameter("give one of --always and --session", param_hint="--always")
    scope = "always" if always else "session" if session else "once"
    approval = Approval(True, scope=scope, by=_who(by), agree="values" if values else "")
    _answer(number, approval, project, store, as_json=as_json)


@approvals_app.command()
def deny(
    number: Number,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT")] = "",
    by: By = None,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Refuse a call.

    Options:
        reason: What the model reads.
    """
    _answer(number, Approval(False, reason, by=_who(by)), project, store, as_json=as_json)


@approvals_app.command()
def watch(
    by: By = None,
    once: Annotated[bool, typer.Option("--once")] = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Ask at this terminal about every question that waits, as they come, until Ctrl-C or the end of stdin.

    Options:
        once: Leave when nothing waits any more.
    """
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
    view = View({"approval": _document(record)})
    view.text(f"{record.state}: {number}, {record.title} ({record.tool})")
    view.show(as_json=as_json)


async def _find(records: ApprovalRecords, number: int) -> ApprovalRecord:
    record = await records.get(number)
    if record is None:
        numbers = ", ".join(str(one.number) for one in await records.list(waiting=True))
        waiting = f"Those that wait: {numbers}." if numbers else "None waits."
        raise CommandProblem(f"there is no approval {number} here. {waiting}")
    return record


def _with_store(project: Path, folder: str | None, look: Callable[[Store], Awaitable[T]]) -> T:
    """The result of `look` for a project's store, or for the one that `--store` names."""

    async def work() -> T:
        config = project_config(project, folder)
        async with aclosing(open_store(config.store, config.sessions)) as store:
            return await look(store)

    return anyio.run(work)


def _with_records(project: Path, folder: str | None, look: Callable[[ApprovalRecords], Awaitable[T]]) -> T:
    async def work(store: Store) -> T:
        if isinstance(store, MemoryStore):
            raise CommandProblem(
                'this project keeps nothing on disk (store = "memory"), so what waits in its processes cannot be seen '
                'or answered from another one. Set store = "jsonl", or name another store with --store'
            )
        return await look(ApprovalRecords(store))

    return _with_store(project, folder, work)


def _who(by: str | None) -> str:
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _document(record: ApprovalRecord) -> dict[str, Any]:
    return record.as_dict() | {"title": record.title, "severity": record.questions[0].severity}


def _row(record: ApprovalRecord) -> list[str]:
    return [
        str(record.number),
        record.state,
        record.questions[0].severity,
        clip(record.title, MAX_TITLE),
        record.tool,
        clip(canonical(dict(record.arguments)), MAX_ARGUMENTS),
        ", ".join(dict.fromkeys(one.plugin for one in record.questions)),
        record.requester or "-",
        _date(record.expires),
    ]


def _add_lines(view: View, record: ApprovalRecord) -> None:
    """Add a line for each fact of a question; others' words stay in their lines."""
    lines = [("number", str(record.number)), ("state", record.state)]
    for question in record.questions:
        lines.append((question.severity, f"{question.plugin} asks: {question.title}"))
        if question.description:
            lines.append(("", question.description))
        lines += [("known" if one.cleared else "strange", str(one)) for one in question.evidence]
    lines.append(("tool", record.tool))
    lines += [("argument", f"{name} = {canonical(value)}") for name, value in record.arguments.items()]
    lines += [("session", record.session), ("requester", record.requester or "-")]
    lines += [("asked", _date(record.made)), ("until", _date(record.expires))]
    if record.answer is not None:
        said = f"{'yes' if record.answer.granted else 'no'} by {record.answer.by or '-'} {record.answer.reason}"
        lines.append(("answer", said.rstrip()))
    for label, text in lines:
        view.text(f"{label:<12}{visible(text)}")


def _date(seconds: float) -> str:
    """The minute, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
