"""A finish that plugins may refuse: `before_answer`, `run.finish()` and what `run_agent` makes of them."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from hooksdk import Host, Session, hooks, records
from hooksdk.agent import Limits, Outcome, run_agent
from hooksdk.errors import RunBlocked, WrongArgument
from hooksdk.hooks import AfterToolCall, AgentEnd, BeforeAnswer, Block, Continue, Replace, Trace
from hooksdk.stores import JsonlStore
from hooksdk.testing import ScriptedModel, call, open_session, recorder, say

pytestmark = pytest.mark.anyio


class NeedsProof:
    """Sends the model on until its reply holds a word."""

    @hooks.before_answer
    def judge(self, event: BeforeAnswer) -> Continue | None:
        return None if "proof" in event.text else Continue("Show the proof.")


class Redactor:
    @hooks.before_answer.last
    def redact(self, event: BeforeAnswer) -> Replace | None:
        return Replace(event.text.replace("Ada", "[name]")) if "Ada" in event.text else None


class Closed:
    @hooks.before_answer
    def block(self, event: BeforeAnswer) -> Block | None:
        return Block("not for outsiders") if "secret plan" in event.text else None


async def answer(session: Session, *replies: Any, prompt: str | None = "Prove it.", **options: Any) -> Outcome:
    return await run_agent(session, ScriptedModel([*replies]), prompt, **options)


def said(session: Session) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in session.messages]


# Continue


@pytest.mark.both_loops
async def test_the_loop_goes_on_with_the_reason_as_a_message():
    async with open_session(NeedsProof) as session:
        outcome = await answer(session, "It holds.", "Here is the proof.")
        assert (outcome.text, outcome.reason, outcome.turns) == ("Here is the proof.", "completed", 2)
        assert said(session) == [
            ("user", "Prove it."), ("assistant", "It holds."), ("user", "Show the proof."), ("assistant", "Here is the proof."),
        ]  # fmt: skip


async def test_after_three_times_the_reply_goes_through_and_says_so(caplog: pytest.LogCaptureFixture):
    async with open_session(NeedsProof) as session:
        outcome = await answer(session, "one", "two", "three", "four", "five")
    assert (outcome.text, outcome.turns, outcome.overruled) == ("four", 4, ["Show the proof."])
    assert "sent on 3 times already: Show the proof." in caplog.text


@pytest.mark.parametrize(("continues", "last"), [(0, "one"), (1, "two")])
async def test_the_limit_is_the_hosts(continues: int, last: str):
    async with open_session(NeedsProof) as session:
        assert (await answer(session, "one", "two", "three", limits=Limits(continues=continues))).text == last


async def test_the_limit_is_one_for_all_plugins_and_their_reasons_are_one_message():
    class NeedsSources:
        @hooks.before_answer
        def judge(self, event: BeforeAnswer) -> Continue:
            return Continue(f"Name the sources ({event.continued} of {event.limit}).")

    async with open_session(NeedsProof, NeedsSources) as session:
        outcome = await answer(session, "one", "two", "three", limits=Limits(continues=1))
        assert said(session)[2] == ("user", "Show the proof.\n\nName the sources (0 of 1).")
        assert outcome.overruled == ["Show the proof.", "Name the sources (1 of 1)."]


async def test_each_users_message_has_the_whole_limit():
    async with open_session(NeedsProof) as session:
        for _ in range(2):
            assert (await answer(session, "one", "two", "three", "four")).turns == 4


async def test_a_run_that_may_go_on_still_has_its_other_limits():
    async with open_session(NeedsProof) as session:
        outcome = await answer(session, "one", "two", "three", limits=Limits(turns=2))
        assert (outcome.reason, outcome.turns, said(session)[-1]) == ("turn_limit", 2, ("user", "Show the proof."))


async def test_calls_are_made_in_between_and_observers_have_seen_them():
    seen: list[str] = []

    def prove() -> str:
        """Prove it."""
        return "q. e. d."

    class NeedsCall:
        @hooks.after_tool_call
        async def note(self, event: AfterToolCall) -> None:
            for _ in range(20):
                await anyio.sleep(0)
            seen.append(event.result.text)

        @hooks.before_answer
        def judge(self, event: BeforeAnswer) -> Continue | None:
            assert [info.tool for info in event.results.list()] == ["prove"] * len(seen)
            return None if seen else Continue("Call prove.")

    async with open_session(NeedsCall, tools=[prove]) as session:
        outcome = await answer(session, "It holds.", [call("prove")], "Proved.", tools=[prove])
        assert (outcome.text, outcome.turns, outcome.overruled) == ("Proved.", 3, [])


# Replace and Block


async def test_a_plugin_may_put_another_text_in_the_place_of_the_answer():
    async with open_session(Redactor) as session:
        assert (await answer(session, "Ada said so.")).text == "[name] said so."
        assert said(session)[1:] == [("assistant", "Ada said so."), ("assistant", "[name] said so.")]


async def test_a_block_ends_the_run_and_its_answer_reaches_nobody():
    seen = recorder("agent_end")
    async with open_session(Closed, seen) as session:
        outcome = await answer(session, "The secret plan is ...")
        assert (outcome.text, outcome.reason) == ("", "blocked")
        assert outcome.blocked == "run blocked by plugin 'closed': not for outsiders"
    assert [event.reason for event in seen.of(AgentEnd)] == ["blocked"]


@pytest.mark.parametrize("order", [(NeedsProof, Closed, Redactor), (Redactor, Closed, NeedsProof)])
async def test_block_beats_continue_and_continue_beats_replace(order: tuple[type, ...]):
    async with open_session(*order) as session:
        assert (await answer(session, "Ada's secret plan")).reason == "blocked"
        outcome = await answer(session, "Ada", "Ada's proof")
        assert outcome.text == "[name]'s proof"
        assert ("assistant", "[name]") not in said(session)


async def test_a_block_after_a_block_is_not_asked_for():
    class Never:
        @hooks.before_answer
        def judge(self, event: BeforeAnswer) -> None:
            raise AssertionError

    async with open_session(Closed, Never) as session:
        assert (await answer(session, "secret plan")).reason == "blocked"


# A handler that fails


class Fails:
    @hooks.before_answer
    def judge(self, event: BeforeAnswer) -> None:
        raise OSError("no tests found")


class FailsRequired:
    @hooks.before_answer(required=True)
    def judge(self, event: BeforeAnswer) -> None:
        raise OSError("no tests found")


async def test_a_handler_that_fails_lets_the_answer_through_and_is_logged(caplog: pytest.LogCaptureFixture):
    async with open_session(Fails, NeedsProof) as session:
        assert (await answer(session, "proof")).text == "proof"
    assert "failed in before_answer, and the answer is judged without it: OSError: no tests found" in caplog.text


async def test_one_that_is_required_blocks_it():
    async with open_session(FailsRequired) as session:
        outcome = await answer(session, "proof")
    assert (outcome.reason, outcome.text) == ("blocked", "")
    assert "it may not fail, and did: OSError: no tests found" in outcome.blocked


async def test_an_empty_reason_is_the_plugins_failure(caplog: pytest.LogCaptureFixture):
    class Mute:
        @hooks.before_answer
        def judge(self, event: BeforeAnswer) -> Continue:
            return Continue(" ")

    async with open_session(Mute) as session:
        assert (await answer(session, "done")).text == "done"
    assert "Continue(reason=...) is empty" in caplog.text


@pytest.mark.jumping_clock
async def test_one_that_is_late_lets_it_through():
    class Slow:
        @hooks.before_answer(timeout=1)
        async def judge(self, event: BeforeAnswer) -> Block:
            await anyio.sleep(60)
            return Block("late")

    async with open_session(Slow) as session:
        assert (await answer(session, "done")).text == "done"


# Trace and shadow mode


async def test_the_trace_tells_what_came_of_it():
    told: list[dict[str, Any]] = []

    class Tells:
        @hooks.trace
        def take(self, event: Trace) -> None:
            if isinstance(event.record, records.AnswerJudged):
                told.append(event.record.as_dict())

    async with open_session(NeedsProof, Redactor, Closed, Tells) as session:
        await answer(session, "one", "Ada has a proof")
        await answer(session, "one", "two", limits=Limits(continues=1))
        await answer(session, "secret plan")
        await answer(session, "proof")
    nobody: list[str] = []
    assert told == [
        {"outcome": "continued", "plugins": ["needs_proof"], "continued": 1, "overruled": nobody},
        {"outcome": "replaced", "plugins": ["redactor"], "continued": 1, "overruled": nobody},
        {"outcome": "continued", "plugins": ["needs_proof"], "continued": 1, "overruled": nobody},
        {"outcome": "passed", "plugins": nobody, "continued": 1, "overruled": ["needs_proof"]},
        {"outcome": "blocked", "plugins": ["closed"], "continued": 0, "overruled": nobody},
        {"outcome": "passed", "plugins": nobody, "continued": 0, "overruled": nobody},
    ]


async def test_in_shadow_mode_nothing_comes_of_it_but_what_would_have():
    config = {"plugins": {"needs_proof": {"mode": "shadow"}}}
    async with open_session(NeedsProof, config=config) as session:
        outcome = await answer(session, "one", "two")
    assert (outcome.text, outcome.stats["shadow"]) == ("one", {"needs_proof": {"Continue": 1}})
