"""hooksdk in Google's Agent Development Kit: a plugin of an `App`.

    app = App(name="shop", root_agent=agent, plugins=[HookSDK(LazyHost())])

Put it first. The session is that of ADK: application, user and session id, with colons between them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from hooksdk.adapters import _adk_forms as forms
from hooksdk.adapters._calls import NO_ANSWER, Native, parameters_of, question_of
from hooksdk.adapters._conversation import Conversation, Conversations, OwnerOf, SomeHost, split_name
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.run import JudgedCall, Run
from hooksdk.tools import Tool

__all__ = ["HookSDK"]

REQUEST_CONFIRMATION = "adk_request_confirmation"
"""The call that ADK makes to ask a person."""
WAITS = "This tool call requires confirmation, please approve or reject."


class _Pause(Exception):
    """A tool of ADK's or a policy waits for a person."""


@dataclass
class _Invocation:
    conversation: Conversation
    declared: Mapping[str, types.FunctionDeclaration] = field(default_factory=dict[str, types.FunctionDeclaration])
    tools: Sequence[BaseTool] = ()
    # The bridge tools whose calls go on in this run.
    bridges: Sequence[BaseTool] = ()


@final
class HookSDK(BasePlugin):
    """Every policy, observer and trimmer of a host, in agents of Google's ADK.

    - `host`: a `hooksdk.Host` that is open, or a `hooksdk.sync.LazyHost`, which `runner.run` and `adk web` need.
    - `core`: tools that tool search never hides, by name or pattern.
    - `owner_of`: where a tool comes from, such as `("mcp", "github")`, for rules that name it; `("host", "")` without
      it.
    - other keywords are those of `Session.run`, such as `context_window=200_000` and `requester={...}`.

    A call that a policy asks about pauses the agent by ADK's own tool confirmation, and is answered as there. A host
    with an approver asks that one first.
    """

    def __init__(
        self, host: SomeHost, *, core: Sequence[str] = (), owner_of: OwnerOf[BaseTool] | None = None, **options: Any
    ) -> None:
        super().__init__(name="hooksdk")
        self._conversations = Conversations(host, core, options, owner_of)
        self._open: dict[str, _Invocation] = {}
        self._ends: set[asyncio.Task[Any]] = set()

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        """Begin a run."""
        session, content = invocation_context.session, invocation_context.user_content
        session_id = f"{session.app_name}:{session.user_id}:{session.id}"
        told = [one.content for one in session.events if one.author == "user" and one.content]
        before, said = ([*filter(None, map(forms.words_of, some))] for some in (told, [content] if content else []))
        await self._conversations.begin(session_id, said, earlier=before)
        invocation_id = invocation_context.invocation_id
        self._open[invocation_id] = invocation = _Invocation(self._conversations.get(session_id))
        await self._add_bridges(invocation_context, invocation)
        task = asyncio.current_task()
        if task is not None:  # ADK tells plugins of no cancellation
            task.add_done_callback(lambda done: self._left(invocation_id) if done.cancelled() else None)
        return None

    async def _add_bridges(self, context: InvocationContext, invocation: _Invocation) -> None:
        """Add the bridge tools that a person was asked about: after a pause ADK looks up a call among the agent's
        tools."""
        calls = [one for event in context.session.events for one in event.get_function_calls()]
        asked = [one.args or {} for one in calls if one.name == REQUEST_CONFIRMATION]
        names = {str(one.get("originalFunctionCall", {}).get("name")) for one in asked}
        agent: Any = context.agent
        if names and isinstance(agent, LlmAgent):
            own = {one.name for one in await agent.canonical_tools(ReadonlyContext(context))}
            invocation.bridges = [_Offered(Tool(name=name, description="")) for name in names - own]
            tools = cast("Any", agent).tools
            if invocation.bridges and not any(isinstance(one, _Bridges) for one in tools):
                tools.append(_Bridges(self._open))

    def _left(self, invocation_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self._end(invocation_id, asyncio.CancelledError()))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _end(self, invocation_id: str, error: BaseException | None = None) -> None:
        if invocation := self._open.pop(invocation_id, None):
            await invocation.conversation.end(error)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """End a run that has its answer, or in which a call waits."""
        await self._end(invocation_context.invocation_id)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """End a run that has failed."""
        await self._end(invocation_context.invocation_id, error)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Offer what is granted, and show what is trimmed."""
        invocation = self._open[callback_context.invocation_id]
        conversation = invocation.conversation
        llm_request.contents = forms.reasons_told(llm_request.contents)
        own = {name: one for name, one in llm_request.tools_dict.items() if not isinstance(one, _Offered)}
        llm_request.tools_dict = {**own}
        await conversation.ask_model(split_name(llm_request.model))
        run = await self._resolve(invocation, own)
        messages = forms.plain_messages(llm_request.contents)
        await conversation.settle({one["tool_call_id"]: one["content"] for one in messages if one["role"] == "tool"})
        prepared = await conversation.prepare(messages)
        if prepared.replaced:
            llm_request.contents = [*map(forms.native_content, prepared)]
        else:
            added = [types.Content(role="user", parts=[types.Part(text=text)]) for text in prepared.added]
            llm_request.contents = [*forms.trimmed_contents(llm_request.contents, prepared.trimmed), *added]
        offered = {tool.name: tool for tool in run.offered}
        for tool in llm_request.config.tools or ():
            if isinstance(tool, types.Tool) and tool.function_declarations:
                tool.function_declarations = [
                    one for one in tool.function_declarations if one.name in own and one.name in offered
                ]
        llm_request.append_tools([_Offered(tool) for name, tool in offered.items() if name not in own])
        llm_request.tools_dict[forms.GO_ON] = _GoOn(name=forms.GO_ON, description="")
        return None

    async def _resolve(self, invocation: _Invocation, tools: Mapping[str, BaseTool]) -> Run:
        declared = {name: one for name, tool in tools.items() if (one := _declaration(tool)) is not None}
        if declared != invocation.declared:  # a toolset makes new objects at each request
            invocation.declared, invocation.tools = declared, [tools[name] for name in declared]
        return await invocation.conversation.resolve(invocation.tools, self._tool)

    def _tool(self, tool: BaseTool) -> Tool:
        return self._conversations.tool(tool, tool.description, _schema(_declaration(tool)))

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """Record the reply before its tools run."""
        content = llm_response.content
        if llm_response.partial or content is None:
            return None
        for part in forms.parts_of(content):
            if part.function_call and not part.function_call.id:
                part.function_call.id = forms.OWN_ID + uuid.uuid4().hex
        used = llm_response.usage_metadata
        usage = (
            {"input_tokens": used.prompt_token_count, "output_tokens": used.candidates_token_count} if used else None
        )
        conversation = self._open[callback_context.invocation_id].conversation
        await conversation.note_reply(*split_name(llm_response.model_version))
        await (await conversation.begin()).record(forms.plain_messages([content]), usage=usage)
        parts = forms.parts_of(content)
        if not parts or any(part.function_call for part in parts) or parts[-1].code_execution_result is not None:
            return None
        finish = await conversation.finish(forms.words_of(content))
        if finish.refused:
            call = types.FunctionCall(
                id=forms.OWN_ID + uuid.uuid4().hex, name=forms.GO_ON, args={"reason": finish.refused}
            )
            parts = [*parts, types.Part(function_call=call)]
        elif finish.replaced:
            parts = [*(part for part in parts if part.thought or not part.text), types.Part(text=finish.text)]
        else:
            return None
        return llm_response.model_copy(update={"content": content.model_copy(update={"parts": parts})})

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Judge the call, run its tool, and record the result."""
        if isinstance(tool, _GoOn):
            return {"result": tool_args["reason"]}
        invocation = self._open[tool_context.invocation_id]
        conversation = invocation.conversation
        if not invocation.tools:  # the run goes on after a pause, with this call
            agent = cast("LlmAgent", tool_context.get_invocation_context().agent)
            own = [one for one in await agent.canonical_tools() if not isinstance(one, _Offered)]
            await self._resolve(invocation, {one.name: one for one in own})
        tools = {one.name: one for one in [*invocation.tools, tool]}

        async def run(name: str, arguments: dict[str, Any], call_id: str) -> object:
            value = await _confirmed(tools[name], arguments, tool_context)
            if call_id in tool_context.actions.requested_tool_confirmations:
                raise _Pause
            return value

        def ask(_judged: JudgedCall, request: ApprovalRequest) -> Approval:
            answer = tool_context.tool_confirmation
            if answer is None:
                tool_context.request_confirmation(hint=question_of(request))
                raise _Pause
            return Approval(answer.confirmed) if "confirmed" in answer.model_fields_set else NO_ANSWER

        native = Native(run, _result, _Pause)
        call = ToolCall(tool_context.function_call_id or "", tool.name, tool_args)
        conversation.working += 1
        try:
            result = await conversation.call(call, native, ask)
        except _Pause:
            conversation.paused = "a tool call waits for a confirmation"
            tool_context.actions.skip_summarization = True
            return {"error": WAITS}
        finally:
            conversation.working -= 1
        if native.result != result:
            return {"error" if result.is_error else "result": result.text}
        return _response(native.value)


