"""Calling deferred tools: shapes that models write, refusals, and what policies and records see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from searching import CATALOG, READ_FILE, SEND_EMAIL, make, searching

from hooksdk import Tool, ToolCall, ToolContext, hooks, tool
from hooksdk.hooks import (
    AfterToolCall,
    AgentEnd,
    BeforeToolCall,
    Block,
    NarrowTools,
    Rewrite,
    RewriteToolCall,
    Trace,
    TransformToolResult,
    UnwrapToolCall,
    Withhold,
)
from tests.stage import echo

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tool_search.md"
RAN = 'ran with {"title": "x"}'
RAN_EMAIL = 'ran with {"count": 3, "to": "a"}'


# Shapes


CALL: dict[str, Any] = {"name": "create_issue", "arguments": {"title": "x"}}
EMAIL = {"name": "send_email", "arguments": {"to": "a"}}

REPAIRED: list[tuple[str, object]] = [
    ("the call as it should be", CALL),
    ("the whole call as JSON text", json.dumps(CALL)),
    ("the whole call as JSON text", json.dumps(json.dumps(CALL))),
    ("arguments as JSON text", {"name": "create_issue", "arguments": '{"title": "x"}'}),
    ("arguments as JSON text", {"name": "create_issue", "arguments": '"{\\"title\\": \\"x\\"}"'}),
    ("arguments beside the name", {"name": "create_issue", "title": "x"}),
    ("arguments beside the name", {"name": "create_issue", "arguments": {}, "title": "x"}),
    ("arguments beside the name", {"name": "create_issue", "arguments": None, "title": "x"}),
    ("arguments beside the name", {"name": "create_issue", "arguments": "", "title": "x"}),
    ("dotted arguments", {"name": "create_issue", "args.title": "x"}),
    ("dotted arguments", {"name": "create_issue", "arguments.title": "x"}),
    ("dotted arguments", {"name": "create_issue", "input.title": "x"}),
    # OpenClaw 143180: beside empty arguments dotted ones were dropped
    ("dotted arguments", {"name": "create_issue", "arguments": {}, "args.title": "x"}),
    ("dotted arguments", {"name": "create_issue", "arguments": {"args.title": "x"}}),
    ("another word for `arguments`", {"name": "create_issue", "args": {"title": "x"}}),
    ("another word for `arguments`", {"name": "create_issue", "input": {"title": "x"}}),
    ("another word for `arguments`", {"name": "create_issue", "parameters": {"title": "x"}}),
    ("another word for `arguments`", {"name": "create_issue", "params": {"title": "x"}}),
    ("another word for `arguments`", {"name": "create_issue", "kwargs": {"title": "x"}}),
    ("another word for `arguments`", {"tool": "create_issue", "tool_input": {"title": "x"}}),
    ("another word for `arguments`", {"function": "create_issue", "action_input": '{"title": "x"}'}),
    ("another word for `name`", {"tool": "create_issue", "arguments": {"title": "x"}}),
    ("another word for `name`", {"tool_name": "create_issue", "arguments": {"title": "x"}}),
    ("another word for `name`", {"toolName": "create_issue", "arguments": {"title": "x"}}),
    ("another word for `name`", {"toolId": "create_issue", "args": {"title": "x"}}),
    ("another word for `name`", {"tool_id": "create_issue", "args": {"title": "x"}}),
    ("another word for `name`", {"id": "create_issue", "args": {"title": "x"}}),
    ("another word for `name`", {"function": "create_issue", "args": {"title": "x"}}),
    ("blanks around the name", {**CALL, "name": " create_issue "}),
    ("blanks around the name", {**CALL, "name": "\tcreate_issue\n"}),
    ("the id for the name", {**CALL, "name": "mcp:github:create_issue"}),
    ("the owner before the name", {**CALL, "name": "github.create_issue"}),
    ("the owner before the name", {**CALL, "name": "github__create_issue"}),
    ("the owner before the name", {**CALL, "name": "mcp__github__create_issue"}),
    ("a provider's word before the name", {**CALL, "name": "functions.create_issue"}),
    ("a provider's word before the name", {**CALL, "name": "functions.github.create_issue"}),
    ("the signature for the name", {**CALL, "name": "create_issue(title: string, ...)"}),
    ("the signature for the name", {**CALL, "name": "create_issue()"}),
    ("the same tool named twice", {**CALL, "id": "mcp:github:create_issue"}),
    ("the same tool named twice", {**CALL, "tool": "create_issue"}),
    ("arguments wrapped once more", {"name": "create_issue", "arguments": {"arguments": {"title": "x"}}}),
    ("arguments wrapped once more", {"name": "create_issue", "arguments": {"input": {"title": "x"}}}),
    ("the call once more within", {"name": "create_issue", "arguments": CALL}),
    ("the call once more within", {"arguments": CALL}),
    ("the call once more within", {"tool_call": CALL}),
    ("the call once more within", {"type": "function", "function": {**CALL, "arguments": '{"title": "x"}'}}),
    ("a provider's form", {"type": "function", "id": "call_1", "function": {**CALL, "arguments": '{"title": "x"}'}}),
    ("a provider's form", {"type": "function", "id": "call_1", **CALL}),
    ("a provider's form", {"type": "function_call", "call_id": "call_1", **CALL, "arguments": '{"title": "x"}'}),
    ("a provider's form", {"type": "tool_use", "id": "toolu_1", "name": "create_issue", "input": {"title": "x"}}),
    ("a provider's form", {"tool_calls": [{"type": "function", "id": "call_1", "index": 0, "function": CALL}]}),
    ("a batch of one", {"calls": [CALL]}),
    ("a batch of one", {"calls": CALL}),
    ("a batch of one", {"tool_calls": [{"tool": "create_issue", "title": "x"}]}),
    ("a batch of one", {**CALL, "calls": []}),
    ("a batch as JSON text", {"calls": json.dumps([CALL])}),
    ("a batch as JSON text", {"calls": json.dumps(CALL)}),
]
"""What models write and what it is, where the meaning is certain. All of it is the first."""


@pytest.mark.light(every=7)
@pytest.mark.parametrize("required", [["title"], []], ids=["required", "optional"])
@pytest.mark.parametrize("written", [written for _, written in REPAIRED], ids=str)
async def test_openclaw_96115_every_shape_of_a_bridge_call_reaches_the_tool_alike(
    written: object, required: list[str]
) -> None:
    """There flattened and dotted arguments were dropped, and the tool ran without them."""
    async with searching([READ_FILE, make("create_issue", required=required, title="string")]) as played:
        result = await played.call("tool_call", written)
        assert (result.text, result.is_error) == (RAN, False)


@pytest.mark.parametrize("arguments", [{}, None, "", "null", "{}", "  "])
async def test_no_arguments_in_every_shape_are_an_empty_object(arguments: object) -> None:
    async with searching([READ_FILE, make("ping", "Ping.")]) as played:
        assert (await played.call("tool_call", {"name": "ping", "arguments": arguments})).text == "ran with {}"
        assert (await played.call("tool_call", {"name": "ping"})).text == "ran with {}"
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        assert (await played.call("ping", written)).text == "ran with {}"


async def test_values_are_repaired_by_the_tools_own_schema() -> None:
    async with searching() as played:
        for written in ({"name": "send_email", "arguments": {"to": "a", "count": "3"}},
                        {"name": "send_email", "to": "a", "count": "3"}):  # fmt: skip
            assert (await played.call("tool_call", written)).text == RAN_EMAIL


async def test_a_key_given_in_both_places_counts_where_the_arguments_are() -> None:
    async with searching() as played:
        written = {"name": "create_issue", "arguments": {"title": "x"}, "title": "y"}
        assert (await played.call("tool_call", written)).text == RAN


async def test_a_tool_with_a_parameter_called_name_is_called_with_it() -> None:
    parameters = {"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "string"}}}
    add_user = Tool(name="add_user", source="mcp", owner="users", parameters=parameters, execute=echo)
    async with searching([add_user]) as played:
        written = {"name": "add_user", "arguments": {"name": "Ada", "id": "7"}}
        assert (await played.call("tool_call", written)).text == 'ran with {"id": "7", "name": "Ada"}'


async def test_a_deferred_tool_called_directly_by_its_name_just_works() -> None:
    async with searching() as played:
        assert (await played.call("create_issue", {"title": "x"})).text == RAN


async def test_a_name_that_no_tool_has_is_answered_with_the_way_to_find_one() -> None:
    async with searching() as played:
        told = (await played.call("slack_post", {"text": "x"})).text
        assert told.startswith("'slack_post' was not run: there is no such tool.")
        assert told.endswith("tool_search finds the exact name.")


# Refusals


class Policy:
    """Withholds one tool."""

    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold | None:
        return Withhold(["get_forecast"], "no weather here")


WRITE = 'Write {"name": "TOOL", "arguments": {...}}'

REFUSED: list[tuple[str, object, str]] = [
    ("a core tool", {"name": "read_file", "arguments": {}}, "Call read_file itself, not through tool_call"),
    ("a core tool", {"name": "host:core:read_file"}, "Call read_file itself, not through tool_call"),
    ("a core tool", {"calls": [{"name": "read_file"}]}, "Call read_file itself, not through tool_call"),
    ("a core tool", {"arguments": {"name": "read_file", "arguments": {}}}, "Call read_file itself"),
    ("a core tool", {"name": "readFile", "arguments": {}}, "Did you mean read_file? Call read_file itself, not through tool_call"),
    ("tool_call in itself", {"name": "tool_call", "arguments": CALL}, 'tool_call cannot call itself. Write {"name":"create_issue","arguments":{"title":"x"}}'),
    ("tool_call in itself", {"name": "functions.tool_call", "arguments": CALL}, "tool_call cannot call itself"),
    ("tool_call in itself", {"name": "Tool_Call", "arguments": CALL}, "tool_call cannot call itself"),
    ("tool_call in itself", {"name": "tool_call", "arguments": {}}, "tool_call cannot call itself"),
    ("tool_call in itself", {"calls": [{"name": "tool_call", "arguments": CALL}]}, "tool_call cannot call itself"),
    ("tool_search in tool_call", {"name": "tool_search", "arguments": {"queries": ["a"]}}, "call tool_search itself, not through tool_call. This is its answer: {"),
    ("tool_search in tool_call", {"name": "tool_search", "arguments": {"queries": ["new issue"]}}, '"hits":[{"call":"create_issue(title: string'),
    ("tool_search in tool_call", {"name": "tool_describe", "arguments": {}}, "call tool_describe itself"),
    ("tool_search in tool_call", {"name": "tool_search_code", "arguments": {}}, "tool_search_code is not offered to you"),
    ("a withheld tool", {"name": "get_forecast"}, "withheld from this run (no weather here). Do not retry"),
    ("a source for a tool", {"name": "gmail", "arguments": {"command": "send"}}, "'gmail' is a source of 1 tool, not a tool"),
    ("a made-up name", {"name": "file_new_issue", "arguments": {"text": "create"}}, "- create_issue(title: string"),
    ("an unknown name", {"name": "zzz", "arguments": {}}, "no tool called 'zzz'. Use tool_search"),
    ("a name misspelt", {"name": "create_isue"}, "no tool called 'create_isue'. Did you mean create_issue"),
    ("a name in other letters", {**CALL, "name": "Create-Issue"}, "Did you mean create_issue?"),
    ("a name in other letters", {**CALL, "name": "CREATE_ISSUE"}, "Did you mean create_issue?"),
    ("a name in other letters", {**CALL, "name": "createIssue"}, "Did you mean create_issue?"),
    ("a name in other letters", {**CALL, "name": "create issue"}, "Did you mean create_issue?"),
    ("a name that two owners share", {"name": "search"}, "several tools are called 'search'. Tools that may fit, called through tool_call"),
    ("no name", {"arguments": {"title": "x"}}, f"needs the tool's name. {WRITE}"),
    ("no name", {"name": "", "arguments": {}}, "needs the tool's name"),
    ("no name", {"name": None, "arguments": {}}, "needs the tool's name"),
    ("no name", {"name": 5, "arguments": {}}, "needs the tool's name"),
    ("no name", {"name": ["create_issue"]}, "needs the tool's name"),
    ("no name", {"create_issue": {"title": "x"}}, "needs the tool's name"),
    ("no name", {"calls": [{"arguments": {"title": "x"}}]}, "needs the tool's name"),
    ("no name", {}, "needs the tool's name"),
    ("no name", {"type": "function", "id": "call_1", "arguments": {}}, "needs the tool's name"),
    ("no name", "", "needs the tool's name"),
    ("two tools in one call", {**CALL, "tool": "send_email"}, "names two tools, 'create_issue' and 'send_email'"),
    ("two tools in one call", {**CALL, "id": "mcp:gmail:send_email"}, "Make one tool_call for each"),
    ("two tools in one call", {"name": "create_issue", "arguments": EMAIL}, "Make one tool_call for each"),
    ("a batch beside a name", {"name": "create_issue", "calls": [CALL]}, f"takes one call or 'calls', not 'calls' beside a name. {WRITE}"),
    ("a batch of nothing", {"calls": []}, "'calls' of tool_call is a list of calls, each {"),
    ("a batch of nothing", {"calls": ["create_issue"]}, 'a list of calls, each {"name": "TOOL"'),
    # Hermes 119640: ten such failures in one session
    ("a batch as broken JSON", {"calls": json.dumps([CALL])[:-1]}, "'calls' is no valid JSON. Write {"),
    ("a batch as broken JSON", {"calls": "create_issue"}, "'calls' is no valid JSON. Write {"),
    ("broken JSON", "{bad", "cannot be read. The arguments could not be read: this is not valid JSON"),
    ("broken JSON", json.dumps(CALL)[:-1], WRITE),
    ("broken JSON", json.dumps(CALL) + "}", WRITE),
    ("broken JSON", [CALL], WRITE),
    ("arguments as broken JSON", {"name": "create_issue", "arguments": '{"title": '}, 'Write {"name": "create_issue", "arguments": {...}}, with an object'),
    ("arguments as broken JSON", {"name": "create_issue", "arguments": "{'title': 'x'}"}, "with an object as its arguments"),
    ("arguments as broken JSON", {"name": "create_issue", "arguments": "title=x"}, "with an object as its arguments"),
    ("arguments that are no object", {"name": "create_issue", "arguments": ["x"]}, "this is a JSON array"),
    ("arguments that are no object", {"name": "create_issue", "arguments": "[1]"}, "this is a JSON array"),
    ("arguments that are no object", {"name": "create_issue", "arguments": 5}, "this is a JSON integer"),
    ("arguments that do not fit", {"name": "create_issue", "arguments": {}}, "arguments.title (required): is required and missing"),
    ("arguments that do not fit", {"name": "create_issue", "arguments": {"titel": "x"}}, "title"),
]  # fmt: skip
"""What models write, what it is, and what they are told."""


@pytest.mark.light(every=7)
@pytest.mark.parametrize(("written", "told"), [row[1:] for row in REFUSED], ids=str)
async def test_every_refusal_says_what_to_do_next_and_runs_nothing(written: object, told: str) -> None:
    ran: list[str] = []

    class Watch:
        @hooks.after_tool_call
        async def watch(self, event: AfterToolCall) -> None:
            ran.append(event.status)

    tools = [*CATALOG, make("search", owner="a"), make("search", owner="b")]
    async with searching(tools, Policy, Watch) as played:
        result = await played.call("tool_call", written)
        assert result.is_error
        assert told in result.text
        assert "ran with" not in result.text
    assert ran == ["invalid"]


def misuse_table() -> str:
    """Both tables as the documentation shows them: of each kind the first."""
    rows: dict[str, str] = {}
    told = [(kind, written, "repaired") for kind, written in REPAIRED[1:]]
    told += [(kind, written, f"refused: `{words}`") for kind, written, words in REFUSED]
    for kind, written, outcome in told:
        rows.setdefault(kind, f"| {kind} | `{json.dumps(written)}` | {outcome} |")
    return "\n".join(["| what the model writes | for example | what comes of it |", "|---|---|---|", *rows.values()])


def test_the_page_shows_this_table() -> None:
    assert misuse_table() in PAGE.read_text("utf-8"), f"docs/reference/tool_search.md needs:\n{misuse_table()}"


OPTIONAL = make("note", "Write a note.", title="string")


@pytest.mark.parametrize(
    "written",
    [
        {"name": "note", "arguments": {"name": "note", "arguments": {"title": "x"}}},
        {"name": "note", "tool": "note", "arguments": {"title": "x"}},
        {"name": "note", "arguments": {"title": "x"}, "calls": []},
        {"name": "note", "arguments": {}, "args": {"title": "x"}},
        {"name": "note", "arguments": {"title": "x"}, "args": {"title": "y"}},
        {"type": "tool_use", "id": "toolu_1", "name": "note", "input": {"title": "x"}},
        {"type": "function_call", "call_id": "call_1", "name": "note", "arguments": '{"title": "x"}'},
    ],
    ids=str,
)
async def test_nothing_of_the_bridge_call_itself_reaches_a_tool_as_an_argument(written: object) -> None:
    """A tool without required arguments would run all the same, without those that were meant."""
    async with searching([OPTIONAL]) as played:
        assert (await played.call("tool_call", written)).text == RAN


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ({"tool": "clerk", "name": "Ada", "id": "7"}, {"name": "Ada", "id": "7"}),
        ({"name": "clerk", "id": "7"}, {"id": "7"}),
        ({"name": "clerk", "input": "hello"}, {"input": "hello"}),
        ({"name": "clerk", "input": {"a": 1}}, {"input": {"a": 1}}),
        ({"name": "clerk", "arguments": {"name": "note", "input": "x"}}, {"name": "note", "input": "x"}),
        ({"name": "clerk", "arguments": {"calls": [1]}}, {"calls": [1]}),
        ({"name": "clerk", "calls": [1]}, {"calls": [1]}),
        ({"name": "clerk", "tool": "note"}, {"tool": "note"}),
        ({"name": "clerk", "type": "function", "id": "7"}, {"id": "7"}),
    ],
    ids=str,
)
async def test_a_parameter_may_have_a_name_that_the_bridge_uses_too(written: object, given: dict[str, Any]) -> None:
    properties: dict[str, Any] = {name: {} for name in ("name", "id", "tool", "input", "calls")}
    clerk = Tool(name="clerk", source="mcp", owner="office", parameters={"properties": properties}, execute=echo)
    async with searching([clerk, OPTIONAL]) as played:
        result = await played.call("tool_call", written)
        assert result.text == "ran with " + json.dumps(given, sort_keys=True)


async def test_openclaw_126460_a_core_tool_wrapped_in_the_bridge_is_refused_with_the_way_to_call_it() -> None:
    """There models wrapped read and exec in tool_call for ever."""
    async with searching() as played:
        result = await played.call("tool_call", {"name": "read_file", "arguments": {"path": "a"}})
        assert result.is_error
        assert "'read_file' is offered to you directly. Call read_file itself" in result.text
        assert (await played.call("read_file", {"path": "a"})).text == 'ran with {"path": "a"}'


@pytest.mark.parametrize("through", ["bridge", "direct"])
async def test_hermes_109798_a_tool_that_vanished_in_the_middle_of_a_run_is_refused_for_good(through: str) -> None:
    """There the agent kept calling it."""
    async with searching() as played:
        await played.run.resolve_tools([READ_FILE, SEND_EMAIL])
        written = {"name": "create_issue", "arguments": {"title": "x"}}
        result = await (played.call("tool_call", written) if through == "bridge" else played.call("create_issue", {}))
        assert result.is_error
        assert "there is no" in result.text
        assert "create_issue" not in json.dumps(await played.search("create an issue"))


async def test_a_direct_call_of_a_withheld_tool_is_refused_as_well() -> None:
    async with searching(CATALOG, Policy) as played:
        result = await played.call("get_forecast", {"city": "x"})
        assert "withheld from this run (no weather here). Do not retry." in result.text


# What policies, observers and records see


class Recorder:
    """Writes down what every hook sees of calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.traced: list[tuple[str, str]] = []

    @hooks.rewrite_tool_call
    def rewrite(self, event: RewriteToolCall) -> Rewrite | None:
        self._note("rewrite", event)

    @hooks.before_tool_call
    def before(self, event: BeforeToolCall) -> None:
        self._note("before", event)

    @hooks.transform_tool_result
    def transform(self, event: TransformToolResult) -> None:
        self._note("transform", event)

    @hooks.after_tool_call
    async def after(self, event: AfterToolCall) -> None:
        self._note("after", event)

    @hooks.trace
    async def trace(self, event: Trace) -> None:
        if event.kind in {"call_started", "call_finished"}:
            self.traced.append((event.kind, event.record.as_dict()["name"]))

    def _note(self, hook: str, event: Any) -> None:
        assert event.tool.name == event.call.name
        assert "title" in event.arguments or event.call.name != "create_issue"
        self.seen.append((hook, event.call.name, event.call.origin))

    @tool
    async def relay(self, name: str, context: ToolContext) -> str:
        """Call another tool."""
        return (await context.call_tool(name, {"title": "x"})).text


