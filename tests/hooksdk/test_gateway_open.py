"""The gateway where others can reach it: connections that ask nothing, TLS, health, metrics, and how often a client may ask."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from hooksdk import hooks
from hooksdk.errors import ConfigError
from hooksdk.gateway import GatewayConfig, _connections, _http, config_problems
from hooksdk.gateway._connections import Connections, Tls, most_connections
from hooksdk.gateway._http import RateLimit, sends_tokens_unencrypted
from hooksdk.gateway._metrics import Metrics
from hooksdk.hooks import BeforeToolCall, Block
from tests.hooksdk.certificates import trusting, write_certificate
from tests.hooksdk.gateways import ERAS, gateway, http_client, names, source, text_of
from tests.hooksdk.mcp_servers import script, until

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="limits open files as POSIX does"),
]
HALF = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half"
ANN, BOB = "a" * 20, "b" * 20


@asynccontextmanager
async def listening(config: dict[str, Any] | None = None, **options: Any) -> AsyncGenerator[tuple[Any, str]]:
    """A gateway that listens, and its URL."""
    urls: list[str] = []
    async with gateway(source(), config=config, **options) as made, anyio.create_task_group() as group:
        group.start_soon(lambda: made.serve_http(on_listening=urls.append))
        await until(lambda: urls)
        yield made, urls[0]
        group.cancel_scope.cancel()


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("ANN_TOKEN", ANN)
    monkeypatch.setenv("BOB_TOKEN", BOB)
    return {"ann": {"env": "ANN_TOKEN"}, "bob": {"env": "BOB_TOKEN"}}


def address_of(url: str) -> tuple[str, int]:
    host, _, port = url.split("/")[2].rpartition(":")
    return host, int(port)


@contextmanager
def half_open(url: str, count: int, begin: bytes = HALF) -> Generator[list[socket.socket]]:
    """So many connections that send this, and nothing else."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(address_of(url))) for _ in range(count)]
        for one in made:
            one.sendall(begin)
        yield made


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return not connection.recv(1000)
    except BlockingIOError:
        return False
    except OSError:
        return True


# Connections


async def test_a_client_is_served_beside_more_half_requests_than_there_may_be_connections() -> None:
    async with listening({"max_connections": 20}) as (_, url):
        with half_open(url, 60) as strangers:
            await until(lambda: sum(map(is_closed, strangers)) >= 40)
            for era in ERAS:
                async with http_client(url, era) as connected:
                    assert "ran with" in text_of(await connected.call_tool("read_note", {"path": "a"}))


@pytest.mark.parametrize("begin", [b"", HALF, HALF + b": 1\r\nContent-Length: 100\r\n\r\n{"])
async def test_who_sends_no_whole_request_in_time_is_closed(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connections, "REQUEST_TIME", 0.2)
    async with listening() as (_, url):
        with half_open(url, 3, begin) as strangers:
            await until(lambda: all(map(is_closed, strangers)))


async def test_a_connection_that_has_been_answered_must_ask_in_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connections, "REQUEST_TIME", 0.2)
    async with listening() as (_, url):
        whole = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with half_open(url, 1, whole + HALF) as (stranger,):
            stranger.settimeout(60)
            assert b"200 OK" in await anyio.to_thread.run_sync(stranger.recv, 1000)
            await until(lambda: is_closed(stranger))


async def test_a_call_that_takes_longer_than_a_request_may_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connections, "REQUEST_TIME", 0.05)

    class Slow:
        @hooks.before_tool_call
        async def wait(self, event: BeforeToolCall) -> None:
            await anyio.sleep(1.5)

    async with gateway(source(), Slow) as made, anyio.create_task_group() as group:
        urls: list[str] = []
        group.start_soon(lambda: made.serve_http(on_listening=urls.append))
        await until(lambda: urls)
        with half_open(urls[0], 1, request("tools/call", {"name": "read_note", "arguments": {"path": "a"}})) as (one,):
            answer = b""
            while b"ran with" not in answer:
                answer += await anyio.to_thread.run_sync(one.recv, 100_000)
        assert b"200 OK" in answer
        group.cancel_scope.cancel()


def request(method: str, params: dict[str, Any]) -> bytes:
    """A request of protocol 2026-07-28, as bytes."""
    version = "2026-07-28"
    about: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": about}}).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\nMcp-Method: {method}\r\n"
        f"Mcp-Name: {params.get('name', '')}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def test_a_long_request_may_take_its_time_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(_connections.time, "monotonic", lambda: now)
    connections = Connections(10, None, Metrics())
    transport, slow = Transport(), Began(now)
    assert connections.admit(cast("Any", slow), cast("Any", transport))
    connections.await_request(cast("Any", slow), 2_000_000)
    now += 200
    connections.close_late()
    assert not transport.aborted
    now += 11
    connections.close_late()
    assert transport.aborted


