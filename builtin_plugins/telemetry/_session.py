"""The spans of one session's runs."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode

from builtin_plugins.telemetry._content import as_json, messages_attribute
from builtin_plugins.telemetry._instruments import Instruments, provider_name, usage_attributes
from hooksdk import records
from hooksdk.hooks import HOOKS, AroundToolCall, RunInfo, Trace, TransformToolResult

_RUN = context.create_key("hooksdk run")
# The `error.type` of a call's status; the other statuses are no errors.
_FAILED = {"error": "tool_error", "blocked": "blocked", "invalid": "invalid_arguments", "unknown": "unknown_tool"}
_CHANGES = {"narrow", "transform", "first_answer"}
# Records that are no events of a span.
_OWN_EVENTS = (records.RunStarted, records.SessionStarted, records.HookFired)

Attributes = dict[str, Any]
# An event of a span: its name, its attributes, and its time.
Note = tuple[str, Attributes, int]


@dataclass(eq=False)
class _Call:
    """A tool call that has begun."""

    began: int
    record: records.CallStarted


@dataclass(eq=False)
class _Run:
    """An open run: its span, and what was not exported yet. Lists are in order, since a provider may repeat an id of a
    call.

    Attributes:
        asked: When messages were prepared for a model that has not answered yet.
        tools: Open spans of tools, by the id of the call.
        reply: The messages so far of a reply with several.
        chats: Spans of model calls that wait for the text of the reply, and when they ended.
    """

    span: Span
    about: Attributes
    began: int = 0
    asked: int | None = None
    error: str = ""
    usage: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[str, list[_Call]] = field(default_factory=dict[str, list[_Call]])
    tools: dict[str, list[Span]] = field(default_factory=dict[str, list[Span]])
    notes: dict[str, list[Note]] = field(default_factory=dict[str, list[Note]])
    results: dict[str, list[Attributes]] = field(default_factory=dict[str, list[Attributes]])
    requests: list[str] = field(default_factory=list[str])
    reply: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    replies: list[str] = field(default_factory=list[str])
    chats: list[tuple[Span, int]] = field(default_factory=list[tuple[Span, int]])


def _about(info: RunInfo) -> Attributes:
    model = {"gen_ai.request.model": info.model} if info.model else {}
    return {"gen_ai.provider.name": provider_name(info.provider), **model}


@final
class SessionSpans:
    """Makes the spans of a session's runs: the current ones where they happen, all others from the trace."""

    def __init__(self, instruments: Instruments, most: int) -> None:
        """`most` characters of each text are exported; 0: no text is."""
        self._on = instruments
        self._most = most
        self._runs: dict[str, _Run] = {}

    # Spans that are current

    @contextmanager
    def run(self, info: RunInfo) -> Generator[None]:
        """The span of a run, a child of the caller's."""
        about = _about(info)
        own = {"gen_ai.agent.name": info.agent_id, "gen_ai.conversation.id": info.session_id}
        own |= {"hooksdk.run.id": info.run_id, "hooksdk.trigger": info.trigger, **about}
        first = {"gen_ai.operation.name": "invoke_agent", **own}
        span = self._on.tracer.start_span(f"invoke_agent {info.agent_id}", attributes=first)
        self._runs[info.run_id] = _Run(span, about)
        with _current(span, info.run_id):
            yield

    @contextmanager
    def tool(self, event: AroundToolCall) -> Generator[None]:
        """The span of a call whose tool runs, from when the call began; a child of what is current in the run's
        task."""
        run = self._runs.get(event.run_id)
        if run is None:
            yield
            return
        inside = context.get_value(_RUN) == event.run_id
        parent = context.get_current() if inside else trace.set_span_in_context(run.span)
        span = self._start_tool(event.call.id, event.call.name, parent, _nanoseconds(event.began))
        span.set_attribute("gen_ai.tool.description", event.tool.description)
        run.tools.setdefault(event.call.id, []).append(span)
        span.add_event("hooksdk.tool_started")
        with _current(span, event.run_id):
            yield
        span.add_event("hooksdk.tool_ended")

    def _start_tool(self, call_id: str, name: str, parent: Context, began: int) -> Span:
        about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id}
        about["gen_ai.tool.type"] = "function"
        return self._on.tracer.start_span(f"execute_tool {name}", parent, start_time=began, attributes=about)

    def note_error(self, run_id: str, kind: str) -> None:
        """How the run failed."""
        if run := self._runs.get(run_id):
            run.error = kind

    # Texts

    def note_request(self, run_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """The messages that are sent next."""
        if run := self._runs.get(run_id):
            run.requests.append(messages_attribute(messages, self._most))

    def note_reply(self, run_id: str, message: Mapping[str, Any], stop_reason: str | None, *, last: bool) -> None:
        """The next message of a reply; `last`: the reply is whole."""
        if run := self._runs.get(run_id):
            run.reply.append(message)
            if last:
                run.replies.append(messages_attribute(run.reply, self._most, stop_reason or "stop"))
                run.reply = []

    def note_result(self, event: TransformToolResult) -> None:
        """The arguments and the result of a call."""
        if run := self._runs.get(event.run_id):
            said = {
                "gen_ai.tool.call.arguments": as_json(event.arguments, self._most),
                "gen_ai.tool.call.result": as_json(event.result.text, self._most),
            }
            run.results.setdefault(event.call.id, []).append(said)

    # The trace

    def take(self, event: Trace) -> None:
        """Take the next record of the trace."""
        record, run = event.record, self._runs.get(event.run_id)
        if isinstance(record, records.Decision):
            names = ("hook", "plugin", "decision", "shadow")
            self._on.count_decision({f"hooksdk.{name}": getattr(record, name) for name in names})
        if run is None:
            return
        now = _nanoseconds(event.time)
        match record:
            case records.RunStarted():
                run.began = now
            case records.ModelCalled():
                self._give_up_chat(run, now)
                run.asked, run.about = now, _about(event.info)  # a framework says late which model it is
            case records.ModelReplied():
                self._chat(run, now, record)
            case records.CallStarted():
                run.calls.setdefault(record.call_id, []).append(_Call(now, record))
            case records.CallFinished():
                self._finish_call(run, now, record)
            case records.RunEnded():
                self._finish_run(run, now, record)
                del self._runs[event.run_id]
            case _:
                if isinstance(record, records.AttemptStarted):
                    self._give_up_chat(run, now)
                self._note(run, now, record)

    def _note(self, run: _Run, now: int, record: records.Record) -> None:
        name = f"hooksdk.{record.kind}"
        if isinstance(record, records.HookFired):
            changed = HOOKS[record.hook].kind in _CHANGES and record.outcome != "passed" and not record.shadow
            if record.outcome != "failed" and not changed:
                return
            name = "hooksdk.hook_failed" if record.outcome == "failed" else "hooksdk.change"
        elif isinstance(record, _OWN_EVENTS):
            return
        fields = {f"hooksdk.{key}": value for key, value in record.as_dict().items() if _is_plain(value)}
        note = (name, fields, now)
        call_id: str | None = getattr(record, "call_id", None)
        if call_id is None:
            run.span.add_event(*note)
        else:
            run.notes.setdefault(call_id, []).append(note)

    def _chat(self, run: _Run, now: int, record: records.ModelReplied) -> None:
        if run.asked is None:  # no request was prepared, such as for a recorded reply
            return
        usage, began = usage_attributes(record.usage), run.asked
        for name, count in usage.items():
            run.usage[name] = run.usage.get(name, 0) + count
        span, about = self._start_chat(run, began)
        span.set_attributes(usage)
        if record.stop_reason:
            span.set_attribute("gen_ai.response.finish_reasons", [record.stop_reason])
        self._on.count_tokens(usage, about)
        self._on.time((now - began) / 1e9, about)
        run.asked = None
        if self._most:
            run.chats.append((span, now))
        else:
            span.end(now)

    def _give_up_chat(self, run: _Run, now: int) -> None:
        """The model was asked, and no reply was recorded."""
        if run.asked is None:
            return
        span, about = self._start_chat(run, run.asked)
        _fail(span, "no_reply")
        self._on.time((now - run.asked) / 1e9, {**about, "error.type": "no_reply"})
        run.asked = None
        span.end(now)

    def _start_chat(self, run: _Run, began: int) -> tuple[Span, Attributes]:
        about = {"gen_ai.operation.name": "chat", **run.about}
        name, parent = f"chat {run.about.get('gen_ai.request.model', '')}".rstrip(), trace.set_span_in_context(run.span)
        span = self._on.tracer.start_span(name, parent, SpanKind.CLIENT, about, start_time=began)
        if run.requests:
            span.set_attribute("gen_ai.input.messages", run.requests.pop(0))
        return span, about

    def _finish_call(self, run: _Run, now: int, record: records.CallFinished) -> None:
        began = _first(run.calls, record.call_id)
        ran = record.status in {"ok", "error"}  # with any other status no tool has run
        span = _first(run.tools, record.call_id) if ran else None
        if span is None:
            around = run.tools.get(record.parent_id or "") or [run.span]
            parent = trace.set_span_in_context(around[0])
            span = self._start_tool(record.call_id, record.name, parent, began.began if began else now)
        is_mcp = (record.tool or "").startswith("mcp:")
        span.set_attributes({"hooksdk.tool.status": record.status, "hooksdk.tool.origin": record.origin})
        if record.tool:
            span.set_attribute("hooksdk.tool.id", record.tool)
        if is_mcp:
            span.set_attribute("mcp.method.name", "tools/call")
        span.set_attributes(_first(run.results, record.call_id) or {})
        for note in run.notes.pop(record.call_id, ()):
            span.add_event(*note)
        about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": record.name, **run.about}
        if error := _FAILED.get(record.status):
            _fail(span, error)
            about["error.type"] = error
        self._on.time(record.seconds, about, mcp=is_mcp and ran)
        span.end(now)

    def _finish_run(self, run: _Run, now: int, record: records.RunEnded) -> None:
        self._give_up_chat(run, now)
        for span, ended in run.chats:
            if run.replies:
                span.set_attribute("gen_ai.output.messages", run.replies.pop(0))
            span.end(ended)
        for call_id, calls in run.calls.items():  # those that wait for an approval
            for call in calls:
                name, parent = call.record.name, trace.set_span_in_context(run.span)
                span = _first(run.tools, call_id) or self._start_tool(call_id, name, parent, call.began)
                span.set_attribute("hooksdk.tool.status", "pending")
                for note in run.notes.pop(call_id, ()):
                    span.add_event(*note)
                span.end(now)
        for note in [note for notes in run.notes.values() for note in notes]:
            run.span.add_event(*note)
        run.span.set_attributes({"hooksdk.run.reason": record.reason, **run.usage})
        about = {"gen_ai.operation.name": "invoke_agent", **run.about}
        if record.reason in {"error", "cancelled"}:
            about["error.type"] = run.error or record.reason
            _fail(run.span, about["error.type"])
        if run.began:
            self._on.time((now - run.began) / 1e9, about)
        run.span.end(now)


def _first(waiting: dict[str, list[Any]], key: str) -> Any:
    """Take the oldest value under this key; None if there is none."""
    those = waiting.get(key)
    if not those:
        return None
    found = those.pop(0)
    if not those:
        del waiting[key]
    return found


def _fail(span: Span, error: str) -> None:
    span.set_attribute("error.type", error)
    span.set_status(StatusCode.ERROR)


def _is_plain(value: object) -> bool:
    """True for what an attribute can hold."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)  # pyright: ignore[reportUnknownVariableType]
    return isinstance(value, (str, int, float))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


@contextmanager
def _current(span: Span, run_id: str) -> Generator[None]:
    """Make the span current in this task and in those that it starts."""
    ours = context.set_value(_RUN, run_id, trace.set_span_in_context(span))
    token = context.attach(ours)
    try:
        yield
    finally:
        if context.get_current() is ours:  # false in another task than the one that has entered
            context.detach(token)
