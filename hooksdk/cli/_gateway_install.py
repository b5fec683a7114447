"""`hooksdk gateway install` and `uninstall`: the gateway in the place of a client's servers, and the servers back in theirs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from hooksdk._config.sources import user_file
from hooksdk._config.trust import is_inside, resolve
from hooksdk.cli._client_text import ClientText, Hunk
from hooksdk.cli._console import CommandProblem, counted, print_json, safe, stdout_console
from hooksdk.cli._diff import confirm, print_diff, secrets_of
from hooksdk.cli._gateway_records import Change, Record, digest_of, read_bytes, read_record, write_bytes
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.mcp._clients import CLIENTS, ClientFile, client_places
from hooksdk.mcp._config import ENTRY_KEYS, check_entry
from hooksdk.mcp._fill import BARE_FOLDERS, with_braces
from hooksdk.mcp._shapes import plain_entry

NAME = "hooksdk"
"""What the gateway is called in clients' files."""
Scope = Literal["user", "project"]
_NEEDED = {"envFile": "its envFile is read by VS Code alone; write its variables into 'env'"}
_CODEX_START = {"required": True, "startup_timeout_sec": 60}
"""Codex waits one second for a server that is not required, and goes on without its tools and without a word; for one that is,
as long as its start may take, and then says that it failed."""
_CODEX_CALL, _HELD = 300, 60
"""Seconds that Codex waits for a call by itself, and how much longer one takes here: a server's start, a question."""
_CACHES = ("archive-v0", "builds-v0", "environments-v2")
"""Folders in uv's cache, which uv empties."""


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
    record: Record
    stay: dict[str, str] = field(default_factory=dict[str, str])
    """The servers that stay in the client's file, each with the reason."""
    notes: list[str] = field(default_factory=list[str])
    secrets: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """What the command line asks for."""

    client: str
    scope: Scope = "user"
    profile: str = ""
    project: Path = field(default_factory=Path)
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False


def gateway_file(scope: Scope, project: Path) -> Path:
    """The gateway's own file of servers: the user's, or the project's."""
    return project / "mcp.json" if scope == "project" else user_file(os.environ).with_name("mcp.json")


def find_place(client: str, scope: Scope, project: Path) -> ClientFile:
    """The file that a client writes itself. Raises `CommandProblem` for a client that is none, or has no file of this scope."""
    if client not in CLIENTS:
        known = did_you_mean(client, CLIENTS) or f" Clients: {', '.join(CLIENTS)}"
        raise CommandProblem(f"'{client}' is no client that is known here.{known}")
    places = [one for one in client_places(project.absolute()) if one.client == client]
    found = next((one for one in places if one.own == (scope == "user")), None)
    if found is None:
        raise CommandProblem(f"{CLIENTS[client]} has no file of servers in a project; leave --project out")
    if not found.own and is_inside(found.path, project) and not resolve(found.path).is_relative_to(resolve(project)):
        raise CommandProblem(f"{found.path} is a link that leads out of the project; nothing is written through it")
    return found


def install(options: InstallOptions) -> int:
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
    place = find_place(options.client, options.scope, project)
    if (known := read_record(options.client, place.path)) is not None:
        raise CommandProblem(
            f"the gateway is installed in {known.target.file} already: hooksdk gateway uninstall --client {options.client}"
            f"{' --project' if options.scope == 'project' else ''} takes it out first"
        )
    text, before = ClientText(place.path, place.keys), read_bytes(place.path)
    old = _decode(place.path, before)
    servers = text.servers(old)
    if NAME in servers:
        raise CommandProblem(f"{place.path} has a server '{NAME}' that no installation is recorded of; rename it first")
    target = gateway_file(options.scope, project)
    gateway = ClientText(target, ("mcpServers",))
    if is_inside(target, project) and not resolve(target).is_relative_to(resolve(project)):
        raise CommandProblem(f"{target} is a link that leads out of the project; nothing is written through it")
    gateway_before = read_bytes(target)
    gateway_after = _decode(target, gateway_before)
    there = gateway.servers(gateway_after)
    stay, notes = dict[str, str](), list[str]()
    names, added = dict[str, str](), dict[str, Any]()
    for name, entry in servers.items():
        plain, dropped, why = _taken_over(place, name, entry)
        if why:
            stay[name] = why
            continue
        if dropped:
            notes.append(
                f"{name}: the gateway has no {', '.join(repr(one) for one in dropped)}, so that does not count any more"
            )
        here = name if there.get(name, plain) == plain else f"{name}-{options.client}"
        if here != name:
            if there.get(here, plain) != plain:
                stay[name] = f"{target} has other servers of the names {name} and {here}"
                continue
            notes.append(f"{name}: is called {here} there, since {target} has another server of this name")
        names[name] = here
        if here not in there:
            added[here] = plain
    if added or gateway_before is None:
        gateway_after = with_servers(gateway_after, added)
        gateway.read(gateway_after)
    entry = gateway_entry(place, options, target, list(added.values()))
    after = text.replace(old, list(names), NAME, entry)
    hunk = Hunk.between(old, after)
    record = Record(
        client=options.client, scope=options.scope, name=NAME, keys=list(place.keys), taken=list(names),
        hunk=[hunk.start, hunk.old_end, hunk.new], target=_change(place.path, before, after.encode()),
        gateway=_change(target, gateway_before, gateway_after.encode()), servers=names, added=added,
    )  # fmt: skip
    secrets = secrets_of([*servers.values(), *there.values()])
    if others := _projects_of(text.read(old)):
        notes.append(f"servers of single projects in {place.path} stay as they are: {', '.join(others)}")
    return Plan(place, text, before, after, gateway, gateway_before, gateway_after, record, stay, notes, secrets)


def gateway_entry(place: ClientFile, options: InstallOptions, target: Path, entries: list[Any]) -> dict[str, Any]:
    """How the client starts the gateway: this interpreter by its full path, since programs with windows often have no PATH.
    `-P` keeps modules of the folder that it is started in from being imported."""
    if not sys.executable:
        raise CommandProblem("this Python does not know where it is; start hooksdk from a virtual environment")
    args = ["-P", "-m", "hooksdk", "gateway", "--config", str(target)]
    args += ["--profile", options.profile] if options.profile else []
    args += ["--project", str(options.project.absolute())] if options.scope == "project" else []
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


def with_servers(text: str, entries: Mapping[str, Any]) -> str:
    """The text of a file of servers with these added."""
    from hooksdk.cli._json_text import set_member

    text = text if text.strip("\ufeff \t\r\n") else '{\n  "mcpServers": {}\n}\n'
    for name, entry in entries.items():
        text = set_member(text, ["mcpServers"], name, entry)
    return text


def _taken_over(place: ClientFile, name: str, entry: object) -> tuple[dict[str, Any], list[str], str]:
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


def _projects_of(settings: Mapping[str, Any]) -> list[str]:
    """The folders for which Claude Code has servers of their own."""
    projects: Any = settings.get("projects")
    found = cast("dict[str, Any]", projects).items() if isinstance(projects, dict) else ()
    return [name for name, one in found if isinstance(one, dict) and cast("dict[str, Any]", one).get("mcpServers")]


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
    scope = " --project" if record.scope == "project" else ""
    console.print(f"undo        hooksdk gateway uninstall --client {record.client}{scope}", soft_wrap=True)
