"""What the tests of `hooksdk run` and `hooksdk tools` share: the command in a folder of its own, beside a scripted provider."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from mcp_servers import script
from tables import run_sql
from warm import Done, run

from hooksdk.stores import SqlStore
from hooksdk.testing.server import ScriptedServer

COMMAND = [sys.executable, "-m", "hooksdk"]


def environment(
    folder: Path, server: ScriptedServer | None = None, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """No configuration, key or address of whoever runs the tests, and the provider's where there is one."""
    prefixes = ("HOOKSDK_", "OPENAI_", "ANTHROPIC_")
    found = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    found |= {"XDG_CONFIG_HOME": str(folder / "none"), "HOME": str(folder), "HOOKSDK_HOME": str(folder / "kept")}
    if server is not None:
        found |= {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "a key"}
        found |= {"ANTHROPIC_BASE_URL": server.anthropic_url, "ANTHROPIC_API_KEY": "a key"}
    return {**found, "COLUMNS": "100", "PYTHONUNBUFFERED": "1", **(variables or {})}


async def hooksdk(
    *arguments: str,
    folder: Path,
    server: ScriptedServer | None = None,
    stdin: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Done:
    """Run the command; without `stdin` there is nothing to read. With variables of Python's own it is a process of its own,
    since they count when Python starts."""
    where = environment(folder, server, variables)
    with anyio.fail_after(200):
        if not any(name.startswith("PYTHON") for name in variables or ()):
            run_it = partial(run, arguments, folder=folder, environment=where, stdin=stdin or "")
            return await anyio.to_thread.run_sync(run_it, abandon_on_cancel=True)
        done = await anyio.run_process(
            [*COMMAND, *arguments], cwd=folder, env=where, check=False, input=(stdin or "").encode()
        )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def change(store: SqlStore, statement: str, **row: Any) -> None:
    """Change the database as somebody else would, beside the store's own ways."""
    anyio.run(run_sql, store, statement, row)


def write_servers(path: Path, **entries: dict[str, Any]) -> str:
    """A file of MCP servers; without entries it has one, `plain`, which is the quick one: it does not `work`."""
    path.write_text(json.dumps({"mcpServers": entries or {"plain": script("quick")}}))
    return str(path)


def write_user_file(folder: Path, text: str) -> None:
    """The configuration of the user who runs commands in this folder."""
    path = folder / "none" / "hooksdk" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def install_plugin(folder: Path, code: str, *grants: str) -> dict[str, str]:
    """Install a plugin class `Watch` of the id `watch`, as pip would, and let the user of the project around the folder
    enable it with these grants; answers the environment that finds it."""
    package, info = folder / "fake_watch", folder / "fake_watch-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(code)
    (package / "hooksdk.plugin.json").write_text('{"id": "watch"}')
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-watch\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hooksdk.plugins]\nwatch = fake_watch:Watch\n")
    write_user_file(folder.parent, f"[plugins.watch]\ngrants = {json.dumps(grants)}\n")
    return {"PYTHONPATH": str(folder)}
