"""`hooksdk guard status`: the judge, the agents before which the guard stands, and what counts against it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from hooksdk.cli._console import CommandProblem, counted, safe
from hooksdk.cli._edits.files import Change
from hooksdk.cli._guard.hooks import managed_file, need_sockets, open_in, pause_text
from hooksdk.cli._guard.install import Installed, records
from hooksdk.cli._guard.program import prove
from hooksdk.cli._guard.settings import Finding, has_guard, look_for_switches, settings_files
from hooksdk.cli._guard.transcripts import Guarded, Unseen, unseen_sessions
from hooksdk.cli._view import View
from hooksdk.config import trust_advice
from hooksdk.errors import HookSDKError
from hooksdk.guard import AGENTS, JudgeStatus, judge_status, known_projects, waiting
from hooksdk.guard.client import NoJudge


def show_status(*, as_json: bool, proves: bool = False) -> int:
    """Print whether a judge runs, the agents before which the guard stands, what counts against it in this folder, and
    what it cannot close in each agent. With `proves` each agent is started once. The exit code: 1 when a call was not
    refused."""
    need_sockets()
    try:
        running = judge_status()
    except (OSError, NoJudge) as error:
        raise CommandProblem(f"the judge does not say how it is: {error}") from None
    folder = Path().absolute()
    installed, pause, look = places(), pause_text(), look_at(folder)
    held_back = {str(one): text for one in known_projects() if (text := waiting(one))}
    proofs = [prove(agent, folder) for agent in look.agents] if proves else []
    view = View(
        {
            "judge": asdict(running) if running else None,
            "paused": pause or None,
            "installed": [asdict(place) for place in installed],
            "waiting": held_back,
            "folder": str(folder),
            "settings": [asdict(finding) for finding in look.settings],
            "unseen": [{**asdict(one), "last": one.last.isoformat()} for one in look.unseen],
            "not_read": look.not_read,
            "proof": [asdict(proof) for proof in proofs] if proves else None,
        }
    )
    if pause:
        view.line("paused", pause, "red")
    _add_judge(view, running)
    for project, text in held_back.items():
        view.line("waiting", f"the rules stay as they were: {text}. {trust_advice(Path(project))}", "yellow")
    for place in installed:
        view.line(place.agent, place.file)
        if place.trial:
            tried = "it refuses nothing here: `hooksdk guard try` says what it would refuse"
            view.line("  tried", tried, "yellow")
        view.lines("  problem", place.problems, "red")
        view.lines("  open", place.open, "yellow")
    if not installed:
        view.markup("It is before no agent: hooksdk guard install --client AGENT")
    look.add_to(view)
    for proof in proofs:
        view.line(
            "refused" if proof.refused else "RAN" if proof.ran else "unknown",
            proof,
            "green" if proof.refused else "red",
        )
    view.show(as_json=as_json)
    return int(proves and not (proofs and all(proof.refused for proof in proofs)))


def _add_judge(view: View, running: JudgeStatus | None) -> None:
    if running is None:
        view.markup("No judge runs; the next hook of an agent starts it.")
        return
    since = datetime.fromtimestamp(running.since, tz=UTC).astimezone()
    view.markup(f"The judge runs as process {running.pid}, since {since:%H:%M on %Y-%m-%d}.")
    calls, sessions = counted(running.calls, "call"), counted(running.sessions, "open session")
    projects = safe(", ".join(running.projects) or "no folder")
    view.markup(f"  {calls} judged, {sessions}, rules of {projects}")


@dataclass
class Look:
    """What counts against the guard in the settings of a folder and in the calls of agents.

    Attributes:
        agents: The agents before which the guard stands in this folder.
        not_read: Transcripts that could not be read, and why.
    """

    agents: list[str] = field(default_factory=list[str])
    settings: list[Finding] = field(default_factory=list[Finding])
    unseen: list[Unseen] = field(default_factory=list[Unseen])
    not_read: list[str] = field(default_factory=list[str])

    def lines(self) -> Iterator[tuple[bool, str]]:
        """Each finding as a line, with True for a problem."""
        yield from ((finding.ends, str(finding)) for finding in self.settings)
        yield from ((True, str(one)) for one in self.unseen)
        yield from ((False, line) for line in self.not_read)

    def add_to(self, view: View) -> None:
        """Add a line for each finding."""
        for is_problem, line in self.lines():
            view.line("problem" if is_problem else "open", line, "red" if is_problem else "yellow")


def look_at(folder: Path) -> Look:
    """What counts against the guard where agents work in this folder. Raises `CommandProblem`."""
    if sys.platform == "win32":
        return Look()
    installed = _everywhere()
    look = Look()
    for agent in AGENTS:
        everywhere = [record for record in installed if record.scope in ("user", "managed")]
        own = [record.file.path for record in everywhere if record.agent == agent]
        if own or has_guard(file.path for file in settings_files(agent, folder)):
            look.agents.append(agent)
            look.settings += look_for_switches(agent, folder, own)
    guarded = [Guarded(record.agent, record.scope, record.file.path, _since(record)) for record in installed]
    look.unseen, look.not_read = unseen_sessions(guarded, folder)
    return look


def _since(record: Installed) -> float:
    return (record.place if record.place.exists() else record.file.path).stat().st_mtime


def _everywhere() -> list[Installed]:
    """The installations of this user and of the machine, which an administrator has recorded."""
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
    """The guard in one file of an agent's settings.

    Attributes:
        problems: The reasons why it is not in force there.
        trial: True when it refuses nothing.
        open: What it cannot close in this agent.
    """

    agent: str
    file: str
    problems: list[str]
    trial: bool
    open: list[str]


def places() -> list[Place]:
    """Each file in which the guard was installed, as it is now. Raises `CommandProblem`."""
    found: list[Place] = []
    for record in _everywhere():
        agent, problems = record.agent, list[str]()
        try:
            text = record.file.path.read_text("utf-8")
            if missing := sorted(set(AGENTS[agent].events) - record.file.events(text)):
                cure = f"hooksdk guard install --client {agent} writes them again"
                problems.append(f"the guard's hooks {', '.join(missing)} are gone: {cure}")
        except (OSError, ValueError, HookSDKError) as error:
            problems.append(str(error))
        is_open, file = open_in(agent, record.scope), record.target.file
        found.append(Place(agent=agent, file=file, problems=problems, trial=record.trial, open=is_open))
    return found
