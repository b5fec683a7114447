"""Where a chain is: the files or the store that were typed, or those of the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import anyio

from hooksdk.audit import ChainRecord, Source, file_source, numbered_files, parse_line, read_store
from hooksdk.cli._console import CommandProblem, printable
from hooksdk.cli._project import project_config
from hooksdk.config import Config
from hooksdk.host import Plugin, installed_plugins, look_at
from hooksdk.stores import open_store

AUDIT = "audit"


def typed_sources(files: Sequence[str]) -> list[Source]:
    """What was typed: stores by their URL, files with those that were put aside of them, each once. Raises `CommandProblem`."""
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


def _stored(spec: str, name: str) -> Source:
    async def read() -> Source:
        store = open_store(spec)
        try:
            return await read_store(store, name)
        finally:
            await store.aclose()

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
    """Those that were typed, or else those of the configuration. Raises `CommandProblem` where there is none."""
    if files:
        return typed_sources(files)
    config = project_config(project)
    plugin = audit_plugin(config)
    if plugin is None:
        raise CommandProblem("the plugin audit is not installed here: name the files of the chain")
    if plugin.config.to == "store":
        return [_stored(str(config.store), "the chain in the store")]
    paths = plugin.holder.files(plugin.config)
    if not paths:
        raise CommandProblem("there is no chain here yet: enable the plugin with [plugins.audit], or name the files")
    return [file_source(path) for path in paths]


def records_of(sources: Iterable[Source]) -> Iterator[ChainRecord]:
    """The records of these sources as they are, in the order of their files' first records."""
    rows = [
        iter(record for line, _ in source.lines() if (record := parse_line(line)) is not None) for source in sources
    ]
    firsts = [(first, row) for row in rows if (first := next(row, None)) is not None]
    for first, row in sorted(firsts, key=lambda one: one[0].number):
        yield first
        yield from row
