"""docs/reference/guarantees.md names tests and benchmarks that exist, and says of each promise which one holds it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from pages import DOCS, cells

TESTS = Path(__file__).parent
LINES = (DOCS / "reference" / "guarantees.md").read_text("utf-8").splitlines()
ROWS = [row for row in map(cells, LINES) if len(row) == 3 and row[0] != "promise" and not set(row[0]) <= set("- ")]
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
BENCHMARK = re.compile(r"`python (benchmarks/\w+\.py)`")


@cache
def decorators_in(file: str) -> dict[str, set[str]]:
    """Each function of a file with its decorators."""
    path = TESTS / file
    if not path.is_file():
        return {}
    return {
        node.name: {ast.unparse(decorator) for decorator in node.decorator_list}
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def is_left_out_of_ci(file: str, test: str) -> bool:
    """Whether CI runs no case of it."""
    return not decorators_in(file)[test].isdisjoint({"pytest.mark.slow", "pytest.mark.in_ci(False)"})


def test_every_test_that_the_page_names_exists() -> None:
    named = TEST.findall("\n".join(LINES))
    assert [f"{file}::{test}" for file, test in named if test not in decorators_in(file)] == []


def test_every_promise_names_the_test_or_the_benchmark_that_holds_it() -> None:
    assert len(ROWS) > 50
    assert [promise for promise, held_by, _ in ROWS if not (TEST.search(held_by) or BENCHMARK.search(held_by))] == []
    benchmarks = {file for _, held_by, _ in ROWS for file in BENCHMARK.findall(held_by)}
    assert [file for file in benchmarks if not (TESTS.parent / file).is_file()] == []


def test_every_promise_that_tests_hold_keeps_one_of_them_in_ci() -> None:
    held = [(promise, TEST.findall(held_by)) for promise, held_by, _ in ROWS if TEST.search(held_by)]
    assert [promise for promise, named in held if all(is_left_out_of_ci(*test) for test in named)] == []


def test_every_finding_is_closed_by_a_test_or_says_what_was_decided() -> None:
    findings = [row for row in map(cells, LINES) if len(row) == 4 and re.fullmatch(r"D\d+", row[0])]
    assert [row[0] for row in findings] == [f"D{number}" for number in range(1, 20)]
    assert [row[0] for row in findings if not TEST.search(row[3]) or not row[2].startswith(("closed", "decided"))] == []


def test_no_promise_is_made_twice() -> None:
    promises = [promise for promise, _, _ in ROWS]
    assert sorted(promises) == sorted(set(promises))
