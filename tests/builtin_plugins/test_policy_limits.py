"""Rules of tool_policy with a limit: what counts, for whom, until when, and what is said once nothing is left."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin_plugins.tool_policy import ToolPolicy
from builtin_plugins.tool_policy._counts import MOST_ENTRIES, count, with_amount
from builtin_plugins.tool_policy._limits import Limit
from hooksdk import Approval, ApprovalRequest, Host, Run, Session, ToolCall, hooks
from hooksdk.agent import run_agent
from hooksdk.approvals import Later
from hooksdk.errors import RunBlocked, StoreError
from hooksdk.hooks import AgentEnd, BeforeToolCall, Block
from hooksdk.stores import SqlStore, Store
from hooksdk.testing import Reply, ScriptedModel, call, event
from tests.stage import FORMAT, OwnStore, make

pytestmark = pytest.mark.anyio


def config(*rules: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"allow": ["tool_policy"], "plugins": {"tool_policy": {"config": {"rules": list(rules)}}}, **others}


def deny(limit: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"action": "deny", "limit": limit, "reason": "enough", **fields}


@asynccontextmanager
async def a_run(session: Session, **options: Any) -> AsyncGenerator[Run]:
    async with session.run(**options) as run:
        await run.resolve_tools([make("read_file"), make("write_file")])
        yield run


_ids = iter(range(1_000_000))


async def ask(run: Run, tool: str = "read_file") -> str:
    return (await run.call_tool(ToolCall(f"c{next(_ids)}", tool, {"path": "a"}))).text


async def ran(run: Run, times: int, tool: str = "read_file") -> int:
    """How many of so many calls at once ran."""
    texts: list[str] = []

    async def one() -> None:
        texts.append(await ask(run, tool))

    async with anyio.create_task_group() as group:
        for _ in range(times):
            group.start_soon(one)
    return sum("ran with" in text for text in texts)


@pytest.mark.both_loops
async def test_a_familys_limit_holds_for_three_sub_agents_and_the_refusal_says_what_was_used() -> None:
    async with Host(config=config(deny({"calls": 2}))) as host, host.session("s") as session:
        async with a_run(session) as run:
            taken = 0
            for _ in range(3):
                async with session.child() as child, a_run(child) as below:
                    taken += await ran(below, 2)
            assert taken == 2
            assert await ask(run) == (
                "Blocked by tool_policy: enough: used: 2 of 2 calls for this task and its sub-agents; none becomes free again"
            )
        async with a_run(session) as run:  # another task
            assert await ran(run, 3) == 2


@pytest.mark.parametrize(
    ("per", "taken"),
    [("run", [2, 2, 2, 2]), ("session", [2, 0, 2, 2]), ("family", [2, 2, 2, 0]), ("requester", [2, 0, 2, 0]), ("tool", [2, 0, 0, 0]),
     (["session", "tool"], [2, 0, 2, 2])],
)  # fmt: skip
async def test_whom_a_limit_is_for(per: Any, taken: list[int]) -> None:
    """Two runs of one session, then one of another session for somebody else, with a sub-agent."""
    async with Host(config=config(deny({"calls": 2, "per": per}))) as host:
        seen: list[int] = []
        async with host.session("one") as session:
            for _ in range(2):
                async with a_run(session, requester={"id": "ann"}) as run:
                    seen.append(await ran(run, 3))
        async with host.session("two") as session, a_run(session, requester={"id": "bob"}) as run:
            seen.append(await ran(run, 3))
            async with session.child() as child, a_run(child) as below:
                seen.append(await ran(below, 3))
    assert seen == taken


async def test_only_what_the_rule_is_about_counts() -> None:
    rule = deny({"calls": 1}, tools="write_*", agents="main")
    async with Host(config=config(rule)) as host, host.session("s") as session:
        async with a_run(session, agent_id="other") as run:
            assert await ran(run, 3, "write_file") == 3
        async with a_run(session) as run:
            assert (await ran(run, 3), await ran(run, 3, "write_file")) == (3, 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time by which limits are counted."""
    now = [1_700_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])

    def go(seconds: float) -> None:
        now[0] += seconds

    return go


