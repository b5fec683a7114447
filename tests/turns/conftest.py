"""Fixtures for whole turns."""

from __future__ import annotations

import pytest

from hooksdk.formats import FORMATS


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    """Every turn is played in every message format."""
    return request.param
