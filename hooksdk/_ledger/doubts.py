"""The calls in doubt of sessions that nobody has open."""

from __future__ import annotations

from collections.abc import Collection

from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import run_shielded
from hooksdk.calls import CallInDoubt
from hooksdk.errors import HookSDKError, SessionBusy
from hooksdk.transcript import Store, ledger_of


async def calls_in_doubt(store: Store, beginning: str, but: Collection[str]) -> dict[str, list[CallInDoubt] | None]:
    """The calls in doubt of the sessions whose ids have this beginning, without the sessions in `but`, by session id. None
    stands for a session that is open elsewhere: its calls may be running. A session that cannot be read is left out,
    with a warning."""
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
    """The calls in doubt, read while no other process can write to the session; None where another one has it open."""
    try:
        log = await store.open_session(session_id, wait=0)
    except SessionBusy:
        return None
    try:
        return (await ledger_of(store, session_id)).effects.described()
    finally:
        await log.close()
