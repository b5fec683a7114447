"""`LazyHost`: opened at its first use, by whichever event loop or thread, and closed when the program has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Run, ToolContext, hooks
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.errors import ConfigError, PluginRefused, RunAlreadyOpen
from hooksdk.hooks import AgentEnd, Ask, BeforeToolCall
from hooksdk.sync import LazyHost
from tests.stage import USER, make, reply

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
ROOT = Path(__file__).parents[2]


class Opened:
    """Counts its openings, and fails in those that a test names."""

    count = 0
    failing: tuple[int, ...] = ()

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Any) -> AsyncGenerator[None, None]:
        cls.count += 1
        if cls.count in cls.failing:
            raise OSError("no network yet")
        yield


@pytest.fixture
def opened() -> type[Opened]:
    """A plugin whose openings are counted from 0."""
    return type("Opened", (Opened,), {"count": 0})


@pytest.fixture
def lazy(opened: type[Opened]) -> Any:
    """A host that no test leaves open."""
    host = LazyHost([opened])
    yield host
    if opened.count:
        host.plain.__exit__(None, None, None)


async def called(run: Run, name: str = "act") -> Any:
    """The model asks for one call, which is judged."""
    from hooksdk import ToolCall

    await run.record(reply(ToolCall("c1", name, {"path": "a"})))
    return await run.judge(run.pending[0])


async def test_nothing_is_open_before_its_first_use(lazy: LazyHost, opened: type[Opened]) -> None:
    assert opened.count == 0
    async with lazy.session("ann") as session:
        assert session.open
        assert session.id == "ann"
    assert opened.count == 1


async def test_what_is_wrong_is_raised_where_it_is_made() -> None:
    with pytest.raises(ConfigError):
        LazyHost(config={"plugins": 7})


def test_every_event_loop_and_thread_has_the_same_host(lazy: LazyHost, opened: type[Opened]) -> None:
    async def ask() -> bool:
        async with lazy.session("ann") as session, session.run() as run:
            await run.record(USER)
            return session.resumed

    assert not anyio.run(ask)
    assert anyio.run(ask)
    assert anyio.run(ask, backend="trio")
    with lazy.plain.session("ann") as session:
        assert len(session.messages) == 3
    assert opened.count == 1


def test_threads_that_begin_at_once_open_one_host(lazy: LazyHost, opened: type[Opened]) -> None:
    hosts: list[object] = []
    begin = threading.Barrier(8)

    def use() -> None:
        begin.wait()
        hosts.append(lazy.plain)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hosts) == 8
    assert len(set(map(id, hosts))) == 1
    assert opened.count == 1


async def test_an_opening_that_fails_raises_and_the_next_use_tries_again(lazy: LazyHost, opened: type[Opened]) -> None:
    opened.failing = (1, 2)
    for _ in range(2):
        with pytest.raises(PluginRefused, match="no network yet"):
            async with lazy.session("ann"):
                pass
    async with lazy.session("ann") as session:
        assert session.open


async def test_a_tool_runs_in_the_loop_of_whoever_gave_it_with_its_context(lazy: LazyHost) -> None:
    seen: list[Any] = []

    async def act(arguments: dict[str, Any], context: ToolContext) -> str:
        await anyio.sleep(0)  # of this loop's own kind
        inner = await context.call_tool("inner", {})
        seen.append((threading.current_thread(), context.session_id, context.native, inner.text))
        return "done"

    tools = [make("act", act), make("inner")]
    async with lazy.session("ann") as session, session.run() as run:
        offered = await run.resolve_tools(tools)
        assert [tool.name for tool in offered] == ["act", "inner"]
        judged = await called(run)
        assert judged.arguments == {"path": "a"}
        assert (await judged.execute(native="mine")).text == "done"
        assert judged.status == "ok"
        assert session.messages[-1]["content"] == "done"
    assert seen == [(threading.current_thread(), "ann", "mine", "ran with {}")]


async def test_errors_come_out_as_they_are(lazy: LazyHost) -> None:
    async with lazy.session("ann") as session, session.run():
        with pytest.raises(RunAlreadyOpen):
            await session.run().__aenter__()


async def test_an_approver_of_a_run_is_asked_in_its_own_loop() -> None:
    class Asks:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("?")

    threads: list[threading.Thread] = []

    async def ann(request: ApprovalRequest) -> Approval:
        await anyio.sleep(0)
        threads.append(threading.current_thread())
        return Approval(True, by="ann")

    host = LazyHost([Asks])
    async with host.session("ann") as session, session.run(approver=ann) as run:
        await run.resolve_tools([make("act")])
        judged = await called(run)
        assert judged.approval == Approval(True, by="ann")
    assert threads == [threading.current_thread()]
    host.plain.__exit__(None, None, None)


async def test_a_cancellation_reaches_the_tool_and_then_the_run_ends() -> None:
    ends: list[str] = []

    class Ends:
        @hooks.agent_end
        def see(self, event: AgentEnd) -> None:
            ends.append(event.reason)

    begun, is_cancelled = anyio.Event(), False

    async def act(arguments: dict[str, Any]) -> None:
        nonlocal is_cancelled
        begun.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            is_cancelled = True
            raise

    host = LazyHost([Ends])

    async def use() -> None:
        async with host.session("ann") as session, session.run() as run:
            await run.resolve_tools([make("act", act)])
            await (await called(run)).execute()

    async with anyio.create_task_group() as group:
        group.start_soon(use)
        await begun.wait()
        group.cancel_scope.cancel()
    assert is_cancelled
    assert ends == ["cancelled"]
    async with host.session("ann") as session:
        assert "cancelled" in str(session.messages[-1])
    host.plain.__exit__(None, None, None)


async def test_a_compaction_and_a_held_session_are_used_as_with_any_host(lazy: LazyHost) -> None:
    session = await lazy.hold("ann")
    async with session.run() as run:
        await run.record(USER)
        async with run.compaction() as compaction:
            await compaction.replace([{"role": "user", "content": "short"}])
    assert (await lazy.hold("ann")).view == [{"role": "user", "content": "short"}]


def test_a_loop_that_has_ended_closes_nothing(lazy: LazyHost) -> None:
    kept: list[Any] = []

    async def begin() -> None:
        kept.append(await lazy.hold("ann"))

    async def go_on() -> None:
        async with kept[0].run() as run:
            await run.record(USER)

    anyio.run(begin)
    anyio.run(go_on)
    assert kept[0].messages == [USER]


def test_a_tool_of_a_loop_that_has_ended_fails_and_does_not_hang(lazy: LazyHost) -> None:
    kept: list[Any] = []

    async def begin() -> None:
        session = await lazy.hold("ann")
        run = session.run()
        await run.__aenter__()
        await run.resolve_tools([make("act")])
        kept.append((run, await called(run)))

    async def go_on() -> None:
        run, judged = kept[0]
        result = await judged.execute()
        assert result.is_error
        assert "event loop" in result.text
        await run.__aexit__(None, None, None)

    anyio.run(begin)
    anyio.run(go_on)


MODULE = """
import os
from hooksdk import hooks
from hooksdk.sync import LazyHost

