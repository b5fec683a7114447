"""Code mode: what the model is offered, what a script can do, and what policies, records and the transcript see of it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from searching import (
    CATALOG,
    CREATE_ISSUE,
    HOOKS_OF_CALLS,
    READ_FILE,
    SEND_EMAIL,
    Search,
    calls_seen,
    configuration,
    make,
    searching,
)

from builtin_plugins.tool_search import ToolSearch
from builtin_plugins.tool_search._script import tool as code_tool
from builtin_plugins.tool_search._script.sandbox import COMPUTING, Sandbox, ScriptResult
from builtin_plugins.tool_search._script.script import Limits
from hooksdk import Approval, ApprovalRequest, Host, MemoryStore, Tool, ToolCall, ToolResult, hooks
from hooksdk.hooks import (
    Ask,
    BeforeToolCall,
    Block,
    NarrowTools,
    Replace,
    ResolveSecrets,
    Rewrite,
    RewriteToolCall,
    Secrets,
    TransformToolResult,
    Withhold,
)
from hooksdk.testing import ScriptedApprover, Turn, call, open_session, play, recorder
from tests.stage import MAY_HAVE

pytest.importorskip("pydantic_monty", reason="code mode needs the extra 'code'")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


class Coding:
    """A run in code mode, played by the test in the model's place."""

    def __init__(self, played: Search) -> None:
        self.played = played
        self.run = played.run

    async def result(self, code: str) -> ToolResult:
        """What a script is answered."""
        return await self.played.call("tool_search_code", {"code": code})

    async def answer(self, code: str) -> dict[str, Any]:
        """The answer of a script that ends well."""
        result = await self.result(code)
        assert not result.is_error, result.text
        return json.loads(result.text)

    async def value(self, code: str) -> Any:
        """The value of its last line."""
        return (await self.answer(code))["value"]

    async def failure(self, code: str) -> str:
        """The answer of a script that does not end well."""
        result = await self.result(code)
        assert result.is_error, result.text
        return result.text


@asynccontextmanager
async def coding(*plugins: Any, tools: Any = CATALOG, **config: Any) -> AsyncGenerator[Coding, None]:
    """A run in code mode."""
    async with searching(tools, *plugins, mode="code", **config) as played:
        yield Coding(played)


def answering(name: str, execute: Any, **more: Any) -> Tool:
    """A tool with this executor."""
    return make(name, name.replace("_", " ")).copy(execute=execute, **more)


def giving(answer: str | ToolResult) -> Callable[[dict[str, Any]], str | ToolResult]:
    """An executor that answers this."""
    return lambda _arguments: answer


# What is offered


async def test_the_model_is_offered_the_core_tools_and_one_bridge_tool() -> None:
    async with coding() as script:
        assert script.played.offered == ["read_file", "tool_search_code"]
        offered = script.run.offered[-1]
        assert "It reaches 3 tools, shown or not. Sources (not tools): " in offered.description
        assert "github (1)" in offered.description


async def test_the_bridge_costs_at_most_350_tokens_whatever_the_servers_are_called() -> None:
    many = [make(f"tool_{n}", owner=f"a server with quite a long name, number {n}") for n in range(200)]
    async with coding(tools=many) as script:
        (offered,) = script.run.offered
        assert offered.tokens <= 350


async def test_where_the_sandbox_does_not_start_the_bridge_tools_are_offered_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MONTY_BIN", "/nonexistent")
    async with searching(mode="code") as played:
        assert [tool.name for tool in played.run.offered if tool.bridge] == [
            "tool_search",
            "tool_describe",
            "tool_call",
        ]
        issue = {"name": "create_issue", "arguments": {"title": "x"}}
        assert not (await played.call("tool_call", issue)).is_error
        await played.run.retry()
        await played.run.resolve_tools(CATALOG)
    (line,) = [line for line in caplog.messages if "sandbox" in line]
    assert "the sandbox of code mode does not start (failed to spawn monty worker: /nonexistent" in line


def test_doctor_says_that_the_sandbox_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ToolSearch.Config(mode="code")
    assert [*ToolSearch.diagnose(config, None)] == []
    monkeypatch.setenv("MONTY_BIN", "/nonexistent")
    (line,) = ToolSearch.diagnose(config, None)
    assert "the sandbox does not start" in line


async def test_below_the_threshold_nothing_changes() -> None:
    async with coding(enabled="auto") as script:
        assert script.played.offered == [tool.name for tool in CATALOG]


async def test_the_description_can_be_set_and_a_listing_added() -> None:
    async with coding(descriptions={"tool_search_code": "{count} tools."}, listing=True) as script:
        assert script.run.offered[-1].description.startswith("3 tools.\n\nThey are, by source:")


