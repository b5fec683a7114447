"""A PostgreSQL server of the tests' own: a new cluster in a temporary folder, reached by its socket alone."""

from __future__ import annotations

import contextlib
import functools
import glob
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

if sys.platform != "win32":
    import fcntl

PREFIX = "hooksdk-postgres-"
SETTINGS = {
    "listen_addresses": "''", "fsync": "off", "shared_buffers": "16MB", "max_connections": "60", "autovacuum": "off",
}  # fmt: skip
"""No other process than the tests' dies here, so nothing needs to be on disk."""


class Postgres:
    """A running server."""

    def __init__(self, folder: Path, run: Callable[..., None]) -> None:
        self.folder, self.run = folder, run
        self._numbers = itertools.count(1)

    def url(self) -> str:
        """The URL of a schema without tables."""
        schema = f"place{next(self._numbers)}"
        self.sql(f"CREATE SCHEMA {schema}")
        return f"postgresql://hooksdk@/postgres?host={quote(str(self.folder))}&options=-csearch_path%3D{schema}"

    def restart(self, mode: str, *, pause: float) -> None:
        """Stop it, and start it again after so many seconds."""
        self.run("pg_ctl", "-D", self.folder / "data", "-m", mode, "-w", "stop")
        time.sleep(pause)
        self.start()

    def start(self) -> None:
        """Start it."""
        settings = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        options = f"-k {self.folder} {settings}"
        self.run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "-o", options, "start")

    def sql(self, statement: str) -> None:
        """Run a statement as the server's owner."""
        import psycopg

        with psycopg.connect(f"host={self.folder} user=hooksdk dbname=postgres", autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def running() -> Generator[Postgres]:
    """Start a server, and stop it in the end. Skips the test where PostgreSQL is not installed."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [str(Path(shutil.which("initdb") or "-").parent)]
    if sys.platform == "win32" or not Path(programs[-1], "initdb").exists():
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    _sweep(programs[-1])
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    with (folder / "new").open("w", encoding="ascii") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)  # let go by the system, however this process ends
        (folder / "new").rename(folder / "owner")
        if os.getuid() == 0:  # the server refuses to run as root
            shutil.chown(folder, "postgres")
        data = folder / "data"
        run = functools.partial(_run, programs[-1], folder)
        try:
            run("initdb", "-D", data, "-U", "hooksdk", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
            server = Postgres(folder, run)
            server.start()
            try:
                yield server
            finally:
                run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        finally:
            shutil.rmtree(folder)


def _run(programs: str, folder: Path, *command: str | Path) -> None:
    arguments: Sequence[str | Path] = (Path(programs, command[0]), *command[1:])
    done = subprocess.run(
        [*(["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []), *arguments],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _sweep(programs: str) -> None:
    """Stop the servers of runs that were killed, and remove what they left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with (folder / "owner").open("r+", encoding="ascii") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with contextlib.suppress(AssertionError):  # it stands still already
                    _run(programs, folder, "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
                shutil.rmtree(folder)
        except OSError:  # its run goes on, another run sweeps it too, or it is somebody else's
            continue
