"""Servers' offers of their last run, kept on disk, so that a server need not be started to be listed.

There is one file for each configuration of a server. Its name has a digest of the configuration, without the values
of `env` and `headers`; its content is the server's offer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from hooksdk.config import xdg_folder
from hooksdk.errors import StoreError
from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._offer import ServerOffer
from hooksdk.mcp._scope import LOCAL
from hooksdk.mcp._transport import resolve_command
from hooksdk.stores.files import replace_file

logger = logging.getLogger("hooksdk")

# The format's version: it is raised when the content of a file, or the basis of its name, changes its meaning.
FORMAT = 1
_KINDS: dict[str, TypeAdapter[Any]] = {
    "tools": TypeAdapter(tuple[types.Tool, ...]),
    "prompts": TypeAdapter(tuple[types.Prompt, ...]),
    "resources": TypeAdapter(tuple[types.Resource, ...]),
    "templates": TypeAdapter(tuple[types.ResourceTemplate, ...]),
    "capabilities": TypeAdapter(types.ServerCapabilities),
}
# Seconds after which a listing still counts, and the server is asked again meanwhile.
_FRESH = 86_400.0
# Seconds after which the file of an unused configuration is removed.
_FORGOTTEN = 30 * _FRESH
# Endings of arguments that are files of the server's program.
_CODE = {".cjs", ".jar", ".js", ".mjs", ".py", ".pyz", ".rb", ".sh", ".ts"}


@dataclass(frozen=True, slots=True)
class Listing:
    """A kept offer.

    Attributes:
        version: The version that the server gives itself.
        fresh: True where it was listed within a day, by the program that is there now.
        handshake: True where the server speaks the older protocol alone; None: that is not known.
    """

    offer: ServerOffer
    version: str
    fresh: bool
    handshake: bool | None = None


class Listings:
    """The listings in a folder. Each may be missing or damaged."""

    def __init__(self, folder: Path | None = None, holder: str = LOCAL) -> None:
        """Of servers whose offer depends on the client, these are the listings of `holder`."""
        self.folder = folder or _default_folder()
        self._holder = holder
        self._has_warned = False

    def of(self, holder: str) -> Listings:
        """The listings of another holder."""
        return Listings(self.folder, holder)

    def read(self, spec: ServerSpec) -> Listing | None:
        """The last offer of a server of this configuration; None where there is none."""
        path = self._path(spec)
        try:
            data: dict[str, Any] = json.loads(path.read_bytes())
            if data["format"] != FORMAT:
                return None
            age = time.time() - float(data["listed"])
            # hooksdk 0.2.0 has stored the tools alone: they count, and the server is asked for the rest.
            fresh = 0 <= age < _FRESH and data["program"] == _program(spec) and "capabilities" in data
            lists = {
                name: adapter.validate_python(data[name], by_name=False)
                for name, adapter in _KINDS.items()
                if name in data or name == "tools"
            }
            offer = ServerOffer(server=spec.name, instructions=str(data.get("instructions", "")), **lists)
            return Listing(offer, str(data["version"]), fresh, data.get("handshake") if fresh else None)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            reason = "its content is damaged" if isinstance(error, ValidationError) else error
            logger.warning("the listing of MCP server '%s' in %s is not used: %s", spec.name, path, reason)
            return None

    def write(self, spec: ServerSpec, offer: ServerOffer, version: str, handshake: bool | None) -> None:
        """Keep a server's offer. A failure to write it is logged once."""
        data = {
            "format": FORMAT,
            "server": spec.name,
            "version": version,
            "listed": time.time(),
            "program": _program(spec),
            "handshake": handshake,
            "instructions": offer.instructions,
            **{
                name: adapter.dump_python(getattr(offer, name), by_alias=True, mode="json", exclude_unset=True)
                for name, adapter in _KINDS.items()
            },
        }
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._path(spec), json.dumps(data).encode())
            self._forget_old()
        except (OSError, StoreError, ValueError) as error:
            if not self._has_warned:
                logger.warning("listings of MCP servers cannot be kept in %s: %s", self.folder, error)
            self._has_warned = True

    def _path(self, spec: ServerSpec) -> Path:
        readable = re.sub(r"[^A-Za-z0-9_-]+", "_", spec.name)[:40].strip("_") or "server"
        return self.folder / f"{readable}-{_digest(spec, self._holder)}.json"

    def _forget_old(self) -> None:
        for path in self.folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _FORGOTTEN:
                    path.unlink()


def _digest(spec: ServerSpec, holder: str) -> str:
    """A digest of all that identifies the server. No secret value is in it, so that the server stays the same with a
    new secret."""
    folder = str(Path(spec.cwd).expanduser() if spec.cwd else Path.cwd())
    # With a relative path it is another program in another folder.
    here = folder if spec.cwd or any(not place.is_absolute() for place, _ in _files(spec)) else ""
    parts = [FORMAT, spec.name, spec.command, spec.args, sorted(spec.env), here, spec.url, sorted(spec.headers)]
    parts += [holder] if spec.is_personal and holder != LOCAL else []
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _program(spec: ServerSpec) -> list[list[int]]:
    """Times and sizes of the files of the server's program: they change with an upgrade, or when the program is
    edited."""
    if not spec.command:
        return []
    stamps: list[list[int]] = []
    for path in (Path(resolve_command(spec)), *(found for place, found in _files(spec) if place.suffix in _CODE)):
        with contextlib.suppress(OSError, ValueError):
            found = path.stat()
            stamps.append([found.st_mtime_ns, found.st_size])
    return stamps


def _files(spec: ServerSpec) -> Iterator[tuple[Path, Path]]:
    """The files among the words of the command: each as it is written, and its path."""
    folder = Path(spec.cwd).expanduser() if spec.cwd else Path.cwd()
    for word in (spec.command, *spec.args):
        with contextlib.suppress(OSError, ValueError):
            if word and (folder / word).exists():
                yield Path(word), folder / word


def _default_folder() -> Path:
    if home := os.environ.get("HOOKSDK_HOME"):
        return Path(home).expanduser() / "cache" / "mcp"
    if sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        cache = xdg_folder("XDG_CACHE_HOME", "~/.cache", os.environ)
    return cache / "hooksdk" / "mcp"
