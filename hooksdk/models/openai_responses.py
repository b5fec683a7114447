"""A `Model` over OpenAI's SDK for the Responses API: for OpenAI, and for every server that speaks it.

    async with OpenAIResponsesModel("gpt-5", on_text=print) as model:
        outcome = await run_agent(session, model, "What changed?", tools=tools)

Needs `pip install 'hooksdk[openai]'`. The SDK is made for asyncio.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, final

from hooksdk.errors import WrongArgument
from hooksdk.formats import Message
from hooksdk.formats.openai_responses import OpenAIResponses, as_input
from hooksdk.models import ModelReply, OnText
from hooksdk.models._shared import OpenAISdkModel, Unreadable, plain, read_stream, without
from hooksdk.transcript import without_loose_ends
from hooksdk.values import UNREADABLE, as_list, as_object, is_list, is_object

__all__ = ["OpenAIResponsesModel"]

Json = dict[str, Any]

_FORMAT = OpenAIResponses()
_ENCRYPTED = ["reasoning.encrypted_content"]
# Stands in the error of a model that does not reason: https://github.com/pydantic/pydantic-ai/issues/2865.
_NOT_ENCRYPTED = "encrypted content is not supported"
# Types of items that may be sent without their `id`, as Codex does. Items of hosted tools must have it.
_HOLD_ALL = re.compile(
    "message|reasoning|function_call|custom_tool_call|tool_search_call|tool_search_output|additional_tools|compaction"
)


@final
class OpenAIResponsesModel(OpenAISdkModel):
    """A model behind OpenAI's Responses API or a compatible one.

    The options are those of `OpenAIModel`; `max_tokens` is sent as `max_output_tokens`, and `deferral` is whether
    requests can declare tools that the model is not shown, for tool search: `auto` as the endpoint and the model are
    known to take them, or as you say it (`search`, `additions`, `off`). An answer has several items, each a message of
    the session: reasoning, text, calls, and what tools did that the provider runs.

    The session holds the history, so nothing is stored at the provider (`store=False`), and reasoning comes encrypted
    (`include=["reasoning.encrypted_content"]`), so that the next request can have it; a model that refuses this, since
    it does not reason, is asked without. `extra` changes both: `{"store": True}`, `{"include": None}`. Where nothing is
    stored, what the provider could only look up is not sent back: reasoning without its content, and generated images;
    and OpenAI itself gets items without their ids, which it may look for in vain. Instructions are the session's
    messages of role `system` or `developer`.

    A reply that was cut off has the reason of it, such as `max_output_tokens`, as `stop_reason`. A call that was cut
    off is recorded so that it is refused, never run on half of its arguments.

    Use it as an async context manager to keep connections open between replies; without, each reply has its own.
    """

    format = "openai-responses"

    # False once the model has refused it.
    _encrypted = True

    def _request(self, messages: Sequence[Message], tools: Sequence[Json], *, streamed: bool) -> Json:
        stored = self._extra.get("store", False) is not False
        return self._body(
            {
                "input": list(messages) if stored else self._unstored(messages),
                "tools": list(tools) or None,
                "max_output_tokens": self._max_tokens,
                "prompt_cache_key": self._cache_key(),
                "store": False,
                "include": _ENCRYPTED if self._encrypted else None,
            },
            streamed=streamed,
        )

    def _unstored(self, items: Sequence[Message]) -> list[Message]:
        """The items without what the provider could only find where it had stored it. Their ids stay for other servers,
        some of which want them: https://github.com/openai/codex/issues/12669."""
        whole = without_loose_ends([item for item in items if not _is_found_by_id(item)], _FORMAT)
        return [_without_id(item) for item in whole] if self._asks_openai else whole

    async def _ask(self, client: Any, request: Json, on_text: OnText | None) -> ModelReply:
        try:
            return await self._answer(client, request, on_text)
        except self._sdk.BadRequestError as error:
            if request.get("include") != _ENCRYPTED or _NOT_ENCRYPTED not in str(error).lower():
                raise
        self._encrypted = False
        return await self._answer(client, without(request, "include"), on_text)

    async def _answer(self, client: Any, request: Json, on_text: OnText | None) -> ModelReply:
        # All of it goes in as it is: what the SDK does not know yet it would refuse as an argument.
        streamed = request.get("stream", False)
        answer = await client.responses.create(stream=streamed, extra_body=without(request, "stream"))
        if not streamed:
            return self._read(client, plain(answer))
        stream = _Stream()
        await read_stream(answer, stream.add, on_text)
        return self._read(client, stream.answer())

    def _read(self, client: Any, answer: Json) -> ModelReply:
        error = answer.get("error")
        if answer.get("status") == "failed":
            self._fail(client, error if is_object(error) else {})
        if not is_list(answer.get("output")):
            raise Unreadable(f"the answer is no response: {str(error or answer)[:200]}")
        if answer.get("status") in ("queued", "in_progress", "cancelled"):
            problem = f"the answer is '{answer['status']}', and nobody waits for one in the background"
            raise WrongArgument("OpenAIResponsesModel(extra=...)", problem, "Leave 'background' out of it")
        return _reply(answer)

    def _fail(self, client: Any, error: Json) -> NoReturn:
        """Raise the SDK's error for what an answer says went wrong, as the SDK itself does for a refused request."""
        import httpx2

        request = httpx2.Request("POST", f"{client.base_url}responses")
        raise self._sdk.APIError(error.get("message") or "The response failed.", request, body=error)


