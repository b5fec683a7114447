"""Sessions: instances, state, children, closing, and what a run tells of itself."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from hooksdk import Host, MemoryStore, PluginState, Session, ToolCall, hooks, tool
from hooksdk.errors import ConfigError, FenceClosed, PluginRefused, SessionClosed
from hooksdk.hooks import AgentEnd, AgentStart, BeforeToolCall, Block, SessionEnd, SessionStart
from hooksdk.testing import open_host
from tests.stage import USER, make, playing, reply

pytestmark = pytest.mark.anyio


class Budget:
    """Stop a session after so many tool calls."""

    class Config(BaseModel):
        """Its settings."""

        calls: int = 2

    def __init__(self, config: Config, state: PluginState) -> None:
        self.state = state
        state.setdefault("left", config.calls)

    @hooks.before_tool_call
    def spend(self, event: BeforeToolCall) -> Block | None:
        if self.state["left"] == 0:
            return Block("the budget is spent")
        self.state["left"] -= 1
        return None

    @tool
    def calls_left(self) -> int:
        """How many tool calls this session may still make."""
        return self.state["left"]


async def call(session: Session, name: str = "read_file", *, call_id: str = "c1") -> str:
    """A run with one call."""
    async with session.run() as run:
        await run.resolve_tools([make()])
        one = ToolCall(call_id, name, {})
        await run.record(reply(one))
        return (await run.call_tool(one)).text


# Instances


async def test_every_session_has_plugin_instances_of_its_own() -> None:
    async with open_host(Budget) as host, host.session("a") as one, host.session("b") as two:
        assert one.plugin("budget") is not two.plugin("budget")
        assert await call(one) == await call(one, call_id="c2") == "ran with {}"
        assert await call(one, call_id="c3") == "Blocked by budget: the budget is spent"
        assert await call(two) == "ran with {}"


async def test_a_plugins_state_survives_that_the_session_is_opened_again() -> None:
    store = MemoryStore()
    async with open_host(Budget, store=store) as host, host.session("s") as session:
        assert (await call(session), session.resumed) == ("ran with {}", False)
    async with open_host(Budget, store=store) as host, host.session("s") as session:
        assert session.resumed
        assert await call(session, "calls_left", call_id="c2") == "0"
        assert await call(session, call_id="c3") == "Blocked by budget: the budget is spent"


async def test_a_state_that_is_no_json_is_not_kept_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        def __init__(self, state: PluginState) -> None:
            state["odd"] = object()

        @hooks.session_start
        def start(self, event: SessionStart) -> None: ...

    with caplog.at_level(logging.WARNING):
        async with open_host(Odd) as host, host.session("s") as session:
            assert await call(session) == "ran with {}"
    said = "plugin 'odd': its state is not kept: state['odd']: the value cannot be written as JSON"
    assert caplog.text.count(said) == 1


async def test_handlers_learn_whether_the_session_existed_and_why_it_ends() -> None:
    told: list[Any] = []

    class Watch:
        @hooks.session_start
        async def start(self, event: SessionStart) -> None:
            told.append((event.session_id, event.resumed))

        @hooks.session_end
        def end(self, event: SessionEnd) -> None:
            told.append(event.reason)

    store = MemoryStore()
    async with open_host(Watch, store=store) as host:
        async with host.session("s"):
            pass
        session = host.session("s")
        await session.__aenter__()
        await session.close("idle")
        await session.close("reset")
        await host.session("t").__aenter__()
    assert told == [("s", False), "closed", ("s", True), "idle", ("t", False), "shutdown"]


# Opening fails


LIVES: list[str] = []


class _Living:
    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        LIVES.append(f"+{type(self).__name__}")
        try:
            yield
        finally:
            LIVES.append(f"-{type(self).__name__}")


class One(_Living):
    """A plugin with a lifespan."""

    @hooks.session_end
    def end(self, event: SessionEnd) -> None:
        LIVES.append("end")


class Two(_Living):
    """Another one."""

    @hooks.session_end
    def end(self, event: SessionEnd) -> None:
        LIVES.append("end")


class BrokenConstructor:
    """Cannot be made."""

    def __init__(self) -> None:
        raise ValueError("no database")

    @hooks.session_end
    def end(self, event: SessionEnd) -> None: ...


class BrokenLifespan:
    """Cannot be entered."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        raise ValueError("no database")
        yield

    @hooks.session_end
    def end(self, event: SessionEnd) -> None: ...


async def test_lifespans_are_entered_in_order_and_left_in_reverse() -> None:
    LIVES.clear()
    async with open_host(One, Two) as host, host.session():
        assert LIVES == ["+One", "+Two"]
    assert LIVES == ["+One", "+Two", "end", "end", "-Two", "-One"]


