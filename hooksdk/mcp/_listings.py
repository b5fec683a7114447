"""What servers offered when they last ran, on disk, so that they need not be started to be asked.

One file for each configuration of a server. Its name holds a digest of the configuration, without the values of `env` and
`headers`, and its content is what the server told of what it offers.
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

FORMAT = 1
"""Raised when what is in a file, or what a file's name is made of, means something else than before."""
_KINDS: dict[str, TypeAdapter[Any]] = {
    "tools": TypeAdapter(tuple[types.Tool, ...]),
    "prompts": TypeAdapter(tuple[types.Prompt, ...]),
    "resources": TypeAdapter(tuple[types.Resource, ...]),
    "templates": TypeAdapter(tuple[types.ResourceTemplate, ...]),
    "capabilities": TypeAdapter(types.ServerCapabilities),
}
_FRESH = 86_400.0
"""Seconds after which a listing is used still, and the server is asked anew meanwhile."""
_FORGOTTEN = 30 * _FRESH
"""Seconds after which the file of a configuration that nobody uses is removed."""
_CODE = {".cjs", ".jar", ".js", ".mjs", ".py", ".pyz", ".rb", ".sh", ".ts"}
"""Arguments that end so, and are files, are the server's program."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offered."""

    offer: ServerOffer
    version: str
    """The version that the server gives itself."""
    fresh: bool
    """It was listed within a day, by the program that is there now."""
    handshake: bool | None = None
    """It speaks the older protocol alone; None: that is not known."""


class Listings:
    """The listings in one folder, of which any may be missing or damaged."""

    def __init__(self, folder: Path | None = None, holder: str = LOCAL) -> None:
        """`holder` is whose listings these are, of servers that offer each something else."""
        self.folder = folder or _default_folder()
        self._holder = holder
        self._told = False

    def of(self, holder: str) -> Listings:
        """Those of another."""
        return Listings(self.folder, holder)

    def read(self, spec: ServerSpec) -> Listing | None:
        """What a server of this configuration offered; None where nobody knows."""
        path = self._path(spec)
        try:
            data: dict[str, Any] = json.loads(path.read_bytes())
            if data["format"] != FORMAT:
                return None
            age = time.time() - float(data["listed"])
            # hooksdk 0.2.0 has stored nothing but the tools: they count, and the server is asked for the rest.
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
        """Keep what a server offers. A disk that cannot take it is told in the log."""
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
            if not self._told:
                logger.warning("listings of MCP servers cannot be kept in %s: %s", self.folder, error)
            self._told = True

    def _path(self, spec: ServerSpec) -> Path:
        readable = re.sub(r"[^A-Za-z0-9_-]+", "_", spec.name)[:40].strip("_") or "server"
        return self.folder / f"{readable}-{_digest(spec, self._holder)}.json"

    def _forget_old(self) -> None:
        for path in self.folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _FORGOTTEN:
                    path.unlink()


def _digest(spec: ServerSpec, holder: str) -> str:
    """Of everything that decides what the server is, but no secret value: one that is replaced is no other server."""
    folder = str(Path(spec.cwd).expanduser() if spec.cwd else Path.cwd())
    # A program that is named from the folder on is another one in another folder.
    here = folder if spec.cwd or any(not place.is_absolute() for place, _ in _files(spec)) else ""
    parts = [FORMAT, spec.name, spec.command, spec.args, sorted(spec.env), here, spec.url, sorted(spec.headers)]
    parts += [holder] if spec.is_personal and holder != LOCAL else []
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _program(spec: ServerSpec) -> list[list[int]]:
    """Changes when the server's program is replaced on disk: by an upgrade, or by who writes it."""
    if not spec.command:
        return []
    stamps: list[list[int]] = []
    for path in (Path(resolve_command(spec)), *(found for place, found in _files(spec) if place.suffix in _CODE)):
        with contextlib.suppress(OSError, ValueError):
            found = path.stat()
            stamps.append([found.st_mtime_ns, found.st_size])
    return stamps


def _files(spec: ServerSpec) -> Iterator[tuple[Path, Path]]:
    """The files among the words of the command: as they are written, and where they are."""
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
