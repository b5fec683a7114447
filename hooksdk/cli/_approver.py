"""Who answers when a plugin asks for an approval: the person at the terminal, or an option of the command line."""

from __future__ import annotations

import json
import os
import sys

import anyio
import anyio.to_thread
from rich.console import Console

from hooksdk import Approval, ApprovalRequest
from hooksdk.approvals import Approver
from hooksdk.cli._console import safe

_TIMELINE_DELAY = 0.1
"""Seconds before a question about a call: the timeline prints the call in the background, and the question belongs below."""


def grant_all(reason: str) -> Approver:
    """Grants everything, for this reason."""

    async def grant(_request: ApprovalRequest) -> Approval:
        return Approval(True, reason)

    return grant


def refuse_all(console: Console) -> Approver:
    """Refuses everything, and says how to be asked."""

    async def refuse(_request: ApprovalRequest) -> Approval:
        await anyio.sleep(_TIMELINE_DELAY)
        problem = "nobody can be asked here; run it on a terminal, or with --ask or --yes"
        console.print(f"[yellow]approval[/]    {problem}", soft_wrap=True)
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
        arguments = json.dumps(request.arguments, ensure_ascii=False)
        await anyio.sleep(_TIMELINE_DELAY)
        question = f"\n  [yellow]{safe(request.title)}[/]  {safe(request.tool.name)} {safe(arguments)}"
        self._console.print(question, soft_wrap=True)
        if request.description:
            self._console.print(f"  {safe(request.description)}", soft_wrap=True)
        self._console.print("  Allow it? \\[y/N] ", end="")
        try:
            answer = (await _read_line()).strip()
        except BaseException:
            self._console.print()
            raise
        if not sys.stdin.isatty():
            self._console.print(safe(answer))  # nobody typed it, so no terminal has shown it
        return Approval(answer.lower() in {"y", "yes"}, "the person at the terminal said no")


async def _read_line() -> str:
    if os.name == "nt":
        return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    # Not in a thread: after Ctrl-C the process would only end once another line is typed. And byte by byte: a buffer
    # could take the next answer too, for which `wait_readable` would then wait for ever.
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
