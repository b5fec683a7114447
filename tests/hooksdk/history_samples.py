"""One conversation as nine libraries and programs store it: a question, thinking, two parallel calls, their results (the
first is long, the second an error), an answer, and a last question.

The items have the fields that the libraries themselves write (langchain-core 1.7, pydantic-ai 2.68, openai-agents 0.24,
google-genai 3.4, Claude Code 2.1, OpenClaw's session version 3), but for dates and counters.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

Json = dict[str, Any]

QUESTION, ANSWER, LAST = "Which file has the setting?", "config.py has it.", "And who changed it?"
LONG, MISSING = "DEBUG = True\n" * 200, "no such file: other.py"
PATHS = ["config.py", "other.py"]

OPENAI_CHAT: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": QUESTION},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {
                "id": f"call_{at}",
                "type": "function",
                "function": {"name": "read_file", "arguments": json.dumps({"path": path})},
            }
            for at, path in enumerate(PATHS)
        ],
    },
    {"role": "tool", "tool_call_id": "call_0", "content": LONG},
    {"role": "tool", "tool_call_id": "call_1", "content": f"Error: {MISSING}"},
    {"role": "assistant", "content": ANSWER},
    {"role": "user", "content": LAST},
]

_USES: list[Json] = [
    {"type": "tool_use", "id": f"toolu_{at}", "name": "read_file", "input": {"path": path}}
    for at, path in enumerate(PATHS)
]
_RESULTS: list[Json] = [
    {"tool_use_id": "toolu_0", "type": "tool_result", "content": [{"type": "text", "text": LONG}]},
    {"tool_use_id": "toolu_1", "type": "tool_result", "content": MISSING, "is_error": True},
]
_THINKING: Json = {"type": "thinking", "thinking": "Two files to read.", "signature": "c2lnbmVk"}

ANTHROPIC: list[Json] = [
    {"role": "user", "content": QUESTION},
    {"role": "assistant", "content": [_THINKING, {"type": "text", "text": "Let me look."}, *_USES]},
    {"role": "user", "content": _RESULTS},
    {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
    {"role": "user", "content": LAST},
]

RESPONSES: list[Json] = [
    {"content": QUESTION, "role": "user"},
    {"id": "rs_1", "summary": [], "type": "reasoning", "encrypted_content": "gAAA"},
    {
        "id": "msg_1",
        "content": [{"annotations": [], "text": "Let me look.", "type": "output_text"}],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    },
    *(
        {
            "arguments": json.dumps({"path": path}),
            "call_id": f"call_{at}",
            "name": "read_file",
            "type": "function_call",
            "id": f"fc_{at}",
            "status": "completed",
        }
        for at, path in enumerate(PATHS)
    ),
    {"call_id": "call_0", "output": LONG, "type": "function_call_output"},
    {"call_id": "call_1", "output": MISSING, "type": "function_call_output"},
    {
        "id": "msg_2",
        "content": [{"annotations": [], "text": ANSWER, "type": "output_text"}],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    },
    {"content": [{"type": "input_text", "text": LAST}], "role": "user", "type": "message"},
]

GEMINI: Json = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": QUESTION}]},
        {
            "role": "model",
            "parts": [
                {"text": "Two files to read.", "thought": True},
                {"text": "Let me look."},
                *(
                    {"functionCall": {"name": "read_file", "args": {"path": path}}, "thoughtSignature": "eHg="}
                    for path in PATHS
                ),
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read_file", "response": {"output": LONG}}},
                {"functionResponse": {"name": "read_file", "response": {"error": MISSING}}},
            ],
        },
        {"role": "model", "parts": [{"text": ANSWER}]},
        {"role": "user", "parts": [{"text": LAST}]},
    ],
}


def _langchain(message_type: str, content: Any, **fields: Any) -> Json:
    common: Json = {"additional_kwargs": {}, "response_metadata": {}, "type": message_type, "name": None, "id": None}
    return {"type": message_type, "data": {"content": content, **common, **fields}}


LANGCHAIN: list[Json] = [
    _langchain("system", "Be brief."),
    _langchain("human", QUESTION),
    _langchain(
        "ai",
        "Let me look.",
        tool_calls=[
            {"name": "read_file", "args": {"path": path}, "id": f"call_{at}", "type": "tool_call"}
            for at, path in enumerate(PATHS)
        ],
        invalid_tool_calls=[],
        usage_metadata=None,
    ),
    _langchain("tool", LONG, tool_call_id="call_0", artifact={"lines": 200}, status="success"),
    _langchain("tool", [{"type": "text", "text": MISSING}], tool_call_id="call_1", artifact=None, status="error"),
    _langchain("ai", ANSWER, tool_calls=[], invalid_tool_calls=[], usage_metadata=None),
    _langchain("human", [{"type": "text", "text": LAST}]),
]


def _pydantic(kind: str, *parts: Json, **fields: Any) -> Json:
    return {"parts": list(parts), "kind": kind, "run_id": None, "metadata": None, "state": "complete", **fields}


PYDANTIC_AI: list[Json] = [
    _pydantic("request", {"content": QUESTION, "part_kind": "user-prompt"}, instructions="Be brief."),
    _pydantic(
        "response",
        {"content": "Two files.", "id": None, "signature": "sig", "provider_name": "openai", "part_kind": "thinking"},
        {"content": "Let me look.", "id": None, "part_kind": "text"},
        *(
            {
                "tool_name": "read_file",
                "args": json.dumps({"path": path}),
                "tool_call_id": f"c{at}",
                "part_kind": "tool-call",
            }
            for at, path in enumerate(PATHS)
        ),
        provider_name="openai",
    ),
    _pydantic(
        "request",
        {
            "tool_name": "read_file",
            "content": LONG,
            "tool_call_id": "c0",
            "outcome": "success",
            "part_kind": "tool-return",
        },
        {"content": MISSING, "tool_name": "read_file", "tool_call_id": "c1", "part_kind": "retry-prompt"},
        instructions="Be brief.",
    ),
    _pydantic("response", {"content": ANSWER, "id": None, "part_kind": "text"}, provider_name="openai"),
    _pydantic("request", {"content": [LAST], "part_kind": "user-prompt"}, instructions="Be brief."),
]


def claude_line(
    line_type: str, uuid: str, parent: str | None, content: Any, message_id: str = "", **fields: Any
) -> Json:
    """A line of Claude Code's transcript."""
    message: Json = {"role": line_type, "content": content}
    if line_type == "assistant":
        message |= {"id": message_id, "type": "message", "model": "claude-opus-4", "stop_reason": None}
    common = {"isSidechain": False, "userType": "external", "sessionId": "s1", "version": "2.1.27"}
    return {"parentUuid": parent, **common, "type": line_type, "message": message, "uuid": uuid, **fields}


