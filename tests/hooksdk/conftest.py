"""What the tests of the package get."""

from __future__ import annotations

import pytest

from hooksdk.formats import FORMATS, MessageFormat, get_format


@pytest.fixture(params=[get_format(name) for name in FORMATS], ids=FORMATS)
def form(request: pytest.FixtureRequest) -> MessageFormat:
    """Every message format."""
    return request.param
