"""`hooksdk demo`: a scripted model does a real job on real MCP servers, and every hook at work is shown."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hooksdk import Config, Host, ResultInfo, Session, schema
from hooksdk._tasks.background import logger
from hooksdk.agent import Outcome, run_agent
from hooksdk.cli._approver import ask_here, grant_all
from hooksdk.cli._console import print_json
from hooksdk.cli._demo_repository import make_repository
from hooksdk.cli._demo_script import FILE_NAME, PROMPT, scripted_secretary
from hooksdk.cli._project import store_spec
from hooksdk.cli._servers import ServerWatch
from hooksdk.cli._timeline import timeline
from hooksdk.errors import HookSDKError
from hooksdk.mcp import McpServers
from hooksdk.testing import ScriptedModel

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


def run_demo(
    *, folder: Path | None, store: str | None = None, plugins: Sequence[Any] = (), interactive: bool, as_json: bool
) -> int:
    """Run the demo, with plugins of one's own beside it, and answer its exit code. Raises `DemoProblem`, and `KeyboardInterrupt` on Ctrl-C."""
    if shutil.which("git") is None:
        raise DemoProblem("the demo needs git on the PATH: install git, then run it again")
    logger.addHandler(logging.NullHandler())
    console = Console(highlight=False, emoji=False, quiet=as_json)
    folder = _prepare(folder)
    summary = anyio.run(play, folder, console, interactive, store, plugins)
    if as_json:
        print_json({"schema": 1, **summary})
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


async def play(
    folder: Path, console: Console, interactive: bool, store: str | None = None, plugins: Sequence[Any] = ()
) -> dict[str, Any]:
    """Play the demo in an empty folder, and answer what came of it. Sessions are kept there, or in `store`: a folder or URL."""
    start = time.monotonic()
    console.print("[bold]hooksdk demo[/]: a scripted model, real MCP servers, real hooks\n")
    try:
        commits = await anyio.to_thread.run_sync(make_repository, folder / "repository")
    except OSError as error:
        raise DemoProblem(f"the repository could not be made: {error}") from None
    console.print(f"[dim]repository[/]  {commits} commits in {escape(str(folder / 'repository'))}")
    workspace = folder / "workspace"
    workspace.mkdir()
    approver = ask_here(console) if interactive else grant_all("granted by the demo")
    config = _config(folder, store_spec(store or folder / "sessions"))
    async with Host(plugins=[timeline(console), *plugins], config=config, approver=approver) as host:
        console.print(f"[dim]policies[/]    {escape(host.judging)}", soft_wrap=True)
        servers = await _start_servers(host, console)
        # A store of one's own may hold an earlier demo, which this one must not go on with.
        async with host.session(None if store else "demo") as session:
            script = scripted_secretary(folder / "repository", workspace, folder / "elsewhere")
            model = ScriptedModel(script, name="scripted-secretary", context_window=WINDOW)
            outcome = await run_agent(session, model, PROMPT, tools=servers.tools, workspace_dir=str(workspace))
            summary = _summary(folder, session, outcome, time.monotonic() - start, store)
    _show(console, summary, outcome)
    return summary


def _config(folder: Path, store: str) -> Config:
    inside = re.escape(str(folder / "workspace")) + "[/\\\\]"
    outside = {"required": ["path"], "properties": {"path": {"not": {"pattern": f"^{inside}"}}}}
    rules = [
        {
            "action": "deny", "tools": "mcp:excel:*", "arguments": outside,
            "reason": f"spreadsheets belong in {folder / 'workspace'}",
        },
        {"action": "ask", "tools": "mcp:excel:create_workbook", "title": "Create a spreadsheet?"},
    ]  # fmt: skip
    return Config.model_validate(
        {
            "store": store,
            "plugins": {
                "tool_policy": {"config": {"rules": rules}},
                "tool_results": {},
                "trace_file": {"config": {"path": str(folder / "trace.jsonl")}},
            },
        }
    )


async def _start_servers(host: Host, console: Console) -> McpServers:
    watch = ServerWatch(console)
    servers = McpServers(_programs(), start_timeout=25.0, on_status=watch)
    await watch.start(host, [servers])
    for status in servers.status.values():
        if status.name in NEEDED and status.state != "up":
            raise DemoProblem(f"the MCP server '{status.name}' did not start: {status.problem or status.state}")
    return servers


def _programs() -> dict[str, Any]:
    """Installed beside this Python, wherever the PATH points."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {
        name: {"command": shutil.which(command, path=beside) or command, "args": arguments}
        for name, (command, *arguments) in PROGRAMS.items()
    }


def _summary(folder: Path, session: Session, outcome: Outcome, seconds: float, store: str | None) -> dict[str, Any]:
    spreadsheet = folder / "workspace" / FILE_NAME
    transcript = next((folder / "sessions").glob("*.messages.jsonl"), None)
    place = f"session {session.id}" if store else str(transcript) if transcript else None
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
        "transcript": place,
        "trace": str(folder / "trace.jsonl"),
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
