"""`hooksdk gateway install` and `uninstall`: the gateway in the place of a client's servers, and the servers back in theirs."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import CommandProblem, counted, print_json, safe, stdout_console
from hooksdk.cli._edits.client_text import ClientText, Hunk
from hooksdk.cli._edits.diff import confirm, print_diff, secrets_of
from hooksdk.cli._edits.files import Change, digest_of, read_bytes, write_bytes
from hooksdk.cli._edits.json_text import with_servers
from hooksdk.cli._gateway.records import Installation, read_record
from hooksdk.cli._gateway.taking import is_same, signed_out_servers, taken_over
from hooksdk.cli._mcp.clients import CLIENTS, ClientFile, client_places
from hooksdk.config import is_inside, resolve, user_file
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.gateway import GatewayConfig, profile_of
from hooksdk.mcp.settings import project_of, projects_of

NAME = "hooksdk"
"""What the gateway is called in clients' files."""
FOLDER_NAME = "hooksdk-folder"
"""The same for the servers of a single folder. Of two servers of one name Claude Code would take only one."""
Scope = Literal["user", "project", "local"]
_CODEX_START = {"required": True, "startup_timeout_sec": 60}
"""Codex waits one second for a server that is not required, and goes on without its tools and without a word; for one that is,
as long as its start may take, and then says that it failed."""
_CODEX_CALL, _HELD = 300, 60
"""Seconds that Codex waits for a call by itself, and how much longer one takes here: a server's start, a question."""
_CACHES = ("archive-v0", "builds-v0", "environments-v2")
"""Folders in uv's cache, which uv empties."""


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """What the command line asks for."""

    client: str
    scope: Scope = "user"
    file: Path | None = None
    """Another file of the client's."""
    profile: str = ""
    project: Path = field(default_factory=Path)
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False


@dataclass
class Plan:
    """What an installation changes."""

    place: ClientFile
    text: ClientText
    before: bytes | None
    after: str
    gateway: ClientText
    gateway_before: bytes | None
    gateway_after: str
    record: Installation
    options: InstallOptions
    stay: dict[str, str] = field(default_factory=dict[str, str])
    """The servers that stay in the client's file, each with the reason."""
    notes: list[str] = field(default_factory=list[str])
    secrets: set[str] = field(default_factory=set[str])


def gateway_file(scope: Scope, project: Path) -> Path:
    """The gateway's own file of servers: the user's, the project's, or the user's own for a single folder."""
    if scope == "project":
        return project / "mcp.json"
    own = user_file(os.environ)
    if scope == "user":
        return own.with_name("mcp.json")
    digest = digest_of(os.fsencode(project))[:8]
    return own.parent / "folders" / f"{project.name}-{digest}.json"


def find_place(client: str, scope: Scope, project: Path, file: Path | None = None) -> ClientFile:
    """The file that a client writes itself, or another one of the same kind. Raises `CommandProblem` for a client that is none,
    or has no file of this scope."""
    if client not in CLIENTS:
        known = did_you_mean(client, CLIENTS) or f" Clients: {', '.join(CLIENTS)}"
        raise CommandProblem(f"'{client}' is no client that is known here.{known}")
    places = [one for one in client_places(project) if one.client == client]
    if scope == "local":
        return _folder_place(client, project, places)
    found = next((one for one in places if one.own == (scope == "user")), None)
    if found is None:
        raise CommandProblem(f"{CLIENTS[client]} has no file of servers in a project; leave --project out")
    if file is not None:
        if file.suffix != found.path.suffix:
            raise CommandProblem(
                f"{CLIENTS[client]} keeps its servers in a {found.path.suffix} file, and {file} is none"
            )
        return replace(found, path=file.expanduser().absolute())
    if not found.own and is_inside(found.path, project) and not resolve(found.path).is_relative_to(resolve(project)):
        raise CommandProblem(f"{found.path} is a link that leads out of the project; nothing is written through it")
    return found


def _folder_place(client: str, project: Path, places: list[ClientFile]) -> ClientFile:
    """Where Claude Code has the servers of a single folder: in the user's file, which no repository brings."""
    if client != "claude-code":
        raise CommandProblem(f"{CLIENTS[client]} has no servers of a single folder; leave --local out")
    own = next(one for one in places if one.own)
    text = ClientText(own.path, own.keys)
    settings = text.read(_decode(own.path, read_bytes(own.path)))
    projects = projects_of(settings)
    known: Any = settings.get("projects")
    name = project_of(projects, project) or project_of(
        cast("dict[str, Any]", known) if isinstance(known, dict) else {}, project
    )
    if name is None:
        others = f" It has some for: {', '.join(projects)}" if projects else ""
        raise CommandProblem(f"{own.path} has no servers for {project} alone.{others}")
    return replace(own, keys=("projects", name, "mcpServers"))


def typed(client: str, scope: Scope, file: Path | str | None) -> str:
    """The options that mean this place."""
    return " ".join([
        f"--client {client}", *([] if scope == "user" else [f"--{scope}"]), *([] if file is None else [f"--file {shlex.quote(str(file))}"])
    ])  # fmt: skip


