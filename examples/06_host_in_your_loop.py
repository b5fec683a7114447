"""A Host in a loop of your own: five calls are all that a loop needs."""

from __future__ import annotations

from typing import Any

import anyio

from hooksdk import Host, MemoryStore, Tool, hooks
from hooksdk.formats import get_format
from hooksdk.hooks import AfterToolCall, AgentEnd


class Log:
    """Any plugin: the loop knows nothing of it."""

    @hooks.after_tool_call
    async def called(self, event: AfterToolCall) -> None:
        print(f"  plugin: {event.call.name} {event.status}")

    @hooks.agent_end
    async def ended(self, event: AgentEnd) -> None:
        print(f"  plugin: run {event.reason} after {event.stats['model_calls']} model calls")


def add(left: float, right: float) -> float:
    """Add two numbers."""
    return left + right


def provider(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Put your provider's SDK here; this one adds once and repeats the result. `tools` are in its JSON already."""
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": f"It is {messages[-1]['content']}."}
    called = {"name": tools[0]["function"]["name"], "arguments": '{"left": 2, "right": 3}'}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": called}]}


async def answer(host: Host, session_id: str, prompt: str) -> str:
    message_format = get_format("openai-chat")
    async with host.session(session_id) as session, session.run(prompt, model="any", format=message_format) as run:
        await run.resolve_tools([Tool.from_function(add, source="host")])  # 1. what may be used
        await run.record(message_format.user(prompt))  # 2. the question
        while True:
            messages = await run.prepare_messages()  # 3. what the model sees, with what is offered now
            reply = provider(messages, message_format.tools(run.offered))
            await run.record(reply)
            if not run.pending:
                return message_format.text(reply)
            for call in run.pending:
                await run.call_tool(call)  # 4. each call; 5. leaving the block ends the run


async def main() -> None:
    async with Host(plugins=[Log], store=MemoryStore(), config={"allow": []}) as host:
        print(await answer(host, "example", "What is two and three?"))


if __name__ == "__main__":
    anyio.run(main)
