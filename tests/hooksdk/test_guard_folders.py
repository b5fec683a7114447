"""Relative words of a call are judged from where it will run, as each agent tells it: seen in the programs themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hooksdk.guard import AGENTS, Judge

pytestmark = pytest.mark.anyio
RULES = """
[[plugins.tool_policy.config.rules]]
{}
"""
BY_WHAT_IT_DOES = 'action = "deny"\ndoes = ["read", "write"]\npath_inside = "secret"'
BY_PATH = 'action = "deny"\npath_inside = "secret"'
BY_NAME = 'action = "deny"\ndoes = "read"\npath_name = "key"'
OUTSIDE = 'action = "deny"\ndoes = "write"\npath_outside = ["."]'

Payload = dict[str, Any]


def line(agent: str, project: Path, folder: Path, command: str) -> Payload:
    """The hook before a line that runs in this folder: Claude Code got there by the `cd` of an earlier call, Codex by the call's
    `workdir`, which it tells as the hook's folder; Gemini CLI and Qwen Code name it in the call, and stay where they are."""
    if agent in ("claude-code", "codex"):
        return call(folder, "PreToolUse", "Bash", command=command)
    if agent == "gemini":
        named = str(folder.relative_to(project)) if folder.is_relative_to(project) else str(folder)
        return call(project, "BeforeTool", "run_shell_command", command=command, dir_path=named)
    return call(
        project, "PreToolUse", "run_shell_command", command=command, directory=str(folder), description="a test"
    )


def call(folder: Path, name: str, tool: str, **arguments: Any) -> Payload:
    return {"hook_event_name": name, "session_id": "s1", "cwd": str(folder), "tool_name": tool, "tool_input": arguments}


async def is_denied(judge: Judge, agent: str, payload: Payload) -> bool:
    said = await judge.answer(agent, payload)
    return "deny" in (said.get("decision"), said.get("hookSpecificOutput", {}).get("permissionDecision"))


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOOKSDK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOOKSDK_STORE", "memory")
    for name in ("secret", "deep", "deep/down", "other"):
        (tmp_path / "project" / name).mkdir(parents=True)
    (tmp_path / "project" / "deep" / "link").symlink_to("../secret")
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "project"


CALLS = [
    (BY_WHAT_IT_DOES, "secret", "cat x", True), (BY_WHAT_IT_DOES, "secret", "echo hi > x", True),
    (BY_WHAT_IT_DOES, "deep", "cat ../secret/x", True), (BY_WHAT_IT_DOES, "deep/down", "cat ../../secret/x", True),
    (BY_WHAT_IT_DOES, "deep", "cd ../secret && cat x", True), (BY_WHAT_IT_DOES, "deep", "cat link/x", True),
    (BY_WHAT_IT_DOES, "deep", "cat secret/x", True), (BY_WHAT_IT_DOES, "deep", "cat x", False),
    (BY_WHAT_IT_DOES, "other", "cat ../deep/x", False), (BY_WHAT_IT_DOES, ".", "cat secret/x", True),
    (BY_PATH, "deep", "cat ../secret/x", True), (BY_PATH, "deep/down", "make -C ../../secret", True), (BY_PATH, "deep", "cat x", False),
    (BY_NAME, "deep", "cat ../other/x", False), (BY_NAME, "deep", "cat ../other/key", True), (BY_NAME, "other", "cat named", True),
    (OUTSIDE, "../elsewhere", "echo hi > x", True), (OUTSIDE, "deep", "echo hi > x", False), (OUTSIDE, "deep", "echo hi > ../../x", True),
]  # fmt: skip


@pytest.mark.light(every=9)
@pytest.mark.parametrize(("rule", "folder", "command", "denied"), CALLS)
async def test_a_relative_word_of_a_line_is_a_path_from_where_the_line_runs_and_from_where_the_session_began(
    project: Path, agent: str, rule: str, folder: str, command: str, denied: bool
):
    (project / "hooksdk.toml").write_text(RULES.format(rule))
    (project / "other" / "named").symlink_to(project / "secret" / "key")
    async with Judge() as judge:
        assert not await is_denied(judge, agent, line(agent, project, project, "ls deep"))
        assert await is_denied(judge, agent, line(agent, project, (project / folder).resolve(), command)) is denied


@pytest.mark.parametrize("way", ["a judge", "a sub-agent"])
async def test_that_holds_for_another_judge_and_for_sub_agents(project: Path, way: str):
    (project / "hooksdk.toml").write_text(RULES.format(BY_WHAT_IT_DOES))
    helper = {"agent_id": "h1", "agent_type": "helper"} if way == "a sub-agent" else {}
    async with Judge() as judge:
        assert not await is_denied(judge, "claude-code", line("claude-code", project, project, "cd deep"))
    async with Judge() as judge:
        hook = {**line("claude-code", project, project / "deep", "cat ../secret/x"), **helper}
        assert await is_denied(judge, "claude-code", hook)
        assert await is_denied(judge, "claude-code", {**hook, "tool_input": {"command": "cat secret/x"}})


async def test_a_patch_of_codex_lies_where_it_is_applied(project: Path):
    (project / "hooksdk.toml").write_text(RULES.format(BY_WHAT_IT_DOES))
    patch = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch"
    async with Judge() as judge:
        assert not await is_denied(judge, "codex", line("codex", project, project, "ls deep"))
        for folder, name, denied in (("secret", "x", True), ("deep", "../secret/x", True), ("deep", "x", False)):
            hook = call(project / folder, "PreToolUse", "apply_patch", command=patch.format(name))
            assert await is_denied(judge, "codex", hook) is denied


async def test_an_allow_holds_only_where_it_holds_from_both_folders(project: Path):
    allow = 'action = "allow"\ntools = "Read"\npath_inside = "deep"'
    (project / "hooksdk.toml").write_text(f'[plugins.tool_policy.config]\ndefault = "deny"\n{RULES.format(allow)}')
    async with Judge() as judge:
        for folder, name, denied in ((".", "deep/x", False), ("other", "deep/x", True), ("deep", "x", True)):
            hook = call(project / folder, "PreToolUse", "Read", file_path=name)
            assert await is_denied(judge, "claude-code", hook) is denied, (folder, name)
            hook = call(project / folder, "PreToolUse", "Read", file_path=str(project / "deep" / "x"))
            assert not await is_denied(judge, "claude-code", hook)


async def test_a_limit_counts_a_call_by_where_it_runs(project: Path):
    limited = 'action = "deny"\ndoes = "read"\npath_inside = "secret"\nlimit = { calls = 1 }'
    (project / "hooksdk.toml").write_text(RULES.format(limited))
    async with Judge() as judge:
        assert not await is_denied(judge, "codex", line("codex", project, project, "ls deep"))
        hooks = [line("codex", project, project / "secret", command) for command in ("cat x", "cat y")]
        assert [
            await is_denied(judge, "codex", {**hook, "tool_use_id": f"t{at}"}) for at, hook in enumerate(hooks)
        ] == [False, True]