@final
class _Offered(BaseTool):
    """A plugin's tool or a bridge tool, which hooksdk runs itself."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._parameters = parameters_of(tool)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._parameters
        )


@final
class _GoOn(BaseTool):
    """The tool of the call by which a plugin sends the model on."""


@final
class _Bridges(BaseToolset):
    def __init__(self, invocations: Mapping[str, _Invocation]) -> None:
        super().__init__()
        self._invocations = invocations

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        invocation = self._invocations.get(readonly_context.invocation_id) if readonly_context else None
        return [*invocation.bridges] if invocation else []


async def _confirmed(tool: BaseTool, arguments: dict[str, Any], context: ToolContext) -> object:
    """The tool's answer. None where it requires a confirmation that nobody has given yet."""
    if await tool.check_require_confirmation(arguments, context) is True:
        if context.tool_confirmation is None:
            context.request_confirmation(hint=f"May {tool.name} run?")
            return None
        if not context.tool_confirmation.confirmed:
            return ToolResult.error("This tool call is rejected.")
    return await tool.run_async(args=arguments, tool_context=context)


def _declaration(tool: BaseTool) -> types.FunctionDeclaration | None:
    return tool._get_declaration()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - what a tool of ADK's overrides


def _schema(declaration: types.FunctionDeclaration | None) -> dict[str, Any]:
    if declaration is None:
        return {}
    if declaration.parameters_json_schema is not None:
        return declaration.parameters_json_schema
    schema = declaration.parameters
    return schema.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True) if schema else {}


def _response(value: object) -> dict[str, Any]:
    """The tool's answer as ADK's response. It is never None, for which ADK would run the tool again."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {"result": value}


def _result(value: object) -> ToolResult:
    return value if isinstance(value, ToolResult) else ToolResult(forms.response_text(_response(value)))
