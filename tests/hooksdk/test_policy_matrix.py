"""A policy that fails lets nothing through (R10), what was judged runs (R11), every call is seen once (R12)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from hooksdk import ToolResult, hooks
from hooksdk.errors import PolicyFailed
from hooksdk.hooks import AfterToolCall, AgentStart, BeforeToolCall, NarrowTools, ResolveSecrets, RewriteToolCall, Trace
from tests.stage import Stage, playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
LIMIT = 0.04
"""Seconds for a policy that will be late."""
PLENTY = 60


async def raises() -> Any:
    raise ValueError("broken")


async def hangs() -> Any:
    await anyio.sleep_forever()


async def late() -> Any:
    time.sleep(1.5 * LIMIT)


async def answers_text() -> Any:
    return "allow"


async def answers_true() -> Any:
    return True


async def answers_a_generator() -> Any:
    return (verdict for verdict in [None])


async def exits() -> Any:
    raise SystemExit(0)


async def cancels_itself() -> Any:
    raise asyncio.CancelledError


async def swallows_its_cancellation() -> Any:
    try:
        await anyio.sleep_forever()
    except BaseException:
        return None


async def groups_an_error() -> Any:
    async with anyio.create_task_group() as group:
        group.start_soon(raises)


FAULTS = [
    raises, hangs, late, answers_text, answers_true, answers_a_generator, exits, cancels_itself,
    swallows_its_cancellation, groups_an_error,
]  # fmt: skip
LATE = {hangs, late, swallows_its_cancellation}
Fault = Callable[[], Awaitable[Any]]


async def direct(stage: Stage) -> list[ToolResult]:
    return [await stage.call("act", {"key": "{{secret:KEY}}"})]


async def nested(stage: Stage) -> list[ToolResult]:
    return [await stage.call("ask_other", {"key": "{{secret:KEY}}"})]


async def parallel(stage: Stage) -> list[ToolResult]:
    return await stage.call_all([("act", {"key": "{{secret:KEY}}"})] * 3)


ROUTES = [direct, nested, parallel]


def faulty(hook: str, fault: Fault) -> type:
    """A plugin whose only handler is at fault, for this hook."""
    options = {} if hook in {"agent_start", "narrow_tools", "resolve_secrets"} else {"tools": "act"}
    decorate: Any = getattr(hooks, hook)(timeout=LIMIT if fault in LATE else PLENTY, **options)

    class Faulty:
        @decorate
        async def handle(self, event: Any) -> Any:
            return await fault()

    return Faulty


def applies(fault: Fault, anyio_backend: str) -> None:
    if fault is cancels_itself and anyio_backend == "trio":
        pytest.skip("trio has no cancellation that nobody asked for")


@pytest.mark.light(every=7)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("hook", ["rewrite_tool_call", "before_tool_call", "resolve_secrets"])
async def test_a_failing_policy_lets_no_call_through(
    hook: str, fault: Fault, route: Any, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    applies(fault, anyio_backend)
    async with playing(faulty(hook, fault)) as stage:
        results = await route(stage)
        assert stage.executed == []
        for result in results:
            assert result.is_error
            assert result.text == "Blocked: plugin 'faulty' failed while it judged this call, so it was not run."
        assert len(stage.session.messages) == len(results) + 1, "the model gets every result"
        assert stage.run.stats["tool_calls"]["blocked"] == len(results)
    reports = [record.getMessage() for record in caplog.records if "so the call is blocked" in record.getMessage()]
    assert len(reports) == len(results)
    for report in reports:
        assert "plugin 'faulty'" in report
        assert f"failed in {hook}" in report
        assert "test_policy_matrix.py:" in report


@pytest.mark.light(every=5)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("hook", ["agent_start", "narrow_tools"])
async def test_a_failing_policy_ends_the_run(hook: str, fault: Fault, anyio_backend: str) -> None:
    applies(fault, anyio_backend)
    with pytest.raises(PolicyFailed) as caught:
        async with playing(faulty(hook, fault)):
            raise AssertionError("the run went on")
    assert caught.value.hook == hook
    assert "plugin 'faulty'" in caught.value.who
    assert "test_policy_matrix.py:" in caught.value.who


@pytest.mark.light(every=7)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failing_policy_among_good_ones_still_blocks(fault: Fault, anyio_backend: str) -> None:
    applies(fault, anyio_backend)

    class Good:
        @hooks.before_tool_call.first
        async def before(self, event: BeforeToolCall) -> None:
            return None

        @hooks.before_tool_call.last
        def after(self, event: BeforeToolCall) -> None:
            return None

    async with playing(Good, faulty("before_tool_call", fault)) as stage:
        assert (await stage.call()).is_error
        assert stage.executed == []


@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in LATE])
async def test_without_time_limits_a_failing_policy_blocks_too(fault: Fault, anyio_backend: str) -> None:
    applies(fault, anyio_backend)
    async with playing(
        faulty("before_tool_call", fault), config={"timeouts": {"before_tool_call": float("inf")}}
    ) as stage:
        assert (await stage.call()).is_error
        assert stage.executed == []


async def test_a_failing_policy_is_in_the_trace(anyio_backend: str) -> None:
    records: list[dict[str, Any]] = []

    class Keeps:
        @hooks.trace
        async def keep(self, event: Trace) -> None:
            records.append({"kind": event.kind, **event.record.as_dict()})

    async with playing(Keeps, faulty("before_tool_call", raises)) as stage:
        await stage.call()
    (failed,) = [record for record in records if record["kind"] == "hook" and record["outcome"] == "failed"]
    assert failed["plugin"] == "faulty"
    assert failed["problem"] == "ValueError"
    (finished,) = [record for record in records if record["kind"] == "call_finished"]
    assert finished["status"] == "blocked"


# Every call is seen once


class Watches:
    """Notes what it sees."""

    def __init__(self) -> None:
        self.before: list[tuple[str, str, str | None]] = []
        self.after: list[tuple[str, str, str]] = []
        self.rewrites: list[str] = []
        self.narrows = 0
        self.starts = 0

    @hooks.agent_start
    def start(self, event: AgentStart) -> None:
        self.starts += 1

    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> None:
        self.narrows += 1

    @hooks.rewrite_tool_call
    def rewrite(self, event: RewriteToolCall) -> None:
        self.rewrites.append(event.call.id)

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> None:
        self.before.append((event.call.id, event.tool.name, event.call.parent_id))

    @hooks.after_tool_call
    async def see(self, event: AfterToolCall) -> None:
        self.after.append((event.call.id, event.call.name, event.status))


async def test_every_call_is_seen_exactly_once_under_its_real_name_on_every_route() -> None:
    async with playing(Watches) as stage:
        watches: Watches = stage.session.plugin("watches")
        await stage.call("act")
        await stage.call("ask_other", {"a": 1})
        await stage.call_all([("act", {}), ("ask_other", {}), ("no_such_tool", {})])
        await stage.observed()
        ids = sorted(call_id for call_id, _, _ in watches.before)
        assert len(ids) == len(set(ids)) == 6
        assert sorted(name for _, name, _ in watches.before) == ["act"] * 4 + ["ask_other"] * 2
        assert sorted(watches.rewrites) == ids
        assert {parent for _, name, parent in watches.before if name == "act"} == {None, "c2", "c4"}
        assert sorted(watches.after) == sorted(
            [(call_id, name, "ok") for call_id, name, _ in watches.before] + [("c5", "no_such_tool", "unknown")]
        )
        assert (watches.starts, watches.narrows) == (1, 1)
        assert len(stage.executed) == 4


# What was judged runs


def digest(arguments: Any) -> str:
    from hooksdk import schema

    return schema.fingerprint(arguments)


def spoil(arguments: Any) -> None:
    if not hasattr(arguments, "update"):
        return
    # With the methods of their base classes: an event's arguments refuse their own.
    dict[str, Any].__setitem__(arguments, "path", "/etc/shadow")
    list[Any].append(arguments["deep"]["list"], "more")
    dict[str, Any].__setitem__(arguments["deep"], "new", True)


async def test_nothing_that_anybody_keeps_or_changes_reaches_the_tool() -> None:
    from hooksdk import Approval, ApprovalRequest, ToolCall
    from hooksdk.hooks import Ask, Rewrite

    kept: list[Any] = []
    judged: list[str] = []
    given: dict[str, Any] = {"path": "a.txt", "deep": {"list": [1]}}

    class Meddles:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite | None:
            arguments = {**event.arguments, "stamp": 1}
            kept.append(arguments)
            return Rewrite(arguments)

        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> Ask | None:
            judged.append(digest(event.arguments))
            kept.extend([event.arguments, vars(event).get("arguments"), event.call.arguments])
            spoil(event.arguments)
            for mine in kept:
                spoil(mine)
            assert digest(event.arguments) == judged[0]
            return Ask("sure?")

        @hooks.before_tool_call.last
        async def judge_too(self, event: BeforeToolCall) -> None:
            judged.append(digest(event.arguments))

    async def approver(request: ApprovalRequest) -> Approval:
        judged.append(digest(request.arguments))
        spoil(request.arguments)
        spoil(given)
        kept.extend([request.arguments, vars(request).get("arguments")])
        async with anyio.create_task_group() as group:
            group.start_soon(meddle)
        judged.append(digest(request.arguments))
        return Approval(True)

    async def meddle() -> None:
        for mine in kept:
            await anyio.to_thread.run_sync(spoil, mine)

    async with playing(Meddles, approver=approver) as stage:
        call = ToolCall("c1", "act", given)
        await stage.run.record(
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "act", "arguments": "{}"}}]}
        )  # fmt: skip
        await stage.run.call_tool(call)
        (executed,) = stage.executed
    assert executed == {"path": "a.txt", "deep": {"list": [1]}, "stamp": 1}
    assert len(judged) == 4
    assert set(judged) == {digest(executed)}


async def test_a_tool_that_changes_its_arguments_changes_nobody_elses() -> None:
    from hooksdk import Tool

    after: list[Any] = []

    class Sees:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            after.append(event.arguments)

    async def rude(arguments: dict[str, Any]) -> str:
        spoil(arguments)
        return "done"

    tool = Tool(name="rude", source="host", owner="core", parameters={"type": "object"}, execute=rude)
    async with playing(Sees, tools=[tool]) as stage:
        await stage.call("rude", {"path": "a", "deep": {"list": []}})
    assert after == [{"path": "a", "deep": {"list": []}}]


async def test_nobody_can_empty_the_list_of_secrets_that_are_asked_for() -> None:
    class Empties:
        @hooks.resolve_secrets
        async def resolve(self, event: ResolveSecrets) -> None:
            event.names.clear()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    async with playing(Empties) as stage:
        assert (await stage.call("act", {"key": "{{secret:KEY}}"})).text.startswith("Blocked: plugin 'empties' failed")
        assert stage.executed == []
