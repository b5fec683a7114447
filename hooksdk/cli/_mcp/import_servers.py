"""`hooksdk mcp import` and `gateway import`: the servers of the MCP clients on this machine, added to one file."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hooksdk.cli._console import CommandProblem, View, counted, print_line, safe, stderr_console, stdout_console
from hooksdk.cli._edits.configuration import record_trust
from hooksdk.cli._edits.files import FileEdit, agreed, digest_of, read_bytes, secrets_of
from hooksdk.cli._edits.json_text import set_member, with_servers
from hooksdk.cli._gateway.places import ClientFile, client_files, essence, own_entry
from hooksdk.cli._options import EditOptions
from hooksdk.config import is_inside, look_up_file, resolve, trusted_digests
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.mcp.settings import find_servers, load_file, plain_entry, read_text
from hooksdk.values import as_list, is_mapping, is_object


@dataclass(frozen=True, kw_only=True)
class ImportOptions(EditOptions):
    """The options of the command line.

    Attributes:
        sources: Clients' names or files; none: all clients.
        ask: Show the edit of the target, and write it after a yes.
    """

    project: Path
    names: Sequence[str] = ()
    sources: Sequence[str] = ()
    target: Path
    ask: bool = False


@dataclass
class Row:
    """A server that a client has, and the outcome of its import.

    Attributes:
        outcome: `new`, `there already`, or why it is left out.
        own: True for a server of the user's own: of a client in their home, or of a file that they named.
    """

    client: str
    path: Path
    name: str
    entry: dict[str, Any]
    outcome: str = ""
    inputs: Sequence[Any] = field(default_factory=list[Any])
    own: bool = True

    @property
    def what(self) -> str:
        """The command or the address, without values that may be secret."""
        words = [self.entry.get("command"), *as_list(self.entry.get("args"))[:2]]
        return str(self.entry.get("url", "")).partition("?")[0] or " ".join(str(word) for word in words if word)


def add_servers(options: ImportOptions) -> int:
    """Show what the clients have, and add what is new to the target. The target is trusted with that when its content
    was trusted, and all that is new is the user's own: a repository's servers need a look of theirs. The exit code."""
    rows = _look(options)
    target, known_files = options.target, trusted_digests(os.environ)
    inside = is_inside(target, options.project)
    if inside and not resolve(target).is_relative_to(resolve(options.project)):
        raise CommandProblem(f"{target} is a link that leads to {resolve(target)}: name that file with --to FILE")
    before = look_up_file(target, known_files) if target.exists() else None
    document = load_file(target, digest=before.digest) if before else {}
    held = bool(document)
    known = document.setdefault("mcpServers", {})
    if not is_object(known):
        raise ConfigError(str(target), ("'mcpServers' must be an object",))
    if not inside:  # there nobody asks for trust
        for row in rows:
            row.outcome = "" if row.own else f"left out: the project's own, and {target} is not: --from {row.path}"
    _decide(rows, known, options.names)
    new = [row for row in rows if row.outcome == "new"]
    trusted = inside and (not held or before is None or before.trusted) and all(row.own for row in new)
    write = bool(new) and not options.dry_run
    if new:
        old = read_bytes(target)
        text = _with_new((old or b"").decode(), target, new)
        edit = FileEdit(target, old, text.encode(), 0o600)
        secrets = secrets_of([*(row.entry for row in new), *known.values()])
        if options.ask and not agreed([edit], f"Add them to {target}?", options, secrets=secrets) and write:
            stdout_console().print("nothing was added")
            return 1
        if write:
            edit.write()
            if trusted:
                written = f"sha256:{digest_of(text.encode())}"
                record_trust(replace(look_up_file(target, known_files), measure=lambda: written))
    view = View(
        {
            "target": str(target),
            "written": write,
            "trusted": write and trusted,
            "servers": [
                {"client": row.client, "file": str(row.path), "server": row.name, "outcome": row.outcome}
                for row in rows
            ],
        }
    )
    table = [[row.name, row.client, row.outcome, row.what] for row in rows]
    view.table(("server", "client", "outcome", "what it is"), table)
    view.markup()
    _add_outcome(view, options, new, inside=inside, trusted=trusted)
    view.show(as_json=options.as_json)
    return 0


def _look(options: ImportOptions) -> list[Row]:
    rows: list[Row] = []
    files = _files(options)
    for one in files:
        try:
            shape = find_servers(load_file(one.path), str(one.path), folder=options.project.resolve(), from_file=False)
        except ConfigError as error:
            print_line(stderr_console(), "[yellow]left out[/]", safe(error))
            continue
        for notice in shape.notices:
            print_line(stderr_console(), "[yellow]note[/]", safe(f"{one.path}: {notice}"))
        for name, entry in shape.entries.items():
            plain = own_entry(one.path, plain_entry(entry)) if is_mapping(entry) else {}
            if plain.keys() & {"command", "url"}:
                rows.append(Row(one.client, one.path, name, plain, inputs=shape.inputs, own=one.own))
    if not rows and not options.as_json:
        places = ", ".join(str(one.path) for one in files)
        looked = f"none in {places}" if files else "no client's file is on this machine"
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
            cure = did_you_mean(source, clients) or known
            raise CommandProblem(f"'{source}' is neither a file nor a client with one.{cure}")
    return files


def _decide(rows: Sequence[Row], known: Mapping[str, Any], names: Sequence[str]) -> None:
    """Set the outcome of each row that has none yet."""
    seen = {row.name for row in rows}
    if missing := [name for name in names if name not in seen]:
        raise CommandProblem(f"no client has a server '{missing[0]}'.{did_you_mean(missing[0], seen)}")
    chosen: dict[str, Row] = {}
    for row in rows:
        before = chosen.get(row.name)
        if row.outcome:
            continue
        if names and row.name not in names:
            row.outcome = "not asked for"
        elif row.name in known:
            same = is_mapping(known[row.name]) and essence(known[row.name]) == essence(row.entry)
            row.outcome = "there already" if same else "left out: the file has another server of this name"
        elif before is not None:
            same, client = essence(before.entry) == essence(row.entry), before.client
            row.outcome = f"the same as {client}'s" if same else f"left out: {client} has another of this name"
        else:
            chosen[row.name] = row
            row.outcome = "new"


def _with_new(text: str, target: Path, new: Sequence[Row]) -> str:
    """The target's text with the servers, and with the questions that they ask; what it holds stays as it is."""
    text = with_servers(text, {row.name: row.entry for row in new})
    entries = json.dumps([row.entry for row in new])
    questions = [one for row in new for one in row.inputs if is_mapping(one)]
    inputs = {str(one.get("id")): one for one in questions if f"${{input:{one.get('id')}}}" in entries}
    if inputs:
        before = read_text(target, text.removeprefix("\ufeff")).get("inputs", [])
        text = set_member(text, [], "inputs", [*before, *inputs.values()])
    return text


def _add_outcome(view: View, options: ImportOptions, new: Sequence[Row], *, inside: bool, trusted: bool) -> None:
    target, servers = safe(options.target), counted(len(new), "server")
    if not new:
        view.markup(f"{target} is as it was: nothing new")
        return
    if options.dry_run:
        view.markup(f"{servers} would be added to {target}")
        return
    view.markup(f"added {servers} to {target}{', which you trust now' if trusted else ''}")
    if any("${" not in one for one in secrets_of(row.entry for row in new)):
        view.markup("It holds the keys that the clients' files hold: keep it out of version control")
    if trusted or not inside:
        where = "" if inside else f" --mcp {shlex.quote(str(options.target))}"
        view.line("look", f"hooksdk tools list{where}")
        return
    theirs = sorted({str(row.path) for row in new if not row.own})
    why = f"servers of {', '.join(theirs)} are the project's, not yours" if theirs else "you did not trust what it held"
    view.line("not trusted", why)
    view.line("look", "at the file, then: hooksdk trust")