def install_gateway(options: InstallOptions) -> int:
    """Show what would change, ask, and do it."""
    plan = make_plan(options)
    record = plan.record
    if not options.as_json:
        old = "" if plan.gateway_before is None else plan.gateway_before.decode()
        print_diff(plan.gateway.path, old, plan.gateway_after, plan.secrets)
        print_diff(plan.place.path, (plan.before or b"").decode(), plan.after, plan.secrets)
        _print_notes(plan)
    done = not options.dry_run and confirm("Change these files?", yes=options.yes, as_json=options.as_json)
    if done:
        record.keep(plan.before, plan.gateway_before)
        try:
            if plan.gateway_after.encode() != plan.gateway_before:
                write_bytes(plan.gateway.path, plan.gateway_after.encode(), seen=plan.gateway_before, mode=0o600)
            mode = 0o600 if record.target.mode is None else record.target.mode
            write_bytes(plan.place.path, plan.after.encode(), seen=plan.before, mode=mode)
        except BaseException:
            _undo(plan)
            raise
    if options.as_json:
        print_json({
            "schema": 1, "client": options.client, "scope": options.scope, "file": record.target.file,
            "gateway_file": record.gateway.file, "changed": done, "servers": record.servers, "stay": plan.stay,
            "notes": plan.notes, "backup": str(record.backup) if done and plan.before is not None else None,
        })  # fmt: skip
    elif done:
        _print_done(plan)
    elif not options.dry_run:
        stdout_console().print("nothing was changed")
    return 0 if done or options.dry_run else 1


def make_plan(options: InstallOptions) -> Plan:
    """What would change. Raises `CommandProblem` and `ConfigError` where it cannot be done."""
    project = options.project.absolute()
    place = find_place(options.client, options.scope, project, options.file)
    if options.profile:
        _need_profile(options.profile, project)
    if (known := read_record(options.client, place.path, place.keys)) is not None:
        raise CommandProblem(
            f"the gateway is installed in {known.target.file} already: hooksdk gateway uninstall "
            f"{typed(options.client, options.scope, options.file)} takes it out first"
        )
    called = FOLDER_NAME if options.scope == "local" else NAME
    text, before = ClientText(place.path, place.keys), read_bytes(place.path)
    old = _decode(place.path, before)
    servers = text.servers(old)
    if called in servers:
        raise CommandProblem(
            f"{place.path} has a server '{called}' that no installation is recorded of; rename it first"
        )
    target = gateway_file(options.scope, project)
    gateway = ClientText(target, ("mcpServers",))
    if is_inside(target, project) and not resolve(target).is_relative_to(resolve(project)):
        raise CommandProblem(f"{target} is a link that leads out of the project; nothing is written through it")
    gateway_before = read_bytes(target)
    gateway_after = _decode(target, gateway_before)
    there = gateway.servers(gateway_after)
    stay, notes = dict[str, str](), list[str]()
    names, added = dict[str, str](), dict[str, Any]()
    entries = {name: taken_over(place, name, entry) for name, entry in servers.items()}
    ask = not (options.dry_run or options.yes or options.as_json) and sys.stdin.isatty()
    signed_out = signed_out_servers(
        {name: plain for name, (plain, _, why) in entries.items() if not why}, place, ask, notes
    )
    for name, (plain, dropped, problem) in entries.items():
        if why := problem or signed_out.get(name):
            stay[name] = why
            continue
        if dropped:
            notes.append(
                f"{name}: the gateway has no {', '.join(repr(one) for one in dropped)}, so that does not count any more"
            )
        here = name if is_same(there, name, plain) else f"{name}-{options.client}"
        if here != name:
            if not is_same(there, here, plain):
                stay[name] = f"{target} has other servers of the names {name} and {here}"
                continue
            notes.append(f"{name}: is called {here} there, since {target} has another server of this name")
        names[name] = here
        if here not in there:
            added[here] = plain
    if not servers and not there:
        notes.append(f"no servers were found: {place.path} has none for it to stand before. Write them into {target}")
    if added or gateway_before is None:
        gateway_after = with_servers(gateway_after, added)
        gateway.read(gateway_after)
    entry = gateway_entry(place, options, target, list(added.values()))
    after = text.replace(old, list(names), called, entry)
    hunk = Hunk.between(old, after)
    record = Installation(
        client=options.client, scope=options.scope, name=called, keys=list(place.keys), taken=list(names),
        hunk=[hunk.start, hunk.old_end, hunk.new], target=_change(place.path, before, after.encode()),
        gateway=_change(target, gateway_before, gateway_after.encode()), servers=names, added=added,
    )  # fmt: skip
    secrets = secrets_of([*servers.values(), *there.values()])
    notes += _elsewhere(place, options, text.read(old))
    return Plan(
        place, text, before, after, gateway, gateway_before, gateway_after, record, options, stay, notes, secrets
    )


def _need_profile(name: str, project: Path) -> None:
    """Raise `CommandProblem` for a profile without which the gateway would end at once, and the client have no tools."""
    config = GatewayConfig.of(read_config(folder=project)[0])
    try:
        profile_of(config, name)
    except ConfigError as error:
        raise CommandProblem(f"--profile: {error.problems[0]}") from None


