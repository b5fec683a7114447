"""A conversation on its way from one shape into another.

Readers say what happens in it, with content in Anthropic's blocks, which have a place for most that others have; the draft
writes the messages. A result joins its call wherever it came, so that pairs stand together as providers want them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message, MessageFormat, get_format
from hooksdk.formats.content import content_text, describe_part
from hooksdk.formats.kit import clean_text
from hooksdk.transcript import NO_RESULT
from hooksdk.values import JsonObject, as_list, as_object, compact, is_list

_OTHERS_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_CHARS = {"anthropic": 128, "openai-chat": 64}
"""How long the providers let the name of a tool be."""
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""What both providers take; any other is named in a text."""
_THINKING = ("thinking", "redacted_thinking")
BEGINNING = "(The conversation begins with the model's words.)"
"""Stands where a history for Anthropic begins with a reply, which its API refuses."""


@dataclass
class _Use:
    """A call, and its result once it is there."""

    call: ToolCall
    block: JsonObject
    answer: JsonObject | None = None


@dataclass
class _Turn:
    role: str
    blocks: list[JsonObject]
    uses: list[_Use] = field(default_factory=list[_Use])


class Draft:
    """What a reader has read so far, and what it left out."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._form: MessageFormat = get_format(target)
        self._turns: list[_Turn] = []
        self._losses: Counter[str] = Counter()
        self._notes: list[str] = []
        self._ids: set[str] = set()
        self._repeats: Counter[str] = Counter()
        self._replies: dict[str, _Turn] = {}

    @property
    def notes(self) -> list[str]:
        """What a person should know, and what was left out."""
        return [*self._notes, *(f"left out: {what} ({count})" for what, count in self._losses.items())]

    def lose(self, what: str, count: int = 1) -> None:
        """Count something that has no place in the messages."""
        if count:
            self._losses[what] += count

    def note(self, text: str) -> None:
        """Say something, once."""
        if text not in self._notes:
            self._notes.append(text)

    # What happens

    def system(self, text: str) -> None:
        """The operator speaks."""
        if text.strip():
            self._turns.append(_Turn("system", [text_block(text)]))

    def user(self, content: str | list[JsonObject]) -> None:
        """The person speaks."""
        if blocks := self._taken(content, but=("tool_use", *_THINKING)):
            self._turns.append(_Turn("user", blocks))

    def reply(self, content: str | list[JsonObject], key: str = "") -> None:
        """The model speaks, and calls tools in `tool_use` blocks. Replies of one `key` are one."""
        blocks = self._taken(content)
        turn = self._replies.get(key) if key else None
        if turn is None and blocks:
            turn = self._replies[key] = _Turn("reply", [])
            self._turns.append(turn)
        for block in blocks:
            assert turn is not None
            if block.get("type") == "tool_use":
                use = self._use(block)
                turn.uses.append(use)
                turn.blocks.append(use.block)
            else:
                turn.blocks.append(block)

    def result(self, call_id: str, content: object, *, is_error: bool = False, name: str = "", place: str = "") -> None:
        """A tool answers the newest open call with this id, or with this name where the source has no ids."""
        uses = (use for turn in reversed(self._turns) for use in turn.uses if use.answer is None)
        use = next((use for use in uses if (use.call.id == call_id if call_id else use.call.name == name)), None)
        if use is None:
            self.lose(f"a result that answers no open call: '{call_id or name}'{f' at {place}' if place else ''}")
            return
        use.answer = {
            "content": _answer_content(content, is_error=is_error),
            **({"is_error": True} if is_error else {}),
        }

    def _taken(self, content: str | list[JsonObject], but: tuple[str, ...] = ()) -> list[JsonObject]:
        blocks = _sendable(content)
        others = [] if isinstance(content, str) else [block for block in content if block.get("type") != "text"]
        taken = [block for block in blocks if block["type"] not in but]
        self.lose(
            "blocks that an API would refuse there", len(others) - sum(block["type"] != "text" for block in taken)
        )
        return taken

    def _use(self, block: JsonObject) -> _Use:
        call = ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), block.get("input"))
        wanted = call.id or f"call_{len(self._ids) + 1}"
        call_id = clean_text(wanted)
        name = _OTHERS_IN_IDS.sub("_", call.name)[: _NAME_CHARS[self.target]] or "unnamed"
        if name != call.name:
            self.note(
                f"the tool '{call.name}' is '{name}' here: providers take no other characters, and no longer names"
            )
        if self.target == "anthropic":
            call_id = stem = _OTHERS_IN_IDS.sub("_", wanted)
            while call_id in self._ids:
                self._repeats[stem] += 1
                call_id = f"{stem}-{self._repeats[stem] + 1}"
        self._ids.add(call_id)
        if call_id != call.id and call.id:
            self.note("ids of calls are changed where the provider would refuse them")
        renamed = ToolCall(call_id, name, block.get("input"))
        plain = as_object(as_list(get_format("anthropic").reply("", [renamed])["content"])[0])
        return _Use(call, {**block, **plain})

    # What becomes of it

    def messages(self) -> list[Message]:
        """The messages in the target's shape. The calls of a last reply may be open; any other without a result gets an error."""
        for turn in self._turns:
            missing = [use for use in turn.uses if use.answer is None]
            if turn is self._turns[-1] and len(missing) == len(turn.uses):
                continue
            for use in missing:
                use.answer = {"content": NO_RESULT, "is_error": True}
                self._notes.append(
                    f"put in: an error result for call '{use.call.id}' of {use.call.name}, which had none"
                )
        return self._for_anthropic() if self.target == "anthropic" else self._for_openai()

    def _for_anthropic(self) -> list[Message]:
        messages: list[Message] = []
        for turn in self._turns:
            began = any(message["role"] != "system" for message in messages)
            if turn.role == "reply":
                if all(block.get("type") in _THINKING for block in turn.blocks):
                    self.lose("a reply of thinking alone")
                    continue
                if not began:
                    messages.append({"role": "user", "content": BEGINNING})
                    self.note("a user's message is put before the first reply: Anthropic's API wants one")
                messages.append({"role": "assistant", "content": turn.blocks})
            elif turn.role == "system" and began:
                self.note("a system message in the middle is the user's here")
                messages.append({"role": "user", "content": turn.blocks})
            else:
                messages.append({"role": turn.role, "content": _plain(turn.blocks)})
            answers = [
                {"type": "tool_result", "tool_use_id": use.block["id"], **use.answer} for use in turn.uses if use.answer
            ]
            if answers:
                messages.append({"role": "user", "content": answers})
        return messages

    def _for_openai(self) -> list[Message]:
        messages: list[Message] = []
        for turn in self._turns:
            if turn.role == "reply":
                texts = [str(block.get("text", "")) for block in turn.blocks if block.get("type") == "text"]
                for block in turn.blocks:
                    if block.get("type") not in ("text", "tool_use"):
                        self.lose(f"{block.get('type')} of a reply")
                calls = [ToolCall(use.block["id"], use.block["name"], use.call.arguments) for use in turn.uses]
                if texts or calls:
                    messages.append(self._form.reply("\n".join(texts), calls))
                for call, use in zip(calls, turn.uses, strict=True):
                    if use.answer:
                        messages += self._form.result_messages([(call, self._result(use.answer))])
            else:
                messages.append({"role": turn.role, "content": _plain([self._part(block) for block in turn.blocks])})
        return messages

    def _result(self, answer: JsonObject) -> ToolResult:
        content = answer["content"]
        self.lose(
            "an image or file of a result, named in its text",
            sum(as_object(block).get("type") != "text" for block in as_list(content)),
        )
        return ToolResult(content_text(content), is_error="is_error" in answer)

    def _part(self, block: JsonObject) -> JsonObject:
        """A block of a user's message as a part of a message for OpenAI."""
        source = as_object(block.get("source"))
        data = f"data:{source.get('media_type')};base64,{source.get('data')}" if source.get("type") == "base64" else ""
        if block.get("type") == "text":
            return text_block(str(block.get("text", "")))
        if block.get("type") == "image" and (data or source.get("url")):
            return {"type": "image_url", "image_url": {"url": data or source["url"]}}
        if block.get("type") == "document" and data:
            return {"type": "file", "file": {"filename": str(block.get("title") or "document.pdf"), "file_data": data}}
        if block.get("type") == "document" and isinstance(source.get("data"), str):
            return text_block(source["data"])
        self.lose(f"{block.get('type')} of a user's message, named in its text")
        return text_block(describe_part(block))


