"""MCP servers that die, stall, change or move: what the model is told, and how they come back."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from mcp.client import stdio
from mcp_servers import SERVERS, Progress, alive, find, script, until, use

from hooksdk.mcp import McpServers, ServerStatus
from tests.ports import own_port

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="looks at process ids as POSIX does"),
    pytest.mark.in_ci(anyio_backend=["asyncio"]),
]


on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
"""For what does not depend on the backend and takes seconds."""


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds that a server has to end by itself, or to answer a ping, are too long for every test."""
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 0.3)
    monkeypatch.setattr("hooksdk.mcp._life._PING_TIMEOUT", 0.5)


@pytest.fixture
def port() -> int:
    return own_port()


@pytest.fixture
def web(port: int) -> Iterator[Callable[[], int]]:
    """Starts the HTTP server; a second call replaces it."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        for old in started:
            old.kill()
            old.wait()
        started.append(subprocess.Popen([sys.executable, str(SERVERS / "web.py"), str(port)]))
        for _ in range(1_000):
            with socket.socket() as sock:
                sock.settimeout(0.1)
                if sock.connect_ex(("127.0.0.1", port)) == 0:
                    return started[-1].pid
            time.sleep(0.05)
        raise AssertionError("the HTTP server did not start")

    yield start
    for process in started:
        process.kill()
        process.wait()


# A server that dies


async def test_a_server_that_dies_in_a_call_gives_an_error_at_once_and_is_back_for_the_next() -> None:
    told: list[ServerStatus] = []
    async with McpServers({"dying": script("dying")}, on_status=told.append) as servers:
        first = int((await use(servers, "process_id")).text)
        with anyio.fail_after(120):
            result = await use(servers, "die")
        assert result.is_error
        assert (
            "'dying' ended during the call of 'die': ended the connection; it wrote: fatal: out of cheese"
            in result.text
        )
        assert "check before you repeat it" in result.text
        assert servers.status["dying"].state == "down"
        second = int((await use(servers, "process_id")).text)
    assert not alive(first)
    assert first != second
    assert [status.state for status in told] == ["starting", "up", "down", "starting", "up"]


@on_asyncio
async def test_every_call_under_way_gets_an_error_when_its_server_dies() -> None:
    async with McpServers({"dying": script("dying")}) as servers:
        found: list[bool] = []

        async def ask(name: str) -> None:
            found.append((await use(servers, name)).is_error)

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask, "die")
        assert found == [True, True, True]


async def test_asking_for_tools_starts_a_dead_server_again_and_keeps_its_tools_meanwhile() -> None:
    async with McpServers({"dying": script("dying")}) as servers:
        await use(servers, "die")
        assert len(servers.tools()) == 2
        await until(lambda: servers.status["dying"].state == "up")
        assert len(servers.tools()) == 2


async def test_a_restart_that_fails_is_told_in_words_and_takes_no_tools_away(tmp_path: Path) -> None:
    used_up = tmp_path / "used-up"
    async with McpServers({"dying": script("dying", str(used_up))}) as servers:
        tool = find(servers, "process_id")
        await use(servers, "die")
        used_up.touch()
        assert tool.execute is not None
        result = await tool.execute({})
        assert result.is_error
        assert "'dying' cannot be reached at the moment (exited during its start; it wrote:" in result.text
        assert "the licence is used up" in result.text
        assert result.text.endswith(" s, go on without its tools, or tell the user.")
        assert len(servers.tools()) == 2
        used_up.unlink()
        await servers.refresh()
        assert len(servers.tools()) == 2


@on_asyncio
async def test_a_server_that_keeps_dying_is_left_alone_longer_each_time() -> None:
    async with McpServers({"dying": script("dying")}) as servers:
        tool = find(servers, "die")
        assert tool.execute is not None
        for _ in range(4):
            assert "ended during the call" in (await tool.execute({})).text
        refused = await tool.execute({})
        assert "cannot be reached at the moment" in refused.text
        assert "try again in " in refused.text


def test_one_object_may_be_entered_again_even_on_another_event_loop() -> None:
    servers = McpServers({"plain": script("quick")})

    async def add() -> str:
        async with servers:
            return (await use(servers, "add", a=1, b=2)).text

    assert [anyio.run(add, backend="trio"), anyio.run(add)] == ["3", "3"]
    assert servers.tools() == []


# A server that stalls


@on_asyncio
async def test_a_slow_call_is_cut_off_and_leaves_the_server_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooksdk.mcp._life._PING_TIMEOUT", 30)
    async with McpServers({"stalling": script("stalling")}, call_timeout=2.0) as servers:
        pid = (await use(servers, "process_id")).text
        result = await use(servers, "slow")
        assert "'slow' of the MCP server 'stalling' did not answer within 2 s and was cancelled" in result.text
        assert (await use(servers, "process_id")).text == pid


async def test_a_stalled_server_is_replaced_for_the_next_call() -> None:
    async with McpServers({"stalling": script("stalling", timeout=2.0)}) as servers:
        pid = int((await use(servers, "process_id")).text)
        assert "did not answer within 2 s" in (await use(servers, "stall")).text
        await servers.refresh()
        assert int((await use(servers, "process_id")).text) != pid
        assert not alive(pid)


@on_asyncio
async def test_a_server_that_stalls_in_a_cancelled_call_is_replaced_within_the_next_call(tmp_path: Path) -> None:
    note = tmp_path / "stalls"
    async with McpServers({"stalling": script("stalling", str(note))}) as servers:
        pid = int((await use(servers, "process_id")).text)
        async with anyio.create_task_group() as group:
            group.start_soon(use, servers, "stall")
            await until(note.exists)
            group.cancel_scope.cancel()
        assert int((await use(servers, "process_id")).text) != pid
        assert not alive(pid)


# A server whose tools change


async def test_a_changed_list_counts_from_the_next_tools() -> None:
    async with McpServers({"changing": script("changing")}) as servers:
        before = servers.tools()
        assert [tool.name for tool in before] == ["grow", "shrink", "vanish"]
        await use(servers, "grow")
        await until(lambda: len(servers.tools()) == 4)
        assert len(before) == 3
        assert servers.status["changing"].tools == 4


async def test_a_tool_that_vanished_answers_with_an_error_that_names_it() -> None:
    async with McpServers({"changing": script("changing")}) as servers:
        vanish = find(servers, "vanish")
        await use(servers, "shrink")
        await until(lambda: len(servers.tools()) == 2)
        assert vanish.execute is not None
        result = await vanish.execute({})
        assert result.is_error
        assert result.text == ("The MCP server 'changing' no longer has a tool 'vanish'. It now has: grow, shrink.")


# A server on the web


# On trio httpx2 leaves the generators of a server's event stream to the garbage collector, which trio remarks on.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_server_over_http_lists_calls_and_tells_progress(port: int, web: Callable[[], int]) -> None:
    pid = web()
    entry = {
        "type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer s3cret-token"}
    }  # fmt: skip
    async with McpServers({"web": entry}) as servers:
        assert servers.status["web"].version == "9"
        assert (await use(servers, "process_id")).text == str(pid)
        context = Progress()
        assert (await use(servers, "steps", context)).text == "done"
        assert ("step 3", 1.0) in context.told
        died = await use(servers, "die")
        assert died.is_error
        assert "'web' ended during the call of 'die'" in died.text
        assert (await use(servers, "process_id")).is_error
        again = web()
        await servers.refresh()
        assert (await use(servers, "process_id")).text == str(again)
        restarted = web()
        assert (await use(servers, "process_id")).text == str(restarted)


async def test_a_refused_token_is_reported_without_the_token(port: int, web: Callable[[], int]) -> None:
    web()
    entry = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer s3cret-wrong"}}
    async with McpServers({"web": entry}) as servers:
        status = servers.status["web"]
    assert status.state == "failed"
    assert "HTTP 401 Unauthorized" in status.problem
    assert "s3cret" not in status.problem


# Servers as people use them

REAL = {
    "git": {"command": "mcp-server-git"},
    "time": {"command": "mcp-server-time", "args": ["--local-timezone=UTC"]},
    "fetch": {"command": "mcp-server-fetch"},
    "excel": {"command": "excel-mcp-server", "args": ["stdio"]},
    "word": {"command": "word_mcp_server"},
}


@pytest.mark.in_ci(False)
@on_asyncio
async def test_five_servers_from_pypi_start_and_answer() -> None:
    async with McpServers(REAL) as servers:
        missing = [name for name, status in servers.status.items() if "was not found" in status.problem]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)}; pip install 'hooksdk[demo]'")
        counts = Counter(tool.owner for tool in servers.tools())
        assert counts == {"git": 12, "time": 2, "fetch": 1, "excel": 46, "word": 54}
        assert 10_000 < sum(tool.tokens for tool in servers.tools()) < 40_000
        assert not [tool.id for tool in servers.tools() if tool.diagnostics]
        now = await use(servers, "get_current_time", timezone="UTC")
        assert "UTC" in now.text
        assert not now.is_error
