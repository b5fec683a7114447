"""`hooksdk guard status`: the judge, and the agents that it stands before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hooksdk.cli._console import CommandProblem, counted, print_json, safe, stdout_console
from hooksdk.cli._edits.files import Change
from hooksdk.cli._guard.hooks import managed_file, need_sockets, open_in, pause_text
from hooksdk.cli._guard.install import Installed, records
from hooksdk.cli._guard.settings import Finding, has_guard, look_for_switches, settings_files
from hooksdk.cli._guard.unseen import Guarded, Unseen, unseen_sessions
from hooksdk.config import trust_advice
from hooksdk.errors import HookSDKError
from hooksdk.guard import AGENTS, judge_status, known_projects, waiting
from hooksdk.guard.client import NoJudge

if TYPE_CHECKING:
    from rich.console import Console

    from hooksdk.cli._guard.proof import Proof


def show_status(*, as_json: bool, proves: bool = False) -> int:
    """Say whether a judge runs, before which agents the guard is, what counts against it in this folder, and what stays open in
    each. With `proves` each agent is started once; the exit code is 1 where a call was not refused."""
    need_sockets()
    try:
        running = judge_status()
    except (OSError, NoJudge) as error:
        raise CommandProblem(f"the judge does not say how it is: {error}") from None
    folder = Path().absolute()
    installed, pause, look = places(), pause_text(), look_at(folder)
    held_back = {str(one): text for one in known_projects() if (text := waiting(one))}
    proofs: list[Proof] = []
    if proves:
        from hooksdk.cli._guard.proof import prove  # a model of its own comes with it

        proofs = [prove(agent, folder) for agent in look.agents]
    code = int(proves and not (proofs and all(proof.refused for proof in proofs)))
    if as_json:
        judge = asdict(running) if running else None
        entries = [asdict(place) for place in installed]
        print_json({
            "schema": 1, "judge": judge, "paused": pause or None, "installed": entries, "waiting": held_back,
            "folder": str(folder), "settings": [asdict(finding) for finding in look.settings],
            "unseen": [{**asdict(one), "last": one.last.isoformat()} for one in look.unseen], "not_read": look.not_read,
            "proof": [asdict(proof) for proof in proofs] if proves else None,
        })  # fmt: skip
        return code
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
    look.tell(console)
    for proof in proofs:
        word = "[green]refused[/]" if proof.refused else "[red]RAN[/]    " if proof.ran else "[red]unknown[/]"
        console.print(f"{word}     {safe(proof)}", soft_wrap=True)
    return code


@dataclass
class Look:
    """What counts against the guard: in the settings of a folder, and in what agents did."""

    agents: list[str] = field(default_factory=list[str])
    """Those before which the guard is in this folder."""
    settings: list[Finding] = field(default_factory=list[Finding])
    unseen: list[Unseen] = field(default_factory=list[Unseen])
    not_read: list[str] = field(default_factory=list[str])
    """Transcripts that could not be read, and why."""

    def lines(self) -> Iterator[tuple[bool, str]]:
        """Each of them as a line, with whether it is a problem."""
        yield from ((finding.ends, str(finding)) for finding in self.settings)
        yield from ((True, str(one)) for one in self.unseen)
        yield from ((False, line) for line in self.not_read)

    def tell(self, console: Console) -> None:
        """Print them, for the commands that show the same."""
        for is_problem, line in self.lines():
            word = "[red]problem[/]" if is_problem else "[yellow]open[/]   "
            console.print(f"{word}     {safe(line)}", soft_wrap=True)


def look_at(folder: Path) -> Look:
    """What counts against the guard where agents work in this folder. Raises `CommandProblem`."""
    if sys.platform == "win32":
        return Look()
    installed = _everywhere()
    look = Look()
    for agent in AGENTS:
        own = [
            record.file.path for record in installed if record.agent == agent and record.scope in ("user", "managed")
        ]
        if own or has_guard(file.path for file in settings_files(agent, folder)):
            look.agents.append(agent)
            look.settings += look_for_switches(agent, folder, own)
    guarded = [Guarded(record.agent, record.scope, record.file.path, _since(record)) for record in installed]
    look.unseen, look.not_read = unseen_sessions(guarded, folder)
    return look


def _since(record: Installed) -> float:
    return (record.place if record.place.exists() else record.file.path).stat().st_mtime


def _everywhere() -> list[Installed]:
    """The installations of this user, and those of the machine, which an administrator has recorded."""
    own = records()
    known = {record.target.file for record in own}
    others = [
        Installed(agent=agent, scope="managed", target=Change(str(path), None, "", None))
        for agent in AGENTS
        if str(path := managed_file(agent)) not in known and has_guard([path])
    ]
    return own + others


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
    return [_place(record) for record in _everywhere()]


def _place(record: Installed) -> Place:
    problems: list[str] = []
    try:
        text = record.file.path.read_text("utf-8")
        if missing := sorted(set(AGENTS[record.agent].events) - record.file.events(text)):
            again = f"hooksdk guard install --client {record.agent}"
            problems.append(f"the guard's hooks {', '.join(missing)} are gone: {again} writes them again")
    except (OSError, ValueError, HookSDKError) as error:
        problems.append(str(error))
    return Place(
        agent=record.agent,
        file=record.target.file,
        problems=problems,
        trial=record.trial,
        open=open_in(record.agent, record.scope),
    )
