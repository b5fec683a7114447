"""Those who listen to a session from outside: functions of the host's own, which get every trace event with what it is about."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import final

from hooksdk import hooks
from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._firing.event import Trace
from hooksdk._firing.hook import Handler
from hooksdk._firing.signature import locate

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
