"""A worker that stores messages, trims, a plugin's state and values, and writes down after which operation on the files
each was acknowledged: `python power_child.py FOLDER SEED`."""

from __future__ import annotations

import ctypes
import json
import random
import sys
from pathlib import Path

import anyio

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import get_format
from hooksdk.stores import SqlStore, _kept_rows
from hooksdk.transcript import Results, Transcript

FORM = get_format("openai-chat")
operations = ctypes.CDLL(None).operations_so_far
operations.restype = ctypes.c_long


async def main(folder: Path, seed: int) -> None:
    _kept_rows.MIN_STATE_BYTES = 4_000
    chance, store, turns = random.Random(seed), SqlStore(folder), 0
    acknowledged: list[tuple[int, str, object]] = []
    for _ in range(2):
        transcript = await Transcript.open(await store.open_session("s"), "s")
        await transcript.use_format(FORM)
        for _ in range(40):
            step = chance.choice("mmmmmmvttq")
            if step == "m":
                call = ToolCall(f"c{turns}", "read", {"path": "x" * chance.choice([10, 3_000])})
                result = ToolResult("r" * chance.choice([50, 4_000]))
                asked = FORM.user(f"u{turns} " + "y" * chance.choice([5, 500, 9_000]))
                await transcript.append(
                    [asked, *FORM.reply_messages("", [call]), *FORM.result_messages([(call, result)])]
                )
                turns += 1
                acknowledged.append((operations(), "m", transcript.count))
            elif step == "v":
                await store.set_value("p", "k", turns)
                acknowledged.append((operations(), "v", turns))
            elif step == "q":
                await transcript.save_state("q", {"turns": turns})
                acknowledged.append((operations(), "q", turns))
            elif handles := [info.handle for info in transcript.list_results() if info.trimmable]:
                await Results(transcript, "p").trim(handles[0])
                await transcript.drain()
                acknowledged.append((operations(), "t", handles[0]))
        await transcript.close()
    await store.aclose()
    (folder / "acknowledged.json").write_text(json.dumps(acknowledged))


anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
