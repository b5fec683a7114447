"""`hooksdk guard install` and `uninstall`: the guard's hooks in an agent's settings, and the settings as they were."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hooksdk.cli._console import CommandProblem, print_line, stderr_console
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
from hooksdk.cli._guard.hooks import HookFile, hook_file, judge_folder, need_sockets, open_in
from hooksdk.cli._guard.self_test import SelfTest, self_test
from hooksdk.cli._guard.settings import look_for_switches
from hooksdk.cli._options import GuardInstall, GuardOptions, Scope, typed
from hooksdk.cli._view import View
from hooksdk.guard import AGENTS


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
    view = View(
        {
            "agent": file.agent,
            "scope": file.scope,
            "file": str(file.path),
            "changed": done,
            "exact": is_exact,
        }
    )
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
