"""hooksdk in pydantic-ai's agents: a capability.

    agent = Agent(model, tools=tools, capabilities=[HookSDK(LazyHost())])

Put it first. The session is the run's `conversation_id`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, cast, final

from pydantic_ai import (
    AbstractToolset,
    AgentRunResult,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolsetTool,
    WrapperToolset,
)
from pydantic_ai.agent import CallToolsNode, ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, HandleDeferredToolCalls
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition
from pydantic_core import SchemaValidator, core_schema, to_json
from pydantic_graph import End

from hooksdk.adapters._calls import Native, Texts, description_of, parameters_of, short_texts
from hooksdk.adapters._conversation import FORMAT, Conversation, Conversations, OwnerOf, SomeHost
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message
from hooksdk.run import JudgedCall, PreparedMessages, Run
from hooksdk.tools import Tool

__all__ = ["HookSDK"]

ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""Checks nothing: the run checks the arguments when it judges the call, and the tool's own validator checks those that
run."""


@final
class HookSDK(AbstractCapability[Any]):
    """Every policy, observer and trimmer of a host, in an agent of pydantic-ai's.

    - `host`: a `hooksdk.Host` that is open, or a `hooksdk.sync.LazyHost`, which `agent.run_sync` needs.
    - `core`: tools that tool search never hides, by name or pattern.
    - `owner_of`: where a tool comes from, such as `("mcp", "github")`, for rules that name it; `("host", "")` without
      it.
    - other keywords are those of `Session.run`, such as `context_window=200_000` and `requester={...}`.

    A call that a policy asks about ends the run with `DeferredToolRequests`, which the agent's `output_type` has to
    name, and is answered by `deferred_tool_results`. A host with an approver asks that one first.

    Attributes:
        leaving: Tool and arguments of each call that runs outside of the agent, as they were judged, by call id.
        made: The ids of the calls whose results come from outside.
    """

    def __init__(
        self,
        host: SomeHost,
        *,
        core: Sequence[str] = (),
        owner_of: OwnerOf[ToolDefinition] | None = None,
        **options: Any,
    ) -> None:
        self._conversations = Conversations(host, core, options, owner_of)
        self.conversation: Conversation
        self.leaving: dict[str, tuple[str, dict[str, Any]]] = {}
        self.made: set[str] = set()

    def get_ordering(self) -> CapabilityOrdering:
        """Wrap every capability that runs calls elsewhere, so that it gets them as they were judged."""
        return CapabilityOrdering(wraps=[HandleDeferredToolCalls])

    async def for_run(self, ctx: RunContext[Any]) -> HookSDK:
        """A copy for each run, with its conversation."""
        own = copy.copy(self)
        own.conversation = self._conversations.get(ctx.conversation_id or ctx.run_id or "", anew=True)
        own.leaving, own.made = {}, set()
        return own

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Any]) -> AgentRunResult[Any]:
        """Open the run, and end it however the framework's run ends."""
        conversation = self.conversation
        asked = [*takewhile(_is_prompt, reversed(ctx.messages))][::-1] if ctx.prompt is None else []
        said = [_words(ctx.prompt or "")] if ctx.prompt else _asked_texts(asked)
        before = _asked_texts(ctx.messages[: len(ctx.messages) - len(asked)])
        result: AgentRunResult[Any] = await conversation.play(said, handler, earlier=before)
        messages = result.all_messages()
        if isinstance(result.output, DeferredToolRequests):
            await self._settle(messages)
            conversation.paused = "tool calls wait"
        messages[:] = _trimmed(messages, await conversation.end())
        return result

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:  # noqa: ARG002 - handed in by name
        """Note the calls whose results the caller hands in."""
        if (given := getattr(node, "deferred_tool_results", None)) is not None:
            self.made.update(given.calls)
        return node

    async def handle_deferred_tool_calls(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - handed in by name
        *,
        requests: DeferredToolRequests,
    ) -> DeferredToolResults | None:
        """Hand out calls with the tool and the arguments that were judged."""
        for at, part in enumerate(requests.calls):
            if (judged := self.leaving.get(part.tool_call_id)) is not None:
                self.made.add(part.tool_call_id)
                name, arguments = judged
                if (name, arguments) != (part.tool_name, part.args_as_dict()):
                    requests.calls[at] = replace(part, tool_name=name, args=arguments)
        return None

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """Let the plugins judge the answer; they may send the model on."""
        end = cast("End[Any] | None", result if isinstance(result, End) else None)
        if end is None or isinstance(output := end.data.output, DeferredToolRequests):
            return cast("Any", result)
        is_text = isinstance(output, str)
        finish = await self.conversation.finish(
            output if is_text else to_json(output, fallback=str).decode(),
            structured=not is_text,
            can_go_on=isinstance(node, CallToolsNode),  # `run_stream` hands the answer out before it is whole
        )
        if finish.refused:
            return ModelRequestNode[Any, Any](ModelRequest(parts=[UserPromptPart(finish.refused)]))
        if finish.replaced:
            ctx.messages[:] = _with_answer(ctx.messages, finish.text)
            return End(replace(end.data, output=finish.text))
        return end

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """The tools of the agent and of the plugins; each call is judged."""
        return _Judged(toolset, self)

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Offer what is granted, and show what is trimmed, here and in the agent's own history."""
        await self._ask(getattr(request_context, "model", None) or ctx.model)
        run = await self.conversation.begin()
        await self._settle(ctx.messages)
        messages = _trimmed(request_context.messages, told := self.conversation.corrections)
        prepared = await self.conversation.prepare(_plain(messages))
        ctx.messages[:] = _trimmed(ctx.messages, {**told, **prepared.trimmed})
        parameters = request_context.model_request_parameters
        own = {tool.name: tool for tool in parameters.function_tools}
        shown = [own.get(tool.name) or _definition(tool) for tool in run.offered]
        return replace(
            request_context,
            messages=_shown(messages, prepared),
            model_request_parameters=replace(parameters, function_tools=shown),
        )

    async def _settle(self, messages: Sequence[ModelMessage]) -> None:
        """End the calls that the framework has answered itself, or whose results came from outside."""
        answers = _answers(messages)
        made = {call_id: result for call_id, result in answers.items() if call_id in self.made}
        ids = [_answered(part) for one in messages if isinstance(one, ModelRequest) for part in one.parts]
        await self.conversation.settle({call_id: one.text for call_id, one in answers.items()}, ids, made=made)

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - pydantic-ai hands it in by name
        *,
        request_context: Any,  # noqa: ARG002 - as above
        response: ModelResponse,
    ) -> ModelResponse:
        """Record the reply before its tools run."""
        usage = {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
        await self.conversation.note_reply(response.provider_name, response.model_name)
        await (await self.conversation.begin()).record(_plain([response]), usage=usage)
        return response

    async def _ask(self, model: Any) -> None:
        models: list[Any] = getattr(model, "models", None) or [model]
        names = [(one.system, one.model_name) for one in models]
        await self.conversation.ask_model(*names, window=getattr(models[0], "context_window", None))

    async def resolve(self, tools: Sequence[ToolDefinition], model: Any) -> Run:
        """The run with these tools granted."""
        await self._ask(model)
        return await self.conversation.resolve(tools, self._tool)

    def _tool(self, tool: ToolDefinition) -> Tool:
        return self._conversations.tool(tool, tool.description or "", tool.parameters_json_schema)

    async def call(self, call: ToolCall, native: Native, *, approved: bool) -> ToolResult:
        """Judge a call, run its tool, and record the result."""

        def ask(_judged: JudgedCall, request: ApprovalRequest) -> Approval:
            if approved:
                return Approval(True)
            raise ApprovalRequired({"title": request.title, "description": description_of(request)})

        return await self.conversation.call(call, native, ask)


@dataclass
class _Judged(WrapperToolset[Any]):
    hooks: HookSDK
    known: Sequence[ToolDefinition] = ()

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        own = {
            name: replace(tool, args_validator=ANY_ARGUMENTS, tool_def=_judged(tool.tool_def))
            for name, tool in (await self.wrapped.get_tools(ctx)).items()
        }
        definitions = [tool.tool_def for tool in own.values()]
        if definitions != self.known:
            self.known = definitions
        run = await self.hooks.resolve(self.known, ctx.model)
        added = {
            tool.name: ToolsetTool(
                toolset=self, tool_def=_definition(tool), max_retries=1, args_validator=ANY_ARGUMENTS
            )
            for tool in run.offered
            if tool.name not in own
        }
        return own | added

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002 - the real tool is looked up
    ) -> Any:
        raised: list[Exception] = []

        async def run(real_name: str, arguments: dict[str, Any], call_id: str) -> object:
            tools = await self.wrapped.get_tools(ctx)
            within = replace(ctx, tool_name=real_name, tool_call_id=call_id)
            checked = tools[real_name].args_validator.validate_python(arguments)
            kind = tools[real_name].tool_def.kind
            if kind == "unapproved" and not ctx.tool_call_approved:
                raise ApprovalRequired
            if kind == "external":
                self.hooks.leaving[ctx.tool_call_id or ""] = real_name, arguments
                raise CallDeferred
            try:
                return await self.wrapped.call_tool(real_name, checked, within, tools[real_name])
            except (ModelRetry, ToolFailed) as error:  # the framework's own errors for the model
                raised.append(error)
                return ToolResult.error(str(error))

        native = Native(run, _result, (ApprovalRequired, CallDeferred))
        call = ToolCall(ctx.tool_call_id or "", name, tool_args)
        result = await self.hooks.call(call, native, approved=ctx.tool_call_approved)
        if native.result != result:
            return result.text
        if raised:
            raise raised[-1]
        return native.value


