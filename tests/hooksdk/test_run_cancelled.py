"""A run that is cancelled, at every place where it waits: it ends once, drains, and leaves the session in order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, Host, Session, ToolCall, ToolResult, hooks
from hooksdk.hooks import AfterToolCall, AgentEnd, Ask, BeforeToolCall
from hooksdk.testing import open_host
from hooksdk.transcript import Results
from tests.stage import MAY_HAVE, USER, OwnStore, make, reply

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

LONG = "part of a long result, " * 50
PLACES = [
    "agent_start", "narrow_tools", "assemble_tools", "before_model_call", "before_compaction", "after_compaction",
    "rewrite_tool_call", "before_tool_call", "resolve_secrets", "transform_tool_result", "unwrap_tool_call",
    "approval", "tool", "thread", "body", "agent_end",
]  # fmt: skip
IN_A_CALL = {
    "rewrite_tool_call", "before_tool_call", "resolve_secrets", "transform_tool_result", "unwrap_tool_call", "approval",
    "tool", "thread",
}  # fmt: skip


class Waiting:
    """A place to wait at, and what a plugin there saw."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.on = False
        self.reached = anyio.Event()
        self.ends: list[str] = []
        self.after: list[tuple[str, str]] = []
        self.free = threading.Event()

    async def wait_at(self, place: str) -> None:
        """Wait for ever, if this is the place."""
        if self.on and place == self.place:
            self.reached.set()
            await anyio.sleep_forever()

    def plugin(self) -> type:
        """A plugin class with a handler for every place that is a hook."""
        waiting = self

        def handler(name: str) -> Any:
            async def handle(self: object, event: Any) -> None:
                if name == "agent_end":
                    waiting.ends.append(event.reason)
                await waiting.wait_at(name)

            handle.__qualname__ = f"Waits.{name}"
            handle.__annotations__.clear()
            hook = hooks.HOOKS[name]
            return hook(timeout=0.5)(handle) if name == "agent_end" else hook(handle)

        async def after(self: object, event: AfterToolCall) -> None:
            waiting.after.append((event.call.id, event.status))

        def asks(self: object, event: BeforeToolCall) -> Ask | None:
            return Ask("May it?") if waiting.on and waiting.place == "approval" else None

        after.__qualname__, asks.__qualname__ = "Waits.after", "Waits.asks"
        names = [place for place in PLACES if place in hooks.HOOKS]
        body = {name: handler(name) for name in names}
        return type("Waits", (), {**body, "after": hooks.after_tool_call(after), "asks": hooks.before_tool_call(asks)})

    async def approve(self, request: ApprovalRequest) -> Approval:
        """Ask a person, who never answers."""
        await self.wait_at("approval")
        return Approval(True)

    async def work(self, arguments: dict[str, Any]) -> str:
        """The tool."""
        await self.wait_at("tool")
        if self.on and self.place == "thread":
            return await anyio.to_thread.run_sync(self._hang, abandon_on_cancel=True)
        return LONG

    def _hang(self) -> str:
        anyio.from_thread.run_sync(self.reached.set)
        self.free.wait(60)
        return "too late"


async def begin(waiting: Waiting, session: Session) -> None:
    """A run before, whose one result is trimmed; as after a crash, the trim waits for the next drain."""
    async with session.run() as run:
        await run.resolve_tools([make(execute=waiting.work)])
        call = ToolCall("c1", "read_file", {})
        await run.record([USER, reply(call)])
        await run.call_tool(call)
        await run.record(reply(text="I have read it"))
    waits = Results(session._need_transcript(), "host")  # pyright: ignore[reportPrivateUsage]
    assert (await waits.trim("r1")).status == "queued"
    waiting.ends.clear()
    waiting.after.clear()
    waiting.on = True


