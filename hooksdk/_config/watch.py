"""Whether files have changed since the last look."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class FileWatch:
    """Some files, which need not exist. A look costs one question to the file system for each."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._seen = self._look()

    def changed(self) -> bool:
        """True when one of them is another than at the last look. Look first and read then: what is written while you read is
        seen by the next look."""
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
