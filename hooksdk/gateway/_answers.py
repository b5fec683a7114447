"""Delivery of answers to clients. A call is over for its client once the answer was given to the transport: a gateway
that dies before that leaves the call in doubt."""

from __future__ import annotations

import weakref
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


class Confirm(Protocol):
    """Notes of a call that has ended that the client has its result, or that it never will: `JudgedCall.confirm` is
    one."""

    def __call__(self, *, arrived: bool = True) -> None: ...


@final
class Undelivered:
    """Results of one session's calls, each with the call's `confirm`, until a request takes the result to the
    client."""

    def __init__(self) -> None:
        self._confirms: dict[int, Confirm] = {}

    def add(self, result: object, confirm: Confirm) -> None:
        """Remember how to confirm a result, for as long as the result is there."""
        self._confirms[id(result)] = confirm
        weakref.finalize(result, self._confirms.pop, id(result), None)

    def take(self, result: object) -> Confirm | None:
        """The `confirm` of this result's call, for the caller that delivers the result; None for a result of no
        call."""
        return self._confirms.pop(id(result), None)


@final
class Answer:
    """The answer to one request."""

    def __init__(self) -> None:
        self._confirms: list[Confirm] = []
        self._is_over = False

    def take(self, confirm: Confirm) -> None:
        """Confirm a call, whose result the answer has, when the answer was delivered."""
        if self._is_over:
            confirm(arrived=False)
        else:
            self._confirms.append(confirm)

    def end(self, *, delivered: bool) -> None:
        """Confirm its calls: the answer was given to the transport, or never will be."""
        self._is_over = True
        for confirm in self._confirms:
            confirm(arrived=delivered)
        self._confirms.clear()


def was_delivered(scope: Scope) -> None:
    """Note that the answer to this request was delivered on another connection."""
    scope[_KEY].end(delivered=True)


@dataclass(frozen=True)
class Connection:
    """A connection over streams, or one in this process."""

    key: str
    by_streams: bool


_by_streams: ContextVar[bool] = ContextVar("hooksdk gateway streams", default=False)
_current: ContextVar[Answer | None] = ContextVar("hooksdk gateway answer", default=None)


def deliver(confirm: Confirm | None, context: ServerRequestContext[Connection, Any]) -> None:
    """Confirm a call when the answer to this request, which the current task makes of its result, was delivered. A
    client in this process has it at once."""
    if confirm is None:
        return
    if context.request is not None:
        context.request.scope[_KEY].take(confirm)
    elif context.lifespan_context.by_streams:
        answer = Answer()
        answer.take(confirm)
        _current.set(answer)
    else:
        confirm()


def connection_of(key: str) -> Connection:
    """The connection that begins in the current task."""
    return Connection(key, _by_streams.get())


@contextmanager
def over_streams() -> Generator[None]:
    """Note that connections which begin within the block answer through a `StreamAnswers`."""
    token = _by_streams.set(True)
    try:
        yield
    finally:
        _by_streams.reset(token)


@final
class StreamAnswers(AsyncResource):
    """The stream to a client. An answer is delivered when `send` of the stream below has returned."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage) -> None:
        answer = _current.get() if isinstance(item.message, (types.JSONRPCResponse, types.JSONRPCError)) else None
        delivered = False
        try:
            await self._stream.send(item)
            delivered = True
        finally:
            if answer is not None:
                answer.end(delivered=delivered)

    async def aclose(self) -> None:
        await self._stream.aclose()


@final
class HttpAnswers:
    """An ASGI application. An answer is delivered when the server below has taken the whole response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = scope[_KEY] = Answer()
        delivered = False

        async def watched(message: Message) -> None:
            nonlocal delivered
            await send(message)
            delivered = delivered or (message["type"] == "http.response.body" and not message.get("more_body", False))

        try:
            await self._app(scope, receive, watched)
        finally:
            answer.end(delivered=delivered)
