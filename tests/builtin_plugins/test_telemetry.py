"""`telemetry`: the spans and metrics of runs, as the SDK's own exporters in memory get them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from builtin_plugins.telemetry import Telemetry
from builtin_plugins.telemetry._instruments import provider_name, usage_attributes
from hooksdk import Approval, ApprovalRequest, Session, Tool, ToolCall, ToolContext, hooks, sync
from hooksdk.agent import Limits, ModelReply, ModelUnavailable, run_agent
from hooksdk.approvals import Later
from hooksdk.config import ProjectSettings
from hooksdk.hooks import (
    Ask,
    BeforeToolCall,
    Block,
    NarrowTools,
    ResolveSecrets,
    Rewrite,
    RewriteToolCall,
    Secrets,
    Withhold,
)
from hooksdk.testing import ScriptedModel, call, open_session, play
from tests.stage import reply

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
both_loops = pytest.mark.both_loops
CONTENT: dict[str, Any] = {"plugins": {"telemetry": {"config": {"content": True}}}}

exporter = InMemorySpanExporter()
reader = InMemoryMetricReader()


@pytest.fixture(scope="module", autouse=True)
def sdk() -> None:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):  # another test of this process may have set one
        trace.set_tracer_provider(TracerProvider())
    provider: Any = trace.get_tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    metrics.set_meter_provider(MeterProvider([reader]))


@pytest.fixture(autouse=True)
def empty() -> None:
    exporter.clear()
    reader.get_metrics_data()


def spans() -> dict[str, ReadableSpan]:
    """What was exported, by name."""
    found = exporter.get_finished_spans()
    assert len({span.name for span in found}) == len(found)
    return {span.name: span for span in found}


def parent_of(span: ReadableSpan) -> str | None:
    """The name of the span that it is a child of."""
    return next((one.name for one in exporter.get_finished_spans()
                 if span.parent and one.context and one.context.span_id == span.parent.span_id), None)  # fmt: skip


def span_of(name: str) -> ReadableSpan:
    """The first of this name."""
    return next(span for span in exporter.get_finished_spans() if span.name == name)


def points(metric: str) -> list[tuple[dict[str, Any], Any]]:
    """Attributes and values of a metric."""
    data: Any = reader.get_metrics_data()
    return [
        (dict(point.attributes), point.sum if hasattr(point, "sum") else point.value)
        for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics
        for one in scope.metrics if one.name == metric for point in one.data.data_points
    ]  # fmt: skip


def told_of(span: ReadableSpan) -> dict[str, Any]:
    """Its attributes."""
    return cast("dict[str, Any]", {**(span.attributes or {})})


def current() -> str:
    """The name of the current span."""
    return getattr(trace.get_current_span(), "name", "none")


async def look() -> str:
    """Look where you are."""
    return current()


def look_in_thread() -> str:
    """Look where you are, from a thread."""
    return current()


def echo(text: str) -> str:
    """Say it again."""
    return text


async def outer(context: ToolContext) -> str:
    """Call another tool."""
    return (await context.call_tool("look", {})).text


TOOLS = [look, look_in_thread, echo, outer]


class NoRemoval:
    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold | None:
        return Withhold(["outer"], "no nesting") if any(tool.name == "outer" for tool in event.tools) else None

    @hooks.rewrite_tool_call(tools="echo")
    def shout(self, event: RewriteToolCall) -> Rewrite:
        return Rewrite({"text": event.arguments["text"].upper()})

    @hooks.before_tool_call(tools="echo")
    def judge(self, event: BeforeToolCall) -> Block | Ask | None:
        return Block("not that") if event.arguments["text"] == "BAD" else Ask("May I?")


# Spans


@both_loops
async def test_a_run_is_one_trace_of_an_agent_its_model_calls_and_its_tools() -> None:
    async with open_session(Telemetry, tools=TOOLS) as session:
        await play(session, [call("look"), "Done."])
    found = exporter.get_finished_spans()
    assert sorted(span.name for span in found) == [
        "chat scripted",
        "chat scripted",
        "execute_tool look",
        "invoke_agent main",
    ]
    assert {parent_of(span) for span in found} == {None, "invoke_agent main"}
    (run,) = [span for span in found if span.name == "invoke_agent main"]
    assert (run.kind, run.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)
    told = told_of(run)
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert (told["gen_ai.agent.name"], told["gen_ai.conversation.id"]) == ("main", "test")
    assert told["gen_ai.request.model"] == "scripted"
    assert (told["hooksdk.run.reason"], told["hooksdk.trigger"]) == ("completed", "user")
    chats = [span for span in found if span.name == "chat scripted"]
    assert {span.kind for span in chats} == {SpanKind.CLIENT}
    for span in found:
        times = [time or 0 for time in (span.start_time, span.end_time, run.end_time)]
        assert times == sorted(times)


@both_loops
@pytest.mark.parametrize("name", ["look", "look_in_thread"])
async def test_a_tool_runs_inside_its_own_span(name: str) -> None:
    async with open_session(Telemetry, tools=TOOLS) as session:
        played = await play(session, [call(name), "Done."])
    assert played.call(name).result.text == f"execute_tool {name}"
    told = told_of(span_of(f"execute_tool {name}"))
    assert told["gen_ai.tool.name"] == name
    assert told["gen_ai.tool.type"] == "function"
    assert told["hooksdk.tool.status"] == "ok"
    assert told["gen_ai.tool.description"].startswith("Look where you are")


async def test_a_nested_call_is_a_child_of_the_call_that_makes_it() -> None:
    async with open_session(Telemetry, tools=TOOLS) as session:
        await play(session, [call("outer"), "Done."])
    inner = next(span for span in exporter.get_finished_spans() if span.name == "execute_tool look")
    assert parent_of(inner) == "execute_tool outer"
    assert told_of(inner)["hooksdk.tool.origin"] == "tool"


@both_loops
async def test_calls_beside_each_other_are_siblings_with_their_own_children() -> None:
    tracer = trace.get_tracer("a tool's own")
    met = anyio.Event()

    async def first() -> str:
        """Wait for the second."""
        await met.wait()
        with tracer.start_as_current_span("in first"):
            return current()

    async def second() -> str:
        """Begin after the first, end before it."""
        with tracer.start_as_current_span("in second"):
            met.set()
            return current()

    async with open_session(Telemetry) as session, session.run() as run:
        await run.resolve_tools([Tool.from_function(one, source="host") for one in (first, second)])
        await run.record(reply(ToolCall("a", "first"), ToolCall("b", "second")))
        async with anyio.create_task_group() as group:
            for each in run.pending:
                group.start_soon(run.call_tool, each)
    found = spans()
    assert {name: parent_of(found[name]) for name in found} == {
        "in first": "execute_tool first", "in second": "execute_tool second", "execute_tool first": "invoke_agent main",
        "execute_tool second": "invoke_agent main", "invoke_agent main": None,
    }  # fmt: skip


async def test_a_run_is_a_child_of_the_callers_span_and_what_the_host_does_in_it_is_the_runs() -> None:
    tracer = trace.get_tracer("the host's")
    async with open_session(Telemetry) as session:
        with tracer.start_as_current_span("request"):
            async with session.run() as run:
                with tracer.start_as_current_span("turn"):
                    await run.resolve_tools([Tool.from_function(look, source="host")])
                    await run.record(reply(ToolCall("a", "look")))
                    await run.call_tool(run.pending[0])
            assert current() == "request"
    found = spans()
    assert parent_of(found["invoke_agent main"]) == "request"
    assert parent_of(found["turn"]) == "invoke_agent main"
    assert parent_of(found["execute_tool look"]) == "turn"


async def test_a_sub_agents_run_is_a_child_of_the_call_that_started_it() -> None:
    async with open_session(Telemetry) as session:

        async def delegate() -> str:
            """Have somebody else look."""
            async with session.child() as child:
                outcome = await run_agent(child, ScriptedModel(["Looked."], name="small"), "Look.", agent_id="helper")
                return outcome.text

        tools = [Tool.from_function(delegate, source="host")]
        await run_agent(session, ScriptedModel([call("delegate"), "Done."], name="big"), "Go.", tools=tools)
    helper = next(span for span in exporter.get_finished_spans() if span.name == "invoke_agent helper")
    assert parent_of(helper) == "execute_tool delegate"
    small = next(span for span in exporter.get_finished_spans() if span.name == "chat small")
    assert parent_of(small) == "invoke_agent helper"


def test_a_plain_program_gets_the_same_tree() -> None:
    tracer = trace.get_tracer("a script")
    with tracer.start_as_current_span("script"), sync.Host([Telemetry]) as host, host.session("ann") as session:

        def delegate() -> str:
            """Have somebody else look."""
            with session.child() as child:
                sync.run_agent(child, lambda _messages, _tools: "Looked.", "Look.", agent_id="helper")
                return current()

        with session.run() as run:
            run.resolve_tools([Tool.from_function(delegate, source="host")])
            run.record(reply(ToolCall("a", "delegate")))
            judged = run.judge(run.pending[0])
            assert judged.execute().text == "execute_tool delegate"
        assert current() == "script"
    found = spans()
    tree = {
        name: parent_of(found[name]) for name in ("invoke_agent main", "execute_tool delegate", "invoke_agent helper")
    }
    assert tree == {
        "invoke_agent main": "script", "execute_tool delegate": "invoke_agent main",
        "invoke_agent helper": "execute_tool delegate",
    }  # fmt: skip


# Decisions


async def approve(_request: ApprovalRequest) -> Approval:
    return Approval(True, by="ann")


async def test_decisions_are_events_of_the_call_that_they_are_about_and_of_the_run() -> None:
    async with open_session(NoRemoval, Telemetry, tools=TOOLS, approver=approve) as session:
        await play(session, [[call("echo", text="good")], "Done."])
    assert [event.name.removeprefix("hooksdk.") for event in span_of("execute_tool echo").events] == [
        "tool_started", "tool_ended", "change", "decision", "approval_asked", "approval_answered",
    ]  # fmt: skip
    by_name = {event.name: {**(event.attributes or {})} for event in span_of("execute_tool echo").events}
    assert by_name["hooksdk.change"]["hooksdk.outcome"] == "Rewrite"
    assert by_name["hooksdk.decision"]["hooksdk.decision"] == "Ask"
    assert by_name["hooksdk.approval_answered"]["hooksdk.by"] == "ann"
    run_events = {event.name: {**(event.attributes or {})} for event in span_of("invoke_agent main").events}
    assert run_events["hooksdk.withheld"]["hooksdk.names"] == ("outer",)
    assert run_events["hooksdk.tools_resolved"]["hooksdk.withheld"] == 1


async def test_a_blocked_call_is_a_span_that_failed_and_never_ran() -> None:
    async with open_session(NoRemoval, Telemetry, tools=TOOLS) as session:
        await play(session, [call("echo", text="bad"), call("nothing"), "Done."])
    blocked, unknown = span_of("execute_tool echo"), span_of("execute_tool nothing")
    assert (blocked.status.status_code, unknown.status.status_code) == (StatusCode.ERROR, StatusCode.ERROR)
    assert told_of(blocked)["error.type"] == "blocked"
    assert told_of(unknown)["error.type"] == "unknown_tool"
    assert [event.name for event in blocked.events] == ["hooksdk.change", "hooksdk.decision"]
    assert parent_of(blocked) == "invoke_agent main"
    counted = [told for told, _ in points("hooksdk.decisions")]
    assert {"hooksdk.hook": "before_tool_call", "hooksdk.plugin": "no_removal", "hooksdk.decision": "Block",
            "hooksdk.shadow": False} in counted  # fmt: skip


async def test_a_call_that_waits_for_an_approval_is_told_when_its_run_pauses() -> None:
    async def later(_request: ApprovalRequest) -> Later:
        return Later()

    async with open_session(NoRemoval, Telemetry, tools=TOOLS, approver=later) as session:
        tools = [Tool.from_function(echo, source="host")]
        outcome = await run_agent(session, ScriptedModel([call("echo", text="good")]), "Go.", tools=tools)
    assert outcome.reason == "paused"
    waiting = span_of("execute_tool echo")
    assert told_of(waiting)["hooksdk.tool.status"] == "pending"
    assert "hooksdk.approval_asked" in [event.name for event in waiting.events]


async def test_repeated_ids_of_calls_stay_apart() -> None:
    async with open_session(Telemetry) as session, session.run() as run:
        await run.resolve_tools([Tool.from_function(one, source="host") for one in (look, echo)])
        for name, arguments in (("look", {}), ("echo", {"text": "a"})):
            await run.record(reply(ToolCall("same", name, arguments)))
            await run.call_tool(run.pending[0])
            await run.prepare_messages()
    names = [span.name for span in exporter.get_finished_spans() if span.name.startswith("execute_tool")]
    assert names == ["execute_tool look", "execute_tool echo"]


async def test_a_failing_tool_and_a_failing_run_are_errors() -> None:
    async def broken() -> str:
        """Fail."""
        raise OSError("disk")

    async with open_session(Telemetry, tools=[broken]) as session:
        await play(session, [call("broken"), "Done."])
        with pytest.raises(ZeroDivisionError):
            async with session.run(agent_id="second"):
                raise ZeroDivisionError("a secret text")
    tool, run = span_of("execute_tool broken"), span_of("invoke_agent second")
    assert told_of(tool)["error.type"] == "tool_error"
    assert told_of(run)["error.type"] == "ZeroDivisionError"
    assert "a secret text" not in run.to_json()
    assert span_of("invoke_agent main").status.status_code == StatusCode.UNSET


async def test_a_model_that_gives_no_reply_is_a_span_that_failed_and_the_next_attempt_another() -> None:
    class Flaky:
        name, format, context_window, provider = "flaky", "openai-chat", None, "openai"
        asked = 0

        async def reply(self, messages: Any, tools: Any) -> ModelReply:
            self.asked += 1
            if self.asked == 1:
                raise ModelUnavailable("overloaded")
            usage = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
            return ModelReply(message={"role": "assistant", "content": "Here."}, usage=usage, stop_reason="stop")

    async with open_session(Telemetry) as session:
        await run_agent(session, Flaky(), "Hello", limits=Limits(attempts=2))
    first, second = (span for span in exporter.get_finished_spans() if span.name == "chat flaky")
    assert told_of(first)["error.type"] == "no_reply"
    told = told_of(second)
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (10, 3)
    assert told["gen_ai.usage.cache_read.input_tokens"] == 4
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert told["gen_ai.provider.name"] == "openai"
    run = span_of("invoke_agent main")
    assert told_of(run)["gen_ai.usage.input_tokens"] == 10
    tokens = {told["gen_ai.token.type"]: value for told, value in points("gen_ai.client.token.usage")
              if told.get("gen_ai.request.model") == "flaky"}  # fmt: skip
    assert tokens == {"input": 10, "output": 3}


async def test_durations_are_told_by_operation() -> None:
    async with open_session(Telemetry, tools=TOOLS) as session:
        await play(session, [call("look"), "Done."])
    told = [about for about, _ in points("gen_ai.client.operation.duration")]
    assert {about["gen_ai.operation.name"] for about in told} == {"invoke_agent", "chat", "execute_tool"}
    assert "look" in {about.get("gen_ai.tool.name") for about in told}


async def test_a_servers_tool_is_told_by_mcps_words() -> None:
    async with open_session(Telemetry) as session, session.run() as run:
        await run.resolve_tools([Tool.from_function(look, source="mcp", owner="weather")])
        await run.record(reply(ToolCall("a", "look")))
        await run.call_tool(run.pending[0])
    told = told_of(span_of("execute_tool look"))
    assert (told["mcp.method.name"], told["hooksdk.tool.id"]) == ("tools/call", "mcp:weather:look")
    assert [about["gen_ai.tool.name"] for about, _ in points("mcp.client.operation.duration")] == ["look"]


# Content


async def play_secret(config: dict[str, Any]) -> Session:
    class Values:
        @hooks.resolve_secrets
        def give(self, event: ResolveSecrets) -> Secrets:
            return Secrets({"KEY": "hunter2-hunter2"})

    async with open_session(Telemetry, Values, tools=TOOLS, config=config) as session:
        await play(session, [call("echo", text="say {{secret:KEY}}"), "The answer is 42."])
    return session


async def test_nothing_that_was_said_is_told_unless_it_is_asked_for() -> None:
    await play_secret({})
    for span in exporter.get_finished_spans():
        assert "say " not in span.to_json()
        assert "answer" not in span.to_json()


async def test_messages_arguments_and_results_are_told_when_asked_for_without_secrets() -> None:
    await play_secret(CONTENT)
    tool = told_of(span_of("execute_tool echo"))
    assert tool["gen_ai.tool.call.arguments"] == '{"text": "say {{secret:KEY}}"}'
    assert tool["gen_ai.tool.call.result"] == "say {{secret:KEY}}"
    chats = [told_of(span) for span in exporter.get_finished_spans() if span.name == "chat scripted"]
    first = json.loads(chats[0]["gen_ai.output.messages"])
    assert first[0]["parts"][0]["arguments"] == {"text": "say {{secret:KEY}}"}
    sent = json.loads(chats[1]["gen_ai.input.messages"])
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[2]["parts"] == [
        {"type": "tool_call_response", "id": sent[1]["parts"][0]["id"], "result": "say {{secret:KEY}}"}
    ]
    assert json.loads(chats[1]["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "text", "content": "The answer is 42."}
    ]
    assert not any("hunter2" in span.to_json() for span in exporter.get_finished_spans())


async def test_a_reply_of_several_messages_is_told_whole() -> None:
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One."}]},
    ]
    async with open_session(Telemetry, config=CONTENT) as session, session.run(format="openai-responses") as run:
        for _ in range(2):
            await run.prepare_messages()
            await run.record(items, stop_reason="completed")
    told = [json.loads(str(told_of(span)["gen_ai.output.messages"])) for span in exporter.get_finished_spans()
            if span.name == "chat"]  # fmt: skip
    assert [[part["content"] for message in one for part in message["parts"]] for one in told] == [["One."], ["One."]]


async def test_long_content_is_clipped() -> None:
    config = {"plugins": {"telemetry": {"config": {"content": True, "max_characters": 20}}}}
    async with open_session(Telemetry, tools=TOOLS, config=config) as session:
        await play(session, [call("echo", text="x" * 1000), "Done."])
    assert told_of(span_of("execute_tool echo"))["gen_ai.tool.call.result"] == "x" * 20 + "... [1,000 characters]"


def test_a_projects_file_turns_content_on_only_with_trust() -> None:
    def merged(own: dict[str, Any], values: dict[str, Any], *, trusted: bool) -> dict[str, Any]:
        project = ProjectSettings(values=values, trusted=trusted, folder=Path())
        return Telemetry.Config.with_project(own, project)[0]

    assert merged({}, {"content": True}, trusted=False) == {}
    assert merged({}, {"content": True}, trusted=True) == {"content": True}
    assert merged({}, {"content": False}, trusted=False) == {"content": False}
    assert merged({"content": False}, {"content": True}, trusted=True) == {"content": False}
    assert merged({"content": True}, {"content": False}, trusted=False) == {"content": True}


# Words


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, (9, 2)),
        (
            {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1},
            (15, 2),
        ),
        ({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 5}}, (9, 2)),
        ({"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}, (9, 5)),
        ({}, (None, None)),
        (None, (None, None)),
    ],
)
def test_each_providers_counts_are_read(usage: Any, tokens: tuple[int | None, int | None]) -> None:
    found = usage_attributes(usage)
    assert (found.get("gen_ai.usage.input_tokens"), found.get("gen_ai.usage.output_tokens")) == tokens


def test_providers_have_the_conventions_names() -> None:
    assert [provider_name(name) for name in ("openai", "gemini", "own", None)] == [
        "openai",
        "gcp.gemini",
        "own",
        "unknown",
    ]


def test_without_the_package_one_line_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from hooksdk import Host\n"
        "Host(config={'plugins': {'telemetry': {'enabled': True}}})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "telemetry needs opentelemetry-api: pip install 'hooksdk[otel]'" in done.stderr.splitlines()[-1]
