"""Arguments as a weak model meant them: shapes that only one reading of the schema explains."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from hooksdk._schema.parts import local_target
from hooksdk.values import BadArguments, kind_of, read_json

_WRAPPERS = frozenset(("arguments", "args", "input", "parameters", "params"))
_WORDS = {"true": True, "True": True, "false": False, "False": False}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(\.\d{1,17})?([eE][+-]?\d{1,2})?")
_UNKNOWN: tuple[frozenset[str], dict[str, Any]] = (frozenset(), {})


def repair_arguments(schema: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Repair in place what is certain."""
    repair = _Repair(schema)
    return cast("dict[str, Any]", repair.value(schema, repair.nest(repair.unwrap(arguments))))


class _Repair:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._plans: dict[int, tuple[frozenset[str], dict[str, Any]]] = {}

    def unwrap(self, arguments: dict[str, Any]) -> dict[str, Any]:
        known = self._properties(self._root)
        if len(arguments) == 1 and known:
            [(name, inner)] = arguments.items()
            if name in _WRAPPERS and name not in known:
                inner = _read(inner) if isinstance(inner, str) else inner
                if isinstance(inner, dict) and known.keys() >= cast("dict[str, Any]", inner).keys():
                    return cast("dict[str, Any]", inner)
        return arguments

    def nest(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`"a.b": 1` -> `a: {b: 1}` where the schema has it so."""
        known = self._properties(self._root)
        folded = {key: value for key, value in arguments.items() if key in known or "." not in key}
        for key in [key for key in arguments if key not in folded]:
            parts = key.split(".")[:20]
            if parts[0] in _WRAPPERS and parts[0] not in known:
                del parts[0]
            if self._has(parts) and (place := self._place(folded, parts)) is not None:
                place[parts[-1]] = arguments[key]
            else:
                folded[key] = arguments[key]
        return folded

    def value(self, schema: Any, value: Any) -> Any:
        types, variant = self._plan(schema)
        if isinstance(value, str) and types and "string" not in types:
            value = self._from_text(value, types)
        if isinstance(value, dict):
            self._object(variant, cast("dict[str, Any]", value))
        if isinstance(value, list) and isinstance(items := variant.get("items"), dict):
            return [self.value(items, each) for each in cast("list[Any]", value)]
        return cast("Any", value)

    def _object(self, variant: dict[str, Any], value: dict[str, Any]) -> None:
        known = cast("dict[str, Any]", variant.get("properties") or {})
        self._rename(variant, known, value)
        for key in list(value):
            schema = known.get(key, variant.get("additionalProperties"))
            optional = key in known and key not in variant.get("required", ())
            if optional and value[key] in (None, "") and self._refuses(schema, value[key]):
                del value[key]
            else:
                value[key] = self.value(schema, value[key])

    def _rename(self, variant: dict[str, Any], known: dict[str, Any], value: dict[str, Any]) -> None:
        """`resourceType` for a missing `resource_type`: an unknown key that is written as one required key is, but for
        case and separators, and only that one. Not where the schema says that there may be other keys."""
        missing = [key for key in variant.get("required", ()) if key in known and key not in value]
        others_welcome = variant.get("additionalProperties") not in (None, False) or variant.get("patternProperties")
        if not missing or others_welcome:
            return
        alike: dict[str, list[str]] = {}
        for key in [*known, *(key for key in value if key not in known)]:
            alike.setdefault(_squeeze(key), []).append(key)
        for key in missing:
            match [one for one in alike[_squeeze(key)] if one != key]:
                case [written] if written not in known and written in value:
                    value[key] = value.pop(written)
                case _:
                    pass

    def _refuses(self, schema: Any, empty: str | None) -> bool:
        types, variant = self._plan(schema)
        if not types or "null" in types:
            return False
        allowed = variant.get("enum")
        too_short = empty == "" and variant.get("minLength", 0) > 0
        return "string" not in types or empty is None or too_short or (allowed is not None and empty not in allowed)

    def _from_text(self, text: str, types: frozenset[str]) -> Any:
        number = _NUMBER.fullmatch(text)
        if number and ("number" in types or ("integer" in types and number[1] is number[2] is None)):
            return read_json(text)
        if "boolean" in types and text in _WORDS:
            return _WORDS[text]
        if "null" in types and text == "null":
            return None
        parsed = _read(text)
        kind = "object" if isinstance(parsed, dict) else "array" if isinstance(parsed, list) else None
        return cast("Any", parsed) if kind in types else text

    def _properties(self, schema: Any) -> dict[str, Any]:
        return self._plan(schema)[1].get("properties") or {}

    def _has(self, parts: list[str]) -> bool:
        here: Any = self._root
        for part in parts:
            known = self._properties(here)
            if part not in known:
                return False
            here = known[part]
        return bool(parts)

    def _place(self, folded: dict[str, Any], parts: list[str]) -> dict[str, Any] | None:
        """The object that the last part goes into, made where it is missing; None where something is in the way."""
        place = folded
        for part in parts[:-1]:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                return None
            place = cast("dict[str, Any]", inner)
        return None if parts[-1] in place else place

    def _plan(self, schema: Any) -> tuple[frozenset[str], dict[str, Any]]:
        """The types that a schema allows (none: not known), and its one form that is not null."""
        if not isinstance(schema, dict):
            return _UNKNOWN
        key = id(cast("object", schema))
        if key not in self._plans:
            self._plans[key] = _UNKNOWN  # while it is being planned: it may refer to itself
            self._plans[key] = self._new_plan(cast("dict[str, Any]", schema))
        return self._plans[key]

    def _new_plan(self, schema: dict[str, Any]) -> tuple[frozenset[str], dict[str, Any]]:
        if isinstance(reference := schema.get("$ref"), str):
            try:
                return self._plan(local_target(self._root, reference))
            except LookupError:
                return _UNKNOWN
        if "type" in schema or "properties" in schema:
            types: Any = schema.get("type", "object")
            return frozenset([types] if isinstance(types, str) else types), schema
        if isinstance(values := schema.get("enum"), list):
            return frozenset(map(kind_of, cast("list[Any]", values))), schema
        if isinstance(parts := schema.get("allOf"), list) and len(cast("list[Any]", parts)) == 1:
            return self._plan(parts[0])
        variants = schema.get("anyOf") or schema.get("oneOf") or ()
        plans = [self._plan(variant) for variant in cast("list[Any]", variants)]
        if not all(types for types, _ in plans):
            return _UNKNOWN
        real = [variant for types, variant in plans if types != frozenset(("null",))]
        return frozenset[str]().union(*(types for types, _ in plans)), real[0] if len(real) == 1 else {}


def _squeeze(key: str) -> str:
    return re.sub(r"[\W_]+", "", key).casefold()


def _read(text: str) -> Any:
    try:
        return read_json(text)
    except BadArguments:
        return None
