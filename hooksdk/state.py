"""What a plugin keeps for one session, and what it may ask of its host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

__all__ = ["PluginHost", "PluginState"]

T = TypeVar("T")


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

    if TYPE_CHECKING:  # to type checkers a value is of its default's type

        @overload
        def get(self, key: str, default: None = None, /) -> Any: ...
        @overload
        def get(self, key: str, default: T, /) -> T: ...
        def get(self, key: str, default: Any = None, /) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]


class PluginHost(Protocol):
    """What a plugin may ask of its host: who is at work, and that it be restarted. Nothing of what was said.

    A plugin class gets it as `host`, in its constructor or as the second parameter of `shared`.

    ```python
    from hooksdk import PluginHost, tool

    class Upkeep:
        def __init__(self, host: PluginHost) -> None:
            self.host = host

        @tool
        def who_works(self) -> str:
            "Name the sessions that are at work."
            return ", ".join(self.host.running)
    ```
    """

    @property
    def running(self) -> Sequence[str]:
        """The ids of the sessions that are at work: in a run, or while they open or close."""
        ...

    async def wait_idle(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - False at the limit, no error
        """Wait until no session is at work, `timeout` seconds at most; False when one still is. Whoever waits inside a
        run waits for itself. When this returns True, no run begins before the caller's next `await`."""
        ...

    async def save(self) -> None:
        """Store what the plugins keep for every open session, so that nothing is lost when the process ends now."""
        ...

    @property
    def can_restart(self) -> bool:
        """True when the program around the host has said how it is restarted: `Host(restart=...)`."""
        ...

    async def restart(self, reason: str) -> None:
        """Ask the program around the host to restart it. Raises `RuntimeError` when it has not said how, and what its
        callback raises."""
        ...
