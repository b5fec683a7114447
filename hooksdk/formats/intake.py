"""Reading messages, calls and tools in all forms that hosts have: JSON, objects of the SDKs, whole answers, functions.
For adapters that take the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hooksdk import schema
from hooksdk.calls import ToolCall
from hooksdk.errors import WrongArgument, check_list, check_mapping, refuse
from hooksdk.formats import FORMATS, GivenTools, Message, MessageFormat, get_format
from hooksdk.tools import Tool, definitions_in, is_marked
from hooksdk.values import as_object, is_list, is_mapping, is_object, is_sdk_object, is_sequence, plain

__all__ = ["Given", "as_tools", "call_in", "messages_in", "usage_in"]

# Keys that the SDKs' `parse()` adds to answers, and that requests refuse.
_PARSED = {"parsed", "parsed_arguments", "parsed_output"}
# Keys of a message under which these may be.
_PARTS = {"content", "tool_calls", "function"}
_GEMINI_CALL = {"id", "name", "args", "partialArgs", "willContinue"}


@dataclass(frozen=True)
class Given:
    """The messages that were given, with the usage and the stop reason of a whole answer."""

    messages: list[Message]
    usage: Mapping[str, Any] | None = None
    stop_reason: str | None = None


def messages_in(given: object, message_format: MessageFormat, where: str) -> Given:
    """The messages in one message, in a list of messages, or in a whole answer of an SDK. Dicts stay as they are.
    Raises `WrongArgument` for anything else."""
    if is_mapping(given) or is_sdk_object(given):
        return _read(given, message_format, where)
    if not is_sequence(given):
        refuse(where, given, "a message (a dict, or an object of the SDK) or a list of them", _advice(given))
    parts: list[Given] = [_read(one, message_format, f"{where}, item {at}") for at, one in enumerate(given)]
    last = parts[-1] if parts else Given([])
    return Given([message for part in parts for message in part.messages], last.usage, last.stop_reason)


def usage_in(given: object, where: str) -> dict[str, Any] | None:
    """A copy of the usage of an answer."""
    body: object = plain(given)
    check_mapping(where, body, "the answer's own usage")
    return schema.clone(dict(cast("Mapping[str, Any]", body))) if body is not None else None


def _advice(given: object) -> str:
    if isinstance(given, str):
        return 'Write such as {"role": "user", "content": "..."}, or run.format.user("...")'
    if hasattr(given, "__aiter__") or hasattr(given, "__next__"):
        return "Put the stream together first, as its SDK does, and record the whole message"
    return ""


def _read(given: object, message_format: MessageFormat, where: str) -> Given:
    body: object = plain(given)
    if is_mapping(body) and not is_object(body):
        body = dict(body)
    if not is_object(body):
        refuse(where, given, f"a message of format '{message_format.name}'", _advice(given))
    answer = _answer(body, message_format, where)
    if answer is None:
        return Given([body if body is given else _sendable(body, message_format)])
    messages = [_sendable(message, message_format) for message in answer.messages]
    return Given(messages, answer.usage, answer.stop_reason)


def _answer(body: Message, message_format: MessageFormat, where: str) -> Given | None:
    """The messages of a whole answer of an API; None for a message."""
    found: tuple[str, Given] | None = None
    usage = body.get("usage") or body.get("usageMetadata")
    if is_list(body.get("choices")) and "role" not in body:
        choice = _only(body["choices"], "choices", where)
        found = "openai-chat", Given(_message(choice.get("message"), where), usage, choice.get("finish_reason"))
    elif is_object(body.get("message")) and "finish_reason" in body:
        found = "openai-chat", Given([body["message"]], None, body["finish_reason"])
    elif body.get("object") == "response" and is_list(body.get("output")):
        reason = as_object(body.get("incomplete_details")).get("reason")
        found = "openai-responses", Given(body["output"], usage, reason or body.get("status"))
    elif is_list(body.get("candidates")) and "role" not in body:
        candidate = _only(body["candidates"], "candidates", where)
        found = "gemini", Given(_message(candidate.get("content"), where), usage, candidate.get("finishReason"))
    elif body.get("type") == "message" and "model" in body and body.get("role") == "assistant":
        message = {"role": "assistant", "content": body.get("content")}
        found = "anthropic", Given([message], usage, body.get("stop_reason"))
    if found is None:
        return None
    name, answer = found
    if message_format.name in FORMATS and message_format.name != name:
        problem = f"this is an answer of the format '{name}', and the run has '{message_format.name}'"
        raise WrongArgument(where, problem, f"Open the run with session.run(format='{name}')")
    return answer


def _only(answers: Sequence[Any], what: str, where: str) -> Message:
    if len(answers) != 1:
        raise WrongArgument(where, f"the answer has {len(answers)} {what}", "Record the message of one of them")
    return as_object(answers[0])


def _message(message: object, where: str) -> list[Message]:
    if not is_object(message):
        problem = "this answer has no message: it is a piece of a stream, or it was cut off"
        raise WrongArgument(where, problem, "Put a stream together first, as its SDK does")
    return [message]


def _sendable(message: Message, message_format: MessageFormat) -> Message:
    """An SDK's message in the form in which a request takes it."""
    sent: Message = _without_parsed(message)
    if message_format.name == "openai-responses":
        from hooksdk.formats.openai_responses import as_input

        return as_input(sent)
    if sent.get("role") != "assistant":
        return sent
    if message_format.name == "openai-chat":
        sent.pop("annotations", None)
        if is_object(sent.get("audio")):
            sent["audio"] = {"id": sent["audio"].get("id")}
        if sent.get("content") is None:
            sent["content"] = None if sent.keys() & {"tool_calls", "function_call", "refusal", "audio"} else ""
    elif message_format.name == "anthropic" and is_list(sent.get("content")):
        sent["content"] = [part for part in sent["content"] if not _is_blank(part)]
    return sent