async def play(waiting: Waiting, session: Session) -> None:
    """The run that is cancelled."""
    async with session.run() as run:
        await run.resolve_tools([make(execute=waiting.work)])
        await run.record(USER)
        await run.prepare_messages()
        async with run.compaction():
            pass
        name = "unknown" if waiting.place == "unwrap_tool_call" else "read_file"
        text = "{{secret:KEY}}" if waiting.place == "resolve_secrets" else "a"
        calls = [ToolCall("c2", name, {"path": text}), ToolCall("c3", "read_file", {})]
        await run.record(reply(*calls))
        await run.call_tool(calls[0])
        await waiting.wait_at("body")
        await run.call_tool(calls[1])


Work = Callable[[], Coroutine[Any, Any, None]]
Cancels = Callable[[Work, Waiting], Awaitable[None]]


async def by_scope(work: Work, waiting: Waiting) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        with anyio.fail_after(120):
            await waiting.reached.wait()
        group.cancel_scope.cancel()


async def by_a_deadline(work: Work, waiting: Waiting) -> None:
    async def end_soon() -> None:
        await waiting.reached.wait()
        scope.deadline = anyio.current_time() + 0.02

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(end_soon)
            with anyio.CancelScope() as scope:
                await work()


async def by_task(work: Work, waiting: Waiting) -> None:
    task = asyncio.ensure_future(work())
    with anyio.fail_after(120):
        await waiting.reached.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def by_task_again_and_again(work: Work, waiting: Waiting) -> None:
    task = asyncio.ensure_future(work())
    with anyio.fail_after(120):
        await waiting.reached.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.light(every=7)
@pytest.mark.parametrize("cancel", [by_scope, by_a_deadline])
@pytest.mark.parametrize("place", PLACES)
async def test_a_run_cancelled_anywhere_ends_once_and_drains(place: str, cancel: Cancels) -> None:
    await cancel_at(place, cancel)


@pytest.mark.light(every=7)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("cancel", [by_task, by_task_again_and_again])
@pytest.mark.parametrize("place", PLACES)
async def test_a_run_cancelled_by_asyncio_itself_ends_once_and_drains(place: str, cancel: Cancels) -> None:
    await cancel_at(place, cancel)


async def cancel_at(place: str, cancel: Cancels) -> None:
    """Cancel a run that waits at this place, and look at what is left."""
    waiting = Waiting(place)
    try:
        async with open_host(waiting.plugin(), approver=waiting.approve) as host, host.session("s") as session:
            await begin(waiting, session)
            await cancel(lambda: play(waiting, session), waiting)
            check(waiting, session, gentle=cancel is not by_task_again_and_again)
            await check_that_all_goes_on(waiting, session)
    finally:
        waiting.free.set()


def check(waiting: Waiting, session: Session, *, gentle: bool) -> None:
    """What holds once the run is over."""
    (first, *_) = session.results.list()
    began = waiting.place != "agent_start"
    assert (first.trimmed, first.queued) == (began, not began)
    if gentle or waiting.place == "agent_end":
        assert waiting.ends == ([] if not began else ["completed" if waiting.place == "agent_end" else "cancelled"])
    else:
        assert len(waiting.ends) <= 1
    results = [message for message in session.messages if message["role"] == "tool"]
    asked = [call["id"] for one in session.messages for call in one.get("tool_calls") or ()]
    assert [one["tool_call_id"] for one in results] == asked
    if waiting.place in IN_A_CALL and gentle:
        before_it_ran = waiting.place not in {"tool", "thread", "transform_tool_result"}
        assert f"was cancelled {'before' if before_it_ran else 'while'} it ran" in results[1]["content"]
        assert "not run: cancelled" in results[2]["content"]


async def check_that_all_goes_on(waiting: Waiting, session: Session) -> None:
    """The session takes another run, with observers and all."""
    waiting.on = False
    waiting.ends.clear()
    async with session.run() as run:
        await run.resolve_tools([make(execute=waiting.work)])
        call = ToolCall("c9", "read_file", {"path": "b"})
        await run.record(reply(call))
        assert (await run.call_tool(call)).text == LONG
    assert waiting.ends == ["completed"]
    assert ("c9", "ok") in waiting.after
    assert session.results.list()[0].trimmed


