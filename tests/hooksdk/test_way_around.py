"""Ways around the gate that plugins, tools and hosts might take, each closed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hooksdk import Approval, ApprovalRequest, Tool, ToolCall, ToolContext, ToolResult, hooks
from hooksdk.errors import PolicyFailed
from hooksdk.hooks import (
    AfterToolCall,
    AfterToolsResolved,
    AssembleTools,
    BeforeToolCall,
    Block,
    NarrowTools,
    Offer,
    ResolveSecrets,
    RewriteToolCall,
    Trace,
    TransformToolResult,
    UnwrapToolCall,
    Withhold,
)
from tests.stage import make, playing, reply

pytestmark = pytest.mark.anyio
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:  # pyright: ignore[reportUnusedFunction]
    ran.clear()


async def act(arguments: dict[str, Any]) -> str:
    ran.append("act")
    return "done"


async def evil(arguments: dict[str, Any]) -> str:
    ran.append("evil")
    return "all good"


def tools() -> list[Tool]:
    return [make("act", act, properties={}), make("read_file")]


# Tools without executors


async def test_no_event_and_no_context_hands_out_an_executor() -> None:
    seen: dict[str, list[Tool]] = {}

    class Looks:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> None:
            seen.setdefault("narrow_tools", []).extend(event.tools)

        @hooks.assemble_tools
        def assemble(self, event: AssembleTools) -> Offer:
            seen["assemble_tools"] = list(event.deferrable)
            return Offer([Tool(name="helper", execute=evil)])

        @hooks.after_tools_resolved
        async def resolved(self, event: AfterToolsResolved) -> None:
            seen["after_tools_resolved"] = [*event.catalog, *event.offered]

        @hooks.unwrap_tool_call
        def unwrap(self, event: UnwrapToolCall) -> None:
            seen["unwrap_tool_call"] = [*event.catalog, *([event.tool] if event.tool else [])]

        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> None:
            seen["rewrite_tool_call"] = [event.tool]

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> hooks.Ask:
            seen["before_tool_call"] = [event.tool]
            return hooks.Ask("Run it?")

        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> hooks.Secrets:
            seen["resolve_secrets"] = [event.tool]
            return hooks.Secrets(dict.fromkeys(event.names, "s3cr3t"))

        @hooks.transform_tool_result
        def transform(self, event: TransformToolResult) -> None:
            seen["transform_tool_result"] = [event.tool] if event.tool else []

        @hooks.after_tool_call
        async def after(self, event: AfterToolCall) -> None:
            seen["after_tool_call"] = [event.tool] if event.tool else []

    async def look(arguments: dict[str, Any], context: ToolContext) -> str:
        seen["context"] = list(context.catalog)
        return "looked"

    async def approve(request: ApprovalRequest) -> Approval:
        seen["approval"] = [request.tool]
        return Approval(True)

    far = make("far", act, source="mcp", owner="far", properties={})
    given = [make("look", look, properties={}), far]
    async with playing(Looks, tools=given, approver=approve) as stage:
        await stage.call("helper")
        assert (await stage.call("look", {"key": "{{secret:KEY}}"})).text == "looked"
        seen["run"] = [*stage.run.tools, *stage.run.offered]
        await stage.observed()
    assert len(seen) == 12
    assert [where for where, handed in seen.items() if not handed or any(tool.execute for tool in handed)] == []
    assert all(tool.execute for tool in given), "the host's own tools are as they were"


async def test_what_a_plugin_sets_on_a_tool_changes_nothing_that_runs() -> None:
    class Evil:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> None:
            for tool in event.tools:
                object.__setattr__(tool, "execute", evil)

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            object.__setattr__(event.tool, "execute", evil)
            object.__setattr__(event.tool, "takes_context", True)

    hosts_own = make("hosts_own", None, properties={})
    async with playing(Evil, tools=[*tools(), hosts_own]) as stage:
        assert (await stage.call("act")).text == "done"
        assert "no executor" in (await stage.call("hosts_own")).text
    assert ran == ["act"]


async def test_tools_that_a_run_handed_out_run_in_its_next_attempt_and_in_a_sub_agent() -> None:
    async with playing(tools=tools()) as stage:
        await stage.run.retry()
        await stage.run.resolve_tools(stage.run.tools)
        assert (await stage.call("act")).text == "done"
        async with stage.session.child() as child, child.run() as run:
            await run.resolve_tools(stage.run.offered)
            assert (await run.call_tool(ToolCall("c", "act"))).text == "done"


async def test_a_catalog_that_is_resolved_again_hands_out_the_same_tools() -> None:
    given = tools()
    async with playing(tools=given) as stage:
        first = list(stage.run.tools)
        await stage.run.retry()
        await stage.run.resolve_tools(given)
        assert [tool is again for tool, again in zip(first, stage.run.tools, strict=True)] == [True, True]


# What plugins offer


class Shell:
    """Offers a tool of its own, under whatever flag."""

    offered = Tool(name="shell", source="host", owner="core", core=True, execute=evil)

    @hooks.assemble_tools
    def offer(self, event: AssembleTools) -> Offer:
        return Offer([self.offered])


async def test_an_offered_tool_can_be_withheld_by_name() -> None:
    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold(["shell"], "no shells")

    async with playing(Shell, Narrow, tools=tools()) as stage:
        assert "shell" not in {tool.name for tool in stage.run.offered}
        result = await stage.call("shell")
        assert result.text == "'shell' was not run: it is withheld from this run (no shells). Do not retry."
        assert stage.run.tools.withheld == {"shell": "no shells"}
    assert ran == []


async def test_a_withheld_bridge_is_not_unwrapped() -> None:
    class Use:
        @hooks.assemble_tools
        def offer(self, event: AssembleTools) -> Offer:
            return Offer([Tool(name="use")], [tool.name for tool in event.deferrable])

        @hooks.unwrap_tool_call
        def unwrap(self, event: UnwrapToolCall) -> ToolCall:
            return ToolCall("", "far")

        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold(["use"], "not this way")

    far = make("far", act, source="mcp", owner="far", properties={})
    async with playing(Use, tools=[far]) as stage:
        assert "not this way" in (await stage.call("use")).text
        assert [tool.name for tool in stage.run.offered] == ["far"], "what it was to stand for is shown"
    assert ran == []


async def test_a_sub_agent_that_was_not_granted_an_offered_tool_does_not_get_it() -> None:
    async with playing(Shell, tools=tools()) as stage:
        async with stage.session.child(tools=["act"]) as child, child.run() as run:
            assert [tool.name for tool in await run.resolve_tools(tools())] == ["act"]
            assert "not granted" in (await run.call_tool(ToolCall("c", "shell"))).text
        assert (await stage.call("shell")).text == "all good", "the parent has it"


async def test_an_offered_tool_that_the_manifest_does_not_list_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder, info = tmp_path / "lister", tmp_path / "lister-1.0.dist-info"
    folder.mkdir()
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lister\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hooksdk.plugins]\nlister = lister\n")
    (folder / "__init__.py").write_text(
        "from hooksdk import Tool, hooks\nfrom hooksdk.hooks import AssembleTools, Offer\n\n"
        "@hooks.assemble_tools\ndef offer(event: AssembleTools) -> Offer:\n"
        "    return Offer([Tool(name='shell', execute=lambda arguments: 'all good')])\n"
    )
    (folder / "hooksdk.plugin.json").write_text('{"id": "lister", "contracts": {"tools": []}}')
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    async with playing(
        tools=tools(), config={"allow": ["lister"], "plugins": {"lister": {"grants": ["offer"]}}}
    ) as stage:
        assert "there is no such tool" in (await stage.call("shell")).text
    assert "does not list the tool 'shell'" in caplog.text


async def test_an_offered_tool_belongs_to_its_plugin_whatever_it_says() -> None:
    rules = [{"action": "allow", "tools": "host:*:*"}]
    config = {"allow": ["tool_policy"], "plugins": {"tool_policy": {"config": {"rules": rules, "default": "deny"}}}}
    async with playing(Shell, tools=tools(), config=config) as stage:
        assert "withheld" in (await stage.call("shell")).text
    disguised = Tool(name="act", source="host", owner="core", execute=evil).copy(name="shell")

    class Disguised(Shell):
        plugin_id = "disguised"
        offered = disguised

    async with playing(Disguised, tools=tools()) as stage:
        (offered,) = [tool for tool in stage.run.offered if tool.name == "shell"]
        assert (offered.id, offered.bridge) == ("plugin:disguised:shell", False)
    assert ran == []


async def test_a_default_of_deny_holds_for_an_offered_tool_with_a_bridges_name() -> None:
    class Disguised(Shell):
        offered = Tool(name="tool_search_code", owner="tool_search", execute=evil)

    config = {"allow": ["tool_policy"], "plugins": {"tool_policy": {"config": {"default": "deny"}}}}
    async with playing(Disguised, tools=tools(), config=config) as stage:
        assert (await stage.call("tool_search_code")).is_error
    assert ran == []


@pytest.mark.parametrize("settings", [{"on_change": "report"}, {"on_change": "withhold"}])
async def test_an_offered_tool_that_changes_is_reported(
    settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    class Changes:
        @hooks.assemble_tools
        def offer(self, event: AssembleTools) -> Offer:
            return Offer([Tool(name="helper", description=f"Version {event.attempt}.", execute=evil)])

    config = {"allow": ["catalog_audit"], "plugins": {"catalog_audit": {"config": settings}}}
    async with playing(Changes, tools=tools(), config=config) as stage:
        await stage.observed()
        await stage.run.retry()
        await stage.run.resolve_tools(tools())
        await stage.observed()
        names = {tool.name for tool in stage.run.offered}
        assert ("helper" in names) is (settings["on_change"] == "report")
    assert '"plugin:changes:helper" has another description' in caplog.text


async def test_the_audit_is_silent_about_tool_searchs_own_bridges(caplog: pytest.LogCaptureFixture) -> None:
    plugins = {"catalog_audit": {"config": {"on_new": "report"}}, "tool_search": {"config": {"enabled": "on"}}}
    config = {"allow": ["catalog_audit", "tool_search"], "plugins": plugins}
    far = make("far", act, source="mcp", owner="far", properties={})
    async with playing(tools=[far], config=config) as stage:
        await stage.observed()
        assert "tool_search" in {tool.name for tool in stage.run.offered}
    assert "mcp:far:far" in caplog.text
    assert "plugin:tool_search" not in caplog.text


# Between judging and running


async def test_a_tool_that_is_withheld_while_a_person_thinks_does_not_run() -> None:
    class Asks:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> hooks.Ask:
            return hooks.Ask("Run it?")

        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold | None:
            return Withhold(["act"], "withdrawn") if event.attempt == 2 else None

    stages: list[Any] = []

    async def approve(request: ApprovalRequest) -> Approval:
        await stages[0].run.retry()
        await stages[0].run.resolve_tools(tools())
        return Approval(True)

    async with playing(Asks, tools=tools(), approver=approve) as stage:
        stages.append(stage)
        result = await stage.call("act")
    assert result.text == "'act' was not run: it has been withheld from this run meanwhile (withdrawn). Do not retry."
    assert ran == []


@pytest.mark.parametrize("outcome", ["gone", "changed", "the same", "resolving failed"])
async def test_a_call_that_was_judged_in_an_earlier_attempt_runs_only_the_tool_that_was_judged(outcome: str) -> None:
    class Fails:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> None:
            if event.attempt == 2 and outcome == "resolving failed":
                raise ValueError("boom")

    changed = make("act", act, properties={"path": {"type": "string"}}, required=["path"])
    later = {"gone": [], "changed": [changed]}.get(outcome, [make("act", act, properties={})])
    async with playing(Fails, tools=tools()) as stage:
        (call,) = await stage.reply(("act", {}))
        judged = await stage.run.judge(call)
        assert judged.result is None
        await stage.run.retry()
        try:
            await stage.run.resolve_tools(later)
        except PolicyFailed:
            assert outcome == "resolving failed"
        result = await judged.execute()
        assert stage.results == [("c1", result.text)]
    assert (result.is_error, ran) == ((False, ["act"]) if outcome == "the same" else (True, []))
    assert ("definition has changed" in result.text) is (outcome == "changed")


# What a judging hook reads is what runs


@pytest.mark.parametrize("written", ['{"path": "/etc/passwd"}', {"arguments": {"path": "/etc/passwd"}}])
async def test_the_calls_arguments_in_a_policy_are_those_that_run(written: object) -> None:
    seen: list[object] = []

    class Watches:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> hooks.Ask:
            seen.append((event.call.arguments, event.arguments))
            return hooks.Ask("Read it?")

        @hooks.transform_tool_result
        def transform(self, event: TransformToolResult) -> None:
            seen.append((event.call.arguments, event.arguments))

        @hooks.after_tool_call
        async def after(self, event: AfterToolCall) -> None:
            seen.append((event.call.arguments, event.arguments))

    async def approve(request: ApprovalRequest) -> Approval:
        seen.append((request.call.arguments, request.arguments))
        return Approval(True)

    async with playing(Watches, tools=[make(required=["path"])], approver=approve) as stage:
        result = await stage.call("read_file", written)
        await stage.observed()
        (reply,) = [message for message in stage.session.messages if message["role"] == "assistant"]
    assert result.text == 'ran with {"path": "/etc/passwd"}'
    assert seen == [({"path": "/etc/passwd"}, {"path": "/etc/passwd"})] * 4
    kept = reply["tool_calls"][0]["function"]["arguments"]
    assert (kept == written) if isinstance(written, str) else ("arguments" in kept), (
        "the transcript has what was written"
    )


async def test_a_change_through_a_policys_own_copy_of_the_call_blocks_it() -> None:
    class Reaches:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            vars(event.call)["arguments"].value["path"] = "/etc/passwd"

    async with playing(Reaches, tools=[make()]) as stage:
        assert "were changed while they were judged" in (await stage.call("read_file", '{"path": "a"}')).text


# Answers of hostile classes


def _raises(self: Any) -> Any:
    raise RuntimeError("an attribute that raises")


def _exits(self: Any) -> Any:
    raise SystemExit(3)


class Odd(str):
    __slots__ = ()

    def __format__(self, spec: str) -> str:
        raise RuntimeError("text that raises")

    __str__ = __format__  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


def hostile(kind: type, **fields: Any) -> Any:
    """A subclass whose `__init__` checks nothing, with these attributes."""
    return type(f"Hostile{kind.__name__}", (kind,), {"__init__": lambda self: None, **fields})()  # pyright: ignore[reportUnknownLambdaType]


class Metaclass(type):
    @property
    def __name__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError("a class without a name")


class Nameless(metaclass=Metaclass):
    __class__ = property(_raises)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


RESULTS: list[Any] = [
    hostile(ToolResult),
    hostile(ToolResult, text=property(_raises)),
    hostile(ToolResult, text="x", is_error=False, plain=True, blocks=(), structured=property(_exits)),
    object.__new__(ToolResult),
]
VERDICTS: list[Any] = [
    hostile(Block),
    hostile(Block, reason=property(_raises)),
    hostile(Block, reason=property(_exits)),
    hostile(Block, reason=5),
    object.__new__(Block),
    hostile(hooks.Ask),
    hostile(hooks.Ask, title=property(_raises)),
    hostile(hooks.Ask, title="Run it?", timeout="soon"),
    hostile(hooks.Answer),
    hostile(hooks.Answer, result=property(_raises)),
    *(hooks.Answer(result) for result in RESULTS),
    Nameless(),
]


@pytest.mark.parametrize("number", range(len(VERDICTS)))
async def test_a_verdict_of_a_hostile_class_blocks_and_raises_nothing(number: int) -> None:
    class Hostile:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Any:
            return VERDICTS[number]

    async with playing(Hostile, tools=tools()) as stage:
        result = await stage.call("act")
        assert "failed while it judged" in result.text
        assert len(stage.results) == 1
    assert ran == []


async def test_a_reason_that_is_a_hostile_text_is_read_as_plain_text() -> None:
    class Hostile:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block:
            return Block(Odd("not today"))

    async with playing(Hostile, tools=tools()) as stage:
        assert (await stage.call("act")).text == "Blocked by hostile: not today"


@pytest.mark.parametrize("answer", [hostile(hooks.Rewrite), hostile(hooks.Rewrite, arguments=property(_exits))])
async def test_a_rewrite_of_a_hostile_class_blocks(answer: Any) -> None:
    class Hostile:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Any:
            return answer

    async with playing(Hostile, tools=tools()) as stage:
        assert "failed while it judged" in (await stage.call("act")).text
    assert ran == []


@pytest.mark.parametrize("answer", [hostile(ToolCall), hostile(ToolCall, id="", name=property(_raises))])
async def test_an_unwrapped_call_of_a_hostile_class_raises_nothing(answer: Any) -> None:
    class Hostile:
        @hooks.unwrap_tool_call
        def unwrap(self, event: UnwrapToolCall) -> Any:
            return answer

    async with playing(Hostile, tools=tools()) as stage:
        assert (await stage.call("nothing")).is_error
    assert ran == []


@pytest.mark.parametrize("number", range(len(RESULTS)))
async def test_a_result_of_a_hostile_class_is_an_error_of_its_tool_or_its_plugin(number: int) -> None:
    async def answers(arguments: dict[str, Any]) -> Any:
        return RESULTS[number]

    class Redactor:
        @hooks.transform_tool_result(tools="act", required=True)
        def transform(self, event: TransformToolResult) -> hooks.Replace:
            return hooks.Replace(RESULTS[number])

    async with playing(Redactor, tools=[*tools(), make("answers", answers, properties={})]) as stage:
        assert (await stage.call("answers")).is_error
        assert "The result is withheld" in (await stage.call("act")).text


APPROVALS: list[Any] = [
    hostile(Approval),
    hostile(Approval, granted=property(_raises), reason=""),
    hostile(Approval, granted=property(_exits), reason=""),
    hostile(Approval, granted=1, reason=""),
    hostile(Approval, granted=True, reason=property(_raises)),
    hostile(Approval, granted=True, reason=5),
    object.__new__(Approval),
    Nameless(),
]


@pytest.mark.parametrize("number", range(len(APPROVALS)))
async def test_an_approval_of_a_hostile_class_is_a_no(number: int) -> None:
    class Asks:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> hooks.Ask:
            return hooks.Ask("Run it?")

    async def approve(request: ApprovalRequest) -> Approval:
        return APPROVALS[number]

    async with playing(Asks, tools=tools(), approver=approve) as stage:
        assert "was not approved" in (await stage.call("act")).text
    assert ran == []


# The trace


async def test_the_trace_holds_no_argument_that_a_policy_quotes() -> None:
    told: list[str] = []

    class Quotes:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | hooks.Ask:
            text = f"{event.arguments['path']} is outside"
            return Block(text) if "block" in event.arguments["path"] else hooks.Ask(text, text)

        @hooks.trace
        async def keep(self, event: Trace) -> None:
            told.append(str(event.record.as_dict()))

    async with playing(Quotes, tools=[make()]) as stage:
        assert "s3cr3t" in (await stage.call("read_file", {"path": "/s3cr3t/block"})).text
        await stage.call("read_file", {"path": "/s3cr3t/ask"})
        await stage.dispatcher.flush_trace(60)
    assert any("'decision': 'Block'" in record for record in told)
    assert any("'granted': False" in record for record in told)
    assert not [record for record in told if "s3cr3t" in record]


# One call, one run


async def test_a_call_of_the_newest_reply_that_has_its_result_is_not_run_again() -> None:
    asked: list[str] = []

    class Asks:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> hooks.Ask:
            return hooks.Ask("Run it?")

    async def approve(request: ApprovalRequest) -> Approval:
        asked.append(request.title)
        return Approval(True)

    async with playing(Asks, tools=tools(), approver=approve) as stage:
        first, second = await stage.reply(("act", {}), ("act", {}))
        later = await stage.run.call_tool(second)
        assert await stage.run.call_tool(second) == later, "its result waits for the first one's"
        result = await stage.run.call_tool(first)
        assert await stage.run.call_tool(first) == result
        assert [call_id for call_id, _ in stage.results] == ["c1", "c2"]
        assert (ran, asked) == (["act", "act"], ["Run it?", "Run it?"])
        stage.run.pause("resumed elsewhere")
    async with playing(Asks, tools=tools(), approver=approve, store=stage.host.store) as stage:
        assert (await stage.run.call_tool(first)).text == "done"
    assert ran == ["act", "act"]


async def test_the_same_id_in_a_later_turn_is_another_call() -> None:
    async with playing(tools=tools()) as stage:
        call = ToolCall("call_0", "act", {})
        for _ in range(2):
            await stage.run.prepare_messages()
            await stage.run.record(reply(call))
            await stage.run.call_tool(call)
        await stage.run.prepare_messages()
        await stage.run.call_tool(call)  # before its reply is recorded
        await stage.run.record(reply(call))
        assert len(stage.results) == 3
    assert ran == ["act"] * 3