def _judged(tool: ToolDefinition) -> ToolDefinition:
    """The definition as of a tool that runs inside the agent: else its calls would leave the run before they are
    judged."""
    return replace(tool, kind="function") if tool.defer else tool


def _result(value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    return ToolResult(ToolReturnPart(tool_name="", content=value, tool_call_id="").model_response_str())


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=parameters_of(tool))


def _answers(messages: Sequence[ModelMessage]) -> dict[str, ToolResult]:
    parts = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
    return {
        call_id: ToolResult(_text(part), is_error=getattr(part, "outcome", "failed") != "success")
        for part in parts
        if (call_id := _answered(part)) is not None
    }


def _answered(part: Any) -> str | None:
    """The id of the call that a part of a request answers; None for any other part."""
    is_result = part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and part.tool_name)
    return part.tool_call_id if is_result else None


def _is_prompt(message: ModelMessage) -> bool:
    """True for a request that answers no call: a front end may hand in the user's turn as one, without a prompt."""
    return isinstance(message, ModelRequest) and all(_answered(part) is None for part in message.parts)


def _asked_texts(messages: Sequence[ModelMessage]) -> list[str]:
    """The user's texts in these messages. A text beside a tool's result may be the tool's, so it does not count."""
    parts = [part for one in messages if _is_prompt(one) for part in one.parts]
    return [text for part in parts if isinstance(part, UserPromptPart) and (text := _text(part))]