async def test_a_call_is_free_again_when_its_window_is_over_and_a_clock_that_goes_back_frees_nothing(
    clock: Callable[[float], None],
) -> None:
    rule = deny({"calls": 2, "per": "requester", "window": "1h"})
    async with Host(config=config(rule)) as host, host.session("s") as session, a_run(session) as run:
        assert await ran(run, 1) == 1
        clock(1800)
        assert await ran(run, 1) == 1
        assert await ask(run) == (
            "Blocked by tool_policy: enough: used: 2 of 2 calls for this requester in 1h; "
            "the next is free at 2023-11-14 23:13:20 UTC"
        )
        clock(-7200)
        assert await ran(run, 1) == 0
        clock(7200 + 1799)
        assert await ran(run, 1) == 0
        clock(1)
        assert await ran(run, 2) == 1
        clock(-86_400)
        assert await ran(run, 1) == 0
        clock(86_400 + 1800)
        assert await ran(run, 2) == 1


async def test_a_call_that_is_blocked_or_waits_is_none_and_one_that_waited_counts_once() -> None:
    class NotThis:
        @hooks.before_tool_call.last
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("not this") if event.call.id == "blocked" else None

    answers: list[Any] = [Later(), Later(), Approval(True)]

    async def approver(request: ApprovalRequest) -> Any:
        return answers.pop(0)

    rules = (deny({"calls": 2}), {"action": "ask", "tools": "write_*"})
    async with Host(plugins=[NotThis], config=config(*rules), approver=approver) as host, host.session("s") as session:
        async with session.run() as run:
            await run.resolve_tools([make("read_file"), make("write_file")])
            written = [{"id": name, "type": "function", "function": {"name": tool, "arguments": '{"path": "a"}'}}
                       for name, tool in (("waits", "write_file"), ("blocked", "read_file"), ("runs", "read_file"))]  # fmt: skip
            await run.record({"role": "user", "content": "go"})
            await run.record({"role": "assistant", "content": None, "tool_calls": written})
            waits, blocked, runs = run.pending
            for _ in range(2):
                judged = await run.judge(waits)
                assert judged.pending
            assert "not this" in (await run.call_tool(blocked)).text
            assert "ran with" in (await run.call_tool(runs)).text
            run.pause("a person is asked")
        async with session.run() as run:  # one of two is used
            await run.resolve_tools([make("read_file"), make("write_file")])
            (waits,) = run.pending
            assert "ran with" in (await run.call_tool(waits)).text
            assert "2 of 2 calls" in await ask(run)


async def test_at_a_limit_that_asks_a_person_lets_single_calls_pass() -> None:
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> Approval:
        asked.append(f"{request.title} {request.description}")
        return Approval(len(asked) % 2 == 1)

    rule = {"action": "ask", "limit": {"calls": 2}, "reason": "That is a lot."}
    async with (
        Host(config=config(rule), approver=approver) as host,
        host.session("s") as session,
        a_run(session) as run,
    ):
        assert [await ran(run, 1) for _ in range(4)] == [1, 1, 1, 0]
    assert (
        asked
        == [
            "Run read_file past its limit? That is a lot. The limit of 2 calls for this task and its sub-agents is reached."
        ]
        * 2
    )


@pytest.mark.both_loops
async def test_of_calls_at_once_not_one_goes_past_a_limit_that_asks_without_being_asked_about() -> None:
    async def approver(request: ApprovalRequest) -> Approval:
        return Approval(False)

    rule = {"action": "ask", "limit": {"calls": 3}}
    async with (
        Host(config=config(rule), approver=approver) as host,
        host.session("s") as session,
        a_run(session) as run,
    ):
        assert await ran(run, 12) == 3
        assert await ran(run, 2) == 0


async def test_a_call_that_a_later_limit_holds_back_is_counted_by_none() -> None:
    rules = (deny({"calls": 5}), deny({"calls": 2, "per": "run"}))
    async with Host(config=config(*rules)) as host, host.session("s") as session, a_run(session) as run:
        assert await ran(run, 9) == 2
        async with session.child() as child, a_run(child) as below:
            assert await ran(below, 9) == 2
        async with session.child() as child, a_run(child) as below:
            assert await ran(below, 9) == 1


