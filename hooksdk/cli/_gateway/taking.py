"""Which of a client's servers `hooksdk gateway install` takes, and how it has them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, cast

import anyio

from hooksdk.cli._console import one_line, safe, says_yes, stderr_console
from hooksdk.cli._mcp.browser import show_page
from hooksdk.cli._mcp.clients import CLIENTS, ClientFile
from hooksdk.cli._mcp.entries import essence, with_braces
from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers, check_entry
from hooksdk.mcp.settings import BARE_FOLDERS, ENTRY_KEYS, plain_entry
from hooksdk.mcp.sign_in import SignInProblem

_NEEDED = {"envFile": "its envFile is read by VS Code alone; write its variables into 'env'"}
_PATIENCE = 10.0
"""Seconds for servers on the web to say whether they want a sign-in."""


def taken_over(place: ClientFile, name: str, entry: object) -> tuple[dict[str, Any], list[str], str]:
    """A server as the gateway has it, its keys that are lost with that, and why it cannot go there at all."""
    if not isinstance(entry, Mapping):
        return {}, [], "it is no object"
    whole = plain_entry(cast("Mapping[str, Any]", entry))
    plain = {key: value for key, value in whole.items() if key in ENTRY_KEYS}
    plain = with_braces(plain) if place.path.parent.name in BARE_FOLDERS else plain
    if plain.get("disabled") is False:
        del plain["disabled"]
    for key, why in _NEEDED.items():
        if key in whole:
            return plain, [], why
    if not plain.keys() & {"command", "url"}:
        return plain, [], "it has no command and no url, so only its client can start it"
    if why := check_entry(name, plain):
        return plain, [], why
    written = json.dumps(plain)
    kinds = set(re.findall(r"\$\{(\w+):(?!-)", written)) - {"env"}
    if kinds:
        return (
            plain,
            [],
            f"${{{min(kinds)}:...}} is filled in by {CLIENTS[place.client]} alone; write ${{NAME}} for an environment variable",
        )
    ignored = {"source", "enabled", "type", "name", "$schema"}
    return plain, [key for key in whole if key not in ENTRY_KEYS and key not in ignored], ""


def is_same(there: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> bool:
    """True where nothing else has this name."""
    return name not in there or (isinstance(there[name], Mapping) and essence(there[name]) == essence(entry))


def signed_out_servers(
    entries: Mapping[str, Mapping[str, Any]], place: ClientFile, ask: bool, notes: list[str]
) -> dict[str, str]:
    """The servers that the client may be signed in to and the gateway is not, each with what to type before they can be taken: the
    client's own sign-in is no use to the gateway. With `ask` the person may sign in at once."""
    left: dict[str, str] = {}
    for name, servers in anyio.run(_asking, entries, notes).items():
        question = f"{one_line(name)} asks for a sign-in, and the gateway has none. Sign in now? No: it stays with {CLIENTS[place.client]}"
        if ask and says_yes(stderr_console(), question):
            try:
                anyio.run(servers.sign_ins.sign_in, name, show_page)
                continue
            except SignInProblem as problem:
                stderr_console().print(f"[yellow]stays[/]       {safe(name)}: {safe(problem)}", soft_wrap=True)
        typed = f"hooksdk gateway login {shlex.quote(name)} --config {shlex.quote(str(place.path))}"
        left[name] = f"it asks for a sign-in, and the gateway has none. To take it as well, first type: {typed}"
    return left


async def _asking(entries: Mapping[str, Mapping[str, Any]], notes: list[str]) -> dict[str, McpServers]:
    """The servers that refuse whoever is not signed in. They are asked side by side; what does not answer is taken as it is."""
    found: dict[str, McpServers] = {}

    async def look(name: str, servers: McpServers) -> None:
        problem = f"it does not answer within {_PATIENCE:g} s"
        with anyio.move_on_after(_PATIENCE):
            try:
                needed = await servers.sign_ins.is_needed(name)
            except SignInProblem as error:
                problem = str(error)
            else:
                if needed:
                    found[name] = servers
                return
        notes.append(f"{name}: nobody knows whether it asks for a sign-in: {problem}")

    async with anyio.create_task_group() as group:
        for name, entry in entries.items():
            try:
                servers = McpServers({name: entry})
            except ConfigError:  # such as a variable that only the client's environment has
                continue
            if name in servers.sign_ins.possible():
                group.start_soon(look, name, servers)
    return {name: found[name] for name in entries if name in found}
