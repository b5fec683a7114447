"""`hooksdk sessions erase` and `keep`: what they remove, and what the receipt says of it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

from hooksdk import Host
from hooksdk.audit import read_records
from hooksdk.stores import SqlStore
from tests.hooksdk.commands import hooksdk
from tests.hooksdk.warm import Done

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
WORD = "zebrafinch"


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder with a store in which ann and bob have asked something, ann with a sub-agent."""
    async with Host(store=tmp_path / "there") as host:
        for name in ("ann", "bob"):
            async with host.session(name) as session, session.run(requester={"id": f"{name}@home"}) as run:
                await run.record({"role": "user", "content": f"{WORD} of {name}"})
                if name == "ann":
                    async with session.child("helper") as child, child.run() as inner:
                        await inner.record({"role": "user", "content": f"{WORD} of ann"})
    return tmp_path


async def sessions(folder: Path, *arguments: str) -> Done:
    return await hooksdk("sessions", *arguments, "--store", "there", folder=folder)


async def left(folder: Path) -> list[str]:
    async with aclosing(SqlStore(folder / "there")) as store:
        return await store.list_sessions()


def found(folder: Path, word: str) -> list[str]:
    return [path.name for path in (folder / "there").iterdir() if word.encode() in path.read_bytes()]


async def test_a_session_is_erased_with_its_sub_agents(folder: Path) -> None:
    done = await sessions(folder, "erase", "ann", "--yes")
    assert done.code == 0, done.err
    assert "erased      2 sessions" in done.out
    assert "not reached backups" in done.out
    assert await left(folder) == ["bob"]
    assert found(folder, f"{WORD} of ann") == []


async def test_a_dry_run_names_what_would_go_and_changes_nothing(folder: Path) -> None:
    done = await sessions(folder, "erase", "--requester", "ann@home", "--dry-run", "--json")
    assert done.code == 0
    assert sorted(done.json()["would_erase"]) == ["ann", "helper"]
    assert await left(folder) == ["ann", "bob", "helper"]


async def test_what_a_requester_asked_is_erased_and_the_receipt_is_a_document(folder: Path) -> None:
    done = await sessions(folder, "erase", "--requester", "bob@home", "--yes", "--json")
    document: dict[str, Any] = done.json()
    assert (document["erased"], document["sessions"], document["waits"]) == (True, ["bob"], None)
    assert found(folder, "bob") == []


async def test_while_somebody_reads_it_waits_with_a_code_of_its_own_and_again_finishes(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "there" / "hooksdk.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM hooksdk_messages").fetchone()
        done = await sessions(folder, "erase", "ann", "--yes")
    assert done.code == 3
    assert "not erased" in done.out
    done = await sessions(folder, "erase", "ann", "--yes")
    assert (done.code, "erased " in done.out) == (0, True)
    done = await sessions(folder, "erase", "ann", "--yes")
    assert done.code == 1
    assert "there is no session 'ann'" in done.err


async def test_a_held_session_is_refused_and_its_holder_named(folder: Path) -> None:
    async with aclosing(SqlStore(folder / "there")) as store:
        log = await store.open_session("helper")
        done = await sessions(folder, "erase", "ann", "--yes")
        await log.close()
    assert done.code == 1
    assert "process" in done.err
    assert await left(folder) == ["ann", "bob", "helper"]


async def test_sessions_before_a_day_are_erased(folder: Path) -> None:
    assert (await sessions(folder, "erase", "--before", "2020-01-31", "--yes")).code == 0
    assert len(await left(folder)) == 3
    assert (await sessions(folder, "erase", "--before", "2099-01-31", "--yes")).code == 0
    assert await left(folder) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("erase",), "expected ids, --requester ID or --before DATE"),
        (("erase", "ann", "--requester", "ann"), "one of them alone"),
        (("erase", "--before", "yesterday", "--yes"), "such as 2026-01-31"),
        (("erase", "ann", "--json"), "add --yes"),
        (("erase", "ann"), "--yes erases without asking"),
        (("erase", "nobody", "--yes"), "there is no session 'nobody'"),
    ],
)
async def test_what_is_not_meant_is_refused(folder: Path, arguments: tuple[str, ...], problem: str) -> None:
    done = await sessions(folder, *arguments)
    assert done.code in {1, 2}
    assert problem in " ".join(done.err.split())
    assert len(await left(folder)) == 3


async def test_the_audit_chain_says_that_something_was_erased_and_does_not_repeat_it(folder: Path) -> None:
    (folder / "hooksdk.toml").write_text("[plugins.audit]\nenabled = true\n", encoding="utf-8")
    done = await sessions(folder, "erase", "--requester", "ann@home", "--yes")
    assert done.code == 0, done.err
    chain = folder / "kept" / "audit" / "audit.jsonl"
    key = str(chain.with_name("key.pub"))
    last = list(read_records(chain))[-1]
    assert (last.kind, last.fields["state"], len(last.fields["sessions_sha256"])) == ("erased", "erased", 2)
    assert "ann" not in chain.read_text(encoding="utf-8")
    assert (await hooksdk("audit", "verify", str(chain), "--key", key, folder=folder)).code == 0


async def test_keep_removes_by_the_configuration_and_says_which_rule_it_is(folder: Path) -> None:
    assert "kept for good" in (await sessions(folder, "keep")).out
    mine = folder / "none" / "hooksdk"
    mine.mkdir(parents=True)
    (mine / "config.toml").write_text('[sessions]\nkeep = "30d"\n', encoding="utf-8")
    with closing(sqlite3.connect(folder / "there" / "hooksdk.db")) as database:
        database.execute("UPDATE hooksdk_sessions SET changed = 1 WHERE name = '\"bob\"'")
        database.commit()
    assert "sessions are removed: not written for 30 days" in (await hooksdk("doctor", folder=folder)).out
    done = await sessions(folder, "keep", "--json")
    assert json.loads(done.out) == {"schema": 1, "rule": "not written for 30 days", "removed": 1}
    assert await left(folder) == ["ann", "helper"]
