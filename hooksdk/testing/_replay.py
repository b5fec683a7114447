"""What plugins would have done with the calls of a recorded session. Nothing is executed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from hooksdk.config import Config, load_config
from hooksdk.formats import Message, get_format
from hooksdk.histories import History, read_history
from hooksdk.host import Host, names_file, plugins_at
from hooksdk.stores import MemoryStore
from hooksdk.testing._exchanges import exchanges_in, singly
from hooksdk.testing._replay_tools import GivenCatalog, complete_catalog, read_catalog
from hooksdk.testing._session import check_installed
from hooksdk.testing._theatre import RunOptions, Theatre
from hooksdk.testing._verdicts import Replay

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
    folder: Path | None = None,
) -> Replay:
    """Let the plugins judge every call of a recorded session, in order. Nothing is executed, and nothing outlives it.

    `plugins` are modules, classes, ids of installed plugins, `Path`s of Python files, or `"module:Class"`. A call that would
    run gets its recorded result, one that would not gets its refusal; where a plugin asks a person, the answer is what the
    record shows: yes where the call ran. `tools` are the definitions: tools, functions, or a JSON file of them; a tool that
    is not among them takes any arguments. `config` is as for `open_session`; `folder` is the project that a `Config` is of.
    The others are those of `session.run`.

    It brings an event loop of its own; `replay_async` is for code that runs in one. Raises `HistoryError` for what cannot be
    read.
    """
    options = RunOptions(agent_id, workspace_dir, requester, trigger)
    return anyio.run(_replay, _history(source, format), list(plugins), tools, config, options, folder)


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
    folder: Path | None = None,
) -> Replay:
    """`replay` inside an event loop."""
    options = RunOptions(agent_id, workspace_dir, requester, trigger)
    return await _replay(_history(source, format), list(plugins), tools, config, options, folder)


def _history(source: Source, format_name: str | None) -> History:
    if isinstance(source, History):
        return source
    return read_history(source if isinstance(source, (str, Path)) else list(source), format_name)


async def _replay(
    history: History,
    plugins: Sequence[Any],
    tools: GivenCatalog,
    config: Mapping[str, Any] | Config | None,
    options: RunOptions,
    folder: Path | None,
) -> Replay:
    folder = folder or Path(os.devnull)
    ids, holders = _by_name(plugins)
    if not isinstance(config, Config):
        overrides = {**(config or {}), "allow": [*ids, *(config or {}).get("allow", ())]}
        config = load_config(overrides, folder=folder, environment={"XDG_CONFIG_HOME": os.devnull})
    config = config.model_copy(update={"record_first": False})  # nothing runs, so nothing is to be written
    theatre = Theatre()
    host = Host(
        [theatre.plugin(), *holders], store=MemoryStore(), config=config, approver=theatre.answer, folder=folder
    )
    theatre.shows_messages = any("before_model_call" in one.hooks for one in host.plugins if one.loaded)
    check_installed(host, ids)
    form = get_format(history.format)
    runs = [singly(run, form) for run in exchanges_in(history.messages, form)]
    catalog = complete_catalog(read_catalog(tools), runs, [name for one in host.plugins for name in one.tools])
    async with host, host.session("replay") as session:
        for number, run in enumerate(runs, 1):
            await theatre.play(session, run, number, form, catalog.tools, options)
    return Replay(calls=theatre.verdicts(), notes=(*history.notes, *catalog.notes))


def _by_name(plugins: Iterable[Any]) -> tuple[list[str], list[Any]]:
    """The ids of installed plugins among these, and the modules and classes of all others. Raises `PluginRefused`."""
    ids: list[str] = []
    holders: list[Any] = []
    for plugin in plugins:
        if isinstance(plugin, str) and ":" not in plugin and not names_file(plugin):
            ids.append(plugin)
        else:
            holders += plugins_at(plugin) if isinstance(plugin, (str, Path)) else [plugin]
    return ids, holders
