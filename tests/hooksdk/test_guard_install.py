"""`hooksdk guard install`: hooks in each agent's settings, shown first, tried, and taken out again to the last byte."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import guard_home
import pytest
from warm import Done, run

from hooksdk.guard import AGENTS
from hooksdk.values import plain_json

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform == "win32", reason="the guard needs Unix sockets"),
]
FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json", "qwen": ".qwen/settings.json"}  # fmt: skip
THEIRS = """{
\t// mine
\t"model": "large",\r
\t"hooks": {
\t\t"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}], // keep
\t\t"PreToolUse": [ ],
\t\t"AfterAgent": []
\t},
}
"""


class Home(guard_home.Home):
    """One with the settings of agents."""

    def type(self, *words: str, agent: str = "claude-code") -> Done:
        return self.guard(*words, "--client", agent)

    def file(self, agent: str = "claude-code") -> Path:
        return self.folder / FILES[agent]

    def write(self, text: str, agent: str = "claude-code") -> None:
        self.file(agent).parent.mkdir(exist_ok=True)
        self.file(agent).write_bytes(text.encode())

    def hooks(self, agent: str = "claude-code") -> dict[str, Any]:
        return json.loads(self.file(agent).read_text())["hooks"]


@pytest.fixture
def home() -> Iterator[Home]:
    with guard_home.short_folder() as folder:
        yield Home(folder)


@pytest.mark.parametrize("agent", AGENTS)
def test_every_hook_that_the_guard_reads_is_installed_and_tried(home: Home, agent: str):
    ran = home.type("install", "--yes", agent=agent)
    assert ran.code == 0, ran
    assert set(home.hooks(agent)) == set(AGENTS[agent].events)
    assert ran.out.count("refused     ") == 4
    assert "RUNS" not in ran.out
    assert home.type("uninstall", "--yes", agent=agent).code == 0
    assert not home.file(agent).exists()


def test_the_call_that_is_about_to_run_fails_closed_in_claude_code(home: Home):
    home.type("install", "--yes")
    (entry,) = home.hooks()["PreToolUse"][0]["hooks"]
    assert (entry["onFailure"], entry["timeout"]) == ("block", 60)
    assert entry["command"].endswith(" claude-code || exit 2")


@pytest.mark.parametrize("agent", ["gemini", "qwen"])
def test_a_time_limit_is_in_the_agents_own_unit(home: Home, agent: str):
    home.type("install", "--yes", agent=agent)
    assert home.hooks(agent)["Stop" if agent == "qwen" else "AfterAgent"][0]["hooks"][0]["timeout"] == 60_000


@pytest.mark.in_ci(every=3)
@pytest.mark.parametrize(
    ("agent", "text"),
    [
        *((agent, THEIRS) for agent in AGENTS),
        *(("claude-code", text) for text in (f"\ufeff{THEIRS}", "{}", "", '{"hooks": {}}', '{ "a": [1, 2,], }\n')),
    ],
)
def test_the_settings_come_back_byte_for_byte(home: Home, agent: str, text: str):
    home.write(text, agent)
    assert home.type("install", "--yes", agent=agent).code == 0
    assert home.file(agent).read_bytes() != text.encode()
    assert "byte for byte" in home.type("uninstall", "--yes", agent=agent).out
    assert home.file(agent).read_bytes() == text.encode()


def test_hooks_of_the_user_stay_before_the_guards(home: Home):
    home.write('{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}]}}')
    home.type("install", "--yes")
    assert [entry["hooks"][0]["command"] == "mine" for entry in home.hooks()["PreToolUse"]] == [True, False]


def test_what_was_changed_since_stays_when_the_guard_goes(home: Home):
    home.write(THEIRS)
    home.type("install", "--yes")
    changed = home.file().read_text().replace('"large"', '"small"')
    home.file().write_text(changed)
    ran = home.type("uninstall", "--yes")
    assert (ran.code, "everything else stays" in ran.out) == (0, True)
    text = home.file().read_text()
    assert json.loads(plain_json(text)) == json.loads(plain_json(THEIRS.replace("large", "small")))
    assert "// mine" in text
    assert "// keep" in text


def test_hooks_of_the_user_in_one_entry_with_the_guards_stay(home: Home):
    home.type("install", "--yes")
    settings = json.loads(home.file().read_text())
    settings["hooks"]["PreToolUse"][0]["hooks"].append({"type": "command", "command": "mine"})
    home.file().write_text(json.dumps(settings))
    home.type("uninstall", "--yes")
    assert home.hooks() == {"PreToolUse": [{"hooks": [{"type": "command", "command": "mine"}]}]}


def test_what_is_installed_twice_is_there_once(home: Home):
    home.write(THEIRS)
    home.type("install", "--yes")
    once = home.file().read_bytes()
    ran = home.type("install", "--yes")
    assert (ran.code, home.file().read_bytes()) == (0, once)
    assert ran.out.startswith("there ")
    home.type("uninstall", "--yes")
    assert home.file().read_bytes() == THEIRS.encode()


def test_hooks_of_another_python_are_replaced(home: Home):
    home.type("install", "--yes")
    old = home.file().read_text().replace(sys.executable, "/gone/bin/python")
    home.file().write_text(old)
    home.type("install", "--yes")
    assert "/gone/" not in home.file().read_text()
    assert len(home.hooks()["PreToolUse"]) == 1
    home.type("uninstall", "--yes")
    assert not home.file().exists()


def test_the_difference_is_shown_and_nobody_to_answer_changes_nothing(home: Home):
    home.write(THEIRS)
    ran = home.type("install")
    assert '"PostToolUse": [' in ran.out
    assert "--yes" in ran.err
    assert (ran.code, home.file().read_bytes()) == (1, THEIRS.encode())


def test_a_dry_run_shows_and_changes_nothing(home: Home):
    ran = home.type("install", "--dry-run", "--json")
    document = json.loads(ran.out)
    assert (document["installed"], document["refused"], home.file().exists()) == (False, {}, False)


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"hooks": [', "line 1"), ('{"hooks": [1]}', "EVENT"), ('{"hooks": {"Stop": {}}}', "EVENT"), ("[]", "EVENT")],
)
def test_settings_that_cannot_be_read_are_left_alone(home: Home, text: str, why: str):
    home.write(text)
    ran = home.type("install", "--yes")
    assert ran.code == 3
    assert why in ran.err
    assert str(home.file()) in ran.err
    assert home.file().read_text() == text


def test_a_link_stays_a_link(home: Home):
    home.write("{}")
    target = home.folder / "dotfiles.json"
    home.file().rename(target)
    home.file().symlink_to(target)
    home.type("install", "--yes")
    assert "PreToolUse" in target.read_text()
    home.type("uninstall", "--yes")
    assert home.file().is_symlink()
    assert target.read_text() == "{}"


def test_a_projects_own_settings_and_those_of_the_folder_are_other_files(home: Home):
    assert "out of version control" in home.type("install", "--yes", "--project").out
    home.type("install", "--yes", "--local")
    assert sorted(path.name for path in (home.project / ".claude").iterdir()) == [
        "settings.json",
        "settings.local.json",
    ]
    assert not home.file().exists()


@pytest.mark.parametrize(
    ("words", "agent", "why"),
    [
        ((), "claude-cod", "claude-code"),
        (("--project",), "codex", "--project"),
        (("--local",), "gemini", "--local"),
        (("--local", "--project"), "claude-code", "one of them"),
    ],
)
def test_a_place_that_is_none_is_told(home: Home, words: tuple[str, ...], agent: str, why: str):
    ran = home.type("install", "--yes", *words, agent=agent)
    assert ran.code == 1
    assert why in ran.err


def test_what_was_never_installed_cannot_be_taken_out(home: Home):
    ran = home.type("uninstall", "--yes")
    assert (ran.code, "is not installed" in ran.err) == (1, True)


def test_hooks_that_were_written_by_hand_are_taken_out_too(home: Home):
    home.type("install", "--yes")
    shutil.rmtree(home.folder / "kept")
    ran = home.type("uninstall", "--yes")
    assert (ran.code, json.loads(home.file().read_text())) == (0, {})


def test_the_status_says_where_the_guard_is_and_what_stays_open(home: Home):
    assert "before no agent" in home.guard("status").out
    home.type("install", "--yes", agent="codex")
    said = home.guard("status").out
    assert str(home.file("codex")) in said
    assert "not reviewed" in said


def test_the_status_says_that_hooks_are_gone_or_switched_off(home: Home):
    home.type("install", "--yes")
    settings = json.loads(home.file().read_text())
    del settings["hooks"]["PreToolUse"]
    home.file().write_text(json.dumps({**settings, "disableAllHooks": True}))
    document = json.loads(home.guard("status", "--json").out)
    (place,), (switch,) = document["installed"], document["settings"]
    assert "PreToolUse are gone" in place["problems"][0]
    assert (switch["file"], switch["entry"], switch["ends"]) == (str(home.file()), "disableAllHooks = true", True)


def test_the_doctor_says_what_is_open_and_what_is_not_in_force(home: Home):
    home.type("install", "--yes", agent="codex")
    said = home.hooksdk("doctor")
    assert said.code == 0
    assert "not reviewed" in " ".join(said.out.split())
    home.write("{}", "codex")
    said = home.hooksdk("doctor")
    assert said.code == 1
    assert "are gone" in " ".join(said.out.split())


def test_a_folder_that_others_may_use_is_told(home: Home):
    folder = home.folder / "kept" / "guard"
    folder.mkdir(parents=True, mode=0o755)
    folder.chmod(0o755)
    for words in (("status",), ("install", "--client", "qwen", "--yes")):
        ran = home.guard(*words)
        assert (ran.code, f"chmod 700 {folder}" in ran.err) == (1, True)


def test_a_folder_whose_name_is_too_long_for_a_socket_is_told_before_anything_is_written(home: Home, tmp_path: Path):
    long = {"HOOKSDK_GUARD_DIR": str(tmp_path / ("long" * 30))}
    words = ("guard", "install", "--client", "qwen")
    variables = {**home.variables, **long}
    shown = run((*words, "--dry-run"), folder=home.project, environment=variables, stdin="")
    assert shown.code == 0
    ran = run((*words, "--yes"), folder=home.project, environment=variables, stdin="")
    assert (ran.code, "too long for a socket" in ran.err) == (1, True)
    assert not home.file("qwen").exists()
