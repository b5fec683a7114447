"""Plugins for AI agents, the way pytest has plugins.

A plugin author needs `hooks`, `tool` and the events in `hooksdk.hooks`; a host author needs `Host`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooksdk import hooks
    from hooksdk._version import __version__ as __version__
    from hooksdk.approvals import Approval, ApprovalRequest
    from hooksdk.calls import ResultInfo, ToolCall, ToolResult, TrimReceipt
    from hooksdk.catalog import Catalog, Storage, ToolContext
    from hooksdk.config import Config
    from hooksdk.errors import HookSDKError, ToolError
    from hooksdk.host import Host
    from hooksdk.run import JudgedCall, Run
    from hooksdk.session import Session
    from hooksdk.state import FamilyState, PluginHost, PluginState
    from hooksdk.stores import JsonlStore, MemoryStore
    from hooksdk.tools import Annotations, Tool, tool
    from hooksdk.transcript import Results

__all__ = [
    "Annotations",
    "Approval",
    "ApprovalRequest",
    "Catalog",
    "Config",
    "FamilyState",
    "HookSDKError",
    "Host",
    "JsonlStore",
    "JudgedCall",
    "MemoryStore",
    "PluginHost",
    "PluginState",
    "ResultInfo",
    "Results",
    "Run",
    "Session",
    "Storage",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "TrimReceipt",
    "hooks",
    "tool",
]

# The module of each name: it is imported when the name is first used, so that a command or a plugin pays for its own
# only.
_PLACES = {
    "Annotations": "tools",
    "Approval": "approvals",
    "ApprovalRequest": "approvals",
    "Catalog": "catalog",
    "Config": "config",
    "FamilyState": "state",
    "HookSDKError": "errors",
    "Host": "host",
    "JsonlStore": "stores",
    "JudgedCall": "run",
    "MemoryStore": "stores",
    "PluginHost": "state",
    "PluginState": "state",
    "ResultInfo": "calls",
    "Results": "transcript",
    "Run": "run",
    "Session": "session",
    "Storage": "catalog",
    "Tool": "tools",
    "ToolCall": "calls",
    "ToolContext": "catalog",
    "ToolError": "errors",
    "ToolResult": "calls",
    "TrimReceipt": "calls",
    "__version__": "_version",
    "hooks": "hooks",
    "tool": "tools",
}

# Those that can be reached as `hooksdk.errors` without an import of their own.
_MODULES = {*_PLACES.values(), "errors", "formats", "manifest", "patterns", "records", "schema", "trimming"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"hooksdk.{name}")
        if name not in _PLACES:
            raise AttributeError(f"module 'hooksdk' has no attribute '{name}'", name=name)
        value = globals()[name] = getattr(importlib.import_module(f"hooksdk.{_PLACES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACES, *_MODULES})
