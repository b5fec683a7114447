"""A history as runs: the words of a person, the replies of the model, and the results of its calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, MessageFormat
from hooksdk.formats.kit import with_call_ids
from hooksdk.schema import BadArguments, parse_arguments
from hooksdk.values import as_list, as_object

# The tool of tool search through which the model calls another tool.
BRIDGE = "tool_call"


@dataclass(frozen=True)
class Said:
    """A message of a person or of the system."""

    message: Message


@dataclass(frozen=True)
class Asked:
    """A reply of the model, with its calls and the results that were recorded."""

    messages: list[Message]
    calls: list[tuple[ToolCall, FoundResult | None]]


@dataclass
class Exchange:
    """One run: from what a person said to the next thing that a person said."""

    steps: list[Said | Asked] = field(default_factory=list[Said | Asked])

    @property
    def has_reply(self) -> bool:
        """True once the model has said something."""
        return any(isinstance(step, Asked) for step in self.steps)

    def prompt(self, form: MessageFormat) -> str:
        """The words of the person at its beginning."""
        texts: list[str] = []
        for step in self.steps:
            if isinstance(step, Asked):
                break
            if step.message.get("role") == "user":
                texts.append(form.text(step.message))
        return "\n".join(texts)


def exchanges_in(messages: Sequence[Message], form: MessageFormat) -> list[Exchange]:
    """The runs of a history: each message of a person after a reply begins one."""
    runs = [Exchange()]
    for step in _steps(messages, form):
        begins = isinstance(step, Said) and step.message.get("role") == "user" and runs[-1].has_reply
        if begins:
            runs.append(Exchange())
        runs[-1].steps.append(step)
    return runs


def _steps(messages: Sequence[Message], form: MessageFormat) -> Iterator[Said | Asked]:
    at = 0
    while at < len(messages):
        if not form.is_reply(messages[at]):
            found = form.results(
                messages[at]
            )  # results of calls that are not in the history; the other text of the message still counts
            text = form.text(messages[at]) if found else ""
            if not found or text:
                yield Said(form.user(text) if found else messages[at])
            at += 1
            continue
        reply = [messages[at]]
        while form.joined and at + len(reply) < len(messages) and form.is_reply(messages[at + len(reply)]):
            reply.append(messages[at + len(reply)])
        at += len(reply)
        calls = [call for message in reply for call in form.calls(message)]
        results: list[FoundResult] = []
        texts: list[str] = []
        while at < len(messages) and not form.is_reply(messages[at]) and (found := form.results(messages[at])):
            results += found
            texts += filter(None, [form.text(messages[at])])
            at += 1
        yield Asked(reply, _paired(calls, results))
        for text in texts:
            yield Said(form.user(text))


def _paired(calls: list[ToolCall], results: list[FoundResult]) -> list[tuple[ToolCall, FoundResult | None]]:
    waiting = with_call_ids(results, calls)
    pairs: list[tuple[ToolCall, FoundResult | None]] = []
    for call in calls:
        result = next((one for one in waiting if one.call_id == call.id), None)
        if result is not None:
            waiting.remove(result)
        pairs.append((call, result))
    return pairs


def real_call(call: ToolCall) -> tuple[str, dict[str, Any]]:
    """The name of the real tool, also of a call through tool search's bridge, and its arguments as far as they can be
    read."""
    arguments = _object(call.arguments)
    if call.name == BRIDGE and isinstance(name := arguments.get("name"), str) and name not in {"", BRIDGE}:
        return name, _object(arguments.get("arguments"))
    return call.name, arguments


def singly(exchange: Exchange, form: MessageFormat) -> Exchange:
    """The run with each call of a batch, and its result, as a call of its own."""
    return Exchange([_singly(step, form) if isinstance(step, Asked) else step for step in exchange.steps])


def _singly(step: Asked, form: MessageFormat) -> Asked:
    pairs = [pair for call, result in step.calls for pair in _calls_in(call, result)]
    if pairs == step.calls:
        return step
    text = "\n".join(filter(None, map(form.text, step.messages)))
    return Asked(list(form.reply_messages(text, [call for call, _ in pairs])), pairs)


def _calls_in(call: ToolCall, result: FoundResult | None) -> list[tuple[ToolCall, FoundResult | None]]:
    written = _object(call.arguments) if call.name == BRIDGE else {}
    entries = as_list(written.get("calls"))
    if not entries or "name" in written:
        return [(call, result)]
    answers = as_list(_object(result.text).get("results")) if result is not None else []
    return [
        (ToolCall(f"{call.id}_{number}", BRIDGE, entry), _answer(result, answers[number - 1 : number]))
        for number, entry in enumerate(entries, 1)
    ]


def _answer(batch: FoundResult | None, answers: Sequence[object]) -> FoundResult | None:
    """What the batch answered to one of its calls; where it was not made, or its answer was trimmed, what stands
    there."""
    if batch is None or not answers:
        return batch
    answer = as_object(answers[0])
    value = answer.get("result")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if answer.get("status") == "not_called":
        text = f"'{answer.get('name', '')!s}' was not run: {text}"
    return replace(batch, text=text, is_error=answer.get("status") != "ok")


def _object(written: object) -> dict[str, Any]:
    try:
        return parse_arguments(written)
    except BadArguments:
        return {}


LEFT_OUT = "(left out)"
# How the text begins that a model reads where hooksdk has not run its call.
_REFUSAL = re.compile(r"(Error: )?(Blocked( by [^:\n]+)?: |'[^'\n]+' was not run)")


def is_refusal(result: FoundResult) -> bool:
    """True for a result that says that the call was not run."""
    return result.is_error and _REFUSAL.match(result.text) is not None


def without_prose(messages: Sequence[Message], form: MessageFormat) -> list[Message]:
    """A session that may be shown: the same calls with their arguments; what anybody said, and what tools answered, is
    left out. Results are still errors where they were."""
    bare: list[Message] = []
    for run in exchanges_in(messages, form):
        for step in run.steps:
            if isinstance(step, Said):
                if step.message.get("role") == "user":
                    bare.append(form.user(LEFT_OUT))
                continue
            calls = [call for call, _ in step.calls]
            bare += form.reply_messages("" if calls else LEFT_OUT, calls)
            answered = [
                (call, ToolResult(f"Blocked: {LEFT_OUT}" if is_refusal(result) else LEFT_OUT, is_error=result.is_error))
                for call, result in step.calls
                if result
            ]
            bare += form.result_messages(answered) if answered else []
    return bare
