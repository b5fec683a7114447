"""Plugins for AI agents, the way pytest has plugins.

A plugin author needs `hooks`, `tool` and the events in `hooksdk.hooks`; a host author needs `Host`.
"""

from __future__ import annotations

from hooksdk import hooks
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ResultInfo, ToolCall, ToolResult, TrimReceipt
from hooksdk.catalog import Catalog, Storage, ToolContext
from hooksdk.config import Config
from hooksdk.errors import HookSDKError, ToolError
from hooksdk.host import Host
from hooksdk.run import JudgedCall, Run
from hooksdk.session import Session
from hooksdk.state import PluginHost, PluginState
from hooksdk.stores import JsonlStore, MemoryStore
from hooksdk.tools import Annotations, Tool, tool
from hooksdk.transcript import Results

__all__ = [
    "Annotations",
    "Approval",
    "ApprovalRequest",
    "Catalog",
    "Config",
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
