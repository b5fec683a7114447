"""`hooksdk gateway` as a whole: servers that start when they are needed, changed files, and what is told of it."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError
from mcp_servers import alive, until
from rich.console import Console
from scripted_servers import Make, Scripted
from warm import run

from hooksdk import Host
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._gateway.serve import GatewayProject, ServeOptions, serve_clients
from hooksdk.errors import ConfigError
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.gateway._tokens import SHORTEST_TOKEN
from hooksdk.gateway.status import running_gateways
from hooksdk.mcp import McpServers
from tests.hooksdk.gateways import ERAS, SEARCH_ON, client, gateway, http_client, names, source, text_of

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="looks at process ids as POSIX does"),
]
BRIDGE = ["tool_search", "tool_describe", "tool_call_readonly", "tool_call"]
DENIES = '[plugins.tool_policy.config]\nrules = [{ action = "deny", tools = "add", reason = "no sums" }]\n'


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def one(name: str, *tools: str | dict[str, Any], **script: Any) -> Scripted:
        return Scripted(tmp_path / name, *tools, **script)

    return one


def write(folder: Path, *servers: Scripted) -> None:
    entries = {one.folder.name: one.entry for one in servers}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))


def trust(folder: Path) -> None:
    """What a person types."""
    assert run(["trust", str(folder), "--yes"], folder=folder, environment=os.environ).code == 0


def settings(folder: Path, text: str) -> None:
    (folder / "hooksdk.toml").write_text(text)


@asynccontextmanager
async def serving(
    folder: Path, *servers: Scripted, known: bool = True, **options: Any
) -> AsyncGenerator[GatewayProject]:
    """The command's gateway in this process, in front of servers whose listings are `known`."""
    if known:
        async with McpServers({one.folder.name: one.entry for one in servers}, lazy=True) as lazy:
            await lazy.ready()
        for one in servers:
            (one.folder / "log").unlink(missing_ok=True)
    write(folder, *servers)
    project = GatewayProject(
        ServeOptions(config=(folder / "mcp.json",), project=folder, **options), Console(file=io.StringIO(), width=200)
    )
    project.gateway = Gateway(project.host, project, folder=folder)
    async with anyio.create_task_group() as group:
        await project.start(group)
        async with project.servers, project.gateway:
            yield project
        group.cancel_scope.cancel()


async def call(connected: Client, name: str, **arguments: Any) -> str:
    return text_of(await connected.call_tool(name, arguments))


# Servers


async def test_what_is_known_is_listed_without_a_start_and_a_call_starts_its_server_alone(
    make: Make, tmp_path: Path
) -> None:
    one, two = make("one", "add"), make("two", "find")
    async with serving(tmp_path, one, two) as project, client(project.gateway) as connected:
        assert await names(connected) == ["add", "find"]
        assert (one.asked, two.asked) == ([], [])
        assert "add by" in await call(connected, "add")
        await call(connected, "add")
        assert one.asked == ["start", "initialize", "tools/list", "tools/call", "tools/call"]
        assert two.asked == []


async def test_tools_that_were_never_listed_are_waited_for(make: Make, tmp_path: Path) -> None:
    async with serving(tmp_path, make("one", "add"), known=False) as project, client(project.gateway) as connected:
        assert await names(connected) == ["add"]


