"""Reading a stored session for a page: its messages, what the model sees of them, its trims and its searches for
tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooksdk import schema
from hooksdk.calls import shown_labels
from hooksdk.costs import (
    PRICES,
    PriceList,
    Request,
    at_each_request,
    cache_readings,
    clearing,
    never,
    replay,
    requests_in,
)
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format
from hooksdk.formats.content import describe_part
from hooksdk.records import searches_in
from hooksdk.report import _model as model
from hooksdk.report._paid import read_paid
from hooksdk.report._texts import Room, arguments_text, as_text, as_texts
from hooksdk.transcript import Entry, Ledger, ResultRow
from hooksdk.values import as_list, as_object

# The most messages for which a page has bills, whose time grows with the square of their number.
BILL_MESSAGES = 1_000
MESSAGES_SHOWN = 20_000
# Types of parts that are shown as text, calls or results already.
SHOWN_ELSEWHERE = {"text", "tool_use", "tool_result", "refusal", "input_text", "output_text"}
MAX_QUERIES = 50


@dataclass(frozen=True, kw_only=True)
class StoredSession:
    """A session as a store has it: `messages, journal = await store.read_session(id)`. Without a journal it is a plain
    list of messages.

    ```python
    from hooksdk.report import StoredSession, page

    stored = StoredSession(session_id="ann", messages=[{"role": "user", "content": "Hello"}])
    assert "Hello" in page(sessions=[stored])
    ```

    Attributes:
        format: The format if the journal names none; None: `openai-chat`.
        subagents: The requests of its sub-agents: `requests_in` of their journals.
    """

    session_id: str
    messages: Sequence[Message]
    journal: Sequence[Mapping[str, Any]] = field(default=())
    format: str | MessageFormat | None = None
    subagents: Sequence[Request] = ()

    def ledger(self) -> Ledger:
        """The state of the session. Raises `ConfigError` for an unknown format, and the errors of a broken journal."""
        entries: list[Entry] = [dict(entry) for entry in self.journal]
        named = next((str(entry.get("name")) for entry in entries if entry.get("kind") == "format"), None)
        if named is not None:
            form = get_format(named) if named in FORMATS else None
        else:
            form = get_format(self.format or "openai-chat")
        return Ledger.replay(self.messages, entries, form)


def read_stored(stored: StoredSession, room: Room, prices: PriceList) -> tuple[model.Session, Ledger]:
    """The part of a page about a session, and the state of the session."""
    ledger = stored.ledger()
    before = sum(map(schema.estimate_tokens, ledger.messages))
    seen = sum(map(schema.estimate_tokens, ledger.view))
    reader = _Reader(ledger, room)
    count = len(ledger.messages)
    first = max(0, count - MESSAGES_SHOWN)
    times = [float(entry["time"]) for entry in stored.journal if isinstance(entry.get("time"), (int, float))]
    session = model.Session(
        session_id=stored.session_id,
        format=ledger.format_name or (ledger.format.name if ledger.format else ""),
        count=count,
        results=len(ledger.records),
        tokens=before,
        tokens_seen=seen,
        trimmed=sum(record.short_text is not None for record in ledger.records),
        changed=max(times, default=None),
        messages=[reader.message(position) for position in range(first, count)],
        messages_left_out=first,
        summary=[reader.in_place(place) for place in ledger.base if not isinstance(place, int)],
        trims=_trims(stored.journal, ledger),
        searches=_searches(ledger),
        requests=sum(map(ledger.format.is_reply, ledger.messages)) if ledger.format else 0,
        bills=_bills(ledger),
        paid=read_paid(own := requests_in(stored.journal), prices),
        cache=_cache(ledger, stored.journal),
        with_subagents=read_paid([*own, *stored.subagents], prices) if stored.subagents else [],
    )
    return session, ledger


class _Reader:
    """Reads messages of any format."""

    def __init__(self, ledger: Ledger, room: Room) -> None:
        self._ledger = ledger
        self._room = room
        self._kept = {place for place in ledger.base if isinstance(place, int)}

    def message(self, position: int) -> model.Message:
        """A stored message."""
        message = self._ledger.messages[position]
        hidden = position < self._ledger.upto and position not in self._kept
        return self._read(message, position, self._ledger.results_at(position), hidden=hidden)

    def in_place(self, message: Message) -> model.Message:
        """A message that a compaction has made."""
        return self._read(message, None, (), hidden=False)

    def _read(
        self, message: Message, position: int | None, records: Sequence[ResultRow], *, hidden: bool
    ) -> model.Message:
        form = self._ledger.format
        if form is None:
            text = self._room.text(json.dumps(message, ensure_ascii=False, indent=2, default=str))
            return model.Message(position=position, role=as_text(message.get("role")), text=text, hidden=hidden)
        found, made, prose = form.results(message), form.calls(message), form.text(message)
        others = [
            describe_part(part)
            for part in as_list(message.get("content"))
            if as_object(part).get("type") not in SHOWN_ELSEWHERE and not isinstance(part, str)
        ]
        if not (prose or made or others or found):
            prose = json.dumps(message, ensure_ascii=False, default=str)
        role = "assistant" if form.is_reply(message) else as_text(message.get("role") or message.get("type"))
        return model.Message(
            position=position,
            role="tool" if found and not (prose or made) else role,
            text=self._room.text(prose) if prose else None,
            calls=[model.Call(call_id=one.id, name=one.name, arguments=self.arguments(one.arguments)) for one in made],
            results=[
                self._result(records[number] if number < len(records) else None, one.text, is_error=one.is_error)
                for number, one in enumerate(found)
            ],
            others=others,
            hidden=hidden,
        )

    def arguments(self, value: object) -> model.Text:
        """A call's arguments."""
        return self._room.text(arguments_text(value), chars=600, lines=12)

    def _result(self, record: ResultRow | None, text: str, *, is_error: bool) -> model.Result:
        result = model.Result(
            tokens=schema.estimate_tokens(text), characters=len(text), is_error=is_error, text=self._room.text(text)
        )
        if record is not None:
            short, entry = record.short_text, record.marks.queued_entry
            result.handle, result.tool, result.tokens = record.handle, record.tool, record.tokens
            result.instead = None if short is None else self._room.text(short)
            result.queued, result.labels = entry["kind"] if entry else "", shown_labels(record.labels)
        return result


