"""What servers say and ask while they serve a call reaches the client of that call, and no other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import pytest
from mcp import Client, types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from hooksdk import Host
from hooksdk.errors import ConfigError
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.mcp import McpServers
from hooksdk.mcp._relay import Callers, RunningCall, current_client, send_call
from tests.hooksdk.gateways import ERAS, SEARCH_ON, client, text_of
from tests.hooksdk.mcp_servers import script, until

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.in_ci(era=["auto"])]
in_both_eras = pytest.mark.parametrize("era", ERAS)
KINDS = ["elicitation", "sampling", "roots"]
TOOLS = ["elicit", "sample", "roots"]
may_ask = pytest.mark.parametrize("relay", [[], KINDS], ids=["servers ask nothing", "servers may ask"])


@asynccontextmanager
async def asking(notes: Path, relay: list[str] | None = None, *, search: bool = False) -> AsyncGenerator[Gateway]:
    """A gateway in front of the server that asks."""
    entries, config = {"asking": script("asking", str(notes))}, GatewayConfig.model_validate({"relay": relay or []})
    async with (
        Host(config=SEARCH_ON if search else None) as host,
        McpServers(entries, relay=relay or []) as servers,
        Gateway(host, servers, config=config) as made,
    ):
        yield made


def answering(who: str) -> dict[str, Any]:
    """A client that answers everything."""

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        assert params.message == "Who are you?"
        return types.ElicitResult(action="accept", content={"name": who})

    async def sample(_context: Any, params: Any) -> types.CreateMessageResult:
        assert params.messages[0].content.text == "Which day is it?"
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text=f"day of {who}"), model="m")

    async def roots(_context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [{"uri": f"file:///{who}"}]})

    return {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}


@in_both_eras
@may_ask
async def test_progress_of_a_server_reaches_the_call_it_is_about(tmp_path: Path, era: str, relay: list[str]) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    ways: list[tuple[str, dict[str, Any]]] = [("count", {}), ("tool_call", {"name": "count", "arguments": {}})]
    async with (
        asking(tmp_path / "notes", relay, search=True) as made,
        client(made, era, **answering("ann")) as connected,
    ):
        for way in ways:
            assert text_of(await connected.call_tool(*way, progress_callback=hear)) == "counted"
            assert text_of(await connected.call_tool(*way)) == "counted"
    assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")] * 2


@in_both_eras
@may_ask
async def test_a_call_that_its_client_cancels_is_cancelled_at_its_server_and_others_go_on(
    tmp_path: Path, era: str, relay: list[str]
) -> None:
    notes = tmp_path / "notes"

    def noted(text: str) -> int:
        return notes.read_text().split().count(text) if notes.exists() else 0

    async with (
        asking(notes, relay) as made,
        client(made, era, **answering("ann")) as connected,
        anyio.create_task_group() as group,
    ):
        scope = anyio.CancelScope()

        async def call_and_cancel() -> None:
            with scope:
                await connected.call_tool("hang")

        group.start_soon(call_and_cancel)
        await until(lambda: noted("began"))
        group.start_soon(connected.call_tool, "hang")
        await until(lambda: noted("began") == 2)
        scope.cancel()
        await until(lambda: noted("cancelled"))
        assert text_of(await connected.call_tool("echo")) == "here"
        assert noted("cancelled") == 1
        group.cancel_scope.cancel()


@pytest.mark.in_ci(era=["legacy", "auto"])
@in_both_eras
async def test_what_a_server_asks_reaches_the_client_of_its_call(tmp_path: Path, era: str) -> None:
    async with (
        asking(tmp_path / "notes", KINDS) as made,
        client(made, era, **answering("ann")) as ann,
        client(made, era, **answering("bob")) as bob,
    ):
        await bob.call_tool("echo")
        answers = [text_of(await ann.call_tool(tool)) for tool in TOOLS]
    assert answers == ["accept {'name': 'ann'}", "day of ann", "file:///ann"]


@in_both_eras
async def test_a_server_that_nobody_allowed_to_ask_is_refused(tmp_path: Path, era: str) -> None:
    async with asking(tmp_path / "notes") as made, client(made, era, **answering("ann")) as connected:
        for tool in TOOLS:
            result = await connected.call_tool(tool)
            assert (result.is_error, "not supported" in text_of(result)) == (True, True)


@in_both_eras
async def test_a_client_that_cannot_answer_is_not_asked(tmp_path: Path, era: str) -> None:
    async with asking(tmp_path / "notes", KINDS) as made:
        only_roots = {"list_roots_callback": answering("ann")["list_roots_callback"]}
        async with client(made, era, **only_roots) as connected:
            for tool in ("elicit", "sample"):
                assert "the client has not declared" in text_of(await connected.call_tool(tool))
            assert text_of(await connected.call_tool("roots")) == "file:///ann"
        async with client(made, era) as undeclared:
            assert "the client has not declared" in text_of(await undeclared.call_tool("roots"))


async def begin(connected: Client, name: str, **arguments: Any) -> types.InputRequiredResult:
    """Make a call whose result is a question."""
    result = await connected.session.call_tool(name, arguments, allow_input_required=True)
    assert isinstance(result, types.InputRequiredResult)
    return result


async def go_on(connected: Client, name: str, state: str | None, answers: Any, **arguments: Any) -> str:
    """Make it again, with answers."""
    try:
        result = await connected.session.call_tool(
            name, arguments, input_responses=answers, request_state=state, allow_input_required=True
        )
    except MCPError as refusal:
        return refusal.message
    return "asked" if isinstance(result, types.InputRequiredResult) else text_of(result)


async def test_a_call_that_waits_for_its_clients_answer_is_that_clients_alone_and_goes_on_once(tmp_path: Path) -> None:
    async with (
        asking(tmp_path / "notes", KINDS) as made,
        client(made, **answering("ann")) as ann,
        client(made, **answering("bob")) as bob,
    ):
        asked = await begin(ann, "elicit")
        ((key, question),) = (asked.input_requests or {}).items()
        assert isinstance(question, types.ElicitRequest)
        assert question.params.message == "Who are you?"
        yes = {key: types.ElicitResult(action="accept", content={"name": "bob"})}
        closed = "the answer belongs to no call that is open"
        assert closed in await go_on(bob, "elicit", asked.request_state, yes)
        assert closed in await go_on(ann, "echo", asked.request_state, yes)
        assert closed in await go_on(ann, "elicit", asked.request_state, yes, more=1)
        assert closed in await go_on(ann, "elicit", "call-guess", yes)
        assert await go_on(ann, "elicit", asked.request_state, yes) == "accept {'name': 'bob'}"
        assert closed in await go_on(ann, "elicit", asked.request_state, yes)


async def test_an_answer_that_is_left_out_is_asked_for_again_and_one_of_another_kind_is_none(tmp_path: Path) -> None:
    async with asking(tmp_path / "notes", KINDS) as made, client(made, **answering("ann")) as ann:
        asked = await begin(ann, "elicit")
        again = await ann.session.call_tool(
            "elicit", {}, input_responses={}, request_state=asked.request_state, allow_input_required=True
        )
        assert isinstance(again, types.InputRequiredResult)
        assert again.input_requests == asked.input_requests
        assert again.request_state != asked.request_state
        (key,) = again.input_requests or {}
        roots = {key: types.ListRootsResult.model_validate({"roots": []})}
        said = await go_on(ann, "elicit", again.request_state, roots)
        assert "the client answered a elicitation/create with a ListRootsResult" in said


async def test_of_calls_whose_clients_do_not_answer_the_oldest_are_given_up_and_all_end_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk.gateway._open_calls.MOST_OPEN", 1)
    async with asking(tmp_path / "notes", KINDS) as made:
        async with client(made, **answering("ann")) as ann:
            first = await begin(ann, "elicit")
            second = await begin(ann, "elicit", more=1)
            assert "belongs to no call" in await go_on(ann, "elicit", first.request_state, {})
            assert await go_on(ann, "elicit", second.request_state, {}, more=1) == "asked"
        assert made.sessions == ()


class Ann:
    """Whose call it is."""

    id = holder = "ann"
    protocol_version = "2026-07-28"
    capabilities = None
    shows_pages = False
    meta: Mapping[str, Any] = MappingProxyType({})
    log_level = None

    async def fill_secrets(self, server: str, texts: Any, *, shared: bool) -> dict[str, Any]:
        raise AssertionError("no secret is asked for here")

    async def show_page(self, page: Any) -> None:
        raise AssertionError("nobody is to sign in here")

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        raise AssertionError("nothing is logged here")

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        raise AssertionError("nothing is told here")

    async def ask(
        self, request: types.InputRequest, name: str = "", together: int = 1
    ) -> types.InputResponse | types.ErrorData:
        assert isinstance(request, types.ElicitRequest)
        assert (name, together) == ("who", 1)
        return types.ElicitResult(action="accept", content={"name": request.params.message})


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_server_of_the_new_protocol_asks_by_its_result(allowed: bool) -> None:
    question = types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="Who?", requested_schema={"type": "object", "properties": {}})
    )

    async def call_tool(
        _context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests={"who": question}, request_state="s")
        answer = params.input_responses["who"]
        assert isinstance(answer, types.ElicitResult)
        return types.CallToolResult(content=[types.TextContent(text=f"{answer.content} {params.request_state}")])

    callers = Callers(KINDS if allowed else [])
    token = current_client.set(Ann())
    running, others = RunningCall(None), RunningCall(None)
    current_client.reset(token)
    others.client = None  # somebody else's call at the same server; here it is known whose question it is
    asked = types.CallToolRequestParams(name="a")
    async with Client(Server("new", on_call_tool=call_tool), **callers.callbacks()) as connected:
        with callers.serving(running), callers.serving(others):
            if allowed:
                result = await send_call(
                    connected.session, running, types.CallToolRequest(params=asked), types.CallToolResult
                )
                assert text_of(result) == "{'name': 'Who?'} s"
            else:
                with pytest.raises(MCPError, match="not supported"):
                    await send_call(
                        connected.session, running, types.CallToolRequest(params=asked), types.CallToolResult
                    )


async def test_nobody_is_asked_while_calls_of_two_clients_run(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with (
        asking(notes, KINDS) as made,
        client(made, "legacy", **answering("ann")) as ann,
        client(made, "legacy", **answering("bob")) as bob,
        anyio.create_task_group() as group,
    ):
        group.start_soon(bob.call_tool, "hang")
        await until(lambda: notes.exists() and "began" in notes.read_text())
        result = await ann.call_tool("elicit")
        assert "no call of one client that this could belong to" in text_of(result)
        group.cancel_scope.cancel()


async def test_a_servers_long_result_keeps_its_picture(tmp_path: Path) -> None:
    async with asking(tmp_path / "notes") as made, client(made) as connected:
        result = await connected.call_tool("report")
        assert [block.type for block in result.content] == ["image", "text"]
        assert result.structured_content is None
        (resource,) = (await connected.list_resources()).resources
        (content,) = (await connected.read_resource(resource.uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == "a line of a long report\n" * 12_500 + '\n{"lines": 12500}'


def test_an_unknown_thing_to_relay_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'elicitation'"):
        McpServers({}, relay=["elicitations"])
