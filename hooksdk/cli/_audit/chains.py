"""A chain of records: its files or its store, typed or of the configuration, and a record of what a command changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio

from hooksdk.audit import ChainRecord, Source, file_source, numbered_files, read_store, record_in
from hooksdk.cli._console import CommandProblem, print_line, printable, safe, stderr_console
from hooksdk.cli._project import AUDIT, project_config
from hooksdk.config import Config
from hooksdk.errors import HookSDKError
from hooksdk.host import Plugin, installed_plugins, look_at
from hooksdk.stores import Store, open_store


def typed_sources(files: Sequence[str]) -> list[Source]:
    """The typed stores and files, each file once and with those that were put aside of it. Raises `CommandProblem`."""
    sources: list[Source] = []
    paths: dict[Path, None] = {}
    for text in files:
        if "://" in text or text.startswith("jsonl:"):
            sources.append(_stored(text, text))
            continue
        path = Path(os.path.expanduser(text))  # noqa: PTH111 - a `~name` of nobody is a file that is not there
        if not path.is_file():
            raise CommandProblem(f"there is no file {printable(text)}")
        resolved = {one.resolve() for one in paths}
        paths |= {one: None for one in (*numbered_files(path), path) if one.resolve() not in resolved}
    return [*sources, *map(file_source, paths)]


def _stored(spec: str, name: str, sessions: Mapping[str, Any] | None = None) -> Source:
    async def read() -> Source:
        async with aclosing(open_store(spec, sessions)) as store:
            return await read_store(store, name)

    return anyio.run(read)


def audit_plugin(config: Config) -> Plugin | None:
    """The plugin as it is configured here, switched on or off. Raises what is wrong with its settings."""
    plugin = next((one for one in installed_plugins(config) if one.id == AUDIT), None)
    if plugin is None:
        return None
    plugin = look_at(plugin, config)
    if plugin.refusal:
        raise plugin.refusal
    return plugin


def sources_of(project: Path, files: Sequence[str]) -> list[Source]:
    """The typed sources, or else those of the configuration. Raises `CommandProblem` without any."""
    if files:
        return typed_sources(files)
    config = project_config(project)
    plugin = audit_plugin(config)
    if plugin is None:
        raise CommandProblem("the plugin audit is not installed here: name the files of the chain")
    if plugin.config.to == "store":
        return [_stored(str(config.store), "the chain in the store", config.sessions)]
    paths = plugin.holder.files(plugin.config)
    if not paths:
        raise CommandProblem("there is no chain here yet: enable the plugin with [plugins.audit], or name the files")
    return [file_source(path) for path in paths]


def records_of(sources: Iterable[Source]) -> Iterator[ChainRecord]:
    """The records of these sources as they are, in the order of their files' first records."""
    parsed = (map(record_in, (line for line, _ in source.lines())) for source in sources)
    rows = [(record for record in records if record is not None) for records in parsed]
    firsts = [(first, row) for row in rows if (first := next(row, None)) is not None]
    for first, row in sorted(firsts, key=lambda one: one[0].number):
        yield first
        yield from row


async def note(project: Path, store: Store, fields: Mapping[str, Any]) -> None:
    """Append a record of a command's change if the plugin audit is on in this project. A failure is told and no more:
    the change is made."""
    try:
        plugin = audit_plugin(project_config(project))
        if plugin is not None and plugin.loaded:
            await plugin.holder.write_record(plugin.config, store, fields)
    except (OSError, HookSDKError) as error:
        print_line(stderr_console(), "[yellow]warning[/]", f"audit did not record this: {safe(error)}")
