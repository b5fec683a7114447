"""The messages of each model call, compaction, and when queued trims are applied."""

from __future__ import annotations

from typing import Any

import pytest

from hooksdk import MemoryStore, ToolContext, hooks, tool
from hooksdk.errors import TranscriptChanged
from hooksdk.hooks import (
    AddContext,
    AfterCompaction,
    AfterModelCall,
    BeforeCompaction,
    BeforeModelCall,
    ReplaceMessages,
    Trim,
)
from hooksdk.testing import open_host
from tests.stage import USER, make, playing, reply

pytestmark = pytest.mark.anyio

LONG = "part of a long result, " * 50


async def long(arguments: dict[str, Any]) -> str:
    """A tool whose result is worth trimming."""
    return LONG


# Messages of a model call


async def test_a_model_call_sees_the_transcript_with_what_plugins_add_for_this_request() -> None:
    class Adds:
        @hooks.before_model_call
        def first(self, event: BeforeModelCall) -> AddContext | None:
            return AddContext(f"{len(event.messages)} messages so far")

        @hooks.before_model_call
        def second(self, event: BeforeModelCall) -> None:
            assert "1 messages so far" in str(event.messages)
            event.messages[0]["content"] = "changed"  # type: ignore[index]

    async with playing(Adds) as played:
        await played.run.record(USER)
        prepared = await played.run.prepare_messages()
        assert "1 messages so far" in str(prepared)
        assert "hello" in str(prepared)
        assert played.session.messages == [USER]


async def test_messages_can_be_replaced_for_one_request_only() -> None:
    class Replaces:
        def __init__(self) -> None:
            self.times = 0

        @hooks.before_model_call
        def replace(self, event: BeforeModelCall) -> ReplaceMessages | None:
            self.times += 1
            return ReplaceMessages([{"role": "user", "content": "other"}]) if self.times == 1 else None

        @hooks.before_model_call.last
        def wrong(self, event: BeforeModelCall) -> ReplaceMessages | None:
            return ReplaceMessages([{"no": "role"}])

    async with playing(Replaces) as played:
        await played.run.record(USER)
        assert await played.run.prepare_messages() == [{"role": "user", "content": "other"}]
        assert await played.run.prepare_messages() == [USER]


async def test_a_trim_before_a_model_call_is_applied_at_once_and_for_good() -> None:
    class Trims:
        @hooks.before_model_call
        def trim(self, event: BeforeModelCall) -> Trim | None:
            handles = [info.handle for info in event.results.list() if info.trimmable and not info.trimmed]
            return Trim(handles, "long") if handles else None

    async with playing(Trims, tools=[make(execute=long)]) as played:
        await played.call("read_file")
        await played.run.record(reply(text="I have read it"))
        first = await played.run.prepare_messages()
        assert LONG not in str(first)
        assert await played.run.prepare_messages() == first
        assert played.results == [("c1", LONG)]
        assert played.run.stats["trims"] == {"applied": 1}


async def test_a_trim_of_several_applies_what_it_can_and_tells_of_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    class Trims:
        @hooks.before_model_call
        def trim(self, event: BeforeModelCall) -> Trim | None:
            return Trim(["r9", "r1", "r2"]) if event.results.list() else None

    async def long_then_short(arguments: dict[str, Any]) -> str:
        return LONG if arguments["path"] == "a" else "short"

    async with playing(Trims, tools=[make(execute=long_then_short)]) as played:
        await played.call("read_file", {"path": "a"})
        await played.call("read_file", {"path": "b"})
        await played.run.record(reply(text="I have read both"))
        assert LONG not in str(await played.run.prepare_messages())
        assert played.run.stats["trims"] == {"applied": 1}
    assert "r2 cannot be trimmed: too short" in caplog.text
    assert "no tool result goes by this handle or call id" in caplog.text


async def test_a_list_that_the_host_keeps_is_matched_by_content() -> None:
    async with playing() as played:
        await played.run.record(USER)
        more = {"role": "user", "content": "and this"}
        assert await played.run.prepare_messages([USER, more]) == [USER, more]
        assert played.session.messages == [USER, more]
        with pytest.raises(TranscriptChanged):
            await played.run.prepare_messages([{"role": "user", "content": "forged"}, more])
        with pytest.raises(TranscriptChanged):
            await played.run.prepare_messages([USER])
        assert played.session.messages == [USER, more]


