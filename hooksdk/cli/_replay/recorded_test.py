"""`hooksdk replay --as-test`: a recorded session as a test file with its data beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hooksdk import Annotations, Config, Tool
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._replay.options import ReplayOptions
from hooksdk.errors import ConfigError
from hooksdk.formats import get_format
from hooksdk.histories import History
from hooksdk.host import names_file
from hooksdk.testing import DecisionSnapshot, Replay, decision_changes, without_prose

TEST_NAME = "test_the_decisions_stay"


@dataclass(frozen=True)
class Recorded:
    """What was replayed, and with what."""

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
    plugins = ", ".join(_place(one, path.parent) for one in options.plugins)
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
    """As Python writes it, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _place(place: str, folder: Path) -> str:
    """A plugin as the test names it: a file by its way from the test, anything else as it was named."""
    if names_file(place):
        way = os.path.relpath(Path(place).expanduser().resolve(), folder.resolve())
        return f"HERE / {_quoted(Path(way).as_posix())}"
    return _quoted(place)


def _settings(config: Config) -> Mapping[str, Any]:
    """What the configuration says of the plugins, for `replay(config=...)`."""
    sections = {
        name: section.model_dump(exclude_defaults=True, mode="json") for name, section in config.plugins.items()
    }
    return {"plugins": sections} if sections else {}
