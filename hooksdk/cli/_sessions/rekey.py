"""`hooksdk sessions rekey`: encrypt what is stored anew."""

from __future__ import annotations

from pathlib import Path

import typer

from hooksdk.cli._console import View, counted, one_line, stdout_console
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._sessions.look import with_store
from hooksdk.stores import SqlStore
from hooksdk.stores.rekeying import rekey


def rekey_sessions(as_json: Json = False, project: Project = Path(), store: StorePlace = None) -> None:
    """Encrypt what is stored with the first of the given keys, a session at a time. What is held stays for the next
    time; the code is 1 then."""

    async def work(opened: SqlStore) -> tuple[list[str], dict[str, str]]:
        encrypted: list[str] = []
        left: dict[str, str] = {}
        async for session_id, outcome in rekey(opened):
            if outcome == "encrypted":
                encrypted.append(session_id)
            elif outcome != "unchanged":
                left[session_id] = outcome
            if not as_json and outcome != "unchanged":
                stdout_console().print(f"{one_line(session_id)}  {one_line(outcome)}", soft_wrap=True)
        return encrypted, left

    encrypted, left = with_store(project, store, work)
    view = View({"encrypted": encrypted, "left": left})
    view.text(f"{counted(len(encrypted), 'session')} encrypted anew, and all values")
    view.show(as_json=as_json)
    raise typer.Exit(1 if left else 0)
