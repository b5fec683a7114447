"""The MCP servers of a command: read from files, started with a word on how it goes, watched while they serve."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import anyio
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from hooksdk import Host
from hooksdk.cli._console import counted, printable, stderr_console
from hooksdk.mcp import LOCAL, McpServers, ServerInput, ServerStatus


def statuses(groups: Sequence[McpServers]) -> list[ServerStatus]:
    """How all servers are, in the order of the files."""
    return [status for servers in groups for status in servers.status.values()]


class ServerWatch:
    """Prints how MCP servers are: a spinner while they start, a line when they are up, and one for each that ends later."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[tuple[str, str], str] = {}
        self._redraw: Callable[[], None] | None = None

    def __call__(self, status: ServerStatus) -> None:
        """What an `McpServers` calls as its `on_status`."""
        if status.state == "starting" and self._redraw is None:
            return  # of a later start only a failure is worth a line
        place = status.name, status.holder
        before = self._states.get(place)
        self._states[place] = status.state
        if self._redraw is not None:
            self._redraw()
        elif status.state == "needs sign-in" and before != status.state:
            self._say("[yellow]server[/]     ", f"the MCP server '{status.name}' cannot be used: {status.problem}")
        elif status.state in {"failed", "down"} and status.state != before:
            again = " again" if before in {"up", "down"} else ""
            how = f"cannot be started{again}" if status.state == "failed" else "has ended"
            whose = f" of {status.holder}" if status.holder else ""
            self._say("[yellow]server[/]     ", f"the MCP server '{status.name}'{whose} {how}: {status.problem}")

    async def start(self, host: Host, groups: Sequence[McpServers]) -> None:
        """Start all servers at once, and keep them until the host closes. Says which are left out, and why."""
        began = time.monotonic()
        names = [status.name for status in statuses(groups) if status.state != "disabled"]
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(
            *columns, console=self._console, transient=True, disable=not (names and self._console.is_terminal)
        ) as progress:
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
                self._say("[dim]left out[/]   ", f"the MCP server '{status.name}': disabled in its file")
            elif status.state not in {"up", "idle"}:
                self._say("[yellow]left out[/]   ", f"the MCP server '{status.name}': {status.problem or status.state}")
        up = [status for status in results if status.state in {"up", "idle"}]
        if up:
            tools = ", ".join(f"{status.name} {status.tools}" for status in up)
            count = counted(sum(status.tools for status in up), "tool")
            self._say("[dim]servers[/]    ", f"{count} ({tools}) after {seconds:.1f} s")

    def _say(self, label: str, text: str) -> None:
        self._console.print(f"{label} {escape(text)}", soft_wrap=True)


def read_mcp_files(
    paths: Sequence[Path],
    watch: Callable[[ServerStatus], None],
    digests: Mapping[Path, str] | None = None,
    *,
    relay: Sequence[str] = (),
    lazy: bool = False,
    holder: str | None = LOCAL,
    on_change: Callable[[str], None] | None = None,
    only: Collection[str] | None = None,
) -> McpServers:
    """The servers of the files, not started yet. Raises `ConfigError`, also for a file of another digest than the given."""
    ask = ask_here if sys.stdin and sys.stdin.isatty() else None
    return McpServers.from_file(
        *paths, on_status=watch, ask=ask, digests=digests, relay=relay, lazy=lazy, holder=holder, on_change=on_change, only=only
    )  # fmt: skip


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
