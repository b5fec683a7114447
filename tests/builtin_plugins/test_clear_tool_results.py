"""Old tool results become short as soon as that pays."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest

from builtin_plugins.clear_tool_results import ClearToolResults
from hooksdk import MemoryStore, Session, hooks, tool
from hooksdk.errors import ConfigError
from hooksdk.hooks import Trace
from hooksdk.records import Record, TrimDrained
from hooksdk.testing import Played, Reply, ScriptedModel, call, open_session, play

pytestmark = pytest.mark.anyio

PLUGIN = "clear_tool_results"
LONG = "The quick brown fox jumps over the lazy dog. " * 100
"""1,125 tokens."""


def fetch(page: int) -> str:
    """Fetch a page."""
    return f"{page}: {LONG}"


def config(**settings: Any) -> dict[str, Any]:
    return {"plugins": {PLUGIN: {"config": {"trigger": 3_000, "keep": 1, **settings}}}}


async def read_pages(session: Session, pages: int, **more: Any) -> Played:
    return await play(session, [*(call("fetch", page=page) for page in range(pages)), "Read."], **more)


async def read_and_talk(session: Session) -> None:
    """Three pages, and so long an answer behind them that clearing the pages pays after more than 20 requests."""
    await play(session, [*(call("fetch", page=page) for page in range(3)), "A long answer. " * 1_000])


def trimmed(session: Session) -> list[str]:
    return [info.handle for info in session.results.list() if info.trimmed]


async def test_it_is_off_unless_configured() -> None:
    async with open_session(tools=[fetch]) as session:
        await read_pages(session, 8)
        assert trimmed(session) == []


async def test_it_waits_until_it_pays() -> None:
    settings = config(trigger=5_000)
    async with open_session(PLUGIN, tools=[fetch], config=settings) as session:
        await read_and_talk(session)
        for _ in range(10):
            await play(session, ["Yes."])
        assert trimmed(session) == []
        for _ in range(20):
            await play(session, ["Yes."])
        assert trimmed(session) == ["r1", "r2"]


async def test_without_a_cache_to_lose_it_clears_before_the_request_that_would_be_too_long() -> None:
    async with open_session(PLUGIN, tools=[fetch], config=config(cache_life=0)) as session:
        played = await read_pages(session, 8)
        assert max(len(json.dumps(turn.messages)) for turn in played.turns) < 4 * 5_000
        assert trimmed(session) == ["r1", "r2", "r3", "r4", "r5", "r6"]


async def test_tools_that_mark_their_results_disposable_go_first() -> None:
    class Search:
        @tool(disposable=True)
        def look_up(self, page: int) -> str:
            """Look a page up."""
            return fetch(page)

    script = [call("fetch", page=1), call("fetch", page=2), call("look_up", page=3), "Read."]
    async with open_session(PLUGIN, Search, tools=[fetch], config=config(cache_life=0, keep=2)) as session:
        await play(session, script)
        assert trimmed(session) == ["r3"]


async def test_excluded_tools_keep_their_results() -> None:
    settings = config(cache_life=0, exclude_tools=["fetch"])
    async with open_session(PLUGIN, tools=[fetch], config=settings) as session:
        await read_pages(session, 8)
        assert trimmed(session) == []


def write(path: str, content: str) -> str:
    """Write a file."""
    return f"{path}: {len(content)} characters"


@pytest.mark.parametrize(
    ("settings", "handles"),
    [
        ({}, []),
        ({"clear_arguments": True}, ["r1.content", "r2.content", "r3.content"]),
        ({"clear_arguments": True, "keep": 2}, ["r1.content", "r2.content"]),
        ({"clear_arguments": True, "exclude_tools": ["write"]}, []),
    ],
)
async def test_what_the_model_wrote_is_cleared_where_that_is_asked_for(
    settings: dict[str, Any], handles: list[str]
) -> None:
    async with open_session(PLUGIN, tools=[write], config=config(cache_life=0, trigger=2_000, **settings)) as session:
        await play(session, [*(call("write", path=f"{at}.md", content=LONG) for at in range(4)), "Written."])
        assert [info.handle for info in session.results.list(arguments=True) if info.trimmed] == handles


async def test_a_trigger_up_to_1_is_a_share_of_the_context_window() -> None:
    settings = config(cache_life=0, trigger=0.5)
    async with open_session(PLUGIN, tools=[fetch], config=settings) as session:
        await read_pages(session, 4, context_window=40_000)
        assert trimmed(session) == []
        await read_pages(session, 1, context_window=8_000)
        assert trimmed(session) == ["r1", "r2", "r3"]


async def test_by_default_a_small_context_window_is_never_overflown_by_results_that_could_go() -> None:
    async with open_session(PLUGIN, tools=[fetch], config={"plugins": {PLUGIN: {"enabled": True}}}) as session:
        played = await read_pages(session, 12, context_window=8_000)
        assert max(len(json.dumps(turn.messages)) for turn in played.turns) < 4 * 8_000
        assert trimmed(session)[:5] == ["r1", "r2", "r3", "r4", "r5"]


def look(page: int) -> str:
    """Look at a page: some 60 tokens, less than a trim has to save."""
    return f"{page}: " + LONG[:240]


async def look_at_pages(session: Session, pages: int, window: int) -> Played:
    return await play(session, [*(call("look", page=page) for page in range(pages)), "Read."], context_window=window)


async def test_near_the_end_of_the_context_window_short_results_go_too(caplog: pytest.LogCaptureFixture) -> None:
    async with open_session(PLUGIN, tools=[look], config={"plugins": {PLUGIN: {}}}) as session:
        await look_at_pages(session, 18, 2_000)
        assert not any(info.trimmable for info in session.results.list())
        assert trimmed(session)[:5] == ["r1", "r2", "r3", "r4", "r5"]
        assert sum(session.results.message_tokens()) < 1_800
    assert not [record for record in caplog.records if "nothing more to shorten" in record.getMessage()]


async def test_with_room_in_the_context_window_short_results_stay() -> None:
    async with open_session(PLUGIN, tools=[look], config=config(cache_life=0, clear_at_least=0)) as session:
        await look_at_pages(session, 18, 40_000)
        assert trimmed(session) == []


async def test_that_nothing_is_left_to_clear_while_the_window_is_exceeded_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_session(PLUGIN, tools=[look], config={"plugins": {PLUGIN: {}}}) as session:
        await look_at_pages(session, 18, 1_000)
    (told,) = [one.getMessage() for one in caplog.records if "nothing more to shorten" in one.getMessage()]
    assert re.match(
        r"session '.+': its messages take about 1,\d\d\d tokens, more than the context window of 1,000, ", told
    )


async def test_a_session_that_is_opened_again_remembers_when_its_cache_was_used() -> None:
    store = MemoryStore()
    options: dict[str, Any] = {"tools": [fetch], "store": store}
    settings = config(trigger=5_000)
    async with open_session(PLUGIN, config=settings, **options) as session:
        await read_and_talk(session)
    async with open_session(PLUGIN, config=settings, **options) as session:
        await play(session, ["Yes."])
        assert trimmed(session) == []
    async with open_session(PLUGIN, config=config(trigger=5_000, cache_life=0.000_001), **options) as session:
        played = await play(session, ["Yes."])
        assert trimmed(session) == ["r1", "r2"]
        assert len(json.dumps(played.turns[0].messages)) < 22_000


async def test_trace_and_receipt_say_after_how_many_requests_trims_pay_back() -> None:
    records: list[Record] = []

    class Watch:
        @hooks.trace
        def keep(self, event: Trace) -> None:
            records.append(event.record)

    async with open_session("tool_results", Watch, tools=[fetch], grants=["conversation", "offer"]) as session:
        await read_and_talk(session)
        script = [call("trim-tool-result", id="r1"), call("trim-tool-result", id="r2"), "Trimmed."]
        played = await play(session, script)
    drained = [record for record in records if isinstance(record, TrimDrained)]
    assert [record.handle for record in drained] == ["r1", "r2"]
    assert drained[0].pays_back_after == drained[1].pays_back_after
    assert 20 <= (drained[0].pays_back_after or 0) <= 30
    one, both = (json.loads(each.result.text)["pays_back"] for each in played.calls)
    assert one.startswith("this trim: after about 6")
    requests = int(both.removeprefix("the 2 trims that wait: after about ").partition(" ")[0])
    assert requests == pytest.approx(drained[0].pays_back_after, abs=3)


@pytest.mark.parametrize("settings", [{"trigger": 0}, {"keep": -1}, {"cache_read": -0.1}, {"trigers": 5}])
async def test_a_setting_that_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        async with open_session(PLUGIN, config=config(**settings)):
            pass


SEEN = {"input_tokens": 10, "cache_read_input_tokens": 50_000, "cache_creation_input_tokens": 5_000}
MISSED = {**SEEN, "cache_read_input_tokens": 0}


@pytest.mark.heavy
@pytest.mark.parametrize(("usage", "clears"), [(SEEN, 10), (MISSED, 8)])
async def test_where_the_cache_holds_no_beginnings_it_learns_to_clear_seldom(usage: Any, clears: int) -> None:
    """An answer of the cache counts from the next run on: observers are told of a reply in the background."""
    async with open_session(PLUGIN, tools=[fetch], config=config(clear_at_least=None)) as session:
        await play(session, ["Ask."], prompt="A long question. " * 1_500)
        for page in range(11):
            await play(session, [call("fetch", page=page), Reply("Read.", usage=usage)])
        assert len(trimmed(session)) == clears


def gpt(*script: Any) -> Any:
    """A model of OpenAI's that charges for its cache."""
    model: Any = ScriptedModel(list(script))
    model.provider, model.name = "openai", "gpt-5.6-sol"
    return model


