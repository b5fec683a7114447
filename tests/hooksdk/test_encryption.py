"""What is stored is encrypted where the operator gives a key, and keys can be changed."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from transcripts import OPENAI, history, opened

from hooksdk import Host
from hooksdk.config import Config
from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores import SqlStore, _kept_rows, open_store
from hooksdk.stores.rekeying import rekey
from hooksdk.transcript import Results
from tests.hooksdk.commands import hooksdk

pytestmark = pytest.mark.anyio
WORD = b"zanzibar"
OLD, NEW = secrets.token_bytes(32), secrets.token_bytes(32)
Make = Callable[[Sequence[bytes]], SqlStore]


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Another worker's store over one place, with the given keys."""
    place = tmp_path / "kept" if request.param == "sqlite" else request.getfixturevalue("postgres").url()
    return lambda keys: SqlStore(place, keys=keys)


@asynccontextmanager
async def closing(store: SqlStore) -> AsyncGenerator[SqlStore]:
    try:
        yield store
    finally:
        await store.aclose()


async def fill(store: SqlStore) -> None:
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [f"zanzibar {number} " * 100 for number in range(20)]))
        await Results(transcript, "p").trim("r2", "of zanzibar")
        await transcript.drain()
    await store.set_value("plugin", "key", {"city": "zanzibar"})


@pytest.fixture(autouse=True)
def states_of_short_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kept_rows, "MIN_STATE_BYTES", 100)


async def test_no_word_of_an_encrypted_session_stands_in_the_file(tmp_path: Path) -> None:
    async with closing(SqlStore(tmp_path, keys=[OLD])) as store:
        await fill(store)
        files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert len(files) >= 1
    assert not any(WORD in data for data in [*files, *(path.read_bytes() for path in tmp_path.iterdir())])


@pytest.mark.in_ci(make=["sqlite"])
async def test_an_encrypted_session_opens_as_it_was_and_goes_on(make: Make) -> None:
    async with closing(make([OLD])) as store:
        await fill(store)
        before = await store.read_session("s")
        async with opened(store, form=None) as transcript:
            assert transcript.messages == before[0]
            assert "was trimmed" in str(transcript.view)
            await transcript.append([OPENAI.user("more")])
        assert await store.get_value("plugin", "key") == {"city": "zanzibar"}
        assert await store.change_value("plugin", "key", {"city": "zanzibar"}, 1)
        assert [one.messages[0] for one in await store.list_beginnings()] == before[0][:1]


@pytest.mark.in_ci(make=["sqlite"])
@pytest.mark.parametrize("keys", [[], [NEW]])
async def test_without_its_key_nothing_is_read_and_the_error_names_the_key(make: Make, keys: list[bytes]) -> None:
    async with closing(make([OLD])) as store:
        await fill(store)
    async with closing(make(keys)) as store:
        for look in (store.read_session("s"), store.get_value("plugin", "key")):
            with pytest.raises(StoreError, match=r"encrypted with the key [0-9a-f]{8}, which is not among those given"):
                await look


@pytest.mark.in_ci(make=["sqlite"])
async def test_a_new_key_takes_the_place_of_none_and_of_an_old_one(make: Make) -> None:
    async with closing(make([])) as store:
        await fill(store)
        messages, journal = await store.read_session("s")
    for keys in ([OLD], [NEW, OLD]):
        async with closing(make(keys)) as store:
            assert [one async for one in rekey(store)] == [("s", "encrypted")]
            assert [one async for one in rekey(store)] == [("s", "unchanged")]
    async with closing(make([NEW])) as store:
        after = await store.read_session("s")
        assert (after[0], after[1][: len(journal)]) == (messages, journal)
        assert [entry["why"] for entry in after[1][len(journal) :]] == ["a new key", "a new key"]
        assert await store.get_value("plugin", "key") == {"city": "zanzibar"}
        async with opened(store, form=None) as transcript:
            assert transcript.messages == messages


async def test_a_session_that_somebody_holds_is_left_for_the_next_time(tmp_path: Path) -> None:
    async with closing(SqlStore(tmp_path)) as holder, closing(SqlStore(tmp_path, keys=[OLD])) as store:
        await fill(holder)
        async with opened(holder, form=None):
            assert [(name, "is held" in why) async for name, why in rekey(store)] == [("s", True)]
        assert [one async for one in rekey(store)] == [("s", "encrypted")]


async def test_a_text_that_was_moved_to_another_place_is_refused(tmp_path: Path) -> None:
    async with closing(SqlStore(tmp_path, keys=[OLD])) as store:
        for key in ("a", "b"):
            await store.set_value("plugin", key, key)
        swap = "UPDATE hooksdk_values SET body = (SELECT body FROM hooksdk_values WHERE name = '\"b\"') WHERE name = '\"a\"'"
        await store.database.transaction(lambda transaction: transaction.execute(swap))
        with pytest.raises(StoreError, match="changed"):
            await store.get_value("plugin", "a")


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("env:MY_KEY", "", "the variable MY_KEY is not set"),
        ("env:MY_KEY", "zanzibar", "the variable MY_KEY must hold 64 hexadecimal digits"),
        pytest.param(OLD.hex(), "", "expected where the key is, not the key itself", id="the key itself"),
        ("file:key", "", "expected where the key is"),
    ],
)
def test_a_wrong_key_is_named_by_its_place_and_never_shown(
    key: str, value: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", value)
    with pytest.raises((ConfigError, ValueError), match=problem) as caught:
        open_store(tmp_path, Config.model_validate({"sessions": {"key": key}}).sessions)
    assert "zanzibar" not in str(caught.value)
    assert OLD.hex()[:8] not in str(caught.value)


@pytest.mark.heavy
async def test_a_host_and_the_commands_take_the_key_that_the_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", f"{NEW.hex()}, {OLD.hex()}")
    config = Config.model_validate({"store": f"jsonl:{tmp_path / 'kept'}", "sessions": {"key": "env:MY_KEY"}})
    async with Host(config=config) as host, host.session("ann") as session, session.run() as run:
        await run.record({"role": "user", "content": "to zanzibar"})
    assert not any(WORD in path.read_bytes() for path in (tmp_path / "kept").iterdir())
    kept = ("--store", str(tmp_path / "kept"))
    variables = {"HOOKSDK_SESSIONS_KEY": f"{OLD.hex()},{NEW.hex()}"}
    shown = await hooksdk("sessions", "show", "ann", *kept, folder=tmp_path, variables=variables)
    assert "to zanzibar" in shown.out
    rekeyed = await hooksdk("sessions", "rekey", "--json", *kept, folder=tmp_path, variables=variables)
    assert (rekeyed.code, rekeyed.json()) == (0, {"schema": 1, "encrypted": ["ann"], "left": {}})
    refused = await hooksdk("sessions", "rekey", *kept, folder=tmp_path)
    assert (refused.code, "there is no key to encrypt with" in refused.err) == (3, True)
