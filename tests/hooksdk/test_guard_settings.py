"""What ends the guard before coding agents, or goes around it: their settings of every place, and sessions that no judge has seen."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import guard_home
import pytest
import tomlkit

from hooksdk.cli._guard import transcripts
from hooksdk.cli._guard.hooks import FOLDERS, HookFile, hook_command, hook_file, managed_file
from hooksdk.cli._guard.settings import MAX_BYTES, Finding, look_for_switches, settings_files
from hooksdk.cli._guard.transcripts import Guarded, Unseen, unseen_sessions
from hooksdk.cli._options import Scope
from hooksdk.guard import AGENTS, PROOF, PROOF_REASON, Judge

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="the guard needs Unix sockets"),
]
Json = dict[str, Any]
OTHERS: Json = {"PreToolUse": [{"hooks": [{"type": "command", "command": "mine"}]}]}
NAMED: Json = {"hooksConfig": {"disabled": ["hooksdk guard"]}}
LOADED = {"env": {"LD_PRELOAD": "./x.so"}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of a user who has no settings of any agent, on a machine that has none."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "QWEN_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOOKSDK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    machine = {agent: (str(tmp_path / "machine" / agent / f"settings.{'toml' if agent == 'codex' else 'json'}"),) * 2 for agent in AGENTS}  # fmt: skip
    monkeypatch.setattr("hooksdk.cli._guard.hooks._MANAGED", machine)
    for agent in ("gemini", "qwen"):
        name = {"gemini": "GEMINI_CLI_SYSTEM_SETTINGS_PATH", "qwen": "QWEN_CODE_SYSTEM_SETTINGS_PATH"}[agent]
        monkeypatch.setenv(name, str(tmp_path / "machine" / agent / "settings.json"))
    folder = tmp_path / "repository" / "project"
    folder.mkdir(parents=True)
    (folder.parent / ".git").mkdir()
    return folder


def write(path: Path, content: Json | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(tomlkit.dumps(content) if path.suffix == ".toml" and not isinstance(content, str) else text)
    return path


def found(agent: str, project: Path) -> list[Finding]:
    return list(look_for_switches(agent, project))


SWITCHES: list[tuple[str, str, Json | str, str]] = [
    *(
        ("claude-code", file, content, entry)
        for file in ("~/.claude/settings.json", ".claude/settings.json", ".claude/settings.local.json")
        for content, entry in (
            ({"disableAllHooks": True}, "disableAllHooks = true"),
            ({"env": {"CLAUDE_CODE_SHELL_PREFIX": "/x/pre.sh"}}, 'env.CLAUDE_CODE_SHELL_PREFIX = "/x/pre.sh"'),
            ({"env": {"CLAUDE_CODE_SIMPLE": "1"}}, 'env.CLAUDE_CODE_SIMPLE = "1"'),
            (LOADED, 'env.LD_PRELOAD = "./x.so"'),
        )
    ),
    *(
        ("codex", file, content, entry)
        for file in ("~/.codex/config.toml", ".codex/config.toml", "../.codex/config.toml")
        for content, entry in (
            ({"features": {"hooks": False}}, "features.hooks = false"),
            ({"features": {"codex_hooks": False}}, "features.codex_hooks = false"),
            ("features.hooks = false # written otherwise", "features.hooks = false"),
        )
    ),
    *(
        ("gemini", file, content, entry)
        for file in ("~/.gemini/settings.json", ".gemini/settings.json", "machine/gemini/settings.json", "machine/gemini/system-defaults.json")
        for content, entry in (
            ({"hooksConfig": {"enabled": False}}, "hooksConfig.enabled = false"), (NAMED, "hooksConfig.disabled"),
            ("// mine\n{'hooksConfig': {'enabled': false,},}".replace("'", '"'), "hooksConfig.enabled = false"),
        )
    ),
    *(
        ("qwen", file, content, entry)
        for file in ("~/.qwen/settings.json", ".qwen/settings.json", "machine/qwen/settings.json", "machine/qwen/system-defaults.json")
        for content, entry in (
            ({"disableAllHooks": True}, "disableAllHooks = true"), (LOADED, 'env.LD_PRELOAD = "./x.so"'),
            ({"env": {"QWEN_CODE_SIMPLE": "1"}}, 'env.QWEN_CODE_SIMPLE = "1"'), ({"env": {"BASH_ENV": "x"}}, 'env.BASH_ENV = "x"'),
        )
    ),
    *(
        (agent, file, f"# mine\nexport {name} = '{value}'\n", f'env.{name} = "{value}"')
        for agent, names in (("gemini", ("BASH_ENV", "LD_PRELOAD")), ("qwen", ("BASH_ENV", "LD_AUDIT", "QWEN_CODE_SIMPLE", "QWEN_CODE_SYSTEM_SETTINGS_PATH")))
        for file in (".env", "../.env", f".{agent}/.env", f"../.{agent}/.env", "~/.env", f"~/.{agent}/.env")
        for name in names
        for value in ("x.sh",)
    ),
]  # fmt: skip
"""Those of projects, but for `LD_AUDIT`, were tried in the agents' own programs: a call that the guard denies ran."""


