"""What the built-in ranking weighs: purpose, owner, kinds, a house's own terms, and what was learned from use."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from builtin_plugins.tool_search import ToolSearch
from builtin_plugins.tool_search._ranking.indexes import Indexes
from builtin_plugins.tool_search._ranking.learned import LIFT, MAX_TOOLS, MAX_WORDS, Learning, Memory, lifted, words_of
from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, Ranked
from hooksdk.config import ProjectSettings
from tests.builtin_plugins.searching import CATALOG, GET_FORECAST, SEND_EMAIL, make, searching

pytestmark = pytest.mark.anyio


def document(name: str, description: str = "", owner: str = "", **more: Any) -> Document:
    return Document(
        id=name, name=name, description=description, parameters=more.pop("parameters", None), owner=owner, **more
    )


def first(query: str, *documents: Document) -> str:
    return Bm25Ranker(documents).search(query, 1)[0].id


GIT = [
    document("git_status", "Shows the working tree status", "git"),
    document("git_commit", "Records changes to the repository", "git"),
    document("git_log", "Shows the commit logs", "git"),
    document("git_show", "Shows the contents of a commit", "git"),
    document("git_add", "Adds file contents to the staging area", "git"),
]
ZONE = {"type": "string", "description": "IANA timezone name (such as 'America/New_York')"}
CLOCK = [
    document(
        "get_current_time", "Get current time in a specific timezones", "time",
        parameters={"properties": {"timezone": ZONE}},
    ),
    document(
        "convert_time", "Convert time between timezones", "time",
        parameters={"properties": {"source_timezone": ZONE, "time": {"type": "string"}, "target_timezone": ZONE}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("git commit history", "git_log"),
        ("what time is it in Tokyo", "get_current_time"),
        ("convert 3pm from London to Tokyo", "convert_time"),
        ("commit my changes", "git_commit"),
    ],
)
def test_a_query_that_asks_to_know_finds_the_tool_that_tells(query: str, right: str) -> None:
    assert first(query, *GIT, *CLOCK) == right


def test_annotations_say_more_of_a_tool_than_the_verb_in_its_name() -> None:
    told = document("set_of_invoices", "The invoices", read_only=True)
    other = document("a_invoices_set", "The invoices")
    assert first("invoices please", other, told) == "set_of_invoices"


def test_of_equal_tools_the_one_is_first_whose_owner_fits_the_query_better() -> None:
    def track(owner: str) -> Document:
        return Document(id=f"{owner}:track", name="track", description="Follow it.", parameters=None, owner=owner)

    tools = [track("bank"), document("loans", "Lend money.", "bank"), track("shop"), document("parcels", "", "shop")]
    assert [hit.id for hit in Bm25Ranker(tools).search("track parcels", 4)][1:] == ["shop:track", "bank:track"]


def test_a_thing_finds_the_tools_for_things_of_its_kind() -> None:
    assert (
        first("how much is a dollar in francs", document("currency_rates"), document("weather_map")) == "currency_rates"
    )


QUERIES = ["git commit history", "what time is it", "show the repository, then record changes", "stage a file"]


@pytest.mark.parametrize("query", QUERIES)
def test_equal_catalogs_rank_equal_whatever_the_order_of_their_tools(query: str) -> None:
    twins = [document("twin_b", "Shows a commit"), document("twin_a", "Shows a commit")]
    tools = [*GIT, *CLOCK, *twins]
    expected = Bm25Ranker(tools).search(query, 9)
    for seed in range(20):
        shuffled = random.Random(seed).sample(tools, len(tools))
        found = Bm25Ranker(shuffled).search(query, 9)
        assert [hit.id for hit in found] == [hit.id for hit in expected]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])


# A house's own terms

HOUSE = {"pager": ["incident", "on-call"]}
ON_CALL = [make("list_incidents", "Open incidents.", "ops"), make("list_pages", "Pages of a wiki.", "wiki")]


async def test_a_house_s_own_term_finds_the_tools_that_use_another_word() -> None:
    async with searching(ON_CALL, vocabulary=HOUSE) as stage:
        assert (await stage.hits("pager"))[0] == "list_incidents"


@pytest.mark.parametrize(
    ("name", "text"),
    [("terms.json", json.dumps(HOUSE)), ("terms.toml", 'pager = ["incident", "on-call"]')],
)
def test_a_vocabulary_is_read_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert ToolSearch.Config.model_validate({"vocabulary": str(tmp_path / name)}).vocabulary == HOUSE


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("no/such/file.json", "no/such/file.json: the vocabulary cannot be read"),
        (["pager"], "expected a table of terms such as"),
        ({"pager": "incident"}, "'pager' must be a list of words"),
        ({"pager": [1]}, "'pager' must be a list of words"),
        ({"rolling stock": ["train"]}, "'rolling stock' must be one word"),
        ({"pager": ["x"] * 51}, "'pager' may have 50 words"),
        ({f"w{'x' * (n % 30)}a{n}q": ["b"] for n in range(2001)}, "2,001 terms are too many"),
    ],
)
def test_a_wrong_vocabulary_is_refused_with_what_is_wrong(value: object, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ToolSearch.Config.model_validate({"vocabulary": value})
    assert told in str(refused.value)


@pytest.mark.parametrize(("suffix", "kind"), [("json", "JSON"), ("toml", "TOML")])
def test_a_vocabulary_that_cannot_be_parsed_is_named_with_its_file(tmp_path: Path, suffix: str, kind: str) -> None:
    path = tmp_path / f"terms.{suffix}"
    path.write_text("{bad", "utf-8")
    with pytest.raises(ValidationError, match=f"this is no valid {kind}"):
        ToolSearch.Config.model_validate({"vocabulary": str(path)})


@pytest.mark.parametrize(
    ("value", "trusted", "missing"),
    [
        ("terms.json", False, []),
        ("../terms.json", False, ["vocabulary"]),
        ("/terms.json", False, ["vocabulary"]),
        ("../terms.json", True, []),
        (HOUSE, False, []),
    ],
)
def test_a_project_without_trust_brings_no_words_from_outside_its_folder(
    tmp_path: Path, value: object, trusted: bool, missing: list[str]
) -> None:
    project = ProjectSettings(values={"vocabulary": value}, trusted=trusted, folder=tmp_path)
    assert ToolSearch.Config.with_project({}, project)[1] == missing


def test_a_project_without_trust_does_not_have_us_keep_what_was_searched(tmp_path: Path) -> None:
    project = ProjectSettings(values={"learn": True}, trusted=False, folder=tmp_path)
    assert ToolSearch.Config.with_project({}, project) == ({}, ["learn"])


# Learned from use


class Values:
    """A plugin's storage in a dict, which a test may damage."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def get(self, key: str, default: Any = None) -> Any:
        return json.loads(json.dumps(self.kept.get(key, default)))

    async def set(self, key: str, value: Any) -> None:
        self.kept[key] = value

    async def delete(self, key: str) -> None:
        self.kept.pop(key, None)

    async def keys(self) -> Sequence[str]:
        return sorted(self.kept)

    async def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        self.kept[key] = change(await self.get(key))
        return self.kept[key]

    async def now(self) -> float:
        return 0.0


