"""Replay of a recorded session: plugins judge its calls, and nothing is executed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio

from hooksdk.catalog import build_catalog
from hooksdk.config import Config, load_config
from hooksdk.errors import ConfigError
from hooksdk.formats import Message, get_format
from hooksdk.histories import History, read_history
from hooksdk.host import Host, names_file, plugins_at
from hooksdk.patterns import SOURCES
from hooksdk.stores import MemoryStore
from hooksdk.testing._exchanges import BRIDGE, Asked, Exchange, exchanges_in, real_call, singly
from hooksdk.testing._replayer import Replayer
from hooksdk.testing._session import check_installed
from hooksdk.testing._snapshots import read_json_file
from hooksdk.testing._verdicts import Replay
from hooksdk.tools import Annotations, Tool
from hooksdk.values import as_object, is_list, is_object, kind_of

# A file of any history that `read_history` takes, messages, or a `History`.
Source = str | Path | Sequence[Message] | History
# Tools, functions that become tools of the host, or a JSON file of definitions.
GivenCatalog = Iterable[Tool | Callable[..., Any]] | str | Path


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

    `plugins` are modules, classes, ids of installed plugins, `Path`s of Python files, or `"module:Class"`. A call that
    would run gets its recorded result, one that would not gets its refusal; where a plugin asks a person, the answer is
    what the record shows: yes where the call ran. `tools` are the definitions: tools, functions, or a JSON file of
    them; a tool that is not among them takes any arguments. `config` is as for `open_session`; `folder` is the project
    that a `Config` is of. The others are those of `session.run`.

    It brings an event loop of its own; `replay_async` is for code that runs in one. Raises `HistoryError` for what
    cannot be read.
    """
    inside = partial(
        replay_async,
        source,
        plugins,
        format=format,
        tools=tools,
        config=config,
        agent_id=agent_id,
        workspace_dir=workspace_dir,
        requester=requester,
        trigger=trigger,
        folder=folder,
    )
    return anyio.run(inside)


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
    history = _history(source, format)
    folder = folder or Path(os.devnull)
    ids, holders = _by_name(plugins)
    if not isinstance(config, Config):
        overrides = {**(config or {}), "allow": [*ids, *(config or {}).get("allow", ())]}
        config = load_config(overrides, folder=folder, environment={"XDG_CONFIG_HOME": os.devnull})
    config = config.model_copy(update={"record_first": False})  # nothing runs, so nothing is to be written
    replayer = Replayer()
    given = [replayer.plugin(), *holders]
    host = Host(given, store=MemoryStore(), config=config, approver=replayer.answer, folder=folder)
    replayer.prepares_messages = any("before_model_call" in one.hooks for one in host.plugins if one.loaded)
    check_installed(host, ids)
    form = get_format(history.format)
    runs = [singly(run, form) for run in exchanges_in(history.messages, form)]
    own = [name for one in host.plugins for name in one.tools]
    catalog, notes = complete_catalog(read_catalog(tools), runs, own)
    options: dict[str, Any] = {"agent_id": agent_id, "workspace_dir": workspace_dir}
    options |= {"requester": requester, "trigger": trigger}
    async with host, host.session("replay") as session:
        for number, run in enumerate(runs, 1):
            await replayer.play(session, run, number, form, catalog, options)
    return Replay(calls=replayer.verdicts(), notes=(*history.notes, *notes))


def _history(source: Source, format_name: str | None) -> History:
    if isinstance(source, History):
        return source
    return read_history(source if isinstance(source, (str, Path)) else list(source), format_name)


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


def read_catalog(given: GivenCatalog) -> list[Tool]:
    """The tools that were given. Raises `ConfigError` with every wrong entry of a file."""
    if isinstance(given, (str, Path)):
        return _from_file(Path(given))
    return [one if isinstance(one, Tool) else Tool.from_function(one, source="host", owner="test") for one in given]


def complete_catalog(
    given: Sequence[Tool], runs: Iterable[Exchange], plugin_tools: Iterable[str]
) -> tuple[list[Tool], list[str]]:
    """The given tools, with one for each other name that was called, and what to note about these."""
    known = {name for tool in build_catalog(given) for name in (tool.name, tool.id)} | set(plugin_tools)
    seen: dict[str, dict[str, list[object]]] = {}
    for run in runs:
        for step in run.steps:
            for call, _ in step.calls if isinstance(step, Asked) else ():
                name, arguments = real_call(call)
                if name and name != BRIDGE and name not in known:
                    values = seen.setdefault(name, {})
                    for key, value in arguments.items():
                        values.setdefault(key, []).append(value)
    inferred = [_inferred(name, values) for name, values in seen.items()]
    note = (
        f"tools known by their calls alone: {len(inferred)}; any arguments fit them, and they are taken as the host's "
        "own (mcp__SERVER__NAME: as that server's)"
    )
    return [*given, *inferred], [note] if inferred else []


def _inferred(name: str, values: Mapping[str, Sequence[object]]) -> Tool:
    properties: dict[str, Any] = {
        key: {"type": "array"} if all(isinstance(one, list) for one in found) else {} for key, found in values.items()
    }
    prefix, _, rest = name.partition("__")
    owner = rest.partition("__")[0] if prefix == "mcp" else ""  # as Claude Code writes the tools of servers
    return Tool(
        name=name,
        source="mcp" if owner else "host",
        owner=owner,
        parameters={"type": "object", "properties": properties, "additionalProperties": {}},
    )


def _from_file(path: Path) -> list[Tool]:
    document: Any = read_json_file(path)
    entries = as_object(document).get("tools", document)
    if not is_list(entries):
        problem = f"expected a list of tool definitions, or an object with 'tools', but this is {kind_of(document)}"
        raise ConfigError(str(path), (problem,))
    tools: list[Tool] = []
    problems: list[str] = []
    for number, entry in enumerate(entries, 1):
        made = _made(entry)
        if isinstance(made, str):
            problems.append(f"tool {number}: {made}")
        else:
            tools.append(made)
    if problems:
        raise ConfigError(str(path), tuple(problems))
    return tools


def _made(entry: object) -> Tool | str:
    """The tool of one definition (hooksdk's, a provider's or MCP's), or a text that says what is wrong with it."""
    if not is_object(entry):
        return f"expected an object, but this is {kind_of(entry)}"
    inner = as_object(entry.get("function")) or entry
    source, owner, name = entry.get("source", "host"), entry.get("owner", ""), inner.get("name")
    if isinstance(identity := entry.get("id"), str) and identity.count(":") >= 2:
        source, owner, name = identity.split(":", 2)
    if not isinstance(name, str) or not name:
        return "it has no 'name', and no 'id' such as mcp:github:create_issue"
    if source not in SOURCES:
        return f"its source is {source!r}, which is none of {', '.join(SOURCES)}"
    keys = ("parameters", "input_schema", "inputSchema")
    parameters = next((as_object(inner[key]) for key in keys if inner.get(key)), None)
    hints = as_object(entry.get("annotations"))
    own = {key: value for key, value in hints.items() if key in Annotations.names()}
    annotations = Annotations(**cast("dict[str, bool]", own)) if own else Annotations.from_mcp(hints)
    return Tool(
        name=name,
        description=str(inner.get("description") or ""),
        source=source,
        owner=str(owner),
        parameters=parameters,
        annotations=annotations,
    )
