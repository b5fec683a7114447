"""Shadow mode: a policy is called as ever, and its answer has no effect: only a record says what it would have done."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from hooksdk._firing.calling import call_handler, wrapped
from hooksdk._firing.hook import Handler, Kind

# Kinds of hooks whose answers have an effect; the handlers of others only watch, in shadow mode too.
EFFECTIVE_KINDS: frozenset[Kind] = frozenset({"decide", "narrow", "transform", "first_answer"})

_without_effect: ContextVar[bool] = ContextVar("hooksdk_without_effect", default=False)


def runs_without_effect() -> bool:
    """True inside a handler in shadow mode: what it does besides answering must have no effect either."""
    return _without_effect.get()


def in_shadow(handler: Handler) -> Handler:
    """A twin of the handler in shadow mode."""
    twin = wrapped(handler, _call_without_effect)
    twin.shadow = True
    return twin


async def _call_without_effect(handler: Handler, event: Any) -> Any:
    token = _without_effect.set(True)
    try:
        return await call_handler(handler, event)
    finally:
        _without_effect.reset(token)
