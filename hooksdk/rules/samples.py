"""Values for a JSON Schema, for the examples of proofs."""

from __future__ import annotations

from collections.abc import Mapping

from hooksdk.values import as_list, as_object

__all__ = ["sample"]

_SAMPLES: Mapping[str, object] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}


def sample(schema: object, *, only_required: bool) -> object:
    """A value that is likely to fit a JSON Schema, with all that it names or with no more than it requires."""
    said = as_object(schema)
    fixed = [said[key] for key in ("const", "default") if key in said]
    if choices := [*fixed, *as_list(said.get("enum")), *as_list(said.get("examples"))]:
        return choices[0]
    if said.get("type") != "object":
        return said.get("minimum", _SAMPLES.get(str(said.get("type")), "x"))
    properties, required = as_object(said.get("properties")), map(str, as_list(said.get("required")))
    names = required if only_required else {**properties, **dict.fromkeys(required)}
    return {name: sample(properties.get(name), only_required=only_required) for name in names}
