"""`prepare_messages(messages, follow=True)`: the list that a host keeps is the truth, and its results keep their trims."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from reading_transcripts import assert_sendable

from hooksdk import MemoryStore, Run, Session, Tool, ToolResult
from hooksdk.formats import Message, get_format
from hooksdk.hooks import AfterCompaction, AfterModelCall, BeforeCompaction
from hooksdk.testing import ScriptedModel, call, open_session, play, recorder

pytestmark = pytest.mark.anyio

LONG = "entry of a long listing\n" * 200


def listing(folder: str) -> str:
    """List a folder."""
    return f"{folder}: {LONG}"


LISTING = Tool.from_function(listing, source="host", owner="test")


@asynccontextmanager
async def two_turns(form: str, *plugins: Any, store: MemoryStore | None = None) -> AsyncGenerator[Session, None]:
    """A session of two turns, each with a long result; that of the first is trimmed."""
    async with open_session(*plugins, tools=[LISTING], store=store) as session:
        model = ScriptedModel(
            [call("listing", folder="a"), "a is read", call("listing", folder="b"), "b is read"], format=form
        )
        await play(session, model, "list a", format=form)
        await play(session, model, "list b", format=form)
        assert (await session.trim("r1", "short a")).status == "applied"
        yield session


async def prepared(session: Session, form: str, messages: list[Message]) -> list[Message]:
    async with session.run(format=form) as run:
        return await run.prepare_messages(messages, follow=True)


def first_turn(session: Session) -> list[Message]:
    """The messages up to the second question, whole, as a host that knows of no trims keeps them."""
    messages = session.messages
    second = next(place for place, message in enumerate(messages) if "list b" in str(message))
    return messages[:second]


async def test_a_fork_keeps_the_trims_of_what_it_shares(form: str):
    async with two_turns(form) as session:
        fork = [*first_turn(session), get_format(form).user("list c instead")]
        sent = await prepared(session, form, fork)
    assert len(sent) == len(fork)
    assert "short a" in str(sent)
    assert LONG[:40] not in str(sent).replace("\\n", "\n")
    assert_sendable(form, sent)


async def test_a_fork_can_be_left_again_with_every_trim_in_place(form: str):
    async with two_turns(form) as session:
        whole, view = session.messages, session.view
        await prepared(session, form, [*first_turn(session), get_format(form).user("list c instead")])
        assert await prepared(session, form, whole) == view
        assert [info.trimmed for info in session.results.list()] == [True, False]
        assert session.results.list()[1].trimmable


async def test_a_history_cut_at_its_beginning_is_sent_as_the_host_has_it(form: str):
    async with two_turns(form) as session:
        kept = session.messages[len(first_turn(session)) :]
        await session.trim("r2", "short b")
        sent = await prepared(session, form, kept)
        assert len(sent) == len(kept)
        assert "short b" in str(sent)
        assert session.results.list()[0].why_not is not None


async def test_a_message_that_changes_in_each_request_costs_no_trim(form: str):
    reader = get_format(form)
    async with two_turns(form) as session:
        for clock in ("noon", "one"):
            host = [reader.user(f"It is {clock}."), *session.messages]
            sent = await prepared(session, form, host)
            assert sent[0] == host[0]
            assert len(sent) == len(host)
            assert "short a" in str(sent)


async def test_no_compaction_is_told(form: str):
    seen = recorder()
    async with two_turns(form, seen) as session:
        await prepared(session, form, [*first_turn(session), get_format(form).user("list c instead")])
    assert not seen.of(BeforeCompaction)
    assert not seen.of(AfterCompaction)


async def test_what_a_fork_adds_is_recorded_and_its_results_can_be_trimmed(form: str):
    reader = get_format(form)
    async with two_turns(form) as session:
        model = ScriptedModel([call("listing", folder="c"), "c is read"], format=form)
        async with session.run(format=form) as run:
            offered = reader.tools(await run.resolve_tools([LISTING]))
            host = [*first_turn(session), reader.user("list c instead")]
            for _ in range(2):
                reply = await model.reply(await run.prepare_messages(host, follow=True), offered)
                await run.record(reply.message)
                for one in run.pending:
                    await run.call_tool(one)
                host = session.view
        assert [info.tool for info in session.results.list()] == ["listing"] * 3
        assert (await session.trim("r3", "short c")).status == "applied"
        assert "short a" in str(session.view)
        assert "short c" in str(session.view)
        assert "list b" not in str(session.view)
        assert_sendable(form, session.view)


async def test_the_view_is_the_same_when_the_session_is_opened_again(form: str):
    store = MemoryStore()
    async with two_turns(form, store=store) as session:
        await prepared(session, form, [*first_turn(session), get_format(form).user("list c instead")])
        view = session.view
    async with open_session(store=store, session_id=session.id) as session:
        assert session.view == view


async def test_a_list_that_matches_is_taken_as_without_it(form: str):
    async with two_turns(form) as session:
        host = [*session.messages, get_format(form).user("go on")]
        assert await prepared(session, form, host) == session.view
        assert "go on" in str(session.messages[-1])


async def test_replies_after_what_is_known_are_told(form: str):
    seen = recorder()
    reader = get_format(form)
    async with two_turns(form, seen) as session:
        before = len(seen.of(AfterModelCall))
        await prepared(session, form, [*first_turn(session), reader.user("more"), reader.reply("there is no more", [])])
    assert len(seen.of(AfterModelCall)) == before + 1


async def ask(session: Session, run: Run, form: str) -> None:
    """One more question, and the call that the model answers it with."""
    reader = get_format(form)
    await run.resolve_tools([LISTING])
    model = ScriptedModel([call("listing", folder="d")], format=form)
    await run.record(reader.user("list d"))
    await run.record((await model.reply(session.view, reader.tools([LISTING]))).message)


async def test_a_call_that_the_list_has_left_behind_leaves_nothing_open(form: str):
    reader = get_format(form)
    async with two_turns(form) as session:
        async with session.run(format=form) as run:
            await ask(session, run, form)
            sent = await run.prepare_messages([*first_turn(session), reader.user("never mind")], follow=True)
            assert not run.pending
            await run.record(reader.reply("fine", []))
        assert "list d" not in str(sent)
        assert "list d" not in str(session.view)
        assert_sendable(form, session.view)


async def test_a_result_of_the_host_answers_the_call_that_a_shortened_list_ends_with(form: str):
    reader = get_format(form)
    async with two_turns(form) as session:
        cut = len(first_turn(session))
        async with session.run(format=form) as run:
            await ask(session, run, form)
            result = reader.result_messages([(run.pending[0], ToolResult(f"d: {LONG}"))])
            sent = await run.prepare_messages([*session.messages[cut:], *result], follow=True)
            assert not run.pending
        assert "not run" not in str(sent)
        assert [info.tool for info in session.results.list()] == ["listing"] * 3
        assert_sendable(form, sent)
