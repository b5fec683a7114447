"""A call that a model writes into its answer as text: noticed, told of, and never run."""

from __future__ import annotations

from typing import Any

import pytest

from hooksdk import Tool, hooks
from hooksdk.agent import Limits, run_agent
from hooksdk.hooks import Trace
from hooksdk.testing import ScriptedModel, Turn, call, open_session, say

pytestmark = pytest.mark.anyio

ARGUMENTS = '{"title": "It is broken"}'
AS_TEXT = [
    f'{{"name": "create_issue", "arguments": {ARGUMENTS}}}',
    f'I shall file it.\n```json\n{{"tool": "create_issue", "args": {ARGUMENTS}}}\n```\nDone.',
    f'<tool_call>\n{{"name": "create_issue", "arguments": {ARGUMENTS}}}\n</tool_call>',
    f'[TOOL_CALLS] [{{"name": "create_issue", "arguments": {ARGUMENTS}}}]',
    f"<function=create_issue>{ARGUMENTS}</function>",
    f'{{"type": "function", "function": {{"name": "create_issue", "parameters": {ARGUMENTS}}}}}',
    '{"action": "create_issue", "action_input": {"title": "It is broken"',
    "{'name': 'create_issue', 'arguments': {'title': 'It is broken'}}",
    f'{{"name": "functions.create_issue", "arguments": {ARGUMENTS}}}',
    '{"tool": "create_issue", "title": "It is broken"}',
    '```json\n[{"action": "create_issue", "title": "It is broken"}]\n```',
]
PROSE = [
    "I would call create_issue with a title, if you agree.",
    '{"name": "Ann", "arguments": ["for", "against"]}',
    '{"name": "create_issue"}',
    '{"name": "create_issue", "title": "A person may want this as data"}',
    'I would send {"tool": "create_issue", "title": "It is broken"}. Shall I?',
    "",
]


class Notes:
    seen: list[dict[str, Any]]

    @hooks.trace
    def note(self, event: Trace) -> None:
        if event.kind in {"call_in_text", "call_started"}:
            type(self).seen.append({"kind": event.kind, **event.record.as_dict()})


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    Notes.seen = []


def issue_tool(ran: list[dict[str, Any]]) -> Tool:
    def create(arguments: dict[str, Any]) -> str:
        ran.append(arguments)
        return "issue 7"

    return Tool(name="create_issue", description="Create an issue.", source="mcp", owner="github", execute=create,
                parameters={"type": "object", "properties": {"title": {"type": "string"}}})  # fmt: skip


@pytest.mark.parametrize("text", AS_TEXT)
async def test_it_is_told_to_the_trace_and_to_the_counters_and_does_not_run(text: str) -> None:
    ran: list[dict[str, Any]] = []
    async with open_session(Notes) as session:
        outcome = await run_agent(session, ScriptedModel([text]), "file it", tools=[issue_tool(ran)])
    assert ran == []
    assert outcome.text == text
    assert outcome.stats["calls_in_text"] == 1
    assert Notes.seen == [{"kind": "call_in_text", "names": ["create_issue"]}]


@pytest.mark.parametrize("text", PROSE)
async def test_an_answer_that_only_speaks_of_tools_is_left_in_peace(text: str) -> None:
    async with open_session(Notes) as session:
        outcome = await run_agent(
            session, ScriptedModel([text]), "well?", tools=[issue_tool([])], limits=Limits(reminders=3)
        )
    assert (outcome.turns, outcome.stats["calls_in_text"], Notes.seen) == (1, 0, [])


async def test_a_reply_that_also_makes_calls_is_not_looked_at() -> None:
    async with open_session(Notes) as session:
        model = ScriptedModel([say(AS_TEXT[0], call("create_issue", title="a")), "done"])
        outcome = await run_agent(session, model, "file it", tools=[issue_tool([])])
    assert outcome.stats["calls_in_text"] == 0


async def test_when_asked_for_the_model_is_told_how_to_call_and_its_next_reply_may_do_so() -> None:
    ran: list[dict[str, Any]] = []

    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return AS_TEXT[0]
        if turn.number == 2:
            assert turn.messages[-1] == {
                "role": "user",
                "content": "Nothing was called: a call that is written as text does nothing. "
                "Call create_issue as a tool call of the API.",
            }
            return call("create_issue", title="It is broken")
        return "filed"

    async with open_session() as session:
        outcome = await run_agent(
            session, ScriptedModel(script), "file it", tools=[issue_tool(ran)], limits=Limits(reminders=1)
        )
    assert (outcome.text, outcome.turns, ran) == ("filed", 3, [{"title": "It is broken"}])


async def test_a_hidden_tool_is_told_of_with_the_way_to_it() -> None:
    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return AS_TEXT[0]
        assert turn.messages[-1]["content"].endswith(
            "create_issue is not offered directly. Call such a tool through tool_call, with its name and its arguments; "
            "tool_search finds the exact name."
        )
        return "I see."

    config = {"plugins": {"tool_search": {"config": {"enabled": "on"}}}}
    async with open_session("tool_search", config=config) as session:
        await run_agent(session, ScriptedModel(script), "file it", tools=[issue_tool([])], limits=Limits(reminders=1))


async def test_a_model_that_never_learns_is_reminded_as_often_as_the_limit_says() -> None:
    async with open_session() as session:
        outcome = await run_agent(
            session, ScriptedModel(lambda _: AS_TEXT[0]), "file it", tools=[issue_tool([])], limits=Limits(reminders=2)
        )
    assert (outcome.turns, outcome.reason, outcome.stats["calls_in_text"]) == (3, "completed", 3)


def test_a_negative_number_of_reminders_is_refused() -> None:
    with pytest.raises(ValueError, match="reminders=-1"):
        Limits(reminders=-1)