@pytest.mark.light(every=9)
@pytest.mark.parametrize(("agent", "file", "content", "entry"), SWITCHES)
def test_what_ends_the_guards_hooks_is_named_wherever_it_stands(
    project: Path, tmp_path: Path, agent: str, file: str, content: Json | str, entry: str
):
    assert found(agent, project) == []
    base = tmp_path if file.startswith("machine/") else project
    path = write(Path(os.path.normpath(base / Path(file).expanduser())), content)
    (one,) = found(agent, project)
    assert (one.file, one.entry, one.ends) == (str(path), entry, True)
    assert str(one).startswith(f"{path} says {entry}, so ")


@pytest.mark.parametrize(
    ("agent", "event", "file"),
    [
        ("claude-code", "PreToolUse", ".claude/settings.json"), ("codex", "PreToolUse", ".codex/hooks.json"),
        ("gemini", "BeforeTool", ".gemini/settings.json"), ("qwen", "PreToolUse", ".qwen/settings.json"),
    ],
)  # fmt: skip
def test_a_hook_of_the_projects_own_before_calls_is_named_and_no_problem(
    project: Path, agent: str, event: str, file: str
):
    write(project / file, {"hooks": {event: [{"hooks": [{"type": "command", "command": hook_command(agent)}]}]}})
    assert found(agent, project) == []
    write(project / file, {"hooks": {event: OTHERS["PreToolUse"]}})
    (one,) = found(agent, project)
    assert (one.entry, one.ends) == (f"hooks.{event}", False)


TRACED: Json = {"env": {"LD_TRACE_LOADED_OBJECTS": ""}}
VALUES: list[tuple[str, str, list[tuple[object, bool | None]]]] = [
    ("gemini", "hooksConfig.enabled", [(0, True), ("", True), ("$X", True), ("false", None), (1, None), (None, None)]),
    ("gemini", "hooksConfig.disabled", [("hooksdk guard", True), (["hooksdk${X:- }guard"], True), (["$X"], True), (["lint"], None)]),
    ("gemini", "hooks", [(None, True), ("x", True), ([], True), ({}, None)]),
    ("qwen", "disableAllHooks", [(1, True), ("false", True), ([], True), (0, None), ("", None), (None, None)]),
    ("qwen", "env.NODE_OPTIONS", [("--require=./x.js", True), ("-r ./x.js", True), ("--a=9 --import ./x.mjs", True), ("--max-old-space-size=8192", None)]),
]  # fmt: skip


def nested(keys: str, value: object) -> Json:
    first, _, rest = keys.partition(".")
    return {first: nested(rest, value) if rest else value}


