"""hooksdk in Strands Agents: a plugin of the agent.

    agent = Agent(model, tools=tools, plugins=[HookSDK(LazyHost())])

Put it first. The session is that of Strands: session and agent id, with a colon between them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, cast, final

from strands import Agent
from strands.agent import AgentResult
from strands.hooks import AfterInvocationEvent, BeforeInvocationEvent, BeforeToolCallEvent
from strands.interrupt import InterruptException
from strands.interventions.actions import default_evaluate
from strands.middleware import (
    ExecuteToolContext,
    ExecuteToolStage,
    InvokeModelContext,
    InvokeModelStage,
    MiddlewareNext,
    ModelStopReason,
    ToolResultEvent,
    TypedEvent,
)
from strands.plugins import Plugin
from strands.tools.tools import PythonAgentTool
from strands.types.content import Message as NativeMessage
from strands.types.tools import AgentTool, ToolSpec

from hooksdk.adapters._calls import NO_ANSWER, Native, Texts, description_of, parameters_of, short_texts
from hooksdk.adapters._conversation import FORMAT, Conversation, Conversations, OwnerOf, SomeHost, split_name
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message
from hooksdk.formats.kit import input_of
from hooksdk.run import JudgedCall, PreparedMessages
from hooksdk.tools import Tool

__all__ = ["HookSDK"]

GOES_ON = ("end_turn", "stop_sequence", "tool_use")
"""Stop reasons after which Strands asks the model once more if a hook wants it."""
INTERRUPT = "hooksdk"
"""The name of the interrupt by which a person is asked about a call."""


class _Pause(Exception):
    """A tool waits for a person: `args[0]` is Strands' event of it."""