HOOKS = ("rewrite", "before", "transform", "after")


@pytest.mark.parametrize("path", ["direct", "by id", "bridge", "nested"])
async def test_every_hook_and_the_trace_see_the_real_name_exactly_once_on_every_path(path: str) -> None:
    calls: dict[str, tuple[str, object, str]] = {
        "direct": ("create_issue", {"title": "x"}, "model"),
        "by id": ("mcp:github:create_issue", {"title": "x"}, "model"),
        "bridge": ("tool_call", {"name": "create_issue", "arguments": {"title": "x"}}, "bridge"),
        "nested": ("relay", {"name": "create_issue"}, "tool"),
    }
    name, arguments, origin = calls[path]
    async with searching(CATALOG, Recorder) as played:
        assert (await played.call(name, arguments)).text == RAN
        recorder = played.session.plugin("recorder")
    seen = [entry for entry in recorder.seen if entry[1] != "relay"]
    assert sorted(seen) == sorted((hook, "create_issue", origin) for hook in HOOKS)
    traced = [entry for entry in recorder.traced if entry[1] != "relay"]
    assert traced == [("call_started", "create_issue"), ("call_finished", "create_issue")]


@pytest.mark.both_loops
async def test_parallel_bridge_calls_are_each_seen_once_and_answered_in_their_order() -> None:
    async with searching(CATALOG, Recorder) as played:
        written = {"name": "create_issue", "arguments": {"title": "x"}}
        calls = await played.reply(*[("tool_call", written)] * 4, ("create_issue", {"title": "x"}))
        async with anyio.create_task_group() as group:
            for call in reversed(calls):
                group.start_soon(played.run.call_tool, call)
        recorder = played.session.plugin("recorder")
        results = [message for message in played.session.messages if message["role"] == "tool"]
        assert [message["tool_call_id"] for message in results] == [call.id for call in calls]
    for hook in HOOKS:
        assert [entry[1] for entry in recorder.seen if entry[0] == hook] == ["create_issue"] * 5


