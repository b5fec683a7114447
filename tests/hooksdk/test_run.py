"""The order of a run and of a call, and what each step of a call does."""

from __future__ import annotations

from typing import Any

import pytest

from hooksdk import ToolCall, ToolError, ToolResult, hooks
from hooksdk.hooks import (
    AfterToolCall,
    BeforeToolCall,
    Block,
    Replace,
    Rewrite,
    RewriteToolCall,
    Trace,
    TransformToolResult,
    UnwrapToolCall,
)
from tests.stage import USER, make, playing

pytestmark = pytest.mark.anyio

ORDER: list[str] = []


def _record(name: str) -> Any:
    async def handler(self: object, event: Any) -> None:
        ORDER.append(name)

    handler.__qualname__ = f"Recorder.{name}"
    handler.__annotations__.clear()
    return hooks.HOOKS[name](handler)


AWAITED = [name for name, hook in hooks.HOOKS.items() if hook.kind not in {"observe", "trace"}]
Recorder = type("Recorder", (), {name: _record(name) for name in AWAITED})
"""One plugin with a handler for every hook that the run waits for."""


async def test_a_run_fires_its_hooks_in_the_order_of_the_picture() -> None:
    ORDER.clear()

    async def given(arguments: dict[str, Any]) -> str:
        ORDER.append("the tool")
        return "done"

    async with playing(Recorder, tools=[make(execute=given)]) as played:
        await played.run.record(USER)
        await played.run.prepare_messages()
        # The recording plugin gives the secret no value, so this call is blocked.
        await played.call("read_file", {"path": "{{secret:KEY}}"})
        await played.call("read_file", {"path": "a"})
        await played.call("nothing")
        async with played.run.compaction() as compaction:
            await compaction.replace([USER])
    assert ORDER == [
        "session_start",
        "agent_start", "around_run",
        "narrow_tools", "assemble_tools",
        "before_model_call",
        "rewrite_tool_call", "before_tool_call", "resolve_secrets", "transform_tool_result",
        "rewrite_tool_call", "before_tool_call", "tool_call_start", "record_decision", "around_tool_call", "the tool", "label_result", "transform_tool_result",
        "unwrap_tool_call", "transform_tool_result",
        "before_compaction", "after_compaction",
        "agent_end",
        "session_end",
    ]  # fmt: skip


async def test_the_trace_tells_a_whole_run_in_order() -> None:
    kinds: list[str] = []

    class Watch:
        @hooks.trace
        async def watch(self, event: Trace) -> None:
            if event.kind != "hook":  # of the testing kit, which observes every call
                kinds.append(event.kind)

    async with playing(Watch) as played:
        await played.run.record(USER)
        await played.run.prepare_messages()
        await played.call("read_file", {"path": "a"})
    assert kinds == [
        "session_started", "run_started", "tools_resolved", "model_called", "model_replied", "call_started",
        "call_finished", "run_ended", "session_ended",
    ]  # fmt: skip


# Rewriting, checking, judging


async def test_arguments_are_rewritten_then_checked_then_judged_and_these_run() -> None:
    class Twice:
        @hooks.rewrite_tool_call
        def first(self, event: RewriteToolCall) -> Rewrite | None:
            return Rewrite({**event.arguments, "path": event.arguments["path"] + "1"})

        @hooks.rewrite_tool_call.last
        def last(self, event: RewriteToolCall) -> Rewrite | None:
            return Rewrite({"path": event.arguments["path"] + "2"})

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("changed") if event.arguments != {"path": "a12"} else None

    async with playing(Twice) as played:
        assert (await played.call("read_file", {"path": "a", "junk": 1})).text == 'ran with {"path": "a12"}'


async def test_arguments_that_a_plugin_made_wrong_are_refused_and_not_judged() -> None:
    judged: list[object] = []

    class Wrong:
        @hooks.rewrite_tool_call
        def wrong(self, event: RewriteToolCall) -> Rewrite | None:
            return Rewrite({"path": 5})

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            judged.append(event.arguments)

    async with playing(Wrong) as played:
        result = await played.call("read_file", {"path": "a"})
        assert result.is_error
        assert "arguments.path (type)" in result.text
        assert judged == []


async def test_what_a_plugin_does_to_the_arguments_it_sees_changes_nothing() -> None:
    class Changes:
        @hooks.before_tool_call
        def change(self, event: BeforeToolCall) -> None:
            dict[str, Any].__setitem__(event.arguments, "path", "/etc/passwd")
            event.call.arguments["path"] = "/etc/passwd"

    async with playing(Changes) as played:
        assert (await played.call("read_file", {"path": "a"})).text == 'ran with {"path": "a"}'


async def test_what_a_tool_does_to_its_arguments_shows_nowhere() -> None:
    seen: list[dict[str, Any]] = []

    async def spoil(arguments: dict[str, Any]) -> str:
        arguments["path"] = "spoilt"
        return "done"

    class Watch:
        @hooks.after_tool_call
        async def watch(self, event: AfterToolCall) -> None:
            seen.append(event.arguments)

    async with playing(Watch, tools=[make(execute=spoil)]) as played:
        await played.call("read_file", {"path": "a"})
    assert seen == [{"path": "a"}]


async def test_a_rewrite_is_kept_as_a_copy() -> None:
    kept: dict[str, Any] = {"path": "a"}

    class Keeps:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite | None:
            return Rewrite(kept)

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            kept["path"] = "changed after it was checked"

    async with playing(Keeps) as played:
        assert (await played.call("read_file")).text == 'ran with {"path": "a"}'


