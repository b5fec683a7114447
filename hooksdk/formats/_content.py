"""The content of a tool result: what it costs as it is sent, and the blocks that bring it back."""

from __future__ import annotations

from typing import Any, NamedTuple

from hooksdk import schema
from hooksdk.calls import ToolResult
from hooksdk.formats._base import FoundResult
from hooksdk.values import JsonObject, as_list, as_object, is_list

IMAGE_TOKENS = 1_600
"""What an image counts as: about what Anthropic's documentation gives for one of 1.15 megapixels, to which larger ones are
scaled down. The true cost depends on its size in pixels, which is not read here."""
PAGE_TOKENS = 3_000
"""What a document that is no text counts as: one page at the upper end of the 1,500 to 3,000 tokens that Anthropic's
documentation gives for one of a PDF file, whose pages are not counted here."""


class Size(NamedTuple):
    """How large content is."""

    characters: int
    """As it is sent: of an image those of its data."""
    tokens: int
    """What it costs, estimated."""


def size_of(content: object) -> Size:
    """What a result's content costs: text by its length, images and files by a flat estimate, what they hold as text by that,
    and any other part by its JSON."""
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
    """The text inside a document or a search result; None where it holds something else."""
    source = block.get("source") if block.get("type") == "document" else block
    inner = as_object(source)
    data = inner.get("data") if inner.get("type") == "text" else inner.get("content")
    if isinstance(data, str):
        return data
    texts = [as_object(each).get("text") for each in as_list(data)]
    return "\n".join(map(str, texts)) if texts and all(isinstance(each, str) for each in texts) else None


def result_of(body: FoundResult) -> ToolResult:
    """A stored result as a tool's: its text, and its images and files as blocks."""
    return ToolResult(body.text, blocks=[] if isinstance(body.content, str) else blocks_of(body.content))


def blocks_of(content: object) -> list[JsonObject]:
    """A result's content as blocks in MCP's shape, images, files and the text of documents whole; a part that MCP has no shape
    for comes as its JSON."""
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
        return {
            "type": "resource",
            "resource": {
                "uri": str(block.get("source") if isinstance(block.get("source"), str) else title),
                "text": inner,
            },
        }
    if data:
        return {"type": "resource", "resource": {"uri": title, "mimeType": media, "blob": data}}
    return {"type": "text", "text": schema.canonical(part)}


def _data_of(block: JsonObject) -> tuple[str, str]:
    """Media type and base64 data of a part; empty where it holds none."""
    source = as_object(block.get("source"))
    if source.get("type") == "base64":
        return str(source.get("media_type", "")), str(source.get("data", ""))
    image, file = as_object(block.get("image_url")), as_object(block.get("file"))
    # OpenAI's Responses have the URL and the data in the part itself.
    url = image.get("url") or file.get("file_data") or block.get("image_url") or block.get("file_data")
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.removeprefix("data:").partition(",")
        return head.partition(";")[0], data if head.endswith(";base64") else ""
    return "", ""
