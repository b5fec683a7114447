"""A tool's parameters and what it returns in one line, so that a search hit can be called without its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from hooksdk import Tool
from hooksdk.schema import local_target

MAX_SIGNATURE = 400
MAX_REQUIRED = 2_000
"""A call without its required parameters cannot work, so they are named beyond `MAX_SIGNATURE`; there is a bound all the same."""
SENTENCE = 80
"""Characters of a tool's first sentence in a list."""
MAX_VALUES = 8
MAX_DEPTH = 2
MAX_RETURNS = 200
"""Characters of what a tool returns: of a form that is longer the inner parts are left out."""
MAX_NESTING = 6
"""Levels of unions, arrays and references that are followed: a schema may refer to itself."""
_SENTENCE_END = re.compile(r"(?<!^\d)(?<!\be\.g)(?<!\bi\.e)\. ")


def signature(
    name: str, parameters: Mapping[str, Any] | None, *, limit: int = MAX_SIGNATURE, most: int = MAX_REQUIRED
) -> str:
    """`create_issue(title: string, labels?: string[], state?: "open" | "closed")`: required first, then optional."""
    properties = _mapping(parameters, "properties")
    required = dict.fromkeys(_required(parameters))
    names = [key for key in required if key in properties] + [key for key in properties if key not in required]
    parts: list[str] = []
    length = len(name)
    for index, key in enumerate(names):
        kind = _type(properties[key], 0, 0, parameters or {})
        part = f"{key}{'' if key in required else '?'}: {kind}"
        length += len(part) + 2
        if length > (most if key in required else limit):
            parts.append(f"... {len(names) - index} more{'' if key in required else ' optional'}")
            break
        parts.append(part)
    return f"{name}({', '.join(parts)})"


def returns(output_schema: Mapping[str, Any] | None) -> str:
    """`{total: integer, issues: {id: integer, title?: string}[]}`: what such a schema says of a result; empty where it says
    nothing."""
    if not output_schema:
        return ""
    text = _type(output_schema, 0, 0, output_schema)
    if len(text) > MAX_RETURNS:
        text = _type(output_schema, 1, 0, output_schema)
    return "" if text in ("any", "object") else clip(text, MAX_RETURNS)


def row(tool: Tool) -> str:
    """A tool in one line of a list: its signature, and what it does."""
    return f"- {signature(tool.name, tool.parameters)}: {summary(tool.description, SENTENCE)}".rstrip(": ")


def summary(description: str, limit: int = 160) -> str:
    """The description's first sentence in one line, clipped."""
    text = " ".join(description.split())
    end = _SENTENCE_END.search(text)
    return clip(text[: end.start() + 1] if end else text, limit)


def clip(text: str, limit: int) -> str:
    """The text, cut where it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _type(part: object, depth: int, level: int, root: Mapping[str, Any]) -> str:
    if not isinstance(part, Mapping) or level > MAX_NESTING:
        return "any"
    schema = cast("Mapping[str, Any]", part)
    if "$ref" in schema:
        return _type(_target(schema["$ref"], root), depth, level + 1, root)
    if "const" in schema:
        return _literal(schema["const"])
    values: object = schema.get("enum")
    if isinstance(values, list) and values:
        options = [_literal(value) for value in cast("list[object]", values)[:MAX_VALUES]]
        return " | ".join([*options, "..."] if len(cast("list[object]", values)) > MAX_VALUES else options)
    for key in ("anyOf", "oneOf", "allOf"):
        options: object = schema.get(key)
        if isinstance(options, list) and options and (key != "allOf" or len(cast("list[object]", options)) == 1):
            few = cast("list[object]", options)[:MAX_VALUES]
            kinds = dict.fromkeys(_type(option, depth, level + 1, root) for option in few)
            kinds.pop("null", None)
            return " | ".join(kinds) or "null"
    kind: object = schema.get("type")
    if isinstance(kind, list):
        kinds = [str(one) for one in cast("list[object]", kind) if one != "null"]
        return " | ".join(kinds) or "null"
    if kind == "array":
        inner = _type(schema.get("items"), depth, level + 1, root)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object" or "properties" in schema:
        return _object(schema, depth, level, root)
    return kind if isinstance(kind, str) else "any"


def _object(schema: Mapping[str, Any], depth: int, level: int, root: Mapping[str, Any]) -> str:
    properties = _mapping(schema, "properties")
    if not properties or depth >= MAX_DEPTH:
        return "object"
    required = set(_required(schema))
    parts = [
        f"{key}{'' if key in required else '?'}: {_type(properties[key], depth + 1, level + 1, root)}"
        for key in list(properties)[:MAX_VALUES]
    ]
    return "{" + ", ".join([*parts, "..."] if len(properties) > MAX_VALUES else parts) + "}"


def _target(reference: object, root: Mapping[str, Any]) -> object:
    """What a reference within the same schema stands for; None where it leads nowhere."""
    try:
        return local_target(root, str(reference))
    except LookupError:
        return None


def _literal(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return clip(text, 40)


def _mapping(schema: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    value: object = schema.get(key) if schema else None
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _required(schema: Mapping[str, Any] | None) -> list[str]:
    value: object = schema.get("required") if schema else None
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
