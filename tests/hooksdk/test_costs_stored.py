"""What a session's requests used, as it is stored, and whether the provider's cache held what it should have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transcripts import OPENAI

from hooksdk import Host
from hooksdk.agent import run_agent
from hooksdk.costs import (
    CacheReading,
    MarkedCache,
    Prices,
    Request,
    Usage,
    at_each_request,
    cache_of,
    cache_readings,
    replay,
    replay_as_stored,
    requests_in,
)
from hooksdk.formats import get_format
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.models.openai import OpenAIModel
from hooksdk.stores import MemoryStore, SqlStore, Store
from hooksdk.testing import Turn, call, open_session
from hooksdk.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio
SONNET, GPT = "anthropic:claude-sonnet-5-5", "openai:gpt-5"
SYSTEM = "You read what you are told. " * 200


def read(number: int) -> str:
    """Read one page."""
    return f"{number} word " * 700


def reads_on(turn: Turn) -> Any:
    """Seven pages a run, then an answer."""
    return call("read", number=turn.number) if turn.number % 8 else "done"


async def play(store: Store, model: str = SONNET, *, plugins: Sequence[Any] = (), **options: Any) -> list[Request]:
    """Two runs of a session, and what their requests used."""
    async with ScriptedServer(reads_on) as server, Host(plugins, store=store) as host, host.session("s") as session:
        provider, _, name = model.partition(":")
        made: Any = AnthropicModel if provider == "anthropic" else OpenAIModel
        url = server.anthropic_url if provider == "anthropic" else server.openai_url
        async with made(name, base_url=url, api_key="none", **options) as client:
            for prompt in ("Read.", "Read on."):
                await run_agent(session, client, prompt, tools=[read], system=SYSTEM)
        return session.requests


async def readings(store: Store) -> list[CacheReading]:
    messages, journal = await store.read_session("s")
    name = next(entry["name"] for entry in journal if entry["kind"] == "format")
    return cache_readings(messages, journal, get_format(name))


@pytest.mark.heavy
async def test_a_session_tells_what_each_of_its_requests_used_also_once_it_is_opened_again(tmp_path: Path):
    asked = await play(SqlStore(tmp_path))
    assert len(asked) == 16
    assert {one.model for one in asked} == {SONNET}
    assert len({one.run_id for one in asked}) == 2
    assert all(one.usage.prompt and one.usage.output and one.time for one in asked)
    async with Host(store=SqlStore(tmp_path)) as host, host.session("s") as session:
        assert session.requests == asked
    _, journal = await SqlStore(tmp_path).read_session("s")
    assert requests_in(journal) == asked


async def test_where_the_provider_counts_nothing_nothing_is_said():
    async with open_session() as session, session.run(model="any") as run:
        await run.record([OPENAI.user("Hello"), OPENAI.reply("Hello!")])
        assert session.requests == []


async def test_a_host_s_own_loop_stores_what_it_says_of_usage():
    async with open_session() as session, session.run(model="m", provider="acme") as run:
        await run.record(OPENAI.user("Hello"))
        await run.record(OPENAI.reply("Hello!"), usage={"prompt_tokens": 7, "completion_tokens": 2})
        (asked,) = session.requests
    assert asked == Request(model="acme:m", usage=Usage(fresh=7, output=2), run_id=asked.run_id, messages=2)


@pytest.mark.heavy
@pytest.mark.parametrize("model", [SONNET, GPT])
async def test_what_the_cache_should_have_held_is_what_a_cache_that_counts_has_read(model: str):
    store = MemoryStore()
    asked = await play(store, model)
    (reading,) = await readings(store)
    assert reading.read == sum(one.usage.read for one in asked) > 50_000
    assert reading.expected == pytest.approx(reading.read, rel=0.02)
    assert reading.difference == ""


@pytest.mark.heavy
async def test_a_cache_that_nobody_asked_for_is_told():
    store = MemoryStore()
    await play(store, cache="off")
    (reading,) = await readings(store)
    assert (reading.model, reading.read) == (SONNET, 0)
    assert reading.difference.startswith("the provider read 0 of the ")
    assert reading.difference.endswith(" tokens that its cache should have held: is caching on?")


@pytest.mark.heavy
async def test_trims_that_are_stored_are_reckoned_with():
    class Clears:
        """Shortens everything old at each run's end."""

        from hooksdk import hooks

        @hooks.agent_end
        async def clear(self, event: hooks.AgentEnd) -> None:
            for info in event.transcript.list():
                if info.trimmable:
                    await event.transcript.trim(info.handle)

    store = MemoryStore()
    await play(store, plugins=[Clears])
    (reading,) = await readings(store)
    assert reading.difference == ""
    messages, journal = await store.read_session("s")
    form = get_format("anthropic")
    whole, as_it_was = replay(messages, form), replay_as_stored(messages, journal, form)
    assert (as_it_was.requests, as_it_was.trims, as_it_was.drains) == (16, 14, 2)
    assert replay(messages, form, at_each_request).tokens < as_it_was.tokens < whole.tokens
    assert replay_as_stored(messages, [], form) == whole


