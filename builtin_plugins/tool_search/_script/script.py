"""One script while it runs: its stops at calls of the host, and its value.

The worker stops at each call of a host function. The host's event loop runs the function, and the worker goes on with its
result.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, final

import anyio
from anyio.abc import TaskGroup

from builtin_plugins.tool_search._script.last_value import keeping_value
from builtin_plugins.tool_search._script.serialise import (
    MAX_TEXT,
    PRELUDE_FILE,
    prelude,
    read_json,
    reading_value,
    reading_variables,
)
from builtin_plugins.tool_search._script.values import THREAD_FROM, clean

if TYPE_CHECKING:
    import pydantic_monty as monty

MEMORY = 64 * 2**20
"""Bytes that a script may use."""
MAX_PRINTED = 1_000_000
"""Characters that a script may print; it is ended when it prints more."""
MAX_OPEN = 8_000_000
"""Characters of arguments that the calls may have together which a script has made and not yet had answered."""
AT_ONCE = 16
"""Calls of one script that run at a time; the others of a `gather` wait for their turn."""
_SLEEPS = {"system.sleep", "system.async_sleep"}
_RAISED = (PermissionError, TypeError, ValueError)
"""What keeps its name in the script; everything else is a `RuntimeError` there."""

Function = Callable[..., Awaitable[object]]
_T = TypeVar("_T")


class Step(Protocol):
    """Lets the worker go on, and comes back when it has stopped again."""

    async def __call__(self, function: Callable[[], _T]) -> _T: ...


@final
@dataclass
class Printout:
    """What a script prints: the beginning of it, and how much it is."""

    keep: int
    characters: int = 0
    _parts: list[str] = field(default_factory=list[str])

    def __call__(self, _stream: Literal["stdout", "stderr"], text: str) -> None:
        if self.characters < self.keep:
            self._parts.append(text[: self.keep - self.characters])
        self.characters += len(text)
        if self.characters > MAX_PRINTED:
            raise MemoryError(f"the script printed more than {MAX_PRINTED:,} characters")

    @property
    def text(self) -> str:
        """The beginning."""
        return "".join(self._parts)


class OverLimit(Exception):
    """The host ends the script, which cannot catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """What a script has left in one of its global variables."""

    value: object = None
    """As JSON."""
    problem: str = ""
    """Why it cannot be told, if so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one script may take."""

    seconds: float
    """Of its own time, and of its own sleep: the time of the functions that it waits for does not count."""
    calls: int = 100
    memory: int = MEMORY
    """Bytes."""
    depth: int = 200
    """Calls inside calls."""
    printed: int = 16_000
    """Characters of the printed text that are kept."""


