"""The hooks of coding agents: how each is read, and in which words it is answered. What an agent does with an answer
was tried with the program itself; see docs/reference/guard.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, final

from hooksdk.errors import HookSDKError
from hooksdk.tools import Tool
from hooksdk.values import as_list, as_object, is_list, is_object

Kind = Literal["session_start", "session_end", "prompt", "before_call", "after_call", "stop", "other"]


@dataclass(eq=False)
class UnreadableHook(HookSDKError):
    """The input is no hook that this version knows of this agent."""

    agent: str
    problem: str

    def __str__(self) -> str:
        return f"{self.agent}: {self.problem}"


@dataclass(frozen=True, kw_only=True)
class HookEvent:
    """One hook of an agent, in words that are the same for all of them.

    Attributes:
        name: What the agent calls the hook.
        session: The agent's own id of its session.
        folder: The agent's current folder, as each hook says it: where Claude Code's last `cd` led, or the folder of
            the call in Codex.
        began_in: The folder in which its session began, the base of relative paths in rules; None: `folder`.
        call_id: The agent's own id of the call; empty where it has none.
        result: The tool's result, in its own shape; of a failed call the error.
        reply: The text of the model's last reply, at the end of its turn.
        server: The MCP server whose tool it is, as the agent calls it; empty for a tool of the agent's own.
        own_name: The tool's name at that server.
        helper: The agent's id of the sub-agent that makes the call; empty for the agent itself.
    """

    agent: str
    kind: Kind
    name: str
    session: str
    folder: Path
    began_in: Path | None = None
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    call_id: str = ""
    result: Any = None
    failed: bool = False
    prompt: str = ""
    reply: str = ""
    server: str = ""
    own_name: str = ""
    helper: str = ""
    helper_type: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The guard's answer to one hook. An empty one is no objection; the agent may still ask its own question.

    Attributes:
        deny: The reason why the call is refused.
        ask: The question for a person, before the call runs.
        allow: Who has approved the call, so that the agent does not ask again. Read by Claude Code.
        arguments: The arguments to run the call with, in the place of the model's.
        result: The result that the model reads, in the tool's own shape; None: the tool's own.
        go_on: The reason, for the model to read, why its turn does not end yet.
        note: A message for the person at the agent, about an answer that is shown already.
    """

    deny: str = ""
    ask: str = ""
    allow: str = ""
    arguments: Mapping[str, Any] | None = None
    result: Any = None
    go_on: str = ""
    note: str = ""


_ANY_ARGUMENTS = {"type": "object", "additionalProperties": True}
# The JSON that a hook prints; empty: nothing.
Output = Mapping[str, Any]


@final
@dataclass(frozen=True, kw_only=True)
class Agent:
    """One coding agent.

    Attributes:
        events: Its hooks that the guard reads, by name.
        asks: True where `ask` becomes the agent's own question; elsewhere the question waits at the approval desk.
    """

    name: str
    title: str
    events: Mapping[str, Kind]
    asks: bool
    answer: Callable[[HookEvent, Verdict], Output] = field(repr=False)


