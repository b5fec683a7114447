"""The findings about one tool, by its record and by the other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from builtin_plugins.catalog_audit._definition import Record, is_old, old_fingerprint_of, parts_of
from builtin_plugins.catalog_audit._likeness import look_of, resembling
from builtin_plugins.catalog_audit._texts import hidden_text, instructions
from hooksdk import Tool

Action = Literal["accept", "report", "withhold"]
Kind = Literal["changed", "new", "lookalike", "hidden_text", "instructions"]


class Settings(Protocol):
    """The settings of a review."""

    on_change: Literal["report", "withhold"]
    on_new: Action
    on_lookalike: Action
    hidden_text: Action
    instructions: Action
    approved: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding about a tool.

    Attributes:
        action: What the settings say; a finding that is accepted is not reported.
    """

    kind: Kind
    action: Action
    details: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Review:
    """A tool and all findings about it.

    Attributes:
        record: Its record, if there is one.
        approved: This very definition is approved: by the configuration, or by an earlier approval.
    """

    tool: Tool = field(repr=False)
    fingerprint: str
    record: Record | None = None
    approved: bool = False
    findings: Sequence[Finding] = ()

    @property
    def withheld(self) -> bool:
        """True when it may not be granted before it is approved."""
        return any(finding.action == "withhold" for finding in self.findings)

    @property
    def unchanged(self) -> bool:
        """True when this very definition is recorded."""
        return self.record is not None and self.record["fingerprint"] == self.fingerprint


class KnownNames:
    """The names of known tools, by what they look like."""

    def __init__(self) -> None:
        self._ids: dict[str, set[str]] = {}

    def add(self, tool_id: str) -> None:
        """Add the name of a tool."""
        self._ids.setdefault(look_of(_name_of(tool_id)), set()).add(tool_id)

    def like(self, tool: Tool, newcomers: set[str]) -> list[str]:
        """Ids of other tools whose names this one resembles. Two newcomers may have the same name: nobody can tell
        which of them imitates the other."""
        others = sorted(one for one in resembling(tool.own_name, self._ids) if one != tool.id)
        return [one for one in others if not (one in newcomers and _name_of(one) == tool.own_name)]


def review_tool(
    tool: Tool, fingerprint: str, record: Record | None, settings: Settings, known: KnownNames, newcomers: set[str]
) -> Review:
    """All findings about a tool."""
    if record is not None and is_old(record) and record["fingerprint"] == old_fingerprint_of(tool):
        # A record of an earlier version: output schema and label count from now on.
        record = {**record, "fingerprint": fingerprint}
    same = record is not None and record["fingerprint"] == fingerprint
    approved = same and "approved" in (record or {})
    wanted = settings.approved.get(tool.id)
    if wanted is not None and not approved:
        old = (record is None or is_old(record)) and wanted == old_fingerprint_of(tool)
        approved = old or wanted == fingerprint
    findings: list[Finding] = []
    if record is None and not approved:
        findings.append(Finding(kind="new", action=settings.on_new))
        if settings.on_lookalike != "accept" and (others := known.like(tool, newcomers)):
            findings.append(Finding(kind="lookalike", action=settings.on_lookalike, details=others))
    elif record is not None and not same:
        action: Action = "accept" if approved else settings.on_change
        findings.append(Finding(kind="changed", action=action, details=changed_parts(tool, record)))
    if not approved:
        kinds: Mapping[Kind, Action] = {"hidden_text": settings.hidden_text, "instructions": settings.instructions}
        for kind, action in kinds.items():
            # A recorded tool was reported when it was recorded, but it is withheld until somebody approves it.
            if action == "withhold" or (action == "report" and not same):
                details = hidden_text(tool) if kind == "hidden_text" else instructions(tool)
                if details:
                    findings.append(Finding(kind=kind, action=action, details=details))
    return Review(tool=tool, fingerprint=fingerprint, record=record, approved=approved, findings=findings)


def changed_parts(tool: Tool, record: Record) -> list[str]:
    """The names of the parts that are not as recorded."""
    recorded = {name: part for name, part in parts_of(tool).items() if name in record}
    return [name for name, part in recorded.items() if record[name] != part]


def _name_of(tool_id: str) -> str:
    return tool_id.split(":", 2)[2]
