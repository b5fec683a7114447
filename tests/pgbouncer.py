"""PgBouncer in transaction mode before the tests' PostgreSQL, reached by a socket in the same folder."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from tests.postgres import Postgres

PORT = 6432
numbers = itertools.count(1)


@contextmanager
def pooled(postgres: Postgres, *, connections: int = 2) -> Generator[str]:
    """The URL of an empty database behind it. Skips the test where PgBouncer is not installed."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if sys.platform == "win32" or program is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    name = f"pooled{next(numbers)}"
    postgres.sql(f"CREATE DATABASE {name}")
    folder = postgres.folder / name
    folder.mkdir()
    settings = {
        "listen_addr": "", "listen_port": PORT, "unix_socket_dir": folder, "auth_type": "any", "pool_mode": "transaction",
        "default_pool_size": connections, "logfile": folder / "log", "pidfile": folder / "pid",
    }  # fmt: skip
    lines = [f"{key} = {value}" for key, value in settings.items()]
    databases = f"{name} = host={postgres.folder} dbname={name} user=hooksdk"
    (folder / "settings.ini").write_text("\n".join(["[databases]", databases, "[pgbouncer]", *lines]), encoding="utf-8")
    command = [program, str(folder / "settings.ini")]
    if os.getuid() == 0:  # it refuses to run as root
        subprocess.run(["chown", "-R", "postgres", str(folder)], check=True)
        command = ["runuser", "-u", "postgres", "--", *command]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(process, folder, name)
            yield f"postgresql://hooksdk@/{name}?host={quote(str(folder))}&port={PORT}"
        finally:
            os.kill(int((folder / "pid").read_text(encoding="ascii")), 15)  # the program itself, not runuser


def _wait(process: subprocess.Popen[bytes], folder: Path, name: str) -> None:
    for _ in range(600):
        try:
            psycopg.connect(f"host={folder} port={PORT} user=hooksdk dbname={name}").close()
        except psycopg.OperationalError:
            assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
            time.sleep(0.05)
        else:
            return
    raise AssertionError((folder / "log").read_text(encoding="utf-8"))
