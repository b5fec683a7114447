"""Fixtures for whole turns."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["openai-chat", "anthropic"])
def form(request: pytest.FixtureRequest) -> str:
    """Every turn is played in both message formats."""
    return request.param
