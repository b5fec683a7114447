"""Notice when a tool is no longer the one that was trusted, and when a new one is not what it seems.

The definition of every granted tool is kept as fingerprints in the plugin's storage, by source and owner, for all
sessions of the store. A definition that changed, a name that looks like a known one, text that people do not see and
orders to the model are reported, or the tool is withheld until somebody approves it. If something may be withheld, the
audit is part of narrowing the tools, and a definition is recorded before its tool is granted. Otherwise the audit runs
in the background.

Status: stable.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Literal

import anyio
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from builtin_plugins.catalog_audit._definition import Records, fingerprint_of, new_record, owner_of
from builtin_plugins.catalog_audit._log import report
from builtin_plugins.catalog_audit._review import Action, Finding, KnownNames, Review, review_tool
from hooksdk import Storage, Tool, hooks
from hooksdk.config import Notice
from hooksdk.errors import did_you_mean
from hooksdk.hooks import AfterToolsResolved, NarrowTools, Withhold
from hooksdk.patterns import SOURCES, ToolPattern, check_patterns, near_misses

__all__ = ["CatalogAudit", "Finding", "Review", "fingerprint_of"]


@dataclass
class _SharedReport:
    """The tools that all sessions of a host have seen.

    Attributes:
        fingerprints: The fingerprints of tools that are as recorded, by id.
        reports: Id and fingerprint of each withheld tool that was reported.
    """

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    fingerprints: dict[str, str] = field(default_factory=dict[str, str])
    reports: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


class CatalogAudit:
    """Report or withhold tools whose definition has changed, new ones, and ones that are not what they seem."""

    class Config(BaseModel):
        """Settings.

        Attributes:
            on_change: `report`: the change is logged once, and the new definition counts from then on. `withhold`: the
                tool is withheld until it is approved.
            on_new: What happens with a tool that is new.
            on_lookalike: What happens with a new tool whose name resembles that of a known one.
            hidden_text: What happens with a tool whose definition holds text that people do not see.
            instructions: What happens with a tool whose texts look like orders to the model.
            approved: Approved definitions: tool id to fingerprint, as the log shows them.
            exclude: Patterns of tools that are not audited.
        """

        model_config = ConfigDict(extra="forbid")
        on_change: Literal["report", "withhold"] = "report"
        on_new: Action = "accept"
        on_lookalike: Action = "report"
        hidden_text: Action = "report"
        instructions: Action = "report"
        approved: dict[str, str] = Field(default_factory=dict)
        exclude: Annotated[list[str], AfterValidator(check_patterns)] = Field(default_factory=list[str])

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

    @classmethod
    def diagnose(cls, config: Config, tools: Sequence[Tool] | None) -> Iterator[str]:
        """The findings of `hooksdk doctor`: tools that a pattern of `exclude` nearly matches."""
        patterns = map(ToolPattern, config.exclude)
        yield from (Notice(f"exclude: {line}") for line in near_misses(patterns, tools or (), exact=True))

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
        actions = {config.on_change, config.on_new, config.on_lookalike, config.hidden_text, config.instructions}
        self._withholds = "withhold" in actions

    @hooks.narrow_tools.last
    async def withhold(self, event: NarrowTools) -> Withhold | None:
        """Withhold tools that must be approved first."""
        if not self._withholds or not (names := await self._audit(event.tools)):
            return None
        reason = "its definition is new, has changed or is suspect, and nobody has approved it yet"
        return Withhold(names, reason)

    @hooks.after_tools_resolved
    async def observe(self, event: AfterToolsResolved) -> None:
        """Report new and changed tools, if nothing can be withheld."""
        if not self._withholds:
            offered = [tool for tool in event.offered if tool.name not in event.catalog]
            await self._audit([*event.catalog, *offered])

    async def review(self, tools: Iterable[Tool]) -> list[Review]:
        """The findings about these tools, without excluded ones. Nothing is recorded or logged."""
        tools = [tool for tool in tools if not self._is_excluded(tool)]
        names = await self._known_names(tools) if tools else None
        return [review for own in _by_owner(tools).values() for review in await self._review(own, names)]

    async def approve(self, tools: Iterable[Tool]) -> None:
        """Record these tools as they are now, as approved."""
        for owner, own in _by_owner(tools).items():
            async with self._report.lock:
                records: Records = await self._storage.get(owner, {})
                fingerprints = {tool: fingerprint_of(tool) for tool in own}
                records |= {tool.own_name: new_record(tool, fingerprints[tool], approved=True) for tool in own}
                await self._storage.set(owner, records)

    async def _audit(self, tools: Iterable[Tool]) -> list[str]:
        """Compare the tools with their records, record accepted ones, and answer the ids of withheld ones."""
        tools = list(tools)
        known = self._report.fingerprints
        changed = [tool for tool in tools if known.get(tool.id) != fingerprint_of(tool)]
        unsettled = [tool for tool in changed if not self._is_excluded(tool)]
        names = await self._known_names(tools) if unsettled else None
        withheld: list[str] = []
        for owner, own in _by_owner(unsettled).items():
            async with self._report.lock:
                withheld += await self._settle(owner, await self._review(own, names))
        return withheld

    def _is_excluded(self, tool: Tool) -> bool:
        # A trusted search says how many tools it can find, so its definition changes with every catalog.
        return tool.search or any(pattern.matches(tool) for pattern in self._excluded)

    async def _review(self, tools: Sequence[Tool], names: tuple[KnownNames, set[str]] | None) -> list[Review]:
        """The findings about tools of one owner."""
        records: Records = await self._storage.get(owner_of(tools[0]), {})
        known, newcomers = names or (KnownNames(), set[str]())
        return [
            review_tool(tool, fingerprint_of(tool), records.get(tool.own_name), self._config, known, newcomers)
            for tool in tools
        ]

    async def _known_names(self, catalog: Sequence[Tool]) -> tuple[KnownNames, set[str]]:
        """The names of all tools that are recorded or in the catalog, and the ids of those in the catalog alone."""
        known, recorded = KnownNames(), set[str]()
        for owner in await self._storage.keys():
            stored: dict[str, object] = await self._storage.get(owner, {})
            recorded.update(f"{owner}:{name}" for name in stored)
        ids = {tool.id for tool in catalog}
        for tool_id in (*recorded, *ids):
            known.add(tool_id)
        return known, {tool.id for tool in catalog if tool.id not in recorded and not self._is_excluded(tool)}

    async def _settle(self, owner: str, reviews: Sequence[Review]) -> list[str]:
        """Record accepted tools, report findings, and answer the ids of withheld tools."""
        withheld = [review for review in reviews if review.withheld]
        news = [review for review in reviews if not review.withheld and not _is_recorded(review)]
        seen = {(review.tool.id, review.fingerprint) for review in withheld} & self._report.reports
        report(owner, [review for review in reviews if (review.tool.id, review.fingerprint) not in seen])
        if news:
            records: Records = await self._storage.get(owner, {})
            for review in news:
                records[review.tool.own_name] = new_record(review.tool, review.fingerprint, approved=review.approved)
            await self._storage.set(owner, records)
        accepted = (review for review in reviews if not review.withheld)
        self._report.fingerprints.update((review.tool.id, review.fingerprint) for review in accepted)
        self._report.reports.update((review.tool.id, review.fingerprint) for review in withheld)
        return [review.tool.id for review in withheld]


def _by_owner(tools: Iterable[Tool]) -> dict[str, list[Tool]]:
    owners: dict[str, list[Tool]] = {}
    for tool in tools:
        owners.setdefault(owner_of(tool), []).append(tool)
    return owners


def _is_recorded(review: Review) -> bool:
    """True when the record is complete."""
    record = review.record
    if not review.unchanged or record is None or "label" not in record:
        return False
    return "approved" in record or not review.approved