def _is_found_by_id(item: Message) -> bool:
    """True for reasoning without its content, and for images: "Item with id 'rs_1' not found. Items are not persisted
    when `store` is set to false." (https://github.com/vercel/ai/issues/7543). An image is looked up even with its data
    (pydantic-ai's `OpenAIResponsesModel` leaves it out, too)."""
    if item.get("type") == "reasoning":
        return not item.get("encrypted_content") and not item.get("content")
    return item.get("type") == "image_generation_call"


def _without_id(item: Message) -> Message:
    return without(item, "id") if _HOLD_ALL.fullmatch(str(item.get("type", "message"))) else item


def _reply(answer: Json) -> ModelReply:
    status, usage = answer.get("status"), answer.get("usage")
    items: list[Json] = [as_input(item) for item in answer["output"]]
    if status == "incomplete":
        items = list(_without_halves(items))
    message, *more = items or _FORMAT.reply_messages("")
    stop_reason = as_object(answer.get("incomplete_details")).get("reason") or status
    return ModelReply(message=message, more=more, usage=without(usage) if usage else None, stop_reason=stop_reason)


def _without_halves(items: Sequence[Json]) -> Iterator[Json]:
    """The items of a reply that was cut off. The text of a custom tool cannot say that it is a half, so its call is
    left out."""
    for item in items:
        status = item.get("status") or ("incomplete" if item is items[-1] else "completed")
        if status == "completed" or item.get("type") not in ("function_call", "custom_tool_call"):
            yield item
        elif item["type"] == "function_call":
            reason = f"the reply was cut off in them: {item.get('arguments', '')}"
            yield {**item, "arguments": json.dumps({UNREADABLE: reason}, ensure_ascii=False)}


class _Stream:
    """The events of a streamed answer, put together.

    Attributes:
        place: Where the prose stands that came last.
    """

    def __init__(self) -> None:
        self.items: dict[int, Json] = {}
        self.response: Json | None = None
        self.place: object = None

    def add(self, event: Json) -> str:
        """Take in one event; answers the prose in it. Texts of several items, or parts, stand on lines of their own, as
        in `Outcome.text`."""
        match event.get("type"):
            case "response.output_item.done":
                self.items[event.get("output_index", len(self.items))] = event["item"]
            case "response.output_text.delta" | "response.refusal.delta":
                place = (event.get("item_id"), event.get("content_index"))
                gap = "" if self.place in (None, place) else "\n"
                self.place = place
                return gap + event["delta"]
            case "response.completed" | "response.incomplete" | "response.failed":
                self.response = event["response"]
            case "error":
                self.response = {"status": "failed", "error": event}
            case _:
                pass
        return ""

    def answer(self) -> Json:
        """The whole of it. A stream without its last event was cut off. Its items are those that were told one by one:
        the encrypted content of reasoning is whole in these alone, and some servers end with an empty `output`."""
        if self.response is None:
            raise Unreadable("the stream ended in the middle of the answer")
        output = [self.items[index] for index in sorted(self.items)]
        whole = as_list(self.response.get("output"))
        return {**self.response, "output": output if len(output) >= len(whole) else whole}
