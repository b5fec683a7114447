"""What a signature says of a tool's result: by its output schema, or by an earlier result of the session."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from searching import CREATE_ISSUE, Search, configuration, make, searching

from builtin_plugins.tool_search._answers.signatures import MAX_RETURNS, MAX_TOOLS, form_of, returns
from hooksdk import MemoryStore, Tool, ToolResult, hooks
from hooksdk.hooks import Replace, ResolveSecrets, Secrets, TransformToolResult
from hooksdk.testing import open_host
from hooksdk.tools import Executor

pytestmark = pytest.mark.anyio

PAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "issues": {
            "type": "array",
            "items": {"type": "object", "properties": {"id": {"type": "integer"}, "title": {"type": "string"}}, "required": ["id"]},
        },
    },
    "required": ["total", "issues"],
}  # fmt: skip
ISSUES = CREATE_ISSUE.copy(name="list_issues", description="List the issues.", output_schema=PAGE)


def giving(*answers: object) -> Executor:
    """An executor that answers these in turn, the last one for good."""
    left = [one if isinstance(one, (str, ToolResult)) else json.dumps(one) for one in answers]

    def answer(_arguments: dict[str, Any]) -> str | ToolResult:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def answering(name: str, *answers: object) -> Tool:
    """A tool that answers these in turn."""
    return make(name, name.replace("_", " ")).copy(execute=giving(*answers))


async def call_in(stage: Search, query: str) -> str:
    """The signature of the best hit."""
    (group,) = (await stage.search(query))["results"]
    return group["hits"][0]["call"]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (None, ""),
        ({}, ""),
        ({"type": "object"}, ""),
        ({"type": "string"}, "string"),
        (PAGE, "{total: number, issues: {id: integer, title?: string}[]}"),
        ({"type": "object", "properties": {"state": {"enum": ["open", "closed"]}}}, '{state?: "open" | "closed"}'),
    ],
)
def test_an_output_schema_is_told_in_the_words_of_a_signature(schema: Any, told: str) -> None:
    assert returns(schema) == told


def test_of_a_large_schema_the_inner_parts_are_left_out_first() -> None:
    fields = {f"a_field_with_a_long_name_{n}": {"type": "string"} for n in range(8)}
    inner = {"type": "object", "properties": fields}
    told = returns({"type": "object", "properties": {"first": inner, "second": {"type": "array", "items": inner}}})
    assert told == "{first?: object, second?: object[]}"
    told = returns({"type": "object", "properties": {name: {"enum": ["x" * 40] * 8} for name in fields}})
    assert told.startswith("{a_field_with_a_long_name_0?: ")
    assert len(told) <= MAX_RETURNS


ANSWERS: list[tuple[object, str]] = [
    ({"id": 7, "total": 1.5, "open": True, "by": None}, "{id: integer, total: number, open: boolean, by: null}"),
    ([{"id": 1}, {"id": 2, "title": "It is broken"}], "{id: integer, title?: string}[]"),
    ([1, 2.5], "number[]"),
    ([1, "a"], "(integer | string)[]"),
    ({"labels": []}, "{labels: any[]}"),
    ([{"labels": []}, {"labels": ["bug"]}], "{labels: string[]}[]"),
    ({"ann@example.org": 3}, ""),
    ({"by_mail": {"ann@example.org": 3}}, "{by_mail: object}"),
    ({f"k{n}": n for n in range(41)}, ""),
    ("3 issues", ""),
    ("[note: not JSON", ""),
    ("17", ""),
]


@pytest.mark.parametrize(("answer", "told"), ANSWERS)
async def test_a_result_is_told_by_its_keys_and_types(answer: object, told: str) -> None:
    assert await form_of(ToolResult(answer if isinstance(answer, str) else json.dumps(answer))) == told


async def test_a_large_result_is_read_and_a_huge_one_is_not() -> None:
    rows = [{"id": number, "body": "x" * 1_000} for number in range(100)]
    assert await form_of(ToolResult(json.dumps(rows))) == "{id: integer, body: string}[]"
    assert await form_of(ToolResult(json.dumps(rows * 10))) == ""
    assert await form_of(ToolResult("[" * 15_000)) == ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.heavy
@given(VALUES)
def test_any_result_has_a_short_form_that_holds_no_value(value: Any) -> None:
    marked: Any = {"secret_of": {"at": "s3cr3t-value", "number": 48151623, "more": value}, "list": ["s3cr3t-value"]}
    for one in (value, marked):
        told = anyio.run(form_of, ToolResult(json.dumps(one)))
        assert len(told) <= MAX_RETURNS
        assert "s3cr3t" not in told
        assert "48151623" not in told


async def test_a_hit_and_a_description_say_what_the_output_schema_says() -> None:
    async with searching([ISSUES]) as stage:
        assert (await call_in(stage, "list issues")).endswith(
            " -> {total: number, issues: {id: integer, title?: string}[]}"
        )
        about = (await stage.describe("list_issues"))["tools"]["list_issues"]
        assert about["returns"] == "{total: number, issues: {id: integer, title?: string}[]}"


async def test_after_a_call_its_signature_says_what_it_answered_and_where_the_schema_says_it_that_counts() -> None:
    counted = answering("count_stock", {"total": 3, "fruit": "plums"})
    listed = ISSUES.copy(execute=giving(ToolResult("{}", structured={"total": 1, "issues": []})))
    async with searching([counted, listed]) as stage:
        assert await call_in(stage, "count stock") == "count_stock()"
        for name in ("count_stock", "list_issues"):
            await stage.call("tool_call", {"name": name, "arguments": {"title": "x"} if name == "list_issues" else {}})
        assert await call_in(stage, "count stock") == "count_stock() -> {total: integer, fruit: string}"
        assert "issues: {id: integer" in await call_in(stage, "list issues")
        about = await stage.describe("count_stock")
        assert about["tools"]["count_stock"]["returns"] == "{total: integer, fruit: string}"


async def test_a_fuller_result_replaces_an_empty_one_and_is_not_replaced_by_it() -> None:
    rows = answering("list_rows", {"rows": []}, {"rows": [{"id": 1}]}, {"rows": []}, {"rows": None}, "no rows")
    async with searching([rows]) as stage:
        told: list[str] = []
        for _ in range(5):
            await stage.call("list_rows")
            told.append((await call_in(stage, "list rows")).removeprefix("list_rows() -> "))
    assert told == ["{rows: any[]}", *["{rows: {id: integer}[]}"] * 4]


async def test_a_failed_call_and_what_a_plugin_takes_out_tell_nothing() -> None:
    class Redact:
        @hooks.transform_tool_result(tools="list_rows")
        def redact(self, event: TransformToolResult) -> Replace:
            return Replace("withheld")

    failing = answering("fetch_page", ToolResult('{"problem": "timeout"}', is_error=True))
    async with searching([failing, answering("list_rows", {"rows": 1})], Redact) as stage:
        for name in ("fetch_page", "list_rows"):
            await stage.call(name)
        assert await call_in(stage, "fetch page") == "fetch_page()"
        assert await call_in(stage, "list rows") == "list_rows()"


async def test_a_secret_in_a_key_is_told_as_its_placeholder_or_not_at_all() -> None:
    class Vault:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets:
            return Secrets(dict.fromkeys(event.names, "hunter2_and_more"))

    def log_in(arguments: dict[str, Any]) -> str:
        return json.dumps({arguments["token"]: 1})

    login = make("login", "Log in.", token="string").copy(execute=log_in)
    async with searching([login], Vault) as stage:
        await stage.call("login", {"token": "{{secret:TOKEN}}"})
        assert "hunter2" not in await call_in(stage, "log in")


async def test_what_was_returned_is_known_when_the_session_is_opened_again_and_in_no_other() -> None:
    store, told = MemoryStore(), list[str]()
    counted = answering("count_stock", {"total": 3})
    for session_id in ("one", "one", "other"):
        async with (
            open_host("tool_search", config=configuration(enabled="on"), store=store) as host,
            host.session(session_id) as session,
            session.run() as run,
        ):
            await run.resolve_tools([counted])
            stage = Search(host, session, run)
            told.append(await call_in(stage, "count stock"))
            await stage.call("count_stock")
    assert told == ["count_stock()", "count_stock() -> {total: integer}", "count_stock()"]


async def test_the_tools_whose_results_were_seen_last_are_remembered() -> None:
    tools = [answering(f"tool_{n}", {"n": n}) for n in range(MAX_TOOLS + 1)]
    async with searching(tools) as stage:
        for tool in tools:
            await stage.call(tool.name)
        about = (await stage.describe("tool_0", f"tool_{MAX_TOOLS}"))["tools"]
    assert ["returns" in one for one in about.values()] == [False, True]