class Told:
    @hooks.session_end
    def end(self, event):
        print(f"{'child' if os.getpid() != parent else 'parent'}: {event.info.session_id} {event.reason}", flush=True)

parent = os.getpid()
host = LazyHost([Told])

async def agent():
    session = await host.hold("ann")
    async with session.run() as run:
        await run.record({"role": "user", "content": "hello"})
    return len(session.messages)
"""
SERVER = """
import asyncio, module
print(asyncio.run(module.agent()), asyncio.run(module.agent()), flush=True)
"""
FORKING = """
import asyncio, multiprocessing, module

def child():
    print("child:", asyncio.run(module.agent()), flush=True)

print(asyncio.run(module.agent()), flush=True)
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
print("exit code", process.exitcode, flush=True)
"""
UNUSED = "import module; print('loaded')"


def program(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A program that loads the module, when it has ended."""
    (folder / "module.py").write_text(MODULE)
    (folder / "server.py").write_text(text)
    return subprocess.run(
        [sys.executable, "server.py"], cwd=folder, text=True, capture_output=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.heavy
def test_the_program_that_loads_the_module_closes_the_host_when_it_ends(tmp_path: Path) -> None:
    done = program(SERVER, tmp_path)
    assert done.stdout.splitlines() == ["1 2", "parent: ann shutdown"]
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.heavy
def test_a_program_that_uses_it_never_opens_nothing(tmp_path: Path) -> None:
    done = program(UNUSED, tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("loaded\n", "", 0)


@pytest.mark.heavy
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_a_host_of_its_own(tmp_path: Path) -> None:
    done = program(FORKING, tmp_path)
    assert done.stdout.splitlines() == [
        "1", "child: 1", "child: ann shutdown", "exit code 0", "parent: ann shutdown"
    ]  # fmt: skip
    assert done.returncode == 0