@dataclass(frozen=True)
class Began:
    """A connection that waits for its request since then."""

    since: float


class Transport:
    """Notes that it is closed."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


async def test_a_flood_is_told_in_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async with listening({"max_connections": 5}) as (_, url):
        with half_open(url, 50) as strangers:
            await until(lambda: sum(map(is_closed, strangers)) >= 45)
        with half_open(url, 20, b"nonsense\r\n\r\n") as strangers:
            await until(lambda: all(map(is_closed, strangers)))
    assert len([line for line in caplog.messages if "max_connections" in line]) == 1
    assert len([line for line in caplog.messages if "Invalid HTTP request" in line]) <= 1


def test_connections_leave_half_of_the_open_files_to_others() -> None:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most_connections(10) == 10
    assert most_connections(10**9) <= max(files // 2, 1) or files == resource.RLIM_INFINITY


# The command


@asynccontextmanager
async def running(folder: Path, home: Path, settings: str, *options: str, files: int = 0) -> AsyncGenerator[Any]:
    """`hooksdk gateway` as a process, with so many open files; its URL, and what it says on stderr."""
    (home / "config" / "hooksdk").mkdir(parents=True)
    (home / "config" / "hooksdk" / "config.toml").write_text(settings)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"asking": script("asking", str(folder / "notes"))}}))
    words = [sys.executable, "-m", "hooksdk", "gateway", "--config", str(folder / "mcp.json"), "--project", str(folder)]
    words += ["--http", "127.0.0.1:0", *options]
    if files:
        words = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *words]
    lines = bytearray()
    async with await anyio.open_process(words) as process, anyio.create_task_group() as group:
        assert process.stderr is not None

        async def read() -> None:
            assert process.stderr is not None
            async for chunk in process.stderr:
                lines.extend(chunk)

        group.start_soon(read)
        try:
            await until(lambda: b"serving" in lines, 60)
            address = re.search(rb"serving +(http\S+)", lines)
            assert address
            yield address[1].decode(), lines
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(60):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()


@pytest.mark.in_ci(False)
async def test_a_process_with_few_open_files_serves_under_a_flood_and_says_little(tmp_path: Path, home: Path) -> None:
    async with running(tmp_path, home, "", files=200) as (url, lines):
        with half_open(url, 250):
            for era in ERAS:
                async with http_client(url, era) as connected:
                    assert await names(connected)
        with half_open(url, 250, b"nonsense\r\n\r\n"):
            async with http_client(url, "auto") as connected:
                assert await names(connected)
    assert len(bytes(lines).decode().splitlines()) < 12, bytes(lines).decode()


async def test_the_command_serves_https_health_and_metrics(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANN_TOKEN", ANN)
    monkeypatch.setenv("SCRAPER_TOKEN", BOB)
    cert, key = write_certificate(tmp_path)
    settings = """
        [gateway.metrics]
        tokens = "scraper"
        [gateway.profiles.none]
        allow = []
        [gateway.tokens.ann]
        env = "ANN_TOKEN"
        [gateway.tokens.scraper]
        env = "SCRAPER_TOKEN"
        profile = "none"
    """
    options = ["--tls-cert", str(cert), "--tls-key", str(key)]
    async with (
        running(tmp_path, home, settings, *options) as (url, _),
        httpx2.AsyncClient(timeout=60, verify=trusting(cert)) as http,
    ):
        assert url.startswith("https://127.0.0.1:")
        base = url.removesuffix("/mcp")
        assert [(await http.get(f"{base}/{one}")).text for one in ("health", "ready")] == ["ok", "ready"]
        async with http_client(url, "auto", ANN, verify=trusting(cert)) as connected:
            await connected.call_tool("roots", {})
            await connected.call_tool("no_such_tool", {})
        given = [{}, {"Authorization": f"Bearer {ANN}"}, {"Authorization": f"Bearer {BOB}"}]
        answers = [await http.get(f"{base}/metrics", headers=headers) for headers in given]
        assert [one.status_code for one in answers] == [401, 403, 200]
    page = answers[-1].text
    (known,) = re.findall(r"^hooksdk_gateway_calls_total\{(.*roots.*)\} 1\.0$", page, re.MULTILINE)
    assert {'hooksdk_server="asking"', 'gen_ai_tool_name="roots"'} <= set(known.split(","))
    assert "no_such_tool" not in page
    assert re.search(r'^hooksdk_gateway_refused_total\{hooksdk_reason="token"\}', page, re.MULTILINE) is None
    assert "hooksdk_gateway_sessions" in page
    assert os.environ["ANN_TOKEN"] not in page


# TLS


@asynccontextmanager
async def over_tls(folder: Path, **settings: Any) -> AsyncGenerator[tuple[str, Path, Path]]:
    cert, key = write_certificate(folder)
    async with listening({"tls": {"cert": str(cert), "key": str(key)}, **settings}) as (_, url):
        yield url, cert, key


def served_by(url: str) -> bytes | None:
    """The certificate that a connection sees."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address_of(url)) as plain, context.wrap_socket(plain) as secure:
        return secure.getpeercert(binary_form=True)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_over_tls_lists_and_calls(era: str, tmp_path: Path) -> None:
    async with over_tls(tmp_path) as (url, cert, _), http_client(url, era, verify=trusting(cert)) as connected:
        assert "read_note" in await names(connected)
        assert "ran with" in text_of(await connected.call_tool("read_note", {"path": "a"}))


