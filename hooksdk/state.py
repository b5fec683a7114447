"""What a plugin keeps for one session."""

from __future__ import annotations

from typing import Any

__all__ = ["PluginState"]


class PluginState(dict[str, Any]):
    """A plugin's own JSON-able mapping, kept in the session's store: what is in it when a reply is recorded, a call has
    its result, or the run ends, is there again when the session is next opened."""
