"""`hooksdk sessions`: look at what is stored, shorten it, take it elsewhere, remove it."""

from __future__ import annotations

import typer

from hooksdk.cli._groups import GroupWithOptions
from hooksdk.cli._options import Json, StorePlace
from hooksdk.cli._sessions.changes import delete_sessions, restore_results, settle_call, trim_results
from hooksdk.cli._sessions.copies import backup_store
from hooksdk.cli._sessions.cost import cost
from hooksdk.cli._sessions.erase import erase_sessions, keep_sessions
from hooksdk.cli._sessions.examination import examine_sessions
from hooksdk.cli._sessions.import_history import import_session
from hooksdk.cli._sessions.listing import list_sessions
from hooksdk.cli._sessions.rekey import rekey_sessions
from hooksdk.cli._sessions.views import export_session, list_results, show_session
from hooksdk.cli._sessions.waiting import list_waiting

sessions_app = typer.Typer(cls=GroupWithOptions, no_args_is_help=True)


@sessions_app.callback()
def sessions(as_json: Json = False, store: StorePlace = None) -> None:
    """Look at stored sessions, and change them."""


sessions_app.command("list")(list_sessions)
sessions_app.command("waiting")(list_waiting)
sessions_app.command("show")(show_session)
sessions_app.command("results")(list_results)
sessions_app.command("export")(export_session)
sessions_app.command("trim")(trim_results)
sessions_app.command("restore")(restore_results)
sessions_app.command("settle")(settle_call)
sessions_app.command("delete")(delete_sessions)
sessions_app.command("erase")(erase_sessions)
sessions_app.command("keep")(keep_sessions)
sessions_app.command("rekey")(rekey_sessions)
sessions_app.command("doctor")(examine_sessions)
sessions_app.command("backup")(backup_store)
sessions_app.command("import")(import_session)
sessions_app.command("cost")(cost)
