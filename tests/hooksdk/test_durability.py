"""What is acknowledged stays: crashes, kills, damage, foreign hands, full disks and cancellation."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from transcripts import OPENAI, body, call, history, journal_file, messages_file, opened, statuses, texts

from hooksdk import transcript as transcripts_module
from hooksdk.calls import ToolResult
from hooksdk.errors import StoreError
from hooksdk.formats import Message
from hooksdk.stores import JsonlStore, MemoryStore, SessionLog, _append_file, files
from hooksdk.transcript import Results, Transcript

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
CHILD = Path(__file__).with_name("durability_child.py")


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path)


def child(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(CHILD), *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def answer_of(*arguments: object) -> dict[str, int]:
    return json.loads(child(*arguments).communicate()[0])


# --- kills and other processes ---


@pytest.mark.in_ci(kind=["jsonl"])
@pytest.mark.parametrize("times", [12, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
@pytest.mark.parametrize("kind", ["jsonl", "jsonl with its view", "sqlite", "postgres"])
def test_no_acknowledged_trim_is_lost_when_the_process_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, times: int
) -> None:
    places = {"jsonl": tmp_path, "jsonl with its view": f"view:{tmp_path}", "sqlite": f"sqlite:///{tmp_path / 'a.db'}"}
    place = places.get(kind) or request.getfixturevalue("postgres").url()
    seen = answer_of("kills", place, times, 1)
    print(kind, seen)
    assert seen["kills"] == times
    assert seen["busy_at_kill"] > 0
    assert (seen["lost"], seen["torn"]) == (0, 0)


def test_two_processes_on_one_session_lose_nothing(tmp_path: Path) -> None:
    times = 40
    writers = [child("writer", tmp_path, name, times) for name in ("a", "b")]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]

    async def look() -> list[str]:
        async with opened(JsonlStore(tmp_path), "shared") as transcript:
            assert transcript.queued == 0
            return texts(transcript, transcript.view)

    shown = anyio.run(look)
    expected = sorted(f"Summary: {name} {number}" for name in ("a", "b") for number in range(times))
    assert sorted(text.splitlines()[-1] for text in shown) == expected


def test_a_file_size_limit_refuses_clearly_and_damages_nothing(tmp_path: Path) -> None:
    seen = answer_of("limit", tmp_path)
    assert seen["refused"] + seen["stored"] == 90
    assert min(seen.values()) > 10


@pytest.mark.both_loops
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
async def test_whichever_write_fails_nothing_is_damaged_and_the_next_try_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """The Nth operation on a file fails, for every N until none is left to fail."""
    real = {name: getattr(os, name) for name in ("write", "fsync", "fdatasync", "ftruncate")}
    left = [-1]

    def failing(name: str) -> Callable[..., Any]:
        def operation(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if name == "write":
                    real["write"](arguments[0], bytes(arguments[1])[:7])
                raise OSError(error, os.strerror(error))
            return real[name](*arguments)

        return operation

    for name in real:
        monkeypatch.setattr(os, name, failing(name))
    monkeypatch.setattr(files, "_sync", os.fdatasync)
    for fails in range(1, 100):
        store = JsonlStore(tmp_path / str(fails))
        async with opened(store) as transcript:
            await transcript.append([OPENAI.user("q"), OPENAI.reply("", [call(1), call(2)])])
            await transcript.answer(call(2), ToolResult(body(2)), None)
            left[0] = fails
            steps: list[Callable[[], Awaitable[object]]] = [
                lambda: transcript.answer(call(1), ToolResult(body(1)), None),
                lambda: transcript.append([OPENAI.reply("read")]),
                lambda: Results(transcript, "p").trim("r1"),
                transcript.drain,
            ]
            problems: list[str] = []
            for step in steps:
                try:
                    await step()
                except StoreError as problem:
                    problems.append(str(problem))
                    await step()
            assert all(os.strerror(error) in problem for problem in problems)
            left[0] = -1
            shown = transcript.view
            assert texts(transcript, shown)[1] == body(2)
            assert texts(transcript, shown)[0].startswith("[Result r1")
        async with opened(store) as transcript:
            assert transcript.view == shown
        if not problems:
            assert fails > 8
            return
    pytest.fail("it never ran out of operations")


# --- cancellation ---


class SlowLog:
    """A store's log that takes its time before and after each step."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.written = anyio.Event()
        self.pause = 0.01
        self.existed, self.token = log.existed, log.token

    async def slowly(self, step: Awaitable[None]) -> None:
        await anyio.sleep(0.01)
        await step
        self.written.set()
        await anyio.sleep(self.pause)

    async def read(self) -> tuple[list[Message], list[dict[str, Any]]]:
        return await self.log.read()

    async def append_messages(self, messages: Any) -> None:
        await self.slowly(self.log.append_messages(messages))

    async def append_journal(self, entries: Any, *, verify: bool = False) -> None:
        await self.slowly(self.log.append_journal(entries, verify=verify))

    async def write_view(self, messages: Any) -> None:
        await self.log.write_view(messages)

    async def verify(self) -> None:
        await self.log.verify()

    async def close(self) -> None:
        await self.log.close()


