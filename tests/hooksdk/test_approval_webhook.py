"""The webhook of a desk: one signed POST for each question, and an answer that is read strictly."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hooksdk import Approval, ApprovalRequest, ToolCall
from hooksdk.approvals import Later
from hooksdk.config import load_config
from hooksdk.desk import ApprovalDesk, ApprovalRecords, ApprovalWebhook
from hooksdk.errors import ConfigError
from hooksdk.gateway import GatewayConfig
from hooksdk.gateway._approvals import desk_of
from hooksdk.stores import SqlStore
from tests.stage import make

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.both_loops]


@dataclass
class Service:
    """A web service on this machine that answers as a test says."""

    status: int = 200
    body: bytes = b""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    url: str = ""
    hold: threading.Event | None = None


@pytest.fixture
def service() -> Generator[Service]:
    made = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
            if made.hold:
                made.hold.wait(60)
            self.send_response(made.status)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", str(len(made.body)))
            self.end_headers()
            self.wfile.write(made.body)

        do_GET = do_POST

        def log_message(self, *args: Any) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}/ask"
    yield made
    if made.hold:
        made.hold.set()
    server.shutdown()
    server.server_close()


def request(amount: int = 5) -> ApprovalRequest:
    arguments = {"amount": amount}
    return ApprovalRequest(
        title="Pay?", severity="critical", plugin="payments", session_id="s", call=ToolCall("c1", "pay", arguments),
        tool=make("pay", owner="bank"), arguments=arguments, effect_id="effect-7",
    )  # fmt: skip


def desk(folder: Path, webhook: ApprovalWebhook) -> ApprovalDesk:
    return ApprovalDesk(ApprovalRecords(SqlStore(folder)), channels=[webhook], wait=0)


async def test_each_question_is_posted_once_and_signed(service: Service, tmp_path: Path) -> None:
    webhook = ApprovalWebhook(service.url, secret="a secret", headers={"x-desk": "7"}, clock=lambda: 1_700_000_000.5)
    made = desk(tmp_path, webhook)
    for _ in range(3):
        assert await made(request()) == Later()
    ((headers, body),) = service.received
    sent = json.loads(body)
    assert (sent["type"], sent["number"], sent["title"]) == ("approval.requested", 1, "Pay?")
    assert (sent["tool"], sent["arguments"], sent["session"]) == ("host:bank:pay", {"amount": 5}, "s")
    assert "answer" not in sent
    assert headers["hooksdk-effect-id"] == sent["effect"] == "effect-7"
    assert (headers["x-desk"], headers["content-type"], headers["webhook-timestamp"]) == (
        "7",
        "application/json",
        "1700000000",
    )
    signed = f"{headers['webhook-id']}.1700000000.".encode() + body
    signature = base64.b64encode(hmac.digest(b"a secret", signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{signature}"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"granted": True, "by": "ann"}, Approval(True, by="ann")),
        ({"granted": False, "reason": "too much"}, Approval(False, "too much", by="the web service")),
        ({"granted": True, "scope": "session", "more": 1}, Approval(True, scope="session", by="the web service")),
        ({"granted": True, "agree": "values"}, Approval(True, by="the web service", agree="values")),
        ({"queued": True}, Later()),
        (None, Later()),
    ],
)
async def test_the_answer_may_stand_in_the_response(
    body: dict[str, Any] | None, answer: Approval | Later, service: Service, tmp_path: Path
) -> None:
    service.body = b"" if body is None else json.dumps(body).encode()
    assert await desk(tmp_path, ApprovalWebhook(service.url))(request()) == answer


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"granted": true}'), (302, b'{"granted": true}'), (404, b""), (200, b"yes"), (200, b"true"),
        (200, b'{"granted": "true"}'), (200, b'{"granted": 1}'), (200, b'{"granted": true, "scope": "ever"}'),
        (200, b'{"granted": true, "agree": "all"}'),
        (200, b'{"granted": true, "by": 7}'), (200, b'{"granted": true}' + b" " * 70_000), (200, b"[" * 50_000),
    ],
)  # fmt: skip
async def test_what_is_no_answer_is_told_and_the_call_waits(
    status: int, body: bytes, service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service.status, service.body = status, body
    assert await desk(tmp_path, ApprovalWebhook(service.url))(request()) == Later()
    assert len(service.received) == 1, "a redirect is not followed"
    assert "approval 1 goes on waiting, since a way to ask failed" in caplog.text


async def test_a_service_that_is_not_there_or_hangs_holds_nobody_up(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service.hold = threading.Event()
    made = desk(tmp_path, ApprovalWebhook(service.url, timeout=0.2))
    assert await made(request()) == Later()
    await made.records_in(None).answer(1, Approval(True, by="ann"))
    assert await made(request()) == Approval(True, by="ann")
    assert "goes on waiting" in caplog.text
    caplog.clear()
    assert await desk(tmp_path, ApprovalWebhook("http://127.0.0.1:9/none"))(request(6)) == Later()
    assert "goes on waiting" in caplog.text


@pytest.mark.parametrize("url", ["http://desk.example.org/", "ftp://127.0.0.1/", "file:///etc/passwd", "desk", ""])
def test_an_answer_that_others_could_change_on_its_way_is_not_asked_for(url: str) -> None:
    with pytest.raises(ConfigError, match="must begin with https://"):
        ApprovalWebhook(url)


async def test_the_configuration_says_where_and_the_environment_has_what_is_secret(service: Service) -> None:
    webhook = {"url": service.url, "secret_env": "DESK_SECRET", "headers_env": {"Authorization": "DESK_AUTH"}}
    config = GatewayConfig.of(load_config({"gateway": {"approvals": {"wait": 0, "webhook": webhook}}}))
    made = desk_of(config.approvals, {"DESK_SECRET": "whsec_YSBzZWNyZXQ=", "DESK_AUTH": "Bearer 7"})
    assert await made(request()) == Later()
    ((headers, body),) = service.received
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    signature = base64.b64encode(hmac.digest(b"a secret", signed, hashlib.sha256)).decode()
    assert (headers["authorization"], headers["webhook-signature"]) == ("Bearer 7", f"v1,{signature}")
    with pytest.raises(ConfigError, match="the variable DESK_SECRET is not set"):
        desk_of(config.approvals, {})


def test_a_project_that_is_not_trusted_sets_no_webhook(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('[gateway.approvals.webhook]\nurl = "https://evil.example.org"\n')
    assert GatewayConfig.of(load_config(folder=tmp_path)).approvals.webhook is None
