"""Over HTTP of 2025-11-25: a client whose connection breaks comes back for its answer; one that does not has its call ended."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import JSONRPCNotification, JSONRPCResponse

from hooksdk import Tool
from hooksdk.gateway._answers import GRACE, MOST_CHARS, MOST_EVENTS, Events, RequestConnection
from tests.hooksdk.gateways import Source
from tests.hooksdk.mcp_servers import until
from tests.hooksdk.test_gateway_transports import listening

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
ACCEPT = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


class Slow(Source):
    """A tool that takes as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.began, self.cancelled = anyio.Event(), anyio.Event(), False

        async def wait(_arguments: dict[str, Any]) -> str:
            self.began.set()
            try:
                await self.go.wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled = True
                raise
            return "it is done"

        self.listed = [Tool(name="wait", source="mcp", owner="slow", parameters={"type": "object"}, execute=wait)]


class Session:
    """A client that speaks HTTP itself."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http, self.url, self.headers = http, url, dict(ACCEPT)

    async def begin(self) -> None:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        async with self._post(0, "initialize", about) as response:
            self.headers["mcp-session-id"] = response.headers["mcp-session-id"]
            async for _ in events(response):
                pass
        message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.http.post(self.url, json=message, headers=self.headers)).status_code == 202

    @asynccontextmanager
    async def calling(self) -> AsyncGenerator[httpx2.Response]:
        """A call, whose connection breaks when the block is left."""
        async with self._post(1, "tools/call", {"name": "wait", "arguments": {}}) as response:
            yield response

    @asynccontextmanager
    async def _post(self, number: int, method: str, params: Any) -> AsyncGenerator[httpx2.Response]:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        async with self.http.stream("POST", self.url, json=message, headers=self.headers) as response:
            assert response.status_code == 200
            yield response

    @asynccontextmanager
    async def back_after(self, event_id: str) -> AsyncGenerator[httpx2.Response]:
        """The client comes back."""
        async with self.http.stream("GET", self.url, headers={**self.headers, "last-event-id": event_id}) as response:
            yield response


async def events(response: httpx2.Response) -> AsyncGenerator[tuple[str, str]]:
    """The id and the data of each event."""
    event_id = ""
    async for line in response.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "id":
            event_id = value
        elif line.startswith("data:"):
            yield event_id, value


@asynccontextmanager
async def session(tools: Slow) -> AsyncGenerator[Session]:
    async with listening(tools=tools) as (_, url), httpx2.AsyncClient(timeout=30) as http:
        made = Session(http, url)
        await made.begin()
        yield made


async def first_id(response: httpx2.Response) -> str:
    return await anext(event_id async for event_id, _ in events(response))


async def answer(response: httpx2.Response) -> Any:
    """The first message that comes with a text."""
    return json.loads(await anext(data async for _, data in events(response) if data))


async def test_a_client_that_comes_back_gets_the_answer_that_it_has_missed() -> None:
    tools = Slow()
    async with session(tools) as client:
        async with client.calling() as response:
            event_id = await first_id(response)
            await tools.began.wait()
        tools.go.set()
        async with client.back_after(event_id) as response:
            said = await answer(response)
        assert (said["id"], said["result"]["content"][0]["text"]) == (1, "it is done")
        async with client.back_after(event_id) as response:
            assert await answer(response) == said


async def test_a_client_that_is_back_before_the_answer_may_wait_for_it() -> None:
    tools = Slow()
    async with session(tools) as client:
        async with client.calling() as response:
            event_id = await first_id(response)
            await tools.began.wait()
        async with client.back_after(event_id) as response:
            tools.go.set()
            assert (await answer(response))["result"]["content"][0]["text"] == "it is done"


@pytest.mark.jumping_clock
async def test_the_call_of_a_client_that_is_back_goes_on_however_long_it_takes() -> None:
    events, heard = Events(), list[bool]()
    connection, call = RequestConnection(events), anyio.CancelScope()
    connection.stream, connection.call = "1", call

    async def wait() -> None:
        heard.append(await events.wait_for_client(connection))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(0.9 * GRACE)
        with events.listening("1"):
            await anyio.sleep(10 * GRACE)
            assert not call.cancel_called
            connection.call = None
            events.tell_news()
            await anyio.wait_all_tasks_blocked()
    assert heard == [True]


async def test_the_call_of_a_client_that_stays_away_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooksdk.gateway._answers.GRACE", 0.1)
    tools = Slow()
    async with session(tools) as client:
        async with client.calling() as response:
            event_id = await first_id(response)
            await tools.began.wait()
        await until(lambda: tools.cancelled)
        async with client.back_after(event_id) as response:
            said = (await answer(response))["error"]
        assert (said["code"], said["message"]) == (-32800, "its client has gone and did not come back")


async def test_one_session_is_sent_nothing_of_another() -> None:
    tools = Slow()
    async with session(tools) as client:
        tools.go.set()
        async with client.calling() as response:
            sent = [event async for event in events(response)]
        assert "it is done" in sent[-1][1]
        event_id = sent[0][0]
        other = Session(client.http, client.url)
        await other.begin()
        async with other.back_after(event_id) as response:
            with anyio.move_on_after(0.5):
                assert [data async for _, data in events(response) if "it is done" in data] == []


def message(number: int, text: str = "") -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={"text": text})


async def replayed(kept: Events, after: str) -> list[Any]:
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event.message)

    await kept.replay_events_after(after, send)
    return sent


async def test_what_is_kept_is_bounded_and_the_newest_answer_always_is() -> None:
    kept = Events()
    first = await kept.store_event("0", None)
    for number in range(MOST_EVENTS):
        await kept.store_event(str(number), message(number))
    assert kept.stream_of(first) is None
    last = await kept.store_event("long", None)
    await kept.store_event("long", message(1, "x" * (2 * MOST_CHARS)))
    assert kept.stream_of(last) is None
    assert await replayed(kept, last) == []
    note = JSONRPCNotification(jsonrpc="2.0", method="notifications/message")
    after = await kept.store_event("note", None)
    await kept.store_event("note", note)
    assert await replayed(kept, after) == [note]


async def test_an_event_that_nobody_knows_brings_nothing_back() -> None:
    kept = Events()
    await kept.store_event("1", message(1))
    for unknown in ("", "17", "-1", "'; --", "1.0"):
        assert await replayed(kept, unknown) == []
