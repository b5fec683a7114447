"""`hooksdk run`: one prompt, a real model, the project's plugins and any MCP servers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import anyio
import typer
from rich.console import Console

from hooksdk import Host, JsonlStore, Tool
from hooksdk.agent import Limits, Outcome, run_agent, tokens_of
from hooksdk.cli._console import counted, one_line, print_json, print_line, printable, stderr_console, warnings_shown
from hooksdk.cli._project import open_servers, project_config
from hooksdk.cli._run.approver import approver_of
from hooksdk.cli._run.provider import ATTEMPTS, CommandModel, ModelOptions
from hooksdk.cli._run.timeline import Prose, Timeline
from hooksdk.cli._sessions.ids import match_session, new_id, newest
from hooksdk.cli._spent import spent_json, spent_words
from hooksdk.cli._traces import trace_files
from hooksdk.config import without_password
from hooksdk.costs import PriceList, Spent
from hooksdk.errors import did_you_mean
from hooksdk.formats import get_format
from hooksdk.stores import SqlStore, Store
from hooksdk.stores.jsonl import file_name

# The exit code of a run that a limit stopped.
AT_A_LIMIT = 4


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What the command line asks for.

    Attributes:
        plugins: Modules and classes that were named with `--plugin`.
        plugin_names: Those names, as they were typed.
        go_on: With the newest session of this folder.
        approve: True: grant all; False: ask on stdin, whatever it is; None: ask if a person is there.
    """

    prompt: str
    model: ModelOptions
    mcp: tuple[Path, ...] = ()
    plugins: tuple[Any, ...] = ()
    plugin_names: tuple[str, ...] = ()
    system: str | None = None
    max_turns: int
    reminders: int = 0
    session: str | None = None
    go_on: bool = False
    store: str | None = None
    approve: bool | None = None
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
    prose = Prose(_terminal(as_json=options.as_json))
    model = CommandModel(options.model, console, prose)
    try:
        with warnings_shown(console):
            played = anyio.run(_play, options, model, console, prose)
    finally:
        prose.end_line()
    session_id, outcome = played.session, played.outcome
    if options.as_json:
        document = {"schema": 1, "session": session_id, "text": outcome.text, "reason": outcome.reason}
        document |= {"turns": outcome.turns, "attempts": outcome.attempts, "stats": outcome.stats}
        document |= {"blocked": outcome.blocked} if outcome.blocked else {}
        document |= {"overruled": [*outcome.overruled]} if outcome.overruled else {}
        document["cost"] = spent_json(played.spent)
        print_json(document)
    elif outcome.text and not (prose.stream is sys.stdout and prose.has_told(outcome.text)):
        print(printable(outcome.text) if sys.stdout and sys.stdout.isatty() else outcome.text)
    if not outcome.text.strip() and outcome.reason == "completed":
        console.print("[yellow]no answer[/]   the model's last reply has no text", soft_wrap=True)
    if played.transcript:
        print_line(console, "transcript", one_line(played.transcript))
        if played.trace:
            print_line(console, "trace", one_line(played.trace))
        command = "report" if played.trace else "sessions show"
        print_line(console, "look", one_line(_look_command(command, options, session_id)))
        print_line(console, "go on", one_line(_resume_command(options, session_id)))
    print_line(console, "run", one_line(_summary(outcome, played.spent, session_id)))
    if outcome.reason == "completed":
        return 0
    why = {
        "paused": f"stopped: {counted(len(outcome.pending), 'call')} without an approval yet",
        "blocked": outcome.blocked,
        "turn_limit": f"stopped at the limit of {counted(options.max_turns, 'turn')} (--max-turns)",
    }.get(outcome.reason, f"stopped at the limit of {outcome.reason}")
    console.print(f"[yellow]hooksdk:[/] {one_line(why)}", soft_wrap=True)
    return AT_A_LIMIT


@dataclass(frozen=True)
class _Played:
    session: str
    outcome: Outcome
    # Where it is kept; empty where it is not.
    transcript: str
    # The file that holds its trace, likewise.
    trace: str
    # What this run used, and cost.
    spent: Spent


