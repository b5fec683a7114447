"""A server with everything that the protocol has, over the official SDK, in this process; and how a gateway stands in front of some.

It speaks the protocol of 2025-11-25 (`legacy`) or that of 2026-07-28 (`auto`), and refuses the other; or it speaks `both`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, final

import anyio
import mcp_types as types
import pytest
from mcp.client._memory import InMemoryTransport
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from hooksdk import Host
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.mcp import McpServers

Request = ServerRequestContext[Any, Any]
CHANGED = {
    ToolsListChanged: types.ToolListChangedNotification,
    PromptsListChanged: types.PromptListChangedNotification,
    ResourcesListChanged: types.ResourceListChangedNotification,
}


class _Server(Server[Any]):
    """Says that it tells of changes."""

    def create_initialization_options(self, *args: Any, **options: Any) -> InitializationOptions:
        changes = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        return super().create_initialization_options(changes)


@final
class Everything:
    """One server; what it is asked, and what it says, is in its attributes."""

    def __init__(self, name: str, era: str = "legacy", instructions: str = "") -> None:
        self.name = name
        self.starts = 0
        self.asked: list[str] = []
        self.metas: list[dict[str, Any]] = []
        self.level: str | None = None
        self.watched: set[str] = set()
        self.streams: set[str] = set()
        """The resources that the newest stream of changes is about."""
        self.texts = {"note://today": f"buy milk at {name}", f"note://of-{name}": f"only {name} has it"}
        self.prompts = ["greet"]
        self.tools: dict[str, types.Tool] = {}
        self.bus = InMemorySubscriptionBus()
        self.era = era
        self._peer: ServerSession | None = None
        for one in ("link", "embed", "plain", "refuse", "sign_in", "log"):
            self.tools[one] = types.Tool(name=one, input_schema={"type": "object"})
        self.server = _Server(
            name, version="1.0", instructions=instructions or None,
            on_list_tools=self._list_tools, on_call_tool=self._call_tool, on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt, on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates, on_read_resource=self._read, on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe, on_completion=self._complete,
            on_subscriptions_listen=ListenHandler(self.bus),
        )  # fmt: skip
        self.server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        self.server.middleware.append(self._note)

    async def _note(self, ctx: Request, call_next: CallNext) -> HandlerResult:
        if ctx.method == "subscriptions/listen":
            said = types.SubscriptionsListenRequestParams.model_validate(ctx.params).notifications
            self.streams = set(said.resource_subscriptions or ())
        if ctx.request_id is not None:
            self.asked.append(ctx.method)
            self.metas.append(dict[str, Any](ctx.meta or {}))
            self._peer = ctx.session
        return await call_next(ctx)

    def count(self, method: str) -> int:
        """How often it was asked this."""
        return self.asked.count(method)

    async def say(self, event: ServerEvent) -> None:
        """Tell its client that something is different now."""
        if self.era == "auto":
            await self.bus.publish(event)
        elif isinstance(event, ResourceUpdated):
            assert self._peer is not None
            await self._peer.send_resource_updated(event.uri)
        else:
            assert self._peer is not None
            await self._peer.send_notification(CHANGED[type(event)]())

    async def log(self, level: types.LoggingLevel, data: Any) -> None:
        """Log something that belongs to no call."""
        assert self._peer is not None
        params = types.LoggingMessageNotificationParams(level=level, data=data)
        await self._peer.send_notification(types.LoggingMessageNotification(params=params))

    async def _list_tools(self, _context: Request, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(self.tools.values()))

    async def _call_tool(self, context: Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "refuse":
            raise MCPError(-32055, "no such thing", {"why": "because"})
        if params.name == "sign_in":
            page = {"mode": "url", "message": "Sign in", "url": "https://example.org/in", "elicitationId": "e1"}
            raise MCPError(types.URL_ELICITATION_REQUIRED, "sign in first", {"elicitations": [page]})
        if params.name == "log":
            for level in ("debug", "warning"):
                message = types.LoggingMessageNotificationParams(level=level, data=f"{level} of {self.name}")
                await context.session.send_notification(
                    types.LoggingMessageNotification(params=message), context.request_id
                )
        uri = f"secret://{self.name}/1" if params.name == "link" else "note://today"
        blocks: list[types.ContentBlock] = [types.TextContent(text=f"{params.name} of {self.name}")]
        if params.name == "link":
            blocks.append(types.ResourceLink(uri=uri, name="more"))
        if params.name == "embed":
            blocks.append(types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text="inside")))
        return types.CallToolResult(content=blocks)

    async def _list_prompts(self, _context: Request, _params: Any) -> types.ListPromptsResult:
        argument = types.PromptArgument(name="who", description="Whom to greet", required=True)
        icon = types.Icon(src="https://example.org/icon.png")
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(name=one, title=one.title(), arguments=[argument], icons=[icon]) for one in self.prompts
            ]
        )

    async def _get_prompt(self, _context: Request, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name not in self.prompts:
            raise MCPError(types.INVALID_PARAMS, f"no prompt {params.name}")
        who = (params.arguments or {})["who"]
        said = [
            types.PromptMessage(role="user", content=types.TextContent(text=f"Greet {who} for {self.name}")),
            types.PromptMessage(role="assistant", content=types.TextContent(text=f"Hello {who}")),
        ]
        return types.GetPromptResult(description="A greeting", messages=said)

    async def _list_resources(self, _context: Request, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[types.Resource(uri=uri, name=uri, mime_type="text/x-note") for uri in self.texts]
        )

    async def _list_templates(self, _context: Request, _params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[types.ResourceTemplate(uri_template=f"{self.name}://item/{{id}}", name="items")]
        )

    async def _read(self, _context: Request, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        text = self.texts.get(params.uri)
        if params.uri.startswith((f"secret://{self.name}/", f"{self.name}://item/")):
            text = f"{params.uri} of {self.name}"
        if text is None:
            raise MCPError(-32002, "Resource not found", {"uri": params.uri})
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type="text/x-note", text=text)]
        )

    async def _subscribe(self, _context: Request, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.watched.add(params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, _context: Request, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.watched.discard(params.uri)
        return types.EmptyResult()

    async def _complete(self, _context: Request, params: types.CompleteRequestParams) -> types.CompleteResult:
        of = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        values = [f"{self.name}: {of} {params.argument.name}={params.argument.value}"]
        return types.CompleteResult(completion=types.Completion(values=values))

    async def _set_level(self, _context: Request, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self.level = params.level
        return types.EmptyResult()


REFUSED = {
    "legacy": ("server/discover", types.METHOD_NOT_FOUND),
    "auto": ("initialize", types.UNSUPPORTED_PROTOCOL_VERSION),
}
"""What opens the other protocol, and how a server that does not know it answers."""


@final
class _OneProtocol:
    """The way to a server of one protocol alone: one of the SDK goes on in whichever it is spoken to first."""

    def __init__(self, write: Any, answers: Any, era: str) -> None:
        self._write = write
        self._answers = answers
        self._method, self._code = REFUSED.get(era, ("", 0))

    async def send(self, message: SessionMessage) -> None:
        request = message.message
        if isinstance(request, types.JSONRPCRequest) and request.method == self._method:
            refusal = types.ErrorData(code=self._code, message="not known here")
            await self._answers.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request.id, error=refusal)))
        else:
            await self._write.send(message)

    async def aclose(self) -> None:
        await self._write.aclose()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()


@asynccontextmanager
async def one_protocol(read: Any, write: Any, era: str) -> AsyncGenerator[Any]:
    answers, heard = anyio.create_memory_object_stream[Any](100)

    async def pump() -> None:
        async with answers:
            async for message in read:
                await answers.send(message)

    async with anyio.create_task_group() as group, heard:
        group.start_soon(pump)
        yield heard, _OneProtocol(write, answers, era)
        group.cancel_scope.cancel()


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> dict[str, Everything]:
    """Servers by the word that starts them: the pipes to a child are streams in memory, and the child is in this process."""
    servers: dict[str, Everything] = {}

    @asynccontextmanager
    async def open_streams(parameters: Any, errlog: Any) -> AsyncGenerator[Any]:
        with errlog:
            started = servers[parameters.command]
            started.starts += 1
            async with (
                InMemoryTransport(started.server) as (read, write),
                one_protocol(read, write, started.era) as streams,
            ):
                yield streams

    monkeypatch.setattr("hooksdk.mcp._transport.stdio_client", open_streams)
    return servers


def entries(servers: Mapping[str, Everything]) -> dict[str, Any]:
    """The entries of these servers in a client's file."""
    return {name: {"command": name} for name in servers}


@asynccontextmanager
async def in_front_of(
    servers: dict[str, Everything],
    *started: Everything,
    plugins: tuple[Any, ...] = (),
    config: Mapping[str, Any] | None = None,
    plugin_config: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncGenerator[Gateway]:
    """A gateway in front of these servers; `config` is its `[gateway]`, `plugin_config` that of the plugins."""
    servers.update({one.name: one for one in started})
    settings = GatewayConfig.model_validate(config or {})
    changed: list[Gateway] = []

    def tell(_server: str) -> None:
        for gateway in changed:
            gateway.tools_changed()

    async with (
        Host(plugins=plugins, config={"plugins": dict(plugin_config)} if plugin_config else None) as host,
        McpServers(entries(servers), on_change=tell, **options) as mcp,
        Gateway(host, mcp, config=settings) as made,
    ):
        changed.append(made)
        await mcp.ready()
        yield made


async def soon(condition: Any) -> None:
    """Wait until it is true."""
    with anyio.fail_after(120):
        while not condition():
            await anyio.sleep(0.005)
