"""Other programs' files, which are changed only while they hold what was seen in them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hooksdk.cli._console import CommandProblem
from hooksdk.errors import StoreError
from hooksdk.stores.files import replace_file


@dataclass
class Change:
    """A file that was changed."""

    file: str
    before: str | None
    """The digest of what it held; None where there was no such file."""
    after: str
    """The digest of what it holds since."""
    mode: int | None
    """Who may read it, as it was before."""


def digest_of(content: bytes) -> str:
    """Stands for exactly these bytes."""
    return hashlib.sha256(content).hexdigest()


def read_bytes(path: Path) -> bytes | None:
    """What a file holds; None where there is none. Raises `CommandProblem`."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandProblem(f"{path} cannot be read: {error.strerror}") from None


def write_bytes(path: Path, content: bytes, *, seen: bytes | None, mode: int) -> None:
    """Put this into the place of what was seen there, whole or not at all; a link stays one. Raises `CommandProblem` where the
    file has changed since, or cannot be written."""
    if read_bytes(path) != seen:
        raise CommandProblem(f"{path} was changed by somebody else just now. Close the client, then type it again")
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, content, mode=mode)
    except (OSError, StoreError) as error:
        raise CommandProblem(str(error)) from None
