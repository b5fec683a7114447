"""hooksdk on DBOS across deploys: a run that waits goes on in the next worker, or it is said that it stands still."""

from __future__ import annotations

import pytest

pytest.importorskip("dbos", reason="hooksdk[dbos] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from pathlib import Path
from typing import Any, cast

from dbos import DBOS, DBOSClient

from hooksdk.adapters import _dbos_versions as versions
from hooksdk.adapters.dbos import DurableAgent, list_standing
from hooksdk.approvals import Approval
from hooksdk.desk import ApprovalRecords
from hooksdk.errors import ConfigError
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedModel
from tests.hooksdk.commands import hooksdk
from tests.postgres import Postgres

CHILD = Path(__file__).with_name("deploy_child.py")
STILL = "stand still"


class Deployed:
    """A worker in a process of its own."""

    def __init__(self, url: str, options: dict[str, Any], log: Path) -> None:
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, CHILD, url, json.dumps(options)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=CHILD.parents[2],
            )  # fmt: skip
        assert self.process.stdout is not None
        word, _, self.version = self.process.stdout.readline().decode().strip().partition(" ")
        if word != "ready":
            self.end(killed=True)
            raise AssertionError(self.said())

    def said(self) -> str:
        return self.log.read_text()

    def end(self, *, killed: bool = False) -> None:
        if killed:
            self.process.kill()
        self.process.communicate()


class Shop:
    """An application on one database, of which workers are deployed."""

    def __init__(self, url: str, database: str, folder: Path) -> None:
        self.url, self.database, self.folder = url, database, folder
        self.store = SqlStore(url)
        self.records = ApprovalRecords(self.store, before=folder / "none.db")
        self.workers: list[Deployed] = []

    async def deploy(self, **options: Any) -> Deployed:
        log = self.folder / f"{len(self.workers)}.log"
        worker = await asyncio.to_thread(Deployed, self.url, {"database": self.database, **options}, log)
        self.workers.append(worker)
        return worker

    async def killed_while_it_waits(self, *sessions: str, **options: Any) -> str:
        """The version of a worker that was killed while these sessions' runs waited for a person."""
        worker = await self.deploy(start=sessions, **options)
        client = self.client()

        async def wait() -> bool:
            """True once each workflow sleeps until its question is answered."""
            steps = [await client.list_workflow_steps_async(f"run-{one}") for one in sessions]
            return all(any(step["function_name"] == "DBOS.sleep" for step in one) for one in steps)

        await until(wait)
        client.destroy()
        worker.end(killed=True)
        return worker.version

    def client(self) -> DBOSClient:
        return DBOSClient(system_database_url=self.database)

    async def standing(self) -> list[tuple[str, str, list[str]]]:
        return [
            (one.application, one.version, sorted(run.workflow_id for run in one.workflows))
            for one in await list_standing(self.store, self.database)
        ]

    async def grant_all(self) -> None:
        for record in await self.records.list(waiting=True):
            await self.records.answer(record.number, Approval(True, by="ann"))

    async def outcome(self, workflow_id: str) -> Any:
        client = self.client()
        handle: Any = await client.retrieve_workflow_async(workflow_id)
        async with asyncio.timeout(60):
            outcome = await handle.get_result()
        client.destroy()
        return outcome["text"]


async def until(ready: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not (await found if asyncio.iscoroutine(found := ready()) else found):
            await asyncio.sleep(0.05)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Shop]:
    if request.param == "sqlite":
        url = database = f"sqlite:///{tmp_path / 'one.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.url()
        # DBOS has its own schema, so the tests' other databases are not in its way.
        database = url.partition("&options")[0]
        server.sql("DROP SCHEMA IF EXISTS dbos CASCADE")
    shop = Shop(url, database, tmp_path)
    yield shop
    for worker in shop.workers:
        worker.end(killed=True)
    await shop.store.aclose()


@pytest.fixture(autouse=True)
def registry() -> Generator[None]:
    """DBOS keeps its workflows for the whole process."""
    yield
    DBOS.destroy(destroy_registry=True)


async def test_runs_of_a_version_without_a_worker_are_said_once_and_listed_until_one_lives(shop: Shop) -> None:
    await shop.killed_while_it_waits("a", "b", version="v1")
    (shop.folder / "none" / "hooksdk").mkdir(parents=True)
    (shop.folder / "none" / "hooksdk" / "config.toml").write_text(f'store = "{shop.database}"\n')
    newer = await shop.deploy(version="v2")
    await until(lambda: STILL in newer.said())
    await asyncio.sleep(1)  # twenty looks
    lines = [line for line in newer.said().splitlines() if STILL in line]
    assert [line.partition(": no worker")[0] for line in lines] == [
        "WARNING hooksdk 2 runs of shop, version v1, stand still"
    ]
    assert "go on elsewhere" not in newer.said()
    assert await shop.standing() == [("shop", "v1", ["run-a", "run-b"])]
    before = ("sessions", "--store", shop.url, "--json", "waiting", "--dbos", shop.database)
    done = await hooksdk(*before, folder=shop.folder)
    waits = json.loads(done.out)["waiting"]
    assert (done.code, done.err) == (0, "")
    runs = next(one for one in waits if one["kind"] == "runs")
    assert (runs["for"], runs["version"]) == ("a worker of that version", "v1")
    assert sorted(runs["workflows"]) == ["run-a", "run-b"]
    others = {(one["kind"], one["session"], one["for"]) for one in waits if one is not runs}
    assert others == {("question", "a", "a person"), ("question", "b", "a person")}
    if shop.url == shop.database:
        done = await hooksdk("doctor", folder=shop.folder)
        assert done.code == 1
        assert "2 runs of shop, version v1, stand still" in done.out

    older = await shop.deploy(version="v1")
    assert await shop.standing() == []
    await shop.grant_all()
    assert [await shop.outcome(f"run-{one}") for one in "ab"] == ["Done.", "Done."]
    assert "go on elsewhere" in older.said()


