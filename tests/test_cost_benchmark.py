"""What policies of clearing cost in each provider's cache: the documented tables, and what follows from them."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from pages import table

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
cost: Any = import_module("cost")
served: Any = import_module("_cost_served")
pytestmark = pytest.mark.heavy
PAGE = "benchmarks.md"


# The long one takes a minute; the others go the same way.
SESSIONS = [pytest.param(name, marks=pytest.mark.slow) if name == "customers" else name for name in cost.SESSIONS]


@cache
def measured(session: str) -> list[list[str]]:
    return cost.measure(cost.long_session(cost.SESSIONS[session]))


def shares(session: str, policy: str) -> dict[str, float]:
    (row,) = [row[1:] for row in measured(session) if row[0] == policy]
    return dict(zip(cost.HEAD, map(float, row), strict=True))


@pytest.mark.parametrize("session", SESSIONS)
def test_the_page_says_what_each_policy_costs_today(session: str) -> None:
    assert table(PAGE, f"{session}: policy", *cost.HEAD) == measured(session)


@pytest.mark.parametrize("session", SESSIONS)
def test_no_policy_is_cheaper_than_the_best_moments_by_more_than_a_hundredth(session: str) -> None:
    best = shares(session, cost.ORACLE)
    for name in ("ideal", "OpenAI .1", "none"):
        assert best[name] <= min(shares(session, row[0])[name] for row in measured(session)) + 0.01


@pytest.mark.in_ci(False)
def test_what_a_server_counts_is_what_the_replay_says() -> None:
    messages = cost.long_session(cost.SESSIONS["programmer"])
    rows = anyio.run(served.measure_served, {"programmer": messages})
    assert [row for row in table(PAGE, *served.SERVED_HEAD) if row[0] == "programmer"] == rows
    told = {row[1]: float(row[-1]) for row in rows}
    replayed = shares("programmer", "clear_tool_results")
    assert told["anthropic"] == pytest.approx(replayed["Anthropic, our marks"], abs=0.05)
    assert told["openai"] == pytest.approx(replayed["OpenAI .1"], abs=0.05)


def test_a_value_that_stood_in_a_result_alone_is_lost_once_that_is_cleared() -> None:
    messages = cost.long_session(cost.SESSIONS["customers"])
    needed = cost.needed_values(messages)
    assert len(needed) > 50
    whole, _ = cost.record(messages, cost.never)
    cleared, _ = cost.record(messages, cost.older_than(1))
    assert cost.lost(needed, whole, whole) == 0
    assert 0 < cost.lost(needed, cleared, whole) < len(needed)
