"""What the rules of a project say of the tools that runs were granted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hooksdk.patterns import SOURCES
from hooksdk.report._model import CatalogTool, PolicyLine, Run
from hooksdk.rules import Rules
from hooksdk.rules.verdicts import case_words, hint_words, riskiest_first, verdict_of
from hooksdk.tools import Annotations, Tool


def policy_lines(runs: Sequence[Run], policies: Mapping[str, Rules]) -> list[PolicyLine]:
    """A line for each tool that a run was granted, as it says of itself in the newest of them."""
    if not policies:
        return []
    verdicts = riskiest_first(verdict_of(tool, policies) for tool in _tools(runs))
    return [
        PolicyLine(
            tool=one.tool.id, verdict=one.words, says=hint_words(one.tool.annotations), decided_by=case_words(one)
        )
        for one in verdicts
    ]


def _tools(runs: Sequence[Run]) -> Iterator[Tool]:
    listed: dict[str, CatalogTool] = {}
    for run in runs:
        for catalog in run.catalogs[-1:]:
            listed |= {tool.tool: tool for tool in catalog.tools or () if tool.place != "bridge"}
    for tool_id, tool in listed.items():
        parts = tool_id.split(":", 2)
        if len(parts) < 3 or parts[0] not in SOURCES:  # a trace that somebody else wrote
            continue
        said = {name: value for name, value in tool.annotations.items() if name in Annotations.names()}
        yield Tool(
            name=tool.name or parts[2],
            own_name=parts[2],
            source=parts[0],
            owner=parts[1],
            annotations=Annotations(**said),
        )
