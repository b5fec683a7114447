"""What OpenAI's Responses API and Anthropic's Messages API are known to refuse, in their own words, so that no test
sends what no provider takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooksdk.values import as_list, as_object

Body = Mapping[str, Any]

_CALLS = {"function_call": "function call", "custom_tool_call": "custom tool call"}
_ONLY_IN_ANSWERS = ("created_by", "parsed_arguments")
# Who says something that did not come out of reasoning.
_BEHIND_REASONING = ("system", "developer", "user")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An error of the provider."""

    text: str
    status: int = 400
    param: str = "input"
    code: str | None = None


def refusal_of(format_name: str, body: Body, headers: Mapping[str, str]) -> Refusal | None:
    """The error that the provider answers to this request; None where it is known to refuse nothing of it."""
    if format_name == "anthropic":
        return next(_anthropic_refusals(body, headers.get("anthropic-beta", "")), None)
    return next(_refusals(body), None) if format_name == "openai-responses" else None


def _anthropic_refusals(body: Body, betas: str) -> Iterator[Refusal]:
    """The words of references, of tools that are all deferred, of names and of the system's place are the API's
    (https://github.com/anthropics/claude-code/issues/81863, https://github.com/nearai/ironclaw/pull/7274,
    https://github.com/anthropics/claude-code/issues/14221, https://github.com/earendil-works/pi/pull/9548); that the
    others are refused is from pydantic-ai 2.68.0 and the SDK's types."""
    tools = [as_object(tool) for tool in as_list(body.get("tools"))]
    names = {tool.get("name") for tool in tools}
    messages = [as_object(message) for message in as_list(body.get("messages"))]
    for at, message in enumerate(messages):
        for block in map(as_object, as_list(message.get("content"))):
            parts = [as_object(part) for part in as_list(block.get("content"))]
            for part in parts:
                if part.get("type") == "tool_reference" and part.get("tool_name") not in names:
                    text = f"Tool reference '{part.get('tool_name')}' not found in available tools"
                    yield Refusal(text=f"messages.{at}: {text}", code="tool_reference_unresolved")
            if block.get("type") == "tool_result" and block.get("content") == []:
                yield Refusal(text=f"messages.{at}: tool_result content must not be empty")
            if block.get("type") == "tool_addition":
                added = as_object(block.get("tool")).get("name")
                if not any(beta in betas for beta in ("mid-conversation-tool-changes-", "inline-tools-")):
                    yield Refusal(text=f"messages.{at}: 'tool_addition' blocks need a beta that is not on")
                if added not in names:
                    yield Refusal(text=f"messages.{at}: Tool reference '{added}' not found in available tools")
        following = messages[at + 1].get("role") if at + 1 < len(messages) else "assistant"
        if message.get("role") == "system" and following not in ("assistant", "system"):
            yield Refusal(text=f"messages.{at}: role 'system' must precede an 'assistant' message or end the array")
    if len(names) < len(tools):
        yield Refusal(text="tools: Tool names must be unique.")
    if tools and all(tool.get("defer_loading") for tool in tools):
        yield Refusal(text="At least one tool must have defer_loading=false. All tools cannot be deferred.")
    if any(tool.get("defer_loading") and tool.get("cache_control") for tool in tools):
        yield Refusal(text="Tools with defer_loading cannot use prompt caching.")


def _refusals(body: Body) -> Iterator[Refusal]:
    tools = [as_object(tool) for tool in as_list(body.get("tools"))]
    items = [as_object(item) for item in as_list(body.get("input"))]
    yield from _of_tools(tools)
    for at, item in enumerate(items):
        # The error's words: https://github.com/pydantic/pydantic-ai/issues/3653.
        for name in _ONLY_IN_ANSWERS:
            if name in item:
                place = f"input[{at}].{name}"
                yield Refusal(text=f"Unknown parameter: '{place}'.", param=place, code="unknown_parameter")
    if body.get("store") is False:
        yield from _of_items_that_nobody_stored(items)
    yield from _of_reasoning(items)
    if not body.get("previous_response_id") and not body.get("conversation"):  # else the provider has the other half
        yield from _of_pairs(items)
    yield from _of_namespaces(tools, items)


