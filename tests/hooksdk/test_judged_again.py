"""A call that has waited is judged again when it is taken up: by the rules of now, and a person is asked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin_plugins.no_repeats import NoRepeats
from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Approval, ApprovalRequest, MemoryStore, PluginState, hooks
from hooksdk.approvals import Later, Question
from hooksdk.errors import ApprovalPending
from hooksdk.hooks import Answer, Ask, BeforeToolCall, Block, Rewrite, RewriteToolCall
from hooksdk.testing import ScriptedApprover
from hooksdk.transcript import Store
from tests.stage import make, playing

pytestmark = pytest.mark.anyio
CALL = ("act", {"path": "a"})
ACT = make("act", properties={})
RAN = 'ran with {"path": "a"}'


async def later(request: ApprovalRequest) -> Later:
    return Later()


def asks(title: str = "Go on?", *, plugin: str = "guard", **fields: Any) -> type:
    """A plugin that asks this about every call of `act`."""

    class Asks:
        plugin_id = plugin

        @hooks.before_tool_call(tools="act")
        def ask(self, event: BeforeToolCall) -> Ask:
            return Ask(title, **fields)

    return Asks


def answers(answer: Callable[[BeforeToolCall], Any], *, plugin: str = "guard") -> type:
    """A plugin that answers this about every call of `act`."""

    class Judges:
        plugin_id = plugin

        @hooks.before_tool_call(tools="act")
        def judge(self, event: BeforeToolCall) -> Any:
            return answer(event)

    return Judges


Guard = asks()


def blocks(event: BeforeToolCall) -> Block:
    return Block("not any more")


def fails(event: BeforeToolCall) -> None:
    raise RuntimeError("broken since")


async def wait(*plugins: type, store: Store, **stage: Any) -> None:
    """A run whose call waits for a person, left paused."""
    async with playing(*plugins, store=store, approver=later, tools=[ACT], **stage) as played:
        with pytest.raises(ApprovalPending):
            await played.call(*CALL)
        played.run.pause("waits")


async def take_up(*plugins: type, store: Store, answer: Approval | bool = True, **stage: Any) -> tuple[str, list[str]]:
    """A later run that makes the call again; answers what came of it, and what a person was asked then."""
    approver = ScriptedApprover(answer)
    async with playing(*plugins, store=store, approver=approver, tools=[ACT], **stage) as played:
        result = await played.run.call_tool(played.run.pending[0])
    return result.text, [question.title for request in approver.requests for question in request.questions]


# What holds now


@pytest.mark.both_loops
@pytest.mark.parametrize(
    ("now", "text"),
    [(blocks, "Blocked by new: not any more"), (fails, "Blocked: plugin 'new' failed while it judged this call")],
)
async def test_a_plugin_that_is_new_since_stops_a_call_that_was_granted(now: Any, text: str) -> None:
    store = MemoryStore()
    await wait(Guard, store=store)
    result, asked = await take_up(Guard, answers(now, plugin="new"), store=store)
    assert result.startswith(text)
    assert asked == [], "nobody is bothered with it"


@pytest.mark.parametrize(
    "change",
    [{"path": {"const": "a"}}, {"path": {"type": "string"}}],
    ids=["these arguments", "all of them"],
)
async def test_a_rule_that_is_new_since_denies_these_arguments_although_they_were_granted(change: Any) -> None:
    ask: dict[str, Any] = {"action": "ask", "tools": "act"}
    deny = {"action": "deny", "arguments": {"properties": change, "required": ["path"]}, "reason": "closed since"}

    def config(*rules: Mapping[str, Any]) -> dict[str, Any]:
        return {"plugins": {"tool_policy": {"config": {"rules": [*rules]}}}}

    store = MemoryStore()
    await wait(ToolPolicy, store=store, config=config(ask))
    result, _ = await take_up(ToolPolicy, store=store, config=config(ask, deny))
    assert result == "Blocked by tool_policy: closed since"


@pytest.mark.both_loops
@pytest.mark.parametrize("way", ["approve", "call_tool", "judge"])
async def test_a_policy_that_has_changed_its_mind_stops_the_call_in_the_run_that_waits_too(way: str) -> None:
    closed: list[str] = []
    judging = answers(lambda event: Block(closed[0]) if closed else Ask("Go on?"))
    replies: list[Any] = [Later(), Approval(True)]

    async def approver(request: ApprovalRequest) -> Any:
        return replies.pop(0)

    async with playing(judging, approver=approver, tools=[ACT]) as stage:
        (written,) = await stage.reply(CALL)
        judged = await stage.run.judge(written)
        assert judged.pending is not None
        closed.append("closed meanwhile")
        if way == "approve":
            await judged.approve()
        elif way == "call_tool":
            await stage.run.call_tool(written)
        else:
            await (await stage.run.judge(written)).execute()
        assert (judged.status, (await judged.execute()).text) == ("blocked", "Blocked by guard: closed meanwhile")


async def test_a_result_that_is_supplied_passes_the_same_gate() -> None:
    closed: list[str] = []
    judging = answers(lambda event: Block(closed[0]) if closed else Ask("Go on?"))
    async with playing(judging, approver=later, tools=[ACT]) as stage:
        open_call, closed_call = [await stage.run.judge(one) for one in await stage.reply(CALL, CALL)]
        await open_call.approve()
        assert (await open_call.supply("done elsewhere")).text == "done elsewhere"
        closed.append("closed meanwhile")
        await closed_call.approve()
        assert closed_call.status == "blocked"


async def test_a_policy_that_answers_now_gives_the_result_where_nobody_asks_any_more() -> None:
    store = MemoryStore()
    await wait(Guard, store=store)
    result, asked = await take_up(answers(lambda event: Answer("known already")), store=store)
    assert (result, asked) == ("known already", ["Go on?"])


async def test_a_yes_that_was_given_and_not_used_lets_nothing_past_the_rules_of_now() -> None:
    store = MemoryStore()
    async with playing(Guard, store=store, approver=ScriptedApprover(True), tools=[ACT]) as stage:
        (written,) = await stage.reply(CALL)
        await stage.run.judge(written)
        stage.run.pause("the tools are run tomorrow")
    assert await take_up(Guard, answers(blocks, plugin="new"), store=store) == ("Blocked by new: not any more", [])


async def test_a_tool_that_has_paused_is_not_executed_again_past_the_rules_of_now() -> None:
    closed: list[str] = []
    judging = answers(lambda event: Block(closed[0]) if closed else None)
    attempts: list[int] = []

    def bank(arguments: dict[str, Any]) -> str:
        attempts.append(1)
        raise ApprovalPending("the bank's own form")

    async with playing(judging, tools=[make("act", bank, properties={})]) as stage:
        (written,) = await stage.reply(CALL)
        judged = await stage.run.judge(written)
        with pytest.raises(ApprovalPending):
            await judged.execute()
        closed.append("closed meanwhile")
        assert (await judged.execute()).text == "Blocked by guard: closed meanwhile"
    assert len(attempts) == 1


# What a person is asked


@pytest.mark.both_loops
async def test_what_was_approved_is_not_asked_again_and_what_is_new_is_asked_alone() -> None:
    store = MemoryStore()
    async with playing(Guard, store=store, approver=ScriptedApprover(True), tools=[ACT]) as stage:
        (written,) = await stage.reply(CALL)
        await stage.run.judge(written)
        stage.run.pause("the tools are run tomorrow")
    assert await take_up(Guard, asks("Really?", plugin="other"), store=store) == (RAN, ["Really?"])


async def test_a_new_question_waits_like_the_first_and_nobody_is_asked_the_first_again() -> None:
    store, other = MemoryStore(), asks("Really?", plugin="other")
    await wait(Guard, store=store)
    answered: list[Any] = [Approval(True), Later()]

    async def approver(request: ApprovalRequest) -> Any:
        return answered.pop(0)

    async with playing(Guard, other, store=store, approver=approver, tools=[ACT]) as stage:
        with pytest.raises(ApprovalPending) as caught:
            await stage.run.call_tool(stage.run.pending[0])
        assert [question.title for question in caught.value.request.questions] == ["Really?"]
        stage.run.pause("waits")
    for _ in range(2):
        async with playing(Guard, other, store=store, approver=later, tools=[ACT]) as stage:
            with pytest.raises(ApprovalPending) as caught:
                await stage.run.call_tool(stage.run.pending[0])
            assert caught.value.request.title == "Really?"
            stage.run.pause("waits")
    assert await take_up(Guard, other, store=store) == (RAN, ["Really?"])


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        (asks(), []),
        (asks(severity="info"), []),
        (asks(timeout=7.0), []),
        (asks("Really go on?"), ["Really go on?"]),
        (asks(description="It is for ever."), ["Go on?"]),
        (asks(severity="critical"), ["Go on?"]),
        (asks(rule="another"), ["Go on?"]),
        (asks(plugin="other"), ["Go on?"]),
    ],
    ids=["the same", "less grave", "another time", "title", "description", "graver", "rule", "plugin"],
)
async def test_a_question_is_answered_where_plugin_rule_and_words_are_the_same_and_it_is_no_graver(
    now: type, asked: Sequence[str]
) -> None:
    store = MemoryStore()
    async with playing(Guard, store=store, approver=ScriptedApprover(True), tools=[ACT]) as stage:
        (written,) = await stage.reply(CALL)
        await stage.run.judge(written)
        stage.run.pause("the tools are run tomorrow")
    assert await take_up(now, store=store) == (RAN, asked)


async def test_a_no_stands_although_no_policy_would_ask_any_more() -> None:
    store = MemoryStore()
    await wait(Guard, store=store)
    result, asked = await take_up(store=store, answer=Approval(False, "too dear"))
    assert (result, asked) == ("Blocked: 'Go on?' was not approved: too dear", ["Go on?"])


async def test_a_question_that_only_the_first_judging_asks_is_asked_all_the_same() -> None:
    once = answers(lambda event: None if event.again else Ask("Go on?"))
    store = MemoryStore()
    await wait(once, store=store)
    assert await take_up(once, store=store, answer=False) == (
        "Blocked: 'Go on?' was not approved: a person said no",
        ["Go on?"],
    )


async def test_two_rules_of_the_tool_policy_with_one_title_are_two_questions() -> None:
    def config(tools: str) -> dict[str, Any]:
        rule = {"action": "ask", "tools": tools, "title": "Go on?", "reason": "to be sure"}
        return {"plugins": {"tool_policy": {"config": {"rules": [rule]}}}}

    store = MemoryStore()
    await wait(ToolPolicy, store=store, config=config("act"))
    assert await take_up(ToolPolicy, store=store, config=config("a*")) == (RAN, ["Go on?", "Go on?"])


# Arguments


class Prefixes:
    """Not the same when it is done twice."""

    @hooks.rewrite_tool_call
    def rewrite(self, event: RewriteToolCall) -> Rewrite:
        return Rewrite({"path": "x" + event.arguments["path"]})


class Counts:
    """Another value each time."""

    made = 0

    @hooks.rewrite_tool_call
    def rewrite(self, event: RewriteToolCall) -> Rewrite:
        Counts.made += 1
        return Rewrite({**event.arguments, "key": Counts.made})


async def test_what_a_plugin_has_rewritten_it_does_not_rewrite_again() -> None:
    Counts.made = 0
    store = MemoryStore()
    await wait(Guard, Prefixes, Counts, store=store)
    result, asked = await take_up(Guard, Prefixes, Counts, store=store)
    assert (result, asked) == ('ran with {"key": 1, "path": "xa"}', ["Go on?"])


@pytest.mark.parametrize("approved", [True, False], ids=["approved before", "waiting"])
async def test_arguments_that_a_new_plugin_rewrites_are_asked_about_anew(approved: bool) -> None:
    store, judged = MemoryStore(), list[bool]()

    def judge(event: BeforeToolCall) -> Ask:
        judged.append(event.again)
        return Ask("Go on?")

    async with playing(
        answers(judge), store=store, approver=ScriptedApprover(approved or Later()), tools=[ACT]
    ) as stage:  # type: ignore[arg-type]
        (written,) = await stage.reply(CALL)
        await stage.run.judge(written)
        stage.run.pause("waits")
    approver = ScriptedApprover(True)
    async with playing(answers(judge), Prefixes, store=store, approver=approver, tools=[ACT]) as stage:
        assert (await stage.run.call_tool(stage.run.pending[0])).text == 'ran with {"path": "xa"}'
    assert [request.arguments for request in approver.requests] == [{"path": "xa"}]
    assert judged == [False, False], "what is asked about others is not the same call"


async def test_a_new_plugin_that_rewrites_nothing_leaves_the_yes_as_it_is() -> None:
    class Same:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite(event.arguments)

    store = MemoryStore()
    async with playing(Guard, store=store, approver=ScriptedApprover(True), tools=[ACT]) as stage:
        (written,) = await stage.reply(CALL)
        await stage.run.judge(written)
        stage.run.pause("waits")
    assert await take_up(Guard, Same, store=store) == (RAN, [])


# What counts once


async def test_a_budget_counts_a_call_once_however_often_it_is_taken_up() -> None:
    class Budget:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.before_tool_call
        def spend(self, event: BeforeToolCall) -> Block | None:
            if event.again:
                return None
            self.state["spent"] = self.state.get("spent", 0) + 1
            return Block("spent") if self.state["spent"] > 1 else None

    store = MemoryStore()
    await wait(Guard, Budget, store=store)
    for _ in range(3):
        async with playing(Guard, Budget, store=store, approver=later, tools=[ACT]) as stage:
            with pytest.raises(ApprovalPending):
                await stage.run.call_tool(stage.run.pending[0])
            stage.run.pause("waits")
    assert await take_up(Guard, Budget, store=store) == (RAN, ["Go on?"])


@pytest.mark.parametrize("asking", [True, False], ids=["asked still", "asked no more"])
async def test_a_call_that_waited_is_no_repetition_of_itself(asking: bool) -> None:
    guard = answers(lambda event: Ask("Go on?") if asking or not event.again else None)
    async with playing(guard, NoRepeats, approver=later, tools=[ACT]) as stage:
        (written,) = await stage.reply(CALL)
        judged = await stage.run.judge(written)
        await judged.approve()
        assert (await judged.execute()).text == RAN


async def test_the_first_judging_is_none_again() -> None:
    told: list[bool] = []
    async with playing(answers(lambda event: told.append(event.again)), tools=[ACT]) as stage:
        await stage.call(*CALL)
        await stage.call(*CALL)
    assert told == [False, False]


# Other ways to a call


async def test_a_sub_agents_call_is_judged_again_too() -> None:
    closed: list[str] = []
    judging = answers(lambda event: Block(closed[0]) if closed else Ask("Go on?"))
    async with (
        playing(judging, approver=later, tools=[ACT]) as stage,
        stage.session.child() as child,
        child.run() as run,
    ):
        await run.resolve_tools([ACT])
        judged = await run.judge(stage.new(*CALL))
        assert judged.pending is not None
        closed.append("closed meanwhile")
        await judged.approve()
        assert (await judged.execute()).text == "Blocked by guard: closed meanwhile"


def test_plain_code_is_judged_again_too() -> None:
    import hooksdk.sync
    from hooksdk import ToolCall

    closed: list[str] = []
    judging = answers(lambda event: Block(closed[0]) if closed else Ask("Go on?"))
    with (
        hooksdk.sync.Host(plugins=[judging], approver=later, config={"allow": []}) as host,
        host.session("s") as session,
        session.run() as run,
    ):
        run.resolve_tools([ACT])
        judged = run.judge(ToolCall("c1", *CALL))
        assert judged.pending is not None
        closed.append("closed meanwhile")
        judged.approve()
        assert judged.execute().text == "Blocked by guard: closed meanwhile"


def test_a_question_says_which_rule_asks() -> None:
    assert Question(title="Go on?", rule="rule").rule == "rule"


# Whatever happens in between


ACTIONS = st.sampled_from(["none", "block", "fail", "Go on?", "Really?"])
STEPS = st.lists(
    st.tuples(st.lists(ACTIONS, min_size=3, max_size=3), st.sampled_from(["later", "yes", "no"])),
    min_size=1,
    max_size=4,
)


def acting(number: int, action: str) -> type:
    def judge(event: BeforeToolCall) -> Any:
        if action == "fail":
            raise RuntimeError("broken")
        return {"none": None, "block": Block("closed")}.get(action, Ask(action))

    return answers(judge, plugin=f"p{number}")


@settings(max_examples=60, deadline=None)
@given(STEPS)
async def test_a_call_runs_only_if_nobody_stops_it_now_and_a_person_has_said_yes_to_each_question_once(
    steps: list[tuple[list[str], str]],
) -> None:
    store, granted, waiting = MemoryStore(), set[tuple[str, str]](), set[tuple[str, str]]()
    replies: dict[str, Any] = {"later": Later(), "yes": Approval(True), "no": Approval(False)}
    for number, (actions, reply) in enumerate(steps):
        requests: list[set[tuple[str, str]]] = []

        async def approver(request: ApprovalRequest, reply: str = reply, requests: Any = requests) -> Any:
            requests.append({(question.plugin, question.title) for question in request.questions})
            return replies[reply]

        plugins = [acting(place, action) for place, action in enumerate(actions)]
        async with playing(*plugins, store=store, approver=approver, tools=[ACT]) as stage:
            call = stage.run.pending[0] if number else (await stage.reply(CALL))[0]
            try:
                text = (await stage.run.call_tool(call)).text
            except ApprovalPending:
                text = "waits"
                stage.run.pause("waits")
        expected: list[set[tuple[str, str]]] = []
        outcome = "Blocked" if {"block", "fail"} & {*actions} else ""
        asks_now = {(f"p{place}", action) for place, action in enumerate(actions) if action.endswith("?")}
        for batch in () if outcome else ("waiting", "new"):
            asked: set[tuple[str, str]] = waiting if batch == "waiting" else asks_now - granted
            if asked and not outcome:
                expected.append(set(asked))
                granted |= asked if reply == "yes" else set()
                waiting = asked if reply == "later" else set[tuple[str, str]]()
                outcome = {"later": "waits", "no": "Blocked", "yes": ""}[reply]
        assert requests == expected
        assert text.startswith(outcome or RAN)
        if outcome != "waits":
            return
