"""`hooksdk gateway uninstall`: a client's servers go back into its file, and what was changed there since stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hooksdk.cli._console import CommandProblem, View
from hooksdk.cli._edits.client_text import ClientText
from hooksdk.cli._edits.files import FileEdit, agreed, read_bytes, secrets_of, tell_outcome
from hooksdk.cli._edits.json_text import remove_member
from hooksdk.cli._gateway.places import CLIENTS, Installation, all_records, find_place, read_record
from hooksdk.cli._options import ClientOptions
from hooksdk.errors import ConfigError

_EMPTY = {"mcpServers": dict[str, Any]()}


def uninstall_gateway(options: ClientOptions) -> int:
    """Show the edits, ask, and write them. The exit code."""
    place = find_place(options.client, options.scope, Path().absolute(), options.file)
    record = read_record(options.client, place.path, place.keys)
    if record is None:
        raise CommandProblem(f"no installation of the gateway is recorded for {place.path}")
    others = [one for one in all_records() if one.place != record.place and one.gateway.file == record.gateway.file]
    notes: list[str] = []
    client, gateway = _client_edit(record, notes), _gateway_edit(record, others, notes)
    is_exact = client.now is None or client.new == read_bytes(record.backup)
    servers = ClientText(client.path, record.keys).servers(_text(client.new))
    secrets = secrets_of([*record.added.values(), *servers.values()])
    told = View({})
    told.lines("note", notes, "yellow")
    done = agreed([client, gateway], "Change these files?", options, secrets=secrets, notes=told)
    if done:
        client.write()
        gateway.write()
        _hand_over(record, others, gone=gateway.new is None)
        record.forget(backup=not notes)
    kept = str(record.backup) if notes and record.backup.exists() else None
    view = View(
        {
            "client": options.client,
            "scope": options.scope,
            "file": record.target.file,
            "changed": done,
            "exact": is_exact,
            "gateway_file": record.gateway.file,
            "notes": notes,
            "backup": kept,
        }
    )
    how = "byte for byte as it was" if is_exact else "its servers are back, and your other changes stay"
    view.line("restored", f"{client.path}: {how}")
    if kept:
        view.line("backup", f"{kept} has what it held before")
    view.line("now", f"quit {CLIENTS[record.client]} and start it again")
    return tell_outcome(view, options, done=done)


def _client_edit(record: Installation, notes: list[str]) -> FileEdit:
    """The client's file with its own servers again."""
    path, change = Path(record.target.file), record.target
    now, before = read_bytes(path), read_bytes(record.backup)
    if change.before is not None and not change.was_before(before):
        kept = f"its servers are in {record.gateway.file}"
        raise CommandProblem(f"{record.backup} is not what was kept there, so {path} is left alone; {kept}")
    if now is None:
        notes.append(f"{path} is gone, and is not made anew")
        return FileEdit(path, None, None)
    if change.was_after(now) or now == before:
        return FileEdit(path, now, before, change.mode)
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
    is_gone = before is None and text.read(new) == {}
    return FileEdit(path, now, None if is_gone else new.encode(), change.mode)


def _gateway_edit(record: Installation, others: list[Installation], notes: list[str]) -> FileEdit:
    """The gateway's file without what this installation has added and no other needs."""
    path, change = Path(record.gateway.file), record.gateway
    now = read_bytes(path)
    if now is None:
        return FileEdit(path, None, None)
    needed = {name for one in others for name in one.servers.values()}
    if change.was_after(now) and not needed:
        return FileEdit(path, now, read_bytes(record.gateway_backup) if change.before else None, change.mode)
    text = ClientText(path, ("mcpServers",))
    try:
        new = now.decode()
        servers = text.servers(new)
    except (ConfigError, UnicodeDecodeError) as error:
        notes.append(f"{error}, so it is left as it is")
        return FileEdit(path, now, now)
    for name, entry in record.added.items():
        if name in needed or name not in servers:
            continue
        if servers[name] != entry:
            notes.append(f"{name}: was changed in {path} and stays there; {record.target.file} has it as it was before")
            continue
        new = remove_member(new, ["mcpServers"], name)
    gone = change.before is None and not needed and text.read(new) == _EMPTY
    return FileEdit(path, now, None if gone else new.encode())


def _hand_over(record: Installation, others: list[Installation], *, gone: bool) -> None:
    """Let another installation remove what stays in the gateway's file for it."""
    for one in others:
        theirs = {name: entry for name, entry in record.added.items() if name in one.servers.values()}
        if theirs or (record.gateway.before is None and not gone):
            one.added |= theirs
            one.gateway.before = None if record.gateway.before is None else one.gateway.before
            one.keep({})
            return


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")
