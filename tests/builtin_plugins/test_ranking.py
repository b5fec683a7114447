import importlib.util
import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from builtin_plugins.tool_search._ranking.entries import entries
from builtin_plugins.tool_search._ranking.words import split_words, stem
from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, Ranker
from tests.measured import RETRIEVAL

ROOT = Path(__file__).resolve().parents[2]


def tool(
    name: str,
    description: str = "",
    *,
    parameters: Mapping[str, Any] | None = None,
    owner: str = "",
    key: str | None = None,
    fingerprint: str = "",
) -> Document:
    return Document(
        id=name if key is None else key,
        name=name,
        description=description,
        parameters=parameters,
        owner=owner,
        fingerprint=fingerprint,
    )


def found(ranker: Ranker, query: str, limit: int = 5) -> list[str]:
    return [hit.id for hit in ranker.search(query, limit)]


OFFICE = [
    tool("create_issue", "Open a new issue in a repository.", owner="github"),
    tool("list_pull_requests", "List the pull requests of a repository.", owner="github"),
    tool("send_email", "Send an email to one or several people.", owner="mail"),
    tool("read_file", "Read a text file from disk.", owner="files"),
    tool("delete_file", "Remove a file from disk for good.", owner="files"),
    tool("getWeatherForecast", "Weather of the coming days in a city.", owner="weather"),
    tool("http_fetch", "Download a web page.", owner="web"),
    tool("run_query", "Run SQL against the database.", owner="postgres"),
]


@pytest.fixture(scope="module")
def office() -> Bm25Ranker:
    return Bm25Ranker(OFFICE)


def test_an_empty_catalog_answers_nothing():
    assert Bm25Ranker([]).search("anything at all", 5) == []


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_small_catalog_finds_a_word_that_every_tool_has(size: int):
    ranker = Bm25Ranker([tool(f"file_{n}", "Works with a file.") for n in range(size)])
    hits = ranker.search("file", 5)
    assert [hit.id for hit in hits] == [f"file_{n}" for n in range(size)]
    assert all(hit.score > 0 for hit in hits)


def test_a_catalog_of_two_tools_tells_them_apart():
    ranker = Bm25Ranker([tool("read_file", "Read a file."), tool("write_file", "Write a file.")])
    assert found(ranker, "write something to a file")[0] == "write_file"
    assert found(ranker, "read file")[0] == "read_file"


