"""Which protocol a server is spoken to in, how that is settled at its start, and how its lines are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from hooksdk import Host
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.mcp import McpServers
from hooksdk.mcp._transport import ENCODING, LineDecoder
from tests.hooksdk.gateways import client, text_of
from tests.hooksdk.mcp_servers import script, use
from tests.hooksdk.scripted_servers import Scripted
from tests.hooksdk.test_gateway_relay import KINDS, answering
from tests.hooksdk.test_gateway_relay import begin as begin_call

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


async def calls_twice(server: Scripted) -> list[list[str]]:
    """What it is asked from one start to the next, each for a call."""
    asked: list[list[str]] = []
    for _ in range(2):
        async with McpServers({"one": server.entry}, lazy=True) as servers:
            await servers.ready()
            assert "add by" in (await use(servers, "add")).text
        asked.append(server.asked)
        (server.folder / "log").unlink()
    return asked


@pytest.mark.both_loops
async def test_a_server_of_the_older_protocol_is_asked_once_whether_it_speaks_the_newer(tmp_path: Path) -> None:
    first, second = await calls_twice(Scripted(tmp_path / "one", "add"))
    assert first == ["start", "server/discover", "initialize", "tools/list", "tools/call"]
    assert second == ["start", "initialize", "tools/list", "tools/call"]


async def test_a_server_that_leaves_the_question_without_an_answer_is_spoken_to_in_the_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk.mcp._life.PATIENCE", 0.3)
    first, second = await calls_twice(Scripted(tmp_path / "one", "add", unknown="ignore"))
    assert first[:3] == ["start", "server/discover", "initialize"]
    assert second[:2] == ["start", "initialize"]


@pytest.mark.both_loops
async def test_a_server_that_dies_of_the_question_is_started_again_and_not_asked(tmp_path: Path) -> None:
    first, second = await calls_twice(Scripted(tmp_path / "one", "add", unknown="die"))
    assert first == ["start", "server/discover", "start", "initialize", "tools/list", "tools/call"]
    assert second == ["start", "initialize", "tools/list", "tools/call"]


def front(servers: McpServers, host: Host, relay: list[str]) -> Gateway:
    return Gateway(host, servers, config=GatewayConfig.model_validate({"relay": relay}))


async def test_a_server_of_both_protocols_asks_each_client_in_the_clients_own(tmp_path: Path) -> None:
    entries = {"asking": script("asking", str(tmp_path / "notes"), "both")}
    async with (
        McpServers(entries, relay=KINDS) as servers,
        Host() as host,
        front(servers, host, KINDS) as made,
        client(made, "legacy", **answering("ann")) as older,
        client(made, "auto", **answering("bob")) as newer,
    ):
        assert text_of(await older.call_tool("ask")) == "accept {'name': 'ann'}"
        assert text_of(await older.call_tool("elicit")) == "accept {'name': 'ann'}"
        assert text_of(await newer.call_tool("ask")) == "accept {'name': 'bob'}"
        asked = await begin_call(newer, "ask")
        assert list(asked.input_requests or {}) == ["who"]
        # As without a gateway: in the newer protocol a server has no requests.
        assert "no back-channel" in text_of(await newer.call_tool("elicit"))
    assert (tmp_path / "notes").read_text() == "answered ['who'] s\n"


async def test_a_server_that_may_ask_nobody_has_one_process_for_clients_of_both(tmp_path: Path) -> None:
    entries = {"plain": script("plain")}
    async with McpServers(entries) as servers, Host() as host, front(servers, host, []) as made:
        pids: list[str] = []
        for era in ("legacy", "auto"):
            async with client(made, era) as connected:
                pids.append(text_of(await connected.call_tool("process_id")))
    assert pids[0] == pids[1]


SAYS = """
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
import anyio

Q = {
    "who": types.ElicitRequest(params=types.ElicitRequestFormParams(message="Who?", requested_schema={"type": "object", "properties": {}})),
    "where": types.ListRootsRequest(),
}

async def list_tools(_context, _params):
    tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("able", "two")]
    return types.ListToolsResult(tools=tools)

async def call_tool(context, params):
    said = context.session.client_capabilities
    able = [kind for kind in ("sampling", "elicitation", "roots") if getattr(said, kind) is not None]
    if params.name == "two":
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests=Q, request_state="s")
        able = list(params.input_responses)
    return types.CallToolResult(content=[types.TextContent(text=" ".join(able))])

async def main():
    server = Server("says", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""


@pytest.fixture
def says(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "says.py").write_text(SAYS)
    return {"says": {"command": sys.executable, "args": [str(tmp_path / "says.py")]}}


async def test_a_server_is_told_what_the_client_of_the_call_can_answer(says: dict[str, Any]) -> None:
    async with McpServers(says, relay=KINDS) as servers, Host() as host, front(servers, host, KINDS) as made:
        only_roots = {"list_roots_callback": answering("ann")["list_roots_callback"]}
        async with client(made, **only_roots) as roots, client(made, **answering("bob")) as everything:
            assert text_of(await roots.call_tool("able")) == "roots"
            assert text_of(await everything.call_tool("able")) == "sampling elicitation roots"
        assert (await use(servers, "able")).text == ""


async def test_what_a_server_asks_at_once_is_asked_at_once_by_its_own_names(says: dict[str, Any]) -> None:
    async with (
        McpServers(says, relay=KINDS) as servers,
        Host() as host,
        front(servers, host, KINDS) as made,
        client(made, **answering("ann")) as connected,
    ):
        asked = await begin_call(connected, "two")
        assert sorted(asked.input_requests or {}) == ["where", "who"]
        roots = types.ListRootsResult.model_validate({"roots": []})
        answers: dict[str, Any] = {"who": types.ElicitResult(action="decline"), "where": roots}
        result = await connected.session.call_tool(
            "two", {}, input_responses=answers, request_state=asked.request_state
        )
        assert text_of(result) == "who where"


async def test_a_line_of_fifty_million_characters_arrives(tmp_path: Path) -> None:
    one = Scripted(tmp_path / "one", "long")
    async with McpServers({"one": one.entry}) as servers:
        assert (await use(servers, "long")).text.startswith("x" * 50_000_000)


@given(st.lists(st.text("aä€😀", max_size=9), max_size=9), st.lists(st.integers(1, 5), max_size=40))
def test_lines_come_as_they_were_however_they_are_cut(lines: list[str], cuts: list[int]) -> None:
    text = "".join(line + "\n" for line in lines)
    data, parts, place = (text + "the rest").encode(), list[bytes](), 0
    for cut in cuts:
        parts.append(data[place : place + cut])
        place += cut
    decoder = LineDecoder()
    read = [decoder.decode(part) for part in [*parts, data[place:]]]
    assert "".join(read) == text
    assert all(piece == "" or piece.endswith("\n") for piece in read)


def test_text_is_written_as_utf8() -> None:
    assert "ä\n".encode(ENCODING) == "ä\n".encode()