async def test_nothing_is_said_of_runs_whose_worker_lives(shop: Shop) -> None:
    await shop.deploy(version="v1", start=["a"])
    await until(lambda: shop.records.list(waiting=True))
    newer = await shop.deploy(version="v2")
    await asyncio.sleep(1)
    assert (STILL in newer.said(), await shop.standing()) == (False, [])


async def test_an_upgrade_with_another_model_and_other_limits_goes_on_with_a_run_that_waits(shop: Shop) -> None:
    before = await shop.killed_while_it_waits("a")
    newer = await shop.deploy(model="another", turns=1)
    assert (newer.version, before) == ("shop-hooksdk-1", "shop-hooksdk-1")
    await shop.grant_all()
    assert await shop.outcome("run-a") == "Done."
    assert STILL not in newer.said()


async def test_another_workflow_in_the_code_is_another_version_and_its_change_too(shop: Shop) -> None:
    code = "async def own(): return {}\n"
    names = list[str]()
    for workflow in (None, code.format(1), code.format(2), code.format(1)):
        worker = await shop.deploy(workflow=workflow)
        names.append(worker.version)
        worker.end()
    assert names[0] == "shop-hooksdk-1"
    assert names[1] == names[3] != names[2]
    assert all(name.startswith("shop-hooksdk-1-") for name in names[1:])


async def test_runs_are_moved_to_a_new_version_with_their_steps_or_begun_anew_in_their_session(shop: Shop) -> None:
    await shop.killed_while_it_waits("a", "b", version="v1")
    await shop.deploy(version="v2")
    client = shop.client()
    for one in "ab":
        await client.cancel_workflow_async(f"run-{one}")
    await client.rewind_workflow_async(
        "run-a", start_step=1_000_000, application_version="v2", queue_name="till", queue_partition_key="a"
    )
    queued: Any = {"workflow_name": "till", "queue_name": "till", "queue_partition_key": "b", "workflow_id": "run-b2"}
    await client.enqueue_async(queued, "b", None, {"requester": {"id": "by-b"}})
    client.destroy()
    await shop.grant_all()
    assert [await shop.outcome(one) for one in ("run-a", "run-b2")] == ["Done.", "Done."]
    assert await shop.standing() == []
    for session in "ab":
        messages, _ = await shop.store.read_session(session)
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]


async def test_two_applications_on_one_database_say_only_their_own_and_are_both_listed(shop: Shop) -> None:
    await shop.killed_while_it_waits("a", version="v1")
    newer = await shop.deploy(version="w2", name="another", agent="desk")
    await asyncio.sleep(1)
    assert STILL not in newer.said(), "v1 is not a version of this application"
    assert await shop.standing() == [("shop", "v1", ["run-a"])]


async def test_a_database_that_is_not_there_is_named_without_its_password_and_not_made(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'one.db'}")
    await store.set_value(versions.SCHEMAS, "dbos", True)
    for url, problem in {
        f"sqlite:///{tmp_path / 'none.db'}": "there is no database at",
        f"sqlite:///{tmp_path / 'one.db'}": "no such table",
        "postgresql://ann:secret@127.0.0.1:1/x": "refused",
        "mysql://ann:secret@db/x": "dbos",
    }.items():
        with pytest.raises(ConfigError) as raised:
            await list_standing(store, url)
        assert problem in str(raised.value)
        assert "secret" not in str(raised.value)
    assert not (tmp_path / "none.db").exists()
    await store.aclose()


@pytest.mark.parametrize("config", [{"name": "x", "application_version": "1"}, {"name": "x", "enable_patching": True}])
async def test_a_version_that_somebody_else_has_decided_stays(config: Any) -> None:
    assert versions.with_version(config) == config


async def test_the_variable_of_dbos_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBOS__APPVERSION", "7")
    assert versions.with_version({"name": "x"}) == {"name": "x"}


async def test_a_second_agent_is_no_other_version() -> None:
    found: list[str | None] = []
    for name in ("one", "two"):
        DurableAgent(name, ScriptedModel(["Hello."]))
        found.append(versions.with_version({"name": "x"}).get("application_version"))
    assert found == ["x-hooksdk-1", "x-hooksdk-1"]


async def test_what_a_run_records_is_what_its_version_stands_for(shop: Shop) -> None:
    """Where this changes, `STEPS` is raised."""
    await shop.killed_while_it_waits("a")
    await shop.deploy()
    await shop.grant_all()
    await shop.outcome("run-a")
    client = shop.client()
    steps = cast("Sequence[Any]", await client.list_workflow_steps_async("run-a"))
    client.destroy()
    turn = {"turns", "text", "calls", "tokens", "reminders", "is_last", "blocked"}
    assert [
        (step["function_name"], {*step["output"]} if isinstance(step["output"], dict) else set()) for step in steps
    ] == [
        ("begin", {"start", "calls", "limits"}),
        ("model", turn),
        ("tool pay", {"waits", "question"}),
        ("DBOS.recv", set()),
        ("DBOS.sleep", set()),
        ("tool pay", {"waits", "is_error"}),
        ("model", turn),
        ("end", set()),
    ]
    assert versions.STEPS == 1
