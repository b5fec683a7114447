"""Calling one handler, however it is written, and what to say when it fails."""

from __future__ import annotations

import asyncio
import inspect
import reprlib
from dataclasses import dataclass
from typing import Any

from hooksdk._firing.hook import Handler
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import Attempt, describe
from hooksdk._tasks.shielding import in_abandonable_thread
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
        logger.warning(
            "%s failed in %s%s: %s", self.handler.who, self.handler.hook, consequence, self,
            extra={"plugin": self.handler.plugin, "hook": self.handler.hook},
        )  # fmt: skip


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{max(seconds * 1000, 1):.0f} ms"


def failure_of(handler: Handler, attempt: Attempt, answer: object) -> Failure | None:
    """What went wrong with a handler: it raised, was late, or answered with a value that its hook does not take."""
    error = attempt.error
    if attempt.late:
        error = HookTimeout(handler.hook, handler.who, handler.timeout)
    elif error is None and answer is not None and not isinstance(answer, handler.answers):
        error = next((missing for kind, missing in handler.ungranted.items() if isinstance(answer, kind)), None)
    if error is None and answer is not None and not isinstance(answer, handler.answers):
        names = [kind.__name__ for kind in handler.answers]
        expected = " or ".join((*names, "None")) if names else f"None: {handler.hook} decides nothing"
        try:
            text = reprlib.repr(answer)
        except Exception:
            text = "what cannot be shown"
        error = BadAnswer(handler.hook, handler.who, f"{text} ({type(answer).__name__})", expected)
    return Failure(handler, error, attempt.seconds) if error is not None else None


async def call_handler(handler: Handler, event: Any) -> Any:
    """Call one handler, however it is written, without a time limit."""
    if handler.threaded:
        answer = await in_abandonable_thread(handler.call, event, limiter=handler.limiter)
    else:
        answer = handler.call(event)
    # A wrapped coroutine function looks like a plain def: its coroutine is to be awaited, it is no opinion.
    return await answer if answer is not None and inspect.isawaitable(answer) else answer
