"""A call at the gateway is over for its client once the answer has left; until then a gateway that dies leaves it in doubt.

A store that is copied while another call begins is what a gateway that dies there leaves behind.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from hooksdk import Approval, ApprovalRequest, Host, hooks
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.stores import SqlStore
from tests.hooksdk.gateways import ERAS, Source, client, text_of
from tests.stage import make

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

MAY_HAVE = "may have taken effect"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
LONG = "x" * 300_000
"""More than a pipe holds that nobody reads."""


class Bank:
    """A tool that pays, in front of a store whose folder is copied when it pays Bob."""

    def __init__(self, folder: Path) -> None:
        self.live, self.dead, self.folder = folder / "live", folder / "dead", folder
        self.paid: list[str] = []
        self.asked: list[str] = []
        self.is_over = {who: anyio.Event() for who in ("ann", "bob", "cat")}
        self.goes_on = anyio.Event()

    async def pay(self, arguments: dict[str, Any]) -> str:
        self.paid.append(arguments["path"])
        if arguments["path"] == "bob":
            shutil.copytree(self.live, self.dead)
        if arguments["path"] == "cat":
            await self.goes_on.wait()
        return f"paid {LONG}"

    async def person(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request.title)
        return Approval(False, "it was paid")

    @asynccontextmanager
    async def gateway(self, store: Path) -> AsyncGenerator[Gateway]:
        bank = self

        class Watch:
            @hooks.after_tool_call
            def notice(self, event: hooks.AfterToolCall) -> None:
                bank.is_over[event.arguments["path"]].set()

        async with (
            Host(plugins=[Watch], store=SqlStore(store)) as host,
            Gateway(
                host, Source(listed=[make("pay", self.pay)]), approver=self.person, folder=self.folder,
                config=GatewayConfig(max_result_chars=0),
            ) as made,
        ):  # fmt: skip
            yield made

    async def after_the_crash(self, who: str = "ann") -> str:
        """What a client reads that pays again at the next gateway."""
        async with self.gateway(self.dead) as made, client(made) as connected:
            return text_of(await connected.call_tool("pay", {"path": who}))


class Wire:
    """The way of responses over HTTP, on which some wait."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.holds = ""
        self.let_go = anyio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""

        async def listen() -> Any:
            nonlocal body
            message = await receive()
            body += message.get("body", b"")
            return message

        async def answer(message: Any) -> None:
            if self.holds and self.holds.encode() in body:
                await self.let_go.wait()
            await send(message)

        await self._app(scope, listen, answer)


@asynccontextmanager
async def over_http(made: Gateway, era: str) -> AsyncGenerator[tuple[Wire, Client]]:
    app = made.http_app()
    wire = Wire(app)
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(wire), base_url="http://127.0.0.1")
    async with (
        app.router.lifespan_context(app),
        http,
        Client(streamable_http_client("http://127.0.0.1/mcp", http_client=http), mode=era) as connected,
    ):
        yield wire, connected


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_whose_answer_is_on_its_way_over_http_is_in_doubt_after_a_crash(tmp_path: Path, era: str) -> None:
    bank = Bank(tmp_path)
    async with bank.gateway(bank.live) as made, over_http(made, era) as (wire, connected):
        wire.holds = "ann"
        async with anyio.create_task_group() as group:
            group.start_soon(connected.call_tool, "pay", {"path": "ann"})
            await bank.is_over["ann"].wait()
            await anyio.wait_all_tasks_blocked()
            await connected.call_tool("pay", {"path": "bob"})
            wire.let_go.set()
    assert MAY_HAVE in await bank.after_the_crash()
    assert (bank.paid, len(bank.asked)) == (["ann", "bob"], 1)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_whose_answer_has_left_over_http_is_not_asked_about_after_a_crash(
    tmp_path: Path, era: str
) -> None:
    bank = Bank(tmp_path)
    async with bank.gateway(bank.live) as made, over_http(made, era) as (_, connected):
        await connected.call_tool("pay", {"path": "ann"})
        await anyio.wait_all_tasks_blocked()
        await connected.call_tool("pay", {"path": "bob"})
    assert (await bank.after_the_crash()).startswith("paid")
    assert bank.asked == []


async def test_a_call_that_ends_after_its_client_has_hung_up_is_asked_about_when_it_is_made_again(
    tmp_path: Path,
) -> None:
    bank = Bank(tmp_path)
    async with bank.gateway(bank.live) as made:
        app = made.http_app()
        headers = {"Accept": "application/json, text/event-stream"}
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1", headers=headers
            ) as http,
        ):
            opened = await http.post("/mcp", json=request(0, "initialize", HELLO))
            http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            pay = request(1, "tools/call", {"name": "pay", "arguments": {"path": "cat"}})
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: http.post("/mcp", json=pay))
                await until(bank.paid, "cat")
                group.cancel_scope.cancel()
            bank.goes_on.set()
            await bank.is_over["cat"].wait()
            await anyio.wait_all_tasks_blocked()
            assert MAY_HAVE in (await http.post("/mcp", json={**pay, "id": 2})).text
    assert (bank.paid, len(bank.asked)) == (["cat"], 1)


def request(number: int, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


async def until(paid: list[str], who: str) -> None:
    while who not in paid:
        await anyio.sleep(0.01)


class Pipe:
    """A client at the gateway's stdin and stdout, which reads when it is told to."""

    def __init__(self, to_gateway: int, from_gateway: int) -> None:
        self._to_gateway = to_gateway
        self.answers = os.fdopen(from_gateway, "rb")

    def send(self, number: int, method: str, parameters: dict[str, Any]) -> None:
        os.write(self._to_gateway, json.dumps(request(number, method, parameters)).encode() + b"\n")

    def pay(self, number: int, who: str) -> None:
        self.send(number, "tools/call", {"name": "pay", "arguments": {"path": who}})

    async def read(self) -> Any:
        with anyio.fail_after(120):
            return json.loads(await anyio.to_thread.run_sync(self.answers.readline, abandon_on_cancel=True))


@asynccontextmanager
async def over_stdio(made: Gateway) -> AsyncGenerator[Pipe]:
    (reads, to_gateway), (from_gateway, writes) = os.pipe(), os.pipe()
    pipe = Pipe(to_gateway, from_gateway)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: made.serve_stdio(streams=(reads, writes)))
        with pipe.answers:
            pipe.send(0, "initialize", HELLO)
            await pipe.read()
            yield pipe
            os.close(to_gateway)
    for descriptor in (reads, writes):
        os.close(descriptor)


@pytest.mark.parametrize("is_read", [False, True], ids=["that nobody reads", "that was read"])
async def test_a_call_whose_answer_does_not_go_through_a_pipe_is_in_doubt_after_a_crash(
    tmp_path: Path, *, is_read: bool
) -> None:
    bank = Bank(tmp_path)
    async with bank.gateway(bank.live) as made, over_stdio(made) as pipe:
        pipe.pay(1, "ann")
        await bank.is_over["ann"].wait()
        await anyio.wait_all_tasks_blocked()
        if is_read:
            await pipe.read()
            # The gateway's thread may not be back from its write yet. It is once the next answer is there.
            pipe.send(9, "ping", {})
            await pipe.read()
        pipe.pay(2, "bob")
        await until(bank.paid, "bob")
        for _ in range(1 if is_read else 2):
            await pipe.read()
    assert (MAY_HAVE in await bank.after_the_crash()) == (not is_read)
    assert len(bank.asked) == (not is_read)
