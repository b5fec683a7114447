"""The benchmark of orders in what an agent reads runs where AgentDojo is installed, which needs an environment of its own."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agentdojo", reason="agentdojo is not installed: benchmarks/agent_dojo.py says how it is run")
pytestmark = [pytest.mark.heavy, pytest.mark.slow]
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))


def test_rules_about_origins_stop_the_orders_of_one_application() -> None:
    agent_dojo: Any = import_module("agent_dojo")
    options = agent_dojo.read_options(["--suites", "banking"])
    bare, origins = (agent_dojo.measure(rule, options) for rule in ("none", "origins"))
    assert (bare.pairs, bare.attacks, bare.done) == (144, 143, 16)
    assert (origins.pairs, origins.attacks, origins.done, origins.questions) == (144, 0, 16, 7)
