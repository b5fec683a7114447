"""`hooksdk gateway` as a process, with the official client: what servers ask through it, and how it ends over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from hooksdk import Tool
from tests.hooksdk.gateways import ERAS, gateway, http_client, source, text_of
from tests.hooksdk.mcp_servers import script, until
from tests.hooksdk.test_gateway_relay import TOOLS, answering
from tests.stage import MAY_HAVE

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="sends signals as POSIX has them"),
]


def command(folder: Path, home: Path, settings: str = "", *options: str) -> list[str]:
    """The gateway in front of the server that asks, by the user's own `settings`."""
    (home / "config" / "hooksdk").mkdir(parents=True)
    (home / "config" / "hooksdk" / "config.toml").write_text(settings)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"asking": script("asking", str(folder / "notes"))}}))
    servers = ["--config", str(folder / "mcp.json"), "--project", str(folder)]
    return [sys.executable, "-m", "hooksdk", "gateway", *servers, *options]


@pytest.mark.in_ci(era=["auto"])
@pytest.mark.parametrize("era", ERAS)
async def test_what_a_server_asks_comes_through_the_command_where_the_configuration_allows_it(
    tmp_path: Path, home: Path, era: str
) -> None:
    program, *arguments = command(tmp_path, home, '[gateway]\nrelay = ["elicitation", "roots"]\n')
    places = {name: os.environ[name] for name in ("HOOKSDK_HOME", "XDG_CONFIG_HOME")}
    server = StdioServerParameters(command=program, args=arguments, env=places)
    async with Client(stdio_client(server), mode=era, **answering("ann")) as connected:
        said = [text_of(await connected.call_tool(tool)) for tool in TOOLS]
    assert said[0] == "accept {'name': 'ann'}"
    assert "not supported" in said[1].lower(), "sampling is not allowed"
    assert said[2] == "file:///ann"


async def end_with_open_calls(
    folder: Path, home: Path, how: signal.Signals, *, stop_wait: float = 0
) -> tuple[list[str], int, list[str]]:
    """What four calls answer that run while the gateway is told to stop, beside clients that only listen; its exit code and
    what it has said. Where it waits for them, it is told once more."""
    notes, results, lines, code = folder / "notes", list[str](), bytearray(), None
    open_calls = [era for era in ERAS for _ in range(2)]

    def url() -> str | None:
        found = re.search(rb"serving +(http\S+)", lines)
        return found[1].decode() if found else None

    async def hang(address: str, era: str) -> None:
        said = "no answer"
        try:
            async with http_client(address, era) as connected:
                said = text_of(await connected.call_tool("hang"))
        except Exception as problem:  # a client may mind that nobody hears it leave
            traceback.print_exception(problem)
        results.append(said)

    async def rest(address: str, era: str) -> None:
        async with http_client(address, era) as connected:
            await connected.list_tools()
            idle.append(connected)
            await anyio.sleep_forever()

    idle: list[Client] = []
    started = command(folder, home, f"[gateway]\nstop_wait = {stop_wait}\n", "--http", "127.0.0.1:0")
    async with await anyio.open_process(started) as process:
        assert process.stderr is not None

        async def read() -> None:
            assert process.stderr is not None
            async for chunk in process.stderr:
                lines.extend(chunk)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(read)
                await until(url, 60)
                address = url() or ""
                for era in ERAS:
                    group.start_soon(rest, address, era)
                for era in open_calls:
                    group.start_soon(hang, address, era)
                await until(
                    lambda: (
                        len(idle) == len(ERAS)
                        and notes.exists()
                        and notes.read_text().count("began") == len(open_calls)
                    )
                )
                process.send_signal(how)
                if stop_wait:
                    await until(lambda: b"stopping" in lines)
                    process.send_signal(how)
                with anyio.fail_after(120):
                    code = await process.wait()
                    while len(results) < len(open_calls):
                        await anyio.sleep(0.02)
                group.cancel_scope.cancel()
        finally:
            if process.returncode is None:
                process.kill()
    assert code is not None
    assert notes.read_text().count("cancelled") == len(open_calls)
    return results, code, [line.split()[0] for line in lines.decode().splitlines()]


CANCELLED = "'hang' was cancelled while it ran." + MAY_HAVE


@pytest.mark.in_ci(how=["SIGTERM"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_gateway_over_http_that_ends_answers_every_open_call(
    tmp_path: Path, home: Path, how: signal.Signals
) -> None:
    results, code, told = await end_with_open_calls(tmp_path, home, how)
    assert results == [CANCELLED] * 4
    assert code == (130 if how == signal.SIGINT else 0)
    assert told == ["policies", "servers", "serving", *(["hooksdk:"] if how == signal.SIGINT else [])]


@pytest.mark.in_ci(False)
async def test_who_presses_ctrl_c_again_waits_for_no_call(tmp_path: Path, home: Path) -> None:
    results, code, told = await end_with_open_calls(tmp_path, home, signal.SIGINT, stop_wait=600)
    assert (results, code) == ([CANCELLED] * 4, 130)
    assert told == ["policies", "servers", "serving", "stopping", "hooksdk:"]


@pytest.mark.slow
@pytest.mark.parametrize("run", range(100))
async def test_no_open_call_loses_its_answer_in_a_hundred_ends(tmp_path: Path, home: Path, run: int) -> None:
    how = signal.SIGTERM if run % 2 else signal.SIGINT
    results, _code, _told = await end_with_open_calls(tmp_path, home, how)
    print("answered", results.count(CANCELLED), "of", len(results))
    assert results == [CANCELLED] * 4


async def test_a_call_that_ends_by_itself_soon_is_waited_for(tmp_path: Path) -> None:
    tools, began, go_on = source(), anyio.Event(), anyio.Event()

    async def slow(_arguments: dict[str, Any]) -> str:
        began.set()
        await go_on.wait()
        return "done"

    tools.listed = [*tools.listed, Tool(name="slow", source="mcp", owner="notes", execute=slow)]
    urls: list[str] = []
    stopped: list[int] = []
    results: list[str] = []
    async with gateway(tools) as made, anyio.create_task_group() as clients, anyio.create_task_group() as group:
        group.start_soon(partial(made.serve_http, on_listening=urls.append, on_stopping=stopped.append))
        await until(lambda: urls)

        async def call(era: str) -> None:
            async with http_client(urls[0], era) as connected:
                await connected.list_tools()  # else the client would do so afterwards
                results.append(text_of(await connected.call_tool("slow", {})))

        clients.start_soon(call, "auto")
        await began.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await until(lambda: stopped)
            base = urls[0].removesuffix("/mcp")
            async with httpx2.AsyncClient(timeout=60) as http:
                refused = await http.post(urls[0], json={})
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
                assert (await http.get(f"{base}/ready")).status_code == 503
                assert (await http.get(f"{base}/health")).text == "ok"
            go_on.set()
    assert (stopped, results) == ([1], ["done"])
