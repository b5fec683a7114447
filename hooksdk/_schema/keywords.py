"""The keywords of JSON Schema: what each may hold, and where the schemas within a schema stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hooksdk._schema.parts import local_target
from hooksdk._schema.patterns import MAX_STATES, Pattern
from hooksdk.values import JsonObject, is_list, is_object

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_OF_ARRAYS = {"additionalItems", "contains", "items", "unevaluatedItems"}
_OF_OBJECTS = {"additionalProperties", "propertyNames", "unevaluatedProperties"}
HOLD_SCHEMA = _OF_ARRAYS | _OF_OBJECTS | {"else", "if", "not", "then"}
HOLD_LIST = {"allOf", "anyOf", "oneOf", "prefixItems"}
HOLD_MAP = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
_TEXTS = {"$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef", "$ref", "$schema", "pattern"}
_COUNTS = {f"{bound}{what}" for bound in ("max", "min") for what in ("Contains", "Items", "Length", "Properties")}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_names(value: Any) -> bool:
    return is_list(value) and all(isinstance(name, str) for name in value)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_type(value: Any) -> bool:
    names = value if is_list(value) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _is_list_of_schemas(value: Any) -> bool:
    return is_list(value) and bool(value) and all(map(_is_schema, value))


def _map_of(is_part: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: is_object(value) and all(map(is_part, value.values()))


_TABLE: tuple[tuple[set[str], Callable[[Any], bool], str], ...] = (
    (HOLD_SCHEMA, _is_schema, "a schema"),
    (HOLD_LIST, _is_list_of_schemas, "a list of schemas"),
    (HOLD_MAP - {"dependencies"}, _map_of(_is_schema), "an object of schemas"),
    ({"dependencies"}, _map_of(lambda each: _is_schema(each) or _is_names(each)), "an object of schemas or lists"),
    ({"dependentRequired"}, _map_of(_is_names), "an object of lists of names"),
    ({"required"}, _is_names, "a list of names"),
    ({"enum"}, is_list, "a list"),
    ({"type"}, _is_type, f"one or more of {', '.join(TYPES)}"),
    ({"uniqueItems"}, lambda value: isinstance(value, bool), "true or false"),
    ({"multipleOf"}, lambda value: _is_number(value) and value > 0, "a number > 0"),
    ({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"}, _is_number, "a number"),
    (_COUNTS, _is_count, "a whole number >= 0"),
    (_TEXTS, lambda value: isinstance(value, str), "a string"),
)
_RULES = {keyword: (is_allowed, words) for keywords, is_allowed, words in _TABLE for keyword in keywords}


def prepare(schema: Any, dialect: str) -> tuple[str | None, bool]:
    """Check a schema, and compile its patterns in place. Returns what is wrong with it, or None (titles, descriptions
    and the like are not checked), and whether each part means the same wherever it is used, because all its references
    stay within the one document.
    """
    todo: list[tuple[str, Any]] = [("the schema", schema)]
    visited: set[int] = set()
    states, is_simple = 0, True
    while todo:
        path, node = todo.pop()
        if isinstance(node, bool) or id(node) in visited:
            continue
        if not is_object(node):
            return f"{path} must be an object or a boolean", False
        visited.add(id(node))
        for key, value in node.items():
            is_allowed, words = _RULES.get(key, (None, ""))
            if is_allowed and not is_allowed(value) and not _is_older(key, value, dialect):
                return f"{path}: {key!r} must be {words}, not {repr(value)[:60]}"[:300], False
        try:
            states += _compile_patterns(node)
        except ValueError as error:
            return f"{path}: this is not a regular expression to search with: {error}"[:300], False
        if states > MAX_STATES:
            return f"{path}: its patterns are too large together with those elsewhere", False
        todo += ((f"{path}.{name}", each) for name, each in _below(node))
        if "$ref" in node:
            try:
                todo.append((f"{path}.$ref", local_target(schema, node["$ref"])))
            except LookupError:  # another document, an anchor, or nothing: the check that follows it reports it
                is_simple &= node["$ref"].startswith("#")
        is_simple &= _ELSEWHERE.isdisjoint(node) and (node is schema or _NAMES.isdisjoint(node))
    return None, is_simple


_ELSEWHERE = {"$dynamicRef", "$recursiveRef"}
_NAMES = {"$id", "id", "$schema"}


def _compile_patterns(node: JsonObject) -> int:
    patterns: list[Pattern] = []
    if "pattern" in node:
        node["pattern"] = Pattern(node["pattern"])
        patterns.append(node["pattern"])
    if "patternProperties" in node:
        node["patternProperties"] = {Pattern(key): each for key, each in node["patternProperties"].items()}
        patterns += node["patternProperties"]
    return sum(pattern.states for pattern in patterns)


def _below(node: JsonObject) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key in HOLD_MAP:
            yield from ((f"{key}.{name[:80]}", each) for name, each in value.items() if not is_list(each))
        elif key in HOLD_LIST or (key == "items" and is_list(value)):
            yield from ((f"{key}[{index}]", each) for index, each in enumerate(value))
        elif key in HOLD_SCHEMA:
            yield key, value


def _is_older(key: str, value: Any, dialect: str) -> bool:
    if key == "items":
        return "2020-12" not in dialect and (value == [] or _is_list_of_schemas(value))
    return "draft-04" in dialect and key.startswith("exclusive") and isinstance(value, bool)
