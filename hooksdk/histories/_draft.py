"""A conversation on its way from one format into another.

Readers say what happens in it, with content in Anthropic's blocks, which have a place for most of what other formats
have. A result joins its call wherever it came, so that pairs stand together as providers want them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hooksdk.calls import ToolCall
from hooksdk.formats import get_format
from hooksdk.formats.content import content_text
from hooksdk.formats.kit import NO_MESSAGE, clean_text
from hooksdk.formats.sending import CallIds
from hooksdk.transcript import NO_RESULT
from hooksdk.values import JsonObject, as_list, as_object, compact, is_list

THINKING = ("thinking", "redacted_thinking")
MEDIA = ("image", "document")
# Google's own word for the signature of a call that another model made: Gemini 3 refuses a call without one in a turn
# that goes on. https://ai.google.dev/gemini-api/docs/thought-signatures
UNSIGNED = "skip_thought_signature_validator"
_OTHERS = re.compile(r"[^a-zA-Z0-9_-]")
# Characters that the providers refuse in the name of a tool, and how long it may be.
_NAMES = {
    "anthropic": (_OTHERS, 128),
    "openai-chat": (_OTHERS, 64),
    "openai-responses": (_OTHERS, 64),
    "gemini": (re.compile(r"^(?=[^a-zA-Z_])|[^a-zA-Z0-9_.:-]"), 128),
}


@dataclass
class Use:
    """A call, and its result once it is there."""

    call: ToolCall
    block: JsonObject
    answer: JsonObject | None = None


@dataclass
class Turn:
    """What the operator, a user or the model says at a time."""

    role: str
    blocks: list[JsonObject]
    uses: list[Use] = field(default_factory=list[Use])


class Draft:
    """What a reader has read so far, and what it left out."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.turns: list[Turn] = []
        self._ids = CallIds(get_format(target))
        self._count = 0
        self._replies: dict[str, Turn] = {}
        self._lost: Counter[str] = Counter()
        self._notes: list[str] = []

    @property
    def notes(self) -> list[str]:
        """All that a person should know, and what was left out."""
        return [*self._notes, *(f"left out: {what} ({count})" for what, count in self._lost.items())]

    def lose(self, what: str, count: int = 1) -> None:
        """Count something that has no place in the messages."""
        if count:
            self._lost[what] += count

    def note(self, text: str) -> None:
        """Tell something, once."""
        if text not in self._notes:
            self._notes.append(text)

    def system(self, text: str) -> None:
        """The operator speaks."""
        if text.strip():
            self.turns.append(Turn("system", [text_block(text)]))

    def user(self, content: str | list[JsonObject]) -> None:
        """The person speaks."""
        if blocks := self._taken(content, but=("tool_use", *THINKING)):
            self.turns.append(Turn("user", blocks))

    def reply(self, content: str | list[JsonObject], key: str = "") -> None:
        """The model speaks, and calls tools in `tool_use` blocks. Replies of one `key` are one."""
        blocks = self._taken(content)
        turn = self._replies.get(key) if key else None
        if turn is None and blocks:
            turn = self._replies[key] = Turn("reply", [])
            self.turns.append(turn)
        for block in blocks:
            assert turn is not None
            if block.get("type") == "tool_use":
                turn.uses.append(self._use(block))
                block = turn.uses[-1].block  # noqa: PLW2901 - with the id and the name that the target takes
            turn.blocks.append(block)

    def result(self, call_id: str, content: object, *, is_error: bool = False, name: str = "", place: str = "") -> None:
        """A tool answers the newest open call with this id, or with this name where the source has no ids."""
        uses = (use for turn in reversed(self.turns) for use in turn.uses if use.answer is None)
        use = next((use for use in uses if (use.call.id == call_id if call_id else use.call.name == name)), None)
        if use is None:
            self.lose(f"a result that answers no open call: '{call_id or name}'{f' at {place}' if place else ''}")
            return
        use.answer = {"content": _answer_content(content, is_error=is_error)} | ({"is_error": True} if is_error else {})

    def answer_open(self) -> None:
        """Give an error to each call without a result, but for the last reply's if none of its calls has one."""
        for turn in self.turns:
            missing = [use for use in turn.uses if use.answer is None]
            if turn is self.turns[-1] and len(missing) == len(turn.uses):
                continue
            for use in missing:
                use.answer = {"content": NO_RESULT, "is_error": True}
                about = f"call '{use.call.id}' of {use.call.name}"
                self._notes.append(f"put in: an error result for {about}, which had none")

    def _taken(self, content: str | list[JsonObject], but: tuple[str, ...] = ()) -> list[JsonObject]:
        """The blocks that an API takes, without the types `but`."""
        others = [] if isinstance(content, str) else [block for block in content if block.get("type") != "text"]
        taken = [block for block in _sendable(content) if block["type"] not in but]
        refused = len(others) - sum(block["type"] != "text" for block in taken)
        self.lose("blocks that an API would refuse there", refused)
        return taken

    def _use(self, block: JsonObject) -> Use:
        call = ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), block.get("input"))
        self._count += 1
        call_id = self._ids.of_call(call.id or f"call_{self._count}")
        others, most = _NAMES[self.target]
        name = others.sub("_", call.name)[:most] or "unnamed"
        if name != call.name:
            rule = "providers take no other characters, and no longer names"
            self.note(f"the tool '{call.name}' is '{name}' here: {rule}")
        if call_id != call.id and call.id:
            self.note("ids of calls are changed where the provider would refuse them")
        renamed = ToolCall(call_id, name, call.arguments)
        plain = as_object(as_list(get_format("anthropic").reply("", [renamed])["content"])[0])
        return Use(call, {**block, **plain})


