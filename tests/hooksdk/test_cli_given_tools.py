"""`--tools MODULE:TOOLS` and `--trace FILE`: the tools of one's own loop, for commands that look at tools."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from commands import hooksdk

from hooksdk import Annotations, MemoryStore, Tool
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._given_tools import given_tools, with_others
from hooksdk.errors import HookSDKError
from hooksdk.testing import open_session, play

AGENT = """
from hooksdk import Tool

def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

schema = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
PAY = Tool(name="pay", source="mcp", owner="bank", parameters=schema)
shell = {"properties": {"cmd": {"type": "string"}}, "required": ["cmd"], "type": "object"}
TOOLS = [add, PAY, {"name": "shell", "input_schema": shell}]
EMPTY = []
TEXT = "add"
NUMBER = 3

def make():
    return TOOLS

def fails():
    raise RuntimeError("not today")

async def later():
    return TOOLS
"""
RULES = """
[plugins.tool_policy.config]
[[plugins.tool_policy.config.rules]]
action = "ask"
tools = "pay"
[[plugins.tool_policy.config.rules]]
action = "deny"
command = "rm"
"""


def agent(folder: Path, name: str = "TOOLS") -> str:
    """The option's value for a name in a file here."""
    (folder / "agent.py").write_text(AGENT)
    return f"{folder / 'agent.py'}:{name}"


def trace_of(folder: Path, *tools: Tool) -> Path:
    """The trace of a run with these tools."""

    async def run() -> None:
        config = {"plugins": {"trace_file": {"config": {"path": str(folder / "trace.jsonl")}}}}
        async with open_session("trace_file", tools=tools, config=config, store=MemoryStore()) as session:
            await play(session, ["Done."], "Hello")

    anyio.run(run)
    return folder / "trace.jsonl"