def _terminal(*, as_json: bool) -> TextIO | None:
    """The terminal that shows the model's words as they come: that of the answer, or else that of stderr."""
    streams = [sys.stderr] if as_json else [sys.stdout, sys.stderr]
    return next((stream for stream in streams if stream and stream.isatty()), None)


async def _play(options: RunOptions, model: CommandModel, console: Console, prose: Prose) -> _Played:
    config = project_config(options.project, options.store)
    async with (
        # First of all, so that a missing key is told before any server is started.
        model,
        Host(options.plugins, config=config, folder=options.project, approver=approver_of(options.approve)) as host,
    ):
        session_id = await _session_id(host.store, options)  # before any server is started, too
        groups = await open_servers(host, options.mcp, console, project=options.project)
        print_line(console, "policies", one_line(host.judging))
        print_line(console, "store", one_line(_place(host.store)))

        def tools() -> list[Tool]:
            return [tool for servers in groups for tool in servers.tools()]

        session = host.session(session_id)
        session.on_event(Timeline(console, prose))
        is_empty = False
        try:
            async with session:
                if session.resumed:
                    so_far = counted(len(session.messages), "message")
                    print_line(console, "session", one_line(f"{session_id} goes on: {so_far} so far"))
                elif options.session is not None:
                    others = [one for one in await host.store.list_sessions() if one != session_id]
                    print_line(console, "session", one_line(f"{session_id} is new.{did_you_mean(session_id, others)}"))
                before = len(session.requests)
                try:
                    outcome = await run_agent(
                        session,
                        model,
                        options.prompt,
                        tools=tools,
                        system=options.system,
                        workspace_dir=str(options.project.resolve()),
                        limits=Limits(turns=options.max_turns, attempts=ATTEMPTS, reminders=options.reminders),
                        on_text=prose.write if prose.stream else None,
                    )
                except BaseException:
                    is_empty = not session.resumed and not any(map(get_format(model.format).is_reply, session.messages))
                    raise
                spent = PriceList(host.config.prices).spent(session.requests[before:])
        except BaseException:
            if is_empty:  # nobody goes on with a question that no model has read
                with anyio.CancelScope(shield=True):
                    await host.store.delete_session(session_id)
            raise
        traces = [str(path) for path in trace_files(host.plugins)]
        transcript = _transcript(host.store, session_id)
        return _Played(session_id, outcome, transcript, trace=traces[-1] if traces else "", spent=spent)


async def _session_id(store: Store, options: RunOptions) -> str:
    """The session to run in, which may be a new one. Raises `CommandProblem`."""
    if options.go_on:
        return (await newest(store, options.project)).session_id
    if options.session is None:
        return await new_id(store)
    return await match_session(store, options.session, options.project) or options.session


def _transcript(store: Store, session_id: str) -> str:
    if isinstance(store, JsonlStore):
        return str(store.directory.resolve() / f"{file_name(session_id)}.messages.jsonl")
    return f"{store}, session {session_id}" if isinstance(store, SqlStore) else ""


def _place_options(options: RunOptions) -> list[str]:
    place = ["--store", without_password(options.store)] if options.store else []
    return place + (["--project", str(options.project)] if options.project != Path() else [])


def _look_command(command: str, options: RunOptions, session_id: str) -> str:
    return shlex.join(["hooksdk", *command.split(), session_id, *_place_options(options)])


def _resume_command(options: RunOptions, session_id: str) -> str:
    files = [word for path in options.mcp for word in ("--mcp", str(path))]
    plugins = [word for name in options.plugin_names for word in ("--plugin", name)]
    url = ["--base-url", options.model.base_url] if options.model.base_url else []
    given = ["--model", options.model.model, *url, "--session", session_id, *files, *plugins]
    return shlex.join(["hooksdk", "run", *given, *_place_options(options), "PROMPT"])


def _place(store: Store) -> str:
    if isinstance(store, SqlStore):
        return str(store)
    return str(store.directory.resolve()) if isinstance(store, JsonlStore) else "memory: gone when this command ends"


def _summary(outcome: Outcome, spent: Spent, session_id: str) -> str:
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
    model = "the model tells no usage" if used is None else f"the model used {used:,} tokens{spent_words(spent)}"
    return f"{counted(outcome.turns, 'turn')}, {calls}; {schemas}; {model}; session {session_id}"
