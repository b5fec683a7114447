"""The tests' own PostgreSQL server leaves nothing behind, however a run of the tests ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.postgres import Postgres, running

pytestmark = pytest.mark.heavy

OWNER = """
import sys
from tests.postgres import running

with running() as server:
    print(server.folder, flush=True)
    sys.stdin.read()
"""


def test_the_server_of_a_run_that_was_killed_is_swept_by_the_next(postgres: Postgres) -> None:
    command = [sys.executable, "-c", OWNER]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        run.kill()
    with psycopg.connect(f"host={folder} user=hooksdk dbname=postgres") as client:
        client.execute("SELECT 1")  # it outlived its run
        with running() as another:
            another.sql("SELECT 1")
            assert not folder.exists()
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    postgres.sql("SELECT 1")  # the server of a run that goes on is left alone