async def test_a_judged_call_counts_when_it_is_handed_out_and_once() -> None:
    async with Host(config=config(deny({"calls": 1}))) as host, host.session("s") as session, a_run(session) as run:
        judged = await run.judge(ToolCall("a", "read_file", {"path": "a"}))
        assert judged.result is None
        assert "enough" in await ask(run)
        assert "ran with" in (await judged.execute()).text


@pytest.mark.parametrize(
    ("how", "counts"),
    [("never run", 0), ("refused", 0), ("executed", 1), ("supplied", 1), ("begun", 1), ("begun and supplied", 1)],
)
async def test_a_judged_call_that_never_runs_is_none_and_one_that_does_counts_once(how: str, counts: int) -> None:
    rule = deny({"calls": 2, "per": "session"})
    async with Host(config=config(rule)) as host, host.session("s") as session:
        async with a_run(session) as run:
            judged = await run.judge(ToolCall("a", "read_file", {"path": "another"}))
            if how == "refused":
                await judged.refuse("the person said no")
            if how == "executed":
                await judged.execute()
            if how.startswith("begun"):
                await judged.begin()
            if how.endswith("supplied"):
                await judged.supply("read elsewhere")
        async with a_run(session) as run:
            assert await ran(run, 3) == 2 - counts


@pytest.mark.parametrize("is_sub_agent", [False, True])
async def test_a_run_that_goes_on_after_a_pause_is_the_same_run(tmp_path: Path, *, is_sub_agent: bool) -> None:
    taken: list[int] = []
    for ends in ("paused", "completed", "completed"):
        async with (
            Host(config=config(deny({"calls": 2, "per": "run"})), store=SqlStore(tmp_path)) as host,
            host.session("s") as session,
            a_run(session) as outer,
            session.child("below") as child,
            a_run(child) if is_sub_agent else nullcontext(outer) as run,
        ):
            taken.append(await ran(run, 3 if taken else 1))
            if ends == "paused":
                outer.pause("until tomorrow")
                run.pause("until tomorrow")
    assert taken == [1, 1, 2]


USED = {"input_tokens": 900, "output_tokens": 100}


@asynccontextmanager
async def talking(*rules: dict[str, Any], **others: Any) -> AsyncGenerator[tuple[Session, list[str]]]:
    """A session, and how its runs ended."""
    ends: list[str] = []

    class Ends:
        @hooks.agent_end
        def see(self, event: AgentEnd) -> None:
            ends.append(f"{event.reason}: {event.error}")

    async with Host(plugins=[Ends], config=config(*rules, **others)) as host, host.session("s") as session:
        yield session, ends


@pytest.mark.parametrize("is_asked", [False, True])
async def test_a_judged_call_that_waits_over_a_pause_counts_once(*, is_asked: bool) -> None:
    async def person(request: ApprovalRequest) -> Approval:
        return Approval(True)

    rules = [deny({"calls": 1}), *([{"action": "ask", "tools": "read_file"}] if is_asked else [])]
    written = ToolCall("c", "read_file", {"path": "a"})
    async with Host(config=config(*rules), approver=person) as host, host.session("s") as session:
        async with a_run(session) as run:
            await run.record([FORMAT.user("hello"), FORMAT.reply("", [written])])
            await run.judge(written)
            run.pause("until tomorrow")
        async with a_run(session) as run:
            assert "ran with" in (await (await run.judge(written)).execute()).text
            assert await ran(run, 1) == 0


async def test_at_a_limit_of_tokens_the_next_request_is_not_made_and_the_outcome_says_why() -> None:
    turns = [Reply("", calls=[call("read_file", path="a")], usage=USED)] * 9
    model = ScriptedModel(turns)
    async with talking(deny({"tokens": 2_500})) as (session, ends):
        outcome = await run_agent(session, model, "Go.", tools=[make("read_file")])
        assert (outcome.reason, outcome.turns, len(model.turns)) == ("blocked", 3, 3)
        why = "run blocked by plugin 'tool_policy': enough: used: 3,000 of 2,500 tokens for this task and its sub-agents; none becomes free again"
        assert outcome.blocked == why
        assert ends == [f"blocked: {why}"]
        assert "2,500 tokens" in session.results.read("r3")  # the calls of the last reply are held back as well
        assert (await run_agent(session, ScriptedModel(["Hello."]), "Another task.", tools=[])).reason == "completed"


