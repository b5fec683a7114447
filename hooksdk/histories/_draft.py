"""A conversation on its way from one shape into another.

Readers say what happens in it, with content in Anthropic's blocks, which have a place for most that others have; the draft
writes the messages. A result joins its call wherever it came, so that pairs stand together as providers want them.
"""

from __future__ import annotations

import re
from typing import Any

from hooksdk.calls import ToolCall
from hooksdk.formats import Message, get_format
from hooksdk.formats.content import content_text
from hooksdk.formats.kit import NO_MESSAGE, clean_text
from hooksdk.formats.sending import CallIds
from hooksdk.histories._turns import THINKING, Losses, Turn, Use, json_text, media_words, text_block
from hooksdk.histories._writing import Writer
from hooksdk.transcript import NO_RESULT
from hooksdk.values import JsonObject, as_list, as_object, is_list

_NAMES = {
    "anthropic": (re.compile(r"[^a-zA-Z0-9_-]"), 128),
    "openai-chat": (re.compile(r"[^a-zA-Z0-9_-]"), 64),
    "openai-responses": (re.compile(r"[^a-zA-Z0-9_-]"), 64),
    "gemini": (re.compile(r"^(?=[^a-zA-Z_])|[^a-zA-Z0-9_.:-]"), 128),
}
"""What the names of tools may not have, and how long the providers let them be."""


class Draft(Losses):
    """What a reader has read so far, and what it left out."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target
        self.beside = ""
        """What the operator said, where that is no message of the target's, once `messages` has been asked for."""
        self._turns: list[Turn] = []
        self._ids = CallIds(get_format(target))
        self._count = 0
        self._replies: dict[str, Turn] = {}

    # What happens

    def system(self, text: str) -> None:
        """The operator speaks."""
        if text.strip():
            self._turns.append(Turn("system", [text_block(text)]))

    def user(self, content: str | list[JsonObject]) -> None:
        """The person speaks."""
        if blocks := self._taken(content, but=("tool_use", *THINKING)):
            self._turns.append(Turn("user", blocks))

    def reply(self, content: str | list[JsonObject], key: str = "") -> None:
        """The model speaks, and calls tools in `tool_use` blocks. Replies of one `key` are one."""
        blocks = self._taken(content)
        turn = self._replies.get(key) if key else None
        if turn is None and blocks:
            turn = self._replies[key] = Turn("reply", [])
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

    def _use(self, block: JsonObject) -> Use:
        call = ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), block.get("input"))
        self._count += 1
        call_id = self._ids.of_call(call.id or f"call_{self._count}")
        name = _name(call.name, self.target)
        if name != call.name:
            self.note(
                f"the tool '{call.name}' is '{name}' here: providers take no other characters, and no longer names"
            )
        if call_id != call.id and call.id:
            self.note("ids of calls are changed where the provider would refuse them")
        renamed = ToolCall(call_id, name, call.arguments)
        plain = as_object(as_list(get_format("anthropic").reply("", [renamed])["content"])[0])
        return Use(call, {**block, **plain})

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
        writer = Writer(self.target, self)
        messages = writer.write(self._turns)
        self.beside = "\n\n".join(writer.beside)
        return messages


def _name(name: str, target: str) -> str:
    others, most = _NAMES[target]
    return others.sub("_", name)[:most] or "unnamed"


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
        return text if text.strip() or not is_error else NO_MESSAGE
    blocks = _sendable([as_object(block) for block in content])
    if is_error and any(block.get("type") != "text" for block in blocks):
        return clean_text(_words(blocks))  # Anthropic's API takes nothing but text of an error
    return blocks if blocks or not is_error else NO_MESSAGE


def _words(blocks: list[JsonObject]) -> str:
    """Blocks as text; images and files are named."""
    media = ("image", "document")
    return content_text([text_block(media_words(each)) if each["type"] in media else each for each in blocks])
