"""hooksdk in front of a FastMCP server's tools."""

from __future__ import annotations

import pytest

pytest.importorskip("fastmcp", reason="hooksdk[fastmcp] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.in_ci(mode=["auto"])]

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import PythonStdioTransport
from fastmcp.exceptions import McpError, ToolError
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools import Tool
from fastmcp.utilities.tests import asgi_server

from hooksdk import Approval, ApprovalRequest, Host, MemoryStore, hooks, tool
from hooksdk.adapters.fastmcp import HookSDK
from hooksdk.approvals import Later
from hooksdk.catalog import ToolContext
from hooksdk.config import Config
from hooksdk.errors import StoreError, WrongArgument
from hooksdk.hooks import (
    AfterToolCall,
    AgentEnd,
    AgentStart,
    Ask,
    BeforeToolCall,
    Block,
    Replace,
    TransformToolResult,
)
from hooksdk.state import PluginState
from hooksdk.stores import SqlStore
from hooksdk.sync import LazyHost
from hooksdk.testing import ConformanceCase, conformance_cases, recorder
from tests.hooksdk.fastmcp_driver import FastMCPDriver
from tests.hooksdk.test_conformance import hold, in_ci_a_few
from tests.stage import OwnStore

MODES: Any = ["legacy", "auto"]
"""The protocol with sessions, and the one without, which FastMCP's client prefers."""


@in_ci_a_few
@pytest.mark.parametrize("case", conformance_cases(), ids=str)
async def test_conformance(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, FastMCPDriver(), request)


class AsksFirst:
    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask(f"Delete {event.arguments['path']}?")


class OnceASession:
    def __init__(self, state: PluginState) -> None:
        self.state = state

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        self.state["calls"] = int(self.state.get("calls", 0)) + 1
        return Block("the budget is spent") if self.state["calls"] > 1 else None


class Counts:
    def __init__(self, state: PluginState) -> None:
        self.state = state

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> None:
        self.state["calls"] = int(self.state.get("calls", 0)) + 1


def files(deleted: list[str]) -> FastMCP[Any]:
    """A server with a tool of each kind."""
    mcp = FastMCP[Any]("files")

    @mcp.tool
    def delete_file(path: str) -> str:
        """Delete a file."""
        deleted.append(path)
        return f"deleted {path}"

    @mcp.tool(annotations={"readOnlyHint": True}, tags={"paths"})
    def size_of(path: str) -> dict[str, int]:
        """Tell the size of a file."""
        return {"bytes": len(path)}

    assert delete_file
    assert size_of
    return mcp


@asynccontextmanager
async def served(
    mcp: FastMCP[Any], *plugins: Any, approver: Any = None, **options: Any
) -> AsyncGenerator[FastMCP[Any]]:
    """The server with these plugins in front of it."""
    host = Host(plugins, store=MemoryStore(), config=Config(allow=[]), folder=os.devnull, approver=approver)
    async with host, aclosing(HookSDK(host, **options)) as hooked:
        mcp.add_middleware(hooked)
        yield mcp


def person(action: str = "allow", asked: list[str] | None = None) -> Any:
    """Answers at the client."""

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        if asked is not None:
            asked.append(message)
        if action in ("decline", "cancel"):
            return ElicitResult(action=action)
        return ElicitResult(action="accept", content={"value": action})

    return answer


def text_of(result: Any) -> str:
    return "\n".join(one.text for one in result.content)


# Without an objection


@pytest.mark.parametrize("mode", MODES)
async def test_without_plugins_tools_and_results_are_those_of_the_server(mode: Any):
    async def seen(mcp: FastMCP[Any]) -> list[Any]:
        async with Client(mcp, mode=mode) as client:
            tools = await client.list_tools()
            typed = await client.call_tool("size_of", {"path": "abc"})
            text = await client.call_tool("delete_file", {"path": "abc"})
            return [*tools, typed.data, typed.content, typed.structured_content, text.data, text.content, text.meta]

    plain = await seen(files([]))
    async with served(files([])) as mcp:
        assert await seen(mcp) == plain
    assert plain[-3] == "deleted abc"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mask", [False, True])
async def test_the_error_of_a_tool_is_the_servers_own_and_an_error_to_observers(mode: Any, mask: bool):
    mcp, seen = FastMCP[Any]("files", mask_error_details=mask), recorder("after_tool_call")

    @mcp.tool
    def read_file(path: str) -> str:
        raise OSError(f"no {path}")

    assert read_file
    async with Client(mcp, mode=mode) as client:
        plain = await client.call_tool("read_file", {"path": "a"}, raise_on_error=False)
    async with served(mcp, seen) as mcp, Client(mcp, mode=mode) as client:
        result = await client.call_tool("read_file", {"path": "a"}, raise_on_error=False)
    assert (text_of(result), result.is_error) == (text_of(plain), True)
    (call,) = seen.of(AfterToolCall)
    assert (call.status, call.result.text) == ("error", text_of(plain))


# Policies


@pytest.mark.parametrize("mode", MODES)
async def test_a_blocked_call_is_an_error_that_the_model_reads(mode: Any):
    class Denies:
        @hooks.before_tool_call(tools="delete_*")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("nothing is deleted here")

    deleted: list[str] = []
    async with served(files(deleted), Denies) as mcp, Client(mcp, mode=mode) as client:
        with pytest.raises(ToolError, match="nothing is deleted here"):
            await client.call_tool("delete_file", {"path": "a"})
        assert (await client.call_tool("size_of", {"path": "a"})).data == {"bytes": 1}
    assert deleted == []


async def test_what_a_tool_says_of_itself_reaches_policies():
    class OnlyReads:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return None if event.tool.annotations.read_only else Block("only reading")

    async with served(files([]), OnlyReads) as mcp, Client(mcp) as client:
        assert (await client.call_tool("size_of", {"path": "a"})).data == {"bytes": 1}
        with pytest.raises(ToolError, match="only reading"):
            await client.call_tool("delete_file", {"path": "a"})


class Redacts:
    @hooks.transform_tool_result
    def redact(self, event: TransformToolResult) -> Replace:
        return Replace(event.result.text.replace("a", "*"))


@pytest.mark.parametrize("mode", MODES)
async def test_a_text_that_a_plugin_changed_keeps_the_form_that_its_tool_promised(mode: Any):
    async with served(files([]), Redacts) as mcp, Client(mcp, mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool("delete_file", {"path": "a"})
    assert (result.data, text_of(result)) == ("deleted *", "deleted *")


@pytest.mark.parametrize("mode", MODES)
async def test_a_changed_result_without_its_promised_form_is_an_error_that_still_tells_it(mode: Any):
    class Hides:
        @hooks.transform_tool_result
        def hide(self, event: TransformToolResult) -> Replace:
            return Replace("hidden")

    async with served(files([]), Hides) as mcp, Client(mcp, mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool("size_of", {"path": "a"}, raise_on_error=False)
    assert (result.is_error, text_of(result), result.structured_content) == (True, "hidden", None)


async def test_a_plugins_own_tool_is_listed_and_runs():
    class Clock:
        @tool
        def tell_time(self, city: str) -> str:
            """Tell the time."""
            return f"noon in {city}"

    async with served(files([]), Clock) as mcp, Client(mcp) as client:
        listed = {one.name: one for one in await client.list_tools()}
        assert listed.keys() == {"delete_file", "size_of", "tell_time"}
        assert listed["tell_time"].input_schema["required"] == ["city"]
        assert text_of(await client.call_tool("tell_time", {"city": "Rome"})) == "noon in Rome"


async def test_a_client_that_a_plugin_turns_away_is_told_why():
    class Closed:
        @hooks.agent_start
        def judge(self, event: AgentStart) -> Block:
            return Block("closed today")

    async with served(files([]), Closed) as mcp, Client(mcp) as client:
        with pytest.raises(McpError, match="closed today"):
            await client.list_tools()
        with pytest.raises(ToolError, match="closed today"):
            await client.call_tool("size_of", {"path": "a"})


# Names


def shop(deleted: list[str]) -> FastMCP[Any]:
    mcp = FastMCP[Any]("main")
    mcp.mount(files(deleted), namespace="shop")
    return mcp


async def test_rules_know_a_mounted_servers_tools_by_their_owner_and_their_own_names():
    class Denies:
        @hooks.before_tool_call(tools="mcp:shop:delete_*")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("the shop is closed")

    def by_namespace(tool: Tool) -> tuple[str, str]:
        return "mcp", tool.name.partition("_")[0]

    deleted: list[str] = []
    async with served(shop(deleted), Denies, owner_of=by_namespace) as mcp, Client(mcp) as client:
        assert {one.name for one in await client.list_tools()} == {"shop_delete_file", "shop_size_of"}
        with pytest.raises(ToolError, match="the shop is closed"):
            await client.call_tool("shop_delete_file", {"path": "a"})
        assert (await client.call_tool("shop_size_of", {"path": "ab"})).data == {"bytes": 2}
    assert deleted == []


async def test_a_tool_that_comes_later_is_judged_and_one_that_goes_is_unknown():
    seen = recorder("after_tool_call")
    async with served(files([]), seen) as mcp, Client(mcp) as client:
        await client.list_tools()
        mcp.tool(lambda: "pong", name="ping")
        assert text_of(await client.call_tool("ping")) == "pong"
        mcp.local_provider.remove_tool("ping")
        with pytest.raises(ToolError):
            await client.call_tool("ping")
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok", "unknown"]


async def test_a_pinned_version_runs():
    mcp = FastMCP[Any]("versions")
    mcp.tool(lambda: "one", name="ping", version="1")
    mcp.tool(lambda: "two", name="ping", version="2")
    async with served(mcp), Client(mcp) as client:
        assert [one.name for one in await client.list_tools()] == ["ping"]
        assert text_of(await client.call_tool("ping")) == "two"
        assert text_of(await client.call_tool("ping", version="1")) == "one"


async def test_tools_behind_fastmcps_own_search_are_judged_by_their_names():
    class Denies:
        @hooks.before_tool_call(tools="delete_*")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("nothing is deleted here")

    deleted: list[str] = []
    mcp = files(deleted)
    mcp.add_transform(BM25SearchTransform())
    async with served(mcp, Denies), Client(mcp) as client:
        assert {one.name for one in await client.list_tools()} == {"search_tools", "call_tool"}
        result = await client.call_tool(
            "call_tool", {"name": "delete_file", "arguments": {"path": "a"}}, raise_on_error=False
        )
        assert "nothing is deleted here" in text_of(result)
        result = await client.call_tool("call_tool", {"name": "size_of", "arguments": {"path": "abc"}})
        assert "3" in text_of(result)
    assert deleted == []


# Approvals


@pytest.mark.parametrize("mode", MODES)
async def test_the_person_at_the_client_says_yes(mode: Any):
    deleted: list[str] = []
    asked: list[str] = []
    seen = recorder("after_tool_call")
    async with (
        served(files(deleted), AsksFirst, seen) as mcp,
        Client(mcp, mode=mode, elicitation_handler=person("allow", asked)) as client,
    ):
        assert (await client.call_tool("delete_file", {"path": "a"})).data == "deleted a"
    assert (deleted, len(asked)) == (["a"], 1)
    assert "Delete a?" in asked[0]
    assert 'argument path: "a"' in asked[0]
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["deny", "decline", "cancel"])
async def test_the_person_at_the_client_says_no_or_nothing(mode: Any, action: str):
    deleted: list[str] = []
    seen = recorder("after_tool_call")
    async with (
        served(files(deleted), AsksFirst, seen) as mcp,
        Client(mcp, mode=mode, elicitation_handler=person(action)) as client,
    ):
        said = "the person at the client gave no answer" if action == "cancel" else "the person at the client said no"
        with pytest.raises(ToolError, match=said):
            await client.call_tool("delete_file", {"path": "a"})
    assert deleted == []
    assert [one.status for one in seen.of(AfterToolCall)] == ["blocked"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_shows_no_questions_is_refused_and_told_so(mode: Any):
    deleted: list[str] = []
    async with served(files(deleted), AsksFirst) as mcp, Client(mcp, mode=mode) as client:
        with pytest.raises(ToolError, match="shows no questions"):
            await client.call_tool("delete_file", {"path": "a"})
    assert deleted == []


async def test_the_question_has_one_form_in_both_protocols():
    forms: list[Any] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        forms.append((message, params.requested_schema))
        return {"value": "allow"}

    async with served(files([]), AsksFirst) as mcp:
        for mode in MODES:
            async with Client(mcp, mode=mode, elicitation_handler=answer) as client:
                await client.call_tool("delete_file", {"path": "a"})
    assert forms[0] == forms[1]


async def test_a_server_that_calls_its_own_tool_has_nobody_to_ask():
    deleted: list[str] = []
    async with served(files(deleted), AsksFirst) as mcp:
        result = await mcp.call_tool("delete_file", {"path": "a"})
    assert (deleted, result.is_error) == ([], True)
    assert "shows no questions" in text_of(result)


async def test_nobody_who_answers_in_time_is_a_no():
    class AsksBriefly:
        @hooks.before_tool_call(tools="delete_*")
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("Delete?", timeout=0.1)

    async def sleep(message: str, response_type: Any, params: Any, context: Any) -> Any:
        await anyio.sleep(30)

    deleted: list[str] = []
    async with (
        served(files(deleted), AsksBriefly) as mcp,
        Client(mcp, mode="legacy", elicitation_handler=sleep) as client,
    ):
        with pytest.raises(ToolError, match="nobody approved it"):
            await client.call_tool("delete_file", {"path": "a"})
    assert deleted == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_hosts_own_approver_is_asked_first(mode: Any):
    deleted: list[str] = []
    asked: list[str] = []

    async def desk(request: ApprovalRequest) -> Approval | Later:
        return Later() if request.arguments["path"] == "later" else Approval(True, by="ann")

    async with (
        served(files(deleted), AsksFirst, approver=desk) as mcp,
        Client(mcp, mode=mode, elicitation_handler=person("allow", asked)) as client,
    ):
        await client.call_tool("delete_file", {"path": "now"})
        assert asked == []
        await client.call_tool("delete_file", {"path": "later"})
    assert (deleted, len(asked)) == (["now", "later"], 1)


async def test_what_a_script_of_a_plugin_calls_is_judged_each_and_cannot_pass_unasked():
    class Script:
        @tool
        async def clean_up(self, path: str, context: ToolContext) -> str:
            """Delete it and look."""
            results = [await context.call_tool(name, {"path": path}) for name in ("size_of", "delete_file")]
            return " / ".join(one.text for one in results)

    deleted: list[str] = []
    async with served(files(deleted), AsksFirst, Script) as mcp, Client(mcp) as client:
        result = await client.call_tool("clean_up", {"path": "a"}, raise_on_error=False)
    assert deleted == []
    assert "approv" in text_of(result)


# What a client of the stateless protocol could forge


@asynccontextmanager
async def asked_once(deleted: list[str]) -> AsyncGenerator[tuple[Any, str]]:
    """The raw session of a client, and the state of a question about the deletion of `a`."""
    async with served(files(deleted), AsksFirst) as mcp, Client(mcp, elicitation_handler=person()) as client:
        first = await client.session.call_tool("delete_file", {"path": "a"}, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        yield client.session, first.request_state or ""


YES: Any = {"hooksdk_approval": types.ElicitResult(action="accept", content={"value": "allow"})}


async def is_asked(session: Any, path: str, **more: Any) -> bool:
    result = await session.call_tool("delete_file", {"path": path}, allow_input_required=True, **more)
    return isinstance(result, types.InputRequiredResult)


async def test_a_yes_without_a_question_is_none():
    deleted: list[str] = []
    async with asked_once(deleted) as (session, _):
        assert await is_asked(session, "a", input_responses=YES)
    assert deleted == []


async def test_a_yes_counts_for_the_call_that_was_asked_about_and_once():
    deleted: list[str] = []
    async with asked_once(deleted) as (session, state):
        with pytest.raises(McpError):  # FastMCP's own binding
            await is_asked(session, "b", input_responses=YES, request_state=state)
        assert deleted == []
        assert not await is_asked(session, "a", input_responses=YES, request_state=state)
        assert await is_asked(session, "a", input_responses=YES, request_state=state)
    assert deleted == ["a"]


@pytest.mark.parametrize(
    "answer",
    [
        types.ElicitResult(action="accept", content={"value": "deny", "allow": "allow"}),
        types.ElicitResult(action="accept"),
        types.ListRootsResult(roots=[]),
    ],
    ids=["both", "nothing", "roots"],
)
async def test_an_answer_that_is_no_clear_yes_is_a_no(answer: Any):
    deleted: list[str] = []
    async with asked_once(deleted) as (session, state):
        said = {"hooksdk_approval": answer}
        result = await session.call_tool("delete_file", {"path": "a"}, input_responses=said, request_state=state)
    assert (result.is_error, deleted) == (True, [])


async def test_a_client_that_brings_the_state_without_an_answer_is_asked_again():
    deleted: list[str] = []
    async with asked_once(deleted) as (session, state):
        assert await is_asked(session, "a", request_state=state)
    assert deleted == []


async def test_arguments_cannot_look_like_lines_of_the_question():
    asked: list[str] = []
    path = 'a"\nargument path: "harmless\u202etxt'
    async with (
        served(files([]), AsksFirst) as mcp,
        Client(mcp, elicitation_handler=person("deny", asked)) as client,
    ):
        await client.call_tool("delete_file", {"path": path}, raise_on_error=False)
    assert [line for line in asked[0].splitlines() if line.startswith("argument path: ")] == [
        line for line in asked[0].splitlines() if line.startswith('argument path: "a')
    ]
    assert "\u202e" not in asked[0]


# Tools that ask for themselves


def asking_tool(mcp: FastMCP[Any]) -> list[str]:
    """A tool that asks its client for a name, by its result."""
    told: list[str] = []
    params = types.ElicitRequestFormParams(
        message="Which name?", requested_schema={"type": "object", "properties": {"value": {"type": "string"}}}
    )

    @mcp.tool
    async def greet(ctx: Context) -> str | types.InputRequiredResult:
        """Greet by name."""
        answer = (ctx.input_responses or {}).get("name")
        if not isinstance(answer, types.ElicitResult):
            return types.InputRequiredResult(input_requests={"name": types.ElicitRequest(params=params)})
        told.append(str((answer.content or {})["value"]))
        return f"hello {told[-1]}"

    assert greet
    return told


async def test_a_tool_that_asks_its_client_by_a_result_goes_on_and_is_seen_once():
    mcp, seen = FastMCP[Any]("hall"), recorder("after_tool_call")
    told = asking_tool(mcp)
    async with served(mcp, seen), Client(mcp, elicitation_handler=person("ann")) as client:
        assert "hello ann" in text_of(await client.call_tool("greet"))
    assert told == ["ann"]
    assert [(one.status, one.result.text) for one in seen.of(AfterToolCall)] == [("ok", "hello ann")]


class AsksForAll:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("May it?")


async def test_a_tool_that_asks_is_itself_asked_about_once():
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        asked.append(message.splitlines()[0])
        return ElicitResult(action="accept", content={"value": "ann" if message == "Which name?" else "allow"})

    mcp = FastMCP[Any]("hall")
    asking_tool(mcp)
    async with served(mcp, AsksForAll), Client(mcp, elicitation_handler=answer) as client:
        assert "hello ann" in text_of(await client.call_tool("greet"))
    assert asked == ["May this call run?", "Which name?"]


async def test_the_yes_for_a_tool_that_asks_is_that_clients_alone():
    """Two clients that nothing tells apart: what one has approved does not run for the other."""
    mcp = FastMCP[Any]("hall")
    told = asking_tool(mcp)
    handler = person()
    async with (
        served(mcp, AsksForAll),
        Client(mcp, elicitation_handler=handler) as ann,
        Client(mcp, elicitation_handler=handler) as bob,
    ):
        first: Any = await ann.session.call_tool("greet", {}, allow_input_required=True)
        second: Any = await ann.session.call_tool(
            "greet", {}, allow_input_required=True, input_responses=YES, request_state=first.request_state
        )
        assert [*second.input_requests] == ["name"]
        answers: Any = {**YES, "name": types.ElicitResult(action="accept", content={"value": "bob"})}
        stolen: Any = await bob.session.call_tool("greet", {}, allow_input_required=True, input_responses=answers)
        assert [*stolen.input_requests] == ["hooksdk_approval"]
        assert told == []
        state = second.request_state
        await ann.session.call_tool("greet", {}, input_responses=answers, request_state=state)
    assert told == ["bob"]


async def test_two_equal_calls_of_a_tool_that_asks_go_on_each():
    mcp, seen = FastMCP[Any]("hall"), recorder("after_tool_call")
    told = asking_tool(mcp)
    async with served(mcp, seen), Client(mcp, elicitation_handler=person("ann")) as client:
        await asyncio.gather(*(client.call_tool("greet") for _ in range(3)))
    assert told == ["ann"] * 3
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok"] * 3


async def test_a_tool_asks_the_client_while_it_runs():
    mcp = FastMCP[Any]("hall")

    @mcp.tool
    async def greet(ctx: Context) -> str:
        """Greet by name."""
        answer = await ctx.elicit("Which name?", ["ann", "bob"])
        return f"hello {getattr(answer, 'data', 'nobody')}"

    assert greet
    async with served(mcp), Client(mcp, mode="legacy", elicitation_handler=person("ann")) as client:
        assert (await client.call_tool("greet")).data == "hello ann"


# Sessions


async def test_state_lasts_over_a_clients_calls_and_two_clients_do_not_mix():
    async with (
        served(files([]), OnceASession) as mcp,
        Client(mcp, mode="legacy") as one,
        Client(mcp, mode="legacy") as two,
    ):
        for client in (one, two):
            assert (await client.call_tool("size_of", {"path": "a"})).data == {"bytes": 1}
            with pytest.raises(ToolError, match="the budget is spent"):
                await client.call_tool("size_of", {"path": "a"})


async def test_clients_that_nothing_tells_apart_share_one_session_unless_one_says_which():
    async with served(files([]), OnceASession) as mcp, Client(mcp) as one, Client(mcp) as two:
        assert (await one.call_tool("size_of", {"path": "a"})).data == {"bytes": 1}
        with pytest.raises(ToolError, match="the budget is spent"):
            await two.call_tool("size_of", {"path": "a"})

    def tenant(context: Context) -> str:
        assert context.request_context is not None
        return str((context.request_context.meta or {}).get("tenant", "nobody"))

    async with served(files([]), OnceASession, session_of=tenant) as mcp, Client(mcp) as client:
        for name in ("ann", "bob"):
            await client.call_tool("size_of", {"path": "a"}, meta={"tenant": name})
        with pytest.raises(ToolError, match="the budget is spent"):
            await client.call_tool("size_of", {"path": "a"}, meta={"tenant": "ann"})


@pytest.mark.parametrize("mode", MODES)
async def test_users_who_are_logged_in_have_sessions_of_their_own_and_policies_know_them(mode: Any):
    seen = recorder("after_tool_call")
    users = {name: {"client_id": "app", "sub": name, "scopes": ["files"]} for name in ("ann", "bob")}
    mcp = files([])
    mcp.auth = StaticTokenVerifier(users)
    async with served(mcp, OnceASession, seen), asgi_server(mcp) as server:
        for name in users:
            async with Client(server.transport(auth=name), mode=mode) as client:
                assert (await client.call_tool("size_of", {"path": "a"})).data == {"bytes": 1}
                with pytest.raises(ToolError, match="the budget is spent"):
                    await client.call_tool("size_of", {"path": "a"})
    asked = [(one.info.requester or {}, one.status) for one in seen.of(AfterToolCall)]
    assert [(who["id"], status) for who, status in asked] == [
        ("ann", "ok"), ("ann", "blocked"), ("bob", "ok"), ("bob", "blocked"),
    ]  # fmt: skip


async def test_requests_over_http_without_a_session_share_one():
    mcp = files([])
    async with (
        served(mcp, OnceASession),
        asgi_server(mcp, stateless_http=True) as server,
        Client(server.transport(), mode="legacy") as client,
    ):
        await client.call_tool("size_of", {"path": "a"})
        with pytest.raises(ToolError, match="the budget is spent"):
            await client.call_tool("size_of", {"path": "a"})


async def test_a_session_that_is_idle_is_closed_and_opened_again_with_its_state():
    seen = recorder("agent_end")
    async with served(files([]), OnceASession, seen, idle=0.2) as mcp, Client(mcp, mode="legacy") as client:
        await client.call_tool("size_of", {"path": "a"})
        with anyio.fail_after(120):
            while not seen.of(AgentEnd):
                await anyio.sleep(0.05)
        with pytest.raises(ToolError, match="the budget is spent"):
            await client.call_tool("size_of", {"path": "a"})
    assert [one.reason for one in seen.of(AgentEnd)] == ["completed", "completed"]


async def test_many_first_requests_at_once_open_one_session():
    seen = recorder("agent_end", "after_tool_call")
    async with served(files([]), seen) as mcp, Client(mcp) as client, anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(client.call_tool, "size_of", {"path": "a" * number})
    assert (len(seen.of(AgentEnd)), len(seen.of(AfterToolCall))) == (1, 20)


@pytest.mark.parametrize("lazy", [False, True])
async def test_a_request_that_is_cancelled_cancels_its_call_alone(lazy: bool):
    started, seen = anyio.Event(), recorder("after_tool_call")
    mcp = files([])
    left: list[str] = []

    @mcp.tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.append("tool")
        return ""

    assert wait
    options: Any = {"store": MemoryStore(), "config": Config(allow=[]), "folder": os.devnull}
    async with AsyncExitStack() as stack:
        host = LazyHost([seen], **options) if lazy else await stack.enter_async_context(Host([seen], **options))
        mcp.add_middleware(await stack.enter_async_context(aclosing(HookSDK(host))))
        client = await stack.enter_async_context(Client(mcp))
        call = asyncio.create_task(client.call_tool("wait"))
        await started.wait()
        call.cancel()
        with anyio.fail_after(120):
            while not seen.of(AfterToolCall):
                await anyio.sleep(0.02)
        assert left == ["tool"]
        assert (await client.call_tool("size_of", {"path": "a"})).data == {"bytes": 1}
    assert [one.status for one in seen.of(AfterToolCall)] == ["error", "ok"]


SERVER = """
from fastmcp import FastMCP
from hooksdk import MemoryStore, hooks
from hooksdk.adapters.fastmcp import HookSDK
from hooksdk.hooks import AgentEnd
from hooksdk.sync import LazyHost


class Notes:
    @hooks.agent_end
    def note(self, event: AgentEnd) -> None:
        with open("ended", "a") as file:
            file.write(event.reason)


mcp = FastMCP("files")
mcp.add_middleware(HookSDK(LazyHost([Notes], config={"allow": []}, store=MemoryStore())))


@mcp.tool
def ping() -> str:
    return "pong"


if __name__ == "__main__":
    mcp.run(show_banner=False)
"""


@pytest.mark.parametrize("mode", MODES)
async def test_the_run_of_a_server_over_stdio_ends_with_its_client(tmp_path: Path, mode: Any):
    (tmp_path / "server.py").write_text(SERVER)
    transport = PythonStdioTransport(tmp_path / "server.py", cwd=str(tmp_path), python_cmd=sys.executable)
    async with Client(transport, mode=mode) as client:
        assert (await client.call_tool("ping")).data == "pong"
    with anyio.fail_after(120):
        await transport.close()
        while not (tmp_path / "ended").exists() or not (tmp_path / "ended").read_text():
            await anyio.sleep(0.05)
    assert (tmp_path / "ended").read_text() == "completed"


# What a server that died has left


@pytest.mark.parametrize("lazy", [False, True])
async def test_a_call_in_which_the_server_died_is_asked_about_in_the_clients_next_session(tmp_path: Path, lazy: bool):
    live, dead = tmp_path / "live", tmp_path / "dead"
    paid: list[str] = []
    mcp = FastMCP[Any]("bank")

    @mcp.tool
    def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        if not dead.exists():  # what a process would leave that dies here
            shutil.copytree(live, dead)
        return f"paid {to}"

    assert pay

    async def call(store: Path, answer: str, asked: list[str]) -> str:
        options: dict[str, Any] = {"store": SqlStore(store), "config": Config(allow=[]), "folder": os.devnull}
        async with AsyncExitStack() as stack:
            host = LazyHost(**options) if lazy else await stack.enter_async_context(Host(**options))
            hooked = await stack.enter_async_context(aclosing(HookSDK(host)))
            served = FastMCP[Any]("bank", middleware=[hooked])
            served.mount(mcp)
            client = Client(served, elicitation_handler=person(answer, asked))
            async with client:
                return text_of(await client.call_tool("pay", {"to": "ann"}, raise_on_error=False))

    asked: list[str] = []
    assert await call(live, "allow", asked) == "paid ann"
    assert await call(live, "allow", asked) == "paid ann"  # it has ended
    assert asked == []
    assert "not approved" in await call(dead, "decline", asked)
    assert await call(dead, "allow", asked) == "paid ann"
    assert len(asked) == 2
    assert "may have taken effect" in asked[0]
    assert await call(dead, "allow", asked) == "paid ann"  # the doubt has ended
    assert (len(asked), len(paid)) == (2, 4)


async def test_a_call_whose_answer_may_not_have_left_is_in_doubt_until_a_later_request(tmp_path: Path):
    bank = FastMCP[Any]("bank")

    @bank.tool
    def pay(to: str) -> str:
        """Pay somebody."""
        if to == "cid":
            shutil.copytree(tmp_path / "live", tmp_path / "dead")
        return f"paid {to}"

    assert pay
    async with (
        Host(store=SqlStore(tmp_path / "live"), config=Config(allow=[]), folder=os.devnull) as host,
        aclosing(HookSDK(host)) as hooked,
    ):
        bank.add_middleware(hooked)
        async with Client(bank) as client:
            for name in ("ann", "bob", "cid"):
                await client.call_tool("pay", {"to": name})
    async with Host(store=SqlStore(tmp_path / "dead"), config=Config(allow=[]), folder=os.devnull) as host:
        (calls,) = (await host.in_doubt("fastmcp-")).values()
        assert [call.arguments for call in calls or ()] == ['{"to":"cid"}']
    async with Host(store=SqlStore(tmp_path / "live"), config=Config(allow=[]), folder=os.devnull) as host:
        assert await host.in_doubt() == {}


# Hosts


def test_a_lazy_host_works_in_each_event_loop_and_the_end_of_a_loop_ends_its_runs():
    seen = recorder("agent_end", "after_tool_call")
    deleted: list[str] = []
    mcp = files(deleted)
    mcp.add_middleware(HookSDK(LazyHost([AsksFirst, seen], config=Config(allow=[]), store=MemoryStore())))

    async def main(mode: Any) -> Any:
        async with Client(mcp, mode=mode, elicitation_handler=person()) as client:
            return (await client.call_tool("delete_file", {"path": "a"})).data

    assert [asyncio.run(main(mode)) for mode in (*MODES, *MODES)] == ["deleted a"] * 4
    assert [one.reason for one in seen.of(AgentEnd)] == ["completed"] * 4


async def test_a_host_that_is_closed_answers_with_an_error():
    mcp = files([])
    async with Host(config=Config(allow=[]), store=MemoryStore()) as host:
        hooked = HookSDK(host)
    mcp.add_middleware(hooked)
    async with Client(mcp) as client:
        with pytest.raises(ToolError, match="was not run"):
            await client.call_tool("size_of", {"path": "a"})


async def test_a_host_that_closes_before_its_runs_is_told_of_in_the_log(caplog: pytest.LogCaptureFixture):
    mcp = files([])
    async with Host(config=Config(allow=[]), store=MemoryStore()) as host:
        hooked = HookSDK(host)
        mcp.add_middleware(hooked)
        async with Client(mcp) as client:
            await client.call_tool("size_of", {"path": "a"})
    await hooked.aclose()
    assert "await HookSDK.aclose() before" in caplog.text


class FullDisk(OwnStore):
    """It writes no journal while it is full."""

    full = False

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
        log = await super().open_session(session_id, wait=wait)
        write = log.append_journal

        async def append_journal(*args: Any, **options: Any) -> None:
            if self.full:
                raise StoreError("the disk", "it is full")
            await write(*args, **options)

        log.append_journal = append_journal
        return log


async def test_after_a_record_that_cannot_be_stored_nothing_runs_until_there_is_room_again():
    store: Any = FullDisk()
    deleted: list[str] = []
    mcp = files(deleted)
    host = Host([Counts], store=store, config=Config(allow=[]), folder=os.devnull)
    async with host, aclosing(HookSDK(host)) as hooked, Client(mcp) as client:
        mcp.add_middleware(hooked)

        async def is_refused(path: str) -> bool:
            result = await client.call_tool("delete_file", {"path": path}, raise_on_error=False)
            return result.is_error

        assert not await is_refused("one")
        store.full = True
        assert [await is_refused(path) for path in ("two", "three")] == [False, True]
        store.full = False
        assert not await is_refused("four")
    assert deleted == ["one", "two", "four"]


@pytest.mark.parametrize(
    "options", [{"contex_window": 3}, {"core": "read"}, {"idle": 0}, {"transcript": True}], ids=str
)
def test_what_it_does_not_take_is_refused_at_once(options: dict[str, Any]):
    with pytest.raises(WrongArgument):
        HookSDK(LazyHost(), **options)
    with pytest.raises(WrongArgument):
        HookSDK(LazyHost)  # type: ignore[arg-type] - the mistake