@pytest.mark.parametrize(("given", "used"), [(0.1, 1.0), (90, 60.0), (float("nan"), 1.0), (20, 20.0)])
def test_the_time_is_clamped_with_a_notice(given: float, used: float, caplog: pytest.LogCaptureFixture) -> None:
    assert ToolSearch.Config(code_timeout=given).code_timeout == used
    assert ("code_timeout" in caplog.text) == (given != used)


# In a script


async def test_a_script_searches_describes_and_calls() -> None:
    async with coding() as script:
        answer = await script.answer(
            'hits = await search("create issue")\n'
            'about = await describe(hits[0]["name"])\n'
            'print(hits[0]["call"], about["parameters"]["required"])\n'
            'await call(hits[0], {"title": "x"})'
        )
        assert answer["value"] == 'ran with {"title": "x"}'
        assert answer["printed"] == (
            'create_issue(title: string, labels?: string[], state?: "open" | "closed") [\'title\']\n'
        )


async def test_several_queries_find_each_tool_once_and_the_limit_is_for_each() -> None:
    async with coding() as script:
        code = (
            '[hit["name"] for hit in await search(["create issue", "new issue", "send email", "read a file"], limit=1)]'
        )
        assert await script.value(code) == ["create_issue", "send_email", "read_file"]
        assert await script.value('await search("colonoscopy")') == []


async def test_search_and_describe_count_as_the_bridge_does() -> None:
    async with coding() as script:
        await script.value('await search(["create issue", "send email"], 1)\nawait describe("create_issue")\n1')
        assert script.run.stats["counters"] == {"searches": 2, "hits": 2, "describes": 1}


async def test_describe_shows_what_a_tool_returns() -> None:
    returns = {"type": "object", "properties": {"id": {"type": "integer"}}}
    async with coding(tools=[CREATE_ISSUE.copy(output_schema=returns)]) as script:
        assert (await script.value('await describe("create_issue")'))["returns"] == returns


async def test_a_signature_says_what_a_call_of_an_earlier_script_answered() -> None:
    count = answering("count_stock", giving('{"total": 3, "fruit": "plums"}'))
    async with coding(tools=[count]) as script:
        code = 'hits = await search("count stock")\n[hits[0]["call"], (await describe("count_stock")).get("returns")]'
        assert await script.value(code) == ["count_stock()", None]
        await script.value('(await call("count_stock"))["total"]')
        form = "{total: integer, fruit: string}"
        assert await script.value(code) == [f"count_stock() -> {form}", form]


@pytest.mark.parametrize(
    "written",
    [
        'call("create_issue", {"title": "x"})',
        'call("create_issue", title="x")',
        'call("create_issue", arguments={"title": "x"})',
        'call(name="create_issue", arguments={"title": "x"})',
        'call("create_issue", \'{"title": "x"}\')',
        'call("mcp:github:create_issue", {"title": "x"})',
        'call({"name": "create_issue"}, {"title": "x"})',
        'call(" create_issue ", {}, **{"title": "x"})',
        'call("create_issue", {}, title="x")',
        'call("create_issue", args={"title": "x"})',
        'call(tool="create_issue", parameters={"title": "x"})',
    ],
)
async def test_a_call_can_be_written_in_several_ways(written: str) -> None:
    async with coding() as script:
        assert await script.value(f"await {written}") == 'ran with {"title": "x"}'


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('{"id": 7, "labels": ["a"]}', {"id": 7, "labels": ["a"]}),
        (" [1, 2]", [1, 2]),
        ("5", "5"),
        ("{broken", "{broken"),
        ('{"a": NaN}', '{"a": NaN}'),
        ("[" * 5000, "[" * 5000),
        ("\ud800 half a pair", "? half a pair"),
        (ToolResult("text", structured={"id": 8}), {"id": 8}),
        (ToolResult("text", structured=[]), []),
    ],
)
async def test_a_call_gives_the_structured_result_or_the_json_of_the_text_or_the_text(answer: Any, value: Any) -> None:
    async with coding(tools=[answering("thing", giving(answer))]) as script:
        assert await script.value('await call("thing")') == value


async def test_a_large_result_keeps_its_form() -> None:
    rows = [{"a": n, "b": n} for n in range(40_000)]
    for large in (ToolResult("text", structured=rows), json.dumps(rows)):
        async with coding(tools=[answering("thing", giving(large))]) as script:
            assert await script.value('rows = await call("thing")\n[len(rows), rows[-1]["b"]]') == [40_000, 39_999]


