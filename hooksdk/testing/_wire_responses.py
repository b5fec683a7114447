"""The answers of OpenAI's Responses API, as JSON and as server-sent events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hooksdk.formats import Message

Body = dict[str, Any]

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


def pieces(text: str) -> Iterator[str]:
    """A text in three pieces, if it has as many characters."""
    size = max(1, -(-len(text) // _PIECES))
    yield from (text[at : at + size] for at in range(0, len(text), size))


def responses_messages(body: Mapping[str, Any]) -> list[Message]:
    """The items of a request, with its `instructions` as the first of them."""
    given = body.get("input") or ()
    messages: list[Message] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    if body.get("instructions"):
        return [{"role": "system", "content": body["instructions"]}, *messages]
    return messages


def responses_answer(
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


def responses_events(body: Body) -> Iterator[Body]:
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
            for piece in pieces(item[field]):
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
    for piece in pieces(part[field]):
        yield {"type": f"{kind}.delta", **place, "delta": piece, **more}
    yield {"type": f"{kind}.done", **place, field: part[field], **more}
    yield {"type": "response.content_part.done", **place, "part": part}
