"""A disk that is full: after a record that could not be written no further tool runs, and what ran is not run again."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Annotations, Host, Run, Session, Tool, ToolCall, ToolContext, hooks
from hooksdk.errors import StoreError
from hooksdk.formats import Message
from hooksdk.state import PluginState
from hooksdk.stores.sql import SqlStore
from hooksdk.transcript import SessionLog, Store
from tests.stage import FORMAT, USER, OwnStore, make, reply

pytestmark = pytest.mark.anyio
READS = Annotations(read_only=True)

BIG = "x" * 6_000
"""More than what is left of a file's last block."""


@dataclass
class Disk:
    """A place for sessions that can be filled up, and cleared again."""

    folder: Path
    store: Callable[[], Store]
    fill: Callable[[], None]
    clear: Callable[[], None]


@contextmanager
def small_tmpfs(folder: Path) -> Generator[None]:
    """A real file system of half a megabyte."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "none", folder], check=False, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"this machine lets nobody mount one: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill_up(folder: Path) -> None:
    with (folder / "others").open("wb", buffering=0) as file:
        try:
            while file.write(b"o" * 4096):
                pass
        except OSError:
            return


def clear(folder: Path) -> None:
    (folder / "others").unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_tmpfs(folder):
        yield Disk(folder, lambda: SqlStore(folder), lambda: fill_up(folder), lambda: clear(folder))


@dataclass
class Deeds:
    """A tool with an effect, which says that it only reads: so nothing is written before it runs, and it is its result that meets
    the full disk."""

    done: list[str] = field(default_factory=list[str])

    @property
    def tool(self) -> Tool:
        async def act(arguments: dict[str, Any]) -> str:
            self.done.append(arguments["path"])
            return BIG

        return make("act", act, annotations=READS)


def acts(*names: str) -> list[ToolCall]:
    return [ToolCall(name, "act", {"path": name}) for name in names]


def said(*calls: ToolCall) -> Message:
    return reply(*calls)


@asynccontextmanager
async def hosted(disk: Disk, *plugins: Any) -> AsyncGenerator[Session]:
    """The session `s`."""
    store = disk.store()
    try:
        async with Host(plugins, store=store, config={"allow": []}) as host, host.session("s") as session:
            yield session
    finally:
        await store.aclose()


@asynccontextmanager
async def opened(
    disk: Disk, deeds: Deeds, *plugins: Any, calls: list[ToolCall] | None = None
) -> AsyncGenerator[tuple[Session, Run]]:
    """A run in the session `s`, whose newest reply has these calls."""
    async with hosted(disk, *plugins) as session, session.run() as run:
        await run.resolve_tools([deeds.tool])
        if calls:
            await run.record([USER, said(*calls)])
        yield session, run


async def stored(disk: Disk) -> list[Message]:
    """What is on the disk of the session."""
    store = disk.store()
    try:
        assert await store.list_keys("hooksdk.room") == []
        return (await store.read_session("s"))[0]
    finally:
        await store.aclose()


async def refused(step: Awaitable[Any]) -> str:
    with pytest.raises(StoreError) as raised:
        await step
    return str(raised.value)


@contextmanager
def ending_full() -> Generator[None]:
    """The end of a run on a full disk says that it could not be stored."""
    with pytest.raises(StoreError):
        yield


@pytest.mark.heavy
async def test_after_a_record_that_could_not_be_written_the_run_takes_no_further_call_and_says_so(disk: Disk) -> None:
    deeds, calls = Deeds(), acts("a", "b", "c")
    with ending_full():
        async with opened(disk, deeds, calls=calls) as (_, run):
            disk.fill()
            await refused(run.call_tool(calls[0]))
            for call in calls:
                text = await refused(run.call_tool(call))
                assert f"run '{run.info.run_id}': it takes no further call, since a record could not be written" in text
                assert "Make room, and go on in a new run" in text
    assert deeds.done == ["a"]


@pytest.mark.heavy
async def test_a_run_stays_stopped_when_there_is_room_again_and_the_next_one_goes_on(disk: Disk) -> None:
    deeds, calls = Deeds(), acts("a", "b")
    async with hosted(disk) as session:
        async with session.run() as run:
            await run.resolve_tools([deeds.tool])
            await run.record([USER, said(*calls)])
            disk.fill()
            await refused(run.call_tool(calls[0]))
            disk.clear()
            await refused(run.call_tool(calls[1]))
            run.pause("the disk was full")
        async with session.run() as run:
            await run.resolve_tools([deeds.tool])
            assert [(await run.call_tool(call)).text for call in calls] == [BIG, BIG]
    assert deeds.done == ["a", "b"], "what ran is not run again: its result was kept"


@pytest.mark.heavy
async def test_the_result_of_a_call_that_ran_is_stored_at_the_end_of_its_run_when_there_is_room_again(
    disk: Disk,
) -> None:
    deeds, calls = Deeds(), acts("a", "b")
    async with opened(disk, deeds, calls=calls) as (_, run):
        disk.fill()
        await refused(run.call_tool(calls[0]))
        disk.clear()
    assert [message["content"] for message in (await stored(disk))[2:]] == [BIG, "Error: not run: cancelled"]


@pytest.mark.heavy
async def test_of_a_call_that_ran_nobody_says_that_it_did_not(disk: Disk) -> None:
    deeds, calls = Deeds(), acts("a")
    with ending_full():
        async with opened(disk, deeds, calls=calls) as (_, run):
            disk.fill()
            await refused(run.call_tool(calls[0]))
    disk.clear()
    assert len(await stored(disk)) == 2, "the call stays open"


@pytest.mark.heavy
async def test_a_session_that_is_opened_anew_writes_before_it_runs_anything(disk: Disk) -> None:
    deeds, calls = Deeds(), acts("a", "b")
    async with opened(disk, deeds, calls=calls) as (_, run):
        run.pause("later")
    disk.fill()
    for _ in range(2):
        try:
            async with opened(disk, deeds) as (_, run):
                for call in calls:
                    await refused(run.call_tool(call))
                    await refused(run.judge(call))
                run.pause("no room")
        except StoreError:
            pass  # the session itself may not open there
    assert deeds.done == []
    disk.clear()
    async with opened(disk, deeds) as (_, run):
        assert [(await run.call_tool(call)).text for call in calls] == [BIG, BIG]
    assert len(await stored(disk)) == 4


@pytest.mark.heavy
@pytest.mark.both_loops
async def test_of_calls_at_once_those_that_have_not_begun_when_a_record_fails_do_not_run(disk: Disk) -> None:
    first_failed, outcomes = anyio.Event(), list[str]()
    calls = acts("a", "b")

    class Holds:
        @hooks.before_tool_call
        async def judge(self, event: hooks.BeforeToolCall) -> None:
            if event.arguments["path"] == "b":
                await first_failed.wait()

    deeds = Deeds()
    with ending_full():
        async with opened(disk, deeds, Holds, calls=calls) as (_, run):
            disk.fill()

            async def second() -> None:
                try:
                    text = (await run.call_tool(calls[1])).text  # as small as it is it may be recorded
                except StoreError as error:
                    text = str(error)
                outcomes.append(text)

            async with anyio.create_task_group() as group:
                group.start_soon(second)
                await anyio.wait_all_tasks_blocked()
                await refused(run.call_tool(calls[0]))
                first_failed.set()
    assert deeds.done == ["a"], outcomes
    assert (
        "full" in outcomes[0]
        or "No space left" in outcomes[0]
        or "records of this run cannot be written" in outcomes[0]
    )


@pytest.mark.heavy
async def test_a_judged_call_is_not_executed_and_one_whose_result_is_supplied_is_tried_to_be_recorded(
    disk: Disk,
) -> None:
    deeds, calls = Deeds(), acts("a", "b", "c")
    with ending_full():
        async with opened(disk, deeds, calls=calls) as (_, run):
            judged = [await run.judge(call) for call in calls]
            disk.fill()
            await refused(judged[0].supply(BIG))
            assert "it takes no further call" in await refused(judged[1].execute())
            assert judged[1].status is None
            assert "it takes no further call" in await refused(run.judge(calls[1]))
            disk.clear()
            assert (await judged[2].supply(BIG)).text == BIG
            disk.fill()
            await refused(judged[1].supply(BIG))
    assert deeds.done == []


@pytest.mark.heavy
async def test_a_tool_that_is_at_work_makes_no_further_call_either(disk: Disk) -> None:
    deeds, calls = Deeds(), acts("a")
    record_failed, outcomes = anyio.Event(), list[str]()

    async def outer(arguments: dict[str, Any], context: ToolContext) -> str:
        await record_failed.wait()
        outcomes.append(await refused(context.call_tool("act", {"path": "inner"})))
        return "done"

    slow = ToolCall("o", "outer", {})
    with ending_full():
        async with opened(disk, deeds) as (_, run):

            async def late() -> None:
                with contextlib.suppress(StoreError):  # as small as its result is, it may have its place
                    await run.call_tool(slow)

            await run.resolve_tools([deeds.tool, make("outer", outer, properties={}, annotations=READS)])
            await run.record([USER, said(*calls, slow)])
            disk.fill()
            async with anyio.create_task_group() as group:
                group.start_soon(late)
                await refused(run.call_tool(calls[0]))
                record_failed.set()
    assert deeds.done == ["a"]
    assert "it takes no further call" in outcomes[0]


@pytest.mark.heavy
async def test_a_reply_that_could_not_be_recorded_has_none_of_its_calls_run(disk: Disk) -> None:
    deeds, calls = Deeds(), acts("a")
    with ending_full():
        async with opened(disk, deeds) as (_, run):
            await run.record(USER)
            disk.fill()
            await refused(run.record(reply(*calls, text=BIG)))
            await refused(run.call_tool(calls[0]))
            raise StoreError("the loop", "gives up")
    assert deeds.done == []


@pytest.mark.heavy
async def test_without_a_transcript_a_state_that_could_not_be_stored_stops_the_run(disk: Disk) -> None:
    deeds, calls = Deeds(), acts("a", "b")

    class Counts:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.before_tool_call
        def judge(self, event: hooks.BeforeToolCall) -> None:
            self.state["seen"] = [*self.state.get("seen", []), BIG]

    async with hosted(disk, Counts) as session:
        with ending_full():
            async with session.run(transcript=False) as run:
                await run.resolve_tools([deeds.tool])
                disk.fill()
                await refused(run.call_tool(calls[0]))
                assert "it takes no further call" in await refused(run.call_tool(calls[1]))
        disk.clear()
    assert deeds.done == ["a"]


@pytest.mark.heavy
async def test_at_the_gateway_a_call_that_ran_has_its_result_and_the_next_one_runs_once_there_is_room(
    disk: Disk,
) -> None:
    from hooksdk.gateway import Gateway
    from tests.hooksdk.gateways import client, source, text_of

    class Counts:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.before_tool_call
        def judge(self, event: hooks.BeforeToolCall) -> None:
            self.state["seen"] = [*self.state.get("seen", []), BIG]

    tools, store = source(), disk.store()
    path = {"path": "a"}
    try:
        async with (
            Host([Counts], store=store, config={"allow": []}) as host,
            Gateway(host, tools) as made,
            client(made) as connected,
        ):
            await connected.call_tool("read_note", path)
            disk.fill()
            answers = [text_of(await connected.call_tool("read_note", path)) for _ in range(3)]
            assert "read_note of notes ran" in answers[0]
            assert all("was not run" in answer for answer in answers[1:])
            assert [name for name, _ in tools.executed] == ["notes:read_note"] * 2
            disk.clear()
            assert "ran with" in text_of(await connected.call_tool("read_note", path))
    finally:
        await store.aclose()


# Without a file system of one's own


@contextmanager
def size_limit(spare: Path) -> Generator[None]:
    """No file of this process may grow beyond the size of that one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (spare.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path, lambda: SqlStore(tmp_path), lambda: None, lambda: None)
    deeds, calls = Deeds(), acts("a", "b")
    async with opened(disk, deeds) as (_, run):
        await run.record([FORMAT.user("a long question " * 100), said(*calls)])
        with size_limit(tmp_path / "hooksdk.db-wal"):
            await refused(run.call_tool(calls[0]))
            assert "it takes no further call" in await refused(run.call_tool(calls[1]))
        assert deeds.done == ["a"]
        run.pause("no room")
    async with opened(disk, deeds) as (_, run):
        with size_limit(tmp_path / "hooksdk.db-wal"):
            await refused(run.call_tool(calls[1]))
        assert deeds.done == ["a"]