async def test_a_loop_of_ones_own_gets_run_blocked_and_what_a_child_spends_counts_for_its_parent() -> None:
    async with talking(deny({"tokens": 1_000})) as (session, ends):

        async def loop() -> None:
            async with a_run(session) as run:
                await run.record({"role": "user", "content": "go"})
                await run.prepare_messages()
                async with session.child() as child, a_run(child) as below:
                    await below.record({"role": "user", "content": "go"})
                    await below.prepare_messages()
                    await below.record({"role": "assistant", "content": "Done."}, usage=USED)
                await run.prepare_messages()

        with pytest.raises(RunBlocked, match="1,000 of 1,000 tokens"):
            await loop()
        assert ends[-1].startswith("blocked: run blocked by")


async def test_tokens_that_no_provider_counts_are_estimated() -> None:
    async with talking(deny({"tokens": 50})) as (session, _):

        async def loop() -> None:
            async with a_run(session) as run:
                await run.record({"role": "user", "content": "word " * 100})
                await run.prepare_messages()
                await run.record({"role": "assistant", "content": "Done."})
                await run.prepare_messages()

        with pytest.raises(RunBlocked, match="50 tokens"):
            await loop()


async def test_money_is_counted_by_the_prices_of_the_configuration() -> None:
    prices = {"acme:small": {"input": 1_000.0, "output": 1_000.0}}
    async with talking(deny({"dollars": 1.5, "per": "session"}), prices=prices) as (session, _):
        model = ScriptedModel([Reply("", calls=[call("read_file", path="a")], usage=USED)] * 9, name="small")
        model.provider = "acme"  # type: ignore[attr-defined]
        outcome = await run_agent(session, model, "Go.", tools=[make("read_file")])
        assert (outcome.reason, outcome.turns) == ("blocked", 2)
        assert "used: $2.00 of $1.50 for this session" in outcome.blocked


async def test_a_limit_in_dollars_makes_no_request_to_a_model_without_a_price() -> None:
    async with talking(deny({"dollars": 1})) as (session, _):
        model = ScriptedModel(["Hello."], name="nobody-knows-it")
        outcome = await run_agent(session, model, "Go.")
        assert (outcome.reason, len(model.turns)) == ("blocked", 0)
        assert "there is no price of nobody-knows-it" in outcome.blocked


async def test_a_limit_of_tokens_for_some_tools_holds_these_back_and_makes_requests() -> None:
    async with talking(deny({"tokens": 500}, tools="write_*")) as (session, _):
        turns = [Reply("", calls=[call("read_file", path="a"), call("write_file", path="a")], usage=USED), "Done."]
        outcome = await run_agent(session, ScriptedModel(turns), "Go.", tools=[make("read_file"), make("write_file")])
        assert outcome.reason == "completed"
        assert "ran with" in session.results.read("r1")
        assert "1,000 of 500 tokens" in session.results.read("r2")


