"""The marks of Anthropic's prompt cache, by which a request asks the provider to keep all that stands before a mark.

The cache holds the beginning of a prompt only if a request has marked its end, and a later request finds it only from a
mark of its own, at most 20 blocks further on: https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from hooksdk import schema
from hooksdk.errors import refuse
from hooksdk.formats.content import NOTE, content_text, size_of
from hooksdk.values import as_list, as_object, is_list, is_object

__all__ = ["LONG_TOKENS", "LOOK_BACK", "MOST_MARKS", "CacheBlock", "CacheMarks", "choose_marks", "request_blocks"]

MOST_MARKS = 4
"""The most marks of a request."""
LOOK_BACK = 20
"""How many blocks the cache searches from a mark backwards, with the marked one."""
LONG_TOKENS = 130
"""The least size of a result that may be trimmed: a trim saves at least 100 tokens, and leaves a note of about 30."""
REMEMBERED = 10_000
"""How many marked ends are remembered, at about 100 bytes each: the client of a server lives for months."""

Section = Literal["tools", "system", "messages"]


@dataclass(slots=True, kw_only=True)
class CacheBlock:
    """One block of a request.

    Attributes:
        key: A key of the request up to the end of this block: equal keys for equal beginnings.
        tokens: Tokens, estimated.
        message: The position of its message; -1 outside of messages.
        result: True for the result of a call.
        long: True for a result that may still be trimmed.
        trimmed: True for a trimmed result.
        markable: False for thinking and blank text, which may not have a mark.
        life: How long its mark keeps: `5m` or `1h`; None without a mark.
    """

    key: Hashable
    tokens: int = 0
    section: Section = "messages"
    message: int = -1
    result: bool = False
    long: bool = False
    trimmed: bool = False
    markable: bool = True
    life: str | None = None


@final
class CacheMarks:
    """Puts the marks of Anthropic's prompt cache into requests: at most four each, with those that the request has
    already.

    Without a mark every prompt costs its full price. `choose_marks` chooses the places. `life` is how long the provider
    keeps what is marked: `5m`, or `1h`, which costs twice as much as a token without a cache instead of 1.25 times.

    Use one object for all requests of a conversation; it may serve many conversations.

    ```python
    from hooksdk.formats.prompt_cache import CacheMarks

    request = {"messages": [{"role": "user", "content": "What changed?"}]}
    marked = CacheMarks().place(request)
    assert marked["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert request["messages"] == [{"role": "user", "content": "What changed?"}]
    ```
    """

    def __init__(self, life: Literal["5m", "1h"] = "5m") -> None:
        if life not in ("5m", "1h"):
            refuse("CacheMarks(life=...)", life, "'5m' or '1h'")
        self._life = life
        self._marked: OrderedDict[Hashable, None] = OrderedDict()

    def place(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of the request (`tools`, `system`, `messages`) with marks. A request with a `cache_control` of its
        own, by which the provider places them, gets none."""
        if request.get("cache_control"):
            return dict(request)
        body, values, blocks = _read(request)
        inner = (as_object(part) for value in values for part in as_list(value.get("content")))
        room = MOST_MARKS - sum(bool(part.get("cache_control")) for part in inner)
        for at in choose_marks(blocks, self._marked, room):
            life = blocks[at].life = _life_at(at, blocks, self._life)
            values[at]["cache_control"] = {"type": "ephemeral"} | ({"ttl": "1h"} if life == "1h" else {})
        for block in blocks:
            if block.life:
                self._marked[block.key] = None
                self._marked.move_to_end(block.key)
        while len(self._marked) > REMEMBERED:
            self._marked.popitem(last=False)
        return _unmarked_text_as_it_was(body, request)


def request_blocks(format_name: str, request: Mapping[str, Any]) -> list[CacheBlock]:
    """The blocks that a cache reads of a provider's request, in its order, with their sizes, for `hooksdk.costs`. In
    other formats than `anthropic` each message is one block."""
    if format_name == "anthropic":
        _, values, blocks = _read(request)
    else:
        parts = ("tools", "systemInstruction", "instructions", "messages", "input", "contents")
        given = (request.get(part) for part in parts)
        values = [each for part in given if part for each in (as_list(part) or [part])]
        blocks = list[CacheBlock]()
        for value in values:
            blocks.append(CacheBlock(key=_key(blocks, json.dumps(value, default=str))))
    for block, value in zip(blocks, values, strict=True):
        block.tokens = schema.estimate_tokens(value)
    return blocks


