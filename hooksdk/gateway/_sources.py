"""The sources of a gateway's tools. They are looked at before each request, which asks no server anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, final

import anyio

from hooksdk.gateway._results import as_error, as_mcp
from hooksdk.mcp import Feature, Features, ServerOffer, current_client
from hooksdk.tools import Tool

if TYPE_CHECKING:
    from hooksdk.mcp import SignInPage

# Seconds that a request waits for servers that were never listed: not all clients take tools that come later, and most
# give a new server ten seconds.
FIRST_LISTINGS = 8.0
# The wait for clients of these names. `claude mcp list` gives a list of tools five seconds, and says then that it
# failed; in its sessions Claude Code takes tools that come later.
LESS_PATIENT = {"claude-code": 4.0}


class ToolSource(Protocol):
    """A source of the gateway's tools, such as `McpServers`.

    A source may have more members of `McpServers`, which are used where they are there:

    - `missing`: the owners whose tools should be there, and why they are not;
    - `catch_up()`: is awaited before each request, and answers None where nothing has changed;
    - `tools_known()`: waits until the tools of all owners are known for the first time;
    - `features`: the prompts and resources of the owners;
    - `release(session_id)`: is called when a client's session is over;
    - `signed_out` and `open_page()`: for owners that wait for a person to sign in;
    - `files`: the paths of the files that describe the owners. After a restart, a gateway in front of the same files
        finds approvals again.
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
        # The ends of the wait for first listings, by the token of the client: some servers are listed for each token.
        self._until: dict[str, float] = {}

    def look(self) -> tuple[list[Tool], dict[str, str]]:
        """The tools, and the owners whose tools are missing, each with the reason."""
        tools: list[Tool] = []
        missing: dict[str, str] = {}
        for source in self._sources:
            tools += source.tools()
        for known in self._members("missing"):
            missing |= known
        return tools, missing

    @property
    def features(self) -> list[Features]:
        """The prompts and resources of each source that has some."""
        return self._members("features")

    def offers(self) -> list[ServerOffer]:
        """The offers of all owners."""
        return [offer for features in self.features for offer in features.offers()]

    def features_of(self, server: str) -> Features:
        """The features of the source that has this server. Raises `LookupError` where the server is gone."""
        for known in self.features:
            if any(offer.server == server for offer in known.offers()):
                return known
        raise LookupError(f"the server '{server}' is not there any more")

    async def watch(self, feature: Feature, *, on: bool) -> None:
        """Begin or end to watch a resource for changes. Raises `MCPError` where that is not possible."""
        try:
            features = self.features_of(feature.server)
        except LookupError:
            return
        if (problem := await features.watch(feature, on=on)) is not None:
            raise as_error(as_mcp(problem, ""))

    def signed_out(self) -> dict[str, str]:
        """The owners that wait for a person to sign in, each with what the person is to do."""
        return {owner: cure for known in self._members("signed_out") for owner, cure in known.items()}

    async def open_page(self, owner: str) -> SignInPage | None:
        """A page on which a person signs in to an owner."""
        for source in self._sources:
            if owner in getattr(source, "signed_out", {}):
                return await cast("Any", source).open_page(owner)
        return None

    def files(self) -> list[str]:
        """The paths of the files that describe the owners."""
        return [str(Path(path).resolve()) for paths in self._members("files") for path in paths]

    async def catch_up(self) -> None:
        """Let the sources apply changes of their configuration."""
        for catch_up in self._members("catch_up"):
            if await catch_up():
                self._until.clear()

    async def listed(self, client_name: str = "") -> None:
        """Wait for servers that were never listed, for a few seconds in all. `client_name` is the client's own name
        for itself."""
        waits = self._members("tools_known")
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
        """Let the sources release what they have for a session that is over."""
        for release in self._members("release"):
            release(session_id)

    def _members(self, name: str) -> list[Any]:
        """The members of this name, of the sources that have one."""
        return [member for source in self._sources if (member := getattr(source, name, None)) is not None]