@pytest.mark.parametrize("size", [1, 2])
def test_a_right_answer_in_a_tiny_catalog_is_not_weak(size: int):
    ranker = Bm25Ranker(OFFICE[2 : 2 + size])
    first = ranker.search("send mail tomorrow", 5)[0]
    assert (first.id, first.weak) == ("send_email", False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("createPullRequest", ["create", "pull", "request"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("snake_case-and.dots/slashes", ["snake", "case", "dots", "slashes"]),
        ("list_URLs", ["list", "urls"]),
        ("convert mp3 in s3", ["convert", "mp3", "s3"]),
        ("base64Encode", ["base", "64", "encode"]),
        ("Café à Zürich, Straße", ["cafe", "zurich", "strasse"]),
        ("查询天气", ["查", "询", "天", "气"]),
        ("погода завтра", ["погода", "завтра"]),
        ("don't give me the", []),
    ],
)
def test_text_is_split_into_words(text: str, words: list[str]):
    assert split_words(text) == words


@pytest.mark.parametrize("query", ["weather forecast", "WeatherForecast", "weather-forecasts", "WEATHER FORECASTING"])
def test_words_match_in_every_spelling_of_an_identifier(office: Bm25Ranker, query: str):
    assert found(office, query)[0] == "getWeatherForecast"


def test_chinese_text_is_searched_by_characters():
    ranker = Bm25Ranker([tool("a", "使用必应搜索网页"), tool("b", "查询城市的天气")])
    assert found(ranker, "今天的天气")[0] == "b"


def test_accents_do_not_matter():
    ranker = Bm25Ranker([tool("menu", "Reads the café menu."), tool("other", "Something else.")])
    assert found(ranker, "cafe") == ["menu"]
    assert found(Bm25Ranker([tool("menu", "Reads the cafe menu.")]), "CAFÉ") == ["menu"]


def test_a_synonym_finds_a_tool_below_the_word_itself():
    ranker = Bm25Ranker([tool("erase_entry"), tool("delete_entry"), tool("show_entry")])
    assert found(ranker, "delete entry")[:2] == ["delete_entry", "erase_entry"]


def test_a_short_form_finds_the_long_one_and_the_other_way_round():
    assert found(Bm25Ranker([tool("open_repository"), tool("noise")]), "repo") == ["open_repository"]
    assert found(Bm25Ranker([tool("open_repo"), tool("noise")]), "repository") == ["open_repo"]


def test_initials_find_the_phrase_and_the_other_way_round(office: Bm25Ranker):
    assert found(office, "review a PR")[0] == "list_pull_requests"
    assert found(Bm25Ranker([tool("merge_pr"), tool("noise")]), "pull request")[0] == "merge_pr"


@pytest.mark.parametrize("query", ["wheather forcast", "weatherforecast", "wether forecst"])
def test_misspelt_and_joined_words_are_repaired(office: Bm25Ranker, query: str):
    assert found(office, query)[0] == "getWeatherForecast"


def test_split_words_find_the_joined_one():
    ranker = Bm25Ranker([tool("add_webhook"), tool("web_page"), tool("hook_page")])
    assert found(ranker, "add web hook")[0] == "add_webhook"


def test_the_exact_name_comes_first_in_every_spelling():
    many = [tool(f"search_{n}", "search search search", owner="search") for n in range(20)]
    ranker = Bm25Ranker([*many, tool("search", "Nothing of note."), tool("createIssue", owner="github")])
    assert found(ranker, "search")[0] == "search"
    assert found(ranker, "  Search ")[0] == "search"
    for query in ("createIssue", "create_issue", "CREATE-ISSUE", "github.create_issue", "github__createIssue"):
        hit = ranker.search(query, 1)[0]
        assert (hit.id, hit.weak) == ("createIssue", False)


def test_a_name_of_stop_words_is_found_by_its_name():
    assert found(Bm25Ranker([tool("get_all"), tool("put_all")]), "get all") == ["get_all"]


def test_a_word_counts_more_in_the_name_than_in_the_rest():
    ranker = Bm25Ranker([tool("b", "An invoice is made."), tool("invoice", "Makes one.")])
    assert found(ranker, "an invoice please") == ["invoice", "b"]


def test_neighbouring_words_count_more_than_the_same_words_apart():
    ranker = Bm25Ranker([tool("a", "stock of the house and its price"), tool("b", "house of the stock price index")])
    assert found(ranker, "stock price")[0] == "b"


def test_a_repeated_word_counts_once(office: Bm25Ranker):
    assert office.search("weather file", 5) == office.search("weather file file file file", 5)


def test_two_forms_of_a_misspelt_word_count_once(office: Bm25Ranker):
    once, twice = (office.search(query, 1)[0] for query in ("forecaster", "forecaster forecasters"))
    assert (once.id, twice.id) == ("getWeatherForecast", "getWeatherForecast")
    assert twice.score == pytest.approx(once.score)


def test_quoted_text_counts_less_than_the_request_around_it(office: Bm25Ranker):
    assert found(office, 'send email saying "the weather forecast"')[0] == "send_email"


def test_every_clause_of_a_long_request_finds_its_tool(office: Bm25Ranker):
    query = "Read the file from disk. Then send an email to the people. Finally run a query on the database."
    assert {"read_file", "send_email", "run_query"} <= set(found(office, query, 3))


def test_a_whole_sentence_works(office: Bm25Ranker):
    hit = office.search("I would like you to please tell me what the weather in Oslo will be like tomorrow", 1)[0]
    assert (hit.id, hit.weak) == ("getWeatherForecast", False)


def test_equal_tools_come_in_the_order_of_their_ids():
    names = [f"t{n:02}" for n in range(50)]
    ranker = Bm25Ranker([tool("same", "The same text.", key=name) for name in reversed(names)])
    assert found(ranker, "text", 7) == names[:7]
    assert found(ranker, "same", 50) == names


def test_a_limit_below_one_answers_nothing(office: Bm25Ranker):
    assert office.search("file", 0) == []
    assert len(office.search("file", 1)) == 1


@pytest.mark.heavy
def test_eight_threads_stem_as_one_does():
    words = [f"{root}{number}{end}" for number in range(500) for root in ("walk", "nation") for end in ("ing", "s")]
    english: Any = import_module("Stemmer").Stemmer("english")
    stems: list[str] = english.stemWords(words)
    stem.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(stem, words * 8)) == stems * 8


