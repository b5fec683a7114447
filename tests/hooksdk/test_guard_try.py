"""`hooksdk guard try`: what rules would have said to what agents did lately, read from their own transcripts."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from commands import hooksdk

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
Json = dict[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


def ago(**span: float) -> str:
    return (datetime.now(UTC) - timedelta(**span)).isoformat().replace("+00:00", "Z")


def write(path: Path, *entries: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def claude(folder: Path, name: str, when: str = "", **arguments: Any) -> Json:
    """A line of Claude Code's transcript with one call, beside what else stands there."""
    block = {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments}
    message = {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, block]}
    return {
        "type": "assistant", "uuid": "u", "sessionId": "s1", "cwd": str(folder), "timestamp": when or ago(hours=1), "message": message,
    }  # fmt: skip


def transcript(folder: Path, *entries: Json, name: str = "s1") -> Path:
    return write(folder / ".claude" / "projects" / "-x" / f"{name}.jsonl", {"type": "summary"}, *entries)


async def test_calls_of_a_day_are_counted_and_what_the_rules_stop_is_named(tmp_path: Path):
    transcript(
        tmp_path,
        claude(tmp_path, "Bash", command="ls"), claude(tmp_path, "Bash", command="cat .env"), claude(tmp_path, "Bash", command="git push -f"),
        claude(tmp_path, "Read", file_path=str(tmp_path / ".env")), claude(tmp_path, "Bash", ago(days=3), command="rm -rf /"),
    )  # fmt: skip
    done = await hooksdk("guard", "try", folder=tmp_path)
    assert done.code == 0
    assert "4 calls since " in done.out
    assert "(Claude Code 4): 1 would be asked about, 2 denied" in done.out
    assert "denied      Bash cat .env" in done.out
    assert 'rule 1: action = "deny", does = "read"' in done.out
    assert "ask         Bash git push -f" in done.out
    assert "rm -rf" not in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == [".claude"]  # nothing was written

    found = (await hooksdk("guard", "try", "--json", "--since", "1w", folder=tmp_path)).json()
    assert (found["calls"], found["asked"], found["denied"]) == (5, 1, 3)  # `rm -rf /` would take the keys, too
    assert [one["arguments"] for one in found["findings"] if one["action"] == "deny"][:2] == [
        {"command": "rm -rf /"}, {"command": "cat .env"},
    ]  # fmt: skip


async def test_each_call_is_held_against_the_rules_of_its_own_project_or_of_the_file(tmp_path: Path):
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    (shop / "hooksdk.toml").write_text(
        '[[plugins.tool_policy.config.rules]]\naction = "deny"\ndoes = "run"\ncommand = "make"\n'
    )
    transcript(tmp_path, claude(shop / "src", "Bash", command="make"), claude(tmp_path, "Bash", command="make"))
    found = (await hooksdk("guard", "try", "--json", folder=tmp_path)).json()
    assert [(one["action"], one["folder"]) for one in found["findings"]] == [("deny", str(shop / "src"))]

    rules = tmp_path / "rules.toml"
    rules.write_text('[plugins.tool_policy.config]\ndefault = "ask"\n')
    found = (await hooksdk("guard", "try", "--json", "--policy", "rules.toml", folder=tmp_path)).json()
    assert (found["calls"], found["asked"]) == (2, 2)

    rules.write_text("[plugins.tool_policy]\nenabled = true\n")
    done = await hooksdk("guard", "try", "--policy", "rules.toml", folder=tmp_path)
    assert done.code == 3
    assert "it has no [plugins.tool_policy.config]" in done.err


async def test_calls_of_codex_and_gemini_are_read_too(tmp_path: Path):
    write(
        tmp_path / ".codex/sessions/2026/01/02/rollout-x.jsonl",
        {"timestamp": ago(hours=1), "type": "session_meta", "payload": {"id": "c1", "cwd": str(tmp_path)}},
        {"timestamp": ago(hours=1), "type": "response_item", "payload": {
            "type": "function_call", "name": "shell", "arguments": json.dumps({"command": ["bash", "-lc", "cat .env"]}), "call_id": "1",
        }},
        {"timestamp": ago(hours=1), "type": "response_item", "payload": {
            "type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch\n*** Update File: .claude/settings.json\n", "call_id": "2",
        }},
    )  # fmt: skip
    chat = {
        "sessionId": "g1", "projectHash": hashlib.sha256(str(tmp_path).encode()).hexdigest(),
        "messages": [{"id": "1", "type": "gemini", "timestamp": ago(hours=1), "toolCalls": [
            {"id": "1", "name": "read_file", "args": {"absolute_path": "/x/.env"}}, {"id": "2", "name": "glob", "args": {"pattern": "src/*.py"}},
        ]}],
    }  # fmt: skip
    write(tmp_path / ".gemini/tmp/x/chats/session-1.json", chat)
    found = (await hooksdk("guard", "try", "--json", folder=tmp_path)).json()
    assert found["agents"]["codex"] == {"calls": 2, "files": 1}
    assert found["agents"]["gemini"] == {"calls": 2, "files": 1}
    said = [(one["agent"], one["tool"], one["action"], one["folder"]) for one in found["findings"]]
    here = str(tmp_path)
    assert sorted(said) == [
        ("codex", "apply_patch", "ask", here), ("codex", "shell", "deny", here), ("gemini", "read_file", "deny", here),
    ]  # fmt: skip

    found = (await hooksdk("guard", "try", "--json", "--client", "gemini", folder=tmp_path)).json()
    assert (list(found["agents"]), found["calls"]) == (["gemini"], 2)


async def test_what_cannot_be_read_is_told_and_the_others_count(tmp_path: Path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "hooksdk.toml").write_text("[plugins")
    transcript(tmp_path, claude(tmp_path, "Bash", command="cat .env"), claude(broken, "Bash", command="ls"))
    other = transcript(tmp_path, name="other")
    other.write_text('{"type": \nnonsense\n\x00\n')
    unfinished = transcript(tmp_path, claude(tmp_path, "Bash", command="cat .env.local"), name="unfinished")
    unfinished.write_text(unfinished.read_text() + '{"type": "assis')
    write(tmp_path / ".gemini/tmp/x/chats/session-1.json", {"something": "else"})
    found = (await hooksdk("guard", "try", "--json", folder=tmp_path)).json()
    assert (found["calls"], found["denied"]) == (2, 2)
    problems = {Path(one["path"]).name: one["problem"] for one in found["problems"]}
    assert set(problems) == {"other.jsonl", "session-1.json", "broken"}
    assert "its form is not known" in problems["session-1.json"]
    assert "1 call not judged" in problems["broken"]


async def test_a_line_that_a_resumed_session_repeats_counts_once(tmp_path: Path):
    line = claude(tmp_path, "Bash", command="cat .env")
    transcript(tmp_path, line)
    transcript(tmp_path, line, claude(tmp_path, "Bash", command="cat .env"), name="resumed")
    assert (await hooksdk("guard", "try", "--json", folder=tmp_path)).json()["calls"] == 2


async def test_nothing_to_read_and_wrong_words_are_told(tmp_path: Path):
    done = await hooksdk("guard", "try", folder=tmp_path)
    assert done.code == 0
    assert "no call since" in done.out
    done = await hooksdk("guard", "try", "--client", "claude", folder=tmp_path)
    assert done.code == 2
    assert "'claude' is none of claude-code, codex, gemini, qwen" in " ".join(done.err.split())
    done = await hooksdk("guard", "try", "--since", "yesterday", folder=tmp_path)
    assert done.code == 2
    assert "write such as 30m, 12h, 1d or 2w" in " ".join(done.err.split())
