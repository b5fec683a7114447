"""A tool's schema as providers accept it."""

from __future__ import annotations

import json
from typing import Any

from hooksdk._schema.keywords import HOLD_LIST, HOLD_MAP, HOLD_SCHEMA, TYPES
from hooksdk._schema.parts import local_target
from hooksdk.values import JsonObject, as_list, as_object, is_list, is_object

# How many `$ref`s and nested combinations are followed before words take over; cycles end here.
_STEPS = 16
_PLAIN = frozenset({"type", "properties", "required", "title", "description", "default", "examples"})
_COMBINED = ("allOf", "anyOf", "oneOf")


def provider_schema(root: JsonObject) -> JsonObject:
    """As `hooksdk.schema.provider_schema` describes it."""
    top = _resolved(root, {key: each for key, each in root.items() if key != "$schema"})
    lost: list[JsonObject] = []
    for _ in range(_STEPS):
        word = next((each for each in _COMBINED if each in top), None)
        if word is None:
            break
        branches = as_list(top.pop(word))
        if not _combine(top, [_resolved(root, branch) for branch in branches], every=word == "allOf"):
            lost.append({word: branches})
    lost += [{word: top.pop(word)} for word in ("$ref", *_COMBINED, "enum", "const", "not") if word in top]
    if lost:
        text = json.dumps(lost[0] if len(lost) == 1 else {"allOf": lost}, ensure_ascii=False, default=str)
        words = f"The arguments must also match this JSON Schema: {text}"
        top["description"] = f"{top['description']}\n{words}" if isinstance(top.get("description"), str) else words
    shape = {"type": "object", "properties": as_object(top.get("properties"))}
    return _modern(shape | {key: value for key, value in top.items() if key not in shape})


def _resolved(root: JsonObject, value: object) -> JsonObject:
    """The schema behind local `$ref`s, a fresh dict; a `$ref` that leads nowhere stays."""
    schema: JsonObject = {"not": {}} if value is False else dict(as_object(value))
    for _ in range(_STEPS):
        try:
            target = as_object(local_target(root, schema["$ref"]))
        except LookupError:
            break
        if not target:
            break
        schema = target | {key: each for key, each in schema.items() if key != "$ref"}
    return schema


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
        name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in variants.items()
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
    types = branch.get("type", "object")
    return types if is_list(types) else [types]


def _modern(value: Any) -> Any:
    """A schema in the spelling of draft 2020-12, with `items` for every array and without what makes a provider refuse
    the whole request, though servers write it: keywords set to null, types that do not exist, enums that are no list.
    """
    if value is True:
        return {}
    if not is_object(value):
        return value
    schema: JsonObject = {}
    for key, each in value.items():
        if each is None and key not in {"default", "const", "example"}:
            continue
        if key in HOLD_MAP and is_object(each):
            schema[key] = {name: _modern(below) for name, below in each.items()}
        elif key in HOLD_LIST and is_list(each):
            schema[key] = [_modern(below) for below in each]
        elif key == "items" and is_list(each):
            schema["prefixItems"] = [_modern(below) for below in each]
        elif key in HOLD_SCHEMA:
            schema[key] = each if isinstance(each, bool) and key != "items" else _modern(each)
        else:
            schema[key] = each
    if is_list(value.get("items")) and "additionalItems" in schema:
        schema["items"] = schema.pop("additionalItems")
    if "array" in _types(schema):
        schema.setdefault("items", {})
    for key in ("enum", "required"):
        if key in schema and not is_list(schema[key]):
            del schema[key]
    if "examples" in schema and not is_list(schema["examples"]):
        schema["examples"] = [schema["examples"]]
    if "type" in schema:
        types = [each.lower() for each in _types(schema) if isinstance(each, str) and each.lower() in TYPES]
        if types != _types(schema):
            schema |= {"type": types[0] if len(types) == 1 else types}
        if not types:
            del schema["type"]
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(flag), bool):
            strict = schema.pop(flag)
            if strict and bound in schema:
                schema[flag] = schema.pop(bound)
    return schema
