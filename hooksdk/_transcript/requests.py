"""Requests to trim or restore results: the answer, the journal entry, and the outcome of each in the drain; and what the
view costs. Pure, like the ledger; loaded with the first request."""

from __future__ import annotations

import bisect
from dataclasses import replace
from typing import Literal

from hooksdk._transcript.encoding import Entry, encode
from hooksdk._transcript.infos import why_not
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.rows import ResultRow
from hooksdk._transcript.trims import (
    MIN_SHARE_SAVED,
    MIN_TOKENS_SAVED,
    TOO_SHORT,
    DrainedTrim,
    Plan,
    TrimStatus,
    saves_enough,
)
from hooksdk.calls import TrimReceipt
from hooksdk.errors import UnknownResult, nearest
from hooksdk.formats import Message
from hooksdk.formats.content import NOTE, cache_marks, size_of
from hooksdk.formats.kit import clean_text
from hooksdk.formats.sending import CallIds
from hooksdk.schema import estimate_tokens
from hooksdk.values import clip, is_list

# Characters of the longest summary in the place of a result.
MAX_SUMMARY = 2_000


def plan_trim(ledger: Ledger, reference: str, replacement: str | None, *, small: bool = False) -> Plan:
    """Plan the trim of one result; with `small` also of one that is hardly longer than its note. Raises
    `UnknownResult`."""
    record = find_record(ledger, reference)
    if record.will_be_trimmed:
        if queued := record.marks.queued_entry:
            return _receipt(record, "already_queued", queued["text"]), None
        return _receipt(record, "already_trimmed", record.short_text or ""), None
    problem = why_not(ledger, record, is_gone=ledger.is_gone(record))
    if small and problem == TOO_SHORT:
        problem = None
    text = None if problem else _short_text(ledger, record, replacement, least=1 if small else MIN_TOKENS_SAVED)
    if text is None:
        refusal = f"{record.handle} cannot be trimmed: {problem or TOO_SHORT}"
        return replace(_receipt(record, "not_trimmed", refusal), characters_after=record.characters), None
    return _receipt(record, "queued", text), {**_entry("trim", ledger, record), "text": text}


def plan_restore(ledger: Ledger, reference: str) -> Plan:
    """Plan the end of one result's trim. Raises `UnknownResult`."""
    record = find_record(ledger, reference)
    whole = ledger.body(record).text
    queued = record.marks.queued_entry
    if not record.will_be_trimmed:
        return _receipt(record, "already_queued" if queued else "not_trimmed", whole), None
    before = len(queued["text"] if queued else record.short_text or "")
    return _receipt(record, "queued", whole, before), _entry("restore", ledger, record)


def plan_drain(ledger: Ledger) -> tuple[Entry, tuple[DrainedTrim, ...]]:
    """The journal entry that applies everything queued, and the outcome of each trim and restore, in order."""
    texts: dict[str, str | None] = {}
    judged: dict[int, DrainedTrim] = {}
    for n, (entry, record) in ledger.queue.items():
        text = entry.get("text")
        now = texts.get(record.handle, record.short_text) if record else None
        status: TrimStatus = "applied"
        saved = 0
        if record is None:
            status = "stale"
        elif ledger.is_gone(record):
            status = "gone"
        elif (now is None) == (text is None):
            status = "not_trimmed" if text is None else "already_trimmed"
        else:
            texts[record.handle] = text
            sizes = [record.tokens if each is None else estimate_tokens(each) for each in (now, text)]
            saved = sizes[0] - sizes[1]
        judged[n] = DrainedTrim(
            handle=entry["handle"],
            kind=entry["kind"],
            status=status,
            owner=entry.get("owner", ""),
            reason=entry.get("reason", ""),
            tool=record.tool if record else "",
            age=ledger.replies - record.turn if record else 0,
            tokens_saved=saved,
        )
    statuses = [[n, trim.status] for n, trim in judged.items()]
    return {"kind": "drain", "done": statuses}, tuple(judged.values())


def _short_text(ledger: Ledger, record: ResultRow, replacement: str | None, *, least: int) -> str | None:
    """The note of a result with as much of the replacement as still saves enough; None if the note alone does not."""
    body = ledger.body(record)
    content, tokens, most = body.content, record.tokens + _wide_tokens(body.text), 1 - MIN_SHARE_SAVED
    stored_length = len(encode(content))

    def fits(text: str) -> bool:
        # The kind of the content stays, as every format promises. Only this result is written, not its whole message.
        in_parts = is_list(content) and not record.argument_name
        new: object = [{"type": "text", "text": text, **cache_marks(content)}] if in_parts else text
        is_shorter = len(text) <= most * record.characters and len(encode(new)) <= most * stored_length
        return is_shorter and saves_enough(tokens, _tokens_of(text), least)

    short = record.note(in_session=ledger.in_session)
    if not fits(short):
        return None
    summary = clean(replacement or "", MAX_SUMMARY)

    def with_summary(length: int) -> str:
        return f"{short}\nSummary: {clip(summary, length)}" if length else short

    # A text that is longer never saves enough if a shorter one does not.
    longest = bisect.bisect_left(range(1, len(summary) + 1), x=True, key=lambda length: not fits(with_summary(length)))
    return with_summary(longest)