async def test_a_renewed_certificate_is_seen_by_the_next_connection_and_a_broken_one_is_not(tmp_path: Path) -> None:
    async with over_tls(tmp_path) as (url, cert, _key):
        first = await anyio.to_thread.run_sync(served_by, url)
        write_certificate(tmp_path)
        second = await anyio.to_thread.run_sync(served_by, url)
        cert.write_text("no certificate")
        assert first != second
        assert await anyio.to_thread.run_sync(served_by, url) == second


async def test_who_never_ends_the_handshake_of_tls_takes_nobodys_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with over_tls(tmp_path, max_connections=5) as (url, cert, _key):
        with half_open(url, 20, b"") as silent, half_open(url, 1, HALF) as plain:
            await until(lambda: sum(map(is_closed, silent)) >= 15)
            async with http_client(url, "auto", verify=trusting(cert)) as connected:
                assert await names(connected)
            await until(lambda: all(map(is_closed, plain)))
        monkeypatch.setattr(_connections, "REQUEST_TIME", 0.2)
        with half_open(url, 2, b"") as silent:
            await until(lambda: all(map(is_closed, silent)))


@pytest.mark.parametrize("broken", ["no file", "another key", "a passphrase"])
def test_files_that_are_no_certificate_with_its_key_are_refused_at_the_start(broken: str, tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path, passphrase="1234" if broken == "a passphrase" else "")
    if broken == "no file":
        key.unlink()
    if broken == "another key":
        key = write_certificate(tmp_path, "other")[1]
    config = GatewayConfig.model_validate({"tls": {"cert": cert.name, "key": key.name}})
    with pytest.raises(ConfigError, match=r"gateway\.tls.* without a passphrase"):
        Tls(config, tmp_path)


@pytest.mark.parametrize(
    ("host", "settings", "warns"),
    [
        ("0.0.0.0", {}, True),
        ("127.0.0.1", {}, False),
        ("0.0.0.0", {"tls": {"cert": "c", "key": "k"}}, False),
        ("0.0.0.0", {"url": "https://tools.example.org/mcp"}, False),
    ],
)
def test_tokens_that_go_in_the_clear_are_warned_about(host: str, settings: dict[str, Any], warns: bool) -> None:
    assert sends_tokens_unencrypted(host, GatewayConfig.model_validate(settings)) is warns


