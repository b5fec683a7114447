"""`hooksdk gateway uninstall`: what an installation has changed goes back, and what was changed since stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hooksdk.cli._console import CommandProblem, print_json, safe, stdout_console
from hooksdk.cli._edits.client_text import ClientText
from hooksdk.cli._edits.diff import confirm, print_diff, secrets_of
from hooksdk.cli._edits.files import digest_of, read_bytes, write_bytes
from hooksdk.cli._edits.json_text import remove_member
from hooksdk.cli._gateway.install import Scope, find_place
from hooksdk.cli._gateway.records import Installation, all_records, read_record
from hooksdk.cli._mcp.clients import CLIENTS
from hooksdk.errors import ConfigError

_EMPTY = {"mcpServers": dict[str, Any]()}


@dataclass(frozen=True, kw_only=True)
class UninstallOptions:
    """What the command line asks for."""

    client: str
    scope: Scope = "user"
    file: Path | None = None
    """Another file of the client's."""
    project: Path = field(default_factory=Path)
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False


@dataclass
class Return:
    """What becomes of one file."""

    path: Path
    now: bytes | None
    new: bytes | None
    """None: it goes, since it was not there before."""
    mode: int
    exact: bool = True
    """True where the old bytes come back, to the last one."""


def uninstall_gateway(options: UninstallOptions) -> int:
    """Show what would change, ask, and do it."""
    place = find_place(options.client, options.scope, options.project.absolute(), options.file)
    record = read_record(options.client, place.path, place.keys)
    if record is None:
        raise CommandProblem(f"no installation of the gateway is recorded for {place.path}")
    others = [one for one in all_records() if one.place != record.place and one.gateway.file == record.gateway.file]
    notes: list[str] = []
    client, gateway = _client_return(record, notes), _gateway_return(record, others, notes)
    files = [one for one in (client, gateway) if one.new != one.now]
    if not options.as_json:
        text = ClientText(client.path, record.keys)
        shown = {one.path: (_text(one.now), _text(one.new)) for one in files}
        secrets = secrets_of([*record.added.values(), *text.servers(_text(client.new)).values()])
        for path, (before, after) in shown.items():
            print_diff(path, before, after, secrets)
        for note in notes:
            stdout_console().print(f"[yellow]note[/]        {safe(note)}", soft_wrap=True)
    done = not options.dry_run and confirm("Change these files?", yes=options.yes, as_json=options.as_json)
    if done:
        for one in files:
            _write(one)
        _hand_over(record, others, gone=gateway.new is None)
        record.forget(backup=not notes)
    if options.as_json:
        kept = str(record.backup) if notes and record.backup.exists() else None
        print_json({
            "schema": 1, "client": options.client, "scope": options.scope, "file": record.target.file, "changed": done,
            "exact": client.exact, "gateway_file": record.gateway.file, "notes": notes, "backup": kept,
        })  # fmt: skip
    elif done:
        console = stdout_console()
        how = "byte for byte as it was" if client.exact else "its servers are back, and your other changes stay"
        console.print(f"restored    {safe(record.target.file)}: {how}", soft_wrap=True)
        if notes and record.backup.exists():
            console.print(f"backup      {safe(record.backup)} has what it held before", soft_wrap=True)
        console.print(f"now         quit {CLIENTS[record.client]} and start it again", soft_wrap=True)
    elif not options.dry_run:
        stdout_console().print("nothing was changed")
    return 0 if done or options.dry_run else 1


def _client_return(record: Installation, notes: list[str]) -> Return:
    path, change = Path(record.target.file), record.target
    now, before = read_bytes(path), read_bytes(record.backup)
    if change.before is not None and (before is None or digest_of(before) != change.before):
        raise CommandProblem(
            f"{record.backup} is not what was kept there, so {path} is left alone; its servers are in {record.gateway.file}"
        )
    mode = change.mode or (path.stat().st_mode & 0o777 if now is not None else 0o600)
    if now is None:
        notes.append(f"{path} is gone, and is not made anew")
        return Return(path, None, None, mode)
    if digest_of(now) == change.after or now == before:
        return Return(path, now, before, mode)
    text = ClientText(path, record.keys)
    try:
        current = text.servers(now.decode())
        new = text.put_back(now.decode(), _text(before), record.changed_text, record.taken, record.name)
    except (ConfigError, UnicodeDecodeError) as error:
        kept = f"; what it held before is in {record.backup}" if before is not None else ""
        raise CommandProblem(f"{error}{kept}. Nothing was changed") from None
    if record.name not in current:
        notes.append(f"'{record.name}' is not in {path} any more")
    if same := [name for name in record.taken if name in current]:
        notes.append(f"{', '.join(same)}: in {path} again already, and stays as it is there")
    if before is None and text.read(new) == {}:
        return Return(path, now, None, mode)
    return Return(path, now, new.encode(), mode, exact=new.encode() == before)


def _gateway_return(record: Installation, others: list[Installation], notes: list[str]) -> Return:
    """The gateway's file without what this installation added and no other needs."""
    path, change = Path(record.gateway.file), record.gateway
    now = read_bytes(path)
    mode = change.mode or 0o600
    if now is None:
        return Return(path, None, None, mode)
    needed = {name for one in others for name in one.servers.values()}
    if digest_of(now) == change.after and not needed:
        return Return(path, now, read_bytes(record.gateway_backup) if change.before else None, mode)
    text = ClientText(path, ("mcpServers",))
    try:
        new = now.decode()
        servers = text.servers(new)
    except (ConfigError, UnicodeDecodeError) as error:
        notes.append(f"{error}, so it is left as it is")
        return Return(path, now, now, mode)
    for name, entry in record.added.items():
        if name in needed or name not in servers:
            continue
        if servers[name] != entry:
            notes.append(f"{name}: was changed in {path} and stays there; {record.target.file} has it as it was before")
            continue
        new = remove_member(new, ["mcpServers"], name)
    gone = change.before is None and not needed and text.read(new) == _EMPTY
    return Return(path, now, None if gone else new.encode(), path.stat().st_mode & 0o777, exact=False)


def _hand_over(record: Installation, others: list[Installation], *, gone: bool) -> None:
    """What stays in the gateway's file for others is theirs to take out."""
    for one in others:
        theirs = {name: entry for name, entry in record.added.items() if name in one.servers.values()}
        if theirs or (record.gateway.before is None and not gone):
            one.added |= theirs
            one.gateway.before = None if record.gateway.before is None else one.gateway.before
            one.keep()
            return


def _write(one: Return) -> None:
    if one.new is not None:
        write_bytes(one.path, one.new, seen=one.now, mode=one.mode)
    elif read_bytes(one.path) == one.now:
        one.path.resolve().unlink()
    else:
        raise CommandProblem(f"{one.path} was changed by somebody else just now. Close the client, then type it again")


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")
