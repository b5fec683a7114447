"""An approver that records each question, so that the answer may come from anywhere, and later; and its way to a person
through a web service of the operator's: one signed POST for each question."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast, final
from urllib.parse import urlsplit

import anyio

from hooksdk.approvals import MAX_TIMEOUT, SCOPES, Approval, ApprovalRequest, Later, plain_answer
from hooksdk.desk._record import ApprovalRecord
from hooksdk.desk._records import DAY, ApprovalRecords, IsOver, NotWaiting
from hooksdk.errors import ConfigError, check, check_number
from hooksdk.stores import MemoryStore, Store
from hooksdk.tasks import Attempt, describe, in_abandonable_thread
from hooksdk.values import clip

logger = logging.getLogger("hooksdk")

WAIT = 30.0
# Seconds between two looks at a record that waits: another process may have answered.
POLL = 0.25
# The share of a question's time limit that the desk waits for: at the limit the run takes silence for a no.
SHARE = 0.9

IN_MEMORY = (
    "nobody can answer them from another process, `hooksdk approvals` among them, and they end with this one. "
    'Host(store="jsonl") keeps them'
)

# A way to a person: `async def (record) -> Approval`, or None if the answer comes in another way, or not at all.
Channel = Callable[[ApprovalRecord], Awaitable[Approval | None]]
# Bytes of an answer that are read.
MAX_ANSWER = 64 * 1024
MAX_AT_ONCE = 8


@final
class ApprovalDesk:
    """Records each question, asks over its channels, and waits `wait` seconds for an answer. Without one it answers
    `Later()`: the call waits without holding up its run, and the same call takes the answer when it is made again.
    Records expire `keep` seconds after they were made.

    All channels are asked at the same time. The first answer counts, whether it comes from a channel, from `hooksdk
    approvals` in a terminal or from another program. If a channel fails, the log says so, and the call waits.

    ```python
    from hooksdk import Host
    from hooksdk.desk import ApprovalDesk

    host = Host(approver=ApprovalDesk(wait=60))
    ```
    """

    def __init__(
        self,
        records: ApprovalRecords | None = None,
        *,
        channels: Sequence[Channel] = (),
        wait: float = WAIT,
        keep: float = DAY,
    ) -> None:
        check_number("ApprovalDesk(keep=...)", keep, "keep=3600")
        check("ApprovalDesk(wait=...)", wait, (int, float), "seconds")
        self.records = records
        self.channels = tuple(channels)
        self.wait = wait
        self.keep = keep
        self._memory = MemoryStore()
        self._last: ApprovalRecords | None = None

    async def __call__(self, request: ApprovalRequest) -> Approval | Later:
        """Ask about one call."""
        return await self.ask(request)

    async def ask(
        self,
        request: ApprovalRequest,
        *,
        channels: Sequence[Channel] = (),
        wait: float | None = None,
        is_over: IsOver | None = None,
    ) -> Approval | Later:
        """Ask about one call, over these channels as well, and wait `wait` seconds: with 0 until every channel was
        asked. `is_over` says of a session's id, also as an async function, whether the session is over: its questions
        and answers count for this one, too."""
        records = self.records_in(request.store)
        wait = self.wait if wait is None else wait
        longest = SHARE * min(request.timeout, MAX_TIMEOUT)
        until = anyio.current_time() + (min(wait, longest) if wait > 0 else longest)
        waited_for: int | None = None
        while True:
            try:
                record, answer = await records.ask(request, keep=self.keep, waited_for=waited_for, is_over=is_over)
            except ValueError as problem:
                return Approval(False, str(problem), unanswered="cannot_wait")
            if answer is not None:
                return answer
            if anyio.current_time() >= until:
                return Later()
            if not await self._wait(records, record, (*channels, *self.channels), until, patient=wait > 0):
                return Later()
            waited_for = record.number

    def records_in(self, store: Store | None) -> ApprovalRecords:
        """The records of a host's questions: the desk's own, else those in this store, the host's; without either in
        memory. Raises `StoreError` for a store that cannot keep them."""
        if self.records is not None:
            return self.records
        store = self._memory if store is None else store
        if self._last is None or self._last.store is not store:
            self._last = ApprovalRecords(store)
            if isinstance(store, MemoryStore):
                logger.warning("approvals that wait are in memory, like all that this host keeps: %s", IN_MEMORY)
        return self._last

    async def _wait(
        self,
        records: ApprovalRecords,
        record: ApprovalRecord,
        channels: Sequence[Channel],
        until: float,
        *,
        patient: bool,
    ) -> bool:
        """Ask over these channels; True once the record has an answer or has expired."""
        over = anyio.Event()

        async def watch() -> None:
            while not over.is_set():
                await anyio.sleep(POLL)
                if not await records.is_pending(record.number):
                    over.set()

        async def ask(channel: Channel) -> None:
            if await self._ask_over(channel, records, record):
                over.set()

        async def ask_all() -> None:
            async with anyio.create_task_group() as asking:
                for channel in channels:
                    asking.start_soon(ask, channel)
            if not patient:
                over.set()

        async with anyio.create_task_group() as group:
            group.start_soon(ask_all)
            if patient:
                group.start_soon(watch)
            with anyio.move_on_after(max(until - anyio.current_time(), 0)):
                await over.wait()
            group.cancel_scope.cancel()
        return not await records.is_pending(record.number)

    async def _ask_over(self, channel: Channel, records: ApprovalRecords, record: ApprovalRecord) -> bool:
        """True if the record has an answer, of this channel or an earlier one."""
        approval: Approval | None = None
        async with Attempt(MAX_TIMEOUT) as attempt:
            answer = await channel(record)
            approval = None if answer is None else plain_answer(answer, record.as_request())
        if attempt.error is not None:
            problem = describe(attempt.error)
            logger.warning("approval %d goes on waiting, since a way to ask failed: %s", record.number, problem)
        if approval is None or approval.unanswered:
            return False
        try:
            await records.answer(record.number, approval)
        except NotWaiting as late:
            logger.info("an answer came too late: %s", late)
        return True


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
