"""The figures of docs/reference/guarantees.md: runs every test that the page names, and counts its cases.

    python scripts/guarantees.py [--write]

Prints each row whose tests ran otherwise than the page says, and exits with 1 when there is one; `--write` corrects the
page instead. A test that fails is always an error. A case that is skipped (a loop that lacks a feature) does not count.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "guarantees.md"
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
TOTAL = re.compile(r"[\d,]+ tests that this page names, [\d,]+ cases")
FIGURE = re.compile(r"\| (?P<cases>\d+) cases?(?P<rest>[^|]*\|)$")


class Count:
    """A plugin of pytest that counts the cases of each test."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed[report.nodeid.partition("[")[0]] += 1


def tests_of(line: str) -> list[str]:
    """The tests that a row names, as pytest knows them."""
    return [f"tests/{file}::{test}" for file, test in TEST.findall(line)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the numbers of cases into the page")
    write = parser.parse_args().write
    lines = PAGE.read_text("utf-8").splitlines()
    named = list(dict.fromkeys(test for line in lines for test in tests_of(line)))
    count = Count()
    # The cases of loops at full length are told in words; those that CI leaves out are counted.
    options = ["-q", "-n0", "--no-header", f"--rootdir={ROOT}", "-m", "left_out_of_ci or not slow"]
    code = pytest.main([*options, *named], plugins=[count])
    if code != 0 or count.failed:
        return 1
    wrong = 0
    for number, line in enumerate(lines):
        if tests := tests_of(line):
            cases = sum(count.passed[test] for test in tests)
            corrected = FIGURE.sub(
                lambda match, cases=cases: f"| {cases} case{'s' if cases != 1 else ''}{match['rest']}", line
            )
            if corrected != line:
                wrong += 1
                lines[number] = corrected
                print(f"{PAGE.name}:{number + 1}: {cases} cases")
    total = f"{len(named)} tests that this page names, {sum(count.passed.values()):,} cases"
    print(total)
    lines = [TOTAL.sub(total, line) for line in lines]
    if write:
        PAGE.write_text("\n".join(lines) + "\n", "utf-8")
    return 1 if wrong and not write else 0


if __name__ == "__main__":
    sys.exit(main())
