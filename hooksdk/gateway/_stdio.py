"""The transport over this process's stdin and stdout, to which nothing but the protocol is written."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any, cast, final

import anyio
import anyio.to_thread
from anyio.abc import AsyncResource
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from hooksdk.stores.files import write_all

CHUNK = 64 * 1024
STDIN, STDOUT, STDERR = 0, 1, 2
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)


@contextmanager
def own_streams() -> Generator[tuple[int, int]]:
    """The descriptors of the protocol: stdin and stdout as they were. Within the block other code that reads stdin
    finds nothing, and what it prints goes to stderr; that holds for children and C code, too."""
    sys.stdout.flush()
    reads, writes = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, STDIN)
        os.dup2(STDERR, STDOUT)
        yield reads, writes
    finally:
        sys.stdout.flush()
        os.dup2(reads, STDIN)
        os.dup2(writes, STDOUT)
        for descriptor in (nothing, reads, writes):
            os.close(descriptor)


async def serve_streams(server: Server[Any], streams: tuple[int, int]) -> None:
    """Serve the client at these two descriptors until it closes the first."""
    stdin, answers = _Lines(streams[0]), _Answers(streams[1])
    async with (
        stdio_server(cast("Any", stdin), cast("Any", answers)) as (read, write),
        anyio.create_task_group() as group,
    ):
        await write.aclose()  # its `send` returns before anything is written
        group.start_soon(answers.write)
        await server.run(read, answers, server.create_initialization_options())


@final
class _Lines:
    """The client's lines. No thread hangs in a read, so that Ctrl-C ends the program whatever the client does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[str]:
        rest = b""
        while chunk := await self._read():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield _readable(line)
        if rest.strip():
            yield _readable(rest)

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
        except (OSError, ValueError, NotImplementedError):  # it is a file, which is always ready
            return await anyio.to_thread.run_sync(os.read, self._descriptor, CHUNK, abandon_on_cancel=True)
        return os.read(self._descriptor, CHUNK)


def _readable(line: bytes) -> str:
    """The line as text. A model may write half of an emoji, which clients send as an escape that cannot be read: a
    sign takes its place, so that the call is answered."""
    text = line.decode("utf-8", "replace")
    if _SURROGATE.search(text):
        with contextlib.suppress(ValueError, RecursionError):
            return json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace").decode()
    return text


@final
class _Answers(AsyncResource):
    """The stream of answers. Each is written whole, one after the other, also where its sender is cancelled
    meanwhile."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting, self._next = anyio.create_memory_object_stream[tuple[str, anyio.Event]](0)

    async def send(self, item: SessionMessage) -> None:
        """Write an answer, and return when it is written."""
        written = anyio.Event()
        await self._waiting.send((item.message.model_dump_json(by_alias=True, exclude_unset=True), written))
        await written.wait()

    async def write(self) -> None:
        """Write the answers until the stream is closed, in a thread: a client that does not read must not stop other
        work."""
        async with self._next:
            async for text, written in self._next:
                await anyio.to_thread.run_sync(
                    write_all, self._descriptor, f"{text}\n".encode(), abandon_on_cancel=True
                )
                written.set()

    async def aclose(self) -> None:
        self._waiting.close()
