"""What every test gets: asyncio unless it names its loops, a lock file of its own, and a secret manager."""

from __future__ import annotations

from pathlib import Path

import pytest

MANAGER = """#!/bin/sh
echo "$*" >> "$0.log"
[ "$1" = get ] || exit 2
case "$2" in
    TOKEN) echo swordfish-4711-azure ;;
    ODD) echo "it's a \\"secret\\"; rm -rf \\$HOME  # two  blanks" ;;
    KEY) printf 'first line\\nsecond line\\n' ;;
    LOGIN) echo ann:swordfish ;;
    EMPTY) ;;
    LONG) head -c 20000 /dev/zero | tr '\\0' x ;;
    SLOW) sleep 60 ;;
    BYTES) printf 'a\\377b' ;;
    *) echo "no such secret" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return getattr(request, "param", "asyncio")


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def manager(tmp_path: Path) -> Path:
    path = tmp_path / "pass_mgr"
    path.write_text(MANAGER)
    path.chmod(0o755)
    return path
