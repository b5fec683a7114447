"""How the suite runs: what is left out, by how many processes, and that no test starts a process unseen.

A test that starts a process, a server or a browser, or takes over half a second, is marked `heavy`. `pytest` leaves those out;
`pytest -m heavy` runs them, `pytest -m ""` runs all but the slow ones. A file or a test that is named runs whole.

Of tests with many alike cases CI runs those that differ most: `pytest.mark.in_ci(era=["auto"])` makes the cases with another
`era` slow, `in_ci(False)` all, `in_ci(every=4)` three of four. On a file it counts for each test that has the parameter. Of a
heavy test that says nothing of the kind CI runs each third case, and it runs it on asyncio alone where it is marked
`both_loops`. Of a light test with many cases two thirds count as heavy; `light(every=5)` names another share. CI runs them all.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

THIRD, MANY = 3, 6
"""Of the cases of a heavy test CI runs the first and each third after it; so does the default of a light test with so many
cases. Marks say otherwise."""

LIGHT = "not heavy"
"""What pyproject.toml chooses where nobody else does."""

SHARE, FEWEST = 0.25, 25
"""Of the random cases that a property test names it tries this share, and so many at least; all of them with the slow tests,
and as many times as `--random` says."""

FEW = 2
"""So many files start sooner in one process: each further one imports everything again."""

STARTS = {
    "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind", "subprocess.Popen", "tests.command",
}  # fmt: skip
"""What Python audits where a process or a server begins. `tests/hooksdk/warm.py` audits the forks that it asks for."""

IPV6_PROBE = ("::1", 0)
"""What urllib3, of LangChain's imports, binds when it is imported, to see whether there is IPv6."""

EXAMPLES = Path(__file__).parent / "examples"
"""Its tests run commands, and know nothing of this project's marks."""

WHOLE = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.heavy\b", re.MULTILINE)
"""A file that is heavy as a whole: where heavy tests are left out it is not imported, and neither are the SDKs that it uses."""

# The rewritten asserts of two hundred files take longer than to run many of them: they are kept in __pycache__.
sys.dont_write_bytecode = False


class _Guard:
    """Notes what a test without the mark starts."""

    def __init__(self) -> None:
        self._notes: list[str] | None = None

    def open(self, item: pytest.Item) -> None:
        self._notes = None if _heavy(item) else []

    def close(self) -> list[str]:
        notes, self._notes = self._notes or [], None
        return notes

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._notes is None or event not in STARTS:
            return
        if event != "socket.bind":
            self._notes.append(f"{event}{arguments}"[:200])
        elif isinstance(arguments[1], tuple) and arguments[1] != IPV6_PROBE:
            # A socket in the file system, or one without a name, is no server on a port.
            self._notes.append(f"a server at {arguments[1]}")


guard = _Guard()
sys.addaudithook(guard)


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _asks_for_postgres(item: pytest.Function) -> bool:
    """By its fixture, or by a parameter of that name, which has it fetched."""
    values = _parameters(item).values()
    return "postgres" in {*item.fixturenames, *(value for value in values if isinstance(value, str))}


def _heavy(item: pytest.Item) -> bool:
    return any(item.iter_markers("heavy")) or any(item.iter_markers("slow"))


def _name_of(value: Any) -> str:
    """A parameter's value as `in_ci` names it."""
    return getattr(value, "__name__", None) or getattr(value, "name", None) or str(value)


def _in_ci(item: pytest.Function, place: int) -> bool:
    """Whether the marks `in_ci` of the test and its file have this case, at this place of its test, run in CI."""
    parameters = _parameters(item)
    both_loops = any(item.iter_markers("heavy")) and any(item.iter_markers("both_loops"))
    chosen: dict[str, Any] = {"anyio_backend": ["asyncio"]} if both_loops else {}
    for mark in reversed(list(item.iter_markers("in_ci"))):  # the closest last: it wins
        if mark.args == (False,):
            return False
        chosen |= mark.kwargs
    is_named = any(name in parameters for name in chosen if name != "anyio_backend")
    if place % chosen.pop("every", 1 if is_named or not any(item.iter_markers("heavy")) else THIRD):
        return False
    return all(
        name not in parameters or _name_of(parameters[name]) in map(str, values) for name, values in chosen.items()
    )


