"""`hooksdk gateway install`: the gateway in the place of a client's servers, which go to the gateway's own file."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import CommandProblem, counted
from hooksdk.cli._edits.client_text import ClientText, Hunk
from hooksdk.cli._edits.files import FileEdit, agreed, decoded, read_bytes, secrets_of, tell_outcome
from hooksdk.cli._edits.json_text import with_servers
from hooksdk.cli._gateway.places import Installation, check_link, find_place, gateway_file, read_record
from hooksdk.cli._gateway.taking import is_same, signed_out_servers, taken_over
from hooksdk.cli._mcp.clients import CLIENTS, ClientFile, client_places
from hooksdk.cli._options import GatewayInstall, typed
from hooksdk.cli._view import View
from hooksdk.errors import ConfigError
from hooksdk.gateway import GatewayConfig, profile_of
from hooksdk.mcp.settings import projects_of

_NAME, _FOLDER_NAME = "hooksdk", "hooksdk-folder"
"""The gateway's names in clients' files: for all projects, and for one folder. Claude Code takes only one of two servers
with the same name."""
_CODEX_START = {"required": True, "startup_timeout_sec": 60}
"""Codex waits one second for a server that is not required, and goes on without its tools and without a word; for one
that is required it waits as long as its start may take, and then says that it failed."""
_CODEX_CALL, _HELD = 300, 60
"""Seconds that Codex waits for a call by default, and the seconds that the gateway adds: a server's start, a question."""
_CACHES = ("archive-v0", "builds-v0", "environments-v2")
"""Folders in uv's cache, which uv empties."""


@dataclass
class _Plan:
    """The edits of an installation."""

    client: FileEdit
    gateway: FileEdit
    record: Installation
    stay: dict[str, str] = field(default_factory=dict[str, str])
    """The servers that stay in the client's file, each with the reason."""
    notes: list[str] = field(default_factory=list[str])
    secrets: set[str] = field(default_factory=set[str])


def install_gateway(options: GatewayInstall) -> int:
    """Show the edits, ask, and write them. The exit code."""
    plan = _make_plan(options)
    record, client, gateway = plan.record, plan.client, plan.gateway
    done = agreed([gateway, client], "Change these files?", options, secrets=plan.secrets, notes=_notes(plan))
    if done:
        record.keep({record.backup: client.now, record.gateway_backup: gateway.now})
        try:
            gateway.write()
            client.write()
        except BaseException:
            if read_bytes(gateway.path) == gateway.new != gateway.now:
                FileEdit(gateway.path, gateway.new, gateway.now, record.gateway.mode).write()
            record.forget()
            raise
    view = View(
        {
            "client": options.client,
            "scope": options.scope,
            "file": record.target.file,
            "gateway_file": record.gateway.file,
            "changed": done,
            "servers": record.servers,
            "stay": plan.stay,
            "notes": plan.notes,
            "backup": str(record.backup) if done and client.now is not None else None,
        }
    )
    view.line("installed", f"in {client.path}, in the place of {counted(len(record.servers), 'server')}")
    if client.now is not None:
        view.line("backup", record.backup)
    view.line("now", f"quit {CLIENTS[options.client]} and start it again")
    view.line("undo", f"hooksdk gateway uninstall {typed(options.client, options.scope, options.file)}")
    return tell_outcome(view, options, done=done)


def _make_plan(options: GatewayInstall) -> _Plan:
    """Raises `CommandProblem` and `ConfigError` when the gateway cannot be installed."""
    project = Path().absolute()
    place, target = (
        find_place(options.client, options.scope, project, options.file),
        gateway_file(options.scope, project),
    )
    if options.profile:
        _check_profile(options.profile, project)
    if (known := read_record(options.client, place.path, place.keys)) is not None:
        undo = f"hooksdk gateway uninstall {typed(options.client, options.scope, options.file)}"
        raise CommandProblem(f"the gateway is installed in {known.target.file} already: {undo} takes it out first")
    name = _FOLDER_NAME if options.scope == "local" else _NAME
    text, before = ClientText(place.path, place.keys), read_bytes(place.path)
    old = decoded(place.path, before)
    servers = text.servers(old)
    if name in servers:
        raise CommandProblem(f"{place.path} has a server '{name}' that no installation is recorded of; rename it first")
    check_link(target, project)
    gateway, gateway_before = ClientText(target, ("mcpServers",)), read_bytes(target)
    gateway_after = decoded(target, gateway_before)
    there = gateway.servers(gateway_after)
    taken, added = dict[str, str](), dict[str, Any]()
    stay, notes = dict[str, str](), list[str]()
    entries = {one: taken_over(place, one, entry) for one, entry in servers.items()}
    ask = not (options.dry_run or options.yes or options.as_json) and sys.stdin.isatty()
    possible = {one: plain for one, (plain, _, problem) in entries.items() if not problem}
    signed_out = signed_out_servers(possible, place, ask, notes)
    for one, (plain, dropped, problem) in entries.items():
        if why := problem or signed_out.get(one):
            stay[one] = why
            continue
        if dropped:
            lost = ", ".join(map(repr, dropped))
            notes.append(f"{one}: the gateway has no {lost}, so that does not count any more")
        here = one if is_same(there, one, plain) else f"{one}-{options.client}"
        if not is_same(there, here, plain):
            stay[one] = f"{target} has other servers of the names {one} and {here}"
            continue
        if here != one:
            notes.append(f"{one}: is called {here} there, since {target} has another server of this name")
        taken[one] = here
        if here not in there:
            added[here] = plain
    if not servers and not there:
        notes.append(f"no servers were found: {place.path} has none for it to stand before. Write them into {target}")
    if added or gateway_before is None:
        gateway_after = with_servers(gateway_after, added)
        gateway.read(gateway_after)
    after = text.replace(old, list(taken), name, _gateway_entry(place, options, target, list(added.values())))
    hunk = Hunk.between(old, after)
    client_edit = FileEdit(place.path, before, after.encode())
    gateway_edit = FileEdit(target, gateway_before, gateway_after.encode(), 0o600)
    record = Installation(
        client=options.client,
        scope=options.scope,
        name=name,
        keys=list(place.keys),
        taken=list(taken),
        hunk=[hunk.start, hunk.old_end, hunk.new],
        target=client_edit.change,
        gateway=gateway_edit.change,
        servers=taken,
        added=added,
    )
    secrets = secrets_of([*servers.values(), *there.values()])
    notes += _other_places(place, options, text.read(old))
    return _Plan(client_edit, gateway_edit, record, stay, notes, secrets)