async def test_one_cancelled_call_among_parallel_ones_leaves_the_others_alone() -> None:
    waiting = Waiting("tool")
    waiting.on = True
    stopped = anyio.Event()

    async def quick(arguments: dict[str, Any]) -> str:
        await stopped.wait()
        return "done"

    async with open_host(waiting.plugin()) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("slow", waiting.work), make("quick", quick)])
        calls = [ToolCall("c1", "slow", {}), ToolCall("c2", "quick", {})]
        await run.record(reply(*calls))
        results: list[ToolResult] = []
        scope = anyio.CancelScope()

        async def slow() -> None:
            with scope:
                await run.call_tool(calls[0])

        async def other() -> None:
            results.append(await run.call_tool(calls[1]))

        async with anyio.create_task_group() as group:
            group.start_soon(slow)
            group.start_soon(other)
            await waiting.reached.wait()
            scope.cancel()
            stopped.set()
        assert [result.text for result in results] == ["done"]
        texts = [one["content"] for one in session.messages if one["role"] == "tool"]
        assert texts == ["Error: 'slow' was cancelled while it ran." + MAY_HAVE, "done"]


class SlowLog:
    """A session's log that keeps the first result waiting."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.reached, self.free = asyncio.Event(), asyncio.Event()

    async def append_messages(self, messages: Any) -> None:
        if any(message["role"] == "tool" for message in messages):
            self.reached.set()
            await self.free.wait()
        await self._log.append_messages(messages)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_result_is_recorded_although_asyncio_cancels_its_call_while_another_one_is_being_recorded() -> None:
    logs: list[SlowLog] = []

    class Store(OwnStore):
        async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
            logs.append(SlowLog(await super().open_session(session_id, wait=wait)))
            return logs[-1]

    calls = [ToolCall(name, "read_file", {"path": name}) for name in ("a", "b")]
    async with open_host(store=cast("Any", Store())) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make()])
        await run.record([USER, reply(*calls)])
        first = asyncio.ensure_future(run.call_tool(calls[0]))
        await logs[0].reached.wait()
        second = asyncio.ensure_future(run.call_tool(calls[1]))
        await anyio.wait_all_tasks_blocked()
        second.cancel()
        logs[0].free.set()
        await first
        with pytest.raises(asyncio.CancelledError):
            await second
        assert [message["content"] for message in session.messages[-2:]] == [
            'ran with {"path": "a"}',
            'ran with {"path": "b"}',
        ]


async def test_a_run_cancelled_while_its_handlers_of_the_end_work_lets_them_finish() -> None:
    finished: list[str] = []
    reached = anyio.Event()

    class Slow:
        @hooks.agent_end
        async def end(self, event: AgentEnd) -> None:
            reached.set()
            await anyio.sleep(0.1)
            finished.append(event.reason)

    async def play_it(host: Host) -> None:
        async with host.session("s") as session, session.run():
            pass

    async with open_host(Slow) as host:
        async with anyio.create_task_group() as group:
            group.start_soon(play_it, host)
            await reached.wait()
            group.cancel_scope.cancel()
        assert finished == ["completed"]


async def test_a_whole_host_can_be_cancelled_with_everything_open() -> None:
    waiting = Waiting("tool")
    closed: list[str] = []

    class Closing:
        @hooks.session_end
        async def end(self, event: hooks.SessionEnd) -> None:
            closed.append(event.reason)

    async def everything() -> None:
        async with open_host(waiting.plugin(), Closing) as host, host.session("s") as session:
            waiting.on = True
            await play(waiting, session)

    await by_scope(everything, waiting)
    assert waiting.ends == ["cancelled"]
    assert closed == ["closed"]
