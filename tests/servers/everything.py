"""The server that MCP's official conformance suites look for: `everything.py PORT` serves streamable HTTP, in both protocols.

The suites call tools, prompts and resources by fixed names, and check what these say. Nothing here is about hooksdk.
"""

import base64
import hashlib
import hmac
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from starlette.types import Receive, Scope, Send

Json = dict[str, Any]
Answer = str | list[types.ContentBlock] | types.InputRequiredResult
Tool = Callable[[Any, types.CallToolRequestParams], Awaitable[Answer]]

KEY = b"of this server alone"
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n a picture").decode()
SOUND = base64.b64encode(b"RIFF a sound").decode()
NAME: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK: Json = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
DEFAULTS: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
LEVELS = [{"const": word, "title": f"{word} priority"} for word in ("low", "medium", "high")]
SIZES = ["small", "medium", "large"]
ENUMS: Json = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": SIZES},
        "titledSingle": {"type": "string", "oneOf": LEVELS},
        "legacyEnum": {"type": "string", "enum": SIZES, "enumNames": [size.title() for size in SIZES]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": SIZES}},
        "titledMulti": {"type": "array", "items": {"anyOf": LEVELS}},
    },
}
SCHEMA_2020: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"}, "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}  # fmt: skip

bus = InMemorySubscriptionBus()
tools: dict[str, tuple[Json, Tool]] = {}


def tool(name: str, schema: Json | None = None, **properties: Json) -> Callable[[Tool], Tool]:
    """Offer a tool."""

    def add(run: Tool) -> Tool:
        tools[name] = schema or {"type": "object", "properties": properties}, run
        return run

    return add


def text(words: str) -> types.TextContent:
    return types.TextContent(text=words)


def file(uri: str, kind: str, words: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=kind, text=words))


def elicit(schema: Json = NAME, message: str = "What is your name?") -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(words: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(words))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def ask(state: str | None = None, **requests: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


IMAGE = types.ImageContent(data=PICTURE, mime_type="image/png")
PLAIN: dict[str, list[types.ContentBlock]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(data=SOUND, mime_type="audio/wav")],
    "test_embedded_resource": [file("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"), IMAGE,
        file("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
}  # fmt: skip


@tool("json_schema_2020_12_tool", SCHEMA_2020)
@tool("test_x_mcp_header", region={"type": "string", "x-mcp-header": "Region"})
async def repeat(_context: Any, params: types.CallToolRequestParams) -> Answer:
    return json.dumps(params.arguments)


@tool("test_error_handling")
async def fail(_context: Any, _params: Any) -> Answer:
    raise ValueError("This tool intentionally returns an error for testing")


@tool("test_logging_tool")
@tool("test_tool_with_logging")
async def log(context: Any, _params: Any) -> Answer:
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        message = types.LoggingMessageNotificationParams(level="info", data=step)
        if context.protocol_version == "2025-11-25" or "io.modelcontextprotocol/logLevel" in (context.meta or {}):
            await context.session.send_notification(
                types.LoggingMessageNotification(params=message), context.request_id
            )
        await anyio.sleep(0.05)
    return "logged"


@tool("test_tool_with_progress")
async def progress(context: Any, _params: Any) -> Answer:
    for step in (0, 50, 100):
        await context.session.report_progress(step, 100, f"step {step} of 100")
        await anyio.sleep(0.05)
    return "done"


@tool("test_sampling", prompt={"type": "string"})
async def push_sampling(context: Any, params: types.CallToolRequestParams) -> Answer:
    request = sample((params.arguments or {})["prompt"])
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    answer = await context.session.send_request(request, types.CreateMessageResult, metadata=metadata)
    return f"LLM response: {answer.content.text}"


async def push_form(context: Any, message: str, schema: Json) -> str:
    answer = await context.session.elicit_form(message, schema, context.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content or {})}"


@tool("test_elicitation", message={"type": "string"})
async def push_elicitation(context: Any, params: types.CallToolRequestParams) -> Answer:
    schema = {"type": "object", "properties": {"response": {"type": "string"}}, "required": ["response"]}
    return f"User response: {await push_form(context, (params.arguments or {})['message'], schema)}"


@tool("test_elicitation_sep1034_defaults")
async def push_defaults(context: Any, _params: Any) -> Answer:
    return f"Elicitation completed: {await push_form(context, 'Who are you?', DEFAULTS)}"


@tool("test_elicitation_sep1330_enums")
async def push_enums(context: Any, _params: Any) -> Answer:
    return f"Elicitation completed: {await push_form(context, 'Which ones?', ENUMS)}"


@tool("test_reconnection")
async def reconnect(context: Any, _params: Any) -> Answer:
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await anyio.sleep(0.2)
    return "Reconnection test completed successfully"


@tool("test_missing_capability")
async def need_sampling(context: Any, _params: Any) -> Answer:
    said = context.session.client_capabilities
    if said is None or said.sampling is None:
        data: Json = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "this needs sampling", data)
    return "it can be sampled"


