"""The sessions of `cost.py`, played by the agent loop against scripted servers, which count what a cache would have read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk import Config, Host, Tool
from hooksdk.agent import Limits, run_agent
from hooksdk.calls import ToolCall
from hooksdk.costs import PRICES, Usage
from hooksdk.formats import Message, get_format
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.models.openai import OpenAIModel
from hooksdk.testing import Call, Reply
from hooksdk.testing.server import ScriptedServer
from hooksdk.values import as_object

FORM = get_format("openai-chat")


SERVED = {"nothing": [], "clear_tool_results": ["clear_tool_results"]}
SERVED_HEAD = ["session", "provider", "bill without clearing", "with clear_tool_results", "share"]


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """As JSON has them; transcripts have them as text."""
    try:
        return as_object(json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments)
    except ValueError:
        return {}


async def served(messages: Sequence[Message], provider: str, plugins: list[str]) -> float:
    """The bill of prompts, as the server's cache counted them: the recorded replies are played, the recorded results come back."""
    runs = _runs(messages)
    replies = iter([reply for _, each in runs for reply, _ in each])
    results = iter([result for _, each in runs for _, found in each for result in found])
    names = sorted({call.tool for _, each in runs for reply, _ in each for call in reply.calls})

    def answer(arguments: Mapping[str, Any]) -> str:
        del arguments
        return next(results)

    tools = [Tool(name=name, source="host", parameters={"type": "object"}, execute=answer) for name in names]
    system = FORM.text(messages[0]) if messages[0]["role"] == "system" else None
    config = Config(allow=plugins, plugins={name: {} for name in plugins})  # pyright: ignore[reportArgumentType]
    limits = Limits(turns=10_000, parallel=1, reminders=0)
    async with ScriptedServer(lambda turn: next(replies)) as server, Host(config=config) as host:
        is_anthropic = provider == "anthropic"
        made: Any = AnthropicModel if is_anthropic else OpenAIModel
        url = server.anthropic_url if is_anthropic else server.openai_url
        async with host.session("s") as session, made("any", base_url=url, api_key="none") as model:
            for number, (prompt, _) in enumerate(runs):
                await run_agent(session, model, prompt, tools=tools, system=None if number else system, limits=limits)
            used = sum((one.usage for one in session.requests), Usage())
    return used.fresh + PRICES.read * used.read + PRICES.write * used.written


def _runs(messages: Sequence[Message]) -> list[tuple[str, list[tuple[Reply, list[str]]]]]:
    """What was asked, and each reply to it with the results of its calls; a run ends with a reply without calls."""
    runs: list[tuple[str, list[tuple[Reply, list[str]]]]] = []
    prompts: list[str] = []
    for at, message in enumerate(messages):
        if FORM.is_reply(message):
            if prompts or not runs or not runs[-1][1][-1][0].calls:
                runs.append(("\n".join(prompts) or "Go on.", []))
                prompts = []
            calls = [Call(call.name, arguments_of(call)) for call in FORM.calls(message)]
            found = [each.text for one in messages[at + 1 : at + 1 + len(calls)] for each in FORM.results(one)]
            texts = (found + ["no result"] * len(calls))[: len(calls)]
            runs[-1][1].append((Reply(FORM.text(message) or ("" if calls else "Yes."), calls), texts))
        elif message["role"] == "user":
            prompts.append(FORM.text(message))
    for _, replies in runs:  # a conversation that broke off
        if replies[-1][0].calls:
            replies.append((Reply("Done."), []))
    return runs


async def measure_served(sessions: Mapping[str, Sequence[Message]]) -> list[list[str]]:
    """The rows of the table."""
    rows: list[list[str]] = []
    for name, messages in sessions.items():
        for provider in ("anthropic", "openai"):
            whole, cleared = [await served(messages, provider, plugins) for plugins in SERVED.values()]
            rows.append(
                [name, provider, f"{whole:,.0f}", f"{cleared:,.0f}", f"{cleared / whole:.3f}".removeprefix("0")]
            )
    return rows
