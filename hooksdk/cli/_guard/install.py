"""`hooksdk guard install` and `uninstall`: the guard's hooks in an agent's settings, and the settings as they were."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hooksdk.cli._console import CommandProblem, print_json, safe, stderr_console, stdout_console
from hooksdk.cli._edits.diff import confirm, print_diff
from hooksdk.cli._edits.files import Change, digest_of, read_bytes, write_bytes
from hooksdk.cli._guard.hooks import HookFile, Scope, hook_file, judge_folder, need_sockets, open_in
from hooksdk.cli._guard.self_test import SelfTest, self_test
from hooksdk.cli._guard.settings import look_for_switches
from hooksdk.errors import ConfigError
from hooksdk.guard import AGENTS
from hooksdk.stores.files import replace_file


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    """What the command line asks for."""

    agent: str
    scope: Scope = "user"
    file: Path | None = None
    """Another file of the agent's."""
    trial: bool = False
    """Hooks that refuse nothing."""
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False

    @property
    def place(self) -> HookFile:
        """The agent's file. Raises `CommandProblem`."""
        need_sockets()
        return hook_file(self.agent, self.scope, Path().absolute(), self.file)


@dataclass(frozen=True)
class Installed:
    """A record of the guard's hooks in one file, kept beside the bytes that were there before."""

    agent: str
    scope: Scope
    target: Change
    trial: bool = False
    """True for hooks that refuse nothing."""
    schema: int = field(default=1, kw_only=True)

    @property
    def file(self) -> HookFile:
        """The agent's file."""
        return HookFile(self.agent, self.scope, Path(self.target.file))

    @property
    def place(self) -> Path:
        """Where the record is."""
        return _place(self.file)

    @property
    def backup(self) -> Path:
        """What the file held before."""
        return self.place.with_suffix(".bak")

    def keep(self, before: bytes | None) -> None:
        """Write the record, and the bytes that were there before. Raises `StoreError` and `CommandProblem`."""
        _records_folder(make=True).mkdir(mode=0o700, exist_ok=True)
        self.backup.unlink(missing_ok=True)
        if before is not None:
            replace_file(self.backup, before, mode=0o600)
        replace_file(self.place, json.dumps(asdict(self), indent=2).encode(), mode=0o600)

    def forget(self) -> None:
        """Remove the record and the old bytes."""
        self.place.unlink(missing_ok=True)
        self.backup.unlink(missing_ok=True)


def records() -> list[Installed]:
    """Every installation of the guard that is recorded. Raises `CommandProblem` for a record that cannot be read."""
    return [_read(path) for path in sorted(_records_folder().glob("*.json"))]


def install_guard(options: GuardOptions) -> int:
    """Show what would change, ask, do it, and try it. The exit code."""
    place = options.place
    _check_rights(options)
    now, record = read_bytes(place.path), _record(place)
    text = _decoded(place.path, now)
    before = _without_guard(place, now, record)
    new = place.installed(_decoded(place.path, before), trial=options.trial).encode()
    notes = [str(finding) for finding in look_for_switches(place.agent, Path().absolute(), [place.path])]
    if not options.as_json:
        print_diff(place.path, text, new.decode(), ())
    changes = new != now
    done = not options.dry_run and (
        not changes or confirm(f"Write these hooks to {place.path}?", yes=options.yes, as_json=options.as_json)
    )
    test = SelfTest(refused={}, problem="", program=None)
    if done:
        mode = place.path.stat().st_mode & 0o777 if now is not None else None
        change = Change(str(place.path), _digest(before), digest_of(new), mode)
        Installed(place.agent, place.scope, change, options.trial).keep(before)
        if changes:
            write_bytes(place.path, new, seen=now, mode=mode or (0o644 if place.scope == "managed" else 0o600))
        if not options.as_json:
            stderr_console().print("[dim]testing[/]     a judge of its own is started, asked and ended", soft_wrap=True)
        test = self_test(place.agent, trial=options.trial)
    is_as_meant = not test.problem and all(is_refused != options.trial for is_refused in test.refused.values())
    if options.as_json:
        print_json({
            "schema": 1, "agent": place.agent, "scope": place.scope, "file": str(place.path), "try": options.trial, "installed": done, "changed": done and changes,
            "refused": test.refused, "problem": test.problem or None, "program": test.program, "open": open_in(place.agent, place.scope), "notes": notes,
        })  # fmt: skip
    elif done:
        _print_installed(options, test, notes, is_new=changes)
    elif not options.dry_run:
        stdout_console().print("nothing was changed")
    return 0 if (done and is_as_meant) or options.dry_run else 1


