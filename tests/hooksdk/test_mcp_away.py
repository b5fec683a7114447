"""An MCP server that cannot be reached keeps its tools while it is wanted, and a call says why it was not made."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_servers import find, until
from scripted_servers import Scripted

from hooksdk import Host, Run, Tool, ToolCall
from hooksdk.agent import run_agent
from hooksdk.gateway import Gateway
from hooksdk.mcp import McpServers
from hooksdk.testing import ScriptedModel, call
from tests.hooksdk.gateways import ERAS, client, text_of

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="ends processes as POSIX does"),
]


class Lab:
    """An MCP server on loopback that answers as a test says: as a server does, with an HTTP status, never, or not at all."""

    def __init__(self) -> None:
        self.tools = ["whoami", "old"]
        self.status = 0
        """What each request is answered with; 0: as a server does."""
        self.silent = False
        self.called = threading.Event()
        """A call of `slow` is under way."""
        self.go = threading.Event()
        self._listener: ThreadingHTTPServer | None = None
        self._port = 0
        self.listen()

    @property
    def entry(self) -> dict[str, Any]:
        return {"url": f"http://127.0.0.1:{self._port}/mcp"}

    def listen(self) -> None:
        self._listener = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler())
        self._listener.daemon_threads = True
        self._port = self._listener.server_address[1]
        threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def refuse(self) -> None:
        """Nobody listens any more. Requests that are under way are answered still."""
        if self._listener is not None:
            self._listener.shutdown()
            self._listener.socket.close()
            self._listener = None

    def back(self) -> None:
        self.status, self.silent = 0, False
        self.go.set()
        if self._listener is None:
            self.listen()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        lab = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if lab.silent:
                    lab.go.wait(60)
                if lab.status:
                    self._answer(lab.status)
                elif "id" not in request:
                    self._answer(202)
                else:
                    self._answer(200, {"jsonrpc": "2.0", "id": request["id"], **lab.answer(request)})

            def do_GET(self) -> None:
                self._answer(405)

            def do_DELETE(self) -> None:
                self._answer(200)

            def _answer(self, status: int, body: Mapping[str, Any] | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                if status == 401:
                    self.send_header("WWW-Authenticate", 'Bearer resource_metadata="http://127.0.0.1:9/none"')
                self.end_headers()
                with contextlib.suppress(OSError):  # nobody waits for it
                    self.wfile.write(json.dumps(body).encode() if body else b"")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

        return Handler

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        method, parameters = request["method"], request.get("params", {})
        if method == "initialize":
            about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            return {"result": {**about, "serverInfo": {"name": "lab", "version": "1"}}}
        if method == "tools/list":
            return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]}}
        if method == "tools/call":
            if parameters["name"] == "slow":
                self.called.set()
                self.go.wait(60)
            return {"result": {"content": [{"type": "text", "text": "Ada"}]}}
        return {"error": {"code": -32601, "message": "unknown"}} if method != "ping" else {"result": {}}


@pytest.fixture
def lab() -> Generator[Lab]:
    made = Lab()
    yield made
    made.go.set()
    made.refuse()


Way = tuple[Callable[["Case"], Any], str]


class Case:
    """The servers of a test, of which `lab` goes away."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.program = Scripted(folder / "lab", "whoami", "old", "die")
        self.other = Scripted(folder / "other", "help")
        self.entry = lab.entry
        self.servers = McpServers({})

    def entries(self) -> dict[str, Any]:
        return {"lab": self.entry, "other": self.other.entry}

    async def answers(self, status: int) -> None:
        self.lab.status = status

    async def refuses(self) -> None:
        self.lab.refuse()

    async def is_silent(self) -> None:
        self.lab.silent = True
        self.entry = {**self.entry, "start_timeout": 0.05}
        await self.servers.replace(self.entries())

    async def has_no_address(self) -> None:
        self.entry = {**self.entry, "url": f"http://{'x' * 70}.invalid/mcp"}
        await self.servers.replace(self.entries())

    async def dies(self) -> None:
        self.program.write("whoami", "old", start="refuse")
        execute = find(self.servers, "die").execute
        assert execute is not None
        await execute({})

    async def is_uninstalled(self) -> None:
        self.entry = {"command": "there-is-no-such-server"}
        await self.servers.replace(self.entries())


