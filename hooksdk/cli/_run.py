"""`hooksdk run`: one prompt, a real model, the project's plugins and any MCP servers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import typer
from rich.console import Console
from rich.markup import escape

from hooksdk import Host, JsonlStore, Tool
from hooksdk.agent import Limits, Outcome, run_agent, tokens_of
from hooksdk.approvals import Approver
from hooksdk.cli._approver import ask_here, grant_all, refuse_all
from hooksdk.cli._console import counted, print_json, printable, safe, stderr_console, warnings_shown
from hooksdk.cli._project import open_servers, project_config
from hooksdk.cli._provider import ATTEMPTS, CommandModel, ModelOptions
from hooksdk.cli._timeline import timeline
from hooksdk.stores import SqlStore, Store

AT_A_LIMIT = 4
"""The exit code of a run that a limit stopped."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What the command line asks for."""

    prompt: str
    model: ModelOptions
    mcp: tuple[Path, ...] = ()
    plugins: tuple[Any, ...] = ()
    """Modules and classes that were named with `--plugin`."""
    system: str | None = None
    max_turns: int
    reminders: int = 0
    session: str | None = None
    store: str | None = None
    approve: bool | None = None
    """True: grant all; False: ask on stdin, whatever it is; None: ask if a person is there."""
    as_json: bool = False
    project: Path


def read_prompt(argument: str | None) -> str:
    """The prompt, or all of stdin for `-` and where none is given. Raises a usage error for an empty one."""
    if argument is None and sys.stdin.isatty():
        raise typer.BadParameter("give a prompt, or pipe one in", param_hint="PROMPT")
    try:
        prompt = sys.stdin.read() if argument in (None, "-") else argument
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"stdin is not text: {error}", param_hint="PROMPT") from None
    if not prompt.strip():
        raise typer.BadParameter("it is empty", param_hint="PROMPT")
    return prompt


def run_prompt(options: RunOptions) -> int:
    """Run it, and answer the exit code. Raises what ends the run, `KeyboardInterrupt` on Ctrl-C among it."""
    console = stderr_console()
    model = CommandModel(options.model, console)
    with warnings_shown(console):
        session_id, outcome = anyio.run(_play, options, model, console)
    if options.as_json:
        document = {"schema": 1, "session": session_id, "text": outcome.text, "reason": outcome.reason}
        document |= {"turns": outcome.turns, "attempts": outcome.attempts, "stats": outcome.stats}
        print_json(document)
    elif outcome.text:
        print(printable(outcome.text) if sys.stdout and sys.stdout.isatty() else outcome.text)
    if not outcome.text.strip() and outcome.reason == "completed":
        console.print("[yellow]no answer[/]   the model's last reply has no text", soft_wrap=True)
    if look := _look_command(options, session_id):
        console.print(f"[dim]look[/]        {safe(look)}", soft_wrap=True)
    console.print(f"[dim]run[/]         {escape(_summary(outcome, session_id))}", soft_wrap=True)
    if outcome.reason == "completed":
        return 0
    if outcome.reason == "paused":
        waiting = counted(len(outcome.pending), "call")
        console.print(f"[yellow]hooksdk:[/] stopped: {waiting} without an approval yet", soft_wrap=True)
        return AT_A_LIMIT
    limit = f"{counted(options.max_turns, 'turn')} (--max-turns)" if outcome.reason == "turn_limit" else outcome.reason
    console.print(f"[yellow]hooksdk:[/] stopped at the limit of {limit}", soft_wrap=True)
    return AT_A_LIMIT


async def _play(options: RunOptions, model: CommandModel, console: Console) -> tuple[str, Outcome]:
    async with (
        # First of all, so that a missing key is told before any server is started.
        model,
        Host(
            plugins=[timeline(console), *options.plugins], approver=_approver(options), folder=options.project,
            config=project_config(options.project, options.store),
        ) as host,
    ):  # fmt: skip
        groups = await open_servers(host, options.mcp, console, project=options.project)
        console.print(f"[dim]policies[/]    {escape(host.judging)}", soft_wrap=True)
        console.print(f"[dim]store[/]       {escape(_place(host.store))}", soft_wrap=True)

        def tools() -> list[Tool]:
            return [tool for servers in groups for tool in servers.tools()]

        async with host.session(options.session) as session:
            outcome = await run_agent(
                session, model, options.prompt, tools=tools, system=options.system, workspace_dir=str(options.project.resolve()),
                limits=Limits(turns=options.max_turns, attempts=ATTEMPTS, reminders=options.reminders),
            )  # fmt: skip
            return session.id, outcome


def _look_command(options: RunOptions, session_id: str) -> str:
    """How to look at the session; empty where it was kept in memory."""
    if project_config(options.project, options.store).store == "memory":
        return ""
    place = ["--store", str(options.store)] if options.store else []
    place += ["--project", str(options.project)] if options.project != Path() else []
    return shlex.join(["hooksdk", "sessions", "show", session_id, *place])


def _place(store: Store) -> str:
    if isinstance(store, SqlStore):
        return str(store)
    return str(store.directory.resolve()) if isinstance(store, JsonlStore) else "memory: gone when this command ends"


def _approver(options: RunOptions) -> Approver:
    """On a terminal a person is options; elsewhere every approval is refused."""
    if options.approve:
        return grant_all("granted by --yes")
    if options.approve is False or (sys.stdin.isatty() and sys.stderr.isatty()):
        return ask_here(stderr_console())
    return refuse_all(stderr_console())


def _summary(outcome: Outcome, session_id: str) -> str:
    stats: Mapping[str, Any] = outcome.stats
    statuses: dict[str, int] = stats["tool_calls"]
    others = [f"{count} {status}" for status, count in statuses.items() if status != "ok"]
    calls = counted(sum(statuses.values()), "call") + (f" ({', '.join(others)})" if others else "")
    direct, offered = stats["tokens_direct"], stats["tokens_offered"]
    schemas = f"{offered:,} tokens of schemas"
    if offered < direct:
        saved = f"{100 * (direct - offered) // direct} % saved by search"
        schemas = f"{offered:,} of {direct:,} tokens of schemas offered, {saved}"
    used = tokens_of(stats["usage"])
    model = "the model tells no usage" if used is None else f"the model used {used:,} tokens"
    return f"{counted(outcome.turns, 'turn')}, {calls}; {schemas}; {model}; session {session_id}"
