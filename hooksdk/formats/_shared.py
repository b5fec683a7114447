"""What both message formats need: parts of content in words, text that can be sent, and schemas that providers accept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeGuard
from urllib.parse import unquote

from hooksdk import schema
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.tools import Tool

__all__ = [
    "NO_MESSAGE",
    "as_list",
    "as_object",
    "clean",
    "describe",
    "is_list",
    "is_object",
    "kind",
    "make_call",
    "marks",
    "parameters_for",
    "pieces",
    "prose",
    "reading",
    "shown",
    "sound",
    "to_json",
]

JsonObject = dict[str, Any]

NO_MESSAGE = "The tool failed without a message."
"""Stands where an error result has no text; an empty error is refused by Anthropic and tells a model nothing."""


def is_object(value: object) -> TypeGuard[JsonObject]:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """True for a JSON array."""
    return isinstance(value, list)


def as_object(value: object) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return value if is_list(value) else []


def kind(value: object) -> str:
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


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which cannot be encoded: each becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_json(value: object) -> str:
    """A value as JSON text that can be sent."""
    return clean(json.dumps(value, ensure_ascii=False, default=str))


def make_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A call from whatever a message says. What cannot be copied becomes text that no tool takes for arguments."""
    id_text = call_id if isinstance(call_id, str) else ""
    name_text = name if isinstance(name, str) else ""
    try:
        return ToolCall(id_text, name_text, arguments)
    except schema.Uncloneable as error:
        return ToolCall(id_text, name_text, f"<arguments that cannot be read: {error}>")


def describe(part: object) -> str:
    """A part of content that is not text, named: `[image image/png, 12,345 characters]`."""
    block = as_object(part)
    if not block:
        return f"[{kind(part)} where a part was expected]"
    name = block.get("type")
    inner = as_object(block.get("resource")) or as_object(block.get("source")) or as_object(block.get("input_audio"))
    url = _first_text(as_object(block.get("image_url")), keys=("url",))
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
    found = (block.get(key) for key in keys for block in blocks)
    return next((value for value in found if isinstance(value, str) and value), "")


def reading(content: object) -> str:
    """What a model reads of a result's content: text as it is, the parts of a list by line, other parts named."""
    if isinstance(content, str):
        return content
    if is_list(content):
        return "\n".join(_text_of(part) if _is_text(part) else describe(part) for part in content)
    return "" if content is None else describe(content)


def prose(content: object) -> str:
    """The text of a message's content, without everything else."""
    if isinstance(content, str):
        return content
    return "\n".join(text for part in as_list(content) if _is_text(part) and (text := _text_of(part)))


def _is_text(part: object) -> bool:
    return isinstance(part, str) or as_object(part).get("type") == "text"


def _text_of(part: object) -> str:
    text = part if isinstance(part, str) else as_object(part).get("text")
    return text if isinstance(text, str) else ""


def marks(content: object) -> JsonObject:
    """The cache mark inside a list of content, for the one part that takes the list's place."""
    found = [as_object(part)["cache_control"] for part in as_list(content) if "cache_control" in as_object(part)]
    return {"cache_control": found[-1]} if found else {}


def pieces(result: ToolResult) -> list[str | JsonObject]:
    """A result as text and MCP blocks, in their order. `structured` comes as JSON text when there is no text."""
    found: list[str | JsonObject] = []
    texts: list[str] = []
    for block in result.blocks:
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
            found.append(texts[-1])
        else:
            found.append(block)
    if "\n".join(texts) != result.text:
        found = [result.text, *(piece for piece in found if not isinstance(piece, str))]
    if not result.text and result.structured is not None:
        found = [*(piece for piece in found if piece), to_json(result.structured)]
    return found


def shown(piece: str | JsonObject) -> str:
    """A piece of a result as text: other content is named, and the text of an embedded resource follows its name."""
    if isinstance(piece, str):
        return clean(piece)
    text = as_object(piece.get("resource")).get("text")
    return clean(f"{describe(piece)}\n{text}" if isinstance(text, str) else describe(piece))


