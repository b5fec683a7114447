"""Calling one handler, however it is written, and what to say when it fails."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import reprlib
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from hooksdk._firing.hook import Handler
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import Attempt, describe, in_abandonable_thread, is_uncatchable
from hooksdk.errors import BadAnswer, HookTimeout


@dataclass(frozen=True, slots=True)
class Failure:
    """A handler that raised, was late, or answered nonsense."""

    handler: Handler
    error: BaseException
    seconds: float = 0.0

    def __str__(self) -> str:
        if isinstance(self.error, HookTimeout):
            return f"no answer within {self.error.seconds:g} s (it took {_duration(self.seconds)})"
        if isinstance(self.error, BadAnswer):
            problem = f"it answered {self.error.got}; expected {self.error.expected}"
        elif isinstance(self.error, asyncio.CancelledError):
            problem = "CancelledError: it was cancelled from inside"
        else:
            problem = describe(self.error)
        return f"{problem} (after {_duration(self.seconds)})"

    def log(self, consequence: str = "") -> None:
        """Say it in one line: whose handler, where it stands, which hook, what happened, after how long."""
        who, hook = self.handler.who, self.handler.hook
        extra = {"plugin": self.handler.plugin, "hook": hook}
        logger.warning("%s failed in %s%s: %s", who, hook, consequence, self, extra=extra)


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{max(seconds * 1000, 1):.0f} ms"


def settle(handler: Handler, attempt: Attempt, answer: object) -> tuple[Any, Failure | None]:
    """What a handler came to: its answer, or what went wrong: it raised, was late, or answered with a value that its
    hook does not take."""
    error = attempt.error
    if attempt.late:
        error = HookTimeout(handler.hook, handler.who, handler.timeout)
    elif error is None and answer is not None:
        try:
            kind = next((kind for kind in handler.answers if isinstance(answer, kind)), None)
            if kind is not None:
                return plain_answer(kind, answer), None
            missing = next((missing for kind, missing in handler.ungranted.items() if isinstance(answer, kind)), None)
            error = missing or _bad_answer(handler, answer)
        except BaseException as problem:
            if is_uncatchable(problem):
                raise
            error = problem
    return None, Failure(handler, error, attempt.seconds) if error is not None else None


def plain_answer(kind: type[Any], answer: Any) -> Any:
    """An answer as an instance of our own class, each field read once and checked: a plugin's subclass may have fields
    that are missing, that raise, or that change from one reading to the next."""
    values: dict[str, Any] = {}
    for name in _field_names(kind):
        value = getattr(answer, name)
        values[name] = str.__str__(value) if isinstance(value, str) else value
    return kind(**values)


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.init)


def _bad_answer(handler: Handler, answer: object) -> BadAnswer:
    names = [kind.__name__ for kind in handler.answers]
    expected = " or ".join((*names, "None")) if names else f"None: {handler.hook} decides nothing"
    return BadAnswer(handler.hook, handler.who, _shown(answer, handler), expected)


def _shown(answer: object, handler: Handler) -> str:
    """A wrong answer in an error's words: its type alone where the right ones hide what they hold, as `Secrets`
    does."""
    kind = type(answer).__name__
    if any(not field.repr for each in handler.answers if is_dataclass(each) for field in fields(each)):
        return f"a value of type {kind}"
    try:
        return f"{reprlib.repr(answer)} ({kind})"
    except BaseException as problem:
        if is_uncatchable(problem):
            raise
        return f"what cannot be shown ({kind})"


async def call_handler(handler: Handler, event: Any) -> Any:
    """Call one handler, however it is written, without a time limit."""
    if handler.threaded:
        answer = await in_abandonable_thread(handler.call, event, limiter=handler.limiter)
    else:
        answer = handler.call(event)
    # A wrapped coroutine function looks like a plain def: its coroutine is to be awaited, it is no opinion.
    return await answer if answer is not None and inspect.isawaitable(answer) else answer