def text_block(text: str) -> JsonObject:
    """Text as a block."""
    return {"type": "text", "text": clean_text(text)}


def call_block(call_id: object, name: object, arguments: object) -> JsonObject:
    """A call as a block; arguments may be JSON text."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments}


def media_block(media_type: str, data: str = "", url: str = "") -> JsonObject:
    """An image or a file as a block, by its base64 data or its address."""
    source = {"type": "base64", "media_type": media_type, "data": data} if data else {"type": "url", "url": url}
    if url.startswith("data:") and ";base64," in url:
        head, _, data = url.removeprefix("data:").partition(";base64,")
        return media_block(head, data)
    if media_type in _IMAGES:
        return {"type": "image", "source": source}
    if media_type == "application/pdf":
        return {"type": "document", "source": source}
    return text_block(f"[{media_type or 'file'} {url}".strip() + (f", {len(data):,} characters]" if data else "]"))


def json_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else compact(value)


def _sendable(content: str | list[JsonObject]) -> list[JsonObject]:
    """The blocks that an API takes: no blank text, and no thinking without the signature that proves it."""
    blocks = [text_block(content)] if isinstance(content, str) else content
    return [block for block in blocks if _is_sendable(block)]


def _is_sendable(block: JsonObject) -> bool:
    if block.get("type") == "text":
        return isinstance(block.get("text"), str) and bool(block["text"].strip())
    if block.get("type") == "thinking":
        return isinstance(block.get("signature"), str) and isinstance(block.get("thinking"), str)
    return isinstance(block.get("type"), str) and bool(block["type"])


def _answer_content(content: object, *, is_error: bool) -> Any:
    if not is_list(content):
        text = clean_text(json_text(content))
        return text if text.strip() or not is_error else "The tool failed without a message."
    blocks = _sendable([as_object(block) for block in content])
    if is_error and any(block.get("type") != "text" for block in blocks):
        return clean_text(content_text(blocks))  # Anthropic's API takes nothing but text of an error
    return blocks if blocks or not is_error else "The tool failed without a message."


def _plain(blocks: list[JsonObject]) -> Any:
    """One text as text, anything else as the list."""
    return blocks[0]["text"] if len(blocks) == 1 and set(blocks[0]) == {"type", "text"} else blocks