def _check_profile(name: str, project: Path) -> None:
    """Raise `CommandProblem` for a profile that is not there: the gateway would end at once, and the client have no tools."""
    config = GatewayConfig.of(read_config(folder=project)[0])
    try:
        profile_of(config, name)
    except ConfigError as error:
        raise CommandProblem(f"--profile: {error.problems[0]}") from None


def _gateway_entry(place: ClientFile, options: GatewayInstall, target: Path, entries: list[Any]) -> dict[str, Any]:
    """The client's entry for the gateway: this interpreter by its full path, since programs with windows often have no
    PATH. `-P` keeps modules of the current folder from being imported."""
    if not sys.executable:
        raise CommandProblem("this Python does not know where it is; start hooksdk from a virtual environment")
    args = ["-P", "-m", "hooksdk", "gateway", "--config", str(target)]
    args += ["--profile", options.profile] if options.profile else []
    args += ["--project", str(Path().absolute())] if options.scope != "user" else []
    entry: dict[str, Any] = {"command": sys.executable, "args": args}
    if place.client == "vscode":
        entry = {"type": "stdio", **entry}
    if place.client == "zed":
        entry = {"source": "custom", **entry}
    # A program with windows does not have the shell's variables, and would read other settings than the commands.
    names = ("HOOKSDK_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
    if env := {name: os.environ[name] for name in names if os.environ.get(name)}:
        entry["env"] = env
    variables = sorted(set(re.findall(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-[^}]*)?\}", json.dumps(entries))))
    if place.client == "codex":
        if variables:  # Codex passes no others on
            entry["env_vars"] = variables
        entry |= _CODEX_START
        longest = max((one["timeout"] for one in entries if isinstance(one.get("timeout"), (int, float))), default=0)
        if longest + _HELD > _CODEX_CALL:
            entry["tool_timeout_sec"] = int(longest) + _HELD
    return entry


def _other_places(place: ClientFile, options: GatewayInstall, settings: Mapping[str, Any]) -> Iterator[str]:
    """The client's servers in other places, with the command that takes them over."""
    if options.scope != "user" or options.file is not None:
        return
    install = "hooksdk gateway install"
    if place.client == "claude-code" and (folders := projects_of(settings)):
        take = f"{install} {typed(options.client, 'local', None)}"
        yield f"servers of single folders stay as they are: {', '.join(folders)}. To take them, type there: {take}"
    for one in client_places(Path()):
        if one.client != place.client or not one.own or one.path == place.path or not one.path.is_file():
            continue
        try:
            names = ClientText(one.path, one.keys).servers(decoded(one.path, read_bytes(one.path)))
        except (ConfigError, CommandProblem):  # an installation there would tell
            continue
        if names:
            take = (
                f". To take them: {install} {typed(options.client, 'user', one.path)}" if one.keys == place.keys else ""
            )
            yield f"{', '.join(names)}: in {one.path}, and stays there{take}"


def _notes(plan: _Plan) -> View:
    view = View({})
    view.lines("stays", [f"{name}: {why}" for name, why in plan.stay.items()], "yellow")
    view.lines("note", plan.notes, "yellow")
    if plan.record.added and plan.secrets:
        view.line("secrets", f"values of env and headers move to {plan.gateway.path}, which only you can read")
    if any(folder in Path(sys.executable).parts for folder in _CACHES):
        cure = "install hooksdk with `uv tool install` first"
        view.line("note", f"this Python is in uv's cache, which uv empties: {cure}", "yellow")
    if plan.record.scope == "project":
        cure = "keep it out of version control"
        view.line("note", f"{plan.client.path} names this machine's folders now: {cure}", "yellow")
    return view
