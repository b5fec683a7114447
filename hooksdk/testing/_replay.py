"""What plugins would have done with the calls of a recorded session. Nothing is executed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from hooksdk._plugins.files import is_file
from hooksdk.config import Config, load_config
from hooksdk.formats import Message, get_format
from hooksdk.histories import History, HistoryError, read_history
from hooksdk.host import Host, plugins_at
from hooksdk.stores import MemoryStore
from hooksdk.testing._exchanges import exchanges_in
from hooksdk.testing._replay_tools import GivenCatalog, complete_catalog, read_catalog
from hooksdk.testing._session import check_installed
from hooksdk.testing._theatre import RunOptions, Theatre
from hooksdk.testing._verdicts import Replay
from hooksdk.values import as_object

Source = str | Path | Sequence[Message] | History
"""A file of any history that `read_history` takes, messages, or a `History`."""


def replay(
    source: Source,
    plugins: Iterable[Any],
    *,
    format: str | None = None,  # noqa: A002 - the field's own word
    tools: GivenCatalog = (),
    config: Mapping[str, Any] | Config | None = None,
    agent_id: str = "main",
    workspace_dir: str | None = None,
    requester: Mapping[str, Any] | None = None,
    trigger: str = "user",
) -> Replay:
    """Let the plugins judge every call of a recorded session, in order. Nothing is executed, and nothing outlives it.

    `plugins` are modules, classes, ids of installed plugins, `Path`s of Python files, or `"module:Class"`. A call that would
    run gets its recorded result, one that would not gets its refusal; where a plugin asks a person, the answer is what the
    record shows: yes where the call ran. `tools` are the definitions: tools, functions, or a JSON file of them; a tool that
    is not among them takes any arguments. `config` is as for `open_session`. The others are those of `session.run`.

    It brings an event loop of its own; `replay_async` is for code that runs in one. Raises `HistoryError` for what cannot be
    read.
    """
    options = RunOptions(agent_id, workspace_dir, requester, trigger)
    return anyio.run(replay_history, _history(source, format), list(plugins), tools, config, options)


async def replay_async(
    source: Source,
    plugins: Iterable[Any],
    *,
    format: str | None = None,  # noqa: A002 - the field's own word
    tools: GivenCatalog = (),
    config: Mapping[str, Any] | Config | None = None,
    agent_id: str = "main",
    workspace_dir: str | None = None,
    requester: Mapping[str, Any] | None = None,
    trigger: str = "user",
) -> Replay:
    """`replay` inside an event loop."""
    options = RunOptions(agent_id, workspace_dir, requester, trigger)
    return await replay_history(_history(source, format), list(plugins), tools, config, options)


def _history(source: Source, format_name: str | None) -> History:
    if isinstance(source, History):
        return source
    if isinstance(source, (str, Path)):
        refuse_trace(Path(source))
        return read_history(source, format_name)
    return read_history(list(source), format_name)


def refuse_trace(path: Path) -> None:
    """Raise `HistoryError` for a file of `trace_file`: it has no arguments, so there is nothing to judge."""
    try:
        with path.open(encoding="utf-8") as lines:
            first = as_object(json.loads(lines.readline()))
            if not {"kind", "run_id", "session_id"} <= first.keys():
                return
            sessions = {str(as_object(json.loads(line)).get("session_id")) for line in lines} | {first["session_id"]}
    except (OSError, ValueError, RecursionError):
        return  # whoever reads the file says what is wrong with it
    names = ", ".join(f"'{one}'" for one in sorted(sessions)[:5])
    problem = "it is a trace, which holds no arguments of calls, so there is nothing to judge"
    raise HistoryError(path.name, problem, f"Replay the stored session itself; this trace is of {names}")


async def replay_history(
    history: History,
    plugins: Sequence[Any],
    tools: GivenCatalog,
    config: Mapping[str, Any] | Config | None,
    options: RunOptions,
    folder: Path = Path(os.devnull),
) -> Replay:
    """`replay` of a history that is read already. A `Config` counts as it is, with `folder` as its project."""
    ids, holders = named_plugins(plugins)
    if not isinstance(config, Config):
        overrides = {**(config or {}), "allow": [*ids, *(config or {}).get("allow", ())]}
        config = load_config(overrides, folder=folder, environment={"XDG_CONFIG_HOME": os.devnull})
    theatre = Theatre()
    host = Host(
        [theatre.plugin(), *holders], store=MemoryStore(), config=config, approver=theatre.answer, folder=folder
    )
    theatre.shows_messages = any("before_model_call" in one.hooks for one in host.plugins if one.loaded)
    check_installed(host, ids)
    form = get_format(history.format)
    runs = exchanges_in(history.messages, form)
    catalog = complete_catalog(read_catalog(tools), runs, [name for one in host.plugins for name in one.tools])
    async with host, host.session("replay") as session:
        for number, run in enumerate(runs, 1):
            await theatre.play(session, run, number, form, catalog.tools, options)
    return Replay(calls=theatre.verdicts(), notes=(*history.notes, *catalog.notes))


def named_plugins(plugins: Iterable[Any]) -> tuple[list[str], list[Any]]:
    """The ids of installed plugins among these, and the modules and classes of all others. Raises `PluginRefused`."""
    ids: list[str] = []
    holders: list[Any] = []
    for plugin in plugins:
        if isinstance(plugin, str) and ":" not in plugin and not is_file(plugin):
            ids.append(plugin)
        else:
            holders += plugins_at(plugin) if isinstance(plugin, (str, Path)) else [plugin]
    return ids, holders
