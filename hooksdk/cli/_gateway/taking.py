"""The servers that `hooksdk gateway install` takes from a client, as the gateway's entries."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

import anyio

from hooksdk.cli._console import one_line, print_line, safe, says_yes, stderr_console
from hooksdk.cli._mcp.clients import CLIENTS, ClientFile, essence, with_braces
from hooksdk.cli._mcp.servers import show_page
from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers, check_entry
from hooksdk.mcp.settings import BARE_FOLDERS, ENTRY_KEYS, plain_entry
from hooksdk.mcp.sign_in import SignInProblem
from hooksdk.values import is_object

_PATIENCE = 10.0
"""Seconds for servers on the web to say whether they want a sign-in."""


def taken_over(place: ClientFile, name: str, entry: object) -> tuple[dict[str, Any], list[str], str]:
    """A client's server as the gateway's entry, the keys that are lost, and the reason why the server must stay."""
    if not is_object(entry):
        return {}, [], "it is no object"
    whole = plain_entry(entry)
    plain = {key: value for key, value in whole.items() if key in ENTRY_KEYS}
    plain = with_braces(plain) if place.path.parent.name in BARE_FOLDERS else plain
    if plain.get("disabled") is False:
        del plain["disabled"]
    foreign = sorted(set(re.findall(r"\$\{(\w+):(?!-)", json.dumps(plain))) - {"env"})
    problem = ""
    if "envFile" in whole:
        problem = "its envFile is read by VS Code alone; write its variables into 'env'"
    elif not plain.keys() & {"command", "url"}:
        problem = "it has no command and no url, so only its client can start it"
    elif foreign:
        cure = "write ${NAME} for an environment variable"
        problem = f"${{{foreign[0]}:...}} is filled in by {CLIENTS[place.client]} alone; {cure}"
    ignored = {"source", "enabled", "type", "name", "$schema"}
    lost = [key for key in whole if key not in ENTRY_KEYS and key not in ignored]
    return plain, lost, problem or check_entry(name, plain)


def is_same(there: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> bool:
    """True when no other server has this name."""
    return name not in there or (is_object(there[name]) and essence(there[name]) == essence(entry))


def signed_out_servers(
    entries: Mapping[str, Mapping[str, Any]], place: ClientFile, ask: bool, notes: list[str]
) -> dict[str, str]:
    """The servers that want a sign-in which the gateway does not have, each with the command to type first: the client's
    own sign-in is no use to the gateway. With `ask` the person may sign in at once."""
    left: dict[str, str] = {}
    why = "asks for a sign-in, and the gateway has none"
    for name, servers in anyio.run(_servers_to_sign_in, entries, notes).items():
        question = f"{one_line(name)} {why}. Sign in now? No: it stays with {CLIENTS[place.client]}"
        if ask and says_yes(stderr_console(), question):
            try:
                anyio.run(servers.sign_ins.sign_in, name, show_page)
                continue
            except SignInProblem as problem:
                print_line(stderr_console(), "[yellow]stays[/]", f"{safe(name)}: {safe(problem)}")
        typed = f"hooksdk gateway login {shlex.quote(name)} --config {shlex.quote(str(place.path))}"
        left[name] = f"it {why}. To take it as well, first type: {typed}"
    return left


async def _servers_to_sign_in(entries: Mapping[str, Mapping[str, Any]], notes: list[str]) -> dict[str, McpServers]:
    """The servers that refuse a client without a sign-in, all asked at once. One that does not answer is not among them."""
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
