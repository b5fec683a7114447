"""The places of the gateway: clients' files of servers, the gateway's own, and the records of installations."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._edits.client_text import ClientText, Hunk
from hooksdk.cli._edits.files import Change, Record, decoded, digest_of, read_bytes, read_fields, record_place
from hooksdk.cli._mcp.clients import CLIENTS, ClientFile, client_places
from hooksdk.cli._options import Scope
from hooksdk.config import is_inside, project_folder, resolve, user_file
from hooksdk.errors import HookSDKError, did_you_mean
from hooksdk.gateway.status import gateway_folder
from hooksdk.mcp.settings import project_of, projects_of
from hooksdk.values import as_object


@dataclass(kw_only=True)
class Installation(Record):
    """The record of the gateway in one client's file.

    Attributes:
        name: The gateway's name in the client's file.
        taken: The servers that the gateway replaces, by their names in the client's file.
        gateway: The gateway's own file of servers.
        servers: The names of the replaced servers in the gateway's file.
        added: The entries that were added to the gateway's file.
    """

    client: str
    scope: str
    name: str
    keys: list[str]
    taken: list[str]
    hunk: list[Any]
    gateway: Change
    servers: dict[str, str]
    added: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def changed_text(self) -> Hunk:
        """The changed part of the client's file."""
        return Hunk(*self.hunk)

    @property
    def place(self) -> Path:
        """The path of the record."""
        return record_place(_records(), self.client, Path(self.target.file), self.keys)

    @property
    def gateway_backup(self) -> Path:
        """The gateway's file as it was before."""
        return self.place.with_suffix(".servers.bak")

    def forget(self, *, backup: bool = True) -> None:
        """Remove the record, and with `backup` the client's backup too."""
        super().forget(backup=backup)
        self.gateway_backup.unlink(missing_ok=True)


def _records() -> Path:
    return gateway_folder() / "installed"


def read_record(client: str, file: Path, keys: Sequence[str] = ()) -> Installation | None:
    """The record about a client's file, if there is one. Raises `CommandProblem` for an unreadable one."""
    path = record_place(_records(), client, file, keys)
    return _read(path) if path.exists() else None


def all_records() -> list[Installation]:
    """Every recorded installation."""
    return [_read(path) for path in sorted(_records().glob("*.json"))]


def _read(path: Path) -> Installation:
    return Installation(**read_fields(path, "target", "gateway"))


def gateway_file(scope: Scope, project: Path) -> Path:
    """The gateway's own file of servers: the user's, the project's, or the user's own for a single folder."""
    if scope == "project":
        return project / "mcp.json"
    own = user_file(os.environ)
    if scope == "user":
        return own.with_name("mcp.json")
    return own.parent / "folders" / f"{project.name}-{digest_of(os.fsencode(project))[:8]}.json"


def check_link(path: Path, project: Path) -> None:
    """Raise `CommandProblem` for a file in the project that is a link to a place outside of it."""
    if is_inside(path, project) and not resolve(path).is_relative_to(resolve(project)):
        raise CommandProblem(f"{path} is a link that leads out of the project; nothing is written through it")


def find_place(client: str, scope: Scope, project: Path, file: Path | None = None) -> ClientFile:
    """The file of servers that a client writes itself, or another one of the same kind. Raises `CommandProblem` for an
    unknown client, and for one without a file of this scope."""
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
        kind = found.path.suffix
        if file.suffix != kind:
            raise CommandProblem(f"{CLIENTS[client]} keeps its servers in a {kind} file, and {file} is none")
        return replace(found, path=file.expanduser().absolute())
    if not found.own:
        check_link(found.path, project)
    return found


def _folder_place(client: str, project: Path, places: list[ClientFile]) -> ClientFile:
    """Claude Code's servers of a single folder, which are in the user's file, so that no repository brings them."""
    if client != "claude-code":
        raise CommandProblem(f"{CLIENTS[client]} has no servers of a single folder; leave --local out")
    own = next(one for one in places if one.own)
    settings = ClientText(own.path, own.keys).read(decoded(own.path, read_bytes(own.path)))
    projects = projects_of(settings)
    name = project_of(projects, project) or project_of(as_object(settings.get("projects")), project)
    if name is None:
        others = f" It has some for: {', '.join(projects)}" if projects else ""
        raise CommandProblem(f"{own.path} has no servers for {project} alone.{others}")
    return replace(own, keys=("projects", name, "mcpServers"))


def is_gateway(agent: str, server: str, folder: Path) -> bool:
    """True when every server that an agent may mean by this name in this folder is the gateway, as installed. The guard
    leaves calls of the gateway's tools to the gateway. False when the agent's files cannot be read."""
    places = [one for one in client_places(project_folder(folder)) if one.client == agent and one.path.is_file()]
    try:
        facts = [place.path.stat() for place in places]
        return _is_gateway(server, tuple(places), tuple((each.st_mtime_ns, each.st_size) for each in facts))
    except (OSError, ValueError, HookSDKError):
        return False


@lru_cache(maxsize=64)  # the files of Claude Code's users have megabytes
def _is_gateway(server: str, places: tuple[ClientFile, ...], _as_they_are: tuple[tuple[int, int], ...]) -> bool:
    known = [_is_installed(place, text, server) for each in places for place, text in _places_of(each, server)]
    return bool(known) and all(known)


def _places_of(place: ClientFile, server: str) -> Iterator[tuple[ClientFile, str]]:
    """The places in a file where a server has this name, each with the text of the file."""
    text = place.path.read_text("utf-8")
    settings = ClientText(place.path, place.keys)
    if server in settings.servers(text):
        yield place, text
    if place.client == "claude-code" and place.own:
        for name, servers in projects_of(settings.read(text)).items():
            if server in servers:
                yield replace(place, keys=("projects", name, "mcpServers")), text


def _is_installed(place: ClientFile, text: str, server: str) -> bool:
    record = read_record(place.client, place.path, place.keys)
    return record is not None and record.name == server and record.changed_text.new in text