class FailingLog:
    """A log of anybody's, whose writes raise what this one is told to."""

    def __init__(self, log: SessionLog, problems: list[Exception]) -> None:
        self.log, self.problems = log, problems

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    async def append_messages(self, messages: Any) -> None:
        if self.problems:
            raise self.problems[0]
        await self.log.append_messages(messages)


@pytest.mark.both_loops
@pytest.mark.parametrize("problem", [StoreError("the store", "is full"), OSError(28, "No space left on device")])
async def test_a_store_of_anybody_s_that_fails_stops_the_run_whatever_it_raises(problem: Exception) -> None:
    problems: list[Exception] = []

    class Failing(OwnStore):
        async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
            return FailingLog(await self.memory.open_session(session_id, wait=wait), problems)

    store: Any = Failing()
    deeds, calls = Deeds(), acts("a", "b")
    disk = Disk(Path(), lambda: store, lambda: None, lambda: None)
    async with opened(disk, deeds, calls=calls) as (_, run):
        problems.append(problem)
        with pytest.raises(StoreError):  # with its own error as the cause
            await run.call_tool(calls[0])
        assert "it takes no further call" in await refused(run.call_tool(calls[1]))
        problems.clear()
    assert deeds.done == ["a"]
    messages, _ = await store.memory.read_session("s")
    assert [message["content"] for message in messages[2:]] == [BIG, "Error: not run: cancelled"]