async def remembering(values: Values, day: float = 0.0) -> Memory:
    memory = Memory(lambda: day)
    await memory.load(values)
    return memory


TWINS = [make("a_report", "Send numbers.", "a"), make("b_report", "Send numbers.", "b")]


async def test_what_was_called_after_a_search_is_first_when_it_is_searched_again() -> None:
    async with searching(TWINS, learn=True) as stage:
        assert await stage.hits("quarterly numbers") == ["a_report", "b_report"]
        await stage.call("tool_call", {"name": "b_report", "arguments": {}})
        await stage.observed()
        assert await stage.hits("the numbers, quarterly") == ["b_report", "a_report"]


async def test_without_learn_nothing_is_kept_and_nothing_moves() -> None:
    async with searching(TWINS) as stage:
        await stage.hits("quarterly numbers")
        await stage.call("tool_call", {"name": "b_report", "arguments": {}})
        await stage.observed()
        assert await stage.hits("quarterly numbers") == ["a_report", "b_report"]


async def test_what_was_learned_survives_a_restart_and_two_processes_add_to_it() -> None:
    values = Values()
    one, two = await remembering(values), await remembering(values)
    await one.note(values, "mcp:a:x", ["alpha"])
    await two.note(values, "mcp:a:x", ["beta"])
    later = await remembering(values)
    assert later.strengths(["alpha"])["mcp:a:x"] > 0
    assert later.strengths(["beta"])["mcp:a:x"] > 0


