"""How the answers of several policies become one verdict."""

from __future__ import annotations

from itertools import permutations

import pytest

from hooksdk import Approval, ApprovalRequest, ToolResult, hooks
from hooksdk.errors import RunBlocked
from hooksdk.hooks import (
    AgentStart,
    Answer,
    Ask,
    BeforeToolCall,
    Block,
)
from tests.stage import playing

pytestmark = pytest.mark.anyio
seen: list[str] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


async def yes(request: ApprovalRequest) -> Approval:
    seen.append(f"asked {request.title}")
    return Approval(True)


class Blocks:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        seen.append("block")
        return Block("no")


class Asks:
    @hooks.before_tool_call
    async def judge(self, event: BeforeToolCall) -> Ask | None:
        seen.append("ask")
        return Ask("may I?")


class Answers:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Answer | None:
        seen.append("answer")
        return Answer("canned")


class Passes:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        seen.append("pass")


@pytest.mark.light(every=5)
@pytest.mark.parametrize(
    "order", list(permutations([Blocks, Asks, Answers, Passes])), ids=lambda o: "-".join(x.__name__ for x in o)
)
async def test_block_beats_ask_and_answer_in_every_order(order: tuple[type, ...]) -> None:
    async with playing(*order, approver=yes) as stage:
        result = await stage.call()
    assert result.text == "Blocked by blocks: no"
    assert stage.executed == []
    assert seen[-1] == "block", "only a Block stops later handlers"
    assert not any(entry.startswith("asked") for entry in seen)


@pytest.mark.parametrize(
    "order", list(permutations([Asks, Answers, Passes])), ids=lambda o: "-".join(x.__name__ for x in o)
)
async def test_ask_beats_answer_and_a_granted_call_runs(order: tuple[type, ...]) -> None:
    async with playing(*order, approver=yes) as stage:
        result = await stage.call()
    assert result.text == "done"
    assert seen[-1] == "asked may I?"
    assert len(stage.executed) == 1


@pytest.mark.parametrize("order", list(permutations([Answers, Passes])))
async def test_an_answer_is_the_result_without_running_the_tool(order: tuple[type, ...]) -> None:
    async with playing(*order) as stage:
        result = await stage.call()
    assert result == ToolResult("canned")
    assert stage.executed == []
    assert set(seen) == {"answer", "pass"}


async def test_the_first_of_each_kind_counts() -> None:
    class AsksToo:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask | None:
            return Ask("second?")

    async with playing(Asks, AsksToo, approver=yes) as stage:
        await stage.call()
    assert seen == ["ask", "asked may I?"]


class Firm(Block):
    """A plugin's own kind of Block."""


class Careful(Ask):
    """A plugin's own kind of Ask."""


async def test_an_answer_of_a_subclass_counts_as_what_it_is() -> None:
    class Own:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | Ask | None:
            return Firm("no") if event.arguments else Careful("may I?")

    async with playing(Own) as stage:
        blocked = await stage.call(arguments={"a": 1})
        refused = await stage.call()
    assert blocked.text == "Blocked by own: no"
    assert "not approved" in refused.text
    assert stage.executed == []


async def test_agent_start_refuses_the_run_before_anything_is_recorded() -> None:
    class Curfew:
        @hooks.agent_start
        async def judge(self, event: AgentStart) -> Block | None:
            return Block("after hours") if event.input == "work" else None

    with pytest.raises(RunBlocked, match="plugin 'curfew': after hours"):
        async with playing(Curfew, input="work"):
            raise AssertionError
    async with playing(Curfew, input="rest") as stage:
        assert (await stage.call()).text == "done"
