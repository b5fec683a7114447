"""The order of handlers, and what each kind of hook does with their answers."""

from __future__ import annotations

import types
from typing import Any

import pytest

from hooksdk import Tool, hooks
from hooksdk.errors import PolicyFailed
from hooksdk.hooks import (
    AddContext,
    AgentEnd,
    AssembleTools,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    NarrowTools,
    Offer,
    Replace,
    Rewrite,
    RewriteToolCall,
    SessionStart,
    TransformToolResult,
    Withhold,
)
from tests.stage import playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
seen: list[str] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


# Order


class Early:
    @hooks.before_tool_call.last
    def zz_last(self, event: BeforeToolCall) -> Block | None:
        seen.append("early last")

    @hooks.before_tool_call
    def zebra(self, event: BeforeToolCall) -> Block | None:
        seen.append("early zebra")

    @hooks.before_tool_call
    def aardvark(self, event: BeforeToolCall) -> Block | None:
        seen.append("early aardvark")

    @hooks.before_tool_call.first
    def yak(self, event: BeforeToolCall) -> Block | None:
        seen.append("early first")


class Late:
    @hooks.before_tool_call(timeout=3).last
    async def end(self, event: BeforeToolCall) -> Block | None:
        seen.append("late last")

    @hooks.before_tool_call
    async def middle(self, event: BeforeToolCall) -> Block | None:
        seen.append("late middle")

    @hooks.before_tool_call.first(timeout=3)
    async def begin(self, event: BeforeToolCall) -> Block | None:
        seen.append("late first")


async def test_first_then_normal_then_last_by_registration_and_by_line_within_a_plugin() -> None:
    async with playing(Early, Late) as stage:
        await stage.call()
    assert seen == [
        "early first", "late first", "early zebra", "early aardvark", "late middle", "early last", "late last",
    ]  # fmt: skip


async def test_registration_decides_between_plugins() -> None:
    async with playing(Late, Early) as stage:
        await stage.call()
    assert seen[:2] == ["late first", "early first"]


def module_of(source: str, name: str = "plug") -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__["seen"] = seen
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


async def test_a_modules_handlers_run_in_the_order_of_its_lines() -> None:
    module = module_of(
        "from hooksdk import hooks\n"
        "@hooks.before_tool_call\ndef b(event):\n    seen.append('b')\n"
        "@hooks.before_tool_call\nasync def a(event):\n    seen.append('a')\n"
        "@hooks.before_tool_call\ndef c(event):\n    seen.append('c')\n"
    )
    async with playing(module) as stage:
        await stage.call()
    assert seen == ["b", "a", "c"]


async def test_wrapped_handlers_are_ordered_by_their_own_lines_and_named_by_them() -> None:
    module = module_of(
        "import functools\nfrom hooksdk import hooks\n"
        "def noted(function):\n    @functools.wraps(function)\n    def inner(event):\n        return function(event)\n    return inner\n"
        "@noted\n@hooks.before_tool_call\nasync def z(event):\n    seen.append('z')\n"
        "@noted\n@hooks.before_tool_call\nasync def y(event):\n    seen.append('y')\n    raise ValueError\n"
    )
    async with playing(module) as stage:
        result = await stage.call()
    assert seen == ["z", "y"]
    assert result.is_error
    assert stage.executed == []


async def test_agent_end_goes_in_reverse() -> None:
    class Ends:
        @hooks.agent_end.first
        def a(self, event: AgentEnd) -> None:
            seen.append("first")

        @hooks.agent_end
        async def b(self, event: AgentEnd) -> None:
            seen.append("middle")
            raise ValueError

        @hooks.agent_end.last
        def c(self, event: AgentEnd) -> None:
            seen.append("last")

    async with playing(Ends):
        pass
    assert seen == ["last", "middle", "first"]


class Passes:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        seen.append("pass")


# Narrowing, transforming, first answers


async def test_narrowing_can_only_take_away_and_each_sees_what_is_left() -> None:
    class One:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold | None:
            seen.append(",".join(tool.name for tool in event.tools))
            return Withhold(["act", "no_such_tool"], "not here")

    class Two:
        @hooks.narrow_tools
        async def narrow(self, event: NarrowTools) -> Withhold | None:
            seen.append(",".join(tool.name for tool in event.tools))
            return None

    async with playing(One, Two) as stage:
        result = await stage.call()
        assert "withheld from this run (not here)" in result.text
        assert [tool.name for tool in stage.run.tools] == ["ask_other", "read_file"]
    assert seen == ["act,ask_other,read_file", "ask_other,read_file"]


async def test_a_failing_narrower_ends_the_run_with_everything_said() -> None:
    class Narrows:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold | None:
            raise ValueError("no policy file")

    with pytest.raises(
        PolicyFailed,
        match=r"narrow_tools: plugin 'narrows', .*narrow \(.*:\d+\) failed.*ValueError: no policy file \(after \d+ ms\)",
    ):
        async with playing(Narrows):
            raise AssertionError


