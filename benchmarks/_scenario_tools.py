"""The tools of the scenarios: four core tools that really work, the 20 with their fixtures, and livemcp's around them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from _data import data_folder

from hooksdk import Tool

__all__ = ["FIXTURES", "LIVEMCP", "Log", "core_tools", "deferrable_tools", "fixtures", "livemcp"]

FIXTURES = data_folder() / "scenarios_20_tools.json"
LIVEMCP = data_folder() / "retrieval" / "livemcp" / "catalog.jsonl"

Log = Callable[[str, dict[str, Any]], None]
"""Is told the name and the arguments of each call that reaches a tool."""


@lru_cache
def fixtures() -> dict[str, Any]:
    return json.loads(FIXTURES.read_text("utf-8"))


@lru_cache
def livemcp() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LIVEMCP.read_text("utf-8").splitlines()]


def core_tools(folder: Path, log: Log) -> Iterator[Tool]:
    """The four that are never hidden; they work in one folder."""

    def read_file(path: str) -> str:
        """Read a text file of the working folder."""
        log("read_file", {"path": path})
        return (folder / path).read_text("utf-8")

    def write_file(path: str, content: str) -> str:
        """Write a text file into the working folder."""
        log("write_file", {"path": path, "content": content})
        (folder / path).write_text(content, "utf-8")
        return "written"

    def search_files(pattern: str) -> list[str]:
        """Find files of the working folder by a glob pattern."""
        log("search_files", {"pattern": pattern})
        return sorted(str(path.relative_to(folder)) for path in folder.rglob(pattern))

    def terminal(command: str) -> str:
        """Run a shell command in the working folder, and tell what it prints."""
        log("terminal", {"command": command})
        return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False).stdout

    for function in (read_file, terminal, write_file, search_files):
        yield Tool.from_function(function, source="host", owner="core")


def unlogged(name: str, arguments: dict[str, Any]) -> None: ...


def deferrable_tools(around: bool, log: Log = unlogged) -> Iterator[Tool]:
    """The 20, and livemcp's around them. Those of livemcp are real definitions without a server behind them."""
    for definition in fixtures()["tools"]:
        yield Tool(
            name=definition["name"], description=definition["description"], parameters=definition["parameters"], source="mcp",
            owner=definition["toolset"], execute=partial(answer_fixture, definition, log),
        )  # fmt: skip
    for definition in livemcp() if around else ():
        yield Tool(
            name=definition["name"], description=definition["description"] or "", parameters=definition["parameters"], source="mcp",
            owner=definition["server"] or "", execute=partial(answer_nothing, definition["name"], log),
        )  # fmt: skip


def answer_fixture(definition: Mapping[str, Any], log: Log, arguments: dict[str, Any]) -> str:
    log(definition["name"], arguments)
    text = json.dumps(definition["fixture_result"])
    return re.sub(r"<(\w+) argument>", lambda match: json.dumps(str(arguments[match[1]]))[1:-1], text)


def answer_nothing(name: str, log: Log, arguments: dict[str, Any]) -> str:
    log(name, arguments)
    return "There is no server behind this tool here."
