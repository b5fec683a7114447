"""MCP's two protocols: that of 2026-07-28, and the older one that begins with a handshake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, final

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from hooksdk.mcp._life import Life
from hooksdk.mcp._relay import ASKED, RunningCall, sent_for

# Seconds that a server has to say whether it speaks the newer protocol: some never answer a request that they do not
# know. One that only starts slowly is not mistaken for those, since it then answers the handshake in the same way.
PATIENCE = 3.0

# Seconds that a server has to answer a ping after a call was cancelled.
_PING_TIMEOUT = 5.0


def is_modern(protocol_version: str | None) -> bool:
    """True for the protocol without a handshake."""
    return protocol_version in MODERN_PROTOCOL_VERSIONS


async def agree(life: Life, session: ClientSession, *, handshake: bool) -> None:
    """Agree on the protocol with a server that has just been started: the newer one where it speaks both, or with
    `handshake` the older. Raises `MCPError` for a server that takes neither."""
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
        await session.discover()  # it speaks the newer one alone, or answers the question after all


async def answers(life: Life) -> bool:
    """True where a server whose call was cancelled still answers."""
    try:
        with anyio.move_on_after(_PING_TIMEOUT):
            assert life.session is not None
            await life.session.send_ping()
            life.doubtful = False
    except MCPError as error:
        life.doubtful = error.code == types.CONNECTION_CLOSED  # any other answer is an answer
    return not life.doubtful


@final
class LifeDispatcher(JSONRPCDispatcher[TransportContext]):
    """The messages of one start of a server, whose end it notes.

    A call in the protocol of 2026-07-28 is sent with the capabilities of the client that makes it, and not with those
    of all clients: servers act differently for clients that cannot answer their questions."""

    def __init__(self, life: Life, read: Any, write: Any) -> None:
        super().__init__(read, write)
        self._life = life

    async def run(self, *callbacks: Any, **options: Any) -> None:
        """Take the server's messages until its stream ends."""
        try:
            await super().run(*callbacks, **options)
        finally:
            self._life.ended.set()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send one request, and wait for its result. Raises `MCPError`."""
        call = sent_for.get()
        if call is not None and params is not None:
            params = declared(call, params)
        return await super().send_raw_request(method, params, opts, **related)


def declared(call: RunningCall, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a request, without capabilities that its client does not have."""
    meta = cast("dict[str, Any]", params.get("_meta") or {})
    allowed = cast("dict[str, Any] | None", meta.get(types.CLIENT_CAPABILITIES_META_KEY))
    if allowed is None:
        return params
    said = call.client.capabilities if call.client is not None else None
    able = said.model_dump(by_alias=True, mode="json", exclude_none=True) if said is not None else {}
    told = {kind: able.get(kind) if kind in ASKED else allowed[kind] for kind in allowed}
    capabilities = {kind: value for kind, value in told.items() if value is not None}
    return {**params, "_meta": {**meta, types.CLIENT_CAPABILITIES_META_KEY: capabilities}}