async def test_where_the_store_fails_nothing_runs_and_what_was_used_is_counted_later() -> None:
    store, broken = OwnStore(), [False]
    change = store.memory.change_value

    async def change_value(*arguments: Any) -> bool:
        if broken[0]:
            raise StoreError("here", "broken")
        return await change(*arguments)

    store.change_value = change_value  # type: ignore[attr-defined]
    rule = deny({"calls": 9, "tokens": 1_500})
    given: Any = store
    async with Host(config=config(rule), store=given) as host, host.session("s") as session, a_run(session) as run:
        await run.record({"role": "user", "content": "go"})
        broken[0] = True
        assert await ran(run, 1) == 0
        await run.record({"role": "assistant", "content": "a"}, usage=USED)
        assert await ran(run, 1) == 0
        with pytest.raises(RunBlocked, match="cannot be checked: here: broken"):
            await run.prepare_messages()
        broken[0] = False
        assert await ran(run, 1) == 1
        await run.record({"role": "assistant", "content": "a"}, usage=USED)
        assert await ran(run, 1) == 0


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"action": "allow", "limit": {"calls": 1}}, "limit stands in rules that deny or ask once it is reached; an allow has none"),
        (deny({"call": 1}), "'call' is not a known setting. Did you mean 'calls'?"),
        (deny({}), "it limits nothing; write calls, tokens or dollars"),
        (deny({"calls": 1, "per": "famly"}), "'famly' is not a known word of per. Did you mean 'family'?"),
        (deny({"calls": 1, "window": "1 hour"}), "'1 hour' is no time; write such as '30s', '15m', '1h' or '7d'"),
        (deny({"calls": 0}), "greater than 0"),
        (deny({"calls": True}), "valid integer"),
        (deny({"tokens": 5, "per": "tool"}), "tokens and dollars are used by requests, not by tools"),
        ({"action": "deny", "limt": {"calls": 1}}, "'limt' is not a known setting. Did you mean 'limit'?"),
    ],
)  # fmt: skip
def test_a_wrong_limit_is_told_at_the_start(rule: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=r"rule 1: ") as told:
        ToolPolicy.Config.model_validate({"rules": [rule]})
    assert problem in str(told.value)


def test_doctor_says_that_dollars_need_prices_where_nobody_has_any(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ToolPolicy.Config.model_validate({"rules": [deny({"calls": 1}), deny({"dollars": 1})]})
    assert list(ToolPolicy.diagnose(settings, None)) == []

    def nothing(name: str) -> None: ...

    monkeypatch.setattr("builtin_plugins.tool_policy._lint.find_spec", nothing)
    (said,) = ToolPolicy.diagnose(settings, None)
    assert "rule 2: a limit in dollars lets no request pass to a model without a price" in said


def test_a_call_is_explained_by_the_rules_that_hold_now_and_a_limit_is_named_among_the_others() -> None:
    rules = [deny({"calls": 5, "window": "1h"}, tools="read_*"), {"action": "ask", "tools": "read_*"}]
    policy = ToolPolicy(ToolPolicy.Config.model_validate({"rules": rules}))
    said = policy.explain(event(BeforeToolCall, tool="read_file", arguments={"path": "a"}))
    assert (said.action, [one.text for one in said.do_not_fit]) == (
        "ask", ['action = "deny", tools = "read_*", limit = { calls = 5, window = "1h" }'],
    )  # fmt: skip
    assert "once its limit is reached" in said.do_not_fit[0].why


async def test_a_rule_without_a_limit_leaves_requests_alone() -> None:
    async with Host(config=config({"action": "deny", "tools": "write_*"})) as host:
        plugin = next(one for one in host.plugins if one.id == "tool_policy")
        assert plugin.hooks == ["narrow_tools", "before_tool_call"]


async def test_a_limit_per_requester_holds_over_hosts_that_share_a_store(store: Store) -> None:
    taken: list[int] = []
    for _ in range(2):
        async with (
            Host(config=config(deny({"calls": 3, "per": "requester"})), store=store) as host,
            host.session("s") as session,
            a_run(session, requester={"id": "ann"}) as run,
        ):
            taken.append(await ran(run, 2))
    assert taken == [2, 1]


@pytest.mark.heavy
async def test_on_a_server_of_databases_a_window_goes_by_its_clock_whatever_the_workers_clocks_say(
    postgres: Any, clock: Callable[[float], None]
) -> None:
    url, taken = postgres.url(), list[int]()
    for seconds in (0, 86_400, -2 * 86_400):  # the machines of three workers
        clock(seconds)
        store = SqlStore(url)
        assert abs(await store.now() - float((await store.fetch("SELECT {now}"))[0][0])) < 60
        async with (
            Host(config=config(deny({"calls": 3, "window": "1h", "per": "requester"})), store=store) as host,
            host.session(f"s{seconds}") as session,
            a_run(session, requester={"id": "ann"}) as run,
        ):
            taken.append(await ran(run, 2))
        await store.aclose()
    assert taken == [2, 1, 0]


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(-4_000, 4_000), st.integers(1, 3)), max_size=60), most=st.integers(1, 6))
def test_in_no_window_more_is_counted_than_its_limit_whatever_the_clock_does(
    steps: list[tuple[int, int]], most: int
) -> None:
    limit = Limit(calls=most, window="1h")
    clock, taken = [10_000.0], list[float]()
    stored: Any = None
    latest = 0.0
    for change, tries in steps:
        clock[0] += change
        latest = max(latest, clock[0])
        for _ in range(tries):
            current, used = count(stored, limit, "calls", clock[0])
            if used.is_full:
                assert used.free_at is not None
                assert used.free_at > clock[0]
                continue
            stored = with_amount(current, 1)
            taken.append(latest)
    for at in taken:
        assert sum(at <= other < at + 3_600 for other in taken) <= most


