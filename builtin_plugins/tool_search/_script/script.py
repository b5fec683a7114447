"""One script while it runs: its stops at calls of the host, and its value.

The worker stops at each call of a host function. The host's event loop runs the function, and the worker goes on with
its result.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, final

import anyio
from anyio.abc import TaskGroup

from builtin_plugins.tool_search._script import serialise
from builtin_plugins.tool_search._script.values import THREAD_FROM, clean
from builtin_plugins.tool_search._script.variables import Variable, Variables, keeping_value
from builtin_plugins.tool_search._sentences import SCRIPT_MODULES

if TYPE_CHECKING:
    import pydantic_monty as monty

# Bytes that a script may use.
MEMORY = 64 * 2**20
# Characters that a script may print; it is ended when it prints more.
MAX_PRINTED = 1_000_000
# Characters of arguments that the calls may have together which a script has made and not yet had answered.
MAX_OPEN = 8_000_000
# Calls of one script that run at a time; the others of a `gather` wait for their turn.
AT_ONCE = 16
_SLEEPS = {"system.sleep", "system.async_sleep"}
# Exceptions that keep their name in the script; every other one is a `RuntimeError` there.
_RAISED = (PermissionError, TypeError, ValueError)

Function = Callable[..., Awaitable[object]]
_T = TypeVar("_T")


@final
@dataclass
class Printout:
    """What a script prints: the beginning of it, and how much it is."""

    keep: int
    characters: int = 0
    text: str = ""

    def __call__(self, _stream: Literal["stdout", "stderr"], text: str) -> None:
        self.text = (self.text + text)[: self.keep]
        self.characters += len(text)
        if self.characters > MAX_PRINTED:
            raise MemoryError(f"the script printed more than {MAX_PRINTED:,} characters")


class OverLimit(Exception):
    """The host ends the script, which cannot catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one script.

    Attributes:
        seconds: Of its own time, and of its own sleep: the time of the functions that it waits for does not count.
        memory: Bytes.
        depth: Calls inside calls.
        printed: Characters of the printed text that are kept.
    """

    seconds: float
    calls: int = 100
    memory: int = MEMORY
    depth: int = 200
    printed: int = 16_000


@final
class Worker:
    """One worker process while a script has it."""

    def __init__(self, session: monty.MontySession, threads: anyio.CapacityLimiter, places: anyio.Semaphore) -> None:
        self.session = session
        self._threads = threads
        self._places = places
        self._is_taken = False
        self._busy = False
        self._pid: int | None = None

    def take(self) -> None:
        """Take it out of the pool."""
        self.session.__enter__()
        self._is_taken = True
        self._pid = self.session.worker_pid  # a busy worker does not say it

    def give_back(self) -> None:
        """Give it back to the pool, if it was taken."""
        if self._is_taken:
            self.session.__exit__(None, None, None)

    async def step(self, function: Callable[[], _T]) -> _T:
        """Let the worker go on, in a thread; a cancellation does not wait for it."""
        async with self._places:
            self._busy = True
            try:
                answer = await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=self._threads)
            except Exception:
                self._busy = False
                raise
            self._busy = False
            return answer

    def kill_if_busy(self) -> None:
        """A worker whose step was given up would go on to its limit, and its thread with it."""
        if self._busy:
            self.kill()

    def kill(self) -> None:
        """End the process, whatever it does."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, getattr(signal, "SIGKILL", signal.SIGTERM))


