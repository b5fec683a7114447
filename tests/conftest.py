"""What every test gets: an event loop, and a home of its own.

Async tests run on asyncio. A test that touches concurrency (cancellation, time limits, threads, tasks side by side,
locks) runs on asyncio and on trio: mark it, or its whole file, with `pytest.mark.both_loops`. A test in which some code
is late and other code is not is marked `jumping_clock`: no busy machine moves that clock, and nobody waits for it.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from hooksdk.stores import MemoryStore, SqlStore, Store
from tests.clocks import jumping
from tests.postgres import Postgres, running

# The commands under test start some hundred processes, which would compile the package anew each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
pytest.register_assert_rewrite("tests.stage")
# What still lives when a worker ends is not walked once more: with all that the tests import this takes longer than
# pytest-xdist waits for its workers, and then it warns that they are still running.
atexit.register(gc.freeze)

LONG = {
    "test_families.py",
    "test_install.py",
    "test_mypy.py",
    "test_new_package.py",
    "test_padded_cell.py",
    "test_policy_folders.py",
    "test_site.py",
    "test_tool_search_end_to_end.py",
    "test_typing.py",
}
"""What runs many seconds a test comes first: in the end no worker stands idle while another runs one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_collection_finish() -> None:
    """What is there by now stays: where a test collects garbage, it need not be looked through, which takes half a second."""
    if "hypothesis" in sys.modules:  # it looks for who holds its random numbers, among what is not frozen
        gc.collect()
        gc.freeze()


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> object:
    loop: str = getattr(request, "param", "asyncio")
    if request.node.get_closest_marker("jumping_clock") is None:
        return loop
    # The seconds that a handler took are read from the system's clock, which does not jump.
    monkeypatch.setattr("hooksdk._tasks.limits.time", SimpleNamespace(monotonic=anyio.current_time))
    return jumping(loop)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked `both_loops` on both, unless a test of the file names its loop."""
    marks = metafunc.definition.iter_markers("parametrize")
    if (
        "anyio_backend" in metafunc.fixturenames
        and metafunc.definition.get_closest_marker("both_loops")
        and not any(mark.args[0] == "anyio_backend" for mark in marks)
    ):
        metafunc.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A path for each test. The factory itself looks through all folders that it has made, each time."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads the configuration or writes the sessions of whoever runs it."""
    folder = next(homes)
    folder.mkdir()
    monkeypatch.setenv("HOOKSDK_HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return folder


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    """A store in memory, and one in a database."""
    made = MemoryStore() if request.param == "memory" else SqlStore(tmp_path)
    yield made
    await made.aclose()


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    """A server of the tests' own, started when the first test asks for it."""
    with running() as server:
        yield server
