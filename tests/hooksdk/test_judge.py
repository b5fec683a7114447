"""`run.judge`: a call goes through every policy, and whoever runs it gives its result once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hooksdk import Tool, ToolCall, ToolContext, ToolResult, hooks
from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.errors import CallSettled, RunClosed
from hooksdk.hooks import (
    AfterToolCall,
    Answer,
    Ask,
    BeforeToolCall,
    Block,
    NarrowTools,
    Replace,
    ResolveSecrets,
    Rewrite,
    RewriteToolCall,
    Secrets,
    TransformToolResult,
    Withhold,
)
from tests.stage import make, playing

pytestmark = pytest.mark.anyio
COUNT = {"count": {"type": "integer"}}


class Ended:
    """Sees how every call ended."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    @hooks.after_tool_call
    async def see(self, event: AfterToolCall) -> None:
        self.calls.append((event.call.name, event.status, event.result.text))


class Gate:
    """Blocks, answers or asks, by the path that is to be read."""

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | Ask | Answer | None:
        path = event.arguments.get("path")
        verdicts: Mapping[str, Any] = {
            "/etc": Block("not there"),
            "/cached": Answer("from the cache"),
            "/home": Ask("?"),
        }
        return verdicts.get(str(path))


class Louder:
    @hooks.transform_tool_result
    def change(self, event: TransformToolResult) -> Replace:
        return Replace(event.result.text.upper())


async def never(arguments: dict[str, Any]) -> str:
    raise AssertionError(f"ran with {arguments}")


async def refuse(request: ApprovalRequest) -> Approval:
    return Approval(False, "not today")


async def test_a_judged_call_has_its_tool_and_its_final_arguments_and_no_result_yet() -> None:
    class Home:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"path": "/home/" + event.arguments["path"]})

    async with playing(Home, Ended) as stage:
        (call,) = await stage.reply(("read_file", '{"path": "a"}'))
        judged = await stage.run.judge(call)
        assert judged.tool is not None
        assert judged.tool.name == "read_file"
        assert judged.arguments == {"path": "/home/a"}
        assert judged.result is None
        assert judged.status is None
        assert stage.results == []
        assert [pending.id for pending in stage.run.pending] == [call.id]
        assert (await judged.execute()).text == 'ran with {"path": "/home/a"}'
        assert judged.status == "ok"


async def test_executing_what_was_judged_is_call_tool() -> None:
    async with playing() as stage:
        (first, second) = await stage.reply(("read_file", {"path": "a"}), ("read_file", {"path": "b"}))
        judged = await stage.run.judge(first)
        executed, called = await judged.execute(), await stage.run.call_tool(second)
        assert (executed.text, called.text) == ('ran with {"path": "a"}', 'ran with {"path": "b"}')
        assert stage.results == [(first.id, executed.text), (second.id, called.text)]


async def test_a_result_made_elsewhere_is_transformed_recorded_and_observed_like_the_tools_own() -> None:
    async with playing(Louder, Ended, tools=[make(execute=never)]) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        judged = await stage.run.judge(call)
        recorded = await judged.supply("made by a framework")
        assert recorded.text == "MADE BY A FRAMEWORK"
        assert judged.result == recorded
        assert stage.results == [(call.id, "MADE BY A FRAMEWORK")]
        ended = stage.session.plugin("ended")
    assert ended.calls == [("read_file", "ok", "MADE BY A FRAMEWORK")]


async def test_an_error_that_is_supplied_counts_as_an_error() -> None:
    async with playing(tools=[make(execute=None)]) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        judged = await stage.run.judge(call)
        await judged.supply(ToolResult.error("the disk is full"))
        assert judged.status == "error"


async def test_a_supplied_result_is_checked_against_the_tools_output_schema() -> None:
    schema = {"type": "object", "properties": COUNT, "required": ["count"]}
    async with playing(tools=[make(execute=None, output_schema=schema)]) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        supplied = await (await stage.run.judge(call)).supply('{"count": "many"}')
        assert "does not match the tool's output schema" in supplied.text


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ({"path": "/etc"}, "blocked", "Blocked by gate: not there"),
        ({"path": "/home"}, "blocked", "Blocked: '?' was not approved: not today"),
        ({"path": "/cached"}, "answered", "from the cache"),
        ({"path": 3, "more": 4}, "invalid", "The tool read_file was not invoked"),
    ],
    ids=["blocked", "refused by a person", "answered", "invalid"],
)
async def test_a_call_that_is_settled_has_its_result_at_once(arguments: object, status: str, text: str) -> None:
    strict = make(execute=never, properties={"path": {"type": "string"}})
    strict = strict.copy(parameters={**(strict.parameters or {}), "additionalProperties": False})
    async with playing(Gate, Ended, tools=[strict], approver=refuse) as stage:
        (call,) = await stage.reply(("read_file", arguments))
        judged = await stage.run.judge(call)
        assert judged.status == status
        assert judged.result is not None
        assert judged.result.text.startswith(text)
        assert await judged.execute() == judged.result, "nothing runs"
        assert stage.results == [(call.id, judged.result.text)]
        ended = stage.session.plugin("ended")
    assert [call[:2] for call in ended.calls] == [("read_file", status)]


