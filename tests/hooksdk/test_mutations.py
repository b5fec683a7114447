"""Somebody changes rows or bytes of a database: what is read is what was stored, or it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.heavy


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("times", [60, pytest.param(5_000, marks=pytest.mark.slow)])
def test_no_change_of_what_is_read_is_silent_and_none_ends_in_a_traceback(tmp_path: Path, times: int) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "mutations.py", tmp_path, str(times), "1"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "HOOKSDK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(HERE.parents[1])},
    )
    seen = json.loads(done.stdout)
    for what, counts in seen["counts"].items():
        print(what, counts)
    assert [each for each in seen["silent"] if not each.startswith("(")] == []


@pytest.mark.parametrize("column", ["hash", "body", "name"])
def test_a_value_whose_row_has_something_of_another_type_is_refused_in_words(tmp_path: Path, column: str) -> None:
    """SQLite stores anything in any column."""
    import anyio

    from hooksdk.errors import StoreError
    from hooksdk.stores import SqlStore
    from tests.hooksdk.tables import run_sql

    async def run() -> None:
        store = SqlStore(tmp_path)
        await store.set_value("limits", "k", 1)
        await run_sql(store, f"UPDATE hooksdk_values SET {column} = 7")  # noqa: S608
        with pytest.raises(StoreError):
            await (store.list_keys("limits") if column == "name" else store.get_value("limits", "k"))
        await store.aclose()

    anyio.run(run)
