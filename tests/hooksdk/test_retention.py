"""How long sessions are kept: what `[sessions]` says, and who is let go when."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from pathlib import Path

import anyio
import pytest

from hooksdk import Host
from hooksdk.config import load_config, read_config, retention_of
from hooksdk.errors import ConfigError
from hooksdk.stores import MemoryStore, SqlStore
from hooksdk.stores.retention import remove_some, tidy
from tests.postgres import Postgres

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqlStore]:
    async with aclosing(SqlStore(tmp_path)) as opened:
        yield opened


async def say(store: SqlStore, session_id: str, characters: int = 10) -> None:
    async with Host(store=store) as host, host.session(session_id) as session, session.run() as run:
        await run.record({"role": "user", "content": "x" * characters})


def age(folder: Path, days: float, *session_ids: str) -> None:
    """These sessions were written last so many days ago."""
    with closing(sqlite3.connect(folder / "hooksdk.db")) as connection:
        for session_id in session_ids:
            then = time.time() - days * 86_400
            connection.execute("UPDATE hooksdk_sessions SET changed = ? WHERE name = ?", (then, f'"{session_id}"'))
        connection.commit()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('keep = "3 moons"', "sessions.keep"),
        ("keep = 30", "a whole number above 0 and one of h, d, w, such as '30d'"),
        ('keep = "0d"', "above 0"),
        ('keep = "-1d"', "above 0"),
        ('keep_size = "2 KB"', "MB, GB, TB"),
        ('kep = "30d"', "Did you mean 'sessions.keep'"),
    ],
)
def test_a_wrong_rule_is_refused_with_file_key_and_what_was_expected(
    tmp_path: Path, written: str, expected: str
) -> None:
    (tmp_path / "hooksdk.toml").write_text(f"[sessions]\n{written}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refusal:
        load_config(folder=tmp_path)
    assert expected in str(refusal.value)
    assert "hooksdk.toml" in str(refusal.value)


def test_a_project_that_is_not_trusted_lets_no_session_go(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('[sessions]\nkeep = "1h"\n', encoding="utf-8")
    config, merged = read_config(folder=tmp_path)
    assert config.sessions == {}
    assert [remark.entry for remark in merged.missing_trust()] == ["sessions"]


def test_a_rule_is_told_in_words() -> None:
    assert retention_of({"keep": "2w", "keep_size": "2GB"}).words == (
        "not written for 14 days and the oldest above 2 GB"
    )
    assert retention_of({}).words == ""


async def test_sessions_that_were_not_written_for_so_long_go_and_open_ones_stay(
    store: SqlStore, tmp_path: Path
) -> None:
    for name in ("old", "open", "new"):
        await say(store, name)
    age(tmp_path, 31, "old", "open")
    async with aclosing(SqlStore(tmp_path)) as other:
        log = await other.open_session("open")
        assert await remove_some(store, {"keep": "30d"}) == 1
        await log.close()
    assert await store.list_sessions() == ["new", "open"]
    assert await remove_some(store, {}) == 0


async def test_open_sessions_do_not_hold_up_those_behind_them(store: SqlStore, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        await say(store, name)
    age(tmp_path, 40, "one", "two")
    age(tmp_path, 31, "three")
    async with aclosing(SqlStore(tmp_path)) as other:
        logs = [await other.open_session(name) for name in ("one", "two")]
        assert await remove_some(store, {"keep": "30d"}, limit=2) == 1
        for log in logs:
            await log.close()
    assert await store.list_sessions() == ["one", "two"]


async def test_a_session_stays_while_a_sub_agent_of_it_was_written_since(store: SqlStore, tmp_path: Path) -> None:
    for name in ("ann", "ann/1-x"):
        await say(store, name)
    age(tmp_path, 31, "ann")
    assert await remove_some(store, {"keep": "30d"}) == 0
    age(tmp_path, 31, "ann/1-x")
    assert await remove_some(store, {"keep": "30d"}) == 2


async def test_above_a_size_the_oldest_go_and_no_more_than_needed(store: SqlStore, tmp_path: Path) -> None:
    for number in range(6):
        await say(store, f"s{number}", 400_000)
        age(tmp_path, 10 - number, f"s{number}")
    assert await remove_some(store, {"keep_size": "2MB"}) == 2
    assert await store.list_sessions() == ["s2", "s3", "s4", "s5"]


@pytest.mark.heavy
async def test_a_server_is_measured_by_what_it_stores(postgres: Postgres) -> None:
    async with aclosing(SqlStore(postgres.url())) as store:
        import random

        for number in range(4):
            async with Host(store=store) as host, host.session(f"s{number}") as session, session.run() as run:
                await run.record({"role": "user", "content": "".join(random.choices("abcdefghijklmnop", k=500_000))})
        rule = {"keep_size": "1MB"}
        assert await remove_some(store, rule) in {1, 2, 3}
        assert "s3" in await store.list_sessions()
        assert await remove_some(store, rule) == 0


async def test_a_host_removes_them_after_a_session_has_closed(
    store: SqlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await say(store, "old")
    age(tmp_path, 31, "old")
    caplog.set_level(logging.INFO, logger="hooksdk")
    async with Host(store=store, config={"sessions": {"keep": "30d"}}) as host:
        async with host.session("new"):
            assert "old" in await store.list_sessions()
        with anyio.fail_after(10):
            while "old" in await store.list_sessions():
                await anyio.sleep(0.01)
    assert "sessions that were removed: 1, not written for 30 days ([sessions])" in caplog.text


@pytest.mark.both_loops
async def test_a_host_that_closes_at_that_moment_leaves_nothing_open(tmp_path: Path) -> None:
    for number in range(5):
        async with aclosing(SqlStore(tmp_path / str(number))) as store:
            await say(store, "old")
        age(tmp_path / str(number), 31, "old")
        async with (
            Host(store=tmp_path / str(number), config={"sessions": {"keep": "30d"}}) as host,
            host.session("new"),
        ):
            pass


async def test_memory_keeps_sessions_as_long_as_it_lives() -> None:
    store = MemoryStore()
    async with Host(store=store, config={"sessions": {"keep": "1h"}}) as host, host.session("ann"):
        pass
    await tidy(store, {"keep": "1h"})
    assert await store.list_sessions() == ["ann"]
