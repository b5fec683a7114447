"""Shared by the tests of tool search: catalogs, and a host whose model is the test."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hooksdk import Tool, ToolCall
from hooksdk.hooks import AfterToolCall, BeforeToolCall, Trace
from hooksdk.records import CallStarted
from hooksdk.testing import Recorder
from hooksdk.tools import Source
from tests.stage import Stage, playing
from tests.stage import make as make_tool

BRIDGE = ["tool_search", "tool_describe", "tool_call"]


def make(
    name: str,
    description: str = "",
    owner: str = "github",
    *,
    source: Source = "mcp",
    required: Sequence[str] = (),
    core: bool | None = None,
    **properties: Any,
) -> Tool:
    """A tool whose parameters are given by keyword: a type's name, or a schema."""
    named = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in properties.items()}
    return make_tool(
        name, source=source, owner=owner, required=required, properties=named, description=description, core=core
    )


READ_FILE = make("read_file", "Read a file from the disk.", "core", source="host", path="string")
CREATE_ISSUE = make(
    "create_issue", "Create an issue in a repository.", required=["title"],
    title="string", labels={"type": "array", "items": {"type": "string"}}, state={"enum": ["open", "closed"]},
)  # fmt: skip
SEND_EMAIL = make("send_email", "Send an email message.", "gmail", required=["to"], to="string", count="integer")
GET_FORECAST = make("get_forecast", "Weather forecast for a city.", "weather", required=["city"], city="string")
CATALOG = [READ_FILE, CREATE_ISSUE, SEND_EMAIL, GET_FORECAST]


def filler(name: str, tokens: int, owner: str = "bulk") -> Tool:
    """A tool whose definition costs exactly so many tokens."""
    bare = make(name, "", owner)
    tool = make(name, "x" * max(0, 4 * (tokens - bare.tokens)), owner)
    assert tool.tokens == tokens
    return tool


class Search(Stage):
    """A stage with tool search."""

    @property
    def offered(self) -> list[str]:
        """The names that the model is shown."""
        return [tool.name for tool in self.run.offered]

    def new(self, name: str, arguments: object = None) -> ToolCall:
        """A call whose arguments are JSON, as a model writes them; text stays as it is."""
        return super().new(
            name, arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
        )

    async def search(self, *queries: str, **more: Any) -> dict[str, Any]:
        """What tool_search answers."""
        return json.loads((await self.call("tool_search", {"queries": list(queries), **more})).text)

    async def hits(self, query: str, **more: Any) -> list[str]:
        """The names that one query finds."""
        (group,) = (await self.search(query, **more))["results"]
        return [hit["name"] for hit in group["hits"]]

    async def describe(self, *names: str, **more: Any) -> dict[str, Any]:
        """What tool_describe answers."""
        return json.loads((await self.call("tool_describe", {"names": list(names), **more})).text)


def configuration(**config: Any) -> dict[str, Any]:
    """A host's configuration with tool search and nothing else that is installed."""
    return {"allow": ["tool_search"], "plugins": {"tool_search": {"config": config}}}


@asynccontextmanager
async def searching(
    tools: Sequence[Tool] = CATALOG,
    *plugins: Any,
    window: int | None = 200_000,
    enabled: object = "on",
    trigger: str = "user",
    **config: Any,
) -> AsyncGenerator[Search, None]:
    """A host, a session and a run whose tools are resolved."""
    config = configuration(enabled=enabled, **config)
    async with playing(*plugins, tools=tools, config=config, context_window=window, trigger=trigger) as stage:
        yield Search(stage.host, stage.session, stage.run)


HOOKS_OF_CALLS = ("before_tool_call", "after_tool_call", "trace")
Line = tuple[str, str, str, str | None]
"""Of a call: name, origin, id, and the id of the one that made it."""


def calls_seen(seen: type[Recorder]) -> tuple[list[Line], list[Line], list[tuple[str, str]]]:
    """The calls as they were judged, as the trace says that they began, and what became of each."""
    judged = [(one.call.name, one.call.origin, one.call.id, one.call.parent_id) for one in seen.of(BeforeToolCall)]
    records = [one.record for one in seen.of(Trace)]
    started = [(one.name, one.origin, one.call_id, one.parent_id) for one in records if isinstance(one, CallStarted)]
    return judged, started, [(one.call.name, one.status) for one in seen.of(AfterToolCall)]
