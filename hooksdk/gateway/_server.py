"""The MCP server that clients see. It takes each request to its client's session, tells of changes in the streams that
clients of the stateless protocol ask for, and serves a client at this process's stdin and stdout."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, final

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.abc import AsyncResource
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from hooksdk.errors import HookSDKError, RunBlocked
from hooksdk.gateway._answers import Connection, StreamAnswers, end_with_client, over_streams
from hooksdk.gateway._approvals import current_request
from hooksdk.gateway._client import CallingClient, Request
from hooksdk.gateway._metrics import Counts
from hooksdk.gateway._open_calls import Answer
from hooksdk.gateway._results import error, whole
from hooksdk.gateway._session import GatewaySession, SessionOf, call_in_session
from hooksdk.gateway._sources import Sources
from hooksdk.mcp import Feature, ScopeKey
from hooksdk.stores.files import write_all
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

NAME = "hooksdk"

P = TypeVar("P")
R = TypeVar("R")

Listen = Callable[[Request, types.SubscriptionsListenRequestParams], Awaitable[types.SubscriptionsListenResult]]
Lifespan = Callable[[Server[Connection]], AbstractAsyncContextManager[Connection]]
# Is told of a changed resource, and for which clients its server is.
Hear = Callable[[Feature, ScopeKey], None]
CHUNK = 64 * 1024
STDIN, STDOUT, STDERR = 0, 1, 2
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)


@final
class GatewayServer(Server[Connection]):
    """The MCP server that clients see: each request is served in its client's session."""

    def __init__(
        self,
        session_of: SessionOf,
        lifespan: Lifespan,
        listen: Listen,
        counts: Counts,
        instructions_for: Callable[[Request], str],
    ) -> None:
        self._session_of = session_of
        self._counts = counts
        super().__init__(
            NAME,
            version=importlib.metadata.version("hooksdk"),
            lifespan=lifespan,
            get_tool_input_schema=_no_header_schema,
            on_subscriptions_listen=listen,
            on_call_tool=self._call_tool,
            on_get_prompt=self._call_handler(
                lambda session, params, request, client: session.calls.get_prompt(params, request, client)
            ),
            on_read_resource=self._call_handler(
                lambda session, params, request, client: session.calls.read_resource(params, request, client)
            ),
            on_list_tools=self._listing(lambda session: session.offers.list_tools()),
            on_list_prompts=self._listing(lambda session: session.offers.list_prompts()),
            on_list_resources=self._listing(lambda session: session.offers.list_resources()),
            on_list_resource_templates=self._listing(lambda session: session.offers.list_templates()),
            on_subscribe_resource=self._handler(lambda session, params: session.offers.subscribe(params.uri)),
            on_unsubscribe_resource=self._handler(lambda session, params: session.offers.unsubscribe(params.uri)),
            on_completion=self._handler(lambda session, params: session.offers.complete(params)),
        )
        # Not as an argument: the SDK warns of it there, since the newest protocol has other means.
        self.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, self._handler(GatewaySession.set_log_level)
        )
        self._instructions_for = instructions_for
        self.middleware.append(self._add_instructions)
        self.middleware.append(end_with_client)

    async def run(self, read_stream: Any, write_stream: Any, *args: Any, **options: Any) -> None:
        """Serve one connection over streams; a call is over once its answer was delivered."""
        with over_streams():
            await super().run(read_stream, StreamAnswers(write_stream), *args, **options)

    def create_initialization_options(self, *args: Any, **options: Any) -> InitializationOptions:
        """Announce at the beginning that changes are told: clients listen to them only then."""
        if not args:
            changes = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
            options.setdefault("notification_options", changes)
        return super().create_initialization_options(*args, **options)

    async def _call_tool(self, context: Request, params: types.CallToolRequestParams) -> Answer:
        token = current_request.set(context)
        try:
            return await call_in_session(self._session_of, params, context)
        except HookSDKError as problem:
            self._count_blocked(problem)
            return error(f"'{params.name}' was not run: {describe(problem)}")
        finally:
            current_request.reset(token)

    async def _add_instructions(self, ctx: Request, call_next: CallNext) -> HandlerResult:
        """Add the instructions, which depend on who the client is. A middleware of this server."""
        result = await call_next(ctx)
        if ctx.method in {"initialize", "server/discover"} and isinstance(result, dict):
            return {**result, "instructions": whole(self._instructions_for(ctx))}
        return result

    def _handler(self, serve: Callable[[GatewaySession, P], Awaitable[R]]) -> Callable[[Request, P], Awaitable[R]]:
        """A handler of one kind of request, which is served by the client's session."""
        return self._call_handler(lambda session, params, _request, _client: serve(session, params))

    def _call_handler(
        self, serve: Callable[[GatewaySession, P, Request, CallingClient], Awaitable[R]]
    ) -> Callable[[Request, P], Awaitable[R]]:
        """A handler of a kind of request that calls a server. An error of ours becomes one of the protocol's."""

        async def handle(context: Request, params: P) -> R:
            token = current_request.set(context)
            try:
                session = await self._session_of(context)
                with session.serving(context) as client:
                    return await serve(session, params, context, client)
            except HookSDKError as problem:
                self._count_blocked(problem)
                raise MCPError(types.INVALID_REQUEST, whole(describe(problem))) from problem
            finally:
                current_request.reset(token)

        return handle

    def _listing(
        self, serve: Callable[[GatewaySession], Awaitable[R]]
    ) -> Callable[[Request, types.PaginatedRequestParams | None], Awaitable[R]]:
        """A handler of requests for a list. Every list is one page."""

        async def handle(session: GatewaySession, params: types.PaginatedRequestParams | None) -> R:
            if params is not None and params.cursor is not None:
                raise MCPError(types.INVALID_PARAMS, "no list here has such a cursor")
            return await serve(session)

        return self._handler(handle)

    def _count_blocked(self, problem: HookSDKError) -> None:
        if isinstance(problem, RunBlocked):  # a plugin blocks all of the client's requests
            self._counts.withheld()


