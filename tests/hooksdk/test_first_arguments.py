"""What a host author first gives wrong, or rightly in another shape: each call works or answers with an error of ours."""

from __future__ import annotations

import functools
import gc
import math
import types
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from hooksdk import HookSDKError, Host, MemoryStore, Run, Session, Tool, ToolCall, ToolResult, tool
from hooksdk.agent import Limits, run_agent
from hooksdk.errors import ConfigError, HookUseError, ToolSchemaError, WrongArgument
from hooksdk.models import get_model
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.models.openai import OpenAIModel
from hooksdk.models.openai_responses import OpenAIResponsesModel
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedModel, call, open_session, play
from hooksdk.trimming import guess_format, list_results

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


async def forgotten() -> dict[str, str]:
    """What it is called for is never awaited."""
    return {"role": "user", "content": "hello"}


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


def next_number(arguments: dict[str, int]) -> str:
    """The number after `left`."""
    return str(arguments["left"] + 1)


@dataclass
class Plain:
    role: str = "user"
    content: str = "hello"


ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "text": lambda: "text",
    "no text": lambda: "",
    "bytes": lambda: b"bytes",
    "a number": lambda: 5,
    "a negative number": lambda: -1,
    "a fraction": lambda: 1.5,
    "no number": lambda: math.nan,
    "an empty list": list,
    "a list of numbers": lambda: [1, 2],
    "a list of None": lambda: [None],
    "a list of text": lambda: ["text"],
    "a list of functions": lambda: [add],
    "a list of classes": lambda: [Plain],
    "an empty dict": dict,
    "a dict": lambda: {"a": 1},
    "a dict with odd keys": lambda: {1: {2}},
    "a dict in a circle": lambda: circle(),
    "a set": lambda: {1},
    "a generator": lambda: (one for one in [1]),
    "a path": lambda: Path("somewhere"),
    "an object": object,
    "a dataclass": Plain,
    "a class": lambda: Plain,
    "a function": lambda: add,
    "a function without parameters": lambda: forgotten,
    "a coroutine": lambda: forgotten(),
    "a module": lambda: types,
    "a namespace": lambda: types.SimpleNamespace(role="user", content="hello"),
    "an exception": lambda: ValueError("no"),
    "a host": functools.cache(lambda: Host(config={"allow": []})),
    "a store": MemoryStore,
    "a tool": lambda: Tool(name="t"),
    "a call": lambda: ToolCall("c9", "add", {}),
}


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["again"] = value
    return value


@asynccontextmanager
async def opened(session: Session) -> AsyncGenerator[Run, None]:
    async with session.run() as run:
        await run.resolve_tools([add])
        yield run


Door = Callable[[Session, Any], Awaitable[object]]


def in_run(use: Callable[[Any, Any], Any]) -> Door:
    """A door of a run."""

    async def door(session: Session, value: Any) -> object:
        async with opened(session) as run:
            return await use(run, value)

    return door


def plain(use: Callable[[Any], object]) -> Door:
    """A door that needs no session."""

    async def door(session: Session, value: Any) -> object:
        return use(value)

    return door


async def pause(run: Run, value: Any) -> None:
    run.pause(value)


async def compact(run: Run, value: Any) -> None:
    async with run.compaction() as compaction:
        await compaction.replace(value)


async def run_with(session: Session, **options: Any) -> None:
    async with session.run(**options):
        pass


async def open_kit(**options: Any) -> None:
    async with open_session(**options):
        pass


async def open_child(session: Session, **options: Any) -> None:
    async with session.child(**options):
        pass


async def open_by_id(session_id: Any) -> None:
    async with Host(config={"allow": []}) as host, host.session(session_id):
        pass


async def agent(session: Any, model: Any = None, prompt: Any = "hello", **options: Any) -> None:
    await run_agent(session, ScriptedModel(["done"]) if model is None else model, prompt, **options)


