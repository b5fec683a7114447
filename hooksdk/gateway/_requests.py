"""Which requests are open, so that a gateway that ends answers each."""

from __future__ import annotations

from typing import final

import anyio
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hooksdk.gateway._metrics import Metrics

AGAIN_IN = 5
"""Seconds after which a client may try once more: another gateway may have taken the place of this one."""


@final
class OpenRequests:
    """An ASGI application in front of the protocol's: it knows which requests wait for their answers, and which only listen.
    While it closes it takes no new ones; that a client leaves is heard to the end."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self.open = 0
        """Requests that wait for their answers."""
        self.closing = False
        self._listeners = 0
        self._over = anyio.Event()
        self._fewer = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method == "DELETE":
            await self._app(scope, receive, send)
        elif self.closing:
            self._metrics.refuse("stopping")
            refusal = PlainTextResponse(
                "the gateway is stopping", 503, {"Retry-After": str(AGAIN_IN), "Connection": "close"}
            )
            await refusal(scope, receive, send)
        elif method == "GET" or dict(scope["headers"]).get(b"mcp-method") == b"subscriptions/listen":
            self._listeners += 1
            try:
                await self._listen(scope, receive, send)
            finally:
                self._listeners -= 1
                self._fewer.set()
        else:
            self.open += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self.open -= 1
                self._fewer.set()

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As long as the client is there; at the end the application hears that it left, and the client that this was all."""
        body = False

        async def next_message() -> Message:
            message: Message = {"type": "http.disconnect"}
            async with anyio.create_task_group() as either:

                async def take() -> None:
                    nonlocal message
                    message = await receive()
                    either.cancel_scope.cancel()

                either.start_soon(take)
                await self._over.wait()
                either.cancel_scope.cancel()
            return message

        async def watched(message: Message) -> None:
            nonlocal body
            body = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._app(scope, next_message, watched)
        if body and self._over.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def answered(self) -> None:
        """Wait until none waits for an answer."""
        while self.open:
            self._fewer = anyio.Event()
            await self._fewer.wait()

    async def end_listeners(self) -> None:
        """End the streams of those that only listen, and wait for it for a second."""
        self._over.set()
        with anyio.move_on_after(1):
            while self._listeners:
                self._fewer = anyio.Event()
                await self._fewer.wait()
