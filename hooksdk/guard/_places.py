"""Which project an agent's session belongs to, kept over judges."""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

import anyio.to_thread

from hooksdk.approvals import digest_of
from hooksdk.config import state_folder
from hooksdk.errors import SessionBusy
from hooksdk.guard._agents import AGENTS, HookEvent
from hooksdk.guard._rules import project_of
from hooksdk.guard._versions import make_private
from hooksdk.stores import Store, list_summaries
from hooksdk.stores.files import replace_file

logger = logging.getLogger("hooksdk")

DAY = 86_400.0
_SESSIONS = tuple(f"guard-{agent}-" for agent in AGENTS)


def session_places() -> Path:
    """Where it is kept which project a session began in: an agent may change its folder, and its rules do not change
    with it."""
    return state_folder() / "guard" / "sessions"


def _place(agent: str, session: str) -> Path:
    return session_places() / f"{digest_of([agent, session])[:32]}.json"


def began_in(session_id: str) -> Path | None:
    """The project in which a session of the guard began, by our id of it; None for another session, and one that is
    forgotten."""
    prefix = next((prefix for prefix in _SESSIONS if session_id.startswith(prefix)), None)
    if prefix is None:
        return None
    agent, session = prefix.removeprefix("guard-")[:-1], session_id.removeprefix(prefix).partition("/")[0]
    try:
        return Path(json.loads(_place(agent, session).read_text("utf-8"))["folder"])
    except (OSError, ValueError, KeyError):
        return None


async def pinned_folder(event: HookEvent) -> tuple[Path, str, Path]:
    """The project of the agent's session, and what waits there, as in `project_of`: of the folder in which it was first
    seen, which is the third. Rules with relative paths go on to mean that folder when the agent has gone to another."""
    place = anyio.Path(_place(event.agent, event.session))
    try:
        facts = json.loads(await place.read_text("utf-8"))
    except FileNotFoundError:
        return await anyio.to_thread.run_sync(_pin, event, Path(place))
    await anyio.to_thread.run_sync(os.utime, place)
    return Path(facts["folder"]), facts.get("waits", ""), Path(facts.get("workspace", event.folder))


def last_seen(agent: str, session: str) -> float:
    """When a hook of this session of an agent last came before the judge, in seconds since 1970; 0 where none did."""
    try:
        return _place(agent, session).stat().st_mtime
    except (OSError, ValueError):  # an id that no text has, such as half a letter
        return 0.0


def _pin(event: HookEvent, place: Path) -> tuple[Path, str, Path]:
    folder, waits = project_of(event.folder)
    facts = {
        "agent": event.agent,
        "session": event.session,
        "folder": str(folder),
        "waits": waits,
        "workspace": str(event.folder),
    }
    make_private(place.parent)
    # A judge that is killed here must not leave half a file, which would refuse all calls of the session.
    replace_file(place, json.dumps(facts).encode())
    return folder, waits, event.folder


async def remove_old_sessions(store: Store, days: int) -> None:
    """Remove the guard's sessions in which nothing has happened for so long, and which projects they began in."""
    oldest = time.time() - days * DAY
    try:
        for summary in await list_summaries(store):
            if summary.session_id.startswith(_SESSIONS) and (summary.changed or oldest) < oldest:
                with suppress(SessionBusy):
                    await store.delete_session(summary.session_id, wait=0)
        for place in session_places().glob("*.json"):
            if place.stat().st_mtime < oldest:
                place.unlink()
    except Exception:
        logger.exception("old sessions of the guard could not be removed")
