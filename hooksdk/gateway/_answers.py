"""Delivery of answers to clients, also to those whose connection breaks.

A call is over for its client once the answer was given to the transport: a gateway that dies before that leaves the
call in doubt.

By protocol 2025-11-25 a broken connection over HTTP cancels nothing: the client may ask for the events that it has
missed, by the id of the last one that it got. So answers are kept, and calls go on for a while. A client that does not
come back would leave its call running until the call's time limit, so the call is cancelled.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, cast, final
from weakref import WeakValueDictionary

import anyio
import mcp_types as types
from anyio.abc import AsyncResource
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http import (
    LAST_EVENT_ID_HEADER,
    MCP_SESSION_ID_HEADER,
    REQUEST_CANCELLED,
    EventCallback,
    EventMessage,
    EventStore,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_KEY = "hooksdk.answer"
# Seconds for which a call goes on after its client's connection has broken.
GRACE = 30.0
MOST_EVENTS = 500
# The events of one session, and their characters, that are kept at most; the newest answer always is.
MOST_CHARS = 2_000_000
# The key of a request's `RequestConnection` in its ASGI scope.
_CONNECTION = "hooksdk.connection"


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


@dataclass(frozen=True, slots=True)
class _Event:
    id: str
    stream: str
    # None for the event that begins a stream, which only has an id.
    message: types.JSONRPCMessage | None
    chars: int


@final
class Events(EventStore):
    """The events that one session was sent, so that they can be sent again, and the streams that its client listens
    to."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque()
        self._chars = 0
        self._last = 0
        self._listeners: dict[str, int] = {}
        # Set, and replaced, when a client comes back or goes, and when a call is over.
        self._news = anyio.Event()

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        """Keep a message of a stream, and give it an id. A stream answers one request, or belongs to none."""
        self._last += 1
        said = getattr(message, "result", None) or getattr(message, "params", None)
        event = _Event(str(self._last), stream_id, message, _chars(said))
        self._events.append(event)
        self._chars += event.chars
        while len(self._events) > MOST_EVENTS or (self._chars > MOST_CHARS and len(self._events) > 1):
            self._chars -= self._events.popleft().chars
        return event.id

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the events of a stream again that a client has missed; None where its last event is not kept any
        more."""
        stream = self.stream_of(last_event_id)
        if stream is not None:
            for event in [*self._events]:
                if event.stream == stream and int(event.id) > int(last_event_id) and event.message is not None:
                    await send_callback(EventMessage(event.message, event.id))
        return stream

    def stream_of(self, event_id: str) -> str | None:
        """The stream of an event; None where the event is not kept any more."""
        return next((event.stream for event in self._events if event.id == event_id), None)

    @contextmanager
    def listening(self, stream: str) -> Generator[None]:
        """Note that a client listens to this stream again within the block."""
        self._listeners[stream] = self._listeners.get(stream, 0) + 1
        self.tell_news()
        try:
            yield
        finally:
            self._listeners[stream] -= 1
            if not self._listeners[stream]:
                del self._listeners[stream]
            self.tell_news()

    def tell_news(self) -> None:
        """Wake those that wait for a client or for a call."""
        self._news.set()
        self._news = anyio.Event()

    async def wait_for_client(self, connection: RequestConnection) -> bool:
        """Wait for the end of a call whose connection has broken; cancel the call where its client stays away. True
        where the client hears the answer on another connection."""
        call = connection.call
        if call is None:
            return False
        while connection.call is call:
            with anyio.move_on_after(GRACE) as patience:
                await self._news.wait()
            # The client may be back, or the call over, in the very moment in which the time is up.
            if patience.cancelled_caught and connection.call is call and connection.stream not in self._listeners:
                call.cancel()
                return False
        return connection.stream in self._listeners


@final
class RequestConnection:
    """The connection that a request came on.

    Attributes:
        stream: The name of the stream that answers the request.
        call: The scope in which the request is served; None before and after that.
    """

    def __init__(self, events: Events) -> None:
        self.events = events
        self.stream = ""
        self.call: anyio.CancelScope | None = None


_opened: ContextVar[list[Events] | None] = ContextVar("hooksdk stores of a session that is opened", default=None)


@final
class ResumableSessions(StreamableHTTPSessionManager):
    """The SDK's sessions, each with a store of events of its own. The SDK would share one store, in which requests of
    different clients have the same names."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._stores = WeakValueDictionary[str, Events]()
        super().__init__(*arguments, **options)

    @property
    def event_store(self) -> EventStore:  # pyright: ignore[reportIncompatibleVariableOverride] - read once a session
        """A new store, for the session that is just being opened."""
        events = Events()
        if (opened := _opened.get()) is not None:
            opened.append(events)
        return events

    @event_store.setter
    def event_store(self, _store: EventStore | None) -> None:
        """Ignore the SDK's own, which all sessions would share."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = Headers(scope=scope)
        events = self._stores.get(headers.get(MCP_SESSION_ID_HEADER, ""))
        if events is None:
            await self._open(scope, receive, send)
        elif scope["method"] == "POST":
            connection = scope[_CONNECTION] = RequestConnection(events)
            await super().handle_request(scope, receive, send)
            if await events.wait_for_client(connection):
                was_delivered(scope)
        elif scope["method"] == "GET" and (stream := events.stream_of(headers.get(LAST_EVENT_ID_HEADER, ""))):
            with events.listening(stream):
                await super().handle_request(scope, receive, send)
        else:
            await super().handle_request(scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        opened: list[Events] = []
        token = _opened.set(opened)

        async def watched(message: Message) -> None:
            if opened and message["type"] == "http.response.start":
                session_id = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if session_id is not None:
                    self._stores[session_id] = opened[-1]
            await send(message)

        try:
            await super().handle_request(scope, receive, watched)
        finally:
            _opened.reset(token)


async def end_with_client(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Serve a request for as long as its client may hear the answer. A middleware of the server."""
    connection: RequestConnection | None = None if ctx.request is None else ctx.request.scope.get(_CONNECTION)
    if connection is None or ctx.request_id is None:
        return await call_next(ctx)
    connection.stream = str(ctx.request_id)
    with anyio.CancelScope() as call:
        connection.call = call
        try:
            return await call_next(ctx)
        finally:
            connection.call = None
            connection.events.tell_news()
    raise MCPError(REQUEST_CANCELLED, "its client has gone and did not come back")


def _chars(value: Any) -> int:
    """The approximate length of a value as text."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _chars(one) for key, one in cast("dict[str, Any]", value).items())
    return sum(_chars(one) for one in cast("list[Any]", value)) if isinstance(value, list) else 8
