"""pydantic-ai-harness: the guard of a `ToolGuardrail`; pydantic-ai's own loop and `FunctionModel`."""

from __future__ import annotations

import warnings
from typing import Any

from policy_scene import Scene, main
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.guardrails import GuardrailResult, ToolCallInfo, ToolGuardrail


def block() -> Any:
    return GuardrailResult.block("no")


def guardrail(scene: Scene) -> ToolGuardrail[Any]:
    async def judge(call: ToolCallInfo) -> Any:
        return await scene.judge(GuardrailResult.allow, block)

    def judge_plainly(call: ToolCallInfo) -> Any:
        return scene.judge_plainly(GuardrailResult.allow, block)

    guard: Any = judge_plainly if scene.plain else judge
    return ToolGuardrail(**{"guardd" if scene.case == "hook" else "guard": guard})


async def attempt(scene: Scene) -> None:
    scene.only("hook")

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        first = len(messages) == 1
        return ModelResponse(parts=[ToolCallPart("act", scene.arguments) if first else TextPart("Done.")])

    scene.limited = False
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        agent = Agent(FunctionModel(model), capabilities=[guardrail(scene)])
        agent.tool_plain(scene.act)
        with scene.calling():
            run = await agent.run("Delete it.")
            scene.answered = any(
                isinstance(part, ToolReturnPart) for message in run.all_messages() for part in message.parts
            )
    scene.warned = any("guard" in str(one.message) for one in told)


if __name__ == "__main__":
    main("pydantic-ai-harness", attempt)