@pytest.mark.parametrize("broken", [BrokenConstructor, BrokenLifespan])
async def test_a_plugin_that_cannot_be_made_refuses_the_session_and_closes_the_others(broken: type) -> None:
    LIVES.clear()
    store = MemoryStore()
    async with open_host(One, Two, broken, store=store) as host:
        for _ in range(2):
            with pytest.raises((PluginRefused, ValueError), match="no database"):
                await host.session("s").__aenter__()
    assert LIVES == ["+One", "+Two", "-Two", "-One"] * 2
    async with open_host(store=store) as host, host.session("s"):
        pass


async def test_a_lifespan_that_fails_at_its_end_hinders_nobody(caplog: pytest.LogCaptureFixture) -> None:
    LIVES.clear()

    class Bad:
        @asynccontextmanager
        async def lifespan(self) -> AsyncGenerator[None, None]:
            yield
            raise ValueError("cannot close")

        @hooks.session_end
        def end(self, event: SessionEnd) -> None: ...

    with caplog.at_level(logging.WARNING):
        async with open_host(One, Bad, Two) as host, host.session():
            pass
    assert LIVES[-2:] == ["-Two", "-One"]
    assert "the lifespan of plugin 'bad' failed at its end: ValueError: cannot close" in caplog.text


# What a run tells of itself


async def test_every_event_carries_what_the_host_said_of_the_run_as_copies() -> None:
    seen: list[AgentStart] = []

    class Watch:
        @hooks.agent_start
        def start(self, event: AgentStart) -> None:
            seen.append(event)

    requester = {"id": "u1", "is_owner": True, "roles": ["admin"]}
    metadata = {"channel": {"id": 7}}
    given: dict[str, Any] = {"input": ["hi"], "requester": requester, "metadata": metadata}
    async with open_host(Watch) as host, host.session("s") as session:
        run = session.run(
            **given, agent_id="helper", workspace_dir="/tmp", trigger="schedule", provider="openai", model="any"
        )
        requester["id"] = "changed"
        metadata["channel"]["id"] = 8
        given["input"].append("more")
        async with run:
            pass
    (event,) = seen
    assert event.requester == {"id": "u1", "is_owner": True, "roles": ["admin"]}
    assert event.metadata == {"channel": {"id": 7}}
    assert event.input == ["hi"]
    assert (event.session_id, event.agent_id, event.workspace_dir) == ("s", "helper", "/tmp")
    assert (event.trigger, event.provider, event.model, event.attempt) == ("schedule", "openai", "any", 1)
    assert event.run_id.startswith("run-")
    event.requester["roles"].append("root")  # type: ignore[index]
    assert event.requester == {"id": "u1", "is_owner": True, "roles": ["admin"]}


async def test_a_session_keeps_the_format_of_its_first_run() -> None:
    async with open_host() as host, host.session("s") as session:
        assert session.format is None
        async with session.run(format="anthropic"):
            pass
        assert session.format == "anthropic"
        with pytest.raises(ConfigError, match="format='anthropic'"):
            await session.run(format="openai-chat").__aenter__()
        async with session.run(format="anthropic"):
            pass


# Children


async def test_a_child_has_its_own_transcript_and_instances_and_never_more_tools_than_its_parent() -> None:
    tools = [make("read_file"), make("write_file"), make("create", owner="github", source="mcp")]
    async with open_host(Budget) as host, host.session("s") as session:
        child = session.child(tools=["read_*", "mcp:github:*"])
        grandchild = child.child(tools=["*"])
        narrow = child.child("narrow", tools=["write_file"])
        async with child, grandchild, narrow:
            assert child.plugin("budget") is not session.plugin("budget")
            for one, names in ((child, {"read_file", "create"}), (grandchild, {"read_file", "create"}), (narrow, set[str]())):  # fmt: skip
                async with one.run() as run:
                    await run.resolve_tools(tools)
                    assert {tool.name for tool in run.tools} == names
                    assert "write_file" in run.tools.withheld
                    await run.record(USER)
                    result = await run.call_tool(ToolCall("c", "write_file", {}))
                    assert "not granted to this session" in result.text
            assert session.messages == []
            assert child.messages == [USER]
        assert narrow.id == "narrow"
        assert child.id.startswith("s/1-")
        assert grandchild.id.startswith(f"{child.id}/1-")


async def test_a_childs_runs_name_their_parent() -> None:
    seen: list[Any] = []

    class Watch:
        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            seen.append(event.metadata)

    async with open_host(Watch) as host, host.session("s") as session, session.child() as child:
        async with child.run(metadata={"a": 1}, trigger="subagent"):
            pass
        async with session.run():
            pass
    assert seen == [{"parent_session": "s", "a": 1}, {}]


async def test_a_child_without_patterns_is_granted_what_its_parent_is() -> None:
    async with open_host() as host, host.session() as session, session.child() as child, child.run() as run:
        assert [tool.name for tool in await run.resolve_tools([make()])] == ["read_file"]


# Closing


