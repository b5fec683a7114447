"""A client that can open a page is given the one on which its person signs in to a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, UrlElicitationRequiredError, types
from mcp_servers import until

from hooksdk import Host
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.mcp import McpServers
from hooksdk.mcp.sign_in import SignIns
from tests.hooksdk.gateways import ERAS, SEARCH_ON, http_client, names, text_of
from tests.hooksdk.oauth_server import Browser, HostedServer, hosted

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
in_both_eras = pytest.mark.parametrize("era", ERAS)
CURE = "type `hooksdk gateway login docs`"


@pytest.fixture
def server() -> Generator[HostedServer]:
    with hosted() as server:
        yield server


@pytest.fixture
async def servers(tmp_path: Path, server: HostedServer) -> McpServers:
    kept = SignIns(tmp_path / "sign-ins", clock=lambda: server.now)
    return McpServers({"docs": server.entry()}, sign_ins=kept)


class Person:
    """Somebody before a client that opens pages."""

    def __init__(self, *, comes: bool = True, then: Callable[[], Awaitable[object]] | None = None) -> None:
        self.browser = Browser()
        self._then = then
        self.shown: list[types.ElicitRequestParams] = []
        self.over: list[str | None] = []
        self._comes = comes

    async def __call__(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.shown.append(params)
        assert isinstance(params, types.ElicitRequestURLParams)
        if not self._comes:
            return types.ElicitResult(action="decline")
        await self.browser(params.url)
        if self._then is not None:
            await self._then()
        return types.ElicitResult(action="accept")

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            self.over.append(message.params.elicitation_id)


@asynccontextmanager
async def client(servers: McpServers, era: str, person: Person | None, **config: Any) -> AsyncGenerator[Client]:
    """The official client at a gateway in front of the server."""
    search = SEARCH_ON if config.pop("search", False) else None
    options: dict[str, Any] = {"elicitation_callback": person, "message_handler": person.hear} if person else {}
    settings = GatewayConfig.model_validate(config)
    async with (
        servers, Host(config=search) as host, Gateway(host, servers, config=settings) as gateway,
        Client(gateway.server(), mode=era, **options) as connected,
    ):  # fmt: skip
        yield connected


async def call(connected: Client, person: Person, name: str, arguments: dict[str, Any]) -> str:
    """What comes of a call. In the old protocol its client opens the page that the error brings, and calls again."""
    try:
        return text_of(await connected.call_tool(name, arguments))
    except MCPError as problem:
        assert problem.error.code == types.URL_ELICITATION_REQUIRED  # noqa: PT017 - the call is made again below
        (page,) = UrlElicitationRequiredError.from_error(problem.error).elicitations
        await person(None, page)
        await until(lambda: person.over == [page.elicitation_id])
        return text_of(await connected.call_tool(name, arguments))


@in_both_eras
async def test_a_call_whose_sign_in_is_over_brings_the_page_and_runs_when_it_is_made_again(
    server: HostedServer, servers: McpServers, era: str
) -> None:
    await servers.sign_ins.sign_in("docs", Browser())
    person = Person()
    async with client(servers, era, person) as connected:
        assert text_of(await connected.call_tool("whoami", {})) == "ann"
        server.end_all()
        assert await call(connected, person, "whoami", {}) == "ann"
    (page,) = person.shown
    assert page.message == "Sign in to the MCP server 'docs'."
    assert (server.seen["page"], server.seen["tools/call"], server.seen["registered"]) == (2, 2, 1)


@in_both_eras
async def test_a_server_that_was_never_listed_is_signed_in_to_by_a_tool_that_goes_again(
    server: HostedServer, servers: McpServers, era: str
) -> None:
    person = Person()
    async with client(servers, era, person) as connected:
        assert await names(connected) == ["sign-in"]
        assert await call(connected, person, "sign-in", {"server": "docs"}) == (
            "You are signed in to 'docs': its tools are there now."
        )
        assert await names(connected) == ["whoami"]
        assert text_of(await connected.call_tool("whoami", {})) == "ann"
    assert server.seen["page"] == 1


@in_both_eras
async def test_a_server_that_is_there_before_the_tool_is_called_again_was_signed_in_to_all_the_same(
    servers: McpServers, era: str
) -> None:
    async def be_there() -> None:
        while await servers.open_page("docs") is not None:
            await anyio.sleep(0.01)
        await servers.tools_known()

    person = Person(then=be_there)
    async with client(servers, era, person) as connected:
        assert await names(connected) == ["sign-in"]
        said = await call(connected, person, "sign-in", {"server": "docs"})
        assert said == "You are signed in to 'docs': its tools are there now."
        assert await names(connected) == ["whoami"]


async def test_a_server_needs_its_sign_in_also_while_it_is_tried_again(servers: McpServers) -> None:
    async with servers:
        await servers.ready()
        while servers.status["docs"].state != "starting":
            servers.tools()  # as before each call
            await anyio.sleep(0)
        assert list(servers.signed_out) == ["docs"]
        assert CURE in servers.missing["docs"]
        await servers.sign_ins.sign_in("docs", Browser())
        await servers.refresh()
        assert (servers.signed_out, servers.missing) == ({}, {})


@in_both_eras
async def test_a_search_tells_of_both_ways(servers: McpServers, era: str) -> None:
    async with client(servers, era, Person(), search=True) as connected:
        found = text_of(await connected.call_tool("tool_search", {"queries": ["docs"]}))
        assert f"it needs a sign-in: {CURE}, or call sign-in" in found


@in_both_eras
async def test_a_client_that_opens_no_pages_gets_what_to_type_and_no_client_is_registered(
    server: HostedServer, servers: McpServers, era: str
) -> None:
    await servers.sign_ins.sign_in("docs", Browser())
    async with client(servers, era, None) as connected:
        assert await names(connected) == ["whoami"]
        server.end_all()
        assert CURE in text_of(await connected.call_tool("whoami", {}))
        assert await names(connected) == ["whoami"]
    assert server.seen["page"] == 1


async def test_a_person_who_does_not_want_to_is_not_asked_again_for_this_call(
    server: HostedServer, servers: McpServers
) -> None:
    await servers.sign_ins.sign_in("docs", Browser())
    person = Person(comes=False)
    async with client(servers, "auto", person) as connected:
        assert text_of(await connected.call_tool("whoami", {})) == "ann"
        server.end_all()
        result = text_of(await connected.call_tool("whoami", {}))
        assert result == "'whoami' was not run: the person at the client does not sign in to 'docs' now."
    assert len(person.shown) == 1


async def test_calls_that_need_the_same_sign_in_share_one_page(server: HostedServer, servers: McpServers) -> None:
    pages: list[Any] = []
    async with servers, anyio.create_task_group() as group:

        async def open_one() -> None:
            pages.append(await servers.open_page("docs"))

        for _ in range(3):
            group.start_soon(open_one)
    assert len({page.id for page in pages}) == 1
    assert server.seen["registered"] == 1


async def test_over_http_each_token_is_signed_in_by_itself(
    server: HostedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = {"ann": "a" * 20, "bob": "b" * 20}
    for name, token in tokens.items():
        monkeypatch.setenv(name, token)
    kept = SignIns(tmp_path / "sign-ins", clock=lambda: server.now)
    servers = McpServers({"docs": server.entry()}, sign_ins=kept, holder=None)
    await servers.sign_ins.sign_in("docs", Browser(), holder="ann")
    config = GatewayConfig.model_validate({"tokens": {name: {"env": name} for name in tokens}})
    urls: list[str] = []
    found: dict[str, str] = {}
    async with (
        servers, Host(config=SEARCH_ON) as host, Gateway(host, servers, config=config) as gateway,
        anyio.create_task_group() as group,
    ):  # fmt: skip
        group.start_soon(lambda: gateway.serve_http(on_listening=urls.append))
        await until(lambda: urls)
        for name, token in tokens.items():
            async with http_client(urls[0], "auto", token) as connected:
                await connected.list_tools()
                found[name] = text_of(await connected.call_tool("tool_search", {"queries": ["who am I"]}))
        group.cancel_scope.cancel()
    assert "not_available" not in found["ann"]
    assert "whoami" in found["ann"]
    assert f'"docs":"it needs a sign-in: {CURE[:-1]} --token bob`"' in found["bob"]
    assert "whoami" not in found["bob"]