@pytest.mark.parametrize("answer", [Offer(defer=["act"]), Offer(defer=["nothing"]), Offer([Tool(name="")]), "nonsense"])
async def test_an_offer_that_cannot_be_leaves_the_plain_catalog(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Assembles:
        @hooks.assemble_tools
        def assemble(self, event: AssembleTools) -> Offer | None:
            return answer

    async with playing(Assembles) as stage:
        assert [tool.name for tool in stage.run.offered] == ["act", "ask_other", "read_file"]
    assert "the plain catalog is offered" in caplog.text


async def test_each_rewriter_sees_the_last_ones_arguments_and_policies_the_final_ones() -> None:
    class Adds:
        @hooks.rewrite_tool_call
        def add(self, event: RewriteToolCall) -> Rewrite | None:
            return Rewrite({**event.arguments, "b": 2})

    class Removes:
        @hooks.rewrite_tool_call
        async def remove(self, event: RewriteToolCall) -> Rewrite | None:
            seen.append(str(event.arguments))
            return Rewrite({"b": event.arguments["b"]})

        @hooks.before_tool_call.first
        def judge(self, event: BeforeToolCall) -> Block | None:
            seen.append(str(event.arguments))

    async with playing(Adds, Removes) as stage:
        await stage.call(arguments={"a": 1})
    assert seen == ["{'a': 1, 'b': 2}", "{'b': 2}"]
    assert stage.executed == [{"b": 2}]


async def test_context_and_replacements_are_for_this_request_only() -> None:
    class Adds:
        @hooks.before_model_call
        def add(self, event: BeforeModelCall) -> AddContext | None:
            return AddContext("it rains")

        @hooks.before_model_call
        def fail(self, event: BeforeModelCall) -> AddContext | None:
            seen.append(str("it rains" in str(event.messages)))
            raise ValueError

    async with playing(Adds) as stage:
        await stage.run.record({"role": "user", "content": "hi"})
        prepared = await stage.run.prepare_messages()
        assert "it rains" in str(prepared)
        assert "it rains" not in str(stage.session.messages)
    assert seen == ["True"]


async def test_a_failing_transformer_keeps_the_result_and_a_required_one_withholds_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Shouts:
        @hooks.transform_tool_result
        def shout(self, event: TransformToolResult) -> Replace | None:
            return Replace(event.result.text.upper())

        @hooks.transform_tool_result
        def fail(self, event: TransformToolResult) -> Replace | None:
            raise ValueError("cannot")

    class Redacts:
        @hooks.transform_tool_result(required=True)
        def redact(self, event: TransformToolResult) -> Replace | None:
            raise ValueError("cannot")

    async with playing(Shouts) as stage:
        assert (await stage.call()).text == "DONE"
    assert "cannot" in caplog.text
    async with playing(Shouts, Redacts) as stage:
        result = await stage.call()
        assert result.is_error
        assert "DONE" not in result.text
        assert "DONE" not in str(stage.session.messages)
        assert "withheld: redacts" in result.text


async def test_notified_handlers_all_run_and_a_failing_one_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Starts:
        @hooks.session_start
        def fail(self, event: SessionStart) -> None:
            raise ValueError("at the start")

        @hooks.session_start
        async def go(self, event: SessionStart) -> None:
            seen.append(event.session_id)

        @hooks.session_start
        def answer(self, event: SessionStart) -> Any:
            return 5

    async with playing(Starts):
        assert seen == ["s"]
    assert "ValueError: at the start" in caplog.text
    assert "it answered 5 (int); expected None" in caplog.text


async def test_a_handler_is_called_for_matching_tools_only() -> None:
    class Limited:
        @hooks.before_tool_call(tools="mcp:*:*")
        def elsewhere(self, event: BeforeToolCall) -> Block | None:
            return Block("never")

        @hooks.before_tool_call(tools=["ask_*", "host:core:act"])
        def here(self, event: BeforeToolCall) -> Block | None:
            seen.append(event.tool.name)

    async with playing(Limited) as stage:
        assert (await stage.call()).text == "done"
        await stage.call("ask_other")
    assert seen == ["act", "ask_other", "act"]


async def test_a_handler_is_called_for_the_tools_that_its_patterns_may_mean() -> None:
    class Limited:
        @hooks.rewrite_tool_call(tools="Ask*")
        def rewrite(self, event: RewriteToolCall) -> None:
            seen.append("rewrite")

        @hooks.before_tool_call(tools="askOther")
        def judge(self, event: BeforeToolCall) -> None:
            seen.append("judge")

        @hooks.transform_tool_result(tools="host:CORE:ask-*")
        def transform(self, event: TransformToolResult) -> None:
            seen.append("transform")

        @hooks.before_tool_call(tools="other_*")
        def elsewhere(self, event: BeforeToolCall) -> Block:
            return Block("never")

    async with playing(Limited) as stage:
        await stage.call("ask_other")
    assert seen[:2] == ["rewrite", "judge"]
    assert seen[-1] == "transform"


async def test_a_plain_pluggy_impl_is_a_handler_too() -> None:
    module = module_of(
        "import pluggy\nimpl = pluggy.HookimplMarker('hooksdk')\n"
        "from hooksdk.hooks import Block\n"
        "@impl(trylast=True)\ndef before_tool_call(event):\n    seen.append('last')\n"
        "@impl(specname='before_tool_call', tryfirst=True)\nasync def judge(event):\n    seen.append('first')\n"
    )
    async with playing(module, Passes) as stage:
        assert (await stage.call()).text == "done"
    assert seen == ["first", "pass", "last"]