def uninstall_guard(options: GuardOptions) -> int:
    """Show what would change, ask, and do it. The exit code."""
    place = options.place
    _check_rights(options)
    now, record = read_bytes(place.path), _record(place)
    text = _decoded(place.path, now)
    if record is None and not place.events(text):
        raise CommandProblem(f"the guard is not installed in {place.path}")
    is_exact = record is not None and _digest(now) == record.target.after
    new = _without_guard(place, now, record)
    if not options.as_json:
        print_diff(place.path, text, _decoded(place.path, new), ())
    done = not options.dry_run and confirm(f"Change {place.path}?", yes=options.yes, as_json=options.as_json)
    if done:
        if new is not None:
            write_bytes(place.path, new, seen=now, mode=(record and record.target.mode) or 0o600)
        elif read_bytes(place.path) == now:
            place.path.resolve().unlink(missing_ok=True)
        else:
            raise CommandProblem(
                f"{place.path} was changed by somebody else just now. Close the agent, then type it again"
            )
        if record:
            record.forget()
    if options.as_json:
        print_json({
            "schema": 1, "agent": place.agent, "scope": place.scope, "file": str(place.path), "changed": done, "exact": is_exact,
        })  # fmt: skip
    elif done:
        how = "byte for byte as it was" if is_exact else "the guard's hooks are out, and everything else stays"
        stdout_console().print(f"restored    {safe(place.path)}: {how}", soft_wrap=True)
        stdout_console().print(f"now         quit {AGENTS[place.agent].title} and start it again", soft_wrap=True)
    elif not options.dry_run:
        stdout_console().print("nothing was changed")
    return 0 if done or options.dry_run else 1


def _without_guard(place: HookFile, now: bytes | None, record: Installed | None) -> bytes | None:
    """What the file holds when the guard is out of it; None: it goes."""
    if record is not None and _digest(now) == record.target.after:
        return read_bytes(record.backup)
    text = _decoded(place.path, now)
    if not place.events(text):
        return now
    old = read_bytes(record.backup) if record else None
    without = place.removed(text, like=_decoded(place.path, old))
    return None if record and old is None and not place.read(without) else without.encode()


def _print_installed(options: GuardOptions, test: SelfTest, notes: list[str], *, is_new: bool) -> None:
    console, place = stdout_console(), options.place
    console.print(f"{'installed' if is_new else 'there':<12}in {safe(place.path)}", soft_wrap=True)
    by = (
        f"{test.program}, in a home of its own"
        if test.program
        else "the recorded protocol: its program is not here, or made no call"
    )
    console.print(f"tested      with {safe(by)}", soft_wrap=True)
    for what, is_refused in test.refused.items():
        word, is_as_meant = "refused" if is_refused else "runs", is_refused != options.trial
        console.print(
            f"[green]{word:<12}[/]" if is_as_meant else f"[red]{word.upper():<12}[/]", what, sep="", soft_wrap=True
        )
    if test.problem:
        console.print(
            f"[red]problem[/]     the judge does not work, so no rule counts: {safe(test.problem)}", soft_wrap=True
        )
    for what in notes if options.trial else (*open_in(place.agent, place.scope), *notes):
        console.print(f"[yellow]open[/]        {safe(what)}", soft_wrap=True)
    if place.scope == "project":
        console.print(
            f"[yellow]note[/]        {safe(place.path)} names this machine's folders now: keep it out of version control",
            soft_wrap=True,
        )
    console.print(f"now         quit {AGENTS[place.agent].title} and start it again", soft_wrap=True)
    if options.trial:
        console.print(
            "look        hooksdk guard try, in a project: which calls would have been refused", soft_wrap=True
        )
        console.print(
            safe(f"in force    hooksdk guard install --client {place.agent}{_typed(options)}"), soft_wrap=True
        )
    console.print(safe(f"undo        hooksdk guard uninstall --client {place.agent}{_typed(options)}"), soft_wrap=True)


def _typed(options: GuardOptions) -> str:
    """The options that mean this place."""
    return (
        f" --file {shlex.quote(str(options.file))}"
        if options.file
        else {"user": ""}.get(options.scope, f" --{options.scope}")
    )


def _check_rights(options: GuardOptions) -> None:
    """Raise `CommandProblem` where the machine's own settings are not this user's to change."""
    path = options.place.path
    folder = next(folder for folder in path.parents if folder.exists())
    if options.scope == "managed" and not options.dry_run and not os.access(folder, os.W_OK):
        raise CommandProblem(f"{path} is the machine's, and you may not write it: type this again as its administrator")


def _records_folder(*, make: bool = False) -> Path:
    return judge_folder(make=make) / "installed"


def _place(file: HookFile) -> Path:
    name = hashlib.sha256(os.fsencode(file.path)).hexdigest()[:16]
    return _records_folder() / f"{file.agent}-{name}.json"


def _record(file: HookFile) -> Installed | None:
    """What is recorded about a file; None where the bytes that were there before are lost, too."""
    record = _read(_place(file)) if _place(file).exists() else None
    return record if record and _digest(read_bytes(record.backup)) == record.target.before else None


def _read(path: Path) -> Installed:
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        fields["target"] = Change(**fields["target"])
        return Installed(**fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CommandProblem(
            f"{path} cannot be read ({error}); what the agent had before is in the .bak beside it"
        ) from None


def _digest(content: bytes | None) -> str | None:
    return None if content is None else digest_of(content)


def _decoded(path: Path, content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), (f"is not UTF-8: {error}",)) from None