async def test_a_pause_that_outlives_the_cache_is_known_by_the_times_that_are_stored():
    text = "word " * 8_000
    messages = [OPENAI.user(text), OPENAI.reply("a"), OPENAI.user("more"), OPENAI.reply("b")]
    usage = Usage(fresh=10_000)

    def expected(second: float, **more: int) -> int:
        asked = [
            Request(model=SONNET, usage=usage, messages=2),
            Request(model=SONNET, usage=replace(usage, **more), messages=4),
        ]
        times = (0.0, second)
        entries = [
            {"kind": "used", "m": one.messages, "time": time, **one.entry()}
            for one, time in zip(asked, times, strict=True)
        ]
        return cache_readings(messages, entries, OPENAI)[0].expected

    assert (expected(299) > 9_000, expected(301)) == (True, 0)
    assert expected(301, written=1, written_1h=1) > 9_000


async def test_of_models_whose_cache_has_no_known_rule_nothing_is_expected():
    messages = [OPENAI.user("Hello"), OPENAI.reply("a")]
    entry = {"kind": "used", "m": 2, **Request(model="openai:llama-of-mine", usage=Usage(fresh=9)).entry()}
    assert cache_readings(messages, [entry], OPENAI) == []


@pytest.mark.parametrize(
    ("model", "kind", "read"),
    [
        ("anthropic:any", "MarkedCache", 0.1), ("bedrock:eu.anthropic.claude-sonnet-4-5", "MarkedCache", 0.1), ("claude-opus-4-5", "MarkedCache", 0.1),
        ("openai:gpt-5", "PrefixCache", 0.1), ("openrouter:openai/gpt-5", "PrefixCache", 0.1), ("google:gemini-3-pro", "PrefixCache", 0.1),
        ("openai:qwen3", "NoneType", None), ("", "NoneType", None),
    ],
)  # fmt: skip
async def test_a_model_s_name_says_which_cache_it_has(model: str, kind: str, read: float | None):
    cache = cache_of(model)
    assert (type(cache).__name__, cache and cache.prices.read) == (kind, read)


async def test_the_prices_of_a_cache_may_be_others():
    cache = cache_of(SONNET, Prices(read=0.5))
    assert isinstance(cache, MarkedCache)
    assert cache.prices.read == 0.5


async def test_more_than_was_expected_is_told_and_a_tenth_is_not():
    assert "where 1,000 were expected" in CacheReading(model=GPT, expected=1_000, read=9_000).difference
    assert CacheReading(model=GPT, expected=100_000, read=90_000).difference == ""
    assert CacheReading(model=GPT, expected=100_000, read=89_999).difference
    assert CacheReading(model=GPT, expected=1_024, read=0).difference == ""
