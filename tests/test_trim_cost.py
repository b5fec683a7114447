"""What trims do to the bill of real transcripts: the documented table, and what is promised of the plugin."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pages import table

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
trim_cost: Any = import_module("trim_cost")


@cache
def measured() -> dict[str, list[str]]:
    return {row[0]: row for row in trim_cost.measure()}


@pytest.mark.heavy
def test_the_page_says_what_the_benchmark_computes_today() -> None:
    assert table("reference/clear_tool_results.md", *trim_cost.HEAD) == list(measured().values())


@pytest.mark.in_ci(False)
@pytest.mark.heavy
def test_clear_tool_results_never_costs_more_and_saves_a_quarter_in_a_long_session() -> None:
    row = dict(zip(trim_cost.HEAD, measured()["clear_tool_results"], strict=True))
    assert row["dearer than untrimmed"] == "0 of 29"
    assert float(row["long session"].removesuffix("x")) <= 0.75
