"""The gateway for long: memory that does not grow with calls, and a server that is killed under several clients."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tracemalloc
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from mcp import types

from hooksdk import Host
from hooksdk.gateway import Gateway
from hooksdk.mcp import McpServers
from tests.hooksdk.gateways import client, gateway, source, text_of

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
OURS = ("*/hooksdk/*", "*/builtin_plugins/*", "*/mcp/*")  # the tests' folder among them
WORKING = Path(__file__).parents[1] / "servers" / "working.py"


@pytest.mark.parametrize("calls", [200, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_what_is_held_in_memory_does_not_grow_with_the_calls_of_a_client(calls: int) -> None:
    tools = source()
    async with gateway(tools) as made, client(made) as connected:

        async def call(times: int) -> int:
            for number in range(times):
                await connected.call_tool("read_note", {"path": f"{number:05} " * 2_000})
            tools.executed.clear()
            gc.collect()
            # What other tests left running in this process counts elsewhere.
            traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, path) for path in OURS])
            return sum(line.size for line in traces.statistics("filename"))

        tracemalloc.start()
        try:
            await call(50)
            before = await call(50)
            after = await call(calls)
        finally:
            tracemalloc.stop()
    # The times of the last 1,000 calls are held, 0.5 kB each; one call's arguments alone are 12 kB.
    assert after - before < 700_000


@pytest.mark.in_ci(anyio_backend=["asyncio"])
@pytest.mark.both_loops
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
async def test_a_server_killed_under_several_clients_fails_their_calls_and_serves_the_next(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(WORKING), str(tmp_path)]}
    died: list[types.CallToolResult] = []
    async with (
        Host() as host,
        McpServers({"working": entry}) as servers,
        Gateway(host, servers) as made,
        AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(client(made)) for _ in range(3)]
        pid = int(text_of(await clients[0].call_tool("process_id")))
        async with anyio.create_task_group() as group:

            async def work(number: int) -> None:
                died.append(await clients[number].call_tool("work", {"name": str(number)}))

            for number in range(3):
                group.start_soon(work, number)
            await begun(tmp_path, ["0", "1", "2"])
            os.kill(pid, signal.SIGKILL)
        answers = [text_of(await one.call_tool("process_id")) for one in clients]
    assert [result.is_error for result in died] == [True] * 3
    assert all("may have taken effect" in text_of(result) for result in died)
    assert len(set(answers)) == 1
    assert int(answers[0]) != pid


async def begun(folder: Path, names: Sequence[str]) -> None:
    """Wait until the server has begun these calls."""
    with anyio.fail_after(60):
        while not all([await anyio.Path(folder, name).exists() for name in names]):
            await anyio.sleep(0.02)
