"""The approvers of commands: the person at the terminal, or an option of the command line."""

from __future__ import annotations

import sys

import anyio
from rich.console import Console

from hooksdk.approvals import Approval, ApprovalRequest, Approver, Later
from hooksdk.cli._console import stderr_console
from hooksdk.desk import ConsoleApprover

# Seconds before a question about a call, which belongs below the lines that the timeline prints in the background.
_TIMELINE_DELAY = 0.1


def grant_all(by: str) -> Approver:
    """Grants everything; `by` is what grants it."""

    async def grant(_request: ApprovalRequest) -> Approval:
        return Approval(True, f"granted by {by}", by=by)

    return grant


def refuse_all(console: Console) -> Approver:
    """Refuses everything, and says how to be asked."""

    async def refuse(_request: ApprovalRequest) -> Approval:
        await anyio.sleep(_TIMELINE_DELAY)
        problem = "nobody can be asked here; run it on a terminal, or with --ask or --yes"
        console.print(f"[yellow]approval[/]    {problem}", soft_wrap=True)
        return Approval(False, "it needs a person's approval, and nobody can be asked here", unanswered="not_asked")

    return refuse


def ask_here(console: Console) -> Approver:
    """Asks the person at this terminal."""
    approver = ConsoleApprover(console)

    async def ask(request: ApprovalRequest) -> Approval | Later:
        await anyio.sleep(_TIMELINE_DELAY)
        return await approver(request)

    return ask


def approver_of(approve: bool | None) -> Approver:
    """The approver for `--yes/--ask`. True grants everything; False asks whoever writes to stdin; None asks the person
    at the terminal, and refuses everything where there is none."""
    if approve:
        return grant_all("--yes")
    if approve is False or (sys.stdin.isatty() and sys.stderr.isatty()):
        return ask_here(stderr_console())
    return refuse_all(stderr_console())
