"""Which project an agent's session belongs to, kept over judges."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from hooksdk.approvals import digest_of
from hooksdk.config import config_files, project_folder, state_folder
from hooksdk.errors import HookSDKError
from hooksdk.guard._agents import HookEvent
from hooksdk.stores.files import replace_file


def session_places() -> Path:
    """Where it is kept which project a session began in: an agent may change its folder, and its rules do not change with it."""
    return state_folder() / "guard" / "sessions"


@dataclass(eq=False)
class RulesGone(HookSDKError):
    """A file by whose rules a session began is not there any more: deleting it does not switch them off."""

    path: str

    def __str__(self) -> str:
        return f"{self.path}, by whose rules this session began, is gone. Put it back, or begin a new session"


async def pinned_folder(event: HookEvent) -> Path:
    """The project of the agent's session: of the folder in which it was first seen. Raises `RulesGone`."""
    place = anyio.Path(session_places() / f"{digest_of([event.agent, event.session])[:32]}.json")
    try:
        facts = json.loads(await place.read_text("utf-8"))
    except FileNotFoundError:
        return await anyio.to_thread.run_sync(_pin, event, Path(place))
    for path in facts["rules"]:
        if not await anyio.Path(path).exists():
            raise RulesGone(path)
    return Path(facts["folder"])


def _pin(event: HookEvent, place: Path) -> Path:
    folder = project_folder(event.folder)
    rules = [str(path) for path in config_files(folder, os.environ) if path.exists()]
    facts = {"agent": event.agent, "session": event.session, "folder": str(folder), "rules": rules}
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # A judge that is killed here must not leave half a file, which would refuse all calls of the session.
    replace_file(place, json.dumps(facts).encode())
    return folder
