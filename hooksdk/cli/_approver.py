"""Who answers when a plugin asks for an approval: the person at the terminal, or nobody but an option."""

from __future__ import annotations

import json
import os
import sys

import anyio
import anyio.to_thread
from rich.console import Console
from rich.markup import escape

from hooksdk import Approval, ApprovalRequest
from hooksdk.approvals import Approver
from hooksdk.cli._console import printable

__all__ = ["PersonAtTerminal", "grant_all", "refuse_all"]

_TOLD = 0.1
"""Seconds before something is said of a call: the timeline is told in the background, and it belongs below it."""


def grant_all(reason: str) -> Approver:
    """Grants everything, for this reason."""

    async def grant(_request: ApprovalRequest) -> Approval:
        return Approval(True, reason)

    return grant


def refuse_all(console: Console) -> Approver:
    """Refuses everything, and says how to be asked."""

    async def refuse(_request: ApprovalRequest) -> Approval:
        await anyio.sleep(_TOLD)
        told = "nobody can be asked here; run it on a terminal, or with --ask or --yes"
        console.print(f"[yellow]approval[/]    {told}", soft_wrap=True)
        return Approval(False, "it needs a person's approval, and nobody can be asked here")

    return refuse


class PersonAtTerminal:
    """Asks on the console and reads the answer from stdin, one question at a time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._one_at_a_time = anyio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Approval:
        async with self._one_at_a_time:
            return await self._ask(request)

    async def _ask(self, request: ApprovalRequest) -> Approval:
        shown = json.dumps(request.arguments, ensure_ascii=False)
        await anyio.sleep(_TOLD)
        question = f"\n  [yellow]{_safe(request.title)}[/]  {_safe(request.tool.name)} {_safe(shown)}"
        self._console.print(question, soft_wrap=True)
        if request.description:
            self._console.print(f"  {_safe(request.description)}", soft_wrap=True)
        self._console.print("  Allow it? \\[y/N] ", end="")
        try:
            answer = (await _read_line()).strip()
        except BaseException:
            self._console.print()
            raise
        if not sys.stdin.isatty():
            self._console.print(_safe(answer))  # nobody typed it, so no terminal has shown it
        return Approval(answer.lower() in {"y", "yes"}, "the person at the terminal said no")


def _safe(text: str) -> str:
    return escape(printable(text))


async def _read_line() -> str:
    if os.name == "nt":
        return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    # No thread may wait here: after Ctrl-C the process would not end before the next line is typed. And no buffer may
    # take more than the line: what it held would not make the next question's answer readable.
    line = b""
    while not line.endswith(b"\n"):
        try:
            await anyio.wait_readable(sys.stdin)
        except PermissionError:  # a file, which is always ready
            await anyio.lowlevel.checkpoint()
        if not (byte := os.read(sys.stdin.fileno(), 1)):
            break
        line += byte
    return line.decode(errors="replace")
