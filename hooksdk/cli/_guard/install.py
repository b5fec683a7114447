"""`hooksdk guard install`, `uninstall` and `status`: the guard's hooks in an agent's settings, the settings as they
were, and what counts against the guard."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from hooksdk.cli._console import CommandProblem, View, counted, print_line, safe, stderr_console
from hooksdk.cli._edits.files import (
    Change,
    FileEdit,
    Record,
    agreed,
    decoded,
    digest_of,
    read_bytes,
    read_fields,
    record_place,
    tell_outcome,
)
from hooksdk.cli._guard.hooks import HookFile, hook_file, judge_folder, managed_file, need_sockets, open_in, pause_text
from hooksdk.cli._guard.program import prove
from hooksdk.cli._guard.self_test import SelfTest, self_test
from hooksdk.cli._guard.settings import Finding, has_guard, look_for_switches, settings_files
from hooksdk.cli._guard.transcripts import Guarded, Unseen, unseen_sessions
from hooksdk.cli._options import GuardInstall, GuardOptions, Scope, typed
from hooksdk.config import trust_advice
from hooksdk.errors import HookSDKError
from hooksdk.guard import AGENTS, JudgeStatus, judge_status, known_projects, waiting
from hooksdk.guard.client import NoJudge


@dataclass(kw_only=True)
class Installed(Record):
    """The record of the guard's hooks in one file.

    Attributes:
        trial: True for hooks that refuse nothing.
    """

    agent: str
    scope: Scope
    trial: bool = False

    @property
    def file(self) -> HookFile:
        """The agent's file."""
        return HookFile(self.agent, self.scope, Path(self.target.file))

    @property
    def place(self) -> Path:
        """The path of the record."""
        return _place(self.file)


def records() -> list[Installed]:
    """Every recorded installation of the guard. Raises `CommandProblem` for an unreadable record."""
    return [Installed(**read_fields(path, "target")) for path in sorted(_records_folder().glob("*.json"))]


def install_guard(options: GuardInstall) -> int:
    """Show the edit, ask, write it, and try the hooks. The exit code."""
    file = _writable_file(options)
    now, record = read_bytes(file.path), _record(file)
    before = _without_guard(file, now, record)
    new = file.installed(decoded(file.path, before), trial=options.trial).encode()
    edit = FileEdit(file.path, now, new, None if now is not None else 0o644 if file.scope == "managed" else 0o600)
    notes = [str(finding) for finding in look_for_switches(file.agent, Path().absolute(), [file.path])]
    changes = new != now
    done = agreed([edit], f"Write these hooks to {file.path}?", options) if changes else not options.dry_run
    test = SelfTest(refused={}, problem="", program=None)
    if done:
        target = Change(str(file.path), None if before is None else digest_of(before), digest_of(new), edit.change.mode)
        installed = Installed(agent=file.agent, scope=file.scope, target=target, trial=options.trial)
        judge_folder(make=True)
        installed.keep({installed.backup: before})
        edit.write()
        if not options.as_json:
            print_line(stderr_console(), "testing", "a judge of its own is started, asked and ended")
        test = self_test(file.agent, trial=options.trial)
    view = View(
        {
            "agent": file.agent,
            "scope": file.scope,
            "file": str(file.path),
            "try": options.trial,
            "installed": done,
            "changed": done and changes,
            "refused": test.refused,
            "problem": test.problem or None,
            "program": test.program,
            "open": open_in(file.agent, file.scope),
            "notes": notes,
        }
    )
    _add_installed(view, options, file, test, notes, is_new=changes)
    code = tell_outcome(view, options, done=done)
    is_as_meant = not test.problem and all(is_refused != options.trial for is_refused in test.refused.values())
    return code if is_as_meant else 1


def uninstall_guard(options: GuardOptions) -> int:
    """Show the edit, ask, and write it. The exit code."""
    file = _writable_file(options)
    now, record = read_bytes(file.path), _record(file)
    if record is None and not file.events(decoded(file.path, now)):
        raise CommandProblem(f"the guard is not installed in {file.path}")
    is_exact = record is not None and record.target.was_after(now)
    edit = FileEdit(file.path, now, _without_guard(file, now, record), record.target.mode if record else None)
    done = agreed([edit], f"Change {file.path}?", options)
    if done:
        edit.write()
        if record:
            record.forget()
    view = View({"agent": file.agent, "scope": file.scope, "file": str(file.path), "changed": done, "exact": is_exact})
    how = "byte for byte as it was" if is_exact else "the guard's hooks are out, and everything else stays"
    view.line("restored", f"{file.path}: {how}")
    view.line("now", f"quit {AGENTS[file.agent].title} and start it again")
    return tell_outcome(view, options, done=done)


def _without_guard(file: HookFile, now: bytes | None, record: Installed | None) -> bytes | None:
    """The content of the file without the guard's hooks; None: no file is left."""
    if record is not None and record.target.was_after(now):
        return read_bytes(record.backup)
    text = decoded(file.path, now)
    if not file.events(text):
        return now
    old = read_bytes(record.backup) if record else None
    without = file.removed(text, like=decoded(file.path, old))
    return None if record and old is None and not file.read(without) else without.encode()


def _add_installed(
    view: View, options: GuardInstall, file: HookFile, test: SelfTest, notes: Iterable[str], *, is_new: bool
) -> None:
    view.line("installed" if is_new else "there", f"in {file.path}")
    recorded = "the recorded protocol: its program is not here, or made no call"
    view.line("tested", f"with {f'{test.program}, in a home of its own' if test.program else recorded}")
    for what, is_refused in test.refused.items():
        word = "refused" if is_refused else "runs"
        is_as_meant = is_refused != options.trial
        view.line(word if is_as_meant else word.upper(), what, "green" if is_as_meant else "red")
    if test.problem:
        view.line("problem", f"the judge does not work, so no rule counts: {test.problem}", "red")
    view.lines("open", [*([] if options.trial else open_in(file.agent, file.scope)), *notes], "yellow")
    if file.scope == "project":
        cure = "keep it out of version control"
        view.line("note", f"{file.path} names this machine's folders now: {cure}", "yellow")
    view.line("now", f"quit {AGENTS[file.agent].title} and start it again")
    place = typed(file.agent, file.scope, options.file)
    if options.trial:
        view.line("look", "hooksdk guard try, in a project: which calls would have been refused")
        view.line("in force", f"hooksdk guard install {place}")
    view.line("undo", f"hooksdk guard uninstall {place}")


def _writable_file(options: GuardOptions) -> HookFile:
    """The agent's file. Raises `CommandProblem` for the machine's own settings if they are not this user's to
    change."""
    need_sockets()
    file = hook_file(options.agent, options.scope, Path().absolute(), options.file)
    folder = next(folder for folder in file.path.parents if folder.exists())
    if file.scope == "managed" and not options.dry_run and not os.access(folder, os.W_OK):
        cure = "type this again as its administrator"
        raise CommandProblem(f"{file.path} is the machine's, and you may not write it: {cure}")
    return file


def _records_folder() -> Path:
    return judge_folder(make=False) / "installed"


def _place(file: HookFile) -> Path:
    return record_place(_records_folder(), file.agent, file.path)


def _record(file: HookFile) -> Installed | None:
    """The record about a file; None also when its backup is lost."""
    place = _place(file)
    record = Installed(**read_fields(place, "target")) if place.exists() else None
    return record if record and record.target.was_before(read_bytes(record.backup)) else None


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
    """The findings against the guard: in the settings of a folder, and in the calls of agents.

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
    """Look for findings against the guard where agents work in this folder. Raises `CommandProblem`."""
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