async def test_a_name_that_nobody_granted_is_settled_as_unknown() -> None:
    async with playing() as stage:
        (call,) = await stage.reply(("read_fil", {}))
        judged = await stage.run.judge(call)
        assert (judged.tool, judged.status) == (None, "unknown")


class Withholds:
    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold:
        return Withhold([tool.id for tool in event.tools if tool.own_name == "note://b"], "private")


async def test_a_call_of_what_is_in_no_catalog_is_judged_as_any_other() -> None:
    async def read(arguments: dict[str, str]) -> str:
        return f"read {arguments['path']}"

    beside = make("note://a", source="resource", owner="notes", execute=read)
    async with playing(Gate, Ended, Withholds, tools=[make(execute=never)]) as stage:
        (call, blocked, withheld) = await stage.reply(
            ("note://a", {"path": "a"}), ("note://a", {"path": "/etc"}), ("note://b", {"path": "a"})
        )
        assert "note://a" not in {tool.name for tool in stage.run.offered}
        assert (await (await stage.run.judge(call, tool=beside)).execute()).text == "read a"
        judged = await stage.run.judge(blocked, tool=beside)
        assert (judged.status, judged.tool and judged.tool.id) == ("blocked", "resource:notes:note://a")
        private = make("note://b", source="resource", owner="notes", execute=never)
        judged = await stage.run.judge(withheld, tool=private)
        assert judged.status == "blocked"
        assert judged.result is not None
        assert "private" in judged.result.text
        granted = await stage.run.grant([beside, private])
        assert ([tool.name for tool in granted], dict(granted.withheld)) == (["note://a"], {"note://b": "private"})
        ended = stage.session.plugin("ended")
    assert [call[:2] for call in ended.calls] == [("note://a", "ok"), ("note://a", "blocked"), ("note://b", "blocked")]


async def test_a_call_takes_one_result() -> None:
    async with playing(Ended) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        judged = await stage.run.judge(call)
        result = await judged.execute()
        with pytest.raises(CallSettled, match=r"call 'c1' of 'read_file' has its result already \(ok\)"):
            await judged.supply("another one")
        assert await judged.execute() == result
        assert stage.results == [(call.id, result.text)]
        ended = stage.session.plugin("ended")
    assert len(ended.calls) == 1


def reach_into(event: object) -> None:
    """Change the arguments of an event for everybody, as far in as Python lets it."""
    for value in vars(event).values():
        inner = getattr(value, "value", None)
        if isinstance(inner, dict):
            inner["path"] = 5


async def test_what_a_policy_changes_in_its_event_is_not_what_runs() -> None:
    class Meddler:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            dict[str, Any].__setitem__(event.arguments, "path", "/etc/shadow")
            event.call.arguments["path"] = "/etc/shadow"

    async with playing(Meddler) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        assert (await stage.run.call_tool(call)).text == 'ran with {"path": "a"}'


async def test_a_call_whose_arguments_were_changed_for_the_next_policy_does_not_run() -> None:
    class Meddler:
        @hooks.before_tool_call.first
        def judge(self, event: BeforeToolCall) -> None:
            reach_into(event)

    async with playing(Meddler, Gate, tools=[make(execute=never)]) as stage:
        result = await stage.call("read_file", {"path": "/etc"})
        assert (
            result.text
            == "Blocked: the arguments of 'read_file' were changed while they were judged, so it was not run."
        )


async def test_arguments_that_a_rewriter_changes_without_an_answer_stay_as_they_were_checked() -> None:
    class Meddler:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> None:
            reach_into(event)

    async with playing(Meddler) as stage:
        assert (await stage.call("read_file", {"path": "a"})).text == 'ran with {"path": "a"}'


async def test_a_tool_that_changes_its_arguments_changes_nobody_elses() -> None:
    async def greedy(arguments: dict[str, Any]) -> str:
        arguments.clear()
        return "done"

    seen: list[dict[str, Any]] = []

    class Sees:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            seen.append(event.arguments)

    async with playing(Sees, tools=[make(execute=greedy)]) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        await stage.run.call_tool(call)
    assert seen == [{"path": "a"}]


async def test_placeholders_of_secrets_are_filled_for_the_tool_alone() -> None:
    class Vault:
        @hooks.resolve_secrets
        def values(self, event: ResolveSecrets) -> Secrets:
            return Secrets(dict.fromkeys(event.names, "s3cr3t"))

    async with playing(Vault) as stage:
        (call,) = await stage.reply(("read_file", {"path": "{{secret:KEY}}"}))
        judged = await stage.run.judge(call)
        assert judged.arguments == {"path": "{{secret:KEY}}"}
        assert (await judged.execute()).text == 'ran with {"path": "{{secret:KEY}}"}'
        assert judged.arguments == {"path": "{{secret:KEY}}"}


