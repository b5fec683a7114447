"""What every test gets: both event loops, and a home of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# The commands under test start some hundred processes, which would compile the package anew each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads the configuration or writes the sessions of whoever runs it."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOOKSDK_HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return folder
