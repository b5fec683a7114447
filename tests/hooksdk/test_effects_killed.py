"""Payments whose process is killed before, in and after them: what is said of them, and whether they are made twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    seen = killed(loop, place_of(kind, tmp_path, request), tmp_path, times)
    assert seen["in doubt"] > 0
    assert seen["ran again"] > 0


@pytest.mark.parametrize("times", [6, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("loop", ["sync", "langchain", "openai_agents", "pydantic_ai"])
def test_nor_is_it_in_plain_code_or_in_the_agent_of_a_framework_that_forgot_it(
    tmp_path: Path, request: pytest.FixtureRequest, loop: str, kind: str, times: int
) -> None:
    modules = {"langchain": "langchain", "openai_agents": "agents", "pydantic_ai": "pydantic_ai"}
    if loop in modules:
        pytest.importorskip(modules[loop], reason=f"hooksdk[{loop.replace('_', '-')}] is not installed")
    seen = killed(loop, place_of(kind, tmp_path, request), tmp_path, times)
    assert seen["in doubt"] > 0
    assert seen["ran again"] > 0


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("loop", ["own", "gateway", "sync", "langchain", "openai_agents", "pydantic_ai"])
def test_it_may_be_killed_at_any_instant(tmp_path: Path, request: pytest.FixtureRequest, loop: str, kind: str) -> None:
    killed(loop, place_of(kind, tmp_path, request), tmp_path, 50, "random")


def place_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    places = {
        "jsonl": folder / "s",
        "jsonl with its view": f"view:{folder / 's'}",
        "sqlite": f"sqlite:///{folder / 'a.db'}",
    }
    return str(places.get(kind) or request.getfixturevalue("postgres").url())


def killed(loop: str, place: str, folder: Path, times: int, *mode: str) -> dict[str, int]:
    """What was seen after so many kills: nothing lost, nothing false, nothing paid twice unasked."""
    command = [sys.executable, str(CHILD), loop, place, str(folder), str(times), "1", *mode]
    child = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "HOOKSDK_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)},
    )
    seen = json.loads(child.stdout)
    print(loop, place.partition(":")[0], *mode, seen)
    assert seen["kills"] == times
    assert [seen.get(name, 0) for name in ("false not run", "effects twice", "lost", "refused for nothing")] == [0] * 4
    return seen
