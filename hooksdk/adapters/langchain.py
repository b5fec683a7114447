"""hooksdk in LangChain's agents: a middleware for `create_agent` and `create_deep_agent`.

    agent = create_agent(model, tools, middleware=[HookSDK(LazyHost())], checkpointer=InMemorySaver())

Put it first. The session is the thread of the agent's configuration; without one each run has a session of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Annotated, Any, NotRequired, cast, final

import anyio.to_thread
from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.types import interrupt
from pydantic_core import to_json

from hooksdk.adapters._calls import NO_ANSWER, Native, Texts, question_of, short_texts
from hooksdk.adapters._conversation import FORMAT, Conversation, Conversations, ModelName, OwnerOf, SomeHost, plain_call
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message
from hooksdk.run import JudgedCall, PreparedMessages, Run
from hooksdk.tools import Tool

__all__ = ["HookSDK"]


class _State(AgentState[Any]):
    # The session id of a run without a thread.
    hooksdk_session: NotRequired[Annotated[str, PrivateStateAttr]]
    # The ids of the user messages after the last reply, when the newest run began or ended.
    hooksdk_left: NotRequired[Annotated[list[str | None], PrivateStateAttr]]
    # The prompts of the caller: a middleware may have replaced their messages since.
    hooksdk_said: NotRequired[Annotated[list[str], PrivateStateAttr]]
    # True until the newest run has its answer.
    hooksdk_open: NotRequired[Annotated[bool, PrivateStateAttr]]


@final
class HookSDK(AgentMiddleware[Any, Any, Any]):
    """Every policy, observer and trimmer of a host, in an agent of LangChain's.

    - `host`: a `hooksdk.Host` that is open, or a `hooksdk.sync.LazyHost`, which `agent.invoke` needs.
    - `core`: tools that tool search never hides, by name or pattern.
    - `owner_of`: where a tool comes from, such as `("mcp", "github")`, for rules that name it; `("host", "")` without
      it.
    - other keywords are those of `Session.run`, such as `context_window=200_000` and `requester={...}`.

    A call that a policy asks about pauses the agent by `interrupt`, in the form of `HumanInTheLoopMiddleware`, and is
    resumed as there, with `approve` or `reject`. A host with an approver asks that one instead.
    """

    state_schema = _State

    def __init__(
        self, host: SomeHost, *, core: Sequence[str] = (), owner_of: OwnerOf[BaseTool] | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.tools = []
        self._host = host
        self._conversations = Conversations(host, core, options, owner_of)

    def _conversation(self, state: Any) -> Conversation:
        return self._conversations.get(state.get("hooksdk_session") or _thread())

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """Begin a run with the prompts that are new since the last one."""
        own = "" if _thread() else uuid.uuid4().hex
        messages: list[BaseMessage] = state["messages"]
        said: list[str] = state.get("hooksdk_said") or []
        newest = _newest_asked(messages)
        asked = [one for one in newest if one.id not in (state.get("hooksdk_left") or ())]
        if state.get("hooksdk_open"):  # the last run broke off: only the newest message is surely the user's
            asked = asked[-1:]
        before = [one for one in messages if isinstance(one, HumanMessage) and one not in asked]
        now = [*said, *_asked_texts(asked)]
        await self._conversations.begin(own or _thread(), now, earlier=said or _asked_texts(before))
        left = [one.id for one in newest]
        return {"hooksdk_session": own, "hooksdk_left": left, "hooksdk_said": now, "hooksdk_open": True}

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """End the run, unless a plugin sends the model on, and shorten trimmed results in the agent's own state."""
        conversation, messages, structured = self._conversation(state), state["messages"], _structured(state)
        finish = await conversation.finish(structured or _text(messages[-1]), structured=bool(structured))
        if finish.refused:
            more = {"structured_response": None} if structured else {}
            return {"messages": [HumanMessage(finish.refused)], "jump_to": "model", **more}
        shown = _trimmed(messages, await conversation.end())
        if finish.replaced:
            shown[-1] = shown[-1].model_copy(update={"content": finish.text})
        changed = [new for old, new in zip(messages, shown, strict=True) if new is not old]
        return {"messages": changed, "hooksdk_left": [one.id for one in _newest_asked(messages)], "hooksdk_open": False}

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Offer what is granted, show what is trimmed, and record the reply before its tools run."""
        conversation = self._conversation(request.state)
        try:
            await conversation.ask_model(_name(request.model), window=_window(request.model))
            run = await conversation.resolve([one for one in request.tools if isinstance(one, BaseTool)], self._tool)
            prepared = await conversation.prepare([*map(_plain, request.messages)])
            tools = _offered(run, request.tools)
            response = await handler(request.override(messages=_shown(request.messages, prepared), tools=tools))
            await _record(conversation, run, getattr(response, "model_response", response))
        except GraphBubbleUp:
            conversation.paused = "the model call was interrupted"
            await conversation.end()
            raise
        except BaseException as error:
            await conversation.end(error)
            raise
        return response

    def _tool(self, tool: BaseTool) -> Tool:
        definition = convert_to_openai_tool(tool)["function"]
        return self._conversations.tool(tool, definition.get("description", ""), definition.get("parameters", {}))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Judge the call, run it by the agent's own tool node, and record the result."""
        conversation = self._conversation(request.state)
        conversation.working += 1
        error: BaseException | None = None
        try:
            if conversation.run is None:  # resumed after a pause
                await conversation.resolve(request.runtime.tools, self._tool)
            return await _call(conversation, request, handler)
        except GraphBubbleUp:
            conversation.paused = "a tool call waits"
            raise
        except BaseException as problem:
            error = problem
            raise
        finally:
            conversation.working -= 1
            if error is not None or (conversation.paused and not conversation.working):
                await conversation.end(error)

    # The same hooks for `agent.invoke`

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Begin a run."""
        return self._plainly(self.abefore_agent, state, runtime)

    @hook_config(can_jump_to=["model"])
    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """End a run."""
        return self._plainly(self.aafter_agent, state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Make a model call."""
        return self._plainly(self.awrap_model_call, request, partial(anyio.to_thread.run_sync, handler))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Make a tool call."""
        return self._plainly(self.awrap_tool_call, request, partial(anyio.to_thread.run_sync, handler))

    def _plainly(self, seam: Callable[..., Any], *args: Any) -> Any:
        return plain_call(self._host, "agent.invoke(...)", "agent.ainvoke(...)", seam, *args)


def _thread() -> str:
    return str(get_config().get("configurable", {}).get("thread_id") or "")


async def _call(conversation: Conversation, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
    tools = {tool.name: tool for tool in request.runtime.tools}
    call = ToolCall(request.tool_call["id"], request.tool_call["name"], request.tool_call["args"])

    async def run(name: str, arguments: dict[str, Any], call_id: str) -> object:
        made = {**request.tool_call, "name": name, "args": arguments, "id": call_id}
        return await handler(replace(request, tool_call=made, tool=tools.get(name)))

    native = Native(run, partial(_result, call.id), GraphBubbleUp)
    result = await conversation.call(call, native, _ask)
    return native.value if native.result == result else _with_text(native.value, result, call)


def _ask(judged: JudgedCall, request: ApprovalRequest) -> Approval:
    """Pause the agent, or read the decision with which it was resumed."""
    call = {"id": judged.call.id, "name": judged.call.name, "args": judged.arguments}
    action = {**call, "description": question_of(request)}
    review = {"action_name": judged.call.name, "allowed_decisions": ["approve", "reject"]}
    return _decision(interrupt({"action_requests": [action], "review_configs": [review]}))


def _decision(answer: Any) -> Approval:
    """What a person decided, in the form of `HumanInTheLoopMiddleware`: anything but an approval is a no."""
    try:
        (decision,) = answer["decisions"]
        kind, message = decision["type"], decision.get("message")
    except (AttributeError, KeyError, TypeError, ValueError):
        return NO_ANSWER
    if kind == "reject":
        return Approval(False, str(message or ""))
    return Approval(True) if kind == "approve" else NO_ANSWER


def _text(message: BaseMessage) -> str:
    content = message.content
    if isinstance(message, HumanMessage) and not isinstance(content, str):  # each part of a prompt is a line
        return "\n".join(one if isinstance(one, str) else str(one.get("text") or "") for one in content)
    return str(message.text)


def _newest_asked(messages: Sequence[BaseMessage]) -> list[HumanMessage]:
    """The user messages after the last reply."""
    newest = takewhile(lambda one: isinstance(one, (HumanMessage, SystemMessage)), reversed(messages))
    return [one for one in newest if isinstance(one, HumanMessage)][::-1]


def _asked_texts(messages: Sequence[HumanMessage]) -> list[str]:
    """The texts of the caller's messages. Messages of LangChain's own, such as a summary, name their source and are
    left out."""
    return [_text(one) for one in messages if not one.additional_kwargs.get("lc_source")]


def _structured(state: Any) -> str:
    """The agent's structured answer, as JSON; empty without one."""
    answer = state.get("structured_response")
    return "" if answer is None else to_json(answer, fallback=str).decode()


