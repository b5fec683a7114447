"""`hooksdk.sync`: a host, its sessions and its runs for plain code."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import pytest

import hooksdk
from hooksdk import Approval, ApprovalRequest, MemoryStore, Tool, ToolCall, ToolContext, hooks
from hooksdk.agent import Limits, ModelReply, ModelUnavailable
from hooksdk.errors import RunBlocked, RunClosed, SessionBusy, SessionClosed, UnknownResult, WouldBlock
from hooksdk.formats import get_format
from hooksdk.hooks import AfterToolCall, AgentStart, Ask, BeforeToolCall, Block
from hooksdk.sync import Host, Run, Session, run_agent
from hooksdk.testing import ScriptedModel, call
from tests.stage import OwnStore

FORMAT = get_format("openai-chat")
LONG = "a line of a long listing\n" * 100


def tool(function: Callable[..., Any]) -> Tool:
    return Tool.from_function(function, source="host")


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


async def greet_later(name: str) -> str:
    """Greet somebody, asynchronously."""
    await anyio.sleep(0)
    return f"Hello {name}"


def reply(*calls: ToolCall) -> dict[str, Any]:
    return FORMAT.reply("", calls)


def greeted(run: Run, name: str = "greet") -> str:
    """One turn in which the model greets Ada."""
    run.record({"role": "user", "content": "Greet Ada."})
    run.record(reply(ToolCall("c1", name, {"name": "Ada"})))
    return run.call_tool(run.pending[0]).text


class NoBob:
    """A plain and an async handler."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("not Bob") if event.arguments["name"] == "Bob" else None

    @hooks.after_tool_call
    async def note(self, event: AfterToolCall) -> None:
        await anyio.sleep(0)
        self.seen.append(event.result.text)


@pytest.mark.parametrize("function", [greet, greet_later])
def test_a_plain_loop_runs_plain_and_async_tools_past_plain_and_async_handlers(function: Callable[..., Any]):
    with Host([NoBob]) as host, host.session("ann") as session:
        with session.run("Greet.") as run:
            assert [each.name for each in run.resolve_tools([tool(function)])] == [function.__name__]
            assert greeted(run, function.__name__) == "Hello Ada"
            run.record(reply(ToolCall("c2", function.__name__, {"name": "Bob"})))
            assert "not Bob" in run.call_tool(run.pending[0]).text
            assert [each.name for each in run.tools] == [function.__name__]
        assert [each["status"] for each in run.stats["calls"]] == ["ok", "blocked"]
        session.save()
        assert session.plugin("no_bob").seen[0] == "Hello Ada"
        assert [message["role"] for message in session.messages] == ["user", "assistant", "tool", "assistant", "tool"]


def test_what_was_stored_is_there_again_for_the_next_host():
    store = MemoryStore()
    with Host(store=store) as host, host.session("ann") as session, session.run() as run:
        run.record({"role": "user", "content": "Hello"})
    with Host(store=store) as host, host.session("ann") as session:
        assert session.resumed
        assert session.view == [{"role": "user", "content": "Hello"}]


def test_two_threads_share_a_host_each_with_its_own_session():
    meeting = threading.Barrier(2, timeout=60)

    def meet(name: str) -> str:
        """Wait until both calls run."""
        meeting.wait()
        return f"Hello {name}"

    with Host([NoBob]) as host:

        def work(name: str) -> str:
            with host.session(name) as session, session.run() as run:
                run.resolve_tools([tool(meet)])
                run.record(reply(ToolCall("c1", "meet", {"name": name})))
                return run.call_tool(run.pending[0]).text

        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(work, ["Ada", "Eve"])) == ["Hello Ada", "Hello Eve"]
        assert host.sessions == ()
        assert host.wait_idle(0)


def test_calls_of_one_reply_run_beside_each_other_from_threads():
    meeting = threading.Barrier(2, timeout=60)

    def meet(name: str) -> str:
        """Wait until both calls run."""
        meeting.wait()
        return name

    with Host() as host, host.session() as session, session.run() as run, ThreadPoolExecutor(2) as threads:
        run.resolve_tools([tool(meet)])
        run.record(reply(ToolCall("c1", "meet", {"name": "one"}), ToolCall("c2", "meet", {"name": "two"})))
        assert [result.text for result in threads.map(run.call_tool, run.pending)] == ["one", "two"]


def test_it_works_where_an_event_loop_runs_already():
    async def cell() -> str:
        with Host() as host, host.session() as session, session.run() as run:
            run.resolve_tools([tool(greet_later)])
            return greeted(run, "greet_later")

    assert asyncio.run(cell()) == "Hello Ada"