@final
class HookSDK(Plugin):
    """Every policy, observer and trimmer of a host, in agents of Strands.

    - `host`: a `hooksdk.Host` that is open, or a `hooksdk.sync.LazyHost`, which `agent("...")` needs.
    - `core`: tools that tool search never hides, by name or pattern.
    - `owner_of`: where a tool comes from, such as `("mcp", "github")`, for rules that name it; `("host", "")` without
      it.
    - other keywords are those of `Session.run`, such as `context_window=200_000` and `requester={...}`.

    A call that a policy asks about pauses the agent by Strands' own interrupt, whose name is `hooksdk`, and is answered
    as there: `True`, `"y"` and `"yes"` are a yes, and any other answer is a no. A host with an approver asks that one
    first.
    """

    def __init__(
        self, host: SomeHost, *, core: Sequence[str] = (), owner_of: OwnerOf[AgentTool] | None = None, **options: Any
    ) -> None:
        super().__init__()
        self._conversations = Conversations(host, core, options, owner_of)
        # The agent of each conversation.
        self._agents = weakref.WeakValueDictionary[str, Agent]()
        # Conversations whose model a plugin has sent on: Strands begins a new invocation, and the run goes on in it.
        self._going_on = set[str]()

    @property
    def name(self) -> str:
        """The plugin's name."""
        return "hooksdk"

    def init_agent(self, agent: Agent) -> None:
        """Add the hooks to an agent. One plugin serves many agents."""
        agent.add_hook(self._begin, BeforeInvocationEvent)
        agent.add_hook(self._select, BeforeToolCallEvent)
        agent.add_hook(self._end, AfterInvocationEvent)
        agent.add_middleware(InvokeModelStage, self._request)
        agent.add_middleware(ExecuteToolStage, self._execute)

    def _conversation(self, agent: Any) -> Conversation:
        return self._conversations.get(f"{agent.session_id}:{agent.agent_id}")

    async def _begin(self, event: BeforeInvocationEvent) -> None:
        agent: Any = event.agent
        conversation = self._conversation(agent)
        if conversation.id in self._going_on:
            self._going_on.remove(conversation.id)
            return
        if self._agents.get(conversation.id) in (
            None,
            agent,
        ):  # an agent has one invocation at a time: it has abandoned an older one
            conversation.working = 0
        said = _asked_texts(event.messages or ())
        await self._conversations.begin(conversation.id, said, earlier=_asked_texts(agent.messages))
        conversation = self._conversation(agent)
        conversation.working += 1
        self._agents[conversation.id] = agent
        await _ask(conversation, agent.model)
        await conversation.resolve([*_tools(agent).values()], self._tool)  # the invocation may begin with a tool call

    async def _end(self, event: AfterInvocationEvent) -> None:
        agent: Any = event.agent
        conversation = self._conversation(agent)
        conversation.working = 0
        reason = event.result.stop_reason if event.result else None
        error = None if event.result else sys.exc_info()[1]  # the hook fires while the error is raised
        if reason == "cancelled" or isinstance(error, GeneratorExit):
            error = asyncio.CancelledError()
        if reason == "interrupt":
            conversation.paused = "an interrupt waits for an answer"
        elif event.result and error is None:
            finish = await conversation.finish(
                _answer(event.result),
                structured=event.result.structured_output is not None,
                can_go_on=reason in GOES_ON,
            )
            if finish.refused:
                event.resume, conversation.working = finish.refused, 1
                self._going_on.add(conversation.id)
                return
            if finish.replaced:
                message: Any = event.result.message  # the same object as in the agent's messages and in the stream
                message["content"] = [one for one in message["content"] if "text" not in one] + [{"text": finish.text}]
        agent.messages[:] = _trimmed(agent.messages, await conversation.end(error))

    def _tool(self, tool: AgentTool) -> Tool:
        spec = tool.tool_spec
        schema = cast("dict[str, Any]", spec["inputSchema"])
        return self._conversations.tool(tool, spec["description"], schema.get("json", schema), name=tool.tool_name)

    async def _request(
        self, context: InvokeModelContext, next_fn: MiddlewareNext[InvokeModelContext, TypedEvent]
    ) -> AsyncGenerator[TypedEvent, None]:
        """Offer what is granted, show what is trimmed, and record the reply before its tools run."""
        agent: Any = context.agent
        own = _tools(agent)
        conversation = self._conversation(agent)
        await _ask(conversation, agent.model)
        run = await conversation.resolve([*own.values()], self._tool)
        messages = _plain(context.messages)
        await conversation.settle({one["tool_call_id"]: one["content"] for one in messages if one["role"] == "tool"})
        prepared = await conversation.prepare(messages)
        agent.messages[:] = _trimmed(agent.messages, prepared.trimmed)
        offered = {tool.name: tool for tool in run.offered}
        specs = [one for one in context.tool_specs if one["name"] not in own or one["name"] in offered]
        specs += [_spec(tool) for name, tool in offered.items() if name not in own]
        async for event in next_fn(
            context.replace(
                messages=_shown(context.messages, prepared),
                tool_specs=specs,
                dynamic_trailing_blocks=context.dynamic_trailing_blocks + len(prepared.added),
            )
        ):
            if isinstance(event, ModelStopReason):
                usage = {"input_tokens": event.usage["inputTokens"], "output_tokens": event.usage["outputTokens"]}
                await run.record(_plain([event.message]), usage=usage)
            yield event

    async def _select(self, event: BeforeToolCallEvent) -> None:
        """Select a plugin's tool for its call: Strands would report it as missing, since it is none of the agent's."""
        run = self._conversation(event.agent).run
        name = event.tool_use["name"]
        for tool in run.offered if run and event.selected_tool is None else ():
            if tool.name == name:
                event.selected_tool = PythonAgentTool(name, _spec(tool), _never)

    async def _execute(
        self, context: ExecuteToolContext, next_fn: MiddlewareNext[ExecuteToolContext, TypedEvent]
    ) -> AsyncGenerator[TypedEvent, None]:
        """Judge the call, run its tool, and record the result. Events of the tool pass while it runs."""
        if context.tool is not None and _is_answer(context.tool):
            async for event in next_fn(context):
                yield event
            return
        events = asyncio.Queue[TypedEvent | None]()
        task = asyncio.create_task(self._called(context, next_fn, events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _called(
        self,
        context: ExecuteToolContext,
        next_fn: MiddlewareNext[ExecuteToolContext, TypedEvent],
        emit: Callable[[TypedEvent], None],
    ) -> TypedEvent:
        agent, use = context.agent, context.tool_use

        async def run(name: str, arguments: dict[str, Any], call_id: str) -> object:
            within: Any = {**use, "name": name, "input": arguments, "toolUseId": call_id}
            result: TypedEvent | None = None
            async for event in next_fn(context.replace(tool=_tools(agent)[name], tool_use=within)):
                if "tool_interrupt_event" in event:
                    raise _Pause(event)
                if isinstance(event, ToolResultEvent):
                    result = event
                else:
                    emit(event)
            return result

        def ask(judged: JudgedCall, request: ApprovalRequest) -> Approval:
            call = {"tool": judged.call.name, "arguments": judged.arguments}
            reason = {"title": request.title, "description": description_of(request), **call}
            answer = context.interrupt(INTERRUPT, reason=reason).response
            reason = answer if isinstance(answer, str) else ""
            is_answer = isinstance(answer, bool) or reason.strip()
            return Approval(default_evaluate(answer), reason) if is_answer else NO_ANSWER

        native = Native(run, _result, (InterruptException, _Pause))
        conversation = self._conversation(agent)
        is_direct = conversation.run is None  # the program has called `agent.tool.name(...)` outside of a run
        if is_direct:
            await conversation.resolve([*_tools(agent).values()], self._tool)
        try:
            result = await conversation.call(ToolCall(use["toolUseId"], use["name"], use["input"]), native, ask)
        except _Pause as pause:
            return pause.args[0]
        finally:
            if is_direct:
                await conversation.end(sys.exc_info()[1])
        if isinstance(native.value, ToolResultEvent) and native.result == result:
            return native.value
        status = "error" if result.is_error else "success"
        return ToolResultEvent({"toolUseId": use["toolUseId"], "status": status, "content": [{"text": result.text}]})


async def _ask(conversation: Conversation, model: Any) -> None:
    """Name the model. Its provider is in its name, or is the module of Strands that its class comes from."""
    provider, name = split_name(dict(model.get_config() or {}).get("model_id"))
    modules = (kind.__module__ for kind in type(model).__mro__)
    own = [one.removeprefix("strands.models.") for one in modules if one.startswith("strands.models.")]
    provider = provider or (own[0] if own and own[0] != "model" else None)
    await conversation.ask_model((provider, name), window=getattr(model, "context_window_limit", None))


def _answer(result: AgentResult) -> str:
    """The text of the last reply, or the structured answer as JSON."""
    structured = result.structured_output
    return _text(result.message["content"]) if structured is None else structured.model_dump_json()


def _tools(agent: Any) -> Mapping[str, AgentTool]:
    """The agent's tools by name, without the one by which the model gives a structured answer."""
    tools: dict[str, AgentTool] = {**agent.tool_registry.registry, **agent.tool_registry.dynamic_tools}
    return {name: tool for name, tool in tools.items() if not _is_answer(tool)}


def _is_answer(tool: AgentTool) -> bool:
    return tool.tool_type == "structured_output"


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError  # hooksdk runs it


def _spec(tool: Tool) -> ToolSpec:
    return ToolSpec(name=tool.name, description=tool.description, inputSchema={"json": parameters_of(tool)})


def _result(value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    result = cast("ToolResultEvent", value).tool_result
    return ToolResult(_text(result["content"]), is_error=result["status"] == "error")


def _text(blocks: Iterable[Any]) -> str:
    texts = [one["text"] if "text" in one else _json(one["json"]) for one in blocks if "text" in one or "json" in one]
    return "\n".join(texts)


def _json(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _plain(messages: Iterable[NativeMessage]) -> list[Message]:
    plain: list[Message] = []
    for message in messages:
        blocks: list[Any] = [*message["content"]]
        text = _text(blocks)
        if message["role"] == "assistant":
            uses = [one["toolUse"] for one in blocks if "toolUse" in one]
            plain.append(FORMAT.reply(text, [ToolCall(one["toolUseId"], one["name"], one["input"]) for one in uses]))
            continue
        results = [one["toolResult"] for one in blocks if "toolResult" in one]
        plain += [
            {"role": "tool", "tool_call_id": one["toolUseId"], "content": _text(one["content"])} for one in results
        ]
        if text or not results:
            plain.append({"role": "user", "content": text})
    return plain


def _asked_texts(messages: Iterable[NativeMessage]) -> list[str]:
    return [str(one["content"]) for one in _plain(messages) if one["role"] == "user" and one["content"]]


def _trimmed(messages: Sequence[NativeMessage], texts: Texts) -> list[NativeMessage]:
    """The messages, with a copy that has the short text for each with a trimmed result."""
    all_blocks: list[Any] = [block for message in messages for block in message["content"]]
    short = iter(short_texts((one.get("toolResult", {}).get("toolUseId") for one in all_blocks), texts))
    shown: list[NativeMessage] = []
    for message in messages:
        blocks: list[Any] = [*message["content"]]
        new = [_with_text(block, next(short)) for block in blocks]
        changed = any(one is not two for one, two in zip(new, blocks, strict=True))
        shown.append(cast("NativeMessage", {**message, "content": new}) if changed else message)
    return shown


def _with_text(block: Any, text: str | None) -> Any:
    if text is None or text == _text(block["toolResult"]["content"]):
        return block
    return {"toolResult": {**block["toolResult"], "content": [{"text": text}]}}


def _shown(messages: Sequence[NativeMessage], prepared: PreparedMessages) -> list[NativeMessage]:
    if prepared.replaced:
        return _native(prepared)
    shown = _trimmed(messages, prepared.trimmed)
    return _joined([*shown, *({"role": "user", "content": [{"text": text}]} for text in prepared.added)])


def _native(messages: Iterable[Message]) -> list[NativeMessage]:
    """Messages of a plugin in Strands' form."""
    native: list[Any] = []
    for message in messages:
        text = FORMAT.text(message)
        role, blocks = "user", list[Any]([{"text": text}] if text else [])
        if FORMAT.is_reply(message):
            uses = [
                {"toolUseId": one.id, "name": one.name, "input": input_of(one.arguments)}
                for one in FORMAT.calls(message)
            ]
            role, blocks = "assistant", [*blocks, *({"toolUse": use} for use in uses)]
        elif results := FORMAT.results(message):
            blocks = [
                {"toolResult": {"toolUseId": one.call_id, "status": "success", "content": [{"text": one.text}]}}
                for one in results
            ]
        native.append({"role": role, "content": blocks})
    return _joined(native)


def _joined(messages: Iterable[Any]) -> list[NativeMessage]:
    """The messages with neighbouring user messages joined: Strands wants the roles to alternate."""
    joined: list[Any] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"] == "user":
            joined[-1] = {**joined[-1], "content": [*joined[-1]["content"], *message["content"]]}
        else:
            joined.append(message)
    return joined
