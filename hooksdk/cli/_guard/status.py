"""`hooksdk guard status`: the judge, and the agents that it stands before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hooksdk.cli._console import print_json, safe, stdout_console
from hooksdk.cli._guard.hooks import OPEN, need_sockets
from hooksdk.cli._guard.install import Installed, records
from hooksdk.errors import HookSDKError
from hooksdk.guard import AGENTS, judge_status


def show_status(*, as_json: bool) -> None:
    """Say whether a judge runs, behind which agents the guard is, and what stays open in each."""
    need_sockets()
    running, places = judge_status(), [_state(record) for record in records()]
    if as_json:
        judge = {"pid": running.pid, "since": running.since} if running else None
        print_json({"schema": 1, "judge": judge, "installed": places})
        return
    console = stdout_console()
    if running is None:
        console.print("No judge runs; the next hook of an agent starts it.", soft_wrap=True)
    else:
        since = datetime.fromtimestamp(running.since, tz=UTC).astimezone()
        console.print(f"The judge runs as process {running.pid}, since {since:%H:%M on %Y-%m-%d}.", soft_wrap=True)
    for place in places:
        console.print(f"{place['agent']:<12}{safe(place['file'])}", soft_wrap=True)
        for problem in place["problems"]:
            console.print(f"  [red]problem[/]   {safe(problem)}", soft_wrap=True)
        for what in place["open"]:
            console.print(f"  [yellow]open[/]      {safe(what)}", soft_wrap=True)
    if not places:
        console.print("It is before no agent: hooksdk guard install --client AGENT", soft_wrap=True)


def _state(record: Installed) -> dict[str, Any]:
    problems: list[str] = []
    try:
        text = record.file.path.read_text("utf-8")
        missing = sorted(set(AGENTS[record.agent].events) - record.file.events(text))
        if missing:
            again = f"hooksdk guard install --client {record.agent}"
            problems.append(f"its hooks {', '.join(missing)} are gone: {again} writes them again")
        problems += record.file.notes(text)
    except (OSError, ValueError, HookSDKError) as error:
        problems.append(str(error))
    return {"agent": record.agent, "file": record.target.file, "problems": problems, "open": [*OPEN[record.agent]]}
