"""Plugins as JSON, for listings."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from hooksdk._plugins.plugin import Plugin


def describe_plugins(plugins: Iterable[Plugin]) -> Sequence[dict[str, Any]]:
    """The plugins as JSON, for listings. Hooks and tools of one that is not imported are those of its manifest's contracts;
    None where these do not say."""
    return [
        {
            "id": plugin.id,
            "status": plugin.status,
            "reason": plugin.reason,
            "origin": plugin.origin,
            "distribution": plugin.distribution,
            "version": plugin.version,
            "description": _description(plugin),
            "permissions": plugin.manifest.permissions if plugin.manifest else [],
            "grants": list(plugin.grants),
            "hooks": plugin.hooks if plugin.holder is not None else _contract(plugin, "hooks"),
            "tools": plugin.tools if plugin.holder is not None else _contract(plugin, "tools"),
        }
        for plugin in plugins
    ]


def _contract(plugin: Plugin, what: Literal["hooks", "tools"]) -> list[str] | None:
    return getattr(plugin.manifest.contracts, what) if plugin.manifest else None


def _description(plugin: Plugin) -> str:
    if plugin.manifest and plugin.manifest.description:
        return plugin.manifest.description
    return (inspect.getdoc(plugin.holder) or "").partition("\n")[0] if plugin.holder is not None else ""
