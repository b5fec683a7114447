"""Answers on their way to clients. A call is over for the client once its answer has been handed to the transport: a gateway that
dies before that leaves the call in doubt."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, final

import mcp_types as types
from anyio.abc import AsyncResource
from mcp.server.context import ServerRequestContext
from mcp.shared.message import SessionMessage
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_KEY = "hooksdk.answer"


class Arriving(Protocol):
    """A call that has ended, such as a `JudgedCall`, and whose client is about to hear of it."""

    def confirm(self, *, arrived: bool = True) -> None:
        """The client has its result, or never will."""
        ...


@final
class Answer:
    """The answer to one request."""

    def __init__(self) -> None:
        self._calls: list[Arriving] = []
        self._is_over = False

    def take(self, judged: Arriving) -> None:
        """It has the result of this call."""
        if self._is_over:
            judged.confirm(arrived=False)
        else:
            self._calls.append(judged)

    def end(self, *, left: bool) -> None:
        """It has left for the client, or never will."""
        self._is_over = True
        for judged in self._calls:
            judged.confirm(arrived=left)
        self._calls.clear()


def has_arrived(scope: Scope) -> None:
    """The answer to this request has left on another connection."""
    scope[_KEY].end(left=True)


@dataclass(frozen=True)
class Connection:
    """A connection by streams, or one in this process."""

    key: str
    by_streams: bool


_by_streams: ContextVar[bool] = ContextVar("hooksdk gateway streams", default=False)
_current: ContextVar[Answer | None] = ContextVar("hooksdk gateway answer", default=None)


def hand_over(judged: Arriving | None, context: ServerRequestContext[Connection, Any]) -> None:
    """The current task answers this request with the result of a call, where it does. A client in this process has it at once."""
    if judged is None:
        return
    if context.request is not None:
        context.request.scope[_KEY].take(judged)
    elif context.lifespan_context.by_streams:
        answer = Answer()
        answer.take(judged)
        _current.set(answer)
    else:
        judged.confirm()


def connection_of(key: str) -> Connection:
    """The connection that begins in the current task."""
    return Connection(key, _by_streams.get())


@contextmanager
def over_streams() -> Generator[None]:
    """Connections that begin within the block answer through a `StreamAnswers`."""
    token = _by_streams.set(True)
    try:
        yield
    finally:
        _by_streams.reset(token)


@final
class StreamAnswers(AsyncResource):
    """The stream to a client. What `send` of the one below has returned for has left."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage) -> None:
        answer = _current.get() if isinstance(item.message, (types.JSONRPCResponse, types.JSONRPCError)) else None
        left = False
        try:
            await self._stream.send(item)
            left = True
        finally:
            if answer is not None:
                answer.end(left=left)

    async def aclose(self) -> None:
        await self._stream.aclose()


@final
class HttpAnswers:
    """An ASGI application whose answers have left once the server below has taken the whole response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = scope[_KEY] = Answer()
        left = False

        async def watched(message: Message) -> None:
            nonlocal left
            await send(message)
            left = left or (message["type"] == "http.response.body" and not message.get("more_body", False))

        try:
            await self._app(scope, receive, watched)
        finally:
            answer.end(left=left)