@final
class Script:
    """One script while it runs: its calls, from the moment that it makes them until it has their results."""

    def __init__(self, functions: Mapping[str, Function], limits: Limits) -> None:
        self.printout = Printout(limits.printed)
        self._functions = functions
        self._limits = limits
        self._calls = 0
        self._slept = 0.0
        self._labels: dict[int, str] = {}
        self._lengths: dict[int, int] = {}
        self._waiting: dict[int, Callable[[], Awaitable[object]]] = {}
        self._results: dict[int, monty.ExternalSettledResult] = {}
        self._source = b""
        self._prelude, self._places = serialise.prelude(tuple(functions))
        names = "|".join(map(re.escape, functions)).encode()
        self._direct = re.compile(rb"await\s+(?:" + names + rb")\s*\(")
        self._problem: BaseException | None = None
        self._arrived = anyio.Event()
        self._turns = anyio.Semaphore(AT_ONCE)

    @property
    def not_awaited(self) -> list[str]:
        """The calls that the script never waited for."""
        return list(self._labels.values())

    async def run(self, worker: Worker, code: str, variables: Mapping[str, object]) -> object:
        """Run it to its end, with these global variables to begin with. Returns the value of its last line, as JSON."""
        value: object = None
        async with anyio.create_task_group() as tasks:
            try:
                value = await self._value_of(worker, code, variables, tasks)
            except Exception as error:  # raised outside the task group, which would wrap it
                self._problem = self._problem or error
            tasks.cancel_scope.cancel()
        if self._problem is not None:
            raise self._problem
        return value

    async def _value_of(self, worker: Worker, code: str, variables: Mapping[str, object], tasks: TaskGroup) -> object:
        import pydantic_monty as monty

        modules = f"{self._prelude}\nimport {', '.join(SCRIPT_MODULES)}"
        await worker.step(lambda: worker.session.feed_run(modules))
        snapshot, keeps_value = await self._begin(worker, code, variables)
        await self._go_on(worker, snapshot, tasks)
        if not keeps_value:
            return None
        self._source = b""
        reading = functools.partial(
            worker.session.feed_start, serialise.reading_value(code), print_callback=self.printout
        )
        snapshot = await worker.step(reading)
        if not isinstance(snapshot, monty.MontyComplete):
            raise OverLimit("It was stopped: its value called something while it was read.")
        (value, *more) = await worker.step(lambda: _read(str(snapshot.output))) or [None]
        if more:
            raise OverLimit("It was stopped: it changed what writes its value.")
        return value

    async def _begin(
        self, worker: Worker, code: str, variables: Mapping[str, object]
    ) -> tuple[monty.SyncSnapshot, bool]:
        """Where it stops first, and whether its value is kept."""
        import pydantic_monty as monty

        def feed(source: str) -> Callable[[], monty.SyncSnapshot]:
            self._source = source.encode()
            start = worker.session.feed_start
            return functools.partial(start, source, inputs={**variables}, print_callback=self.printout)

        for source in keeping_value(code):
            try:
                return await worker.step(feed(source)), True
            except monty.MontySyntaxError:
                if self.printout.characters:
                    raise
                # The last line is no expression, or the script is wrong: then the error must quote it as it was
                # written.
        return await worker.step(feed(code)), False

    async def _go_on(self, worker: Worker, snapshot: monty.SyncSnapshot, tasks: TaskGroup) -> None:
        import pydantic_monty as monty

        while not isinstance(snapshot, monty.MontyComplete):
            if isinstance(snapshot, monty.FutureSnapshot):
                resume = functools.partial(snapshot.resume, await self._wait(snapshot, tasks))
            elif isinstance(snapshot, monty.NameLookupSnapshot):
                resume = snapshot.resume
            elif snapshot.is_os_function and snapshot.function_name not in _SLEEPS:
                resume = snapshot.resume_not_handled
            else:
                resume = functools.partial(snapshot.resume, await self._answer_call(worker, snapshot))
            snapshot = await worker.step(resume)

    async def _answer_call(self, worker: Worker, snapshot: monty.FunctionSnapshot) -> monty.ExternalResult:
        """The immediate answer to a call: usually a future, which gets its result when the script waits for it."""
        if snapshot.is_os_function:
            seconds = self._sleep((await worker.step(lambda: snapshot.args))[0])  # a number: the worker has checked it
            if snapshot.function_name == "system.sleep":
                await anyio.sleep(seconds)
                return {"return_value": None}
            self._waiting[snapshot.call_id] = functools.partial(anyio.sleep, seconds)
            return {"future": ...}
        place = snapshot.position
        name = self._places.get((place.start, place.end)) if place.filename == serialise.PRELUDE_FILE else None
        if name is None:  # not one of ours: its arguments are not read
            return {"exc_type": "NameError", "message": f"name '{snapshot.function_name[:100]}' is not defined"}
        self._calls += 1
        if self._calls > self._limits.calls:
            raise OverLimit(f"It was stopped: a script may make {self._limits.calls} calls.")
        (text,) = snapshot.args
        self._lengths[snapshot.call_id] = len(text)
        if sum(self._lengths.values()) > MAX_OPEN:
            raise OverLimit(f"It was stopped: its open calls have more than {MAX_OPEN:,} characters of arguments.")
        keywords, *positional = _read(text) if len(text) < THREAD_FROM else await worker.step(lambda: _read(text))
        if not isinstance(keywords, dict):
            raise OverLimit("It was stopped: it changed what writes its calls.")
        first = repr(positional[0][:100]) if positional and isinstance(positional[0], str) else ""
        self._labels[snapshot.call_id] = f"{name}({first})"
        self._waiting[snapshot.call_id] = functools.partial(self._functions[name], *positional, **keywords)
        return {"future": ...}

    def _sleep(self, duration: float) -> float:
        seconds = max(0.0, float(duration))
        self._slept += seconds
        if not self._slept <= self._limits.seconds:
            raise OverLimit(f"It was stopped: a script may sleep {self._limits.seconds:g} s in all.")
        return seconds

    async def _wait(self, snapshot: monty.FutureSnapshot, tasks: TaskGroup) -> dict[int, monty.ExternalSettledResult]:
        """Start the calls that wait, and return the results of those that have ended since."""
        # The worker does not say which of its open calls are awaited. Where the script stopped at `await NAME(`, it is
        # the newest call; a call that is never awaited is then not started.
        direct = self._direct.match(self._source, snapshot.position.start)
        pending = sorted(snapshot.pending_call_ids)  # in the order in which they were made
        for call_id in pending[-1:] if direct else pending:
            if call_id in self._waiting:
                tasks.start_soon(self._run, call_id, self._waiting.pop(call_id))
        while not self._results:
            if self._problem is not None:
                raise OverLimit("It was interrupted.")
            self._arrived = anyio.Event()
            await self._arrived.wait()
        results, self._results = self._results, {}
        for call_id in results:
            self._labels.pop(call_id, None)
            self._lengths.pop(call_id, None)
        return results

    async def _run(self, call_id: int, function: Callable[[], Awaitable[object]]) -> None:
        result: monty.ExternalSettledResult
        async with self._turns:
            try:
                result = {"return_value": await function()}
            except Exception as error:
                kind = type(error).__name__ if type(error) in _RAISED else "RuntimeError"
                result = {"exc_type": cast("monty.ExcType", kind), "message": clean(str(error))}
            except KeyboardInterrupt as error:  # raised outside the task group, which would wrap it
                self._problem = error
                self._arrived.set()
                return
        self._results[call_id] = result
        self._arrived.set()


def _read(text: str) -> list[Any]:
    return serialise.read_json(clean(text[: serialise.MAX_TEXT + 1]))


async def read_variables(worker: Worker, wanted: Variables) -> dict[str, Variable]:
    """The values of these global variables after the script has ended; see `reading_variables`. Names that are not
    defined are left out."""
    import pydantic_monty as monty

    reading = serialise.reading_variables(wanted.names, wanted.most, wanted.room)
    snapshot = await worker.step(functools.partial(worker.session.feed_start, reading))
    while isinstance(snapshot, monty.NameLookupSnapshot):
        snapshot = await worker.step(snapshot.resume)  # there is no such variable
    assigned: dict[str, Variable] = {}
    written = str(snapshot.output) if isinstance(snapshot, monty.MontyComplete) else "[0]"
    for entry in await worker.step(lambda: _read(written)):
        match entry:
            case [str(name), [value]] if name in wanted.names:
                assigned[name] = Variable(value=value)
            case [str(name), str(problem)] if name in wanted.names:
                assigned[name] = Variable(problem=problem)
            case _:
                raise OverLimit("It changed what writes its variables.")
    return assigned
