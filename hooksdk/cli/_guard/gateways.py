"""Which of an agent's servers are gateways of this user, so that the guard leaves their calls to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._edits.client_text import ClientText
from hooksdk.cli._gateway.records import read_record
from hooksdk.cli._mcp.clients import ClientFile, client_places
from hooksdk.config import project_folder
from hooksdk.errors import HookSDKError
from hooksdk.mcp.settings import projects_of


def is_gateway(agent: str, server: str, folder: Path) -> bool:
    """True where every server that the agent could mean by this name in this folder is the gateway, as `hooksdk gateway install`
    has written it. Where the agent's files cannot be read nobody knows, so False."""
    places = [
        place for place in client_places(project_folder(folder)) if place.client == agent and place.path.is_file()
    ]
    try:
        facts = [place.path.stat() for place in places]
        return _is_gateway(server, tuple(places), tuple((each.st_mtime_ns, each.st_size) for each in facts))
    except (OSError, ValueError, HookSDKError, CommandProblem):
        return False


@lru_cache(maxsize=64)  # the files of Claude Code's users have megabytes
def _is_gateway(server: str, places: tuple[ClientFile, ...], _as_they_are: tuple[tuple[int, int], ...]) -> bool:
    known = [_is_written_by_install(place, text, server) for each in places for place, text in _named(each, server)]
    return bool(known) and all(known)


def _named(place: ClientFile, server: str) -> Iterator[tuple[ClientFile, str]]:
    """Where in a file a server has this name."""
    text = place.path.read_text("utf-8")
    settings = ClientText(place.path, place.keys)
    if server in settings.servers(text):
        yield place, text
    if place.client == "claude-code" and place.own:
        for name, servers in projects_of(settings.read(text)).items():
            if server in servers:
                yield replace(place, keys=("projects", name, "mcpServers")), text


def _is_written_by_install(place: ClientFile, text: str, server: str) -> bool:
    record = read_record(place.client, place.path, place.keys)
    return record is not None and record.name == server and record.changed_text.new in text
