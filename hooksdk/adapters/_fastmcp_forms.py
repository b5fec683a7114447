"""The forms of FastMCP: tools, results, and the question to the person at a client."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import mcp_types as types
from fastmcp.server.context import Context
from fastmcp.server.elicitation import AcceptedElicitation
from fastmcp.tools import InputRequiredToolResult
from fastmcp.tools import Tool as NativeTool
from fastmcp.tools import ToolResult as NativeResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolResult
from hooksdk.desk.console import question_text
from hooksdk.tasks import describe
from hooksdk.tools import Annotations, Tool
from hooksdk.values import as_object

logger = logging.getLogger("hooksdk")
# The name of the question in an `InputRequiredResult`.
QUESTION = "hooksdk_approval"
ALLOW, DENY = "allow", "deny"
_block: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)
# The schema that `ctx.elicit` makes of the two answers.
_SCHEMA: types.ElicitRequestedSchema = {
    "type": "object",
    "properties": {"value": {"type": "string", "title": "May this call run?", "enum": [ALLOW, DENY]}},
    "required": ["value"],
}
_NO = Approval(False, "the person at the client said no")
_YES = Approval(True, by="the person at the client")
_NEITHER = Approval(False, "the person at the client gave no answer", unanswered="not_an_answer")


def asks_by_result(context: Context) -> bool:
    """True if the client shows questions and takes no requests: it gets a question as a result, and repeats the call
    with the answer."""
    request = context.request_context
    return request is not None and request.protocol_version in MODERN_PROTOCOL_VERSIONS and _can_show(context)


def _can_show(context: Context) -> bool:
    if context.request_context is None:
        return False
    said = context.session.client_capabilities
    forms = said.elicitation if said else None
    return forms is not None and (forms.form is not None or forms.url is None)


async def ask_client(context: Context, request: ApprovalRequest) -> Approval:
    """Ask the person at a client that takes requests."""
    if not _can_show(context):
        reason = "it needs a person's approval, and this client shows no questions (elicitation)"
        return Approval(False, reason, unanswered="not_asked")
    with anyio.move_on_after(request.timeout):
        try:
            answer = await context.elicit(_message(request), [ALLOW, DENY], response_title="May this call run?")
        except Exception as error:
            logger.warning("a client could not be asked about a call: %s", describe(error))
            return Approval(False, "the person at the client could not be asked", unanswered="connection_lost")
        return _meaning(answer.action, answer.data if isinstance(answer, AcceptedElicitation) else None)
    return Approval(False, f"nobody approved it within {request.timeout:g} s", unanswered="timeout")


def read_answer(answer: types.InputResponse) -> Approval:
    """Read the answer that a client has sent with its call: anything but a yes refuses it."""
    if not isinstance(answer, types.ElicitResult):
        return _NEITHER
    content = answer.content or {}
    return _meaning(answer.action, content.get("value") if set(content) == {"value"} else None)


def _meaning(action: str, value: object) -> Approval:
    """Read an answer. A form that was dismissed, or holds something else, counts as no answer."""
    if action == "accept" and value == ALLOW:
        return _YES
    return _NO if action == "decline" or (action == "accept" and value == DENY) else _NEITHER


def _message(request: ApprovalRequest) -> str:
    """The text of the question."""
    arguments = as_object(request.mask(request.arguments))
    return question_text("May this call run?", request.questions, request.tool.id, arguments, mask=request.mask)


def question_result(request: ApprovalRequest, state: str) -> InputRequiredToolResult:
    """The question as a result, for a client that repeats the call with the answer."""
    form = types.ElicitRequestFormParams(message=_message(request), requested_schema=_SCHEMA)
    asked = types.InputRequiredResult(input_requests={QUESTION: types.ElicitRequest(params=form)}, request_state=state)
    return InputRequiredToolResult(asked)


def listed(offered: Sequence[Tool], natives: Sequence[NativeTool]) -> list[NativeTool]:
    """The offered tools: FastMCP's own objects, and definitions of the tools that plugins add."""
    names = {one.name for one in natives}
    own = {one.name for one in offered if one.name in names and one.source != "plugin" and not one.bridge}
    return [*(one for one in natives if one.name in own), *(_definition(one) for one in offered if one.name not in own)]


def _definition(tool: Tool) -> NativeTool:
    said = tool.annotations
    hints = types.ToolAnnotations(
        read_only_hint=said.read_only,
        destructive_hint=said.destructive,
        idempotent_hint=said.idempotent,
        open_world_hint=said.open_world,
    )
    return NativeTool(
        name=tool.name,
        title=tool.label or None,
        description=tool.description,
        annotations=hints if said != Annotations() else None,
        parameters={"type": "object", "properties": {}, **(tool.parameters or {})},
    )


def read_result(value: object) -> ToolResult:
    """The answer of FastMCP's tool as a result."""
    if isinstance(value, ToolResult):
        return value
    if not isinstance(value, NativeResult):  # a task, which has no result yet
        return ToolResult(f"a {type(value).__name__}")
    blocks = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in value.content]
    return ToolResult(blocks=blocks, structured=value.structured_content, meta=value.meta, is_error=value.is_error)


def changed_result(result: ToolResult, output_schema: dict[str, Any] | None) -> NativeResult:
    """A result that plugins have changed, for the client. Clients refuse a result without the structured form of the
    output schema, so it becomes an error, unless that schema is of a plain text."""
    meta, is_error = result.meta, result.is_error
    structured: dict[str, Any] | None = as_object(result.structured) or None
    if structured is None and output_schema is not None and not is_error:
        text = as_object(as_object(output_schema.get("properties")).get("result"))
        if output_schema.get("x-fastmcp-wrap-result") and text.get("type") == "string":
            structured, meta = {"result": result.text}, {**(meta or {}), "fastmcp": {"wrap_result": True}}
        else:
            is_error = True
    return NativeResult(
        content=[*map(_content, result.blocks)], structured_content=structured, meta=meta, is_error=is_error
    )


def _content(block: dict[str, Any]) -> types.ContentBlock:
    try:
        return _block.validate_python(block)
    except ValidationError:  # a block of a plugin's own kind
        text = block.get("text")
        return types.TextContent(
            text=text if isinstance(text, str) else f"[content of type {block.get('type', 'unknown')}]"
        )


def refusal(text: str) -> NativeResult:
    """An error that the model reads."""
    return NativeResult(content=[types.TextContent(text=text)], is_error=True)
