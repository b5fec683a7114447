"""openai-agents: a tool input guardrail, which answers `reject_content` to block; its own `Runner` and `ScriptedModel`."""

from __future__ import annotations

from typing import Any

from agents import (
    Agent,
    Runner,
    ToolCallOutputItem,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    function_tool,
    set_tracing_disabled,
    tool_input_guardrail,
)
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from policy_scene import Scene, main

set_tracing_disabled(disabled=True)


def block() -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.reject_content("no")


def guardrail_of(scene: Scene) -> Any:
    if scene.plain:

        @tool_input_guardrail
        def judge_plainly(data: ToolInputGuardrailData) -> Any:
            return scene.judge_plainly(ToolGuardrailFunctionOutput.allow, block)

        return judge_plainly

    @tool_input_guardrail
    async def judge(data: ToolInputGuardrailData) -> Any:
        return await scene.judge(ToolGuardrailFunctionOutput.allow, block)

    return judge


async def attempt(scene: Scene) -> None:
    scene.only("hook")
    option = "tool_input_guardrail" if scene.case == "hook" else "tool_input_guardrails"
    tool: Any = function_tool(name_override="act", **{option: [guardrail_of(scene)]})(scene.act)
    call = ResponseFunctionToolCall(arguments='{"path": "a.txt"}', call_id="c1", name="act", type="function_call")
    text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
    done = ResponseOutputMessage(id="m1", content=[text], role="assistant", status="completed", type="message")
    agent = Agent("agent", model=ScriptedModel([[call], [done]]), tools=[tool])
    scene.limited = False
    with scene.calling():
        run = await Runner.run(agent, "Delete it.")
        scene.answered = any(isinstance(item, ToolCallOutputItem) for item in run.new_items)


if __name__ == "__main__":
    main("openai-agents", attempt)
