"""What can be told of a JSON Schema before anything is checked with it: its faults and its weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from hooksdk._schema.limits import MAX_PATTERN_WEIGHT, pattern_matcher, pattern_weight

__all__ = ["Weight", "local_target", "schema_fault", "schema_weight"]

MAX_NAMES = 500


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 and value == int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_type(value: Any) -> bool:
    names = cast("list[Any]", value if isinstance(value, list) else [value])
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _list_of(is_part: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_list_of(value: Any) -> bool:
        return isinstance(value, list) and all(map(is_part, cast("list[Any]", value)))

    return is_list_of


def _map_of(is_part: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_map_of(value: Any) -> bool:
        return isinstance(value, dict) and all(map(is_part, cast("dict[str, Any]", value).values()))

    return is_map_of


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_divisor(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_list_of_schemas(value: Any) -> bool:
    return bool(value) and _list_of(_is_schema)(value)


def _is_dependency(value: Any) -> bool:
    return _is_schema(value) or _list_of(_is_text)(value)


_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_SCHEMAS = "additionalItems additionalProperties contains else if items not propertyNames then unevaluatedItems unevaluatedProperties"
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    name: rule
    for names, rule in cast(
        "dict[str, tuple[Callable[[Any], bool], str]]",
        {
            _SCHEMAS: (_is_schema, "a schema"),
            "allOf anyOf oneOf prefixItems": (_is_list_of_schemas, "a list of schemas"),
            "$defs definitions dependentSchemas patternProperties properties": (
                _map_of(_is_schema),
                "an object of schemas",
            ),
            "dependencies": (
                _map_of(_is_dependency),
                "an object of schemas or lists",
            ),
            "dependentRequired": (_map_of(_list_of(_is_text)), "an object of lists of names"),
            "required": (_list_of(_is_text), "a list of names"),
            "enum": (_is_list, "a list"),
            "type": (_is_type, f"one or more of {', '.join(sorted(_TYPES))}"),
            "uniqueItems": (_is_flag, "true or false"),
            "$anchor $dynamicAnchor $dynamicRef $id $recursiveRef $ref $schema pattern": (_is_text, "a string"),
            "maxContains maxItems maxLength maxProperties minContains minItems minLength minProperties": (
                _is_count,
                "a whole number >= 0",
            ),
            "exclusiveMaximum exclusiveMinimum maximum minimum": (_is_number, "a number"),
            "multipleOf": (_is_divisor, "a number > 0"),
        },
    ).items()
    for name in names.split()
}
_NAMES = frozenset(("$anchor", "$dynamicAnchor", "$id", "id"))
_MAPS = frozenset(("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"))
_NESTED = frozenset(_SCHEMAS.split()) | _MAPS | {"allOf", "anyOf", "oneOf", "prefixItems"}


def schema_fault(schema: Any, dialect: str) -> str | None:
    """Which keyword has a value that its dialect does not allow. Titles, descriptions and their like are not judged."""
    todo: list[tuple[str, Any]] = [("the schema", schema)]
    patterns = names = 0
    while todo:
        path, node = todo.pop()
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            return f"{path} must be an object or a boolean"
        for key, value in cast("dict[str, Any]", node).items():
            rule, what = _RULES.get(key, (None, ""))
            if rule and not rule(value) and not _is_legacy(key, value, dialect):
                return f"{path}: {key!r} must be {what}, not {repr(value)[:60]}"[:300]
            if key in {"pattern", "patternProperties"}:
                for pattern in [value] if key == "pattern" else cast("dict[str, Any]", value):
                    patterns += pattern_weight(pattern)
                    if patterns > MAX_PATTERN_WEIGHT // 2:
                        continue  # compiling takes time: these are judged when they are first needed
                    try:
                        pattern_matcher(pattern)
                    except ValueError as error:
                        return f"{path}: {pattern[:100]!r} is not a regular expression: {error}"[:300]
            names += key in _NAMES and isinstance(value, str)
            if names > MAX_NAMES:
                return f"it has more than {MAX_NAMES} $id and $anchor"
            if key in _NESTED:
                todo += [(f"{path}.{key}{name}", each) for name, each in _below(key, value)]
    return None


def _below(key: str, value: Any) -> list[tuple[str, Any]]:
    if key in _MAPS:
        pairs = cast("dict[str, Any]", value).items()
        return [(f".{name[:80]}", each) for name, each in pairs if not isinstance(each, list)]
    if isinstance(value, list):
        return [(f"[{index}]", each) for index, each in enumerate(cast("list[Any]", value))]
    return [("", value)]


def _is_legacy(key: str, value: Any, dialect: str) -> bool:
    if key == "items":
        return "2020-12" not in dialect and _list_of(_is_schema)(value)
    return "draft-04" in dialect and key.startswith("exclusive") and isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Weight:
    """How often jsonschema-rs would at most look at one value, and how heavy the patterns are that it would run."""

    steps: float = 0
    patterns: int = 0


def schema_weight(schema: Any) -> Weight:
    """The weight with every local `$ref` written out: infinite where it refers to itself, or where the two engines may differ."""
    patterns: list[int] = []
    known: dict[int, float] = {}

    def weigh(value: Any, *, top: bool = False) -> float:
        if isinstance(value, list):
            return sum(map(weigh, cast("list[Any]", value)))
        if not isinstance(value, dict):
            return 0
        if id(value) in known:  # pyright: ignore[reportUnknownArgumentType]
            return known[id(value)]  # pyright: ignore[reportUnknownArgumentType]
        node = cast("dict[str, Any]", value)
        known[id(node)] = math.inf
        steps = 1 + sum(map(weigh, node.values()))
        own, keyed = node.get("pattern"), node.get("patternProperties")
        texts = [own] if isinstance(own, str) else []
        texts += list(cast("dict[str, Any]", keyed)) if isinstance(keyed, dict) else []
        patterns.extend(pattern_weight(pattern) for pattern in texts)
        odd = not _UNLIKE.isdisjoint(node) or isinstance(node.get("multipleOf"), float)
        if odd or (not top and any(isinstance(node.get(key), str) for key in ("$id", "$schema"))):
            steps = math.inf
        if isinstance(reference := node.get("$ref"), str):
            try:
                steps += weigh(local_target(schema, reference))
            except LookupError:
                steps = math.inf
        known[id(node)] = steps
        return steps

    steps = weigh(schema, top=True)
    return Weight(steps, sum(patterns))


_UNLIKE = frozenset(("$dynamicRef", "$recursiveRef", "$vocabulary", "contentEncoding", "contentMediaType"))


def local_target(root: Any, reference: str) -> Any:
    """What `#/$defs/x` points to inside `root`. Raises `LookupError` where it points elsewhere or nowhere."""
    if reference != "#" and not reference.startswith("#/"):
        raise LookupError(reference)
    node = root
    for part in reference.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = cast("list[Any]", node)[int(name) if name.isdecimal() else len(cast("list[Any]", node))]
        elif isinstance(node, dict):
            node = cast("dict[str, Any]", node)[name]
        else:
            raise LookupError(reference)  # noqa: TRY004 - the same error as for any other wrong pointer
    return node
