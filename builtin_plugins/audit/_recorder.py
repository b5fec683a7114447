"""The records of events, where they are written, and what happens when they cannot be: a chain in the store beside the
one in files, and the head that is sent elsewhere."""

from __future__ import annotations

import errno
import ipaddress
import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, final
from urllib.parse import urlsplit

import anyio

from builtin_plugins.audit._writer import FileChain
from hooksdk import audit, schema
from hooksdk.approvals import Question, digest_of
from hooksdk.audit import Head, Values
from hooksdk.errors import StoreError
from hooksdk.hooks import Event, RecordDecision, Trace, TransformToolResult
from hooksdk.records import CallFinished, HookFired, RunEnded, SessionEnded
from hooksdk.tasks import describe, in_abandonable_thread
from hooksdk.values import clip

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

logger = logging.getLogger("hooksdk")

# Kinds of trace records that the chain has, beside those of handlers whose failure decides.
KINDS = frozenset(
    {
        "session_started",
        "session_ended",
        "run_started",
        "run_ended",
        "withheld",
        "decision",
        "approval_asked",
        "approval_answered",
        "call_finished",
        "settled",
    }
)
# Hooks in which a failing handler blocks.
DECIDING = frozenset(
    {"agent_start", "narrow_tools", "rewrite_tool_call", "before_tool_call", "resolve_secrets", "tool_call_start"}
)
ONLY_TRUE = ("shadow", "in_doubt", "unanswered")
# The most characters of a name that is no known tool's.
LONGEST_NAME = 128
# Threads that may write, or wait for a hanging disk.
THREADS = 40
# Fields of the trace that are not about decisions, and those that are written only if they are true.
LEFT_OUT = frozenset({"stats", "dropped", "seconds", *ONLY_TRUE})
# Seconds that sending a head may take.
TIMEOUT = 10.0


@final
class Recorder:
    """Writes records of all sessions to one chain. The loss of a record is logged, and recorded once the chain can be
    written again."""

    def __init__(self, chain: FileChain | StoreChain) -> None:
        self.chain = chain
        self.where = str(chain.path) if isinstance(chain, FileChain) else "the chain in the store"
        self._lost = 0
        self._threads = anyio.CapacityLimiter(THREADS)

    async def append(self, values: Values, fields: Mapping[str, Any], *, durable: bool = False) -> None:
        """Write one record; `values` holds a chain in the store. Raises `OSError` and `StoreError`."""
        lost, self._lost = self._lost, 0  # of writers at the same time one records the loss
        try:
            if lost:
                await self._write(values, {"kind": "records_lost", "records": lost})
                logger.warning("%s can be written again; %d records are lost", self.where, lost)
                lost = 0
            await self._write(values, fields, durable=durable)
        except (OSError, StoreError) as error:
            self._lost += 1
            if isinstance(error, StoreError):
                raise
            raise OSError(error.errno, f"audit cannot write {self.where}: {error.strerror or error}") from error
        finally:
            self._lost += lost

    async def _write(self, values: Values, fields: Mapping[str, Any], *, durable: bool = False) -> None:
        if isinstance(self.chain, FileChain):
            await in_abandonable_thread(partial(self.chain.append, fields, durable=durable), limiter=self._threads)
        else:
            await self.chain.append(values, fields)


def _place(event: Event) -> dict[str, Any]:
    place = {"session_id": event.session_id, "run_id": event.run_id, "agent_id": event.agent_id}
    return {name: value for name, value in place.items() if value}


def describe_call(event: RecordDecision, *, arguments: bool) -> dict[str, Any]:
    """The record of a call that is let through to its tool."""
    call, given = event.call, dict(event.arguments)
    fields: dict[str, Any] = {
        "kind": "call_let_through",
        **_place(event),
        "call_id": call.id,
        "parent_id": call.parent_id,
        "origin": call.origin,
        "tool": event.tool.id,
        "tool_fingerprint": event.tool.fingerprint,
        "name": call.name,
        "effect_id": event.effect_id,
        "arguments_sha256": digest_of(given),
        "judged_by": list(event.judged_by),
        "labels": sorted(event.labels),
        "trigger": event.trigger,
        "requester": (event.requester or {}).get("id"),
    }
    if event.granted or event.approved_by is not None:
        fields["approved_by"] = event.approved_by or ""
        fields["granted"] = [_question(one, title=arguments) for one in event.granted]
    if arguments:
        fields["arguments"] = given
    return {name: value for name, value in fields.items() if value is not None}


def digest_of_call(event: TransformToolResult) -> str:
    """The digest of a call's arguments as they were judged. Where it came to no judgement, since its tool is unknown or
    its arguments cannot be read, of what it was called with."""
    given: object = dict(event.arguments)
    if not given and (given := event.call.arguments) is not None:
        with suppress(ValueError):
            given = schema.parse_arguments(given)
    return digest_of({} if given is None else given)


def _question(question: Question, *, title: bool) -> dict[str, Any]:
    fields = {"plugin": question.plugin, "rule": question.rule, "severity": question.severity}
    evidence = [one.place for one in question.evidence]
    words = {"title": question.title} if title else {"title_sha256": digest_of(question.title)}
    return {**fields, **words, "evidence": evidence}


