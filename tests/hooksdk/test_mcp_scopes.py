"""Whose process a server is: one for all who call it, one for each token, or one for each session."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_servers import alive, script, until, use
from scripted_servers import Make, Scripted

from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers, SilentClient, current_client
from hooksdk.mcp._config import read_servers

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.both_loops,
    pytest.mark.skipif(sys.platform == "win32", reason="looks at process ids as POSIX does"),
]

ANN, ANN_AGAIN, BOB = (SilentClient(id=f"s{number}", holder=who) for number, who in enumerate(("ann", "ann", "bob")))


@contextmanager
def calls_of(client: SilentClient) -> Generator[None]:
    """What is called in here is called on behalf of this client."""
    token = current_client.set(client)
    try:
        yield
    finally:
        current_client.reset(token)


async def pid(servers: McpServers, client: SilentClient) -> int:
    with calls_of(client):
        return int((await use(servers, "process_id")).text)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def one(name: str, *tools: str | dict[str, Any], **script: Any) -> Scripted:
        return Scripted(tmp_path / name, *tools, **script)

    return one


def scope_of(**entry: Any) -> str:
    (spec,) = read_servers({"one": entry}).specs
    return spec.own_scope


# Who shares a process


@pytest.mark.parametrize(("scope", "processes"), [("gateway", 1), ("token", 2), ("session", 3)])
async def test_clients_share_a_process_as_the_entry_says(scope: str, processes: int) -> None:
    async with McpServers({"quick": script("quick", scope=scope)}, lazy=True) as servers:
        await servers.ready()
        pids = [await pid(servers, client) for client in (ANN, ANN_AGAIN, BOB, ANN)]
    assert len(set(pids)) == processes
    assert (pids[0] == pids[1], pids[0] == pids[3]) == (scope != "session", True)


async def test_without_a_client_everybody_has_the_one_process() -> None:
    async with McpServers({"quick": script("quick", scope="session")}) as servers:
        pids = {(await use(servers, "process_id")).text for _ in range(2)}
        assert len(pids) == 1
        assert [one.holder for one in servers.connections] == [""]


async def test_whose_connections_those_of_nobody_are_can_be_said() -> None:
    async with McpServers({"quick": script("quick", scope="token")}, holder="ann") as servers:
        assert (await use(servers, "process_id")).text == str(await pid(servers, ANN))
        assert await pid(servers, BOB) != await pid(servers, ANN)


@pytest.mark.parametrize(
    ("entry", "scope"),
    [
        ({"command": "mcp-server-git", "args": ["--repository", "."]}, "gateway"),
        ({"command": "npx", "args": ["-y", "@playwright/mcp@latest"]}, "token"),
        ({"command": "uvx", "args": ["browser-use-mcp"]}, "token"),
        ({"command": "node", "args": ["/home/chrome/notes.js"]}, "gateway"),
        ({"command": "server", "env": {"GITHUB_TOKEN": "x"}}, "token"),
        ({"command": "server", "env": {"LOG_LEVEL": "debug", "MONKEY": "yes"}}, "gateway"),
        ({"command": "server", "args": ["postgresql://me:secret@db/shop"]}, "token"),
        ({"url": "https://mcp.example.org/mcp"}, "token"),
        ({"command": "server", "env": {"GITHUB_TOKEN": "x"}, "scope": "gateway"}, "gateway"),
    ],
)
def test_an_entry_with_a_credential_or_a_browser_is_each_tokens_own(entry: dict[str, Any], scope: str) -> None:
    assert scope_of(**entry) == scope


def test_a_scope_that_is_none_is_refused_with_the_nearest_word() -> None:
    with pytest.raises(ConfigError, match="'scope': expected 'session', 'token' or 'gateway'"):
        read_servers({"one": {"command": "x", "scope": "tokens"}}).need_all()


# How it ends


async def test_a_sessions_process_ends_with_it_and_others_stay() -> None:
    async with McpServers({"quick": script("quick", scope="session")}, lazy=True) as servers:
        await servers.ready()
        first, second = await pid(servers, ANN), await pid(servers, BOB)
        servers.release(ANN.id)
        await until(lambda: not alive(first))
        assert alive(second)
        assert await pid(servers, BOB) == second
    assert not alive(second)


async def test_a_tokens_process_ends_when_nobody_calls_it_and_the_next_call_starts_another() -> None:
    async with McpServers({"quick": script("quick", scope="token", idle=0.2)}, lazy=True) as servers:
        await servers.ready()
        first = await pid(servers, ANN)
        await until(lambda: not alive(first))
        await until(lambda: [one.state for one in servers.connections if one.holder == "ann"] == ["idle"])
        assert await pid(servers, ANN) != first


async def test_a_changed_entry_ends_the_processes_of_every_token() -> None:
    async with McpServers({"quick": script("quick", scope="token")}, lazy=True) as servers:
        await servers.ready()
        before = [await pid(servers, client) for client in (ANN, BOB)]
        await servers.replace({"quick": script("quick", scope="gateway")})
        await until(lambda: not any(alive(one) for one in before))
        assert await pid(servers, ANN) == await pid(servers, BOB)


# Its tools


async def test_a_listing_is_shared_where_nothing_depends_on_who_asks(make: Make) -> None:
    server = make("one", "add")
    async with McpServers({"one": {**server.entry, "scope": "token"}}, lazy=True) as servers:
        await servers.ready()
        for client in (ANN, BOB):
            with calls_of(client):
                await servers.tools_known()
                assert [tool.name for tool in servers.tools()] == ["add"]
        assert server.asked.count("start") == 1


async def test_what_a_server_offers_to_a_secrets_holder_is_for_nobody_else(make: Make) -> None:
    server = make("one", "of_ann")
    entry = {**server.entry, "env": {"KEY": "{{secret:KEY}}"}}
    ann, bob = (SilentClient(id=who, holder=who, secrets={"KEY": f"key of {who}"}) for who in ("ann", "bob"))
    for time in range(2):  # the second time from the listings that were kept
        async with McpServers({"one": entry}, lazy=True, holder=None) as servers:
            await servers.ready()
            assert servers.tools() == []
            for client in (ann, bob):
                if not time:
                    server.write(f"of_{client.holder}")
                with calls_of(client):
                    servers.tools()
                    await servers.tools_known()
                    assert [tool.name for tool in servers.tools()] == [f"of_{client.holder}"]
            with calls_of(ann):
                assert [tool.name for tool in servers.tools()] == ["of_ann"]
    assert server.asked.count("start") == 2


# Its secrets


async def test_each_tokens_process_has_its_own_secret() -> None:
    entry = script("quick", env={"KEY": "Bearer {{secret:KEY}}"})
    clients = [SilentClient(id=who, holder=who, secrets={"KEY": f"key-of-{who}"}) for who in ("ann", "bob")]
    async with McpServers({"quick": entry}, lazy=True) as servers:
        for client in clients:
            with calls_of(client):
                servers.tools()
                await servers.tools_known()
                assert (await use(servers, "environment", name="KEY")).text == f"Bearer key-of-{client.holder}"


async def test_who_has_no_value_for_a_secret_gets_no_process_and_the_reason() -> None:
    entry = script("quick", env={"KEY": "{{secret:KEY}}"})
    async with McpServers({"quick": entry}, lazy=True, holder=None) as servers:
        with calls_of(BOB):
            await servers.tools_known()
            assert servers.tools() == []
            assert (
                "the secrets of bob could not be filled in: server 'quick': there is no secret KEY"
                in servers.missing["quick"]
            )
        assert servers.status["quick"].state == "idle"


async def test_what_all_share_has_nobodys_secret() -> None:
    entry = script("quick", env={"KEY": "{{secret:KEY}}"}, scope="gateway")
    with calls_of(SilentClient(id="s", holder="ann", secrets={"KEY": "key-of-ann"})):
        async with McpServers({"quick": entry}, lazy=True) as servers:
            await servers.tools_known()
            assert "there is no secret KEY" in servers.missing["quick"]


async def test_a_filled_entry_is_no_other_one_when_the_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entries = {"quick": script("quick", env={"KEY": "{{secret:KEY}}"})}
    file.write_text(json.dumps({"mcpServers": entries}))
    client = SilentClient(id="s", holder="ann", secrets={"KEY": "key-of-ann"})
    async with McpServers.from_file(file, lazy=True) as servers:
        with calls_of(client):
            await servers.tools_known()
        before = await pid(servers, client)
        assert (await servers.reload()).changed == ()
        assert await pid(servers, client) == before


async def test_a_secret_is_in_no_message_about_its_server() -> None:
    echo = [sys.executable, "-c", "import os, sys; sys.exit(f'bad key: {os.environ[\"KEY\"]}')"]
    entry = {"command": echo[0], "args": echo[1:], "env": {"KEY": "{{secret:KEY}}"}}
    async with McpServers({"broken": entry}, lazy=True) as servers:
        with calls_of(SilentClient(id="s", secrets={"KEY": "key-of-ann"})):
            await servers.tools_known()
            assert servers.missing["broken"].endswith("bad key: ***")


def test_a_secret_is_refused_where_others_could_read_it() -> None:
    for entry in ({"command": "x", "args": ["{{secret:KEY}}"]}, {"url": "https://x.org/{{ secret:KEY }}"}):
        with pytest.raises(ConfigError, match="secrets are filled in in 'env' and 'headers' alone"):
            read_servers({"one": entry}).need_all()
