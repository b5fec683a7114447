"""The protocol's side of the gateway: it takes requests to the client's session."""

from __future__ import annotations

import importlib.metadata
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError

from hooksdk.errors import HookSDKError, RunBlocked
from hooksdk.gateway._answers import Connection, StreamAnswers, over_streams
from hooksdk.gateway._approvals import current_request
from hooksdk.gateway._client import CallingClient, Request
from hooksdk.gateway._counts import Counts
from hooksdk.gateway._open_calls import Answer
from hooksdk.gateway._results import error, whole
from hooksdk.gateway._resuming import end_with_its_client
from hooksdk.gateway._session import GatewaySession, SessionOf, call_in_session
from hooksdk.tasks import describe

NAME = "hooksdk"

Listen = Callable[[Request, types.SubscriptionsListenRequestParams], Awaitable[types.SubscriptionsListenResult]]
Lifespan = Callable[[Server[Connection]], AbstractAsyncContextManager[Connection]]


@final
class GatewayServer(Server[Connection]):
    """The MCP server that clients see."""

    def __init__(
        self, session_of: SessionOf, lifespan: Lifespan, listen: Listen, counts: Counts, instructions_for: Callable[[Request], str],
    ) -> None:  # fmt: skip
        self._session_of = session_of
        self._counts = counts
        super().__init__(
            NAME, version=importlib.metadata.version("hooksdk"), lifespan=lifespan, get_tool_input_schema=_no_header_schema,
            on_list_tools=self._list_tools, on_call_tool=self._call_tool, on_subscriptions_listen=listen,
            on_list_resources=self._list_resources, on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource, on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe, on_list_prompts=self._list_prompts, on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )  # fmt: skip
        # Not as an argument: the SDK warns of it there, since the newest protocol has other means.
        self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        self.middleware.append(_Instructions(instructions_for))
        self.middleware.append(end_with_its_client)

    async def run(self, read_stream: Any, write_stream: Any, *args: Any, **options: Any) -> None:
        """Serve one connection; a call is over once its answer has left."""
        with over_streams():
            await super().run(read_stream, StreamAnswers(write_stream), *args, **options)

    def create_initialization_options(self, *args: Any, **options: Any) -> InitializationOptions:
        """Clients that hear of changes at all do so only where the server says at the beginning that it tells them."""
        if not args:
            changes = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
            options.setdefault("notification_options", changes)
        return super().create_initialization_options(*args, **options)

    async def _list_tools(self, context: Request, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        async with self._at_work(context, params) as session:
            return types.ListToolsResult(tools=await session.offers.tools())

    async def _list_prompts(
        self, context: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        async with self._at_work(context, params) as session:
            return types.ListPromptsResult(prompts=list((await session.offers.now()).prompts))

    async def _list_resources(
        self, context: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        async with self._at_work(context, params) as session:
            offers = await session.offers.now()
            return types.ListResourcesResult(resources=[*await session.tools.results.resources(), *offers.resources])

    async def _list_templates(
        self, context: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        async with self._at_work(context, params) as session:
            return types.ListResourceTemplatesResult(resource_templates=list((await session.offers.now()).templates))

    async def _call_tool(self, context: Request, params: types.CallToolRequestParams) -> Answer:
        token = current_request.set(context)
        try:
            return await call_in_session(self._session_of, params, context)
        except HookSDKError as problem:
            self._note(problem)
            return error(f"'{params.name}' was not run: {describe(problem)}")
        finally:
            current_request.reset(token)

    async def _get_prompt(
        self, context: Request, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        async with self._serving(context) as (session, client):
            return await session.calls.get_prompt(params, context, client)

    async def _read_resource(
        self, context: Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        async with self._serving(context) as (session, client):
            return await session.calls.read_resource(params, context, client)

    async def _subscribe(self, context: Request, params: types.SubscribeRequestParams) -> types.EmptyResult:
        async with self._at_work(context) as session:
            await session.offers.subscribe(params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, context: Request, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        async with self._at_work(context) as session:
            await session.offers.unsubscribe(params.uri)
        return types.EmptyResult()

    async def _complete(self, context: Request, params: types.CompleteRequestParams) -> types.CompleteResult:
        async with self._at_work(context) as session:
            return await session.offers.complete(params)

    async def _set_level(self, context: Request, params: types.SetLevelRequestParams) -> types.EmptyResult:
        async with self._at_work(context) as session:
            await session.set_log_level(params.level)
        return types.EmptyResult()

    @asynccontextmanager
    async def _at_work(
        self, context: Request, page: types.PaginatedRequestParams | None = None
    ) -> AsyncGenerator[GatewaySession]:
        if page is not None and page.cursor is not None:  # every list is one page
            raise MCPError(types.INVALID_PARAMS, "no list here has such a cursor")
        async with self._serving(context) as (session, _client):
            yield session

    @asynccontextmanager
    async def _serving(self, context: Request) -> AsyncGenerator[tuple[GatewaySession, CallingClient]]:
        """The client's session, while it serves a request; what we raise is the protocol's error."""
        token = current_request.set(context)
        try:
            session = await self._session_of(context)
            with session.serving(context) as client:
                yield session, client
        except HookSDKError as problem:
            self._note(problem)
            raise MCPError(types.INVALID_REQUEST, whole(describe(problem))) from problem
        finally:
            current_request.reset(token)

    def _note(self, problem: HookSDKError) -> None:
        if isinstance(problem, RunBlocked):  # by a plugin, and with it all of the client's requests
            self._counts.withheld()


def _no_header_schema(_name: str) -> None:
    """Headers are checked where the client's session is known; without this the tools would be listed for each call."""


@final
class _Instructions:
    """What a client is told at the beginning depends on who it is."""

    def __init__(self, instructions_for: Callable[[Request], str]) -> None:
        self._instructions_for = instructions_for

    async def __call__(self, ctx: Request, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method in {"initialize", "server/discover"} and isinstance(result, dict):
            return {**result, "instructions": whole(self._instructions_for(ctx))}
        return result