async def test_a_result_with_too_many_values_is_refused_and_does_not_become_text() -> None:
    async with coding(tools=[answering("thing", giving(json.dumps([0] * 600_000)))]) as script:
        told = await script.failure('await call("thing")')
        assert "RuntimeError: 'thing' was run, but the result has more than 500,000 values" in told


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("x = 1", None),
        ("x = 1; x", 1),
        ("x = 1\nif x:\n  x", None),
        ("x = [\n  1,\n  2,\n]\nx  # the list\n# the end\n", [1, 2]),
        ('"""a\nb"""', "a\nb"),
        ("1, 2", [1, 2]),
        ("x = {'a': 1}\nf\"{x['a']}\" \\\n  'b'", "1b"),
        ("[c for c in 'é;(\"#']", ["é", ";", "(", '"', "#"]),
        ("def f(): return 1", None),
    ],
)
async def test_the_value_is_that_of_the_last_line_where_it_is_an_expression(code: str, value: object) -> None:
    async with coding() as script:
        answer = await script.answer(code)
        assert answer.get("value") == value


async def test_the_value_of_an_instance_is_told_with_its_attributes() -> None:
    async with coding() as script:
        code = (
            "import dataclasses\n@dataclasses.dataclass\nclass Point:\n  x: int\n  y: object\n"
            "class Named:\n  def __init__(self, name):\n    self.name = name\n  def told(self): return 1\n"
            "Point(1, Named('a'))"
        )
        assert await script.value(code) == {"Point": {"x": 1, "y": {"Named": {"name": "a"}}}}


async def test_an_argument_may_have_any_name() -> None:
    async with coding() as script:
        code = 'await call("create_issue", title="x", self="a", name="b", given="c")'
        assert await script.value(code) == 'ran with {"given": "c", "name": "b", "self": "a", "title": "x"}'


async def test_gathered_calls_run_at_the_same_time() -> None:
    async with coding(tools=[meeting()]) as script:
        assert await script.value('await asyncio.gather(call("meet"), call("meet"))') == ["met", "met"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio begins tasks in any order
async def test_gathered_calls_begin_in_the_order_in_which_they_are_made() -> None:
    begun: list[int] = []

    async def begin(arguments: dict[str, Any]) -> str:
        begun.append(arguments["n"])
        return "begun"

    async with coding(tools=[answering("begin", begin)]) as script:
        await script.value('await asyncio.gather(*[call("begin", n=n) for n in range(60)])')
    assert begun == [*range(60)]


async def test_calls_that_are_made_first_and_awaited_later_run_at_the_same_time() -> None:
    async with coding(tools=[meeting()]) as script:
        code = 'one = call("meet")\ntwo = call("meet")\n[await one, await two]'
        assert await script.value(code) == ["met", "met"]


@pytest.mark.both_loops
async def test_calls_of_one_function_after_another_run_beside_those_of_another() -> None:
    async with coding() as script:
        code = (
            "async def twice(name):\n"
            '  first = await call("create_issue", title=name)\n'
            '  return [first, await call("create_issue", title=first)]\n'
            'len(await asyncio.gather(twice("a"), twice("b"), asyncio.sleep(0.01)))'
        )
        assert await script.value(code) == 3
        assert len(script.run.stats["calls"]) == 5


async def test_a_script_in_a_code_fence_or_indented_is_understood() -> None:
    async with coding() as script:
        assert await script.value("```python\n1 + 1\n```") == 2
        assert await script.value("Here's the script:\n```python\n1 + 1\n```\nIt adds.") == 2
        assert await script.value('text = """\n```\n1\n```\n"""\ntext') == "\n```\n1\n```\n"
        assert await script.value("\n    x = 2\n    x + 1\n") == 3


async def test_the_usual_modules_need_no_import() -> None:
    async with coding() as script:
        assert await script.value('json.dumps([math.floor(1.5), re.sub("a", "b", "a")])') == '[1, "b"]'


async def test_a_script_can_wait_a_little() -> None:
    async with coding(code_timeout=5) as script:
        assert await script.value("import time\ntime.sleep(0.01)\nawait asyncio.sleep(0.01)\n1") == 1
        assert "a script may sleep 5 s in all" in await script.failure("await asyncio.sleep(30)")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("", "needs a script"),
        ("   \n", "needs a script"),
        ("x" * 20_001, "20,000 are the most"),
        ("x = (", "line 1: SyntaxError"),
        ("1\n\n1 / 0", "line 3: ZeroDivisionError: division by zero\n  1 / 0"),
        ("def f():\n  yield 1", "line 2: this Python does not have yield expressions"),
        ("import requests", "ModuleNotFoundError: No module named 'requests'"),
        ("import requests", "Import only asyncio, "),
        ('json.loads(await search("issue"))', "call has read the JSON already: leave json.loads away"),
        ('(await call("create_issue", title="x"))["id"]', "it is text: print it to see its form"),
        ('asyncio.create_task(search("issue"))', "Of asyncio there are gather, run and sleep"),
        (
            'await asyncio.gather(search("issue"), return_exceptions=True)',
            "write an async function with try and except",
        ),
        ("raise ValueError(3)", "Give an exception one text"),
        ('try:\n  raise ValueError("a", 5)\nexcept ValueError:\n  pass', "Give an exception one text"),
        ("import time\nfor n in range(1200): time.sleep(0)", "A script stops 1,000 times at most"),
        ("await call(5)", "TypeError: call needs the name of a tool"),
        ('await call("create_issue", "{")', "TypeError: the arguments of 'create_issue' cannot be read"),
        ("f = search\nawait f()", "TypeError: search needs a query"),
        (
            'await describe("create_isue")',
            "ValueError: there is no tool called 'create_isue'. Did you mean create_issue",
        ),
        ('await call("create_isue")', "RuntimeError: 'create_isue' was not run: there is no such tool. Did you mean"),
        ('n = "create_issue"\nawait call(n, {"titel": 1})', "title (required)"),
    ],
)
async def test_a_script_that_fails_says_where_and_why(code: str, told: str) -> None:
    async with coding() as script:
        assert told in await script.failure(code)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("return 5", 5),
        ("return 5  # five", 5),
        ("x = 0\nif not x:\n  return 'none'\nx", "none"),
        ("x = 1\nif not x:\n  return 'none'\nx", 1),
        ("x = 0\nif not x: return 'none'\nx = 2", "none"),
        ("for n in range(9):\n  if n == 3:\n    return n", 3),
        ("def f():\n  return 1\nreturn f() + 1", 2),
        ("async def main():\n  if True: return 7\nreturn await main()", 7),
        ("x = [\n1,\n2]\nreturn (x,\n 3)", [[1, 2], 3]),
        ("x = 1; return x", 1),
        ("import collections\ncollections.deque([1, [2]])", [1, [2]]),
        ("class P:\n  def __init__(self):\n    self.x, self.y = 1, 2\nP()", {"P": {"x": 1, "y": 2}}),
        ("from dataclasses import dataclass\n@dataclass\nclass A: x: int; y: int = 4\nA(3)", {"A": {"x": 3, "y": 4}}),
        ("class E:\n  def __init__(self):\n    self.é = 1\nE()", {"E": {"é": 1}}),
        ("class S:\n  def __str__(self): return 's' * 300\nS()", "s" * 200 + "(cut)"),
        ("1 + \\\r\n2", 3),
        ("x = 'a \\\n(b'\nx", "a (b"),
        ('x = """a \\""" ( b"""\nx', 'a """ ( b'),
    ],
    ids=str,
)
async def test_the_value_is_that_of_the_last_line_or_of_a_return(code: str, value: object) -> None:
    async with coding() as script:
        assert await script.value(code) == value


