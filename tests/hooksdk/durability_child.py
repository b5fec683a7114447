"""Run by test_durability.py in processes of its own: kills, two writers, and a limit on file sizes.

python durability_child.py kills STORE TIMES SEED | writer DIRECTORY NAME TIMES | limit DIRECTORY
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
from transcripts import OPENAI, body, call, history, opened

from hooksdk.calls import ToolResult
from hooksdk.errors import StoreError
from hooksdk.stores import SqlStore, Store, _kept_rows
from hooksdk.transcript import Results

MakeStore = Callable[[], Store]
_kept_rows.MIN_STATE_BYTES = 1  # every session counts as a long one, and may be killed while its rows are written


def maker(place: str, lease: float) -> MakeStore:
    """How each worker makes its store: of a database's URL, or of a folder."""
    return lambda: SqlStore(place if "://" in place else Path(place), lease=lease)


def kills(place: str, times: int, seed: int) -> dict[str, int]:
    """Fork a worker that queues and drains in a loop, kill it at a random moment, and look at what it left."""
    chance = random.Random(seed)
    worker = maker(place, lease=0.5)  # whoever looks has to wait until it lapses
    inspector = maker(place, lease=60)
    seen = {"kills": 0, "acknowledged": 0, "busy_at_kill": 0, "lost": 0, "torn": 0}
    acknowledged: dict[str, list[str]] = {}
    for number in range(times):
        session = f"s{number // 20}"
        if number % 20 == 0:
            acknowledged.clear()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            anyio.run(_work, worker, session, writer)
        os.close(writer)
        if chance.random() < 0.7:  # it is at work; else it may be opening the session, and what is queued is drained
            select.select([reader], [], [])
        time.sleep(chance.uniform(0.02, 0.12))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader) as pipe:
            lines = pipe.read().split("\n")[:-1]
        seen["kills"] += 1
        seen["acknowledged"] += len(lines)
        seen["busy_at_kill"] += bool(lines)
        for line in lines:
            kind, handle, text = line.split("|", 2)
            acknowledged.setdefault(handle, []).append(f"{kind}|{text}")
        lost, torn = anyio.run(_inspect, inspector, session, acknowledged)
        seen["lost"] += lost
        seen["torn"] += torn
    return seen


async def _work(make: MakeStore, session: str, writer: int) -> None:
    """Never ends by itself. What it tells through the pipe is what it was told itself."""
    store = make()
    async with opened(store, "beside", wait=60), opened(store, session, wait=60) as transcript:
        while True:
            number = len(transcript.list_results()) + 1
            if not transcript.messages:
                await transcript.append([OPENAI.user("q")])
            await transcript.append([OPENAI.reply("", [call(number), call(number, "second")])])
            await transcript.answer(call(number, "second"), ToolResult(body(number)), None)
            await transcript.answer(call(number), ToolResult(body(number)), None)
            await transcript.append([OPENAI.reply("seen")])
            for info in transcript.list_results()[-2:]:
                receipt = await Results(transcript, "p").trim(info.handle, f"kept {number}")
                os.write(writer, f"queued|{info.handle}|{json.dumps(receipt.text)}\n".encode())
            report = await transcript.drain()
            for trim in report.trims:
                os.write(writer, f"drained|{trim.handle}|{trim.status}\n".encode())


async def _inspect(make: MakeStore, session: str, acknowledged: dict[str, list[str]]) -> tuple[int, int]:
    lost = torn = 0
    store = make()
    async with opened(store, session, form=None, wait=60) as transcript:
        infos = {info.handle: info for info in transcript.list_results()}
        shown = [found.text for message in transcript.view for found in OPENAI.results(message)]
        for handle, events in acknowledged.items():
            info = infos.get(handle)
            if info is None or not (info.queued or info.trimmed):
                lost += 1
                continue
            if any(event.startswith("drained|") for event in events) and not info.trimmed:
                lost += 1
            # A trim may be stored although its acknowledgement did not get out any more.
            queued = [json.loads(event[7:]) for event in events if event.startswith("queued|")]
            wanted = queued[0] if queued and info.trimmed else "" if info.trimmed else body(0)[-400:]
            torn += not shown[int(handle[1:]) - 1].endswith(wanted)
        if transcript.format:
            await transcript.close_turn("not run")
    await store.aclose()
    return lost, torn


async def writer(directory: Path, name: str, times: int) -> None:
    """Open, append, trim, drain and close again and again, beside another process that does the same."""
    store = SqlStore(directory)
    for number in range(times):
        async with opened(store, "shared", wait=30) as transcript:
            await transcript.append(history(OPENAI, [f"{name} {number} ".ljust(1_000, "x")]))
            await Results(transcript, name).trim(f"r{len(transcript.list_results())}", f"{name} {number}")
            await transcript.drain()


async def limit(directory: Path) -> dict[str, int]:
    """Let the file size limit hit the log of the database at another byte each time, and go on as if space had been made."""
    import resource

    seen = {"refused": 0, "stored": 0}
    store = SqlStore(directory)
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [body(1)]))
        path = directory / "hooksdk.db-wal"
        for spare in range(0, 9_000, 100):
            before = transcript.messages
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + spare, resource.RLIM_INFINITY))
            try:
                await transcript.append([OPENAI.user("a"), OPENAI.user(f"number {spare}")])
                seen["stored"] += 1
                assert len(transcript.messages) == len(before) + 2
            except StoreError as error:
                seen["refused"] += "What was stored before is whole" in str(error)
                assert transcript.messages == before
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert (await store.read_session("s"))[0] == transcript.messages
    await store.aclose()
    return seen


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["kills", directory, times, seed]:
            print(json.dumps(kills(directory, int(times), int(seed))))
        case ["writer", directory, name, times]:
            anyio.run(writer, Path(directory), name, int(times))
        case ["limit", directory]:
            print(json.dumps(anyio.run(limit, Path(directory))))
        case other:
            raise SystemExit(f"not understood: {other}")
