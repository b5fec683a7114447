"""`hooksdk replay`: what plugins would have done with the calls of a recorded session."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from hooksdk import Config, Host, Tool
from hooksdk.cli._console import (
    CommandProblem,
    counted,
    one_line,
    print_columns,
    print_json,
    printable,
    stderr_console,
    stdout_console,
    warnings_shown,
)
from hooksdk.cli._project import open_servers, project_config, without_records
from hooksdk.cli._replay.chain import ChainSession, Comparison, compare, is_chain, session_of_chain
from hooksdk.cli._replay.recorded_test import RecordedTest, write_test
from hooksdk.cli._sessions.look import look_at, with_session
from hooksdk.config import fold
from hooksdk.histories import History, read_history
from hooksdk.host import Plugin, names_file, plugins_at
from hooksdk.testing import CallVerdict, DecisionSnapshot, Replay, read_catalog, replay
from hooksdk.values import clip

ARGUMENTS_CHARS = 48
"""Of a call's arguments in the table at most."""
_OTHER_COLUMNS = 58
"""Cells of a terminal's line that the columns besides tool and arguments take, with some room for the reason."""
_WORDS: Mapping[str, str] = {
    "allow": "allowed", "rewrite": "rewritten", "ask": "asked about", "answer": "answered by a plugin",
    "block": "blocked", "withhold": "withheld", "invalid": "invalid",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What to replay, against what, and where to."""

    source: str
    plugins: Sequence[str]
    everything: bool = False
    """The project's own plugins, too."""
    history_format: str | None = None
    mcp: Sequence[Path] = ()
    tools: Path | None = None
    workspace: str | None = None
    only_differing: bool = False
    write: Path | None = None
    check: Path | None = None
    values: bool = False
    test: Path | None = None
    whole: bool = False
    session: str | None = None
    """Of a chain."""
    store: str | None = None
    as_json: bool = False
    project: Path = Path()


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

        def again(other: History) -> Replay:
            return replay(
                other, plugins, tools=tools, config=config, workspace_dir=options.workspace, folder=options.project
            )

        played = again(history)
        if options.test is not None:
            files = RecordedTest(
                path=options.test, places=options.plugins, history=history, replay=played, tools=tools, config=config,
                workspace=options.workspace, whole=options.whole, values=options.values,
            )  # fmt: skip
            notes = write_test(files, again)
        else:
            notes = []
    if options.write:
        DecisionSnapshot(options.write, values=options.values).write(played)
    problems = check.differences(played) if check is not None else []
    beside = compare(played.calls, chain) if chain is not None else Comparison((), ())
    if options.as_json:
        print_json(_document(played, options, problems, notes, beside))
    else:
        _print(played, options, problems, notes, beside)
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
    """The project's settings for the named plugins, which are in force here whatever mode they are in; with `--all` the whole
    configuration."""
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


def _entry(verdict: CallVerdict) -> dict[str, Any]:
    return {
        "call": verdict.number, "run": verdict.run, "tool": verdict.tool, "arguments": verdict.arguments,
        "recorded": verdict.recorded, "decision": verdict.outcome, "by": verdict.by, "reason": verdict.reason,
        "becomes": verdict.becomes, "differs": verdict.differs,
    }  # fmt: skip


def _document(
    played: Replay, options: ReplayOptions, problems: Sequence[str], notes: Sequence[str], beside: Comparison
) -> dict[str, Any]:  # fmt: skip
    calls = [_entry(one) for one in played.calls]
    for entry, call in zip(calls, beside.calls, strict=False):
        entry["chain"] = asdict(call) if call is not None else None
    shown = [entry for entry in calls if entry["differs"] or not options.only_differing]
    chain = {"chain": beside.problems} if beside.calls or beside.problems else {}
    return {
        "schema": 1, "source": options.source, "calls": shown, "counts": played.counts, **chain,
        "differ": sum(one.differs for one in played.calls), "check": problems if options.check else None,
        "notes": [*played.notes, *notes],
    }  # fmt: skip


def _print(
    played: Replay, options: ReplayOptions, problems: Sequence[str], notes: Sequence[str], beside: Comparison
) -> None:
    console = stdout_console()
    then = {one.number: call.words for one, call in zip(played.calls, beside.calls, strict=False) if call is not None}
    shown = [one for one in played.calls if one.differs or not options.only_differing]
    if shown:
        room = ARGUMENTS_CHARS
        if console.is_terminal:
            longest = max(len(one.tool) for one in shown)
            room = min(room, max(console.width - longest - _OTHER_COLUMNS, len("arguments")))
        print_columns(
            ("call", "tool", "arguments", "then", "now", "why"),
            [_row(one, room, then.get(one.number, one.recorded)) for one in shown],
        )
        console.print()
    counts = ", ".join(f"{number:,} {_WORDS[outcome]}" for outcome, number in played.counts.items())
    console.print(f"{counted(len(played.calls), 'call')}{': ' if counts else ''}{counts}", soft_wrap=True)
    differ = sum(one.differs for one in played.calls)
    console.print(f"{differ:,} would go otherwise than recorded", soft_wrap=True)
    for problem in beside.problems:
        console.print(f"[red]chain[/]    {one_line(problem)}", soft_wrap=True)
    for problem in problems:
        console.print(f"[red]differs[/]  {one_line(problem)}", soft_wrap=True)
    if options.check and not problems:
        console.print(f"[green]as in[/]    {one_line(options.check)}", soft_wrap=True)
    if options.write:
        console.print(f"written  {one_line(options.write)}", soft_wrap=True)
    for note in (*played.notes, *notes):
        console.print(f"note     {one_line(note)}", soft_wrap=True)


def _row(verdict: CallVerdict, room: int, then: str) -> Sequence[str]:
    now: str = verdict.outcome
    why = ": ".join(filter(None, [verdict.by, " ".join(verdict.reason.split())]))
    if verdict.becomes is not None:
        after = verdict.becomes
        changed = ", ".join(f"{name} = {json.dumps(after.get(name), ensure_ascii=False)}" for name in verdict.changed)
        why = f"{why} ({changed})" if verdict.outcome != "rewrite" else f"{why}: {changed}"
    arguments = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in verdict.arguments.items())
    cells = (
        str(verdict.number),
        clip(verdict.tool, 60),
        clip(arguments, room),
        then,
        now,
        why,
    )
    return [printable(cell).replace("\n", " ").replace("\t", " ") for cell in cells]
