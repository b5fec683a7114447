"""Clients of protocol 2025-11-25 over HTTP whose connection breaks: their answers are kept, and their calls go on for
a while.

By the protocol a broken connection cancels nothing: the client may ask for the events that it has missed, by the id
of the last one that it got. A client that does not come back would leave its call running until the call's time
limit, so the call is cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast, final
from weakref import WeakValueDictionary

import anyio
import mcp_types as types
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
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from hooksdk.gateway._answers import was_delivered

# Seconds for which a call goes on after its client's connection has broken.
GRACE = 30.0
MOST_EVENTS = 500
# The events of one session, and their characters, that are kept at most; the newest answer always is.
MOST_CHARS = 2_000_000
# The key of a request's `RequestConnection` in its ASGI scope.
_CONNECTION = "hooksdk.connection"


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