def text_block(text: str) -> JsonObject:
    """Text as a block."""
    return {"type": "text", "text": clean_text(text)}


def call_block(call_id: object, name: object, arguments: object) -> JsonObject:
    """A call as a block; arguments may be JSON text."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments}


def media_block(media_type: str, data: str = "", url: str = "", title: str = "") -> JsonObject:
    """An image or a file as a block, by its base64 data (which Python libraries may write safe for URLs) or its
    address."""
    if url.startswith("data:") and ";base64," in url:
        head, _, data = url.removeprefix("data:").partition(";base64,")
        return media_block(head, data, title=title)
    plain = data.replace("-", "+").replace("_", "/")
    source = {"type": "base64", "data": plain} if data else {"type": "url", "url": url}
    kind = "image" if media_type.startswith("image/") else "document"
    return {"type": kind, "source": {**source, "media_type": media_type}, **({"title": title} if title else {})}


def media_words(block: JsonObject) -> str:
    """An image or a file in words, for a model that cannot be shown it."""
    source = as_object(block.get("source"))
    data, url = str(source.get("data") or ""), str(source.get("url") or "")
    kind = "image" if block.get("type") == "image" else ""
    words = " ".join(word for word in (kind, str(source.get("media_type") or "file"), url) if word)
    return f"[{words}, {len(data):,} characters]" if data else f"[{words}]"


def json_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else compact(value)


def openai_block(part: JsonObject) -> JsonObject | None:
    """A part of a message of OpenAI's APIs as a block: text, a refusal, an image, a file or sound. None for any other
    part, such as a file that OpenAI keeps under an id."""
    image, file, audio = part.get("image_url"), as_object(part.get("file")) or part, as_object(part.get("input_audio"))
    text = part.get("refusal") if part.get("type") == "refusal" else part.get("text")
    picture = as_object(image).get("url") or image
    address = file.get("file_data") or file.get("file_url")
    if isinstance(text, str):
        return text_block(text)
    if isinstance(picture, str) and picture:
        return media_block("image/png", url=picture)
    if isinstance(address, str) and address:
        return media_block("application/pdf", url=address, title=str(file.get("filename") or ""))
    return media_block(f"audio/{audio.get('format')}", str(audio["data"])) if audio.get("data") else None


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
    if is_error and any(
        block.get("type") != "text" for block in blocks
    ):  # of an error Anthropic's API takes text alone
        named = [text_block(media_words(each)) if each["type"] in MEDIA else each for each in blocks]
        return clean_text(content_text(named))
    return blocks if blocks or not is_error else NO_MESSAGE
