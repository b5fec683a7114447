"""The pytest plugin of hooksdk: fixtures for tests of plugins. Installed with hooksdk, switched off with `-p
no:hooksdk`.

It imports nothing but pytest until one of its fixtures is used, has no fixture that is used by itself, and stands
outside the package, whose import takes longer than many a test suite.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hooksdk.testing import DecisionSnapshot, HookSession, OpenHookSession, Script, ScriptedModel, ToolServer
    from hooksdk.testing.server import ScriptedServer, ServerScript

LOOPS = ("asyncio", "trio")
_REWRITTEN = ("hooksdk.testing",)
"""Whose asserts say what they compared."""

pytest.register_assert_rewrite(*(name for name in _REWRITTEN if name not in sys.modules))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("hooksdk").addoption(
        "--hooksdk-update", action="store_true", help="write snapshots of decisions anew where they differ"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "hook_loops(*loops): run a test with hook_session on asyncio and on trio, or on those that are named"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("hook_loops")
    if mark is None:
        return
    loops = mark.args or LOOPS
    if unknown := [loop for loop in loops if loop not in LOOPS]:
        raise pytest.UsageError(f"hook_loops({unknown[0]!r}): the event loops are {' and '.join(LOOPS)}")
    if "hook_loop" in metafunc.fixturenames:
        metafunc.parametrize("hook_loop", loops, indirect=True)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    if op != "==" or "hooksdk.testing" not in sys.modules:
        return None
    from hooksdk.testing import DecisionSnapshot, Replay

    for snapshot, decisions in ((right, left), (left, right)):
        if isinstance(snapshot, DecisionSnapshot) and isinstance(decisions, Replay):
            return ["the decisions are others", *snapshot.explain(decisions)]
    return None


@pytest.fixture
def hook_loop(request: pytest.FixtureRequest) -> str:
    """The event loop of `hook_session`: asyncio, unless the marker `hook_loops` or a fixture of this name says
    otherwise."""
    return getattr(request, "param", "asyncio")


@pytest.fixture
def hook_session(
    hook_loop: str,
    tool_server: object,  # noqa: ARG001 - the servers must live longer than the sessions that use them
    model_server: object,  # noqa: ARG001 - as above
) -> Generator[OpenHookSession]:
    """Sessions with plugins, each in an event loop of its own. They are closed after the test, which fails for what it
    has left open: `session = hook_session(MyPlugin, tools=[read_file])`. The options are those of
    `hooksdk.testing.HookSession`."""
    from hooksdk.testing import HookSession

    if hook_loop == "trio":
        _need("trio", "hooksdk[testing]")
    opened: list[HookSession] = []

    def open_session(*plugins: Any, **options: Any) -> HookSession:
        opened.append(HookSession(*plugins, loop=hook_loop, **options))
        return opened[-1]

    yield open_session
    problems: list[str] = []
    with ExitStack() as stack:
        for session in opened:
            stack.callback(_close, session, problems)
    if problems:
        pytest.fail("; ".join(problems), pytrace=False)


@pytest.fixture
def scripted_model() -> Generator[Callable[..., ScriptedModel]]:
    """Models that follow a script. A list of replies that a model was not asked for to its end fails the test:
    `model = scripted_model([call("now"), "noon"])`."""
    from hooksdk.testing import ScriptedModel

    made: list[tuple[ScriptedModel, int]] = []

    def make(script: Script, **options: Any) -> ScriptedModel:
        model = ScriptedModel(script, **options)
        made.append((model, 0 if callable(script) else len(script)))
        return model

    yield make
    for model, replies in made:
        asked = len(model.turns)
        if asked < replies:
            pytest.fail(f"the script has {replies} replies, and the model was asked {asked} times", pytrace=False)


@pytest.fixture
def tool_server() -> Generator[Callable[..., ToolServer]]:
    """MCP servers with functions as tools. They end after the test:
    `server = tool_server(add, name="sums")`, and then `hook_session(MyPlugin, servers=server.config)`."""
    with ExitStack() as stack:

        def start(*functions: Callable[..., Any], name: str = "test") -> ToolServer:
            _need("mcp", "hooksdk[mcp]")
            from hooksdk.testing import ToolServer

            return stack.enter_context(ToolServer(*functions, name=name))

        yield start


@pytest.fixture
def model_server() -> Generator[Callable[..., ScriptedServer]]:
    """Providers that follow a script: OpenAI's and Anthropic's API over HTTP. They end after the test, and what a
    script raised fails it: `server = model_server(["Hello."])`, and then a client with `base_url=server.openai_url`."""
    with ExitStack() as stack:

        def start(script: ServerScript) -> ScriptedServer:
            from anyio.from_thread import start_blocking_portal

            from hooksdk.testing.server import ScriptedServer

            portal = stack.enter_context(start_blocking_portal())
            server = portal.call(ScriptedServer, script)
            return stack.enter_context(portal.wrap_async_context_manager(server))

        yield start


@pytest.fixture
def decision_snapshot(request: pytest.FixtureRequest) -> DecisionSnapshot:
    """The decisions that this test expects: `assert replay("session.jsonl", [MyPlugin]) == decision_snapshot`. They are
    in a file beside the test's, which `pytest --hooksdk-update` writes."""
    from hooksdk.testing import DecisionSnapshot

    update = bool(request.config.getoption("--hooksdk-update"))
    return DecisionSnapshot.of_test(Path(str(request.path)), request.node.name, update=update)


def _close(session: HookSession, problems: list[str]) -> None:
    try:
        session.close()
    except AssertionError as error:
        problems.append(str(error))


def _need(module: str, package: str) -> None:
    import importlib.util

    if importlib.util.find_spec(module) is None:
        pytest.fail(f"this fixture needs {module}: pip install '{package}'", pytrace=False)
