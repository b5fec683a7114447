"""What judges a call: verdicts, approvals, nonsense, and secrets filled in after judging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest
from ids import without_address

from hooksdk import Approval, ApprovalRequest, Run, ToolCall, ToolResult, hooks
from hooksdk.errors import RunClosed
from hooksdk.hooks import (
    AfterToolCall,
    Answer,
    Ask,
    BeforeToolCall,
    Block,
    ResolveSecrets,
    Rewrite,
    RewriteToolCall,
    Secrets,
    Trace,
)
from hooksdk.testing import open_host
from tests.stage import USER, make, playing, reply

pytestmark = pytest.mark.anyio


# Verdicts


async def test_an_answer_stands_for_the_result_and_the_tool_does_not_run() -> None:
    class Cache:
        @hooks.before_tool_call
        def cached(self, event: BeforeToolCall) -> Answer | None:
            return Answer("from the cache")

    async with playing(Cache, tools=[make(execute=None)]) as played:
        result = await played.call("read_file")
        assert (result.text, result.is_error) == ("from the cache", False)
        assert played.run.stats["tool_calls"] == {"answered": 1}


async def test_an_ask_is_put_to_a_person_with_the_arguments_that_will_run() -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> Approval:
        asked.append(request)
        return Approval(request.arguments["path"] == "fine", "not that one")

    class Asks:
        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask | None:
            return Ask("May it read?", severity="critical")

    async with playing(Asks, approver=approve, requester={"id": "u1"}) as played:
        assert (await played.call("read_file", {"path": "fine"})).text == 'ran with {"path": "fine"}'
        refused = await played.call("read_file", {"path": "bad"})
        assert refused.text == "Blocked: 'May it read?' was not approved: not that one"
    first = asked[0]
    assert (first.title, first.severity, first.plugin) == ("May it read?", "critical", "asks")
    assert (first.session_id, first.call.id, first.tool.name) == ("s", "c1", "read_file")
    assert first.requester == {"id": "u1"}


async def _raising(request: ApprovalRequest) -> Approval:
    raise ValueError("the chat is down")


async def _nonsense(request: ApprovalRequest) -> Any:
    return True


async def _never(request: ApprovalRequest) -> Approval:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.both_loops
@pytest.mark.parametrize("approver", [None, _raising, _nonsense, _never])
async def test_an_approval_that_cannot_be_had_blocks_the_call(approver: Any) -> None:
    class Asks:
        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask | None:
            return Ask("Sure?", timeout=0.05)

    async with playing(Asks, approver=approver) as played:
        result = await played.call("read_file")
        assert result.is_error
        assert result.text.startswith("Blocked: 'Sure?' was not approved")


@pytest.mark.parametrize(
    "answer",
    [
        lambda: Answer(cast("Any", 42)),
        lambda: Answer(cast("Any", None)),
        lambda: Ask("Sure?", timeout=cast("Any", "soon")),
        lambda: Ask("Sure?", timeout=float("nan")),
        lambda: Ask("Sure?", timeout=-1),
        lambda: Ask(cast("Any", None)),
        lambda: Block(cast("Any", None)),
        lambda: "Block",
        lambda: True,
        lambda: ToolResult("x"),
    ],
)
async def test_a_verdict_that_makes_no_sense_blocks_the_call(answer: Callable[[], Any]) -> None:
    async def approve(request: ApprovalRequest) -> Approval:
        return Approval(True)

    class Nonsense:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Any:
            return answer()

    async with playing(Nonsense, approver=approve) as played:
        result = await played.call("read_file")
        assert result.is_error
        assert result.text.startswith("Blocked")
        assert played.run.stats["tool_calls"] == {"blocked": 1}


@pytest.mark.parametrize("arguments", [5, {"path": object()}, None, "{}"], ids=without_address)
async def test_a_rewrite_that_makes_no_sense_blocks_the_call(arguments: Any) -> None:
    class Nonsense:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite | None:
            return Rewrite(arguments)

    async with playing(Nonsense) as played:
        assert (await played.call("read_file")).text.startswith("Blocked: plugin 'nonsense' failed")


# Secrets


class Vault:
    """Gives one secret."""

    @hooks.resolve_secrets
    def resolve(self, event: ResolveSecrets) -> Secrets | None:
        return Secrets({"KEY": "hunter2"})


async def test_a_secret_reaches_the_tool_and_nothing_else() -> None:
    seen: list[str] = []

    class Watch:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            seen.append(repr(event.arguments))

        @hooks.after_tool_call
        async def after(self, event: AfterToolCall) -> None:
            seen.append(f"{event.arguments} {event.result.text}")

        @hooks.trace
        async def trace(self, event: Trace) -> None:
            seen.append(repr(event.record))

    given: list[str] = []

    async def login(arguments: dict[str, Any]) -> str:
        given.append(arguments["path"])
        return f"logged in with {arguments['path']}"

    async with playing(Vault, Watch, tools=[make(execute=login)]) as played:
        result = await played.call("read_file", {"path": "token {{secret:KEY}}"})
        assert given == ["token hunter2"]
        assert "hunter2" not in result.text
        assert "hunter2" not in repr(played.session.messages)
    assert seen
    assert "hunter2" not in "".join(seen)


async def test_a_secret_that_nobody_gives_blocks_the_call() -> None:
    async with playing(Vault) as played:
        result = await played.call("read_file", {"path": "{{secret:OTHER}}"})
        assert result.text == "Blocked: no plugin gives a value for OTHER"


@pytest.mark.parametrize("values", [None, {"KEY": None}, {"KEY": 5}, "hunter2"], ids=repr)
async def test_secrets_that_make_no_sense_block_the_call(values: Any) -> None:
    class Broken:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets | None:
            return Secrets(values)

    async with playing(Broken) as played:
        result = await played.call("read_file", {"path": "{{secret:KEY}}"})
        assert result.is_error
        assert result.text.startswith("Blocked")


async def test_a_tool_that_was_renamed_is_seen_under_its_name_though_a_plugin_unwrapped_its_id() -> None:
    seen: list[str] = []

    class Bridge:
        @hooks.unwrap_tool_call
        def unwrap(self, event: hooks.UnwrapToolCall) -> ToolCall | None:
            return ToolCall(event.call.id, "host:core:read_file", {})

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            seen.append(event.call.name)

    async with playing(Bridge) as played:
        assert (await played.call("bridge")).text == "ran with {}"
    assert seen == ["read_file"]


@pytest.mark.both_loops
async def test_a_call_that_was_approved_after_the_run_was_over_does_not_run() -> None:
    ran: list[object] = []
    asked, over = anyio.Event(), anyio.Event()

    async def late(_request: ApprovalRequest) -> Approval:
        asked.set()
        await over.wait()
        return Approval(True)

    class Asks:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask | None:
            return Ask("May it?")

    async def call(run: Run) -> None:
        with pytest.raises(RunClosed):
            await run.call_tool(ToolCall("c", "act", {}))

    async with open_host(Asks, approver=late) as host, host.session() as session, anyio.create_task_group() as group:
        async with session.run() as run:
            await run.resolve_tools([make("act", ran.append)])
            await run.record([USER, reply(ToolCall("c", "act", {}))])
            group.start_soon(call, run)
            await asked.wait()
        over.set()
    assert ran == []
