"""Whether trims pay: the estimate, the rule that clears by it, and the replay of a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from transcripts import ANTHROPIC, OPENAI, RESPONSES, body, call, history, opened

from hooksdk import schema
from hooksdk.calls import ResultInfo, ToolResult
from hooksdk.costs import (
    Clearing,
    Moment,
    Prices,
    TrimCost,
    at_each_agent_end,
    at_each_request,
    clearing,
    estimate,
    estimate_change,
    replay,
)
from hooksdk.formats import MessageFormat
from hooksdk.stores import MemoryStore
from hooksdk.transcript import Results, message_tokens

LONG = "word " * 2_000
"""2,500 tokens."""


def result(number: int, position: int, tokens: int = 1_030, turns_ago: int = 100, **fields: Any) -> ResultInfo:
    defaults: dict[str, Any] = {
        "handle": f"r{number}", "call_id": f"c{number}", "tool": "read", "position": position, "characters": 4 * tokens,
        "tokens": tokens, "turns_ago": turns_ago, "arguments": "{}", "is_error": False, "disposable": False,
        "trimmed": False, "queued": False, "why_not": None,
    }  # fmt: skip
    return ResultInfo(**(defaults | fields))


SIZES = [100, 1_030, 1_030, 1_030, 10_000]
"""A conversation of 13,190 tokens: three results stand at 1, 2 and 3."""
THREE = [result(1, 1), result(2, 2), result(3, 3)]


def handles(rule: Clearing, results: Sequence[ResultInfo] = THREE, **more: Any) -> list[str]:
    choice = rule.choose(results, SIZES, **more)
    return choice[0] if choice else []


def a_rule(**fields: Any) -> Clearing:
    settings: dict[str, Any] = {"trigger": 5_000, "keep": 0, "clear_at_least": 1} | fields
    return Clearing(**settings)


# The estimate


def test_a_trim_pays_back_after_as_many_requests_as_reading_less_takes_to_make_up_for_writing_the_rest() -> None:
    assert TrimCost(saved=1_062, behind=2_608).pays_back_after == 29


def test_other_prices_give_another_answer() -> None:
    assert TrimCost(saved=1_000, behind=1_000, prices=Prices(read=0.5, write=1)).pays_back_after == 1
    assert TrimCost(saved=1_000, behind=1_000, prices=Prices(read=0, write=1)).pays_back_after is None


def test_a_drain_is_free_once_the_cache_has_outlived_its_life() -> None:
    young, old = (estimate(THREE, SIZES, age=age) for age in (299, 300))
    assert young.pays_back_after == 39
    assert (old.cold, old.pays_back_after) == (True, 0)


def test_what_stands_behind_the_first_trim_is_written_anew_and_what_stands_before_it_is_not() -> None:
    assert estimate(THREE[1:], SIZES) == TrimCost(saved=2_000, behind=60 + 10_000)
    assert estimate(THREE, [0, *SIZES[1:]]) == estimate(THREE, SIZES)


def test_what_no_request_has_held_yet_is_written_anyway() -> None:
    assert estimate(THREE, SIZES, cached=4) == TrimCost(saved=3_000, behind=90)
    assert estimate(THREE[2:], SIZES, cached=3).pays_back_after == 0


def test_trims_that_save_nothing_never_pay_back() -> None:
    assert estimate([], SIZES).pays_back_after is None
    assert estimate([result(1, 1, tokens=20)], SIZES).pays_back_after is None
    assert estimate([result(1, 1, trimmed=True)], SIZES).pays_back_after is None


def test_a_drain_is_estimated_from_the_sizes_before_and_after_it() -> None:
    assert estimate_change(SIZES, [100, 1_030, 30, 30, 10_000]) == estimate(THREE[1:], SIZES)
    assert estimate_change(SIZES, SIZES).pays_back_after is None


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="Prices: read must be a number from 0 on"):
        Prices(read=value)


# The rule


def test_nothing_is_cleared_below_the_trigger() -> None:
    assert handles(a_rule(trigger=13_190)) == ["r1", "r2", "r3"]
    assert handles(a_rule(trigger=13_191)) == []


def test_a_trigger_up_to_1_is_a_share_of_the_context_window() -> None:
    assert handles(a_rule(trigger=0.1), context_window=131_900) == ["r1", "r2", "r3"]
    assert handles(a_rule(trigger=0.1), context_window=140_000) == []


def test_unless_it_says_otherwise_the_trigger_is_16_000_tokens_or_half_of_a_smaller_context_window() -> None:
    assert handles(Clearing(), context_window=26_382) == []
    assert handles(Clearing(), context_window=26_380) == ["r1", "r2"]
    for window in (None, 200_000):
        assert Clearing().choose(THREE, [*SIZES, 2_809], context_window=window) is None
        assert Clearing().choose(THREE, [*SIZES, 2_810], context_window=window) is not None


def test_it_waits_until_as_many_requests_as_there_were_pay_for_it() -> None:
    def after(turns: int) -> list[str]:
        return handles(a_rule(), [result(1, 1, turns_ago=turns), result(2, 2), result(3, 3)][:1])

    assert estimate(THREE[:1], SIZES).pays_back_after == 140
    assert (after(139), after(140)) == ([], ["r1"])


def test_once_the_cache_is_lost_it_does_not_wait() -> None:
    fresh = [result(1, 1, turns_ago=1)]
    assert handles(a_rule(), fresh) == []
    assert handles(a_rule(), fresh, age=300) == ["r1"]


def test_close_to_the_end_of_the_context_window_it_does_not_wait() -> None:
    fresh = [result(1, 1, turns_ago=1)]
    assert handles(a_rule(), fresh, context_window=17_000) == []
    assert handles(a_rule(), fresh, context_window=16_000) == ["r1"]


def test_close_to_the_end_of_the_context_window_neither_the_trigger_nor_the_least_saving_counts() -> None:
    patient = a_rule(trigger=100_000, clear_at_least=50_000)
    assert handles(patient, context_window=17_000) == []
    assert handles(patient, context_window=16_000) == ["r1", "r2", "r3"]


def test_it_begins_where_it_gains_most() -> None:
    small = [result(1, 1, tokens=60), *THREE[1:]]
    far = [100, 60, 20_000, 1_030, 10_000]
    assert a_rule().choose([small[0], result(3, 3)], far) is None
    choice = a_rule().choose([result(1, 1, tokens=60, turns_ago=150), result(3, 3, turns_ago=150)], far)
    assert choice is not None
    assert choice[0] == ["r3"]


def test_the_newest_results_stay() -> None:
    assert handles(a_rule(keep=1)) == ["r1", "r2"]
    assert handles(a_rule(keep=9)) == []


def test_disposable_results_neither_count_nor_stay() -> None:
    results = [result(1, 1), result(2, 2), result(3, 3, disposable=True)]
    assert handles(a_rule(keep=1), results) == ["r1", "r3"]
    assert handles(a_rule(keep=2, clear_at_least=0), [*results[:2], result(3, 3, disposable=True, turns_ago=200)]) == [
        "r3"
    ]


def test_excluded_tools_keep_their_results() -> None:
    assert handles(a_rule(exclude_tools=["notes"]), [result(1, 1, tool="notes"), *THREE[1:]]) == ["r2", "r3"]


def test_results_among_the_protected_tokens_stay() -> None:
    assert handles(a_rule(protect=10_001)) == ["r1", "r2"]


def test_it_clears_at_least_so_much() -> None:
    assert handles(a_rule(clear_at_least=3_000)) == ["r1", "r2", "r3"]
    assert handles(a_rule(clear_at_least=3_001)) == []


def test_what_cannot_be_trimmed_is_left_alone() -> None:
    assert handles(a_rule(), [result(1, 1, why_not="it was compacted away"), *THREE[1:]]) == ["r2", "r3"]


def test_what_is_small_is_cleared_only_near_the_end_of_the_context_window() -> None:
    small = [result(1, 1, tokens=60, why_not="too short", small=True), *THREE[1:]]
    assert handles(a_rule(), small, context_window=16_000) == ["r1", "r2", "r3"]
    assert handles(a_rule(), small, context_window=200_000) == ["r2", "r3"]


def test_behind_a_trim_that_waits_clearing_is_free() -> None:
    queued = result(1, 1, queued=True, why_not="its trim is queued", turns_ago=2)
    others = [result(2, 2, turns_ago=1), result(3, 3, turns_ago=1)]
    assert handles(a_rule(), others) == []
    assert handles(a_rule(), [queued, *others]) == ["r2", "r3"]
    assert handles(a_rule(clear_at_least=2_001), [queued, *others]) == []


@pytest.mark.parametrize("name", ["trigger", "keep", "clear_at_least", "protect"])
def test_a_negative_setting_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"Clearing: {name} must be a number from 0 on"):
        a_rule(**{name: -1})


def test_one_excluded_tool_is_a_list_of_one() -> None:
    with pytest.raises(TypeError, match="Clearing: exclude_tools must be names, not one text"):
        a_rule(exclude_tools="read")


# The replay


CHAT = [OPENAI.user("a" * 400), OPENAI.reply("b" * 800), OPENAI.user("c" * 400), OPENAI.reply("d")]


def test_the_untrimmed_bill_writes_each_token_once_and_reads_it_in_every_later_request() -> None:
    first, second, third, _ = map(schema.estimate_tokens, CHAT)
    bill = replay(CHAT, OPENAI)
    assert (bill.requests, bill.tokens) == (2, 2 * first + second + third)
    assert (bill.read, bill.written) == (first, first + second + third)
    assert bill.price == pytest.approx(0.1 * bill.read + 1.25 * bill.written)


def test_after_a_pause_longer_than_its_life_the_cache_holds_nothing() -> None:
    assert replay(CHAT, OPENAI, pause=299).read == schema.estimate_tokens(CHAT[0])
    assert replay(CHAT, OPENAI, pause=300).read == 0


@pytest.mark.parametrize("form", [OPENAI, ANTHROPIC], ids=["openai-chat", "anthropic"])
def test_the_estimate_is_what_the_replay_then_finds(form: MessageFormat) -> None:
    messages = history(form, [LONG, *(body(number) for number in range(20))])
    estimates: list[tuple[TrimCost, int]] = []
    requests = replay(messages, form).requests

    def once(moment: Moment) -> list[str]:
        if estimates or moment.agent_end or len(moment.results) < 8:
            return []
        cost = estimate(moment.results[:1], moment.message_tokens, cached=moment.cached)
        estimates.append((cost, requests - len(moment.results)))
        return ["r1"]

    saved = replay(messages, form).price - replay(messages, form, once).price
    ((cost, later),) = estimates
    assert saved == pytest.approx(cost.gain(later), rel=0.02)


@pytest.mark.parametrize("form", [OPENAI, RESPONSES], ids=["openai-chat", "openai-responses"])
def test_a_reply_is_one_request_however_many_items_it_has_and_a_run_ends_behind_one_without_calls(
    form: MessageFormat,
) -> None:
    calls = [call(number) for number in range(2)]
    reply = form.reply_messages("I read both.", calls)
    if form is RESPONSES:
        reasoning: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
        reply = [reasoning, *reply[1:], reply[0]]
    results = form.result_messages([(one, ToolResult(LONG)) for one in calls])
    messages = [form.user("Read."), *reply, *results, *form.reply_messages("Done.")]
    ends: list[bool] = []

    def watch(moment: Moment) -> list[str]:
        ends.append(moment.agent_end)
        return []

    assert replay(messages, form, watch).requests == 2
    assert ends == [False, False, True]


def test_policies_differ_in_when_they_trim() -> None:
    messages = [*history(OPENAI, [LONG, LONG]), OPENAI.reply("done"), OPENAI.user("more?"), OPENAI.reply("no")]
    assert replay(messages, OPENAI).trims == 0
    assert replay(messages, OPENAI, at_each_agent_end).drains == 1
    assert replay(messages, OPENAI, at_each_request).drains == 2
    assert replay(messages, OPENAI, clearing(Clearing(trigger=1_000, keep=1))).trims == 1


def test_without_the_price_of_trims_the_bill_is_the_least_possible() -> None:
    messages = history(OPENAI, [LONG, *(body(number) for number in range(20))])
    least = replay(messages, OPENAI, at_each_request, lossless=True)
    assert least.price < replay(messages, OPENAI, at_each_request).price


# The sizes in a session


@pytest.mark.anyio
async def test_message_sizes_follow_trims_and_compactions() -> None:
    async with opened(MemoryStore()) as transcript:
        await transcript.append(history(OPENAI, [LONG, LONG]))
        whole = transcript.ask(message_tokens)
        assert whole[2] == pytest.approx(2_500, rel=0.02)
        await Results(transcript, "p").trim("r1")
        await transcript.drain()
        short = transcript.ask(message_tokens)
        assert short[2] < 100
        assert [*short[:2], *short[3:]] == [*whole[:2], *whole[3:]]
        summary = OPENAI.user("everything before")
        await transcript.compact([summary, *transcript.view[-3:]])
        assert transcript.ask(message_tokens) == [0, 0, schema.estimate_tokens(summary), *short[3:]]


@pytest.mark.anyio
async def test_an_image_counts_as_what_it_costs() -> None:
    made = call(1)
    image = {"type": "image", "mimeType": "image/png", "data": "A" * 400_000}
    async with opened(MemoryStore(), form=ANTHROPIC) as transcript:
        await transcript.append(
            [
                ANTHROPIC.user("look"),
                ANTHROPIC.reply("", [made]),
                *ANTHROPIC.result_messages([(made, ToolResult(blocks=[image]))]),
            ]
        )
        assert transcript.ask(message_tokens)[2] < 2_000
