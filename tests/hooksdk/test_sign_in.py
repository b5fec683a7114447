"""Signing in to MCP servers on the web: without a person nothing happens, and with one every process of the user is signed in."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp_servers import until, use

from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers
from hooksdk.mcp._config import read_servers
from hooksdk.mcp.sign_in import SignIn, SignInProblem, SignIns
from hooksdk.mcp.sign_in._auth import SignedIn
from hooksdk.mcp.sign_in._flow import sign_in
from hooksdk.mcp.sign_in._store import OAuthSettings, Target
from tests.hooksdk.oauth_server import Browser, HostedServer, hosted, pasted
from tests.ports import own_port

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
CURE = "type `hooksdk gateway login docs`"


@pytest.fixture
def server() -> Generator[HostedServer]:
    with hosted() as server:
        yield server


@pytest.fixture
def kept(tmp_path: Path, server: HostedServer) -> SignIns:
    """Where the sign-ins are, by the server's clock."""
    return SignIns(tmp_path / "sign-ins", clock=lambda: server.now)


def docs(server: HostedServer, kept: SignIns, /, **options: Any) -> McpServers:
    """The server as one process has it."""
    entry = {key: options.pop(key) for key in ("oauth", "auth", "type") if key in options}
    return McpServers({"docs": server.entry(**entry)}, sign_ins=kept, **options)


async def signed_in(server: HostedServer, kept: SignIns, /, **options: Any) -> McpServers:
    servers = docs(server, kept, **options)
    await servers.sign_ins.sign_in("docs", Browser())
    return servers


async def the_record(server: HostedServer, kept: SignIns) -> SignIn:
    record = await kept.read(server.mcp_url)
    assert record is not None
    return record


# Without a person


async def test_without_a_person_no_client_is_registered_and_no_page_is_opened(
    server: HostedServer, kept: SignIns
) -> None:
    async with docs(server, kept) as servers:
        await servers.refresh()
        status = servers.status["docs"]
        assert (status.state, status.problem) == ("needs sign-in", f"it needs a sign-in: {CURE}")
        assert servers.missing == {"docs": f"it needs a sign-in: {CURE}"}
        assert status.failed
    assert set(server.seen) == {"refused"}


async def test_a_server_with_a_key_of_its_own_in_the_entry_is_not_signed_in_to(
    server: HostedServer, kept: SignIns
) -> None:
    entry = server.entry(headers={"authorization": "Bearer some-key"})
    async with McpServers({"docs": entry}, sign_ins=kept) as servers:
        assert servers.status["docs"].state == "failed"
        assert "HTTP 401 Unauthorized" in servers.status["docs"].problem
        with pytest.raises(SignInProblem, match="'Authorization' header, which is sent instead"):
            await servers.sign_ins.sign_in("docs", Browser())


async def test_a_refusal_of_a_key_in_another_header_is_told_as_it_is(kept: SignIns) -> None:
    with hosted(challenges=False) as server:
        entry = server.entry(headers={"X-API-Key": "some-key"})
        async with McpServers({"docs": entry, "bare": server.entry()}, sign_ins=kept) as servers:
            assert servers.status["docs"].problem == "HTTP 401 Unauthorized"
            assert servers.status["bare"].state == "needs sign-in"


async def test_whether_a_sign_in_is_needed_can_be_asked(server: HostedServer, kept: SignIns) -> None:
    servers = docs(server, kept)
    assert await servers.sign_ins.is_needed("docs")
    await servers.sign_ins.sign_in("docs", Browser())
    assert not await servers.sign_ins.is_needed("docs")
    assert await servers.sign_ins.is_needed("docs", holder="ann")


# With one


async def test_a_running_server_has_its_tools_as_soon_as_somebody_has_signed_in(
    server: HostedServer, kept: SignIns
) -> None:
    async with docs(server, kept) as servers:
        await signed_in(server, kept)  # as another process does
        servers.tools()
        await servers.ready()
        assert servers.status["docs"].state == "up"
        assert (await use(servers, "whoami")).text == "ann"
    assert server.seen["registered"] == server.seen["page"] == 1


