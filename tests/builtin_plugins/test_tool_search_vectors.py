"""Ranking by words and by what a function of texts to vectors says that they mean: `ranker = "embeddings:module:function"`."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest

from builtin_plugins.tool_search import ToolSearch
from builtin_plugins.tool_search._nearest import nearest
from builtin_plugins.tool_search._ranking.meaning import BATCH
from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, EmbeddedRanker, Ranker, Vectors, load_ranker
from hooksdk import Tool
from hooksdk.stores.memory import MemoryStore
from hooksdk.testing import open_host
from tests.builtin_plugins.searching import BRIDGE, Search, configuration, make
from tests.stage import playing

pytest.importorskip("numpy", reason="hooksdk[embeddings] is not installed")
pytestmark = pytest.mark.anyio

HOMES, POST = ("listings", "live", "flat"), ("email", "letter")


class Model:
    """Knows what homes and what post are, and notes what it was asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.may_answer = threading.Event()
        """What the function waits for once so many batches were made."""
        self.batches = 1_000
        self.turned = False
        self.fails = False

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        if len(texts) > 1:
            self.batches -= 1
            if self.batches < 0:
                self.may_answer.wait(20)
        if self.fails:
            raise ConnectionError("nobody listens")
        return [self._vector(text.lower()) for text in texts]

    def _vector(self, text: str) -> list[float]:
        homes, post = any(word in text for word in HOMES), any(word in text for word in POST)
        vector = [1.0 if homes else 0.0, 1.0 if post else 0.0, 0.5]
        return vector[::-1] if self.turned else vector

    @property
    def tools(self) -> list[str]:
        """The texts of tools that it was asked for."""
        return [text for text in self.texts if text.startswith("demo")]


model = Model()
PLACE = f"{__name__}:model"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    global model
    model = Model()
    yield
    model.may_answer.set()


def tools(count: int) -> list[Tool]:
    """One that finds homes, and others."""
    others = [make(f"other_{number}", f"Count the {number} weeks.", "demo") for number in range(count - 1)]
    return [make("search_listings", "Find houses to rent.", "demo"), *others]


def documents(count: int) -> list[Document]:
    return [
        Document(id=one.name, name=one.name, description=one.description, parameters=None, owner="demo")
        for one in tools(count)
    ]


@asynccontextmanager
async def embedding(catalog: Sequence[Tool], store: MemoryStore | None = None) -> AsyncGenerator[Search, None]:
    config = configuration(enabled="on", ranker=f"embeddings:{PLACE}")
    async with playing(tools=catalog, config=config, store=store) as stage:
        yield Search(stage.host, stage.session, stage.run)


async def kept(store: MemoryStore) -> set[str]:
    """The tools whose vectors are kept."""
    keys = [key for key in await store.list_keys("tool_search") if key.startswith("vectors:")]
    values = [await store.get_value("tool_search", key) for key in keys]
    return {str(name) for value in values for name in cast("dict[str, Any]", value).get("rows", ())}


async def until_kept(store: MemoryStore, count: int) -> None:
    """Wait until the background has kept so many vectors; the test fails where it never does."""
    with anyio.fail_after(120):
        while len(await kept(store)) != count:
            await anyio.sleep(0.01)


def shown(ranker: Ranker, prompt: str) -> list[str]:
    """What prefetch would show."""
    return [hit.name for hit in nearest(ranker, prompt, 6)]


def test_a_function_that_is_named_ranks_by_meaning_and_what_it_alone_finds_is_weak() -> None:
    ranker = load_ranker(f"embeddings:{PLACE}")(documents(30))
    assert Bm25Ranker(documents(30)).search("somewhere to live", 3) == []
    hit, *_ = ranker.search("somewhere to live", 3)
    assert (hit.id, hit.weak, hit.evidence) == ("search_listings", True, 0.0)
    assert shown(ranker, "somewhere to live") == []


def test_words_bring_their_evidence_whatever_the_meaning_adds() -> None:
    ranker = load_ranker(f"embeddings:{PLACE}")(documents(30))
    (alone,) = Bm25Ranker(documents(30)).search("find houses", 1)
    hit, *_ = ranker.search("find houses", 3)
    assert (hit.id, hit.weak, hit.evidence) == ("search_listings", False, alone.evidence)
    assert shown(ranker, "find houses") == ["search_listings"]
    assert shown(ranker, "thanks, that is great") == []


def test_an_object_with_the_methods_of_langchains_embeddings_tells_queries_and_tools_apart() -> None:
    class Asymmetric:
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[1.0, 0.0] if "listings" in text else [0.0, 1.0] for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return [1.0, 0.0] if text == "a roof" else [0.0, 1.0]

    for value in (Asymmetric(), Asymmetric):
        vectors = Vectors("a", value)
        vectors.make(documents(3))
        assert EmbeddedRanker(documents(3), vectors).search("a roof", 1)[0].id == "search_listings"


@pytest.mark.both_loops
async def test_until_all_vectors_of_a_catalog_are_made_the_words_rank_alone_and_no_run_waits() -> None:
    model.batches = 0
    store = MemoryStore()
    async with embedding(tools(3 * BATCH), store) as stage:
        assert await stage.hits("somewhere to live") == []
        assert await stage.hits("find houses") == ["search_listings"]
        model.may_answer.set()
        await until_kept(store, 3 * BATCH)
        assert (await stage.hits("somewhere to live"))[0] == "search_listings"
    assert len(model.tools) == 3 * BATCH


@pytest.mark.both_loops
async def test_vectors_are_kept_so_that_the_next_process_asks_for_none_and_its_first_search_has_them() -> None:
    store = MemoryStore()
    catalog = tools(2 * BATCH)
    async with embedding(catalog, store):
        await until_kept(store, 2 * BATCH)
    model.texts.clear()
    async with embedding(catalog, store) as stage:
        assert (await stage.hits("somewhere to live"))[0] == "search_listings"
    assert model.tools == []


