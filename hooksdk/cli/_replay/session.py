"""`hooksdk replay`: what plugins would have done with the calls of a recorded session."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import anyio

from hooksdk import Config, Host, Tool
from hooksdk.cli._console import CommandProblem, counted, printable, stderr_console, stdout_console, warnings_shown
from hooksdk.cli._project import open_servers, project_config, without_records
from hooksdk.cli._replay.chain import ChainCall, ChainSession, Comparison, compare, is_chain, session_of_chain
from hooksdk.cli._replay.options import ReplayOptions
from hooksdk.cli._replay.recorded_test import Recorded, write_test
from hooksdk.cli._sessions.look import look_at, with_session
from hooksdk.cli._view import View
from hooksdk.config import fold
from hooksdk.histories import History, read_history
from hooksdk.host import Plugin, names_file, plugins_at
from hooksdk.testing import CallVerdict, DecisionSnapshot, Replay, read_catalog, replay
from hooksdk.values import clip

# Of a call's arguments in the table at most.
ARGUMENTS_CHARS = 48
# Cells of a terminal's line that the columns besides tool and arguments take, with some room for the reason.
_OTHER_COLUMNS = 58
_WORDS: Mapping[str, str] = {
    "allow": "allowed",
    "rewrite": "rewritten",
    "ask": "asked about",
    "answer": "answered by a plugin",
    "block": "blocked",
    "withhold": "withheld",
    "invalid": "invalid",
}


def replay_session(options: ReplayOptions) -> int:
    """Replay, print, write and compare; 1 where a snapshot says otherwise."""
    path = Path(options.source)
    chain = session_of_chain(path, options.session) if path.is_file() and is_chain(path) else None
    if chain is None and options.session is not None:
        raise CommandProblem("--session is for a chain of the plugin audit")
    history = _history(options, chain)
    check = DecisionSnapshot(options.check) if options.check else None
    with warnings_shown(stderr_console()):
        ids = [one for one in options.plugins if ":" not in one and not names_file(one)]
        holders = plugins_at(*(one for one in options.plugins if one not in ids))
        config = _config(options, ids, holders)
        tools = read_catalog(options.tools or ())
        if options.mcp:
            tools += anyio.run(_served, options.mcp)
        plugins = [*ids, *holders]

        def played_again(other: History) -> Replay:
            return replay(
                other, plugins, tools=tools, config=config, workspace_dir=options.workspace, folder=options.project
            )

        played = played_again(history)
        notes = list(played.notes)
        if options.test is not None:
            notes += write_test(options.test, options, Recorded(history, played, tools, config), played_again)
    if options.write:
        DecisionSnapshot(options.write, values=options.values).write(played)
    problems = check.differences(played) if check is not None else []
    beside = compare(played.calls, chain) if chain is not None else Comparison((), ())
    _view(played, options, problems, notes, beside).show(as_json=options.as_json)
    return 1 if problems or beside.problems else 0


def _history(options: ReplayOptions, chain: ChainSession | None) -> History:
    path = Path(options.source)
    if chain is None and path.is_file():
        return read_history(path, options.history_format)
    if chain is None and options.source.endswith((".json", ".jsonl", ".db")) and not options.store:
        raise CommandProblem(f"there is no file {printable(options.source)}")
    typed = options.source if chain is None else chain.session_id
    _, look = with_session(options.project, options.store, typed, look_at)
    if look.format_name is None or not look.messages:
        raise CommandProblem(f"session '{typed}' has no messages")
    return History(list(look.messages), look.format_name, "hooksdk", ())


def _config(options: ReplayOptions, ids: Sequence[str], holders: Sequence[Any]) -> Config:
    """The project's settings for the named plugins, which judge here even where the project only watches them or has
    them off; with `--all` the whole configuration."""
    config = project_config(options.project)
    if options.everything:
        return without_records(config)
    named = {fold(one) for one in (*ids, *(Plugin.of(one).id for one in holders))}
    sections = {
        name: section.model_copy(update={"mode": "enforce", "enabled": True})
        for name, section in config.plugins.items()
        if fold(name) in named
    }
    return config.model_copy(update={"plugins": sections, "allow": list(ids), "deny": [], "plugins_file": False})


async def _served(paths: Sequence[Path]) -> list[Tool]:
    """The definitions of these servers' tools. The servers have ended when this returns."""
    async with Host(config=Config(allow=[])) as host:
        groups = await open_servers(host, paths, stderr_console())
        return [tool for servers in groups for tool in servers.tools()]


def _view(
    played: Replay, options: ReplayOptions, problems: Sequence[str], notes: Sequence[str], beside: Comparison
) -> View:
    shown = [
        (verdict, call)
        for verdict, call in zip_longest(played.calls, beside.calls)
        if verdict.differs or not options.only_differing
    ]
    has_chain = bool(beside.calls or beside.problems)
    differ = sum(one.differs for one in played.calls)
    view = View(
        {
            "source": options.source,
            "calls": [_entry(*one, has_chain=bool(beside.calls)) for one in shown],
            "counts": played.counts,
            **({"chain": beside.problems} if has_chain else {}),
            "differ": differ,
            "check": problems if options.check else None,
            "notes": notes,
        },
        indent=9,
    )
    if shown:
        console, room = stdout_console(), ARGUMENTS_CHARS
        if console.is_terminal:
            longest = max(len(verdict.tool) for verdict, _ in shown)
            room = min(room, max(console.width - longest - _OTHER_COLUMNS, len("arguments")))
        rows = [_row(verdict, room, call.words if call else verdict.recorded) for verdict, call in shown]
        view.table(("call", "tool", "arguments", "then", "now", "why"), rows)
        view.markup()
    counts = ", ".join(f"{number:,} {_WORDS[outcome]}" for outcome, number in played.counts.items())
    view.text(f"{counted(len(played.calls), 'call')}{': ' if counts else ''}{counts}")
    view.text(f"{differ:,} would go otherwise than recorded")
    view.lines("chain", beside.problems, "red")
    view.lines("differs", problems, "red")
    if options.check and not problems:
        view.line("as in", options.check, "green")
    if options.write:
        view.line("written", options.write)
    view.lines("note", notes)
    return view


def _entry(verdict: CallVerdict, call: ChainCall | None, *, has_chain: bool) -> dict[str, Any]:
    return {
        "call": verdict.number,
        "run": verdict.run,
        "tool": verdict.tool,
        "arguments": verdict.arguments,
        "recorded": verdict.recorded,
        "decision": verdict.outcome,
        "by": verdict.by,
        "reason": verdict.reason,
        "becomes": verdict.becomes,
        "differs": verdict.differs,
        **({"chain": asdict(call) if call else None} if has_chain else {}),
    }


def _row(verdict: CallVerdict, room: int, then: str) -> Sequence[str]:
    why = ": ".join(filter(None, [verdict.by, " ".join(verdict.reason.split())]))
    if verdict.becomes is not None:
        after = verdict.becomes
        changed = ", ".join(f"{name} = {json.dumps(after.get(name), ensure_ascii=False)}" for name in verdict.changed)
        why = f"{why} ({changed})" if verdict.outcome != "rewrite" else f"{why}: {changed}"
    arguments = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in verdict.arguments.items())
    return (str(verdict.number), clip(verdict.tool, 60), clip(arguments, room), then, str(verdict.outcome), why)
