"""An approval that comes later: the call waits as it was judged, in this run, in a later one, and in another process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, MemoryStore, Tool, ToolCall, ToolContext, ToolResult, hooks
from hooksdk.agent import run_agent
from hooksdk.approvals import Approver, Later
from hooksdk.errors import ApprovalPending, CallSettled, RunClosed
from hooksdk.hooks import (
    AfterToolCall,
    AgentEnd,
    Ask,
    BeforeToolCall,
    NarrowTools,
    Rewrite,
    RewriteToolCall,
    Trace,
    UnwrapToolCall,
    Withhold,
)
from hooksdk.records import ApprovalAnswered, ApprovalAsked
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedModel, call, open_session
from hooksdk.tools import Annotations
from tests.stage import Stage, make, playing

pytestmark = pytest.mark.anyio
seen: list[str] = []
"""What the plugin's other hooks saw, in order."""
traced: list[str] = []
"""What the trace said of approvals."""


@pytest.fixture(autouse=True)
def forget() -> None:
    seen.clear()
    traced.clear()


class Pay:
    """Rewrites the amount, and asks."""

    @hooks.rewrite_tool_call(tools="act")
    def rewrite(self, event: RewriteToolCall) -> Rewrite:
        seen.append("rewritten")
        return Rewrite({**event.arguments, "currency": "EUR"})

    @hooks.before_tool_call(tools="act")
    def ask(self, event: BeforeToolCall) -> Ask:
        seen.append("again" if event.again else "judged")
        return Ask("Pay?", "at once", "critical", timeout=7)

    @hooks.after_tool_call
    async def see(self, event: AfterToolCall) -> None:
        seen.append(f"{event.status} {event.result.text}")

    @hooks.trace
    async def keep(self, event: Trace) -> None:
        match event.record:
            case ApprovalAsked():
                traced.append("asked")
            case ApprovalAnswered(granted=granted, by=by):
                traced.append(f"{'yes' if granted else 'no'} by {by}")
            case _:
                pass


async def later(request: ApprovalRequest) -> Later:
    return Later()


async def yes(request: ApprovalRequest) -> Approval:
    return Approval(True, by="ann")


async def no(request: ApprovalRequest) -> Approval:
    return Approval(False, "too dear", by="ann")


async def never_asked(request: ApprovalRequest) -> Approval:
    raise AssertionError(f"asked about {request.arguments}")


def act(execute: Callable[..., Any] | None = None, **fields: Any) -> Tool:
    """The tool `act`, which answers its arguments."""
    return make("act", properties={}, **({"execute": execute} if execute else {}), **fields)


async def wait_for_approval(store: MemoryStore, *, tool: Tool | None = None, plugins: tuple[Any, ...] = (Pay,)) -> None:
    """A run whose call `c1` waits, left paused."""
    async with playing(*plugins, store=store, approver=later, tools=[tool or act()]) as stage:
        with pytest.raises(ApprovalPending):
            await stage.call("act", {"amount": 5})
        stage.run.pause("waits for ann")
    assert not any(one.startswith(("ok", "not_run", "blocked")) for one in seen)
    seen.clear()
    traced.clear()


async def resume(
    store: MemoryStore, approver: Approver | None, *, tool: Tool | None = None, plugins: tuple[Any, ...] = (Pay,)
) -> str:
    """A later run that calls what is pending; answers the result's text."""
    async with playing(*plugins, store=store, approver=approver, tools=[tool or act()]) as stage:
        (pending,) = stage.run.pending
        result = await stage.run.call_tool(pending)
        assert stage.run.pending == ()
        await stage.observed()
        return result.text


# In one run


@pytest.mark.both_loops
async def test_a_call_that_waits_has_no_result_and_nobody_hears_of_an_end() -> None:
    async with playing(Pay, approver=later, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {"amount": 5}))
        with pytest.raises(ApprovalPending) as caught:
            await stage.run.call_tool(written)
        assert caught.value.request.title == "Pay?"
        assert caught.value.call.name == "act"
        assert [one.id for one in stage.run.pending] == [written.id]
        assert stage.results == []
        await stage.observed()
        assert seen == ["rewritten", "judged"]
        assert traced == ["asked"]
        stage.run.pause("later")


