"""One MCP server in front of many: any client gets tool search, policies, approvals and audit from the host's plugins.

    async with Host(config=...) as host, McpServers.from_file("mcp.json") as servers, Gateway(host, servers) as gateway:
        await gateway.serve_stdio()

Needs `pip install 'hooksdk[mcp]'`.

Status: stable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hooksdk.gateway._settings import GatewayConfig, Profile, Token, config_problems, narrowing, profile_of

if TYPE_CHECKING:
    from hooksdk.gateway._gateway import Gateway, ToolSource, current_request, own_streams

__all__ = [
    "Gateway",
    "GatewayConfig",
    "Profile",
    "Token",
    "ToolSource",
    "config_problems",
    "current_request",
    "narrowing",
    "own_streams",
    "profile_of",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load the names that need the MCP SDK when they are used: the settings are read without the SDK, too."""
        if name not in __all__:
            raise AttributeError(f"module 'hooksdk.gateway' has no attribute '{name}'", name=name)
        from hooksdk.gateway import _gateway

        return getattr(_gateway, name)
