"""What is stored of sessions that are over goes, unless somebody may still need it: a call in doubt, or one that waits for its
approval."""

from __future__ import annotations

import logging
import time

from hooksdk.errors import HookSDKError, SessionBusy
from hooksdk.formats import get_format
from hooksdk.gateway._places import Place
from hooksdk.stores import Store, list_summaries
from hooksdk.transcript import Ledger

logger = logging.getLogger("hooksdk")


async def remove(store: Store, session_id: str) -> None:
    """Remove a session in which nothing is left. One that cannot be removed now is when a gateway begins."""
    try:
        await store.delete_session(session_id, wait=0)
    except SessionBusy:
        return
    except HookSDKError as problem:
        logger.warning("session '%s' is over and could not be removed: %s", session_id, problem)


async def remove_old(store: Store, place: Place, seconds: float) -> None:
    """Remove what earlier gateways at this place have left in which nothing has happened for so long: approvals that waited have
    expired. Where a call is in doubt, the session stays until somebody has settled it."""
    try:
        over = [one for one in await store.list_sessions() if await place.is_over(one)]
        if not over:
            return  # the usual case: the ids alone are cheap to read
        oldest = time.time() - seconds
        for summary in await list_summaries(store):
            if summary.session_id in over and (summary.changed or oldest) < oldest:
                messages, journal = await store.read_session(summary.session_id)
                if not Ledger.replay(messages, journal, get_format("openai-chat")).effects.described():
                    await remove(store, summary.session_id)
    except Exception as problem:  # it is nobody's request
        logger.warning("old sessions of the gateway could not be removed: %s", problem)
