"""What is said of a script before it runs: only what is certain, with the line, the argument and the signature."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from searching import CREATE_ISSUE, GET_FORECAST, READ_FILE, SEND_EMAIL, echo, make

from builtin_plugins.tool_search._sandbox import Sandbox
from builtin_plugins.tool_search._stubs import Stubs
from hooksdk import Catalog, Tool

pytest.importorskip("pydantic_monty", reason="code mode needs the extra 'code'")
pytestmark = pytest.mark.anyio

RETRIEVAL = Path(__file__).resolve().parents[3] / "shared" / "benchmarks" / "retrieval"

ORDER = make(
    "place_order", "Order goods.", "shop", required=["customer", "lines"],
    customer={"type": "object", "properties": {"name": {"type": "string"}, "vip": {"type": "boolean"}}, "required": ["name"],
              "additionalProperties": False},
    lines={"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                                      "required": ["sku"]}},
    note={"type": ["string", "null"]}, day={"anyOf": [{"type": "string"}, {"type": "integer"}]},
    extra={"type": "object"}, anything={},
)  # fmt: skip
CLOSED = Tool(
    name="add_label", source="mcp", owner="github", execute=echo,
    parameters={"type": "object", "properties": {"issue_id": {"type": "integer"}, "label": {"enum": ["bug", "task"]}},
                "required": ["issue_id"], "additionalProperties": False},
)  # fmt: skip
NAMED_ARGUMENTS = Tool(
    name="run_command",
    parameters={"type": "object", "properties": {"arguments": {"type": "array"}, "name": {"type": "string"}}},
)
ODD = Tool(
    name="odd",
    parameters={
        "type": "object",
        "properties": {"x-y": {"type": "string"}, "class": {"type": "integer"}, "self": {"type": "string"}},
        "required": ["x-y"],
    },
)
CATALOG = Catalog([READ_FILE, CREATE_ISSUE, SEND_EMAIL, GET_FORECAST, ORDER, CLOSED, NAMED_ARGUMENTS, ODD])


@asynccontextmanager
async def checking() -> AsyncGenerator[Any, None]:
    """What is said of a script before it runs, or None."""
    sandbox = Sandbox()

    async def check(code: str, catalog: Catalog = CATALOG) -> str | None:
        stubs = Stubs(code, catalog)
        assert stubs.code.count("\n") == code.count("\n")
        return stubs.told(await sandbox.check(stubs.code, stubs.text))

    try:
        yield check
    finally:
        await sandbox.close()


WRONG = [
    ('await call("create_issue", {"titel": "x"})', ["line 1: 'title' is missing", "create_issue(title: string"]),
    ('await call("create_issue", {})', ["'title' is missing"]),
    ('await call("create_issue")', ["'title' is missing"]),
    ("await call('create_issue', {\n  'labels': [],\n})", ["line 1: 'title' is missing"]),
    ('x = 1\n\nawait call( "create_issue" , arguments={"state": "open"})', ["line 3: 'title' is missing"]),
    ('await call("create_issue", titel="x")', ["'title' is missing"]),
    ('await call("create_issue", {"title": 5})', ["'title' cannot be 5"]),
    ('await call("create_issue", title=5)', ["'title' cannot be 5"]),
    ('await call("create_issue", {"title": ["a"]})', ["'title' cannot be a list"]),
    ('await call("create_issue", {"title": {"a": 1}})', ["'title' cannot be a dict"]),
    ('await call("create_issue", {"title": len(await search("a"))})', ["'title' cannot be a whole number"]),
    ('await call("create_issue", {"title": None})', ["'title' cannot be None"]),
    ('await call("create_issue", {"title": "a", "state": "opn"})', ["'state' cannot be \"opn\""]),
    ('await call("create_issue", {"title": "a", "labels": 5})', ["'labels' cannot be 5"]),
    ('await call("create_issue", {"title": "a"}, {"state": "open"})', ["one object with the arguments"]),
    ('await call("add_label", {"issue_id": 1, "name": "bug"})', ["there is no 'name'", "add_label(issue_id: integer"]),
    ('await call("add_label", {"issueId": 1})', ["'issue_id' is missing", "there is no 'issueId', but 'issue_id'"]),
    ('await call("add_label", issue_id=1, Label="bug")', ["there is no 'Label', but 'label'"]),
    ('await call("add_label", {"issue_id": [1]})', ["'issue_id' cannot be a list"]),
    ('await call("place_order", {"customer": {"nam": "a"}, "lines": []})', ["'name' is missing", "there is no 'nam'"]),
    ('await call("place_order", {"customer": {"name": "a"}, "lines": [{"sku": 5}]})', ["'sku' cannot be 5"]),
    ('await call("place_order", {"customer": {"name": "a"}, "lines": [{}, {"sku": "a"}]})', ["'sku' is missing"]),
    ('await call("odd", {"class": 1})', ["'x-y' is missing"]),
    ('async def one(n):\n  return await call("create_issue", {"name": n})\nawait one("a")', ["line 2: 'title' is missing"]),
    ('print(f"{await call(\'create_issue\', {})}")', ["'title' is missing"]),
    ('call("create_issue", {"title": "a"})', ["line 1: this is called but not awaited"]),
    ('search("issues")\n1', ["not awaited"]),
    ('x = call("create_issue", {"title": "a"})\nprint(x["id"])', ["line 2: this is called but not awaited"]),
    ('for hit in search("a"):\n  print(hit)', ["not awaited"]),
    ('search("a")[0]["name"]', ["not awaited"]),
    ('await search("a")[0]', ["not awaited"]),
    ('call("get_forecast", {"city": "a"}).get("x")', ["not awaited"]),
    ("async def main():\n  return 1\nmain()", ["line 3", "not awaited"]),
    ('create_issue(title="x")', ['create_issue is a tool: write await call("create_issue", {...})']),
    ('await tool_call("create_issue", {"title": "x"})', ['no tool_call in a script: write await call("TOOL", {...})']),
    ("print(undefined_thing)", ["name 'undefined_thing' is not defined"]),
]  # fmt: skip


async def test_certain_mistakes_are_told_with_line_argument_and_signature() -> None:
    async with checking() as check:
        for code, expected in WRONG:
            told = await check(code)
            assert told is not None, code
            assert told.startswith("Nothing was run: line "), code
            for part in expected:
                assert part in told, (code, told)


RIGHT = [
    'await call("create_issue", {"title": "x", "labels": ["a"], "state": "open"})',
    'await call("create_issue", title="x", labels=("a", "b"))',
    'await call("create_issue", title="x", labels=None, state="")',
    'await call("create_issue", {"title": "x", "unknown": 1})',
    'await call("create_issue", **{"title": "x"})',
    'more = {"labels": ["a"]}\nawait call("create_issue", title="x", **more)',
    'await call("create_issue", {"title": "x"}, state="open")',
    'await call("create_issue", {"state": "open"}, title="x")',
    'await call("add_label", {}, issue_id=1)',
    'await call("create_issue", args={"title": "x"})',
    'base = {"title": "x"}\nawait call("create_issue", {**base, "state": "open"})',
    'await call("create_issue", {"state": "open"} | {"title": "x"})',
    'await call("create_issue", {} or {"title": "x"})',
    'await call("create_issue", {"title": "x"} if True else {})',
    'a = {}\na["title"] = "x"\nawait call("create_issue", a)',
    'a = {"title": "x"}\na["labels"] = ["b"]\nawait call("create_issue", a)',
    'await call("create_issue", dict(title="x"))',
    'await call("create_issue", {key: "x" for key in ["title"]})',
    'key = "title"\nawait call("create_issue", {key: "x"})',
    'await call("create_issue", \'{"title": "x"}\')',
    'await call(name="create_issue", arguments={"title": "x"})',
    'state = "closed"\nawait call("create_issue", {"title": "x", "state": state})',
    'def ask(state: str):\n  return call("create_issue", {"title": "x", "state": state})\nawait ask("open")',
    'state = ["open", "closed"][0]\nawait call("create_issue", {"title": "x", "state": state.lower()})',
    'title = None\nfor part in ["a"]:\n  title = part\nawait call("create_issue", {"title": title})',
    'await call("add_label", {"issue_id": "5"})',
    'await call("add_label", {"issue_id": 10 / 2, "label": None})',
    'await call("add_label", issue_id="5", label="bug")',
    'who = {"name": "a"}\nawait call("place_order", {"customer": who, "lines": []})',
    'lines = [{"sku": str(n), "count": n} for n in range(3)]\nawait call("place_order", {"customer": {"name": "a"}, "lines": lines})',
    'await call("place_order", {"customer": {"name": "a", "vip": True}, "lines": [{"sku": "a"}], "note": None, "day": 5, "extra": {"a": [1]}, "anything": {1: 2}})',
    'await call("place_order", {"customer": \'{"name": "a"}\', "lines": "[]"})',
    'import datetime\nawait call("get_forecast", {"city": datetime.date.today()})',
    'await call("run_command", arguments=["ls"], name="a")',
    'await call("run_command", {"arguments": ["ls"]})',
    'await call("odd", {"x-y": "a", "class": 1, "self": "b"})',
    'hits = await search("create issue")\nawait call(hits[0]["name"], {"title": "x"})',
    'hit = (await search(["a", "b"], 3))[0]\nawait call(hit, {"title": hit.get("description")})',
    'names = ["create_issue", "send_email"]\nfor name in names:\n  await call(name, {"title": "a", "to": "b"})',
    'calls = [call("create_issue", {"title": str(n)}) for n in range(3)]\nawait asyncio.gather(*calls)',
    'results = await asyncio.gather(call("get_forecast", city="a"), call("send_email", to="b"), return_exceptions=True)\nresults[0]["x"]',
    'ask = call\nawait ask("create_issue", {"titel": 1})',
    'def call(name, arguments):\n  return arguments\ncall("create_issue", {"titel": 1})',
    "call = 5\ncall",
    '# call("create_issue", {})\nprint("call(\'create_issue\', {})")',
    'try:\n  await call("send_email", to="a")\nexcept PermissionError as error:\n  print(error)',
    'try:\n  value = await call("send_email", to="a")\nexcept Exception:\n  value = None\nprint(value["a"])',
    'try:\n  print(nothing_here)\nexcept NameError:\n  print("none")',
    'import json, re, math, collections, itertools, functools\njson.dumps(re.findall("a", "aa"))',
    "json.dumps([math.pi, datetime.date.today().isoformat()])",
    "import numpy\nnumpy.array([1])",
    'from dataclasses import dataclass\n@dataclass\nclass Row:\n  name: str\nRow("a").name',
    'rows = (await call("get_forecast", city="a"))["days"]\nsorted(rows, key=lambda row: row["high"], reverse=True)[:3]',
    'async def main():\n  return await call("get_forecast", city="a")\nawait main()',
    "async def main():\n  return 1\nasyncio.run(main())",
    'total = 0\nfor page in range(3):\n  answer = await call("get_forecast", {"city": f"page {page}"})\n  total += len(answer)\ntotal',
    "text: str = 5\nprint(text)",
    'x = [1]\nx[0] = "a"\nx[0].upper()',
    "while True:\n  break\nelse:\n  missing = 1",
    'eval("1 + 1")',
]  # fmt: skip


async def test_a_script_that_may_be_right_is_never_refused() -> None:
    async with checking() as check:
        for code in RIGHT:
            assert await check(code) is None, code


async def test_what_does_not_parse_or_takes_too_long_to_judge_is_left_to_the_run() -> None:
    slow = "f = lambda a: a\n" + "f = lambda a, f=f: (f(a), f(a))\n" * 300 + 'f(1)\ncall("create_issue", {})'
    async with checking() as check:
        assert await check("x = (") is None
        assert await check(slow) is None
        assert "'title' is missing" in (await check('await call("create_issue", {})') or "")


async def test_a_text_that_looks_like_the_checkers_own_names_does_not_mislead() -> None:
    async with checking() as check:
        told = await check('await call("add_label", {"issue_id": 1, "of TypedDict `_Checked_99_99`": 1})')
        assert told is None or "Nothing was run" in told
        assert await check('(await call("create_issue", {"title": "a"}))["function `checked_77`"]') is None


async def test_hostile_schemas_make_stubs_that_still_work() -> None:
    recursive = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    hostile = [
        Tool(name="quotes", parameters={"type": "object", "properties": {'"]) \n class': {"enum": ['"""', "\\", "\ud800"]}}}),
        Tool(name="recursive", parameters=recursive),
        Tool(name="nonsense", parameters={"type": 5, "properties": [1], "required": {"a": 1}, "additionalProperties": "x"}),
        Tool(name="deep", parameters={"type": "object", "properties": {"a": _nested(60)}}),
        Tool(name="wide", parameters={"type": "object", "properties": {f"p{n}": _nested(5, 8) for n in range(200)}}),
        Tool(name="none"),
    ]  # fmt: skip
    code = "".join(f'await call("{tool.name}", {{"title": 1}})\n' for tool in hostile)
    async with checking() as check:
        catalog = Catalog([*hostile, CREATE_ISSUE])
        assert len(Stubs(code, catalog).text) < 400_000
        assert await check(code + 'await call("create_issue", {})', catalog) is not None


