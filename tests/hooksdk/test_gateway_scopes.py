"""Servers of a gateway whose process is each token's or each session's own, and what their clients notice of it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, types
from rich.console import Console

from hooksdk import Host
from hooksdk.cli._gateway.commands import status as show_status
from hooksdk.cli._gateway.serve import GatewayProject, ServeOptions
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.gateway.status import StatusFile
from hooksdk.mcp import McpServers
from tests.hooksdk.gateways import ERAS, client, http_client, text_of
from tests.hooksdk.mcp_servers import alive, script, until

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.in_ci(era=["auto"]),
]
in_both_eras = pytest.mark.parametrize("era", ERAS)
TOKENS = {"ann": "a" * 20, "bob": "b" * 20, "eve": "e" * 20}
SECRET = """
[plugins.secrets.config]
redact = false
[plugins.secrets.config.secrets.KEY]
from = "env"
tools = ["mcp:quick:*"]
requesters = { ann = "KEY_OF_ANN", bob = "KEY_OF_BOB" }
"""


@pytest.fixture
def folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and a user's configuration with three tokens and a secret for two of them."""
    lines = [f'[gateway.tokens.{name}]\nenv = "TOKEN_OF_{name.upper()}"' for name in TOKENS]
    (home / "config" / "hooksdk").mkdir(parents=True)
    (home / "config" / "hooksdk" / "config.toml").write_text("\n".join([*lines, SECRET]))
    for name, token in TOKENS.items():
        monkeypatch.setenv(f"TOKEN_OF_{name.upper()}", token)
        monkeypatch.setenv(f"KEY_OF_{name.upper()}", f"key-of-{name}")
    return tmp_path