async def test_the_warning_is_said_where_the_gateway_listens(
    tokens: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    urls: list[str] = []
    with caplog.at_level(logging.WARNING, "hooksdk"):
        async with gateway(source(), config={"tokens": tokens}) as made, anyio.create_task_group() as group:
            group.start_soon(lambda: made.serve_http("0.0.0.0", on_listening=urls.append))
            await until(lambda: urls)
            group.cancel_scope.cancel()
    assert any("in the clear" in line for line in caplog.messages)


# Health and metrics


async def test_health_and_ready_need_no_token_and_say_nothing_else(tokens: dict[str, Any]) -> None:
    async with listening({"tokens": tokens}) as (_, url), httpx2.AsyncClient(timeout=60) as http:
        base = url.removesuffix("/mcp")
        assert [(await http.get(f"{base}/{one}")).text for one in ("health", "ready")] == ["ok", "ready"]
        assert (await http.head(f"{base}/health")).status_code == 200
        assert (await http.get(f"{base}/metrics")).status_code == 404


async def test_calls_are_counted_by_server_tool_and_verdict(tokens: dict[str, Any]) -> None:
    class NoDeleting:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("nothing is deleted") if event.call.name == "delete_note" else None

    reader = InMemoryMetricReader()
    urls: list[str] = []
    async with gateway(source(), NoDeleting, config={"tokens": tokens}) as made, anyio.create_task_group() as group:
        made.counts.metrics = Metrics(MeterProvider([reader]))
        group.start_soon(lambda: made.serve_http(on_listening=urls.append))
        await until(lambda: urls)
        async with http_client(urls[0], "auto", ANN) as connected, httpx2.AsyncClient(timeout=60) as http:
            for tool in ("read_note", "read_note", "delete_note", "made_up"):
                await connected.call_tool(tool, {"path": "a"})
            await http.post(urls[0], json={})
            await until(lambda: len(counted(reader, "hooksdk.gateway.calls")) == 3)
        assert counted(reader, "hooksdk.gateway.calls") == {
            ("notes", "ok", "read_note"): 2, ("notes", "blocked", "delete_note"): 1, ("", "unknown", ""): 1,
        }  # fmt: skip
        assert counted(reader, "hooksdk.gateway.refused") == {("token",): 1}
        assert counted(reader, "hooksdk.gateway.sessions") == {(): 1}
        group.cancel_scope.cancel()
    assert counted(reader, "hooksdk.gateway.sessions") == {(): 0}


def counted(reader: InMemoryMetricReader, name: str) -> dict[tuple[Any, ...], float]:
    """The points of a counter, by their attributes' values."""
    data = reader.get_metrics_data()
    points = {
        metric.name: metric.data.data_points
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    return {tuple((one.attributes or {}).values()): getattr(one, "value", 0) for one in points.get(name, ())}


# How often


async def test_a_metrics_page_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.prometheus", None)
    async with gateway(source(), config={"metrics": {}}) as made:
        with pytest.raises(ConfigError, match=r"hooksdk\[prometheus\]"):
            made.http_app()


async def status_of(http: httpx2.AsyncClient, url: str, token: str) -> httpx2.Response:
    return await http.post(url, json={}, headers={"Authorization": f"Bearer {token}"})


async def test_a_token_asks_as_often_as_it_may_and_is_told_when_it_may_again(tokens: dict[str, Any]) -> None:
    tokens["ann"]["requests_per_minute"] = 3
    async with listening({"tokens": tokens}) as (_, url), httpx2.AsyncClient(timeout=60) as http:
        statuses = [(await status_of(http, url, ANN)).status_code for _ in range(3)]
        refused = await status_of(http, url, ANN)
        assert 429 not in statuses
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert "3 a minute" in refused.text
        assert (await status_of(http, url, BOB)).status_code != 429


def test_what_a_client_has_used_becomes_free_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(_http.time, "monotonic", lambda: now)
    limit = RateLimit(cast("Any", None), lambda _: 30, Metrics())
    assert [limit.take("ann", 30) for _ in range(32)] == [0] * 30 + [2, 2]
    now += 4
    assert [limit.take("ann", 30) for _ in range(3)] == [0, 0, 2]
    now += 3_600
    assert [limit.take("ann", 30) for _ in range(31)] == [0] * 30 + [2]
    assert limit.take("bob", 30) == 0


async def test_a_rate_is_the_tokens_else_the_profiles_else_the_gateways(tokens: dict[str, Any]) -> None:
    tokens["bob"]["profile"] = "slow"
    config = {"tokens": tokens, "requests_per_minute": 2, "profiles": {"slow": {"requests_per_minute": 1}}}
    async with listening(config) as (_, url), httpx2.AsyncClient(timeout=60) as http:
        for token, rate in ((ANN, 2), (BOB, 1)):
            statuses = [(await status_of(http, url, token)).status_code for _ in range(rate + 1)]
            assert [one == 429 for one in statuses] == [False] * rate + [True]


async def test_a_client_that_asks_too_often_hears_of_it_as_an_error(tokens: dict[str, Any]) -> None:
    tokens["ann"]["requests_per_minute"] = 5
    async with listening({"tokens": tokens}) as (_, url), http_client(url, "auto", ANN) as connected:
        with pytest.raises(MCPError):
            await ask_often(connected)


async def ask_often(connected: Any) -> None:
    for _ in range(10):
        await connected.list_tools()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"tls": {"cert": "a"}}, "key"),
        ({"tls": {"crt": "a", "key": "b"}}, "cert"),
        ({"metrics": {"tokens": "annn"}, "tokens": {"ann": {"env": "A"}}}, "did you mean 'ann'"),
        ({"url": "http://tools.example.org/mcp"}, "https"),
        ({"max_connections": 0}, "greater than 0"),
    ],
)
def test_settings_that_cannot_be_are_told(table: dict[str, Any], problem: str) -> None:
    assert problem.lower() in " ".join(config_problems(table)).lower()