def _trims(journal: Sequence[Mapping[str, Any]], ledger: Ledger) -> list[model.TrimLine]:
    """Every trim and restore in the journal, with its outcome."""
    lines: dict[int, model.TrimLine] = {}
    for entry in journal:
        kind = entry.get("kind")
        if kind in {"trim", "restore"}:
            record = ledger.records.by_handle(as_text(entry.get("handle")))
            whole, short = record.characters if record else 0, len(as_text(entry.get("text")))
            lines[int(entry["n"])] = model.TrimLine(
                at=float(entry["time"]) if "time" in entry else None,
                handle=as_text(entry.get("handle")),
                tool=record.tool if record else "",
                kind=str(kind),
                status="queued",
                plugin=as_text(entry.get("owner")),
                reason=as_text(entry.get("reason")),
                before=whole if kind == "trim" else 0,
                after=short if kind == "trim" else whole,
                tokens_saved=max(0, record.tokens - -(-short // 4)) if record and kind == "trim" else None,
            )
        elif kind == "drain":
            for n, status in entry["done"]:
                if n in lines:
                    lines[n].status = str(status)
    return list(lines.values())


def _searches(ledger: Ledger) -> list[model.Search]:
    """The searches for tools, with the hits of each query, read from the answers in the messages."""
    found: list[model.Search] = []
    for record in ledger.records:
        groups = () if record.is_error else searches_in(ledger.body(record).text)
        if queries := [_query(group) for group in groups[:MAX_QUERIES]]:
            found.append(model.Search(message=record.position, tokens=record.tokens, queries=queries))
    return found


def _query(group: Mapping[str, Any]) -> model.Query:
    hits = [
        model.Hit(
            name=as_text(hit.get("name")),
            owner=as_text(hit.get("from")),
            description=as_text(hit.get("description"))[:300],
            weak=bool(hit.get("weak")),
        )
        for hit in map(as_object, as_list(group.get("hits"))[:MAX_QUERIES])
    ]
    notes = as_texts([group.get("already_offered"), group.get("weak")])
    return model.Query(query=as_text(group.get("query")), hits=hits, note=" ".join(notes))


def _cache(ledger: Ledger, journal: Sequence[Mapping[str, Any]]) -> list[str]:
    if ledger.format is None or len(ledger.messages) > BILL_MESSAGES:
        return []
    readings = cache_readings(ledger.messages, journal, ledger.format)
    return [f"{one.model}: {one.difference}" for one in readings if one.difference]


def _bills(ledger: Ledger) -> list[model.Bill]:
    form, messages = ledger.format, ledger.messages
    if form is None or not messages or len(messages) > BILL_MESSAGES:
        return []
    whole = replay(messages, form, never)
    if not whole.price:
        return []
    bills = {
        "untrimmed": whole,
        "with old results cleared": replay(messages, form, clearing(None, PRICES)),
        "the least that trims could reach": replay(messages, form, at_each_request, lossless=True),
    }
    return [
        model.Bill(policy=name, tokens=bill.tokens, price=bill.price, share=bill.price / whole.price, trims=bill.trims)
        for name, bill in bills.items()
    ]
