"""Workers of a database, as processes: python sql_child.py WHAT URL [NAME TIMES]."""

from __future__ import annotations

import asyncio
import sys

from hooksdk.errors import SessionBusy
from hooksdk.stores import SqlStore


async def write(url: str, name: str, times: str) -> None:
    """Store steps in a session that all share."""
    store = SqlStore(url)
    for number in range(int(times)):
        log = await store.open_session("shared", wait=120)
        await log.append_messages([{"who": name, "n": number, "part": part} for part in (1, 2)])
        await log.append_journal([{"who": name, "n": number}], verify=True)
        await log.close()
        await store.set_value("p", f"{name} {number}", number)
    await store.aclose()


async def hold(url: str, lease: str = "0.5") -> None:
    """Hold a session; after each line of stdin, try to write."""
    store = SqlStore(url, lease=float(lease))
    log = await store.open_session("held")
    await log.append_messages([{"n": 1}])
    print("holding", flush=True)
    sys.stdin.readline()
    try:
        await log.append_messages([{"n": "stalled"}])
        print("stored", flush=True)
    except SessionBusy as error:
        print(f"refused: {error}", flush=True)
    await store.aclose()


asyncio.run({"write": write, "hold": hold}[sys.argv[1]](*sys.argv[2:]))