WAYS: dict[str, Way] = {
    "connection refused": (Case.refuses, "ConnectError"),
    "HTTP 404": (lambda case: case.answers(404), "HTTP 404"),
    "HTTP 410": (lambda case: case.answers(410), "HTTP 410"),
    "HTTP 500": (lambda case: case.answers(500), "HTTP 500"),
    "HTTP 502": (lambda case: case.answers(502), "HTTP 502"),
    "HTTP 503": (lambda case: case.answers(503), "HTTP 503"),
    "silence": (Case.is_silent, "did not answer within 0.05 s"),
    "no address": (Case.has_no_address, "Error"),
    "a process that died": (Case.dies, "exited during its start; it wrote: no licence"),
    "a program that is gone": (Case.is_uninstalled, "the command 'there-is-no-such-server' was not found"),
}
"""How a server goes away, and what a model reads of the cause."""
each_way = pytest.mark.parametrize("way", WAYS)


@asynccontextmanager
async def case_of(way: str, lab: Lab, folder: Path) -> AsyncGenerator[Case]:
    case = Case(lab, folder)
    if way.startswith("a pro"):
        case.entry = case.program.entry
    async with McpServers(case.entries()) as case.servers:
        yield case


async def leave(case: Case, way: str) -> str:
    """Let the server be away, and be known to be; why, as the model reads it."""
    go, reason = WAYS[way]
    await go(case)
    if case.lab.status:  # of a server that answers with an error alone its session stays open
        case.lab.refuse()
        await call_of(case.servers)
        case.lab.listen()
    with anyio.fail_after(120):
        while case.servers.status["lab"].state != "failed" or reason not in case.servers.missing["lab"]:
            await case.servers.refresh()
    return reason


async def call_of(servers: McpServers) -> str:
    execute = find(servers, "whoami").execute
    assert execute is not None
    return (await execute({})).text


def check(text: str, reason: str) -> None:
    """What a model reads of a call."""
    assert "The MCP server 'lab' cannot be reached at the moment (" in text
    assert reason in text
    assert "try again in " in text
    assert "Do not retry" not in text
    assert "may have taken effect" not in text


