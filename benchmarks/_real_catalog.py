"""The 1,860 tools over which a real model works: real definitions, and executors that record and answer, and do nothing else.

527 tools of livemcp, those of the demo's servers that are installed, and of stabletoolbench as many whole servers as fit, in
an order that only their names decide. None of them has a server behind it here, and the shell is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import anyio
from _data import data_folder
from offered_tokens import demo_tools, tools_of

from hooksdk import Tool, ToolError

__all__ = [
    "RETRIEVAL",
    "SIZE",
    "Execute",
    "catalog",
    "core_tools",
    "definitions",
    "key_of",
    "neighbours",
    "plain_answer",
]

RETRIEVAL = data_folder() / "retrieval"
SIZE = 1860
DEMO = "office-"
"""Before the demo's owners: livemcp has servers of the same names, and of some other version."""
READING = ("get", "list", "search", "find", "read", "fetch", "show", "describe", "query", "check")

Execute = Callable[[str, dict[str, Any]], str]
"""Takes the key and the arguments of a call that reached its tool, and answers for it."""


def key_of(tool: Tool) -> str:
    """How a task names a tool: `owner/name`, as the server has them."""
    return f"{tool.owner}/{tool.own_name}"


@lru_cache
def definitions() -> list[Tool]:
    """The catalog without executors. The first call starts the demo's servers, in an event loop of its own."""
    livemcp = tools_of(RETRIEVAL / "livemcp" / "catalog.jsonl")
    try:
        demo = [tool.copy(owner=DEMO + tool.owner) for tool in anyio.run(demo_tools)]
    except ImportError:
        demo = []
    servers: dict[str, list[Tool]] = {}
    for tool in tools_of(RETRIEVAL / "stabletoolbench" / "catalog.jsonl"):
        servers.setdefault(tool.owner, []).append(tool)
    others = [tool for owner in sorted(servers, key=_shuffled) for tool in servers[owner]]
    return [*livemcp, *demo, *others[: SIZE - len(livemcp) - len(demo)]]


def catalog(execute: Execute) -> list[Tool]:
    return [tool.copy(execute=partial(execute, key_of(tool))) for tool in definitions()]


def neighbours(right: Sequence[str], count: int) -> list[str]:
    """The keys of as many tools: the right ones, up to ten others of their servers, and others, in no order that tells."""
    keys = [key_of(tool) for tool in definitions()]
    owners = {key.partition("/")[0] for key in right}
    beside = [key for key in keys if key.partition("/")[0] in owners and key not in right][:10]
    chosen = list(dict.fromkeys([*right, *beside, *sorted(keys, key=_shuffled)]))[:count]
    return sorted(chosen, key=lambda key: _shuffled(f"place of {key}"))


def _shuffled(text: str) -> bytes:
    """The same order on every machine, which has nothing to do with what the text says."""
    return blake2b(text.encode(), digest_size=8).digest()


def plain_answer(key: str) -> str:
    """What a tool answers that is not the right one: a reading one has found nothing, another one has done it."""
    name = key.rpartition("/")[2].lower().removeprefix("git_").removeprefix("excel_")
    return '{"results": []}' if name.startswith(READING) else '{"ok": true}'


def core_tools(files: Mapping[str, str], execute: Execute) -> Iterator[Tool]:
    """The four that are never hidden, over files that are texts in memory. The shell runs nothing and prints nothing."""
    present = dict(files)

    def read_file(path: str) -> str:
        """Read a text file of the working folder."""
        execute("core/read_file", {"path": path})
        found = present.get(path, present.get(Path(path).name))
        if found is None:
            raise ToolError(f"there is no file {path}")
        return found

    def write_file(path: str, content: str) -> str:
        """Write a text file into the working folder."""
        execute("core/write_file", {"path": path, "content": content})
        present[path] = content
        return "written"

    def search_files(pattern: str) -> str:
        """Find files of the working folder by a glob pattern."""
        execute("core/search_files", {"pattern": pattern})
        return json.dumps(sorted(path for path in present if fnmatch(path, pattern)))

    def terminal(command: str) -> str:
        """Run a shell command in the working folder, and tell what it prints."""
        execute("core/terminal", {"command": command})
        return ""

    for function in (read_file, terminal, write_file, search_files):
        yield Tool.from_function(function, source="host", owner="core")
