"""What a plugin keeps for one session."""

from __future__ import annotations

from typing import Any

__all__ = ["PluginState"]


class PluginState(dict[str, Any]):
    """A plugin's own JSON-able mapping, kept in the session's store: what is in it when a reply is recorded, a call has
    its result, or the run ends, is there again when the session is next opened.

    ```python
    from hooksdk import PluginState, hooks
    from hooksdk.hooks import AfterToolCall

    class Counter:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.after_tool_call
        def count(self, event: AfterToolCall) -> None:
            self.state["calls"] = self.state.get("calls", 0) + 1
    ```
    """
