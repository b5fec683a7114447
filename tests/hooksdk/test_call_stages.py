"""The stages of a call: what cannot follow is an error of hooksdk's own, and no way around leads to a run without its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from hooksdk import Host, MemoryStore, Tool, ToolCall, hooks
from hooksdk._ledger.calls import CallEnd, CallInProgress, Stage
from hooksdk.approvals import ApprovalRequest, Later
from hooksdk.calls import ToolResult
from hooksdk.errors import ApprovalPending, CallSettled, RunClosed
from hooksdk.run import Run

pytestmark = pytest.mark.anyio
PAY = ToolCall("c1", "pay", {"amount": 3})


async def later(_request: ApprovalRequest) -> Later:
    return Later()


async def with_pay(run: Run, execute: Any) -> None:
    await run.resolve_tools([Tool(name="pay", source="host", execute=execute)])
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"amount": 3}'}}
    await run.record({"role": "assistant", "content": None, "tool_calls": [call]})


def host(*plugins: Any, **options: Any) -> Host:
    return Host([*plugins], store=MemoryStore(), config={"allow": [], **options.pop("config", {})}, **options)


def test_a_stage_that_cannot_follow_is_an_error() -> None:
    work = CallInProgress(PAY)
    with pytest.raises(RuntimeError, match="cannot be paused: it is written"):
        work.move(Stage.PAUSED)
    work.finish(CallEnd("ok", ToolResult("done")))
    with pytest.raises(RuntimeError, match="cannot be ended: it is ended"):
        work.finish(CallEnd("ok", ToolResult("done")))


def test_a_call_in_progress_has_at_most_twenty_fields() -> None:
    assert len(CallInProgress.__dataclass_fields__) <= 20


async def test_a_call_that_has_paused_is_judged_again_before_it_begins_elsewhere() -> None:
    async def execute(_arguments: Mapping[str, Any]) -> str:
        raise ApprovalPending

    async with host() as opened, opened.session("s") as session, session.run() as run:
        await with_pay(run, execute)
        judged = await run.judge(PAY)
        with pytest.raises(ApprovalPending):
            await judged.execute()
        await judged.begin()
        await judged.supply("paid")
    assert judged.status == "ok"


async def test_with_record_first_a_call_that_was_made_and_begun_elsewhere_does_not_run_unrecorded() -> None:
    told: list[str] = []

    class Asks:
        @hooks.before_tool_call
        def ask(self, event: hooks.BeforeToolCall) -> hooks.Ask:
            return hooks.Ask(f"Run {event.call.name}?", description="It costs money.")

        @hooks.record_decision
        def write(self, event: hooks.RecordDecision) -> None:
            told.append(event.call.name)

    async def execute(_arguments: Mapping[str, Any]) -> str:
        told.append("ran")
        return "paid"

    opened = host(Asks, config={"record_first": True}, approver=later)
    async with opened, opened.session("s") as session, session.run() as run:
        await with_pay(run, execute)
        await run.judge(PAY)
        judged = await run.judge(PAY, made=True)
        await judged.begin()
        await judged.execute()
    assert told == ["pay", "ran"]


async def test_a_call_that_was_made_elsewhere_keeps_its_arguments() -> None:
    ran: list[Mapping[str, Any]] = []

    async def execute(arguments: Mapping[str, Any]) -> str:
        ran.append(dict(arguments))
        return "paid"

    async with host() as opened, opened.session("s") as session, session.run() as run:
        await with_pay(run, execute)
        await run.judge(PAY)
        judged = await run.judge(PAY, made=True)
        await judged.execute()
    assert ran == [{"amount": 3}]


async def test_a_limit_that_raises_what_pauses_are_made_of_ends_the_call() -> None:
    async def execute(_arguments: Mapping[str, Any]) -> str:
        return "paid"

    def only(_tool: Tool) -> str | None:
        raise ApprovalPending

    async with host() as opened, opened.session("s") as session, session.run() as run:
        await with_pay(run, execute)
        judged = await run.judge(PAY)
        with pytest.raises(ApprovalPending):
            await run.judge(PAY, only=only)
        with pytest.raises(CallSettled):
            await judged.supply("made")
    assert judged.status == "error"


@pytest.mark.both_loops
async def test_a_hook_that_outlives_the_run_of_its_call_finds_it_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooksdk._run.call.CALLS_TIMEOUT", 0.01)
    entered, gate = anyio.Event(), anyio.Event()
    errors: list[Exception] = []

    class Counts:
        @hooks.tool_call_start
        async def count(self, event: hooks.ToolCallStart) -> None:
            entered.set()
            with anyio.CancelScope(shield=True):
                await gate.wait()

    async def execute(_arguments: Mapping[str, Any]) -> str:
        return "paid"

    async def judge(run: Run) -> None:
        try:
            await run.judge(PAY)
        except Exception as error:
            errors.append(error)

    async with host(Counts) as opened, opened.session("s") as session, anyio.create_task_group() as group:
        async with session.run() as run:
            await with_pay(run, execute)
            group.start_soon(judge, run)
            await entered.wait()
        gate.set()
    assert [type(error) for error in errors] == [RunClosed]