def test_a_judged_call_is_looked_at_and_supplied():
    with Host([NoBob]) as host, host.session() as session, session.run() as run:
        run.resolve_tools([Tool(name="greet", source="host")])
        run.record(reply(ToolCall("c1", "greet", {"name": "Ada"}), ToolCall("c2", "greet", {"name": "Bob"})))
        first, second = map(run.judge, run.pending)
        assert (first.status, first.arguments, second.status) == (None, {"name": "Ada"}, "blocked")
        assert first.supply("Hello from elsewhere").text == "Hello from elsewhere"
        assert (first.status, first.result is not None) == ("ok", True)
        assert repr(second) == "<sync JudgedCall 'greet': blocked>"


class Asks:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("May I greet?")


def test_a_plain_approver_is_asked_in_a_thread_of_its_own():
    threads: list[threading.Thread] = []

    def approve(request: ApprovalRequest) -> Approval:
        threads.append(threading.current_thread())
        return Approval(request.title == "May I greet?")

    with Host([Asks], approver=approve) as host, host.session() as session, session.run() as run:
        run.resolve_tools([tool(greet)])
        assert greeted(run) == "Hello Ada"
        assert threads[0] is not run.portal.call(threading.current_thread)


@pytest.mark.parametrize("answer", [True, False])
def test_an_async_approver_of_one_run_is_asked(answer: bool):
    async def approve(_request: ApprovalRequest) -> Approval:
        return Approval(answer)

    with Host([Asks]) as host, host.session() as session, session.run(approver=approve) as run:
        run.resolve_tools([tool(greet)])
        assert (greeted(run) == "Hello Ada") is answer


def test_a_result_is_trimmed_held_and_restored():
    def listing(name: str) -> str:
        """List."""
        return LONG

    with Host() as host, host.session() as session:
        with session.run() as run:
            run.resolve_tools([tool(listing)])
            greeted(run, "listing")
            run.record({"role": "assistant", "content": "Listed."})
            run.record({"role": "user", "content": "And now?"})
            assert session.results.trim("r1", "a listing").status == "queued"
        assert [info.trimmed for info in session.results.list()] == [True]
        assert session.results.read("r1") == LONG
        assert session.restore("r1").status == "applied"
        assert session.drain().trims == ()
        with pytest.raises(UnknownResult):
            session.trim("r9")


def test_messages_are_compacted_in_a_plain_block():
    with Host() as host, host.session() as session, session.run() as run:
        run.record({"role": "user", "content": "A long story"})
        with run.compaction() as compaction:
            compaction.replace([{"role": "user", "content": "In short"}])
        assert run.prepare_messages() == [{"role": "user", "content": "In short"}]


def test_a_plain_tool_runs_a_sub_agent_with_the_same_host():
    with Host([NoBob]) as host, host.session("ann") as session:

        def delegate(name: str) -> str:
            """Have another agent greet."""
            with session.child(tools=["greet"]) as child:
                script = ScriptedModel([call("greet", name=name), "Greeted."])
                run_agent(child, script, "Greet.", tools=[tool(greet), tool(greet_later)])
                return str(child.messages[2]["content"])

        outcome = run_agent(
            session, ScriptedModel([call("delegate", name="Ada"), "Done."]), "Go.", tools=[tool(greet), tool(delegate)]
        )
        assert outcome.text == "Done."
        assert session.messages[2]["content"] == "Hello Ada"


def test_a_plain_tool_calls_another_one():
    def twice(context: ToolContext) -> str:
        """Greet twice."""
        ask = context.call_tool
        return " ".join(anyio.from_thread.run(ask, "greet", {"name": name}).text for name in ("Ada", "Eve"))

    with Host() as host, host.session() as session, session.run() as run:
        run.resolve_tools([tool(greet), tool(twice)])
        run.record(reply(ToolCall("c1", "twice", {})))
        assert run.call_tool(run.pending[0]).text == "Hello Ada Hello Eve"


def test_a_plain_function_is_a_model():
    seen: list[tuple[int, list[str]]] = []

    def model(messages: Any, tools: Any) -> ModelReply | dict[str, Any] | str:
        seen.append((len(messages), [each["function"]["name"] for each in tools]))
        return reply(ToolCall("c1", "greet", {"name": "Ada"})) if len(seen) == 1 else "Greeted."

    with Host() as host, host.session() as session:
        outcome = run_agent(session, model, "Greet Ada.", tools=[tool(greet)], system="Be kind.")
    assert (outcome.text, outcome.turns) == ("Greeted.", 2)
    assert seen == [(2, ["greet"]), (4, ["greet"])]