# Results


class Stamp:
    """Puts a stamp under every result."""

    @hooks.transform_tool_result
    def stamp(self, event: TransformToolResult) -> Replace | None:
        return Replace(event.result.text + " [stamped]")


class NoB:
    """Blocks one argument."""

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("no b") if event.arguments.get("path") == "b" else None


STATUSES: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {"path": "a"}, "ok"),
    ("read_file", {"path": "b"}, "blocked"),
    ("read_file", {"path": 5.5}, "invalid"),
    ("nothing", {}, "unknown"),
    ("broken", {}, "error"),
]


@pytest.mark.parametrize(("name", "arguments", "status"), STATUSES)
async def test_every_result_is_transformed_recorded_and_observed_whatever_became_of_the_call(
    name: str, arguments: dict[str, Any], status: str
) -> None:
    after: list[AfterToolCall] = []

    class Watch:
        @hooks.after_tool_call
        async def watch(self, event: AfterToolCall) -> None:
            after.append(event)

    async def broken(arguments: dict[str, Any]) -> str:
        raise ValueError("broken")

    async with playing(NoB, Stamp, Watch, tools=[make(), make("broken", broken)]) as played:
        result = await played.call(name, arguments)
        assert result.text.endswith(" [stamped]")
        assert played.results == [("c1", result.text)]
        assert result.is_error is (status != "ok")
    assert [(event.status, event.result, event.call.name) for event in after] == [(status, result, name)]
    assert (after[0].tool is None) is (status == "unknown")
    assert after[0].seconds > 0


async def test_a_redactor_that_fails_withholds_the_result() -> None:
    class Redactor:
        @hooks.transform_tool_result(required=True)
        def redact(self, event: TransformToolResult) -> Replace | None:
            raise ValueError("cannot")

    async with playing(Redactor, Stamp) as played:
        result = await played.call("read_file", {"path": "secret"})
        assert result.text == "The result is withheld: redactor could not check it. [stamped]"
        assert result.is_error


@pytest.mark.parametrize("given", [42, None, ["x"]], ids=repr)
async def test_a_replacement_that_makes_no_sense_leaves_the_result_as_it_is(given: Any) -> None:
    class Nonsense:
        @hooks.transform_tool_result
        def change(self, event: TransformToolResult) -> Replace | None:
            return Replace(given)

    async with playing(Nonsense) as played:
        assert (await played.call("read_file", {"path": "a"})).text == 'ran with {"path": "a"}'


async def test_a_failing_transform_that_is_not_required_is_left_out() -> None:
    class Broken:
        @hooks.transform_tool_result
        def change(self, event: TransformToolResult) -> Replace | None:
            raise ValueError("no")

    async with playing(Broken, Stamp) as played:
        assert (await played.call("read_file", {"path": "a"})).text == 'ran with {"path": "a"} [stamped]'


# Names


async def test_an_unknown_name_is_told_the_nearest_ones_and_a_withheld_one_not_to_retry() -> None:
    class Policy:
        @hooks.narrow_tools
        def narrow(self, event: hooks.NarrowTools) -> hooks.Withhold | None:
            return hooks.Withhold("delete_file", "deletes are off")

    async with playing(Policy, tools=[make(), make("delete_file")]) as played:
        assert (await played.call("raed_file")).text.endswith("there is no such tool. Did you mean read_file?")
        assert (await played.call("zzz")).text == "'zzz' was not run: there is no such tool."
        assert (await played.call("delete_file")).text == (
            "'delete_file' was not run: it is withheld from this run (deletes are off). Do not retry."
        )


async def test_a_name_that_several_owners_chose_is_told_what_to_call() -> None:
    async with playing(tools=[make("search", owner="a"), make("search", owner="b")]) as played:
        result = await played.call("search")
        assert result.text.endswith("several tools have this name. Call one of a__search, b__search.")
        assert (await played.call("b__search")).text == "ran with {}"


async def test_an_unwrap_that_raises_a_tool_error_chooses_the_models_words() -> None:
    class Aliases:
        @hooks.unwrap_tool_call
        def unwrap(self, event: UnwrapToolCall) -> ToolCall | None:
            assert event.tool is None
            if event.call.name == "old":
                raise ToolError("'old' is gone, call read_file")
            if event.call.name == "odd":
                raise ValueError("odd")
            return ToolCall("ignored", "read_file", event.arguments)

    async with playing(Aliases) as played:
        assert (await played.call("old")).text == "'old' is gone, call read_file"
        assert (await played.call("odd")).text.startswith("'odd' failed: ValueError: odd")
        assert (await played.call("cat", {"path": "a"})).text == 'ran with {"path": "a"}'
        assert [call["origin"] for call in played.run.stats["calls"]] == ["model", "model", "bridge"]


async def test_text_in_a_results_place_leaves_nothing_of_its_structured_form() -> None:
    class Redact:
        @hooks.transform_tool_result(required=True)
        def redact(self, event: TransformToolResult) -> Replace | None:
            return Replace("")

    async def leaky(arguments: dict[str, Any]) -> ToolResult:
        return ToolResult("key", structured={"key": "sk-1"})

    async with playing(Redact, tools=[make("leaky", leaky)]) as played:
        assert (await played.call("leaky")).structured is None
        assert "sk-1" not in str(played.session.messages)
