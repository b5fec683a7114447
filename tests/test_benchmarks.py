"""The figures in docs/benchmarks.md that are no times: they are what the benchmarks compute today.

Those of the scenarios are compared in test_scenarios.py, which plays them anyway. Peers are not measured here, nor is the
row of the demo's servers, whose tools depend on the installed versions.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest
from pages import table

from hooksdk import Tool
from tests.measured import RETRIEVAL

ROOT = Path(__file__).parents[1]

call_path = import_module("call_path")
calls_at_once = import_module("calls_at_once")
offered_tokens = import_module("offered_tokens")
quality = import_module("quality")
ranker = import_module("ranker")

PAGE = "benchmarks.md"
CATALOGS = ["scenarios", *offered_tokens.SETS, "all seven sets"]


def tools_of(name: str) -> list[Tool]:
    if name == "scenarios":
        return offered_tokens.scenario_tools()
    sets = offered_tokens.ALL_SETS if name == "all seven sets" else [name]
    return [tool for one in sets for tool in offered_tokens.tools_of(RETRIEVAL / one / "catalog.jsonl")]


@pytest.mark.heavy
@pytest.mark.skipif(
    not find_spec("pydantic_monty"), reason="the table has columns of code mode: needs the extra `code`"
)
@pytest.mark.parametrize("name", CATALOGS)
def test_the_page_says_what_is_offered_of_a_catalog_today(name: str) -> None:
    rows = {row[0]: row for row in table(PAGE, "catalog", "tools", "direct")}
    assert rows[name] == offered_tokens.cells(anyio.run(offered_tokens.measure, name, tools_of(name)))


def test_the_page_leaves_no_catalog_out_and_has_no_other() -> None:
    rows = [row[0] for row in table(PAGE, "catalog", "tools", "direct")]
    assert sorted(rows) == sorted([*CATALOGS, "servers of the demo"])


@pytest.mark.heavy
@pytest.mark.anyio
@pytest.mark.skipif(not find_spec("pydantic_monty"), reason="two rows are of code mode: needs the extra `code`")
async def test_the_page_says_what_ten_calls_cost_in_each_way_today() -> None:
    records = await calls_at_once.measure_all()
    assert table(PAGE, "way", "the ten calls") == [calls_at_once.cells(one) for one in records]


@cache
def measured() -> dict[str, Any]:
    """What `benchmarks/quality.py` finds for our own ranking."""
    return quality.measure(ranker.rank, RETRIEVAL, 150)


def own_row(*head: str) -> list[str]:
    (row,) = [row[1:] for row in table(PAGE, *head) if row[0] == "hooksdk"]
    return row


def rounded(*values: float) -> list[float]:
    return [float(f"{value:.3f}") for value in values]


@pytest.mark.heavy
def test_the_page_says_what_is_found_today_in_each_retrieval_set() -> None:
    sets = measured()["sets"]
    told = own_row("", *sets)
    assert [float(cell) for cell in told] == rounded(*sets.values(), measured()["mean"])


@pytest.mark.in_ci(False)
@pytest.mark.heavy
def test_the_page_says_what_is_found_today_of_queries_as_a_model_types_them() -> None:
    *told, absent = own_row("", "all", "keywords", "sentences")
    assert [float(cell) for cell in told] == rounded(*(measured()["model"][kind] for kind in ("all", *quality.KINDS)))
    weak, _ = quality.weak_or_empty(RETRIEVAL)
    assert absent == f"empty or marked weak: {weak:.3f}".replace("0.", ".")


@pytest.mark.heavy
def test_the_page_says_what_is_found_today_of_whole_tasks_in_one_query_and_in_several() -> None:
    several = measured()["several"]
    *told, hits = own_row("", *quality.SEVERAL)
    assert [float(cell) for cell in told] == rounded(*(several[name] for name in quality.SEVERAL))
    assert hits == f"{several['hits']:.1f}"


def test_the_steps_of_a_task_find_more_of_its_tools_than_as_many_hits_of_the_task_alone() -> None:
    several = measured()["several"]
    assert several["task and steps, 5 hits each"] > several["task alone, as many hits"] + 0.2


@pytest.mark.heavy
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the page counts functions and lines as Python 3.11 runs them")
def test_the_page_says_what_a_call_goes_through_today() -> None:
    rows = table(PAGE, "before, after", *call_path.WAYS)
    counts = call_path.count()
    assert {
        way: {row[0]: int(row[column].partition(", ")[2]) for row in rows}
        for column, way in enumerate(call_path.WAYS, start=1)
    } == counts
