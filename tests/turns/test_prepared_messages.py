"""What `prepare_messages()` tells of its changes, for a framework that keeps messages of its own kind."""

from __future__ import annotations

import pytest

from hooksdk import Tool, ToolCall, hooks
from hooksdk.formats import get_format
from hooksdk.hooks import AddContext, BeforeModelCall, ReplaceMessages
from hooksdk.testing import call, open_session, play

pytestmark = pytest.mark.anyio

LONG = "entry of a long listing\n" * 200


def listing() -> str:
    """List everything."""
    return LONG


LISTING = Tool.from_function(listing, source="host", owner="test")


async def test_nothing_is_told_where_nothing_was_changed(form: str):
    async with open_session(tools=[LISTING]) as session:
        await play(session, [call("listing"), "done"], format=form)
        async with session.run(format=form) as run:
            prepared = await run.prepare_messages()
    assert prepared
    assert not prepared.trimmed
    assert not prepared.added
    assert not prepared.replaced


async def test_a_trimmed_result_is_told_by_its_call_with_the_text_in_its_place(form: str):
    async with open_session(tools=[LISTING]) as session:
        await play(session, [call("listing"), call("listing"), "done"], format=form)
        first, second = session.results.list()
        await session.trim(second.handle, "a listing of 200 entries")
        async with session.run(format=form) as run:
            prepared = await run.prepare_messages()
    assert first.call_id != second.call_id
    ((which, text),) = prepared.trimmed.items()
    assert which == (second.call_id, 0)
    assert text.endswith("Summary: a listing of 200 entries")
    assert [result.text for message in prepared for result in get_format(form).results(message)] == [LONG, text]


async def test_of_results_with_the_same_id_the_number_says_which_is_trimmed():
    reader = get_format("openai-chat")
    one = ToolCall("same", "listing", {})
    async with open_session(tools=[LISTING]) as session:
        for number in range(3):
            async with session.run() as run:
                await run.resolve_tools([LISTING])
                await run.record(reader.user(f"go on, {number}"))
                await run.record(reader.reply("", [one]))
                await run.call_tool(one)
                await run.record(reader.reply("done", []))
        await session.trim("r2", "short")
        async with session.run() as run:
            assert list((await run.prepare_messages()).trimmed) == [("same", 1)]
            cut = session.messages[4:]
            assert (await run.prepare_messages(cut, follow=True)).trimmed.keys() == {("same", 0)}


async def test_the_texts_of_plugins_are_told_in_their_order(form: str):
    class Adds:
        @hooks.before_model_call
        def first(self, event: BeforeModelCall) -> AddContext:
            return AddContext("one")

        @hooks.before_model_call
        def second(self, event: BeforeModelCall) -> AddContext:
            return AddContext("two")

    async with open_session(Adds) as session, session.run(format=form) as run:
        await run.record(get_format(form).user("hello"))
        prepared = await run.prepare_messages()
    assert prepared.added == ["one", "two"]
    assert not prepared.replaced


async def test_a_list_that_a_plugin_replaced_is_told(form: str):
    class Replaces:
        @hooks.before_model_call
        def replace(self, event: BeforeModelCall) -> ReplaceMessages:
            return ReplaceMessages([get_format(form).user("other")])

    async with open_session(Replaces) as session, session.run(format=form) as run:
        await run.record(get_format(form).user("hello"))
        prepared = await run.prepare_messages()
    assert prepared.replaced
    assert prepared == [get_format(form).user("other")]