def _of_tools(tools: Sequence[Body]) -> Iterator[Refusal]:
    """The words of the first are from pydantic-ai 2.68.0, which has met them; of the second it says that it is refused,
    so its words are those of other parameters that are missing."""
    search = any(tool.get("type") == "tool_search" for tool in tools)
    if not search and any(function.get("defer_loading") for _, function in _functions(tools)):
        text = "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search."
        yield Refusal(text=text, param="tools", code="invalid_value")
    for at, tool in enumerate(tools):
        if tool.get("type") == "tool_search" and tool.get("execution") == "client" and not tool.get("description"):
            place = f"tools[{at}].description"
            yield Refusal(
                text=f"Missing required parameter: '{place}'.", param=place, code="missing_required_parameter"
            )


def _of_items_that_nobody_stored(items: Sequence[Body]) -> Iterator[Refusal]:
    """https://github.com/vercel/ai/issues/7543; of images pydantic-ai 2.68.0 says it."""
    for item in items:
        kind = item.get("type")
        bare = kind == "reasoning" and not item.get("encrypted_content") and not item.get("content")
        if "id" in item and (bare or kind in ("image_generation_call", "item_reference")):
            text = (
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. "
                "Try again with `store` set to true, or remove this item from your input."
            )
            yield Refusal(text=text, status=404)


def _of_reasoning(items: Sequence[Body]) -> Iterator[Refusal]:
    """https://github.com/openai/openai-node/issues/1567."""
    end: Body = {}
    for item, following in zip(items, [*items, end][1:], strict=True):
        other = not following or following.get("role") in _BEHIND_REASONING
        if item.get("type") == "reasoning" and (other or str(following.get("type")).endswith("call_output")):
            name = f"Item '{item['id']}'" if "id" in item else "Item"
            yield Refusal(text=f"{name} of type 'reasoning' was provided without its required following item.")


def _of_pairs(items: Sequence[Body]) -> Iterator[Refusal]:
    """https://github.com/microsoft/vscode/issues/320060, https://github.com/symgraph/GhidrAssist/issues/78."""
    for kind, words in _CALLS.items():
        called = [item.get("call_id") for item in items if item.get("type") == kind]
        answered = [item.get("call_id") for item in items if item.get("type") == f"{kind}_output"]
        for call_id in answered:
            if call_id not in called:
                yield Refusal(text=f"No tool call found for {words} output with call_id {call_id}.")
        for call_id in called:
            if call_id not in answered:
                yield Refusal(text=f"No tool output found for {words} {call_id}.")


def _of_namespaces(tools: Sequence[Body], items: Sequence[Body]) -> Iterator[Refusal]:
    """https://github.com/github/copilot-cli/issues/4519."""
    revealed = [as_object(tool) for item in items for tool in as_list(item.get("tools"))]
    functions = [*_functions(tools), *_functions(revealed)]
    at_once = {function.get("name") for space, function in _functions(tools) if not space}
    for item in items:
        name = item.get("name")
        if item.get("type") != "function_call" or item.get("namespace") or name in at_once:
            continue
        if any(space and function.get("name") == name for space, function in functions):
            text = f"Missing namespace for function_call '{name}'. It does not exist in the default namespace."
            yield Refusal(text=text)


def _functions(tools: Sequence[Body]) -> Iterator[tuple[str, Body]]:
    """Each function with its namespace, empty for the default one. A function that is deferred by itself is in one of
    its own name, as pydantic-ai 2.68.0 has seen it."""
    for tool in tools:
        if tool.get("type") == "namespace":
            for function in as_list(tool.get("tools")):
                yield str(tool.get("name")), as_object(function)
        elif tool.get("type") == "function":
            yield (str(tool.get("name")) if tool.get("defer_loading") else ""), tool
