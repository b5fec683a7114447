"""`hooksdk gateway` as a process, with the official client: what servers ask through it, and how it ends over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.hooksdk.gateways import ERAS, http_client, text_of
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


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_gateway_over_http_ends_cleanly_with_clients_and_calls_open(
    tmp_path: Path, home: Path, how: signal.Signals
) -> None:
    notes, results, lines, code = tmp_path / "notes", list[str](), bytearray(), None

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
    async with await anyio.open_process(command(tmp_path, home, "", "--http", "127.0.0.1:0")) as process:
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
                    group.start_soon(hang, address, era)
                    group.start_soon(rest, address, era)
                await until(lambda: len(idle) == len(ERAS) and notes.exists() and notes.read_text().count("began") == 2)
                process.send_signal(how)
                with anyio.fail_after(15):
                    code = await process.wait()
                    while len(results) < len(ERAS):
                        await anyio.sleep(0.02)
                group.cancel_scope.cancel()
        finally:
            if process.returncode is None:
                process.kill()
    assert code == (130 if how == signal.SIGINT else 0)
    # A stream that is cut off at the signal loses its answer; nothing else is said to anybody.
    assert len(results) == len(ERAS)
    assert set(results) <= {"'hang' was cancelled while it ran." + MAY_HAVE, "no answer"}
    assert notes.read_text().count("cancelled") == len(ERAS)
    told = [line.split()[0] for line in lines.decode().splitlines()]
    assert told == ["policies", "servers", "serving", *(["hooksdk:"] if how == signal.SIGINT else [])], lines.decode()