@pytest.mark.parametrize("query", ["", "   ", "the of and", "please give me all of it", "?!...", "\n\t\x00"])
def test_a_query_without_content_answers_nothing(office: Bm25Ranker, query: str):
    assert office.search(query, 5) == []


@pytest.mark.parametrize("query", ["turn down the thermostat", "book flight", "translate text to French"])
def test_an_absent_capability_is_empty_or_weak(office: Bm25Ranker, query: str):
    assert all(hit.weak for hit in office.search(query, 5))


@pytest.mark.parametrize(
    "query",
    ["read file", "email the team", "weather", "delete a file", "issue on github", "database query", "web page"],
)
def test_a_right_answer_is_not_weak(office: Bm25Ranker, query: str):
    assert not office.search(query, 1)[0].weak


def test_one_missing_capability_makes_the_hits_of_a_longer_query_weak_unless_they_have_another_one_in_their_name():
    ranker = Bm25Ranker(
        [
            tool("print_page", "Print a page."),
            *(
                tool(f"{verb}_container", f"{verb.title()} a container.")
                for verb in ("create", *(f"verb{n}" for n in range(9)))
            ),
            *(tool(f"tool{n}", f"Filler word{n}.") for n in range(99)),
        ]
    )
    assert ranker.search("postgres container", 1)[0].weak
    hits = ranker.search("spin up a postgres container and print lines", 20)
    assert {hit.id for hit in hits if hit.weak} == {"print_page"}


def test_a_tool_that_returns_a_report_is_weak_where_a_bug_is_to_be_reported():
    footnotes = "Validate all footnotes in a document.\nReturns a detailed report on ID conflicts and missing styles."
    others = [tool(f"tool{n}", f"Filler word{n}.") for n in range(40)]
    (hit,) = Bm25Ranker([tool("validate_document_footnotes", footnotes), *others]).search("report a bug", 5)
    assert (hit.id, hit.weak) == ("validate_document_footnotes", True)


def test_a_short_form_that_no_tool_has_is_not_read_as_words_that_stand_apart():
    others = [
        *(tool(f"send_{thing}", f"Send a {thing}.") for thing in ("message", "parcel", "fax", "crate", "signal")),
        tool("split_text", "Split a text."),
        *(tool(f"tool{n}") for n in range(99)),
    ]
    assert "split_text" not in found(Bm25Ranker(others), "send sms")
    together = Bm25Ranker([*others, tool("push", "Send a text message to a phone.")])
    assert "push" in found(together, "send sms")


def test_what_speaks_for_a_hit_does_not_shrink_with_the_length_of_the_query():
    ranker = Bm25Ranker([tool("mow_lawn", "Mow the lawn."), *(tool(f"tool{n}", f"Filler word{n}.") for n in range(99))])
    short, long = (
        ranker.search(query, 1)[0].evidence
        for query in ("mow lawn now", "mow lawn before uncle Oscar comes home on Friday")
    )
    assert short is not None
    assert short == long