def _plain(message: BaseMessage) -> Message:
    if isinstance(message, AIMessage):
        made = [*message.tool_calls, *message.invalid_tool_calls]
        return FORMAT.reply(_text(message), [ToolCall(one["id"] or "", one["name"] or "", one["args"]) for one in made])
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": _text(message)}
    return {"role": "system" if message.type == "system" else "user", "content": _text(message)}


def _trimmed(messages: Sequence[BaseMessage], texts: Texts) -> list[BaseMessage]:
    short = short_texts([one.tool_call_id if isinstance(one, ToolMessage) else None for one in messages], texts)
    return [
        one if text is None or text == _text(one) else one.model_copy(update={"content": text, "artifact": None})
        for one, text in zip(messages, short, strict=True)
    ]


def _shown(messages: Sequence[BaseMessage], prepared: PreparedMessages) -> list[BaseMessage]:
    if prepared.replaced:
        return [*convert_to_messages(prepared)]
    return [*_trimmed(messages, prepared.trimmed), *map(HumanMessage, prepared.added)]


def _offered(run: Run, tools: Sequence[BaseTool | dict[str, Any]]) -> list[BaseTool | dict[str, Any]]:
    """The offered tools: the agent's own objects, the provider's own tools, and definitions of what plugins add."""
    offered = {tool.name: tool for tool in run.offered}
    mine = {
        name for name, tool in offered.items() if tool.source == "plugin" or tool.bridge or tool.name != tool.own_name
    }
    own = [tool for tool in tools if isinstance(tool, dict) or tool.name in offered.keys() - mine]
    return [*own, *FORMAT.tools([offered[name] for name in offered if name in mine])]