async def test_no_word_is_kept_as_it_is_written_and_none_with_a_digit_at_all() -> None:
    values = Values()
    memory = await remembering(values)
    words = words_of("reset the password hunter2 4711 for ingrid")
    await memory.note(values, "mcp:a:reset", words)
    kept = json.dumps(values.kept)
    assert not any(word in kept for word in ("password", "hunter", "4711", "ingrid"))
    assert len(values.kept["used:mcp:a:reset"]) == len(words) == 4


async def test_what_was_learned_fades_by_half_in_thirty_days() -> None:
    values = Values()
    await (await remembering(values)).note(values, "t", ["alpha"])
    strength = [(await remembering(values, day)).strengths(["alpha"])["t"] for day in (0.0, 30.0, 300.0)]
    assert strength == pytest.approx([1 / 1.5, 0.5 / 1.0, 0.5**10 / (0.5**10 + 0.5)])


async def test_a_damaged_memory_is_told_once_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    values = Values()
    await (await remembering(values)).note(values, "good", ["alpha"])
    values.kept |= {"used:bad": "text", "used:worse": {"x": [1]}, "used:mad": {"x": [float("1e9"), 0]}}
    memory = await remembering(values)
    assert set(memory.strengths(["alpha"])) == {"good"}
    assert len([record for record in caplog.records if "damaged" in record.message]) == 1


async def test_the_memory_keeps_a_bounded_number_of_tools_and_words() -> None:
    values = Values()
    memory = await remembering(values)
    for number in range(MAX_TOOLS + 5):
        await memory.note(values, f"t{number:04}", ["alpha"])
    await memory.note(values, "t0100", [f"w{number}" for number in range(200)])
    assert len([key for key in values.kept if key.startswith("used:")]) == MAX_TOOLS
    assert len(values.kept["used:t0100"]) == MAX_WORDS


@pytest.mark.parametrize("seed", range(30))
def test_a_lift_moves_no_tool_over_one_that_is_better_by_more_than_its_bound(seed: int) -> None:
    rng = random.Random(seed)
    scores = {f"t{number}": rng.uniform(0, 5) for number in range(12)}
    strengths = {f"t{number}": rng.uniform(0, 40) for number in rng.sample(range(15), 6)}
    hits = [Ranked(name, score, weak=False) for name, score in sorted(scores.items(), key=lambda one: -one[1])]
    places = {hit.id: place for place, hit in enumerate(lifted(hits, strengths))}
    bound = LIFT * hits[0].score
    better = [(one, two) for one, two in permutations(places, 2) if scores.get(one, 0.0) > scores.get(two, 0.0) + bound]
    assert better
    assert all(places[one] < places[two] for one, two in better)


async def test_a_poisoned_memory_shows_no_tool_that_is_not_in_the_catalog() -> None:
    values = Values()
    memory = await remembering(values)
    for tool in (GET_FORECAST, SEND_EMAIL):
        await memory.note(values, tool.id, words_of("open an issue"))
    granted = [tool for tool in CATALOG if tool is not GET_FORECAST]
    hits = Learning(Indexes(Bm25Ranker), memory, learns=True).of(granted).search("open an issue", 10)
    assert [hit.id for hit in hits] == ["create_issue", "send_email"]
