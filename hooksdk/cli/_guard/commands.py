"""`hooksdk guard`: the judge that the hooks of coding agents ask."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from typing import Annotated

import anyio
import typer

from hooksdk.cli._console import CommandProblem, print_json
from hooksdk.cli._guard.policy import policy
from hooksdk.cli._guard.trial import try_rules
from hooksdk.cli._options import Json

guard_app = typer.Typer(help="Let your rules judge what a coding agent does itself.", no_args_is_help=True)
guard_app.command()(policy)
guard_app.command("try")(try_rules)


def _need_sockets() -> None:
    if sys.platform == "win32":
        raise CommandProblem(
            "the guard needs Unix sockets, and Windows has none that Python offers: it is not there yet"
        )


@guard_app.command()
def judge(
    idle: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Ends after so long without any hook.")] = 900,
) -> None:
    """Answer the hooks of this user's coding agents; they start it themselves when there is none."""
    _need_sockets()
    from hooksdk.guard import serve

    if not anyio.run(lambda: serve(idle=idle)):
        print("hooksdk: another judge of this user runs already", file=sys.stderr)


@guard_app.command()
def hook(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="claude-code, codex, gemini or qwen.")],
) -> None:
    """Print the command that an agent's hooks are to run."""
    _need_sockets()
    from hooksdk.errors import did_you_mean
    from hooksdk.guard import AGENTS, client

    if agent not in AGENTS:
        raise typer.BadParameter(
            f"'{agent}' is none of {', '.join(AGENTS)}.{did_you_mean(agent, AGENTS)}", param_hint="AGENT"
        )
    print(f"{shlex.join([sys.executable, '-I', '-S', str(client.__file__), agent])} || exit 2")


@guard_app.command()
def status(as_json: Json = False) -> None:
    """Say whether a judge runs."""
    _need_sockets()
    from hooksdk.guard import judge_status

    running = judge_status()
    if as_json:
        print_json({"schema": 1, "judge": {"pid": running.pid, "since": running.since} if running else None})
    elif running is None:
        print("No judge runs; the next hook of an agent starts it.")
    else:
        since = datetime.fromtimestamp(running.since, tz=UTC).astimezone()
        print(f"The judge runs as process {running.pid}, since {since:%H:%M on %Y-%m-%d}.")
