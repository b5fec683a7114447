"""The end of a run of the OpenAI Agents SDK. It cannot go on after its answer, so a new run of the SDK goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, final

from agents import RunResult, RunResultStreaming
from pydantic_core import to_json

from hooksdk.adapters._conversation import Conversation
from hooksdk.adapters._openai_forms import ITEMS, Item, with_answer

Result = RunResult | RunResultStreaming


@final
class Ending:
    """Lets plugins judge each answer of one run, and makes the input of the SDK run that goes on after a refusal.

    Attributes:
        is_over: True once an answer was accepted, or calls wait.
        replaced: The plugin's text in the place of the answer; empty if the answer stays.
    """

    def __init__(self, conversation: Conversation, options: dict[str, Any]) -> None:
        self._conversation, self._options = conversation, options
        # The items and the responses of the SDK's earlier runs.
        self._before: list[Item] = []
        self._responses: list[Any] = []
        self.is_over = False
        self.replaced = ""

    async def next_input(self, result: Result) -> Any:
        """The input of the SDK's next run; None where the run is over."""
        if self._before:
            result.input = [*self._before, *_items(result.input)]  # pyright: ignore[reportAttributeAccessIssue] - plain items
        result.raw_responses = [*self._responses, *result.raw_responses]
        if result.interruptions:
            self.is_over = True
            return None
        answer: Any = result.final_output
        is_text = isinstance(answer, str)
        text: str = answer if is_text else to_json(answer, fallback=str).decode()
        finish = await self._conversation.finish(text, structured=not is_text)
        if finish.refused:
            history: list[Any] = result.to_input_list()
            keeps = self._options.get("session") is not None or self._options.get("conversation_id")
            self._before, self._responses = history if keeps else [], result.raw_responses
            self._options["context"] = result.context_wrapper  # which adds up the usage
            return finish.refused if keeps else [*history, ITEMS.user(finish.refused)]
        if finish.replaced:
            self.replaced = result.final_output = finish.text
            for item in [one for one in result.new_items if one.type == "message_output_item"][-1:]:
                item.raw_item = type(item.raw_item).model_validate(with_answer(item.raw_item.model_dump(), finish.text))
        self.is_over = True
        return None

    async def events(
        self, result: RunResultStreaming, go_on: Callable[[Any, Any], Awaitable[RunResultStreaming]]
    ) -> AsyncIterator[Any]:
        """The events of the result and of the SDK runs after it. The result takes on the values of the last one."""
        current = result
        result.cancel = lambda mode="immediate": current.cancel(mode) if current is not result else cancel(mode)
        cancel = type(result).cancel.__get__(result)
        async for event in type(result).stream_events(result):
            yield event
        while result.is_complete and (given := await self.next_input(current)) is not None:
            current = await go_on(current.last_agent, given)
            async for event in current.stream_events():
                yield event
            vars(result).update(vars(current))


def _items(given: Any) -> list[Item]:
    return [ITEMS.user(given)] if isinstance(given, str) else [*given]