def test_the_tool_of_an_exact_name_and_those_of_a_tiny_catalog_have_no_evidence(office: Bm25Ranker):
    ranker = Bm25Ranker([tool("mow_lawn", "Mow the lawn."), *(tool(f"tool{n}") for n in range(99))])
    assert ranker.search("mow_lawn", 1)[0].evidence is None
    assert office.search("issue on github", 1)[0].evidence is None


def test_a_hit_that_hardly_has_a_word_of_a_short_query_is_weak():
    filler = [tool(f"tool{n}", f"Filler word{n}.") for n in range(300)]
    schema = {"properties": {"x": {"description": "something about a piano and many other things " * 3}}}
    ranker = Bm25Ranker([*filler, tool("odd", parameters=schema)])
    assert [hit.weak for hit in ranker.search("grand piano tuning", 5)] == [True]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"marzipan": {"type": "string"}}},
        {"properties": {"x": {"description": "Amount of marzipan"}}},
        {"properties": {"x": {"enum": ["nougat", "marzipan"]}}},
        {"properties": {"x": {"type": "array", "items": {"properties": {"marzipan": {}}}}}},
        {"properties": {"x": {"anyOf": [{"type": "null"}, {"description": "marzipan"}]}}},
        {"$defs": {"Cake": {"properties": {"marzipan": {}}}}, "properties": {"x": {"$ref": "#/$defs/Cake"}}},
    ],
)
def test_every_part_of_a_schema_is_searched(schema: dict[str, Any]):
    assert found(Bm25Ranker([tool("a"), tool("b", parameters=schema)]), "marzipan") == ["b"]


def test_a_schema_nested_a_thousand_deep_is_indexed_near_its_root():
    schema: dict[str, Any] = {"description": "bottom"}
    for level in range(1000):
        schema = {"properties": {f"level{level}": schema}}
    ranker = Bm25Ranker([tool("deep", parameters=schema), tool("other")])
    assert found(ranker, "level 999") == ["deep"]
    assert found(ranker, "bottom") == []


def test_a_schema_that_holds_itself_is_indexed():
    schema: dict[str, Any] = {"description": "round"}
    schema["properties"] = {"again": schema}
    assert found(Bm25Ranker([tool("loop", parameters=schema)]), "round again") == ["loop"]


def test_of_a_huge_tool_only_the_beginning_is_indexed():
    wide = {f"parameter{n}": {"description": "long text " * 500, "enum": ["x" * 500] * 1000} for n in range(5_000)}
    huge = tool("wide", "d " * 1_000_000, parameters={"properties": wide})
    assert found(Bm25Ranker([huge]), "parameter") == ["wide"]
    assert len(entries.of(huge).text.split()) < 20_000


@pytest.mark.parametrize("odd", [None, 5, ["a"], {"a": 1}, b"bytes", float("nan")])
def test_odd_values_do_not_raise(odd: Any):
    schema = {"description": odd, "enum": odd, "properties": {"x": odd, 7: {"enum": [odd], "items": odd}}, "anyOf": odd}
    bad = Document(id="bad", name=odd, description=odd, parameters=schema, owner=odd)
    worse = Document(id="worse", name="fine", description="works", parameters=odd, owner=odd)
    assert found(Bm25Ranker([bad, worse]), "works fine") == ["worse"]


@pytest.mark.parametrize("query", ["\ud800 file", "file " + "\u0301" * 50, "🗂 file", "ﬁle", "file\u202e"])
def test_odd_unicode_does_not_raise(office: Bm25Ranker, query: str):
    assert "read_file" in found(office, query)


def test_of_a_query_of_a_megabyte_only_the_beginning_is_read(office: Bm25Ranker):
    long = "read the file " + "weather and issues " * 60_000
    assert office.search(long, 5) == office.search(long[:512], 5)


