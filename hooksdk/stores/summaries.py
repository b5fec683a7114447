"""Short descriptions of the sessions of a store, to choose one from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from hooksdk.errors import StoreError
from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.transcript import ListingStore, SessionBeginning, Store

__all__ = ["FIRST_ENTRIES", "FIRST_MESSAGES", "SessionSummary", "list_summaries", "summarize"]

FIRST_MESSAGES = 4
"""The number of messages among which instructions and the user's first words stand."""
FIRST_ENTRIES = 4
"""The number of entries among which the one with format, model and folder stands."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A short description of one session.

    Attributes:
        prompt: The user's first words; empty before there are any, and in a format that only its host knows.
        model: The model of the first run; empty if that run named none, and for sessions of version 0.2.0.
        folder: The workspace of the first run; empty as for `model`.
        format: The message format's name; empty before the first run.
        changed: The time of the last write, in seconds since 1970; None if it is not known.
        problem: Why the first lines cannot be read; empty if nothing is wrong with them.
    """

    session_id: str
    prompt: str
    model: str
    folder: str
    format: str
    changed: float | None
    problem: str


async def list_summaries(store: Store) -> list[SessionSummary]:
    """Describe every session, the last changed first. Only the first lines of each session are read, if the store is a
    `ListingStore`, as those of hooksdk are. Takes no session, and waits for nobody.

    ```python
    import anyio

    from hooksdk import Host, MemoryStore
    from hooksdk.stores import list_summaries

    async def main() -> None:
        async with Host(store=MemoryStore()) as host:
            async with host.session("ann") as session, session.run(model="gpt-5") as run:
                await run.record({"role": "user", "content": "What failed?"})
            (ann,) = await list_summaries(host.store)
            assert (ann.session_id, ann.prompt, ann.model) == ("ann", "What failed?", "gpt-5")

    anyio.run(main)
    ```
    """
    if isinstance(store, ListingStore):
        beginnings = await store.list_beginnings()
    else:
        beginnings = [await _read_beginning(store, session_id) for session_id in await store.list_sessions()]
    summaries = sorted(map(summarize, beginnings), key=lambda one: one.session_id)
    return sorted(summaries, key=lambda one: one.changed or 0, reverse=True)


async def _read_beginning(store: Store, session_id: str) -> SessionBeginning:
    try:
        messages, journal = await store.read_session(session_id)
    except StoreError as error:
        return SessionBeginning(session_id=session_id, problem=str(error))
    changed = max((float(entry.get("time", 0)) for entry in journal), default=0) or None
    return SessionBeginning(session_id=session_id, messages=messages, journal=journal, changed=changed)


def summarize(beginning: SessionBeginning) -> SessionSummary:
    """Describe a session by its first lines."""
    entry = next((entry for entry in beginning.journal if entry.get("kind") == "format"), None) or {}
    name, model, folder = (str(entry.get(key) or "") for key in ("name", "model", "folder"))
    return SessionSummary(
        session_id=beginning.session_id,
        prompt=_first_prompt(beginning.messages, name),
        model=model,
        folder=folder,
        format=name,
        changed=beginning.changed,
        problem=beginning.problem,
    )


def _first_prompt(messages: Sequence[Message], format_name: str) -> str:
    if format_name not in FORMATS:
        return ""
    message_format = get_format(format_name)
    asked = (one for one in messages if one.get("role") == "user" and not message_format.results(one))
    return next((text for text in map(message_format.text, asked) if text.strip()), "")
