"""`hooksdk guard`: the judge that the hooks of coding agents ask."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import anyio
import typer

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._gateway.client_commands import DryRun, Yes, scope_of
from hooksdk.cli._guard.hooks import Scope
from hooksdk.cli._guard.policy import policy
from hooksdk.cli._guard.trial import try_rules
from hooksdk.cli._options import Json, has_mcp, seconds_of

Client = Annotated[str, typer.Option("--client", metavar="AGENT", help="claude-code, codex, gemini or qwen.")]
InProject = Annotated[
    bool, typer.Option("--project/--user", help="The settings of this folder's project, or your own for all projects.")
]
InFolder = Annotated[bool, typer.Option("--local", help="Claude Code's settings of this folder that stay yours.")]
OfMachine = Annotated[
    bool,
    typer.Option("--managed", help="The machine's own settings, which no project overrules: for an administrator."),
]
OfFile = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Another file of the agent's settings.")]

guard_app = typer.Typer(help="Let your rules judge what a coding agent does itself.", no_args_is_help=True)
guard_app.command()(policy)
guard_app.command("try")(try_rules)


@guard_app.command()
def judge(
    idle: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Ends after so long without any hook.")] = 900,
) -> None:
    """Answer the hooks of this user's coding agents; they start it themselves when there is none."""
    from hooksdk.cli._guard.hooks import need_sockets
    from hooksdk.guard import serve

    need_sockets()
    is_gateway = None
    if has_mcp():  # without it there is no gateway
        from hooksdk.cli._guard.gateways import is_gateway
    if not anyio.run(lambda: serve(idle=idle, is_gateway=is_gateway)):
        print("hooksdk: another judge of this user runs already", file=sys.stderr)


@guard_app.command()
def hook(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="claude-code, codex, gemini or qwen.")],
) -> None:
    """Print the command that an agent's hooks are to run."""
    from hooksdk.cli._guard.hooks import check_agent, hook_command, need_sockets

    need_sockets()
    print(hook_command(check_agent(agent)))


def _scope_of(in_project: bool, in_folder: bool, managed: bool, file: Path | None) -> Scope:
    if managed and (in_project or in_folder or file is not None):
        raise CommandProblem("--managed is a place of its own: leave --project, --local and --file out")
    return "managed" if managed else scope_of(in_project, in_folder, file)


@guard_app.command()
def install(
    agent: Client,
    in_project: InProject = False,
    in_folder: InFolder = False,
    managed: OfMachine = False,
    file: OfFile = None,
    trial: Annotated[
        bool, typer.Option("--try", help="Refuse nothing: `hooksdk guard try` says what would be refused.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Put the guard before what a coding agent does itself: hooks go into the agent's settings, shown first, and are tried.

    The rules are those of the project in which the agent works: `hooksdk guard policy` has some to begin with.
    """
    from hooksdk.cli._guard.install import GuardOptions, install_guard

    scope = _scope_of(in_project, in_folder, managed, file)
    options = GuardOptions(agent=agent, scope=scope, file=file, trial=trial, dry_run=dry_run, yes=yes, as_json=as_json)
    raise typer.Exit(install_guard(options))


@guard_app.command()
def uninstall(
    agent: Client,
    in_project: InProject = False,
    in_folder: InFolder = False,
    managed: OfMachine = False,
    file: OfFile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Take the guard's hooks out of an agent's settings, which are as they were, byte for byte. What was changed since stays."""
    from hooksdk.cli._guard.install import GuardOptions, uninstall_guard

    scope = _scope_of(in_project, in_folder, managed, file)
    options = GuardOptions(agent=agent, scope=scope, file=file, dry_run=dry_run, yes=yes, as_json=as_json)
    raise typer.Exit(uninstall_guard(options))


@guard_app.command()
def status(
    prove: Annotated[
        bool,
        typer.Option(
            "--prove", help="Start each agent here once, with a call that must be refused. Its settings count, and run."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Say whether a judge runs, before which agents the guard is, what counts against it here, and what stays open in each."""
    from hooksdk.cli._guard.status import show_status

    raise typer.Exit(show_status(as_json=as_json, proves=prove))


@guard_app.command()
def pause(
    duration: Annotated[str, typer.Argument(metavar="DURATION", help="Such as 10m or 2h.")],
) -> None:
    """Refuse nothing for so long. A person types it at a terminal; what happens meanwhile stands in the trace."""
    from hooksdk.cli._guard.pause import pause_guard

    raise typer.Exit(pause_guard(seconds_of(duration)))


@guard_app.command()
def off() -> None:
    """Refuse nothing until `hooksdk guard on`. A person types it at a terminal; what happens meanwhile stands in the trace."""
    from hooksdk.cli._guard.pause import pause_guard

    raise typer.Exit(pause_guard(float("inf")))


@guard_app.command()
def on() -> None:
    """Refuse again what the rules refuse."""
    from hooksdk.cli._guard.pause import guard_on

    guard_on()
