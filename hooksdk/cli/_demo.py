"""`hooksdk demo`: a scripted model does a real job on real MCP servers, and every hook at work is shown."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hooksdk import Approval, ApprovalRequest, Config, Host, JsonlStore, ResultInfo, Session, schema
from hooksdk.adapters.mcp import McpServers, ServerStatus
from hooksdk.agent import Outcome, run_agent
from hooksdk.cli._demo_repository import make_repository
from hooksdk.cli._demo_script import FILE_NAME, PROMPT, scripted_secretary
from hooksdk.cli._timeline import timeline
from hooksdk.errors import HookSDKError
from hooksdk.testing import ScriptedModel

__all__ = ["PROGRAMS", "DemoProblem", "play", "run_demo"]

WINDOW = 200_000
"""The context window that the scripted model claims, in tokens."""
PROGRAMS = {
    "git": ["mcp-server-git"],
    "time": ["mcp-server-time", "--local-timezone=UTC"],
    "fetch": ["mcp-server-fetch"],
    "excel": ["excel-mcp-server", "stdio"],
    "word": ["word_mcp_server"],
}
NEEDED = ("git", "excel")
"""Without these the job cannot be done."""


class DemoProblem(HookSDKError):
    """Why the demo cannot go on, in one line."""


def run_demo(*, folder: Path | None, interactive: bool, as_json: bool) -> int:
    """Run the demo, and answer its exit code. Raises `DemoProblem`, and `KeyboardInterrupt` on Ctrl-C."""
    if shutil.which("git") is None:
        raise DemoProblem("the demo needs git on the PATH: install git, then run it again")
    logging.getLogger("hooksdk").addHandler(logging.NullHandler())
    console = Console(highlight=False, quiet=as_json)
    place = _prepare(folder)
    summary = anyio.run(play, place, console, interactive)
    if as_json:
        print(json.dumps({"schema": 1, **summary}, indent=2, ensure_ascii=False))
    return 0 if summary["spreadsheet"] else 1


def _prepare(folder: Path | None) -> Path:
    try:
        if folder is None:
            return Path(tempfile.mkdtemp(prefix="hooksdk-demo-")).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DemoProblem(f"{folder} is not empty: name a new folder, or leave --folder out")
        return folder.resolve()
    except OSError as error:
        raise DemoProblem(f"{folder or 'a temporary folder'} cannot be used: {error.strerror}") from None


async def play(place: Path, console: Console, interactive: bool) -> dict[str, Any]:
    """Play the demo in an empty folder, and answer what came of it."""
    started = time.monotonic()
    console.print("[bold]hooksdk demo[/]: a scripted model, real MCP servers, real hooks\n")
    try:
        commits = await anyio.to_thread.run_sync(make_repository, place / "repository")
    except OSError as error:
        raise DemoProblem(f"the repository could not be made: {error}") from None
    console.print(f"[dim]repository[/]  {commits} commits in {escape(str(place / 'repository'))}")
    workspace = place / "workspace"
    workspace.mkdir()
    approver = _Approver(console, interactive)
    host = Host(
        plugins=[timeline(console)], store=JsonlStore(place / "sessions"), config=_config(place), approver=approver
    )
    async with host:
        servers = await _start_servers(host, console)
        async with host.session("demo") as session:
            script = scripted_secretary(place / "repository", workspace, place / "elsewhere")
            model = ScriptedModel(script, name="scripted-secretary", context_window=WINDOW)
            outcome = await run_agent(session, model, PROMPT, tools=servers.tools, workspace_dir=str(workspace))
            summary = _summary(place, session, outcome, time.monotonic() - started)
    _show(console, summary, outcome)
    return summary


def _config(place: Path) -> Config:
    inside = re.escape(str(place / "workspace")) + "[/\\\\]"
    outside = {"required": ["path"], "properties": {"path": {"not": {"pattern": f"^{inside}"}}}}
    rules = [
        {
            "action": "deny", "tools": "mcp:excel:*", "arguments": outside,
            "reason": f"spreadsheets belong in {place / 'workspace'}",
        },
        {"action": "ask", "tools": "mcp:excel:create_workbook", "title": "Create a spreadsheet?"},
    ]  # fmt: skip
    return Config.model_validate(
        {
            "plugins": {
                "tool_policy": {"config": {"rules": rules}},
                "tool_results": {},
                "trace_file": {"config": {"path": str(place / "trace.jsonl")}},
            }
        }
    )


class _Approver:
    """Grants, or asks the person at the terminal."""

    def __init__(self, console: Console, interactive: bool) -> None:
        self._console = console
        self._interactive = interactive

    async def __call__(self, request: ApprovalRequest) -> Approval:
        if not self._interactive:
            return Approval(True, "granted by the demo")
        shown = json.dumps(request.arguments, ensure_ascii=False)
        await anyio.sleep(0.1)  # the timeline is told in the background: the question belongs below its call
        self._console.print(f"\n  [yellow]{escape(request.title)}[/]  {escape(request.tool.name)} {escape(shown)}")
        self._console.print("  Allow it? \\[y/N] ", end="")
        try:
            answer = await self._read()
        except BaseException:
            self._console.print()
            raise
        if not sys.stdin.isatty():
            self._console.print(escape(answer.strip()))  # nobody typed it, so no terminal has shown it
        return Approval(answer.strip().lower() in {"y", "yes"}, "the person at the terminal said no")

    @staticmethod
    async def _read() -> str:
        if os.name == "nt":
            return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        # No thread may wait here: after Ctrl-C the process would not end before the next line is typed.
        with contextlib.suppress(PermissionError):  # a file, which is always ready
            await anyio.wait_readable(sys.stdin)
        return sys.stdin.readline()


async def _start_servers(host: Host, console: Console) -> McpServers:
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(f"starting {len(PROGRAMS)} MCP servers")
        states: dict[str, str] = {}

        def on_status(status: ServerStatus) -> None:
            states[status.name] = status.state
            waiting = [name for name in PROGRAMS if states.get(name, "starting") == "starting"]
            told = f", waiting for {', '.join(waiting)}" if waiting else ""
            progress.update(
                task, description=f"MCP servers: {len(PROGRAMS) - len(waiting)} of {len(PROGRAMS)} started{told}"
            )

        servers = await host.enter(McpServers(_programs(), start_timeout=25.0, on_status=on_status), name="MCP servers")
    up = [status for status in servers.status.values() if status.state == "up"]
    for status in servers.status.values():
        if status.state != "up":
            if status.name in NEEDED:
                raise DemoProblem(f"the MCP server '{status.name}' did not start: {status.problem or status.state}")
            console.print(
                f"[yellow]left out[/]    the MCP server '{status.name}': {escape(status.problem or status.state)}"
            )
    tools = ", ".join(f"{status.name} {status.tools}" for status in up)
    slowest = max((status.seconds for status in up), default=0.0)
    console.print(f"[dim]servers[/]     {sum(status.tools for status in up)} tools ({tools}) after {slowest:.1f} s")
    return servers


def _programs() -> dict[str, Any]:
    """Installed beside this Python, wherever the PATH points."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {
        name: {"command": shutil.which(command, path=beside) or command, "args": arguments}
        for name, (command, *arguments) in PROGRAMS.items()
    }


