"""`hooksdk gateway install`: the gateway in the place of a client's servers, which go to the gateway's own file."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import CommandProblem, View, counted, one_line, print_line, safe, says_yes, stderr_console
from hooksdk.cli._edits.client_text import ClientText, Hunk
from hooksdk.cli._edits.files import FileEdit, agreed, decoded, read_bytes, secrets_of, tell_outcome
from hooksdk.cli._edits.json_text import with_servers
from hooksdk.cli._gateway.figures import Figures, measure
from hooksdk.cli._gateway.places import (
    CLIENTS,
    ClientFile,
    Installation,
    check_link,
    client_places,
    essence,
    find_place,
    gateway_file,
    own_entry,
    read_record,
)
from hooksdk.cli._mcp.servers import show_page
from hooksdk.cli._options import GatewayInstall, typed
from hooksdk.errors import ConfigError
from hooksdk.gateway import GatewayConfig, profile_of
from hooksdk.mcp import McpServers, check_entry
from hooksdk.mcp.settings import ENTRY_KEYS, plain_entry, projects_of
from hooksdk.mcp.sign_in import SignInProblem
from hooksdk.values import is_object

_NAME, _FOLDER_NAME = "hooksdk", "hooksdk-folder"
"""The gateway's names in clients' files: for all projects, and for one folder. Claude Code takes only one of two
servers with the same name."""
# Codex waits one second for a server that is not required, and goes on without its tools and without a word; for one
# that is required it waits as long as its start may take, and then says that it failed.
_CODEX_START = {"required": True, "startup_timeout_sec": 60}
_CODEX_CALL, _HELD = 300, 60
"""Seconds that Codex waits for a call by default, and the seconds that the gateway adds: a server's start, a
question."""
# Folders in uv's cache, which uv empties.
_CACHES = ("archive-v0", "builds-v0", "environments-v2")
# Seconds for servers on the web to say whether they want a sign-in.
_PATIENCE = 10.0


@dataclass
class _Plan:
    """The edits of an installation.

    Attributes:
        stay: The servers that stay in the client's file, each with the reason.
    """

    client: FileEdit
    gateway: FileEdit
    record: Installation
    stay: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    secrets: set[str] = field(default_factory=set[str])
    figures: Figures | None = None


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
            "figures": plan.figures and plan.figures.as_dict(),
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
    signed_out = _signed_out_servers(possible, place, ask, notes)
    for one, (plain, dropped, problem) in entries.items():
        if why := problem or signed_out.get(one):
            stay[one] = why
            continue
        if dropped:
            lost = ", ".join(map(repr, dropped))
            notes.append(f"{one}: the gateway has no {lost}, so that does not count any more")
        here = one if _is_same(there, one, plain) else f"{one}-{options.client}"
        if not _is_same(there, here, plain):
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
    figures = _figures(options, project, gateway.servers(gateway_after), notes)
    return _Plan(client_edit, gateway_edit, record, stay, notes, secrets, figures)


def _figures(options: GatewayInstall, project: Path, servers: Mapping[str, Any], notes: list[str]) -> Figures | None:
    """The price of the gateway's tools. A project's servers are not started: its repository may have brought them, and
    nobody has agreed yet."""
    config = read_config(folder=project)[0]
    said = config.gateway.get("expose")
    if options.expose and said and said != options.expose:
        notes.append(f"your settings say expose = {json.dumps(said)}; for this client --expose {options.expose} counts")
    if not servers or options.scope == "project":
        if servers:
            notes.append("its tools are not counted: servers of a project are not started before you agree")
        return None
    print_line(stderr_console(), "counting", f"the tools of {counted(len(servers), 'server')}, which start for that")
    return measure(servers, config, options.profile, options.expose)


def taken_over(place: ClientFile, name: str, entry: object) -> tuple[dict[str, Any], list[str], str]:
    """A client's server as the gateway's entry, the keys that are lost, and the reason why the server must stay."""
    if not is_object(entry):
        return {}, [], "it is no object"
    whole = plain_entry(entry)
    plain = own_entry(place.path, whole)
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


def _is_same(there: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> bool:
    """True when no other server has this name."""
    return name not in there or (is_object(there[name]) and essence(there[name]) == essence(entry))


def _signed_out_servers(
    entries: Mapping[str, Mapping[str, Any]], place: ClientFile, ask: bool, notes: list[str]
) -> dict[str, str]:
    """The servers that want a sign-in which the gateway does not have, each with the command to type first: the
    client's own sign-in is no use to the gateway. With `ask` the person may sign in at once."""
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
    """The servers that refuse a client without a sign-in, all asked at once. One that does not answer is not among
    them."""
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


def _check_profile(name: str, project: Path) -> None:
    """Raise `CommandProblem` for a profile that is not there: the gateway would end at once, and the client have no
    tools."""
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
    args += ["--expose", options.expose] if options.expose else []
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
    if plan.figures is not None and plan.figures.tools:
        view.line("tools", str(plan.figures))
        view.line("shown", plan.figures.shown)
    if plan.figures is not None:
        view.lines("not counted", [f"{name}: {why}" for name, why in plan.figures.problems.items()], "yellow")
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
