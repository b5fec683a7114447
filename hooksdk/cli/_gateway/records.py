"""What `hooksdk gateway install` has changed: a record for each client's file, with the bytes that were there before."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._edits.client_text import Hunk
from hooksdk.cli._edits.files import Change
from hooksdk.gateway.status import gateway_folder
from hooksdk.stores.files import replace_file


@dataclass
class Installation:
    """One installation of the gateway into one client's file."""

    client: str
    scope: str
    name: str
    """What the gateway is called in the client's file."""
    keys: list[str]
    taken: list[str]
    """The servers that it took the place of, as the client's file calls them."""
    hunk: list[Any]
    target: Change
    """The client's file."""
    gateway: Change
    """The gateway's own file of servers."""
    servers: dict[str, str]
    """What each of the taken servers is called there."""
    added: dict[str, Any] = field(default_factory=dict[str, Any])
    """The entries that were added there."""
    schema: int = 1

    @property
    def changed_text(self) -> Hunk:
        """What was changed in the client's file."""
        return Hunk(*self.hunk)

    @property
    def place(self) -> Path:
        """Where the record is."""
        return record_path(self.client, Path(self.target.file), self.keys)

    @property
    def backup(self) -> Path:
        """What the client's file held before."""
        return self.place.with_suffix(".bak")

    @property
    def gateway_backup(self) -> Path:
        """What the gateway's file held before."""
        return self.place.with_suffix(".servers.bak")

    def keep(self, before: bytes | None = None, gateway_before: bytes | None = None) -> None:
        """Write the record, and the bytes that were there before. Raises `StoreError`."""
        self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in ((self.backup, before), (self.gateway_backup, gateway_before)):
            if content is not None:
                replace_file(path, content, mode=0o600)
        replace_file(self.place, json.dumps(asdict(self), indent=2).encode(), mode=0o600)

    def forget(self, *, backup: bool) -> None:
        """Remove the record, and with `backup` the client's old bytes too."""
        self.place.unlink(missing_ok=True)
        self.gateway_backup.unlink(missing_ok=True)
        if backup:
            self.backup.unlink(missing_ok=True)


def record_path(client: str, file: Path, keys: Sequence[str] = ()) -> Path:
    """Where the record about a client's file is, or about one of several places in it for servers."""
    name = b"\0".join(map(os.fsencode, (str(file), *keys[:-1])))
    return gateway_folder() / "installed" / f"{client}-{hashlib.sha256(name).hexdigest()[:16]}.json"


def read_record(client: str, file: Path, keys: Sequence[str] = ()) -> Installation | None:
    """What is recorded about a client's file. Raises `CommandProblem` for a record that cannot be read."""
    path = record_path(client, file, keys)
    return _read(path) if path.exists() else None


def all_records() -> list[Installation]:
    """Every installation that is recorded."""
    return [_read(path) for path in sorted((gateway_folder() / "installed").glob("*.json"))]


def _read(path: Path) -> Installation:
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        fields |= {name: Change(**fields[name]) for name in ("target", "gateway")}
        record = Installation(**fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CommandProblem(
            f"{path} cannot be read ({error}); what a client had before is in the .bak beside it"
        ) from None
    if record.schema != 1:
        raise CommandProblem(f"{path} was written by a newer hooksdk; use that one")
    return record
