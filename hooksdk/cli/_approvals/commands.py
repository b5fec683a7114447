"""`hooksdk approvals`: the questions that wait for a person, and the answers that are remembered in a project's store."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hooksdk.cli._approvals.waiting import Folder, Json
from hooksdk.cli._groups import GroupWithOptions
from hooksdk.cli._options import Project

if TYPE_CHECKING:
    from hooksdk.approvals import Remembered, RememberedApproval

T = TypeVar("T")
MAX_ARGUMENTS = 80
"""Characters of a pattern's arguments in the table; the JSON document has all."""

MEANT = {"accept": "grant", "allow": "grant", "approve": "grant", "refuse": "deny", "reject": "deny"}
"""Other words for the commands: the question at a client says `allow`."""


class ApprovalGroup(GroupWithOptions):
    """The commands; of a word that means one of them it says which."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed."""
        if (
            args
            and not ctx.resilient_parsing
            and args[0] not in self.commands
            and (meant := MEANT.get(args[0])) is not None
        ):
            _, _, rest = super().resolve_command(ctx, [meant, *args[1:]])
            typed = shlex.join(["hooksdk", "approvals", meant, *rest])
            ctx.fail(f"no such command '{args[0]}'; did you mean: {typed}")
        return super().resolve_command(ctx, args)


approvals_app = typer.Typer(
    cls=ApprovalGroup,
    help="Look at the calls that wait for an approval and answer them; look at the answers that are remembered.",
    invoke_without_command=True,
)


@approvals_app.callback()
def list_waiting(
    context: typer.Context,
    as_json: Json = False,
    everything: Annotated[bool, typer.Option("--all", help="Those that were answered or have expired, too.")] = False,
    project: Project = Path(),
    store: Folder = None,
) -> None:
    """Show the calls that wait for an approval, each with its number, and answer them; `list` shows the answers that are
    remembered."""
    if context.invoked_subcommand is None:
        from hooksdk.cli._approvals.waiting import list_waiting

        list_waiting(project, store, as_json=as_json, everything=everything)


@approvals_app.command("list")
def list_approvals(as_json: Json = False, project: Project = Path(), store: Folder = None) -> None:
    """List the answers that are remembered, each with the id that revokes it."""
    from hooksdk.cli._console import print_columns, print_json

    remembered = _with_remembered(project, store, lambda remembered: remembered.list())
    if as_json:
        print_json({"schema": 1, "approvals": [one.as_dict() for one in remembered]})
    elif not remembered:
        print("No approvals are remembered. Calls that wait for one: hooksdk approvals")
    else:
        headings = ("id", "answer", "tool", "arguments", "asked by", "counts in", "answered", "by", "until")
        print_columns(headings, [_row(one) for one in remembered])


@approvals_app.command("revoke")
def revoke_approval(
    approval_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="As `hooksdk approvals list` shows it.")
    ] = None,
    revoke_all: Annotated[bool, typer.Option("--all", help="Forget every answer.")] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: Folder = None,
) -> None:
    """Forget a remembered answer: the person is asked anew, in sessions that are open now, too."""
    from hooksdk.cli._console import CommandProblem, counted, print_json, printable
    from hooksdk.errors import did_you_mean

    if revoke_all is (approval_id is not None):
        raise typer.BadParameter("give an id, or --all", param_hint="ID")

    async def forget(remembered: Remembered) -> int:
        if approval_id is None:
            return await remembered.revoke_all()
        if await remembered.revoke(approval_id):
            return 1
        known = [one.id for one in await remembered.list()]
        hint = did_you_mean(approval_id, known) or " `hooksdk approvals list` shows those that are."
        raise CommandProblem(f"no approval '{printable(approval_id)}' is remembered here.{hint}")

    count = _with_remembered(project, store, forget)
    if as_json:
        print_json({"schema": 1, "revoked": count})
    else:
        print(f"{counted(count, 'answer')} forgotten")


def _add_commands() -> None:
    from hooksdk.cli._approvals import waiting

    for command in (waiting.show, waiting.watch, waiting.grant, waiting.deny):
        approvals_app.command()(command)


_add_commands()


def _with_remembered(project: Path, folder: str | None, look: Callable[[Remembered], Awaitable[T]]) -> T:
    from hooksdk.approvals import Remembered
    from hooksdk.cli._approvals.waiting import with_store

    return with_store(project, folder, lambda store: look(Remembered(store)))


def _row(one: RememberedApproval) -> Sequence[str]:
    from hooksdk.cli._approvals.waiting import date
    from hooksdk.cli._console import printable
    from hooksdk.values import clip

    equal = [f"{name} = {value!r}" for name, value in (one.arguments or {}).items()]
    pattern = clip(", ".join(equal), MAX_ARGUMENTS) or "any"
    plugins = dict.fromkeys(plugin for plugin, _ in one.questions)
    cells = (
        one.id, "yes" if one.granted else "no", one.tool, "as answered" if one.arguments is None else pattern,
        ", ".join(plugins), "all sessions" if one.session is None else f"session {one.session}",
        date(one.answered), one.by or "-", date(one.expires),
    )  # fmt: skip
    return [printable(cell).replace("\n", " ").replace("\t", " ") for cell in cells]
