"""claude-agent-sdk: a `PreToolUse` hook, which answers `permissionDecision: deny` to block; the program that it brings runs
the loop, over a Messages API on loopback that asks for one call and then is done.

Stricter: `on_failure="block"` of the matcher.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    ResultMessage,
    ToolResultBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from policy_scene import Scene, main

TOOL = "mcp__files__act"


def reply(answered: bool) -> str:
    """One streamed message: the call, or the end."""
    block, delta, stop = (
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}, "end_turn")
        if answered
        else (
            {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}},
            {"type": "input_json_delta", "partial_json": '{"path": "a.txt"}'},
            "tool_use",
        )
    )
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "scripted", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


class Api(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answered = any("tool_result" in json.dumps(message["content"]) for message in request["messages"])
        text = reply(answered).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """The variables with which the program asks this API, and nobody else."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
        }
    finally:
        server.shutdown()


def block() -> dict[str, Any]:
    decision = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}
    return {"hookSpecificOutput": decision}


def matcher_of(scene: Scene) -> HookMatcher:
    async def judge(asked: Any, tool_use_id: Any, context: Any) -> Any:
        return await scene.judge(dict, block)

    def judge_plainly(asked: Any, tool_use_id: Any, context: Any) -> Any:
        return scene.judge_plainly(dict, block)

    hook: Any = judge_plainly if scene.plain else judge
    strict = scene.variant == "on_failure"
    return HookMatcher(TOOL, [hook], timeout=scene.limit, on_failure="block" if strict else None)


async def attempt(scene: Scene) -> None:
    scene.only("hook")

    @tool("act", "Delete a file.", {"path": str})
    async def act(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": await scene.act(**arguments)}]}

    hooks: Any = {"PreToolUs" if scene.case == "hook" else "PreToolUse": [matcher_of(scene)]}
    with serving() as environment:
        options = ClaudeAgentOptions(
            tools=[], setting_sources=[], allowed_tools=[TOOL], hooks=hooks, env=environment, model="claude-sonnet-4-5",
            mcp_servers={"files": create_sdk_mcp_server("files", tools=[act])},
        )  # fmt: skip
        scene.answered = False
        with scene.calling():
            async for message in query(prompt="Delete it.", options=options):
                if isinstance(message, UserMessage) and not isinstance(message.content, str):
                    scene.answered |= any(isinstance(part, ToolResultBlock) for part in message.content)
                if isinstance(message, ResultMessage) and message.is_error:
                    raise RuntimeError(message.result)


if __name__ == "__main__":
    main("claude-agent-sdk", attempt)