async def test_a_policy_for_a_tool_judges_it_behind_the_bridge() -> None:
    class NoIssues:
        @hooks.before_tool_call(tools="mcp:github:*")
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block(f"no {event.arguments['title']}")

    async with searching(CATALOG, NoIssues) as played:
        for name, arguments in (
            ("create_issue", {"title": "x"}),
            ("tool_call", {"name": "create_issue", "arguments": {"title": "x"}}),
            ("tool_call", {"tool": "create_issue", "title": "x"}),
        ):
            assert (await played.call(name, arguments)).text == "Blocked by no_issues: no x"


async def test_search_and_describe_are_judged_under_their_own_names_and_tool_call_never_is() -> None:
    async with searching(CATALOG, Recorder) as played:
        await played.search("issue")
        await played.describe("create_issue")
        await played.call("tool_call", {"name": "create_issue", "title": "x"})
        recorder = played.session.plugin("recorder")
    judged = [name for hook, name, _ in recorder.seen if hook == "before"]
    assert judged == ["tool_search", "tool_describe", "create_issue"]


async def test_the_transcript_keeps_what_the_model_wrote() -> None:
    written = '{"name": "create_issue",  "arguments": {"title": "x"}}'
    async with searching() as played:
        await played.call("tool_call", written)
        reply, result = played.session.messages
    assert reply["tool_calls"][0]["function"] == {"name": "tool_call", "arguments": written}
    assert (result["tool_call_id"], result["content"]) == ("c1", RAN)


