"""A clock for tests of time limits: while every task waits, it jumps to the next deadline.

So a limit of 10 s passes at once, and no busy machine makes what takes 6 s late. It is real time plus the jumps, so it
does not help where threads or other processes are waited for.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

import trio.testing


class _Selector(selectors.DefaultSelector):
    jumps: float = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout else timeout)
        if not ready:
            self.jumps += timeout or 0
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with such a clock."""

    def __init__(self) -> None:
        self._jumping = _Selector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.jumps


def jumping(loop: str) -> tuple[str, Mapping[str, Any]]:
    """anyio's backend for the loop of this name, with such a clock."""
    if loop == "asyncio":
        return loop, {"loop_factory": JumpingLoop}
    return loop, {"clock": trio.testing.MockClock(rate=1, autojump_threshold=0)}
