"""Write the JSON Schema of the trace's records, as `trace_file` writes them, from the classes in `hooksdk.records`.

python scripts/trace_schema.py > docs/reference/trace.schema.json
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args, get_origin, get_type_hints

import pydantic

from hooksdk.records import RECORDS, Record

HEAD: dict[str, Any] = {
    "schema": {"const": 1, "description": "The version of the lines' shape."},
    "time": {"type": "number", "description": "Seconds since the epoch."},
    "session_id": {"type": "string"},
    "run_id": {"type": "string", "description": "Empty outside a run."},
    "attempt": {"type": "integer", "description": "From 1; 0 outside a run."},
    "agent_id": {"type": "string"},
}


def schema_of(record: type[Record]) -> dict[str, Any]:
    """One kind of line."""
    hints = get_type_hints(record)
    own: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        hint = hints[field.name]
        if getattr(get_origin(hint), "__name__", "") == "Fresh":
            (hint,) = get_args(hint)
        own[field.name] = pydantic.TypeAdapter(hint).json_schema()
    return {
        "title": record.__name__,
        "description": " ".join((record.__doc__ or "").partition("Attributes:")[0].split()),
        "type": "object",
        "properties": {"kind": {"const": record.kind}, **own},
        "required": ["kind", *own],
    }


def whole() -> dict[str, Any]:
    """The schema of a line. Unknown kinds and fields may be added, so neither is closed."""
    kinds = [schema_of(record) for record in RECORDS.values()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of the trace",
        "type": "object",
        "properties": {**HEAD, "kind": {"type": "string"}},
        "required": [*HEAD, "kind"],
        "anyOf": [
            *({"$ref": f"#/$defs/{kind['title']}"} for kind in kinds),
            {"properties": {"kind": {"not": {"enum": list(RECORDS)}}}},
        ],
        "$defs": {kind["title"]: kind for kind in kinds},
    }


if __name__ == "__main__":
    print(json.dumps(whole(), indent=2))