async def test_an_error_after_a_return_keeps_its_line() -> None:
    async with coding() as script:
        assert "line 4: ZeroDivisionError" in await script.failure("x = 1\nif not x:\n  return 5\n1 / 0")


async def test_calls_made_with_map_are_advised_to_be_made_in_a_list() -> None:
    async with coding() as script:
        told = await script.failure("list(map(lambda n: call('create_issue', title=n), 'ab'))")
        assert "__ask__" not in told
        assert "Make the calls in a list comprehension" in told


async def test_a_failure_tells_the_calls_that_were_made_and_what_was_printed() -> None:
    async with coding() as script:
        text = await script.failure('print("begun")\nawait call("create_issue", title="x")\n1 / 0')
        assert "Calls that it had made: create_issue" in text
        assert "It had printed: begun" in text


async def test_wrong_arguments_are_answered_with_their_place_and_the_calls_before_are_told_as_carried_out() -> None:
    async with coding() as script:
        text = await script.failure('await call("send_email", to="a")\nawait call("create_issue", {"titel": "b"})')
        assert "line 2: RuntimeError: The tool create_issue was not invoked" in text
        assert '- arguments.title (required): is required; "titel" came instead. Did you mean "title"?' in text
        assert "Calls that it had made: send_email. They were carried out: repeat none that changes something." in text
        assert text.endswith("Calls that failed: create_issue")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ('await create_issue(title="x")', 'create_issue is a tool: write await call("create_issue", {...})'),
        ('await tool_call("create_issue", {})', 'no tool_call in a script: write await call("TOOL", {...})'),
        ('await tool_search("issue")', 'no tool_search in a script: write await search("...")'),
        (
            'await serch("issue")',
            "NameError: name 'serch' is not defined\n  await serch(\"issue\")\nDid you mean 'search'?",
        ),
        ('await search("issue")[0]', 'A call was not awaited: write await before it, as in (await search("mail"))[0]'),
        ('for hit in search("issue"):\n  print(hit)', "A call was not awaited: write await before it"),
        ('x = call("get_forecast", city="a")\nx["days"]', "A call was not awaited: write await before it"),
    ],
)
async def test_a_name_that_is_no_function_and_a_missing_await_are_answered_with_what_to_write(
    code: str, advice: str
) -> None:
    async with coding() as script:
        assert advice in await script.failure(code)


