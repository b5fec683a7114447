"""Clients of protocol 2025-11-25 over HTTP whose connection breaks: their answers are kept for them, and their calls for a while.

The protocol says that a client that has gone has not cancelled anything: it may ask for what it has missed by the id of the last
event that it got. One that does not come back would leave its call running until the call's time limit.
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

GRACE = 30.0
"""Seconds for which a call goes on whose client has gone and does not listen to it again."""
MOST_EVENTS = 500
MOST_CHARS = 2_000_000
"""What is kept of one session at most; the newest answer always is."""
_LINE = "hooksdk.line"
"""Where in the scope of a request its connection is."""


@dataclass(frozen=True, slots=True)
class _Event:
    id: str
    stream: str
    message: types.JSONRPCMessage | None
    """None for one that only has an id: the place where a stream begins."""
    chars: int


@final
class Events(EventStore):
    """What one session was sent, so that it can be sent again; and who listens."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque()
        self._chars = 0
        self._last = 0
        self._listeners: dict[str, int] = {}
        self._news = anyio.Event()
        """Set when somebody comes or goes."""

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        """Keep a message of the stream that answers one request, or of the one that belongs to none. The answer is its id."""
        self._last += 1
        said = getattr(message, "result", None) or getattr(message, "params", None)
        event = _Event(str(self._last), stream_id, message, _chars(said))
        self._events.append(event)
        self._chars += event.chars
        while len(self._events) > MOST_EVENTS or (self._chars > MOST_CHARS and len(self._events) > 1):
            self._chars -= self._events.popleft().chars
        return event.id

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send again what a client has missed of one stream; None where nobody knows its last event any more."""
        stream = self.stream_of(last_event_id)
        if stream is not None:
            for event in [*self._events]:
                if event.stream == stream and int(event.id) > int(last_event_id) and event.message is not None:
                    await send_callback(EventMessage(event.message, event.id))
        return stream

    def stream_of(self, event_id: str) -> str | None:
        """Which stream an event was of; None where it is not known."""
        return next((event.stream for event in self._events if event.id == event_id), None)

    @contextmanager
    def listening(self, stream: str) -> Generator[None]:
        """While a client listens to this stream again."""
        self._listeners[stream] = self._listeners.get(stream, 0) + 1
        self.tell()
        try:
            yield
        finally:
            self._listeners[stream] -= 1
            if not self._listeners[stream]:
                del self._listeners[stream]
            self.tell()

    def tell(self) -> None:
        """Somebody has come or gone, or a call is over."""
        self._news.set()
        self._news = anyio.Event()

    async def wait_for_client(self, line: Line) -> bool:
        """Wait until a call is over whose connection has gone; cancel it where its client stays away. True where the client
        hears the answer on another connection."""
        call = line.call
        if call is None:
            return False
        while line.call is call:
            with anyio.move_on_after(GRACE) as patience:
                await self._news.wait()
            # The client may be back, or the call over, in the very moment in which the time is up.
            if patience.cancelled_caught and line.call is call and line.stream not in self._listeners:
                call.cancel()
                return False
        return line.stream in self._listeners


@final
class Line:
    """The connection that a request came on."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.stream = ""
        """What the stream of its answer is called."""
        self.call: anyio.CancelScope | None = None
        """What the request does, while it is served."""


_opened: ContextVar[list[Events] | None] = ContextVar("hooksdk stores of a session that is opened", default=None)


@final
class ResumableSessions(StreamableHTTPSessionManager):
    """The SDK's sessions, each with a store of its own: the SDK would share one, in which requests of different clients have the
    same names."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._stores = WeakValueDictionary[str, Events]()
        super().__init__(*arguments, **options)

    @property
    def event_store(self) -> EventStore:  # pyright: ignore[reportIncompatibleVariableOverride] - asked once for each session
        """The store of a session that is opened now."""
        events = Events()
        if (opened := _opened.get()) is not None:
            opened.append(events)
        return events

    @event_store.setter
    def event_store(self, _store: EventStore | None) -> None:
        """None is shared."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = Headers(scope=scope)
        events = self._stores.get(headers.get(MCP_SESSION_ID_HEADER, ""))
        if events is None:
            await self._open(scope, receive, send)
        elif scope["method"] == "POST":
            line = scope[_LINE] = Line(events)
            await super().handle_request(scope, receive, send)
            if await events.wait_for_client(line):
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


async def end_with_its_client(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Serve a request for as long as somebody may hear the answer. A middleware of the server."""
    line = cast("Line | None", ctx.request.scope.get(_LINE)) if ctx.request is not None else None
    if line is None or ctx.request_id is None:
        return await call_next(ctx)
    line.stream = str(ctx.request_id)
    with anyio.CancelScope() as call:
        line.call = call
        try:
            return await call_next(ctx)
        finally:
            line.call = None
            line.events.tell()
    raise MCPError(REQUEST_CANCELLED, "its client has gone and did not come back")


def _chars(value: Any) -> int:
    """About how long a value is as text."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _chars(one) for key, one in cast("dict[str, Any]", value).items())
    return sum(_chars(one) for one in cast("list[Any]", value)) if isinstance(value, list) else 8