def describe_record(event: Trace, *, arguments: bool) -> dict[str, Any] | None:
    """The chain's form of a trace record, or None if the chain does not have it. The name of a call to no known tool
    is the model's own text, which may be a secret or long: the chain has its digest, or with `arguments` its
    beginning."""
    record = event.record
    failed = isinstance(record, HookFired) and record.outcome == "failed" and record.hook in DECIDING
    if record.kind not in KINDS and not failed:
        return None
    own = {name: value for name, value in record.as_dict().items() if name not in LEFT_OUT and value is not None}
    own |= {name: value for name in ONLY_TRUE if (value := getattr(record, name, False))}
    if isinstance(record, (RunEnded, SessionEnded)):
        own = {"reason": record.reason}
    if isinstance(record, CallFinished) and record.tool is None:
        name = own.pop("name")
        own |= {"name_sha256": digest_of(name)} | ({"name": clip(name, LONGEST_NAME)} if arguments else {})
    kind = "handler_failed" if failed else record.kind
    return {"kind": kind, **_place(event), "happened": round(event.time, 6), **own}


@final
class StoreChain:
    """Appends records to a store. Several processes and machines may write one chain with one key: the first to take a
    number has it, and the others continue after that record."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._alone: anyio.Lock | None = None
        self._head: Head | None = None

    @property
    def head(self) -> Head | None:
        """The last record that this writer knows of."""
        return self._head

    async def append(self, values: Values, fields: Mapping[str, Any]) -> Head:
        """Write one record; it is durable when this returns. Raises `StoreError`, `OSError`, `TypeError` and
        `ValueError` if it is not written."""
        if self._alone is None:
            self._alone = anyio.Lock()
        async with self._alone:
            if self._head is None:
                self._head = await self._catch_up(values)
            if self._head is None:
                key = audit.public_text(self._key.public_key())
                await self._put(
                    values, {"kind": audit.CHAIN_BEGUN, "schema": audit.SCHEMA, "key": key}, only_first=True
                )
            return await self._put(values, fields)

    async def _catch_up(self, values: Values) -> Head | None:
        first = audit.parse_line(str(await values.get(audit.record_key(1))).encode("ascii", "replace"))
        if first is not None and not audit.is_genuine(self._key.public_key(), first):
            raise OSError(errno.EINVAL, "the chain was begun with another key: name that one")
        return await _last_in(values)

    async def _put(self, values: Values, fields: Mapping[str, Any], *, only_first: bool = False) -> Head:
        while True:
            before = self._head or Head(0, audit.NO_HASH)
            record = {"n": before.number + 1, "prev": before.hash, "time": round(time.time(), 6), **fields}
            line = audit.seal(record, self._key).decode("ascii")
            stored = await values.update(
                audit.record_key(before.number + 1), lambda value, line=line: line if value is None else value
            )
            if stored == line:
                self._head = Head(before.number + 1, audit.hash_of(line.encode()))
                return self._head
            other = audit.parse_line(str(stored).encode("ascii", "replace"))
            if (
                other is None
                or other.number != before.number + 1
                or not audit.is_genuine(self._key.public_key(), other)
            ):
                raise OSError(errno.EINVAL, f"record {before.number + 1} of the chain was not written with this key")
            self._head = other.head
            if only_first:
                return self._head


async def _last_in(values: Values) -> Head | None:
    numbered = await audit.record_keys(values)
    if not numbered:
        return None
    record = audit.parse_line(str(await values.get(numbered[-1])).encode("ascii", "replace"))
    if record is None:
        raise OSError(errno.EINVAL, f"{numbered[-1]} in the store is no record of a chain")
    return record.head


def check_url(url: str) -> str:
    """The URL, if heads may go there. Raises `ValueError`: over plain HTTP anybody could replace a head on its way."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_this_machine(parts.hostname)):
        raise ValueError(f"{url!r:.200} must begin with https://; http:// is for this machine alone")
    return url


def _is_this_machine(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


@final
class HeadSender:
    """POSTs the head as JSON at intervals and at the end, if it has changed. A failure is logged, and the next head is
    sent."""

    def __init__(self, url: str, minutes: float, chain: FileChain | StoreChain, key: str) -> None:
        self._url = url
        self._pause = minutes * 60
        self._chain = chain
        self._key = key
        self._sent: Head | None = None
        self._thread = anyio.CapacityLimiter(1)

    async def run(self) -> None:
        """Send until it is cancelled."""
        while True:
            await self.send()
            await anyio.sleep(self._pause)

    async def send(self) -> None:
        """Send the current head, unless it was sent."""
        head = self._chain.head
        if head is None or head == self._sent:
            return
        document = {"type": "audit.head", "head": str(head), "time": round(time.time(), 6), "key": self._key}
        try:
            with anyio.fail_after(TIMEOUT):
                await in_abandonable_thread(partial(self._post, document), limiter=self._thread)
            self._sent = head
        except (OSError, TimeoutError) as error:
            logger.warning("audit: the head could not be sent to %s: %s", urlsplit(self._url).hostname, describe(error))

    def _post(self, document: dict[str, Any]) -> None:
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            def redirect_request(self, *args: Any, **named: Any) -> None:
                """No redirect: a head goes to the given address alone."""

        headers = {"content-type": "application/json", "user-agent": "hooksdk"}
        request = Request(self._url, json.dumps(document).encode(), headers, method="POST")  # noqa: S310 - the scheme was checked
        with build_opener(NoRedirects()).open(request, timeout=TIMEOUT):
            pass
