"""The rankers to choose from, how the configuration names them, and rank-bm25 as the oracle of our own."""

from __future__ import annotations

import logging
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from searching import CATALOG, searching

from builtin_plugins.tool_search._nearest import nearest
from builtin_plugins.tool_search._ranking import postings as weights
from builtin_plugins.tool_search._ranking.indexes import Indexes
from builtin_plugins.tool_search._ranking.words import stem
from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, RankBm25Ranker, Ranked, Ranker, load_ranker
from hooksdk import Tool
from hooksdk.errors import ConfigError


def tool(name: str, description: str = "", **more: Any) -> Document:
    given: dict[str, Any] = {"id": name, "parameters": None, "owner": "", **more}
    return Document(name=name, description=description, **given)


def found(ranker: Ranker, query: str, limit: int = 5) -> list[str]:
    return [hit.id for hit in ranker.search(query, limit)]


# The oracle

WORDS = [
    "zorbak",
    "quintex",
    "blirp",
    "vaskun",
    "droom",
    "felkat",
    "mirdon",
    "plooth",
    "yarvek",
    "snubik",
    "grathon",
    "welpik",
]
"""Invented, so that they have no synonyms and no short forms; they are their own stems, and no two make a third."""


def oracle(documents: Sequence[Sequence[str]], query: Sequence[str], k1: float, b: float) -> list[float]:
    """What rank-bm25 scores each document, with the idf log(1 + (N - df + 0.5) / (df + 0.5)) in place of its own."""
    index: Any = import_module("rank_bm25").BM25Okapi(documents, k1=k1, b=b)
    frequencies = Counter(word for words in documents for word in set(words))
    size = len(documents)
    index.idf = {word: math.log(1 + (size - df + 0.5) / (df + 0.5)) for word, df in frequencies.items()}
    return index.get_scores(query).tolist()


@pytest.mark.heavy
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_one_field_without_pairs_and_synonyms_scores_and_orders_as_bm25_does(data: st.DataObject) -> None:
    """Each word of a random document is an enum value of its own: one field, no word next to another, so no pairs.

    In a single field of weight w, ours is idf * x / (x + k1) with x = w * tf / (1 - b + b * length / mean), which is
    BM25 with k1 / w for k1 and without its constant factor k1 + 1: so w is 1 once k1 is divided. Compared are the tools
    found (those that share a word), the score of each, and the order wherever the scores of two differ.
    """
    assert all(stem(word) == word for word in WORDS)
    texts = data.draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), min_size=1, max_size=25))
    present = sorted({word for text in texts for word in text})
    query = data.draw(st.lists(st.sampled_from(present), min_size=1, max_size=6, unique=True))
    k1, b = weights.K1 / weights.WEIGHTS[5], weights.LENGTHS[5]

    documents = [tool("", id=str(number), parameters={"enum": text}) for number, text in enumerate(texts)]
    hits = Bm25Ranker(documents).search(" ".join(query), len(texts))
    expected = oracle(texts, query, k1, b)

    assert {hit.id for hit in hits} == {str(number) for number, score in enumerate(expected) if score > 0}
    # From a quarter of the best score on, a tool without an owner gains a fifth of its own, as one whose owner's tools all
    # fit does of theirs.
    scores = [expected[int(hit.id)] for hit in hits]
    gained = [score * (1.2 if score >= 0.25 * max(expected) else 1) for score in scores]
    assert [hit.score * (k1 + 1) for hit in hits] == pytest.approx(gained, rel=1e-6)
    assert all(above >= below * (1 - 1e-6) for above, below in pairwise(scores))


# rank-bm25 as a ranker


def test_rank_bm25_finds_a_word_that_every_tool_of_a_small_catalog_has() -> None:
    for size in (1, 2, 3):
        hits = RankBm25Ranker([tool(f"file_{n}", "Works with a file.") for n in range(size)]).search("file", 5)
        assert [hit.id for hit in hits] == [f"file_{n}" for n in range(size)]
        assert all(hit.score > 0 for hit in hits)


def test_rank_bm25_tells_two_tools_apart() -> None:
    ranker = RankBm25Ranker([tool("read_file", "Read a file."), tool("write_file", "Write a file.")])
    assert found(ranker, "write something to a file") == ["write_file", "read_file"]
    assert found(ranker, "read") == ["read_file"]


