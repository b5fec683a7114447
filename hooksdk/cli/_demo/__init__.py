"""`hooksdk demo`: a scripted model does a real job with real tools, and every hook at work is shown."""

from __future__ import annotations


def headline(*, real: bool) -> str:
    """The first line, which is printed before anything that takes its time to be imported."""
    return f"hooksdk demo: a scripted model, {'real MCP servers' if real else 'real tools'}, real hooks"