async def test_what_was_never_awaited_is_said_in_place_of_its_value() -> None:
    async with coding() as script:
        assert (await script.answer('call("create_issue", title="x")')) == {
            "value": "(not awaited: write await before it)",
            "note": "not awaited, so not waited for: call('create_issue'). Write await before each",
        }
        assert await script.value("async def main():\n  return 1\nmain()") == "(not awaited: write await before it)"


async def test_a_script_without_a_value_says_so() -> None:
    async with coding() as script:
        assert (await script.answer("for x in [1]: pass"))[
            "note"
        ] == "the script printed nothing, and its last line has no value"


# Policies, and what is seen of a call


class Judge:
    """Blocks e-mail, withholds the weather and asks before an issue is made."""

    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold:
        return Withhold(["get_forecast"], "no weather here")

    @hooks.before_tool_call(tools="send_email")
    def block(self, event: BeforeToolCall) -> Block:
        return Block("no mail today")


async def test_a_blocked_call_is_an_exception_that_the_script_can_catch() -> None:
    async with coding(Judge) as script:
        caught = 'try:\n  await call("send_email", to="a")\nexcept PermissionError as error:\n  print(error)\n"went on"'
        assert await script.answer(caught) == {"value": "went on", "printed": "Blocked by judge: no mail today\n"}
        text = await script.failure('await call("send_email", to="a")')
        assert "line 1: PermissionError: Blocked by judge: no mail today" in text
        assert text.endswith("Calls that failed: send_email")


async def test_a_withheld_tool_is_neither_found_nor_described_nor_called() -> None:
    async with coding(Judge) as script:
        assert await script.value('await search("weather forecast")') == []
        assert "withheld from this run (no weather here)" in await script.failure('await describe("get_forecast")')
        text = await script.failure('await call("get_forecast", city="a")')
        assert "PermissionError: 'get_forecast' was not run: it is withheld from this run" in text


async def test_a_reason_that_is_no_valid_text_is_told_all_the_same() -> None:
    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold(["get_forecast"], "half a pair: \ud800")

    async with coding(Narrow) as script:
        assert "withheld from this run (half a pair: ?)" in await script.failure('await describe("get_forecast")')


async def test_an_interrupt_from_the_keyboard_reaches_the_host_as_it_is() -> None:
    def interrupt(_: dict[str, Any]) -> str:
        raise KeyboardInterrupt

    async with coding(tools=[answering("interrupt", interrupt)]) as script:
        with pytest.raises(KeyboardInterrupt):
            await script.result('await call("interrupt")')
        assert await script.value("1") == 1


async def test_a_failed_call_is_a_runtime_error() -> None:
    def fail(_: dict[str, Any]) -> ToolResult:
        return ToolResult.error("the disk is full")

    async with coding(tools=[answering("save", fail)]) as script:
        code = 'try:\n  await call("save")\nexcept RuntimeError as error:\n  print(error)\n1'
        assert (await script.answer(code))["printed"] == "the disk is full\n"


async def test_one_blocked_call_of_several_can_be_told_from_the_others() -> None:
    async with coding(Judge) as script:
        code = (
            "async def attempt(name, **arguments):\n"
            "  try:\n    return await call(name, arguments)\n"
            "  except Exception as error:\n    return error\n"
            'await asyncio.gather(attempt("create_issue", title="x"), attempt("send_email", to="a"))'
        )
        blocked = "PermissionError: Blocked by judge: no mail today"
        assert await script.value(code) == ['ran with {"title": "x"}', blocked]


async def test_a_core_tool_can_be_called_from_a_script_and_a_bridge_tool_never() -> None:
    async with coding() as script:
        assert await script.value('await call("read_file", path="a")') == 'ran with {"path": "a"}'
        for name in ("tool_search_code", "tool_search", "tool_describe", "tool_call"):
            assert f"'{name}' was not run" in await script.failure(f'await call("{name}", {{"code": "1"}})')


async def test_each_call_is_seen_once_under_its_own_name_with_origin_and_parent() -> None:
    seen = recorder(*HOOKS_OF_CALLS)
    async with coding(seen, Judge) as script:
        await script.result('await call("create_issue", title="x")\nawait call("send_email", to="a")')
    expected = [
        ("tool_search_code", "model", "c1", None),
        ("create_issue", "code", "c1/1", "c1"),
        ("send_email", "code", "c1/2", "c1"),
    ]
    judged, traced, after = calls_seen(seen)
    assert judged == expected
    assert traced == expected
    assert after == [("create_issue", "ok"), ("send_email", "blocked"), ("tool_search_code", "error")]


async def test_arguments_are_rewritten_and_results_transformed_as_for_a_direct_call() -> None:
    class Change:
        @hooks.rewrite_tool_call(tools="create_issue")
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"title": event.arguments["title"].upper()})

        @hooks.transform_tool_result(tools="create_issue")
        def redact(self, event: TransformToolResult) -> Replace:
            return Replace(event.result.text.replace("HUSH", "***"))

    async with coding(Change) as script:
        assert await script.value('await call("create_issue", title="hush")') == 'ran with {"title": "***"}'