def _summary(place: Path, session: Session, outcome: Outcome, seconds: float) -> dict[str, Any]:
    spreadsheet = place / "workspace" / FILE_NAME
    transcript = next((place / "sessions").glob("*.messages.jsonl"), None)
    return {
        "answer": outcome.text,
        "turns": outcome.turns,
        "tokens_direct": outcome.stats["tokens_direct"],
        "tokens_offered": outcome.stats["tokens_offered"],
        "tools": sum(outcome.stats["catalog"].values()),
        "tools_offered": outcome.stats["tools_offered"],
        "tool_calls": outcome.stats["tool_calls"],
        "transcript_characters": len(schema.canonical(session.messages)),
        "view_characters": len(schema.canonical(session.view)),
        "results": [_result(info) for info in session.results.list()],
        "spreadsheet": str(spreadsheet) if spreadsheet.is_file() else None,
        "transcript": str(transcript) if transcript else None,
        "trace": str(place / "trace.jsonl"),
        "seconds": round(seconds, 1),
    }


def _result(info: ResultInfo) -> dict[str, Any]:
    return {"handle": info.handle, "tool": info.tool, "characters": info.characters, "trimmed": info.trimmed}


def _show(console: Console, summary: Mapping[str, Any], outcome: Outcome) -> None:
    console.print(f"\n[bold]The model's answer:[/] {escape(outcome.text)}\n")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    direct, offered = summary["tokens_direct"], summary["tokens_offered"]
    table.add_row("tool schemas", f"{direct:,} tokens for {summary['tools']} tools", "without tool search")
    if offered < direct:
        saved = f"with it, {100 - 100 * offered / direct:.0f} % less"
        table.add_row("", f"[green]{offered:,}[/] tokens for {summary['tools_offered']} tools", saved)
    before, after = summary["transcript_characters"], summary["view_characters"]
    table.add_row("transcript", f"{before:,} characters stored", "whole, for ever")
    table.add_row("", f"[green]{after:,}[/] characters shown", f"to the model, {100 - 100 * after / before:.0f} % less")
    console.print(table)
    for name in ("spreadsheet", "transcript", "trace"):
        # Whole, however narrow the terminal: they are there to be copied.
        console.print(f"{name:<13} {escape(str(summary[name] or 'none'))}", soft_wrap=True)
    console.print(f"time          {summary['seconds']} s")
