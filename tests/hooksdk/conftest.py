"""What the tests of the package get."""

from __future__ import annotations

import sys

import pytest

from hooksdk.formats import FORMATS, MessageFormat, get_format


@pytest.fixture(params=[get_format(name) for name in FORMATS], ids=FORMATS)
def form(request: pytest.FixtureRequest) -> MessageFormat:
    """Every message format."""
    return request.param


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway in this process waits for the first listings of its servers, however long they take on a busy machine."""
    if (sources := sys.modules.get("hooksdk.gateway._sources")) is not None:
        monkeypatch.setattr(sources, "FIRST_LISTINGS", 200.0)
