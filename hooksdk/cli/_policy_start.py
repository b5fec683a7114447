"""`hooksdk policy start`: rules to begin with about where the values of calls come from, by what tools and their arguments are called."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import anyio
import typer

from hooksdk import Tool
from hooksdk.cli._console import CommandProblem, stderr_console, warnings_shown
from hooksdk.cli._edits.rules import offer_rules
from hooksdk.cli._options import Json, Project
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.values import as_object

_WEB = frozenset({
    "url", "uri", "link", "href", "host", "hostname", "domain", "endpoint", "webhook",
})  # fmt: skip
"""Words in the names of arguments that lead to a server."""
_PLACES = _WEB | {
    "to", "cc", "bcc", "recipient", "receiver", "email", "mail", "address", "phone", "channel", "room", "chat", "user",
    "username", "member", "reviewer", "assignee", "participant", "attendee", "guest", "invitee", "iban", "account", "payee",
    "beneficiary", "wallet", "password", "repo", "repository", "remote",
}  # fmt: skip
"""Words in the names of arguments that say where something goes: of mail, chat, calendars, money and the web."""
_THINGS = frozenset({
    "id", "file", "path", "folder", "directory", "name", "key",
})  # fmt: skip
"""Words that say what is meant, which counts where it is undone, given away or changed."""
_GRAVE = frozenset({
    "add", "append", "cancel", "delete", "destroy", "drop", "grant", "invite", "move", "overwrite", "pay", "remove", "rename",
    "replace", "reschedule", "revoke", "send", "share", "transfer", "unshare", "update",
})  # fmt: skip
"""Words in the names of tools that do such things."""
_TEXTS = frozenset({
    "body", "content", "text", "message", "comment", "description", "note", "summary", "subject", "title", "reason",
})  # fmt: skip
"""Words of arguments that are written by whoever acts: addresses in them count, not they themselves."""
_READING = frozenset({
    "check", "count", "describe", "find", "get", "inspect", "list", "look", "lookup", "query", "read", "retrieve", "search",
    "show", "view",
})  # fmt: skip
"""First words of tools that only read. `fetch` and `open` are none: they ask a server of somebody's choice."""


def start(
    mcp: Annotated[
        list[Path] | None,
        typer.Option("--mcp", metavar="FILE", help="Servers whose tools it is about; by default those of the project."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write them into the project's hooksdk.toml.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write them without asking.")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Print rules to begin with: a person is asked where a tool that acts gets an address, a name or a number that is not the user's.

    They go by the names and annotations of tools and arguments, so read them. Without --write nothing changes. What they would
    have asked in a recorded session says `hooksdk replay SESSION --plugin tool_policy`.
    """
    folder = project.resolve()
    with warnings_shown(stderr_console()):
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
    """What a tool says of itself counts, else the first word of its name; one that takes an address of the web is none."""
    if any(_WEB & set(_words(name)) for name in _properties(tool)):
        return False
    said = tool.annotations.read_only
    return bool(set(_words(tool.own_name)[:1]) & _READING) if said is None else said


def _paths(tool: Tool) -> tuple[str, ...]:
    """The arguments that say where something goes, and all addresses. Where no name says so, all that are no texts do."""
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