@pytest.mark.both_loops
async def test_a_judged_call_that_waits_runs_after_its_approval_with_the_arguments_that_were_judged() -> None:
    async with playing(Pay, approver=later, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {"amount": 5}))
        judged = await stage.run.judge(written)
        assert judged.pending is not None
        assert (judged.pending.arguments, judged.status, judged.result) == (
            {"amount": 5, "currency": "EUR"},
            None,
            None,
        )
        for end in (judged.execute, lambda: judged.supply("done")):
            with pytest.raises(ApprovalPending):
                await end()
        await judged.approve(Approval(True, by="bob"))
        assert judged.pending is None
        assert (await judged.execute()).text == 'ran with {"amount": 5, "currency": "EUR"}'
        await stage.observed()
    assert traced == ["asked", "yes by bob"]
    assert [one.partition(" ")[0] for one in seen] == ["rewritten", "judged", "again", "ok"]


async def test_a_no_given_elsewhere_is_recorded_observed_and_traced() -> None:
    async with playing(Pay, approver=later, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {"amount": 5}))
        judged = await stage.run.judge(written)
        result = await judged.refuse("not this month", by="bob")
        assert (judged.status, judged.pending) == ("blocked", None)
        assert stage.results == [("c1", "Blocked: 'Pay?' was not approved: not this month")]
        await stage.observed()
        assert seen[2:] == [f"blocked {result.text}"]
        assert traced == ["asked", "no by bob"]
        with pytest.raises(CallSettled):
            await judged.approve()


async def test_a_judged_call_that_nobody_asks_about_can_be_refused_too_and_needs_no_approval() -> None:
    async with playing() as stage:
        first, second = await stage.reply(("act", {}), ("act", {}))
        judged = await stage.run.judge(first)
        assert (await judged.refuse("no")).text == "Blocked: 'act' was not approved: no"
        judged = await stage.run.judge(second)
        await judged.approve()
        assert not (await judged.execute()).is_error
        assert len(stage.executed) == 1


@pytest.mark.parametrize("answer", [Approval(False, "no"), True, None])
async def test_only_an_approval_that_grants_lets_a_waiting_call_through(answer: Any) -> None:
    async with playing(Pay, approver=later, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {}))
        judged = await stage.run.judge(written)
        await judged.approve(answer)
        assert judged.status == "blocked"
        assert (await judged.execute()).text.startswith("Blocked: 'Pay?' was not approved")


async def test_a_call_that_is_made_again_in_its_run_is_asked_about_again_and_not_rewritten() -> None:
    answers = [Later(), Later(), Approval(True)]

    async def approver(request: ApprovalRequest) -> Any:
        return answers.pop(0)

    async with playing(Pay, approver=approver, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {"amount": 5}))
        first = await stage.run.judge(written)
        again = await stage.run.judge(written)
        assert again.pending is not None
        assert (await stage.run.call_tool(written)).text == 'ran with {"amount": 5, "currency": "EUR"}'
        await stage.observed()
        assert (first.status, again.status) == ("ok", "ok"), "all stand for the one call"
        assert [result for _, result in stage.results] == ['ran with {"amount": 5, "currency": "EUR"}']
    assert [one for one in seen if one in {"rewritten", "judged"}] == ["rewritten", "judged"]
    assert sum(one.startswith("ok") for one in seen) == 1


@pytest.mark.both_loops
async def test_calls_that_wait_side_by_side_are_answered_each_for_itself() -> None:
    async with playing(Pay, approver=later, tools=[act()]) as stage:
        calls = await stage.reply(*[("act", {"amount": amount}) for amount in range(4)])
        judged = [await stage.run.judge(one) for one in calls]
        async with anyio.create_task_group() as group:
            for number, one in enumerate(judged):
                group.start_soon(one.refuse if number % 2 else one.approve)
        async with anyio.create_task_group() as group:
            for one in judged:
                group.start_soon(one.execute)
        assert [one.status for one in judged] == ["ok", "blocked", "ok", "blocked"]
        assert [call_id for call_id, _ in stage.results] == [one.id for one in calls]