@pytest.mark.parametrize("documents", [[], [tool("")], [tool("the", "of and")]])
def test_rank_bm25_answers_nothing_where_the_catalog_has_no_words(documents: list[Document]) -> None:
    assert RankBm25Ranker(documents).search("anything at all", 5) == []


@pytest.mark.parametrize("query", ["", "the of and", "zzz"])
def test_rank_bm25_answers_nothing_to_a_query_that_shares_no_word(query: str) -> None:
    assert RankBm25Ranker([tool("read_file")]).search(query, 5) == []


def test_rank_bm25_keeps_the_order_of_equal_tools_and_the_limit() -> None:
    names = [f"t{n}" for n in range(30)]
    ranker = RankBm25Ranker([tool("same", "The same text.", id=name) for name in names])
    assert found(ranker, "text", 7) == names[:7]
    assert found(ranker, "text", 0) == []


def test_rank_bm25_counts_a_word_more_in_the_name_than_in_the_rest() -> None:
    ranker = RankBm25Ranker([tool("b", "An invoice is made."), tool("invoice", "Makes one."), tool("c")])
    assert found(ranker, "invoices") == ["invoice", "b"]


def test_rank_bm25_marks_a_hit_weak_that_has_hardly_a_word_of_a_short_query() -> None:
    ranker = RankBm25Ranker([*(tool(f"tool{n}", f"Filler word{n}.") for n in range(50)), tool("play_piano")])
    assert [hit.weak for hit in ranker.search("thermostat readings piano", 5)] == [True]
    assert [hit.weak for hit in ranker.search("play piano", 5)] == [False]


# Keeping them


class Counting:
    """A user's ranker that writes down what it was given."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.given = [document.id for document in documents]

    def search(self, query: str, limit: int) -> list[Ranked]:
        return []


def catalog(count: int, owner: str = "o", **descriptions: str) -> list[Tool]:
    """Tools named t0, t1 and so on."""
    return [
        Tool(name=f"t{n}", description=descriptions.get(f"t{n}", "Same."), source="mcp", owner=owner)
        for n in range(count)
    ]


def test_an_equal_catalog_is_ranked_by_the_ranker_that_is_there() -> None:
    indexes = Indexes(Counting)
    assert indexes.of(catalog(5)) is indexes.of(catalog(5))


def test_the_built_in_ranker_finds_the_new_words_of_a_changed_catalog() -> None:
    indexes = Indexes(Bm25Ranker)
    assert found(indexes.of(catalog(20)), "marzipan") == []
    assert found(indexes.of(catalog(20, t3="Makes marzipan.")), "marzipan") == ["t3"]
    assert found(indexes.of(catalog(20)), "marzipan") == []
    assert found(indexes.of(catalog(20)), "other") == []


class Schema(dict[str, Any]):
    """Counts how often it is read."""

    reads = 0

    def items(self) -> Any:
        self.reads += 1
        return super().items()


def test_of_a_changed_catalog_only_the_changed_tools_are_split_again() -> None:
    def document(number: int, description: str) -> tuple[Document, Schema]:
        schema = Schema(type="object")
        fingerprint = f"test-split-{number}-{description}"
        return tool(f"t{number}", description, parameters=schema, fingerprint=fingerprint), schema

    Bm25Ranker([document(number, "Same.")[0] for number in range(20)])
    again = [document(number, "Other." if number == 3 else "Same.") for number in range(20)]
    ranker = Bm25Ranker([one for one, _ in again])
    assert found(ranker, "other") == ["t3"]
    assert [number for number, (_, schema) in enumerate(again) if schema.reads] == [3]


def test_many_small_catalogs_in_turn_are_each_indexed_once() -> None:
    indexes = Indexes(Counting)
    catalogs = [catalog(3, f"owner{n}") for n in range(100)]
    made = [indexes.of(tools) for tools in catalogs]
    assert [indexes.of(tools) for tools in catalogs] == made


def test_large_catalogs_are_kept_up_to_so_many_tools_in_all() -> None:
    indexes = Indexes(Counting, max_tools=6_000)
    catalogs = [catalog(1_000, f"owner{n}") for n in range(7)]
    made = [indexes.of(tools) for tools in catalogs]
    assert [indexes.of(tools) for tools in catalogs[1:]] == made[1:]
    assert indexes.of(catalogs[0]) is not made[0]


def test_the_catalog_that_was_asked_for_longest_ago_goes_first() -> None:
    indexes = Indexes(Counting, max_tools=6_000)
    catalogs = [catalog(1_000, f"owner{n}") for n in range(7)]
    made = [indexes.of(tools) for tools in catalogs[:6]]
    indexes.of(catalogs[0])
    indexes.of(catalogs[6])
    assert indexes.of(catalogs[0]) is made[0]
    assert indexes.of(catalogs[1]) is not made[1]


def test_a_few_catalogs_are_kept_however_large_they_are() -> None:
    indexes = Indexes(Counting, max_tools=100)
    catalogs = [catalog(1_000, f"owner{n}") for n in range(4)]
    made = [indexes.of(tools) for tools in catalogs]
    assert [indexes.of(tools) for tools in catalogs] == made


def test_threads_that_ask_for_catalogs_in_turn_each_get_the_ranker_of_theirs() -> None:
    indexes = Indexes(Counting, max_tools=3_000)
    catalogs = [[Tool(name=f"tool{n}", source="mcp", owner="o")] for n in range(10)]

    def ask(first: int) -> list[list[str]]:
        numbers = [(first + step) % 10 for step in range(200)]
        return [[f"tool{n}", *cast("Counting", indexes.of(catalogs[n])).given] for n in numbers]

    with ThreadPoolExecutor(8) as threads:
        answers = [pair for asked in threads.map(ask, range(8)) for pair in asked]
    assert len(answers) == 1_600
    assert all(wanted == given for wanted, given in answers)


# Choosing one


class Backwards:
    """A user's ranker: every tool, the last one first, and one that is not there."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._ids = [document.id for document in documents]

    def search(self, query: str, limit: int) -> list[Ranked]:
        return [Ranked(name, 1.0, weak=False) for name in ["invented", *reversed(self._ids)]][:limit]


