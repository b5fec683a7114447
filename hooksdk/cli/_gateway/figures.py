"""The price of a client's tools in each request, listed one by one and behind the gateway's search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from hooksdk import Config, Host, MemoryStore, Tool
from hooksdk.config import PluginConfig, fold
from hooksdk.errors import HookSDKError
from hooksdk.gateway import GatewayConfig, profile_of
from hooksdk.gateway.listing import ClientListing
from hooksdk.mcp import McpServers
from hooksdk.tools import Expose

_SEARCH = "tool_search"
# Seconds for the servers to start.
_PATIENCE = 20.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The tools of some servers, and the list that a client of the gateway gets of them.

    Attributes:
        tokens: Estimated tokens of all tools' schemas.
        behind: The tools of the search, and of those that are always shown.
        behind_tokens: Estimated tokens of their schemas.
        expose: The setting that counts for the client.
        hides: True where the client is shown the search.
        names: The tools as their servers call them.
        problems: The servers that did not start, each with the reason; their tools are in no figure.
    """

    tools: int
    tokens: int
    behind: int
    behind_tokens: int
    expose: Expose
    hides: bool
    names: frozenset[str] = frozenset()
    problems: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def saved(self) -> int:
        """Tokens that the search saves in each request."""
        return max(self.tokens - self.behind_tokens, 0)

    @property
    def shown(self) -> str:
        """What the client's model is shown, and the option that changes it."""
        if self.hides:
            return f"the search ({self.expose}); with --expose direct every tool"
        why = ": the search would save less than 2,000 tokens" if self.expose == "auto" else ""
        return f"every tool ({self.expose}){why}; with --expose bridge the search"

    def as_dict(self) -> dict[str, Any]:
        """The figures, as JSON."""
        fields = ("tools", "tokens", "behind", "behind_tokens", "saved", "expose", "hides")
        return {**{name: getattr(self, name) for name in fields}, "not_started": dict(self.problems)}

    def __str__(self) -> str:
        whole = f"{self.tools:,} tool{'' if self.tools == 1 else 's'}, {self.tokens:,} tokens in each request"
        return f"{whole}; behind the search {self.behind:,} tools, {self.behind_tokens:,}"


def measure(entries: Mapping[str, Any], config: Config, profile: str = "", expose: str | None = None) -> Figures:
    """Start these servers, count their tools, and end them. `expose` is what the command line says, which counts
    before the configuration's, as in `hooksdk gateway`."""
    settings = GatewayConfig.of(config)
    if expose:
        settings = settings.model_copy(update={"expose": expose})
    own = profile_of(settings, profile or None)[1].expose
    return anyio.run(partial(_measure, entries, config, settings, own or settings.expose))


async def _measure(entries: Mapping[str, Any], config: Config, settings: GatewayConfig, expose: Expose) -> Figures:
    quick, problems = dict[str, Any](), dict[str, str]()
    for name, entry in entries.items():
        one = {name: {**entry, "start_timeout": _PATIENCE}}
        try:
            McpServers(one)
            quick |= one
        except HookSDKError as error:  # as where the client's environment has a key, and this one has not
            problems[name] = str(error)
    async with McpServers(quick) as servers:
        tools = servers.tools()
        problems |= {one.name: one.problem or one.state for one in servers.status.values() if one.state != "up"}
    section = config.plugin(_SEARCH) or PluginConfig()
    is_on = section.enabled is not False and not any(fold(name) == _SEARCH for name in config.deny)
    search = {_SEARCH: {"enabled": is_on, "config": section.config}}
    trial = Config.model_validate({"allow": [_SEARCH], "plugins": search})
    async with Host(store=MemoryStore(), config=trial) as host:
        behind = await _listing(host, tools, "bridge", settings)
        shown = await _listing(host, tools, expose, settings)
    return Figures(
        tools=len(tools),
        tokens=sum(tool.tokens for tool in tools),
        behind=len(behind.tools),
        behind_tokens=behind.tokens,
        expose=expose,
        hides=any(one.name == _SEARCH for one in shown.tools),
        names=frozenset(tool.own_name or tool.name for tool in tools),
        problems=problems,
    )


async def _listing(host: Host, tools: list[Tool], expose: Expose, settings: GatewayConfig) -> ClientListing:
    async with (
        host.session() as session,
        session.run(
            expose=expose,
            transcript=False,
            metadata={"gateway": {"expose": expose}},
            context_window=settings.context_window,
        ) as run,
    ):
        offered = await run.resolve_tools(tools)
        return ClientListing(run.tools, offered, expose, frozenset(settings.trusted_hints), tools)