SAYS: list[tuple[str, str, Json | str | bytes, bool | None]] = [
    ("claude-code", ".claude/settings.json", TRACED, True), ("claude-code", ".claude/settings.json", {"env": {"SHELLOPTS": "noexec"}}, True),
    ("claude-code", ".claude/settings.json", b'{"disableAllHooks": true, "x": "\xff"}', True),
    ("claude-code", ".claude/settings.json", b'\xef\xbb\xbf{"disable\\u0041llHooks":\r\n true}', True),
    ("claude-code", ".claude/settings.json", '{"disableAllHooks": false, "disableAllHooks": true}', True),
    ("claude-code", ".claude/settings.json", '{"disableAllHooks": true, "disableAllHooks": false}', None),
    ("claude-code", ".claude/settings.json", '{"disableAllHooks": true, "n": %s, "s": "\\ud800"}' % ("9" * 5000), True),
    ("claude-code", ".claude/settings.json", {"env": {"CLAUDE_CODE_SAFE_MODE": "1"}}, False),
    ("claude-code", ".claude/settings.json", {"env": {"CLAUDE_CODE_SKIP_PROMPT_HISTORY": "1"}}, False),
    ("claude-code", ".claude/settings.json", {"hooks": {"PermissionRequest": OTHERS["PreToolUse"]}}, False),
    ("claude-code", ".claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": [{"command": "./x # hooksdk/guard/client.py claude-code"}]}]}}, False),
    ("codex", ".codex/config.toml", '[features]\n"hooks" = false\n', True), ("codex", ".codex/config.toml", "features = {hooks = false}", True),
    ("codex", "~/.codex/.env", "LD_TRACE_LOADED_OBJECTS=1\n", True), ("codex", "~/.codex/.env", "OPENAI_API_KEY=x\n", None),
    *((agent, f".{agent}/settings.json", nested(keys, value), ends) for agent, keys, values in VALUES for value, ends in values),
    ("qwen", ".qwen/settings.json", {"env": {"QWEN_CODE_SYSTEM_DEFAULTS_PATH": "./x.json"}}, True),
    *(
        (agent, ".env", text, ends)
        for agent in ("gemini", "qwen")
        for text, ends in (
            ("SHELLOPTS=noexec\n", True), ("LD_TRACE_LOADED_OBJECTS=\n", True), ("BASH_ENV: ./x\n", True), ("export\n BASH_ENV\n=\n`./x` # mine\n", True),
            ("# mine\u2028BASH_ENV=./x", True), (b"A=1\rBASH_ENV=./x\r", True), (b"A=\xff\nBASH_ENV=./x\n", True), ("\u00a0BASH_ENV\u00a0=./x", True),
            ("# BASH_ENV=./x\n", None), ("BASH_ENV=''  # none\n", None), ("BASH_ENV= # none\n", None), ("BASH_ENV=./x\nBASH_ENV=\n", None),
            ('KEY="a\nBASH_ENV=./x\n"\n', None), ("PATH=/a:/b\nHTTPS_PROXY=http://p\nNO_PROXY=x\n", None),
        )
    ),
    ("claude-code", ".claude/settings.json", {"permissions": {"allow": ["Bash(ls:*)"]}, "model": "x", "statusLine": {"type": "command", "command": "x"}, "env": {"PATH": "/a:/b", "NODE_OPTIONS": "--max-old-space-size=9", "HTTPS_PROXY": "x"}, "hooks": {"Stop": OTHERS["PreToolUse"]}}, None),
    ("codex", ".codex/config.toml", {"model": "x", "mcp_servers": {"a": {"command": "x"}}, "features": {"hooks": True}}, None),
    ("gemini", ".gemini/settings.json", {"mcpServers": {"a": {"command": "x", "env": {"LD_LIBRARY_PATH": "x"}}}, "hooksConfig": {"disabled": ["lint"]}, "hooks": {"AfterTool": OTHERS["PreToolUse"]}}, None),
]  # fmt: skip
"""What ends the hooks (True), may go around them (False), or is an everyday setting (None), as each agent reads its files."""


