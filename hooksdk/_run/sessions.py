"""What a host hands to its sessions, who listens to them from outside, and how a session is held open for the next holder."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, final

import anyio

from hooksdk import hooks
from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._firing.event import Trace
from hooksdk._firing.hook import Handler
from hooksdk._firing.signature import locate
from hooksdk._plugins.registry import Registry
from hooksdk._run.families import FamilyMembers
from hooksdk._tasks.background import Background
from hooksdk.approvals import Approver
from hooksdk.config import Config
from hooksdk.hooks import SessionEndReason
from hooksdk.state import PluginHost
from hooksdk.transcript import Store


@dataclass(frozen=True, kw_only=True)
class SessionParts:
    """What a host hands to its sessions.

    Attributes:
        shared: What `shared` of each plugin class yielded, by plugin.
        on_idle: Called when the session may be idle now: it has opened, or a run of it has ended.
        families: Those of the session and of its sub-agents.
        wait: Seconds to wait for a session that somebody else holds.
        renew: Answers the parts by which a session opens, where the host follows its files; its sub-agents keep them.
    """

    config: Config
    registry: Registry
    background: Background
    store: Store
    approver: Approver | None
    shared: Mapping[str, Any]
    on_open: Callable[[Any], None]
    on_close: Callable[[Any], None]
    on_idle: Callable[[], None]
    plugin_host: PluginHost
    families: FamilyMembers = field(default_factory=FamilyMembers)
    wait: float
    renew: Callable[[SessionParts], Awaitable[SessionParts]] | None = None


# A function of one trace event, plain or async. What it answers is ignored.
Listener = Callable[[Trace], Awaitable[None] | None]


@final
class Listeners:
    """The listeners of one session and of its sub-agents' sessions."""

    def __init__(self) -> None:
        self._handlers: list[Handler] = []
        self._dispatchers: list[Dispatcher] = []

    def add(self, listener: Listener) -> Callable[[], None]:
        """Let it listen to every session here; answers the function that ends this."""
        if not callable(listener):
            raise TypeError(f"on_event takes a function of one event, not {listener!r:.80}. Give the function itself")
        handler = _handler(listener)
        self._handlers.append(handler)
        for dispatcher in self._dispatchers:
            dispatcher.listen(handler)

        def stop() -> None:
            if handler in self._handlers:
                self._handlers.remove(handler)
                for dispatcher in self._dispatchers:
                    dispatcher.ignore(handler)

        return stop

    def attach(self, dispatcher: Dispatcher) -> None:
        """A session opens."""
        self._dispatchers = [each for each in self._dispatchers if not each.stopped]
        self._dispatchers.append(dispatcher)
        for handler in self._handlers:
            dispatcher.listen(handler)


def _handler(listener: Listener) -> Handler:
    async def hand_over(event: Trace) -> None:
        pending = listener(event)
        if inspect.isawaitable(pending):
            await pending

    handler = Handler(hooks.trace, hand_over, hand_over, "host")
    handler.function = getattr(listener, "__qualname__", type(listener).__qualname__)
    handler.who = f"the listener {locate(listener)}"
    return handler


class Holdable(Protocol):
    """What is asked of a session here."""

    @property
    def running(self) -> bool:
        """True while it is at work."""
        ...

    async def __aenter__(self) -> Any: ...

    async def close(self, reason: SessionEndReason = "closed") -> None:
        """Close it."""
        ...


S = TypeVar("S", bound=Holdable)


@final
class HeldSession(Generic[S]):
    """A session that the host keeps open until it is idle.

    Attributes:
        error: Why it could not be opened.
        settled: It is open, or could not be opened.
        closed: Somebody closes it.
    """

    def __init__(self, idle: float | None, on_idle: Callable[[], None]) -> None:
        self.session: S | None = None
        self.error: Exception | None = None
        self.settled = anyio.Event()
        self.closed = anyio.Event()
        self.ended = anyio.Event()
        self._idle = math.inf if idle is None else idle
        self._on_idle = on_idle
        self._used = 0.0

    def touch(self) -> None:
        """It is used now."""
        self._used = anyio.current_time()

    def tell_idle(self) -> None:
        """It may be idle now: it has opened, or a run of it has ended."""
        self.touch()
        self._on_idle()

    async def keep(self) -> None:
        """Open it, and close it once it is idle."""
        assert self.session is not None
        try:
            await self.session.__aenter__()
        except Exception as error:
            self.error = error
            return
        finally:
            self.settled.set()
        self.touch()
        while not self.closed.is_set():
            rest = self._idle if self.session.running else self._used + self._idle - anyio.current_time()
            if rest <= 0:
                await self.session.close("idle")
                return
            with anyio.move_on_after(rest):
                await self.closed.wait()

    def end(self) -> None:
        """Nobody keeps it any more."""
        self.settled.set()
        self.ended.set()
