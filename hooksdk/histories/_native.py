"""Histories in one of hooksdk's own formats, of which everything stays that a provider takes."""

from __future__ import annotations

from itertools import pairwise

from hooksdk.formats import Message, MessageFormat, get_format
from hooksdk.formats.sending import refusals, sendable
from hooksdk.histories._anthropic import put
from hooksdk.histories._draft import Draft
from hooksdk.histories._source import Source, checked, wrong_message
from hooksdk.histories._writing import Writer
from hooksdk.transcript import MismatchError, pair_results, without_loose_ends


def as_they_are(source: Source, target: str, notes: list[str]) -> list[Message]:
    """The messages themselves, with a result for each call. Raises `HistoryError` with the place of one that is
    wrong."""
    form = get_format(target)
    messages = checked(source, form)
    try:
        tied = without_loose_ends(messages, form)
        whole = pair_results(tied, form)
    except MismatchError as error:
        raise wrong_message(source, error) from None
    if len(tied) < len(messages):
        notes.append(f"left out: reasoning of replies that were cut off ({len(messages) - len(tied)})")
    if missing := len(whole) - len(tied):
        notes.append(f"put in: an error result for each call that had none ({missing} messages)")
    if target == "anthropic" and _apart(whole, form):
        draft = Draft(target)
        for message in whole:
            put(draft, message)
        notes += ["the results of each reply are put into one message", *draft.notes]
        whole = Writer(draft).write()
    if refused := [f"message {at}: {why}" for at, why in refusals(whole, form)]:
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        notes.append(f"mended what the provider would refuse ({refused[0]}{more})")
        whole = sendable(whole, form)
    for key in ("system", "instructions", "systemInstruction", "system_instruction"):
        if not source.head.get(key):
            continue
        if key == "system" and target == "anthropic":
            notes.append("the 'system' beside the messages is the first message here")
            whole.insert(0, {"role": "system", "content": source.head[key]})
        else:
            notes.append(f"left out: '{key}' beside the messages, which belongs into the request")
    return whole


def _apart(messages: list[Message], form: MessageFormat) -> bool:
    """Whether results of one reply stand in several messages."""
    return any(form.results(one) and form.results(other) for one, other in pairwise(messages))