@final
class Script:
    """One script while it runs: its calls, from the moment that it makes them until it has their results."""

    def __init__(self, functions: Mapping[str, Function], limits: Limits) -> None:
        self._functions = functions
        self._limits = limits
        self._calls = 0
        self._slept = 0.0
        self._labels: dict[int, str] = {}
        self._lengths: dict[int, int] = {}
        self._waiting: dict[int, Callable[[], Awaitable[object]]] = {}
        self._results: dict[int, monty.ExternalSettledResult] = {}
        self._source = b""
        self._places = prelude(tuple(functions))[1]
        names = "|".join(map(re.escape, functions)).encode()
        self._direct = re.compile(rb"await\s+(?:" + names + rb")\s*\(")
        self._interrupt: KeyboardInterrupt | None = None
        self._arrived = anyio.Event()
        self._turns = anyio.Semaphore(AT_ONCE)

    @property
    def not_awaited(self) -> list[str]:
        """What was called and never waited for."""
        return list(self._labels.values())

    async def drive(
        self, step: Step, session: monty.MontySession, code: str, printout: Printout, variables: Mapping[str, object]
    ) -> object:
        """Run it to its end, with these global variables to begin with. Returns the value of its last line, as JSON."""
        problem: BaseException | None = None
        value: object = None
        async with anyio.create_task_group() as tasks:
            try:
                value = await self._run_code(step, session, code, printout, variables, tasks)
            except Exception as error:  # raised outside the task group, which would wrap it
                problem = error
            tasks.cancel_scope.cancel()
        if problem := self._interrupt or problem:
            raise problem
        return value

    async def _run_code(
        self, step: Step, session: monty.MontySession, code: str, printout: Printout, variables: Mapping[str, object],
        tasks: TaskGroup,
    ) -> object:  # fmt: skip
        import pydantic_monty as monty

        def feed(source: str) -> Callable[[], monty.SyncSnapshot]:
            self._source = source.encode()
            return functools.partial(session.feed_start, source, inputs={**variables}, print_callback=printout)

        for source in keeping_value(code):
            try:
                snapshot = await step(feed(source))
            except monty.MontySyntaxError:
                if printout.characters:
                    raise
                # The last line is no expression, or the script is wrong: then the error must quote the script as it was written.
            else:
                break
        else:
            source, snapshot = code, await step(feed(code))
        await self._go_on(step, snapshot, tasks)
        if source is code:
            return None
        self._source = b""
        snapshot = await step(functools.partial(session.feed_start, reading_value(code), print_callback=printout))
        if not isinstance(snapshot, monty.MontyComplete):
            raise OverLimit("It was stopped: its value called something while it was read.")
        (value, *more) = await step(lambda: _read(str(snapshot.output))) or [None]
        if more:
            raise OverLimit("It was stopped: it changed what writes its value.")
        return value

    async def _go_on(self, step: Step, snapshot: monty.SyncSnapshot, tasks: TaskGroup) -> None:
        import pydantic_monty as monty

        while not isinstance(snapshot, monty.MontyComplete):
            if isinstance(snapshot, monty.FutureSnapshot):
                resume = functools.partial(snapshot.resume, await self._wait(snapshot, tasks))
            elif isinstance(snapshot, monty.NameLookupSnapshot):
                resume = snapshot.resume
            elif snapshot.is_os_function and snapshot.function_name not in _SLEEPS:
                resume = snapshot.resume_not_handled
            else:
                resume = functools.partial(snapshot.resume, await self._answer_call(step, snapshot))
            snapshot = await step(resume)

    async def _answer_call(self, step: Step, snapshot: monty.FunctionSnapshot) -> monty.ExternalResult:
        """The immediate answer to a call: usually a future, which gets its result when the script waits for it."""
        if snapshot.is_os_function:
            seconds = self._sleep((await step(lambda: snapshot.args))[0])  # a number: the worker has checked it
            if snapshot.function_name == "system.sleep":
                await anyio.sleep(seconds)
                return {"return_value": None}
            self._waiting[snapshot.call_id] = functools.partial(anyio.sleep, seconds)
            return {"future": ...}
        place = snapshot.position
        name = self._places.get((place.start, place.end)) if place.filename == PRELUDE_FILE else None
        if name is None:  # not one of ours: its arguments are not read
            return {"exc_type": "NameError", "message": f"name '{snapshot.function_name[:100]}' is not defined"}
        self._calls += 1
        if self._calls > self._limits.calls:
            raise OverLimit(f"It was stopped: a script may make {self._limits.calls} calls.")
        (text,) = snapshot.args
        self._lengths[snapshot.call_id] = len(text)
        if sum(self._lengths.values()) > MAX_OPEN:
            raise OverLimit(f"It was stopped: its open calls have more than {MAX_OPEN:,} characters of arguments.")
        keywords, *positional = _read(text) if len(text) < THREAD_FROM else await step(lambda: _read(text))
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
            if self._interrupt is not None:
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
                self._interrupt = error
                self._arrived.set()
                return
        self._results[call_id] = result
        self._arrived.set()


def _read(text: str) -> list[Any]:
    return read_json(clean(text[: MAX_TEXT + 1]))


async def read_variables(
    step: Step, session: monty.MontySession, names: Sequence[str], most: int, room: int
) -> dict[str, Assigned]:
    """What a script that has ended has left in these global variables; see `reading_variables`. Those that there are not are
    left out."""
    import pydantic_monty as monty

    snapshot = await step(functools.partial(session.feed_start, reading_variables(names, most, room)))
    while isinstance(snapshot, monty.NameLookupSnapshot):
        snapshot = await step(snapshot.resume)  # there is no such variable
    if not isinstance(snapshot, monty.MontyComplete):
        raise OverLimit("It changed what writes its variables.")
    assigned: dict[str, Assigned] = {}
    for entry in await step(lambda: _read(str(snapshot.output))):
        match entry:
            case [str(name), [value]] if name in names:
                assigned[name] = Assigned(value=value)
            case [str(name), str(problem)] if name in names:
                assigned[name] = Assigned(problem=problem)
            case _:
                raise OverLimit("It changed what writes its variables.")
    return assigned
