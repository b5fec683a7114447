"""An agent at an MCP client, for drivers of what stands in front of the tools: a plain loop with a list of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk import Tool
from hooksdk.formats import Message
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.testing import Answer, Program
from tests.hooksdk.loop_drivers import OWN_HOST

CHAT = OpenAIChat()
NO_CONVERSATION = "a server sees calls alone: the conversation, and with it trims and contexts, is the client's"
NO_PAUSE = "the person at the client is asked while the call waits: nothing pauses"
NO_MODEL = "the model is the client's, and so is the end of its turns"
FINISHES = (
    "a_finish_that_is_refused_goes_on_with_the_reason", "streaming_goes_on_as_well", "a_finish_that_is_refused_too_often_goes_through",
    "an_answer_that_a_plugin_replaces_is_the_answer", "an_answer_that_a_plugin_blocks_reaches_nobody",
)  # fmt: skip
AT_A_CLIENT = {
    "a_revealed_tool_is_offered_from_the_next_request_on": "a client is listed the same tools as long as it stays",
    "a_prefetched_tool_is_offered": "a server is not told what the user has asked",
    "a_trim_shows_from_the_next_run_on": NO_CONVERSATION,
    "a_trim_lasts_in_the_frameworks_store": NO_CONVERSATION,
    "a_result_can_be_trimmed_within_the_run": NO_CONVERSATION,
    "a_trimmed_result_keeps_its_bytes": NO_CONVERSATION,
    "a_history_from_before_is_taken_over": NO_CONVERSATION,
    "a_fork_keeps_its_trims": NO_CONVERSATION,
    "what_a_framework_adds_is_no_word_of_the_persons": NO_CONVERSATION,
    "a_result_of_no_call_ends_no_conversation": NO_CONVERSATION,
    "a_malformed_call_ends_no_conversation": "the arguments of a call are an object there, whatever the model wrote",
    "a_call_that_runs_elsewhere_is_judged_before_it_leaves": "its tools run in it: none is answered from outside",
    "a_filtered_history_keeps_its_trims": NO_CONVERSATION,
    "a_program_that_starts_again_keeps_the_trims": NO_CONVERSATION,
    "context_that_a_plugin_adds_is_read_and_not_stored": NO_CONVERSATION,
    "a_call_whose_reply_the_framework_has_lost_is_asked_about": NO_CONVERSATION,
    "a_refused_call_in_doubt_is_told_as_such": NO_PAUSE,
    "the_frameworks_model_is_known": NO_MODEL,
    **OWN_HOST,
    "an_approved_call_runs_asked_once": NO_PAUSE,
    "a_refused_call_does_not_run_and_is_seen": NO_PAUSE,
    "an_approval_outlives_the_program": NO_PAUSE,
    "two_calls_wait_at_once": NO_PAUSE,
    "a_policy_that_was_tightened_meanwhile_holds": NO_PAUSE,
    "a_cancelled_tool_is_seen_before_the_runs_end": "the run is the client's session: a cancelled call does not end it",
    "a_run_cancelled_in_the_model_ends_as_cancelled": NO_MODEL,
    "an_error_of_the_model_ends_the_run_as_error": NO_MODEL,
    "streaming_passes_the_same_hooks": NO_MODEL,
    **dict.fromkeys(FINISHES, "a server is not told what the client's model answers its user"),
    "a_second_run_while_one_is_open_is_refused": "a client may make any number of calls at once, all in its one run",
    "a_run_that_a_plugin_blocks_does_not_begin": "the client is told so by the protocol's own error",
}
"""What no client's agent has."""


class ClientLoop:
    """Asks the script, and makes the calls at the server."""

    never_end = ("a_call_whose_reply_the_framework_has_lost_is_asked_about", "a_refused_call_in_doubt_is_told_as_such")

    program: Program

    def __init__(self) -> None:
        self.lists: dict[str, list[Message]] = {}

    async def listed(self, conversation: str) -> Sequence[Tool]:
        """The tools that this conversation's client is listed."""
        raise NotImplementedError

    async def called(self, conversation: str, name: str, arguments: dict[str, Any]) -> Sequence[Any]:
        """The content of a call's result."""
        raise NotImplementedError

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        messages = self.lists.setdefault(conversation, [])
        messages.append(CHAT.user(prompt))
        while True:
            reply = (await self.program.model.reply(messages, CHAT.tools(await self.listed(conversation)))).message
            messages.append(dict(reply))
            if not (calls := CHAT.calls(reply)):
                return Answer(text=CHAT.text(reply))
            for call in calls:
                arguments: Any = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
                content = await self.called(conversation, call.name, arguments)
                text = "\n".join(one.text for one in content if one.type == "text")
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        raise NotImplementedError

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        return [str(one["content"]) for one in self.lists[conversation] if one["role"] == "tool"]

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        self.lists[conversation] = [dict(one) for one in messages]

    async def cut(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError

    async def forget(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError
