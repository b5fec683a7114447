"""A session that the host keeps open for whoever holds it next, until it is idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, final

import anyio

from hooksdk.hooks import SessionEndReason


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
        self._idle = idle
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
            if self._idle is None:
                await self.closed.wait()
                return
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