@pytest.mark.both_loops
async def test_of_a_changed_catalog_only_the_new_tools_are_asked_for_and_a_few_are_made_by_the_search() -> None:
    store = MemoryStore()
    async with embedding(tools(2 * BATCH), store):
        await until_kept(store, 2 * BATCH)
    model.texts.clear()
    model.batches = 0  # a batch would wait: one tool is asked for alone
    async with embedding([*tools(2 * BATCH), make("mail_it", "Put it into the box.", "demo")], store) as stage:
        assert (await stage.hits("somewhere to live"))[0] == "search_listings"
    assert set(model.tools) == {"demo mail: Put it into the box."}


@pytest.mark.both_loops
async def test_what_a_search_made_is_kept_with_the_next_run() -> None:
    store = MemoryStore()
    config = configuration(enabled="on", ranker=f"embeddings:{PLACE}")
    async with open_host("tool_search", config=config, store=store) as host:
        for _ in range(2):
            async with host.session() as session, session.run("somewhere to live") as run:
                await run.resolve_tools(tools(3))
        await until_kept(store, 3)


@pytest.mark.both_loops
async def test_a_host_that_closes_while_vectors_are_made_keeps_those_that_it_has() -> None:
    store = MemoryStore()
    model.batches = 1
    async with embedding(tools(3 * BATCH), store) as stage:
        assert stage.offered == BRIDGE
        with anyio.fail_after(120):
            while len(model.tools) <= BATCH:  # the second batch is begun
                await anyio.sleep(0.01)
    assert len(await kept(store)) == BATCH
    model.may_answer.set()
    model.texts.clear()
    async with embedding(tools(3 * BATCH), store):
        await until_kept(store, 3 * BATCH)
    assert len(model.tools) == 2 * BATCH


@pytest.mark.parametrize("damage", ["another model", "no object", "no numbers", "nothing in it"])
async def test_what_was_kept_by_another_model_or_is_damaged_is_made_anew(damage: str) -> None:
    store = MemoryStore()
    catalog = tools(2 * BATCH)
    async with embedding(catalog, store):
        await until_kept(store, 2 * BATCH)
    if damage == "another model":
        model.turned = True
    else:
        values: dict[str, Any] = {
            "no object": {"rows": [1]},
            "no numbers": {"probe": "AAAA", "rows": {"a": 5}},
            "nothing in it": {},
        }
        for key in await store.list_keys("tool_search"):
            await store.set_value("tool_search", key, values[damage])
    model.texts.clear()
    async with embedding(catalog, store) as stage:
        with anyio.fail_after(120):
            while len(model.tools) < 2 * BATCH:
                await anyio.sleep(0.01)
        await until_kept(store, 2 * BATCH)
        assert (await stage.hits("somewhere to live"))[0] == "search_listings"
    assert len(model.tools) == 2 * BATCH


@pytest.mark.both_loops
async def test_where_the_function_fails_the_words_rank_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model.fails = True
    async with embedding(tools(3)) as stage:
        assert await stage.hits("find houses") == ["search_listings"]
        assert await stage.hits("rent houses") == ["search_listings"]
        model.fails = False
        assert (await stage.hits("somewhere to live"))[0] == "search_listings"
    lines = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert lines == [f"tool_search: {PLACE} gives no vectors (ConnectionError), so words alone rank (told once)"]


@pytest.mark.parametrize(
    "answer",
    [
        None, [], [[1.0]], [1.0, 2.0, 3.0], [["a"], ["b"], ["c"]], [[float("nan")]] * 3, [[1.0], [1.0, 2.0], [1.0]], {},
    ],
)  # fmt: skip
def test_an_answer_that_is_no_vector_for_each_text_counts_as_a_failure(answer: Any) -> None:
    vectors = Vectors("f", lambda _texts: answer)  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]
    assert not vectors.make(documents(3))
    assert [hit.id for hit in EmbeddedRanker(documents(3), vectors).search("find houses", 3)] == ["search_listings"]


def test_vectors_of_different_lengths_are_not_compared() -> None:
    vectors = Vectors("f", lambda texts: [[1.0] * (2 + len(texts))] * len(texts))  # pyright: ignore
    vectors.make(documents(3))
    assert [hit.id for hit in EmbeddedRanker(documents(3), vectors).search("find houses", 3)] == ["search_listings"]


@pytest.mark.both_loops
async def test_a_host_closes_while_vectors_are_being_made() -> None:
    model.batches = 0
    with anyio.fail_after(120):
        async with embedding(tools(2 * BATCH)) as stage:
            assert stage.offered == BRIDGE


def test_nothing_is_found_in_an_empty_catalog_or_for_no_hits() -> None:
    assert load_ranker(f"embeddings:{PLACE}")([]).search("homes", 5) == []
    assert load_ranker(f"embeddings:{PLACE}")(documents(3)).search("homes", 0) == []


@pytest.mark.parametrize(
    ("ranker", "problem"),
    [
        ("embeddings:no_such_module:embed", "'no_such_module' cannot be imported"),
        (f"embeddings:{__name__}:modell", f"'{__name__}' has no 'modell'. Did you mean 'model'"),
        (f"embeddings:{__name__}:HOMES", "a tuple is neither a function of texts to vectors"),
        (f"embeddings:{__name__}:Broken", "cannot be made (RuntimeError: no file)"),
    ],
)
def test_a_function_that_cannot_be_had_is_an_error_of_the_configuration(ranker: str, problem: str) -> None:
    with pytest.raises(ValueError) as raised:
        ToolSearch.Config(ranker=ranker)
    assert problem in str(raised.value)


class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no file")