def test_a_count_of_many_entries_stays_short_and_frees_nothing_too_early(clock: Callable[[float], None]) -> None:
    limit, stored = Limit(calls=10_000, window="1h"), None
    for _ in range(3_599):
        current: Mapping[str, Any] = count(stored, limit, "calls", time.time())[0]
        stored = with_amount(dict(current), 1)
        clock(1)
    current, used = count(stored, limit, "calls", time.time())
    assert used.amount == 3_599
    assert len(current["entries"]) <= MOST_ENTRIES


@pytest.mark.light(every=5)
@pytest.mark.both_loops
@pytest.mark.parametrize("seed", range(6))
async def test_a_limit_is_never_exceeded_by_agents_at_work_at_the_same_time(seed: int) -> None:
    draw = random.Random(seed)
    most, agents = draw.randint(1, 12), draw.randint(1, 5)
    per = draw.choice(["family", "session", "requester", "tool"])
    taken: list[int] = []
    wanted = [draw.randint(1, 9) for _ in range(agents)]
    host = Host(config=config(deny({"calls": most, "per": per})))
    async with host, host.session("s") as session, a_run(session):

        async def agent(calls: int) -> None:
            async with session.child() as child, a_run(child) as below:
                taken.append(await ran(below, calls))

        async with anyio.create_task_group() as group:
            for calls in wanted:
                group.start_soon(agent, calls)
    of_each = sum(min(calls, most) for calls in wanted)
    assert sum(taken) == (of_each if per == "session" else min(most, sum(wanted)))


WORKER = """
import sys, anyio
from hooksdk import Host, Tool, ToolCall
from hooksdk.stores import open_store

async def act(arguments):
    return "ran"

rule = {"action": "deny", "limit": {"calls": 40, "per": sys.argv[3], "window": "1h"}}
waits = {"before_tool_call": 120, "tool_call_start": 120}  # eight Pythons on a small machine
config = {"allow": ["tool_policy"], "timeouts": waits, "plugins": {"tool_policy": {"config": {"rules": [rule]}}}}

async def main():
    store, ran = open_store(sys.argv[1]), 0
    async with Host(store=store, config=config) as host, host.session(sys.argv[2]) as session:
        async with session.run(requester={"id": "ann"}, family="of-elsewhere") as run:
            await run.resolve_tools([Tool(name="act", source="host", execute=act)])

            async def call(at):
                nonlocal ran
                result = await run.call_tool(ToolCall(f"c{at}", "act", {}))
                ran += result.text == "ran"

            async with anyio.create_task_group() as group:
                for at in range(10):
                    group.start_soon(call, at)
    print(ran)
    await store.aclose()

anyio.run(main)
"""


@pytest.mark.in_ci(False)
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "per"),
    [
        ("jsonl", "family"),
        ("sqlite", "family"),
        ("postgres", "family"),
        ("jsonl", "requester"),
        ("sqlite", "requester"),
    ],
)
def test_eight_processes_make_not_one_call_more_than_a_familys_or_a_requesters_limit(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, per: str
) -> None:
    spec = {"jsonl": f"jsonl:{tmp_path}", "sqlite": f"sqlite:///{tmp_path / 'values.db'}"}.get(kind)
    spec = spec or request.getfixturevalue("postgres").url()
    processes = [Popen([sys.executable, "-c", WORKER, spec, f"s{at}", per], stdout=PIPE, text=True) for at in range(8)]
    assert sum(int(process.communicate(timeout=180)[0]) for process in processes) == 40
