"""`hooksdk sessions waiting`: what waits in a store, since when and for whom."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hooksdk.approvals import Approval, ApprovalRequest, Question
from hooksdk.calls import ToolCall
from hooksdk.desk import ApprovalDesk, ApprovalRecords
from hooksdk.stores import SqlStore, open_store
from hooksdk.stores._hashes import session_key
from tests.hooksdk.commands import hooksdk
from tests.stage import make

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.in_ci(every=1)]

PAYER = """
import sys
import anyio
from hooksdk import Host, tool
from hooksdk.calls import ToolCall
from hooksdk.formats import get_format
from hooksdk.stores import open_store

CHAT = get_format("openai-chat")
PAY = ToolCall("c1", "pay", {"to": "bob"})

@tool
def pay(to: str) -> str:
    print("paying", flush=True)
    sys.stdin.readline()
    return "paid"

async def main() -> None:
    async with Host(store=open_store(sys.argv[1])) as host, host.session(sys.argv[2]) as session, session.run() as run:
        await run.resolve_tools([pay])
        await run.record([CHAT.user("Pay Bob."), *CHAT.reply_messages("", [PAY])])
        await run.call_tool(PAY)

anyio.run(main)
"""


@pytest.fixture(params=["jsonl", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `--store` is told."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres").url()
    (tmp_path / "there").mkdir()
    return str(tmp_path / "there") if request.param == "jsonl" else f"sqlite:///{tmp_path / 'there' / 'one.db'}"


@contextmanager
def paying(place: str, session: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that is in a tool of this session."""
    spec = place if "://" in place else f"jsonl:{place}"
    process = subprocess.Popen(
        [sys.executable, "-c", PAYER, spec, session], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"paying\n"
    yield process
    process.kill()
    process.communicate()


async def ask(records: ApprovalRecords, session: str, title: str) -> None:
    request = ApprovalRequest(
        title=title, severity="warning", plugin="p", questions=(Question(title=title, plugin="p"),), session_id=session,
        requester={"id": "bob"}, call=ToolCall("c1", "pay", {}), tool=make("pay"), arguments={},
    )  # fmt: skip
    await ApprovalDesk(records, wait=0)(request)


async def waits(place: str, folder: Path) -> list[Any]:
    done = await hooksdk("sessions", "--store", place, "--json", "waiting", folder=folder)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)["waiting"]


async def test_questions_wait_for_a_person_and_answers_for_a_worker(place: str, tmp_path: Path) -> None:
    store = open_store(place if "://" in place else f"jsonl:{place}")
    records = ApprovalRecords(store, before=tmp_path / "none.db")
    await ask(records, "ann", "Pay?")
    await ask(records, "ann/1-sub", "Pay more?")
    await ask(records, "ann/2-sub", "Pay most?")
    await records.answer(1, Approval(True))
    await records.answer(3, Approval(False))
    found = await waits(place, tmp_path)
    await store.aclose()
    assert {one["number"]: (one["kind"], one["session"], one["for"], one["requester"]) for one in found} == {
        1: ("answer", "ann", "a worker", "bob"),
        2: ("question", "ann/1-sub", "a person", "bob"),
        3: ("answer", "ann/2-sub", "a worker", "bob"),
    }
    assert [one["since"] for one in found] == sorted(one["since"] for one in found)
    done = await hooksdk("sessions", "--store", place, "waiting", folder=tmp_path)
    assert "question 2, Pay more? (host:core:pay)" in done.out
    assert "question 3, Pay most? (host:core:pay): denied, and not taken" in done.out


async def test_a_call_waits_for_a_person_once_its_process_is_dead(place: str, tmp_path: Path) -> None:
    with paying(place, "ann") as process:
        assert await waits(place, tmp_path) == [], "it runs"
        with paying(place, "ann/1-sub"):
            process.kill()
            process.wait()
            found = await waits(place, tmp_path)
    doubt = next(one for one in found if one["kind"] == "in_doubt")
    assert (doubt["session"], doubt["for"], doubt["call"]["name"]) == ("ann", "a person", "pay")
    assert doubt["what"] == f"pay may have taken effect ({doubt['call']['effect_id']})"
    left = [(one["session"], one["for"]) for one in found if one["kind"] == "left"]
    assert left == [("ann", "a worker")]
    assert len(found) == 1 + len(left)


async def test_a_call_that_is_settled_waits_no_longer(place: str, tmp_path: Path) -> None:
    with paying(place, "ann"):
        pass
    settled = ("sessions", "settle", "ann", "c1", "paid, receipt 7", "--store", place)
    assert (await hooksdk(*settled, folder=tmp_path)).code == 0
    assert await waits(place, tmp_path) == []


async def test_options_before_the_command_count_for_it(tmp_path: Path) -> None:
    await ask(ApprovalRecords(SqlStore(tmp_path / "kept")), "here", "Delete everything?")
    await ask(ApprovalRecords(SqlStore(tmp_path / "b")), "there", "Send a mail?")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "hooksdk.toml").write_text('store = "memory"\n')
    for words in (["--store", str(tmp_path / "b"), "waiting"], ["waiting", "--store", str(tmp_path / "b")]):
        done = await hooksdk("sessions", *words, folder=tmp_path)
        assert (done.code, "Send a mail?" in done.out, "Delete" in done.out) == (0, True, False)
    done = await hooksdk("sessions", "--json", "waiting", "--project", "project", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "keeps sessions in memory" in done.err


async def test_a_session_that_cannot_be_read_is_named_and_the_code_is_1(tmp_path: Path) -> None:
    with paying(str(tmp_path), "ann"), paying(str(tmp_path), "bob"):
        pass
    store = SqlStore(tmp_path)
    statement = "UPDATE hooksdk_messages SET body = '{torn' WHERE session = :id"
    await store.work(lambda run: run(lambda one: one.execute(statement, {"id": session_key("ann")})))
    await store.aclose()
    done = await hooksdk("sessions", "waiting", "--store", str(tmp_path), "--json", folder=tmp_path)
    document = json.loads(done.out)
    assert (done.code, {one["session"] for one in document["waiting"]}) == (1, {"bob"})
    assert document["problems"][0].startswith("session 'ann': ")
    done = await hooksdk("sessions", "waiting", "--store", str(tmp_path), folder=tmp_path)
    assert "not read" in done.out


async def test_an_empty_store_has_nothing_that_waits(place: str, tmp_path: Path) -> None:
    assert await waits(place, tmp_path) == []
    done = await hooksdk("sessions", "waiting", "--store", place, folder=tmp_path)
    assert (done.code, done.out.partition(" in ")[0]) == (0, "Nothing waits")


async def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    database = tmp_path / "one.db"
    assert await waits(f"sqlite:///{database}", tmp_path) == []
    assert not database.exists()
