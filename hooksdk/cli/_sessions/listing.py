"""What `hooksdk sessions list` prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hooksdk.cli._console import print_columns, print_json, printable
from hooksdk.cli._project import project_config
from hooksdk.cli._sessions.ids import place_of, short_ids
from hooksdk.cli._sessions.look import SIZES, Damaged, described, holder_of, look_at, with_store
from hooksdk.cli._sessions.used import HEADINGS, requests_of, used_by, used_cells
from hooksdk.costs import PriceList
from hooksdk.stores import JsonlStore, SessionSummary, Store, list_summaries
from hooksdk.stores.jsonl import file_name
from hooksdk.tasks import in_thread
from hooksdk.values import clip

_PROMPT_CHARS, _FOLDER_CHARS, _MODEL_CHARS = 200, 28, 24
_DAMAGED = "damaged: hooksdk sessions doctor"


def list_sessions(project: Path, place: str | None, *, sizes: bool, used: bool, as_json: bool) -> int:
    """One line or object for each session."""

    async def look(store: Store) -> tuple[list[dict[str, Any]], str]:
        found = [await _entry(store, one) for one in await list_summaries(store)]
        if sizes:
            found = [await _with_sizes(store, one) for one in found]
        if used:
            by_session = used_by(
                await requests_of(store, [one["id"] for one in found]), PriceList(project_config(project).prices)
            )
            found = [{**one, "used": by_session.get(one["id"])} for one in found]
        return found, place_of(store)

    sessions, where = with_store(project, place, look)
    if as_json:
        print_json({"schema": 1, "sessions": sessions})
    elif not sessions:
        print(f"There are no sessions in {printable(where)}.")
    elif used:
        print_columns(
            ("id", *HEADINGS, "age"), _rows(sessions, lambda one: (*used_cells(one["used"]), _age(one["changed"])))
        )
    elif sizes:
        print_columns(("id", *SIZES, "age", "held by"), _rows(sessions, _sizes_of))
    else:
        is_held = any(one["held_by"] for one in sessions)
        headings = ("id", "age", "model", "folder", *(["held by"] if is_held else []), "prompt")
        print_columns(headings, _rows(sessions, lambda one: _face_of(one, project, is_held=is_held)))
    return 0


async def _entry(store: Store, summary: SessionSummary) -> dict[str, Any]:
    holder = ""
    if isinstance(store, JsonlStore):
        holder = await in_thread(holder_of, store.directory / f"{file_name(summary.session_id)}.lock")
    return {**described(summary), "held_by": holder or None, "problem": summary.problem or None}


async def _with_sizes(store: Store, entry: dict[str, Any]) -> dict[str, Any]:
    try:
        return (await look_at(store, entry["id"])).summary()
    except Damaged as error:
        return {**entry, **dict.fromkeys(SIZES), "problem": str(error)}


def _rows(sessions: Sequence[dict[str, Any]], cells: Callable[[dict[str, Any]], Sequence[str]]) -> list[Sequence[str]]:
    short = short_ids([one["id"] for one in sessions])
    return [tuple(_cell(text) for text in (short[one["id"]], *cells(one))) for one in sessions]


def _sizes_of(session: dict[str, Any]) -> Sequence[str]:
    if session["problem"]:
        return (*("?" for _ in SIZES), _age(session["changed"]), _DAMAGED)
    return (*(f"{session[name]:,}" for name in SIZES), _age(session["changed"]), session["held_by"] or "-")


def _face_of(session: dict[str, Any], project: Path, *, is_held: bool) -> Sequence[str]:
    held = [session["held_by"] or "-"] if is_held else []
    prompt = _DAMAGED if session["problem"] else " ".join(session["prompt"].split()) or "-"
    model = clip(session["model"], _MODEL_CHARS) or "-"
    return (_age(session["changed"]), model, _folder(session["folder"], project), *held, clip(prompt, _PROMPT_CHARS))


def _folder(folder: str, project: Path) -> str:
    if folder in {"", str(project.resolve())}:
        return "." if folder else "-"
    home = str(Path.home())
    short = f"~{folder.removeprefix(home)}" if folder.startswith(f"{home}/") else folder
    return short if len(short) <= _FOLDER_CHARS else f"…{short[1 - _FOLDER_CHARS :]}"


def _age(changed: str | None) -> str:
    """How long ago: `now`, `5 min`, `3 h`, `12 days`, then the day."""
    if changed is None:
        return "-"
    minutes = int(time.time() - datetime.fromisoformat(changed).timestamp()) // 60
    if minutes < 1:
        return "now"
    if minutes < 120:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h"
    return f"{minutes // (24 * 60)} days" if minutes < 31 * 24 * 60 else changed[:10]


def _cell(text: str) -> str:
    return printable(text).replace("\n", "\N{REPLACEMENT CHARACTER}").replace("\t", "\N{REPLACEMENT CHARACTER}")