@pytest.mark.parametrize("name", ["TOOLS", "make"])
def test_a_list_or_a_function_that_returns_one_gives_tools_functions_and_definitions(tmp_path: Path, name: str) -> None:
    tools = given_tools([agent(tmp_path, name)], None)
    assert [one.id for one in tools] == ["host::add", "mcp:bank:pay", "host::shell"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TOOLZ", "there is no 'TOOLZ' in "),
        ("EMPTY", "expected at least one tool, got an empty list"),
        ("TEXT", "expected a list of tools, got 'add' (str)"),
        ("NUMBER", "expected a list of tools, got 3 (int)"),
        ("add", "or a function without parameters that answers one, got the function add"),
        ("fails", "raised RuntimeError: not today"),
        ("later", "expected a list of tools, got a coroutine"),
        ("", "expected a module and a name in it, such as agent.py:TOOLS"),
    ],
)
def test_what_is_no_list_of_tools_is_named_with_what_came(tmp_path: Path, name: str, words: str) -> None:
    where = agent(tmp_path, name)
    with pytest.raises(HookSDKError) as refused:
        given_tools([where], None)
    assert str(refused.value).startswith(f"--tools {where}")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("import nothing_such", "No module named 'nothing_such' (broken.py:1). Install"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_module_that_does_not_import_is_one_line(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "broken.py").write_text(content)
    with pytest.raises(CommandProblem, match=r"--tools .*broken\.py:TOOLS: running ") as refused:
        given_tools([f"{tmp_path / 'broken.py'}:TOOLS"], None)
    assert words in str(refused.value)


def test_a_trace_gives_the_tools_that_its_runs_had_with_their_hints(tmp_path: Path) -> None:
    pay = Tool(name="pay", source="mcp", owner="bank", annotations=Annotations(destructive=True))
    (told,) = given_tools(None, [trace_of(tmp_path, pay)])
    assert (told.id, told.annotations, told.parameters) == (pay.id, pay.annotations, None)


@pytest.mark.parametrize(
    "content", ["", "hello", '{"kind": "run_started", "time": 1}', '{"kind": "tools_resolved", "cata']
)
def test_what_is_no_trace_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(CommandProblem, match="expected a trace of trace_file, got no line with the tools of a run"):
        given_tools(None, [tmp_path / "a.jsonl"])
    with pytest.raises(CommandProblem, match="No such file"):
        given_tools(None, [tmp_path / "none.jsonl"])


def test_a_tool_that_is_known_with_its_schema_is_not_taken_from_the_trace(tmp_path: Path) -> None:
    pay = Tool(name="pay", source="mcp", owner="bank")
    told = given_tools([agent(tmp_path)], [trace_of(tmp_path, pay)])
    assert [one.parameter_names for one in told if one.name == "pay"] == [["amount"]]
    assert [one.id for one in with_others([pay], [pay.copy(), told[0]])] == [pay.id, told[0].id]


@pytest.mark.heavy
@pytest.mark.anyio
async def test_the_commands_speak_of_the_tools_given(tmp_path: Path) -> None:
    where = agent(tmp_path)
    (tmp_path / "hooksdk.toml").write_text(RULES)
    table = (await hooksdk("policy", "table", "--tools", where, "--json", folder=tmp_path)).json()
    assert {one["id"]: one["actions"] for one in table["tools"]}["mcp:bank:pay"] == ["ask", "deny"]
    check = await hooksdk("policy", "check", "pay", "amount=3", "--tools", where, "--json", folder=tmp_path)
    assert (check.json()["verdict"], check.json()["tool"], check.json()["tool_as_written"]) == (
        "ask", "mcp:bank:pay", False,
    )  # fmt: skip
    missing = await hooksdk("policy", "check", "pya", "amount=3", "--tools", where, folder=tmp_path)
    assert "none of the tools given is named 'pya'. Did you mean 'pay'?" in missing.complaint
    wrong = await hooksdk("policy", "table", "--trace", "none.jsonl", folder=tmp_path)
    assert (wrong.code, wrong.complaint) == (1, "hooksdk: --trace none.jsonl: No such file or directory")


@pytest.mark.heavy
@pytest.mark.anyio
async def test_the_doctor_compares_patterns_with_the_tools_given(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('[plugins.tool_policy.config]\nrules = [{action = "deny", tools = "pya"}]\n')
    told = (await hooksdk("doctor", "--tools", agent(tmp_path), "--json", folder=tmp_path)).json()
    assert any("'pay'" in one["what"] for one in told["findings"])
    told = (await hooksdk("doctor", "--tools", agent(tmp_path, "TOOLZ"), "--json", folder=tmp_path)).json()
    assert [one["who"] for one in told["findings"] if "there is no 'TOOLZ'" in one["what"]] == ["session"]


PROPERTIES = """
[policy.properties]
paid = { never = { tools = "pay" } }
added = { only_asked = { tools = "add" } }
shells = { only_asked = { command = "ls" } }
sends = { never = { tools = "send" } }
"""


@pytest.mark.heavy
@pytest.mark.anyio
async def test_a_counterexample_uses_a_tool_that_exists_and_arguments_that_it_has(tmp_path: Path) -> None:
    pytest.importorskip("z3", reason="needs the extra `prove`")
    (tmp_path / "hooksdk.toml").write_text(RULES + PROPERTIES)
    done = await hooksdk("policy", "prove", "--tools", agent(tmp_path), "--json", folder=tmp_path)
    told = {one["name"]: one for one in done.json()["properties"]}
    calls = {name: (one["call"]["tool"], one["call"].get("arguments"), one["is_here"]) for name, one in told.items()}
    assert calls == {
        "paid": ("mcp:bank:pay", {"amount": 1}, True),
        "added": ("host::add", {"a": 1, "b": 1}, True),
        "shells": ("host::shell", {"cmd": "ls"}, True),
        "sends": ("host::send", {}, False),
    }
    said = await hooksdk("policy", "prove", "--tools", agent(tmp_path), folder=tmp_path)
    assert said.out.count("none of the tools here was found to do that; a tool like this one would") == 1
    plain = (await hooksdk("policy", "prove", "--json", folder=tmp_path)).json()
    assert {one["is_here"] for one in plain["properties"]} == {None}


@pytest.mark.heavy
@pytest.mark.anyio
async def test_schemas_of_any_shape_and_tools_of_a_trace_end_no_proof(tmp_path: Path) -> None:
    pytest.importorskip("z3", reason="needs the extra `prove`")
    odd = [{"a": True, "path": 3}, {"cmd": {"enum": 3}, "commands": {"type": ["string", "null"]}}]
    tools = [{"name": f"odd_{at}", "input_schema": {"type": "object", "properties": one, "required": [*one]}}
             for at, one in enumerate(odd)]  # fmt: skip
    (tmp_path / "odd.py").write_text(f"TOOLS = {tools!r}\n")
    (tmp_path / "hooksdk.toml").write_text(RULES + PROPERTIES)
    trace = str(await anyio.to_thread.run_sync(trace_of, tmp_path, Tool(name="send", source="mcp", owner="mail")))
    done = await hooksdk("policy", "prove", "--tools", "odd.py:TOOLS", "--trace", trace, "--json", folder=tmp_path)
    told = {one["name"]: one for one in done.json()["properties"]}
    assert (told["sends"]["call"]["tool"], told["sends"]["is_here"]) == ("mcp:mail:send", True)
    assert {one["status"] for one in told.values()} == {"broken"}


@pytest.mark.heavy
@pytest.mark.anyio
async def test_a_thousand_tools_stand_in_the_table_and_all_of_them_in_its_json(tmp_path: Path) -> None:
    line = '[{"name": f"t_{n}", "input_schema": {"type": "object"}} for n in range(1000)]'
    (tmp_path / "many.py").write_text(f"TOOLS = {line}\n")
    (tmp_path / "hooksdk.toml").write_text(RULES)
    shown = await hooksdk("policy", "table", "--tools", "many.py:TOOLS", folder=tmp_path)
    assert len(shown.out.splitlines()) == 5
    whole = json.loads((await hooksdk("policy", "table", "--tools", "many.py:TOOLS", "--json", folder=tmp_path)).out)
    assert len(whole["tools"]) == 1000
