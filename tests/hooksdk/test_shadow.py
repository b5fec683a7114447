"""Shadow mode: a policy runs without effect, and what it would have done is on record."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

import anyio
import pytest
from stage import Stage, make, playing

from hooksdk import Host, MemoryStore, ToolCall, ToolContext, hooks, tool
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.errors import ConfigError, PolicyFailed, RunBlocked
from hooksdk.hooks import AddContext, Answer, Ask, Block, Offer, Replace, Rewrite, Secrets, Withhold
from hooksdk.records import Decision, HookFired, Record

pytestmark = pytest.mark.anyio

SHADOW: dict[str, Any] = {"plugins": {"guard": {"mode": "shadow"}}}


class Watch:
    def __init__(self) -> None:
        self.records: list[Record] = []

    @hooks.trace
    def take(self, event: hooks.Trace) -> None:
        self.records.append(event.record)


def judging(answer: Any) -> type:
    """A plugin `guard` whose policy answers this, raises it, or hangs."""

    class Guard:
        @hooks.before_tool_call(timeout=10)
        async def judge(self, event: hooks.BeforeToolCall) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            if answer == "hangs":
                await anyio.sleep_forever()
            return answer

    return Guard


async def never_asked(request: ApprovalRequest) -> Approval:
    raise AssertionError(request.title)


@pytest.mark.light(every=5)
@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (Block("no"), "Block"),
        (Ask("May it?"), "Ask"),
        (Answer("made up"), "Answer"),
        (ValueError("broken"), "failed"),
        ("nonsense", "failed"),
        ("hangs", "failed"),
    ],
    ids=["Block", "Ask", "Answer", "raises", "nonsense", "hangs"],
)
@pytest.mark.both_loops
@pytest.mark.jumping_clock
async def test_whatever_a_policy_in_shadow_mode_does_the_call_runs_and_it_is_counted(answer: Any, name: str) -> None:
    async with playing(judging(answer), config=SHADOW, approver=never_asked) as stage:
        assert (await stage.call()).text == "done"
        assert stage.run.stats["shadow"] == {"guard": {name: 1}}
    async with playing(judging(answer)) as stage:
        assert (await stage.call()).text != "done", "enforced it does have an effect"
        assert stage.run.stats["shadow"] == {}


async def test_a_policy_that_passes_is_not_counted() -> None:
    async with playing(judging(None), config=SHADOW) as stage:
        await stage.call()
        assert stage.run.stats["shadow"] == {}


async def test_other_policies_judge_on_after_a_block_in_shadow_mode() -> None:
    class Enforced:
        @hooks.before_tool_call
        def judge(self, event: hooks.BeforeToolCall) -> Block:
            return Block("not on Sundays")

    async with playing(judging(Block("no")), Enforced, config=SHADOW) as stage:
        assert "not on Sundays" in (await stage.call()).text
        assert stage.executed == []
        assert stage.run.stats["shadow"] == {"guard": {"Block": 1}}


class Everything:
    """Answers every hook that could change anything."""

    plugin_id = "guard"

    @hooks.agent_start
    def start(self, event: hooks.AgentStart) -> Block:
        return Block("no run")

    @hooks.narrow_tools
    def narrow(self, event: hooks.NarrowTools) -> Withhold:
        return Withhold(["act"], "not this one")

    @hooks.assemble_tools
    def assemble(self, event: hooks.AssembleTools) -> Offer:
        return Offer(defer=["act"], tools=[make("bridge")])

    @hooks.before_model_call
    def prepare(self, event: hooks.BeforeModelCall) -> AddContext:
        return AddContext("Beware.")

    @hooks.unwrap_tool_call
    def unwrap(self, event: hooks.UnwrapToolCall) -> ToolCall:
        return ToolCall("x", "act", {})

    @hooks.rewrite_tool_call
    def rewrite(self, event: hooks.RewriteToolCall) -> Rewrite:
        return Rewrite({"path": "/elsewhere"})

    @hooks.before_tool_call
    def judge(self, event: hooks.BeforeToolCall) -> Block:
        return Block("no call")

    @hooks.resolve_secrets
    def resolve(self, event: hooks.ResolveSecrets) -> Secrets:
        return Secrets(dict.fromkeys(event.names, "value"))

    @hooks.transform_tool_result(required=True)
    def transform(self, event: hooks.TransformToolResult) -> Replace:
        return Replace("gone")


async def _long(arguments: dict[str, Any]) -> str:
    return "a long text " * 200


async def _turns(stage: Stage) -> list[Any]:
    """What the host and the model see of a run in which each hook has its turn."""
    long = await stage.call("long")
    results = [await stage.call("act"), await stage.call("no_such"), await stage.call("act", {"key": "{{secret:K}}"})]
    prepared = await stage.run.prepare_messages()
    return [[one.name for one in stage.run.offered], long.text, [one.text for one in results], prepared]


async def test_no_hook_of_a_plugin_in_shadow_mode_has_an_effect() -> None:
    tools = [make("act", properties={}), make("long", _long, properties={})]
    async with playing(tools=tools) as stage:
        alone = await _turns(stage)
    async with playing(Everything, tools=tools, config=SHADOW) as stage:
        beside = await _turns(stage)
        counted = stage.run.stats["shadow"]["guard"]
    assert beside == alone
    assert {*counted} == {
        "AddContext", "Block", "Offer", "Replace", "Rewrite", "Secrets", "ToolCall", "Withhold",
    }  # fmt: skip
    assert counted["Block"] == 1 + 3, "one run, three calls that were judged"


@pytest.mark.parametrize(("config", "trims"), [({}, {"applied": 1}), (SHADOW, {})], ids=["enforced", "in shadow mode"])
async def test_what_a_policy_trims_by_itself_is_trimmed_only_when_it_is_enforced(config: Any, trims: Any) -> None:
    statuses: list[str] = []

    class Guard:
        @hooks.before_model_call
        async def prepare(self, event: hooks.BeforeModelCall) -> None:
            statuses.append((await event.results.trim("r1", "short")).status)

    async with playing(Guard, tools=[make("long", _long, properties={})], config=config) as stage:
        await stage.call("long")
        await stage.call("long")
        await stage.run.prepare_messages()
    assert statuses == ["queued"]
    assert stage.run.stats["trims"] == trims


async def test_enforced_the_same_plugin_ends_the_run_at_once() -> None:
    with pytest.raises(RunBlocked, match="no run"):
        async with playing(Everything):
            pass


async def test_a_plugin_that_fails_everywhere_ends_no_run_in_shadow_mode(caplog: pytest.LogCaptureFixture) -> None:
    class Fails:
        plugin_id = "guard"

        @hooks.agent_start
        def start(self, event: hooks.AgentStart) -> Block:
            raise ValueError("start")

        @hooks.narrow_tools
        def narrow(self, event: hooks.NarrowTools) -> Withhold:
            raise ValueError("narrow")

        @hooks.transform_tool_result(required=True)
        def transform(self, event: hooks.TransformToolResult) -> Replace:
            raise ValueError("transform")

    async with playing(Fails, config=SHADOW) as stage:
        assert (await stage.call()).text == "done"
        assert stage.run.stats["shadow"] == {"guard": {"failed": 3}}
    assert "failed in narrow_tools, without effect: it is in shadow mode: ValueError: narrow" in caplog.text
    with pytest.raises(PolicyFailed):
        async with playing(Fails):
            pass


async def test_the_trace_tells_what_it_would_have_done() -> None:
    async with playing(judging(Block("no")), Watch, config=SHADOW) as stage:
        await stage.call()
        await stage.dispatcher.flush_trace(60)
        records = stage.session.plugin("watch").records
    (decision,) = [one for one in records if isinstance(one, Decision)]
    assert (decision.plugin, decision.hook, decision.decision, decision.shadow) == (
        "guard",
        "before_tool_call",
        "Block",
        True,
    )
    fired = [(one.plugin, one.outcome, one.shadow) for one in records if isinstance(one, HookFired)]
    assert ("guard", "Block", True) in fired


async def test_the_log_tells_at_the_end_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async with playing(judging(Block("no")), config=SHADOW) as stage:
        await stage.call()
        await stage.call()
        assert not caplog.records
    (line,) = [one for one in caplog.records if "shadow" in one.getMessage()]
    assert line.getMessage() == (
        f"plugin 'guard' is in shadow mode; in run {stage.run.info.run_id} it would have answered: Block 2"
    )
    assert line.levelno == logging.WARNING


async def test_observers_and_tools_of_the_plugin_work_as_ever() -> None:
    ended: list[str] = []

    class Guard:
        @hooks.agent_end
        async def end(self, event: hooks.AgentEnd) -> None:
            ended.append(event.reason)
            await event.transcript.trim("r1", "short")

        @tool
        async def long(self, context: ToolContext) -> str:
            """Tell a long text."""
            return await _long({})

    async with playing(Guard, config=SHADOW) as stage:
        await stage.call("long")
        assert (await stage.call("long")).text.startswith("a long text")
    assert ended == ["completed"]
    assert stage.run.stats["trims"] == {"applied": 1}


async def test_handlers_of_a_module_have_the_mode_too() -> None:
    guard = ModuleType("guard")
    exec(
        "from hooksdk import hooks\n@hooks.before_tool_call\ndef judge(event): return hooks.Block('no')", guard.__dict__
    )
    async with playing(guard, config=SHADOW) as stage:
        assert (await stage.call()).text == "done"
        assert stage.run.stats["shadow"] == {"guard": {"Block": 1}}


def test_a_misspelt_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'plugins\.guard\.mode'.*Did you mean 'shadow'"):
        Host(store=MemoryStore(), config={"plugins": {"guard": {"mode": "shadwo"}}})
