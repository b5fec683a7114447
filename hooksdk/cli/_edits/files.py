"""Edits of other programs' files: shown, asked about, and written only while a file holds what was seen in it."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hooksdk.cli._console import CommandProblem, View, safe, says_yes, stderr_console, stdout_console
from hooksdk.cli._options import EditOptions
from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores.files import replace_file
from hooksdk.values import as_object

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_CHANGED = "was changed by somebody else just now. Close the client, then type it again"


def read_bytes(path: Path) -> bytes | None:
    """The content of a file; None without a file. Raises `CommandProblem`."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandProblem(f"{path} cannot be read: {error.strerror}") from None


def decoded(path: Path, content: bytes | None) -> str:
    """The text of a file; empty without a file. Raises `ConfigError`."""
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), (f"is not UTF-8: {error}",)) from None


def digest_of(content: bytes) -> str:
    """The SHA-256 of these bytes."""
    return hashlib.sha256(content).hexdigest()


@dataclass
class Change:
    """A file that was changed, as an installation's record keeps it.

    Attributes:
        before: The digest of the content before; None: there was no file.
        after: The digest of the content since.
        mode: The file's mode before.
    """

    file: str
    before: str | None
    after: str
    mode: int | None

    def was_before(self, content: bytes | None) -> bool:
        """True for the content before the change."""
        return self.before == (None if content is None else digest_of(content))

    def was_after(self, content: bytes | None) -> bool:
        """True for the content that the change has left."""
        return content is not None and self.after == digest_of(content)


@dataclass(frozen=True)
class FileEdit:
    """The edit of one file: its content now, and the new content.

    Attributes:
        now: None: there is no file.
        new: None: the file is removed.
        mode: None: the mode stays; a new file is for its user alone.
    """

    path: Path
    now: bytes | None
    new: bytes | None
    mode: int | None = None

    @property
    def change(self) -> Change:
        """For the record of an installation."""
        mode = self.path.stat().st_mode & 0o777 if self.now is not None else None
        return Change(
            str(self.path), None if self.now is None else digest_of(self.now), digest_of(self.new or b""), mode
        )

    def show(self, secrets: Iterable[str] = ()) -> None:
        """Print the difference. Secrets are `***`."""
        quoted = {json.dumps(one, ensure_ascii=ascii_only) for one in secrets for ascii_only in (True, False)}
        hidden = sorted(quoted | {f"'{one}'" for one in secrets}, key=len, reverse=True)
        before, after = ((one or b"").decode(errors="replace").splitlines() for one in (self.now, self.new))
        for line in difflib.unified_diff(before, after, str(self.path), str(self.path), n=2, lineterm=""):
            shown = line
            for one in hidden:
                shown = shown.replace(one, '"***"')
            style = None if shown.startswith(("---", "+++")) else _STYLES.get(shown[:1])
            stdout_console().print(safe(shown), soft_wrap=True, style=style)

    def write(self) -> None:
        """Write the whole file or nothing; a link stays one. Raises `CommandProblem` when the file has changed since it
        was read, or cannot be written."""
        if self.new == self.now:
            return
        if read_bytes(self.path) != self.now:
            raise CommandProblem(f"{self.path} {_CHANGED}")
        target = self.path.resolve()
        try:
            if self.new is None:
                target.unlink()
                return
            mode = self.mode or (target.stat().st_mode & 0o777 if self.now is not None else 0o600)
            target.parent.mkdir(0o777 if mode & 0o077 else 0o700, parents=True, exist_ok=True)
            replace_file(target, self.new, mode=mode)
        except (OSError, StoreError) as error:
            raise CommandProblem(str(error)) from None


def agreed(
    edits: Sequence[FileEdit],
    question: str,
    options: EditOptions,
    *,
    secrets: Iterable[str] = (),
    notes: View | None = None,
    unasked: str = "--yes does it unasked, --dry-run shows it",
) -> bool:
    """Show the edits and then the notes, and ask the question. False when nothing is to be written. Raises
    `CommandProblem` when nobody is there to answer; `unasked` says what to do then."""
    if not options.as_json:
        for edit in edits:
            edit.show(secrets)
        if notes is not None:
            notes.show(as_json=False)
    if options.dry_run or options.yes:
        return options.yes and not options.dry_run
    if options.as_json or not sys.stdin.isatty():
        raise CommandProblem(f"nobody is there to answer: {unasked}")
    return says_yes(stderr_console(), safe(question))


def tell_outcome(view: View, options: EditOptions, *, done: bool) -> int:
    """Print what was done, or that nothing was. The exit code."""
    if done or options.as_json:
        view.show(as_json=options.as_json)
    elif not options.dry_run:
        stdout_console().print("nothing was changed")
    return 0 if done or options.dry_run else 1


def secrets_of(entries: Iterable[Any]) -> set[str]:
    """The texts of servers' entries that a diff must not show: values of `env` and headers, and the secrets of
    clients."""
    found: set[str] = set()
    for entry in map(as_object, entries):
        for key in ("env", "headers", "http_headers", "oauth", "auth"):
            values = as_object(entry.get(key)).items()
            values = [one for name, one in values if key not in {"oauth", "auth"} or "secret" in name.lower()]
            found |= {one for one in values if isinstance(one, str) and one and not re.fullmatch(r"\$\{[^}]*\}", one)}
    return found


@dataclass(kw_only=True)
class Record:
    """A record of what an installer has changed in a client's file, kept beside the content before.

    Attributes:
        target: The client's file.
    """

    target: Change
    schema: int = field(default=1)

    @property
    def place(self) -> Path:
        """The path of the record."""
        raise NotImplementedError

    @property
    def backup(self) -> Path:
        """The client's file as it was before."""
        return self.place.with_suffix(".bak")

    def keep(self, backups: Mapping[Path, bytes | None]) -> None:
        """Write the record and these backups. Raises `StoreError`."""
        self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in backups.items():
            path.unlink(missing_ok=True)
            if content is not None:
                replace_file(path, content)
        replace_file(self.place, json.dumps(asdict(self), indent=2).encode())

    def forget(self, *, backup: bool = True) -> None:
        """Remove the record, and with `backup` the backup too."""
        self.place.unlink(missing_ok=True)
        if backup:
            self.backup.unlink(missing_ok=True)


def record_place(folder: Path, client: str, file: Path, keys: Sequence[str] = ()) -> Path:
    """The path of the record about a client's file, or about one of several places for servers in the file."""
    name = b"\0".join(map(os.fsencode, (str(file), *keys[:-1])))
    return folder / f"{client}-{digest_of(name)[:16]}.json"


def read_fields(path: Path, *changes: str) -> dict[str, Any]:
    """The fields of a record, of which `changes` are each a `Change`. Raises `CommandProblem`."""
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        fields |= {name: Change(**fields[name]) for name in changes}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CommandProblem(
            f"{path} cannot be read ({error}); the file as it was before is in the .bak beside it"
        ) from None
    if fields.get("schema", 1) != 1:
        raise CommandProblem(f"{path} was written by a newer hooksdk; use that one")
    return fields
