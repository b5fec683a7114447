"""Payments whose process is killed before, in and after them: what is said of them, and whether they are made twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("effects_child.py")
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="a worker is a fork of whoever looks after it"),
]


@pytest.mark.in_ci(kind=["jsonl"], loop=["own"])
@pytest.mark.parametrize("times", [6, pytest.param(57, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
@pytest.mark.parametrize("kind", ["jsonl", "jsonl with its view", "sqlite", "postgres"])
@pytest.mark.parametrize("loop", ["own", "gateway"])
def test_a_payment_that_was_killed_is_not_called_not_run_and_not_made_twice_unasked(
    tmp_path: Path, request: pytest.FixtureRequest, loop: str, kind: str, times: int
) -> None:
    places = {
        "jsonl": tmp_path / "s", "jsonl with its view": f"view:{tmp_path / 's'}", "sqlite": f"sqlite:///{tmp_path / 'a.db'}",
    }  # fmt: skip
    place = places.get(kind) or request.getfixturevalue("postgres").url()
    command = [sys.executable, str(CHILD), loop, str(place), str(tmp_path), str(times), "1"]
    child = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "HOOKSDK_HOME": str(tmp_path / "home")},
    )
    seen = json.loads(child.stdout)
    print(loop, kind, seen)
    assert seen["kills"] == times
    assert [seen.get(name, 0) for name in ("false not run", "effects twice", "lost", "refused for nothing")] == [0] * 4
    assert seen["in doubt"] > 0
    assert seen["ran again"] > 0
