"""The answers of a provider's server, as JSON and as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hooksdk import schema
from hooksdk.calls import ToolCall
from hooksdk.costs import Usage
from hooksdk.formats import Message
from hooksdk.testing._model import Reply, Turn
from hooksdk.values import as_list, is_object

Body = dict[str, Any]

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def sent_messages(format_name: str, body: Mapping[str, Any]) -> list[Message]:
    """The messages of a request, with Anthropic's `system` or Gemini's `systemInstruction` as the first of them."""
    if format_name == "openai-responses":
        return _responses_messages(body)
    if format_name == "gemini":
        system: Body = body.get("systemInstruction") or {}
        head: list[Message] = [{"role": "system", "parts": system["parts"]}] if system.get("parts") else []
        return [*head, *body.get("contents", ())]
    messages: list[Message] = list(body.get("messages", ()))
    if format_name == "anthropic" and body.get("system"):
        return [{"role": "system", "content": body["system"]}, *messages]
    return messages


def own_messages(answer: object) -> list[Message]:
    """The messages of an answer that a script writes in the provider's shape, one or a list; none of any other."""
    return [answer] if is_object(answer) else [each for each in as_list(answer) if is_object(each)]


def calls_in(reply: Reply, turn: Turn, body: Body, format_name: str, next_id: Callable[[], str]) -> list[ToolCall]:
    """The calls of a reply as a model of this provider makes them: of Responses a search that the client executes, and
    a tool in a namespace."""
    calls = [ToolCall(one.id or next_id(), one.tool, one.arguments) for one in reply.calls]
    if format_name != "openai-responses":
        return calls
    searches = any(tool.get("type") == "tool_search" for tool in body.get("tools") or ())
    return [_of_responses(call, turn.offered, searches=searches) for call in calls]


def _of_responses(call: ToolCall, names: Sequence[str], *, searches: bool) -> ToolCall:
    if searches and call.name == "tool_search":
        return ToolCall(f"tool_search:{call.id}", call.name, call.arguments)
    inside = [name for name in names if name.rpartition(".")[2] == call.name]
    return ToolCall(call.id, inside[0], call.arguments) if call.name not in names and len(inside) == 1 else call


def error_body(format_name: str, status: int, text: str, code: str | None = None, param: str | None = None) -> Body:
    """The body of a refusal. A code of its own is the type of an error in Anthropic's API, which has no codes."""
    kind = _ERRORS.get(status, "api_error")
    if format_name == "anthropic":
        return {"type": "error", "error": {"type": code or kind, "message": text}}
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}


def error_event(format_name: str, body: Body) -> str:
    """The body of a refusal as an event of a stream."""
    name = "event: error\n" if format_name in ("anthropic", "openai-responses") else ""
    if format_name == "openai-responses":
        error = body["error"]
        body = {**error, "type": "error", "sequence_number": 0, "code": error["code"] or error["type"]}
    return f"{name}data: {_line(body)}\n\n"


def answer_body(
    format_name: str,
    request: Body,
    messages: Sequence[Message],
    number: int,
    usage: Mapping[str, Any] | None,
    stop_reason: str | None,
    prompt: Usage,
) -> Body:
    """The whole answer to a request, as it comes when it is not streamed. Only Responses' replies are several messages.
    `prompt` is what the cache made of the request, where the script names no usage."""
    message = messages[0]
    counts = usage or _counts(format_name, prompt, schema.estimate_tokens(list(messages)))
    if format_name == "openai-responses":
        return _responses_answer(request, messages, number, counts, stop_reason)
    if format_name == "gemini":
        candidate = {"content": message, "finishReason": stop_reason or "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": dict(counts), "responseId": f"r{number}"}
    if format_name == "anthropic":
        calls_tools = any(block.get("type") == "tool_use" for block in _blocks(message))
        return {
            "id": f"msg_{number}",
            "type": "message",
            "model": request.get("model", ""),
            **message,
            "stop_sequence": None,
            "stop_reason": stop_reason or ("tool_use" if calls_tools else "end_turn"),
            "usage": dict(counts),
        }
    choice: Body = {
        "index": 0,
        "logprobs": None,
        "message": {"refusal": None, "annotations": [], **message},
        "finish_reason": stop_reason or ("tool_calls" if message.get("tool_calls") else "stop"),
    }
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": request.get("model", ""),
        "choices": [choice],
        "usage": dict(counts),
    }


