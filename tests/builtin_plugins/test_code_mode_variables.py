"""Code mode: what a script assigns is there in the next one of the session, and in no other session."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from searching import CATALOG, Search, configuration, make, searching

from builtin_plugins.tool_search._script.sandbox import Sandbox
from builtin_plugins.tool_search._script.script import Limits
from builtin_plugins.tool_search._script.variables import (
    MAX_ALL,
    MAX_NAMES,
    MAX_VALUE,
    SessionVariables,
    Variables,
    assigned_in,
)
from hooksdk import Host, MemoryStore, PluginState, ToolResult, hooks
from hooksdk.hooks import Replace, ResolveSecrets, Secrets, TransformToolResult
from hooksdk.stores import SqlStore
from hooksdk.testing import open_host
from tests.hooksdk.tables import text_in

pytest.importorskip("pydantic_monty", reason="code mode needs the extra 'code'")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.both_loops]
MODE = configuration(enabled="on", mode="code")


async def result(stage: Search, code: str) -> ToolResult:
    """What a script is answered."""
    return await stage.call("tool_search_code", {"code": code})


async def answer(stage: Search, code: str) -> dict[str, Any]:
    """The answer of a script that ends well."""
    one = await result(stage, code)
    assert not one.is_error, one.text
    return json.loads(one.text)


async def value(stage: Search, code: str) -> Any:
    """The value of its last line."""
    return (await answer(stage, code))["value"]


async def failure(stage: Search, code: str) -> str:
    """The answer of a script that does not end well."""
    one = await result(stage, code)
    assert one.is_error, one.text
    return one.text


@asynccontextmanager
async def opened(host: Host, session_id: str, tools: Any = CATALOG) -> AsyncGenerator[Search, None]:
    """A run of this session in code mode."""
    async with host.session(session_id) as session, session.run() as run:
        await run.resolve_tools(tools)
        yield Search(host, session, run)


# What is kept


async def test_what_a_script_assigns_is_there_in_the_next_one_also_after_it_was_changed_there() -> None:
    async with searching(mode="code") as stage:
        await answer(stage, 'issues = [{"id": 1, "votes": 2.5}]\nfor issue in issues: total = 7')
        assert await value(stage, 'issues.append({"id": 2})\ntotal += 1\n[issues, total]') == [
            [{"id": 1, "votes": 2.5}, {"id": 2}], 8,
        ]  # fmt: skip
        assert await value(stage, "[len(issues), total]") == [2, 8]


async def test_what_a_call_answered_need_not_be_called_for_again() -> None:
    calls: list[int] = []

    def fetch(arguments: dict[str, Any]) -> str:
        calls.append(arguments["id"])
        return json.dumps({"id": arguments["id"], "body": "x" * 1_700})

    tool = make("get_issue", "Get an issue.", id="integer").copy(execute=fetch)
    async with searching([tool], mode="code") as stage:
        await answer(stage, 'issues = [await call("get_issue", id=n) for n in range(10)]')
        assert await value(stage, 'sum(len(issue["body"]) for issue in issues)') == 17_000
    assert len(calls) == 10


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("x = 1", "x"),
        ("a = x = 1", "x"),
        ("a, (x, *b) = 1, (2, 3)", "x"),
        ("[a, x] = [1, 2]", "x"),
        ("x: int = 1", "x"),
        ("x = 1; x += 1", "x"),
        ("if True: x = 1", "x"),
        ("if True:\n    for n in [1]:\n        x = n", "x"),
        ("try:\n    x = 1\nfinally:\n    pass", "x"),
        ("print(x := 1)", "x"),
        ("x = sorted([2, 1], key=lambda a: a)", "x"),
        ("def f():\n    return 1\nx = f()", "x"),
        ('x = """a = 1\nb = 2"""', "x"),
        ("größe = 1", "größe"),
        ("x = \\\n    1", "x"),
        ("return_value = x = 1\nreturn", "x"),
    ],
)
async def test_each_way_of_assigning_at_the_top_level_counts(code: str, name: str) -> None:
    async with searching(mode="code") as stage:
        await result(stage, code)
        await answer(stage, name)


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    x = 1\nf()",
        "class A:\n    x = 1",
        "for x in [1]: pass",
        "dict(x=1)",
        "[x for x in [1]]",
        'y = "x = 1"',
        "y = 2  # x = 1",
        "import math as x",
    ],
)
async def test_what_is_assigned_elsewhere_does_not(code: str) -> None:
    async with searching(mode="code") as stage:
        await answer(stage, code)
        assert "name 'x' is not defined" in await failure(stage, "x")


async def test_a_kept_name_cannot_take_the_place_of_a_function_or_a_module() -> None:
    async with searching(mode="code") as stage:
        await answer(stage, "call = json = list = __json__ = 5\nsearch = describe = 6")
        assert await value(stage, 'json.dumps(list("ab"))') == '["a", "b"]'
        assert await value(stage, 'await call("create_issue", title="x")') == 'ran with {"title": "x"}'


async def test_a_script_that_only_assigns_says_what_is_kept() -> None:
    async with searching(mode="code") as stage:
        assert await answer(stage, "x = 1\ny = 2") == {"value": None, "note": "kept for later scripts: x, y"}


async def test_what_a_failing_script_had_assigned_is_kept_and_its_answer_says_so() -> None:
    async with searching(mode="code") as stage:
        text = await failure(stage, 'made = await call("create_issue", title="x")\nmade["id"]')
        assert "Calls that it had made: create_issue." in text
        assert "Kept for later scripts: made" in text
        assert await value(stage, "made") == 'ran with {"title": "x"}'


async def test_after_a_script_that_was_stopped_everything_is_as_before_it() -> None:
    async with searching(mode="code", code_timeout=1) as stage:
        await answer(stage, "x = 1")
        assert "ran longer" in await failure(stage, "x = 2\nwhile True: pass")
        assert await value(stage, "x") == 1
        assert "MiB of memory" in await failure(stage, "x = 2\ny = 'a' * 10\nwhile True: y += y")
        assert await value(stage, "x") == 1


async def test_a_name_that_is_almost_one_is_answered_with_it_and_any_other_with_those_that_there_are() -> None:
    async with searching(mode="code") as stage:
        await answer(stage, "open_issues = 3")
        assert "Did you mean 'open_issues'?" in await failure(stage, "open_isues")
        assert "Earlier scripts have left: open_issues" in await failure(stage, "zzz")


# What is not


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("x = {1, 2}", "x is no JSON: it is a set: make it a list"),
        ("x = {'a': [0, {1, 2}]}", "x.a[1] is no JSON: it is a set: make it a list"),
        ("x = {1: 'a'}", "x is no JSON: it is an object with a key of type int: make its keys text"),
        ("import datetime\nx = datetime.date(2020, 1, 2)", "x is no JSON: it is a date: take its isoformat()"),
        ("x = lambda: 1", "x is no JSON: it is a function"),
        ("x = float('nan')", "x is no JSON: it is nan, which JSON has not"),
        ("x = b'a'", "x is no JSON: it is bytes: decode them"),
        ("x = search('a')", ""),
        ("x = []\nx.append(x)", "is no JSON: it is nested more than 100 deep"),
        ("x = [0] * 100001", "it is more than 100,000 values"),
        (f"x = 'a' * {MAX_VALUE}", f"x has more than {MAX_VALUE:,} characters"),
        (f"x = ['\"' * {MAX_VALUE // 2}]", f"x has more than {MAX_VALUE:,} characters"),
    ],
)
async def test_what_cannot_be_kept_is_told_with_what_to_do_and_its_old_value_is_gone(code: str, told: str) -> None:
    async with searching(mode="code") as stage:
        await answer(stage, "x = 1")
        note = (await answer(stage, f"{code}\n'done'")).get("note", "")
        assert told in note
        assert not told or "not kept for later scripts: " in note
        assert "name 'x' is not defined" in await failure(stage, "x")


async def test_all_variables_together_have_a_limit_and_the_earlier_ones_stay() -> None:
    size = MAX_VALUE - 10
    async with searching(mode="code") as stage:
        await answer(stage, f"a = 'a' * {size}\nb = 'b' * {size}")
        note = (await answer(stage, "c = 'c' * 1000\nd = 5"))["note"]
        assert "not kept for later scripts: c has more than " in note
        assert "kept for later scripts: d" in note
        assert await value(stage, "[len(a), len(b), d]") == [size, size, 5]
        await answer(stage, "a = None\nc = 'c' * 1000")
        assert await value(stage, "[a, len(c)]") == [None, 1000]


async def test_so_many_variables_are_kept_and_no_more() -> None:
    async with searching(mode="code") as stage:
        await answer(stage, "\n".join(f"v{n} = {n}" for n in range(MAX_NAMES)))
        assert f"one_more is one more than {MAX_NAMES}" in (await answer(stage, "one_more = 1"))["note"]
        assert await value(stage, f"v{MAX_NAMES - 1}") == MAX_NAMES - 1


# Whose they are


async def test_they_are_there_when_the_session_is_opened_again_and_in_no_other_session(tmp_path: Any) -> None:
    for session_id, code, expected in (("a", "x = [1, 2]\nx", [1, 2]), ("a", "x", [1, 2]), ("b", "x", None)):
        async with (
            open_host("tool_search", config=MODE, store=SqlStore(tmp_path)) as host,
            opened(host, session_id) as stage,
        ):
            if expected is None:
                assert "name 'x' is not defined" in await failure(stage, code)
            else:
                assert await value(stage, code) == expected


async def test_they_are_there_in_the_next_run_of_the_session() -> None:
    async with open_host("tool_search", config=MODE, store=MemoryStore()) as host, host.session("a") as session:
        for code in ("x = 1\nx", "x"):
            async with session.run() as run:
                await run.resolve_tools(CATALOG)
                assert await value(Search(host, session, run), code) == 1


async def test_a_sub_agent_has_its_own() -> None:
    async with searching(mode="code") as stage:
        await answer(stage, "x = 1")
        async with stage.session.child() as child, child.run() as run:
            await run.resolve_tools(CATALOG)
            helper = Search(stage.host, child, run)  # pyright: ignore[reportArgumentType]
            assert "name 'x' is not defined" in await failure(helper, "x")
            await answer(helper, "x = 2")
        assert await value(stage, "x") == 1


async def test_two_scripts_at_once_begin_with_the_same_and_both_leave_theirs() -> None:
    arrived = 0
    both = anyio.Event()

    async def meet(_: dict[str, Any]) -> str:
        nonlocal arrived
        arrived += 1
        if arrived == 2:
            both.set()
        await both.wait()
        return "met"

    async with searching([make("meet", "Meet.").copy(execute=meet)], mode="code") as stage:
        await answer(stage, "x = [0]")
        codes = [f'x.append({n})\ny{n} = {n}\nawait call("meet")\nx' for n in (1, 2)]
        results = await stage.call_all([("tool_search_code", json.dumps({"code": code})) for code in codes])
        assert [json.loads(one.text)["value"] for one in results] == [[0, 1], [0, 2]]
        assert await value(stage, "[x[1] in (1, 2), y1, y2]") == [True, 1, 2]


# Secrets, and what plugins take out


class Vault:
    """Gives every secret the same value."""

    @hooks.resolve_secrets
    def resolve(self, event: ResolveSecrets) -> Secrets:
        return Secrets(dict.fromkeys(event.names, "hunter2-and-more"))


def log_in(arguments: dict[str, Any]) -> str:
    """A tool that answers what it was given, as a list."""
    return json.dumps([arguments["token"]])


LOGIN = make("login", "Log in.", token="string").copy(execute=log_in)


async def test_a_placeholder_stays_one_and_is_filled_in_for_the_tool_alone(tmp_path: Any) -> None:
    given: list[str] = []

    def take(arguments: dict[str, Any]) -> str:
        given.append(arguments["token"])
        return arguments["token"]

    store = SqlStore(tmp_path)
    login = LOGIN.copy(execute=take)
    async with (
        open_host(Vault, "tool_search", config=MODE, store=store) as host,
        opened(host, "a", [login]) as stage,
    ):
        await answer(stage, 'token = "{{secret:TOKEN}}"')
        await answer(stage, "shown = await call('login', token=token)")
        assert await value(stage, "[token[::-1], shown]") == ["}}NEKOT:terces{{", "{{secret:TOKEN}}"]
    assert given == ["hunter2-and-more"]
    assert "hunter2" not in text_in(tmp_path)


async def test_a_value_that_becomes_known_as_a_secrets_is_masked_from_then_on(tmp_path: Any) -> None:
    told = make("leak", "Tell.").copy(execute=log_in, name="leak")

    def leak(_: dict[str, Any]) -> str:
        return json.dumps({"hunter2-and-more": ["hunter2-and-more"]})

    async with open_host(Vault, "tool_search", config=MODE, store=SqlStore(tmp_path)) as host:
        async with opened(host, "a", [LOGIN, told.copy(execute=leak)]) as stage:
            await answer(stage, "seen = await call('leak')")  # nobody knows yet that this is a secret
            await answer(stage, "await call('login', token='{{secret:TOKEN}}')")
            text = await value(stage, "''.join([*seen, *seen['{{secret:TOKEN}}']])[::-1]")
            assert "2retnuh" not in text
        async with opened(host, "a", [LOGIN]) as stage:
            assert await value(stage, "list(seen)") == ["{{secret:TOKEN}}"]


async def test_what_a_plugin_takes_out_of_a_result_is_in_no_variable() -> None:
    class Redact:
        @hooks.transform_tool_result(tools="create_issue")
        def redact(self, event: TransformToolResult) -> Replace:
            return Replace(event.result.text.replace("hush", "***"))

    async with searching(CATALOG, Redact, mode="code") as stage:
        await answer(stage, 'made = await call("create_issue", title="hush")')
        assert await value(stage, "made") == 'ran with {"title": "***"}'


# What a hostile script may try


@pytest.mark.parametrize(
    "code",
    [
        "__variables__ = lambda *a: '[[\"y\",[1]]]'",
        '__variables__ = lambda *a: \'[["x",[1]],["evil",[2]]]\'',
        "__variables__ = lambda *a: 'x' * 2000000",
        "__variables__ = lambda *a: 5",
        "def __variables__(*a):\n    while True: pass",
        "async def __variables__(*a): return await call('create_issue', title='x')",
        "def __variables__(*a): return call('create_issue', title='x')",
        "__variables__ = lambda *a: '[[\"x\",[' + '[' * 3000 + ']' * 3000 + ']]]'",
    ],
)
async def test_a_script_that_replaces_what_writes_its_variables_leaves_at_most_values_under_its_own_names(
    code: str,
) -> None:
    ran: list[str] = []

    def note(arguments: dict[str, Any]) -> str:
        ran.append(arguments["title"])
        return "made"

    tools = [tool.copy(execute=note) if tool.name == "create_issue" else tool for tool in CATALOG]
    async with searching(tools, mode="code", code_timeout=1) as stage:
        await answer(stage, "kept = 1")
        await result(stage, f"x = 1\n{code}\n'done'")
        assert "name 'evil' is not defined" in await failure(stage, "evil")
        assert "name 'y' is not defined" in await failure(stage, "y")
        assert await value(stage, "kept") == 1
    assert ran == []


async def test_a_value_that_shares_its_parts_is_written_out_in_the_sandbox_or_not_at_all() -> None:
    async with searching(mode="code") as stage:
        note = (await answer(stage, "x = ['a' * 1000]\nfor n in range(40): x = [x, x]\n'done'"))["note"]
        assert "not kept for later scripts: x" in note


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**100), 2**100) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)  # fmt: skip


async def test_any_json_comes_back_as_it_was() -> None:
    sandbox = Sandbox(workers=1)
    cases: list[object] = []

    @settings(max_examples=60, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(JSON)
    def collect(one: object) -> None:
        cases.append(one)

    collect()
    try:
        for one in cases:
            variables = Variables({"x": one}, ("x", "y"), MAX_VALUE, MAX_ALL)
            outcome = await sandbox.run("y = [x, 1]", {}, Limits(seconds=5), variables)
            assert outcome.variables is not None
            assert outcome.variables["x"].value == one
            assert outcome.variables["y"].value == [one, 1]
    finally:
        await sandbox.close()


@given(st.text(st.sampled_from("ab=:()[]{}\n \t,;#\"'\\deflambda+*.é"), max_size=200))
def test_any_text_is_looked_through_for_names(code: str) -> None:
    names = assigned_in(code)
    assert all(name.isidentifier() for name in names)
    assert len(names) <= MAX_NAMES


@given(st.lists(st.sampled_from(["a", "b", "c_1", "größe"]), min_size=1, unique=True))
def test_no_name_that_is_assigned_is_missed(names: list[str]) -> None:
    for code in (" = ".join([*names, "1"]), f"{', '.join(names)} = range(9)", "; ".join(f"{one} = 1" for one in names)):
        assert assigned_in(code) == names


def test_a_state_that_somebody_else_has_written_is_read_as_far_as_it_goes() -> None:
    variables = SessionVariables(PluginState(variables={"x": [1]}))
    assert variables.names == ["x"]
    assert variables.wanted("x + 1", lambda text: text).values == {"x": [1]}
    assert variables.wanted("y", lambda text: text).values == {}
