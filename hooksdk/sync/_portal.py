"""The thread in which a host's event loop runs, and how other threads and other event loops, asyncio's or trio's, call
functions there."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from types import FunctionType, TracebackType
from typing import Any, TypeVar, cast, final

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from hooksdk.errors import RunClosed, SessionClosed, WouldBlock
from hooksdk.run import Compaction, JudgedCall, Run
from hooksdk.session import Session
from hooksdk.tasks import cancel_requests
from hooksdk.tools import Tool
from hooksdk.transcript import Results

T = TypeVar("T")
# Seconds after which a waiting thread looks whether the loop is still there.
BETWEEN_LOOKS = 1.0

# In a forked process: the loops of its parent. To close one would wait for its thread, which only the parent has.
_of_parents: list[object] = []
# Objects that may be used in their own loop alone: they are handed out as proxies.
_OF_THE_LOOP = (Session, Run, JudgedCall, Compaction, Results)


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


@final
class Loop:
    """The event loop in which this object is made, so that other threads can start work in it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        if cancel_requests() < 0:
            import trio

            self.soon: Callable[..., object] = trio.lowlevel.current_trio_token().run_sync_soon
            self._begin = self._begin_in_trio
        else:
            self.soon = asyncio.get_running_loop().call_soon_threadsafe
            self._begin = self._begin_in_asyncio

    def spawn(self, work: Callable[[], Awaitable[None]], on_end: Callable[[], None]) -> None:
        """Start this work there, with the caller's context variables; `on_end` is called when it has ended, failed or
        was cancelled. Raises `RuntimeError` when the loop is over."""
        context = contextvars.copy_context()
        if (sniffio := sys.modules.get("sniffio")) is not None:
            # Which async library runs is a fact of this loop, not of the caller's.
            context.run(sniffio.current_async_library_cvar.set, None)
        self.soon(self._begin, context, work, on_end)

    def _begin_in_asyncio(
        self, context: contextvars.Context, work: Callable[[], Any], on_end: Callable[[], None]
    ) -> None:
        task = asyncio.get_running_loop().create_task(work(), context=context)
        self._tasks.add(task)

        def end(task: asyncio.Task[None]) -> None:  # a task that was cancelled before it began ends, too
            self._tasks.discard(task)
            on_end()

        task.add_done_callback(end)

    def _begin_in_trio(self, context: contextvars.Context, work: Callable[[], Any], on_end: Callable[[], None]) -> None:
        import trio

        async def whole() -> None:
            try:
                await work()
            finally:
                on_end()

        trio.lowlevel.spawn_system_task(whole, context=context)


def is_async(value: object) -> bool:
    """True for an async function, and for an object that is called like one."""
    call = getattr(value, "__call__", None)  # noqa: B004 - to look at it
    return inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(call)


async def call_in(there: Loop, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function, plain or async, in another event loop, and wait for what it answers or raises. A cancellation
    here cancels it there, and is raised when it has ended."""
    here, ended, work = Loop(), anyio.Event(), Work(function, args, options)
    scopes: list[anyio.CancelScope] = []
    is_cancelled = False

    async def run() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            if is_cancelled:
                scope.cancel()
            await work.run()

    def cancel() -> None:
        for scope in scopes:
            scope.cancel()

    def tell() -> None:
        with suppress(RuntimeError):  # this loop is over, and with it whoever waited
            here.soon(ended.set)

    async def until_ended() -> None:
        while not ended.is_set():
            with anyio.move_on_after(BETWEEN_LOOKS):
                await ended.wait()
            there.soon(cancel if is_cancelled else bool)  # raises RuntimeError when it is over

    try:
        there.spawn(run, tell)
        try:
            await until_ended()
        except RuntimeError:
            raise
        except BaseException:
            is_cancelled = True
            with anyio.CancelScope(shield=True):
                there.soon(cancel)
                await until_ended()
            raise
    except RuntimeError as error:
        raise SessionClosed("the event loop of the other side") from error
    is_ours = work.error is None or isinstance(work.error, (Exception, SystemExit, KeyboardInterrupt))
    if not is_ours or not work.ended.is_set():  # that loop has cancelled it
        raise SessionClosed("the event loop of the other side")
    return work.answer()


@final
class LoopProxy:
    """A session, a run or another object of a host, for use in another event loop. Its methods run in the host's loop,
    and its properties are read there. Async executors and approvers that it is given run in their caller's loop."""

    def __init__(self, twin: Any, portal: Portal, loop: Loop) -> None:
        self.twin = twin
        self._portal, self._loop = portal, loop

    def __getattr__(self, name: str) -> Any:
        kind: Any = inspect.getattr_static(self.twin, name)
        if not isinstance(kind, FunctionType):
            return self._handed_out(self._portal.do(getattr, self.twin, name))
        method: Any = getattr(self.twin, name)
        if inspect.iscoroutinefunction(kind):
            return functools.wraps(kind)(functools.partial(self._call, method))
        if inspect.isasyncgenfunction(inspect.unwrap(kind)):
            return functools.partial(self._block, method)
        return functools.partial(self._do, method)

    def _do(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self._handed_out(self._portal.do(method, *self._taken(args), **self._options(options)))

    async def _call(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self._handed_out(await call_in(self._loop, method, *self._taken(args), **self._options(options)))

    @asynccontextmanager
    async def _block(self, method: Callable[..., AbstractAsyncContextManager[Any]]) -> AsyncGenerator[Any, None]:
        async with cast("AbstractAsyncContextManager[Any]", LoopProxy(method(), self._portal, self._loop)) as value:
            yield value

    async def __aenter__(self) -> Any:
        value = await call_in(self._loop, self.twin.__aenter__)
        return self if value is self.twin else self._handed_out(value)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await call_in(self._loop, self.twin.__aexit__, kind, error, traceback)

    def __repr__(self) -> str:
        return repr(self.twin)

    def _handed_out(self, value: Any) -> Any:
        return LoopProxy(value, self._portal, self._loop) if isinstance(value, _OF_THE_LOOP) else value

    def _taken(self, value: Any) -> Any:
        if isinstance(value, LoopProxy):
            return value.twin
        if isinstance(value, Tool):
            return value if value.execute is None else value.copy(execute=self._taken(value.execute))
        if type(value) in (list, tuple):
            return [*map(self._taken, value)]
        return self._in_callers_loop(value) if is_async(value) else value

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._taken(value) for name, value in options.items()}

    def _in_callers_loop(self, function: Callable[..., Any]) -> Callable[..., Any]:
        callers = Loop()

        @functools.wraps(function)
        async def call(*args: Any) -> Any:
            # The context of a running tool lives in the host's loop, too.
            proxies = [LoopProxy(one, self._portal, self._loop) if hasattr(one, "call_tool") else one for one in args]
            return await call_in(callers, function, *proxies)

        return call
