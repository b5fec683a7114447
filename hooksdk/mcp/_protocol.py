"""Which of MCP's two protocols a server speaks: that of 2026-07-28, or the older one that begins with a handshake."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

logger = logging.getLogger("hooksdk")

PATIENCE = 3.0
"""Seconds that a server has to say whether it speaks the newer protocol: some leave a request that they do not know without an
answer. One that only starts slowly is not mistaken for them, since it answers the handshake in the same way."""
_PAUSE = 5.0
"""Seconds before a lost stream of changes is opened again."""


def is_modern(protocol_version: str | None) -> bool:
    """True for the protocol without a handshake."""
    return protocol_version in MODERN_PROTOCOL_VERSIONS


class DiedOfTheQuestion(Exception):
    """The server ended when it was asked something before the handshake."""


async def agree(session: ClientSession, *, handshake: bool) -> None:
    """Settle the protocol with a server that has just been started: the newer one where it speaks both, or with `handshake` the
    older. Raises `DiedOfTheQuestion`, and `MCPError` for a server that takes neither."""
    if not handshake:
        with anyio.move_on_after(PATIENCE):
            try:
                await session.discover()
            except MCPError as error:
                if error.code == types.CONNECTION_CLOSED:
                    raise DiedOfTheQuestion from None
            except (RuntimeError, ValidationError):
                pass  # an answer that names older versions alone, or is none
            else:
                return
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()  # it knows the newer one alone, or has heard the question after all


async def hear_changes(session: ClientSession, on_change: Callable[[], Awaitable[None]]) -> None:
    """Hear of changed lists from a server of the newer protocol, which tells nobody who does not ask; from one of the older
    they come by themselves. Ends when the server does not tell."""
    said = session.server_capabilities
    if not is_modern(session.protocol_version) or said is None or said.tools is None or not said.tools.list_changed:
        return
    while True:
        try:
            async with listen(session, tools_list_changed=True) as changes:
                async for _ in changes:
                    await on_change()
        except SubscriptionLost:
            await anyio.sleep(_PAUSE)
            await on_change()  # it may have changed meanwhile
        except MCPError as error:
            logger.debug("an MCP server does not tell of changes: %s", error)
            return
        else:
            return  # the server has ended it