class Asks:
    """Makes calls in a run, each under an id of its own."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.count = 0

    async def call(self, name: str, /, **arguments: Any) -> str:
        self.count += 1
        return (await self.run.call_tool(ToolCall(id=f"c{self.count}", name=name, arguments=arguments))).text


SEARCH_ON = {"allow": ["tool_search"], "plugins": {"tool_search": {"config": {"enabled": "on"}}}}


@asynccontextmanager
async def run_with(servers: McpServers, config: Mapping[str, Any] | None = None) -> AsyncGenerator[Asks]:
    async with Host(config=config) as host, host.session() as session, session.run() as run:
        await run.resolve_tools(servers.tools)
        yield Asks(run)


# It was there


@each_way
async def test_its_tools_stay_in_a_run_and_say_why_they_cannot_be_called(way: str, lab: Lab, tmp_path: Path) -> None:
    async with case_of(way, lab, tmp_path) as case, run_with(case.servers) as asks:
        assert "cannot be reached" not in await asks.call("whoami")
        reason = await leave(case, way)
        for _ in range(2):  # in the attempt that had it, and in the next
            check(await asks.call("whoami"), reason)
            assert "whoami" in [tool.name for tool in await asks.run.resolve_tools(case.servers.tools)]
        assert "help by" in await asks.call("help")


@each_way
async def test_the_same_holds_for_a_sub_agent(way: str, lab: Lab, tmp_path: Path) -> None:
    async with (
        case_of(way, lab, tmp_path) as case,
        Host() as host,
        host.session() as session,
        session.run() as run,
    ):
        await run.resolve_tools(case.servers.tools)
        reason = await leave(case, way)
        await run.resolve_tools(case.servers.tools)
        async with session.child() as child, child.run() as inner:
            await inner.resolve_tools(case.servers.tools)
            check(await Asks(inner).call("whoami"), reason)


@pytest.mark.parametrize("era", ERAS)
@each_way
async def test_the_same_holds_for_the_client_of_a_gateway(way: str, era: str, lab: Lab, tmp_path: Path) -> None:
    async with (
        case_of(way, lab, tmp_path) as case,
        Host() as host,
        Gateway(host, case.servers) as gateway,
        client(gateway, era) as connected,
    ):
        before = [tool.name for tool in (await connected.list_tools()).tools]
        await connected.call_tool("whoami", {})
        reason = await leave(case, way)
        result = await connected.call_tool("whoami", {})
        assert result.is_error
        check(text_of(result), reason)
        assert [tool.name for tool in (await connected.list_tools()).tools] == before
        async with client(gateway, era) as another:
            check(text_of(await another.call_tool("whoami", {})), reason)
        assert "help by" in text_of(await connected.call_tool("help", {}))


@each_way
async def test_a_search_finds_its_tools_and_says_that_they_are_not_available(
    way: str, lab: Lab, tmp_path: Path
) -> None:
    async with case_of(way, lab, tmp_path) as case, run_with(case.servers, SEARCH_ON) as asks:
        reason = await leave(case, way)
        await asks.run.resolve_tools(case.servers.tools)
        found = json.loads(await asks.call("tool_search", queries=["whoami"]))
        assert reason in found["not_available"]["lab"]
        assert found["results"][0]["hits"][0]["name"] == "whoami"
        check(await asks.call("tool_call", name="whoami", arguments={}), reason)


@pytest.mark.both_loops
async def test_it_is_called_again_once_it_is_back(lab: Lab, tmp_path: Path) -> None:
    async with case_of("HTTP 404", lab, tmp_path) as case, run_with(case.servers) as asks:
        await leave(case, "HTTP 404")
        check(await asks.call("whoami"), "HTTP 404")
        lab.back()
        with anyio.fail_after(120):
            while "Ada" not in await asks.call("whoami"):
                await anyio.sleep(0.05)


# Nothing is known of it


@each_way
async def test_a_call_of_an_unknown_name_says_which_servers_are_not_reachable(
    way: str, lab: Lab, tmp_path: Path
) -> None:
    answers: list[str] = []
    async with away_from_the_start(way, lab, tmp_path) as case, Host() as host, Gateway(host, case.servers) as gateway:
        model = ScriptedModel(lambda turn: call("whoami") if turn.number == 1 else turn.result.text)
        async with host.session() as session:
            answers += [(await run_agent(session, model, "Who am I?", tools=case.servers.tools)).text]
        async with host.session() as session, session.run() as run:
            await run.resolve_tools(case.servers.tools)
            async with session.child() as child, child.run() as inner:
                await inner.resolve_tools(case.servers.tools)
                answers += [await Asks(inner).call("whoami")]
        for era in ERAS:
            async with client(gateway, era) as connected:
                answers += [text_of(await connected.call_tool("whoami", {}))]
        async with run_with(case.servers, SEARCH_ON) as asks:
            answers += [await asks.call("tool_call", name="whoami", arguments={})]
            assert "lab" in json.loads(await asks.call("tool_search", queries=["who"]))["not_available"]
    assert WAYS[way][1] in answers[0]
    for text in answers:
        assert "there is no " in text
        assert "Not available now: lab (" in text
        assert WAYS[way][1] in text or "it is being started" in text  # once more, a moment later
        assert "Do not retry" not in text


@asynccontextmanager
async def away_from_the_start(way: str, lab: Lab, folder: Path) -> AsyncGenerator[Case]:
    case = Case(lab, folder)
    if way == "a process that died":
        case.entry = case.program.entry
        case.program.write(start="refuse")
    else:
        await WAYS[way][0](case)
    async with McpServers(case.entries()) as case.servers:
        assert case.servers.status["lab"].state == "failed"
        yield case


async def test_a_server_that_waits_for_a_sign_in_says_what_to_type(lab: Lab, tmp_path: Path) -> None:
    async with away_from_the_start("HTTP 404", lab, tmp_path) as case, run_with(case.servers) as asks:
        lab.status = 401
        await case.servers.refresh()
        await asks.run.resolve_tools(case.servers.tools)
        assert "type `hooksdk gateway login lab`" in await asks.call("whoami")


@pytest.mark.parametrize("count", [0, 1, 5, 6, 300])
async def test_of_many_such_servers_five_are_named(count: int) -> None:
    away = {f"server-{number}": "x" * 10_000 for number in range(count)}
    async with Host() as host, host.session() as session, session.run() as run:
        await run.resolve_tools([], missing=away)
        text = await Asks(run).call("whoami")
    assert text.count("server-") == min(count, 5)
    assert (f"; {count - 5} more." in text) is (count > 5)
    assert len(text) < 1500


# It has really changed


async def test_a_tool_that_a_server_does_not_list_any_more_is_removed(lab: Lab, tmp_path: Path) -> None:
    async with case_of("HTTP 404", lab, tmp_path) as case, run_with(case.servers) as asks:
        lab.tools.remove("old")
        await case.servers.refresh()
        case.other.write("help", start="refuse")
        await asks.run.resolve_tools(case.servers.tools, missing={"other": "it is away"})
        gone = "'old' was not run: there is no such tool any more. Do not retry."
        assert await asks.call("old") == gone
        assert await asks.call("mcp:lab:old") == gone.replace("old", "mcp:lab:old")


async def test_a_tool_that_a_server_has_not_when_it_is_back_is_removed(lab: Lab, tmp_path: Path) -> None:
    async with case_of("HTTP 404", lab, tmp_path) as case, run_with(case.servers) as asks:
        await leave(case, "HTTP 404")
        await asks.run.resolve_tools(case.servers.tools)
        lab.tools.remove("old")
        lab.back()
        await case.servers.refresh()
        assert "no longer has a tool 'old'" in await asks.call("old")
        await asks.run.resolve_tools(case.servers.tools)
        assert "there is no such tool any more. Do not retry." in await asks.call("old")


async def test_a_server_that_is_not_in_the_configuration_any_more_is_gone(lab: Lab, tmp_path: Path) -> None:
    async with case_of("HTTP 404", lab, tmp_path) as case, run_with(case.servers) as asks:
        await leave(case, "HTTP 404")
        await case.servers.replace({"other": case.other.entry})
        assert "'lab' is not in the configuration any more" in await asks.call("whoami")
        await asks.run.resolve_tools(case.servers.tools)
        assert "there is no such tool any more. Do not retry." in await asks.call("whoami")
        assert [tool.name for tool in asks.run.tools] == ["help"]


async def test_tools_of_another_source_that_are_away_for_now_are_not_removed() -> None:
    lent = Tool(name="lend", source="mcp", owner="library")
    async with Host() as host, host.session() as session, session.run() as run:
        await run.resolve_tools([lent])
        await run.resolve_tools([], missing={"library": "it is closed"})
        for name in ("lend", "mcp:library:lend"):
            text = await Asks(run).call(name)
            assert text == f"'{name}' was not run: there is no such tool. Not available now: library (it is closed)."
        await run.resolve_tools([])
        assert "there is no such tool any more. Do not retry." in await Asks(run).call("lend")


# What was sent, and what was not


@pytest.mark.both_loops
async def test_a_call_that_was_not_sent_is_not_in_doubt_and_one_that_was_is(lab: Lab, tmp_path: Path) -> None:
    lab.tools.append("slow")
    async with case_of("connection refused", lab, tmp_path) as case, run_with(case.servers) as asks:
        texts: dict[str, str] = {}

        async def ask(name: str) -> None:
            texts[name] = await asks.call(name)

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "slow")
            await until(lab.called.is_set)
            assert case.servers.status["lab"].state == "up"
            lab.refuse()
            for name in ("whoami", "old"):
                group.start_soon(ask, name)
            await until(lambda: len(texts) == 3)
        check(texts["whoami"], "ConnectError")
        check(texts["old"], "ConnectError")
        assert "ended during the call of 'slow'" in texts["slow"]
        assert "may have taken effect" in texts["slow"]
        lab.back()
        with anyio.fail_after(120):
            while "Ada" not in (text := await asks.call("whoami")):
                check(text, "ConnectError")
                await anyio.sleep(0.05)
        assert "may have taken effect" in await asks.call("slow")


async def test_a_limit_that_passes_before_anything_is_sent_leaves_nothing_in_doubt(lab: Lab, tmp_path: Path) -> None:
    async with case_of("silence", lab, tmp_path) as case, run_with(case.servers) as asks:
        lab.refuse()
        lab.silent = True
        case.entry = {**case.entry, "timeout": 0.05}
        await case.servers.replace(case.entries())
        await until(lambda: case.servers.status["lab"].failed)
        lab.listen()
        await asks.run.resolve_tools(case.servers.tools)
        text = await asks.call("whoami")
        assert "may have taken effect" not in text
        assert "could not be started within 0.05 s" in text


async def test_it_holds_up_no_call_of_another_server(lab: Lab, tmp_path: Path) -> None:
    async with case_of("silence", lab, tmp_path) as case, run_with(case.servers) as asks:
        lab.silent = True
        await case.servers.replace(
            {"lab": {**case.entry, "timeout": 300, "start_timeout": 300}, "other": case.other.entry}
        )
        async with anyio.create_task_group() as group:
            group.start_soon(asks.call, "whoami")
            with anyio.fail_after(120):
                assert "help by" in await asks.call("help")
                assert case.servers.status["lab"].state == "starting"
            group.cancel_scope.cancel()
