"""What a server of protocol 2026-07-28 is told with each request: what whoever is behind it can answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, final

import mcp_types as types
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext

from hooksdk.mcp._relay import ASKED, RunningCall, sent_for


@final
class DeclaringDispatcher(JSONRPCDispatcher[TransportContext]):
    """Sends a client's call with what that client can answer, and not with all that any client may be asked: a server does
    something else for one that cannot."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send one request, and wait for its result. Raises `MCPError`."""
        call = sent_for.get()
        if call is not None and params is not None:
            params = declared(call, params)
        return await super().send_raw_request(method, params, opts, **related)


def declared(call: RunningCall, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a request, without what its client cannot answer."""
    meta = cast("dict[str, Any]", params.get("_meta") or {})
    allowed = cast("dict[str, Any] | None", meta.get(types.CLIENT_CAPABILITIES_META_KEY))
    if allowed is None:
        return params
    said = call.client.capabilities if call.client is not None else None
    able = said.model_dump(by_alias=True, mode="json", exclude_none=True) if said is not None else {}
    told = {kind: able.get(kind) if kind in ASKED else allowed[kind] for kind in allowed}
    capabilities = {kind: value for kind, value in told.items() if value is not None}
    return {**params, "_meta": {**meta, types.CLIENT_CAPABILITIES_META_KEY: capabilities}}
