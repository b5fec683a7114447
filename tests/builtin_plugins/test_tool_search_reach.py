"""Prefetch and reveal: what is shown beside the bridge, in which order, within which budget, and never what is withheld."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import pytest
from searching import BRIDGE, CREATE_ISSUE, GET_FORECAST, READ_FILE, SEND_EMAIL, configuration, filler, make

from builtin_plugins.tool_search import ToolSearch
from builtin_plugins.tool_search._nearest import nearest, steps
from builtin_plugins.tool_search._ranking.indexes import Indexes
from builtin_plugins.tool_search._reach import Reach
from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, Ranked, load_ranker
from hooksdk import Host, MemoryStore, PluginState, Run, Session, Tool, ToolCall, hooks
from hooksdk.catalog import build_catalog
from hooksdk.formats import get_format
from hooksdk.hooks import AfterToolsResolved, NarrowTools, Trace, Withhold
from hooksdk.testing import open_host
from tests.measured import RETRIEVAL
from tests.stage import echo

offered_tokens: Any = import_module("offered_tokens")

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

TOOLS = [
    READ_FILE,
    CREATE_ISSUE,
    SEND_EMAIL,
    GET_FORECAST,
    *(make(f"sweep_{n}", "Sweep the floor.", "house") for n in range(4)),
]


@asynccontextmanager
async def hosted(*plugins: Any, store: MemoryStore | None = None, **config: Any) -> AsyncGenerator[Host, None]:
    """A host whose search is on at any size of catalog."""
    settings = {"enabled": "on", **config}
    async with open_host("tool_search", *plugins, config=configuration(**settings), store=store) as host:
        yield host


@asynccontextmanager
async def asked(
    session: Session, prompt: object, tools: Sequence[Tool] = TOOLS, **options: Any
) -> AsyncGenerator[Run, None]:
    """A run that was asked this, with its tools resolved and the prompt recorded."""
    async with session.run(prompt, context_window=200_000, **options) as run:
        await run.resolve_tools([tool.copy(execute=echo) for tool in tools])
        if isinstance(prompt, str):
            await run.record({"role": "user", "content": prompt})
        yield run


def names(run: Run) -> list[str]:
    return [tool.name for tool in run.offered]


async def called(run: Run, name: str, arguments: dict[str, Any]) -> str:
    """What a call answers that the model makes in a reply of its own."""
    call = ToolCall(f"c{run.stats['model_calls']}{name}", name, arguments)
    await run.record(get_format("openai-chat").reply("", [call]))
    return (await run.call_tool(call)).text


# Prefetch


async def test_the_tools_nearest_to_the_prompt_stand_after_the_core_tools_and_the_bridge() -> None:
    async with hosted() as host, host.session() as session, asked(session, "Please send an email to Ann") as run:
        assert names(run) == ["read_file", *BRIDGE, "send_email"]
        assert (run.stats["prefetched"], run.stats["prefetched_used"]) == (1, 0)


@pytest.mark.parametrize(
    "prompt",
    [
        "send an email",
        {"role": "user", "content": "send an email"},
        {"role": "user", "content": [{"type": "text", "text": "send an email"}]},
        [{"type": "text", "text": "send an email"}],
        [{"role": "user", "content": "send an email"}, {"role": "assistant", "content": "create an issue"}],
    ],
)
async def test_the_prompt_is_read_in_every_form_that_a_run_is_given(prompt: object) -> None:
    async with hosted() as host, host.session() as session, asked(session, prompt) as run:
        assert names(run)[-1] == "send_email"


async def test_a_run_without_input_is_asked_by_the_last_user_message() -> None:
    async with hosted() as host, host.session() as session:
        async with session.run() as run:
            await run.record({"role": "user", "content": "what is the weather forecast"})
        async with asked(session, None) as run:
            assert names(run)[-1] == "get_forecast"


async def test_a_prompt_of_several_steps_finds_a_tool_for_each() -> None:
    prompt = "Create an issue about the broken door. Then send an email to the landlord."
    async with hosted(prefetch=2) as host, host.session() as session, asked(session, prompt) as run:
        assert set(names(run)[-2:]) == {"create_issue", "send_email"}
    assert steps("One sentence only") == []


@pytest.mark.parametrize("prompt", ["Thanks!", "", None, "   ", {"odd": 1}, [7], 7])
async def test_what_asks_for_nothing_prefetches_nothing(prompt: object) -> None:
    async with hosted() as host, host.session() as session, asked(session, prompt) as run:
        assert names(run) == ["read_file", *BRIDGE]


async def test_zero_switches_it_off() -> None:
    async with hosted(prefetch=0) as host, host.session() as session, asked(session, "send an email") as run:
        assert names(run) == ["read_file", *BRIDGE]


async def test_below_the_threshold_the_catalog_is_offered_as_it_is() -> None:
    async with hosted(enabled="auto") as host, host.session() as session, asked(session, "send an email") as run:
        assert names(run) == [tool.name for tool in run.tools]
        assert run.stats["prefetched"] == 0


HOUSE = [
    *TOOLS,
    make("write_note", "Write a note into the diary.", "notes", text="string"),
    make("get_joke", "Get a joke.", "fun", topic="string"),
    *(make(f"{verb}_{thing}", f"{verb.title()} the {thing}.", "house") for verb in ("clean", "paint") for thing in
      ("kitchen", "cellar", "garage", "attic", "fence", "roof", "porch", "stairs", "gate", "hedge")),
]  # fmt: skip


@pytest.mark.parametrize(
    "prompt",
    [
        "Hello!",
        "Thanks, that is great.",
        "Write a short poem about the sea in autumn.",
        "Could you explain what a closure is, with an example?",
        "Why is the sky blue?",
        "Should I paint with oil or with watercolours as a beginner?",
    ],
)
async def test_a_prompt_that_no_tool_is_for_prefetches_nothing(prompt: str) -> None:
    async with hosted() as host, host.session() as session, asked(session, prompt, HOUSE) as run:
        assert names(run) == ["read_file", *BRIDGE]


@pytest.mark.parametrize(
    ("prompt", "right"),
    [
        ("Write a note into my diary: the cellar is dry.", "write_note"),
        ("Tell me a joke about elephants.", "get_joke"),
        ("How do I clean the garage?", "clean_garage"),
    ],
)
async def test_a_request_for_words_still_prefetches_the_tool_that_it_names(prompt: str, right: str) -> None:
    async with hosted() as host, host.session() as session, asked(session, prompt, HOUSE) as run:
        assert right in names(run)


def test_a_hit_of_a_ranker_that_tells_no_evidence_is_prefetched() -> None:
    class Names:
        def search(self, query: str, limit: int) -> list[Ranked]:
            return [Ranked("told", 1.0, weak=False, evidence=0.1), Ranked("untold", 0.5, weak=False)][:limit]

    assert [hit.name for hit in nearest(Names(), "Why is the sky blue?", 6)] == ["untold"]


async def test_a_tool_that_does_not_fit_the_budget_is_passed_over_for_the_next_smaller_one() -> None:
    large = make("send_email_to_all", "Send an email. " + "x" * 4_000, "gmail")
    tools = [large, SEND_EMAIL]
    async with (
        hosted(prefetch_tokens=200) as host,
        host.session() as session,
        asked(session, "email all", tools) as run,
    ):
        assert names(run) == [*BRIDGE, "send_email"]


@pytest.mark.light(every=5)
@pytest.mark.parametrize("budget", [0, 50, 100, 160, 400])
async def test_the_budget_is_never_exceeded_by_what_is_prefetched_and_revealed_in_a_session(budget: int) -> None:
    async with hosted(prefetch_tokens=budget) as host, host.session() as session:
        for prompt in ("send an email", "create an issue", "weather forecast", "sweep the floor"):
            async with asked(session, prompt) as run:
                await called(run, "tool_search", {"queries": ["sweep the floor", "weather forecast"]})
                await run.prepare_messages()
                beside = run.offered[1 + len(BRIDGE) :]
                assert sum(tool.tokens for tool in beside) <= budget


async def test_while_the_budget_lasts_the_set_grows_and_what_stands_before_stays() -> None:
    before: list[dict[str, Any]] = []
    async with hosted() as host, host.session() as session:
        for prompt in ("send an email", "create an issue", "send an email", "thanks", "what is the weather forecast"):
            async with asked(session, prompt) as run:
                now = run.format.tools(run.offered)
                assert now[: len(before)] == before
                before = now
    assert len(before) == 1 + len(BRIDGE) + 3


BUDGET_OF_TWO = 2 * CREATE_ISSUE.tokens
"""The largest of them twice: never three."""


async def test_each_prompt_brings_its_own_tools_and_what_was_never_called_makes_room() -> None:
    async with hosted(prefetch_tokens=BUDGET_OF_TWO, prefetch=1) as host, host.session() as session:
        shown: list[list[str]] = []
        for prompt in ("send an email", "create an issue", "what is the weather forecast", "thanks"):
            async with asked(session, prompt) as run:
                shown.append(names(run)[1 + len(BRIDGE) :])
    assert shown == [
        ["send_email"], ["send_email", "create_issue"], ["create_issue", "get_forecast"], ["create_issue", "get_forecast"],
    ]  # fmt: skip


async def test_what_was_called_stays_in_its_place() -> None:
    async with hosted(prefetch_tokens=BUDGET_OF_TWO, prefetch=1) as host, host.session() as session:
        for prompt in ("send an email", "create an issue", "what is the weather forecast"):
            async with asked(session, prompt) as run:
                if prompt == "send an email":
                    await called(run, "send_email", {"to": "ann"})
                shown = names(run)[1 + len(BRIDGE) :]
    assert shown == ["send_email", "get_forecast"]


async def test_what_was_called_takes_at_most_half_of_the_budget_when_others_are_wanted() -> None:
    async with hosted(prefetch_tokens=BUDGET_OF_TWO, prefetch=2) as host, host.session() as session:
        for prompt in ("send an email", "create an issue", "what is the weather forecast"):
            async with asked(session, prompt) as run:
                for name, arguments in (("send_email", {"to": "ann"}), ("create_issue", {"title": "late"})):
                    if name in names(run):
                        await called(run, name, arguments)
                shown = names(run)[1 + len(BRIDGE) :]
    assert shown == ["create_issue", "get_forecast"]


@pytest.mark.heavy
async def test_many_prompts_in_one_session_are_offered_what_each_is_in_a_session_of_its_own() -> None:
    tools = [*build_catalog(offered_tokens.tools_of(RETRIEVAL / "livemcp" / "catalog.jsonl"))]
    lines = (RETRIEVAL / "livemcp" / "queries.jsonl").read_text("utf-8").splitlines()
    ranker = Indexes(load_ranker("bm25")).of(tools)
    one_session = PluginState()
    for prompt in [json.loads(line)["query"] for line in lines][:40]:
        fresh, lasting = [
            await Reach(ToolSearch.Config(), state).prefetch(tools, [prompt], lambda: ranker)
            for state in (PluginState(), one_session)
        ]
        assert set(fresh) <= set(lasting)
        assert sum(tool.tokens for tool in tools if tool.name in lasting) <= 2_000


async def test_a_session_that_is_opened_again_shows_what_it_showed() -> None:
    store = MemoryStore()
    shown: list[list[str]] = []
    for prompt in ("send an email", "create an issue"):
        async with hosted(store=store) as host, host.session("s") as session, asked(session, prompt) as run:
            shown.append(names(run))
    assert shown[1] == [*shown[0], "create_issue"]


async def test_resolving_again_in_a_run_changes_nothing() -> None:
    async with hosted() as host, host.session() as session, asked(session, "send an email") as run:
        first = names(run)
        await run.retry()
        assert [tool.name for tool in await run.resolve_tools(TOOLS)] == first


class Fickle:
    """Withholds what its class is told to."""

    away: tuple[str, ...] = ()

    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold | None:
        away = [tool.name for tool in event.tools if tool.name in self.away]
        return Withhold(away, "not now") if away else None


async def test_what_policy_withholds_between_two_attempts_is_gone_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hosted(Fickle) as host, host.session() as session, asked(session, "send an email") as run:
        assert "send_email" in names(run)
        monkeypatch.setattr(Fickle, "away", ("send_email",))
        await run.retry()
        await run.resolve_tools(TOOLS)
        assert names(run) == ["read_file", *BRIDGE]
        await called(run, "tool_search", {"queries": ["send email"]})
        await run.prepare_messages()
        assert "send_email" not in names(run)


async def test_a_pinned_tool_stays_in_its_place_and_takes_nothing_of_the_budget() -> None:
    async with hosted(pinned=["send_email"]) as host, host.session() as session, asked(session, "send an email") as run:
        assert names(run) == ["read_file", "send_email", *BRIDGE]


class Broken:
    """A ranker that fails from inside the plugin, past the guard of foreign rankers."""

    def __init__(self, documents: Sequence[Document]) -> None:
        pass

    def search(self, query: str, limit: int) -> list[Ranked]:
        raise RuntimeError("the index is gone")


async def test_a_search_that_fails_leaves_the_plain_bridge_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Bm25Ranker, "search", Broken.search)
    async with hosted() as host, host.session() as session, asked(session, "send an email") as run:
        assert names(run) == ["read_file", *BRIDGE]
    assert "nothing is prefetched, since the search of the prompt failed" in caplog.text


@pytest.mark.parametrize(
    ("setting", "value", "used"), [("prefetch", -1, 0), ("prefetch", 99, 50), ("prefetch_tokens", 200_000, 100_000)]
)
def test_numbers_out_of_range_are_clamped(
    setting: str, value: int, used: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert getattr(ToolSearch.Config.model_validate({setting: value}), setting) == used
    assert f"{setting} = {value} is out of range, {used} is used" in caplog.text


async def test_the_trace_and_the_observers_tell_what_was_prefetched() -> None:
    places: list[tuple[str, str]] = []
    told: list[Sequence[str]] = []

    class Watch:
        @hooks.trace
        async def watch(self, event: Trace) -> None:
            if event.kind == "tools_resolved":
                places.extend((one["name"], one["place"]) for one in event.record.as_dict()["catalog"])

        @hooks.after_tools_resolved
        async def resolved(self, event: AfterToolsResolved) -> None:
            told.append(event.prefetched)

    async with hosted(Watch) as host, host.session() as session, asked(session, "send an email") as run:
        await called(run, "send_email", {"to": "ann"})
        assert (run.stats["prefetched"], run.stats["prefetched_used"]) == (1, 1)
    assert ("send_email", "prefetched") in places
    assert ("create_issue", "deferred") in places
    assert told == [("send_email",)]


async def test_a_prefetched_tool_can_be_called_in_every_way() -> None:
    async with hosted() as host, host.session() as session, asked(session, "send an email") as run:
        through = {"name": "send_email", "arguments": {"to": "ann"}}
        assert await called(run, "send_email", {"to": "ann"}) == await called(run, "tool_call", through)
        assert "send_email" in await called(run, "tool_describe", {"names": ["send_email"]})


# Reveal


async def test_what_a_search_found_well_is_offered_from_the_next_model_call_on() -> None:
    async with hosted() as host, host.session() as session, asked(session, "hello") as run:
        before = names(run)
        await called(run, "tool_search", {"queries": ["send email"]})
        assert names(run) == before
        await run.prepare_messages()
        assert names(run) == [*before, "send_email"]
        assert (run.stats["revealed"], run.stats["revealed_used"]) == (1, 0)
        await called(run, "send_email", {"to": "ann"})
        assert run.stats["revealed_used"] == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("create_issue", {"title": "x"}),
        ("create_issue", {}),
        ("tool_call", {"name": "create_issue", "arguments": {"title": "x"}}),
    ],
)
async def test_what_a_call_used_while_it_was_hidden_is_offered_from_the_next_model_call_on(
    name: str, arguments: dict[str, Any]
) -> None:
    async with hosted() as host, host.session() as session, asked(session, "hello") as run:
        await called(run, name, arguments)
        await run.prepare_messages()
        assert names(run)[-1] == "create_issue"


async def test_weak_hits_are_never_revealed() -> None:
    async with hosted() as host, host.session() as session, asked(session, "hello") as run:
        before = names(run)
        assert '"weak"' in await called(run, "tool_search", {"queries": ["translate zebra email"]})
        await run.prepare_messages()
        assert names(run) == before


async def test_off_reveals_nothing() -> None:
    async with hosted(reveal="off") as host, host.session() as session, asked(session, "hello") as run:
        before = names(run)
        await called(run, "tool_search", {"queries": ["send email"]})
        await run.prepare_messages()
        assert names(run) == before


async def test_what_was_revealed_stays_through_a_retry_and_in_later_runs() -> None:
    async with hosted() as host, host.session() as session:
        async with asked(session, "hello") as run:
            await called(run, "tool_search", {"queries": ["send email"]})
            await run.prepare_messages()
            shown = names(run)
            await run.retry()
            await run.resolve_tools(TOOLS)
            assert names(run) == shown
        async with asked(session, "thanks") as run:
            assert names(run) == shown


async def test_what_does_not_fit_the_budget_is_not_revealed_and_the_bridge_still_calls_it() -> None:
    large = filler("bulk", 3_000)
    async with hosted() as host, host.session() as session, asked(session, "hello", [large, SEND_EMAIL]) as run:
        before = names(run)
        assert "ran with" in await called(run, "tool_call", {"name": "bulk", "arguments": {}})
        await run.prepare_messages()
        assert names(run) == before


async def test_of_many_tools_that_take_a_made_up_names_arguments_those_are_named_that_the_prompt_means() -> None:
    verbs = ("wash", "paint", "carry", "weigh", "hide", "mend")
    tools = [make(f"{verb}_thing", f"{verb} a thing.", "house", required=["thing"], thing="string") for verb in verbs]
    async with hosted(prefetch=0) as host, host.session() as session, asked(session, "Please weigh it.", tools) as run:
        answer = await called(run, "do_it", {"thing": "the box"})
    assert answer.split("\n")[1].startswith("- weigh_thing(thing: string)")
