"""Whole runs with tool search off and on, through the providers' own clients over HTTP: what is sent, what runs, what stays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from searching import BRIDGE, make, searching

from hooksdk import Tool, hooks, tool
from hooksdk.agent import run_agent
from hooksdk.formats import get_format
from hooksdk.hooks import AfterToolCall, AfterToolsResolved
from hooksdk.stores import SqlStore
from hooksdk.testing import Call, Turn, call, open_session, say
from hooksdk.testing.server import ScriptedServer, SeenRequest
from hooksdk.values import parse_arguments
from tests.hooksdk.provider_rules import tool_violations, violations
from tests.hooksdk.providers import FORMATS, model_of, sent

NO_MARKS: dict[str, dict[str, Any]] = {"openai-chat": {}, "openai-responses": {}, "anthropic": {"cache": "off"}}
"""The definitions and messages are compared as they are, without the marks of the prompt cache."""
from tests.measured import DATA

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.in_ci(form=["openai-responses"])]

Json = dict[str, Any]

SERVICES = ["billing", "calendar", "chat", "crm", "docs", "inventory", "mail", "payroll", "support", "wiki"]
VERBS = ["create", "list", "update", "archive", "export"]
NOUNS = ["report", "invoice", "meeting", "contact", "ticket", "folder"]
SIZE = len(SERVICES) * len(VERBS) * len(NOUNS)
TARGET = "billing_create_invoice"
QUERY = "create invoice in billing"
ARGUMENTS: Json = {"workspace": "acme", "title": "März", "tags": ["due"], "urgency": "high", "amount": 12.5}
CORE = make("read_file", "Read a file from the disk.", "core", source="host", required=["path"], path="string")


def big_plugin(ran: list[tuple[str, Json]]) -> type:
    """A plugin with a few hundred tools that note what they were called with."""

    def one(service: str, verb: str, noun: str) -> Any:
        name = f"{service}_{verb}_{noun}"

        @tool(name=name, description=f"{verb.title()} a {noun} in {service}. The {service} team is told by e-mail.")
        async def run(
            workspace: Annotated[str, Field(description="The workspace, by its short name")],
            title: Annotated[str, Field(description="What it is called", max_length=200)],
            tags: Annotated[list[str], Field(description="Labels, in any order")],
            urgency: Literal["low", "normal", "high"] = "normal",
            amount: float | None = None,
        ) -> str:
            given = {"workspace": workspace, "title": title, "tags": tags, "urgency": urgency, "amount": amount}
            ran.append((name, given))
            return f"{name} did it: {json.dumps(given, sort_keys=True)}"

        return run

    made = [one(service, verb, noun) for service in SERVICES for verb in VERBS for noun in NOUNS]
    return type("BigOffice", (), {f"tool_{number}": staticmethod(function) for number, function in enumerate(made)})


def script(turn: Turn) -> Any:
    """A model that knows what it wants and goes by what it is sent alone."""
    if turn.number == 1:
        return call("read_file", path="order.txt")
    if TARGET in turn.offered:
        return f"Done. {turn.result.text}" if turn.result.tool == TARGET else Call(TARGET, ARGUMENTS)
    if turn.result.tool == "read_file":
        return say("I look for a tool.", call("tool_search", queries=[QUERY]))
    if turn.result.tool == "tool_search":
        return call("tool_describe", names=[turn.result.json()["results"][0]["hits"][0]["name"]])
    if turn.result.tool == "tool_describe":
        (name,) = turn.result.json()["tools"]
        return call("tool_call", name=name, arguments=ARGUMENTS)
    return f"Done. {turn.result.text}"


@dataclass
class Ran:
    """One run, and everything that it left behind."""

    form: str
    text: str = ""
    ran: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])
    seen: list[AfterToolCall] = field(default_factory=list[AfterToolCall])
    catalog: list[Tool] = field(default_factory=list[Tool])
    requests: list[SeenRequest] = field(default_factory=list[SeenRequest])
    stored: list[Json] = field(default_factory=list[Json])
    trace: list[Json] = field(default_factory=list[Json])
    stats: Json = field(default_factory=dict[str, Any])

    def traced(self, kind: str) -> list[Json]:
        return [record for record in self.trace if record["kind"] == kind]

    def calls(self) -> list[tuple[str, object]]:
        """Name and arguments of each call as the stored transcript has them."""
        calls = [one for message in self.stored for one in get_format(self.form).calls(message)]
        return [(one.name, parse_arguments(one.arguments)) for one in calls]

    def result(self, name: str) -> object:
        """What the stored transcript has as the result of the one call that the model made by this name."""
        called = [at for at, (written, _) in enumerate(self.calls()) if written == name]
        assert len(called) == 1, f"{name} was called {len(called)} times"
        results = [one for message in self.stored for one in get_format(self.form).results(message)]
        return results[called[0]].content


async def play(form: str, enabled: str, folder: Path) -> Ran:
    """One run of the scripted model against a server that speaks the provider's API."""
    kept = Ran(form)

    class Watch:
        @hooks.after_tool_call
        async def watch(self, event: AfterToolCall) -> None:
            kept.seen.append(event)

        @hooks.after_tools_resolved
        async def resolved(self, event: AfterToolsResolved) -> None:
            kept.catalog.extend(event.catalog)

    trace, store = folder / "trace.jsonl", SqlStore(folder)
    settings = {
        "plugins": {
            "tool_search": {"config": {"enabled": enabled, "prefetch": 0, "reveal": "off"}},
            "trace_file": {"config": {"path": str(trace)}},
        }
    }
    plugins = (big_plugin(kept.ran), Watch, "tool_search", "trace_file")
    async with ScriptedServer(script) as server, model_of(server, form, timeout=30, **NO_MARKS[form]) as model:
        async with open_session(*plugins, store=store, config=settings) as session:
            outcome = await run_agent(session, model, "Bill the order in order.txt.", tools=[CORE], system="Be brief.")
        kept.requests = server.requests
    kept.text, kept.stats = outcome.text, dict(outcome.stats)
    (session_id,) = await store.list_sessions()
    kept.stored = (await store.read_session(session_id))[0]
    kept.trace = [json.loads(line) for line in trace.read_text("utf-8").splitlines()]
    return kept


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Of the module, since the runs below are played once for all tests."""
    return "asyncio"


@pytest.fixture(scope="module", params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
async def direct(form: str, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return await play(form, "off", tmp_path_factory.mktemp("direct"))


@pytest.fixture(scope="module")
async def search(form: str, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return await play(form, "on", tmp_path_factory.mktemp("search"))


def names_sent(request: SeenRequest, form: str) -> list[str]:
    tools: list[Json] = request.body["tools"]
    return [one["function"]["name"] if form == "openai-chat" else one["name"] for one in tools]


async def test_both_modes_reach_the_same_tool_with_the_same_arguments(direct: Ran, search: Ran) -> None:
    assert direct.ran == search.ran == [(TARGET, ARGUMENTS)]
    assert direct.text == search.text
    assert direct.text.startswith(f"Done. {TARGET} did it:")


async def test_direct_sends_every_schema_with_every_request(direct: Ran, form: str) -> None:
    assert len(direct.catalog) == SIZE + 1
    for request in direct.requests:
        assert request.body["tools"] == get_format(form).tools(direct.catalog)


async def test_search_sends_the_core_tool_and_the_bridge_and_no_schema_of_another(search: Ran, form: str) -> None:
    for request in search.requests:
        assert names_sent(request, form) == ["read_file", *BRIDGE]
    shown = json.dumps(search.requests[0].body["tools"])
    assert not [name for name in (tool.name for tool in search.catalog) if name != "read_file" and name in shown]
    assert f"It knows {SIZE} tools" in shown


async def test_what_is_sent_in_either_mode_is_what_the_provider_takes(direct: Ran, search: Ran, form: str) -> None:
    assert tool_violations(form, direct.requests[0].body["tools"][::30]) == []  # a sample: its rules take their time
    assert tool_violations(form, search.requests[0].body["tools"]) == []
    for request in (*direct.requests, *search.requests):
        assert violations(form, sent(request)) == []


async def test_search_sends_several_times_less_although_it_takes_two_more_turns(direct: Ran, search: Ran) -> None:
    assert (len(direct.requests), len(search.requests)) == (3, 5)
    assert direct.requests[0].size > 40 * search.requests[0].size
    assert sum(request.size for request in direct.requests) > 15 * sum(request.size for request in search.requests)
    assert direct.stats["tokens_offered"] == direct.stats["tokens_direct"] == search.stats["tokens_direct"]
    assert search.stats["tokens_direct"] > 40 * search.stats["tokens_offered"]


async def test_the_trace_counts_the_catalog_the_searches_the_describes_and_the_calls(direct: Ran, search: Ran) -> None:
    for ran, offered in ((direct, SIZE + 1), (search, 1 + len(BRIDGE))):
        (resolved,), (ended,) = ran.traced("tools_resolved"), ran.traced("run_ended")
        assert (resolved["tools"], resolved["offered"], resolved["withheld"]) == (SIZE + 1, offered, 0)
        assert (ended["stats"]["catalog"], ended["stats"]["tools_offered"]) == ({"host": 1, "plugin": SIZE}, offered)
    one, other = direct.traced("run_ended")[0]["stats"], search.traced("run_ended")[0]["stats"]
    assert (one["counters"], one["origins"], one["tool_calls"]) == ({}, {"model": 2}, {"ok": 2})
    assert other["counters"] == {"searches": 1, "hits": 5, "describes": 1}
    assert (other["origins"], other["tool_calls"]) == ({"model": 3, "bridge": 1}, {"ok": 4})


async def test_the_trace_has_the_bridged_call_once_under_its_real_name(direct: Ran, search: Ran) -> None:
    for ran, origin in ((direct, "model"), (search, "bridge")):
        for kind in ("call_started", "call_finished"):
            (record,) = [record for record in ran.traced(kind) if record["name"] == TARGET]
            assert (record["origin"], record["tool"]) == (origin, f"plugin:big_office:{TARGET}")
    assert direct.traced("unwrapped") == []
    (unwrapped,) = search.traced("unwrapped")
    assert (unwrapped["bridge"], unwrapped["tool"]) == ("tool_call", TARGET)
    assert "tool_call" not in [record["name"] for record in search.traced("call_finished")]


async def test_after_tool_call_sees_the_real_name_and_arguments_in_both_modes(direct: Ran, search: Ran) -> None:
    assert [event.call.name for event in direct.seen] == ["read_file", TARGET]
    assert [event.call.name for event in search.seen] == ["read_file", "tool_search", "tool_describe", TARGET]
    one, other = direct.seen[-1], search.seen[-1]
    assert one.arguments == other.arguments == ARGUMENTS
    assert (one.status, one.result) == (other.status, other.result)
    assert one.tool is not None
    assert other.tool is not None
    assert (one.tool.id, one.tool.fingerprint) == (other.tool.id, other.tool.fingerprint)


async def test_the_stored_transcript_keeps_what_the_model_wrote_and_the_same_result(direct: Ran, search: Ran) -> None:
    assert direct.calls() == [("read_file", {"path": "order.txt"}), (TARGET, ARGUMENTS)]
    assert search.calls() == [
        ("read_file", {"path": "order.txt"}),
        ("tool_search", {"queries": [QUERY]}),
        ("tool_describe", {"names": [TARGET]}),
        ("tool_call", {"name": TARGET, "arguments": ARGUMENTS}),
    ]
    assert direct.result(TARGET) == search.result("tool_call")
    assert direct.result("read_file") == search.result("read_file")
    assert direct.text == search.text


async def test_the_next_request_carries_the_transcript_as_it_is_stored(search: Ran, form: str) -> None:
    """With Anthropic the system message is a field of its own."""
    stored = [message for message in search.stored if form != "anthropic" or message["role"] != "system"]
    assert sent(search.requests[-1]) == stored[:-1]


# The twenty tools


SAMPLES: Json = {"string": "ä", "integer": 7, "number": 0.5, "boolean": True, "array": ["a"], "object": {"k": "v"}}


def twenty(ran: list[tuple[str, Json]]) -> list[Tool]:
    """The twenty tools of the scenarios, and the core tools that stand beside them."""

    def one(data: Json) -> Tool:
        async def execute(arguments: Json) -> str:
            ran.append((data["name"], arguments))
            return json.dumps(data["fixture_result"])

        return Tool(
            name=data["name"], description=data["description"], parameters=data["parameters"], source="mcp",
            owner=data["cluster"], execute=execute,
        )  # fmt: skip

    data = json.loads((DATA / "scenarios_20_tools.json").read_text("utf-8"))
    core = [make(name, f"To {name}.", "core", source="host") for name in data["core_tools_visible"]]
    return [*core, *(one(entry) for entry in data["tools"])]


async def test_each_of_twenty_tools_is_described_and_called_with_exactly_its_arguments() -> None:
    ran: list[tuple[str, Json]] = []
    tools = twenty(ran)
    deferred = [tool for tool in tools if tool.source == "mcp"]
    async with searching(tools) as played:
        assert played.offered == ["read_file", "terminal", "write_file", "search_files", *BRIDGE]
        assert (await played.search("anything"))["total_available"] == len(deferred) == 20
        for one in deferred:
            schema: Json = one.parameters or {}
            assert (await played.describe(one.name))["tools"][one.name]["parameters"] == schema
            arguments = {name: SAMPLES[part["type"]] for name, part in schema["properties"].items()}
            result = await played.call("tool_call", {"name": one.name, "arguments": arguments})
            assert not result.is_error
            assert ran.pop() == (one.name, arguments)
            assert ran == []


async def test_over_the_line_a_tool_of_twenty_is_found_described_and_called_and_misuse_is_refused(form: str) -> None:
    ran: list[tuple[str, Json]] = []
    given = {"repo": "acme/widget", "title": "Crash on startup", "body": "It crashes."}
    bridged: Json = {"name": "github_create_issue", "arguments": given}
    async with ScriptedServer([
        call("tool_search", queries=["create github issue"]),
        call("tool_describe", names=["github_create_issue"]),
        Call("tool_call", bridged),
        Call("tool_call", {"name": "tool_call", "arguments": bridged}),
        call("tool_call", name="terminal", arguments={}),
        "done",
    ]) as server:  # fmt: skip
        settings = {"plugins": {"tool_search": {"config": {"enabled": "on", "prefetch": 0, "reveal": "off"}}}}
        async with (
            open_session("tool_search", config=settings) as session,
            model_of(server, form, timeout=30, **NO_MARKS[form]) as model,
        ):
            outcome = await run_agent(session, model, "File it.", tools=twenty(ran))
    found, described, called, nested, core = (turn.result for turn in server.turns[1:])
    assert names_sent(server.requests[0], form)[-3:] == BRIDGE
    assert len(names_sent(server.requests[0], form)) == 7
    assert found.json()["total_available"] == 20
    assert found.json()["results"][0]["hits"][0]["name"] == "github_create_issue"
    assert described.json()["tools"]["github_create_issue"]["parameters"]["required"] == ["repo", "title", "body"]
    assert called.json()["ok"] is True
    assert "tool_call cannot call itself" in nested.text
    assert "Call terminal itself, not through tool_call" in core.text
    assert [result.is_error for result in (found, described, called, nested, core)] == [False] * 3 + [True] * 2
    assert ran == [("github_create_issue", given)]
    assert outcome.stats["tool_calls"] == {"ok": 3, "invalid": 2}
