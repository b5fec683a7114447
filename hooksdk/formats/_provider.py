"""What the formats of hooksdk have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from hooksdk.calls import ToolCall
from hooksdk.formats import FoundResult, Message, MessageFormat, kit
from hooksdk.formats.content import cache_marks, content_text, kind_in_words
from hooksdk.values import as_list, as_object, is_list, is_object

IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
PDF = "application/pdf"
# Types of parts and items with the model's thinking.
THINKING = ("thinking", "redacted_thinking", "reasoning")


class ProviderFormat(MessageFormat):
    """A format in which a reply has the role `assistant` and is one message, and any message may come first."""

    grouped: bool = False
    joined: bool = False
    wants_unique_ids: bool = False
    # The roles that a message may have.
    _roles: ClassVar[tuple[str, ...]]
    # The type of a part of a user's message that is text.
    _text_type: ClassVar[str] = "text"

    def is_reply(self, message: Message) -> bool:
        return message.get("role") == "assistant"

    def opening(self, first: Message) -> Message | None:
        """The message that the provider wants before this first one: none."""
        del first

    def user(self, text: str) -> Message:
        return {"role": "user", "content": kit.clean_text(text)}

    def reply_messages(self, text: str, calls: Sequence[ToolCall] = ()) -> list[Message]:
        return [self.reply(text, calls)]

    def add_context(self, messages: Sequence[Message], text: str) -> list[Message]:
        return kit.with_context(self, messages, text, self._with_text)

    def _with_text(self, message: Message, text: str) -> Message | None:
        """A user's message with this text behind its own; None for any other message."""
        if message.get("role") != "user":
            return None
        content = message.get("content")
        if is_list(content):
            return {**message, "content": [*as_list(content), {"type": self._text_type, "text": text}]}
        return {**message, "content": f"{content}\n\n{text}" if isinstance(content, str) and content else text}

    def _shortened(self, content: object, text: str) -> Any:
        """What stands in the place of a result's content: text for text, a list of one part for a list."""
        text = kit.clean_text(text)
        return [{"type": self._text_type, "text": text, **cache_marks(content)}] if is_list(content) else text

    def _wrong_role(self, role: object, more: str = "") -> str | None:
        """Why a message may not have this role, or None. `more` names what a message may have instead of a role."""
        if role in self._roles:
            return None
        what = f"'{role}'" if isinstance(role, str) else "missing" if role is None else kind_in_words(role)
        return f"a message needs a 'role' of {', '.join(self._roles)}{more}; it is {what}"


def found(
    call_id: object,
    content: object,
    why_not: str | None,
    *,
    index: int = 0,
    is_error: bool | None = None,
    name: object = "",
) -> FoundResult:
    """A result in a message. Where the format has no flag for an error, its text tells."""
    text = content_text(content)
    return FoundResult(
        call_id=call_id if isinstance(call_id, str) else "",
        index=index,
        text=text,
        content=content,
        is_error=kit.SAYS_ERROR.match(text) is not None if is_error is None else is_error,
        why_not=why_not,
        name=name if isinstance(name, str) else "",
    )


def place_of(places: Sequence[int], index: int) -> int:
    """Where result number `index` of a message stands. Raises `IndexError`."""
    if not 0 <= index < len(places):
        raise IndexError(f"this message has {len(places)} results, none with number {index}")
    return places[index]


def wrong_parts(
    content: object, text_types: Sequence[str], foreign: Mapping[str, str], *, key: str = "content", noun: str = "parts"
) -> str | None:
    """Why this is no content of a message, or None. `foreign` are types of parts with the format that they are of."""
    if isinstance(content, str):
        return None
    if not is_list(content):
        return f"'{key}' must be text or a list of {noun}, not {kind_in_words(content)}"
    for number, part in enumerate(as_list(content)):
        kind, place = as_object(part).get("type"), f"{key}[{number}]"
        if not isinstance(kind, str):
            return f"{place} must be an object with a 'type', like {{'type': '{text_types[0]}', 'text': ...}}"
        if kind in foreign:
            return f"{place} is of type '{kind}': this is a message of the format '{foreign[kind]}'"
        if kind in text_types and not isinstance(part.get("text"), str):
            return f"{place}.text must be text, not {kind_in_words(part.get('text'))}"
    return None


def why_untrimmable(content: object, known: Collection[str], *, key: str = "content") -> str | None:
    """Why a trim may not replace this content of a result, or None. `known` are the types of parts that it may
    replace."""
    if content is None or isinstance(content, str):
        return None
    if not is_list(content):
        return f"its {key} is {kind_in_words(content)}, which is no {key} of this format"
    types = (as_object(part).get("type") for part in as_list(content))
    return next((f"it holds a part of a type that is not known: {each!r}" for each in types if each not in known), None)


def written(arguments: object) -> str:
    """The arguments of a call as JSON text."""
    if isinstance(arguments, str):
        return kit.clean_text(arguments)
    return kit.to_json({} if arguments is None else arguments)


def refusal_in(message: Message) -> str:
    """The first text of a refusal in a reply of OpenAI's; empty without one."""
    parts = [message, *map(as_object, as_list(message.get("content")))]
    refusals = (part.get("refusal") for part in parts)
    return next((each for each in refusals if isinstance(each, str)), "")


def no_object(message: object, wanted: str = "a 'role'") -> str:
    """Why a value that is no object is no message."""
    return "" if is_object(message) else f"a message must be an object with {wanted}, not {kind_in_words(message)}"
