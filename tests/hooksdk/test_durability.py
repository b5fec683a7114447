"""What is acknowledged stays: crashes, kills, damage, foreign hands, full disks and cancellation."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import Any

import anyio
import pytest
from transcripts import OPENAI, body, call, history, opened, statuses, texts

from hooksdk import transcript as transcripts_module
from hooksdk.calls import ToolResult
from hooksdk.formats import Message
from hooksdk.stores import MemoryStore, SessionLog, SqlStore, _chains, _kept_rows, _sql_log
from hooksdk.transcript import Results, Transcript

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
CHILD = Path(__file__).with_name("durability_child.py")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqlStore]:
    made = SqlStore(tmp_path)
    yield made
    await made.aclose()


def child(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(CHILD), *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def answer_of(*arguments: object) -> dict[str, int]:
    return json.loads(child(*arguments).communicate()[0])


# --- kills and other processes ---


@pytest.mark.in_ci(kind=["sqlite"])
@pytest.mark.parametrize("times", [12, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_acknowledged_trim_is_lost_when_the_process_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, times: int
) -> None:
    place = tmp_path if kind == "sqlite" else request.getfixturevalue("postgres").url()
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
        async with opened(SqlStore(tmp_path), "shared") as transcript:
            assert transcript.queued == 0
            return texts(transcript, transcript.view)

    shown = anyio.run(look)
    expected = sorted(f"Summary: {name} {number}" for name in ("a", "b") for number in range(times))
    assert sorted(text.splitlines()[-1] for text in shown) == expected


def test_a_file_size_limit_refuses_clearly_and_damages_nothing(tmp_path: Path) -> None:
    seen = answer_of("limit", tmp_path)
    assert seen["refused"] + seen["stored"] == 90
    assert min(seen.values()) > 10


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
async def test_a_cancelled_scope_never_parts_memory_from_what_is_stored(store: SqlStore, delay: float) -> None:
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
        store = SqlStore(tmp_path / str(number))
        log = await store.open_session("s")
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
        await store.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_step_whose_own_task_dies_is_read_again_from_the_store(store: SqlStore) -> None:
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


async def test_of_ten_thousand_messages_trims_read_those_alone_that_they_shorten(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [f"{number} ".ljust(1_000, "x") for number in range(5_000)]))
    sizes: list[int] = []
    read_chain = _chains.read_chain

    def counting(*given: Any) -> list[bytes]:
        lines = read_chain(*given)
        sizes.append(sum(map(len, lines)))
        return lines

    for module in (_chains, _kept_rows, _sql_log):
        monkeypatch.setattr(module, "read_chain", counting)
    async with opened(store, form=None) as transcript:
        assert sum(sizes) < 1_500_000  # the newest
        sizes.clear()
        for number in range(1, 1_000, 50):
            await Results(transcript, "p").trim(f"r{number}")
        assert statuses(await transcript.drain()) == ["applied"] * 20
        await transcript.append([OPENAI.user("more")])
        await transcript.verify()
        assert sum(sizes) < 100_000  # the messages that are trimmed


async def test_listing_results_does_not_copy_their_bodies() -> None:
    async with opened(MemoryStore()) as transcript:
        await transcript.append(history(OPENAI, ["x" * 1_000_000] * 50))
        tracemalloc.start()
        assert sum(info.characters for info in transcript.list_results()) == 50_000_000
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1_000_000
