"""The MCP servers of a command: read from files, started before the person's eyes, watched while they serve."""

from __future__ import annotations

import functools
import os
import sys
import time
import webbrowser
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import anyio
import anyio.to_thread
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from hooksdk import Host
from hooksdk.cli._console import counted, print_line, printable, safe, stderr_console
from hooksdk.mcp import AskInput, McpServers, ServerInput, ServerStatus


def statuses(groups: Sequence[McpServers]) -> list[ServerStatus]:
    """The states of all servers, in the order of the files."""
    return [status for servers in groups for status in servers.status.values()]


class ServerWatch:
    """Prints the states of MCP servers: a spinner while they start, a line when they are up, and one for each later
    end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[tuple[str, str], str] = {}
        self._redraw: Callable[[], None] | None = None

    def __call__(self, status: ServerStatus) -> None:
        """Print a change: the `on_status` of an `McpServers`."""
        if status.state == "starting" and self._redraw is None:
            return  # of a later start only a failure is worth a line
        place = status.name, status.holder
        before = self._states.get(place)
        self._states[place] = status.state
        if self._redraw is not None:
            self._redraw()
        elif status.state in {"needs sign-in", "failed", "down"} and status.state != before:
            again = " again" if before in {"up", "down"} else ""
            how = {"needs sign-in": "cannot be used", "failed": f"cannot be started{again}", "down": "has ended"}
            whose = f" of {status.holder}" if status.holder else ""
            self._say("[yellow]server[/]", status, f"{whose} {how[status.state]}: {status.problem}")

    async def start(self, host: Host, groups: Sequence[McpServers]) -> None:
        """Start all servers at once, and keep them until the host closes. Says which are left out, and why."""
        began = time.monotonic()
        names = [status.name for status in statuses(groups) if status.state != "disabled"]
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        is_shown = bool(names) and self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=not is_shown) as progress:
            task = progress.add_task("")

            def redraw() -> None:
                waiting = [name for name in names if self._states.get((name, ""), "starting") == "starting"]
                rest = f", waiting for {', '.join(waiting)}" if waiting else ""
                state = f"MCP servers: {len(names) - len(waiting)} of {len(names)} started{rest}"
                progress.update(task, description=escape(state))

            redraw()
            self._redraw = redraw
            async with anyio.create_task_group() as starting:
                for servers in groups:
                    starting.start_soon(functools.partial(host.enter, servers, name="MCP servers"))
            self._redraw = None
        self._print_result(statuses(groups), time.monotonic() - began)

    def _print_result(self, results: Sequence[ServerStatus], seconds: float) -> None:
        for status in results:
            if status.state == "disabled":
                self._say("[dim]left out[/]", status, ": disabled in its file")
            elif status.state not in {"up", "idle"}:
                self._say("[yellow]left out[/]", status, f": {status.problem or status.state}")
        up = [status for status in results if status.state in {"up", "idle"}]
        if up:
            tools = ", ".join(f"{status.name} {status.tools}" for status in up)
            count = counted(sum(status.tools for status in up), "tool")
            print_line(self._console, "servers", escape(f"{count} ({tools}) after {seconds:.1f} s"))

    def _say(self, label: str, status: ServerStatus, text: str) -> None:
        print_line(self._console, label, escape(f"the MCP server '{status.name}'{text}"))


def asks_person() -> AskInput | None:
    """The function that asks the person at the terminal for the inputs of VS Code's files; None without a terminal."""
    return ask_here if sys.stdin and sys.stdin.isatty() else None


def ask_here(question: ServerInput) -> str:
    """Ask on the terminal for a value that a file leaves to its user. The prompt goes to stderr."""
    console = stderr_console()
    about = printable(question.description or question.id)
    if question.options:
        about += f" ({', '.join(printable(option) for option in question.options)})"
    if question.default and not question.secret:
        about += f" [{printable(question.default)}]"
    answer = console.input(f"{escape(about)}: ", password=question.secret).strip()
    return answer if not question.options or answer in ("", *question.options) else ask_here(question)


async def show_page(url: str) -> None:
    """Open the page in the browser of this machine, and show its address: there may be none."""
    print_line(stderr_console(), "open", safe(url))
    with _devnull():
        await anyio.to_thread.run_sync(webbrowser.open, url)


@contextmanager
def _devnull() -> Generator[None]:
    """Keep a browser's own messages out of the command's output."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)
