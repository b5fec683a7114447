"""Where a gateway's tools come from. They are looked at before each request, and no server is asked anything for
that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, final

import anyio

from hooksdk.mcp import Features, ServerOffer, current_client
from hooksdk.tools import Tool

if TYPE_CHECKING:
    from hooksdk.mcp import SignInPage

FIRST_LISTINGS = 8.0
"""Seconds that a request waits for servers that were never listed: clients do not reliably take tools that come
later, and most give a new server ten seconds."""
LESS_PATIENT = {"claude-code": 4.0}
"""The same for clients of these names. `claude mcp list` gives a list of tools five seconds, and says then that it
failed; in its sessions Claude Code takes tools that come later."""


class ToolSource(Protocol):
    """Where the gateway's tools come from, such as `McpServers`.

    What else a source has of that one's is used: `missing`, the owners whose tools should be there and why they are
    not; `catch_up()`, awaited before each request, which answers None where nothing has changed; `tools_known()`,
    which waits until the tools of all owners are known for the first time; `features`, the prompts and resources of
    the owners, as those of `McpServers`; `release(session_id)`, told when a client's session is over; `signed_out`
    and `open_page()`, for owners that wait for a person to sign in; `files`, the paths of the files that describe the
    owners: approvals are found again after a restart by a gateway in front of the same ones.
    """

    def tools(self) -> Sequence[Tool]:
        """The tools as they are now. Asked before each call, so it answers at once; the same list while nothing has
        changed costs nothing."""
        ...


@final
class Sources:
    """All sources of a gateway as one."""

    def __init__(self, sources: Sequence[ToolSource]) -> None:
        self._sources = sources
        self._until: dict[str, float] = {}
        """Until when first listings are waited for, by whose client waits: some servers are listed for each."""

    def look(self) -> tuple[list[Tool], dict[str, str]]:
        """The tools, and what is missing of them by owner."""
        tools: list[Tool] = []
        missing: dict[str, str] = {}
        for source in self._sources:
            tools += source.tools()
            known: Mapping[str, str] = getattr(source, "missing", {})
            missing |= known
        return tools, missing

    @property
    def features(self) -> list[Features]:
        """What there is beside the tools."""
        return [known for source in self._sources if (known := getattr(source, "features", None)) is not None]

    def offers(self) -> list[ServerOffer]:
        """What each owner offers."""
        return [offer for features in self.features for offer in features.offers()]

    def features_of(self, server: str) -> Features:
        """Those that this server's are among. Raises `LookupError` where it is gone."""
        for known in self.features:
            if any(offer.server == server for offer in known.offers()):
                return known
        raise LookupError(f"the server '{server}' is not there any more")

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
                self._until.clear()

    async def listed(self, client_name: str = "") -> None:
        """Wait for first listings, for a while in all. `client_name` is what the client says that it is."""
        waits = self._methods("tools_known")
        if not waits:
            return
        client = current_client.get()
        seconds = min(FIRST_LISTINGS, LESS_PATIENT.get(client_name, FIRST_LISTINGS))
        until = self._until.setdefault(client.holder if client else "", anyio.current_time() + seconds)
        if anyio.current_time() < until:
            with anyio.CancelScope(deadline=until):
                for wait in waits:
                    await wait()

    def release(self, session_id: str) -> None:
        """A client's session is over: so is what the sources have for it alone."""
        for source in self._sources:
            release: Callable[[str], None] | None = getattr(source, "release", None)
            if release is not None:
                release(session_id)

    def _methods(self, name: str) -> list[Callable[[], Awaitable[Any]]]:
        return [method for source in self._sources if (method := getattr(source, name, None)) is not None]