def read_event(agent_name: str, payload: object) -> HookEvent:
    """The hook that an agent fires. Raises `UnreadableHook` for what is none."""
    agent = AGENTS.get(agent_name)
    if agent is None:
        raise UnreadableHook(agent_name, f"no such agent is known. Write one of {', '.join(AGENTS)}")
    if not is_object(payload):
        raise UnreadableHook(agent_name, "a hook sends a JSON object on stdin, and something else came")
    name, session, folder = (payload.get(key) for key in ("hook_event_name", "session_id", "cwd"))
    if not all(isinstance(each, str) and each for each in (name, session, folder)):
        raise UnreadableHook(agent_name, "its hook lacks hook_event_name, session_id or cwd, each a text")
    kind = agent.events.get(str(name), "other")
    tool, arguments = payload.get("tool_name"), payload.get("tool_input")
    if kind == "other" and tool and "tool_response" not in payload:
        # Perhaps how a newer version of the agent announces a call: it is refused, since nobody could judge it.
        raise UnreadableHook(
            agent_name, f"its hook {name} is about a tool, and this version of hooksdk does not know it"
        )
    if kind in ("before_call", "after_call"):
        if not isinstance(tool, str) or not tool:
            raise UnreadableHook(agent_name, f"its hook {name} lacks tool_name")
        if not is_object(arguments):
            # Arguments that cannot be read cannot be judged.
            raise UnreadableHook(agent_name, f"its hook {name} has a tool_input that is no object")
    context = {**as_object(payload.get("mcp_context"))}
    if server_name := _text(
        as_object(payload.get("mcp_server")), "name"
    ):  # Claude Code's, whose prefix can be left out
        context = {} if str(tool).startswith("mcp__") else {"server_name": server_name, "tool_name": tool}
    server, own_name = _server_of(str(tool or ""), context)
    return HookEvent(
        agent=agent_name,
        kind=kind,
        name=str(name),
        session=str(session),
        folder=Path(str(folder)),
        tool=str(tool or ""),
        server=server,
        own_name=own_name,
        arguments=as_object(arguments),
        call_id=_text(payload, "tool_use_id"),
        result=payload.get("tool_response", payload.get("error")),
        failed="Failure" in str(name),
        prompt=_text(payload, "prompt"),
        reply=_text(payload, "last_assistant_message") or _text(payload, "prompt_response"),
        helper=_text(payload, "agent_id"),
        helper_type=_text(payload, "agent_type"),
    )


