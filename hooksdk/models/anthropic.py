"""A `Model` over Anthropic's SDK, for the Messages API.

    async with AnthropicModel("claude-sonnet-4-5", max_tokens=8_000, on_text=print) as model:
        outcome = await run_agent(session, model, "What changed?", tools=tools)

Needs `pip install 'hooksdk[anthropic]'`. The SDK is made for asyncio.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

from hooksdk.errors import refuse
from hooksdk.formats import Message
from hooksdk.formats.prompt_cache import CacheMarks
from hooksdk.models import ModelReply, OnText
from hooksdk.models._shared import SdkModel, Unreadable, plain, read_stream, without
from hooksdk.tools import Deferral
from hooksdk.values import is_list, is_object

__all__ = ["AnthropicModel"]

Json = dict[str, Any]


@final
class AnthropicModel(SdkModel):
    """A model behind Anthropic's Messages API or a compatible one.

    `base_url` and `api_key` are the SDK's, which reads `ANTHROPIC_API_KEY` where none is given. `max_tokens` limits a
    reply, and the API wants it. The system messages that a transcript begins with are sent as `system`. With `stream`,
    or an `on_text` function for the prose as it comes, answers are streamed, which the SDK asks for when `max_tokens`
    is large; an attempt that fails may have streamed some of it already. `timeout` is how many seconds the server may
    be silent. `extra` are more fields of the request, such as `{"thinking": {"type": "adaptive"}}`; None leaves out a
    field that would be sent. `headers` go with each request, `anthropic-beta` among them.

    `cache` is the provider's prompt cache, without which every prompt costs its full price: `auto` marks what it shall
    keep for five minutes, `1h` for an hour, `off` marks nothing (`hooksdk.formats.prompt_cache.CacheMarks`).

    `deferral` is whether requests can declare tools that the model is not shown, for tool search: `auto` as the
    endpoint and the model are known to take them (`additions` only with its beta in `headers`), or as you say it:
    `search`, `additions`, `off`.

    Thinking blocks and their signatures are kept. A call that `max_tokens` cut off is recorded with its arguments under
    `INVALID_JSON`, so that it is refused, never run on half of them.

    Use it as an async context manager to keep connections open between replies; without, each reply has its own.
    """

    format = "anthropic"
    _package = "anthropic"
    _client_class = "AsyncAnthropic"
    _default_url = "https://api.anthropic.com"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        context_window: int | None = None,
        max_tokens: int = 4_096,
        stream: bool = False,
        on_text: OnText | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        cache: Literal["auto", "1h", "off"] = "auto",
        deferral: Deferral | Literal["auto"] = "auto",
        provider: str = "anthropic",
    ) -> None:
        super().__init__(
            name,
            base_url=base_url,
            api_key=api_key,
            context_window=context_window,
            max_tokens=max_tokens,
            stream=stream,
            on_text=on_text,
            timeout=timeout,
            headers=headers,
            extra=extra,
            deferral=deferral,
            provider=provider,
        )
        if cache not in ("auto", "1h", "off"):
            refuse("AnthropicModel(cache=...)", cache, "'auto', '1h' or 'off'")
        self._marks = None if cache == "off" else CacheMarks("1h" if cache == "1h" else "5m")

    def _request(self, messages: Sequence[Message], tools: Sequence[Json], *, streamed: bool) -> Json:
        start = next((at for at, message in enumerate(messages) if message.get("role") != "system"), len(messages))
        # The model may answer nothing at all after results; the API refuses such a message when it comes back.
        conversation = [one for one in messages[start:] if one.get("role") != "assistant" or one.get("content")]
        request = {"max_tokens": self._max_tokens, "messages": conversation, "tools": list(tools) or None}
        body = self._body({**request, "system": _system(messages[:start])}, streamed=streamed)
        return self._marks.place(body) if self._marks else body

    async def _ask(self, client: Any, request: Json, on_text: OnText | None) -> ModelReply:
        # Everything else goes in as it is: what the SDK does not know yet it would refuse as an argument.
        arguments = {name: request.pop(name) for name in ("model", "max_tokens", "messages")}
        streamed = request.pop("stream", False)
        answer = await client.messages.create(**arguments, stream=streamed, extra_body=request)
        if not streamed:
            return _read(plain(answer))
        streamed_reply = _StreamedReply()
        await read_stream(answer, streamed_reply.add, on_text)
        return streamed_reply.reply()


def _system(messages: Sequence[Message]) -> Any:
    """The value of `system`: the text of the one message, or the blocks of all."""
    contents = [message["content"] for message in messages if message.get("content")]
    if len(contents) < 2:
        return contents[0] if contents else None
    blocks = [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in contents]
    return [block for each in blocks for block in each]


def _read(answer: Json) -> ModelReply:
    if not is_list(answer.get("content")):
        raise Unreadable(f"the answer is no message: {str(answer.get('error') or answer)[:200]}")
    blocks: list[Json] = [without(block) for block in answer["content"]]
    stop_reason = answer.get("stop_reason")
    if stop_reason == "max_tokens" and blocks and blocks[-1].get("type") == "tool_use":
        blocks[-1]["input"] = _invalid(json.dumps(blocks[-1].get("input"), ensure_ascii=False))
    return _model_reply(blocks, answer.get("usage"), stop_reason)


def _model_reply(blocks: Sequence[Json], usage: Json | None, stop_reason: str | None) -> ModelReply:
    """The reply, without blank text, which the API refuses when it is sent back."""
    content = [block for block in blocks if block.get("type") != "text" or block.get("text", "").strip()]
    message = {"role": "assistant", "content": content}
    return ModelReply(message=message, usage=without(usage) if usage else None, stop_reason=stop_reason)


def _invalid(text: str) -> Json:
    return {"INVALID_JSON": text}


class _StreamedReply:
    """A streamed reply, put together."""

    def __init__(self) -> None:
        self.blocks: dict[int, Json] = {}
        self.inputs: dict[int, str] = {}
        self.usage: Json = {}
        self.stop_reason: str | None = None
        self.ended = False

    def add(self, event: Json) -> str:
        """Take in one event; answers the prose in it."""
        match event.get("type"):
            case "message_start":
                self.usage |= without(event["message"].get("usage") or {})
            case "content_block_start":
                block = self.blocks[event["index"]] = without(event["content_block"])
                return block.get("text", "") if block.get("type") == "text" else ""
            case "content_block_delta":
                return self._add(event["index"], event["delta"])
            case "message_delta":
                self.stop_reason = event["delta"].get("stop_reason") or self.stop_reason
                self.usage |= without(event.get("usage") or {})
            case "message_stop":
                self.ended = True
            case _:
                pass
        return ""

    def _add(self, index: int, delta: Json) -> str:
        block = self.blocks[index]
        match delta.get("type"):
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
                return delta["text"]
            case "input_json_delta":
                self.inputs[index] = self.inputs.get(index, "") + delta["partial_json"]
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta["signature"]
            case "citations_delta":
                block["citations"] = [*block.get("citations", ()), delta["citation"]]
            case _:
                pass
        return ""

    def reply(self) -> ModelReply:
        """The whole of it. A stream without its last event was cut off."""
        if not self.ended:
            raise Unreadable("the stream ended in the middle of the answer")
        for index, text in self.inputs.items():
            if text:
                self.blocks[index]["input"] = _arguments(text)
        return _model_reply([self.blocks[index] for index in sorted(self.blocks)], self.usage, self.stop_reason)


def _arguments(text: str) -> Json:
    try:
        value: object = json.loads(text)
    except ValueError:
        return _invalid(text)
    return value if is_object(value) else _invalid(text)