async def test_a_run_that_is_left_without_a_pause_ends_its_waiting_calls_as_not_run() -> None:
    reasons: list[str] = []

    class Ends:
        @hooks.agent_end
        async def end(self, event: AgentEnd) -> None:
            reasons.append(event.reason)

    store = MemoryStore()
    async with playing(Pay, Ends, store=store, approver=later, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {}))
        judged = await stage.run.judge(written)
    assert judged.status == "not_run"
    assert reasons == ["completed"]
    assert seen[-1] == "not_run 'act' was not run: its run ended first."
    async with playing(Pay, store=store, tools=[act()]) as stage:
        assert stage.run.pending == ()


async def test_nobody_answers_for_a_run_that_is_over() -> None:
    async with playing(Pay, approver=later, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {}))
        judged = await stage.run.judge(written)
        stage.run.pause("later")
    with pytest.raises(RunClosed):
        await judged.approve()
    with pytest.raises(RunClosed):
        await judged.refuse()


async def test_a_call_that_another_tool_makes_cannot_wait() -> None:
    async def outer(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.call_tool("act", {})

    async with playing(Pay, approver=later, tools=[act(), make("outer", outer, properties={})]) as stage:
        result = await stage.call("outer")
    assert result.text == (
        "Blocked: 'Pay?' was not approved: its answer comes later, and a call that another tool makes cannot wait"
    )


async def test_a_call_whose_arguments_are_no_json_cannot_wait() -> None:
    class Dates:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"raw": b"bytes"})

    anything = Tool(name="act", source="host", owner="core", execute=repr)
    async with playing(Pay, Dates, approver=later, tools=[anything]) as stage:
        assert "they are not JSON" in (await stage.call()).text


@pytest.mark.parametrize("given_by", ["the approver", "approve"])
async def test_a_tool_that_is_withheld_while_a_person_thinks_does_not_run(given_by: str) -> None:
    withheld: list[str] = []

    class Withdraws:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold | None:
            return Withhold(withheld, "withdrawn") if withheld else None

    async def withdraw() -> None:
        withheld.append("act")
        await stage.run.retry()
        await stage.run.resolve_tools([act()])

    async def approver(request: ApprovalRequest) -> Any:
        if given_by == "approve":
            return Later()
        await withdraw()
        return Approval(True)

    async with playing(Pay, Withdraws, approver=approver, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {}))
        judged = await stage.run.judge(written)
        if given_by == "approve":
            await withdraw()
            await judged.approve()
        assert judged.status == "blocked"
        assert "has been withheld from this run meanwhile (withdrawn)" in (await judged.execute()).text


# In a later run


@pytest.mark.both_loops
async def test_a_later_run_asks_the_same_again_and_runs_the_arguments_that_were_judged() -> None:
    store, requests = MemoryStore(), list[ApprovalRequest]()

    async def approver(request: ApprovalRequest) -> Approval:
        requests.append(request)
        return Approval(True, by="ann")

    await wait_for_approval(store)
    assert await resume(store, approver) == 'ran with {"amount": 5, "currency": "EUR"}'
    (request,) = requests
    assert (request.title, request.description, request.severity, request.timeout) == ("Pay?", "at once", "critical", 7)
    assert (request.plugin, request.arguments) == ("pay", {"amount": 5, "currency": "EUR"})
    assert traced == ["asked", "yes by ann"]
    assert not {"judged", "rewritten"} & {*seen}


async def test_a_later_run_may_answer_no_or_later_once_more() -> None:
    store = MemoryStore()
    await wait_for_approval(store)
    for _ in range(2):
        async with playing(Pay, store=store, approver=later, tools=[act()]) as stage:
            with pytest.raises(ApprovalPending):
                await stage.run.call_tool(stage.run.pending[0])
            stage.run.pause("still")
    assert await resume(store, no) == "Blocked: 'Pay?' was not approved: too dear"
    assert not {"judged", "rewritten"} & {*seen}


