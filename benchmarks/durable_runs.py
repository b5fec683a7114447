"""Runs on DBOS: what workers that are killed lose and do twice, and how throughput grows with their number.

    python benchmarks/durable_runs.py kills [--kills 200] [--workers 3] [--calls 2]
    python benchmarks/durable_runs.py throughput [--runs 10000] [--workers 0 1 2 3]

`kills`: workers on one PostgreSQL are killed, at a named point of a run or at any time, and started anew, while runs are
queued; somebody answers the questions of the approval desk: no where the payment was made, else yes. `throughput`: so many
runs are queued, each with two model calls and one payment, and so many workers make them, in one series; 0 stands for `run_agent` on the same
store in one process, without DBOS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _durable_worker import NAME, POINTS, Till, paying
from dbos import DBOS, DBOSClient

from hooksdk import Host
from hooksdk.agent import run_agent
from hooksdk.approvals import Approval
from hooksdk.desk import ApprovalRecords, NotWaiting
from hooksdk.stores import SqlStore

WORKER = Path(__file__).parent / "_durable_worker.py"
EACH = 2
"""How many runs end between two kills."""
ENDS = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


@dataclass
class Fleet:
    """Workers on one database."""

    url: str
    """Of hooksdk's store."""
    database: str
    """Of DBOS's records."""
    folder: Path
    options: Sequence[str] = ()
    schema: str = "dbos"
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def __post_init__(self) -> None:
        self.store = SqlStore(self.url)

    def start(self) -> subprocess.Popen[bytes]:
        """One more."""
        command = [
            sys.executable,
            str(WORKER),
            self.url,
            self.database,
            str(self.folder),
            "--schema",
            self.schema,
            *self.options,
        ]
        worker = subprocess.Popen(command)
        self.workers.append(worker)
        return worker

    def is_ready(self, worker: subprocess.Popen[bytes]) -> bool:
        """True once it works."""
        return (self.folder / f"ready-{worker.pid}").exists()

    async def until_ready(self, worker: subprocess.Popen[bytes]) -> None:
        """Wait until it works."""
        while not self.is_ready(worker):
            assert worker.poll() is None, "a worker ended before it began"
            await asyncio.sleep(0.05)

    def client(self) -> DBOSClient:
        """What queues runs and reads what came of them."""
        return DBOSClient(system_database_url=self.database, dbos_system_schema=self.schema)

    def killed(self) -> list[subprocess.Popen[bytes]]:
        """Those that were killed since this was asked last."""
        dead = [worker for worker in self.workers if worker.poll() is not None]
        self.workers = [worker for worker in self.workers if worker not in dead]
        return dead

    def stop(self) -> list[float]:
        """Let all end by themselves; the seconds of CPU that each took."""
        (self.folder / "stop").touch()
        for worker in self.workers:
            worker.wait(60)
        return [float((self.folder / f"ready-{worker.pid}").read_text(encoding="utf-8")) for worker in self.workers]

    def kill(self) -> None:
        """End those that are left."""
        for worker in self.workers:
            worker.kill()
            worker.wait()

    def paid(self) -> Counter[str]:
        """How often each payment was made."""
        file = self.folder / "paid"
        return Counter(file.read_text(encoding="utf-8").split() if file.exists() else ())


async def queue_run(client: DBOSClient, number: str) -> Any:
    """One run, of a session of its own."""
    options: Any = {
        "workflow_name": NAME,
        "queue_name": NAME,
        "workflow_id": f"run-{number}",
        "queue_partition_key": number,
    }
    return await client.enqueue_async(options, number, number)


@dataclass
class Person:
    """Answers the questions of the desk: whoever looks whether the payment was made knows what to say."""

    fleet: Fleet
    questions: int = 0
    refused: int = 0

    async def answer(self) -> None:
        """All that wait now."""
        records = ApprovalRecords(self.fleet.store)
        for record in await records.list(waiting=True):
            was_made = self.fleet.paid()[record.arguments["to"]] > 0
            try:
                await records.answer(
                    record.number, Approval(not was_made, "" if not was_made else "it was paid", by="ann")
                )
            except NotWaiting:
                continue
            self.questions += 1
            self.refused += was_made


async def statuses(client: DBOSClient) -> dict[str, Any]:
    """Each run's, by workflow id."""
    rows = await client.list_workflows_async(workflow_id_prefix="run-", load_input=False)
    return {row.workflow_id: row for row in rows}