class ByParameter:
    """A user's ranker that reads the schemas."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._known = {document.id: set((document.parameters or {}).get("properties", {})) for document in documents}

    def search(self, query: str, limit: int) -> list[Ranked]:
        return [Ranked(name, 1.0, weak=False) for name, names in self._known.items() if query in names][:limit]


NOT_A_FACTORY = 7


def test_the_built_in_names_stand_for_the_built_in_rankers() -> None:
    assert load_ranker("bm25") is Bm25Ranker
    assert load_ranker("rank-bm25") is RankBm25Ranker


@pytest.mark.anyio
@pytest.mark.parametrize("ranker", ["bm25", "rank-bm25"])
async def test_the_configured_ranker_answers_the_search(ranker: str) -> None:
    async with searching(ranker=ranker) as played:
        assert await played.hits("send an email") == ["send_email"]


@pytest.mark.anyio
async def test_a_ranker_of_ones_own_is_named_by_its_path_and_what_it_invents_is_left_out() -> None:
    async with searching(ranker=f"{__name__}:Backwards") as played:
        catalog = [one.name for one in CATALOG if one.name != "read_file"]
        assert sorted(await played.hits("anything")) == sorted(catalog)


@pytest.mark.anyio
async def test_a_ranker_of_ones_own_reads_the_schemas_of_the_tools() -> None:
    async with searching(ranker=f"{__name__}:ByParameter") as played:
        assert await played.hits("city") == ["get_forecast"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("ranker", "told"),
    [
        ("bm52", "'rank-bm25' or 'package.module:factory'. Did you mean 'bm25'"),
        ("rank_bm25", "Did you mean 'rank-bm25'"),
        ("no_such_package_at_all:make", "'no_such_package_at_all' cannot be imported"),
        (f"{__name__}:Backward", "has no 'Backward'. Did you mean 'Backwards'"),
        (f"{__name__}:NOT_A_FACTORY", "is a int, not a factory"),
        (":make", "is no ranker"),
    ],
)
async def test_a_ranker_that_cannot_be_had_is_a_configuration_error_at_the_start(ranker: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        async with searching(ranker=ranker):
            pass
    assert "'ranker':" in str(refused.value)
    assert told in str(refused.value)


@pytest.mark.anyio
async def test_a_missing_package_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rank_bm25", None)  # how Python itself marks a module that cannot be imported
    with pytest.raises(ConfigError, match=r"pip install 'hooksdk\[rank-bm25\]'"):
        async with searching(ranker="rank-bm25"):
            pass


# Rankers of one's own that fail


class Own:
    """A user's ranker that finds every tool, in the order of the catalog."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.ids = [document.id for document in documents]

    def search(self, query: str, limit: int) -> Any:
        return [Ranked(name, 1.0, weak=False) for name in self.ids][:limit]


