"""Chains to damage: files that a writer of the plugin `audit` has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from builtin_plugins.audit._writer import FileChain
from hooksdk.audit import Head, Report, file_source, numbered_files, read_records, verify

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


@dataclass
class Written:
    """A chain on disk."""

    path: Path
    heads: list[Head]
    """After each record that was asked for."""

    @property
    def files(self) -> list[Path]:
        return [*numbered_files(self.path), self.path]

    def lines(self, path: Path | None = None) -> list[bytes]:
        """Of a file, without their ends."""
        return (path or self.path).read_bytes().split(b"\n")[:-1]

    def put(self, lines: Sequence[bytes], path: Path | None = None) -> None:
        (path or self.path).write_bytes(b"".join(line + b"\n" for line in lines))

    def check(self, *heads: Head, files: Sequence[Path] | None = None) -> Report:
        return verify([file_source(one) for one in files or self.files], KEY.public_key(), heads)


def write(
    folder: Path, records: int = 5, *, max_bytes: int | None = None, key: Ed25519PrivateKey = KEY, session: str = "s"
) -> Written:
    """A chain of so many records besides those about itself."""
    chain = FileChain(folder / "audit.jsonl", key, max_bytes=max_bytes)
    heads = [chain.append({"kind": "decision", "session_id": session, "call_id": f"c{n}"}) for n in range(records)]
    chain.close()
    return Written(folder / "audit.jsonl", heads)


def kinds(path: Path) -> list[str]:
    return [record.kind for record in read_records(path)]


def append_from(path: Path, name: str, count: int) -> None:
    """What a process of its own does."""
    chain = FileChain(path, KEY, max_bytes=4000)
    for _ in range(count):
        chain.append({"kind": "decision", "session_id": name}, durable=False)
    chain.close()
