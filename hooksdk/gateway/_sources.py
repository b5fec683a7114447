"""Where a gateway's tools come from. They are looked at before each request, and no server is asked anything for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, final

import anyio

from hooksdk.tools import Tool

if TYPE_CHECKING:
    from hooksdk.mcp import SignInPage

FIRST_LISTINGS = 8.0
"""Seconds that a request waits for servers that were never listed: clients do not reliably take tools that come later, and the
least patient of them gives a new server ten seconds."""


class ToolSource(Protocol):
    """Where the gateway's tools come from, such as `McpServers`.

    What else a source has of that one's is used: `missing`, the owners whose tools should be there and why they are not;
    `catch_up()`, awaited before each request, which answers None where nothing has changed; `tools_known()`, which waits until the tools of
    all owners are known for the first time; `signed_out` and `open_page()`, for owners that wait for a person to sign in; `files`, the paths of the files that describe the owners: approvals are found again
    after a restart by a gateway in front of the same ones.
    """

    def tools(self) -> Sequence[Tool]:
        """The tools as they are now. Asked before each call, so it answers at once; the same list while nothing has changed
        costs nothing."""
        ...


@final
class Sources:
    """All sources of a gateway as one."""

    def __init__(self, sources: Sequence[ToolSource]) -> None:
        self._sources = sources
        self._until: float | None = None
        """Until when first listings are waited for."""

    def look(self) -> tuple[list[Tool], dict[str, str]]:
        """The tools, and what is missing of them by owner."""
        tools: list[Tool] = []
        missing: dict[str, str] = {}
        for source in self._sources:
            tools += source.tools()
            known: Mapping[str, str] = getattr(source, "missing", {})
            missing |= known
        return tools, missing

    def signed_out(self) -> dict[str, str]:
        """The owners that wait for a person to sign in, and what is to be done."""
        owners: dict[str, str] = {}
        for source in self._sources:
            known: Mapping[str, str] = getattr(source, "signed_out", {})
            owners |= known
        return owners

    async def open_page(self, owner: str) -> SignInPage | None:
        """A page on which a person signs in to one of them."""
        for source in self._sources:
            if owner in getattr(source, "signed_out", {}):
                open_page: Callable[[str], Awaitable[SignInPage | None]] = cast("Any", source).open_page
                return await open_page(owner)
        return None

    def files(self) -> list[str]:
        """Where the owners are described."""
        named: list[str] = []
        for source in self._sources:
            paths: Sequence[str] = getattr(source, "files", ())
            named += [str(Path(path).resolve()) for path in paths]
        return named

    async def catch_up(self) -> None:
        """Let the sources apply what has changed on their side."""
        for catch_up in self._methods("catch_up"):
            if await catch_up():
                self._until = None

    async def listed(self) -> None:
        """Wait for first listings, for a while in all."""
        waits = self._methods("tools_known")
        if not waits:
            return
        if self._until is None:
            self._until = anyio.current_time() + FIRST_LISTINGS
        if anyio.current_time() < self._until:
            with anyio.CancelScope(deadline=self._until):
                for wait in waits:
                    await wait()

    def _methods(self, name: str) -> list[Callable[[], Awaitable[Any]]]:
        return [method for source in self._sources if (method := getattr(source, name, None)) is not None]