RUN_OPTIONS = (
    "input", "agent_id", "workspace_dir", "requester", "trigger", "metadata", "provider", "model", "context_window", "format",
    "approver",
)  # fmt: skip
TOOL_OPTIONS = (
    "name", "description", "parameters", "source", "owner", "label", "annotations", "output_schema", "execute", "timeout",
)  # fmt: skip
MODEL_OPTIONS = ("base_url", "context_window", "on_text", "timeout", "headers", "extra")
loose: Any = types.SimpleNamespace(
    Host=Host, Tool=Tool, ToolResult=ToolResult, Limits=Limits, get_model=get_model, run_agent=run_agent
)  # fmt: skip
"""What a type checker would refuse as well."""
DOORS: dict[str, Door] = {
    **{f"Host({name}=)": plain(lambda value, name=name: loose.Host(**{"config": {"allow": []}, name: value}))
       for name in ("plugins", "store", "config", "approver", "folder", "restart")},
    "host.session()": lambda session, value: open_by_id(value),
    **{f"open_session({name}=)": lambda session, value, name=name: open_kit(**{name: value})
       for name in ("tools", "store", "config", "approver", "grants", "session_id")},
    **{f"session.run({name}=)": lambda session, value, name=name: run_with(session, **{name: value}) for name in RUN_OPTIONS},
    "session.child()": lambda session, value: open_child(session, session_id=value),
    "session.child(tools=)": lambda session, value: open_child(session, tools=value),
    "session.load()": lambda session, value: session.load(value),
    "session.load(format=)": lambda session, value: session.load([], value),
    "run.resolve_tools()": in_run(lambda run, value: run.resolve_tools(value)),
    "run.resolve_tools([])": in_run(lambda run, value: run.resolve_tools([value])),
    "run.record()": in_run(lambda run, value: run.record(value)),
    "run.record([])": in_run(lambda run, value: run.record([value])),
    "run.record(usage=)": in_run(lambda run, value: run.record({"role": "assistant", "content": "x"}, usage=value)),
    "run.record(stop_reason=)": in_run(lambda run, value: run.record({"role": "assistant", "content": "x"}, stop_reason=value)),
    "run.prepare_messages()": in_run(lambda run, value: run.prepare_messages(value)),
    "run.call_tool()": in_run(lambda run, value: run.call_tool(value)),
    "run.judge()": in_run(lambda run, value: run.judge(value)),
    "run.pause()": in_run(pause),
    "compaction.replace()": in_run(compact),
    **{f"Tool({name}=)": plain(lambda value, name=name: loose.Tool(**{"name": "t", name: value})) for name in TOOL_OPTIONS},
    "Tool.from_function()": plain(lambda value: Tool.from_function(value)),
    "Tool.from_json()": plain(lambda value: Tool.from_json(value)),
    "tool.copy()": plain(lambda value: Tool(name="t").copy(name=value)),
    "ToolCall(id)": plain(lambda value: ToolCall(value, "add")),
    "ToolCall(name)": plain(lambda value: ToolCall("c1", value)),
    "ToolCall(arguments)": plain(lambda value: ToolCall("c1", "add", value)),
    "ToolResult(text)": plain(lambda value: ToolResult(value)),
    "ToolResult(blocks=)": plain(lambda value: ToolResult(blocks=value)),
    "ToolResult(structured=)": plain(lambda value: ToolResult(structured=value)),
    "run_agent(session)": lambda session, value: agent(value),
    "run_agent(model)": lambda session, value: agent(session, value),
    "run_agent(prompt)": lambda session, value: agent(session, prompt=value),
    **{f"run_agent({name}=)": lambda session, value, name=name: agent(session, **{name: value})
       for name in ("tools", "limits", "system", "approver", "metadata")},
    "play(session)": lambda session, value: play(value, ["done"]),
    "play(tools=)": lambda session, value: play(session, ["done"], tools=value),
    **{f"Limits({name}=)": plain(lambda value, name=name: Limits(**{name: value}))
       for name in ("turns", "tokens", "seconds", "parallel", "attempts", "reminders")},
    "OpenAIModel()": plain(OpenAIModel),
    "OpenAIResponsesModel()": plain(OpenAIResponsesModel),
    "AnthropicModel()": plain(AnthropicModel),
    **{f"OpenAIModel({name}=)": plain(lambda value, name=name: OpenAIModel("gpt", **{name: value})) for name in MODEL_OPTIONS},
    "get_model()": plain(get_model),
    "list_results()": plain(list_results),
    "guess_format()": plain(guess_format),
    "@tool": plain(tool),
}  # fmt: skip


