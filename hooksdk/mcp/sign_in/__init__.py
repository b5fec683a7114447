"""Signing in to MCP servers on the web, by OAuth 2.1: where sign-ins are kept.

People sign in by `McpServers.sign_ins`, or by `hooksdk gateway login NAME` on a terminal.
"""

from __future__ import annotations

from hooksdk.mcp.sign_in._store import SignIn, SignInProblem, SignIns

__all__ = ["SignIn", "SignInProblem", "SignIns"]
