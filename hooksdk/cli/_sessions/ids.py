"""The ids of sessions as people type them: whole, by a prefix, or `last`."""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from hooksdk.cli._console import CommandProblem, printable
from hooksdk.config import state_folder
from hooksdk.errors import did_you_mean
from hooksdk.stores import JsonlStore, SessionSummary, Store, list_summaries
from hooksdk.values import clip

LAST = "last"
_DIGITS, _LETTERS = "0123456789", "bcdfghjkmnpqrstvwxyz"
_PAIRS = 4
# Matches an id that hooksdk made, in `new_id` or `host.session()`. A name that somebody gave is found whole only:
# `user-1` is not `user-10`.
_MADE = re.compile(rf"(?:[{_DIGITS}][{_LETTERS}]){{{_PAIRS}}}|[0-9a-f]{{32}}")
_LEAST_PREFIX = 4
_SHOWN_CHARS = 8


async def new_id(store: Store) -> str:
    """A new id that is short to type, such as `7k2m9x4q`: one of 1.6 thousand million. The session's lock keeps two
    processes apart that make the same one at the same moment."""
    while True:
        made = "".join(secrets.choice(_DIGITS) + secrets.choice(_LETTERS) for _ in range(_PAIRS))
        if not await store.session_exists(made):
            return made


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """For each id the beginning that is enough to type. Only ids that hooksdk made are shortened."""
    made = sorted(each for each in ids if _MADE.fullmatch(each))
    shown = dict.fromkeys(made, _SHOWN_CHARS)
    for one, other in itertools.pairwise(made):
        needed = len(os.path.commonprefix([one, other])) + 1  # noqa: RUF071 - of characters
        shown[one], shown[other] = max(shown[one], needed), max(shown[other], needed)
    return {each: each[: shown.get(each)] for each in ids}


async def find_session(store: Store, typed: str, project: Path) -> str:
    """The session that is meant. Raises `CommandProblem` where there is none, or more than one."""
    found = await match_session(store, typed, project)
    if found is None:
        raise await unknown_session(store, typed)
    return found


async def match_session(store: Store, typed: str, project: Path) -> str | None:
    """The session with this id, or the newest for `last`, or the one whose id, made by hooksdk, begins with it; None
    where there is none. Raises `CommandProblem` where several begin so, and for `last` where no session was begun
    here."""
    if await store.session_exists(typed):
        return typed
    if typed == LAST:
        return (await newest(store, project)).session_id
    if len(typed) < _LEAST_PREFIX or typed.isdigit():  # a number may well be somebody's own new name
        return None
    fitting = [each for each in await store.list_sessions() if each.startswith(typed) and _MADE.fullmatch(each)]
    if len(fitting) > 1:
        raise CommandProblem(await _several(store, typed, fitting))
    return fitting[0] if fitting else None


async def _several(store: Store, typed: str, fitting: Sequence[str]) -> str:
    summaries = [one for one in await list_summaries(store) if one.session_id in fitting]
    lines = [f"\n  {one.session_id}  {clip(' '.join(one.prompt.split()), 60)}" for one in summaries]
    return f"'{printable(typed)}' fits {len(fitting)} sessions; type more of one:{''.join(lines)}"


async def newest(store: Store, project: Path) -> SessionSummary:
    """The session that was changed last, sub-agents' sessions left out. The state folder is shared by all projects, so
    there only sessions that began in this folder count. Raises `CommandProblem` where there is none."""
    summaries = await list_summaries(store)
    ids = {one.session_id for one in summaries}
    whole = [one for one in summaries if one.session_id.rpartition("/")[0] not in ids]
    here = _real(project)
    if isinstance(store, JsonlStore) and store.directory == state_folder() / "sessions":
        whole = [one for one in whole if one.folder in {"", here}]
    if not whole:
        others = " `hooksdk sessions list` shows those of other folders." if ids else ""
        raise CommandProblem(f"no session was begun in {printable(here)} yet.{others}")
    return whole[0]


def _real(folder: Path) -> str:
    return str(folder.resolve())


async def unknown_session(store: Store, session_id: str) -> CommandProblem:
    """The problem of an id that names no session."""
    known = await store.list_sessions()
    hint = did_you_mean(session_id, known)
    if not hint:
        hint = " `hooksdk sessions list` shows those that are there." if known else " The store is empty."
    return CommandProblem(f"there is no session '{session_id}' in {place_of(store)}.{hint}")


def place_of(store: Store) -> str:
    """Where a store keeps its sessions, for a message."""
    return str(store.directory) if isinstance(store, JsonlStore) else "this store"