async def test_a_closed_session_says_so() -> None:
    async with open_host() as host:
        session = host.session("s")
        with pytest.raises(SessionClosed, match="session 's'"):
            session.run()
        async with session:
            pass
        for use in (lambda: session.run(), lambda: session.messages, lambda: session.results, lambda: session.format):
            with pytest.raises(SessionClosed):
                use()
        await session.close()


@pytest.mark.both_loops
async def test_a_session_may_be_closed_by_another_task_and_before_one_that_was_opened_earlier() -> None:
    async with open_host(One) as host:
        first, second = host.session("a"), host.session("b")
        await first.__aenter__()

        async def open_it() -> None:
            await second.__aenter__()

        async with anyio.create_task_group() as group:
            group.start_soon(open_it)
        async with anyio.create_task_group() as group:
            group.start_soon(first.close)
        assert await call(second) == "ran with {}"
        await second.close()


@pytest.mark.both_loops
async def test_a_session_closed_under_an_open_run_lets_the_run_end() -> None:
    order: list[str] = []

    class Watch:
        @hooks.agent_end
        def run_end(self, event: AgentEnd) -> None:
            order.append("run")

        @hooks.session_end
        def end(self, event: SessionEnd) -> None:
            order.append("session")

    async with open_host(Watch) as host, host.session("s") as session:
        run = session.run()
        await run.__aenter__()
        await run.record(USER)
        with anyio.fail_after(120):
            await session.close()
            with pytest.raises(SessionClosed):
                await run.record(USER)
            with pytest.raises(SessionClosed):
                await run.__aexit__(None, None, None)
    assert sorted(order) == ["run", "session"]


@pytest.mark.both_loops
async def test_a_close_waits_no_longer_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs:
        @hooks.session_end(timeout=30)
        async def end(self, event: SessionEnd) -> None:
            await anyio.sleep_forever()

    monkeypatch.setattr("hooksdk.session.CLOSE_TIMEOUT", 0.2)
    async with open_host(Hangs) as host:
        session = await host.session("s").__aenter__()
        with anyio.fail_after(120):
            await session.close()


async def test_an_id_is_opaque() -> None:
    for name in ("", "a/b", "../../etc", "ümlaut 🎷", "x" * 500, "new\nline"):
        async with open_host() as host, host.session(name) as session:
            assert session.id == name
            assert await call(session) == "ran with {}"
    async with open_host() as host, host.session() as one, host.session() as two:
        assert one.id != two.id


async def test_stats_are_json_and_add_up() -> None:
    async with playing(Budget) as played:
        await played.call("read_file")
        await played.call("nothing")
        await played.call("read_file")
        await played.call("read_file")
        stats = played.run.stats
    assert stats["tool_calls"] == {"ok": 2, "unknown": 1, "blocked": 1}
    assert stats["catalog"] == {"host": 3, "plugin": 1}
    assert stats["tokens_direct"] == stats["tokens_offered"] > 0
    assert json.loads(json.dumps(stats)) == stats


async def test_installed_plugins_stay_out_when_nothing_is_allowed() -> None:
    async with Host(store=MemoryStore(), config={"allow": []}) as host:
        assert [plugin.id for plugin in host.plugins if plugin.loaded] == []


# --- trims between runs ---


async def answered(session: Session, text: str) -> None:
    """One run with one call, whose result has been read by the model."""

    async def answer(_arguments: dict[str, Any]) -> str:
        return text

    async with session.run() as run:
        await run.resolve_tools([make("long", answer)])
        made = ToolCall("c1", "long", {})
        await run.record([USER, reply(made)])
        await run.call_tool(made)
        await run.record(reply(text="I see."))


async def test_a_trim_and_a_restore_with_no_run_open_apply_at_once() -> None:
    async with open_host() as host, host.session("s") as session:
        await answered(session, "long " * 200)
        whole = session.view
        receipt = await session.trim("r1", "five letters, often")
        assert (receipt.status, session.results.list()[0].trimmed) == ("applied", True)
        assert len(str(session.view)) < len(str(whole))
        assert (await session.restore("r1")).status == "applied"
        assert session.view == whole


async def test_a_trim_while_a_run_is_open_waits_for_its_end() -> None:
    async with open_host() as host, host.session("s") as session:
        await answered(session, "long " * 200)
        async with session.run():
            assert (await session.trim("r1")).status == "queued"
            with pytest.raises(FenceClosed):
                await session.drain()
            assert not session.results.list()[0].trimmed
        assert session.results.list()[0].trimmed


async def test_a_trim_between_runs_is_applied_at_once() -> None:
    async with open_host() as host, host.session("s") as session:
        await answered(session, "long " * 200)
        assert (await session.results.trim("r1")).status == "applied"
        assert session.results.list()[0].trimmed
        assert (await session.results.restore("r1")).status == "applied"
        assert (await session.drain()).trims == ()
