"""The forms of the OpenAI Agents SDK: items of the Responses API and messages of openai-chat, which plugins see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from agents import FunctionTool, ItemHelpers, Model, RunState
from agents.models import get_default_model

from hooksdk.adapters._calls import Texts, parameters_of, short_texts
from hooksdk.adapters._conversation import FORMAT, ModelName, split_name
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message, get_format
from hooksdk.tools import Tool

Item = dict[str, Any]
ITEMS = get_format("openai-responses")


@final
@dataclass
class Handoffs:
    """The tools by which the agents of a run hand over to each other, and the ids of their calls."""

    names: set[str] = field(default_factory=set[str])
    call_ids: set[str] = field(default_factory=set[str])


def listed(items: str | list[Any]) -> list[Item]:
    """The input of a run as items."""
    return [ITEMS.user(items)] if isinstance(items, str) else [dict(one) for one in items]


def asked_texts(items: Sequence[Any]) -> list[str]:
    """The user's texts in these items."""
    return [text for one in items if one.get("role") == "user" and (text := ITEMS.text(one))]


def prompt_texts(prompt: str | list[Any] | RunState[Any, Any]) -> list[str]:
    """The user's texts in the input of a run; none where it goes on from a state."""
    return [] if isinstance(prompt, RunState) else asked_texts(listed(prompt))


def answered(item: Item) -> str | None:
    """The id of the call that an item answers, if any."""
    return str(item.get("call_id") or "") if item.get("type") == "function_call_output" else None


def output_text(item: Item) -> str:
    """The text of a tool's output, without its images and files."""
    output = item.get("output") or ""
    return output if isinstance(output, str) else "\n".join(one["text"] for one in output if "text" in one)


def plain_messages(items: Sequence[Item], handoffs: Handoffs) -> list[Message]:
    """In openai-chat: what a model says in one turn is one message there. A handoff is the SDK's own affair, and no
    tool call."""
    calls_made = [one for one in items if one.get("type") == "function_call"]
    handoffs.call_ids.update(str(one.get("call_id")) for one in calls_made if one.get("name") in handoffs.names)
    plain: list[Message] = []
    said: list[str] = []
    calls: list[ToolCall] = []

    def close_turn() -> None:
        if said or calls:
            plain.append(FORMAT.reply("\n".join(said), calls))
        said.clear()
        calls.clear()

    for item in items:
        if item.get("call_id") in handoffs.call_ids:
            continue
        if item.get("type") == "function_call":
            name = str(item.get("name") or "")
            calls.append(ToolCall(str(item.get("call_id") or ""), name, item.get("arguments")))
        elif (call_id := answered(item)) is not None:
            close_turn()
            plain.append({"role": "tool", "tool_call_id": call_id, "content": output_text(item)})
        elif item.get("role") == "assistant":
            said.append(ITEMS.text(item))
        elif item.get("role"):
            close_turn()
            plain.append({"role": "user" if item["role"] == "user" else "system", "content": ITEMS.text(item)})
    close_turn()
    return plain


def native_items(message: Message) -> list[Item]:
    """The items of a message of openai-chat."""
    if FORMAT.is_reply(message):
        return [dict(one) for one in ITEMS.reply_messages(FORMAT.text(message), FORMAT.calls(message))]
    if results := FORMAT.results(message):
        return [{"type": "function_call_output", "call_id": one.call_id, "output": one.text} for one in results]
    return [{"role": message["role"], "content": FORMAT.text(message)}]


def trimmed_items(items: Sequence[Item], texts: Texts) -> list[Item]:
    """The items, with a copy that has the short text for each with a trimmed result."""
    short = short_texts([*map(answered, items)], texts)
    return [
        one if text is None or text == output_text(one) else {**one, "output": text}
        for one, text in zip(items, short, strict=True)
    ]


def with_answer(item: Item, text: str) -> Item:
    """A copy of a message of the model's with this text."""
    content = item["content"]
    if isinstance(content, str):
        return {**item, "content": text}
    return {**item, "content": [{**next(one for one in content if "text" in one), "text": text}]}


def with_last_answer(items: Sequence[Item], text: str) -> list[Item]:
    """The items, with a copy of the model's last message that has this text."""
    last = max((at for at, one in enumerate(items) if one.get("role") == "assistant"), default=-1)
    return [with_answer(one, text) if at == last else one for at, one in enumerate(items)]


def shorten(result: Any, texts: Texts) -> None:
    """Shorten trimmed results in the lists of which `to_input_list` makes its answer."""
    before: list[Any] = [dict(one) for one in ItemHelpers.input_to_new_input_list(result.input)]
    outputs = [
        one for one in result.new_items if one.type == "tool_call_output_item" and isinstance(one.raw_item, dict)
    ]
    short = trimmed_items([*before, *(one.raw_item for one in outputs)], texts)
    if short[: len(before)] != before:
        result.input = short[: len(before)]
    for one, item in zip(outputs, short[len(before) :], strict=True):
        one.raw_item = item


def model_names(model: str | Model | None) -> list[ModelName]:
    """The possible names of a model, or of the model that a provider has for a name: some models have slashes in
    theirs."""
    name: Any = get_default_model() if model is None else getattr(model, "model", model)
    if not isinstance(name, str):
        return [(None, None)]
    parts = name.split("/")
    return [split_name(name), *((parts[at - 1], "/".join(parts[at:])) for at in range(len(parts) - 2, 0, -1))]


def definition(tool: FunctionTool) -> tuple[str, str, Any]:
    """The facts by which two definitions of a tool are compared."""
    return tool.name, tool.description, tool.params_json_schema


def function_of(tool: Tool) -> FunctionTool:
    """The SDK's definition of a tool that hooksdk runs itself."""

    async def invoke(_context: Any, _text: str) -> str:
        raise AssertionError  # hooksdk runs it

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=parameters_of(tool),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


def tool_result(value: Any) -> ToolResult:
    """The answer of a function tool as a result."""
    if isinstance(value, ToolResult):
        return value
    output, call, is_error = value
    return ToolResult(output_text({**ItemHelpers.tool_call_output_item(call, output)}), is_error=is_error)