def _places(items: list[pytest.Item]) -> dict[pytest.Item, tuple[int, int]]:
    """Each case's place among those of its test on the same loop, from 0 on, and how many they are."""
    cases: dict[tuple[str, Any], list[pytest.Item]] = {}
    for item in items:
        test, loop = item.nodeid.partition("[")[0], _parameters(item).get("anyio_backend")
        cases.setdefault((test, loop), []).append(item)
    return {item: (place, len(alike)) for alike in cases.values() for place, item in enumerate(alike)}


def _light(item: pytest.Item, place: int, cases: int) -> bool:
    """Whether the default runs this case, if the test is light."""
    mark = next(item.iter_markers("light"), None)
    return place % (mark.kwargs["every"] if mark else THIRD if cases >= MANY else 1) == 0


def _files(config: pytest.Config) -> list[Path]:
    """The files that were asked for; none if a folder was, or nothing."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return []
    asked = [Path(config.invocation_params.dir, argument.partition("::")[0]) for argument in config.args]
    return sorted(set(asked)) if all(path.is_file() for path in asked) else []


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Leave nothing out of a file that is named, unless `-m` says so."""
    chosen = any(str(argument).startswith("-m") for argument in config.invocation_params.args)
    if "PYTEST_XDIST_WORKER" not in os.environ and not chosen and _files(config):
        config.option.markexpr = ""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    return 0 if 0 < len(_files(config)) <= FEW else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.option.markexpr != LIGHT or not collection_path.match("test_*.py"):
        return None
    return True if EXAMPLES in collection_path.parents or WHOLE.search(collection_path.read_text("utf-8")) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--random", type=int, default=0, metavar="TIMES",
        help="property tests try new cases, so many times as many as they name; without it, and without -m slow, the same quarter each time",
    )  # fmt: skip


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Before a file is imported, since its own settings begin with those that hold then. Where no file needs it, Hypothesis is not
    imported."""
    if "hypothesis" in module_path.read_text("utf-8"):
        _load_profile(new_cases=parent.config.option.random > 0 or parent.config.option.markexpr == "slow")


@functools.cache
def _load_profile(*, new_cases: bool) -> None:
    """No example is too slow: on a busy machine any of them may take longer than the 200 ms that Hypothesis gives it. And what
    passes once passes always, unless new cases are asked for."""
    try:
        from hypothesis import HealthCheck, settings
    except ModuleNotFoundError:  # an environment of a framework, whose tests need none
        return
    settings.register_profile(
        "suite", deadline=None, derandomize=not new_cases, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("suite")


def _multiply_cases(items: list[pytest.Item], times: float) -> None:
    from hypothesis import is_hypothesis_test, settings

    tests = {item.obj for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)}
    for test in tests:  # each once, though it may have parameters
        own = test._hypothesis_internal_use_settings  # noqa: SLF001 - a test cannot be given settings twice
        examples = max(min(own.max_examples, FEWEST), round(own.max_examples * times))
        test._hypothesis_internal_use_settings = settings(own, max_examples=examples)  # noqa: SLF001


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    whole = "slow" in config.option.markexpr
    if config.option.random or (not whole and "hypothesis" in sys.modules):
        _multiply_cases(items, config.option.random or SHARE)
    places = _places(items)
    for item in items:
        if EXAMPLES in item.path.parents or (isinstance(item, pytest.Function) and _asks_for_postgres(item)):
            item.add_marker("heavy")
        if (
            isinstance(item, pytest.Function)
            and not any(item.iter_markers("slow"))
            and not _in_ci(item, places[item][0])
        ):
            item.add_marker("slow")
            item.add_marker("left_out_of_ci")
        if not _light(item, *places[item]):
            item.add_marker("heavy")
    if not whole:
        slow = [item for item in items if any(item.iter_markers("slow"))]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not any(item.iter_markers("slow"))]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    guard.open(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    notes = guard.close()
    yield
    if notes:
        pytest.fail(f"a test that starts a process or a server is marked `heavy`; this one started {'; '.join(notes)}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.markexpr == LIGHT:
        terminalreporter.section("left out", "-", blue=True)
        terminalreporter.line("Tests that start a process, a server or a browser, or take long: pytest -m heavy")
