"""Asking a person through a web service of the operator's: one signed POST for each question."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, cast, final
from urllib.parse import urlsplit

import anyio

from hooksdk.approvals import SCOPES, Approval
from hooksdk.desk._record import ApprovalRecord
from hooksdk.errors import ConfigError
from hooksdk.tasks import in_abandonable_thread
from hooksdk.values import clip

# Bytes of an answer that are read.
MAX_ANSWER = 64 * 1024
MAX_AT_ONCE = 8


@final
class ApprovalWebhook:
    """A channel of `ApprovalDesk`: POSTs each record to `url` as JSON, once.

    The answer may be in the response, `{"granted": true, "by": "ann", "reason": "", "scope": "once", "agree": ""}`.
    After any other 2xx response it comes later, by `hooksdk approvals` or `ApprovalRecords.answer`. Any other response,
    or none within `timeout` seconds, is logged, and the call waits.

    The header `hooksdk-effect-id` has the effect id of the call, which its tool gets, too. With a `secret` the request
    is signed as Standard Webhooks are: `webhook-id`, `webhook-timestamp`, and `webhook-signature`, which is `v1,` and
    the base64 of the HMAC-SHA256 of `ID.TIMESTAMP.BODY`. Raises `ConfigError` for a URL that is neither https nor on
    this machine: on its way the answer could be changed.

    ```python
    import os

    from hooksdk.desk import ApprovalDesk, ApprovalWebhook

    desk = ApprovalDesk(channels=[ApprovalWebhook("https://desk.example.org/ask", secret=os.environ.get("DESK_SECRET"))])
    ```
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and _is_this_machine(parts.hostname)):
            problem = f"{clip(url, 200)!r} must begin with https://; http:// is for this machine alone"
            raise ConfigError("approval webhook", (problem,))
        self._url = url
        self._key = None if secret is None else _key_of(secret)
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._clock = clock
        self._sent: set[int] = set()
        self._threads: anyio.CapacityLimiter | None = None

    async def __call__(self, record: ApprovalRecord) -> Approval | None:
        """Ask about one call; None if the answer comes later. Raises `OSError` and `ValueError`."""
        if record.number in self._sent:
            return None
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(MAX_AT_ONCE)
        with anyio.fail_after(self._timeout):
            answer = await in_abandonable_thread(self._post, record, limiter=self._threads)
        self._sent.add(record.number)
        return _read_answer(answer)

    def _post(self, record: ApprovalRecord) -> bytes:
        from urllib.error import HTTPError
        from urllib.request import Request, build_opener

        body = json.dumps(_as_asked(record)).encode()
        headers = {"content-type": "application/json", "user-agent": "hooksdk", **self._headers}
        headers |= self._signed(record, body)
        request = Request(self._url, data=body, headers=headers, method="POST")  # noqa: S310 - the scheme was checked
        try:
            with build_opener(_no_redirects()).open(request, timeout=self._timeout) as response:
                return response.read(MAX_ANSWER + 1)
        except HTTPError as error:
            with error:
                raise OSError(f"the web service answered {error.code}") from None

    def _signed(self, record: ApprovalRecord, body: bytes) -> dict[str, str]:
        name, now = f"approval-{record.number}-{record.key[:16]}", f"{int(self._clock())}"
        headers = {"webhook-id": name, "webhook-timestamp": now}
        if record.effect:
            headers["hooksdk-effect-id"] = record.effect
        if self._key is not None:
            digest = hmac.digest(self._key, f"{name}.{now}.".encode() + body, hashlib.sha256)
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return headers


def _as_asked(record: ApprovalRecord) -> dict[str, Any]:
    value = {name: one for name, one in record.as_dict().items() if name not in {"answer", "answered", "asker"}}
    return {"type": "approval.requested", "title": record.title, **value}


def _read_answer(answer: bytes) -> Approval | None:
    """The answer in a response; None if it comes later. Raises `ValueError` for a response that is no answer."""
    if not answer.strip():
        return None
    if len(answer) > MAX_ANSWER:
        raise ValueError(f"the web service answered more than {MAX_ANSWER:,} bytes")
    value: object = json.loads(answer)
    if not isinstance(value, dict):
        raise ValueError("the web service's answer is not a JSON object")  # noqa: TRY004 - it is what came, not our own
    fields = cast("dict[str, object]", value)
    granted, scope = fields.get("granted"), fields.get("scope", "once")
    by, reason = fields.get("by", "the web service"), fields.get("reason", "")
    agree = fields.get("agree", "")
    if granted is None or fields.get("unanswered"):  # nobody has answered the service
        return None
    is_text = isinstance(by, str) and isinstance(reason, str)
    if not isinstance(granted, bool) or scope not in SCOPES or not is_text or agree not in ("", "values"):
        raise ValueError(f"the web service's answer is none: {clip(repr(fields), 200)}")
    return Approval(granted, str(reason), scope, by=str(by), agree=agree)


def _no_redirects() -> Any:
    from urllib.request import HTTPRedirectHandler

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *args: Any, **named: Any) -> None:
            """No redirect: the question goes to the operator's own address alone."""

    return NoRedirects()


def _key_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()


def _is_this_machine(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
