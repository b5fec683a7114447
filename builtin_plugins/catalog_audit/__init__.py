"""Notice when a tool is no longer the one that was trusted: its description, its schema or its annotations have changed.

The definitions are kept as fingerprints in the plugin's storage, by source and owner, for all sessions of the store. Where
something may be withheld the audit is part of narrowing the tools, and a definition is recorded before its tool is granted.
Otherwise it runs in the background, so that nobody waits for it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import anyio
from pydantic import BaseModel, ConfigDict, Field, field_validator

from hooksdk import Storage, Tool, hooks, schema
from hooksdk.errors import did_you_mean
from hooksdk.hooks import AfterToolsResolved, NarrowTools, Withhold
from hooksdk.patterns import SOURCES, ToolPattern

__all__ = ["CatalogAudit", "fingerprint_of"]

logger = logging.getLogger("hooksdk")

MAX_NAMED = 20
"""Tools that one line of the log names."""

Records = dict[str, dict[str, str]]


def fingerprint_of(tool: Tool) -> str:
    """What an approval names: the tool's fingerprint under the name that its owner gave it, so that another server's tool
    of the same name changes nothing; with its annotations, where it has any, since policies go by them."""
    own = tool if tool.name == tool.own_name else tool.copy(name=tool.own_name)
    annotations = {name: value for name, value in asdict(tool.annotations).items() if value is not None}
    return schema.fingerprint([own.fingerprint, annotations]) if annotations else own.fingerprint


@dataclass
class _SharedReport:
    """What the sessions of one host know together."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    fingerprints: dict[str, str] = field(default_factory=dict[str, str])
    """Of the tools that are as recorded, by id."""
    reports: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Of tools that are still withheld: id and fingerprint."""


class CatalogAudit:
    """Report or withhold tools whose definition has changed, and new ones."""

    class Config(BaseModel):
        """Settings."""

        model_config = ConfigDict(extra="forbid")
        on_change: Literal["report", "withhold"] = "report"
        """`report`: logged once, and the new definition counts from then on. `withhold`: until it is approved."""
        on_new: Literal["accept", "report", "withhold"] = "accept"
        """What happens with a tool that was never seen."""
        approved: dict[str, str] = Field(default_factory=dict)
        """Definitions that are right: tool id to fingerprint, as the log shows them."""
        exclude: list[str] = Field(default_factory=list[str])
        """Patterns of tools that are not audited."""

        @field_validator("approved")
        @classmethod
        def _check_approved(cls, value: dict[str, str]) -> dict[str, str]:
            for tool_id, fingerprint in value.items():
                source = tool_id.split(":")[0]
                if tool_id.count(":") < 2 or source not in SOURCES:
                    advice = did_you_mean(source, SOURCES)
                    raise ValueError(f"'{tool_id}' is not a tool's id, such as mcp:github:create_issue.{advice}")
                if not re.fullmatch(r"[0-9a-f]{16}", fingerprint):
                    raise ValueError(f"'{tool_id}' = '{fingerprint}': a fingerprint is 16 hex digits, as in the report")
            return value

        @field_validator("exclude")
        @classmethod
        def _check_exclude(cls, value: list[str]) -> list[str]:
            for pattern in value:
                ToolPattern(pattern)
            return value

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Config) -> AsyncGenerator[_SharedReport, None]:  # noqa: ARG003 - the protocol's parameter
        """One report for all sessions of the host."""
        yield _SharedReport()

    def __init__(self, config: Config, storage: Storage, shared: _SharedReport) -> None:
        self._config = config
        self._storage = storage
        self._report = shared
        self._excluded = [ToolPattern(pattern) for pattern in config.exclude]
        self._withholds = "withhold" in {config.on_change, config.on_new}

    @hooks.narrow_tools.last
    async def withhold(self, event: NarrowTools) -> Withhold | None:
        """Withhold what must be approved first."""
        names = await self._audit(event.tools) if self._withholds else []
        return (
            Withhold(names, "its definition is new or has changed, and nobody has approved it yet") if names else None
        )

    @hooks.after_tools_resolved
    async def report(self, event: AfterToolsResolved) -> None:
        """Report what is new and what has changed, where nothing can be withheld."""
        if not self._withholds:
            offered = [tool for tool in event.offered if tool.name not in event.catalog]
            await self._audit([*event.catalog, *offered])

    async def _audit(self, tools: Iterable[Tool]) -> list[str]:
        """Compare with what is recorded, record what is accepted, and answer the ids of what is not."""
        by_owner: dict[str, list[tuple[Tool, str]]] = {}
        for tool in tools:
            fingerprint = fingerprint_of(tool)
            if self._report.fingerprints.get(tool.id) != fingerprint and not self._is_excluded(tool):
                by_owner.setdefault(f"{tool.source}:{tool.owner}", []).append((tool, fingerprint))
        withheld: list[str] = []
        for owner, unsettled in by_owner.items():
            async with self._report.lock:
                withheld += await self._audit_owner(owner, unsettled)
        return withheld

    def _is_excluded(self, tool: Tool) -> bool:
        # The bridges of hooksdk's own plugins say how many tools they stand for, so they change with every catalog.
        return tool.bridge or any(pattern.matches(tool) for pattern in self._excluded)

    async def _audit_owner(self, owner: str, tools: Sequence[tuple[Tool, str]]) -> list[str]:
        records: Records = await self._storage.get(owner, {})
        accepted: list[tuple[Tool, str]] = []
        withheld: list[tuple[Tool, str]] = []
        new: list[tuple[Tool, str]] = []
        news = False
        for tool, fingerprint in tools:
            record = records.get(tool.own_name)
            if record is not None and record["fingerprint"] == fingerprint:
                accepted.append((tool, fingerprint))
                continue
            approved = self._config.approved.get(tool.id) == fingerprint
            closed = not approved and (self._config.on_new if record is None else self._config.on_change) == "withhold"
            if record is None and not approved:
                new.append((tool, fingerprint))
            elif record is not None and (approved or self._is_unreported(tool.id, fingerprint)):
                _report_change(tool, record, fingerprint, approved=approved, withheld=closed)
            if closed:
                withheld.append((tool, fingerprint))
            else:
                news = True
                records[tool.own_name] = _record(tool, fingerprint)
                accepted.append((tool, fingerprint))
        if self._config.on_new != "accept":
            unreported = [(tool, fingerprint) for tool, fingerprint in new if self._is_unreported(tool.id, fingerprint)]
            _report_new(owner, unreported, withheld=self._config.on_new == "withhold")
        if news:
            await self._storage.set(owner, records)
        self._report.fingerprints.update((tool.id, fingerprint) for tool, fingerprint in accepted)
        self._report.reports.update((tool.id, fingerprint) for tool, fingerprint in withheld)
        return [tool.id for tool, _ in withheld]

    def _is_unreported(self, tool_id: str, fingerprint: str) -> bool:
        return (tool_id, fingerprint) not in self._report.reports


def _parts(tool: Tool) -> dict[str, str]:
    parts = {"description": tool.description, "schema": tool.parameters, "annotations": asdict(tool.annotations)}
    return {name: schema.fingerprint(part) for name, part in parts.items()}


def _record(tool: Tool, fingerprint: str) -> dict[str, str]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"fingerprint": fingerprint, **_parts(tool), "recorded": now}


def _report_change(tool: Tool, record: dict[str, str], fingerprint: str, *, approved: bool, withheld: bool) -> None:
    changed = [name for name, part in _parts(tool).items() if record.get(name) != part]
    facts: dict[str, Any] = {
        "plugin": "catalog_audit", "tool": tool.id, "changed": changed, "old": record["fingerprint"],
        "new": fingerprint, "withheld": withheld,
    }  # fmt: skip
    if approved:
        consequence = "which is approved"
    elif withheld:
        approve = f"{_quoted(tool.id)} = {_quoted(fingerprint)}"
        consequence = f"so it is withheld; if that is right, add to [plugins.catalog_audit.config.approved]: {approve}"
    else:
        consequence = "and is used as it is now"
    logger.log(
        logging.INFO if approved else logging.WARNING, "tool %s has another %s than when it was recorded at %s (%s -> %s), %s",
        _quoted(tool.id), " and ".join(changed), record.get("recorded"), record["fingerprint"], fingerprint, consequence,
        extra=facts,
    )  # fmt: skip


def _report_new(owner: str, tools: Sequence[tuple[Tool, str]], *, withheld: bool) -> None:
    if not tools:
        return
    entries = ", ".join(f"{_quoted(tool.id)} = {_quoted(fingerprint)}" for tool, fingerprint in tools[:MAX_NAMED])
    more = f" and {len(tools) - MAX_NAMED} more" if len(tools) > MAX_NAMED else ""
    consequence = ", withheld until they are in [plugins.catalog_audit.config.approved]" if withheld else ""
    logger.warning(
        "%d tools of %s were never seen before%s: %s%s", len(tools), _quoted(owner), consequence, entries, more,
        extra={"plugin": "catalog_audit", "tools": [tool.id for tool, _ in tools], "withheld": withheld},
    )  # fmt: skip


def _quoted(text: str) -> str:
    """As it stands in TOML, in one line whatever a server has put into its names."""
    return json.dumps(text if len(text) <= 300 else text[:299] + "…")