async def test_an_answer_that_is_remembered_meanwhile_counts_for_the_call_that_waits() -> None:
    async def always(request: ApprovalRequest) -> Approval:
        return Approval(True, scope="always")

    store = MemoryStore()
    await wait_for_approval(store)
    async with open_session(Pay, store=store, approver=always, session_id="other") as other, other.run() as run:
        await run.resolve_tools([act()])
        await run.call_tool(ToolCall("x", "act", {"amount": 5}))
    assert (await resume(store, never_asked)).startswith("ran")


async def test_a_call_that_was_approved_and_not_run_when_its_run_paused_is_not_asked_about_again() -> None:
    store = MemoryStore()
    async with playing(Pay, store=store, approver=yes, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {"amount": 5}))
        await stage.run.judge(written)
        stage.run.pause("the tools are run tomorrow")
    seen.clear()
    traced.clear()
    assert await resume(store, never_asked) == 'ran with {"amount": 5, "currency": "EUR"}'
    assert traced == ["yes by ann"]
    assert "judged" not in seen


@pytest.mark.parametrize(
    "change",
    ["definition", "annotations", "written", "name"],
    ids=["another definition", "other annotations", "other arguments", "another tool"],
)
async def test_what_was_judged_is_void_when_the_tool_or_the_call_is_another(change: str) -> None:
    store = MemoryStore()
    await wait_for_approval(store)
    others: dict[str, dict[str, Any]] = {
        "definition": {"description": "acts otherwise"},
        "annotations": {"annotations": Annotations(destructive=True)},
    }
    tool = act(**others.get(change, {}))
    async with playing(Pay, store=store, approver=yes, tools=[tool, make("act_too", properties={})]) as stage:
        (pending,) = stage.run.pending
        written = {
            "definition": pending,
            "annotations": pending,
            "written": ToolCall(pending.id, "act", {"amount": 500}),
            "name": ToolCall(pending.id, "act_too", pending.arguments),
        }[change]
        result = await stage.run.call_tool(written)
    assert ("judged" in seen) is (change != "name"), "Pay judges act alone"
    assert (
        result.text
        == {
            "definition": 'ran with {"amount": 5, "currency": "EUR"}',
            "annotations": 'ran with {"amount": 5, "currency": "EUR"}',
            "written": 'ran with {"amount": 500, "currency": "EUR"}',
            "name": 'ran with {"amount": 5}',
        }[change]
    )


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"requester": {"id": "ann", "is_owner": True}}, {"requester": {"id": "eve"}}),
        ({"workspace_dir": "/a"}, {"workspace_dir": "/b"}),
        ({}, {"trigger": "schedule"}),
        ({}, {"agent_id": "helper"}),
    ],
    ids=["requester", "workspace", "trigger", "agent"],
)
async def test_what_was_judged_and_approved_is_void_in_a_run_of_somebody_else(
    first: dict[str, Any], then: dict[str, Any]
) -> None:
    store = MemoryStore()
    async with playing(Pay, store=store, approver=yes, tools=[act()], **first) as stage:
        (written,) = await stage.reply(("act", {"path": "notes.md"}))
        await stage.run.judge(written)
        stage.run.pause("the tools are run tomorrow")
    seen.clear()
    async with playing(Pay, store=store, approver=no, tools=[act()], **then) as stage:
        result = await stage.run.call_tool(stage.run.pending[0])
    assert result.is_error
    assert seen[:2] == ["rewritten", "judged"]


@pytest.mark.both_loops
async def test_a_tool_that_describes_itself_otherwise_meanwhile_does_not_run_by_the_answer_that_comes_later() -> None:
    async with playing(Pay, approver=later, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {"amount": 5}))
        judged = await stage.run.judge(written)
        await stage.run.retry()
        await stage.run.resolve_tools([act(description="acts otherwise")])
        await judged.approve()
        assert judged.status == "blocked"


