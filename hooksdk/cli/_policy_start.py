"""`hooksdk policy start`: rules to begin with about where values come from, by the names of tools and arguments."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import anyio
import typer

from hooksdk import Tool
from hooksdk.cli._console import CommandProblem, stderr_console, warnings_shown
from hooksdk.cli._edits.configuration import offer_rules
from hooksdk.cli._options import Json, Project
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.values import as_object

_LISTS = tomllib.loads(files("hooksdk.cli").joinpath("_policy_words.toml").read_text("utf-8"))
_WEB, _THINGS, _GRAVE, _TEXTS, _READING = (
    frozenset[str](_LISTS[name]) for name in ("web", "things", "grave", "texts", "reading")
)
_PLACES = _WEB | frozenset[str](_LISTS["places"])


def start(
    mcp: Annotated[list[Path] | None, typer.Option("--mcp", metavar="FILE")] = None,
    write: Annotated[bool, typer.Option("--write")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Print rules to begin with: where a tool that acts gets an address, a name or a number that is not the user's, a
    person is asked.

    They are made by the names and annotations of tools and arguments, so read them. Without --write nothing changes.
    `hooksdk replay SESSION --plugin tool_policy` says what they would have asked in a recorded session.

    Options:
        mcp: Servers whose tools it is about; by default those of the project.
        write: Write them into the project's hooksdk.toml.
        yes: Write them without asking.
    """
    folder = project.resolve()
    with warnings_shown():
        tools = anyio.run(_tools, tuple(mcp or ()), folder)
    if not tools:
        raise CommandProblem("there are no tools to make rules for: name their servers with --mcp FILE")
    text = starter_rules(tools)
    advice = "`hooksdk replay SESSION --plugin tool_policy` says what they would have asked in a recorded session."
    offer_rules(
        folder, text, command="hooksdk policy start", advice=advice, write=write or yes, yes=yes, as_json=as_json
    )


async def _tools(mcp: Sequence[Path], project: Path) -> list[Tool]:
    async with AsyncExitStack() as stack:
        host = await open_host(stack, project_config(project), project, ())
        groups = await open_servers(host, mcp, stderr_console(), project=project)
        return [tool for servers in groups for tool in servers.tools()]


def starter_rules(tools: Sequence[Tool]) -> str:
    """The rules as TOML, those of tools with the same arguments in one, and a remark on the tools that have none."""
    rules: dict[tuple[str, ...], list[str]] = {}
    for tool in tools:
        if not _only_reads(tool):
            rules.setdefault(_paths(tool), []).append(tool.id)
    asking = [_RULE.format(tools=_listed(ids), paths=_listed(paths)) for paths, ids in rules.items()]
    reading = [f"# Only reads, as far as it says: {tool.id}\n" for tool in tools if _only_reads(tool)]
    return "\n".join([_HEAD, *asking, *(["".join(reading)] if reading else [])])


_HEAD = """\
# A person is asked where a tool that acts gets an address, a name or a number that stands neither in what the user wrote
# nor in a trusted result, and that nobody has agreed to. Made by the names of tools and arguments: read them.
[plugins.tool_policy]
enabled = true

[plugins.tool_policy.config]
default = "allow"

# Which results are trusted is yours to say: only those in which no outsider, and not the agent, can name anything.
# [[plugins.tool_policy.config.results]]
# tools = "mcp:contacts:find_colleague"
# label = "trusted"
"""
_RULE = """\
[[plugins.tool_policy.config.rules]]
action = "ask"
tools = {tools}
values_from_elsewhere = {paths}
reason = "This acts on values that are not the user's. Are they meant?"
"""


def _only_reads(tool: Tool) -> bool:
    """Whether a tool only reads, by its annotation or else the first word of its name; never where it takes a web
    address."""
    if any(_WEB & set(_words(name)) for name in _properties(tool)):
        return False
    said = tool.annotations.read_only
    return bool(set(_words(tool.own_name)[:1]) & _READING) if said is None else said


def _paths(tool: Tool) -> tuple[str, ...]:
    """The arguments that name a destination, and all addresses. Where no name says so, all arguments that are no
    texts."""
    names = _properties(tool)
    is_grave = bool(_GRAVE & set(_words(tool.own_name))) or tool.annotations.destructive is True
    places = [name for name in names if set(_words(name)) & (_PLACES | _THINGS if is_grave else _PLACES)]
    return (*(places or [name for name in names if not set(_words(name)) & _TEXTS]), "**addresses")


def _properties(tool: Tool) -> list[str]:
    return [str(name) for name in as_object(as_object(tool.parameters).get("properties"))]


def _words(name: str) -> list[str]:
    """`sendMail_to` as `send`, `mail`, `to`; a plural as the one."""
    pieces = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return [
        piece.lower().removesuffix("s") if len(piece) > 3 and not piece.lower().endswith("ss") else piece.lower()
        for piece in pieces
    ]


def _listed(texts: Sequence[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)
