"""How questions are stored: the list of open questions, and what each asks."""

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

# The space of the list. No plugin can have it: `PluginStorage` refuses ids that begin like this.
SPACE = "hooksdk.desk"
LIST = "open"
SIGNING = "signing key"
# The space of the questions' texts and of closed records. Each key ends with a point and the second of its expiry.
QUESTIONS = "hooksdk.desk.questions"
# The fields of a record that are in the list: they change.
CHANGING = ("session", "state", "answer", "answered")
DAMAGED = "approval %s is damaged, and counts for nothing: %s"


class OpenQuestion(TypedDict):
    """An open question, or one that the last change of the list has closed.

    Attributes:
        place: The key of the question's text.
    """

    place: str
    key: str
    expires: float
    ticket: str | None
    session: str
    state: str
    answer: Mapping[str, Any] | None
    answered: float | None


class Listed(TypedDict):
    """The list.

    Attributes:
        id: The id of this store.
        next: The number of the next question.
        latest: About the latest time that was seen, by which a clock that is set back is noticed.
        before: The numbers of questions that were taken over from the file of 0.2.0.
    """

    id: str
    next: int
    latest: float
    open: dict[str, OpenQuestion]
    before: list[int]


async def store_question(store: Store, record: ApprovalRecord) -> str:
    """Store what a record asks, as a text that keeps each number as it is, and answer its key."""
    place = f"q{secrets.token_hex(8)}.{record.expires:.0f}"
    fields = {name: one for name, one in record.as_dict().items() if name not in CHANGING}
    await store.set_value(QUESTIONS, place, canonical(fields))
    return place


def enter(listed: Listed, record: ApprovalRecord, place: str, *, ticket: str | None = None) -> ApprovalRecord:
    """Put a record on the list, and answer it with its number: the next one, unless it has a higher one already."""
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
    """The record of a question's text and its entry in the list. None for a damaged one, which is logged."""
    try:
        changing = {name: entry[name] for name in CHANGING if name in entry}
        return read_stored({**json.loads(text or ""), **changing, "number": number})
    except (ValueError, TypeError) as error:
        logger.warning(DAMAGED, number, error)
        return None
