"""google-adk: `before_tool_callback`, which answers a dict to block; its own runner and a model of ours.

A misspelt method is that of a plugin class, the other way to write one.
"""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part
from policy_scene import Scene, main


class Model(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        answered = any(part.function_response for content in llm_request.contents for part in content.parts)
        part = Part(text="Done.") if answered else Part.from_function_call(name="act", args={"path": "a.txt"})
        yield LlmResponse(content=Content(role="model", parts=[part]))


def callback_of(scene: Scene) -> Any:
    def judge_plainly(tool: Any, args: Any, tool_context: Any) -> Any:
        return scene.judge_plainly(lambda: None, lambda: {"error": "no"})

    async def judge(tool: Any, args: Any, tool_context: Any) -> Any:
        return await scene.judge(lambda: None, lambda: {"error": "no"})

    return judge_plainly if scene.plain else judge


class Misspelt(BasePlugin):
    async def before_tool_calback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        return {"error": "no"}


async def attempt(scene: Scene) -> None:
    scene.only("method", "hook")

    async def act(path: str) -> str:
        """Delete a file."""
        return await scene.act(path)

    option = "before_tool_calback" if scene.case == "hook" else "before_tool_callback"
    callbacks = {} if scene.case == "method" else {option: callback_of(scene)}
    agent = LlmAgent(name="agent", model=Model(), tools=[act], **callbacks)
    plugins = [Misspelt(name="guard")] if scene.case == "method" else []
    runner = InMemoryRunner(agent=agent, app_name="app", plugins=plugins)
    await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
    asked = Content(role="user", parts=[Part(text="Delete it.")])
    scene.limited = scene.answered = False
    scene.silent = True
    with scene.calling():
        async for event in runner.run_async(user_id="u", session_id="s", new_message=asked):
            scene.answered = scene.answered or bool(event.get_function_responses())


if __name__ == "__main__":
    main("google-adk", attempt)
