"""`hooksdk gateway login` and `logout`, and what the other commands say of a server that asks for a sign-in."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from commands import COMMAND, environment, hooksdk
from mcp import Client, StdioServerParameters, types

from tests.hooksdk.gateways import text_of
from tests.hooksdk.oauth_server import HostedServer, hosted, pasted

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
CURE = "type `hooksdk gateway login docs`"
BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"


@pytest.fixture
def server() -> Generator[HostedServer]:
    with hosted() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, server: HostedServer) -> Path:
    """A home in which the gateway's own file has the server."""
    own = tmp_path / "none" / "hooksdk" / "mcp.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"mcpServers": {"docs": server.entry()}}))
    (tmp_path / "browser.py").write_text(BROWSER)
    return tmp_path


def browser(home: Path) -> dict[str, str]:
    return {"BROWSER": f"{sys.executable} {home / 'browser.py'} %s"}


async def login(home: Path, *arguments: str) -> Any:
    return await hooksdk("gateway", "login", "docs", *arguments, folder=home, variables=browser(home))


def shown(server: HostedServer, *texts: str) -> list[str]:
    """The secrets that stand in these texts."""
    return [secret for secret in server.secrets if secret in "\n".join(texts)]


async def test_a_person_signs_in_in_the_browser_and_out_again(server: HostedServer, home: Path) -> None:
    done = await login(home)
    assert (done.code, done.out) == (0, f"signed in   to docs, at {server.mcp_url}: 1 tool\n"), done.err
    assert f"open        {server.url}/authorize?" in done.err
    listed = await hooksdk("tools", "list", "--mcp", "none/hooksdk/mcp.json", folder=home)
    assert "whoami" in listed.out
    out = await hooksdk("mcp", "logout", "docs", folder=home)
    assert (out.code, out.out) == (0, "signed out  of docs\n")
    again = await hooksdk("gateway", "logout", "docs", folder=home)
    assert (again.code, again.out) == (0, "nobody was signed in to docs\n")
    assert shown(server, done.out, done.err, out.out, listed.out, listed.err) == []


async def test_without_a_browser_the_address_is_shown_and_the_one_that_came_back_is_typed(
    server: HostedServer, home: Path
) -> None:
    arguments = [*COMMAND, "gateway", "login", "docs", "--no-browser"]
    async with await anyio.open_process(arguments, cwd=home, env=environment(home)) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert process.stdout is not None
        told = ""
        with anyio.fail_after(60):
            async for text in TextReceiveStream(process.stderr):
                told += text
                if "address " in told:
                    break
            address = told.partition("open")[2].split()[0]
            await process.stdin.send(f"{await pasted(address)}\n".encode())
            out = "".join([text async for text in TextReceiveStream(process.stdout)])
            assert await process.wait() == 0
    assert out == f"signed in   to docs, at {server.mcp_url}: 1 tool\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["login", "doc"], "there is no server 'doc'. Did you mean 'docs'?"),
        (["login", "docs", "--token", "ann"], "[gateway.tokens] has no token 'ann'. Known: none."),
        (["login", "docs", "--client-secret"], "put it into the variable MCP_CLIENT_SECRET"),
        (["logout", "other"], "Looked in: "),
    ],
)
async def test_what_cannot_be_done_is_told(home: Path, arguments: list[str], problem: str) -> None:
    done = await hooksdk("gateway", *arguments, folder=home)
    assert done.code == 1
    assert problem in " ".join(done.err.split())


async def test_a_name_that_two_files_have_for_different_servers_needs_a_file(home: Path) -> None:
    other = home / "mcp.json"
    other.write_text(json.dumps({"mcpServers": {"docs": {"url": "http://127.0.0.1:1/mcp"}}}))
    done = await hooksdk("gateway", "logout", "docs", folder=home)
    assert done.out == "nobody was signed in to docs\n"  # a file that is not trusted does not count
    await hooksdk("trust", "--yes", folder=home)
    done = await hooksdk("gateway", "logout", "docs", folder=home)
    assert (done.code, "have different servers of the name 'docs'" in " ".join(done.err.split())) == (1, True)


async def test_the_doctor_and_the_list_of_tools_tell_what_to_type(home: Path) -> None:
    for command in (["doctor"], ["tools", "list"]):
        done = await hooksdk(*command, "--mcp", "none/hooksdk/mcp.json", folder=home)
        assert done.code == 1
        assert f"it needs a sign-in: {CURE}" in " ".join([*done.out.split(), *done.err.split()])


# In the place of a client's servers


def a_client(home: Path, server: HostedServer, **entry: Any) -> Path:
    path = home / ".claude.json"
    path.write_text(json.dumps({"mcpServers": {"docs": server.entry(type="http", **entry)}}, indent=2))
    return path