async def test_a_sign_in_outlives_the_process_and_is_for_its_user_alone(server: HostedServer, kept: SignIns) -> None:
    await signed_in(server, kept)
    async with docs(server, SignIns(kept.folder, clock=kept.clock)) as servers:
        assert (await use(servers, "whoami")).text == "ann"
    assert stat.S_IMODE(kept.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept.folder.iterdir()} == {0o600}


async def test_the_moment_of_expiry_is_known_after_a_restart_and_the_token_renewed_without_a_refusal(
    server: HostedServer, kept: SignIns
) -> None:
    await signed_in(server, kept)
    refused = server.seen["refused"]
    server.now += server.token_seconds or 0
    async with docs(server, SignIns(kept.folder, clock=kept.clock)) as servers:
        assert (await use(servers, "whoami")).text == "ann"
    assert (server.seen["refreshed"], server.seen["refused"], server.seen["page"]) == (1, refused, 1)


async def test_a_token_that_is_taken_back_early_is_renewed_and_the_call_made_once(
    server: HostedServer, kept: SignIns
) -> None:
    async with await signed_in(server, kept) as servers:
        server.forget_tokens()
        assert (await use(servers, "whoami")).text == "ann"
    assert (server.seen["refreshed"], server.seen["tools/call"]) == (1, 1)


@pytest.mark.both_loops
async def test_two_gateways_share_refresh_tokens_that_rotate(server: HostedServer, kept: SignIns) -> None:
    await signed_in(server, kept)
    answers: list[str] = []
    async with docs(server, kept) as one, docs(server, SignIns(kept.folder, clock=kept.clock)) as other:

        async def call(servers: McpServers) -> None:
            answers.append((await use(servers, "whoami")).text)

        for move in (lambda: None, server.forget_tokens, lambda: setattr(server, "now", server.now + 10_000)):
            move()
            async with anyio.create_task_group() as group:
                group.start_soon(call, one)
                group.start_soon(call, other)
    assert answers == ["ann"] * 6
    assert (server.seen["refreshed"], server.seen["used twice"], server.seen["page"]) == (2, 0, 1)


async def test_a_token_that_never_expires_needs_no_renewal(kept: SignIns, server: HostedServer) -> None:
    server.token_seconds, server.refreshes = None, False
    async with await signed_in(server, kept) as servers:
        server.now += 1e9
        assert (await use(servers, "whoami")).text == "ann"


@pytest.mark.both_loops
async def test_a_call_that_is_cancelled_while_the_token_is_renewed_loses_no_token(
    server: HostedServer, kept: SignIns
) -> None:
    async with await signed_in(server, kept) as servers:
        server.forget_tokens()
        server.gate.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(use, servers, "whoami")
            await until(lambda: server.seen["refreshed"] == 1)  # the old token is worth nothing by now
            group.cancel_scope.cancel()
            server.gate.set()
        assert (await use(servers, "whoami")).text == "ann"
    assert (server.seen["refreshed"], server.seen["used twice"]) == (1, 0)


# When it is over


async def test_a_sign_in_that_was_taken_back_is_told_with_what_to_type_and_nothing_is_in_doubt(
    server: HostedServer, kept: SignIns
) -> None:
    async with await signed_in(server, kept) as servers:
        server.end_all()
        result = await use(servers, "whoami")
        assert result.is_error
        assert result.text == (
            f"The MCP server 'docs' was not called: its sign-in has expired or was taken back: {CURE}. "
            "Tell the user, and go on without its tools."
        )
        assert servers.status["docs"].state == "needs sign-in"
        assert [tool.name for tool in servers.tools()] == ["whoami"]
        assert servers.missing == {"docs": f"its sign-in has expired or was taken back: {CURE}"}
        await servers.sign_ins.sign_in("docs", Browser())
        assert (await use(servers, "whoami")).text == "ann"
    assert server.seen["registered"] == 1  # the client is the one that was registered before


async def test_a_lazy_server_whose_tools_are_known_answers_its_first_call_with_the_cure(
    server: HostedServer, kept: SignIns, tmp_path: Path
) -> None:
    lazy = {"lazy": True, "listings": tmp_path / "listings"}
    async with await signed_in(server, kept, **lazy) as servers:
        await servers.ready()
    server.end_all()
    async with docs(server, kept, **lazy) as servers:
        assert servers.status["docs"].state == "idle"
        assert CURE in (await use(servers, "whoami")).text
        assert servers.missing == {"docs": f"its sign-in has expired or was taken back: {CURE}"}


