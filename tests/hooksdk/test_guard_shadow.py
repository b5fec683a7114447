"""The guard where it refuses nothing: while a person has paused it, and before an agent that only tries it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from guard_hooks import after, before, hook

from hooksdk.approvals import Approval
from hooksdk.config import load_config
from hooksdk.desk import ApprovalRecords
from hooksdk.errors import ConfigError
from hooksdk.guard import GuardConfig, Judge, guard_problems
from hooksdk.stores import SqlStore, open_store
from tests.hooksdk.tables import run_sql

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
RULES = """
[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "Bash"
command = ["rm"]

[[plugins.tool_policy.config.rules]]
action = "ask"
tools = "Write"
title = "Write it?"
"""
PLUGINS = """
from hooksdk import ToolResult, hooks
from hooksdk.hooks import Replace, Rewrite


class Changes:
    @hooks.rewrite_tool_call(tools="Bash")
    def rewrite(self, event):
        return Rewrite({"command": "echo safe"}) if event.arguments["command"] == "echo danger" else None

    @hooks.transform_tool_result
    def redact(self, event):
        return Replace(ToolResult(blocks=[{"type": "text", "text": "[redacted]"}]))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rules, and a user of its own, who has a trace."""
    monkeypatch.setenv("HOOKSDK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("HOOKSDK_GUARD_DIR", raising=False)
    folder, own = tmp_path / "project", tmp_path / "config" / "hooksdk"
    for each in (folder, own, tmp_path / "state" / "guard"):
        each.mkdir(parents=True)
    (tmp_path / "state" / "guard").chmod(0o700)
    (folder / "hooksdk.toml").write_text(RULES)
    (own / "changes.py").write_text(PLUGINS)
    (own / "config.toml").write_text(f"plugins_file = '{own / 'changes.py'}'\n[plugins.trace_file]\n")
    return folder


def pause(project: Path, until: float) -> None:
    (project.parent / "state" / "guard" / "paused").write_text(str(until))


def shadows(project: Path) -> list[tuple[str, str]]:
    """What plugins would have done, by the trace."""
    lines = map(json.loads, (project.parent / "state" / "trace.jsonl").read_text().splitlines())
    return [(line["plugin"], line["decision"]) for line in lines if line["kind"] == "decision" and line["shadow"]]


CALLS: list[dict[str, Any]] = [{"tool": "Bash", "command": "rm a"}, {"tool": "Write", "file_path": "a"}, {"tool": "Bash", "command": "echo danger"}]  # fmt: skip


async def test_in_shadow_nothing_is_refused_asked_about_or_changed_and_the_trace_has_it(project: Path):
    async with Judge() as judge:
        for number, call in enumerate(CALLS):
            assert await judge.answer("codex", before(project, call_id=f"t{number}", **call), shadow=True) == {}
        assert await judge.answer("codex", after(project, "AKIA", call_id="t0", command="rm a"), shadow=True) == {}
        assert await judge.answer("codex", before(project, command="{{secret:key}}"), shadow=True) == {}
    assert {("tool_policy", "Block"), ("tool_policy", "Ask"), ("changes", "Rewrite"), ("changes", "Replace")} <= set(
        shadows(project)
    )


async def test_a_pause_holds_in_an_open_session_and_ends_by_itself(project: Path):
    async with Judge() as judge:
        denied = await judge.answer("claude-code", before(project, command="rm a"))
        assert denied["hookSpecificOutput"]["permissionDecision"] == "deny"
        pause(project, time.time() + 600)
        assert await judge.answer("claude-code", before(project, command="rm a")) == {}
        pause(project, time.time() - 1)
        assert await judge.answer("claude-code", before(project, command="rm a")) == denied
    assert [each for each in shadows(project) if each[0] == "tool_policy"] == [("tool_policy", "Block")]


async def test_what_stands_in_the_file_of_the_pause_counts_only_as_a_time(project: Path):
    pause(project, float("nan"))
    async with Judge() as judge:
        assert await judge.answer("claude-code", before(project, command="rm a")) != {}
        (project.parent / "state" / "guard" / "paused").write_text("for ever")
        assert await judge.answer("claude-code", before(project, command="rm a")) != {}


async def test_an_agent_that_tries_the_guard_and_one_that_has_it_work_in_one_project(project: Path):
    async with Judge() as judge:
        for _ in range(2):
            assert await judge.answer("gemini", hook(project, "BeforeTool", tool_name="Bash", tool_input={"command": "rm a"}), shadow=True) == {}  # fmt: skip
            assert await judge.answer("claude-code", before(project, command="rm a")) != {}


async def test_nobody_before_claude_code_means_that_the_question_waits_at_the_desk(project: Path):
    async with Judge() as judge:
        asked = await judge.answer("claude-code", before(project, tool="Write", file_path="a"), alone=True)
        refusal = asked["hookSpecificOutput"]
        assert refusal["permissionDecision"] == "deny"
        assert "hooksdk approvals grant 1" in refusal["permissionDecisionReason"]
        asked = await judge.answer("claude-code", before(project, tool="Write", call_id="t2", file_path="b"))
        assert asked["hookSpecificOutput"]["permissionDecision"] == "ask"


async def grant(number: int) -> None:
    store = open_store("jsonl")
    await ApprovalRecords(store).answer(number, Approval(True, by="ann"))
    await store.aclose()


async def test_the_answer_counts_once_in_the_next_session_of_the_same_project(project: Path):
    other = project.parent / "other"
    other.mkdir()
    (other / "hooksdk.toml").write_text(RULES)

    def write(session: str, folder: Path = project) -> dict[str, Any]:
        return before(folder, tool="Write", session=session, file_path="a")

    async with Judge() as judge:
        assert await judge.answer("claude-code", write("s1"), alone=True) != {}
        await judge.answer("claude-code", hook(project, "SessionEnd"), alone=True)
        await grant(1)
        elsewhere = await judge.answer("claude-code", write("s2", other), alone=True)
        assert "grant 2`" in elsewhere["hookSpecificOutput"]["permissionDecisionReason"]
        assert await judge.answer("claude-code", write("s3"), alone=True) == {}
        again = await judge.answer("claude-code", write("s4"), alone=True)
        assert "grant 3`" in again["hookSpecificOutput"]["permissionDecisionReason"]


async def test_the_answer_to_a_session_that_is_open_is_no_other_sessions(project: Path):
    async with Judge() as judge:
        await judge.answer("codex", before(project, tool="Write", file_path="a"))
        await grant(1)
        asked = await judge.answer("codex", before(project, tool="Write", session="s2", file_path="a"))
        assert "grant 2`" in asked["hookSpecificOutput"]["permissionDecisionReason"]


async def test_calls_of_the_users_own_gateway_are_left_to_it(project: Path):
    (project / "hooksdk.toml").write_text(
        '[[plugins.tool_policy.config.rules]]\naction = "deny"\ntools = "mcp:*:read"\n'
    )
    asked: list[tuple[str, str, Path]] = []

    def is_gateway(agent: str, server: str, folder: Path) -> bool:
        asked.append((agent, server, folder))
        return server == "hooksdk"

    async with Judge(is_gateway=is_gateway) as judge:
        assert await judge.answer("claude-code", before(project, tool="mcp__hooksdk__read")) == {}
        assert await judge.answer("claude-code", after(project, "AKIA", tool="mcp__hooksdk__read")) == {}
        denied = await judge.answer("claude-code", before(project, tool="mcp__notes__read"))
        assert denied["hookSpecificOutput"]["permissionDecision"] == "deny"
        await judge.answer("claude-code", before(project, command="ls"))
        assert judge.calls == 2
    assert asked == [("claude-code", server, project) for server in ("hooksdk", "hooksdk", "notes")]


async def test_geminis_servers_are_told_apart_by_what_it_says_beside_the_name(project: Path):
    (project / "hooksdk.toml").write_text(
        '[[plugins.tool_policy.config.rules]]\naction = "deny"\ntools = "mcp:my_notes:read"\n'
    )
    call = hook(project, "BeforeTool", tool_name="mcp_my_notes_read", tool_input={})
    async with Judge() as judge:
        context = {"server_name": "my_notes", "tool_name": "read", "command": "x"}
        assert (await judge.answer("gemini", {**call, "mcp_context": context}))["decision"] == "deny"
        assert (
            await judge.answer("gemini", {**call, "mcp_context": {**context, "server_name": "my"}, "session_id": "s2"})
            == {}
        )


async def test_sessions_of_the_guard_go_after_the_days_that_the_user_keeps_them(project: Path):
    state = project.parent / "state"
    store = open_store("jsonl")
    for name in ("mine", "guard-claude-code-old", "guard-claude-code-old/helper", "guard-claude-code-new"):
        await (await store.open_session(name)).close()
    past = time.time() - 31 * 86_400
    assert isinstance(store, SqlStore)
    await run_sql(store, "UPDATE hooksdk_sessions SET changed = :past WHERE name NOT LIKE '%new%'", {"past": past})
    await store.aclose()
    places = state / "guard" / "sessions"
    places.mkdir()
    (places / "old.json").write_text("{}")
    os.utime(places / "old.json", (past, past))
    async with Judge() as judge:
        await judge.answer("claude-code", before(project, command="ls"))
        with anyio.fail_after(60):
            while (places / "old.json").exists():
                await anyio.sleep(0.01)
    store = open_store("jsonl")
    assert await store.list_sessions() == ["guard-claude-code-new", "guard-claude-code-s1", "mine"]
    await store.aclose()


def test_how_long_they_are_kept_is_the_users_to_say(project: Path):
    own = project.parent / "config" / "hooksdk" / "config.toml"
    own.write_text("[guard]\nkeep = 7\n")
    (project / "hooksdk.toml").write_text("[guard]\nkeep = 1000\n")
    assert GuardConfig.of(load_config(folder=project)).keep == 7


@pytest.mark.parametrize(
    ("table", "problem"),
    [({"keep": 0}, "guard.keep"), ({"keeps": 3}, "Did you mean 'guard.keep'")],
)
def test_what_is_wrong_with_the_table_is_said(project: Path, table: dict[str, Any], problem: str):
    (told,) = guard_problems(table)
    assert problem in told
    own = project.parent / "config" / "hooksdk" / "config.toml"
    own.write_text(f"[guard]\n{next(iter(table))} = {next(iter(table.values()))}\n")
    with pytest.raises(ConfigError, match="guard"):
        load_config(folder=project, tables={"guard": guard_problems})


async def test_a_session_with_a_sub_agent_that_is_ended_twice_at_once_is_ended(project: Path):
    async with Judge() as judge:
        call = before(project, command="ls")
        await judge.answer("claude-code", {**call, "agent_id": "h1", "agent_type": "helper"})
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(judge.answer, "claude-code", hook(project, "SessionEnd"))
        assert [each.sessions for each in judge.projects.values()] == [0]