async def test_a_tool_that_is_withheld_now_does_not_run_whatever_is_approved() -> None:
    class Withholds:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold("act", "withdrawn")

    store = MemoryStore()
    await wait_for_approval(store)
    assert "it is withheld from this run (withdrawn)" in await resume(store, never_asked, plugins=(Pay, Withholds))


async def test_a_verdict_counts_for_its_own_reply_only_though_ids_are_used_again() -> None:
    store = MemoryStore()
    await wait_for_approval(store)
    async with playing(Pay, store=store, approver=no, tools=[act()]) as stage:
        await stage.call("act", {"amount": 5})  # another c1, in a new reply, which closes the old one
    assert seen[:2] == ["rewritten", "judged"]


async def test_an_approval_is_used_up_when_its_call_runs() -> None:
    store = MemoryStore()
    await wait_for_approval(store)
    async with playing(Pay, store=store, approver=yes, tools=[act()]) as stage:
        (pending,) = stage.run.pending
        await stage.run.call_tool(pending)
        assert "judged" not in seen
        transcript: Any = stage.run._transcript  # pyright: ignore[reportPrivateUsage]
        assert transcript.state("hooksdk.verdicts") == {}
        await stage.call("act", {"amount": 5})
    assert seen.count("judged") == 1


async def test_nothing_is_kept_of_a_call_whose_tool_has_begun_so_a_crash_has_it_judged_anew() -> None:
    store, states = MemoryStore(), list[object]()
    stage: Stage

    def look(arguments: dict[str, Any]) -> str:
        transcript: Any = stage.run._transcript  # pyright: ignore[reportPrivateUsage]
        states.append(transcript.state("hooksdk.verdicts"))
        return "done"

    await wait_for_approval(store, tool=act(look))
    async with playing(Pay, store=store, approver=yes, tools=[act(look)]) as stage:
        await stage.run.call_tool(stage.run.pending[0])
    assert states == [{}]


