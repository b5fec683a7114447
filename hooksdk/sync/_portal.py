"""The thread in which a host's event loop runs, and how other threads call functions there."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, final

from anyio.from_thread import BlockingPortal, start_blocking_portal

from hooksdk.errors import RunClosed, SessionClosed, WouldBlock

T = TypeVar("T")
# Seconds after which a waiting thread looks whether the loop is still there.
BETWEEN_LOOKS = 1.0

# In a forked process: the loops of its parent. To close one would wait for its thread, which only the parent has.
_of_parents: list[object] = []


@final
class Work:
    """A call in the loop, with what it answers or raises: a traceback shows no frames of futures."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._function, self._args, self._options = function, args, options
        self.value: Any = None
        self.error: BaseException | None = None
        self.ended = threading.Event()

    async def run(self) -> None:
        try:
            value = self._function(*self._args, **self._options)
            self.value = await value if inspect.isawaitable(value) else value
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def answer(self) -> Any:
        """The value that the call has answered; raises what the call has raised."""
        if self.error is None:
            return self.value
        try:
            raise self.error
        finally:
            del self  # else the error's traceback would hold this frame, and this frame the error


@final
class Portal:
    """An event loop in a thread of its own, once it is opened."""

    def __init__(self) -> None:
        self._manager: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_open(self) -> bool:
        return self._portal is not None and self._thread is not None and self._thread.is_alive()

    def open(self) -> None:
        self._manager = start_blocking_portal("asyncio", name="hooksdk host")
        try:
            self._portal = self._manager.__enter__()
            self._thread = self._portal.call(threading.current_thread)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the loop. Calls that still run in it are cancelled, and raise `SessionClosed` for their callers."""
        manager, portal, thread = self._manager, self._portal, self._thread
        self._manager = self._portal = self._thread = None
        if thread is not None and not thread.is_alive():
            _of_parents.append(manager)
            return
        if manager is not None and portal is not None:
            stop = Exception(
                "the host has closed"
            )  # an error makes it cancel what still runs instead of waiting for it
            manager.__exit__(Exception, stop, None)

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function, plain or async, in the loop, and wait for what it answers or raises. It sees the caller's
        context variables. Ctrl-C while it is waited for cancels it, and is raised when it has ended."""
        portal, thread = self._portal, self._thread
        if portal is None or thread is None:
            raise SessionClosed("the host", "with")
        if thread is threading.current_thread():
            raise WouldBlock
        if not thread.is_alive():
            raise SessionClosed("the host", "with")
        work = Work(function, args, options)
        future = portal.start_task_soon(work.run)
        try:
            while not work.ended.wait(BETWEEN_LOOKS):
                if not thread.is_alive():
                    raise SessionClosed("the host", "with")
        except BaseException:
            future.cancel()
            while thread.is_alive() and not work.ended.wait(BETWEEN_LOOKS):
                pass
            raise
        if work.error is None:
            return work.value
        if isinstance(work.error, asyncio.CancelledError) and self._portal is None:
            raise SessionClosed("the host", "with")
        try:
            raise _in_plain_words(work.error)
        finally:
            del work  # else the error's traceback would hold this frame, and this frame the error

    def do(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call a plain function: in the loop while it runs, so that nothing changes meanwhile; else in this thread."""
        if self._thread not in {None, threading.current_thread()}:
            return self.call(function, *args, **options)
        try:
            return function(*args, **options)
        except (RunClosed, SessionClosed) as error:
            _in_plain_words(error)
            raise


def _in_plain_words(error: BaseException) -> BaseException:
    if isinstance(error, SessionClosed):
        error.block = "with"
    elif isinstance(error, RunClosed):
        error.what = error.what.replace("`async with ", "`with ")
    return error
