"""One script while it runs: from stop to stop, and what it called in between.

The worker stops at each call of a host function. The host's event loop runs the function, and the worker goes on with its
result.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, final

import anyio
from anyio.abc import TaskGroup

from builtin_plugins.tool_search._script_values import clean

if TYPE_CHECKING:
    import pydantic_monty as monty

__all__ = ["MEMORY", "Function", "Limits", "OverLimit", "Script"]

MEMORY = 64 * 2**20
"""Bytes that a script may use, and the checker while it reads one."""
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


class OverLimit(Exception):
    """The host ends the script, which cannot catch it."""


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
        self._waiting: dict[int, Callable[[], Awaitable[object]]] = {}
        self._settled: dict[int, monty.ExternalSettledResult] = {}
        self._ends: dict[int, tuple[str, int]] = {}
        self._interrupt: KeyboardInterrupt | None = None
        self._arrived = anyio.Event()
        self._turns = anyio.Semaphore(AT_ONCE)

    @property
    def not_awaited(self) -> list[str]:
        """What was called and never waited for."""
        return list(self._labels.values())

    async def drive(self, step: Step, start: Callable[[], monty.SyncSnapshot]) -> object:
        """From stop to stop, to the value of the last expression."""
        problem: BaseException | None = None
        value: object = None
        async with anyio.create_task_group() as tasks:
            try:
                value = await self._go_on(step, start, tasks)
            except Exception as error:  # raised outside, so that no group of one comes around it
                problem = error
            tasks.cancel_scope.cancel()
        if problem := self._interrupt or problem:
            raise problem
        return value

    async def _go_on(self, step: Step, start: Callable[[], monty.SyncSnapshot], tasks: TaskGroup) -> object:
        import pydantic_monty as monty

        resume: Callable[[], monty.SyncSnapshot] = start
        while True:
            snapshot = await step(resume)
            if isinstance(snapshot, monty.MontyComplete):
                return await step(lambda done=snapshot: done.output)
            if isinstance(snapshot, monty.FutureSnapshot):
                resume = functools.partial(snapshot.resume, await self._wait(snapshot, tasks))
            elif isinstance(snapshot, monty.NameLookupSnapshot):
                known = snapshot.object_id is None and snapshot.variable_name in self._functions
                given = {"value": _stand_in(snapshot.variable_name)} if known else {}
                resume = functools.partial(snapshot.resume, **given)
            elif snapshot.is_os_function and snapshot.function_name not in _SLEEPS:
                resume = snapshot.resume_not_handled
            else:
                resume = functools.partial(snapshot.resume, await self._called(step, snapshot))

    async def _called(self, step: Step, snapshot: monty.FunctionSnapshot) -> monty.ExternalResult:
        """What a call is answered at once: mostly a promise, kept when the script waits for it."""
        name = snapshot.function_name
        arguments, named = await step(lambda: (snapshot.args, snapshot.kwargs))
        if snapshot.is_os_function:
            seconds = self._sleep(arguments)
            if name == "system.sleep":
                await anyio.sleep(seconds)
                return {"return_value": None}
            self._waiting[snapshot.call_id] = functools.partial(anyio.sleep, seconds)
            return {"future": ...}
        function = self._functions.get(name)
        if function is None:
            return {"exc_type": "NameError", "message": f"name '{name[:100]}' is not defined"}
        self._calls += 1
        if self._calls > self._limits.calls:
            raise OverLimit(f"It was stopped: a script may make {self._limits.calls} calls.")
        self._labels[snapshot.call_id] = f"{name}({str(arguments[0])[:100]!r})" if arguments else f"{name}()"
        self._waiting[snapshot.call_id] = functools.partial(function, *arguments, **named)
        self._ends[snapshot.call_id] = (snapshot.position.filename, snapshot.position.end)
        return {"future": ...}

    def _sleep(self, arguments: tuple[Any, ...]) -> float:
        seconds = max(0.0, float(arguments[0]))
        self._slept += seconds
        if not self._slept <= self._limits.seconds:
            raise OverLimit(f"It was stopped: a script may sleep {self._limits.seconds:g} s in all.")
        return seconds

    async def _wait(self, snapshot: monty.FutureSnapshot, tasks: TaskGroup) -> dict[int, monty.ExternalSettledResult]:
        """Begin what was called, and wait until something of it has ended."""
        # The worker does not say which of its open calls are awaited. Where `await` stands before a call itself, it is
        # that one, and another that was only made is not begun.
        place = (snapshot.position.filename, snapshot.position.end)
        direct = [call_id for call_id in snapshot.pending_call_ids if self._ends.get(call_id) == place]
        begun = [max(direct)] if direct else sorted(snapshot.pending_call_ids)  # in the order in which they were made
        for call_id in begun:
            if call_id in self._waiting:
                tasks.start_soon(self._run, call_id, self._waiting.pop(call_id))
        while not self._settled:
            if self._interrupt is not None:
                raise OverLimit("It was interrupted.")
            self._arrived = anyio.Event()
            await self._arrived.wait()
        settled, self._settled = self._settled, {}
        for call_id in settled:
            self._labels.pop(call_id, None)
            self._ends.pop(call_id, None)
        return settled

    async def _run(self, call_id: int, function: Callable[[], Awaitable[object]]) -> None:
        result: monty.ExternalSettledResult
        async with self._turns:
            try:
                result = {"return_value": await function()}
            except Exception as error:
                kind = type(error).__name__ if type(error) in _RAISED else "RuntimeError"
                result = {"exc_type": cast("monty.ExcType", kind), "message": clean(str(error))}
            except KeyboardInterrupt as error:  # raised outside of the task group, which would wrap it up
                self._interrupt = error
                self._arrived.set()
                return
        self._settled[call_id] = result
        self._arrived.set()


def _stand_in(name: str) -> Callable[..., object]:
    """What a function is in the script where it is not called but named, such as `functools.partial(call, "x")`."""

    def stand_in() -> None: ...

    stand_in.__name__ = name
    return stand_in
