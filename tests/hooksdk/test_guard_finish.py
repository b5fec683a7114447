"""The end of an agent's turn, which plugins may refuse: in each agent's words, and never for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guard_hooks import before, hook

from hooksdk.guard import Judge

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
PLUGINS = """
from hooksdk import hooks
from hooksdk.hooks import Block, Continue, Replace


class Judges:
    @hooks.before_answer
    def judge(self, event):
        if "proof" in event.text:
            return None
        if "secret" in event.text:
            return Block("not for outsiders")
        return Replace("[name]") if "Ada" in event.text else Continue("Show the proof.")


class Counts:
    def __init__(self, state):
        self.state = state

    @hooks.agent_end
    def end(self, event):
        self.state["ends"] = [*self.state.get("ends", ()), event.reason]

    @hooks.before_tool_call
    def tell(self, event):
        return Block(" ".join(self.state.get("ends", ())))
"""
GO_ON = {"decision": "block", "reason": "Show the proof."}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, and a user whose own plugins judge answers."""
    monkeypatch.setenv("HOOKSDK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "config" / "hooksdk"
    place.mkdir(parents=True)
    (place / "own_plugins.py").write_text(PLUGINS)
    (place / "config.toml").write_text(f"plugins_file = '{place / 'own_plugins.py'}'\n")
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def stop(project: Path, text: str, **more: Any) -> dict[str, Any]:
    return hook(project, "Stop", last_assistant_message=text, **more)


def prompt(project: Path, text: str) -> dict[str, Any]:
    return hook(project, "UserPromptSubmit", prompt=text)


async def ends(judge: Judge, project: Path) -> list[str]:
    """How the session's runs have ended."""
    said = (await judge.answer("claude-code", before(project, "Count")))["hookSpecificOutput"]
    return said["permissionDecisionReason"].partition(": ")[2].split()


@pytest.mark.parametrize("agent", ["claude-code", "codex", "qwen"])
async def test_the_model_goes_on_with_the_reason(project: Path, agent: str):
    async with Judge() as judge:
        assert await judge.answer(agent, stop(project, "It holds.")) == GO_ON
        assert await judge.answer(agent, stop(project, "A proof.", stop_hook_active=True)) == {}


async def test_gemini_cli_has_other_words_for_it(project: Path):
    end = hook(project, "AfterAgent", prompt="Prove it.", prompt_response="It holds.")
    async with Judge() as judge:
        assert await judge.answer("gemini", end) == {"decision": "deny", "reason": "Show the proof."}


async def test_no_turn_goes_on_for_ever_and_the_person_is_told(project: Path):
    async with Judge() as judge:
        await judge.answer("claude-code", prompt(project, "Prove it."))
        answers = [await judge.answer("claude-code", stop(project, "It holds.")) for _ in range(4)]
        assert answers[:3] == [GO_ON] * 3
        told = "hooksdk guard: the answer was let through in the end, although a plugin says: Show the proof."
        assert answers[3] == {"systemMessage": told}
        await judge.answer("claude-code", prompt(project, "Once more."))
        assert await judge.answer("claude-code", stop(project, "It holds.")) == GO_ON
        assert await ends(judge, project) == ["completed"]


async def test_the_limit_is_the_users(project: Path):
    config = project.parent / "config" / "hooksdk" / "config.toml"
    config.write_text(config.read_text() + "[guard]\ncontinues = 1\n")
    async with Judge() as judge:
        assert await judge.answer("claude-code", stop(project, "It holds.")) == GO_ON
        assert "systemMessage" in await judge.answer("claude-code", stop(project, "It holds."))


async def test_the_reason_told_as_a_prompt_begins_no_turn(project: Path):
    async with Judge() as judge:
        await judge.answer("qwen", prompt(project, "Prove it."))
        for _ in range(3):
            assert await judge.answer("qwen", stop(project, "It holds.")) == GO_ON
            assert await judge.answer("qwen", prompt(project, "Show the proof.")) == {}
        assert "systemMessage" in await judge.answer("qwen", stop(project, "It holds."))


async def test_a_judge_that_dies_in_between_forgets_no_count(project: Path):
    async with Judge() as judge:
        await judge.answer("claude-code", prompt(project, "Prove it."))
        for _ in range(2):
            assert await judge.answer("claude-code", stop(project, "It holds.")) == GO_ON
    async with Judge() as judge:
        assert await judge.answer("claude-code", stop(project, "It holds.")) == GO_ON
        assert "systemMessage" in await judge.answer("claude-code", stop(project, "It holds."))


async def test_an_answer_on_the_screen_cannot_be_blocked_or_replaced_and_the_person_is_told(project: Path):
    async with Judge() as judge:
        blocked = await judge.answer("claude-code", stop(project, "the secret"))
        assert blocked["systemMessage"].startswith("hooksdk guard: run blocked by plugin 'judges': not for outsiders")
        replaced = await judge.answer("claude-code", stop(project, "Ada"))
        assert "another text in the place of the answer" in replaced["systemMessage"]
        assert await ends(judge, project) == ["blocked", "completed"]


async def test_while_the_guard_only_watches_every_turn_ends(project: Path):
    async with Judge() as judge:
        assert await judge.answer("claude-code", stop(project, "It holds."), shadow=True) == {}
