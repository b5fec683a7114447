"""The content of messages and tool results: as words, as blocks, and its size as it is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from hooksdk import schema
from hooksdk.calls import Labels, ToolResult
from hooksdk.formats import FoundResult
from hooksdk.values import JsonObject, as_list, as_object, is_list, is_object

__all__ = [
    "IMAGE_TOKENS",
    "NOTE",
    "PAGE_TOKENS",
    "Size",
    "blocks_of",
    "cache_marks",
    "content_text",
    "describe_part",
    "kind_in_words",
    "prose",
    "result_of",
    "size_of",
]

# Types of parts that are text.
_TEXTS = ("text", "input_text", "output_text")
# Keys of a part at which a cached prefix ends.
_MARKS = ("cache_control", "prompt_cache_breakpoint")
NOTE = re.compile(r"\[(?=(Result|Argument) \S+ of \S+ was trimmed)")
"""The beginning of the host's note in the place of a trimmed result or argument."""
IMAGE_TOKENS = 1_600
"""The estimate for an image: about the value in Anthropic's documentation for 1.15 megapixels, to which larger images
are scaled down. The true cost depends on the pixels, which are not read here."""
PAGE_TOKENS = 3_000
"""The estimate for a document that is no text: one page at the upper end of the 1,500 to 3,000 tokens in Anthropic's
documentation for a page of PDF. Pages are not counted here."""


class Size(NamedTuple):
    """The size of content.

    Attributes:
        characters: Characters as they are sent: of an image those of its data.
        tokens: Tokens, estimated.
    """

    characters: int
    tokens: int


def size_of(content: object) -> Size:
    """The size of a result's content: of text and of the text in documents by its length, of images and other files by
    a flat estimate, of any other part by its JSON."""
    if content is None:
        return Size(0, 0)
    if isinstance(content, str):
        return Size(len(content), schema.estimate_tokens(content))
    sizes = [_part_size(part) for part in as_list(content)] if is_list(content) else [_part_size(content)]
    return Size(sum(size.characters for size in sizes), sum(size.tokens for size in sizes))