def test_a_model_with_a_plain_reply_may_be_unavailable_for_a_while():
    class Flaky:
        name, format, context_window = "flaky", "openai-chat", 1000
        calls = 0

        def reply(self, messages: Any, tools: Any) -> ModelReply:
            self.calls += 1
            if self.calls == 1:
                raise ModelUnavailable("overloaded")
            return ModelReply(message={"role": "assistant", "content": "Here."})

    with Host() as host, host.session() as session:
        outcome = run_agent(session, Flaky(), "Are you there?", limits=Limits(attempts=2))
    assert (outcome.text, outcome.attempts) == ("Here.", 2)


def test_a_model_function_that_answers_something_else_is_told():
    def model(_messages: Any, _tools: Any) -> Any:
        return 42

    with (
        Host() as host,
        host.session() as session,
        pytest.raises(TypeError, match="'model' answered 42; expected a ModelReply"),
    ):
        run_agent(session, model, "Hello")


def test_the_host_holds_an_async_context_manager_and_calls_async_functions():
    steps: list[str] = []

    @asynccontextmanager
    async def connection():
        steps.append("open")
        yield "connected"
        steps.append("closed")

    async def ask(question: str) -> str:
        await anyio.sleep(0)
        return question.upper()

    with Host() as host:
        assert host.enter(connection()) == "connected"
        assert host.call(ask, "really?") == "REALLY?"
        assert steps == ["open"]
    assert steps == ["open", "closed"]


def test_a_plugins_values_are_read_and_written():
    with Host() as host:
        storage = host.storage("budget")
        storage.set("left", 3)
        assert (storage.keys(), storage.get("left"), storage.get("else", 0)) == (["left"], 3, 0)
        storage.delete("left")
        assert storage.get("left") is None


def test_tools_and_handlers_see_the_callers_context():
    who = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []

    class Notes:
        @hooks.agent_start
        def note(self, event: AgentStart) -> None:
            seen.append(who.get())

    def ask() -> str:
        """Who calls?"""
        return who.get()

    with Host([Notes]) as host, host.session() as session:
        who.set("Ada")
        with session.run() as run:
            run.resolve_tools([tool(ask)])
            run.record(reply(ToolCall("c1", "ask", {})))
            assert run.call_tool(run.pending[0]).text == "Ada"
    assert seen == ["Ada"]


# What goes wrong


class Strict:
    @hooks.agent_start
    def refuse(self, event: AgentStart) -> Block | None:
        return Block("closed today") if event.input == "in" else None


def test_errors_are_the_same_and_their_tracebacks_show_no_machinery():
    with Host([Strict]) as host, host.session() as session:
        with pytest.raises(RunBlocked, match="closed today") as caught, session.run("in"):
            pass
        files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert files[-1].endswith("hooksdk/run.py")
        assert not any("concurrent" in name or "site-packages" in name for name in files)
        with session.run("out") as run:  # the session goes on
            run.record({"role": "user", "content": "Hello"})


def test_the_bodys_own_error_ends_the_run_and_reaches_the_caller():
    reasons: list[str] = []

    class Watch:
        @hooks.agent_end
        def note(self, event: hooks.AgentEnd) -> None:
            reasons.append(event.reason)

    with Host([Watch]) as host, host.session() as session:
        with pytest.raises(ZeroDivisionError), session.run():
            _ = 1 / 0
        with pytest.raises(KeyboardInterrupt), session.run():
            raise KeyboardInterrupt
        with pytest.raises(KeyError), session.run() as run, run.compaction():
            raise KeyError
    assert reasons == ["error", "cancelled", "error"]


def test_a_generator_that_is_closed_closes_its_host():
    def sessions():
        with Host() as host, host.session("ann") as session:
            while True:
                yield session

    generator = sessions()
    session = next(generator)
    assert session.portal.is_open
    generator.close()
    assert not session.portal.is_open
    with pytest.raises(SessionClosed):
        session.save()


def test_no_thread_is_left_when_the_host_is_closed_or_cannot_open():
    class Refuses:
        @classmethod
        @asynccontextmanager
        async def shared(cls, _config: Any):
            raise OSError("no server")
            yield

        @hooks.agent_start
        def watch(self, event: AgentStart) -> None: ...

    before = set(threading.enumerate())  # with those of lazy hosts of other tests
    with pytest.raises(hooksdk.HookSDKError, match="no server"), Host([Refuses]):
        pass
    with Host():
        pass
    assert [thread.name for thread in set(threading.enumerate()) - before if thread.name == "hooksdk host"] == []


