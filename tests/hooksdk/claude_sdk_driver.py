"""The conformance suite's driver for the Claude Agent SDK: its real program, before a server that asks the script."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    SdkMcpTool,
    StreamEvent,
    create_sdk_mcp_server,
    get_session_messages,
)

from hooksdk import Host, Tool
from hooksdk.adapters.claude_sdk import HookSDK
from hooksdk.cli._guard.program import OTHER_VARIABLES, PROGRAMS  # the same variables as the guard's self-test has
from hooksdk.formats import Message, get_format
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.testing import Answer, Call, Program, Reply, ScriptedModel, Turn
from hooksdk.testing.server import Fault, ScriptedServer, refuse

CHAT, CLAUDES = OpenAIChat(), get_format("anthropic")
SHOWN = "Claude's program decides which tools it shows, and takes none from hooks"
MESSAGES = "messages are the program's own: its hooks neither see nor change them"
OUT = "the program has shown the answer before its hook is asked: the person is told, and the run ends as blocked"
IN_PLACE = "its question is asked in place (`can_use_tool`): nothing pauses"
OUTSIDE = "its program calls the tools: a host is not told which agent runs in one"
UNTOLD = "hooks are not told which tools there are, nor what they take"


def need_program() -> None:
    """Skip where the SDK came without Claude's program."""
    if not (resources.files("claude_agent_sdk") / "_bundled" / "claude").is_file():
        pytest.skip("this claude-agent-sdk has no program of Claude's with it")


def native_tool(tool: Tool) -> SdkMcpTool[Any]:
    execute: Any = tool.execute

    async def run(arguments: dict[str, Any]) -> dict[str, Any]:
        value = execute(arguments)
        text = await value if hasattr(value, "__await__") else value
        return {"content": [{"type": "text", "text": text}]}

    return SdkMcpTool(tool.name, tool.description, {**(tool.parameters or {})}, run)


def plain_messages(messages: Sequence[Message]) -> list[Message]:
    """What Claude's program sends, as the suite reads it: without what the program adds to a person's words."""
    plain: list[Message] = []
    for message in messages:
        blocks: Any = message["content"]
        texts = [blocks] if isinstance(blocks, str) else [one["text"] for one in blocks if one["type"] == "text"]
        if CLAUDES.is_reply(message):
            plain.append(CHAT.reply("\n".join(texts), CLAUDES.calls(message)))
            continue
        for result in CLAUDES.results(message):
            plain.append({"role": "tool", "tool_call_id": result.call_id, "content": result.text})
        texts = [text.partition("Stop hook feedback:\n")[2].partition("\n</")[0] or text for text in texts]
        said = [text for text in texts if not text.startswith("<system-reminder>")]
        if said:
            plain.append({"role": message["role"], "content": "\n".join(said)})
    return plain


def script_of(model: ScriptedModel) -> Any:
    async def script(turn: Turn) -> Reply | Fault:
        tools = [
            Tool(name=name, description=one["description"], parameters=one["parameters"])
            for name, one in turn.definitions.items()
        ]
        try:
            answer = await model.reply(plain_messages(turn.messages), CHAT.tools(tools))
        except Exception as error:
            return refuse(400, text=str(error))
        calls = [Call(one.name, one.arguments, one.id) for one in CHAT.calls(answer.message)]
        return Reply(CHAT.text(answer.message), calls)

    return script


