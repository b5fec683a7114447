"""The 20-tool scenarios: what tool search costs and saves, with a scripted model over HTTP.

The client of OpenAI's SDK is made for asyncio, so these run on it alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest
from pages import table

from builtin_plugins.tool_search.rankers import Document, Ranked
from hooksdk import hooks
from hooksdk.hooks import Replace, TransformToolResult
from hooksdk.testing import Call, call, open_session
from hooksdk.testing import play as play_model
from tests.measured import DATA

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]

pytest.importorskip("openai", reason="the scenarios run over the SDK of OpenAI: they need the extra `openai`")

sys.path.append(str(ROOT / "benchmarks"))
scenarios = import_module("scenarios")
scenario_model = import_module("_scenario_model")
scenario_tools = import_module("_scenario_tools")
offered_tokens = import_module("offered_tokens")

CODE = pytest.param("code", marks=pytest.mark.skipif(not find_spec("pydantic_monty"), reason="needs the extra `code`"))
SEARCHING = ["tools", CODE]
SIZES = [20, 547]
IDS = "ABCDE"
TOLD: dict[str, Any] = {
    one["id"][0]: one for one in json.loads((DATA / "scenarios_20_tools.json").read_text())["scenarios"]
}


@cache
def record_of(scenario: str, mode: str, size: int) -> Any:
    """What came of the run, which is played once."""
    return anyio.run(scenarios.play, TOLD[scenario], mode, size > 20)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["off", *SEARCHING])
@pytest.mark.parametrize("scenario", IDS)
def test_a_scenario_passes(scenario: str, mode: str, size: int):
    assert record_of(scenario, mode, size).problems == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", SEARCHING)
@pytest.mark.parametrize("scenario", IDS)
def test_search_takes_at_most_one_turn_more(scenario: str, mode: str, size: int):
    more = record_of(scenario, mode, size).turns - record_of(scenario, "off", size).turns
    assert more <= (0 if scenario == "E" else 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scenario", IDS)
def test_prefetch_takes_no_turn_more_and_passes(scenario: str, size: int):
    record = record_of(scenario, "prefetch", size)
    assert record.problems == []
    assert record.turns == record_of(scenario, "off", size).turns


@pytest.mark.parametrize("mode", SEARCHING)
@pytest.mark.parametrize("scenario", IDS)
def test_search_over_547_tools_takes_fewer_tokens_than_showing_them(scenario: str, mode: str):
    direct, searched = (record_of(scenario, each, 547) for each in ("off", mode))
    assert sum(searched.prompt_tokens) + searched.output_tokens < sum(direct.prompt_tokens) / 20
    assert searched.cached_price < direct.cached_price
    assert searched.warm_price < direct.warm_price


@pytest.mark.parametrize("mode", SEARCHING)
def test_schemas_shown_do_not_grow_with_the_catalog(mode: str):
    few, many = (record_of("A", mode, size).schema_tokens[0] for size in SIZES)
    assert many < 1.2 * few


@pytest.mark.parametrize("mode", SEARCHING)
def test_policies_see_the_tools_and_the_search_but_never_the_call_of_the_bridge(mode: str):
    search = "tool_search" if mode == "tools" else "tool_search_code"
    assert record_of("A", mode, 20).hooks_saw == sorted(["github_create_issue", search])


@pytest.mark.parametrize("mode", SEARCHING)
def test_a_core_tool_is_called_directly_while_the_other_is_looked_for(mode: str):
    replies = [one for one in record_of("D", mode, 20).messages if one["role"] == "assistant"]
    first, *others = [call["function"]["name"] for call in replies[0]["tool_calls"]]
    assert (first, len(others)) == ("read_file", 1)


@pytest.mark.parametrize("ranker", ["bm25", "rank-bm25"])
def test_a_probe_finds_its_tool_first_among_20_and_among_the_first_five_of_547(ranker: str):
    if ranker == "rank-bm25":
        pytest.importorskip("rank_bm25", reason="needs the extra `rank-bm25`")
    few, many = (scenarios.probe(ranker, around)["ranks"].values() for around in (False, True))
    assert set(few) == {1}
    assert all(rank is not None and rank <= 5 for rank in many)


ALL_MODES = [*scenarios.MODES]
needs_code = pytest.mark.skipif(
    not find_spec("pydantic_monty"), reason="the tables have code mode: needs the extra `code`"
)


@needs_code
@pytest.mark.parametrize("size", SIZES)
def test_the_page_says_what_each_scenario_takes_today(size: int):
    """Turns, calls and output are the same at both sizes."""
    records = [record_of(scenario, mode, size) for scenario in IDS for mode in ALL_MODES]
    assert all(record.passed for record in records)
    assert table("benchmarks.md", "scenario", "turns") == [row[1:] for row in scenarios.turn_rows(records)]
    told = [row for row in table("benchmarks.md", "tools", "scenario", *ALL_MODES) if row[0] == str(size)]
    assert told == [*scenarios.prompt_rows(records)]


@needs_code
@pytest.mark.parametrize("size", SIZES)
def test_the_page_says_what_each_mode_takes_today(size: int):
    told = [row for row in table("benchmarks.md", "tools", "mode") if row[0] == str(size)]
    records = [record_of(scenario, mode, size) for scenario in IDS for mode in ALL_MODES]
    assert told == [*scenarios.mode_rows(records)]


@pytest.mark.parametrize("ranker", ["bm25", "rank-bm25"])
def test_the_page_says_where_the_probes_are_found_today(ranker: str):
    if ranker == "rank-bm25":
        pytest.importorskip("rank_bm25", reason="needs the extra `rank-bm25`")
    told = [row for row in table("benchmarks.md", "ranker", "tools") if row[0] == ranker]
    assert told == [scenarios.probe_row(scenarios.probe(ranker, around)) for around in (False, True)]


# The harness itself: what is wrong with the search must show.


class Unrelated:
    """Finds the weather, whatever is looked for; what one scenario needs, only by the word that it is told."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.names = {document.name: document.id for document in documents}

    def search(self, query: str, limit: int) -> list[Ranked]:
        name = "evt_create" if "calendar" in query else "weather_get"
        return [Ranked(self.names[name], 1.0, weak=False)]