@pytest.mark.heavy
@pytest.mark.parametrize(("usage", "most"), [(MISSED, 8), (SEEN, 30)])
async def test_of_a_page_that_can_be_read_in_two_ways_the_dearer_counts_until_the_provider_shows_the_other(
    usage: Any, most: int
) -> None:
    counted = {"prompt_tokens": 55_010, "prompt_tokens_details": {
        "cached_tokens": usage["cache_read_input_tokens"], "cache_write_tokens": usage["cache_creation_input_tokens"]}}  # fmt: skip
    drains: list[int] = []
    async with open_session(PLUGIN, tools=[fetch], config=config()) as session:
        await play(session, gpt("Ask."), prompt="A long question. " * 1_500)
        for page in range(32):
            before = len(trimmed(session))
            await play(session, gpt(call("fetch", page=page), Reply("Read.", usage=counted)))
            drains += [page] * (len(trimmed(session)) > before)
    assert 2 <= len(drains) <= most
    assert drains[0] > 5  # a trim costs the whole prompt, as far as is known
    if usage is SEEN:
        assert drains[-1] - drains[-2] < drains[1] - drains[0]


def test_what_the_usage_shows_is_learned_without_a_thread() -> None:
    """A handler that waits for a thread is late on a slow machine, and its failure is logged at each request."""
    assert inspect.iscoroutinefunction(ClearToolResults.learn)


def fetch_line(page: int) -> str:
    """Fetch a line."""
    return LONG[:3_900]


@pytest.mark.heavy
@pytest.mark.parametrize(("provider", "clears"), [("anthropic", 0), ("OpenAI", 1), (None, 0)])
async def test_the_providers_own_prices_decide(provider: str | None, clears: int) -> None:
    """Where the cache is written for nothing, clearing pays for less."""
    async with open_session(PLUGIN, tools=[fetch_line], config=config(trigger=100, clear_at_least=None)) as session:
        for script in ([call("fetch_line", page=1), call("fetch_line", page=2), "Read."], *[["Yes."]] * 20):
            model: Any = ScriptedModel(script)
            model.provider = provider
            await play(session, model)
        assert len(trimmed(session)) == clears
