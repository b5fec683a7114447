"""All conformance cases."""

from __future__ import annotations

from hooksdk.testing import (
    _conformance_agents,
    _conformance_calls,
    _conformance_ends,
    _conformance_strangers,
    _conformance_turns,
)
from hooksdk.testing._conformance import ConformanceCase


def conformance_cases() -> list[ConformanceCase]:
    """Everything that plugins rely on in every framework, in the order of the table of adapters.

    In pytest: `@pytest.mark.parametrize("case", conformance_cases(), ids=str)`.
    """
    cases = [*_conformance_calls.CASES, *_conformance_turns.CASES, *_conformance_ends.CASES]
    cases += [*_conformance_agents.CASES, *_conformance_strangers.CASES]
    return [ConformanceCase(number, check.__name__, check) for number, check in sorted(cases, key=lambda one: one[0])]