def _nested(depth: int, width: int = 1) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string"} if depth == 0 else _nested(depth - 1, width)
    return {"type": "object", "properties": {f"k{n}": inner for n in range(width)}}


@pytest.mark.skipif(not RETRIEVAL.is_dir(), reason="the retrieval sets lie in ../shared, which is not here")
async def test_the_schemas_of_527_real_tools_are_read_and_their_required_arguments_asked_for() -> None:
    lines = (RETRIEVAL / "livemcp" / "catalog.jsonl").read_text(encoding="utf-8").splitlines()
    tools = {
        entry["name"]: Tool(name=entry["name"], parameters=entry.get("parameters")) for entry in map(json.loads, lines)
    }
    catalog = Catalog(tools.values())
    asked = 0
    async with checking() as check:
        for start in range(0, len(catalog), 25):
            some = catalog[start : start + 25]
            told = await check("\n".join(f'await call("{tool.name}", {{}})' for tool in some), catalog) or ""
            needed = {number for number, tool in enumerate(some, 1) if (tool.parameters or {}).get("required")}
            asked += len(needed)
            assert bool(needed) == bool(told)
            assert all(int(line) in needed for line in _lines_of(told)), told
    assert asked > 200


def _lines_of(told: str) -> list[str]:
    return [part.split(":")[0] for part in told.replace("Nothing was run: ", "").split("line ")[1:]]


async def test_only_the_tools_that_a_script_names_are_declared_however_large_the_catalog() -> None:
    catalog = Catalog([*(make(f"tool_{n}", required=["a"], a="string") for n in range(5_000)), CREATE_ISSUE])
    code = 'await call("create_issue", {"title": "a"})\nawait call("tool_7", {"a": "b"})\nawait call("tool_7", a="b")'
    stubs = Stubs(code, catalog)
    assert stubs.text.count("TypedDict(") == 2
    named = "".join(f'await call("tool_{n}", {{}})\n' for n in range(100))
    assert Stubs(named, catalog).text.count("TypedDict(") == 30


def test_scripts_made_to_be_slow_to_read_are_read_at_once() -> None:
    hostile = ["call" + " " * 19_000, "call(" * 4_000, "call('" * 3_000, "call('create_issue'," * 900, "'" * 19_999,
               '"""' * 6_000 + "'", "#" * 19_999, "call('create_issue', " + "a" * 19_000, "\\" * 19_999]  # fmt: skip
    for code in hostile:
        assert Stubs(code, CATALOG).text
