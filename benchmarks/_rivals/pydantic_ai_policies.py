"""pydantic-ai: a `before_tool_execute` hook, which raises `SkipToolExecution` to block; its own loop and `FunctionModel`.

Stricter: the hook's `timeout`. A misspelt method is that of a capability class, the other way to write one.
"""

from __future__ import annotations

from typing import Any

from policy_scene import Scene, main
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, Hooks
from pydantic_ai.exceptions import SkipToolExecution
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def block() -> Any:
    raise SkipToolExecution("no")


def capability_of(scene: Scene) -> AbstractCapability[Any]:
    if scene.case == "method":

        class Guard(AbstractCapability[Any]):
            async def before_tool_execut(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
                return await scene.judge(lambda: args, block)

        return Guard()
    hooks: Any = Hooks()
    decorate = hooks.on.before_tool_execut if scene.case == "hook" else hooks.on.before_tool_execute
    if scene.variant == "timeout":
        decorate = decorate(timeout=scene.limit)
    if scene.plain:

        @decorate
        def judge_plainly(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            return scene.judge_plainly(lambda: args, block)

    else:

        @decorate
        async def judge(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            return await scene.judge(lambda: args, block)

    return hooks


async def attempt(scene: Scene) -> None:
    scene.only("method", "hook")

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        first = len(messages) == 1
        return ModelResponse(parts=[ToolCallPart("act", scene.arguments) if first else TextPart("Done.")])

    agent = Agent(FunctionModel(model), capabilities=[capability_of(scene)])
    agent.tool_plain(scene.act)
    scene.limited = scene.variant == "timeout"
    with scene.calling():
        run = await agent.run("Delete it.")
        scene.answered = any(
            isinstance(part, ToolReturnPart) for message in run.all_messages() for part in message.parts
        )


if __name__ == "__main__":
    main("pydantic-ai-slim", attempt)