@pytest.mark.in_ci(every=4)
@pytest.mark.parametrize("name", DOORS)
@pytest.mark.filterwarnings("ignore:coroutine 'forgotten' was never awaited")  # of those that nobody looks at, too
async def test_an_argument_works_or_is_refused_by_an_error_of_ours(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    raw: dict[str, str] = {}
    async with open_session() as session:
        for odd, make in ODD.items():
            try:
                await DOORS[name](session, make())
            except HookSDKError as error:
                raw |= {} if str(error).strip() else {odd: "an error without words"}
            except Exception as error:
                raw[odd] = f"{type(error).__name__}: {error}"
    gc.collect()
    assert raw == {}


# What works

JSON = {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("store", ["memory", "jsonl:sessions", "sqlite:///sessions.db", Path("sessions")], ids=str)
async def test_a_store_is_given_as_the_configuration_names_it(
    store: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for resumed in (False, True):
        async with Host(store=store, config={"allow": []}) as host, host.session("s") as session:
            assert session.resumed is (resumed and store != "memory")
            if not resumed:
                async with session.run() as run:
                    await run.record({"role": "user", "content": "hello"})
            else:
                assert len(session.messages) == (store != "memory")
    assert isinstance(host.store, SqlStore) == (store != "memory")


async def test_functions_provider_json_and_tools_stand_in_one_list() -> None:
    async with open_session() as session, session.run() as run:
        flat = {"type": "function", "name": "flat", "parameters": {"type": "object"}}
        theirs = {"name": "theirs", "description": "", "input_schema": {"type": "object"}}
        declared = {"functionDeclarations": [{"name": "one"}, {"name": "two", "parameters": {"type": "OBJECT"}}]}
        offered = await run.resolve_tools(
            [add, JSON | {"function": {"name": "json"}}, flat, theirs, declared, Tool(name="own")]
        )
        names = ["add", "json", "flat", "theirs", "one", "two", "own"]
        assert [tool.name for tool in offered] == names
        assert {tool.source for tool in offered[:-1]} == {"host"}
        assert offered[5].parameters == {"type": "object"}


async def test_a_definition_without_an_executor_says_so_when_it_is_called() -> None:
    async with open_session(tools=[JSON]) as session:
        played = await play(session, [call("add"), "done"])
        assert played.call("add").status == "error"
        assert "it has no executor" in played.call("add").result.text


async def test_a_definition_gets_its_executor_by_from_json() -> None:
    ours = Tool.from_json(JSON, execute=next_number)
    async with open_session(tools=[ours]) as session:
        played = await play(session, [call("add", left=2), "done"])
    assert (ours.id, played.call("add").result.text) == ("host::add", "3")


async def test_a_function_answers_the_tools_and_is_no_tool_itself() -> None:
    async with open_session() as session, session.run() as run:
        assert [tool.name for tool in await run.resolve_tools(lambda: [add])] == ["add"]
        with pytest.raises(WrongArgument, match=r"got the function add\. Write tools=\[add\]"):
            await run.resolve_tools(cast("Any", add))


async def test_an_agent_takes_functions() -> None:
    async with open_session() as session:
        outcome = await run_agent(session, ScriptedModel([call("add", left=1, right=2), "3"]), "1+2?", tools=[add])
        assert outcome.text == "3"


# What is refused, with its cure


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: loose.Host(plugins=None), r"Host\(plugins=\.\.\.\): expected a list of modules and classes, got None\. Write such"),
        (lambda: loose.Host(plugins=Plain), r"got the class Plain\. Write plugins=\[Plain\]"),
        (lambda: loose.Host(store=MemoryStore), r"got the class MemoryStore\. Give an instance: MemoryStore\(\.\.\.\)"),
        (lambda: loose.Host(store=5), r"expected a store: \"memory\", .* got 5 \(int\)"),
        (lambda: loose.Host(config="hooksdk.toml"), r"got 'hooksdk.toml' \(str\)\. A file hooksdk\.toml is found in the folder"),
        (lambda: loose.Tool(name="x", source="local"), r"expected one of host, mcp, plugin, client, resource, prompt, got 'local'"),
        (lambda: loose.Tool(name="x", source="hots"), r"Did you mean 'host'"),
        (lambda: loose.Tool.from_json({"type": "web_search"}), r"got 'web_search' .* The provider runs that one itself"),
        (lambda: loose.Tool.from_json({"name": "a", "input_schema": "x"}), r"tool 'a': expected a JSON Schema"),
        (lambda: loose.ToolResult({"a": 1}), r"ToolResult\(text=\.\.\.\): expected text, got a dict\. .*structured=\.\.\."),
        (lambda: loose.Limits(turns="5"), r"Limits\(turns=\.\.\.\): expected a whole number, got '5' \(str\)"),
        (lambda: loose.Limits(turns=0), r"Limits\(turns=0\): it must be at least 1"),
        (lambda: loose.get_model("opnai:gpt"), r"there is no provider 'opnai'\. Did you mean 'openai'"),
        (lambda: loose.get_model("gpt"), r"expected PROVIDER:NAME\. Write such as openai:gpt-5"),
    ],
)  # fmt: skip
def test_the_error_says_what_came_and_what_to_give(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(WrongArgument, match=words):
        make()


IN_A_SESSION: list[tuple[Door, str]] = [
    (lambda session, _: loose.run_agent(Host(config={"allow": []}), ScriptedModel([""]), ""), r"Open one: `async with host\.session\(\)"),
    (lambda session, _: loose.run_agent(session, "gpt-5", ""), r"model 'gpt-5': expected PROVIDER:NAME"),
    (lambda session, _: loose.run_agent(session, OpenAIModel, ""), r"Give an instance: OpenAIModel\(\.\.\.\)"),
    (lambda session, _: loose.run_agent(session, object(), ""), r"it has no name, format, context_window, reply"),
    (lambda session, _: run_with(session, model=ScriptedModel([])), r"It is the model's name; run_agent"),
    (in_run(lambda run, _: run.record("hi")), r"got 'hi' \(str\)\. Write such as \{\"role\""),
    (in_run(lambda run, _: run.record(forgotten())), r"a coroutine that nobody awaited\. Write `await`"),
    (in_run(lambda run, _: run.record(Plain())), r"expected a message .* got a test_first_arguments Plain"),
    (in_run(lambda run, _: run.call_tool("add")), r"expected a tool call: a ToolCall, .* got 'add'"),
    (in_run(lambda run, _: run.call_tool(run.pending)), r"got a tuple"),
    (in_run(lambda run, _: run.call_tool([])), r"Take them from run\.pending, one at a time"),
    (in_run(lambda run, _: run.resolve_tools(Plain)), r"expected a list of tools"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "words"), IN_A_SESSION)
async def test_a_wrong_argument_in_a_session_says_what_to_give(use: Door, words: str) -> None:
    async with open_session() as session:
        with pytest.raises(WrongArgument, match=words):
            await use(session, None)


@pytest.mark.parametrize("what", [Host(config={"allow": []}), *[object.__new__(kind) for kind in (Session, Run)]])
def test_a_plain_with_says_async_with(what: Any) -> None:
    with pytest.raises(WrongArgument, match=r"with \w+\(\.\.\.\): .* Write `async with`"), what:
        pass


def test_a_hook_with_a_pattern_in_the_options_place_names_the_option() -> None:
    from hooksdk import hooks

    decorate: Any = hooks.before_tool_call
    with pytest.raises(HookUseError, match=r"name the options: \(tools='delete_\*'\)"):
        decorate("delete_*")
    decorate = hooks.agent_start
    with pytest.raises(HookUseError, match=r"name the options: \(timeout=3\)"):
        decorate("delete_*")


def test_a_tool_with_its_name_in_the_functions_place_names_the_option() -> None:
    decorate: Any = tool
    with pytest.raises(ToolSchemaError, match=r"Write @tool\(name='my_tool'\)"):
        decorate("my_tool")


async def test_a_model_by_its_name_without_a_key_says_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with open_session() as session:
        with pytest.raises(ConfigError, match="openai: no key was found; set OPENAI_API_KEY"):
            await run_agent(session, "openai:gpt-5", "hello")
    assert session.id == "test"
