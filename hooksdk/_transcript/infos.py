"""Results as plugins see them, and why one cannot be trimmed; loaded when somebody asks for a result."""

from __future__ import annotations

from hooksdk._transcript.rows import ResultRow
from hooksdk._transcript.trims import MIN_TOKENS_SAVED, MOST_NOTE_TOKENS, TOO_SHORT, saves_enough
from hooksdk._transcript.turns import Turns
from hooksdk.calls import ResultInfo
from hooksdk.schema import estimate_tokens


def result_info(turns: Turns, record: ResultRow, *, is_gone: bool) -> ResultInfo:
    """A result as plugins see it."""
    marks, handle = record.marks, record.handle
    records = turns.records
    is_shared = handle in records.handle_ids and any(each != record for each in records.with_id(handle))
    return ResultInfo(
        handle=handle.replace("r", "R", 1) if is_shared else handle,  # not the spelling of another one's call id
        call_id=record.call_id,
        tool=record.tool,
        position=record.position,
        characters=record.characters,
        tokens=record.tokens,
        turns_ago=turns.replies - record.turn,
        arguments=record.summary,
        is_error=record.is_error,
        disposable=(records[record.number].marks if record.argument_name else marks).disposable,
        trimmed=marks.short_text is not None,
        queued=marks.queued_entry is not None and marks.queued_entry["kind"] == "trim",
        why_not=(problem := why_not(turns, record, is_gone=is_gone)),
        small=problem == TOO_SHORT
        and saves_enough(record.tokens, estimate_tokens(record.note(in_session=turns.in_session)), least=1),
        missed_trim=marks.missed_trim,
        labels=record.labels,
        argument=record.argument_name,
    )


def why_not(turns: Turns, record: ResultRow, *, is_gone: bool) -> str | None:
    """Why a trim of this result would be refused; None if it would be accepted."""
    if is_gone:
        return "it was compacted away"
    if record.will_be_trimmed:
        return "its trim is queued" if record.marks.queued_entry else "it is trimmed already"
    if record.refusal:
        return record.refusal
    if turns.first_user is not None and record.position < turns.first_user:
        return "it stands before the first user message"
    if record.turn == turns.replies:
        return "the model has not read it yet"
    if saves_enough(record.tokens, MOST_NOTE_TOKENS):  # whatever its note says
        return None
    is_long = record.tokens > MIN_TOKENS_SAVED and saves_enough(
        record.tokens, estimate_tokens(record.note(in_session=turns.in_session))
    )
    return None if is_long else TOO_SHORT