async def test_a_verdict_that_cannot_be_read_is_judged_anew(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    async with playing(store=store, tools=[act()]) as stage:
        (written,) = await stage.reply(("act", {"amount": 5}))
        transcript: Any = stage.run._transcript  # pyright: ignore[reportPrivateUsage]
        await transcript.save_state("hooksdk.verdicts", {written.id: {"tool": 5}})
        stage.run.pause("later")
    assert (await resume(store, yes)).startswith("ran")
    assert "judged" in seen
    assert "is judged anew" in caplog.text


async def test_a_bridge_call_that_waits_goes_on_as_the_call_that_it_stands_for() -> None:
    class Bridge:
        @hooks.unwrap_tool_call
        def unwrap(self, event: UnwrapToolCall) -> ToolCall | None:
            seen.append("unwrapped")
            return ToolCall(event.call.id, "act", event.arguments)

    store = MemoryStore()
    async with playing(Pay, Bridge, store=store, approver=later, tools=[act()]) as stage:
        with pytest.raises(ApprovalPending):
            await stage.call("do", {"amount": 5})
        stage.run.pause("waits")
    seen.clear()
    async with playing(Pay, Bridge, store=store, approver=yes, tools=[act()]) as stage:
        judged = await stage.run.judge(stage.run.pending[0])
        assert (judged.call.name, judged.call.origin) == ("act", "bridge")
        assert (await judged.execute()).text == 'ran with {"amount": 5, "currency": "EUR"}'
    assert "unwrapped" not in seen


async def test_a_runs_own_approver_answers_instead_of_the_hosts() -> None:
    async with open_session(Pay, approver=never_asked) as session, session.run(approver=no) as run:
        await run.resolve_tools([act()])
        assert "too dear" in (await run.call_tool(ToolCall("c1", "act", {}))).text


# A tool that waits by itself


async def test_a_tool_may_pause_and_is_called_again_without_anybody_being_asked() -> None:
    attempts: list[dict[str, Any]] = []

    def bank(arguments: dict[str, Any]) -> str:
        attempts.append(arguments)
        if len(attempts) < 3:
            raise ApprovalPending("the bank's own form")
        return "paid"

    store = MemoryStore()
    async with playing(Pay, store=store, approver=yes, tools=[act(bank)]) as stage:
        (written,) = await stage.reply(("act", {"amount": 5}))
        judged = await stage.run.judge(written)
        with pytest.raises(ApprovalPending) as caught:
            await judged.execute()
        assert (caught.value.request, caught.value.call.name) == ("the bank's own form", "act")
        assert (judged.status, judged.pending) == (None, None)
        with pytest.raises(ApprovalPending):
            await judged.execute()
        assert [one.id for one in stage.run.pending] == [written.id]
        stage.run.pause("the bank asks")
    assert not any(one.startswith(("ok", "error")) for one in seen)
    seen.clear()
    assert await resume(store, never_asked, tool=act(bank)) == "paid"
    assert "judged" not in seen
    assert attempts == [{"amount": 5, "currency": "EUR"}] * 3


async def test_a_tool_that_pauses_inside_another_tools_call_is_an_error_that_the_outer_one_reads() -> None:
    def bank(arguments: dict[str, Any]) -> str:
        raise ApprovalPending

    async def outer(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.call_tool("act", {})

    async with playing(tools=[act(bank), make("outer", outer, properties={})]) as stage:
        result = await stage.call("outer")
    assert result.text == (
        "'act' was not finished: it waits for an approval, and a call that another tool makes cannot wait."
    )


# The reference loop


@pytest.mark.both_loops
async def test_the_agent_pauses_says_which_calls_wait_and_goes_on_when_it_is_run_again() -> None:
    store, tools = MemoryStore(), [act(), make()]
    async with open_session(Pay, store=store, approver=later) as session:
        script = ScriptedModel([[call("act", amount=5), call("read_file", path="a")]])
        outcome = await run_agent(session, script, "Pay and read.", tools=tools)
        assert outcome.reason == "paused"
        assert [pending.name for pending in outcome.pending] == ["act"]
        outcome = await run_agent(session, ScriptedModel(["Never asked."]), None, tools=tools)
        assert (outcome.reason, outcome.turns) == ("paused", 0)
    async with open_session(Pay, store=store) as session:
        outcome = await run_agent(session, ScriptedModel(["Both done."]), None, tools=tools, approver=yes)
        assert (outcome.reason, outcome.text, outcome.pending) == ("completed", "Both done.", ())
        stage = Stage(Any, session, Any)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert [text for _, text in stage.results] == [
            'ran with {"amount": 5, "currency": "EUR"}',
            'ran with {"path": "a"}',
        ]
    assert seen.count("judged") == 1


FIRST = """
import sys
from pathlib import Path
import anyio
from hooksdk.stores import SqlStore
from hooksdk.agent import run_agent
from hooksdk.testing import ScriptedModel, call, open_session
from tests.hooksdk.test_approvals_later import Pay, act, later, seen

async def main():
    async with open_session(Pay, store=SqlStore(Path(sys.argv[1])), approver=later) as session:
        outcome = await run_agent(session, ScriptedModel([call("act", amount=5)]), "Pay.", tools=[act()])
    print(outcome.reason, outcome.pending[0].id, seen.count("judged"))

anyio.run(main)
"""


@pytest.mark.heavy
async def test_an_answer_that_is_given_in_another_process_lets_the_call_run_there(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.stdout, done.stderr) == ("paused c1 1\n", "")
    async with open_session(Pay, store=SqlStore(tmp_path), approver=yes) as session:
        outcome = await run_agent(session, ScriptedModel(["Paid."]), None, tools=[act()])
        assert (outcome.reason, outcome.text) == ("completed", "Paid.")
        assert session.messages[2]["content"] == 'ran with {"amount": 5, "currency": "EUR"}'
    assert traced == ["asked", "yes by ann"]
    assert not {"judged", "rewritten"} & {*seen}