@pytest.mark.parametrize("written", [["--mode", "off", "code"], ["--mode", "off", "--mode", "code"]])
def test_several_modes_are_given_together_or_one_by_one(written: list[str]):
    assert scenarios.read_options(written).mode == ["off", "code"]


def test_the_model_knows_no_tool_by_name():
    source = (ROOT / "benchmarks" / "_scenario_model.py").read_text()
    known = [tool.name for tool in scenario_tools.deferrable_tools(False)]
    assert len(known) == 20
    assert [name for name in known if name in source] == []


def test_a_ranking_that_finds_the_wrong_tool_fails_the_scenario():
    record = anyio.run(partial(scenarios.play, TOLD["A"], "tools", False, ranker=f"{__name__}:Unrelated"))
    assert record.underlying_calls == []
    assert record.bridge_calls == ["tool_search", "tool_describe"]
    assert record.messages[-1]["content"] == "I found no tool to file a GitHub issue."
    assert not record.passed


def test_a_tool_that_only_the_third_query_finds_costs_two_more_searches():
    record = anyio.run(partial(scenarios.play, TOLD["B"], "tools", False, ranker=f"{__name__}:Unrelated"))
    assert record.passed
    assert record.bridge_calls == ["tool_search"] * 3 + ["tool_call"]
    assert record.turns == 5


CREATE = "github_create_issue"
BUG = {"title": "Crash on startup", "body": "App crashes immediately after launch when offline."}


@pytest.mark.parametrize(
    ("scenario", "calls", "problem"),
    [
        (
            "A",
            [call("create_github_issue", repo="acme/widget", **BUG)],
            "called ['create_github_issue'], which do not exist",
        ),
        (
            "A",
            [call("tool_call", name="read_file", arguments={"path": "a"})],
            "called ['read_file'] through the bridge",
        ),
        ("A", [call("tool_call", name=CREATE, arguments={"repo": "acme/gadget", **BUG})], f"{CREATE} got repo wrong"),
        ("A", [call(CREATE, repo="acme/widget", **BUG)] * 2, f"called {[CREATE] * 2}, not {[CREATE]}"),
        ("E", [call("tool_search", queries=["multiply"])], "used the bridge where no tool was needed"),
    ],
    ids=[
        "a made-up name",
        "a core tool through the bridge",
        "a wrong argument",
        "a call made twice",
        "a needless search",
    ],
)
def test_a_model_that_errs_does_not_pass(
    scenario: str, calls: list[Call], problem: str, monkeypatch: pytest.MonkeyPatch
):
    def script(prompt: str, plan: object) -> list[Call | str]:
        return [*calls, "I am done: 56."]

    monkeypatch.setattr(scenarios, "scripted_agent", script)
    assert problem in anyio.run(scenarios.play, TOLD[scenario], "tools", False).problems


class NoSignatures:
    """Takes the signatures out of what a search finds."""

    @hooks.transform_tool_result(tools="plugin:tool_search:tool_search")
    def strip(self, event: TransformToolResult) -> Replace:
        told = json.loads(event.result.text)
        for group in told["results"]:
            group["hits"] = [{"name": hit["name"], "description": hit["description"]} for hit in group["hits"]]
        return Replace(json.dumps(told))


def test_a_tool_without_a_signature_is_described_before_it_is_called():
    async def played() -> list[str]:
        tools = scenario_tools.deferrable_tools(False)
        agent = scenario_model.scripted_agent(TOLD["A"]["prompt"], scenario_model.plan_of(TOLD["A"]))
        config = {"plugins": {"tool_search": {"config": {"enabled": "on", "reveal": "off"}}}}
        async with open_session("tool_search", NoSignatures, tools=tools, config=config) as session:
            return [one.call.name for one in (await play_model(session, agent)).calls]

    assert anyio.run(played) == ["tool_search", "tool_describe", "github_create_issue"]


def test_what_is_kept_of_a_transcript_holds_no_text_of_it(tmp_path: Path):
    scenarios.keep([record_of(scenario, "tools", 20) for scenario in IDS], tmp_path)
    texts = [path.read_text() for path in tmp_path.iterdir()]
    assert len(texts) == len(IDS)
    for secret in ("acme", "Crash", "Design review", "Hello from", "#engineering"):
        assert not any(secret in text for text in texts)


@pytest.mark.parametrize("mode", SEARCHING)
def test_the_bridge_costs_the_same_for_20_tools_and_for_4076(mode: str):
    large = DATA / "retrieval" / "sealtools" / "catalog.jsonl"
    catalogs = {"20": offered_tokens.scenario_tools(), "4,076": offered_tokens.tools_of(large)}
    few, many = (anyio.run(offered_tokens.measure, name, tools) for name, tools in catalogs.items())
    assert many["direct"] > 300 * few["direct"]
    assert many["with_search"][mode] < 1.3 * few["with_search"][mode]
    assert few["auto"] == {"32000": False, "200000": False}
    assert many["auto"] == {"32000": True, "200000": True}