@asynccontextmanager
async def serving(folder: Path, **entries: Mapping[str, Any]) -> AsyncGenerator[tuple[GatewayProject, str]]:
    """The command's gateway over HTTP in this process, and its URL."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    options = ServeOptions(config=(folder / "mcp.json",), project=folder, http="127.0.0.1:0")
    project = GatewayProject(options, Console(file=io.StringIO(), width=200))
    gateway = project.gateway = Gateway(project.host, project, folder=folder)
    urls: list[str] = []
    async with anyio.create_task_group() as group:
        await project.start(group)
        async with project.servers, gateway, anyio.create_task_group() as listening:
            listening.start_soon(lambda: gateway.serve_http(on_listening=urls.append))
            await until(lambda: urls)
            yield project, urls[0]
            listening.cancel_scope.cancel()
        group.cancel_scope.cancel()


async def call(connected: Client, name: str, /, **arguments: Any) -> str:
    return text_of(await connected.call_tool(name, arguments))


async def pid(connected: Client) -> int:
    return int(await call(connected, "process_id"))


@in_both_eras
@pytest.mark.parametrize(("scope", "shared"), [("gateway", True), ("token", False), ("session", False)])
async def test_two_tokens_share_a_process_or_do_not_as_its_entry_says(
    folder: Path, era: str, scope: str, shared: bool
) -> None:
    async with (
        serving(folder, quick=script("quick", scope=scope)) as (_, url),
        http_client(url, era, TOKENS["ann"]) as ann,
        http_client(url, era, TOKENS["bob"]) as bob,
    ):
        first = await pid(ann)
        assert (await pid(bob) == first, await pid(ann) == first) == (shared, True)


async def test_a_sessions_process_ends_when_its_client_leaves_and_a_tokens_stays(folder: Path) -> None:
    entries = {"mine": script("quick", scope="session"), "ours": script("quick", scope="token")}
    async with serving(folder, **entries) as (_, url):
        pids: list[tuple[int, int]] = []
        for _ in range(2):
            async with http_client(url, "legacy", TOKENS["ann"]) as ann:
                mine, ours = [int(await call(ann, f"{server}__process_id")) for server in entries]
                pids.append((mine, ours))
            await until(lambda: not alive(pids[-1][0]))
            assert alive(ours)
    assert (pids[0][0] == pids[1][0], pids[0][1] == pids[1][1]) == (False, True)
    assert not alive(pids[0][1])


@in_both_eras
async def test_each_tokens_server_has_its_own_secret_and_who_has_none_has_no_server(folder: Path, era: str) -> None:
    async with (
        serving(folder, quick=script("quick", env={"KEY": "Bearer {{secret:KEY}}"})) as (project, url),
        http_client(url, era, TOKENS["ann"]) as ann,
        http_client(url, era, TOKENS["bob"]) as bob,
        http_client(url, era, TOKENS["eve"]) as eve,
    ):
        assert len((await ann.list_tools()).tools) > 1
        for connected, name in ((ann, "ann"), (bob, "bob")):
            # What its own session was given is masked there.
            assert await call(connected, "environment", name="KEY") == "Bearer {{secret:KEY}}"
            environment = Path(f"/proc/{await pid(connected)}/environ").read_bytes().split(b"\0")
            assert f"KEY=Bearer key-of-{name}".encode() in environment
        async with http_client(url, era, TOKENS["ann"]) as again:  # a session for which nothing was started
            assert await call(again, "environment", name="KEY") == "Bearer {{secret:KEY}}"
        assert [tool.name for tool in (await eve.list_tools()).tools] == ["recall-tool-result"]
        problems = {one.holder: one.problem for one in project.server_lines}
        assert problems["eve"] == (
            "the secrets of eve could not be filled in: secrets: no plugin gives a value for KEY"
        )
        assert (problems[""], problems["ann"], problems["bob"]) == ("", "", "")


async def test_the_status_says_whose_each_process_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = {"shared": script("quick"), "quick": script("quick", scope="token")}
    async with serving(folder, **entries) as (project, url), http_client(url, "auto", TOKENS["ann"]) as ann:
        await call(ann, "shared__process_id")
        await call(ann, "quick__process_id")
        with StatusFile() as status:
            status.update(servers=project.server_lines)
            show_status(as_json=False)
            lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "server  " in line]
            show_status(as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)["gateways"]
    assert lines == [
        "server    shared  up, 6 tools",
        "server    quick  up, 6 tools, one for each token",
        "server      quick  of ann, up, 6 tools",
    ]
    said = [(one["name"], one["scope"], one["holder"]) for one in shown["servers"]]
    assert said == [("shared", "gateway", ""), ("quick", "token", ""), ("quick", "token", "ann")]


@pytest.mark.in_ci(False)
async def test_each_token_has_its_own_connection_in_the_older_protocol_with_its_own_secret(
    folder: Path, home: Path
) -> None:
    file = home / "config" / "hooksdk" / "config.toml"
    file.write_text('[gateway]\nrelay = ["roots"]\n' + file.read_text())
    # It speaks both protocols, and so has two connections for each who has clients of both.
    async with serving(folder, quick=script("plain", env={"KEY": "{{secret:KEY}}"})) as (_, url):
        pids: list[int] = []
        for name, era in (("ann", "legacy"), ("bob", "legacy"), ("ann", "auto"), ("ann", "legacy")):
            async with http_client(url, era, TOKENS[name]) as connected:
                pids.append(await pid(connected))
            environment = Path(f"/proc/{pids[-1]}/environ").read_bytes().split(b"\0")
            assert f"KEY=key-of-{name}".encode() in environment
        assert (len(set(pids)), pids[3]) == (3, pids[0])
    assert not any(map(alive, pids))


# What a server asks that is one session's own


@asynccontextmanager
async def asking(folder: Path, scope: str) -> AsyncGenerator[Gateway]:
    entries = {"asking": script("asking", str(folder / "notes"), scope=scope)}
    config = GatewayConfig.model_validate({"relay": ["elicitation"]})
    async with (
        Host() as host,
        McpServers(entries, relay=["elicitation"]) as servers,
        Gateway(host, servers, config=config) as made,
    ):
        yield made


def answering(who: str) -> dict[str, Any]:
    async def elicit(_context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": who})

    return {"elicitation_callback": elicit}


@pytest.mark.in_ci(False)
@in_both_eras
async def test_a_server_that_is_asked_by_two_clients_at_once_may_ask_where_each_has_its_own(
    tmp_path: Path, era: str
) -> None:
    async with (
        asking(tmp_path, "session") as made,
        client(made, era, **answering("ann")) as ann,
        client(made, era, **answering("bob")) as bob,
        anyio.create_task_group() as group,
    ):
        group.start_soon(bob.call_tool, "hang")
        await until(lambda: (tmp_path / "notes").exists())
        assert await call(ann, "elicit") == "accept {'name': 'ann'}"
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("era", "scope", "answer"),
    [
        ("legacy", "session", "accept {'name': 'ann'}"),
        ("legacy", "gateway", "there is no call of one client that this could belong to"),
        ("auto", "session", "the client cannot be asked while it waits"),
    ],
)
async def test_a_sessions_own_server_may_ask_its_client_when_no_call_runs(
    tmp_path: Path, era: str, scope: str, answer: str
) -> None:
    notes = tmp_path / "notes"
    async with asking(tmp_path, scope) as made, client(made, era, **answering("ann")) as ann:
        assert await call(ann, "later") == "soon"
        (tmp_path / "go").touch()
        await until(lambda: notes.exists() and notes.read_text())
        assert answer in notes.read_text()
