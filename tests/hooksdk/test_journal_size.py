"""How large a journal becomes: what plugins keep, results that waited for others, and what is left of both at opening."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from ledgers import JSON, STEPS, knowledge, play_steps
from transcripts import OPENAI, call, history, opened

from hooksdk import Host, hooks
from hooksdk._transcript.changes import change_of, changed, same
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.rewriting import live_entries
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.hooks import AfterToolCall
from hooksdk.stores import MemoryStore, SqlStore, Store
from hooksdk.tools import Tool
from hooksdk.transcript import Results, Transcript
from tests.hooksdk.tables import rewrite, run_sql

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqlStore]:
    made = SqlStore(tmp_path)
    yield made
    await made.aclose()


async def journal_size(store: Store) -> int:
    return len(json.dumps((await store.read_session("s"))[1]))


# --- what changed ---


@settings(max_examples=150)
@given(JSON, JSON)
def test_a_change_makes_the_new_value_of_the_old_one(old: Any, new: Any) -> None:
    change = change_of(old, new)
    assert same(old if change is None else changed(old, change), new)
    assert change_of(new, new) is None


class CallLog:
    """Keeps the calls that it has seen, as a loop detector does."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    @hooks.after_tool_call
    def see(self, event: AfterToolCall) -> None:
        self._state.setdefault("calls", []).append([event.call.name, event.call.id])


async def _journal_after(store: Store, calls: int) -> int:
    tool = Tool(name="read_file", execute=lambda: "fine")
    async with Host([CallLog], store=store) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([tool])
        await run.record(OPENAI.user("go"))
        for number in range(calls):
            one = ToolCall(f"c{number}", "read_file", {})
            await run.record(OPENAI.reply("", [one]))
            await run.call_tool(one)
    return await journal_size(store)


@pytest.mark.heavy
async def test_a_state_that_grows_with_the_calls_makes_the_journal_grow_with_the_calls(tmp_path: Path) -> None:
    short, long = [await _journal_after(MemoryStore(), calls) for calls in (20, 80)]
    assert long < 6 * short  # a whole state at each call would make it 16


async def test_every_call_is_in_the_state_that_is_stored_after_it(store: SqlStore) -> None:
    async with opened(store) as transcript:
        for number in range(30):
            await transcript.save_state("log", {"calls": list(range(number)), "last": number, "text": "x" * number})
    async with opened(store) as transcript:
        assert transcript.state("log") == {"calls": list(range(29)), "last": 29, "text": "x" * 29}


# --- a journal of which most is void ---


@pytest.mark.heavy
@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_the_shorter_journal_gives_the_same_session(steps: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        log = await MemoryStore().open_session("s")
        transcript = await Transcript.open(log, "s")
        await transcript.use_format(OPENAI)
        await play_steps(transcript, steps)
        messages, journal = await log.read()
        before = Ledger.replay(messages, journal, OPENAI)
        shorter = live_entries(journal, before)
        after = Ledger.replay(messages, shorter, OPENAI)
        assert knowledge(after) == knowledge(before)
        assert live_entries(shorter, after) == shorter

    anyio.run(run)


async def _mostly_void(store: Store) -> Transcript:
    """A session, left open, whose results waited for one another, and whose plugin kept much and keeps little now."""
    transcript = await Transcript.open(await store.open_session("s"), "s")
    await transcript.use_format(OPENAI)
    await transcript.append(history(OPENAI, ["x" * 1_000] * 2))
    calls = [call(each) for each in range(5, 10)]
    await transcript.append([OPENAI.reply("", calls)])
    for each in reversed(calls):
        await transcript.answer(each, ToolResult(each.id + "y" * 20_000), None)
    await transcript.append([OPENAI.reply("done")])
    await transcript.save_state("p", {"notes": "z" * 20_000})
    await transcript.save_state("p", {"notes": "short"})
    await Results(transcript, "p").trim("r1")
    await transcript.drain()
    await Results(transcript, "p").trim("r2")
    return transcript


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_journal_of_which_most_is_void_is_stored_anew_at_opening(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres").url() if kind == "postgres" else f"sqlite:///{tmp_path / 'sessions.db'}"
    store = MemoryStore() if kind == "memory" else SqlStore(url)
    first = await _mostly_void(store)
    view, results = first.view, first.list_results()
    await first.close()
    messages, large = await store.read_session("s")
    for _ in range(2):
        async with opened(store) as transcript:
            assert (transcript.view, transcript.list_results(), transcript.queued) == (view, results, 1)
            assert transcript.state("p") == {"notes": "short"}
    assert (await store.read_session("s"))[0] == messages
    assert len(json.dumps((await store.read_session("s"))[1])) < len(json.dumps(large)) / 20
    async with opened(store) as transcript:
        await transcript.append([OPENAI.user("more")])
        await transcript.drain()
        view = transcript.view
    async with opened(store) as transcript:
        assert transcript.view == view
    await store.aclose()


async def test_a_journal_that_is_in_use_is_left_as_it_is(store: SqlStore) -> None:
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, ["x" * 1_000]))
        for number in range(20):
            await transcript.save_state("p", {"notes": f"{number}" * 10_000})
            await transcript.save_state(f"p{number}", {"notes": f"{number}" * 20_000})
    before = await store.read_session("s")
    async with opened(store):
        pass
    assert await store.read_session("s") == before


async def test_a_journal_whose_messages_were_lost_keeps_every_entry(store: SqlStore) -> None:
    await (await _mostly_void(store)).close()
    before = (await store.read_session("s"))[1]
    await rewrite(store, lambda messages: messages[: len(messages) // 2])
    async with opened(store, form=None):
        pass
    assert (await store.read_session("s"))[1] == before


@pytest.mark.parametrize("event", ["DELETE", "INSERT"])
async def test_where_the_new_journal_cannot_be_stored_the_session_opens_and_what_is_appended_stays(
    store: SqlStore, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = await _mostly_void(store)
    view = first.view
    await first.close()
    large = await journal_size(store)
    log = await store.open_session("s")
    abort = "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    await run_sql(store, f"CREATE TRIGGER full BEFORE {event} ON hooksdk_journal WHEN 1 {abort}")
    transcript = await Transcript.open(log, "s")
    assert caplog.text.count("stays longer than it need be") == 1
    await run_sql(store, "DROP TRIGGER full")
    assert transcript.view == view
    assert await journal_size(store) == large
    await transcript.append([OPENAI.user("more")])
    await transcript.save_state("p", {"notes": "new"})
    await transcript.close()
    async with opened(store, form=None) as transcript:
        assert transcript.view == [*view, OPENAI.user("more")]
        assert transcript.state("p") == {"notes": "new"}
    assert await journal_size(store) < large / 20