async def test_results_of_search_and_describe_are_disposable_and_those_of_tools_are_not() -> None:
    async with searching() as played:
        await played.search("issue")
        await played.describe("create_issue")
        await played.call("tool_call", {"name": "create_issue", "title": "x"})
        await played.call("read_file", {"path": "a"})
        assert [(info.tool, info.disposable) for info in played.session.results.list()] == [
            ("tool_search", True), ("tool_describe", True), ("create_issue", False), ("read_file", False),
        ]  # fmt: skip


async def test_another_plugins_unwrap_goes_before_and_may_name_granted_tools_only() -> None:
    class Alias:
        @hooks.unwrap_tool_call.first
        def alias(self, event: UnwrapToolCall) -> ToolCall | None:
            return ToolCall("x", event.arguments["to"], {"title": "x"}) if event.call.name == "alias" else None

    async with searching(CATALOG, Alias) as played:
        assert (await played.call("alias", {"to": "create_issue"})).text == RAN
        for name in ("tool_search", "tool_call", "alias", "nothing"):
            result = await played.call("alias", {"to": name})
            assert result.is_error
            assert f"'{name}' was not run" in result.text


# Counters


async def test_counters_of_a_run_are_in_its_stats_and_in_the_event_of_its_end() -> None:
    ended: list[Any] = []

    class End:
        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            ended.append(event.stats)

    async with searching(CATALOG, End) as played:
        await played.search("create an issue", "send an email")
        await played.search("nothing of the kind")
        await played.describe("create_issue", "send_email", "zzz")
        await played.call("tool_call", {"name": "create_issue", "title": "x"})
        await played.call("send_email", {"to": "a"})
        await played.call("tool_call", {"name": "zzz"})
        stats = played.run.stats
    assert stats["counters"] == {"searches": 3, "hits": 2, "describes": 3}
    assert stats["origins"] == {"model": 4, "bridge": 1}
    assert stats["catalog"] == {"host": 1, "mcp": 3}
    assert stats["tools_offered"] == 4
    assert stats["tool_calls"] == {"ok": 5, "invalid": 1}
    assert stats["tokens_direct"] == sum(tool.tokens for tool in CATALOG)
    selected = [(call["tool"], call["source"], call["origin"]) for call in stats["calls"]]
    assert selected[3:5] == [("mcp:github:create_issue", "mcp", "bridge"), ("mcp:gmail:send_email", "mcp", "model")]
    assert ended[0]["counters"] == stats["counters"]
    assert ended[0]["calls"] == stats["calls"]