def _part_size(part: object) -> Size:
    block = as_object(part)
    if isinstance(part, str) or isinstance(block.get("text"), str):
        return size_of(part if isinstance(part, str) else block["text"])
    block_type = block.get("type")
    if block_type in {"image", "image_url", "input_image", "input_audio"}:
        return Size(_json_length(block), IMAGE_TOKENS)
    if (inner := _inner_text(block)) is not None:
        return Size(_json_length(block), schema.estimate_tokens(inner))
    if block_type in {"document", "file", "input_file"}:
        return Size(_json_length(block), PAGE_TOKENS)
    return Size(_json_length(block or part), (_json_length(block or part) + 3) // 4)


def _json_length(value: object) -> int:
    return len(schema.canonical(value))


def _inner_text(block: JsonObject) -> str | None:
    """The text in a document or a search result; None for other content."""
    source = block.get("source") if block.get("type") == "document" else block
    inner = as_object(source)
    data = inner.get("data") if inner.get("type") == "text" else inner.get("content")
    if isinstance(data, str):
        return data
    texts = [as_object(each).get("text") for each in as_list(data)]
    return "\n".join(map(str, texts)) if texts and all(isinstance(each, str) for each in texts) else None


def result_of(body: FoundResult, *, labels: Labels | None = None, handle: str = "") -> ToolResult:
    """A stored result as a tool would give it: its text, with images and files as blocks."""
    blocks = [] if isinstance(body.content, str) else blocks_of(body.content)
    return ToolResult(body.text, blocks=blocks, labels=labels, handle=handle)


def blocks_of(content: object) -> list[JsonObject]:
    """A result's content as blocks of MCP, with whole images, files and texts of documents. A part for which MCP has no
    block becomes its JSON."""
    parts: list[Any] = as_list(content) if is_list(content) else [] if content is None else [content]
    return [_block_of(part) for part in parts]


def _block_of(part: object) -> JsonObject:
    block = as_object(part)
    text = part if isinstance(part, str) else block.get("text")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    media, data = _data_of(block)
    if data and block.get("type") in {"image", "image_url", "input_image"}:
        return {"type": "image", "mimeType": media, "data": data}
    title = str(block.get("title") or block.get("type"))
    if (inner := _inner_text(block)) is not None:
        source = block.get("source")
        return {"type": "resource", "resource": {"uri": source if isinstance(source, str) else title, "text": inner}}
    if data:
        return {"type": "resource", "resource": {"uri": title, "mimeType": media, "blob": data}}
    return {"type": "text", "text": schema.canonical(part)}


def _data_of(block: JsonObject) -> tuple[str, str]:
    """Media type and base64 data of a part; empty texts if it has none."""
    source = as_object(block.get("source"))
    if source.get("type") == "base64":
        return str(source.get("media_type", "")), str(source.get("data", ""))
    image, file = as_object(block.get("image_url")), as_object(block.get("file"))
    # OpenAI's Responses have the address or the data in the part itself.
    url = image.get("url") or file.get("file_data") or block.get("image_url") or block.get("file_data")
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.removeprefix("data:").partition(",")
        return head.partition(";")[0], data if head.endswith(";base64") else ""
    return "", ""


def kind_in_words(value: object) -> str:
    """The JSON type of a value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an object" if is_object(value) else "a list" if is_list(value) else type(value).__name__


def describe_part(part: object) -> str:
    """A name for a part that is not text: `[image image/png, 12,345 characters]`."""
    block = as_object(part)
    if not block:
        return f"[{kind_in_words(part)} where a part was expected]"
    name = block.get("type")
    inner = as_object(block.get("resource")) or as_object(block.get("source")) or as_object(block.get("input_audio"))
    url = _first_text(as_object(block.get("image_url")), block, keys=("url", "image_url", "file_data"))
    is_data = url.startswith("data:")
    title = _first_text(block, inner, keys=("uri", "title", "tool_name", "filename"))
    if not title and not is_data:
        title = url
    media = _first_text(block, inner, keys=("mimeType", "media_type", "format"))
    if is_data and not media:
        media = url[5:].split(";", 1)[0].split(",", 1)[0]
    size = len(_first_text(block, inner, keys=("data", "blob"))) or (len(url) if is_data else 0)
    size = size or sum(len(_text_of(each)) for each in as_list(block.get("content")))
    words = " ".join(word for word in (name if isinstance(name, str) else "part", title, media) if word)
    return f"[{words}, {size:,} characters]" if size else f"[{words}]"


def _first_text(*blocks: JsonObject, keys: Iterable[str]) -> str:
    values = (block.get(key) for key in keys for block in blocks)
    return next((value for value in values if isinstance(value, str) and value), "")


def content_text(content: object) -> str:
    """The text that a model reads of a result's content: each part on a line, parts that are not text by name."""
    if isinstance(content, str):
        return content
    if is_list(content):
        return "\n".join(_text_of(part) if _is_text(part) else describe_part(part) for part in content)
    return "" if content is None else describe_part(content)


def prose(content: object) -> str:
    """The text of a message's content, without other parts."""
    if isinstance(content, str):
        return content
    return "\n".join(text for part in as_list(content) if _is_text(part) and (text := _text_of(part)))


def _is_text(part: object) -> bool:
    return isinstance(part, str) or as_object(part).get("type") in _TEXTS


def _text_of(part: object) -> str:
    text = part if isinstance(part, str) else as_object(part).get("text")
    return text if isinstance(text, str) else ""


def cache_marks(content: object) -> JsonObject:
    """The cache mark in a list of content, for the one part that replaces the list."""
    return {key: part[key] for part in map(as_object, as_list(content)) for key in _MARKS if key in part}