def _counts(format_name: str, prompt: Usage, output: int) -> Body:
    """The usage of a request in the provider's words."""
    total = prompt.prompt + output
    match format_name:
        case "anthropic":
            cached = {"cache_read_input_tokens": prompt.read, "cache_creation_input_tokens": prompt.written}
            return {"input_tokens": prompt.fresh, **cached, "output_tokens": output}
        case "gemini":
            cached = {"cachedContentTokenCount": prompt.read} if prompt.read else {}
            return {
                "promptTokenCount": prompt.prompt,
                **cached,
                "candidatesTokenCount": output,
                "totalTokenCount": total,
            }
        case "openai-responses":
            details = {
                "input_tokens_details": {"cached_tokens": prompt.read},
                "output_tokens_details": {"reasoning_tokens": 0},
            }
            return {"input_tokens": prompt.prompt, "output_tokens": output, "total_tokens": total, **details}
        case _:
            details = {"prompt_tokens_details": {"cached_tokens": prompt.read}}
            return {"prompt_tokens": prompt.prompt, "completion_tokens": output, "total_tokens": total, **details}


def answer_events(format_name: str, request: Body, body: Body) -> list[str]:
    """The same answer as server-sent events."""
    if format_name == "gemini":
        return [f"data: {_line(chunk)}\n\n" for chunk in _gemini_chunks(body)]
    if format_name in ("anthropic", "openai-responses"):
        events = _anthropic_events(body) if format_name == "anthropic" else _responses_events(body)
        return [f"event: {event['type']}\ndata: {_line(event)}\n\n" for event in events]
    options: Body = request.get("stream_options") or {}
    with_usage = options.get("include_usage") is True
    return [*(f"data: {_line(chunk)}\n\n" for chunk in _openai_chunks(body, with_usage=with_usage)), "data: [DONE]\n\n"]


def _line(value: Body) -> str:
    return json.dumps(value, ensure_ascii=False)


def _blocks(message: Mapping[str, Any]) -> Sequence[Body]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _openai_chunks(body: Body, *, with_usage: bool) -> Iterator[Body]:
    head = {"id": body["id"], "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    (choice,) = body["choices"]

    def chunk(delta: Body, finish_reason: str | None = None) -> Body:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**head, "choices": [choice], **({"usage": None} if with_usage else {})}

    yield chunk({"role": "assistant", "content": ""})
    for key, value in choice["message"].items():
        if key in ("role", "tool_calls", "annotations") or value is None:
            continue
        for piece in _pieces(value) if isinstance(value, str) else (value,):
            yield chunk({key: piece})
    for number, call in enumerate(choice["message"].get("tool_calls") or ()):
        index = call.get("index", number)  # a script may number them wrongly, as some servers do
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        for piece in _pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield {**head, "choices": [], "usage": body["usage"]}


def _anthropic_events(body: Body) -> Iterator[Body]:
    usage = {**body["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": {**body, "content": [], "stop_reason": None, "usage": usage}}
    yield {"type": "ping"}
    for index, block in enumerate(_blocks(body)):
        empty, deltas = _in_deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": body["stop_reason"], "stop_sequence": body["stop_sequence"]}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": body["usage"].get("output_tokens", 0)}}
    yield {"type": "message_stop"}


def _gemini_chunks(body: Body) -> Iterator[Body]:
    """Each part by itself, a text in pieces; the last chunk has the reason to stop and the counts."""
    (candidate,) = body["candidates"]
    for part in candidate["content"]["parts"]:
        for piece in [{**part, "text": text} for text in _pieces(part["text"])] if part.get("text") else [part]:
            content = {**candidate["content"], "parts": [piece]}
            yield {"candidates": [{"content": content, "index": 0}], "responseId": body["responseId"]}
    yield {**body, "candidates": [{**candidate, "content": {"role": "model", "parts": [{"text": ""}]}}]}