async def test_a_structured_result_does_not_bring_back_what_was_redacted_from_the_text() -> None:
    class Redact:
        @hooks.transform_tool_result(tools="thing")
        def redact(self, event: TransformToolResult) -> Replace:
            return Replace("***")

    tool = answering("thing", giving(ToolResult("hush", structured={"secret": "hush"})))
    async with coding(Redact, tools=[tool]) as script:
        assert await script.value('await call("thing")') == "***"


async def test_a_number_that_a_python_tool_returns_is_a_number_in_the_script() -> None:
    def count_stock(fruit: str) -> int:
        """Count a fruit."""
        return len(fruit)

    async with coding(tools=[Tool.from_function(count_stock, source="mcp", owner="shop")]) as script:
        assert await script.value('await call("count_stock", fruit="plums") + 1') == 6


async def test_the_secret_of_a_call_is_filled_in_for_the_tool_and_never_seen_by_the_script() -> None:
    given: list[Any] = []

    def take(arguments: dict[str, Any]) -> str:
        given.append(arguments["token"])
        return f"used {arguments['token']}"

    class Vault:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets:
            return Secrets(dict.fromkeys(event.names, "hunter2-and-more"))

    async with coding(Vault, tools=[answering("login", take)]) as script:
        value = await script.value('await call("login", token="{{secret:TOKEN}}")')
    assert given == ["hunter2-and-more"]
    assert value == "used {{secret:TOKEN}}"


async def test_a_script_itself_gets_no_secrets_since_it_could_print_them_in_another_form() -> None:
    class Vault:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets:
            return Secrets(dict.fromkeys(event.names, "hunter2-and-more"))

    async with coding(Vault) as script:
        assert await script.value('"{{secret:TOKEN}}"[::-1]') == "}}NEKOT:terces{{"


async def test_the_transcript_has_the_script_and_its_answer_once_and_nothing_of_what_is_inside() -> None:
    async with coding() as script:
        await script.result('await call("create_issue", title="inside")\n"outside"')
        stored = [message for message in script.played.session.messages if message["role"] == "tool"]
        assert [message["content"] for message in stored] == ['{"value":"outside"}']


# Approvals and time


class AskFirst:
    """Asks a person before an issue is made."""

    @hooks.before_tool_call(tools="create_issue")
    def ask(self, event: BeforeToolCall) -> Ask:
        return Ask("May it?", description=event.arguments["title"])


CODE_MODE = {"plugins": {"tool_search": {"config": {"enabled": "on", "mode": "code", "code_timeout": 2}}}}


async def test_a_person_is_asked_about_the_call_inside_the_script() -> None:
    approver = ScriptedApprover(True, "not this one")
    code = (
        'print(await call("create_issue", title="a"))\n'
        'try:\n  await call("create_issue", title="b")\nexcept PermissionError as error:\n  print(error)'
    )
    async with open_session("tool_search", AskFirst, tools=CATALOG, config=CODE_MODE, approver=approver) as session:
        played = await play(session, [call("tool_search_code", code=code), "Done."])
    assert [request.description for request in approver.requests] == ["a", "b"]
    printed = json.loads(played.call("tool_search_code").result.text)["printed"]
    assert printed == 'ran with {"title": "a"}\nBlocked: \'May it?\' was not approved: not this one\n'


@pytest.mark.both_loops
async def test_while_a_person_is_asked_no_clock_of_the_script_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slowly(request: ApprovalRequest) -> Approval:
        await anyio.sleep(3)
        return Approval(True)

    monkeypatch.setattr(code_tool, "CALLS_SECONDS", 0.0)
    tools = [CREATE_ISSUE.copy(timeout=0.5)]
    async with open_session("tool_search", AskFirst, tools=tools, config=CODE_MODE, approver=slowly) as session:
        played = await play(session, [call("tool_search_code", code='await call("create_issue", title="a")'), "Done."])
    assert played.call("tool_search_code").status == "ok"


@pytest.mark.both_loops
async def test_a_slow_tool_is_stopped_by_its_own_limit_and_the_script_goes_on() -> None:
    async def hang(_: dict[str, Any]) -> str:
        await anyio.sleep(60)
        return "never"

    async with coding(tools=[answering("hang", hang, timeout=0.2)]) as script:
        code = 'try:\n  await call("hang")\nexcept RuntimeError as error:\n  print(error)\n1'
        assert (await script.answer(code))[
            "printed"
        ] == f"'hang' did not finish within 0.2 s and was stopped.{MAY_HAVE}\n"


@pytest.mark.both_loops
async def test_the_time_of_the_tools_is_not_the_scripts_own() -> None:
    async def slow(_: dict[str, Any]) -> str:
        await anyio.sleep(1.2)
        return "slow"

    async with coding(tools=[answering("slow", slow)], code_timeout=2) as script:
        assert await script.value('await call("slow")\nawait call("slow")') == "slow"


