"""What servers say and ask while they serve a call reaches the client of that call, and no other."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import types

from hooksdk import Host
from hooksdk.errors import ConfigError
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.mcp import McpServers
from tests.hooksdk.gateways import ERAS, SEARCH_ON, client, text_of
from tests.hooksdk.mcp_servers import script, until

pytestmark = pytest.mark.anyio
in_both_eras = pytest.mark.parametrize("era", ERAS)
KINDS = ["elicitation", "sampling", "roots"]
TOOLS = ["elicit", "sample", "roots"]


@asynccontextmanager
async def asking(notes: Path, relay: list[str] | None = None, *, search: bool = False) -> AsyncGenerator[Gateway]:
    """A gateway in front of the server that asks."""
    entries, config = {"asking": script("asking", str(notes))}, GatewayConfig.model_validate({"relay": relay or []})
    async with (
        Host(config=SEARCH_ON if search else None) as host,
        McpServers(entries, relay=relay or []) as servers,
        Gateway(host, servers, config=config) as made,
    ):
        yield made


def answering(who: str) -> dict[str, Any]:
    """A client that answers everything."""

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        assert params.message == "Who are you?"
        return types.ElicitResult(action="accept", content={"name": who})

    async def sample(_context: Any, params: Any) -> types.CreateMessageResult:
        assert params.messages[0].content.text == "Which day is it?"
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text=f"day of {who}"), model="m")

    async def roots(_context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [{"uri": f"file:///{who}"}]})

    return {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}


@in_both_eras
@pytest.mark.parametrize("bridge", [False, True])
async def test_progress_of_a_server_reaches_the_call_it_is_about(tmp_path: Path, era: str, bridge: bool) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with asking(tmp_path / "notes", search=bridge) as made, client(made, era) as connected:
        way: tuple[str, dict[str, Any]] = ("count", {})
        if bridge:
            way = ("tool_call", {"name": "count", "arguments": {}})
        assert text_of(await connected.call_tool(*way, progress_callback=hear)) == "counted"
        assert text_of(await connected.call_tool(*way)) == "counted"
    assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@in_both_eras
async def test_a_call_that_its_client_cancels_is_cancelled_at_its_server_and_others_go_on(
    tmp_path: Path, era: str
) -> None:
    notes = tmp_path / "notes"

    def noted(text: str) -> int:
        return notes.read_text().split().count(text) if notes.exists() else 0

    async with asking(notes) as made, client(made, era) as connected, anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def call_and_cancel() -> None:
            with scope:
                await connected.call_tool("hang")

        group.start_soon(call_and_cancel)
        await until(lambda: noted("began"))
        group.start_soon(connected.call_tool, "hang")
        await until(lambda: noted("began") == 2)
        scope.cancel()
        await until(lambda: noted("cancelled"))
        assert text_of(await connected.call_tool("echo")) == "here"
        assert noted("cancelled") == 1
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("tool", "expected"), [("elicit", "accept {'name': 'ann'}"), ("sample", "day of ann"), ("roots", "file:///ann")]
)
async def test_what_a_server_asks_reaches_the_client_of_its_call(tmp_path: Path, tool: str, expected: str) -> None:
    async with asking(tmp_path / "notes", KINDS) as made, client(made, "legacy", **answering("ann")) as ann:
        async with client(made, "legacy", **answering("bob")) as bob:
            await bob.call_tool("echo")
            assert text_of(await ann.call_tool(tool)) == expected


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_server_that_nobody_allowed_to_ask_is_refused(tmp_path: Path, tool: str) -> None:
    async with asking(tmp_path / "notes") as made, client(made, "legacy", **answering("ann")) as connected:
        result = await connected.call_tool(tool)
        assert (result.is_error, "not supported" in text_of(result)) == (True, True)


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_client_that_has_not_declared_it_is_not_asked(tmp_path: Path, tool: str) -> None:
    async with asking(tmp_path / "notes", KINDS) as made, client(made, "legacy") as connected:
        result = await connected.call_tool(tool)
        assert (result.is_error, "the client has not declared" in text_of(result)) == (True, True)


async def test_a_client_without_requests_from_servers_is_not_asked(tmp_path: Path) -> None:
    async with asking(tmp_path / "notes", KINDS) as made, client(made, **answering("ann")) as connected:
        result = await connected.call_tool("elicit")
        assert "no requests from servers" in text_of(result)


async def test_nobody_is_asked_while_calls_of_two_clients_run(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with (
        asking(notes, KINDS) as made,
        client(made, "legacy", **answering("ann")) as ann,
        client(made, "legacy", **answering("bob")) as bob,
        anyio.create_task_group() as group,
    ):
        group.start_soon(bob.call_tool, "hang")
        await until(lambda: notes.exists() and "began" in notes.read_text())
        result = await ann.call_tool("elicit")
        assert "no call of one client that this could belong to" in text_of(result)
        group.cancel_scope.cancel()


async def test_a_servers_long_result_keeps_its_picture(tmp_path: Path) -> None:
    async with asking(tmp_path / "notes") as made, client(made) as connected:
        result = await connected.call_tool("report")
        assert [block.type for block in result.content] == ["image", "text"]
        assert result.structured_content is None
        (resource,) = (await connected.list_resources()).resources
        (content,) = (await connected.read_resource(resource.uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == "a line of a long report\n" * 12_500 + '\n{"lines": 12500}'


def test_an_unknown_thing_to_relay_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'elicitation'"):
        McpServers({}, relay=["elicitations"])
