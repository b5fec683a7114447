"""`session.run(transcript=False)`: a host without a model, whose calls go past every hook and leave nothing behind."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from hooksdk import Host, Run, Tool, ToolCall, ToolResult, hooks
from hooksdk._transcript import stored
from hooksdk.errors import ConfigError
from hooksdk.hooks import AgentEnd, BeforeToolCall, Block, NarrowTools, TransformToolResult, Withhold
from hooksdk.state import PluginState
from hooksdk.stores import SqlStore
from hooksdk.testing import open_host
from tests.hooksdk.tables import select
from tests.stage import USER, make, playing

pytestmark = pytest.mark.anyio


class Counting:
    """A plugin whose state changes with every call."""

    def __init__(self, state: PluginState) -> None:
        self.state = state

    @hooks.before_tool_call
    def count(self, event: BeforeToolCall) -> None:
        self.state["calls"] = self.state.get("calls", 0) + 1
        self.state["note"] = str(self.state["calls"]) + "x" * 1000


async def call_often(run: Run, start: int, stop: int) -> None:
    for number in range(start, stop):
        await run.call_tool(ToolCall(f"c{number}", "act", {}))


@pytest.mark.heavy
async def test_ten_thousand_calls_leave_no_object_behind() -> None:
    async with Host() as host, host.session("s") as session, session.run(transcript=False) as run:
        await run.resolve_tools([make("act")])
        await call_often(run, 0, 1500)  # as many as the counters name one by one, and more
        gc.collect()
        before = len(gc.get_objects())
        await call_often(run, 1500, 10_000)
        gc.collect()
        assert len(gc.get_objects()) - before < 500
        assert (session.messages, session.results.list()) == ([], [])
        assert run.stats["tool_calls"] == {"ok": 10_000}


@pytest.mark.heavy
async def test_the_journal_of_states_that_change_with_every_call_is_shortened_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MANY_VOID", 100)
    largest, store = 0, SqlStore(tmp_path)
    async with (
        Host(plugins=[Counting], store=store) as host,
        host.session("s") as session,
        session.run(transcript=False) as run,
    ):
        await run.resolve_tools([make("act")])
        for start in range(0, 500, 50):
            await call_often(run, start, start + 50)
            ((size,),) = await select(store, "SELECT sum(length(body)) FROM hooksdk_journal")
            largest = max(largest, size)
    assert largest < 350_000  # of more than 500_000 that were written
    async with Host(plugins=[Counting], store=store) as host, host.session("s") as session:
        assert session.plugin("counting").state["calls"] == 500


async def test_every_hook_sees_a_call() -> None:
    seen: list[str] = []

    class Watching:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            seen.append("narrow")
            return Withhold(["read_file"], "not here")

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            seen.append("judge")
            return Block("no") if event.arguments.get("path") == "secret" else None

        @hooks.transform_tool_result
        def transform(self, event: TransformToolResult) -> hooks.Replace:
            seen.append("transform")
            return hooks.Replace(event.result.with_text(event.result.text.upper()))

        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            seen.append(event.reason)

    async with playing(Watching, transcript=False) as stage:
        done = await stage.run.call_tool(stage.new("act", {"path": "open"}))
        blocked = await stage.run.call_tool(stage.new("act", {"path": "secret"}))
        withheld = await stage.run.call_tool(stage.new("read_file", {}))
    assert done.text == "DONE"
    assert blocked.text == "BLOCKED BY WATCHING: NO"
    assert "WITHHELD" in withheld.text
    assert seen == ["narrow", "judge", "transform", "judge", "transform", "transform", "completed"]


@pytest.mark.parametrize("method", ["record", "prepare_messages", "compaction"])
async def test_it_takes_no_messages(method: str) -> None:
    async with playing(transcript=False) as stage:
        used = {
            "record": lambda: stage.run.record(USER),
            "prepare_messages": stage.run.prepare_messages,
            "compaction": stage.run.compaction().__aenter__,
        }[method]
        with pytest.raises(ConfigError, match="this run keeps no messages"):
            await used()


async def test_the_same_call_runs_as_often_as_it_is_made() -> None:
    async with playing(transcript=False) as stage:
        call = stage.new("act", {})
        results = [await stage.run.call_tool(call) for _ in range(2)]
        assert ([result.text for result in results], len(stage.executed)) == (["done", "done"], 2)


async def test_a_session_with_a_conversation_takes_such_a_run_too_and_its_messages_stay() -> None:
    async with open_host() as host, host.session("s") as session:
        async with session.run() as run:
            await run.record(USER)
        async with session.run(transcript=False) as run:
            await run.resolve_tools([make()])
            await run.call_tool(ToolCall("c1", "read_file", {}))
        assert session.messages == [USER]


async def test_the_host_may_withhold_tools_from_one_run_those_of_plugins_among_them() -> None:
    class Brings:
        @hooks.assemble_tools
        def nothing(self, event: hooks.AssembleTools) -> None:
            pass

    def only_reading(tool: Tool) -> str | None:
        return None if tool.name.startswith("read_") else "this client only reads"

    async with playing(Brings, withhold=only_reading) as stage:
        assert [tool.name for tool in stage.run.offered] == ["read_file"]
        refused = await stage.call("act")
        assert "this client only reads" in refused.text
        assert stage.executed == []


async def test_a_call_may_be_limited_to_some_tools_before_anybody_judges_it() -> None:
    judged: list[str] = []

    class Watching:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            judged.append(event.tool.name)

    def reads(tool: Tool) -> str | None:
        return None if tool.name.startswith("read_") else f"{tool.name} does not only read"

    async with playing(Watching, transcript=False) as stage:
        refused: ToolResult = await stage.run.call_tool(stage.new("act", {}), only=reads)
        allowed = await stage.run.call_tool(stage.new("read_file", {}), only=reads)
    assert (refused.text, refused.is_error, allowed.is_error) == ("act does not only read", True, False)
    assert (judged, stage.executed) == (["read_file"], [])