async def test_an_authorization_server_that_cannot_answer_ends_no_sign_in(server: HostedServer, kept: SignIns) -> None:
    async with await signed_in(server, kept) as servers:
        server.forget_tokens()
        server.token_status = 503
        result = await use(servers, "whoami")
        assert "its sign-in could not be renewed: HTTP 503 Service Unavailable" in result.text
        assert not server.seen["tools/call"]
        server.token_status = 0
        assert (await use(servers, "whoami")).text == "ann"


async def test_a_call_that_needs_more_rights_says_so_and_the_next_sign_in_asks_for_them(
    server: HostedServer, kept: SignIns
) -> None:
    server.wanted_scope = "write"
    async with await signed_in(server, kept) as servers:
        text = (await use(servers, "whoami")).text
        assert f"it asks for more rights (scope write) than the sign-in has: {CURE}" in text
        assert servers.status["docs"].state == "up"
        await servers.sign_ins.sign_in("docs", Browser())
        assert server.asked[-1]["scope"].split() == ["read", "write"]
        assert (await use(servers, "whoami")).text == "ann"


async def test_signing_out_ends_it_at_the_server_and_in_every_process(server: HostedServer, kept: SignIns) -> None:
    async with await signed_in(server, kept) as servers:
        assert await docs(server, kept).sign_ins.sign_out("docs") == ""
        assert server.seen["revoked"] == 2
        assert CURE in (await use(servers, "whoami")).text
        assert await servers.sign_ins.sign_out("docs") is None
    assert await kept.read(server.mcp_url) is None


async def test_signing_out_says_where_the_server_could_not_be_told(server: HostedServer, kept: SignIns) -> None:
    server.revokes = False
    servers = await signed_in(server, kept)
    assert await servers.sign_ins.sign_out("docs") == "the server has no way to be told"
    assert await kept.read(server.mcp_url) is None


# What entries say


def written(folder: Path, name: str, text: dict[str, Any]) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(text))
    return path


