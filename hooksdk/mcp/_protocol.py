"""Which of MCP's two protocols a server speaks: that of 2026-07-28, or the older one that begins with a handshake."""

from __future__ import annotations

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from hooksdk.mcp._life import Life

PATIENCE = 3.0
"""Seconds that a server has to say whether it speaks the newer protocol: some leave a request that they do not know without an
answer. One that only starts slowly is not mistaken for them, since it answers the handshake in the same way."""

_PING_TIMEOUT = 5.0
"""Seconds that a server has to answer a ping after a call was cancelled."""


def is_modern(protocol_version: str | None) -> bool:
    """True for the protocol without a handshake."""
    return protocol_version in MODERN_PROTOCOL_VERSIONS


async def agree(life: Life, session: ClientSession, *, handshake: bool) -> None:
    """Settle the protocol with a server that has just been started: the newer one where it speaks both, or with `handshake` the
    older. Raises `MCPError` for a server that takes neither."""
    if not handshake:
        with anyio.move_on_after(PATIENCE):
            try:
                await session.discover()
            except MCPError as error:
                life.frightened = error.code == types.CONNECTION_CLOSED
                if life.frightened:
                    raise
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


async def answers(life: Life) -> bool:
    """Whether a server whose call was cancelled goes on with others."""
    try:
        with anyio.move_on_after(_PING_TIMEOUT):
            assert life.session is not None
            await life.session.send_ping()
            life.doubtful = False
    except MCPError as error:
        life.doubtful = error.code == types.CONNECTION_CLOSED  # any other answer is an answer
    return not life.doubtful
