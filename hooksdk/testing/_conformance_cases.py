"""All conformance cases."""

from __future__ import annotations

from hooksdk.testing import _conformance_calls, _conformance_ends, _conformance_turns
from hooksdk.testing._conformance import ConformanceCase


def conformance_cases() -> list[ConformanceCase]:
    """Everything that plugins rely on in every framework, in the order of the table of adapters.

    In pytest: `@pytest.mark.parametrize("case", conformance_cases(), ids=str)`.
    """
    modules = (_conformance_calls, _conformance_turns, _conformance_ends)
    cases = [one for module in modules for one in vars(module).values() if isinstance(one, ConformanceCase)]
    return sorted(cases, key=lambda one: one.number)
