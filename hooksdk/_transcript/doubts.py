"""The calls in doubt of sessions that nobody has open."""

from __future__ import annotations

from collections.abc import Collection

import anyio

from hooksdk._tasks.background import logger
from hooksdk._tasks.shielding import in_thread, run_shielded
from hooksdk._transcript.entries import Entry
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.storage import Store
from hooksdk.calls import CallInDoubt
from hooksdk.errors import HookSDKError, SessionBusy, StoreError
from hooksdk.formats import FORMATS, Message, get_format

PAUSES = (0.1, 0.5, 2.0)
"""Seconds before a session is read once more that could not be: a busy database may refuse one read, and what is not read is asked
about nowhere."""


async def calls_in_doubt(store: Store, beginning: str, but: Collection[str]) -> dict[str, list[CallInDoubt] | None]:
    """By session id, of those whose ids begin so, but for some; None for one that somebody has open, whose calls may run. A session
    that cannot be read is left out, with a warning."""
    doubts: dict[str, list[CallInDoubt] | None] = {}
    for session_id in await store.list_sessions():
        if not session_id.startswith(beginning) or session_id in but:
            continue
        try:
            if (await ledger_of(store, session_id)).effects.described():  # most have none: they are not taken hold of
                doubts[session_id] = await run_shielded(_take, store, session_id)
        except (HookSDKError, AttributeError, KeyError, TypeError, ValueError, IndexError) as problem:
            logger.warning("what session '%s' was doing cannot be read: %s", session_id, problem)
    return doubts


async def _take(store: Store, session_id: str) -> list[CallInDoubt] | None:
    """Look once more while nobody else can write."""
    try:
        log = await store.open_session(session_id, wait=0)
    except SessionBusy:
        return None
    try:
        return (await ledger_of(store, session_id)).effects.described()
    finally:
        await log.close()


async def ledger_of(store: Store, session_id: str) -> Ledger:
    """What a stored session holds, whoever has it open: its journal over its messages, in the format that the journal names.

    A read that fails is tried again three times, within some seconds. Raises `StoreError`, and what a journal causes that cannot be
    understood, such as `KeyError` and `TypeError`.
    """
    messages, journal = await _read(store, session_id)
    name = next((str(entry.get("name")) for entry in journal if entry.get("kind") == "format"), "")
    return await in_thread(Ledger.replay, messages, journal, get_format(name if name in FORMATS else "openai-chat"))


async def _read(store: Store, session_id: str) -> tuple[list[Message], list[Entry]]:
    for pause in PAUSES:
        try:
            return await store.read_session(session_id)
        except StoreError:
            if not await store.session_exists(session_id):
                raise
            await anyio.sleep(pause)
    return await store.read_session(session_id)