VERBS, THINGS = ("open", "close", "read", "write"), "abcdefgh"
QUERIES = [f"{verb} {thing}" for verb in ("open", "shut", "raed", "writing") for thing in THINGS]


@pytest.mark.heavy
def test_eight_threads_with_500_searches_each_see_what_one_sees():
    tools = [tool(f"{a}_{b}", f"Can {a} any {b}.") for a in VERBS for b in THINGS]
    queries = [QUERIES[n % len(QUERIES)] for n in range(8 * 500)]
    alone = {query: Bm25Ranker(tools).search(query, 10) for query in QUERIES}
    shared = Bm25Ranker(tools)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shared.search, queries, [10] * len(queries))) == [alone[query] for query in queries]


def test_earlier_queries_do_not_change_an_answer(office: Bm25Ranker):
    fresh = Bm25Ranker(OFFICE)
    for query in ("web hooks", "web hook", "file reading", "reading files"):
        assert Bm25Ranker(OFFICE).search(query, 5) == fresh.search(query, 5) == office.search(query, 5)


def test_a_tool_with_a_known_fingerprint_is_not_split_again():
    Bm25Ranker(
        [tool("kept", "Known text.", fingerprint="test-kept"), tool("left", "Old text.", fingerprint="test-old")]
    )
    again = [tool("kept", "Not read.", fingerprint="test-kept"), tool("left", "Changed.", fingerprint="test-new")]
    ranker = Bm25Ranker(again)
    assert found(ranker, "known") == ["kept"]
    assert found(ranker, "changed") == ["left"]
    assert found(ranker, "old") == []


def test_a_tool_of_another_owner_is_indexed_under_its_own_owner():
    Bm25Ranker([tool("search", owner="github", fingerprint="test-owner")])
    ranker = Bm25Ranker([tool("search", owner="gitlab", fingerprint="test-owner")])
    assert found(ranker, "gitlab") == ["search"]


def test_a_query_over_a_thousand_tools_takes_about_a_millisecond():
    subjects = [f"subject{n}" for n in range(100)]
    tools = [
        tool(f"{verb}_{subject}", f"Can {verb} one {subject} of the account.", owner=f"server{n % 7}")
        for n, subject in enumerate(subjects)
        for verb in ("create", "delete", "list", "update", "search", "export", "share", "lock", "copy", "move")
    ]
    start = time.process_time()
    ranker = Bm25Ranker(tools)
    assert (time.process_time() - start) / len(tools) < 0.002
    start = time.process_time()
    for subject in subjects:
        assert found(ranker, f"remove the {subject}")[0] == f"delete_{subject}"
    assert (time.process_time() - start) / len(subjects) < 0.010


def load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.heavy
def test_recall_stays_above_the_floor_on_a_sample_of_the_sets():
    scorer, adapter = (load(ROOT / "benchmarks" / f"{name}.py", name) for name in ("_scorer", "ranker"))
    recalls: list[float] = []
    for name in ("metatool", "bfcl_apis", "nestful", "livemcp"):
        catalog, queries = scorer.load(RETRIEVAL, name, 60)
        recalls.append(scorer.evaluate(adapter.rank, catalog, queries)[""])
    assert sum(recalls) / len(recalls) >= 0.68


def test_absent_capabilities_are_told_from_present_ones():
    folder = RETRIEVAL / "livemcp"
    catalog, queries = [
        [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
        for name in ("catalog.jsonl", "model_queries.jsonl")
    ]
    strict = load(ROOT / "benchmarks" / "ranker.py", "ranker").rank_strict(catalog)
    empty = {
        kind: [not strict(q["query"], 5) for q in queries if (q["kind"] == "absent") is kind] for kind in (True, False)
    }
    assert sum(empty[True]) / len(empty[True]) >= 0.4
    assert sum(empty[False]) / len(empty[False]) <= 0.04