def _in_deltas(block: Body) -> tuple[Body, list[Body]]:
    """A block as it starts, and the deltas that fill it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        case "tool_use":
            parts = _pieces(_line(block["input"]))
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in parts]
        case "thinking":
            thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*thoughts, signature]
        case _:
            return block, []


# The answers of OpenAI's Responses API

# How the ids of items begin.
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "web_search_call": "ws",
    "image_generation_call": "ig",
}
_WITHOUT_STATUS = ("reasoning", "compaction")
# The field that comes in pieces, and how the events of it begin.
_GROWING = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
}

_PIECES = 3


def _pieces(text: str) -> Iterator[str]:
    """A text in three pieces, if it has as many characters."""
    size = max(1, -(-len(text) // _PIECES))
    yield from (text[at : at + size] for at in range(0, len(text), size))


def _responses_messages(body: Mapping[str, Any]) -> list[Message]:
    """The items of a request, with its `instructions` as the first of them."""
    given = body.get("input") or ()
    messages: list[Message] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    if body.get("instructions"):
        return [{"role": "system", "content": body["instructions"]}, *messages]
    return messages


def _responses_answer(
    request: Body, items: Sequence[Message], number: int, usage: Mapping[str, Any], stop_reason: str | None
) -> Body:
    """The whole answer. With a `stop_reason` of its own, such as `max_output_tokens`, it is incomplete; an item that is
    a whole `response` itself, such as one that failed, has what else there is to say."""
    own: Body = dict(items[0]) if items and items[0].get("object") == "response" else {}
    items = own.get("output", ()) if own else items
    answer: Body = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": request.get("model", ""),
        "status": "incomplete" if stop_reason else "completed",
        "error": None,
        "incomplete_details": {"reason": stop_reason} if stop_reason else None,
        "output": [_with_id(item, f"{number}_{at}") for at, item in enumerate(items)],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": request.get("tools") or [],
        "usage": dict(usage),
    }
    return {**answer, **own, "output": answer["output"]}


def _responses_events(body: Body) -> Iterator[Body]:
    """The events of a streamed answer."""
    events = [*_events(body)]
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def _with_id(item: Message, number: str) -> Message:
    """The item as the API completes it. A name cannot hold a dot: what stands before one is the tool's namespace."""
    if item.get("type") == "message" and isinstance(item.get("content"), str):
        text: Body = {"type": "output_text", "text": item["content"], "annotations": [], "logprobs": []}
        item = {**item, "content": [text]}
    if item.get("type") == "function_call" and "." in item["name"]:
        namespace, _, name = item["name"].rpartition(".")
        item = {**item, "namespace": namespace, "name": name}
    prefix = _PREFIXES.get(str(item.get("type")), "item")
    status = {} if item.get("type") in _WITHOUT_STATUS else {"status": "completed"}
    return {"id": f"{prefix}_{number}", **status, **item}


def _events(body: Body) -> Iterator[Body]:
    begun: Body = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(body["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
        if item["type"] == "message":
            for at, part in enumerate(item["content"]):
                yield from _text_events(part, {**place, "content_index": at})
        elif item["type"] in _GROWING:
            field, kind = _GROWING[item["type"]]
            for piece in _pieces(item[field]):
                yield {"type": f"{kind}.delta", **place, "delta": piece}
            yield {"type": f"{kind}.done", **place, "name": item["name"], field: item[field]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{body['status']}", "response": body}


def _begun(item: Message) -> Message:
    """An item as it is announced. The encrypted content of reasoning may be a half of it then."""
    match item["type"]:
        case "message":
            return {**item, "status": "in_progress", "content": []}
        case "reasoning":
            encrypted = item.get("encrypted_content")
            return {**item, "encrypted_content": encrypted[: len(encrypted) // 2]} if encrypted else item
        case kind if kind in _GROWING:
            return {**item, "status": "in_progress", _GROWING[kind][0]: ""}
        case _:
            return {**item, "status": "in_progress"}


def _text_events(part: Body, place: Body) -> Iterator[Body]:
    refusal = part["type"] == "refusal"
    field, kind = ("refusal", "response.refusal") if refusal else ("text", "response.output_text")
    more: Body = {} if refusal else {"logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": {**part, field: ""}}
    for piece in _pieces(part[field]):
        yield {"type": f"{kind}.delta", **place, "delta": piece, **more}
    yield {"type": f"{kind}.done", **place, field: part[field], **more}
    yield {"type": "response.content_part.done", **place, "part": part}
