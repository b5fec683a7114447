"""Somebody changes rows or bytes of a database: what is read is what was stored, or it is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from hooksdk.errors import StoreError
from hooksdk.stores import SqlStore
from hooksdk.stores.erasing import Erasure, find
from hooksdk.stores.upkeep import examine, list_ends, list_holders
from tests.hooksdk.tables import run_sql

HERE = Path(__file__).parent
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


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

    async def run() -> None:
        store = SqlStore(tmp_path)
        await store.set_value("limits", "k", 1)
        await run_sql(store, f"UPDATE hooksdk_values SET {column} = 7")
        with pytest.raises(StoreError):
            await (store.list_keys("limits") if column == "name" else store.get_value("limits", "k"))
        await store.aclose()

    anyio.run(run)


def test_a_session_whose_row_lost_its_id_is_found_by_the_doctor(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqlStore(tmp_path)
        for name in ("s", "other"):
            log = await store.open_session(name)
            await log.append_messages([{"role": "user", "content": "hello"}])
            await log.close()
        await run_sql(store, "UPDATE hooksdk_sessions SET id = NULL WHERE name = '\"s\"'")
        found = [flaw.what for flaw in await examine(store)]
        assert any("it has no id" in what for what in found)
        assert any("of its rows are in hooksdk_messages" in what for what in found)
        await store.aclose()

    anyio.run(run)


def test_a_bit_in_the_log_that_hides_later_commits_is_found_by_the_doctor(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqlStore(tmp_path / "store")
        for number in range(20):
            await store.set_value("limits", "k", number)
        assert await examine(store) == []
        shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm"))
        await store.aclose()
        log = tmp_path / "copy" / "hooksdk.db-wal"
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 1
        log.write_bytes(data)
        copy = SqlStore(tmp_path / "copy")
        (flaw,) = await examine(copy)
        assert "are left out, since one before them was changed" in flaw.what
        await copy.aclose()

    anyio.run(run)


async def test_a_session_whose_name_somebody_has_changed_ends_no_list_in_a_traceback(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    log = await store.open_session("s")
    await run_sql(store, "UPDATE hooksdk_sessions SET name = '\"s'")
    assert list(await store.list_held()) == list(await list_holders(store)) == list(await list_ends(store)) == ['"s']
    assert await find(store, Erasure(before=0)) == []
    await log.close()
    await store.aclose()
