"""One process with its whole group: started, fed, read, limited, and gone when the call is over."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

import anyio
from anyio.abc import Process

from hooksdk.tasks import run_shielded

SHOWN = 20_000
"""Characters of each stream that the model reads."""
MARGIN = 128 * 1024
"""Bytes beside them that are read to recognise a secret which the cut goes through; longer ones would show a half."""
FLOOD = 16 * 1024 * 1024
"""Bytes after which a process is stopped: nobody writes so much on purpose, and it would go on until the time limit."""
GRACE = 2.0
"""Seconds between the request to end and the end."""
CHUNK = 64 * 1024


class Output:
    """What a stream carried. Of much, the beginning and the end: the memory is bounded whatever a process writes."""

    def __init__(self) -> None:
        self.total = 0
        """Bytes."""
        self._edge = SHOWN // 2 * 4 + MARGIN  # a character has up to four bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._gap = False

    def add(self, chunk: bytes) -> None:
        """Take what was read."""
        self.total += len(chunk)
        room = self._edge - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > 2 * self._edge:
            del self._tail[: -self._edge]
            self._gap = True

    def text(self, mask: Callable[[str], str]) -> str:
        """The text, masked before it is clipped: half a secret would not be recognised."""

        def read(part: bytes | bytearray) -> str:
            return mask(part.decode("utf-8", "replace"))

        half = SHOWN // 2
        if not self._gap:
            text = read(self._head + self._tail)
            if len(text) <= SHOWN:
                return text
            head, tail = text[:half], text[-half:]
        else:
            # At the gap a secret may be cut in two. Only what reads the same with the margin and without it is whole.
            head = _same(read(self._head), read(self._head[:-MARGIN]))[:half]
            tail = _same(read(self._tail)[::-1], read(self._tail[MARGIN:])[::-1])[:half][::-1]
        return f"{head}\n[... the middle of {self.total:,} bytes is left out ...]\n{tail}"


def _same(one: str, other: str) -> str:
    """The text that both begin with."""
    return one[: next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))]


@dataclass(kw_only=True)
class Execution:
    """A process that has ended, and what it wrote."""

    exit_code: int | None = None
    """None when it was stopped; negative: the number of the signal that ended it."""
    seconds: float = 0.0
    stopped: Literal["", "time", "flood"] = ""
    """Which limit it passed."""
    out: Output = field(default_factory=Output)
    err: Output = field(default_factory=Output)


async def execute(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    input: str = "",  # noqa: A002 - the word of subprocess
    seconds: float,
) -> Execution:
    """Run a command to its end, or to its limit. When this returns or raises, cancelled or not, its process group is
    gone. Raises `OSError` or `ValueError` when it cannot be started."""
    input_bytes = input.encode("utf-8")
    execution, began = Execution(), time.monotonic()
    with contextlib.ExitStack() as stack:
        in_read, in_write = _pipe(stack)
        out_read, out_write = _pipe(stack)
        err_read, err_write = _pipe(stack)
        processes: list[Process] = []

        async def start() -> None:
            process = await anyio.open_process(
                command, stdin=in_read, stdout=out_write, stderr=err_write, cwd=cwd, env=env, start_new_session=True
            )
            processes.append(process)

        async def stop() -> None:
            for process in processes:
                await _stop(process)

        try:
            await run_shielded(start)
            for end in (in_read, out_write, err_write):
                end.close()
            with anyio.move_on_after(seconds) as limit:
                async with anyio.create_task_group() as group:
                    group.start_soon(_feed, in_write, input_bytes)
                    group.start_soon(_read, out_read, execution.out, limit)
                    group.start_soon(_read, err_read, execution.err, limit)
                    # Not until its streams end: a grandchild in the background may hold them open.
                    execution.exit_code = await processes[0].wait()
                    group.cancel_scope.cancel()
            if execution.exit_code is None:
                flood = max(execution.out.total, execution.err.total) > FLOOD
                execution.stopped = "flood" if flood else "time"
        finally:
            await run_shielded(stop)
        for end, output in ((out_read, execution.out), (err_read, execution.err)):
            _sweep(end, output)
    execution.seconds = time.monotonic() - began
    return execution


def _pipe(stack: contextlib.ExitStack) -> tuple[BinaryIO, BinaryIO]:
    """Both ends of a pipe, closed with the stack if not before."""
    reading, writing = os.pipe()
    return stack.enter_context(os.fdopen(reading, "rb", 0)), stack.enter_context(os.fdopen(writing, "wb", 0))


async def _feed(end: BinaryIO, rest: bytes) -> None:
    """Write the input, and close: a process that reads to the end waits for that."""
    with contextlib.suppress(BrokenPipeError):  # it does not read it, as is its right
        while rest:
            await anyio.wait_writable(end)
            # A pipe that can be written takes this much at once; more would block the event loop.
            rest = rest[os.write(end.fileno(), rest[: select.PIPE_BUF]) :]
    end.close()


async def _read(end: BinaryIO, output: Output, limit: anyio.CancelScope) -> None:
    while True:
        await anyio.wait_readable(end)
        chunk = os.read(end.fileno(), CHUNK)
        if not chunk:
            return
        output.add(chunk)
        if output.total > FLOOD:
            limit.cancel()


def _sweep(end: BinaryIO, output: Output) -> None:
    """Take what is in the pipe still. Never more than a pipe holds: what left the group may go on writing."""
    os.set_blocking(end.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(16):
            chunk = os.read(end.fileno(), CHUNK)
            if not chunk:
                return
            output.add(chunk)


async def _stop(process: Process) -> None:
    """End the whole group: kindly, and after the grace for certain; what the process left behind goes with it."""
    if process.returncode is None:
        _signal(process, signal.SIGTERM)
        with anyio.move_on_after(GRACE):
            await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody of the group is left
        os.killpg(process.pid, number)