def _tokens_of(text: str) -> int:
    """The tokens of a text, estimated with more care than for a list of results: each Chinese character or emoji is
    about one token."""
    return estimate_tokens(text) + _wide_tokens(text)


def _wide_tokens(text: str) -> int:
    """The tokens of characters beyond ASCII that the usual estimate leaves out."""
    return 0 if text.isascii() else sum(not character.isascii() for character in text) * 3 // 4


def _entry(kind: Literal["trim", "restore"], ledger: Ledger, record: ResultRow) -> Entry:
    return {"kind": kind, "n": ledger.trim_count, "handle": record.handle, "at": ledger.address(record)}


def _receipt(
    record: ResultRow,
    status: Literal["queued", "already_queued", "already_trimmed", "not_trimmed"],
    text: str,
    before: int | None = None,
) -> TrimReceipt:
    return TrimReceipt(
        handle=record.handle,
        status=status,
        characters_before=record.characters if before is None else before,
        characters_after=len(text),
        text=text,
    )


def find_record(ledger: Ledger, reference: str) -> ResultRow:
    """The result with this handle or unambiguous call id. Raises `UnknownResult`, which names similar ones."""
    reference, records = reference.strip(), ledger.records
    same_id = records.with_id(reference)
    handle, dot, argument = reference.partition(".")
    if record := records.by_handle(f"{handle.lower()}{dot}{argument}"):
        if others := [each.handle for each in same_id if each != record]:
            problem = f"it is the handle of one result ({record.tool or '?'}) and the call id of another ({others[0]})"
            raise UnknownResult(
                reference,
                f"{problem}. Write {record.handle.replace('r', 'R', 1)} for the handle, {others[0]} for the other",
            )
        return record
    if len(same_id) == 1:
        return same_id[0]
    if same_id:
        handles = ", ".join(record.handle for record in same_id[:10])
        more = f" and {len(same_id) - 10} more" if len(same_id) > 10 else ""
        problem = f"{len(same_id)} results have this call id: {handles}{more}. Use one of these handles"
        raise UnknownResult(reference, problem)
    if record := _sent_as(ledger, reference):
        return record
    if not records:
        raise UnknownResult(reference[:200], "there is no tool result in this session yet")
    last = records[-100:]
    newest = ", ".join(f"{record.handle} ({record.tool or '?'})" for record in reversed(last[-3:]))
    close = nearest(
        reference[:200], [*(record.handle for record in last), *dict.fromkeys(record.call_id for record in last)]
    )
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    problem = (
        f"no tool result goes by this handle or call id. {hint}"
        f"Handles go from r1 to {records[-1].handle}; the newest: {newest}"
    )
    raise UnknownResult(reference[:200], problem)


def _sent_as(ledger: Ledger, call_id: str) -> ResultRow | None:
    """The result that is sent under this id and stored under another; else None."""
    if ledger.format is None or not ledger.in_session or call_id not in ledger.stored_ids():
        return None
    names = CallIds(ledger.format)
    for place, message in ledger.shown():
        _, sent = names.of_message(message, ledger.format)
        if isinstance(place, int) and call_id in sent and (rows := ledger.results_at(place)):
            return rows[sent.index(call_id)]
    return None


def message_tokens(ledger: Ledger) -> list[int]:
    """The tokens of each stored message in the view. The messages of a compaction count at the last of those in whose
    place they stand."""
    _fill_sizes(ledger)
    tokens = [0] * ledger.count
    for place in range(ledger.upto, ledger.count):
        tokens[place] = ledger.tokens_at[place]
    for place in ledger.base:
        if isinstance(place, int):
            tokens[place] += ledger.tokens_at[place]
        elif tokens:
            tokens[max(ledger.upto - 1, 0)] += estimate_tokens(place)
    return tokens


def _fill_sizes(ledger: Ledger) -> None:
    """Find the sizes that are not known yet. Neighbouring messages are read together."""
    sizes = ledger.tokens_at
    for place in ledger.base:
        if isinstance(place, int) and place not in sizes:
            sizes[place] = _size_at(ledger, place, ledger.shown_at(place))
    missing = (place for place in range(ledger.upto, ledger.count) if place not in sizes)
    for start in missing:
        stop = next((place for place in range(start, ledger.count) if place in sizes), ledger.count)
        for place, message in enumerate(ledger.messages.since(start, stop), start):
            shown = ledger.shown_at(place) if place in ledger.trimmed_messages else message
            sizes[place] = _size_at(ledger, place, shown)


def _size_at(ledger: Ledger, position: int, message: Message) -> int:
    tokens = estimate_tokens(message)
    # An image costs less than its data is long.
    for result in ledger.need_format().results(message) if ledger.results_at(position) else ():
        tokens += size_of(result.content).tokens - estimate_tokens(result.content)
    return max(tokens, 0)


def clean(text: str, max_chars: int) -> str:
    """The text stripped, cut to `max_chars`, fit for every encoder, and without what reads like the host's own note."""
    return clip(NOTE.sub("(", clean_text(text).strip()), max_chars)
