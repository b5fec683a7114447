"""`hooksdk mcp import`: the servers of the MCP clients on this machine, taken over into one file."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from hooksdk.cli._console import (
    CommandProblem,
    counted,
    print_columns,
    print_json,
    printable,
    safe,
    stderr_console,
    stdout_console,
)
from hooksdk.cli._edits.configuration import record_trust
from hooksdk.cli._edits.diff import confirm, print_diff, secrets_of
from hooksdk.cli._edits.json_text import set_member, with_servers
from hooksdk.cli._mcp.clients import ClientFile, client_files
from hooksdk.cli._mcp.entries import essence, with_braces
from hooksdk.config import is_inside, look_up_file, resolve, trusted_digests
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.mcp.settings import BARE_FOLDERS, ENTRY_KEYS, find_servers, load_file, plain_entry, read_text
from hooksdk.stores.files import replace_file


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What the command line asks for."""

    project: Path
    names: Sequence[str] = ()
    sources: Sequence[str] = ()
    """Clients' names or files; none: all clients."""
    target: Path
    dry_run: bool = False
    as_json: bool = False
    ask: bool = False
    """Show how the target would change, and write it after a yes."""
    yes: bool = False
    """That yes."""


@dataclass
class Row:
    """A server that was seen, and what becomes of it."""

    client: str
    path: Path
    name: str
    entry: dict[str, Any]
    outcome: str = ""
    """`new`, `there already`, or why it is left out."""
    inputs: Sequence[Any] = field(default_factory=list[Any])
    own: bool = True
    """The user's word: of a client in their home, or of a file that they named."""

    @property
    def what(self) -> str:
        """The command or the address, without values that may be secret."""
        args: Any = self.entry.get("args", [])
        words = [self.entry.get("command"), *(cast("list[Any]", args)[:2] if isinstance(args, list) else [])]
        return str(self.entry.get("url", "")).partition("?")[0] or " ".join(str(word) for word in words if word)


def add_servers(options: ImportOptions) -> int:
    """Show what the clients have, and add what is new to the target. It is trusted with that where its content was, and all
    that is new is the user's own: a repository's servers need a look of theirs."""
    rows = _look(options)
    target, known_files = options.target, trusted_digests(os.environ)
    if is_inside(target, options.project) and not resolve(target).is_relative_to(resolve(options.project)):
        raise CommandProblem(f"{target} is a link that leads to {resolve(target)}: name that file with --to FILE")
    before = look_up_file(target, known_files) if target.exists() else None
    document = load_file(target, digest=before.digest) if before else {}
    held = bool(document)
    known: Any = document.setdefault("mcpServers", {})
    if not isinstance(known, dict):
        raise ConfigError(str(options.target), ("'mcpServers' must be an object",))
    inside = is_inside(target, options.project)
    if not inside:  # there nobody asks for trust
        for row in rows:
            row.outcome = "" if row.own else f"left out: the project's own, and {target} is not: --from {row.path}"
    _decide(rows, cast("dict[str, Any]", known), options.names)
    new = [row for row in rows if row.outcome == "new"]
    trusted = inside and (not held or before is None or before.trusted) and all(row.own for row in new)
    old, text = "", ""
    if new:
        old = target.read_bytes().decode() if target.exists() else ""
        text = _with_new(old, target, new)
    if new and options.ask and not options.as_json:
        print_diff(
            target, old, text, secrets_of([*(row.entry for row in new), *cast("dict[str, Any]", known).values()])
        )
    write = bool(new) and not options.dry_run
    if write and options.ask and not confirm(f"Add them to {target}?", yes=options.yes, as_json=options.as_json):
        stdout_console().print("nothing was added")
        return 1
    if write:
        resolve(target).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(resolve(target), text.encode(), mode=0o600)
        if trusted:
            written = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
            record_trust(replace(look_up_file(target, known_files), measure=lambda: written))
    if options.as_json:
        servers = [
            {"client": row.client, "file": str(row.path), "server": row.name, "outcome": row.outcome} for row in rows
        ]
        print_json(
            {
                "schema": 1,
                "target": str(options.target),
                "written": write,
                "trusted": write and trusted,
                "servers": servers,
            }
        )
    else:
        _print(options, rows, new, inside=inside, trusted=trusted)
    return 0


def _look(options: ImportOptions) -> list[Row]:
    rows: list[Row] = []
    files = _files(options)
    for one in files:
        try:
            shape = find_servers(load_file(one.path), str(one.path), folder=options.project.resolve(), from_file=False)
        except ConfigError as error:
            stderr_console().print(f"[yellow]left out[/]   {safe(error)}", soft_wrap=True)
            continue
        for notice in shape.notices:
            stderr_console().print(f"[yellow]note[/]       {safe(f'{one.path}: {notice}')}", soft_wrap=True)
        bare = one.path.parent.name in BARE_FOLDERS
        for name, entry in shape.entries.items():
            if isinstance(entry, Mapping):
                whole = plain_entry(cast("Mapping[str, Any]", entry))
                plain = {key: value for key, value in whole.items() if key in ENTRY_KEYS}
                if plain.keys() & {"command", "url"}:
                    rows.append(
                        Row(
                            one.client, one.path, name, with_braces(plain) if bare else plain, inputs=shape.inputs, own=one.own
                        )
                    )  # fmt: skip
    if not rows and not options.as_json:
        looked = (
            f"none in {', '.join(str(one.path) for one in files)}" if files else "no client's file is on this machine"
        )
        raise CommandProblem(f"no MCP servers: {looked}. Name a file with --from FILE")
    return sorted(rows, key=lambda row: not row.own)  # nothing of a repository takes the place of the user's


