"""Commands behind a proxy of the list."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from play_cell import BOTH, stdout, use

pytestmark = pytest.mark.anyio
SHOW = "import os; print(*sorted(f'{k}={v}' for k, v in os.environ.items() if 'proxy' in k.lower()), sep='\\n')"
LISTED = {"proxyAllowlist": ["http://Proxy.Test:3128", "socks5://127.0.0.1:1080", "[::1]:8080"]}


async def variables(**arguments: Any) -> str:
    """The proxy variables that a command sees."""
    arguments = {"config": LISTED, **arguments}
    return stdout(await use("proxy-pcexec", command=[sys.executable, "-S", "-c", SHOW], **arguments))


async def test_every_variable_names_the_first_proxy_unless_the_call_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("https_proxy", "http://inherited:1")
    url = "http://proxy.test:3128"
    names = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "all_proxy", "http_proxy", "https_proxy", "no_proxy"]
    direct = "localhost,127.0.0.1,::1"
    expected = "".join(f"{name}={direct if name.lower() == 'no_proxy' else url}\n" for name in names)
    assert await variables() == expected


@pytest.mark.parametrize(
    ("proxy", "url"),
    [
        ("socks5://127.0.0.1:1080", "socks5://127.0.0.1:1080"),
        ("PROXY.TEST:3128", "http://proxy.test:3128"),
        ("http://proxy.test:3128/", "http://proxy.test:3128"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
async def test_another_proxy_of_the_list_may_be_named_in_any_spelling(proxy: str, url: str) -> None:
    assert f"HTTP_PROXY={url}\n" in await variables(proxy=proxy)


@pytest.mark.parametrize(
    "proxy",
    [
        "http://evil.test:3128", "https://proxy.test:3128", "http://proxy.test:3129", "http://proxy.test.evil:3128",
        "http://proxy.test:3128@evil.test:80", "http://user@evil.test:3128",
    ],
)  # fmt: skip
async def test_a_proxy_outside_the_list_is_refused_with_the_list(proxy: str) -> None:
    event = await use("proxy-pcexec", command=["true"], proxy=proxy, config=LISTED)
    assert event.status == "error"
    assert " is not allowed. Allowed are http://proxy.test:3128, socks5://127.0.0.1:1080, http://[::1]:8080." in (
        event.result.text
    )
    assert "@" not in event.result.text


async def test_what_is_no_proxy_is_refused() -> None:
    event = await use("proxy-pcexec", command=["true"], proxy="proxy.test", config=LISTED)
    assert event.result.text.startswith("`proxy` is no proxy: it names no port. Allowed are ")


async def test_without_a_list_there_is_no_proxy() -> None:
    event = await use("proxy-pcexec", command=["true"])
    assert event.result.text == "No proxy is allowed here. The operator lists them as proxyAllowlist."


@pytest.mark.parametrize("name", ["HTTP_PROXY", "no_proxy", "Https_Proxy"])
async def test_a_call_may_not_set_the_variables_itself(name: str) -> None:
    event = await use("proxy-pcexec", command=["true"], env={name: "", "OTHER": ""}, config=LISTED)
    assert event.result.text == f"`env` may not set {name} here: proxy-pcexec sets the proxy variables itself."


async def test_a_login_comes_from_the_secret_manager_and_is_masked(manager: Path) -> None:
    config = {**LISTED, "secretMgrPath": str(manager)}
    text = await variables(proxy="http://{{secret:LOGIN}}@proxy.test:3128", config=config)
    assert "HTTP_PROXY=http://{{secret:LOGIN}}@proxy.test:3128\n" in text
    assert "swordfish" not in text


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_a_program_that_follows_the_variables_reaches_the_proxy() -> None:
    requests: list[bytes] = []

    async def answer(stream: Any) -> None:
        async with stream:
            requests.append(await stream.receive())
            await stream.send(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", family=socket.AF_INET)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    code = "import urllib.request as r; print(r.urlopen('http://x.invalid/page').read().decode())"
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        config = {"proxyAllowlist": [f"127.0.0.1:{port}"]}
        event = await use("proxy-pcexec", command=[sys.executable, "-S", "-c", code], config=config)
        assert (event.status, stdout(event)) == ("ok", "hi\n")
        group.cancel_scope.cancel()
    assert requests[0].startswith(b"GET http://x.invalid/page HTTP/1.1\r\n")