@pytest.mark.parametrize(("expose", "limit", "expected"), [("bridge", 1000, BRIDGE), ("direct", 0.01, ["add"])])
async def test_a_server_that_stalls_delays_a_listing_for_a_while_and_the_bridge_never(
    make: Make, tmp_path: Path, expose: str, limit: float, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, stalls = make("one", "add"), make("stalls", "find", start="stall")
    async with McpServers({"one": one.entry}, lazy=True) as lazy:
        await lazy.ready()
    monkeypatch.setattr("hooksdk.gateway._sources.FIRST_LISTINGS", limit)
    with anyio.fail_after(60):
        async with (
            serving(tmp_path, one, stalls, known=False, expose=expose) as project,
            client(project.gateway) as connected,
        ):
            assert await names(connected) == expected


async def test_a_client_that_gives_up_early_is_answered_before(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk.gateway._sources.FIRST_LISTINGS", 1000)
    monkeypatch.setattr("hooksdk.gateway._sources.LESS_PATIENT", {"hasty": 0.01})
    hasty = types.Implementation(name="hasty", version="1")
    with anyio.fail_after(60):
        async with (
            serving(tmp_path, make("stalls", "find", start="stall"), known=False) as project,
            client(project.gateway, client_info=hasty) as connected,
        ):
            assert await names(connected) == []


async def test_a_server_that_cannot_start_is_named_by_the_search(make: Make, tmp_path: Path) -> None:
    servers = make("one", "add"), make("ghost", "find", start="refuse")
    async with (
        serving(tmp_path, *servers, known=False, expose="bridge") as project,
        client(project.gateway) as connected,
    ):
        found = json.loads(await call(connected, "tool_search", queries=["add"]))
    assert [hit["name"] for hit in found["results"][0]["hits"]] == ["add"]
    assert list(found["not_available"]) == ["ghost"]


# Changed files


async def test_a_changed_configuration_counts_from_the_next_call_and_running_calls_end_under_the_old(
    make: Make, tmp_path: Path
) -> None:
    one, results = make("one", "add", "wait"), list[str]()

    async def wait(connected: Client) -> None:
        results.append(await call(connected, "wait"))

    async with serving(tmp_path, one) as project, client(project.gateway) as connected:
        await call(connected, "add")
        before = project.host
        async with anyio.create_task_group() as group:
            group.start_soon(wait, connected)
            await until(lambda: one.asked.count("tools/call") == 2)
            settings(tmp_path, DENIES)
            assert "no sums" in await call(connected, "add")
            assert "add" not in await names(connected)
            assert (project.host is before, len(before.sessions)) == (False, 1)
            one.go()
        assert results == [f"wait by {one.pids[0]}"]
        await until(lambda: not before.sessions)
        assert project.gateway.counts.as_dict()["blocked"] == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [("deny = ", "is not TOML"), ('[plugins.tool_policy.config]\nrules = [{ action = "destroy" }]', "tool_policy")],
)
async def test_a_broken_configuration_keeps_the_old_and_is_told(
    make: Make, tmp_path: Path, text: str, problem: str
) -> None:
    settings(tmp_path, DENIES)
    async with serving(tmp_path, make("one", "add")) as project, client(project.gateway) as connected:
        settings(tmp_path, text)
        assert "no sums" in await call(connected, "add")
        assert problem in project.problem
        settings(tmp_path, "")
        assert "add by" in await call(connected, "add")
        assert project.problem == ""


async def test_plugins_that_cannot_be_started_anew_keep_the_old_host(make: Make, tmp_path: Path) -> None:
    class Fails:
        @classmethod
        @asynccontextmanager
        async def shared(cls, _config: Any) -> AsyncGenerator[None]:
            if (tmp_path / "fail").exists():
                raise OSError("the port is taken")
            yield

    async with serving(tmp_path, make("one", "add"), plugins=(Fails,)) as project, client(project.gateway) as connected:
        (tmp_path / "fail").touch()
        settings(tmp_path, DENIES)
        assert "add by" in await call(connected, "add")
        assert "the port is taken" in project.problem


async def test_changed_servers_count_from_the_next_call_and_a_broken_file_keeps_the_old(
    make: Make, tmp_path: Path
) -> None:
    one, two = make("one", "add"), make("two", "find")
    async with serving(tmp_path, one) as project, client(project.gateway) as connected:
        assert await names(connected) == ["add"]
        (tmp_path / "mcp.json").write_text("{broken")
        assert "add by" in await call(connected, "add")
        assert "is not JSON" in project.problem
        write(tmp_path, two)
        assert "find by" in await call(connected, "find")
        assert (await connected.call_tool("add", {})).is_error
        assert (await names(connected), project.problem) == (["find"], "")


async def test_a_found_file_that_is_not_trusted_any_more_keeps_its_servers(make: Make, tmp_path: Path) -> None:
    one, two = make("one", "add"), make("two", "find")
    write(tmp_path, one)
    trust(tmp_path)
    project = GatewayProject(ServeOptions(project=tmp_path), Console(file=io.StringIO()))
    project.gateway = Gateway(project.host, project)
    async with anyio.create_task_group() as group:
        await project.start(group)
        async with project.servers, project.gateway, client(project.gateway) as connected:
            assert await names(connected) == ["add"]
            write(tmp_path, one, two)
            assert await names(connected) == ["add"]
            assert project.problem
            await anyio.to_thread.run_sync(trust, tmp_path)
            assert await names(connected) == ["add", "find"]
            assert project.problem == ""
        group.cancel_scope.cancel()


async def test_where_a_project_has_no_servers_the_users_own_file_counts(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own, folder = tmp_path / "config" / "hooksdk", tmp_path / "project"
    own.mkdir(parents=True)
    folder.mkdir()
    with pytest.raises(CommandProblem, match="find those of your clients with hooksdk gateway import"):
        GatewayProject(ServeOptions(project=folder), Console(file=io.StringIO()))
    write(own, make("one", "add"))
    project = GatewayProject(ServeOptions(project=folder), Console(file=io.StringIO()))
    project.gateway = Gateway(project.host, project)
    async with anyio.create_task_group() as group:
        await project.start(group)
        async with project.servers, project.gateway, client(project.gateway) as connected:
            assert await names(connected) == ["add"]
            write(own, make("one", "add"), make("two", "find"))
            assert await names(connected) == ["add", "find"]
        group.cancel_scope.cancel()


# What a client is shown


async def test_nothing_is_prefetched_or_revealed_where_there_is_no_conversation() -> None:
    async with gateway(source(30), search=True) as made, client(made) as connected:
        before = await names(connected)
        for _ in range(2):
            await connected.call_tool("tool_search", {"queries": ["read note"]})
            await connected.call_tool("tool_call", {"name": "read_note", "arguments": {"path": "a"}})
        assert await names(connected) == before == BRIDGE
        (session,) = made.sessions
        stats = session.stats
        assert (stats["prefetched"], stats["revealed"]) == (0, 0)


async def test_a_bridge_for_one_profile_leaves_the_others_as_they_are(make: Make, tmp_path: Path) -> None:
    settings(tmp_path, '[gateway.profiles.small]\nexpose = "bridge"\n[gateway.profiles.usual]\n')
    trust(tmp_path)
    async with serving(tmp_path, make("one", "add")) as project:
        for profile, expected in (("small", BRIDGE), ("usual", ["add"])):
            async with client(project.gateway, profile=profile) as connected:
                assert await names(connected) == expected


# Tokens


async def test_token_files_count_from_the_project_and_what_is_gone_is_not_let_in(tmp_path: Path) -> None:
    (tmp_path / "ann.token").write_text("a" * SHORTEST_TOKEN)
    tokens = {"ann": {"file": "ann.token"}}
    async with Host(config={"gateway": {"tokens": tokens}}) as host, Gateway(host, source(), folder=tmp_path) as made:
        made.http_app()
        assert made.read_tokens() == {"ann": "a" * SHORTEST_TOKEN}
        with pytest.raises(ConfigError, match="start it again"):
            made.check(GatewayConfig.of(Host(config=SEARCH_ON).config))


@asynccontextmanager
async def listening(made: Gateway) -> AsyncGenerator[str]:
    """The URL at which it serves meanwhile."""
    urls: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: made.serve_http(on_listening=urls.append))
        await until(lambda: urls)
        yield urls[0]
        group.cancel_scope.cancel()


def own_settings(home: Path, *names: str) -> None:
    """The user's own configuration, with a token of each name."""
    (home / "config" / "hooksdk").mkdir(parents=True, exist_ok=True)
    lines = [f'[gateway.tokens.{name}]\nfile = "{name}.token"\n' for name in names]
    (home / "config" / "hooksdk" / "config.toml").write_text("\n".join(lines))


@pytest.mark.in_ci(era=["auto"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["configuration", "file removed", "file rewritten"])
async def test_a_token_that_was_removed_stops_the_next_request_of_its_open_session(
    make: Make, tmp_path: Path, home: Path, era: str, how: str
) -> None:
    own_settings(home, "ann", "bob")
    files = {name: tmp_path / f"{name}.token" for name in ("ann", "bob")}
    for name, file in files.items():
        file.write_text(name * SHORTEST_TOKEN)
    one = make("one", "add")
    async with (
        serving(tmp_path, one) as project,
        listening(project.gateway) as url,
        http_client(url, era, "ann" * SHORTEST_TOKEN) as ann,
        http_client(url, era, "bob" * SHORTEST_TOKEN) as bob,
    ):
        assert "add by" in await call(bob, "add")
        assert "add by" in await call(ann, "add")
        if how == "configuration":
            own_settings(home, "ann")
        elif how == "file removed":
            files["bob"].unlink()
        else:
            files["bob"].write_text("another" * SHORTEST_TOKEN)
        with pytest.raises((MCPError, httpx2.HTTPError)):
            await call(bob, "add")
        assert "add by" in await call(ann, "add")
        async with httpx2.AsyncClient(
            timeout=60, headers={"Authorization": f"Bearer {'bob' * SHORTEST_TOKEN}"}
        ) as http:
            assert (await http.post(url, json={})).status_code == 401
    assert one.asked.count("tools/call") == 3


# The process

LOUD = """
import os, subprocess
from hooksdk import hooks
print("imported", flush=True)
class Loud:
    @hooks.before_tool_call
    def judge(self, event):
        print("judged", flush=True)
        os.write(1, b"written past python\\n")
        subprocess.run(["echo", "of a child"], check=True)
"""


@pytest.mark.in_ci(how=["SIGTERM"])
@pytest.mark.parametrize(
    ("how", "expected"), [("eof", 0), (signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
async def test_however_it_is_ended_its_servers_end_its_status_goes_and_stdout_had_the_protocol_alone(
    make: Make, tmp_path: Path, how: Any, expected: int
) -> None:
    one = make("one", "add")
    write(tmp_path, one)
    (tmp_path / "loud.py").write_text(LOUD)
    command = [
        sys.executable,
        "-m",
        "hooksdk",
        "gateway",
        "--config",
        str(tmp_path / "mcp.json"),
        "--project",
        str(tmp_path),
        "--plugin",
        str(tmp_path / "loud.py"),
    ]
    hello = {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }  # fmt: skip
    requests: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {}}},
    ]
    process = await anyio.open_process(command)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for request in requests:
            await process.stdin.send(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
        answers = b""
        with anyio.fail_after(120):
            while b"add by" not in answers:
                answers += await process.stdout.receive()
        await until(lambda: bool([one for one in running_gateways() if one.calls == 1]))
        (pid,) = one.pids[-1:]
        if how == "eof":
            await process.stdin.aclose()
        else:
            process.send_signal(how)
        with anyio.fail_after(60):
            code = await process.wait()
            answers += b"".join([rest async for rest in process.stdout])
            said = b"".join([line async for line in process.stderr])
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()
    assert code == expected
    assert [json.loads(line)["jsonrpc"] for line in answers.splitlines()] == ["2.0"] * len(answers.splitlines())
    for words in (b"imported", b"judged", b"written past python", b"of a child"):
        assert words in said
    await until(lambda: not alive(pid))
    assert running_gateways() == []


async def test_it_serves_where_there_are_no_signals_to_hear_of(make: Make, tmp_path: Path) -> None:
    write(tmp_path, make("one", "add"))
    theirs, ours = os.pipe()
    read, written = os.pipe()
    options = ServeOptions(config=(tmp_path / "mcp.json",), project=tmp_path)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    os.write(ours, json.dumps(ping).encode() + b"\n")
    codes: list[int] = []
    # A thread gets no signals, and Windows has none of this kind.
    thread = threading.Thread(target=lambda: codes.append(serve_clients(options, (theirs, written))), daemon=True)
    thread.start()
    with anyio.fail_after(60):
        answer = await anyio.to_thread.run_sync(os.read, read, 1000)
        os.close(ours)
        await anyio.to_thread.run_sync(thread.join)
    for descriptor in (theirs, read, written):
        os.close(descriptor)
    assert (json.loads(answer)["id"], codes) == (1, [0])
