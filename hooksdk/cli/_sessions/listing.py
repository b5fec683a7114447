"""`hooksdk sessions list`: what is stored, and with `--used` what each session has used, also with its sub-agents."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hooksdk.cli._console import View
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._project import project_config
from hooksdk.cli._sessions.look import SIZES, Damaged, described, holders_in, look_at, place_of, short_ids, with_store
from hooksdk.cli._spent import spent_json
from hooksdk.costs import PriceList, Request, in_dollars, requests_in
from hooksdk.errors import StoreError
from hooksdk.stores import Store, list_summaries
from hooksdk.values import clip

_PROMPT_CHARS, _FOLDER_CHARS, _MODEL_CHARS = 200, 28, 24
_DAMAGED = "damaged: hooksdk sessions doctor"


def list_sessions(
    sizes: Annotated[bool, typer.Option("--sizes")] = False,
    used: Annotated[bool, typer.Option("--used")] = False,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """List the sessions, the last changed first: what was asked, which model, where and when.

    Options:
        sizes: Read all of each: messages, results, trims and tokens.
        used: What each has used, also with its sub-agents: requests, tokens, money.
    """

    async def look(opened: Store) -> tuple[list[dict[str, Any]], str]:
        holders = await holders_in(opened)
        found: list[dict[str, Any]] = [
            {**described(one), "held_by": holders.get(one.session_id), "problem": one.problem or None}
            for one in await list_summaries(opened)
        ]
        if sizes:
            found = [await _with_sizes(opened, one) for one in found]
        if used:
            requests = await requests_of(opened, [one["id"] for one in found])
            by_session = _used_by(requests, PriceList(project_config(project).prices))
            found = [{**one, "used": by_session.get(one["id"])} for one in found]
        return found, place_of(opened)

    sessions, where = with_store(project, store, look)
    view = View({"sessions": sessions})
    if not sessions:
        view.text(f"There are no sessions in {where}.")
    elif used:
        cells = [(*_used_cells(one["used"]), _age(one["changed"])) for one in sessions]
        view.table(("id", "requests", "tokens", "paid", "with sub-agents", "paid", "age"), _rows(sessions, cells))
    elif sizes:
        view.table(("id", *SIZES, "age", "held by"), _rows(sessions, map(_sizes_of, sessions)))
    else:
        is_held = any(one["held_by"] for one in sessions)
        headings = ("id", "age", "model", "folder", *(["held by"] if is_held else []), "prompt")
        view.table(headings, _rows(sessions, [_face_of(one, project, is_held=is_held) for one in sessions]))
    view.show(as_json=as_json)


async def _with_sizes(store: Store, entry: dict[str, Any]) -> dict[str, Any]:
    try:
        return (await look_at(store, entry["id"])).summary()
    except Damaged as error:
        return {**entry, **dict.fromkeys(SIZES), "problem": str(error)}


def _rows(sessions: Sequence[dict[str, Any]], cells: Iterable[Sequence[str | int]]) -> list[Sequence[str | int]]:
    """The rows of a table, each with the beginning of its session's id that is enough to type."""
    short = short_ids([one["id"] for one in sessions])
    return [(short[one["id"]], *own) for one, own in zip(sessions, cells, strict=True)]


def _sizes_of(session: dict[str, Any]) -> Sequence[str | int]:
    if session["problem"]:
        return (*("?" for _ in SIZES), _age(session["changed"]), _DAMAGED)
    return (*(session[name] for name in SIZES), _age(session["changed"]), session["held_by"] or "-")


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
    """The time since the last change: `now`, `5 min`, `3 h`, `12 days`, then the day itself."""
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


async def requests_of(store: Store, session_ids: Iterable[str]) -> dict[str, list[Request]]:
    """By session, the requests whose provider counted; a session that cannot be read is left out."""
    requests: dict[str, list[Request]] = {}
    for session_id in session_ids:
        try:
            requests[session_id] = requests_in((await store.read_session(session_id))[1])
        except StoreError:
            continue
    return requests


def _used_by(requests: Mapping[str, Sequence[Request]], prices: PriceList) -> dict[str, dict[str, Any]]:
    """For each session what its own requests used, and what the tasks used that began in it. A sub-agent's request
    belongs to the session in which the outermost run of its family made a request; where that is not known, to its
    own."""
    session_of = {one.run_id: name for name, own in requests.items() for one in own if one.run_id == one.family}
    tasks: dict[str, list[Request]] = {name: [] for name in requests}
    for name, own in requests.items():
        for one in own:
            tasks[session_of.get(one.family, name)].append(one)
    return {
        name: {**spent_json(prices.spent(own)), "with_subagents": spent_json(prices.spent(tasks[name]))}
        for name, own in requests.items()
    }


def _used_cells(used: Mapping[str, Any] | None) -> Sequence[str | int]:
    """The cells of one session: question marks where it cannot be read, a dash where no price is known."""
    if used is None:
        return ("?",) * 5
    whole = used["with_subagents"]
    return (used["requests"], _tokens(used), _paid(used), _tokens(whole), _paid(whole))


def _tokens(used: Mapping[str, Any]) -> int:
    return used["prompt"] + used["output"]


def _paid(used: Mapping[str, Any]) -> str:
    return "-" if used["dollars"] is None else in_dollars(used["dollars"])
