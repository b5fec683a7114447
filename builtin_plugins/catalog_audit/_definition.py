"""A tool's definition as the audit records it: one fingerprint of all that a model or a person reads of the tool."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

from hooksdk import Tool, schema

# A tool's fingerprint, those of its parts, and when it was recorded.
Record = dict[str, str]
# The records of an owner's tools, by the names that the owner gave.
Records = dict[str, Record]


def fingerprint_of(tool: Tool) -> str:
    """The fingerprint that an approval names: of name, description, schema, annotations, output schema and label. The
    name is the owner's own, which another server's tool of the same name does not change."""
    annotations = {name: value for name, value in asdict(tool.annotations).items() if value is not None}
    return schema.fingerprint([_own(tool).fingerprint, annotations, tool.output_schema, tool.label])


def old_fingerprint_of(tool: Tool) -> str:
    """The fingerprint in records of an earlier version, without output schema and label."""
    annotations = {name: value for name, value in asdict(tool.annotations).items() if value is not None}
    own = _own(tool).fingerprint
    return schema.fingerprint([own, annotations]) if annotations else own


def is_old(record: Record) -> bool:
    """True for a record of an earlier version, without output schema and label."""
    return "label" not in record


def parts_of(tool: Tool) -> dict[str, str]:
    """The parts of a definition, each as a fingerprint."""
    parts: dict[str, object] = {"description": tool.description, "schema": tool.parameters, "label": tool.label}
    parts |= {"annotations": asdict(tool.annotations), "output schema": tool.output_schema}
    return {name: schema.fingerprint(part) for name, part in parts.items()}


def new_record(tool: Tool, fingerprint: str, *, approved: bool) -> Record:
    """The record of a tool. An approval covers hidden text and instructions in its texts, too."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"fingerprint": fingerprint, **parts_of(tool), "recorded": now, **({"approved": now} if approved else {})}


def owner_of(tool: Tool) -> str:
    """The key of its owner's records."""
    return f"{tool.source}:{tool.owner}"


def _own(tool: Tool) -> Tool:
    return tool if tool.name == tool.own_name else tool.copy(name=tool.own_name)