def options_of(server: ScriptedServer, home: Path, **more: Any) -> ClaudeAgentOptions:
    """Options with which Claude's program asks that server alone, and nothing of this user's."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    outside = {name: "" for name in os.environ if name.startswith(OTHER_VARIABLES)}
    environment = {
        **outside, **PROGRAMS["claude-code"].variables(server), "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "NO_PROXY": "127.0.0.1", "ENABLE_TOOL_SEARCH": "false", **more.pop("env", {}),
    }  # fmt: skip
    settings: dict[str, Any] = {"tools": [], "cwd": home, "setting_sources": [], "system_prompt": "Be brief."}
    return ClaudeAgentOptions(env=environment, **settings | more)


class ClaudeSDKDriver:
    """A client for each prompt, which resumes the conversation: its store is that of Claude's program."""

    never_end = ("a_second_run_while_one_is_open_is_refused",)
    cannot: Mapping[str, str] = {
        "a_call_whose_reply_the_framework_has_lost_is_asked_about": MESSAGES,
        "a_refused_call_in_doubt_is_told_as_such": MESSAGES,
        "policies_hold_for_a_sub_agent_with_a_host_of_its_own": OUTSIDE,
        "the_frameworks_model_is_known": MESSAGES,
        "a_withheld_tool_is_neither_shown_nor_run": SHOWN,
        "wrong_arguments_are_told_to_model_and_plugins": UNTOLD,
        "an_unknown_name_is_told_to_model_and_plugins": UNTOLD,
        "the_catalog_is_told_once_a_run": UNTOLD,
        "calls_of_a_script_are_judged_each": SHOWN,
        "above_the_threshold_tools_are_deferred": SHOWN,
        "a_deferred_tool_is_found_and_called": SHOWN,
        "a_revealed_tool_is_offered_from_the_next_request_on": SHOWN,
        "a_plugins_own_tool_is_offered_and_runs": SHOWN,
        "a_trim_shows_from_the_next_run_on": MESSAGES,
        "a_trim_lasts_in_the_frameworks_store": MESSAGES,
        "a_result_can_be_trimmed_within_the_run": MESSAGES,
        "a_trimmed_result_keeps_its_bytes": MESSAGES,
        "a_history_from_before_is_taken_over": MESSAGES,
        "a_fork_keeps_its_trims": MESSAGES,
        "what_a_framework_adds_is_no_word_of_the_persons": MESSAGES,
        "a_result_of_no_call_ends_no_conversation": MESSAGES,
        "a_call_that_runs_elsewhere_is_judged_before_it_leaves": "its tools run in it: none is answered from outside",
        "a_filtered_history_keeps_its_trims": MESSAGES,
        "a_program_that_starts_again_keeps_the_trims": MESSAGES,
        "repeated_call_ids_are_told_apart": "the program sends one result for an id that repeats",
        "an_approved_call_runs_asked_once": IN_PLACE,
        "a_refused_call_does_not_run_and_is_seen": IN_PLACE,
        "an_approval_outlives_the_program": IN_PLACE,
        "two_calls_wait_at_once": IN_PLACE,
        "a_policy_that_was_tightened_meanwhile_holds": IN_PLACE,
        "a_second_run_while_one_is_open_is_refused": "a prompt that comes while Claude works is taken up by it",
        "plain_code_passes_the_same_hooks": "the SDK has no entry for plain code",
        "context_that_a_plugin_adds_is_read_and_not_stored": MESSAGES,
        "an_answer_that_a_plugin_replaces_is_the_answer": OUT,
        "an_answer_that_a_plugin_blocks_reaches_nobody": OUT,
        "a_run_that_a_plugin_blocks_does_not_begin": "the program tells of a blocked prompt, and raises nothing",
    }

    def __init__(self) -> None:
        need_program()
        folder = tempfile.mkdtemp(prefix="claude-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.home = Path(folder)
        self.sessions: dict[str, str] = {}
        self.more: dict[str, Any] = {}
        """More of the client's options."""

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        async with Host(**program.host) as host, ScriptedServer(script_of(program.model)) as self.server:
            self.hooked = HookSDK(host)
            yield

    def _options(self, conversation: str) -> ClaudeAgentOptions:
        owners = {tool.owner or "host": tool for tool in self.program.tools}
        servers = {
            owner: create_sdk_mcp_server(
                owner, tools=[native_tool(one) for one in self.program.tools if (one.owner or "host") == owner]
            )
            for owner in owners
        }
        if conversation in self.sessions:
            session: dict[str, Any] = {"resume": self.sessions[conversation]}
        else:
            session = {"session_id": self.sessions.setdefault(conversation, str(uuid.uuid4()))}
        # The suite's tools have no servers in their names: the program's own switch leaves them out.
        bare = {"CLAUDE_AGENT_SDK_MCP_NO_PREFIX": "1"}
        options: dict[str, Any] = {"allowed_tools": [f"mcp__{owner}" for owner in servers], **session, **self.more}
        return options_of(self.server, self.home, env=bare, mcp_servers=servers, **options)

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        return await self._play(prompt, self._options(conversation))

    async def _play(self, prompt: str, options: ClaudeAgentOptions) -> Answer:
        pieces: list[str] = []
        text = ""
        async with self.hooked.client(options) as client:
            await client.query(prompt)
            async for message in client.receive_response():
                if isinstance(message, StreamEvent):
                    pieces.append(message.event.get("delta", {}).get("text", ""))
                elif isinstance(message, ResultMessage):
                    text = message.result or message.subtype
                    if message.is_error:
                        raise RuntimeError(text)
        assert "".join(pieces).endswith(text) or not pieces
        return Answer(text=text)

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        options = self._options(conversation)
        options.include_partial_messages = True
        return await self._play(prompt, options)

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLAUDE_CONFIG_DIR", str(self.home / ".claude"))
            kept: list[Any] = [one.message for one in get_session_messages(self.sessions[conversation])]
        return [result.text for message in kept for result in CLAUDES.results(message)]

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        raise NotImplementedError

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        raise NotImplementedError

    async def cut(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError

    async def forget(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError
