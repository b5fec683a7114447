"""Anthropic's Messages API: content in blocks, results inside user messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, ProviderJson, kit
from hooksdk.formats import _provider as provider
from hooksdk.formats._provider import ProviderFormat
from hooksdk.formats.content import content_text, kind_in_words, prose
from hooksdk.tools import Deferral, Tool
from hooksdk.values import as_list, as_object, is_list, is_object

__all__ = ["Anthropic"]

# Types of blocks inside a result that a trim may replace.
_KNOWN = ("text", "image", "document", "search_result")
# Characters of base64 that the API takes for one image; a longer one would make every later request fail.
_IMAGE_LIMIT = 5 * 1024 * 1024
_THINKING = ("thinking", "redacted_thinking")
# What no id of a call may hold: https://github.com/LibreChat-AI/agents/pull/153 has the API's words.
_OTHERS_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


class Anthropic(ProviderFormat):
    """The results of one turn stand together in one user message, before any other block of it.

    Blocks of text must not be blank, an error must have text and nothing else, and images come as PNG, JPEG, GIF or
    WebP of up to 5 MB: what does not fit becomes a short description, like content that MCP has and this API has not.
    Blocks of the provider's own tools (`server_tool_use` and its results) count neither as calls nor as results.

    Attributes:
        wants_unique_ids: `tool_use` ids must be unique: https://github.com/anthropics/claude-code/issues/28515.
    """

    name: str = "anthropic"
    grouped: bool = True
    joined: bool = True
    wants_unique_ids: bool = True
    _roles = ("user", "assistant", "system")

    def check(self, message: object) -> str | None:
        if not is_object(message):
            return provider.no_object(message)
        role = message.get("role")
        if role in ("tool", "function", "developer") or "tool_calls" in message:
            return (
                f"this is a message of the format 'openai-chat' (role {role!r}); here calls are tool_use blocks, "
                "and results are tool_result blocks of a user message"
            )
        content = message.get("content")
        wrong = self._wrong_role(role) or provider.wrong_parts(content, ("text",), {}, noun="blocks")
        problems = (_check_block(role, f"content[{at}]", as_object(one)) for at, one in enumerate(as_list(content)))
        return wrong or next((problem for problem in problems if problem), None)

    def is_loose_end(self, message: Message) -> bool:
        """True for thinking alone: the final block of a reply cannot be `thinking`, as the API says."""
        blocks = as_list(message.get("content"))
        return bool(blocks) and all(as_object(block).get("type") in _THINKING for block in blocks)

    def sendable_id(self, call_id: str, suffix: str = "") -> str:
        return kit.fitting_id(call_id, suffix, others=_OTHERS_IN_IDS)

    def with_call_ids(self, message: Message, ids: Sequence[str]) -> Message:
        kind, key = ("tool_use", "id") if self.is_reply(message) else ("tool_result", "tool_use_id")

        def with_id(block: Any, call_id: str) -> Any | None:
            return {**block, key: call_id} if as_object(block).get("type") == kind else None

        return {**message, "content": kit.named(as_list(message.get("content")), ids, with_id)}

    def mend(self, message: Message) -> tuple[Message, str]:
        """Content must not be empty, and no text in it blank: https://github.com/anthropics/claude-code/issues/59812
        and 23369. Thinking needs the signature that the API gave it:
        https://docs.claude.com/en/docs/build-with-claude/extended-thinking."""
        content = message.get("content")
        if isinstance(content, str):
            if content.strip():
                return message, ""
            return {**message, "content": kit.NO_CONTENT}, "its content is blank"
        mended = [_mended(block, self.is_reply(message)) for block in as_list(content)]
        blocks = [block for block, _ in mended if block is not None]
        why = next((why for _, why in mended if why), "" if blocks else "its content is empty")
        if not why:
            return message, ""
        return {**message, "content": blocks or [{"type": "text", "text": kit.NO_CONTENT}]}, why

    def opening(self, first: Message) -> Message | None:
        """A user speaks first: https://github.com/livekit/agents/pull/669."""
        return self.user(kit.BEGINNING) if self.is_reply(first) else None

    def calls(self, message: Message) -> list[ToolCall]:
        blocks = [as_object(each) for each in as_list(message.get("content"))] if self.is_reply(message) else []
        used = [block for block in blocks if block.get("type") == "tool_use"]
        return [kit.make_call(block.get("id"), block.get("name"), block.get("input")) for block in used]

    def deferred_tools(self, tools: Sequence[Tool], deferred: Sequence[Tool]) -> list[ProviderJson]:
        """Deferred tools have `defer_loading`:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool."""
        return [*self.tools(tools), *({**tool, "defer_loading": True} for tool in self.tools(deferred))]

    def with_deferred(
        self, messages: Sequence[Message], deferred: Mapping[str, Tool], deferral: Deferral | None
    ) -> list[Message]:
        """The API refuses a reference to a tool that the request does not declare, and an addition that is neither
        right before a reply nor at the end (https://github.com/earendil-works/pi/pull/9548): additions are moved there,
        together."""
        addable = ("", *deferred) if deferral == "additions" else ("",)
        whole: list[Message] = []
        waiting: list[Any] = []
        for message in messages:
            if _additions(message):
                waiting += [block for block in message["content"] if _added(block) in addable]
                continue
            if waiting and self.is_reply(message):
                whole.append({"role": "system", "content": waiting})
                waiting = []
            whole.append(_with_references(message, deferred))
        return [*whole, {"role": "system", "content": waiting}] if waiting else whole

    def references(self, messages: Sequence[Message]) -> list[str]:
        names: dict[str, None] = {}
        for message in messages:
            for block in map(as_object, as_list(message.get("content"))):
                parts = [block, *map(as_object, as_list(block.get("content")))]
                names.update(dict.fromkeys(name for part in parts if (name := _added(part) or _referenced(part))))
        return [*names]

    def addition(self, names: Sequence[str]) -> Message:
        """A message of the system in the middle of the conversation:
        https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages."""
        tools = [{"type": "tool_reference", "name": name} for name in names]
        return {"role": "system", "content": [{"type": "tool_addition", "tool": tool} for tool in tools]}

    def with_arguments(self, message: Message, index: int, arguments: Mapping[str, str]) -> Message:
        def changed(block: Any, texts: Mapping[str, str]) -> Any | None:
            if as_object(block).get("type") != "tool_use":
                return None
            return {**block, "input": kit.with_arguments(block.get("input"), texts)} if texts else block

        content = kit.named(as_list(message.get("content")), kit.for_call(index, arguments), changed)
        return {**message, "content": content}

    def results(self, message: Message) -> list[FoundResult]:
        blocks = [as_object(message["content"][place]) for place in _places(message)]
        return [
            provider.found(
                block.get("tool_use_id"),
                block.get("content"),
                _why_not(block.get("content")),
                index=index,
                is_error=block.get("is_error") is True,
            )
            for index, block in enumerate(blocks)
        ]

    def replace(self, message: Message, index: int, text: str) -> Message:
        """A copy of the message in which result number `index` reads `text`. Blank text leaves a list empty, since a
        blank block is refused; an error keeps a few words, since one without text is refused.
        """
        place = provider.place_of(_places(message), index)
        blocks = list(message["content"])
        block = as_object(blocks[place])
        text = _sendable(text, is_error=block.get("is_error") is True)
        content = block.get("content")
        blocks[place] = {**block, "content": self._shortened(content, text) if text or not is_list(content) else []}
        return {**message, "content": blocks}

    def result_messages(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        blocks = [_result_block(call, result) for call, result in answered]
        return [{"role": "user", "content": blocks}] if blocks else []

    def add_context(self, messages: Sequence[Message], text: str) -> list[Message]:
        extended = list(messages)
        if not text.strip():
            return extended
        newest = next((at for at in range(len(extended) - 1, -1, -1) if extended[at].get("role") == "user"), None)
        if newest is None:
            # The first message that is not the system's must be the user's.
            start = next((at for at, message in enumerate(extended) if message.get("role") != "system"), len(extended))
            return [*extended[:start], self.user(text), *extended[start:]]
        content = extended[newest].get("content")
        before = as_list(content)
        if isinstance(content, str) and content.strip():
            before = [{"type": "text", "text": content}]
        extended[newest] = {**extended[newest], "content": [*before, {"type": "text", "text": kit.clean_text(text)}]}
        return extended

    def reply(self, text: str, calls: Sequence[ToolCall] = ()) -> Message:
        """A message of the model. Arguments that are no JSON object stand under `INVALID_JSON`, as the API's
        documentation advises.
        """
        blocks: list[dict[str, Any]] = [{"type": "text", "text": kit.clean_text(text)}] if text.strip() else []
        used = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": kit.input_of(call.arguments)}
            for call in calls
        ]
        return {"role": "assistant", "content": [*blocks, *used]}

    def text(self, message: Message) -> str:
        return prose(message.get("content"))

    def tools(self, tools: Sequence[Tool]) -> list[ProviderJson]:
        return [kit.definition_of(tool, "input_schema") for tool in tools]


def _added(block: object) -> str:
    """The tool that a block adds; empty for any other block."""
    tool = as_object(as_object(block).get("tool")) if as_object(block).get("type") == "tool_addition" else {}
    return str(tool.get("name") or "")


def _additions(message: Message) -> bool:
    return message.get("role") == "system" and any(map(_added, as_list(message.get("content"))))


def _referenced(block: object) -> str:
    """The tool that a part of a result refers to; empty for any other part."""
    part = as_object(block)
    return str(part.get("tool_name") or "") if part.get("type") == "tool_reference" else ""


def _with_references(message: Message, deferred: Mapping[str, Tool]) -> Message:
    """The message with references to these tools only; a result without any has the names as text."""
    places = [
        place for place in _places(message) if any(map(_referenced, as_list(message["content"][place].get("content"))))
    ]
    if not places:
        return message
    content = list(message["content"])
    for place in places:
        parts = as_list(content[place]["content"])
        names = [name for part in parts if (name := _referenced(part)) and name not in deferred]
        if names:
            text = f"Found: {', '.join(names)}.{' None of these is hidden any more.' if deferred else ''}"
            shown = [part for part in parts if _referenced(part) not in names]
            content[place] = {**content[place], "content": shown or [{"type": "text", "text": text}]}
    return {**message, "content": content}


def _places(message: Message) -> list[int]:
    """The positions of the results among the blocks of a message."""
    if message.get("role") != "user":
        return []
    blocks = as_list(message.get("content"))
    return [place for place, block in enumerate(blocks) if as_object(block).get("type") == "tool_result"]


def _check_block(role: object, place: str, block: dict[str, Any]) -> str | None:
    if block["type"] == "tool_result":
        if role != "user":
            return f"{place}: a tool_result belongs into a message of role 'user', not '{role}'"
        if not isinstance(block.get("tool_use_id"), str):
            return f"{place}: a tool_result needs a 'tool_use_id': the id of the call that it answers"
        if not isinstance(block.get("content"), (str, list, type(None))):
            return f"{place}.content must be text or a list of blocks, not {kind_in_words(block['content'])}"
    if block["type"] == "tool_use":
        if role != "assistant":
            return f"{place}: a tool_use belongs into a message of role 'assistant', not '{role}'"
        if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
            return f"{place}: a tool_use needs an 'id' and a 'name' of text"
        if not is_object(block.get("input")):
            return f"{place}.input must be an object, not {kind_in_words(block.get('input'))}"
    return None


def _why_not(content: object) -> str | None:
    if content is None or isinstance(content, str):
        return None
    if not is_list(content):
        return f"its content is {kind_in_words(content)}, which is no content of this format"
    for part in as_list(content):
        block = as_object(part)
        block_type = block.get("type")
        if block_type == "tool_reference":
            return "it holds tool references, which keep the tools loaded that later calls use"
        if block_type not in _KNOWN:
            return f"it holds a block of a type that is not known: {block_type!r}"
        if as_object(block.get("citations")).get("enabled") is True:
            return f"it holds a {block_type} that may be cited: citations refer to its position"
    return None


def _mended(value: object, is_reply: bool) -> tuple[Any, str]:
    """A block as the API takes it, None for one that it refuses, and what is wrong with it."""
    block = as_object(value)
    block_type, content = block.get("type"), block.get("content")
    if block_type == "text" and not str(block.get("text")).strip():
        return None, "it has a blank text"
    if block_type == "thinking" and not (is_reply and block.get("signature")):
        return None, "it has thinking without the signature of Anthropic's API"
    if block_type != "tool_result":
        return value, ""
    parts = [part for part in as_list(content) if _mended(part, False)[0] is not None]
    is_whole = len(parts) == len(as_list(content))
    if block.get("is_error") is not True:
        return (value, "") if is_whole else ({**block, "content": parts}, "a result has a blank text")
    must = "a result that is an error must have text"
    if is_list(content) and not (parts and is_whole and all(map(_is_text, parts))):
        text = {"type": "text", "text": _sendable(content_text(parts), is_error=True)}
        return {**block, "content": [text]}, f"{must}, and nothing else"
    if not content or not str(content).strip():
        return {**block, "content": kit.NO_MESSAGE}, must
    return value, ""


def _is_text(part: object) -> bool:
    return as_object(part).get("type") == "text"


def _sendable(text: str, *, is_error: bool) -> str:
    if text.strip():
        return kit.clean_text(text)
    return kit.NO_MESSAGE if is_error else ""


def _result_block(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call.id, "content": _content(result)}
    return {**block, "is_error": True} if result.is_error else block


def _content(result: ToolResult) -> str | list[dict[str, Any]]:
    if result.references and not result.is_error:
        return [{"type": "tool_reference", "tool_name": kit.clean_text(name)} for name in result.references]
    parts = kit.parts_of(result)
    if result.is_error or all(isinstance(part, str) for part in parts):
        text = result.text if result.plain and result.text else kit.joined_text(parts)
        return _sendable(text, is_error=result.is_error)
    blocks = [_media(part) or {"type": "text", "text": kit.as_text(part)} for part in parts]
    return [block for block in blocks if block["type"] != "text" or block["text"].strip()]


def _media(part: str | dict[str, Any]) -> dict[str, Any] | None:
    media = kit.media_of(part, (*provider.IMAGES, provider.PDF))
    if media is None or (media[0] in provider.IMAGES and len(media[1]) > _IMAGE_LIMIT):
        return None
    source = {"type": "base64", "media_type": media[0], "data": media[1]}
    return {"type": "document" if media[0] == provider.PDF else "image", "source": source}
