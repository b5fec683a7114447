"""`Limits(text_calls="run")`: an answer that is calls and nothing else is read as calls, through the whole gate."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooksdk import Tool, hooks
from hooksdk.agent import Limits, run_agent
from hooksdk.agent._replies import calls_written_in
from hooksdk.formats import FORMATS, get_format
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import ScriptedModel, Turn, call, open_session

pytestmark = pytest.mark.anyio

RUN = Limits(text_calls="run", turns=4)
ONE = json.dumps({"name": "create_issue", "arguments": {"title": "It is broken"}})
TWO = json.dumps({"name": "create_issue", "arguments": {"title": "Again"}})
FIRST, BOTH = [{"title": "It is broken"}], [{"title": "It is broken"}, {"title": "Again"}]
READ = [
    (ONE, FIRST),
    (f"  {ONE}\n", FIRST),
    (f"```json\n{ONE}\n```", FIRST),
    (f"```\n{ONE}\n```", FIRST),
    (f"<tool_call>\n{ONE}\n</tool_call>", FIRST),
    (f"I shall file it:\n```json\n{ONE}\n```\n", FIRST),
    (f"{ONE}\n{TWO}", BOTH),
    (f"[{ONE}, {TWO}]", BOTH),
    (f"```json\n{ONE}\n```\n```json\n{TWO}\n```", BOTH),
    (f"<tool_call>{ONE}</tool_call>\n<tool_call>{TWO}</tool_call>", BOTH),
    (json.dumps({"tool": "functions.create_issue", "args": {"title": "It is broken"}}), FIRST),
    (json.dumps({"name": "create_issue", "arguments": '{"title": "It is broken"}'}), FIRST),
    (json.dumps({"type": "function", "function": json.loads(ONE)}), FIRST),
    (json.dumps({"id": "call_1", **json.loads(ONE)}), FIRST),
]
NOT_READ = [
    f"{ONE}\nDone.",
    f"```json\n{ONE}\n```\nI have filed it.",
    f"First line.\nSecond line:\n{ONE}",
    f"{'A long story. ' * 20}\n{ONE}",
    f"<tool_call>{ONE}</tool_call> and then {TWO}",
    f"```python\n{ONE}\n```",
    ONE[:-1],
    "{'name': 'create_issue', 'arguments': {'title': 'x'}}",
    json.dumps({"name": "delete_all", "arguments": {}}),
    f"[{ONE}, {json.dumps({'name': 'delete_all', 'arguments': {}})}]",
    json.dumps({"name": "create_issue"}),
    json.dumps({"name": "create_issue", "arguments": {}, "title": "data"}),
    json.dumps({"name": "create_issue", "arguments": ["x"]}),
    json.dumps({"name": "create_issue", "tool": "other", "arguments": {}}),
    json.dumps({"issue": json.loads(ONE)}),
    "[]",
    "[1]",
    "```json\n```",
    "",
]


def issue_tool(ran: list[dict[str, Any]]) -> Tool:
    async def create(arguments: dict[str, Any]) -> str:  # a plain one runs in a thread, and threads have no order
        ran.append(arguments)
        return "done"

    return Tool(name="create_issue", description="Create an issue.", source="mcp", owner="github", execute=create,
                parameters={"type": "object", "properties": {"title": {"type": "string"}}})  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), READ)
async def test_an_answer_that_is_calls_and_nothing_else_runs_them(text: str, meant: list[dict[str, Any]]) -> None:
    ran: list[dict[str, Any]] = []
    async with open_session() as session:
        outcome = await run_agent(session, ScriptedModel([text, "Filed."]), "go", tools=[issue_tool(ran)], limits=RUN)
    assert ran == meant
    assert (outcome.text, outcome.turns) == ("Filed.", 2)


@pytest.mark.parametrize("text", NOT_READ)
async def test_any_other_answer_runs_nothing_and_stays_as_it_is(text: str) -> None:
    ran: list[dict[str, Any]] = []
    async with open_session() as session:
        outcome = await run_agent(session, ScriptedModel([text]), "go", tools=[issue_tool(ran)], limits=RUN)
    assert (ran, outcome.text, outcome.turns) == ([], text, 1)


async def test_it_is_off_unless_it_is_asked_for() -> None:
    ran: list[dict[str, Any]] = []
    async with open_session() as session:
        outcome = await run_agent(session, ScriptedModel([ONE]), "go", tools=[issue_tool(ran)])
    assert (ran, outcome.stats["calls_in_text"]) == ([], 1)


async def test_policies_judge_it_like_any_call() -> None:
    class Policy:
        @hooks.before_tool_call(tools="create_issue")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("nothing is filed here")

    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return ONE
        assert "nothing is filed here" in turn.messages[-1]["content"]
        return "I see."

    ran: list[dict[str, Any]] = []
    async with open_session(Policy) as session:
        await run_agent(session, ScriptedModel(script), "go", tools=[issue_tool(ran)], limits=RUN)
    assert ran == []


@pytest.mark.parametrize("name", sorted(FORMATS))
async def test_the_transcript_can_be_sent_again_in_every_format(name: str) -> None:
    ran: list[dict[str, Any]] = []
    form = get_format(name)
    text = f"I shall file both:\n{ONE}\n{TWO}"
    async with open_session() as session:
        model = ScriptedModel([text, "Filed."], format=name)
        await run_agent(session, model, "go", tools=[issue_tool(ran)], limits=RUN)
        messages = session.messages
    assert ran == BOTH
    assert [form.check(message) for message in messages] == [None] * len(messages)
    ids = [one.id for message in messages for one in form.calls(message)]
    assert len(ids) == len(set(ids)) == 2
    assert all(one.startswith("from_text_") for one in ids)
    answered = [result.call_id for message in messages for result in form.results(message)]
    assert answered == (ids if any(answered) else answered)
    assert "I shall file both:" in "\n".join(map(form.text, messages))
    assert ONE not in "\n".join(map(form.text, messages))


async def test_a_hidden_tool_is_reached_through_the_bridge_and_not_by_its_own_name() -> None:
    config = {"plugins": {"tool_search": {"config": {"enabled": "on"}}}}
    for text, meant in ((json.dumps({"name": "tool_call", "arguments": json.loads(ONE)}), FIRST), (ONE, [])):
        ran: list[dict[str, Any]] = []
        async with open_session("tool_search", config=config) as session:
            await run_agent(session, ScriptedModel([text, "Done."]), "go", tools=[issue_tool(ran)], limits=RUN)
        assert ran == meant


@pytest.mark.parametrize(
    "result", [f"The page says: {ONE}", json.dumps({"page": ONE}), json.dumps(json.loads(ONE), indent=2)]
)
async def test_a_call_that_stands_in_a_tools_result_is_never_run(result: str) -> None:
    def read(arguments: dict[str, Any]) -> str:
        return result

    page = Tool(name="read_page", source="host", execute=read)
    ran: list[dict[str, Any]] = []
    async with open_session() as session:
        model = ScriptedModel([call("read_page"), f"The page has this:\n```json\n{ONE}\n```"])
        outcome = await run_agent(session, model, "read it", tools=[page, issue_tool(ran)], limits=RUN)
    assert (ran, outcome.turns) == ([], 2)


WORDS = st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.fixed_dictionaries(
    {"name": st.just("create_issue"), "arguments": st.dictionaries(WORDS, VALUES, max_size=3)}
)
QUOTES = st.sampled_from(["{}", "```json\n{}\n```", "<tool_call>\n{}\n</tool_call>", "It says:\n{}", "[{}]"])


def quoted(written: dict[str, Any], way: int, around: str) -> str:
    """A tool's result that holds this call, as text, indented, or as JSON within JSON."""
    text = json.dumps(written, ensure_ascii=way % 2 == 0, indent=2 if way % 3 == 0 else None)
    for _ in range(way % 4):
        text = json.dumps({"content": text}, ensure_ascii=way % 5 == 0)
    return f"{around}{text}{around}"


@pytest.mark.heavy
@settings(deadline=None, max_examples=300)
@given(CALLS, QUOTES, st.integers(0, 120), WORDS)
def test_whatever_a_result_quotes_is_no_call(written: dict[str, Any], quote: str, way: int, around: str) -> None:
    text = quote.replace("{}", json.dumps(written))
    assert calls_written_in(text, str, [quoted(written, way, around)]) == ("", [])


@pytest.mark.heavy
@settings(deadline=None, max_examples=200)
@given(CALLS, QUOTES)
def test_what_no_result_quotes_is_the_call_that_was_written(written: dict[str, Any], quote: str) -> None:
    text = quote.replace("{}", json.dumps(written))
    assert calls_written_in(text, str, ["another text"])[1] == [("create_issue", written["arguments"])]


def test_an_unknown_word_for_the_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="it is 'notice' or 'run'"):
        Limits(text_calls="yes")  # pyright: ignore[reportArgumentType]