async def kill_workers(
    fleet: Fleet,
    *,
    kills: int,
    workers: int,
    calls: int,
    backlog: int = 30,
    points: Sequence[str] = POINTS,
    patience: float = 60.0,
) -> dict[str, Any]:
    """Kill so many workers while so many runs are at work or wait (`backlog`), then let the rest end all runs; what became of them.
    A run is without an end once none has ended for
    so many seconds of `patience`."""
    fleet.options = [*fleet.options, "--calls", str(calls)]
    client, person, begun = fleet.client(), Person(fleet), time.monotonic()
    order, done, queued, is_due = fleet.folder / "die-at", 0, 0, True
    chance = random.Random(7)
    for worker in [fleet.start() for _ in range(workers)]:
        await fleet.until_ready(worker)
    while done < kills:
        if dead := fleet.killed():
            done, is_due = done + len(dead), True
            for _ in dead:
                fleet.start()
        await person.answer()
        open_runs = len(await client.list_workflows_async(status=["ENQUEUED", "PENDING"], load_input=False))
        for _ in range(backlog - open_runs):
            await queue_run(client, str(queued))
            queued += 1
        await asyncio.sleep(0.1)
        if not is_due or done == kills or queued - open_runs < done * EACH:
            continue
        is_due = False
        ready = [worker for worker in fleet.workers if fleet.is_ready(worker)]
        if points is POINTS and done % 2 and ready:
            await asyncio.sleep(chance.uniform(0, 0.3))
            chance.choice(ready).kill()
        else:
            order.write_text(points[done % len(points)], encoding="utf-8")
    order.unlink(missing_ok=True)
    last, runs = time.monotonic(), await statuses(client)
    left = len(runs) + 1
    while (now := sum(run.status not in ENDS for run in runs.values())) and time.monotonic() < last + patience:
        if now < left:
            last, left = time.monotonic(), now
        await person.answer()
        await asyncio.sleep(0.3)
        runs = await statuses(client)
    client.destroy()
    paid = fleet.paid()
    expected = {f"{number}-{call}" for number in range(queued) for call in range(calls)}
    return {
        "kills": done, "runs": queued, "payments": len(expected), "questions": person.questions, "refused": person.refused,
        "lost": queued - len(runs) + sum(run.status != "SUCCESS" and run.status in ENDS for run in runs.values()),
        "without an end": sum(run.status not in ENDS for run in runs.values()),
        "not made": len(expected - set(paid)), "made twice": sum(times > 1 for times in paid.values()),
        "most attempts": max(run.recovery_attempts or 0 for run in runs.values()),
        "seconds": round(time.monotonic() - begun), "unfinished": [one for one, run in runs.items() if run.status != "SUCCESS"][:10],
    }  # fmt: skip


async def measure_throughput(fleet: Fleet, runs: int, workers: int, at_once: int) -> dict[str, Any]:
    """What so many workers make of so many queued runs. They begin at once, and the time is that of the database: from the first
    run that is taken until the last one has ended."""
    fleet.options = f"--immortal --wait --at-once {at_once} --polling 0.1 --lease 60 --look 2".split()
    DBOS.migrate(fleet.database, schema=fleet.schema)
    client = fleet.client()
    for number in range(runs):
        await queue_run(client, str(number))
    for worker in [fleet.start() for _ in range(workers)]:
        await fleet.until_ready(worker)
    (fleet.folder / "go").touch()
    while len(await client.list_workflows_async(status=["ENQUEUED", "PENDING"], limit=1, load_input=False)) > 0:  # noqa: ASYNC110 - of other processes
        await asyncio.sleep(0.5)
    ended = (await statuses(client)).values()
    taken, last = min(one.dequeued_at or 0 for one in ended), max(one.completed_at or 0 for one in ended)
    client.destroy()
    paid = fleet.paid()
    return {"workers": workers, "runs": runs, "lost": runs - sum(one.status == "SUCCESS" for one in ended),
            "not made": runs - len(paid), "made twice": sum(times > 1 for times in paid.values()),
            "seconds": round((last - taken) / 1000, 1), "runs a second": round(runs / ((last - taken) / 1000), 1),
            "by worker": sorted(Counter(one.executor_id for one in ended).values()), "cpu": fleet.stop()}  # fmt: skip


async def measure_plain(url: str, folder: Path, runs: int, at_once: int) -> dict[str, Any]:
    """The same runs by `run_agent` on the same store, without DBOS: so many at once in one process."""
    store, model, tools = SqlStore(url, lease=60), *paying(Till(folder), calls=1)
    numbers = iter(range(runs))

    async def work() -> None:
        for number in numbers:
            async with host.session(str(number)) as session:
                await run_agent(session, model, str(number), tools=tools)

    async with Host(store=store) as host:
        began, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(work() for _ in range(at_once)))
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    await store.aclose()
    return {"workers": "one, without DBOS", "runs": runs, "seconds": round(seconds, 1), "runs a second": round(runs / seconds, 1),
            "cpu": [round(cpu, 1)]}  # fmt: skip


async def main(options: argparse.Namespace) -> None:
    """Measure, with a server of its own."""
    sys.path.append(str(Path(__file__).parents[1]))
    from tests import postgres

    postgres.SETTINGS.update(max_connections="200", shared_buffers="128MB", fsync=options.fsync)
    figures: list[dict[str, Any]] = []
    with postgres.running() as server:
        for number, workers in enumerate(options.workers):
            folder = Path(tempfile.mkdtemp())
            url = server.url()
            fleet = Fleet(url, url.partition("&options")[0], folder, schema=f"dbos{number}")
            try:
                if options.what == "kills":
                    figures.append(await kill_workers(fleet, kills=options.kills, workers=workers, calls=options.calls))
                elif not workers:
                    figures.append(await measure_plain(url, folder, options.runs, options.at_once))
                else:
                    figures.append(await measure_throughput(fleet, options.runs, workers, options.at_once))
                print(json.dumps(figures[-1]), flush=True)
            finally:
                fleet.kill()
                shutil.rmtree(folder)


if __name__ == "__main__":
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("what", choices=["kills", "throughput"])
    known.add_argument("--kills", type=int, default=200)
    known.add_argument("--calls", type=int, default=2)
    known.add_argument("--runs", type=int, default=10_000)
    known.add_argument("--workers", type=int, nargs="+", default=[3])
    known.add_argument("--at-once", type=int, default=50)
    known.add_argument("--fsync", choices=["on", "off"], default="on")
    asyncio.run(main(known.parse_args()))
