"""Telling the chain of what a command changes without a host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hooksdk.cli._audit.chains import audit_plugin
from hooksdk.cli._console import safe, stderr_console
from hooksdk.cli._project import project_config
from hooksdk.errors import HookSDKError
from hooksdk.stores import Store


async def note(project: Path, store: Store, fields: Mapping[str, Any]) -> None:
    """Append one record where the plugin audit is on in this project. What goes wrong is told and no more: the change is made."""
    try:
        plugin = audit_plugin(project_config(project))
        if plugin is not None and plugin.loaded:
            await plugin.holder.write_record(plugin.config, store, fields)
    except (OSError, HookSDKError) as error:
        stderr_console().print(f"[yellow]warning[/]     audit did not record this: {safe(error)}", soft_wrap=True)
