"""`hooksdk guard`: the judge that the hooks of coding agents ask."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import anyio
import typer

from hooksdk.cli._console import CommandProblem, safe, says_yes, stdout_console
from hooksdk.cli._edits.configuration import offer_rules
from hooksdk.cli._guard.hooks import check_agent, hook_command, how_long, judge_folder, need_sockets
from hooksdk.cli._guard.trial import try_rules
from hooksdk.cli._options import AGENTS, GuardInstall, GuardOptions, Json, Project, has_mcp, seconds_of, takes
from hooksdk.guard import serve, starter_policy
from hooksdk.stores.files import replace_file

guard_app = typer.Typer(help="Let your rules judge what a coding agent does itself.", no_args_is_help=True)
guard_app.command("try")(try_rules)


@guard_app.command()
def policy(
    project: Project = Path(),
    write: Annotated[bool, typer.Option("--write")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    as_json: Json = False,
) -> None:
    """Print rules to begin with for coding agents in a project, made for what is in its folder.

    Without --write nothing changes: read them, change what you like, and try them on what your agents did lately:

        hooksdk guard policy > rules.toml

        hooksdk guard try --policy rules.toml

    Options:
        write: Write them into the project's hooksdk.toml.
        yes: Do not ask before writing.
    """
    folder, advice = project.resolve(), "`hooksdk guard try` says what they would have said lately."
    text = starter_policy(folder)
    offer_rules(folder, text, command="hooksdk guard policy", advice=advice, write=write, yes=yes, as_json=as_json)


@guard_app.command()
def judge(idle: Annotated[float, typer.Option(min=1, metavar="SECONDS")] = 900) -> None:
    """Answer the hooks of this user's coding agents; they start it themselves when there is none.

    Options:
        idle: Ends after so long without any hook.
    """
    need_sockets()
    is_gateway = None
    if has_mcp():  # without it there is no gateway
        from hooksdk.cli._gateway.places import is_gateway
    if not anyio.run(lambda: serve(idle=idle, is_gateway=is_gateway)):
        print("hooksdk: another judge of this user runs already", file=sys.stderr)


@guard_app.command()
def hook(agent: Annotated[str, typer.Argument(metavar="AGENT", help=AGENTS)]) -> None:
    """Print the command that an agent's hooks are to run."""
    need_sockets()
    print(hook_command(check_agent(agent)))


@guard_app.command()
@takes(GuardInstall)
def install(options: GuardInstall) -> int:
    """Put the guard before what a coding agent does itself: hooks go into the agent's settings, shown first, and are
    tried.

    The rules are those of the project in which the agent works: `hooksdk guard policy` has some to begin with.
    """
    from hooksdk.cli._guard.install import install_guard

    return install_guard(options)


@guard_app.command()
@takes(GuardOptions)
def uninstall(options: GuardOptions) -> int:
    """Take the guard's hooks out of an agent's settings, which are as they were, byte for byte. What was changed since
    stays."""
    from hooksdk.cli._guard.install import uninstall_guard

    return uninstall_guard(options)


@guard_app.command()
def status(prove: Annotated[bool, typer.Option("--prove")] = False, as_json: Json = False) -> None:
    """Say whether a judge runs, before which agents the guard is, what counts against it here, and what stays open in
    each.

    Options:
        prove: Start each agent here once, with a call that must be refused. Its settings count, and run.
    """
    from hooksdk.cli._guard.install import show_status

    raise typer.Exit(show_status(as_json=as_json, proves=prove))


@guard_app.command()
def pause(duration: Annotated[str, typer.Argument(metavar="DURATION")]) -> None:
    """Refuse nothing for so long. A person types it at a terminal; what happens meanwhile stands in the trace.

    Options:
        duration: Such as 10m or 2h.
    """
    _pause(seconds_of(duration))


@guard_app.command()
def off() -> None:
    """Refuse nothing until `hooksdk guard on`. A person types it at a terminal; what happens meanwhile stands in the
    trace."""
    _pause(float("inf"))


@guard_app.command()
def on() -> None:
    """Refuse again what the rules refuse."""
    need_sockets()
    (judge_folder() / "paused").unlink(missing_ok=True)
    stdout_console().print("The guard is in force wherever it is installed.", soft_wrap=True)


def _pause(seconds: float) -> None:
    """Pause the guard, after a yes of the person at the terminal: an agent that starts the command has none."""
    need_sockets()
    if not sys.stdin.isatty():
        raise CommandProblem("the guard is paused by a person at a terminal, and nobody is there to answer")
    until = time.time() + seconds
    if not says_yes(stdout_console(), safe(f"Refuse nothing {how_long(until)}, in all projects and agents?")):
        print("nothing was changed")
        raise typer.Exit(1)
    folder = judge_folder()
    replace_file(folder / "paused", str(until).encode(), mode=0o600)
    with (folder / "judge.log").open("a", encoding="utf-8") as log:
        now = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        log.write(f"{now} the guard refuses nothing {how_long(until)}: typed at {os.ttyname(sys.stdin.fileno())}\n")
    stdout_console().print(
        f"The guard refuses nothing {how_long(until)}. In force again: hooksdk guard on", soft_wrap=True
    )