def _no_header_schema(_name: str) -> None:
    """No schema: headers are checked in the client's session. Otherwise the SDK would list the tools for each call."""


@final
@dataclass(eq=False)
class _ClientBus:
    """The events for one stream: changed lists, as for everybody, and the resources that its client asked for.

    Attributes:
        uris: The resources, each with the address that the client has for it.
    """

    _bus: SubscriptionBus
    _resource_listeners: set[Hear]
    session: GatewaySession | None = None
    uris: dict[Feature, str] = field(default_factory=dict[Feature, str])

    async def publish(self, event: ServerEvent) -> None:
        await self._bus.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        def changed(feature: Feature, key: ScopeKey) -> None:
            session, uri = self.session, self.uris.get(feature)
            if uri is not None and session is not None and key.is_of(session.identity.name, session.id):
                listener(ResourceUpdated(uri))

        unsubscribe = self._bus.subscribe(listener)
        self._resource_listeners.add(changed)

        def stop() -> None:
            unsubscribe()
            self._resource_listeners.discard(changed)

        return stop


@final
@dataclass(eq=False)
class ChangeStreams:
    """Serves `subscriptions/listen`."""

    _bus: SubscriptionBus
    _resource_listeners: set[Hear]
    _session_of: SessionOf
    _sources: Sources

    async def __call__(
        self, context: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell the client of changes until it leaves. The acknowledgement leaves out resources that the client may
        not read, or that their servers do not watch."""
        client_bus = _ClientBus(self._bus, self._resource_listeners)
        wanted = params.notifications.resource_subscriptions or []
        try:
            if wanted:
                client_bus.session = session = await self._session_of(context)
                with session.serving(context):
                    for uri in dict.fromkeys(wanted):
                        await self._begin(session, uri, client_bus.uris)
            honored: dict[str, Any] = {"resource_subscriptions": list(client_bus.uris.values()) or None}
            params = params.model_copy(update={"notifications": params.notifications.model_copy(update=honored)})
            return await ListenHandler(client_bus)(context, params)
        finally:
            if client_bus.session is not None:
                with anyio.CancelScope(shield=True), client_bus.session.client.calling():
                    for feature in client_bus.uris:
                        await self._sources.watch(feature, on=False)

    async def _begin(self, session: GatewaySession, uri: str, uris: dict[Feature, str]) -> None:
        try:
            feature = await session.offers.watchable(uri)
            if feature not in uris:
                await self._sources.watch(feature, on=True)
                uris[feature] = uri
        except MCPError as problem:
            logger.info("a client does not hear of changes of '%s': %s", uri, problem)


@contextmanager
def own_streams() -> Generator[tuple[int, int]]:
    """The descriptors of the protocol: stdin and stdout as they were. Within the block other code that reads stdin
    finds nothing, and what it prints goes to stderr; that holds for children and C code, too."""
    sys.stdout.flush()
    reads, writes = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, STDIN)
        os.dup2(STDERR, STDOUT)
        yield reads, writes
    finally:
        sys.stdout.flush()
        os.dup2(reads, STDIN)
        os.dup2(writes, STDOUT)
        for descriptor in (nothing, reads, writes):
            os.close(descriptor)


async def serve_streams(server: Server[Any], streams: tuple[int, int]) -> None:
    """Serve the client at these two descriptors until it closes the first."""
    stdin, answers = _Lines(streams[0]), _Answers(streams[1])
    async with (
        stdio_server(cast("Any", stdin), cast("Any", answers)) as (read, write),
        anyio.create_task_group() as group,
    ):
        await write.aclose()  # its `send` returns before anything is written
        group.start_soon(answers.write)
        await server.run(read, answers, server.create_initialization_options())


@final
class _Lines:
    """The client's lines. No thread hangs in a read, so that Ctrl-C ends the program whatever the client does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[str]:
        rest = b""
        while chunk := await self._read():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield _readable(line)
        if rest.strip():
            yield _readable(rest)

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
        except (OSError, ValueError, NotImplementedError):  # it is a file, which is always ready
            return await anyio.to_thread.run_sync(os.read, self._descriptor, CHUNK, abandon_on_cancel=True)
        return os.read(self._descriptor, CHUNK)


def _readable(line: bytes) -> str:
    """The line as text. A model may write half of an emoji, which clients send as an escape that cannot be read: a
    sign takes its place, so that the call is answered."""
    text = line.decode("utf-8", "replace")
    if _SURROGATE.search(text):
        with contextlib.suppress(ValueError, RecursionError):
            return json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace").decode()
    return text


@final
class _Answers(AsyncResource):
    """The stream of answers. Each is written whole, one after the other, also where its sender is cancelled
    meanwhile."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting, self._next = anyio.create_memory_object_stream[tuple[str, anyio.Event]](0)

    async def send(self, item: SessionMessage) -> None:
        """Write an answer, and return when it is written."""
        written = anyio.Event()
        await self._waiting.send((item.message.model_dump_json(by_alias=True, exclude_unset=True), written))
        await written.wait()

    async def write(self) -> None:
        """Write the answers until the stream is closed, in a thread: a client that does not read must not stop other
        work."""
        async with self._next:
            async for text, written in self._next:
                await anyio.to_thread.run_sync(
                    write_all, self._descriptor, f"{text}\n".encode(), abandon_on_cancel=True
                )
                written.set()

    async def aclose(self) -> None:
        self._waiting.close()