# What is asked by the result, as 2026-07-28 has it


@tool("test_streaming_elicitation")
@tool("test_input_required_result_elicitation")
async def ask_name(_context: Any, params: types.CallToolRequestParams) -> Answer:
    return str(params.input_responses) if params.input_responses else ask(user_name=elicit())


@tool("test_input_required_result_sampling")
async def ask_model(_context: Any, params: types.CallToolRequestParams) -> Answer:
    return str(params.input_responses) if params.input_responses else ask(capital_question=sample("France?"))


@tool("test_input_required_result_list_roots")
async def ask_roots(_context: Any, params: types.CallToolRequestParams) -> Answer:
    return str(params.input_responses) if params.input_responses else ask(client_roots=types.ListRootsRequest())


@tool("test_input_required_result_request_state")
async def ask_with_state(_context: Any, params: types.CallToolRequestParams) -> Answer:
    if params.input_responses and params.request_state == "kept":
        return "state-ok"
    return ask("kept", confirm=elicit(OK, "Sure?"))


@tool("test_input_required_result_multiple_inputs")
async def ask_three(_context: Any, params: types.CallToolRequestParams) -> Answer:
    if len(params.input_responses or {}) == 3:
        return "All inputs received."
    return ask("three", user_name=elicit(), greeting=sample("Greet."), client_roots=types.ListRootsRequest())


@tool("test_input_required_result_multi_round")
async def ask_twice(_context: Any, params: types.CallToolRequestParams) -> Answer:
    given = params.input_responses or {}
    if params.request_state == "2" and "step2" in given:
        return "two rounds"
    if params.request_state == "1" and "step1" in given:
        return ask("2", step2=elicit(message="Which colour?"))
    return ask("1", step1=elicit())


@tool("test_input_required_result_tampered_state")
async def ask_signed(_context: Any, params: types.CallToolRequestParams) -> Answer:
    signed = hmac.new(KEY, b"round 1", hashlib.sha256).hexdigest()
    if params.request_state is None:
        return ask(signed, confirm=elicit(OK, "Sure?"))
    if not hmac.compare_digest(params.request_state, signed):
        raise MCPError(types.INVALID_PARAMS, "this state is not mine")
    return "state-ok"


@tool("test_input_required_result_capabilities")
async def ask_what_can_be_asked(context: Any, _params: Any) -> Answer:
    said = context.session.client_capabilities
    asked: dict[str, types.InputRequest] = {}
    if said is not None and said.sampling is not None:
        asked["sample"] = sample("Hello")
    if said is not None and said.elicitation is not None:
        asked["ask"] = elicit()
    return ask("able", **asked)


@tool("test_trigger_tool_change")
async def change_tools(_context: Any, _params: Any) -> Answer:
    if "dynamic" not in PLAIN:
        PLAIN["dynamic"] = [text("It is new.")]
    else:
        del PLAIN["dynamic"]
    await bus.publish(ToolsListChanged())
    return "changed"


@tool("test_trigger_prompt_change")
async def change_prompts(_context: Any, _params: Any) -> Answer:
    if "dynamic" not in PROMPTS:
        PROMPTS["dynamic"] = ()
    else:
        del PROMPTS["dynamic"]
    await bus.publish(PromptsListChanged())
    return "changed"


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    schemas = {name: {"type": "object"} for name in PLAIN} | {name: schema for name, (schema, _) in tools.items()}
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=f"For the check {name}.", input_schema=schema)
            for name, schema in schemas.items()
        ]
    )