def _files(options: ImportOptions) -> list[ClientFile]:
    target = options.target.resolve()
    here = [one for one in client_files(options.project) if one.path.resolve() != target]
    if not options.sources:
        return here
    clients = {one.client for one in here}
    files: list[ClientFile] = []
    for source in options.sources:
        if source in clients:
            files += [one for one in here if one.client == source]
        elif Path(source).is_file():
            files.append(ClientFile(Path(source).name, Path(source)))
        else:
            known = f" Clients with a file here: {', '.join(sorted(clients))}" if clients else ""
            raise CommandProblem(
                f"'{source}' is neither a file nor a client with one.{did_you_mean(source, clients) or known}"
            )
    return files


def _decide(rows: Sequence[Row], known: Mapping[str, Any], names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in {row.name for row in rows}]:
        raise CommandProblem(
            f"no client has a server '{missing[0]}'.{did_you_mean(missing[0], {row.name for row in rows})}"
        )
    chosen: dict[str, Row] = {}
    for row in rows:
        before = chosen.get(row.name)
        if row.outcome:
            continue
        if names and row.name not in names:
            row.outcome = "not asked for"
        elif row.name in known:
            same = isinstance(known[row.name], Mapping) and essence(known[row.name]) == essence(row.entry)
            row.outcome = "there already" if same else "left out: the file has another server of this name"
        elif before is not None:
            same = essence(before.entry) == essence(row.entry)
            row.outcome = (
                f"the same as {before.client}'s" if same else f"left out: {before.client} has another of this name"
            )
        else:
            chosen[row.name] = row
            row.outcome = "new"


def _with_new(text: str, target: Path, new: Sequence[Row]) -> str:
    """The target's text with the servers, and with the questions that they ask; what it holds stays as it is."""
    text = with_servers(text, {row.name: row.entry for row in new})
    questions = [cast("Mapping[str, Any]", one) for row in new for one in row.inputs if isinstance(one, Mapping)]
    entries = json.dumps([row.entry for row in new])
    inputs = {str(one.get("id")): one for one in questions if f"${{input:{one.get('id')}}}" in entries}
    if inputs:
        before = read_text(target, text.removeprefix("\ufeff")).get("inputs", [])
        text = set_member(text, [], "inputs", [*before, *inputs.values()])
    return text


def _print(options: ImportOptions, rows: Sequence[Row], new: Sequence[Row], *, inside: bool, trusted: bool) -> None:
    table = [[printable(row.name), row.client, row.outcome, printable(row.what)] for row in rows]
    print_columns(("server", "client", "outcome", "what it is"), table)
    console = stdout_console()
    print()
    if not new:
        console.print(f"{safe(options.target)} is as it was: nothing new", soft_wrap=True)
        return
    if options.dry_run:
        console.print(f"{counted(len(new), 'server')} would be added to {safe(options.target)}", soft_wrap=True)
        return
    added = f"added {counted(len(new), 'server')} to {safe(options.target)}"
    console.print(f"{added}, which you trust now" if trusted else added, soft_wrap=True)
    if any(_has_value(row.entry) for row in new):
        console.print("It holds the keys that the clients' files hold: keep it out of version control", soft_wrap=True)
    if trusted or not inside:
        where = "" if inside else f" --mcp {safe(shlex.quote(str(options.target)))}"
        console.print(f"look        hooksdk tools list{where}", soft_wrap=True)
        return
    theirs = sorted({str(row.path) for row in new if not row.own})
    why = f"servers of {', '.join(theirs)} are the project's, not yours" if theirs else "you did not trust what it held"
    console.print(f"not trusted {safe(why)}", soft_wrap=True)
    console.print("look        at the file, then: hooksdk trust", soft_wrap=True)


def _has_value(entry: Mapping[str, Any]) -> bool:
    """True when an environment variable, a header or a client's secret is written out."""
    oauth: Any = entry.get("oauth")
    secret = (
        {"clientSecret": cast("Mapping[str, Any]", oauth).get("clientSecret")} if isinstance(oauth, Mapping) else {}
    )
    tables = [entry.get("env"), entry.get("headers"), secret]
    values = [
        value for table in tables if isinstance(table, Mapping) for value in cast("Mapping[str, Any]", table).values()
    ]
    return any(isinstance(value, str) and value and "${" not in value for value in values)