@pytest.mark.both_loops
async def test_all_calls_together_have_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(_: dict[str, Any]) -> str:
        await anyio.sleep(0.15)
        return "slow"

    monkeypatch.setattr(code_tool, "CALLS_SECONDS", 0.0)
    async with coding(tools=[answering("slow", slow, timeout=1)], code_timeout=2) as script:
        text = await script.failure('for n in range(50):\n  await call("slow")')
        assert text == "'tool_search_code' did not finish within 3 s and was stopped." + MAY_HAVE
        assert await script.value("1") == 1


# Sessions, processes and the lack of monty


KEEPING = (
    'try:\n  found = kept\nexcept NameError:\n  found = "nothing"\nkept = "mine"\nawait call("meet")\n[found, kept]'
)


def meeting() -> Tool:
    """A tool that answers when it was called twice."""
    called: list[int] = []
    both = anyio.Event()

    async def meet(_: dict[str, Any]) -> str:
        called.append(1)
        if len(called) == 2:
            both.set()
        await both.wait()
        return "met"

    return answering("meet", meet)


async def together(*calls: tuple[Search, ToolCall]) -> list[Any]:
    """The values of scripts that run at once."""
    values: list[Any] = []

    async def ask(played: Search, made: ToolCall) -> None:
        values.append(json.loads((await played.run.call_tool(made)).text)["value"])

    async with anyio.create_task_group() as group:
        for played, made in calls:
            group.start_soon(ask, played, made)
    return values


async def test_two_scripts_at_once_in_one_run_have_nothing_in_common() -> None:
    async with coding(tools=[meeting()]) as script:
        made = await script.played.reply(*[("tool_search_code", {"code": KEEPING})] * 2)
        assert await together(*((script.played, one) for one in made)) == [["nothing", "mine"]] * 2


async def test_two_scripts_at_once_in_two_sessions_have_nothing_in_common() -> None:
    meet = meeting()
    async with (
        Host(store=MemoryStore(), config=configuration(enabled="on", mode="code")) as host,
        host.session("a") as one,
        host.session("b") as two,
        one.run() as first,
        two.run() as second,
    ):
        calls: list[tuple[Search, ToolCall]] = []
        for session, run in ((one, first), (two, second)):
            await run.resolve_tools([meet])
            played = Search(host, session, run)
            (made,) = await played.reply(("tool_search_code", {"code": KEEPING}))
            calls.append((played, made))
        assert await together(*calls) == [["nothing", "mine"]] * 2