CLIENTS: dict[str, tuple[str, str, dict[str, Any], dict[str, str]]] = {
    "Claude Code": (
        ".mcp.json", "mcpServers",
        {"type": "http", "oauth": {"clientId": "mine", "callbackPort": 4711, "scopes": "read write"}},
        {"redirect_uri": "http://localhost:4711/callback", "scope": "read write"},
    ),
    "Cursor": (
        ".cursor/mcp.json", "mcpServers",
        {"auth": {"CLIENT_ID": "mine", "CLIENT_SECRET": "${env:DOCS_SECRET}", "scopes": ["read", "write"]}},
        {"redirect_uri": "http://localhost:8787/callback", "scope": "read write"},
    ),
    "VS Code": (
        ".vscode/mcp.json", "servers",
        {"type": "http", "oauth": {"clientId": "mine", "redirectUri": "http://127.0.0.1:33418/"}},
        {"redirect_uri": "http://127.0.0.1:33418/", "scope": "read"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_of_ones_own_is_taken_from_the_entry_as_each_client_writes_it(
    server: HostedServer, kept: SignIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    monkeypatch.setenv("DOCS_SECRET", "the-secret")
    name, key, entry, page = CLIENTS[client]
    secret = "the-secret" if client == "Cursor" else None
    server.clients["mine"] = {"redirect_uris": [page["redirect_uri"]], "client_secret": secret}
    path = written(tmp_path, name, {key: {"docs": server.entry(**entry)}})
    servers = McpServers.from_file(path, sign_ins=kept)
    await servers.sign_ins.sign_in("docs", show_to(pages := list[str]()), paste=lambda: pasted(pages[0]))
    assert {key: server.asked[0][key] for key in page} == page
    server.now += 10_000
    async with servers:
        assert (await use(servers, "whoami")).text == "ann"
        assert servers.notices == ()
    assert (server.seen["registered"], server.seen["refreshed"]) == (0, 1)


def show_to(pages: list[str]) -> Any:
    async def show(url: str) -> None:
        pages.append(url)

    return show


async def test_the_browser_comes_back_to_the_port_of_the_entry(server: HostedServer, kept: SignIns) -> None:
    port = own_port()
    await signed_in(server, kept, oauth={"callbackPort": port})
    assert server.asked[0]["redirect_uri"] == f"http://localhost:{port}/callback"


async def test_the_authorization_server_may_be_named_by_the_entry(server: HostedServer, kept: SignIns) -> None:
    metadata = f"{server.url}/.well-known/oauth-authorization-server"
    async with await signed_in(server, kept, oauth={"authServerMetadataUrl": metadata}) as servers:
        assert (await use(servers, "whoami")).text == "ann"
    assert server.seen["metadata"] == 1


@pytest.mark.parametrize(
    ("oauth", "problem"),
    [
        ({"clientID": "a"}, "the key 'clientID' is not known here. Did you mean 'clientId'"),
        ("yes", 'expected an object such as {"clientId": "..."}'),
        ({"clientId": 7}, "'clientId': expected text"),
        ({"clientId": "a", "clientSecret": "{{secret:DOCS}}"}, "secrets are filled in in 'env' and 'headers' alone"),
        ({"clientSecret": "s3cret"}, "'clientSecret' belongs to a 'clientId', which is missing"),
        ({"callbackPort": 70_000}, "'callbackPort': expected a port of this machine, such as 8787"),
        ({"redirectUri": "https://elsewhere.example/x"}, "'redirectUri': expected an address of this machine"),
        ({"scopes": 3}, "'scopes': expected a list of texts"),
        ({"authServerMetadataUrl": "http://far.example/x"}, "expected an address that begins with https://"),
    ],
    ids=str,
)
async def test_a_wrong_setting_is_told_with_what_is_expected(oauth: object, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        McpServers({"docs": {"url": "https://docs.example/mcp", "oauth": oauth}})
    assert str(error.value).startswith("mcpServers: server 'docs'")
    assert problem in str(error.value)
    assert "s3cret" not in str(error.value)


# What goes wrong


async def failure(servers: McpServers, show: Any, **options: Any) -> str:
    with pytest.raises(SignInProblem) as error:
        await servers.sign_ins.sign_in("docs", show, **options)
    return str(error.value)


async def test_a_no_of_the_person_is_told(server: HostedServer, kept: SignIns) -> None:
    server.person = ""
    assert await failure(docs(server, kept), Browser()) == "the person said no (not today)"
    assert await kept.read(server.mcp_url) is None


async def test_a_port_that_somebody_else_has_is_told(server: HostedServer, kept: SignIns) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as taken:
        port = taken.extra(anyio.abc.SocketAttribute.local_port)
        problem = await failure(docs(server, kept, oauth={"callbackPort": port}), Browser())
    assert problem.startswith(f"port {port} of this machine, to which the browser would come back, cannot be had")
    assert not server.seen["page"]


async def test_an_address_of_another_sign_in_is_refused(server: HostedServer, kept: SignIns) -> None:
    pages: list[str] = []

    async def other() -> str:
        return (await pasted(pages[0])).replace("state=", "state=not-")

    problem = await failure(docs(server, kept), show_to(pages), paste=other)
    assert problem.startswith("the address belongs to another sign-in")


@pytest.mark.both_loops
async def test_a_page_that_forges_an_answer_does_not_end_the_wait_for_the_true_one(
    server: HostedServer, kept: SignIns
) -> None:
    browser = Browser()
    forged: list[int] = []

    async def show(url: str) -> None:
        port = httpx2.URL(httpx2.URL(url).params["redirect_uri"]).port
        async with httpx2.AsyncClient(timeout=60) as client:
            for path in ("/callback?code=theirs&state=guessed", "/favicon.ico"):
                forged.append((await client.get(f"http://127.0.0.1:{port}{path}")).status_code)
        await browser(url)

    await docs(server, kept).sign_ins.sign_in("docs", show)
    assert forged == [400, 404]
    assert "You can close this page" in browser.last


async def test_a_person_who_never_comes_is_not_waited_for_forever(server: HostedServer, kept: SignIns) -> None:
    target = Target(name="docs", server=server.mcp_url, settings=OAuthSettings(), headers={}, holder="local")
    with pytest.raises(SignInProblem, match=r"nobody signed in within 0\.05 s"):
        await sign_in(target, kept, show=show_to([]), wait=0.05)


async def test_a_server_that_registers_nobody_is_told_with_what_to_register(
    server: HostedServer, kept: SignIns
) -> None:
    server.registers = False
    problem = await failure(docs(server, kept, oauth={"callbackPort": (port := own_port())}), Browser())
    assert f"register one there, with the redirect address http://localhost:{port}/callback" in problem
    assert f'"oauth": {{"clientId": "...", "callbackPort": {port}}}' in problem


async def test_a_client_whose_secret_is_missing_is_told_how_to_give_it(server: HostedServer, kept: SignIns) -> None:
    port = own_port()
    server.clients["mine"] = {"redirect_uris": [f"http://localhost:{port}/callback"], "client_secret": "the-secret"}
    servers = docs(server, kept, oauth={"clientId": "mine", "callbackPort": port})
    assert (await failure(servers, Browser())).endswith("A client with a secret needs that, too: --client-secret")
    await servers.sign_ins.sign_in("docs", Browser(), client_secret="the-secret")
    assert (await the_record(server, kept)).client_secret == "the-secret"


async def test_a_server_that_answers_everybody_can_be_signed_in_to_all_the_same(
    server: HostedServer, kept: SignIns
) -> None:
    server.open_to_all = True
    async with docs(server, kept) as servers:
        assert (await use(servers, "whoami")).text == "nobody"
        await servers.sign_ins.sign_in("docs", Browser())
        assert (await use(servers, "whoami")).text == "ann"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("doc", "there is no server 'doc'. Did you mean 'docs'?"),
        ("git", "'git' is a program on this machine: there is nothing to sign in to"),
        ("off", "'off' is disabled in its file"),
        ("gone", "the server cannot be reached: ConnectError"),
    ],
)
async def test_what_nobody_can_sign_in_to_is_told(name: str, problem: str) -> None:
    gone = {"url": f"http://127.0.0.1:{own_port()}/mcp"}
    servers = McpServers(
        {
            "docs": {"url": "http://127.0.0.1:1/mcp"},
            "git": {"command": "git"},
            "gone": gone,
            "off": gone | {"disabled": True},
        }
    )
    with pytest.raises(SignInProblem) as error:
        await servers.sign_ins.sign_in(name, Browser())
    assert str(error.value) == problem


# Whose it is, and where it is kept


async def whoami(server: HostedServer, kept: SignIns, holder: str) -> int:
    (spec,) = read_servers({"docs": server.entry()}).specs
    auth = SignedIn(spec, holder, kept)
    async with httpx2.AsyncClient(timeout=60, auth=auth) as client:
        return (await client.post(server.mcp_url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})).status_code


async def test_a_sign_in_that_comes_before_the_refusal_of_a_request_without_it_is_tried_at_once(
    server: HostedServer, kept: SignIns
) -> None:
    (spec,) = read_servers({"docs": server.entry()}).specs
    auth = SignedIn(spec, "local", kept)
    flow = auth.async_auth_flow(httpx2.Request("POST", server.mcp_url))
    async with httpx2.AsyncClient(timeout=60) as client:
        refusal = await client.send(await anext(flow))
    await docs(server, kept).sign_ins.sign_in("docs", Browser())
    with pytest.raises(StopAsyncIteration):
        await flow.asend(refusal)
    assert auth.needs
    assert auth.due(60.0) == 0.0


async def test_each_token_of_the_gateway_has_sign_ins_of_its_own(server: HostedServer, kept: SignIns) -> None:
    servers = docs(server, kept)
    await servers.sign_ins.sign_in("docs", Browser(), holder="ann")
    assert [await whoami(server, kept, holder) for holder in ("ann", "bob", "local")] == [200, 401, 401]
    await servers.sign_ins.sign_in("docs", Browser(), holder="bob")
    assert await servers.sign_ins.sign_out("docs", holder="ann") == ""
    assert [await whoami(server, kept, holder) for holder in ("ann", "bob", "local")] == [401, 200, 401]


class Ring:
    """The entries of a keyring that lives in memory."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}
        self.locked = False
        self.longest = 1_000_000


@pytest.fixture
def ring() -> Generator[Ring]:
    import keyring
    from keyring.backend import KeyringBackend
    from keyring.errors import KeyringLocked, PasswordSetError

    made = Ring()

    class InMemory(KeyringBackend):
        priority = 5  # pyright: ignore[reportAssignmentType]

        def get_password(self, service: str, username: str) -> str | None:
            if made.locked:
                raise KeyringLocked("it is locked")
            return made.entries.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            if made.locked or len(password) > made.longest:
                raise PasswordSetError("no")
            made.entries[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del made.entries[service, username]

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())
    yield made
    keyring.set_keyring(before)


def on_disk(kept: SignIns) -> str:
    return "".join(path.read_text() for path in kept.folder.iterdir())


async def test_where_a_keyring_works_the_disk_holds_no_secret(server: HostedServer, kept: SignIns, ring: Ring) -> None:
    async with await signed_in(server, kept) as servers:
        assert len(ring.entries) == 1
        server.forget_tokens()
        assert (await use(servers, "whoami")).text == "ann"
        assert not [secret for secret in server.secrets if secret in on_disk(kept)]
        await servers.sign_ins.sign_out("docs")
    assert ring.entries == {}


@pytest.mark.parametrize("trouble", ["locked", "too long"])
async def test_where_the_keyring_takes_nothing_a_file_does(
    server: HostedServer, kept: SignIns, ring: Ring, trouble: str
) -> None:
    ring.locked, ring.longest = trouble == "locked", 100
    async with await signed_in(server, kept) as servers:
        assert (await use(servers, "whoami")).text == "ann"
    assert ring.entries == {}


async def test_a_keyring_that_cannot_be_read_is_told(server: HostedServer, kept: SignIns, ring: Ring) -> None:
    await signed_in(server, kept)
    ring.locked = True
    async with docs(server, kept) as servers:
        problem = servers.status["docs"].problem
    assert problem == f"the sign-in is kept in the system's keyring, which cannot be read (KeyringLocked): {CURE}"


@pytest.mark.parametrize("damage", ["", "{", '{"in": "file"}', '{"in": "file", "sign_in": {"server": 3}}', "[]"])
async def test_a_damaged_file_is_told_and_a_new_sign_in_takes_its_place(
    server: HostedServer, kept: SignIns, damage: str
) -> None:
    await signed_in(server, kept)
    (path,) = kept.folder.glob("*.json")
    path.write_text(damage)
    async with docs(server, kept) as servers:
        assert servers.status["docs"].problem == f"the sign-in kept in {path} cannot be read; sign in anew: {CURE}"
    async with await signed_in(server, kept) as servers:
        assert (await use(servers, "whoami")).text == "ann"


async def test_no_secret_is_in_a_log_a_status_an_error_or_a_repr(
    server: HostedServer, kept: SignIns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    port = own_port()
    server.clients["mine"] = {"redirect_uris": [f"http://localhost:{port}/callback"], "client_secret": "s3cret-of-mine"}
    oauth = {"clientId": "mine", "callbackPort": port, "clientSecret": "s3cret-of-mine"}
    async with await signed_in(server, kept, oauth=oauth) as servers:
        seen.append(repr(await the_record(server, kept)))
        for step in (server.forget_tokens, lambda: setattr(server, "token_status", 500), server.end_all):
            step()
            seen.append((await use(servers, "whoami")).text)
        server.token_status = 0
        server.forget_tokens()
        seen.append((await use(servers, "whoami")).text)
        seen += [repr(servers.status), repr(servers.missing)]
        server.token_status = 400
        seen.append(await failure(servers, Browser()))
    told = "\n".join([*seen, caplog.text])
    assert "docs" in told
    assert [secret for secret in server.secrets if secret in told] == []


def test_everything_else_of_an_entry_may_stand_beside_it(kept: SignIns) -> None:
    entry: Mapping[str, Any] = {
        "url": "https://docs.example/mcp",
        "oauth": {"enabled": True, "clientId": "a"},
        "timeout": 9,
    }
    servers = McpServers({"docs": entry, "codex": {"url": "https://x.example/mcp", "scopes": ["a"]}}, sign_ins=kept)
    assert servers.notices == ()
    assert dict(servers.sign_ins.possible()) == {"docs": "https://docs.example/mcp", "codex": "https://x.example/mcp"}
