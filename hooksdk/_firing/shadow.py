"""Shadow mode: a policy is called as ever, and nothing comes of it but a record of what it would have done."""

from __future__ import annotations

import copy
from contextvars import ContextVar
from typing import Any

from hooksdk._firing.calling import call_handler
from hooksdk._firing.hook import Handler, Kind

EFFECTIVE_KINDS: frozenset[Kind] = frozenset({"decide", "narrow", "transform", "first_answer"})
"""Kinds of hooks whose answers have an effect; the handlers of others only watch, in shadow mode too."""

_without_effect: ContextVar[bool] = ContextVar("hooksdk_without_effect", default=False)


def runs_without_effect() -> bool:
    """True inside a handler in shadow mode: what it does besides answering must have no effect either."""
    return _without_effect.get()


def in_shadow(handler: Handler) -> Handler:
    """The same handler in shadow mode. The switch is in its call, so that other handlers pay nothing for it."""
    plain = copy.copy(handler)

    async def call(event: Any) -> Any:
        token = _without_effect.set(True)
        try:
            return await call_handler(plain, event)
        finally:
            _without_effect.reset(token)

    twin = copy.copy(handler)
    twin.call, twin.is_async, twin.shadow = call, True, True
    return twin
