"""The gateway over stdio, as a process, and over streamable HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters

from hooksdk import ToolResult
from hooksdk.cli._gateway.serve import parse_address
from hooksdk.errors import ConfigError
from hooksdk.gateway import Gateway
from hooksdk.gateway._http import check_address
from tests.hooksdk.gateways import ERAS, Source, gateway, names, source, text_of
from tests.hooksdk.gateways import http_client as client

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
in_both_eras = pytest.mark.parametrize("era", ERAS)
TOKENS = {"ann": "a" * 20, "bob": "b" * 20}
PLAIN = Path(__file__).parents[1] / "servers" / "quick.py"

NOISY = """
import os
from hooksdk import hooks
print("imported")
class Noisy:
    @hooks.before_tool_call
    def judge(self, event):
        print("judged")
        os.write(1, b"written past python\\n")
"""


@asynccontextmanager
async def listening(
    config: dict[str, Any] | None = None, tools: Source | None = None
) -> AsyncGenerator[tuple[Any, str]]:
    """A gateway that listens, and its URL."""
    urls: list[str] = []
    async with gateway(tools or source(), config=config) as made, anyio.create_task_group() as group:
        ready = anyio.Event()

        def told(url: str) -> None:
            urls.append(url)
            ready.set()

        group.start_soon(lambda: made.serve_http(on_listening=told))
        await ready.wait()
        yield made, urls[0]
        group.cancel_scope.cancel()


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for name, token in TOKENS.items():
        monkeypatch.setenv(f"{name.upper()}_TOKEN", token)
    return {
        "profiles": {"reader": {"allow": ["read_*"]}},
        "tokens": {"ann": {"env": "ANN_TOKEN"}, "bob": {"env": "BOB_TOKEN", "profile": "reader"}},
    }


@in_both_eras
async def test_a_client_over_http_lists_and_calls(era: str) -> None:
    async with listening() as (_, url), client(url, era) as connected:
        assert await names(connected) == ["read_note", "delete_note", "read_mail"]
        assert "ran with" in text_of(await connected.call_tool("read_note", {"path": "a"}))


@in_both_eras
async def test_each_token_has_its_profile_and_its_session(era: str, tokens: dict[str, Any]) -> None:
    async with (
        listening(tokens) as (made, url),
        client(url, era, TOKENS["ann"]) as ann,
        client(url, era, TOKENS["bob"]) as bob,
    ):
        assert "delete_note" in await names(ann)
        assert await names(bob) == ["read_note", "read_mail"]
        assert (await bob.call_tool("delete_note", {"path": "a"})).is_error
        assert sorted(session.identity.name for session in made.sessions) == ["ann", "bob"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKENS['ann']}", "Origin": "https://evil.example"}, 403),
    ],
)
async def test_who_has_no_token_or_comes_from_a_strange_page_is_refused(
    headers: dict[str, str], status: int, tokens: dict[str, Any]
) -> None:
    async with listening(tokens) as (made, url), httpx2.AsyncClient(timeout=60) as http:
        assert (await http.post(url, json={}, headers=headers)).status_code == status
        assert made.sessions == ()


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_session_is_closed_to_another_token_that_knows_its_id(method: str, tokens: dict[str, Any]) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with listening(tokens) as (_, url), httpx2.AsyncClient(timeout=60, headers=accept) as http:
        ann, bob = ({"Authorization": f"Bearer {token}"} for token in TOKENS.values())
        opened = await http.post(url, json=begin, headers=ann)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        body = ask if method == "POST" else None
        assert (await http.request(method, url, headers={**bob, **session}, json=body)).status_code == 404
        assert (await http.post(url, json=ask, headers={**ann, **session})).status_code == 200


async def test_a_request_of_more_than_four_megabytes_is_refused() -> None:
    async with listening() as (_, url), httpx2.AsyncClient(timeout=60) as http:
        assert (await http.post(url, content=b"{" + b" " * 4 * 1024 * 1024)).status_code == 413


async def test_without_tokens_only_this_machine_is_answered_and_by_its_name() -> None:
    async with listening() as (_, url), httpx2.AsyncClient(timeout=60) as http:
        assert (await http.post(url, json={}, headers={"Host": "evil.example"})).status_code == 421
    with pytest.raises(ConfigError, match="give each client a token"):
        check_address("0.0.0.0", {})


def test_an_address_is_a_host_and_a_port() -> None:
    assert parse_address("8931") == ("127.0.0.1", 8931)
    assert parse_address("[::1]:8931") == ("::1", 8931)
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_address("localhost")


def command(folder: Path) -> list[str]:
    """The gateway in front of one server, with a plugin that prints."""
    (folder / "noisy.py").write_text(NOISY)
    (folder / "mcp.json").write_text(
        json.dumps({"mcpServers": {"one": {"command": sys.executable, "args": [str(PLAIN)]}}})
    )
    return [
        "gateway",
        "--config",
        str(folder / "mcp.json"),
        "--plugin",
        str(folder / "noisy.py"),
        "--project",
        str(folder),
    ]


@pytest.mark.in_ci(era=["auto"])
@in_both_eras
async def test_over_stdio_prints_of_plugins_do_not_disturb_the_protocol(era: str, tmp_path: Path) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "hooksdk", *command(tmp_path)])
    async with Client(server, mode=era) as connected:
        (name, *_) = await names(connected)
        await connected.call_tool(name, {})
        assert name in await names(connected)


async def exchange(made: Gateway, *calls: tuple[str, str]) -> list[Any]:
    """What is answered over stdio to these calls, each a name and arguments as JSON texts; None for one without an answer."""
    (reads, to_gateway), (from_gateway, writes) = os.pipe(), os.pipe()
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})]
    for number, (name, arguments) in enumerate(calls, start=1):
        parameters = f'{{"name": {name}, "arguments": {arguments}}}'
        lines.append(f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {parameters}}}')
    answers: dict[int, Any] = {}
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: made.serve_stdio(streams=(reads, writes)))
        with os.fdopen(from_gateway, "rb") as answered:
            for number, line in enumerate(lines):
                os.write(to_gateway, line.encode() + b"\n")
                with anyio.fail_after(120):
                    text = await anyio.to_thread.run_sync(answered.readline, abandon_on_cancel=True)
                answers[number] = json.loads(text)["result"]
            os.close(to_gateway)
    for descriptor in (reads, writes):
        os.close(descriptor)
    return list(answers.values())[1:]


async def test_what_cannot_be_sent_as_json_breaks_no_connection() -> None:
    tools = source()
    tools.add("odd", "half", result=ToolResult("half \ud83d of it", structured={"text": "\ud83d"}))
    tools.add("odd", "nothing", result=ToolResult("", blocks=[], structured={"text": "\ud83d"}))
    tools.add("odd", "nan", result=ToolResult("none", structured={"x": float("nan")}))
    tools.add("odd", "long", result=ToolResult("\ud83d\n" * 40_000))
    path = '{"path": "a"}'
    async with gateway(tools) as made:
        half, nothing, _nan, long, recalled, unknown, last = await exchange(
            made, ('"half"', path), ('"nothing"', path), ('"nan"', path), ('"long"', path),
            ('"recall-tool-result"', '{"id": "r1"}'), (r'"\ud83d"', path), ('"read_note"', path),
        )  # fmt: skip
    assert half["content"] == [{"type": "text", "text": "half ? of it"}]
    assert nothing["content"][0]["text"] == "The tool ran, and its result cannot be sent as JSON."
    assert "characters are left out" in long["content"][0]["text"]
    assert recalled["content"][0]["text"].startswith("?\n?")
    assert unknown["isError"]
    assert "ran with" in last["content"][0]["text"]


async def test_half_a_character_that_a_model_writes_is_answered_and_whole_ones_stay() -> None:
    async with gateway(source()) as made:
        half, whole = await exchange(
            made,
            ('"read_note"', r'{"path": "broken \uD83D here"}'),
            ('"read_note"', r'{"path": "\ud83d\ude00 \u00e9"}'),
        )
    assert "broken ? here" in half["content"][0]["text"]
    assert json.loads(whole["content"][0]["text"].partition("ran with ")[2]) == {"path": "\U0001f600 \u00e9"}


def test_the_end_of_stdin_ends_it_and_stdout_stays_empty(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "hooksdk", *command(tmp_path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (0, "")
    assert "imported" in run.stderr
