"""Workers on DBOS that are killed in the middle of runs: no run is lost, none is without an end, and no payment is made twice that
nobody has agreed to."""

from __future__ import annotations

import pytest

pytest.importorskip("dbos", reason="hooksdk[dbos] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.postgres import Postgres

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

worker: Any = import_module("_durable_worker")
runs: Any = import_module("durable_runs")


async def held(fleet: Any, **options: Any) -> dict[str, Any]:
    try:
        figures = await runs.kill_workers(fleet, calls=1, **options)
    finally:
        fleet.kill()
        await fleet.store.aclose()
    print(figures)
    nothing = ("lost", "without an end", "not made", "made twice")
    assert {name: figures[name] for name in nothing} == dict.fromkeys(nothing, 0)
    return figures


async def test_a_run_goes_on_in_the_next_worker_on_one_sqlite_file(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'one.db'}"
    figures = await held(runs.Fleet(url, url, tmp_path), kills=1, workers=1, backlog=2, points=["replied"])
    assert (figures["kills"], figures["questions"]) == (1, 0), "its reply was recorded, and no payment had begun"


@pytest.mark.in_ci(False)
@pytest.mark.parametrize(
    ("kills", "backlog", "points"),
    [(1, 6, ["paid"]), pytest.param(200, 30, worker.POINTS, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
    ids=["once", "many times"],
)
async def test_others_go_on_where_a_worker_was_killed_on_one_postgresql(
    kills: int, backlog: int, points: Sequence[str], postgres: Postgres, tmp_path: Path
):
    url = postgres.url()
    schema = f"dbos_{url.rpartition('place')[2]}"
    fleet = runs.Fleet(url, url.partition("&options")[0], tmp_path, ["--pool", "4"], schema=schema)
    figures = await held(fleet, kills=kills, workers=2 if kills == 1 else 3, backlog=backlog, points=points)
    assert figures["refused"] > 0, "payments were made by workers that died then, and a person was asked about each"
