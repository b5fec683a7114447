"""What the text of a call's result is worth: asked once, before anybody reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hooksdk import hooks
from hooksdk._ledger.calls import CallEnd, CallInProgress
from hooksdk._origins.labels import TRUSTED, UNLABELLED, UNTRUSTED, Labels, join_labels, read_labels, said_of, worsened
from hooksdk._run.state import RunState
from hooksdk._schema.fresh import peek
from hooksdk._transcript.journal import Ledger
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.tools import Tool

# What became of calls whose results are hooksdk's own words. They may quote arguments, so they vouch for nothing.
REFUSALS: Final = frozenset({"blocked", "invalid", "unknown", "not_run"})


async def label_result(state: RunState, work: CallInProgress, end: CallEnd) -> CallEnd:
    """The end of a call, its result with the labels that its text has from here on, wherever it is read again."""
    labels = frozenset[str]() if end.status in REFUSALS else await _labels_of(state, work, end)
    state.read(labels)
    if work.parent is not None:
        work.parent.read.append(labels)
    if "before_tool_call" in state.hooks.plans:  # else nobody asks where values come from
        if work.parent is not None or not state.parts.transcript_kept:
            state.reading.keep(end.result.text, labels, arguments=work.arguments, tool=work.tool_name)
        state.said(work)
    return replace(end, result=_labelled(end.result, labels))


def _labelled(result: ToolResult, labels: Labels) -> ToolResult:
    """`with_labels`, of labels that are checked already."""
    twin = object.__new__(ToolResult)
    vars(twin).update(vars(result), labels=labels)
    return twin


async def _labels_of(state: RunState, work: CallInProgress, end: CallEnd) -> Labels:
    tool, result = work.tool, end.result
    said = [result.labels]
    if end.status != "answered" and tool is not None:
        said = [_may_say(state, tool, labels) for labels in (tool.labels, result.labels)]
    if "label_result" in state.hooks.plans:
        said += await _asked(state, work.call, work.arguments, tool, end)
    if tool is not None and tool.search and not any(said):
        said.append(frozenset())  # it hands on what the calls that it makes have answered, and vouches for none of it
    labels = said_of(*said)
    if work.read:
        labels = join_labels(labels, *work.read)
    if (meta := peek(result, "meta")) is not None:
        labels = worsened(labels, meta)
    return labels - {TRUSTED} if end.status == "error" else labels  # its text may quote the arguments


def _may_say(state: RunState, tool: Tool, labels: Labels | None) -> Labels | None:
    """A plugin that may not read what the agent reads may not vouch for any of it either."""
    if labels is None or tool.source != "plugin" or tool.owner not in state.parts.missing_grants:
        return labels
    return (labels - {TRUSTED}) | {UNTRUSTED}


async def _asked(
    state: RunState, call: ToolCall, arguments: dict[str, object], tool: Tool | None, end: CallEnd
) -> list[Labels | None]:
    """What the plugins say."""
    event = hooks.LabelResult(
        info=state.info, call=call, arguments=arguments, tool=tool, result=end.result, status=end.status,
        answered_by=end.answerer,
    )  # fmt: skip
    said: list[Labels | None] = []
    async for outcome in state.hooks.fire("label_result", event, tool):
        labels = await outcome.use(lambda answer: read_labels("Label(...)", answer.labels))
        outcome.log(", so the result is untrusted")
        said.append(labels)  # None where it failed
    return [UNLABELLED if labels is None else labels for labels in said]


async def label_loaded(state: RunState) -> None:
    """Label the results of a history from elsewhere, once there are tools: by the names that it has for them."""
    transcript = state.parts.transcript
    if not (count := transcript.ask(lambda ledger: ledger.unlabelled)):
        return
    labels: list[Labels] = []
    for number in range(count):
        call, result = transcript.ask(lambda ledger, number=number: _loaded(ledger, number))
        tool = state.tools.get(call.name)
        end = CallEnd("error" if result.is_error else "ok", result)
        said = await _asked(state, call, {}, tool, end) if "label_result" in state.hooks.plans else []
        labels.append(said_of(tool.labels if tool is not None else None, *said))
    await transcript.label_loaded(labels)
    state.parts.reading.begin_anew()


def _loaded(ledger: Ledger, number: int) -> tuple[ToolCall, ToolResult]:
    row = ledger.records[number]
    call = ToolCall(row.call_id, row.tool) if row.call is None else ledger.call_at(row.call)
    body = ledger.body(row)
    return call, ToolResult(body.text, is_error=body.is_error)
