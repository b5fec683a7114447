"""A `Model` over OpenAI's SDK: for OpenAI, and for every server that speaks Chat Completions.

    async with OpenAIModel("gpt-5", on_text=print) as model:
        outcome = await run_agent(session, model, "What changed?", tools=tools)

Needs `pip install 'hooksdk[openai]'`. The SDK is made for asyncio.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, final

from hooksdk.formats import Message
from hooksdk.models import ModelReply, OnText
from hooksdk.models._shared import OpenAISdkModel, Unreadable, plain, read_stream, without
from hooksdk.values import is_list, is_object

__all__ = ["OpenAIModel"]

Json = dict[str, Any]


@final
class OpenAIModel(OpenAISdkModel):
    """A model behind OpenAI's Chat Completions API or a compatible one, such as vLLM's, Ollama's or OpenRouter's.

    `base_url` and `api_key` are the SDK's, which reads `OPENAI_API_KEY` where none is given. `max_tokens` limits a
    reply; with a `base_url` it is sent under that name, to OpenAI itself as `max_completion_tokens`. With `stream`, or
    an `on_text` function for the prose as it comes, answers are streamed; an attempt that fails may have streamed some
    of it already. `timeout` is how many seconds the server may be silent. `extra` are more fields of the request, such
    as `{"temperature": 0}`; None leaves out a field that would be sent. `provider` is the name that events show. To
    OpenAI itself `run_agent` sends a `prompt_cache_key`, a digest of the session's id, so that its requests meet the
    same cache.

    Use it as an async context manager to keep connections open between replies; without, each reply has its own.
    """

    format = "openai-chat"

    def _request(self, messages: Sequence[Message], tools: Sequence[Json], *, streamed: bool) -> Json:
        return self._body(
            {
                "messages": list(messages),
                "tools": list(tools) or None,
                "prompt_cache_key": self._cache_key(),
                "max_completion_tokens" if self._asks_openai else "max_tokens": self._max_tokens,
                "stream_options": {"include_usage": True} if streamed else None,
            },
            streamed=streamed,
        )

    async def _ask(self, client: Any, request: Json, on_text: OnText | None) -> ModelReply:
        # Everything but the model goes in as it is: what the SDK does not know yet it would refuse as an argument.
        model, streamed = request.pop("model"), request.pop("stream", False)
        messages = request.pop("messages")
        answer = await client.chat.completions.create(
            model=model, messages=messages, stream=streamed, extra_body=request
        )
        if not streamed:
            return _read(plain(answer))
        streamed_reply = _StreamedReply()
        await read_stream(answer, streamed_reply.add, on_text)
        return streamed_reply.reply()


def _read(answer: Json) -> ModelReply:
    choices: list[Json] = answer.get("choices") or []
    if not choices or not is_object(choices[0].get("message")):
        raise Unreadable(f"the answer is no chat completion: {str(answer.get('error') or answer)[:200]}")
    stop_reason = choices[0].get("finish_reason")
    return ModelReply(
        message=_for_transcript(choices[0]["message"]), usage=_usage(answer.get("usage")), stop_reason=stop_reason
    )


def _usage(counts: Json | None) -> Json | None:
    return without(counts) if counts else None


def _for_transcript(message: Json) -> Message:
    """A reply as it can be sent back: no nulls, nothing that a request may not have, and an id for every call."""
    reply: Json = {**without(message, "annotations"), "role": "assistant"}
    calls: list[Json] = reply.pop("tool_calls", None) or []
    if calls:
        reply["tool_calls"] = [_call(call) for call in calls]
    if is_object(reply.get("audio")):
        reply["audio"] = {"id": reply["audio"].get("id")}
    if not reply.get("refusal"):
        reply.pop("refusal", None)
    if "content" not in reply:
        other_content = reply.keys() & {"tool_calls", "function_call", "refusal", "audio"}
        reply["content"] = None if other_content else ""
    return reply


def _call(call: Json) -> Json:
    """A call without the stream's marks. Some servers give no id, which the result needs."""
    plain_call: Json = {"type": "function", **without(call, "index")}
    plain_call["id"] = plain_call.get("id") or f"call_{uuid.uuid4().hex[:24]}"
    if is_object(plain_call.get("function")):
        plain_call["function"] = {"arguments": "", **without(plain_call["function"])}
    return plain_call


class _StreamedReply:
    """A streamed reply, put together."""

    def __init__(self) -> None:
        self.message: Json = {}
        self.calls: list[Json] = []
        self.by_index: dict[Any, Json] = {}
        self.usage: Json | None = None
        self.stop_reason: str | None = None

    def add(self, chunk: Json) -> str:
        """Take in one chunk; answers the prose in it."""
        self.usage = chunk.get("usage") or self.usage
        choices: list[Json] = chunk.get("choices") or []
        if not choices:
            return ""
        self.stop_reason = choices[0].get("finish_reason") or self.stop_reason
        delta: Json = choices[0].get("delta") or {}
        for name, value in delta.items():
            if name == "tool_calls":
                for call in value or ():
                    self._add_call(call)
            elif name != "role":
                _join(self.message, name, value)
        text = delta.get("content") or delta.get("refusal")
        return text if isinstance(text, str) else ""

    def _add_call(self, part: Json) -> None:
        index, call_id = part.get("index"), part.get("id")
        call = self.by_index.get(index)
        # Servers are known to number all calls 0, or not at all; a new id then begins a new call.
        if call is None or (call_id and call.get("id") and call_id != call["id"]):
            call = self.by_index[index] = {}
            self.calls.append(call)
        for name, value in part.items():
            if name == "function" and is_object(value):
                function = call.setdefault("function", {})
                _join(function, "arguments", value.get("arguments"))
                function["name"] = function.get("name") or value.get("name")
            elif value is not None:
                call[name] = value

    def reply(self) -> ModelReply:
        """The whole of it. A stream without a reason to stop was cut off."""
        if self.stop_reason is None:
            raise Unreadable("the stream ended in the middle of the answer")
        message = _for_transcript({**self.message, "tool_calls": self.calls})
        return ModelReply(message=message, usage=_usage(self.usage), stop_reason=self.stop_reason)


def _join(into: Json, name: str, value: Any) -> None:
    """Add a piece: text and lists grow, objects are merged, anything else is replaced."""
    before = into.get(name)
    if value is None:
        return
    if isinstance(before, str) and isinstance(value, str):
        into[name] = before + value
    elif is_list(before) and is_list(value):
        into[name] = [*before, *value]
    elif is_object(before) and is_object(value):
        for key, each in value.items():
            _join(before, key, each)
    else:
        into[name] = value
