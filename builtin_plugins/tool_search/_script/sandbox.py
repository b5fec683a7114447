"""Worker processes of pydantic-monty that run scripts. It knows nothing of tools.

A worker is driven step by step in threads, so that the same code serves asyncio and trio.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import anyio
import anyio.to_thread

from builtin_plugins.tool_search._script.script import Function, Limits, OverLimit, Script, Worker, read_variables
from builtin_plugins.tool_search._script.serialise import PRELUDE_FILE, READING
from builtin_plugins.tool_search._script.variables import Variable, Variables
from hooksdk.tasks import run_shielded

if TYPE_CHECKING:
    import pydantic_monty as monty

# Scripts that may compute at a time. Those that wait for a tool or for a person leave their place to others.
COMPUTING = 16
# Scripts that may be under way at a time; another one waits for its turn.
WORKERS = 64
# Seconds past its limit after which a worker is killed that did not stop by itself.
GRACE = 1.0
_NOT_SUPPORTED = "NotImplementedError: The monty syntax parser does not yet support "


def is_installed() -> bool:
    """Whether pydantic-monty can be used, without importing it."""
    return importlib.util.find_spec("pydantic_monty") is not None


def why_not() -> str:
    """Why no script can run here, tried with one; empty where it runs."""
    import pydantic_monty as monty

    try:
        with monty.Monty(max_processes=1) as pool, pool.checkout() as session:
            session.feed_run("1")
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """How a script ended, in the words of its reader.

    Attributes:
        value: Of its last line, as JSON; what has no form in JSON is written out in words.
        printed: The beginning of what it printed.
        characters: How much it printed.
        problem: Why it failed, with the line.
        not_awaited: The calls that it did not wait for: given up, or never begun.
        variables: The variables that were asked for, as the script has left them; None where they cannot be read, as
            after a script that was stopped.
    """

    value: object = None
    printed: str = ""
    characters: int = 0
    problem: str | None = None
    not_awaited: Sequence[str] = ()
    variables: Mapping[str, Variable] | None = None


@final
class Sandbox:
    """Worker processes, started with the first script and kept warm. Each script has a fresh namespace."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._workers = workers
        self._pool: monty.Monty | None = None
        self._starting = anyio.Lock()
        self._closed = False
        self._taken: set[Worker] = set()
        self._alive = anyio.Semaphore(workers)
        self._places = anyio.Semaphore(COMPUTING)
        self._threads = anyio.CapacityLimiter(workers + COMPUTING)

    async def run(
        self, code: str, functions: Mapping[str, Function], limits: Limits, variables: Variables | None = None
    ) -> ScriptResult:
        """Run a script that may call these functions and has these variables. However it ends, the outcome says so;
        what a function raises is raised in the script under the same built-in name. When this is cancelled, the worker
        is killed."""
        import pydantic_monty as monty

        worker_limits: monty.ResourceLimits = {
            "max_feed_duration_secs": limits.seconds,
            "max_memory": limits.memory,
            "max_recursion_depth": limits.depth,
        }
        script = Script(functions, limits)
        value, problem, left = None, None, None
        try:
            async with self._worker(worker_limits) as worker:
                try:
                    value = await script.run(worker, code, variables.values if variables else {})
                except monty.MontyError as error:
                    problem = _problem(error, limits, code)
                    if not _is_whole(error):
                        raise
                left = await _left_by(worker, variables)
        except monty.MontyError as error:
            problem = problem or _problem(error, limits, code)
        except OverLimit as error:
            problem = problem or str(error)
        return ScriptResult(
            value=value,
            printed=script.printout.text,
            characters=script.printout.characters,
            problem=problem,
            not_awaited=script.not_awaited,
            variables=left,
        )

    async def close(self) -> None:
        """Stop every worker, also those whose scripts still run; no other one is started."""
        self._closed = True
        for worker in self._taken:
            worker.kill()
        await run_shielded(self._stop)

    async def _stop(self) -> None:
        async with self._starting:
            pool, self._pool = self._pool, None
            if pool is not None:
                await self._in_thread(functools.partial(pool.__exit__, None, None, None))

    @asynccontextmanager
    async def _worker(self, limits: monty.ResourceLimits) -> AsyncGenerator[Worker, None]:
        """A worker of one's own. It goes back to the pool, or is killed if a step of it was given up."""
        async with self._alive:
            session = (await run_shielded(self._started)).checkout(limits=limits)
            worker = Worker(session, self._threads, self._places)
            try:
                # A worker that is being taken or given back when asyncio cancels the task would be lost to the pool.
                await run_shielded(self._in_thread, worker.take)
                self._check_open()
                self._taken.add(worker)
                yield worker
            finally:
                self._taken.discard(worker)
                worker.kill_if_busy()
                await run_shielded(self._in_thread, worker.give_back)

    async def _started(self) -> monty.Monty:
        async with self._starting:
            self._check_open()
            if self._pool is None:
                import pydantic_monty as monty

                pool = monty.Monty(max_processes=self._workers, feed_duration_limit_grace=GRACE)
                await self._in_thread(pool.__enter__)
                self._pool = pool
            return self._pool

    def _check_open(self) -> None:
        if self._closed:
            raise OverLimit("It was not run: the host is closing.")

    async def _in_thread(self, function: Callable[[], object]) -> None:
        await anyio.to_thread.run_sync(function, limiter=self._threads)


async def _left_by(worker: Worker, variables: Variables | None) -> Mapping[str, Variable] | None:
    """The variables that the script has left. A failure here is no failure of the script: it was run, and its value
    counts."""
    import pydantic_monty as monty

    try:
        return await read_variables(worker, variables) if variables and variables.names else {}
    except (monty.MontyError, OverLimit):
        return None


def _is_whole(error: monty.MontyError) -> bool:
    """Whether the sandbox goes on after this: not one that was stopped in the middle, by its time or its memory."""
    import pydantic_monty as monty

    text = str(error)
    return isinstance(error, monty.MontyRuntimeError) and not text.startswith(("TimeoutError", "MemoryError"))


def _problem(error: monty.MontyError, limits: Limits, code: str) -> str:
    import pydantic_monty as monty

    text = str(error)
    crashed = isinstance(error, monty.MontyCrashedError)
    if error.timed_out if crashed else text.startswith("TimeoutError") and "time limit exceeded" in text:
        return f"It was stopped: it ran longer than {limits.seconds:g} s of its own time."
    if crashed:
        return "It was stopped: its worker process died. The next script gets another one."
    if "exceeded its memory limit" in text or "memory limit exceeded" in text:
        return f"It was stopped: it needed more than {limits.memory // 2**20} MiB of memory."
    if isinstance(error, (monty.MontyRuntimeError, monty.MontySyntaxError)):
        lines = [frame.line for frame in error.traceback() if _is_own(frame)]
        text = (
            error.display("type-msg")[:4000]
            .replace(_NOT_SUPPORTED, "this Python does not have ")
            .replace("'__ask__'", "that calls a tool")
        )
        if lines:
            # From the script itself, as its last line was changed to keep its value.
            source = "".join(code.split("\n")[lines[-1] - 1 : lines[-1]]).strip()[:200]
            return f"line {lines[-1]}: {text[:2000]}" + (f"\n  {source}" if source else "")
    return text[:2000]


def _is_own(frame: monty.Frame) -> bool:
    """Whether this is a place in the script itself."""
    is_reading = (frame.source_line or "").startswith(READING)
    return frame.filename.startswith("<python-input-") and frame.filename != PRELUDE_FILE and not is_reading