def sound(value: Any) -> Any:
    """A JSON value whose text can be encoded; the value itself where it can be already."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _mend(value)
    return value


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if is_list(value):
        return [_mend(each) for each in value]
    return {clean(key): _mend(each) for key, each in value.items()} if is_object(value) else value


_STEPS = 16
"""How many `$ref`s and nested combinations are followed before words take over; cycles end here."""
_PLAIN = frozenset({"type", "properties", "required", "title", "description", "default", "examples"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset({
    "items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_COMBINED = ("allOf", "anyOf", "oneOf")


def parameters_for(tool: Tool) -> JsonObject:
    """A tool's schema in a shape that both providers accept: one bad schema makes them refuse the whole request.

    The top level becomes a plain object, since both refuse `anyOf`, `oneOf`, `allOf`, `enum` and `not` there: what
    these say of properties is kept as properties, and the whole of it is told in the description where that loses
    something. Calls are still checked against the tool's own schema. Further down only spelling changes.
    """
    root = tool.parameters or {}
    root.pop("$schema", None)
    top = _resolved(root, root)
    told: list[JsonObject] = []
    for _ in range(_STEPS):
        word = next((each for each in _COMBINED if each in top), None)
        if word is None:
            break
        written = as_list(top.pop(word))
        if not _combine(top, [_resolved(root, branch) for branch in written], every=word == "allOf"):
            told.append({word: written})
    told += [{word: top.pop(word)} for word in ("$ref", *_COMBINED, "enum", "const", "not") if word in top]
    if told:
        words = (
            f"The arguments must also match this JSON Schema: {to_json(told[0] if len(told) == 1 else {'allOf': told})}"
        )
        top["description"] = f"{top['description']}\n{words}" if isinstance(top.get("description"), str) else words
    shape = {"type": "object", "properties": as_object(top.get("properties"))}
    return sound(_modern(shape | {key: value for key, value in top.items() if key not in shape}))


def _resolved(root: JsonObject, value: object) -> JsonObject:
    """The schema behind local `$ref`s, a fresh dict; a `$ref` that leads nowhere stays."""
    found: JsonObject = {"not": {}} if value is False else dict(as_object(value))
    for _ in range(_STEPS):
        target = _at(root, found.get("$ref"))
        if not target:
            break
        found = target | {key: each for key, each in found.items() if key != "$ref"}
    return found


def _at(root: JsonObject, reference: object) -> JsonObject:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    place: Any = root
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        place = place.get(name) if is_object(place) else None
    return as_object(place) if "/" in reference or reference == "#" else {}


def _combine(top: JsonObject, branches: list[JsonObject], *, every: bool) -> bool:
    """Put the properties of the branches into the top level. True when that says all that the combination said."""
    if not every:
        branches = [branch for branch in branches if "object" in _types(branch)]
    if every or len(branches) == 1:
        wholes = [_join(top, branch) for branch in branches]
        return all(wholes)
    known = as_object(top.get("properties"))
    variants: dict[str, list[Any]] = {}
    for branch in branches if top.get("additionalProperties") is not False else ():
        for name, each in as_object(branch.get("properties")).items():
            if name not in known and each not in variants.setdefault(name, []):
                variants[name].append(each)
    top["properties"] = known | {
        name: found[0] if len(found) == 1 else {"anyOf": found} for name, found in variants.items()
    }
    needed = [as_list(branch.get("required")) for branch in branches]
    _require(top, [name for name in needed[0] if all(name in each for each in needed)] if needed else [])
    return False


def _join(top: JsonObject, branch: JsonObject) -> bool:
    """Narrow the top level by a branch that must hold too. True when nothing of the branch is lost."""
    extra = {key: each for key, each in branch.items() if key not in _PLAIN}
    known = as_object(top.get("properties"))
    added = as_object(branch.get("properties"))
    whole = "object" in _types(branch)
    if not known and "additionalProperties" not in top and not extra.keys() & top.keys():
        top |= extra
    else:
        whole = whole and not extra
        if top.get("additionalProperties") is False:
            whole = whole and added.keys() <= known.keys()
            added = {name: each for name, each in added.items() if name in known}
    both = {
        name: {"allOf": [known[name], each]} for name, each in added.items() if name in known and known[name] != each
    }
    top["properties"] = added | known | both
    _require(top, as_list(branch.get("required")))
    for key in ("title", "description", "default", "examples"):
        if key in branch:
            top.setdefault(key, branch[key])
    return whole


def _require(top: JsonObject, names: list[Any]) -> None:
    if names:
        top["required"] = [
            *as_list(top.get("required")),
            *(name for name in names if name not in as_list(top.get("required"))),
        ]


def _types(branch: JsonObject) -> list[Any]:
    named = branch.get("type", "object")
    return named if is_list(named) else [named]


def _modern(value: Any) -> Any:
    """A schema in the spelling of draft 2020-12, with `items` for every array and without what makes a provider refuse
    the whole request, though servers write it: keywords set to null, types that do not exist, enums that are no list.
    """
    if value is True:
        return {}
    if not is_object(value):
        return value
    found: JsonObject = {}
    for key, each in value.items():
        if each is None and key not in {"default", "const", "example"}:
            continue
        if key in _MAPS and is_object(each):
            found[key] = {name: _modern(below) for name, below in each.items()}
        elif key in _LISTS and is_list(each):
            found[key] = [_modern(below) for below in each]
        elif key == "items" and is_list(each):
            found["prefixItems"] = [_modern(below) for below in each]
        elif key in _SINGLE:
            found[key] = each if isinstance(each, bool) and key != "items" else _modern(each)
        else:
            found[key] = each
    if is_list(value.get("items")) and "additionalItems" in found:
        found["items"] = found.pop("additionalItems")
    if "array" in _types(found):
        found.setdefault("items", {})
    for key in ("enum", "required"):
        if key in found and not is_list(found[key]):
            del found[key]
    if "examples" in found and not is_list(found["examples"]):
        found["examples"] = [found["examples"]]
    if "type" in found:
        named = [each.lower() for each in _types(found) if isinstance(each, str) and each.lower() in _TYPES]
        if named != _types(found):
            found |= {"type": named[0] if len(named) == 1 else named}
        if not named:
            del found["type"]
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(found.get(flag), bool):
            strict = found.pop(flag)
            if strict and bound in found:
                found[flag] = found.pop(bound)
    return found