async def _same_as_stored(transcript: Transcript, log: SessionLog) -> None:
    messages, journal = await log.read()
    assert transcript.messages == messages
    assert transcript.view == transcripts_module.view(messages, journal, OPENAI)


@pytest.mark.both_loops
@pytest.mark.parametrize("delay", [0, 0.005, 0.015, 0.025, 0.035])
async def test_a_cancelled_scope_never_parts_memory_from_what_is_stored(store: JsonlStore, delay: float) -> None:
    log = await store.open_session("s")
    transcript = await Transcript.open(SlowLog(log), "s")
    await transcript.use_format(OPENAI)
    await transcript.append(history(OPENAI, [body(1), body(2)]))
    await Results(transcript, "p").trim("r1")
    with anyio.move_on_after(delay):
        await transcript.drain()
        await transcript.append([OPENAI.user("more"), OPENAI.reply("", [call(3), call(4)])])
        await transcript.answer(call(4), ToolResult("four"), None)
        await transcript.answer(call(3), ToolResult("three"), None)
    await _same_as_stored(transcript, log)
    await transcript.append([OPENAI.user("on")])
    await _same_as_stored(transcript, log)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("slow", [True, False])
async def test_a_natively_cancelled_task_never_parts_memory_from_what_is_stored(tmp_path: Path, slow: bool) -> None:
    for number in range(12):
        log = await JsonlStore(tmp_path / str(number)).open_session("s")
        transcript = await Transcript.open(SlowLog(log) if slow else log, "s")
        await transcript.use_format(OPENAI)
        await transcript.append(history(OPENAI, [body(1)]))
        await Results(transcript, "p").trim("r1")

        async def work(transcript: Transcript = transcript) -> None:
            await transcript.drain()
            for each in itertools.count():
                await transcript.append([OPENAI.user(f"a{each}"), OPENAI.user(f"b{each}")])

        task = asyncio.ensure_future(work())
        await asyncio.sleep(number * (0.006 if slow else 0.0004))
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _same_as_stored(transcript, log)
        await transcript.append([OPENAI.user("on")])
        await _same_as_stored(transcript, log)
        await transcript.close()


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_step_whose_own_task_dies_is_read_again_from_the_store(store: JsonlStore) -> None:
    log = await store.open_session("s")
    slow = SlowLog(log)
    transcript = await Transcript.open(slow, "s")
    await transcript.use_format(OPENAI)
    slow.written, slow.pause = anyio.Event(), 60
    task = asyncio.ensure_future(transcript.append([OPENAI.user("one")]))
    await slow.written.wait()
    for other in asyncio.all_tasks() - {asyncio.current_task(), task}:
        if "Transcript.append" in repr(other.get_coro()):
            other.cancel()
    slow.pause = 0.01
    with pytest.raises(asyncio.CancelledError):
        await task
    await transcript.append([OPENAI.user("two")])
    await _same_as_stored(transcript, log)


# --- size ---


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each reading of a file took."""
    sizes: list[int] = []
    read = _append_file.read_at

    def counting(fd: int, size: int, offset: int) -> bytes:
        data = read(fd, size, offset)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(_append_file, "read_at", counting)
    return sizes


async def test_ten_thousand_messages_are_read_once_at_opening_and_not_again_for_trims(
    store: JsonlStore, bytes_read: list[int]
) -> None:
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [f"{number} ".ljust(1_000, "x") for number in range(5_000)]))
    size, journal = messages_file(store).stat().st_size, journal_file(store).stat().st_size
    assert size > 5_000_000
    bytes_read.clear()
    async with opened(store, form=None) as transcript:
        assert size + journal <= sum(bytes_read) < size + journal + 10
        bytes_read.clear()
        for number in range(1, 1_000, 50):
            await Results(transcript, "p").trim(f"r{number}")
        assert statuses(await transcript.drain()) == ["applied"] * 20
        await transcript.append([OPENAI.user("more")])
        await transcript.verify()
        assert sum(bytes_read) < 100_000  # the messages that are trimmed
    assert journal_file(store).stat().st_size - journal < 20 * 1_000


async def test_a_file_that_somebody_touched_is_read_once_more(store: JsonlStore, bytes_read: list[int]) -> None:
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [body(1)]))
        bytes_read.clear()
        os.utime(messages_file(store))
        for _ in range(2):
            await transcript.verify()
        assert sum(bytes_read) == messages_file(store).stat().st_size


async def test_listing_results_does_not_copy_their_bodies() -> None:
    async with opened(MemoryStore()) as transcript:
        await transcript.append(history(OPENAI, ["x" * 1_000_000] * 50))
        tracemalloc.start()
        assert sum(info.characters for info in transcript.list_results()) == 50_000_000
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1_000_000
