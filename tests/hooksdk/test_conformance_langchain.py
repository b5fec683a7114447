"""hooksdk in LangChain's agents, by the conformance suite; what is LangChain's own is in test_adapter_langchain.py."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain", reason="hooksdk[langchain] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from hooksdk.testing import ConformanceCase, conformance_cases
from tests.hooksdk.langchain_driver import LangChainDriver
from tests.hooksdk.test_conformance import hold, in_ci_a_few


@in_ci_a_few
@pytest.mark.parametrize("case", conformance_cases(), ids=str)
async def test_conformance(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, LangChainDriver(), request)
