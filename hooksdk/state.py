"""What a plugin keeps for one session, and what it may ask of its host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

__all__ = ["FamilyState", "PluginHost", "PluginState"]

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


class FamilyState(Protocol):
    """A plugin's own JSON-able mapping for a family: a run and all runs of sub-agents below it (`event.family`). What
    one of them keeps, all see at once: in tasks, in processes, and on every machine that has the same store.

    ```python
    from hooksdk import FamilyState, hooks
    from hooksdk.hooks import BeforeToolCall, Block

    class FiveCalls:
        def __init__(self, family: FamilyState) -> None:
            self.family = family

        @hooks.before_tool_call
        async def spend(self, event: BeforeToolCall) -> Block | None:
            def count(state: dict[str, int]) -> bool:
                state["calls"] = state.get("calls", 0) + 1
                return state["calls"] <= 5

            return None if await self.family.update(count) else Block("five calls are enough for one task")
    ```

    It begins empty with each outermost run, also when the session is resumed; a run that goes on with what a pause or a
    crash has left finds it as it was. It is removed once its outermost run is over and nobody has a session of the
    family open in which it could be asked for; what a pause or a crash has left, 30 days after its last change. Each
    method raises `StoreError`, and `RunClosed` before the session's first run.
    """

    @property
    def id(self) -> str:
        """The family's id, as `event.family`."""
        ...

    @property
    def run(self) -> str:
        """The id of the session's run, for what is kept for a run alone: as `event.run_id`, and where it goes on with
        what a pause or a crash has left, that of the run which began it."""
        ...

    async def read(self) -> dict[str, Any]:
        """All that is kept: a fresh copy."""
        ...

    @overload
    async def get(self, key: str, default: None = None, /) -> Any: ...
    @overload
    async def get(self, key: str, default: T, /) -> T: ...
    async def get(self, key: str, default: Any = None, /) -> Any:
        """What is kept under `key` now, or `default`."""
        ...

    async def update(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Change the mapping in one step that nobody's change comes between: `change` gets it, changes it in place, and
        its answer is this method's. Durable when this returns. `change` is called anew where somebody else was faster,
        so it should do nothing else; where it raises, nothing is changed."""
        ...


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