def gateway_entry(place: ClientFile, options: InstallOptions, target: Path, entries: list[Any]) -> dict[str, Any]:
    """How the client starts the gateway: this interpreter by its full path, since programs with windows often have no PATH.
    `-P` keeps modules of the folder that it is started in from being imported."""
    if not sys.executable:
        raise CommandProblem("this Python does not know where it is; start hooksdk from a virtual environment")
    args = ["-P", "-m", "hooksdk", "gateway", "--config", str(target)]
    args += ["--profile", options.profile] if options.profile else []
    args += ["--project", str(options.project.absolute())] if options.scope != "user" else []
    entry: dict[str, Any] = {"command": sys.executable, "args": args}
    if place.client == "vscode":
        entry = {"type": "stdio", **entry}
    if place.client == "zed":
        entry = {"source": "custom", **entry}
    # A program with windows does not have the shell's variables, and would read other settings than the commands.
    env = {
        name: os.environ[name] for name in ("HOOKSDK_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME") if os.environ.get(name)
    }
    if env:
        entry["env"] = env
    variables = sorted(set(re.findall(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-[^}]*)?\}", json.dumps(entries))))
    if place.client == "codex":
        if variables:  # it passes no others on
            entry["env_vars"] = variables
        entry |= _CODEX_START
        longest = max((one["timeout"] for one in entries if isinstance(one.get("timeout"), (int, float))), default=0)
        if longest + _HELD > _CODEX_CALL:
            entry["tool_timeout_sec"] = int(longest) + _HELD
    return entry


def _elsewhere(place: ClientFile, options: InstallOptions, settings: Mapping[str, Any]) -> list[str]:
    """Which servers the client has in other places, and how they are taken over."""
    if options.scope != "user" or options.file is not None:
        return []
    notes: list[str] = []
    if place.client == "claude-code" and (folders := projects_of(settings)):
        notes.append(
            f"servers of single folders stay as they are: {', '.join(folders)}. To take them, type there: "
            f"hooksdk gateway install {typed(options.client, 'local', None)}"
        )
    others = [
        one
        for one in client_places(options.project)
        if one.client == place.client and one.own and one.path != place.path
    ]
    for one in others:
        if one.path.is_file() and (names := _names_in(one)):
            take = (
                f". To take them: hooksdk gateway install {typed(options.client, 'user', one.path)}"
                if one.keys == place.keys
                else ""
            )
            notes.append(f"{', '.join(names)}: in {one.path}, and stays there{take}")
    return notes


def _names_in(place: ClientFile) -> list[str]:
    try:
        return list(ClientText(place.path, place.keys).servers(_decode(place.path, read_bytes(place.path))))
    except (ConfigError, CommandProblem):  # whoever names that file is told
        return []


def _change(path: Path, before: bytes | None, after: bytes) -> Change:
    mode = path.stat().st_mode & 0o777 if before is not None else None
    return Change(str(path), None if before is None else digest_of(before), digest_of(after), mode)


def _decode(path: Path, content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), (f"is not UTF-8: {error}",)) from None


def _undo(plan: Plan) -> None:
    """The client's file could not be written: the gateway's goes back to what it was."""
    path = plan.gateway.path
    if read_bytes(path) == plan.gateway_after.encode() != plan.gateway_before:
        if plan.gateway_before is None:
            path.unlink()
        else:
            write_bytes(
                path, plan.gateway_before, seen=plan.gateway_after.encode(), mode=plan.record.gateway.mode or 0o600
            )
    plan.record.forget(backup=True)


def _print_notes(plan: Plan) -> None:
    console = stdout_console()
    for name, why in plan.stay.items():
        console.print(f"[yellow]stays[/]       {safe(name)}: {safe(why)}", soft_wrap=True)
    for note in plan.notes:
        console.print(f"[yellow]note[/]        {safe(note)}", soft_wrap=True)
    if plan.record.added and plan.secrets:
        console.print(
            f"secrets     values of env and headers move to {safe(plan.gateway.path)}, which only you can read",
            soft_wrap=True,
        )
    if any(folder in Path(sys.executable).parts for folder in _CACHES):
        console.print(
            "[yellow]note[/]        this Python is in uv's cache, which uv empties: install hooksdk with `uv tool install` first",
            soft_wrap=True,
        )
    if plan.record.scope == "project":
        console.print(
            f"[yellow]note[/]        {safe(plan.place.path)} names this machine's folders now: keep it out of version control",
            soft_wrap=True,
        )


def _print_done(plan: Plan) -> None:
    console, record = stdout_console(), plan.record
    title = CLIENTS[record.client]
    what = counted(len(record.servers), "server")
    console.print(f"installed   in {safe(record.target.file)}, in the place of {what}", soft_wrap=True)
    if plan.before is not None:
        console.print(f"backup      {safe(record.backup)}", soft_wrap=True)
    console.print(f"now         quit {title} and start it again", soft_wrap=True)
    undo = typed(record.client, plan.options.scope, plan.options.file)
    console.print(f"undo        hooksdk gateway uninstall {safe(undo)}", soft_wrap=True)
