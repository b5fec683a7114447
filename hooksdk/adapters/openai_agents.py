"""hooksdk in the OpenAI Agents SDK: a runner in the place of its own.

    hooked = HookSDK(LazyHost())
    result = await hooked.run(agent, "hi", session=session)

The hooksdk session is the SDK session; without one it is `conversation`, or one of its own for each run.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast, final

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    Model,
    ModelProvider,
    RunConfig,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
)
from agents.items import ModelResponse
from agents.memory import Session
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall

from hooksdk.adapters import _openai_forms as forms
from hooksdk.adapters._calls import Native
from hooksdk.adapters._conversation import FORMAT, Conversation, Conversations, OwnerOf, SomeHost, plain_call
from hooksdk.adapters._openai_finish import Ending
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.run import JudgedCall
from hooksdk.tools import Tool

__all__ = ["HookSDK"]

Input = str | list[Any] | RunState[Any]
REQUEST = inspect.signature(Model.get_response)
"""The arguments by which the SDK asks a model, streamed or not."""
ALL = 1_000_000_000
"""The limit for reading a whole session. Its settings may limit what is read, and writing that back would shorten
it."""


@final
class HookSDK:
    """Every policy, observer and trimmer of a host, in agents of the OpenAI Agents SDK.

    - `host`: a `hooksdk.Host` that is open, or a `hooksdk.sync.LazyHost`, which `run_sync` needs.
    - `core`: tools that tool search never hides, by name or pattern.
    - `owner_of`: where a tool comes from, such as `("mcp", "github")`, for rules that name it; `("host", "")` without
      it.
    - other keywords are those of `Session.run`, such as `context_window=200_000` and `requester={...}`.

    A call that a policy asks about is one of the result's `interruptions`; `run` goes on with the state in which it is
    approved or rejected. A host with an approver asks that one first.
    """

    def __init__(
        self, host: SomeHost, *, core: Sequence[str] = (), owner_of: OwnerOf[FunctionTool] | None = None, **options: Any
    ) -> None:
        self._host = host
        self._conversations = Conversations(host, core, options, owner_of)

    async def run(self, agent: Agent[Any], prompt: Input, /, **options: Any) -> RunResult:
        """`Runner.run`, with its keywords, and `conversation`, an id that counts where there is no `session`. To go on
        with a state, give its `context` again, if it had one."""
        return await self._played(options).whole(agent, prompt)

    @asynccontextmanager
    async def run_streamed(
        self, agent: Agent[Any], prompt: Input, /, **options: Any
    ) -> AsyncGenerator[RunResultStreaming]:
        """`Runner.run_streamed`, with the keywords of `run`: `async with hooked.run_streamed(agent, "hi") as result:`,
        and in it `result.stream_events()`. The run ends with the block, which cancels what is still at work."""
        async with self._played(options).streamed(agent, prompt) as result:
            yield result

    def run_sync(self, agent: Agent[Any], prompt: Input, /, **options: Any) -> RunResult:
        """`run`, for plain code. Raises `ConfigError` unless the host is a `LazyHost`."""
        return plain_call(self._host, "run_sync(...)", "run(...)", partial(self.run, agent, prompt, **options))

    def _played(self, options: dict[str, Any]) -> _Played:
        session: Session | None = options.get("session")
        session_id = options.pop("conversation", "") or (session.session_id if session else uuid.uuid4().hex)
        return _Played(self._conversations.get(session_id, anew=True), options, self._tool)

    def _tool(self, tool: FunctionTool) -> Tool:
        schema = tool.params_json_schema
        if tool.strict_json_schema:  # a strict schema requires every parameter, also one with a default
            optional = {name for name, one in schema.get("properties", {}).items() if "default" in one}
            schema = {**schema, "required": [one for one in schema.get("required", ()) if one not in optional]}
        return self._conversations.tool(tool, tool.description, schema)


class _Played:
    """One run: copies of the SDK's agents, models and tools with hooksdk around them."""

    def __init__(
        self, conversation: Conversation, options: dict[str, Any], make: Callable[[FunctionTool], Tool]
    ) -> None:
        self.conversation, self._make = conversation, make
        given: RunConfig | None = options.get("run_config")
        config = given or RunConfig()
        self._own_provider = None if given else config.model_provider
        self._format_error = config.tool_error_formatter
        config = replace(
            config,
            model=self._model(config.model),
            model_provider=_Provider(config.model_provider, self),
            tool_not_found_behavior="return_error_to_model",
            tool_error_formatter=self._failure,
        )
        self._options: dict[str, Any] = {**options, "run_config": config}
        self._ending = Ending(conversation, self._options)
        self._agents: dict[int, Agent[Any]] = {}
        self._natives: list[FunctionTool] = []
        self._judged: dict[str, JudgedCall] = {}
        self._failed: set[str] = set()
        self._handoffs = forms.Handoffs()

    async def whole(self, agent: Agent[Any], prompt: Input) -> RunResult:
        """Play the run and end it."""

        async def play() -> RunResult:
            result = await Runner.run(*await self._start(agent, prompt), **self._options)
            while (given := await self._ending.next_input(result)) is not None:
                result = await Runner.run(result.last_agent, given, **self._options)
            return result

        try:
            result: RunResult = await self.conversation.play(
                forms.prompt_texts(prompt), play, earlier=await self._before()
            )
            await self._finish(result)
            return result
        finally:
            await self._close()

    @asynccontextmanager
    async def streamed(self, agent: Agent[Any], prompt: Input) -> AsyncGenerator[RunResultStreaming]:
        """The run while it streams. Leaving the block early cancels it."""

        async def start() -> RunResultStreaming:
            return Runner.run_streamed(*await self._start(agent, prompt), **self._options)

        async def go_on(agent: Agent[Any], given: Any) -> RunResultStreaming:
            return Runner.run_streamed(agent, given, **self._options)

        try:
            before = await self._before()
            result: RunResultStreaming = await self.conversation.play(forms.prompt_texts(prompt), start, earlier=before)
            result.stream_events = partial(self._ending.events, result, go_on)
            try:
                yield result
            except BaseException as error:
                result.cancel()
                await self.conversation.end(error)
                raise
            if self._ending.is_over:
                await self._finish(result)
            else:
                result.cancel()
                await self.conversation.end(asyncio.CancelledError())
        finally:
            await self._close()

    async def _before(self) -> list[str]:
        """The user's texts in the history of the SDK's session."""
        session: Session | None = self._options.get("session")
        return forms.asked_texts(await session.get_items(limit=ALL)) if session is not None else []

    async def _close(self) -> None:
        if self._own_provider is not None:
            await self._own_provider.aclose()

    async def _start(self, agent: Agent[Any], prompt: Input) -> tuple[Agent[Any], Any]:
        hooked = self._agent(agent)
        if isinstance(prompt, RunState):  # its agents are those without hooksdk around them
            context = self._options.get("context")
            return hooked, await RunState.from_json(hooked, prompt.to_json(), context_override=context)
        return hooked, prompt

    async def _finish(self, result: RunResult | RunResultStreaming) -> None:
        """End the run, and shorten trimmed results in the SDK's own lists."""
        if result.interruptions:
            self.conversation.paused = "tool calls wait for an approval"
        texts = await self.conversation.end()
        session: Session | None = self._options.get("session")
        if texts:
            forms.shorten(result, texts)
        answer = self._ending.replaced
        if (texts or answer) and session is not None and not result.interruptions:
            items: list[Any] = await session.get_items(limit=ALL)
            changed = forms.trimmed_items(forms.with_last_answer(items, answer) if answer else items, texts)
            if changed != items:
                await session.clear_session()
                await session.add_items(changed)  # pyright: ignore[reportArgumentType] - plain items

    async def _failure(self, args: Any) -> str | None:
        self._failed.add(args.call_id)
        text: Any = self._format_error(args) if self._format_error else None
        return await text if inspect.isawaitable(text) else text

    # Agents and tools

    def _agent(self, agent: Agent[Any]) -> Agent[Any]:
        if id(agent) not in self._agents:
            hooked: Any = copy.copy(agent)
            self._agents[id(agent)] = self._agents[id(hooked)] = hooked
            hooked.get_all_tools = partial(self._tools, agent)
            hooked.model = self._model(agent.model)
            hooked.handoffs = [*map(self._handoff, agent.handoffs)]
        return self._agents[id(agent)]

    def _model(self, model: str | Model | None) -> str | Model | None:
        return _Hooked(model, self) if isinstance(model, Model) else model

    def _handoff(self, handoff: Any) -> Any:
        if isinstance(handoff, Agent):
            return self._agent(handoff)  # pyright: ignore[reportUnknownArgumentType] - of any context
        hooked = copy.copy(handoff)

        async def invoke(context: Any, text: str) -> Any:
            return self._agent(await handoff.on_invoke_handoff(context, text))

        hooked.on_invoke_handoff = invoke
        return hooked

    async def _tools(self, agent: Agent[Any], context: Any) -> list[Any]:
        tools = await agent.get_all_tools(context)
        natives = [one for one in tools if isinstance(one, FunctionTool)]
        known = [*map(forms.definition, self._natives)]
        if [*map(forms.definition, natives)] != known:  # an MCP server's are made anew each time
            self._natives = natives
        await self.conversation.ask_model(*forms.model_names(self._options["run_config"].model or agent.model))
        run = await self.conversation.resolve(self._natives, self._make)
        own = {one.name: one for one in natives}
        added = [forms.function_of(tool) for tool in run.offered if tool.name not in own]
        functions = [self._judging(one, own) for one in [*natives, *added]]
        return [*functions, *(one for one in tools if not isinstance(one, FunctionTool))]

    def _judging(self, tool: FunctionTool, own: dict[str, FunctionTool]) -> FunctionTool:
        asks = tool.needs_approval

        async def needs_approval(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
            answer: Any = asks(context, arguments, call_id) if callable(asks) else asks
            if await answer if inspect.isawaitable(answer) else answer:
                return True
            run = await self.conversation.begin()
            call = next((one for one in run.pending if one.id == call_id), None)
            if call is None:
                return False  # judged where it runs
            judged = self._judged[call_id] = await run.judge(call)
            return judged.pending is not None

        async def invoke(context: ToolContext[Any], text: str) -> Any:
            return await self._call(ToolCall(context.tool_call_id, tool.name, text), context, own)

        judging = copy.copy(tool)
        judging.needs_approval, judging.on_invoke_tool = needs_approval, invoke
        return judging

    async def _call(self, call: ToolCall, context: ToolContext[Any], own: dict[str, FunctionTool]) -> object:
        async def run(name: str, arguments: dict[str, Any], call_id: str) -> object:
            text = json.dumps(arguments)
            made = ResponseFunctionToolCall(type="function_call", name=name, arguments=text, call_id=call_id)
            within: Any = ToolContext.from_agent_context(
                context, call_id, tool_call=made, agent=context.agent, run_config=context.run_config
            )
            value = await own[name].on_invoke_tool(within, text)
            return value, made, call_id in self._failed

        def ask(judged: JudgedCall, _request: ApprovalRequest) -> Approval:
            # Only a call that was approved comes here: others were asked about before.
            approved = context.is_tool_approved(context.tool_name, judged.call.id)
            return Approval(True) if approved else Approval(False, "nobody was asked", unanswered="not_asked")

        native = Native(run, forms.tool_result, ())
        result = await self.conversation.call(call, native, ask, self._judged.pop(call.id, None))
        value = cast("tuple[object, ...] | ToolResult", native.value)
        return value[0] if native.result == result and isinstance(value, tuple) else result.text

    # The model's turns

    async def before(self, model: Model, request: inspect.BoundArguments) -> inspect.BoundArguments:
        """Change the model's request: plugins have changed its items, and its tools are those that are offered."""
        asked = request.arguments
        handoffs: Sequence[Handoff] = asked["handoffs"]
        await self.conversation.note_reply(
            *forms.model_names(model)[0]
        )  # a provider may have chosen this model for a name
        self._handoffs.names.update(one.tool_name for one in handoffs)
        given = forms.listed(asked["input"])
        outputs = {call_id: forms.output_text(one) for one in given if (call_id := forms.answered(one))}
        await self.conversation.settle(outputs, [*map(forms.answered, given)])
        given = forms.trimmed_items(given, self.conversation.corrections)
        messages = forms.plain_messages(given, self._handoffs)
        if asked.get("previous_response_id") or asked.get("conversation_id"):  # the provider keeps the earlier messages
            view = self.conversation.session.view
            known = {result.call_id for one in view for result in FORMAT.results(one)}
            messages = [*view, *(one for one in messages if one.get("tool_call_id") not in known)]
        prepared, run = await self.conversation.prepare(messages), await self.conversation.begin()
        offered = {tool.name for tool in run.offered}
        shown: list[Any] = [one for one in asked["tools"] if not isinstance(one, FunctionTool) or one.name in offered]
        names = {one.name for one in shown}
        asked["tools"] = [*shown, *(forms.function_of(tool) for tool in run.offered if tool.name not in names)]
        if prepared.replaced:
            asked["input"] = [item for message in prepared for item in forms.native_items(message)]
        else:
            asked["input"] = [*forms.trimmed_items(given, prepared.trimmed), *map(forms.ITEMS.user, prepared.added)]
        return request

    async def after(self, output: Sequence[Any], usage: Any) -> None:
        """Record the reply before its tools run."""
        items: list[Any] = [one if isinstance(one, dict) else one.model_dump(exclude_unset=True) for one in output]
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens} if usage else None
        if messages := forms.plain_messages(items, self._handoffs):
            await (await self.conversation.begin()).record(messages, usage=tokens)


@final
class _Hooked(Model):
    def __init__(self, model: Model, played: _Played) -> None:
        self._model, self._played = model, played
        self.model: Any = getattr(model, "model", None)

    async def get_response(self, *given: Any, **named: Any) -> ModelResponse:
        request = await self._played.before(self._model, REQUEST.bind(self, *given, **named))
        response = await self._model.get_response(*request.args[1:], **request.kwargs)
        await self._played.after(response.output, response.usage)
        return response

    async def stream_response(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
        request = await self._played.before(self._model, REQUEST.bind(self, *given, **named))
        async for event in self._model.stream_response(*request.args[1:], **request.kwargs):
            if event.type == "response.completed":
                await self._played.after(event.response.output, event.response.usage)
            yield event

    def get_retry_advice(self, request: Any) -> Any:
        return self._model.get_retry_advice(request)

    async def close(self) -> None:
        await self._model.close()


@final
class _Provider(ModelProvider):
    def __init__(self, provider: ModelProvider, played: _Played) -> None:
        self._provider, self._played = provider, played

    def get_model(self, model_name: str | None) -> Model:
        return _Hooked(self._provider.get_model(model_name), self._played)

    async def aclose(self) -> None:
        await self._provider.aclose()