async def call_tool(
    context: Any, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    if params.name in PLAIN:
        return types.CallToolResult(content=PLAIN[params.name])
    if params.name not in tools:
        raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}")
    try:
        answer = await tools[params.name][1](context, params)
    except ValueError as error:
        return types.CallToolResult(content=[text(str(error))], is_error=True)
    if isinstance(answer, types.InputRequiredResult):
        return answer
    return types.CallToolResult(content=[text(answer)] if isinstance(answer, str) else answer)


RESOURCES: dict[str, types.TextResourceContents | types.BlobResourceContents] = {
    "test://static-text": types.TextResourceContents(
        uri="test://static-text", mime_type="text/plain", text="This is the content of the static text resource."
    ),
    "test://static-binary": types.BlobResourceContents(
        uri="test://static-binary", mime_type="image/png", blob=PICTURE
    ),
    "test://watched-resource": types.TextResourceContents(
        uri="test://watched-resource", mime_type="text/plain", text="watched"
    ),
}  # fmt: skip


async def list_resources(_context: Any, _params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri.removeprefix("test://"), mime_type=one.mime_type)
            for uri, one in RESOURCES.items()
        ]
    )


async def list_templates(_context: Any, _params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="data", mime_type="text/plain")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    if params.uri in RESOURCES:
        return types.ReadResourceResult(contents=[RESOURCES[params.uri]])
    before, _, rest = params.uri.partition("test://template/")
    number, _, after = rest.partition("/data")
    if before or after or not number:
        raise MCPError(types.INVALID_PARAMS, f"Resource not found: {params.uri}", {"uri": params.uri})
    words = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=params.uri, mime_type="application/json", text=words)]
    )


async def nothing(_context: Any, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(_context: Any, _params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name, description=f"For the check {name}.",
                arguments=[types.PromptArgument(name=one, description=one, required=True) for one in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
    )  # fmt: skip


async def get_prompt(
    _context: Any, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    contents: list[types.ContentBlock] = [text("This is a simple prompt for testing.")]
    if params.name == "test_prompt_with_arguments":
        contents = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
    elif params.name == "test_prompt_with_embedded_resource":
        contents = [file(given["resourceUri"], "text/plain", "Embedded."), text("Please process it.")]
    elif params.name == "test_prompt_with_image":
        contents = [IMAGE, text("Please analyze the image above.")]
    elif params.name == "test_input_required_result_prompt" and not params.input_responses:
        return ask(user_context=elicit({"type": "object", "properties": {"context": {"type": "string"}}}))
    messages = [types.PromptMessage(role="user", content=content) for content in contents]
    return types.GetPromptResult(messages=messages)


async def complete(_context: Any, _params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["paris", "park"], total=2, has_more=False))


class Events(EventStore):
    """All that was sent, for the few minutes of a test."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self.sent.append((stream_id, message))
        return str(len(self.sent))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        stream, _ = self.sent[int(last_event_id) - 1]
        for number, (its_stream, message) in enumerate([*self.sent], 1):
            if its_stream == stream and number > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Everything(Server[Any]):
    def create_initialization_options(self, *args: Any, **options: Any) -> Any:
        changes = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        options.setdefault("notification_options", changes)
        return super().create_initialization_options(*args, **options)


async def main() -> None:
    port = int(sys.argv[1])
    server = Everything(
        "everything", version="1", on_list_tools=list_tools, on_call_tool=call_tool, on_list_resources=list_resources,
        on_list_resource_templates=list_templates, on_read_resource=read_resource, on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing, on_list_prompts=list_prompts, on_get_prompt=get_prompt, on_completion=complete,
        on_subscriptions_listen=ListenHandler(bus),
    )  # fmt: skip
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    own = [f"127.0.0.1:{port}", f"localhost:{port}"]
    security = TransportSecuritySettings(allowed_hosts=own, allowed_origins=[f"http://{host}" for host in own])
    sessions = StreamableHTTPSessionManager(server, Events(), security_settings=security, retry_interval=100)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await sessions.handle_request(scope, receive, send)

    async with sessions.run():
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off")).serve()


if __name__ == "__main__":
    anyio.run(main)
