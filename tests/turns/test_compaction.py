"""A host that shortens its messages between two turns."""

from __future__ import annotations

import pytest
from reading_transcripts import assert_sendable

from hooksdk import Session, Tool
from hooksdk.formats import get_format
from hooksdk.hooks import AfterCompaction, AfterToolsResolved, BeforeCompaction
from hooksdk.testing import ScriptedModel, call, open_session, play, recorder

pytestmark = pytest.mark.anyio


def listing() -> str:
    """List everything."""
    return "entry\n" * 1_000


LISTING = Tool.from_function(listing, source="host", owner="test")


async def run_and_compact(session: Session, form: str) -> list[dict[str, object]]:
    """A turn, a compaction, and what the model is sent next; the run goes on for one more turn."""
    model = ScriptedModel([call("listing"), "I have read it"], format=form)
    reader = get_format(form)
    async with session.run(format=form) as run:
        offered = reader.tools(await run.resolve_tools([LISTING]))
        await run.record(reader.user("list everything"))
        reply = await model.reply(await run.prepare_messages(), offered)
        await run.record(reply.message)
        for one in run.pending:
            await run.call_tool(one)
        async with run.compaction() as compaction:
            await run.resolve_tools([LISTING])
            await compaction.replace([reader.user("You listed everything; there were 1,000 entries.")])
        sent = await run.prepare_messages()
        await run.record((await model.reply(sent, offered)).message)
    return sent


async def test_the_model_sees_the_summary_and_the_store_keeps_everything(form: str):
    async with open_session() as session:
        sent = await run_and_compact(session, form)
        assert sent == [get_format(form).user("You listed everything; there were 1,000 entries.")]
        assert "entry" in str(session.messages)
        assert_sendable(form, session.messages)


async def test_a_compaction_fires_its_two_hooks_and_never_announces_tools(form: str):
    seen = recorder()
    async with open_session(seen) as session:
        await run_and_compact(session, form)
    assert len(seen.of(AfterToolsResolved)) == 1
    (before,), (after,) = seen.of(BeforeCompaction), seen.of(AfterCompaction)
    assert before.tokens > 1_000 > after.tokens


async def test_the_next_run_goes_on_from_the_summary(form: str):
    async with open_session(tools=[LISTING]) as session:
        await run_and_compact(session, form)
        played = await play(session, [call("listing"), "again"], "once more", format=form)
    first = played.turns[0].messages
    assert "1,000 entries" in str(first[0])
    assert "entry\\n" not in str(first)
    assert_sendable(form, first)
    assert_sendable(form, played.turns[1].messages)


async def test_a_compacted_session_opened_again_shows_the_same(form: str):
    from hooksdk import MemoryStore

    store = MemoryStore()
    async with open_session(store=store) as session:
        await run_and_compact(session, form)
        here = (await play(session, ["one"], "next", format=form)).turns[0].messages
    async with open_session(store=store) as session, session.run(format=form) as run:
        there = await run.prepare_messages()
    assert list(here) == there[: len(here)]
