"""The records of events, and what happens when they cannot be written."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, final

import anyio

from builtin_plugins.audit._stored import StoreChain
from builtin_plugins.audit._writer import FileChain
from hooksdk.approvals import Question, digest_of
from hooksdk.audit import Values
from hooksdk.errors import StoreError
from hooksdk.hooks import Event, RecordDecision, Trace
from hooksdk.records import HookFired, RunEnded, SessionEnded
from hooksdk.tasks import in_abandonable_thread

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
# Threads that may write, or wait for a hanging disk.
THREADS = 40
# Fields of the trace that are not about decisions, and those that are written only if they are true.
LEFT_OUT = frozenset({"stats", "dropped", "seconds", *ONLY_TRUE})


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


def _question(question: Question, *, title: bool) -> dict[str, Any]:
    fields = {"plugin": question.plugin, "rule": question.rule, "severity": question.severity}
    evidence = [one.place for one in question.evidence]
    words = {"title": question.title} if title else {"title_sha256": digest_of(question.title)}
    return {**fields, **words, "evidence": evidence}


def describe_record(event: Trace) -> dict[str, Any] | None:
    """The chain's form of a trace record, or None if the chain does not have it."""
    record = event.record
    failed = isinstance(record, HookFired) and record.outcome == "failed" and record.hook in DECIDING
    if record.kind not in KINDS and not failed:
        return None
    own = {name: value for name, value in record.as_dict().items() if name not in LEFT_OUT and value is not None}
    own |= {name: value for name in ONLY_TRUE if (value := getattr(record, name, False))}
    if isinstance(record, (RunEnded, SessionEnded)):
        own = {"reason": record.reason}
    kind = "handler_failed" if failed else record.kind
    return {"kind": kind, **_place(event), "happened": round(event.time, 6), **own}