# Each result hangs on the line of its own call, and the next reply on the last result.
CLAUDE_CODE: list[Json] = [
    {"type": "summary", "summary": "A question about a setting", "leafUuid": "u9"},
    claude_line("user", "u1", None, QUESTION),
    claude_line("assistant", "a1", "u1", [_THINKING], "msg_1"),
    claude_line("assistant", "a2", "a1", [{"type": "text", "text": "Let me look."}], "msg_1"),
    claude_line("assistant", "a3", "a2", [_USES[0]], "msg_1"),
    claude_line("assistant", "a4", "a3", [_USES[1]], "msg_1"),
    claude_line("user", "r1", "a3", [_RESULTS[0]], toolUseResult={"type": "text"}),
    claude_line("user", "r2", "a4", [_RESULTS[1]], toolUseResult=f"Error: {MISSING}"),
    claude_line("assistant", "a5", "r2", [{"type": "text", "text": ANSWER}], "msg_2"),
    claude_line("user", "u2", "a5", LAST),
]


def claw_line(entry: str, parent: str | None, message: Json) -> Json:
    """A line of OpenClaw's session."""
    return {
        "type": "message",
        "id": entry,
        "parentId": parent,
        "timestamp": "2026-04-08T01:03:43.107Z",
        "message": message,
    }


def claw_reply(*blocks: Json, **fields: Any) -> Json:
    """A reply in it."""
    api = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4", "stopReason": "toolUse"}
    return {"role": "assistant", "content": list(blocks), **api, **fields}


OPENCLAW: list[Json] = [
    {"type": "session", "version": 3, "id": "b7300bff", "timestamp": "2026-04-08T01:03:43.107Z", "cwd": "/work"},
    {"type": "model_change", "id": "e0", "parentId": None, "provider": "anthropic", "modelId": "claude-opus-4"},
    claw_line("e1", "e0", {"role": "user", "content": [{"type": "text", "text": QUESTION}]}),
    claw_line(
        "e2",
        "e1",
        claw_reply(
            {"type": "thinking", "thinking": "Two files to read.", "thinkingSignature": "c2lnbmVk"},
            {"type": "text", "text": "Let me look."},
            # An id as it is after a change from one of OpenAI's models, which Anthropic's API refuses.
            *(
                {"type": "toolCall", "id": f"call_{at}|fc_{at}", "name": "read_file", "arguments": {"path": path}}
                for at, path in enumerate(PATHS)
            ),
        ),
    ),
    *(
        claw_line(
            f"e{at + 3}",
            f"e{at + 2}",
            {
                "role": "toolResult",
                "toolCallId": f"call_{at}|fc_{at}",
                "toolName": "read_file",
                "content": [{"type": "text", "text": text}],
                "details": {},
                "isError": at == 1,
            },
        )
        for at, text in enumerate([LONG, MISSING])
    ),
    claw_line("e5", "e4", claw_reply({"type": "text", "text": ANSWER}, stopReason="stop")),
    claw_line("e6", "e5", {"role": "user", "content": LAST}),
]

SAMPLES: dict[str, Any] = {
    "openai-chat": OPENAI_CHAT,
    "anthropic": ANTHROPIC,
    "openai-responses": RESPONSES,
    "openai-agents": RESPONSES,
    "gemini": GEMINI,
    "langchain": LANGCHAIN,
    "pydantic-ai": PYDANTIC_AI,
    "claude-code": CLAUDE_CODE,
    "openclaw": OPENCLAW,
}


def sqlite_file(path: Path, *sessions: str) -> Path:
    """A file as openai-agents' `SQLiteSession` writes it."""
    with closing(sqlite3.connect(path)) as database, database:
        columns = "id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_data TEXT NOT NULL"
        database.execute(f"CREATE TABLE agent_messages ({columns})")
        rows = [(session, json.dumps(item)) for session in sessions for item in RESPONSES]
        database.executemany("INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)", rows)
    return path