class RaisesAtFirst(Own):
    def __init__(self, documents: Sequence[Document]) -> None:
        raise RuntimeError("the index is gone")


class RaisesInSearch(Own):
    def search(self, query: str, limit: int) -> Any:
        raise RuntimeError(f"no vector for {query}")


class Exits(Own):
    def search(self, query: str, limit: int) -> Any:
        sys.exit("no model")


class AnswersPairs(Own):
    def search(self, query: str, limit: int) -> Any:
        return [(name, 1.0) for name in self.ids]


class AnswersNothing(Own):
    def search(self, query: str, limit: int) -> Any:
        return None


class AnswersText(Own):
    def search(self, query: str, limit: int) -> Any:
        return "create_issue"


class AnswersStrangeIds(Own):
    def search(self, query: str, limit: int) -> Any:
        return [Ranked(cast("str", [name]), 1.0, weak=False) for name in self.ids]


class FailsHalfway(Own):
    def search(self, query: str, limit: int) -> Any:
        yield Ranked("send_email", 1.0, weak=False)
        raise RuntimeError("the connection was closed")


class TakesNoLimit(Own):
    def search(self, query: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] (the fault to be tested)
        return []


def makes_none(documents: Sequence[Document]) -> None:
    return None


def makes_a_number(documents: Sequence[Document]) -> int:
    return len(documents)


def takes_nothing() -> Own:
    return Own([])


