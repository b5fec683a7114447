"""What `tool_search` and `tool_describe` answer."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import anyio
import pytest
from pydantic import BaseModel
from searching import (
    CATALOG,
    CREATE_ISSUE,
    READ_FILE,
    SEND_EMAIL,
    Search,
    configuration,
    make,
    searching,
)

from builtin_plugins.tool_search import ToolSearch
from hooksdk import Host, MemoryStore, PluginState, Storage, Tool, ToolContext, ToolResult
from hooksdk.catalog import build_catalog
from hooksdk.hooks import AssembleTools
from tests.stage import echo

pytestmark = pytest.mark.anyio


class Label(BaseModel):
    name: str
    color: str | None = None


def giant() -> Tool:
    """A tool with a schema of 89 kB, as one of the public MCP servers has it."""
    field = {"type": "string", "enum": ["first", "second"], "description": "more words " * 3}
    inner = {f"q{index}": field for index in range(8)}
    part = {"type": "object", "description": "a panel of the dashboard " * 4, "properties": inner}
    properties = {f"p{index}": part for index in range(90)}
    parameters = {"type": "object", "properties": properties, "required": ["p1"]}
    assert len(json.dumps(parameters)) > 89_000
    return Tool(
        name="giant", description="Set up a dashboard.", source="mcp", owner="grafana", execute=echo,
        parameters=parameters,
    )  # fmt: skip


# Hits


async def test_one_search_takes_several_queries_and_answers_each() -> None:
    async with searching() as played:
        answer = await played.search("create an issue", "send an email")
        assert [group["query"] for group in answer["results"]] == ["create an issue", "send an email"]
        assert [group["hits"][0]["name"] for group in answer["results"]] == ["create_issue", "send_email"]


async def test_a_hit_comes_with_its_call_signature_so_that_it_needs_no_describe() -> None:
    async with searching() as played:
        (group,) = (await played.search("create an issue"))["results"]
        assert group["hits"][0] == {
            "call": 'create_issue(title: string, labels?: string[], state?: "open" | "closed")',
            "name": "create_issue",
            "description": "Create an issue in a repository.",
            "from": "github",
            "parameters": CREATE_ISSUE.parameters,
        }


async def test_the_best_hit_of_each_query_comes_with_its_schema_while_that_is_small_and_says_more() -> None:
    told = {"type": "string", "description": "Where to."}
    ship = make("ship_parcel", "Ship a parcel.", "post", required=["to"], to=told)
    track = make("track_parcel", "Track a parcel.", "post", code="string")
    large = make("buy_stamp", "Buy a stamp.", "post", to={"type": "string", "description": "long " * 200})
    async with searching([ship, track, large]) as played:
        answer = await played.search("ship parcel", "track parcel", "buy stamp")
        best = {group["query"]: group["hits"][0] for group in answer["results"]}
        assert best["ship parcel"]["parameters"] == ship.parameters
        assert "parameters" not in best["track parcel"], "the signature says it all"
        assert "parameters" not in best["buy stamp"], "it would fill the answer"
        assert all("parameters" not in hit for group in answer["results"] for hit in group["hits"][1:])


async def test_the_schema_of_a_hit_is_without_what_does_not_help_to_call_it() -> None:
    told = {"type": "string", "description": "Where to."}
    dialect = "http://json-schema.org/draft-07/schema#"
    ship = Tool(
        name="ship_parcel", description="Ship a parcel.", source="mcp", owner="post", execute=echo,
        parameters={"$schema": dialect, "type": "object", "properties": {"to": told}, "required": ["to"]},
    )  # fmt: skip
    track = make("track_parcel", "Track a parcel.", "post", code={"type": "string", "title": "Code", "default": None})
    async with searching([ship, track]) as played:
        shipped, tracked = (await played.search("ship", "track"))["results"]
        assert shipped["hits"][0]["parameters"].keys() == {"type", "properties", "required"}
        assert "parameters" not in tracked["hits"][0], "null unless given is what `?` says"


async def test_an_answer_after_many_searches_tells_a_schema_once_and_what_was_left_out() -> None:
    async with searching() as played:
        for _ in range(2):
            await played.search("create an issue")
        answer = await played.search(*[f"create an issue {number}" for number in range(11)])
        assert answer["note"] == "Only the first 10 queries were searched."
        assert "parameters" in answer["best"]
        assert "parameters" not in answer["results"][0]["hits"][0]


async def test_after_many_searches_that_find_nothing_no_hit_is_recommended() -> None:
    async with searching() as played:
        answers = [await played.search("zyzzyva") for _ in range(3)]
        assert answers[2]["results"] == [{"query": "zyzzyva", "hits": [], "more": []}]
        assert "best hit" not in answers[2]["hint"]
        assert "does not exist here" in answers[2]["hint"]


async def test_a_third_search_that_shows_nothing_new_is_answered_with_the_way_on_instead_of_more_hits() -> None:
    async with searching() as played:
        for queries in (["open a ticket", "send an email"], ["create an issue"]):
            assert "searches_without_a_call" not in await played.search(*queries)
        answer = await played.search("create an issue in a repository", "send an email")
        assert answer["searches_without_a_call"] == 3
        assert "tool_call" in answer["hint"]
        assert answer["names_by_owner"] == {"github": "create_issue", "gmail": "send_email", "weather": "get_forecast"}
        assert answer["best"]["parameters"] == CREATE_ISSUE.parameters
        assert [group["hits"][0]["name"] for group in answer["results"]] == ["create_issue", "send_email"]
        assert all(len(group["hits"]) == 1 for group in answer["results"])


async def test_searches_after_the_third_do_not_repeat_the_names() -> None:
    async with searching() as played:
        answers = [await played.search("create an issue") for _ in range(6)]
        assert ["names_by_owner" in answer for answer in answers] == [False, False, True, False, False, False]
        assert answers[5]["searches_without_a_call"] == 6


async def test_searches_that_each_find_something_new_are_answered_as_the_first_one() -> None:
    """A model that prepares a task looks for several capabilities, and may do so in one reply."""
    async with searching() as played:
        found = [await played.hits(query) for query in ("create an issue", "send an email", "weather forecast")]
        assert found == [["create_issue"], ["send_email"], ["get_forecast"]]
        assert "searches_without_a_call" not in await played.search("create issue"), "one in vain"
        assert "searches_without_a_call" in await played.search("send an email"), "two"


async def test_a_model_that_never_calls_is_told_so_in_the_end_although_it_finds_something_new_each_time() -> None:
    many = [
        make(f"make_{thing}", f"Make {thing}.")
        for thing in ["bread", "cheese", "paper", "wine", "glass", "steel", "soap", "rope"]
    ]
    async with searching(many) as played:
        told = ["searches_without_a_call" in await played.search(tool.name) for tool in many]
        assert told == [False] * 7 + [True]


async def test_a_query_that_is_given_twice_is_answered_once() -> None:
    async with searching() as played:
        answer = await played.search("create an issue", "send an email", "create an issue")
        assert [group["query"] for group in answer["results"]] == ["create an issue", "send an email"]


@pytest.mark.parametrize("name", ["tool_call", "create_issue", "read_file"])
async def test_a_call_of_any_tool_ends_the_count_of_searches(name: str) -> None:
    async with searching() as played:
        for _ in range(2):
            await played.search("create an issue")
        bridged = {"name": "create_issue", "arguments": {"title": "It is broken"}}
        await played.call(name, bridged if name == "tool_call" else {"title": "It is broken"})
        await played.session._dispatcher.flush(10)  # type: ignore[union-attr]  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
        assert "searches_without_a_call" not in await played.search("create an issue")


async def test_a_new_run_begins_the_count_of_searches_anew() -> None:
    async with Host(store=MemoryStore(), config=configuration(enabled="on")) as host, host.session("s") as session:
        for _ in range(3):
            async with session.run() as run:
                await run.resolve_tools(CATALOG)
                played = Search(host, session, run)
                assert "searches_without_a_call" not in await played.search("create an issue")


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("Weigh a parcel. Needs scales.", "Weigh a parcel."),
        ("1. Weigh a parcel. 2. Post it.", "1. Weigh a parcel."),
        ("Weigh a thing, e.g. a parcel. Needs scales.", "Weigh a thing, e.g. a parcel."),
        ("Weigh up to 10. Needs\n scales.", "Weigh up to 10."),
        ("Weigh a\nparcel", "Weigh a parcel"),
    ],
)
async def test_a_hit_tells_the_first_sentence_of_a_description(description: str, told: str) -> None:
    async with searching([make("weigh", description, "post")]) as played:
        (hit,) = (await played.search("weigh"))["results"][0]["hits"]
        assert hit["description"] == told


async def test_a_signature_follows_references_within_the_schema() -> None:
    async def add_labels(labels: list[Label], first: Label | None = None) -> str:
        """Add labels to an issue."""
        return f"{labels} {first}"

    labelled = Tool.from_function(add_labels, source="mcp", owner="github")
    assert "$ref" in json.dumps(labelled.parameters)
    async with searching([labelled]) as played:
        (group,) = (await played.search("add labels"))["results"]
        shape = "{name: string, color?: string}"
        assert group["hits"][0]["call"] == f"add_labels(labels: {shape}[], first?: {shape})"


async def test_a_schema_that_refers_to_itself_has_a_signature_all_the_same() -> None:
    loop: dict[str, Any] = {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "string"}]}
    tree: dict[str, Any] = {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}}}
    parameters = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/loop"}, "b": {"$ref": "#/$defs/tree"}, "c": {"$ref": "#/nowhere"}},
        "$defs": {"loop": loop, "tree": tree},
    }
    hostile = Tool(name="spin", description="Spin round.", parameters=parameters, source="mcp", owner="x", execute=echo)
    async with searching([hostile]) as played:
        (group,) = (await played.search("spin round"))["results"]
        assert group["hits"][0]["call"].startswith("spin(a?: any | string")


async def test_total_available_counts_what_is_deferred_not_the_hits() -> None:
    async with searching() as played:
        answer = await played.search("create an issue", limit=1)
        assert answer["total_available"] == 3


@pytest.mark.parametrize(
    ("limit", "hits"),
    [(None, 5), (2, 2), ("3", 3), (0, 1), (-4, 1), ("abc", 5), (20, 20), (21, 20), (1_000, 20), (10**30, 20)],
)
async def test_the_limit_is_read_leniently_and_held_within_bounds(limit: object, hits: int) -> None:
    many = [make(f"list_reports_{index}", "List the reports.") for index in range(60)]
    async with searching(many) as played:
        assert len(await played.hits("list the reports", limit=limit)) == hits


async def test_the_configuration_sets_both_limits() -> None:
    many = [make(f"list_reports_{index}", "List the reports.") for index in range(60)]
    async with searching(many, search_default_limit=9, max_search_limit=12) as played:
        assert len(await played.hits("list the reports")) == 9
        assert len(await played.hits("list the reports", limit=50)) == 12


@pytest.mark.parametrize(
    "arguments",
    [
        {"queries": "create an issue"}, {"query": "create an issue"}, {"queries": '["create an issue"]'},
        '{"queries": ["create an issue"]}', {"arguments": {"queries": ["create an issue"]}},
        {"queries": ["create an issue", ""]}, {"queries": "  create an issue  ", "limit": None},
    ],
)  # fmt: skip
async def test_every_shape_of_a_query_is_understood(arguments: object) -> None:
    async with searching() as played:
        result = await played.call("tool_search", arguments)
        (group,) = json.loads(result.text)["results"]
        assert group["hits"][0]["name"] == "create_issue"


@pytest.mark.parametrize("arguments", [{}, "", "null", {"queries": []}, {"queries": [" "]}, {"queries": None}])
async def test_a_search_without_a_query_is_told_how_to_ask(arguments: object) -> None:
    async with searching() as played:
        result = await played.call("tool_search", arguments)
        assert result.is_error
        assert '{"queries": ["create a github issue"]}' in result.text


async def test_more_than_ten_queries_are_cut_and_that_is_said() -> None:
    async with searching() as played:
        answer = await played.search(*[f"create an issue {number}" for number in range(12)])
        assert len(answer["results"]) == 10
        assert answer["note"] == "Only the first 10 queries were searched."


# What is not there, or is there already


@pytest.mark.parametrize(
    "query", ["transfer cryptocurrency to a wallet", "water the garden plants", "中文 查询", "$$$"]
)
async def test_an_absent_capability_is_empty_or_weak_and_says_what_exists(query: str) -> None:
    async with searching() as played:
        answer = await played.search(query)
        (group,) = answer["results"]
        assert group["hits"] == [] or "weak" in group
        assert answer["available_from"] == {"github": 1, "gmail": 1, "weather": 1}
        assert "may not exist" in answer["hint"]


async def test_a_query_that_is_answered_needs_no_list_of_what_exists() -> None:
    async with searching() as played:
        assert set(await played.search("create an issue")) == {"total_available", "results"}


async def test_an_answer_stays_small_however_many_servers_there_are_and_whatever_their_names() -> None:
    many = [make(f"do_{index}", "Do something.", f"server-{index}-" + "long" * 500) for index in range(400)]
    async with searching(many) as played:
        text = (await played.call("tool_search", {"queries": ["transfer cryptocurrency"]})).text
        assert json.loads(text)["available_from"]["(380 more sources)"] == 380
        assert len(text) < 3_000


async def test_a_whole_sentence_finds_its_tool() -> None:
    sentence = "Could you please open a new issue in our repository, because the login page is broken again?"
    async with searching() as played:
        assert (await played.hits(sentence))[:1] == ["create_issue"]


async def test_a_core_tool_that_fits_best_is_named_and_not_listed() -> None:
    async with searching() as played:
        answer = await played.search("read a file from the disk")
        (group,) = answer["results"]
        assert group["hits"] == []
        assert group["already_offered"] == "read_file is offered to you directly: call it without tool_call"
        assert "available_from" not in answer


async def test_core_tools_do_not_push_deferred_ones_out_of_the_hits() -> None:
    core = [make(f"report_{index}", "List the reports.", "core", source="host") for index in range(30)]
    async with searching([*core, make("list_reports", "List the reports of a project.")]) as played:
        assert await played.hits("list the reports", limit=1) == ["list_reports"]


# The index


async def test_the_index_follows_a_changed_description_although_the_names_are_the_same() -> None:
    before = [make("alpha", "Book a flight."), make("beta", "Cook a dinner.")]
    after = [make("alpha", "Cook a dinner."), make("beta", "Book a flight.")]
    async with searching(before) as played:
        assert (await played.hits("book a flight"))[:1] == ["alpha"]
        await played.run.resolve_tools(after)
        assert (await played.hits("book a flight"))[:1] == ["beta"]


async def test_the_index_follows_a_changed_parameter() -> None:
    async with searching([make("alpha", "Do it.", city="string"), make("beta", "Do it.", ship="string")]) as played:
        assert (await played.hits("ship"))[:1] == ["beta"]
        await played.run.resolve_tools([make("alpha", "Do it.", ship="string"), make("beta", "Do it.", city="string")])
        assert (await played.hits("ship"))[:1] == ["alpha"]


async def test_a_tool_that_came_is_found_and_one_that_went_is_not() -> None:
    async with searching([READ_FILE, CREATE_ISSUE]) as played:
        assert await played.hits("send an email message") == []
        await played.run.resolve_tools([READ_FILE, SEND_EMAIL])
        assert await played.hits("send an email message") == ["send_email"]
        assert "create_issue" not in json.dumps(await played.search("create an issue"))


@pytest.mark.heavy
async def test_sessions_searching_in_eight_threads_at_once_find_what_one_finds() -> None:
    many = [make(f"{verb}_{noun}", f"{verb.title()} the {noun}.", noun)
            for verb in ("list", "create", "delete", "update") for noun in ("issue", "email", "file", "invoice", "ship")]  # fmt: skip
    queries = [tool.name.replace("_", " ") for tool in many] + ["nothing like it", "remove old invoices"]

    class Bare:
        catalog = build_catalog(many)

        def count(self, counter: str, amount: int = 1) -> None:
            """Counters are counted elsewhere."""

    async with ToolSearch.shared(ToolSearch.Config()) as indexes:

        def ask(query: str) -> str:
            plugin = ToolSearch(ToolSearch.Config(enabled="on"), indexes, cast("Storage", None), PluginState())
            offer = anyio.run(plugin.offer_bridge, AssembleTools(deferrable=many))
            assert offer is not None
            search = offer.tools[0].execute
            assert search is not None
            found: ToolResult = search({"queries": [query]}, cast("ToolContext", Bare()))
            return found.text

        with ThreadPoolExecutor(1) as alone, ThreadPoolExecutor(8) as pool:
            serial = [*alone.map(ask, queries)]
            for _ in range(25):
                assert list(pool.map(ask, queries)) == serial


# tool_describe


async def test_describe_shows_whole_schemas_of_several_tools() -> None:
    async with searching() as played:
        answer = await played.describe("create_issue", "send_email", "create_issue")
        assert list(answer["tools"]) == ["create_issue", "send_email"]
        assert answer["tools"]["create_issue"] == {
            "description": CREATE_ISSUE.description, "parameters": CREATE_ISSUE.parameters,
        }  # fmt: skip


async def test_describe_answers_what_it_can_and_says_what_is_wrong_with_the_rest() -> None:
    async with searching() as played:
        names = ["create_issue", "create_isue", "read_file", "tool_search", "zzz"]
        result = await played.call("tool_describe", {"names": names})
        assert not result.is_error
        answer = json.loads(result.text)
        assert list(answer["tools"]) == ["create_issue"]
        assert set(answer["problems"]) == {"create_isue", "read_file", "tool_search", "zzz"}
        assert "Did you mean create_issue" in answer["problems"]["create_isue"]
        for name in ("read_file", "tool_search"):
            assert answer["problems"][name] == "It is offered to you directly, with its whole schema."
        assert "tool_search" in answer["problems"]["zzz"]


async def test_describe_without_any_known_name_is_an_error() -> None:
    async with searching() as played:
        assert (await played.call("tool_describe", {"names": ["zzz"]})).is_error
        assert '{"names": ["create_issue"]}' in (await played.call("tool_describe")).text


async def test_describe_takes_ten_names_at_most() -> None:
    many = [make(f"do_{index}", "Do it.") for index in range(15)]
    async with searching(many) as played:
        answer = await played.describe(*[tool.name for tool in many])
        assert len(answer["tools"]) == 10
        assert "10" in answer["note"]


@pytest.mark.parametrize("values", [[*range(5_000)], [f"v{index}" for index in range(5_000)]], ids=["numbers", "texts"])
async def test_a_part_that_is_a_long_list_of_values_is_cut_off(values: list[Any]) -> None:
    async with searching([make("pick", "Pick one.", which={"enum": values})]) as played:
        shown = (await played.describe("pick", part="properties.which.enum"))["tools"]["pick"]
        assert shown["parameters"].startswith(json.dumps(values[:5], separators=(",", ":"))[:-1])
        assert len(shown["parameters"]) == 8_000
        assert shown["note"] == "Cut off: it is too long."


async def test_a_giant_schema_is_outlined_and_its_parts_can_be_asked_for() -> None:
    async with searching([giant()]) as played:
        (group,) = (await played.search("set up a dashboard"))["results"]
        assert group["hits"][0]["call"].startswith("giant(p1: {")
        assert len(group["hits"][0]["call"]) < 500
        result = await played.call("tool_describe", {"names": ["giant"]})
        assert len(result.text) < 10_000
        shown = json.loads(result.text)["tools"]["giant"]
        assert "p1: {" in shown["parameters"]["outline"]
        part = (await played.describe("giant", part="properties.p3"))["tools"]["giant"]
        parameters = giant().parameters
        assert parameters is not None
        assert part["parameters"] == parameters["properties"]["p3"]
        keys = (await played.describe("giant", part="properties"))["tools"]["giant"]["parameters"]["keys"]
        assert keys == [f"p{index}" for index in range(90)]


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("nope", {"parts": ["type", "properties", "required"]}),
        ("properties.p3.nope.x", {"at": "properties.p3", "parts": ["type", "description", "properties"]}),
        (".", {"parts": ["type", "properties", "required"]}),
        ("required.1", {"at": "required", "parts": ["0"]}),
        ("required.0.x", {"at": "required.0", "parts": []}),
    ],
)
async def test_a_part_that_is_not_there_is_said_to_be_missing_with_those_that_are(
    part: str, told: dict[str, Any]
) -> None:
    async with searching([giant()]) as played:
        result = await played.call("tool_describe", {"names": ["giant"], "part": part})
        assert result.is_error
        assert json.loads(result.text)["tools"]["giant"] == {"problem": f"its schema has no part '{part}'", **told}


LARGE = {"type": "string", "description": "large " * 2_000}
KINDS = [
    {"title": f"Kind{index}", "type": "object", "properties": {"text": {"type": "string", "description": "long " * 99}}}
    for index in range(40)
]


@pytest.mark.parametrize(
    "part",
    ["properties.block.anyOf.3", "properties.block.anyOf[3]", "#/properties/block/anyOf/3", "/properties/block/anyOf/3",
     "properties/block/anyOf/3", "block.anyOf.3"],
)  # fmt: skip
async def test_a_part_may_be_asked_for_as_models_write_a_path(part: str) -> None:
    async with searching([make("write", "Write a block.", block={"anyOf": KINDS})]) as played:
        assert (await played.describe("write", part=part))["tools"]["write"] == {"parameters": KINDS[3]}


@pytest.mark.parametrize("part", ["properties.x.y", "x.y", "properties.x.y.description"])
async def test_a_parameter_with_a_dot_in_its_name_has_a_path_too(part: str) -> None:
    properties: dict[str, Any] = {"x.y": {"description": "why"}, "x": {"type": "string"}}
    async with searching([make("dotted", "Write.", **properties)]) as played:
        shown = (await played.describe("dotted", part=part))["tools"]["dotted"]
        assert shown["parameters"] == ("why" if part.endswith("description") else {"description": "why"})


async def test_every_choice_of_a_large_schema_can_be_reached_by_what_the_notes_say() -> None:
    async with searching([make("write", "Write a block.", block={"anyOf": KINDS}, more=LARGE)]) as played:
        whole = (await played.describe("write"))["tools"]["write"]
        assert whole["note"].endswith("such as part='properties.NAME'.")
        block = (await played.describe("write", part="properties.block"))["tools"]["write"]
        assert block["parameters"] == {"keys": ["anyOf"]}
        assert block["note"].endswith("such as part='properties.block.NAME'.")
        choices = (await played.describe("write", part="properties.block.anyOf"))["tools"]["write"]
        assert choices["parameters"]["outline"][39] == "Kind39(text?: string)"
        assert choices["note"].endswith("such as part='properties.block.anyOf.0'.")
        last = (await played.describe("write", part="properties.block.anyOf.39"))["tools"]["write"]
        assert last == {"parameters": KINDS[39]}


async def test_a_description_that_is_too_long_ends_with_an_ellipsis() -> None:
    async with searching([make("lengthy", "word " * 4_000)]) as played:
        shown = (await played.describe("lengthy"))["tools"]["lengthy"]
        assert len(shown["description"]) == 8_000
        assert shown["description"].endswith("…")


async def test_a_huge_part_is_not_repeated() -> None:
    async with searching() as played:
        for part in ("p" * 300_000, "p." * 100_000, "[1]" * 100_000):
            result = await played.call("tool_describe", {"names": ["create_issue"], "part": part})
            assert result.is_error
            assert len(result.text) < 1_000


async def test_hostile_schemas_make_neither_search_nor_describe_large() -> None:
    many: dict[str, Any] = {f"parameter_{index}": "string" for index in range(3_000)}
    one: dict[str, Any] = {"k" * 50_000: "string"}
    wide = make("wide", "Fill a wide form.", "forms", required=list(many), **many)
    long = make("lengthy", "Fill a lengthy form.", "forms", required=list(one), **one)
    async with searching([wide, long]) as played:
        for query in ("wide form", "lengthy form"):
            assert len((await played.call("tool_search", {"queries": [query]})).text) < 6_000
        for name in ("wide", "lengthy"):
            assert len((await played.call("tool_describe", {"names": [name]})).text) < 10_000


async def test_describe_copies_the_schema_so_that_nobody_can_change_the_tool_through_it() -> None:
    async with searching() as played:
        before = played.run.tools.fingerprint
        await played.describe("create_issue")
        assert played.run.tools.fingerprint == before


async def test_what_a_search_answers_names_only_tools_of_the_catalog() -> None:
    async with searching() as played:
        text = (await played.call("tool_search", {"queries": ["tool", "search", "call", "describe"]})).text
        assert not re.findall(r'"name":"(tool_\w+)"', text)
