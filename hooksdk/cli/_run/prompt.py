"""`hooksdk run`: one prompt, a real model, the project's plugins and any MCP servers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

import anyio
import typer
from rich.console import Console

from hooksdk import Host, Tool
from hooksdk.agent import Limits, Outcome, run_agent, tokens_of
from hooksdk.cli._console import counted, one_line, print_json, print_line, printable, stderr_console, warnings_shown
from hooksdk.cli._options import WINDOW, ContextWindow, Json, Mcp, Plugins, Project, import_plugins, takes
from hooksdk.cli._options import Store as SessionStore
from hooksdk.cli._project import open_servers, project_config
from hooksdk.cli._run.approver import approver_of
from hooksdk.cli._run.provider import ATTEMPTS, CommandModel, check_model, model_of_session
from hooksdk.cli._run.timeline import Prose, Timeline
from hooksdk.cli._sessions.look import LAST, match_session, new_id, newest
from hooksdk.cli._spent import spent_json, spent_words
from hooksdk.cli._traces import trace_files
from hooksdk.config import without_password
from hooksdk.costs import PriceList, Spent
from hooksdk.errors import did_you_mean
from hooksdk.formats import get_format
from hooksdk.stores import SqlStore, Store

run_app = typer.Typer(add_completion=False)
# The exit code of a run that a limit stopped.
AT_A_LIMIT = 4


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of `hooksdk run`.

    Attributes:
        model: Such as openai:gpt-5, openai-responses:gpt-5 or anthropic:claude-sonnet-4-5; by default that of the
            session that goes on.
        prompt: What the model is to do; - or nothing: read from stdin.
        system: The system message of a new session.
        session: Go on with this session, or `last`; a name that is new begins one. By default a new one is begun.
        go_on: Go on with the newest session of this folder.
        approve: Grant every approval that a plugin asks for, unseen; or ask on stdin. By default you are asked on a
            terminal, and elsewhere each one is refused.
        max_turns: Replies of the model at most.
        reminders: How often a model that writes a call as text is told how to call.
        max_tokens: Tokens of one reply at most.
        base_url: Where the API is; else OPENAI_BASE_URL or ANTHROPIC_BASE_URL says it.
    """

    model: Annotated[str | None, typer.Option(metavar="PROVIDER:NAME", callback=check_model)] = None
    prompt: Annotated[str | None, typer.Argument(metavar="[PROMPT]")] = None
    mcp: Mcp = None
    plugins: Plugins = None
    system: Annotated[str | None, typer.Option(metavar="TEXT")] = None
    session: Annotated[str | None, typer.Option(metavar="ID")] = None
    go_on: Annotated[bool, typer.Option("--continue", "-c")] = False
    store: SessionStore = None
    approve: Annotated[bool | None, typer.Option("--yes/--ask", show_default=False)] = None
    max_turns: Annotated[int, typer.Option(min=1)] = 20
    reminders: Annotated[int, typer.Option(min=0)] = 0
    max_tokens: Annotated[int | None, typer.Option(min=1)] = None
    context_window: ContextWindow = WINDOW
    base_url: Annotated[str | None, typer.Option(metavar="URL")] = None
    as_json: Json = False
    project: Project = Path()


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


@run_app.command()
@takes(RunOptions)
def run_prompt(options: RunOptions) -> int:
    """Let a real model do something with the project's plugins and the tools of MCP servers.

    The answer goes to stdout, everything else to stderr. Keys come from OPENAI_API_KEY and ANTHROPIC_API_KEY.
    """
    if options.approve is False and options.prompt in (None, "-"):
        raise typer.BadParameter("--ask reads answers from stdin, so the prompt cannot come from there too")
    if options.session == "":
        raise typer.BadParameter("it is empty", param_hint="--session")
    if options.go_on and options.session is not None:
        raise typer.BadParameter("--continue takes the newest session, and --session names one: leave one of them out")
    named = options.model
    if named is None:
        named = model_of_session(options.project, options.store, LAST if options.go_on else options.session)
    prompt, plugins = read_prompt(options.prompt), import_plugins(options.plugins)
    console = stderr_console()
    prose = Prose(_terminal(as_json=options.as_json))
    model = CommandModel(
        named,
        console,
        prose,
        base_url=options.base_url,
        context_window=options.context_window,
        max_tokens=options.max_tokens,
    )
    try:
        with warnings_shown(console):
            played = anyio.run(_play, options, prompt, plugins, model, console, prose)
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
        print_line(console, "go on", one_line(_resume_command(options, named, session_id)))
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


async def _play(
    options: RunOptions, prompt: str, plugins: Sequence[Any], model: CommandModel, console: Console, prose: Prose
) -> _Played:
    config = project_config(options.project, options.store)
    async with (
        # First of all, so that a missing key is told before any server is started.
        model,
        Host(plugins, config=config, folder=options.project, approver=approver_of(options.approve)) as host,
    ):
        session_id = await _session_id(host.store, options)  # before any server is started, too
        groups = await open_servers(host, options.mcp or (), console, project=options.project)
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
                        prompt,
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
    return f"{_place(store)}, session {session_id}" if isinstance(store, SqlStore) else ""


def _place_options(options: RunOptions) -> list[str]:
    place = ["--store", without_password(options.store)] if options.store else []
    return place + (["--project", str(options.project)] if options.project != Path() else [])


def _look_command(command: str, options: RunOptions, session_id: str) -> str:
    return shlex.join(["hooksdk", *command.split(), session_id, *_place_options(options)])


def _resume_command(options: RunOptions, model: str, session_id: str) -> str:
    files = [word for path in options.mcp or () for word in ("--mcp", str(path))]
    plugins = [word for name in options.plugins or () for word in ("--plugin", name)]
    url = ["--base-url", options.base_url] if options.base_url else []
    given = ["--model", model, *url, "--session", session_id, *files, *plugins]
    return shlex.join(["hooksdk", "run", *given, *_place_options(options), "PROMPT"])


def _place(store: Store) -> str:
    if isinstance(store, SqlStore):
        return str(store.file.resolve() if store.file else store)
    return "memory: gone when this command ends"


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