FAULTS = [
    ("RaisesAtFirst", "the factory raised RuntimeError"),
    ("makes_none", "the factory answered None, not an object with search(query, limit)"),
    ("makes_a_number", "the factory answered a int, not an object with search(query, limit)"),
    ("takes_nothing", "the factory raised TypeError"),
    ("RaisesInSearch", "search raised RuntimeError"),
    ("Exits", "search raised SystemExit"),
    ("FailsHalfway", "search raised RuntimeError"),
    ("TakesNoLimit", "search raised TypeError"),
    ("AnswersNothing", "search answered None, not a list of Ranked"),
    ("AnswersPairs", "search answered a list with a tuple in it, not a list of Ranked"),
    ("AnswersText", "search answered a str with a str in it, not a list of Ranked"),
    ("AnswersStrangeIds", "search answered a Ranked whose id is a list, not a str"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("ranker", "problem"), FAULTS)
async def test_where_a_ranker_of_ones_own_fails_the_built_in_one_answers_and_the_log_says_so_once(
    ranker: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with searching(ranker=f"{__name__}:{ranker}") as played:
        assert await played.hits("send an email") == ["send_email"]
        assert await played.hits("weather in a city") == ["get_forecast"]
    told = f"tool_search: the ranker '{__name__}:{ranker}' failed, so bm25 answers in its place (told once): {problem}"
    assert warnings_in(caplog) == [told]


def shown(ranker: Ranker, prompt: str) -> list[str]:
    """What prefetch would show."""
    return [hit.name for hit in nearest(ranker, prompt, 6)]


class TellsNoEvidence(Own):
    """Finds every tool for every query, by whatever it is that such a ranker knows."""


class TellsSome(Own):
    def search(self, query: str, limit: int) -> Any:
        return [Ranked(self.ids[0], 2.0, weak=False, evidence=0.9), Ranked(self.ids[1], 1.0, weak=False)][:limit]


def many() -> list[Document]:
    return [tool("send_email", "Send an email."), *(tool(f"t{number}", "Count sheep.") for number in range(30))]


def test_the_hits_of_a_ranker_that_tells_no_evidence_have_that_of_the_words() -> None:
    ranker = load_ranker(f"{__name__}:TellsNoEvidence")(many())
    by_words = {hit.id: hit.evidence for hit in Bm25Ranker(many()).search("send an email", 40)}
    assert {hit.id: hit.evidence for hit in ranker.search("send an email", 40)} == {
        one.id: by_words.get(one.id, 0.0) for one in many()
    }
    assert shown(ranker, "send an email") == ["send_email"]
    assert shown(ranker, "thanks, that is great") == []


def test_evidence_that_a_ranker_tells_stays_as_it_is() -> None:
    ranker = load_ranker(f"{__name__}:TellsSome")(many())
    assert [hit.evidence for hit in ranker.search("thanks", 5)] == [0.9, 0.0]
    assert shown(ranker, "thanks") == ["send_email"]


def test_in_a_catalog_of_a_few_tools_nobody_tells_evidence() -> None:
    few = many()[:5]
    for name in ("rank-bm25", f"{__name__}:TellsNoEvidence"):
        assert {hit.evidence for hit in load_ranker(name)(few).search("send an email", 5)} == {None}


def test_the_exact_name_of_a_tool_needs_no_evidence() -> None:
    ranker = load_ranker(f"{__name__}:TellsNoEvidence")(many())
    assert ranker.search("send_email", 1)[0].evidence is None


def test_rank_bm25_tells_evidence_so_that_thanks_shows_nothing() -> None:
    ranker = load_ranker("rank-bm25")(many())
    (hit,) = ranker.search("send an email", 5)
    assert hit.evidence is not None
    assert 0.37 < hit.evidence < 2
    assert shown(ranker, "send an email") == ["send_email"]
    assert shown(ranker, "thanks, that is great, but count on me") == []


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.anyio
async def test_the_log_holds_what_a_ranker_of_ones_own_raised_and_where(caplog: pytest.LogCaptureFixture) -> None:
    async with searching(ranker=f"{__name__}:RaisesAtFirst") as played:
        await played.hits("send an email")
    assert "RuntimeError: the index is gone" in caplog.text
    assert f'"{__file__}"' in caplog.text


class Moody(Own):
    """Fails for some queries, in more than one way."""

    def search(self, query: str, limit: int) -> Any:
        if "email" in query:
            raise KeyError(query)
        return None if "weather" in query else super().search(query, limit)


def test_each_kind_of_failure_is_told_once_and_other_queries_have_the_rankers_own_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ranker = load_ranker(f"{__name__}:Moody")([tool("get_forecast", "Weather."), tool("send_email")])
    for _ in range(3):
        assert found(ranker, "send an email") == ["send_email"]
        assert found(ranker, "weather") == ["get_forecast"]
        assert found(ranker, "anything") == ["get_forecast", "send_email"]
    assert [one.rpartition(": ")[2] for one in warnings_in(caplog)] == [
        "search raised KeyError",
        "search answered None, not a list of Ranked",
    ]


class Endless(Own):
    """Answers one hit after the other, each of them twice."""

    def search(self, query: str, limit: int) -> Iterator[Ranked]:
        while True:
            for name in self.ids:
                yield Ranked(name, 1.0, weak=False)
                yield Ranked(name, 0.5, weak=True)


def test_of_more_hits_than_were_asked_for_the_first_are_taken_each_tool_once(caplog: pytest.LogCaptureFixture) -> None:
    ranker = load_ranker(f"{__name__}:Endless")([tool("a"), tool("b"), tool("c")])
    assert [(hit.id, hit.weak) for hit in ranker.search("any", 4)] == [("a", False), ("b", False)]
    assert ranker.search("any", 0) == []
    assert warnings_in(caplog) == []


class TakesTheDocuments(Own):
    """Empties the list that it is given, and fails."""

    def __init__(self, documents: Sequence[Document]) -> None:
        cast("list[Document]", documents).clear()
        raise RuntimeError("emptied")


def test_the_built_in_ranker_that_stands_in_finds_the_new_words_of_a_changed_catalog() -> None:
    indexes = Indexes(load_ranker(f"{__name__}:RaisesInSearch"))
    assert found(indexes.of(catalog(20)), "marzipan") == []
    assert found(indexes.of(catalog(20, t3="Makes marzipan.")), "marzipan") == ["t3"]


def test_the_built_in_ranker_stands_in_for_one_that_changed_the_list_of_documents() -> None:
    assert found(load_ranker(f"{__name__}:TakesTheDocuments")([tool("send_email")]), "email") == ["send_email"]