def _text(part: Any) -> str:
    if isinstance(part, ToolReturnPart):
        return part.model_response_str()
    if part.part_kind.startswith("retry"):
        return part.model_response()
    return _words(getattr(part, "content", ""))


def _words(content: Any) -> str:
    """The text of a prompt, without its images."""
    if isinstance(content, str):
        return content
    texts = [one if isinstance(one, str) else getattr(one, "content", None) for one in content]
    return "\n".join(one for one in texts if isinstance(one, str))


def _plain(messages: Sequence[ModelMessage]) -> list[Message]:
    plain: list[Message] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            calls = [
                ToolCall(one.tool_call_id, one.tool_name, one.args)
                for one in message.parts
                if isinstance(one, ToolCallPart)
            ]
            text = "\n".join(one.content for one in message.parts if isinstance(one, TextPart))
            plain.append(FORMAT.reply(text, calls))
            continue
        for part in message.parts:
            if (call_id := _answered(part)) is not None:
                plain.append({"role": "tool", "tool_call_id": call_id, "content": _text(part)})
            elif text := _text(part):
                plain.append({"role": "system" if isinstance(part, SystemPromptPart) else "user", "content": text})
    return plain


def _trimmed(messages: Sequence[ModelMessage], texts: Texts) -> list[ModelMessage]:
    """The messages, with a copy that has the short text for each with a trimmed result."""
    parts = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
    short = iter(short_texts(map(_answered, parts), texts))
    shown: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            new = [_with_text(part, next(short)) for part in message.parts]
            changed = any(one is not two for one, two in zip(new, message.parts, strict=True))
            shown.append(replace(message, parts=new) if changed else message)
        else:
            shown.append(message)
    return shown


def _with_answer(messages: Sequence[ModelMessage], text: str) -> list[ModelMessage]:
    """The messages, with this text in the last reply."""
    *before, last = messages
    assert isinstance(last, ModelResponse)
    others = [part for part in last.parts if not isinstance(part, TextPart)]
    return [*before, replace(last, parts=[*others, TextPart(text)])]


def _with_text(part: Any, text: str | None) -> Any:
    return part if text is None or text == _text(part) else replace(part, content=text)


def _shown(messages: Sequence[ModelMessage], prepared: PreparedMessages) -> list[ModelMessage]:
    if prepared.replaced:
        return [*map(_native, prepared)]
    added = [ModelRequest(parts=[UserPromptPart(text)]) for text in prepared.added]
    return [*_trimmed(messages, prepared.trimmed), *added]


def _native(message: Message) -> ModelMessage:
    """A message of a plugin in pydantic-ai's form."""
    text = FORMAT.text(message)
    if FORMAT.is_reply(message):
        calls = [ToolCallPart(one.name, one.arguments, one.id) for one in FORMAT.calls(message)]
        prose: list[ModelResponsePart] = [TextPart(text)] if text else []
        return ModelResponse(parts=[*prose, *calls])
    for result in FORMAT.results(message):
        return ModelRequest(parts=[ToolReturnPart("", result.text, result.call_id)])
    return ModelRequest(parts=[SystemPromptPart(text) if message["role"] == "system" else UserPromptPart(text)])