def _without_parsed(value: Any) -> Any:
    if is_list(value):
        return [_without_parsed(each) for each in value]
    if not is_object(value):
        return value
    return {key: _without_parsed(each) if key in _PARTS else each for key, each in value.items() if key not in _PARSED}


def _is_blank(block: object) -> bool:
    """True for blank text, which Anthropic refuses even if it wrote that itself."""
    body = as_object(block)
    return body.get("type") == "text" and not str(body.get("text", "")).strip()


def call_in(given: object, pending: Iterable[ToolCall], where: str) -> ToolCall:
    """The call that hooksdk, an API or an SDK has given. One without an id, such as Gemini's, is the first equal one of
    the `pending`. Raises `WrongArgument` for anything else."""
    if isinstance(given, ToolCall):
        return given
    body = as_object(plain(given))
    calls = _calls_in(body)
    if len(calls) != 1:
        example = '{"id": ..., "type": "function", "function": {...}}'
        advice = "Take them from run.pending, one at a time" if _holds_calls(given, body) else ""
        refuse(where, given, f"a tool call: a ToolCall, an object of the SDK, or a dict such as {example}", advice)
    call = calls[0]
    if as_object(body.get("functionCall") or body.get("function_call") or body).get("id") or "type" in body:
        return call
    return next((one for one in pending if (one.name, one.arguments) == (call.name, call.arguments)), call)


def _holds_calls(given: object, body: Message) -> bool:
    return is_list(given) or "role" in body or "choices" in body or "output" in body


def _calls_in(body: Message) -> list[ToolCall]:
    """The calls in this object, read as part of a reply of the format that has such objects."""
    kind = body.get("type")
    if "role" in body:
        return []
    if is_object(body.get("function")) or is_object(body.get("custom")):
        return get_format("openai-chat").calls({"role": "assistant", "tool_calls": [body]})
    if kind == "tool_use":
        return get_format("anthropic").calls({"role": "assistant", "content": [body]})
    if kind in ("function_call", "custom_tool_call"):
        return get_format("openai-responses").calls(body)
    if isinstance(body.get("name"), str) and body.keys() <= _GEMINI_CALL:
        body = {"functionCall": body}
    if is_object(body.get("functionCall")) or is_object(body.get("function_call")):
        return get_format("gemini").calls({"role": "model", "parts": [body]})
    if all(isinstance(body.get(key), str) for key in ("id", "name")) and "arguments" in body:
        return [ToolCall(body["id"], body["name"], body["arguments"])]
    return []


def as_tools(given: GivenTools | Callable[[], GivenTools], where: str, *, owner: str = "") -> list[Tool]:
    """The host's tools. Raises `WrongArgument` for an object that is no tool, and `ToolSchemaError` for a function that
    cannot become one."""
    if callable(given):
        given = _ask(given, where)
    if is_sdk_object(given):  # pydantic's objects can be iterated over
        refuse(where, given, "a list of tools", "Write tools=[...]")
    advice = "Give its `tools`" if hasattr(given, "tools") else "Write such as tools=[add, remove]"
    tools: list[Tool] = []
    for at, one in enumerate(check_list(where, given, "tools", advice)):
        tools += _tools_in(one, f"{where}, item {at}", owner)
    return tools


def _ask(given: Callable[[], GivenTools], where: str) -> GivenTools:
    """The tools that a function answers. A function that is a tool itself is refused: it should be in a list."""
    name = getattr(given, "__name__", "it")
    if isinstance(given, type) or is_marked(given) or _needs_arguments(given):
        refuse(
            where, given, "a list of tools, or a function without parameters that answers one", f"Write tools=[{name}]"
        )
    answer = given()
    if not isinstance(answer, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse(f"{where}, {name}()", answer, "a list of tools")
    return answer


def _needs_arguments(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    fills_itself = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(one.default is one.empty and one.kind not in fills_itself for one in parameters)


def _tools_in(one: Any, where: str, owner: str) -> list[Tool]:
    if isinstance(one, Tool):
        return [one]
    if is_mapping(one) or is_sdk_object(one):
        try:
            return [Tool.from_json(part, owner=owner) for part in definitions_in(one)]
        except WrongArgument as error:
            raise WrongArgument(where, error.problem, error.advice) from None
    if callable(one) and not isinstance(one, type):
        return [Tool.from_function(one, source="host", owner=owner)]
    return refuse(where, one, "a tool, a function, or a tool's definition in a provider's JSON")