@pytest.mark.light(every=7)
@pytest.mark.parametrize(("agent", "file", "content", "ends"), SAYS)
def test_settings_are_read_as_the_agent_reads_them(
    project: Path, agent: str, file: str, content: Json | str | bytes, ends: bool | None
):
    path = project / Path(file).expanduser()
    if isinstance(content, bytes):
        write(path, "").write_bytes(content)
    else:
        write(path, content)
    assert [one.ends for one in found(agent, project)] == ([] if ends is None else [ends])


def test_a_file_of_variables_takes_no_longer_than_it_is_large(project: Path):
    for text in ("\n", " ", "A=\n", "A='", "A=\\'\n", "export\n", "A"):
        write(project / ".env", text * (200_000 // len(text)))
        assert found("qwen", project) == []


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="it becomes another user")
@pytest.mark.parametrize("agent", AGENTS)
def test_folders_that_may_not_be_looked_into_cost_a_line_each(project: Path, tmp_path: Path, agent: str):
    for folder in (project / FOLDERS[agent], Path.home() / FOLDERS[agent]):
        folder.mkdir(parents=True)
        folder.chmod(0)
    for folder in (*tmp_path.parents[:-2], tmp_path, project.parent, project, Path.home()):
        folder.chmod(0o755)
    os.seteuid(65534)
    try:
        problems = found(agent, project)
        guarded = [Guarded(agent, "user", hook_file(agent, "user", project).path, moment(days=2).timestamp())]
        named, not_read = unseen_sessions(guarded, project)
    finally:
        os.seteuid(0)
    assert (named, len(not_read)) == ([], 1)
    assert all("cannot be read" in str(one) and not one.ends for one in problems)


def test_a_hook_that_somebody_has_switched_off_in_codex_is_named_and_no_problem(project: Path):
    write(
        Path.home() / ".codex" / "config.toml",
        {"hooks": {"state": {"a:0": {"enabled": False}, "a:1": {"enabled": True}}}},
    )
    (one,) = found("codex", project)
    assert (one.entry, one.ends) == ("hooks.state.a:0.enabled = false", False)


@pytest.mark.parametrize(
    ("agent", "weaker", "stronger", "off", "on"),
    [
        ("claude-code", "~/.claude/settings.json", ".claude/settings.json", {"disableAllHooks": True}, {"disableAllHooks": False}),
        ("claude-code", ".claude/settings.json", ".claude/settings.local.json", {"env": {"CLAUDE_CODE_SIMPLE": "1"}}, {"env": {"CLAUDE_CODE_SIMPLE": ""}}),
        ("codex", "../.codex/config.toml", ".codex/config.toml", {"features": {"codex_hooks": False}}, {"features": {"hooks": True}}),
        ("gemini", "~/.gemini/settings.json", ".gemini/settings.json", {"hooksConfig": {"enabled": False}}, {"hooksConfig": {"enabled": True}}),
        ("qwen", "~/.qwen/settings.json", ".qwen/settings.json", {"disableAllHooks": True}, {"disableAllHooks": False}),
    ],
)  # fmt: skip
def test_of_two_files_the_stronger_one_decides(
    project: Path, agent: str, weaker: str, stronger: str, off: Json, on: Json
):
    write(project / Path(weaker).expanduser(), off)
    write(project / stronger, on)
    assert found(agent, project) == []
    write(project / Path(weaker).expanduser(), on)
    path = write(project / stronger, off)
    assert [one.file for one in found(agent, project)] == [str(path)]


@pytest.mark.parametrize(
    ("agent", "text", "ends"),
    [
        ("claude-code", '{"disableAllHooks": "true", "env": {"CLAUDE_CODE_SIMPLE": ""}}', []),
        ("claude-code", '{"disableAllHooks": null, "env": [], "hooks": 3}', []),
        ("claude-code", '{"allowManagedHooksOnly": true}', []),  # counts in the machine's own file alone
        ("gemini", '{"hooksConfig": {"disabled": ["another"], "enabled": null}}', []),
        ("qwen", "[]", [False]), ("qwen", '{"hooks": [', [False]), ("qwen", "\x00", [False]), ("qwen", "[" * 5000, [False]),
        ("qwen", f"{{}}{' ' * MAX_BYTES}", [False]), ("qwen", "", []),
    ],
)  # fmt: skip
def test_what_is_no_switch_or_cannot_be_read_ends_nothing(project: Path, agent: str, text: str, ends: list[bool]):
    file = settings_files(agent, project)[-2 if agent == "claude-code" else 2].path if agent != "claude-code" else None
    write(file or project / ".claude" / "settings.json", text)
    assert [one.ends for one in found(agent, project)] == ends


def test_a_pipe_in_the_place_of_settings_holds_nobody_up(project: Path):
    (project / ".claude").mkdir()
    os.mkfifo(project / ".claude" / "settings.json")
    assert found("claude-code", project) == []


def test_the_machines_own_hooks_run_in_spite_of_what_a_project_says(project: Path):
    path = managed_file("gemini")
    write(project / ".gemini" / "settings.json", {"hooksConfig": {"enabled": False, **NAMED["hooksConfig"]}})
    assert [one.ends for one in found("gemini", project)] == [True, True]
    write(path, HookFile("gemini", "managed", path).installed(""))
    assert found("gemini", project) == []


THEIRS = {".json": '{\n  // mine\n  "env": {"A": "b"},\n  "hooks": {"Stop": []},\n}\n', ".toml": '# mine\nallowed = ["a"]\n\n[hooks]\nmanaged_dir = "/x"\n'}  # fmt: skip


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("has_text", [True, False])
def test_the_machines_own_file_has_the_hooks_and_what_no_project_may_overrule_and_comes_back(
    project: Path, agent: str, has_text: bool
):
    place = hook_file(agent, "managed", project)
    text = THEIRS[place.path.suffix] if has_text else ""
    new = place.installed(text)
    assert place.events(new) == set(AGENTS[agent].events)
    assert place.read(place.installed(new)) == place.read(new)
    pins = {"claude-code": "CLAUDE_CODE_SHELL_PREFIX", "codex": "[features]\nhooks = true", "gemini": '"enabled": true', "qwen": '"disableAllHooks": false'}  # fmt: skip
    assert pins[agent] in new
    assert place.read(place.removed(new, like=text)) == place.read(text)
    assert "mine" in place.removed(new, like=text) or not has_text


def test_no_project_can_name_a_hook_of_the_machines_own(project: Path):
    path = managed_file("gemini")
    names = {HookFile("gemini", "managed", path).installed("").split('"name": "')[1].split('"')[0] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("hooksdk guard ") for name in names)


def moment(**ago: float) -> datetime:
    return datetime.now(UTC) - timedelta(**ago)


def transcript(agent: str, project: Path, session: str, *calls: datetime, helper: bool = False) -> Path:
    """A session that made these calls; with `helper` a sub-agent's of it."""
    home, here = Path.home(), str(project)
    times = [call.isoformat().replace("+00:00", "Z") for call in calls]
    if agent == "claude-code":
        name = f"{session}/subagents/agent-1" if helper else session
        path = home / ".claude" / "projects" / "-x" / f"{name}.jsonl"
        lines: list[Json] = [{"type": "user", "sessionId": session, "cwd": here}]
        lines += [
            {"type": "assistant", "sessionId": session, "cwd": here, "timestamp": at, "message": {"content": [{"type": "tool_use", "name": "Bash", "input": {}}]}}
            for at in times
        ]  # fmt: skip
    elif agent == "codex":
        path = home / ".codex" / "sessions" / f"rollout-{session}{helper}.jsonl"
        own = {"session_id": session, "id": "another" if helper else session, "cwd": here}
        lines = [{"type": "session_meta", "payload": own}]
        lines += [
            {"type": "response_item", "timestamp": at, "payload": {"type": "function_call", "name": "exec_command", "arguments": "{}"}}
            for at in times
        ]  # fmt: skip
    elif agent == "gemini":
        path = home / ".gemini" / "tmp" / "x" / "chats" / (f"{session}/another.jsonl" if helper else f"session-{session}.jsonl")  # fmt: skip
        lines = [{"sessionId": "another" if helper else session, "projectHash": hashlib.sha256(here.encode()).hexdigest(), "kind": "subagent" if helper else "main"}]  # fmt: skip
        lines += [{"type": "gemini", "timestamp": at, "toolCalls": [{"name": "run_shell_command", "args": {}}]} for at in times]  # fmt: skip
    else:
        path = home / ".qwen" / "projects" / "-x" / "chats" / f"{session}.jsonl"
        lines = [{"type": "user", "sessionId": session, "cwd": here, "message": {"parts": [{"text": "Go."}]}}]
        lines += [
            {"type": "assistant", "sessionId": session, "cwd": here, "timestamp": at, "message": {"parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]}}
            for at in times
        ]  # fmt: skip
    return write(path, "".join(json.dumps(line) + "\n" for line in lines))


def look(project: Path, agent: str, scope: Scope = "user", **since: float) -> list[Unseen]:
    place = hook_file(agent, scope, project)
    return unseen_sessions([Guarded(agent, scope, place.path, moment(**(since or {"days": 2})).timestamp())], project)[
        0
    ]


async def seen(agent: str, project: Path, session: str, *, shadow: bool = False) -> None:
    """A judge sees the session now."""
    kinds: Mapping[str, str] = {kind: name for name, kind in AGENTS[agent].events.items()}
    async with Judge() as judge:
        event = {"hook_event_name": kinds["session_start"], "session_id": session, "cwd": str(project)}
        await judge.answer(agent, event, shadow=shadow)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("helper", [False, True])
async def test_a_session_that_called_tools_is_named_unless_a_judge_has_seen_it(project: Path, agent: str, helper: bool):
    transcript(agent, project, "s1", moment(hours=2), moment(hours=1), helper=helper)
    (one,) = look(project, agent)
    assert (one.agent, one.session, one.calls) == (agent, "s1", 2)
    assert f"session s1 in {project} made 2 calls" in str(one)
    await seen(agent, project, "s1", shadow=helper)
    assert look(project, agent) == []


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_session_that_goes_on_behind_the_judges_back_is_named_with_what_was_not_seen(project: Path, agent: str):
    await seen(agent, project, "s1")
    (place,) = (project.parent.parent / "state" / "guard" / "sessions").glob("*.json")
    hour_ago = time.time() - 3600
    os.utime(place, (hour_ago, hour_ago))
    transcript(agent, project, "s1", moment(hours=2), moment(minutes=30), moment(minutes=20))
    assert [one.calls for one in look(project, agent)] == [2]


@pytest.mark.parametrize("agent", AGENTS)
def test_what_the_guard_was_not_to_see_is_not_named(project: Path, agent: str):
    transcript(agent, project, "before", moment(hours=5))
    transcript(agent, project, "old", moment(days=9))
    transcript(agent, project, "silent")
    transcript(agent, project, "now", moment(seconds=1))
    assert look(project, agent, hours=3) == []


@pytest.mark.parametrize("agent", ["claude-code", "qwen"])
def test_the_guard_of_one_project_is_not_asked_about_another(project: Path, agent: str):
    transcript(agent, project / "elsewhere", "s1", moment(hours=1))
    assert look(project, agent, "project") == []
    transcript(agent, project, "s1", moment(hours=1))
    assert [one.session for one in look(project, agent, "project")] == ["s1"]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_transcript_that_cannot_be_read_costs_a_line_and_the_others_count(
    project: Path, agent: str, monkeypatch: pytest.MonkeyPatch
):
    broken = transcript(agent, project, "broken")
    broken.write_bytes(b"\xff\x00{\n[1]\n" * 9)
    past = time.time() - 60
    os.utime(broken, (past, past))
    own = [Guarded(agent, "user", hook_file(agent, "user", project).path, moment(days=2).timestamp())]
    newest = transcript(agent, project, "s1", moment(hours=1))
    named, problems = unseen_sessions(own, project)
    assert ([one.session for one in named], len(problems), str(broken) in problems[0]) == (["s1"], 1, True)
    monkeypatch.setattr(transcripts, "MAX_BYTES", newest.stat().st_size)
    named, problems = unseen_sessions(own, project)
    assert ([one.session for one in named], "too large" in problems[0]) == (["s1"], True)


ODD: dict[str, tuple[Callable[[str], str], int, int]] = {
    "half a letter": (lambda text: text.replace('"s1"', '"\\ud800"'), 1, 0),
    "no name of a file": (lambda text: text.replace('"s1"', '"\\u0000/../x"'), 1, 0),
    "no time": (lambda text: text.replace('"timestamp": "2', '"timestamp": "x'), 0, 1),
    "the future": (lambda text: text.replace('"timestamp": "2', '"timestamp": "8'), 1, 0),
    "the last year": (lambda text: text.replace(f'"timestamp": "{moment().year}', '"timestamp": "9999'), 0, 1),
    "long ago": (lambda text: text.replace('"timestamp": "20', '"timestamp": "00'), 0, 1),
    "broken": (lambda text: text[:-2] + "\n{}\n", 0, 1),
    "being written": (lambda text: text + '{"type": "user"', 1, 0),
    "deep": (lambda text: text + '{"a":' * 9000 + "1" + "}" * 9000 + "\n", 1, 1),
}
"""What is changed in a transcript with one call, how many sessions are named then, and how many lines it costs."""


@pytest.mark.light(every=9)
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("what", ODD)
def test_odd_lines_of_a_transcript_hide_nothing_in_silence(project: Path, agent: str, what: str):
    change, sessions, lines = ODD[what]
    path = transcript(agent, project, "s1", moment(hours=1))
    path.write_text(change(path.read_text()))
    own = [Guarded(agent, "user", hook_file(agent, "user", project).path, moment(days=2).timestamp())]
    named, problems = unseen_sessions(own, project)
    assert (len([str(one) for one in named]), len(problems)) == (sessions, lines), problems


def test_many_transcripts_that_are_too_large_cost_one_line_and_are_not_opened(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    own = [Guarded("qwen", "user", hook_file("qwen", "user", project).path, moment(days=2).timestamp())]
    for number in range(30):
        transcript("qwen", project, f"s{number:02}", moment(hours=1))
    size = transcript("qwen", project, "s00", moment(hours=1)).stat().st_size
    monkeypatch.setattr(transcripts, "MAX_BYTES", 5 * size)
    named, problems = unseen_sessions(own, project)
    assert (len(named), len(problems), "neither were 24 more" in problems[0]) == (5, 1, True)


@pytest.mark.parametrize("agent", ["claude-code", "qwen"])
def test_a_session_that_goes_to_another_folder_is_still_of_the_project_that_it_began_in(project: Path, agent: str):
    began = transcript(agent, project, "s1", moment(hours=2)).read_text()
    path = transcript(agent, project / "sub", "s1", moment(hours=1))
    path.write_text(began + path.read_text())
    assert [(one.calls, one.folder) for one in look(project, agent, "project")] == [(2, str(project / "sub"))]


async def test_a_fork_of_a_session_that_was_seen_is_named_by_its_own_id(project: Path):
    path = transcript("codex", project, "fork", moment(hours=1))
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, first.replace('"fork"', '"before"'), *others]))
    await seen("codex", project, "before")
    assert [one.session for one in look(project, "codex")] == ["fork"]


@pytest.mark.parametrize("agent", AGENTS)
async def test_the_call_of_a_proof_is_refused_by_every_judge_that_refuses_anything(project: Path, agent: str):
    name = next(name for name, kind in AGENTS[agent].events.items() if kind == "before_call")
    call: Json = {"hook_event_name": name, "session_id": "s1", "cwd": str(project), "tool_name": "Bash"}
    call["tool_input"] = {"command": f"touch /x/{PROOF}"}
    async with Judge() as judge:
        assert PROOF_REASON in json.dumps(await judge.answer(agent, call))
        assert await judge.answer(agent, call, shadow=True) == {}


@pytest.mark.heavy
def test_status_doctor_and_trust_name_the_line_and_the_session_of_a_cloned_repository():
    with guard_home.short_folder() as folder:
        home = guard_home.Home(folder)
        home.guard("install", "--client", "claude-code", "--yes")
        clone = write(home.project / ".claude" / "settings.json", {"env": {"CLAUDE_CODE_SHELL_PREFIX": "./pre.sh"}})
        (installed,) = (folder / "kept" / "guard" / "installed").glob("*.json")
        past = time.time() - 7200
        os.utime(installed, (past, past))
        at = moment(hours=1).isoformat()
        message: Json = {"content": [{"type": "tool_use", "name": "Bash", "input": {}}]}
        line: Json = {
            "type": "assistant",
            "sessionId": "s1",
            "cwd": str(home.project),
            "timestamp": at,
            "message": message,
        }
        write(folder / ".claude" / "projects" / "-x" / "s1.jsonl", json.dumps(line))
        for words, code in (("guard", "status"), 0), (("doctor",), 1), (("trust", "--yes"), 0):
            ran = home.hooksdk(*words)
            said = " ".join(ran.out.split())
            assert (ran.code, f"{clone} says env.CLAUDE_CODE_SHELL_PREFIX" in said) == (code, True), ran
            assert "session s1" in said, ran
        document = json.loads(home.guard("status", "--json").out)
        assert [one["entry"] for one in document["settings"]] == ['env.CLAUDE_CODE_SHELL_PREFIX = "./pre.sh"']
        assert [(one["session"], one["calls"]) for one in document["unseen"]] == [("s1", 1)]
        assert document["proof"] is None


@pytest.mark.heavy
@pytest.mark.parametrize("agent", ["gemini", "qwen"])
def test_the_machines_own_settings_come_back_byte_for_byte(agent: str):
    with guard_home.short_folder() as folder:
        file = folder / "machine" / "settings.json"
        name = {"gemini": "GEMINI_CLI_SYSTEM_SETTINGS_PATH", "qwen": "QWEN_CODE_SYSTEM_SETTINGS_PATH"}[agent]
        home = guard_home.Home(folder, {name: str(file)})
        words = ("--client", agent, "--managed")
        dry = json.loads(home.guard("install", *words, "--dry-run", "--json").out)
        assert (dry["scope"], dry["file"], file.exists()) == ("managed", str(file), False)
        ran = home.guard("install", *words, "--yes")
        assert (ran.code, oct(file.stat().st_mode & 0o777)) == (0, "0o644"), ran
        assert "must be able to run" in ran.out
        assert f"guard uninstall --client {agent} --managed" in ran.out
        assert str(file) in home.guard("status").out
        home.guard("uninstall", *words, "--yes")
        assert not file.exists()
        write(file, THEIRS[".json"])
        home.guard("install", *words, "--yes")
        assert "byte for byte" in home.guard("uninstall", *words, "--yes").out
        assert file.read_text() == THEIRS[".json"]


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="it becomes another user")
def test_who_may_not_write_the_machines_own_settings_is_told_so_in_one_line(tmp_path: Path):
    tmp_path.chmod(0o755)
    if not os.access(sys.executable, os.X_OK) or any(
        not (up.stat().st_mode & 1) for up in Path(sys.executable).resolve().parents
    ):
        pytest.skip("another user may not run this Python")
    command = [sys.executable, "-m", "hooksdk", "guard", "install", "--client", "codex", "--managed", "--yes"]
    done = subprocess.run(
        command, cwd="/", env={**os.environ, "HOME": "/nonexistent"}, capture_output=True, check=False, text=True,
        user=65534, group=65534, extra_groups=[],
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done
    assert "/etc/codex/requirements.toml is the machine's, and you may not write it" in done.stderr


@pytest.mark.heavy
def test_the_machines_place_is_one_of_its_own():
    with guard_home.short_folder() as folder:
        ran = guard_home.Home(folder).guard("install", "--client", "codex", "--managed", "--project", "--yes")
        assert (ran.code, "--managed is a place of its own" in ran.err) == (1, True)