async def test_installing_leaves_a_server_that_only_its_client_is_signed_in_to(
    server: HostedServer, home: Path
) -> None:
    (home / "none" / "hooksdk" / "mcp.json").unlink()
    path = a_client(home, server)
    done = await hooksdk("gateway", "install", "--client", "claude-code", "--yes", folder=home)
    assert done.code == 0
    typed = f"hooksdk gateway login docs --config {path}"
    assert f"docs: it asks for a sign-in, and the gateway has none. To take it as well, first type: {typed}" in done.out
    assert list(json.loads(path.read_text())["mcpServers"]) == ["docs", "hooksdk"]
    assert set(server.seen) == {"refused"}


async def test_installing_takes_a_server_that_somebody_has_signed_in_to(server: HostedServer, home: Path) -> None:
    (home / "none" / "hooksdk" / "mcp.json").unlink()
    path = a_client(home, server, oauth={"scopes": "read"})
    assert (await login(home, "--config", str(path))).code == 0
    done = await hooksdk("gateway", "install", "--client", "claude-code", "--yes", folder=home)
    assert (done.code, list(json.loads(path.read_text())["mcpServers"])) == (0, ["hooksdk"])
    taken = json.loads((home / "none" / "hooksdk" / "mcp.json").read_text())["mcpServers"]
    assert taken == {"docs": server.entry(type="http", oauth={"scopes": "read"})}


async def test_the_secret_of_a_client_is_not_shown_when_an_entry_moves(server: HostedServer, home: Path) -> None:
    (home / "none" / "hooksdk" / "mcp.json").unlink()
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    auth = {"CLIENT_ID": "mine", "CLIENT_SECRET": "s3cret-of-mine"}
    server.open_to_all = True
    path.write_text(json.dumps({"mcpServers": {"docs": server.entry(auth=auth)}}))
    done = await hooksdk("gateway", "install", "--client", "cursor", "--yes", folder=home)
    assert (done.code, "s3cret-of-mine" in done.out) == (0, False)
    taken = json.loads((home / "none" / "hooksdk" / "mcp.json").read_text())["mcpServers"]["docs"]["oauth"]
    assert taken == {"callbackPort": 8787, "clientId": "mine", "clientSecret": "s3cret-of-mine"}


# Gateways that run


def gateway(home: Path) -> StdioServerParameters:
    settings = "[plugins.tool_search.config]\nenabled = 'on'\n"
    (home / "hooksdk.toml").write_text(settings)
    arguments = [*COMMAND[1:], "gateway", "--config", str(home / "none" / "hooksdk" / "mcp.json")]
    return StdioServerParameters(command=COMMAND[0], args=arguments, env=environment(home), cwd=str(home))


async def call(client: Client, name: str, /, **arguments: Any) -> types.CallToolResult:
    result = await client.call_tool(name, arguments)
    assert isinstance(result, types.CallToolResult)
    return result


async def test_two_gateways_share_one_sign_in_while_its_tokens_expire_and_rotate(
    server: HostedServer, home: Path
) -> None:
    wanted = {"queries": ["who am I"]}
    called: dict[str, Any] = {"name": "whoami", "arguments": {}}
    answers: list[str] = []
    async with Client(gateway(home)) as one, Client(gateway(home)) as other:
        found = text_of(await call(one, "tool_search", **wanted))
        assert f'"not_available":{{"docs":"it needs a sign-in: {CURE}"}}' in found
        with anyio.fail_after(60):  # it is written once a second
            while "docs  needs sign-in" not in (status := await hooksdk("gateway", "status", folder=home)).out:
                await anyio.sleep(0.2)
        assert f": it needs a sign-in: {CURE}" in status.out
        assert (await login(home)).code == 0
        for client in (one, other):
            await call(client, "tool_search", **wanted)
            with anyio.fail_after(60):
                while "whoami" not in text_of(await call(client, "tool_search", **wanted)):
                    await anyio.sleep(0.05)

        async def ask(client: Client) -> None:
            answers.append(text_of(await call(client, "tool_call", **called)))

        for _round in range(3):
            server.forget_tokens()
            async with anyio.create_task_group() as group:
                group.start_soon(ask, one)
                group.start_soon(ask, other)
        assert answers == ["ann"] * 6
        assert (server.seen["refreshed"], server.seen["used twice"], server.seen["page"]) == (3, 0, 1)
        assert (await hooksdk("gateway", "logout", "docs", folder=home)).code == 0
        over = await call(one, "tool_call", **called)
        assert over.is_error
        assert CURE in text_of(over)
    assert (
        shown(server, *(path.read_text() for path in (home / "kept").rglob("*.json") if "sign-ins" not in path.parts))
        == []
    )