def test_a_forgotten_with_is_told():
    host = Host()
    with pytest.raises(SessionClosed, match=r"^the host is not open. Use it inside `with`$"):
        host.session()
    with host:
        session = host.session("ann")
        with pytest.raises(SessionClosed, match=r"^session 'ann' is not open. Use it inside `with`$"):
            session.run()
        with pytest.raises(SessionClosed, match=r"^session 'ann' is not open. Use it inside `with`$"):
            _ = session.messages
        with session, pytest.raises(RunClosed, match=r"use it inside `with session.run"):
            session.run().record({"role": "user", "content": "Hello"})


def test_use_after_the_end_is_told():
    with Host() as host:
        with host.session("ann") as session, session.run() as run:
            pass
        with pytest.raises(RunClosed, match=r"is not open: use it inside `with session.run"):
            run.prepare_messages()
        with pytest.raises(SessionClosed, match=r"^session 'ann' is not open. Use it inside `with`$"):
            session.run()
    with pytest.raises(SessionClosed, match=r"^the host is not open. Use it inside `with`$"):
        session.save()
    with pytest.raises(SessionClosed, match=r"^session 'ann' is not open. Use it inside `with`$"):
        session.run()
    assert run.stats["calls"] == []
    assert session.id == "ann"


def test_a_host_that_is_left_first_has_closed_its_sessions():
    with Host() as host:
        session = host.session()
        session.__enter__()
    session.__exit__(None, None, None)
    assert "not open" in repr(session)


def test_a_call_from_the_hosts_own_loop_is_told_instead_of_waiting_for_itself():
    with Host() as host, host.session() as session, session.run() as run:

        async def impatient() -> str:
            """Ask the session, which waits for this."""
            session.save()
            return "saved"

        run.resolve_tools([tool(impatient)])
        run.record(reply(ToolCall("c1", "impatient", {})))
        result = run.call_tool(run.pending[0])
        assert result.is_error
        assert "WouldBlock" in result.text
        assert "in the host's own event loop" in result.text
        with pytest.raises(WouldBlock):
            host.call(session.save)


def test_who_waits_while_another_thread_closes_the_host_is_told():
    begun = threading.Event()

    async def for_ever() -> None:
        begun.set()
        await anyio.sleep_forever()

    host = Host()
    with ThreadPoolExecutor(1) as threads:
        with host:
            waiting = threads.submit(host.call, for_ever)
            assert begun.wait(60)
        with pytest.raises(SessionClosed, match="the host is not open"):
            waiting.result(60)


def test_a_session_that_is_held_already_is_busy():
    store: Any = OwnStore()
    store.wait = 0
    with Host(store=store) as host, host.session("ann"), pytest.raises(SessionBusy), host.session("ann"):
        pass


def test_a_plain_with_of_an_async_class_says_what_to_write():
    async def main() -> None:
        async with hooksdk.Host() as host:
            many: list[Any] = [host, host.session("a")]
            for one in many:
                with pytest.raises(TypeError, match=r"Write `async with`.* hooksdk.sync"), one:
                    pass

    anyio.run(main)


def test_an_async_with_of_a_plain_class_says_what_to_write():
    async def enter(one: Any) -> None:
        with pytest.raises(TypeError, match=r"Write `with`.* `from hooksdk import Host`"):
            async with one:
                pass

    with Host() as host, host.session() as session:
        for one in (Host(), session):
            anyio.run(enter, one)


def test_representations_say_what_it_is():
    host = Host([NoBob])
    assert repr(host) == "<sync Host of no_bob, tool_search: not open>"
    with host, host.session("ann") as session:
        assert repr(host) == "<sync Host of no_bob, tool_search: 'ann'>"
        assert repr(session) == "<sync Session 'ann': open>"
        with session.run() as run:
            assert repr(run) == f"<sync Run '{run.info.run_id}' of session 'ann': open>"
            run.resolve_tools([tool(greet)])
            assert repr(run.tools) == "Catalog(1 tools, 0 withheld: 'greet')"
        assert repr(session.results) == "<sync Results of session 'ann', for 'host'>"


def test_a_notebook_shows_a_catalog_as_a_table_of_plain_text():
    catalog: Any = hooksdk.Catalog([Tool(name="x", description="<script>alert(1)</script>\nmore", source="host")])
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in catalog._repr_html_()


def test_two_handles_of_one_session_are_equal():
    with Host() as host, host.session("ann") as session:
        (other,) = host.sessions
        assert isinstance(other, Session)
        assert other == session
        assert len({other, session}) == 1
        assert other != host
