"""A tool's definition as the audit records it: one fingerprint of everything that a model or a person reads of it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

from hooksdk import Tool, schema

Record = dict[str, str]
"""Of one tool: its fingerprint, those of its parts, and when it was recorded."""
Records = dict[str, Record]
"""Of one owner's tools, by the name that the owner gave."""


def fingerprint_of(tool: Tool) -> str:
    """What an approval names: name, description, schema, annotations, output schema and label. The name is the one that its
    owner gave it, so that another server's tool of the same name changes nothing."""
    annotations = {name: value for name, value in asdict(tool.annotations).items() if value is not None}
    return schema.fingerprint([_own(tool).fingerprint, annotations, tool.output_schema, tool.label])


def old_fingerprint_of(tool: Tool) -> str:
    """The fingerprint of records that an earlier version made, without output schema and label."""
    annotations = {name: value for name, value in asdict(tool.annotations).items() if value is not None}
    own = _own(tool).fingerprint
    return schema.fingerprint([own, annotations]) if annotations else own


def is_old(record: Record) -> bool:
    """True for a record that says nothing of output schema and label."""
    return "label" not in record


def parts_of(tool: Tool) -> dict[str, str]:
    """The parts of a definition, each as a fingerprint."""
    parts = {
        "description": tool.description,
        "schema": tool.parameters,
        "annotations": asdict(tool.annotations),
        "output schema": tool.output_schema,
        "label": tool.label,
    }
    return {name: schema.fingerprint(part) for name, part in parts.items()}


def new_record(tool: Tool, fingerprint: str, *, approved: bool) -> Record:
    """What is kept of a tool. An approval holds for hidden text and instructions in it, too."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"fingerprint": fingerprint, **parts_of(tool), "recorded": now, **({"approved": now} if approved else {})}


def owner_of(tool: Tool) -> str:
    """Under what its record is kept."""
    return f"{tool.source}:{tool.owner}"


def _own(tool: Tool) -> Tool:
    return tool if tool.name == tool.own_name else tool.copy(name=tool.own_name)