async def test_calls_left_open_are_answered_before_the_next_model_call() -> None:
    async with playing() as played:
        await played.reply(("read_file", {}))
        prepared = await played.run.prepare_messages()
        assert "no result came before the next model call" in str(prepared[-1])


async def test_a_reply_is_observed_with_its_usage_and_counted() -> None:
    seen: list[AfterModelCall] = []

    class Watch:
        @hooks.after_model_call
        async def reply(self, event: AfterModelCall) -> None:
            seen.append(event)

    async with playing(Watch) as played:
        await played.run.prepare_messages()
        await played.run.record(reply(text="hi"), usage={"input": 10, "output": 2.5, "cached": True}, stop_reason="end")
        await played.run.record(reply(text="ho"), usage={"input": 1})
        await played.run.record(USER)
        stats = played.run.stats
    assert [(event.message["content"], event.stop_reason) for event in seen] == [("hi", "end"), ("ho", None)]
    assert stats["usage"] == {"input": 11, "output": 2.5}
    assert stats["model_calls"] == 1


# Compaction and early drains


async def test_a_compaction_is_told_before_and_after_and_the_stored_messages_stay() -> None:
    told: list[tuple[str, int]] = []

    class Watch:
        @hooks.before_compaction
        def before(self, event: BeforeCompaction) -> None:
            told.append(("before", event.tokens))

        @hooks.after_compaction
        def after(self, event: AfterCompaction) -> None:
            told.append(("after", event.tokens))

    async with playing(Watch) as played:
        await played.run.record([{"role": "user", "content": "long " * 500}, reply(text="long " * 500)])
        async with played.run.compaction() as compaction:
            await compaction.replace([{"role": "user", "content": "short"}])
        assert await played.run.prepare_messages() == [{"role": "user", "content": "short"}]
        assert len(played.session.messages) == 2
    assert [name for name, _ in told] == ["before", "after"]
    assert told[0][1] > 1_000 > told[1][1]


class Trimmer:
    """Lets the model trim."""

    @tool
    async def shorten(self, handle: str, context: ToolContext) -> str:
        """Trim one result."""
        return (await context.results.trim(handle)).status


@pytest.mark.parametrize(("drain", "early"), [("agent_end", False), ("next_model_call", True)])
async def test_queued_trims_are_applied_when_the_configuration_says(drain: str, early: bool) -> None:
    store = MemoryStore()
    async with playing(Trimmer, tools=[make(execute=long)], config={"drain": drain}, store=store) as played:
        await played.call("read_file")
        assert (await played.call("shorten", {"handle": "r1"})).text == "queued"
        prepared = await played.run.prepare_messages()
        assert (LONG not in str(prepared)) is early
        session = played.session
        assert session.results.list()[0].queued is not early
    async with open_host(store=store) as host, host.session("s") as session, session.run() as run:
        assert LONG not in str(await run.prepare_messages())


async def test_each_reply_of_a_kept_list_is_observed_once_though_results_join_the_transcript_meanwhile() -> None:
    seen: list[Any] = []

    class Watch:
        @hooks.after_model_call
        async def watch(self, event: AfterModelCall) -> None:
            seen.append(event.message["content"])

    async with playing(Watch) as played:
        kept = [USER, reply(text="one")]
        await played.run.prepare_messages(kept)
        calls = [played.new("read_file"), played.new("read_file")]
        for call in calls:
            await played.run.call_tool(call)  # before the host tells of the reply that asked for it
        await played.run.prepare_messages([*kept, USER, reply(*calls, text="two")])
        assert len(played.results) == 2
    assert seen == ["one", "two"]


async def test_one_handle_may_be_trimmed_without_a_list() -> None:
    class Trims:
        @hooks.before_model_call
        def trim(self, event: BeforeModelCall) -> Trim | None:
            return Trim("r1") if event.results.list() else None

    async with playing(Trims, tools=[make("long", long)]) as played:
        await played.call("long")
        await played.run.record(reply(text="I have read it"))
        assert "was trimmed" in str(await played.run.prepare_messages())