def _name(model: Any) -> ModelName:
    """Provider and name of a model, as LangChain's tracers get them."""
    params: dict[str, Any] = model._get_ls_params() if hasattr(model, "_get_ls_params") else {}  # noqa: SLF001 - what its own middlewares ask
    return params.get("ls_provider"), params.get("ls_model_name")


def _window(model: Any) -> int | None:
    profile: dict[str, Any] = getattr(model, "profile", None) or {}
    return profile.get("max_input_tokens")


async def _record(conversation: Conversation, run: Run, response: Any) -> None:
    messages: list[BaseMessage] = [response] if isinstance(response, AIMessage) else response.result
    for about in [one.response_metadata for one in messages if isinstance(one, AIMessage)]:
        await conversation.note_reply(about.get("model_provider"), about.get("model_name"))
    usage: Any = next((one.usage_metadata for one in messages if isinstance(one, AIMessage)), None)
    await run.record([*map(_plain, messages)], usage=usage)


def _messages_in(value: Any) -> list[Any]:
    """The messages in a tool's answer, which is a message, a `Command` with messages, or a list of both."""
    if isinstance(value, (list, tuple)):
        return [message for one in cast("Sequence[Any]", value) for message in _messages_in(one)]
    update = getattr(value, "update", {"messages": [value]})
    return [*update.get("messages", ())] if hasattr(update, "get") else []


def _result(call_id: str, value: object) -> ToolResult:
    answers = [one for one in _messages_in(value) if isinstance(one, ToolMessage) and one.tool_call_id == call_id]
    return ToolResult(_text(answers[0]), is_error=answers[0].status == "error") if answers else ToolResult("")


def _with_text(value: Any, result: ToolResult, call: ToolCall) -> Any:
    """The tool's answer with another text; the other effects of a `Command` stay."""
    status = "error" if result.is_error else "success"
    message = ToolMessage(result.text, name=call.name, tool_call_id=call.id, status=status)
    if not hasattr(value, "update"):
        return message
    others = [one for one in _messages_in(value) if getattr(one, "tool_call_id", None) != call.id]
    return replace(value, update={**value.update, "messages": [*others, message]})
