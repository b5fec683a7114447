"""`hooksdk replay`: what plugins would have done with the calls of a recorded session; with `--as-test` a test of
it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Annotations, Config, Host, Tool
from hooksdk.cli._console import (
    CommandProblem,
    View,
    counted,
    printable,
    stderr_console,
    stdout_console,
    warnings_shown,
)
from hooksdk.cli._options import Json, Project, takes
from hooksdk.cli._project import open_servers, project_config, without_records
from hooksdk.cli._replay.chain import ChainCall, ChainSession, Comparison, compare, is_chain, session_of_chain
from hooksdk.cli._sessions.look import look_at, with_session
from hooksdk.config import fold
from hooksdk.errors import ConfigError
from hooksdk.formats import get_format
from hooksdk.histories import History, read_history
from hooksdk.host import Plugin, names_file, plugins_at
from hooksdk.testing import CallVerdict, DecisionSnapshot, Replay, decision_changes, read_catalog, replay, without_prose
from hooksdk.values import clip

replay_app = typer.Typer(add_completion=False)
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
TEST_NAME = "test_the_decisions_stay"


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """The options of `hooksdk replay`.

    Attributes:
        source: A stored session's id, a file of any history, or a chain of the plugin audit.
        plugins: A Python file, a class, or an installed plugin's id; may be given several times.
        everything: The plugins of this project's configuration judge, too.
        history_format: Where a file comes from; guessed by default.
        mcp: Servers whose tools were called: asked for their definitions only.
        tools: Definitions of the tools, as JSON; by default any arguments fit.
        workspace: The workspace of the runs, for rules about paths.
        only_differing: Show only calls that would go otherwise than recorded.
        write: Write the decisions as a snapshot.
        check: Compare with a snapshot; the code is 1 where they differ.
        values: Snapshots hold arguments as they are, not their digests.
        as_test: Write a test for pytest, with its data beside it.
        whole: With --as-test: what was said and answered stays in the data.
        session: With a chain: which of its sessions, where it tells of several.
        store: Where the session is; by default the configuration's store.
    """

    source: Annotated[str, typer.Argument(metavar="SESSION|FILE")]
    plugins: Annotated[list[str] | None, typer.Option("--plugin", metavar="FILE|MODULE:CLASS|ID")] = None
    everything: Annotated[bool, typer.Option("--all")] = False
    history_format: Annotated[str | None, typer.Option("--format", metavar="NAME")] = None
    mcp: Annotated[list[Path] | None, typer.Option("--mcp", metavar="FILE")] = None
    tools: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False)] = None
    workspace: Annotated[str | None, typer.Option(metavar="FOLDER")] = None
    only_differing: Annotated[bool, typer.Option("--diff")] = False
    write: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False)] = None
    check: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False)] = None
    values: Annotated[bool, typer.Option("--values")] = False
    as_test: Annotated[Path | None, typer.Option(metavar="FILE.py", dir_okay=False)] = None
    whole: Annotated[bool, typer.Option("--whole")] = False
    session: Annotated[str | None, typer.Option("--session", metavar="ID")] = None
    store: Annotated[str | None, typer.Option(metavar="FOLDER|URL")] = None
    as_json: Json = False
    project: Project = Path()


@replay_app.command()
@takes(ReplayOptions)
def replay_session(options: ReplayOptions) -> int:
    """Show what plugins would have done with the calls of a recorded session. Nothing is executed.

    The code is 1 where --check finds a difference, and where a chain and the session beside it do not tell the same.
    """
    if not options.plugins and not options.everything:
        raise typer.BadParameter("name a plugin with --plugin FILE, or take this project's with --all")
    path = Path(options.source)
    chain = session_of_chain(path, options.session) if path.is_file() and is_chain(path) else None
    if chain is None and options.session is not None:
        raise CommandProblem("--session is for a chain of the plugin audit")
    history = _history(options, chain)
    check = DecisionSnapshot(options.check) if options.check else None
    with warnings_shown():
        named = options.plugins or []
        ids = [one for one in named if ":" not in one and not names_file(one)]
        holders = plugins_at(*(one for one in named if one not in ids))
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
        if options.as_test is not None:
            notes += write_test(options.as_test, options, Recorded(history, played, tools, config), played_again)
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


@dataclass(frozen=True)
class Recorded:
    """A replayed history, with the tools and the configuration of the replay."""

    history: History
    played: Replay
    tools: Sequence[Tool]
    config: Config


def write_test(file: Path, options: ReplayOptions, recorded: Recorded, play: Callable[[History], Replay]) -> list[str]:
    """Write the test, the session, the snapshot and, where some were given, the tools; answers notes for the user.
    Raises `CommandProblem` where one of the files is there already."""
    path = file if file.suffix == ".py" else file.with_name(f"{file.name}.py")
    if not options.plugins:
        raise CommandProblem("--as-test needs --plugin: a test cannot know the plugins of this project's configuration")
    session = path.with_name(f"{path.stem}.session.jsonl")
    snapshot = path.with_name(f"{path.stem}.{TEST_NAME}.decisions.json")
    tools = path.with_name(f"{path.stem}.tools.json") if recorded.tools else None
    for one in (path, session, snapshot, tools):
        if one is not None and one.exists():
            raise CommandProblem(f"{one} is there already; remove it, or name another file")
    history, notes = recorded.history, list[str]()
    if not options.whole:
        bare = without_prose(history.messages, get_format(history.format))
        history = replace(history, messages=bare)
        problems = decision_changes(recorded.played, play(history))
        if problems:
            notes.append(
                f"without what was said and answered, {len(problems)} decisions are others; --whole keeps it: "
                f"{problems[0]}"
            )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(message, ensure_ascii=False) + "\n" for message in history.messages)
        session.write_text("".join(lines), "utf-8")
        if tools is not None:
            definitions = [_definition_of(tool) for tool in recorded.tools]
            tools.write_text(json.dumps(definitions, indent=2, ensure_ascii=False) + "\n", "utf-8")
        path.write_text(_code(options, recorded, path, session, tools), "utf-8")
    except OSError as error:
        raise ConfigError(str(path), (f"the test cannot be written: {error.strerror}",)) from None
    decided = recorded.played if options.whole else play(history)
    DecisionSnapshot(snapshot, values=options.values).write(decided)
    left = "with everything that was said" if options.whole else "without what was said and answered"
    written = ", ".join(one.name for one in (path, session, snapshot, tools) if one is not None)
    return [
        f"written: {written}. Run it with: pytest {path}",
        f"{session.name} has the arguments of every call as they are, {left}: look at it before you commit it",
        *notes,
    ]


def _definition_of(tool: Tool) -> dict[str, Any]:
    """A tool as a file of definitions has it."""
    hints = {name: value for name in Annotations.names() if (value := getattr(tool.annotations, name)) is not None}
    return {"id": tool.id, "description": tool.description, "parameters": tool.parameters, "annotations": hints}


def _code(options: ReplayOptions, recorded: Recorded, path: Path, session: Path, tools: Path | None) -> str:
    plugins = ", ".join(_place(one, path.parent) for one in options.plugins or ())
    arguments = [f"HERE / {_quoted(session.name)}", f"[{plugins}]", f"format={_quoted(recorded.history.format)}"]
    if tools is not None:
        arguments.append(f"tools=HERE / {_quoted(tools.name)}")
    if settings := _settings(recorded.config):
        arguments.append(f"config={settings!r}")
    if options.workspace:
        arguments.append(f"workspace_dir={_quoted(options.workspace)}")
    lines = "".join(f"        {one},\n" for one in arguments)
    return f'''"""What the plugins decide about the calls of a recorded session.

When a change is meant, `pytest --hooksdk-update` writes the snapshot anew. Made by `hooksdk replay`, and yours to change.
"""

from pathlib import Path

from hooksdk.testing import replay

HERE = Path(__file__).parent


def {TEST_NAME}(decision_snapshot):
    decisions = replay(
{lines}    )
    assert decisions == decision_snapshot
'''


def _quoted(text: str) -> str:
    """The text as a literal of Python, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _place(place: str, folder: Path) -> str:
    """A plugin as the test names it: a file by its way from the test, anything else as it was named."""
    if names_file(place):
        way = os.path.relpath(Path(place).expanduser().resolve(), folder.resolve())
        return f"HERE / {_quoted(Path(way).as_posix())}"
    return _quoted(place)


def _settings(config: Config) -> Mapping[str, Any]:
    """The plugins' settings in the configuration, for `replay(config=...)`."""
    sections = {
        name: section.model_dump(exclude_defaults=True, mode="json") for name, section in config.plugins.items()
    }
    return {"plugins": sections} if sections else {}