def _server_of(tool: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """The MCP server and its name of the tool. Gemini CLI says both beside the tool's name, which is ambiguous
    alone."""
    if context:
        return _text(context, "server_name"), _text(context, "tool_name")
    server, _, own_name = tool.removeprefix("mcp__").partition("__")
    return (server, own_name) if tool.startswith("mcp__") and own_name else ("", "")


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _in_claudes_words(event: HookEvent, verdict: Verdict) -> Output:
    """The answer in the words of Claude Code; Qwen Code has the same words but for one."""
    if event.kind == "stop":
        return _at_the_end(verdict, "block")
    if event.kind == "prompt":
        return {"decision": "block", "reason": verdict.deny} if verdict.deny else {}
    output: dict[str, Any] = {}
    if event.kind == "before_call":
        decision = "deny" if verdict.deny else "ask" if verdict.ask else "allow" if verdict.allow else ""
        if decision:
            reason = verdict.deny or verdict.ask or f"{verdict.allow} said yes"
            output = {"permissionDecision": decision, "permissionDecisionReason": reason}
        if verdict.arguments is not None and not verdict.deny:
            output["updatedInput"] = verdict.arguments
    elif event.kind == "after_call" and verdict.result is not None:
        output = {"updatedToolOutput": verdict.result}
    return {"hookSpecificOutput": {"hookEventName": event.name, **output}} if output else {}


def _at_the_end(verdict: Verdict, word: str) -> Output:
    if verdict.go_on:
        return {"decision": word, "reason": verdict.go_on}
    return {"systemMessage": f"hooksdk guard: {verdict.note}"} if verdict.note else {}


def _in_codex_words(event: HookEvent, verdict: Verdict) -> Output:
    output = as_object(_in_claudes_words(event, verdict).get("hookSpecificOutput"))
    if event.kind == "before_call" and output:
        # Codex takes other arguments only with an "allow", and then does not ask its own question.
        allowed = {"permissionDecision": "allow"} if verdict.arguments is not None and not verdict.deny else {}
        return {"hookSpecificOutput": {**output, **allowed}}
    if event.kind == "after_call" and verdict.result is not None:
        return {"decision": "block", "reason": "\n".join(texts_in(verdict.result))}
    return _in_claudes_words(event, verdict) if event.kind in ("prompt", "stop") else {}


def _in_qwens_words(event: HookEvent, verdict: Verdict) -> Output:
    if event.kind == "after_call" and verdict.result is not None:
        # Qwen Code takes no other result, and gives the model this text as the error of the call.
        return {"continue": False, "stopReason": "\n".join(texts_in(verdict.result))}
    if event.kind == "before_call" and verdict.arguments is not None and not verdict.deny:
        # Qwen Code would run the call with its own arguments, which nobody has judged.
        instead = json.dumps(verdict.arguments, ensure_ascii=False)
        verdict = replace(verdict, deny=f"a policy wants other arguments. Make the call with these instead: {instead}")
    return _in_claudes_words(event, verdict)


def _in_geminis_words(event: HookEvent, verdict: Verdict) -> Output:
    if event.kind == "stop":
        return _at_the_end(verdict, "deny")
    if verdict.deny and event.kind in ("before_call", "prompt"):
        return {"decision": "deny", "reason": verdict.deny}
    if event.kind == "before_call" and verdict.arguments is not None:
        return {"hookSpecificOutput": {"hookEventName": event.name, "tool_input": verdict.arguments}}
    if event.kind == "after_call" and verdict.result is not None:
        return {"decision": "deny", "reason": "\n".join(texts_in(verdict.result))}
    return {}


_CLAUDES_EVENTS: dict[str, Kind] = {
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_call",
    "PostToolUse": "after_call",
    "PostToolUseFailure": "after_call",
    "Stop": "stop",
}
_GEMINIS_EVENTS: dict[str, Kind] = {
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "BeforeAgent": "prompt",
    "BeforeTool": "before_call",
    "AfterTool": "after_call",
    "AfterAgent": "stop",
}

# The coding agents that the guard knows, by name.
AGENTS: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent(name="claude-code", title="Claude Code", events=_CLAUDES_EVENTS, asks=True, answer=_in_claudes_words),
        Agent(name="codex", title="Codex", events=_CLAUDES_EVENTS, asks=False, answer=_in_codex_words),
        Agent(name="gemini", title="Gemini CLI", events=_GEMINIS_EVENTS, asks=False, answer=_in_geminis_words),
        Agent(name="qwen", title="Qwen Code", events=_CLAUDES_EVENTS, asks=False, answer=_in_qwens_words),
    )
}


def tool_of(agent_name: str, name: str, server: str = "", own_name: str = "") -> Tool:
    """The tool that an agent calls by this name: its own, or one of an MCP server. The server is read from the name
    (`mcp__SERVER__TOOL`) where it is not given. Any arguments fit it, since an agent shows no schema."""
    if not server:
        server, own_name = _server_of(name, {})
    return Tool(
        name=name,
        own_name=own_name or name,
        source="mcp" if server else "host",
        owner=server or agent_name,
        description="",
        parameters=_ANY_ARGUMENTS,
        keeps_secrets=False,
    )


def texts_in(value: Any) -> list[str]:
    """All texts in a JSON value, in their order, without the `type` of content blocks."""
    if isinstance(value, str):
        return [value]
    parts = [each for key, each in value.items() if not _is_kind(key, each)] if is_object(value) else as_list(value)
    return [text for each in parts for text in texts_in(each)]


def with_texts(value: Any, texts: list[str]) -> Any:
    """The same JSON value with its texts replaced by these, in their order; they are taken from the list."""
    if isinstance(value, str):
        return texts.pop(0)
    if is_object(value):
        return {key: each if _is_kind(key, each) else with_texts(each, texts) for key, each in value.items()}
    return [with_texts(each, texts) for each in value] if is_list(value) else value


def _is_kind(key: str, value: Any) -> bool:
    """True for the `type` of a content block, such as `"type": "text"`, which must stay; any other `type` may be a text
    of the tool."""
    return key == "type" and value in ("text", "image", "audio", "resource", "resource_link")
