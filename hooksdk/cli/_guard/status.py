"""`hooksdk guard status`: the judge, and the agents that it stands before."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from hooksdk.cli._console import CommandProblem, counted, print_json, safe, stdout_console
from hooksdk.cli._guard.hooks import OPEN, need_sockets
from hooksdk.cli._guard.install import Installed, records
from hooksdk.cli._guard.pause import pause_text
from hooksdk.config import trust_advice
from hooksdk.errors import HookSDKError
from hooksdk.guard import AGENTS, judge_status, known_projects, waiting
from hooksdk.guard.client import NoJudge


def show_status(*, as_json: bool) -> None:
    """Say whether a judge runs, before which agents the guard is, and what stays open in each."""
    need_sockets()
    try:
        running = judge_status()
    except (OSError, NoJudge) as error:
        raise CommandProblem(f"the judge does not say how it is: {error}") from None
    installed, pause = places(), pause_text()
    held_back = {str(folder): text for folder in known_projects() if (text := waiting(folder))}
    if as_json:
        judge = asdict(running) if running else None
        entries = [asdict(place) for place in installed]
        print_json({"schema": 1, "judge": judge, "paused": pause or None, "installed": entries, "waiting": held_back})
        return
    console = stdout_console()
    if pause:
        console.print(f"[red]paused[/]      {pause}", soft_wrap=True)
    if running is None:
        console.print("No judge runs; the next hook of an agent starts it.", soft_wrap=True)
    else:
        since = datetime.fromtimestamp(running.since, tz=UTC).astimezone()
        console.print(f"The judge runs as process {running.pid}, since {since:%H:%M on %Y-%m-%d}.", soft_wrap=True)
        counts = counted(running.calls, "call"), counted(running.sessions, "open session")
        console.print(
            f"  {counts[0]} judged, {counts[1]}, rules of {safe(', '.join(running.projects) or 'no folder')}",
            soft_wrap=True,
        )
    for folder, text in held_back.items():
        advice = f"{text}. {trust_advice(Path(folder))}"
        console.print(f"[yellow]waiting[/]     the rules stay as they were: {safe(advice)}", soft_wrap=True)
    for place in installed:
        console.print(f"{place.agent:<12}{safe(place.file)}", soft_wrap=True)
        if place.trial:
            console.print(
                "  [yellow]tried[/]     it refuses nothing here: `hooksdk guard try` says what it would refuse",
                soft_wrap=True,
            )
        for problem in place.problems:
            console.print(f"  [red]problem[/]   {safe(problem)}", soft_wrap=True)
        for what in place.open:
            console.print(f"  [yellow]open[/]      {safe(what)}", soft_wrap=True)
    if not installed:
        console.print("It is before no agent: hooksdk guard install --client AGENT", soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class Place:
    """The guard in one file of an agent's settings."""

    agent: str
    file: str
    problems: list[str]
    """Why it is not in force there."""
    trial: bool
    """True where it refuses nothing."""
    open: list[str]
    """What it cannot close in this agent."""


def places() -> list[Place]:
    """Where the guard was installed, and how it is there. Raises `CommandProblem`."""
    return [_place(record) for record in records()]


def _place(record: Installed) -> Place:
    problems: list[str] = []
    try:
        text = record.file.path.read_text("utf-8")
        if missing := sorted(set(AGENTS[record.agent].events) - record.file.events(text)):
            again = f"hooksdk guard install --client {record.agent}"
            problems.append(f"the guard's hooks {', '.join(missing)} are gone: {again} writes them again")
        problems += record.file.notes(text)
    except (OSError, ValueError, HookSDKError) as error:
        problems.append(str(error))
    return Place(
        agent=record.agent, file=record.target.file, problems=problems, trial=record.trial, open=[*OPEN[record.agent]]
    )
