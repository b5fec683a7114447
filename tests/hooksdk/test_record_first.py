"""Writing down what was decided before a call runs, and hosts that run nothing without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hooksdk import Approval, ApprovalRequest, Host, MemoryStore, ToolCall, ToolContext, hooks, sync
from hooksdk.agent import run_agent
from hooksdk.approvals import Later
from hooksdk.config import load_config
from hooksdk.errors import ApprovalPending, ConfigError
from hooksdk.hooks import Ask, BeforeToolCall, Block, RecordDecision, ToolCallStart
from hooksdk.testing import ScriptedModel, call
from hooksdk.tools import Annotations
from tests.stage import make, reply

pytestmark = pytest.mark.anyio


class Recorder:
    """Notes what may run, and fails for some of it."""

    seen: list[RecordDecision]

    def __init__(self) -> None:
        self.seen = []

    @hooks.record_decision
    async def write(self, event: RecordDecision) -> None:
        self.seen.append(event)
        if event.arguments.get("path") == "full":
            raise OSError("the disk is full")


class Judges:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | Ask | None:
        path = event.arguments.get("path")
        return Block("no") if path == "no" else Ask("May it?") if path == "ask" else None


class Late:
    @hooks.tool_call_start.last
    def start(self, event: ToolCallStart) -> Block | None:
        return Block("one too many") if event.arguments.get("path") == "late" else None


async def ann(request: ApprovalRequest) -> Approval:
    return Approval(True, by="ann")


READ = make(annotations=Annotations(read_only=True))


def a_host(*plugins: Any, record_first: bool | None = None, approver: Any = ann) -> Host:
    chosen = plugins or (Recorder, Judges, Late)
    return Host(chosen, store=MemoryStore(), record_first=record_first, approver=approver)


async def play(host: Host, *paths: str) -> tuple[list[str], list[RecordDecision]]:
    """A call for each path; answers what the model reads, and what was written."""
    async with host, host.session() as session, session.run() as run:
        await run.resolve_tools([READ])
        texts = [
            (await run.call_tool(ToolCall(f"c{n}", "read_file", {"path": path}))).text for n, path in enumerate(paths)
        ]
        return texts, list(session.plugin("recorder").seen)


@pytest.mark.both_loops
async def test_what_may_run_is_written_after_every_policy_with_who_judged_and_who_said_yes() -> None:
    _, seen = await play(a_host(), "a", "no", "ask", "late")
    assert [event.arguments["path"] for event in seen] == ["a", "ask"]
    assert [
        (event.judged_by, event.approved_by, [one.title for one in event.granted], event.required) for event in seen
    ] == [
        (("judges",), None, [], False),
        (("judges",), "ann", ["May it?"], False),
    ]
    assert all(event.effect_id for event in seen)


async def test_a_record_that_fails_is_logged_and_holds_nothing_back(caplog: pytest.LogCaptureFixture) -> None:
    texts, _ = await play(a_host(), "full")
    assert texts[0].startswith("ran with")
    assert "the disk is full" in caplog.text


@pytest.mark.both_loops
async def test_where_the_host_records_first_it_holds_the_call_back_also_one_that_only_reads() -> None:
    texts, seen = await play(a_host(record_first=True), "full", "a")
    assert (
        texts[0]
        == "'read_file' was not run: this host records each call before it runs, and this one could not be recorded. Nothing was done."
    )
    assert texts[1].startswith("ran with")
    assert all(event.required for event in seen)


async def test_a_call_that_a_loop_runs_itself_is_written_before_it_is_handed_out() -> None:
    async with a_host(record_first=True) as host, host.session() as session, session.run() as run:
        await run.resolve_tools([READ])
        full = await run.judge(ToolCall("c1", "read_file", {"path": "full"}))
        assert full.status == "blocked"
        judged = await run.judge(ToolCall("c2", "read_file", {"path": "a"}))
        assert len(session.plugin("recorder").seen) == 2
        await judged.execute()
        assert len(session.plugin("recorder").seen) == 2  # and once


async def test_a_call_that_waited_for_a_person_is_written_when_it_may_run() -> None:
    answers: list[Approval | Later] = [Later(), Approval(True, by="ann")]

    async def approver(request: ApprovalRequest) -> Approval | Later:
        return answers.pop(0)

    async with a_host(record_first=True, approver=approver) as host, host.session() as session, session.run() as run:
        await run.resolve_tools([READ])
        asked = ToolCall("c1", "read_file", {"path": "ask"})
        await run.record(reply(asked))
        with pytest.raises(ApprovalPending):
            await run.call_tool(asked)
        assert session.plugin("recorder").seen == []
        await run.call_tool(asked)
        assert [event.approved_by for event in session.plugin("recorder").seen] == ["ann"]


async def test_a_tool_that_a_tool_calls_is_written_too() -> None:
    async def outer(arguments: dict[str, Any], context: ToolContext) -> str:
        return (await context.call_tool("read_file", {"path": "full"})).text

    tool = make("outer", outer)
    async with a_host(record_first=True) as host, host.session() as session, session.run() as run:
        await run.resolve_tools([READ, tool])
        text = (await run.call_tool(ToolCall("c1", "outer", {}))).text
    assert "was not run: this host records each call" in text


async def test_in_the_agent_loop_the_model_reads_the_refusal() -> None:
    model = ScriptedModel([[call("read_file", path="full")], "done"])
    async with a_host(record_first=True) as host, host.session() as session:
        await run_agent(session, model, "go", tools=[READ])
    assert "could not be recorded" in str(model.turns[-1].messages)


def test_a_host_that_records_first_needs_a_plugin_that_does() -> None:
    with pytest.raises(ConfigError, match="no plugin here writes decisions down"):
        a_host(Judges, record_first=True)
    assert not a_host(Judges).config.record_first


def test_the_configuration_says_it_and_the_host_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("record_first = true\n")
    assert Host([Recorder], folder=tmp_path).config.record_first
    assert not Host([Recorder], folder=tmp_path, record_first=False).config.record_first


def test_a_project_may_ask_for_it_and_not_switch_it_off(tmp_path: Path, home: Path) -> None:
    user = home / "config" / "hooksdk" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("record_first = true\n")
    (tmp_path / "hooksdk.toml").write_text("record_first = false\n")
    assert load_config(folder=tmp_path).record_first


def test_plain_programs_have_it_too() -> None:
    with sync.Host([Recorder], record_first=True) as host, host.session() as session, session.run() as run:
        run.resolve_tools([READ])
        assert "could not be recorded" in run.call_tool(ToolCall("c1", "read_file", {"path": "full"})).text
