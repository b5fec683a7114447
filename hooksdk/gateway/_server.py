"""The MCP server that clients see: it takes each request to its client's session."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError

from hooksdk.errors import HookSDKError, RunBlocked
from hooksdk.gateway._answers import Connection, StreamAnswers, over_streams
from hooksdk.gateway._approvals import current_request
from hooksdk.gateway._client import CallingClient, Request
from hooksdk.gateway._metrics import Counts
from hooksdk.gateway._open_calls import Answer
from hooksdk.gateway._results import error, whole
from hooksdk.gateway._resuming import end_with_client
from hooksdk.gateway._session import GatewaySession, SessionOf, call_in_session
from hooksdk.tasks import describe

NAME = "hooksdk"

P = TypeVar("P")
R = TypeVar("R")

Listen = Callable[[Request, types.SubscriptionsListenRequestParams], Awaitable[types.SubscriptionsListenResult]]
Lifespan = Callable[[Server[Connection]], AbstractAsyncContextManager[Connection]]


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