def choose_marks(blocks: Sequence[CacheBlock], marked: Container[Hashable], room: int = MOST_MARKS) -> list[int]:
    """The blocks to mark, the most useful one first. `marked` are the keys that earlier requests have marked.

    These are, in this order: the end of the last message; the end of the last marked beginning, if the cache would not
    find it otherwise; the place before the first long result behind the trimmed ones, where the next trims begin; the
    end of what later requests have, too, since text behind results (`AddContext`) is in this request only; the system
    text, with which the tools are kept; the tools.
    """
    own = [at for at, block in enumerate(blocks) if block.life]
    trimmed = max((at for at, block in enumerate(blocks) if block.trimmed), default=-1)
    result = next((at for at, block in enumerate(blocks) if block.long and at > trimmed), 0)
    wanted = [_markable(blocks, len(blocks) - 1), _markable(blocks, result - 1)]
    known = next((at for at in range(len(blocks) - 1, -1, -1) if blocks[at].key in marked), None)
    if known is not None and not any(0 <= at - known < LOOK_BACK for at in (*own, *wanted) if at is not None):
        wanted.insert(1, known)
    newest = [at for at, block in enumerate(blocks) if block.message == blocks[-1].message and block.message >= 0]
    kept = [at for at in newest if blocks[at].result] or newest[:1]
    wanted.append(_markable(blocks, kept[-1]) if kept else None)
    for section in ("system", "tools"):
        ends = (at for at, block in enumerate(blocks) if block.section == section and block.markable)
        wanted.append(max(ends, default=None))
    places = list(dict.fromkeys(at for at in wanted if at is not None and at not in own))
    return places[: max(room - len(own), 0)]


def _markable(blocks: Sequence[CacheBlock], start: int) -> int | None:
    """The nearest block from `start` backwards that may have a mark."""
    return next((at for at in range(start, -1, -1) if blocks[at].markable), None)


def _life_at(at: int, blocks: Sequence[CacheBlock], life: str) -> str:
    """The life of a mark: a mark of an hour may not follow one of five minutes, so it is that of the next mark."""
    behind = next((block.life for block in blocks[at:] if block.life), None)
    before = next((block.life for block in blocks[at::-1] if block.life), None)
    return behind or ("5m" if before == "5m" else life)


def _read(request: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]], list[CacheBlock]]:
    """The request with copies of all values that may be marked, these copies, and the block of each."""
    values: list[dict[str, Any]] = []
    blocks: list[CacheBlock] = []

    def add(content: Any, section: Section, message: int = -1, role: str = "") -> Any:
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not is_list(listed):
            return content
        copies = [dict(value) if is_object(value) else value for value in listed]
        # Deferred tools are not in the cache, and may have no mark.
        for value in (value for value in copies if is_object(value) and not value.get("defer_loading")):
            values.append(value)
            blocks.append(_block(value, blocks, section, message, role))
        return copies

    body = {**request, "tools": add(request.get("tools"), "tools"), "system": add(request.get("system"), "system")}
    body["messages"] = [
        {**message, "content": add(message.get("content"), "messages", at, str(message.get("role")))}
        for at, message in enumerate(request.get("messages", ()))
    ]
    return body, values, blocks


def _key(before: Sequence[CacheBlock], text: str) -> str:
    """The key of a block with this text after the blocks `before`."""
    return hashlib.blake2b(f"{before[-1].key if before else ''} {text}".encode(), digest_size=16).hexdigest()


def _block(
    value: Mapping[str, Any], before: Sequence[CacheBlock], section: Section, message: int, role: str
) -> CacheBlock:
    mark, kind = as_object(value.get("cache_control")), value.get("type")
    text = json.dumps({key: each for key, each in value.items() if key != "cache_control"}, default=str)
    result, content = kind == "tool_result", value.get("content")
    trimmed = result and NOTE.search(content_text(content)[:200]) is not None
    blank = kind == "text" and not str(value.get("text", "")).strip()
    return CacheBlock(
        key=_key(before, f"{section} {role} {text}"),
        section=section,
        message=message,
        result=result,
        trimmed=trimmed,
        long=result and not trimmed and size_of(content).tokens >= LONG_TOKENS,
        markable=not blank and kind not in ("thinking", "redacted_thinking"),
        life=("1h" if mark.get("ttl") == "1h" else "5m") if mark else None,
    )


def _unmarked_text_as_it_was(body: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    def as_it_was(content: Any, given: Any) -> Any:
        return given if isinstance(given, str) and not content[0].get("cache_control") else content

    body["system"] = as_it_was(body["system"], request.get("system"))
    for message, given in zip(body["messages"], request.get("messages", ()), strict=True):
        message["content"] = as_it_was(message["content"], given.get("content"))
    return {key: value for key, value in body.items() if key in request}
