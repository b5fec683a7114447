"""pydantic-ai-harness: a `ToolGuardrail` for some tools by name; its guard says no."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

from policy_scene import DoesNotExist, Scene, main
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.guardrails import GuardrailResult, ToolCallInfo, ToolGuardrail


def no(call: ToolCallInfo) -> Any:
    return GuardrailResult.block("no")


def no_in_words(call: ToolCallInfo) -> Any:
    return "block"


def no_by_prefix(call: ToolCallInfo) -> Any:
    name: Any = call.name
    return not name.startwith("dr")


GUARDS: dict[str, Callable[[], Any]] = {
    "allows": lambda: ToolGuardrail(guard=no, tools=["delete"]),
    "blocks": lambda: ToolGuardrail(guard=no, tools=["drop"]),
    "list": lambda: compile("ToolGuardrail(guard=no, tools=['drop')", "guard", "eval"),
    "name": lambda: cast("Any", ToolGuardrail)(guard=no, tool=["drop"]),
    "function": lambda: ToolGuardrail(guard=no_by_prefix),
    "case": lambda: ToolGuardrail(guard=no, tools=["DROP"]),
    "verdict": lambda: ToolGuardrail(guard=no_in_words, tools=["drop"]),
    "pattern": lambda: ToolGuardrail(guard=no, tools=["dr*"]),
    "tool": lambda: ToolGuardrail(guard=no, tools=["dorp"]),
}


async def attempt(scene: Scene) -> None:
    scene.asked = True
    if scene.case not in GUARDS:
        raise DoesNotExist

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart("drop", {"table": "a"}) if len(messages) == 1 else TextPart("Done.")])

    def drop(table: str) -> str:
        scene.ran = True
        return f"{table} is gone"

    def delete(table: str) -> str:
        return f"{table} is gone"

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        agent = Agent(FunctionModel(model), tools=[drop, delete], capabilities=[GUARDS[scene.case]()])
        with scene.calling():
            await agent.run("Drop it.")
    scene.warned = any("uard" in str(one.message) for one in told)


if __name__ == "__main__":
    main("pydantic-ai-harness", attempt)
