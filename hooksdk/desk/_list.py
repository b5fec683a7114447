"""What is stored of questions: the list of open ones, and what each asks."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict

from hooksdk.desk._record import ApprovalRecord, read_stored
from hooksdk.stores import Store
from hooksdk.values import canonical

logger = logging.getLogger("hooksdk")

SPACE = "hooksdk.desk"
"""The space of the list. No plugin has it: `PluginStorage` gives no ids that begin like this."""
LIST = "open"
SIGNING = "signing key"
QUESTIONS = "hooksdk.desk.questions"
"""The space of what is asked, and of closed records, as texts. Each key ends with a point and the second at which it expires."""
CHANGING = ("session", "state", "answer", "answered")
"""The fields of a record that the list has."""
DAMAGED = "approval %s is damaged, and counts for nothing: %s"


class OpenQuestion(TypedDict):
    """One open question, or one that was closed by the last change of the list."""

    place: str
    """The key of what is asked."""
    key: str
    expires: float
    ticket: str | None
    session: str
    state: str
    answer: Mapping[str, Any] | None
    answered: float | None


class Listed(TypedDict):
    """The list."""

    id: str
    """Tells this store from others."""
    next: int
    """The number of the next question."""
    latest: float
    """What time it was, about; a clock that is set back is noticed by it."""
    open: dict[str, OpenQuestion]
    before: list[int]
    """The numbers of those that were taken over from the file of 0.2.0."""


async def store_question(store: Store, record: ApprovalRecord) -> str:
    """Store what a record asks, as text, in which each number stays as it is; answers under which key."""
    place = f"q{secrets.token_hex(8)}.{record.expires:.0f}"
    fields = {name: one for name, one in record.as_dict().items() if name not in CHANGING}
    await store.set_value(QUESTIONS, place, canonical(fields))
    return place


def enter(listed: Listed, record: ApprovalRecord, place: str, *, ticket: str | None = None) -> ApprovalRecord:
    """Put a record on the list, with the next number unless it has one that was never given here; answers it with that."""
    numbered = replace(record, number=max(record.number, listed["next"]))
    listed["next"] = numbered.number + 1
    fields = numbered.as_dict()
    listed["open"][str(numbered.number)] = {
        "place": place,
        "key": numbered.key,
        "expires": numbered.expires,
        "ticket": ticket,
        "session": numbered.session,
        "state": numbered.state,
        "answer": fields["answer"],
        "answered": numbered.answered,
    }
    return numbered


def parse(number: int, text: str | None, entry: Mapping[str, Any]) -> ApprovalRecord | None:
    """The record of such a text, and of what its entry says; None for a damaged one, which is told."""
    try:
        changing = {name: entry[name] for name in CHANGING if name in entry}
        return read_stored({**json.loads(text or ""), **changing, "number": number})
    except (ValueError, TypeError) as error:
        logger.warning(DAMAGED, number, error)
        return None
