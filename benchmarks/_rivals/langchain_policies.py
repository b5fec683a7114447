"""langchain: `awrap_tool_call` of a middleware, which answers a `ToolMessage` to block; its own loop and a fake chat model.

A plain `def` is `wrap_tool_call`, which langchain calls from `invoke`. Stricter: the graph's `step_timeout`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from policy_scene import Scene, main


class Model(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **options: Any) -> Model:
        return self


def blocker(request: Any) -> Callable[[], ToolMessage]:
    return lambda: ToolMessage("no", tool_call_id=request.tool_call["id"], status="error")


def middleware_of(scene: Scene) -> AgentMiddleware[Any, Any]:
    async def judge(self: Any, request: Any, handler: Any) -> Any:
        return await scene.judge(lambda: handler(request), blocker(request))

    def judge_plainly(self: Any, request: Any, handler: Any) -> Any:
        return scene.judge_plainly(lambda: handler(request), blocker(request))

    method = "awrap_tool_cal" if scene.case == "method" else "awrap_tool_call"
    methods = {"wrap_tool_call": judge_plainly} if scene.plain else {method: judge}
    return type("Guard", (AgentMiddleware,), methods)()


async def attempt(scene: Scene) -> None:
    scene.only("method")

    def act(path: str) -> str:
        scene.ran = True
        return f"{path} is gone"

    call: Any = {"name": "act", "args": scene.arguments, "id": "c1", "type": "tool_call"}
    model = Model(responses=[AIMessage("", tool_calls=[call]), AIMessage("Done.")])
    tool = StructuredTool.from_function(act, coroutine=scene.act, name="act", description="Delete a file.")
    agent = create_agent(model, [tool], middleware=[middleware_of(scene)])
    if scene.variant == "step_timeout":
        agent.step_timeout = scene.limit
    scene.limited = scene.variant == "step_timeout"
    messages: Any = {"messages": [("user", "Delete it.")]}
    with scene.calling():
        end = agent.invoke(messages) if scene.plain else await agent.ainvoke(messages)
        scene.answered = any(isinstance(message, ToolMessage) for message in end["messages"])


if __name__ == "__main__":
    main("langchain", attempt)