def workers() -> set[int]:
    """The living worker processes of this process."""
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        try:
            name, _, rest = (folder / "stat").read_text(encoding="utf-8").partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
            if name.startswith("monty") and int(parent) == os.getpid() and state != "Z":
                found.add(int(folder.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")


@pytest.mark.both_loops
@needs_proc
async def test_workers_start_with_the_first_script_stay_warm_and_end_with_the_host() -> None:
    async with coding() as script:
        assert workers() == set()
        await script.value("1")
        warm = workers()
        assert len(warm) == 1
        await script.value("2")
        assert workers() == warm
    assert workers() == set()


@pytest.mark.both_loops
@needs_proc
async def test_a_cancelled_script_leaves_no_worker_and_no_call_behind() -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def hang(_: dict[str, Any]) -> str:
        begun.set()
        try:
            await anyio.sleep(60)
        finally:
            ended.set()
        return "never"

    async with coding(tools=[answering("hang", hang)], code_timeout=60) as script:
        async with anyio.create_task_group() as group:
            group.start_soon(script.result, 'await call("hang")')
            await begun.wait()
            group.cancel_scope.cancel()
        assert ended.is_set()
        with anyio.move_on_after(0.3):
            await script.result("while True: pass")
        assert await script.value("1") == 1
    assert workers() == set()


@pytest.mark.both_loops
async def test_scripts_that_wait_leave_their_places_to_others() -> None:
    sandbox = Sandbox()
    waiting, over = list[int](), anyio.Event()

    async def ask() -> str:
        waiting.append(1)
        await over.wait()
        return "granted"

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            for _ in range(COMPUTING):
                group.start_soon(sandbox.run, "await ask()", {"ask": ask}, Limits(seconds=10))
            while len(waiting) < COMPUTING:
                await anyio.sleep(0.01)
            assert (await sandbox.run("1 + 1", {}, Limits(seconds=10))).value == 2
            over.set()
    await sandbox.close()


@needs_proc
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a task of trio is cancelled by its scope alone
async def test_a_worker_that_is_being_started_when_asyncio_cancels_its_script_is_not_lost() -> None:
    sandbox = Sandbox(workers=16)
    arrived, all_here = list[int](), anyio.Event()

    async def meet() -> None:
        arrived.append(1)
        if len(arrived) == 16:
            all_here.set()
        await all_here.wait()

    def begin(code: str) -> list[asyncio.Task[ScriptResult]]:
        functions = {"meet": meet}
        return [asyncio.create_task(sandbox.run(code, functions, Limits(seconds=10))) for _ in range(16)]

    for enough in (2, 8, 16):
        tasks = begin("1")
        while len(workers()) < enough and not all(task.done() for task in tasks):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    with anyio.fail_after(120):
        assert [ended.problem for ended in await asyncio.gather(*begin("await meet()"))] == [None] * 16
    await sandbox.close()


@pytest.mark.both_loops
@needs_proc
async def test_when_the_host_closes_running_scripts_end_and_no_worker_is_left_or_started() -> None:
    sandbox = Sandbox(workers=16)
    problems: list[str | None] = []

    async def run() -> None:
        problems.append((await sandbox.run("while True: pass", {}, Limits(seconds=60))).problem)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            for _ in range(18):
                group.start_soon(run)
            while len(workers()) < 16:
                await anyio.sleep(0.01)
            await sandbox.close()
        while workers():
            await anyio.sleep(0.01)
    assert len(problems) == 18
    assert problems.count("It was not run: the host is closing.") >= 2


@pytest.mark.both_loops
@needs_proc
async def test_a_worker_that_dies_fails_its_own_script_only() -> None:
    async def kill(_: dict[str, Any]) -> str:
        for worker in workers():
            os.kill(worker, 9)
        return "killed"

    async with coding(tools=[answering("kill", kill)]) as script:
        assert "its worker process died" in await script.failure('await call("kill")\n1')
        assert await script.value("1") == 1


def without_monty(script: str) -> str:
    """What a process prints that has no pydantic-monty."""
    hidden = (
        "import importlib.util as util, sys\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, package=None: None if name == 'pydantic_monty' else found(name, package)\n"
    )
    done = subprocess.run([sys.executable, "-c", hidden + script], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


async def test_without_monty_tools_mode_is_used_and_it_is_said_once() -> None:
    told = without_monty(
        "import anyio\n"
        "from hooksdk import Host, MemoryStore, Tool\n"
        "config = {'allow': ['tool_search'], 'plugins': {'tool_search': {'config': {'enabled': 'on', 'mode': 'code'}}}}\n"
        "async def main():\n"
        "    async with Host(store=MemoryStore(), config=config) as host:\n"
        "        for name in 'ab':\n"
        "            async with host.session(name) as session, session.run() as run:\n"
        "                print(*[tool.name for tool in await run.resolve_tools([Tool(name='t', source='mcp')])])\n"
        "anyio.run(main)\n"
        "print('pydantic_monty' in sys.modules)\n"
    )
    assert told.splitlines()[:3] == ["tool_search tool_describe tool_call"] * 2 + ["False"]
    assert told.count("mode = 'code' needs pydantic-monty (pip install 'hooksdk[code]'); mode 'tools' is used") == 1


def test_monty_is_imported_with_the_first_script_and_not_before() -> None:
    script = (
        "import sys, builtin_plugins.tool_search as s\n"
        "s.ToolSearch.Config(mode='code'); print('pydantic_monty' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


async def test_a_script_and_its_arguments_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with coding() as script:
        await script.result('await call("create_issue", title="hush-hush")\n1 / 0')
    assert "hush-hush" not in caplog.text


async def test_the_model_plays_a_whole_run_with_one_script() -> None:
    def model(turn: Turn) -> Any:
        if turn.number == 1:
            assert turn.offered == ["read_file", "tool_search_code"]
            code = (
                'hits = await search(["report a bug", "send an email"])\n'
                'issue = await call("create_issue", title="It is broken")\n'
                'await call("send_email", to="ada", count=1)\nissue'
            )
            return call("tool_search_code", code=code)
        return turn.result.json()["value"]

    tools = [READ_FILE, CREATE_ISSUE, SEND_EMAIL, make("other", execute="string")]
    async with open_session("tool_search", tools=tools, config=CODE_MODE) as session:
        played = await play(session, model)
    assert played.text == 'ran with {"title": "It is broken"}'
    assert [(one.call.name, one.call.origin, one.status) for one in played.calls] == [
        ("create_issue", "code", "ok"),
        ("send_email", "code", "ok"),
        ("tool_search_code", "model", "ok"),
    ]


async def test_a_script_vouches_for_nothing_and_is_as_bad_as_what_it_has_read() -> None:
    tools = [answering("ours", giving("ann"), labels="trusted"), answering("theirs", giving("eve"))]
    async with coding(tools=tools) as script:
        assert (await script.result("'eve@evil.example'")).labels == frozenset()
        assert (await script.result("await call('ours')")).labels == frozenset()
        assert (await script.result("await call('theirs')")).labels == {"untrusted"}