async def test_a_call_that_nobody_executes_ends_with_its_run_as_not_run() -> None:
    async with playing(Ended, tools=[make(execute=never)]) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        judged = await stage.run.judge(call)
        ended, session = stage.session.plugin("ended"), stage.session
        await stage.run.__aexit__(None, None, None)
        assert judged.status == "not_run"
        assert stage.results == [(call.id, "'read_file' was not run: its run ended first.")]
        assert session.plugin("ended") is ended
        with pytest.raises(CallSettled, match="not_run"):
            await judged.supply("too late")
    assert [status for _, status, _ in ended.calls] == ["not_run"]


async def test_a_call_that_nobody_executes_stays_open_over_a_pause() -> None:
    async with playing(Ended, tools=[make(execute=never)]) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        judged = await stage.run.judge(call)
        stage.run.pause("a person is asked elsewhere")
        await stage.run.__aexit__(None, None, None)
        assert (judged.status, stage.results) == (None, [])
        with pytest.raises(RunClosed):
            await judged.execute()
        async with stage.session.run() as later:
            await later.resolve_tools([make()])
            (pending,) = later.pending
            assert (await later.call_tool(pending)).text == 'ran with {"path": "a"}'


async def test_a_bridge_call_is_judged_under_the_real_tools_name() -> None:
    class Bridge:
        @hooks.assemble_tools
        def offer(self, event: hooks.AssembleTools) -> hooks.Offer:
            return hooks.Offer([Tool(name="use")], [tool.name for tool in event.deferrable])

        @hooks.unwrap_tool_call
        def unwrap(self, event: hooks.UnwrapToolCall) -> ToolCall:
            arguments = event.arguments
            return ToolCall("", arguments["tool"], arguments["with"])

    async with playing(Bridge, tools=[make(source="mcp", owner="disk")]) as stage:
        (call,) = await stage.reply(("use", {"tool": "read_file", "with": {"path": "a"}}))
        judged = await stage.run.judge(call)
        assert judged.tool is not None
        assert (judged.tool.id, judged.call.origin, judged.call.id) == ("mcp:disk:read_file", "bridge", call.id)
        await judged.supply("done")
        assert stage.results == [(call.id, "done")]


# For frameworks that ask, answer and run by themselves


async def test_a_refusal_may_have_the_words_that_the_model_was_told_already() -> None:
    async with playing(Ended) as stage:
        (call,) = await stage.reply(("read_file", {"path": "a"}))
        judged = await stage.run.judge(call)
        result = await judged.refuse("not now", by="ann", text="The tool call was denied.")
        assert (result.text, judged.status) == ("The tool call was denied.", "blocked")
        assert stage.results == [(call.id, "The tool call was denied.")]
        ended = stage.session.plugin("ended")
    assert ended.calls == [("read_file", "blocked", "The tool call was denied.")]


async def test_an_executor_finds_what_the_host_gave_it() -> None:
    class Native:
        handle = "a framework's own"

    async def act(arguments: dict[str, Any], context: ToolContext) -> str:
        return str(getattr(context.native, "handle", None))

    async with playing(tools=[make(execute=act)]) as stage:
        given, plain = await stage.reply(("read_file", {}), ("read_file", {}))
        judged = await stage.run.judge(given)
        assert (await judged.execute(native=Native())).text == "a framework's own"
        assert (await stage.run.call_tool(plain)).text == "None"


async def test_so_do_the_tools_that_it_calls() -> None:
    async def inner(arguments: dict[str, Any], context: ToolContext) -> str:
        return str(context.native)

    async def outer(arguments: dict[str, Any], context: ToolContext) -> str:
        return (await context.call_tool("inner", {})).text

    async with playing(tools=[make("outer", outer), make("inner", inner)]) as stage:
        (call,) = await stage.reply(("outer", {}))
        assert (await (await stage.run.judge(call)).execute(native="given")).text == "given"


@pytest.mark.parametrize("approver", [None, refuse])
async def test_nobody_said_yes_where_nobody_was_asked_or_the_answer_was_no(approver: Any) -> None:
    async with playing(Gate, approver=approver) as stage:
        free, asked = await stage.reply(("read_file", {"path": "a"}), ("read_file", {"path": "/home"}))
        assert (await stage.run.judge(free)).approval is None
        assert (await stage.run.judge(asked)).approval is None


async def test_a_judged_call_says_who_approved_it() -> None:
    async def ann(request: ApprovalRequest) -> Approval:
        return Approval(True, by="ann")

    async with playing(Gate, approver=ann) as stage:
        (call,) = await stage.reply(("read_file", {"path": "/home"}))
        judged = await stage.run.judge(call)
        assert judged.approval is not None
        assert (judged.approval.granted, judged.approval.by) == (True, "ann")


async def test_so_does_one_that_was_approved_later() -> None:
    async def later(request: ApprovalRequest) -> Later:
        return Later()

    async with playing(Gate, approver=later) as stage:
        (call,) = await stage.reply(("read_file", {"path": "/home"}))
        judged = await stage.run.judge(call)
        assert judged.approval is None
        await judged.approve(Approval(True, by="bob"))
        assert judged.approval is not None
        assert judged.approval.by == "bob"
