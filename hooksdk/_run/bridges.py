"""Marking the tools that a plugin offers."""

from __future__ import annotations

from hooksdk.tools import Tool

__all__ = ["as_bridge"]


def as_bridge(tool: Tool) -> Tool:
    """A copy of a tool that a plugin offers through `Offer`, with `bridge` set. Neither the constructor nor `Tool.copy` can:
    policies let a bridge pass where they block unknown tools."""
    marked = tool.copy()
    object.__setattr__(marked, "bridge", True)
    return marked
