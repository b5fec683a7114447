"""Plugins that a person names on the command line, with `--plugin`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import hooksdk as command
from commands import write_user_file

from hooksdk.host import plugins_at
from hooksdk.testing import Turn, call
from hooksdk.testing.server import ScriptedServer

GUARD = """
from hooksdk import hooks, tool
from hooksdk.hooks import Block
from words import REASON

@hooks.before_tool_call(tools="delete_*")
def judge(event):
    return Block(REASON)

@tool
def look(place: str) -> str:
    "Look somewhere."
    return f"nothing in {place}"
"""
CLASSES = """
from pydantic import BaseModel
from hooksdk import hooks
from hooksdk.hooks import Block

class Quota:
    class Config(BaseModel):
        calls: int = 0

    def __init__(self, config: Config):
        self.config = config

    @hooks.before_tool_call
    def judge(self, event):
        return Block(f"{self.config.calls} calls are spent")

class Other(Quota): ...
"""


def run(arguments: list[str]) -> int:
    """The command, in this process."""
    from hooksdk.cli._app import run as command_line

    return command_line(arguments)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with plugins, which is the current one; what is imported from it is forgotten afterwards."""
    (tmp_path / "guard.py").write_text(GUARD)
    (tmp_path / "words.py").write_text('REASON = "not this one"\n')
    (tmp_path / "quotas.py").write_text(CLASSES)
    (tmp_path / "call.json").write_text('{"tool": "delete_file", "arguments": {"path": "a"}}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("guard", "words", "quotas"):  # of other tests in this process
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = dict(sys.modules)
    yield tmp_path
    for name in [name for name in sys.modules if name not in before]:
        del sys.modules[name]


def check(capsys: pytest.CaptureFixture[str], *names: str) -> dict[str, Any]:
    """What the policies say of deleting a file, with these plugins."""
    run(["policy", "check", "call.json", "--json", *(part for name in names for part in ("--plugin", name))])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    return json.loads(captured.out)


@pytest.mark.parametrize("name", ["guard.py", "./guard.py", "guard"])
def test_a_file_or_a_module_judges_and_imports_its_neighbours(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = check(capsys, name)
    assert (answer["verdict"], answer["judges"]) == ("block", ["guard"])
    assert "not this one" in answer["reason"]


def test_a_class_of_a_file_is_named_after_a_colon_and_the_others_of_it_are_left(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(capsys, "quotas.py")["judges"] == ["quota", "other"]
    assert check(capsys, "quotas.py:Other")["judges"] == ["other"]
    assert check(capsys, "quotas:Quota", "guard.py")["judges"] == ["quota", "guard"]


def test_a_bare_colon_means_the_module_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "both.py").write_text("from quotas import Quota\n" + GUARD)
    assert check(capsys, "both.py")["judges"] == ["both", "quota"]
    assert check(capsys, "both:")["judges"] == ["both"]


def test_a_plugin_that_is_named_twice_counts_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "quotas.py", "quotas:Quota")["judges"] == ["quota", "other"]


def test_a_file_in_a_package_is_imported_as_part_of_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = folder / "src" / "handy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text('REASON = "a package\'s own word"\n')
    (package / "guard.py").write_text(GUARD.replace("from words", "from .words"))
    assert "a package's own word" in check(capsys, "src/handy/guard.py")["reason"]
    assert sys.modules["handy.guard"].__file__ == str(package / "guard.py")


def test_a_package_is_named_by_its_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "handy").mkdir()
    (folder / "handy" / "__init__.py").write_text(CLASSES)
    assert check(capsys, "handy:Quota")["judges"] == ["quota"]
    assert check(capsys, "./handy")["judges"] == ["quota", "other"]


def test_a_file_called_like_a_module_takes_nobodys_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "json.py").write_text(GUARD)
    assert check(capsys, "json.py")["judges"] == ["json"]
    assert sys.modules["json"] is json


@pytest.mark.light(every=5)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gaurd.py", "there is no file {folder}/gaurd.py. Did you mean 'guard.py'"),
        ("gaurd", "there is no module 'gaurd'. Did you mean 'guard'?"),
        ("far.away", "there is no module 'far.away'. It was looked for in {folder} and where Python looks."),
        ("tool_policy", "An installed plugin is switched on with: hooksdk plugins enable tool_policy"),
        ("quotas.py:Qouta", "there is no 'Qouta' in {folder}/quotas.py. Did you mean 'Quota'?"),
        ("quotas.py:Fence", "there is no 'Fence' in {folder}/quotas.py. It has Quota, Other."),
        ("guard.py:Guard", "there is no 'Guard' in {folder}/guard.py. Name the module alone: guard.py"),
        ("guard.py:judge", "it is a function, not a module or class. Give the module that it is in"),
        ("words.py", "{folder}/words.py yields no plugin. Decorate functions or methods in it"),
        ("words.py:REASON", "is text, not a module or class"),
        (".", "is a folder. Name a file in it, such as plugin.py"),
        ("two words", "it is neither a file nor a module. Name one, such as guard.py or my_package.guard"),
        ("", "no file and no module is named. Name one, such as guard.py"),
        ("call.json", "{folder}/call.json is no Python file. Name a file that ends in .py"),
    ],
)
def test_what_is_no_plugin_is_one_line_with_the_cure(
    name: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["policy", "check", "call.json", "--plugin", name]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert told.format(folder=folder) in captured.err


@pytest.mark.light(every=3)
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("x = 1\n\ndef f():\n    1 / 0\n\nf()\n", "raised ZeroDivisionError: division by zero (broken.py:4)"),
        ("def (\n", "raised SyntaxError: invalid syntax (broken.py, line 1)"),
        ("import no_such_thing\n", "No module named 'no_such_thing' (broken.py:1). Install what it imports beside"),
        ("from words import RAISON\n", "cannot import name 'RAISON' from 'words'"),
        ("raise SystemExit(3)\n", "raised SystemExit: 3 (broken.py:1)"),
        ("from hooksdk import hooks\n@hooks.before_tool_call\ndef f(call): ...\n", "Write def f(event)"),
        ("plugins = 3\n", "plugins is int in "),
    ],
)
def test_code_that_fails_is_one_line_with_its_place(
    code: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.py").write_text(code)
    assert run(["policy", "check", "call.json", "--plugin", "broken.py"]) == 1
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert told in captured.err


def test_another_copy_of_the_package_in_front_of_it_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("installed", "mine"):
        (folder / place / "handy").mkdir(parents=True)
        (folder / place / "handy" / "__init__.py").write_text(CLASSES)
    monkeypatch.setattr(sys, "path", [str(folder / "installed"), *sys.path])
    with pytest.raises(Exception, match="or install this one with: pip install -e"):
        plugins_at("mine/handy/__init__.py", folder=folder)


def test_a_file_that_imports_from_another_named_one_leaves_that_one_its_handlers(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "both.py").write_text("from quotas import Quota\n\nplugins = [Quota]\n")
    assert check(capsys, "both.py", "quotas:Quota")["judges"] == ["quota"]


# What naming it means


def test_whom_a_person_names_needs_no_grant_and_no_trust(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "reader.py").write_text(
        "from hooksdk import hooks\nfrom hooksdk.hooks import Answer\n"
        "@hooks.before_tool_call\ndef judge(event): return Answer('mine')\n"
        "@hooks.after_tool_call\ndef read(event): ...\n"
    )
    assert check(capsys, "reader.py")["verdict"] == "answered"


def test_a_cloned_project_neither_switches_it_off_nor_sets_anything_of_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "hooksdk.toml").write_text('deny = ["quota"]\n[plugins.quota.config]\ncalls = 9\n')
    answer = check(capsys, "quotas.py:Quota")
    assert "0 calls are spent" in answer["reason"]


def test_the_user_s_own_settings_count_for_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_user_file(folder, "[plugins.quota.config]\ncalls = 9\n")
    assert "9 calls are spent" in check(capsys, "quotas.py:Quota")["reason"]
    write_user_file(folder, 'deny = ["quota"]\n')
    assert check(capsys, "quotas.py:Quota")["judges"] == []


# The commands that take it


@pytest.mark.heavy
@pytest.mark.anyio
async def test_a_run_with_a_real_client_is_judged_by_it(folder: Path) -> None:
    def script(turn: Turn) -> Any:
        return call("look", place="the cellar") if not turn.results else turn.result.text

    async with ScriptedServer(script) as server:
        arguments = ("run", "--model", "openai:any", "--plugin", "guard.py", "--plugin", "quotas.py:Quota", "Look.")
        done = await command(*arguments, folder=folder, server=server)
    assert (done.code, done.out) == (0, "Error: Blocked by quota: 0 calls are spent\n")
    assert "policies    2 handlers judge tool calls: guard, quota" in done.err


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


def test_its_tools_are_listed_and_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["tools", "list", "--plugin", "guard.py", "--json"])
    assert [tool["id"] for tool in json.loads(capsys.readouterr().out)["tools"]] == ["plugin:guard:look"]
    run(["tools", "search", "look somewhere", "--plugin", "guard.py"])
    assert "look(place: string)" in capsys.readouterr().out
    run(["tools", "audit", "--plugin", "guard.py", "--json"])
    assert json.loads(capsys.readouterr().out)["audited"] == 1


def test_it_is_listed_before_the_installed_ones(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "list", "--plugin", "guard.py", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["plugins"][0]
    assert (first["id"], first["status"], first["origin"]) == ("guard", "loaded", "code")
    assert (first["hooks"], first["tools"]) == (["before_tool_call"], ["look"])


def test_one_with_a_built_in_s_id_is_listed_as_the_one_that_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tool_search.py").write_text(GUARD)
    run(["plugins", "list", "--plugin", "tool_search.py", "--json"])
    listed = json.loads(capsys.readouterr().out)["plugins"]
    told = [(one["origin"], one["status"], one["reason"]) for one in listed if one["id"] == "tool_search"]
    assert told == [
        ("code", "loaded", ""),
        ("built-in", "off", "given in code, which goes before the installed one"),
    ]


def test_one_that_no_host_would_take_is_listed_as_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_user_file(folder, "[plugins.quota.config]\ncals = 9\n")
    assert run(["plugins", "list", "--plugin", "quotas.py:Quota", "--json"]) == 1
    first = json.loads(capsys.readouterr().out)["plugins"][0]
    assert (first["status"], "Did you mean 'calls'?" in first["reason"]) == ("refused", True)


def test_it_is_inspected_with_its_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["plugins", "inspect", "quota", "--plugin", "quotas.py", "--json"])
    facts = json.loads(capsys.readouterr().out)["plugin"]
    assert (facts["status"], facts["hooks"]) == ("loaded", ["before_tool_call"])
    assert list(facts["config_schema"]["properties"]) == ["calls"]
    assert run(["plugins", "inspect", "quota", "--plugin", "quotas.py", "--runtime"]) == 1
    assert "this one is imported already. Leave it out" in capsys.readouterr().err


def test_it_is_validated_as_a_host_would_take_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "validate", "--plugin", "guard.py"]) == 0
    assert capsys.readouterr().out == "fine: guard\n"
    (folder / "needy.py").write_text(CLASSES.replace("calls: int = 0", "calls: int"))
    assert run(["plugins", "validate", "--plugin", "needy.py:Quota"]) == 0
    assert "notice   it needs settings: [plugins.quota.config]: 'calls': Field required" in capsys.readouterr().out
    (folder / "greedy.py").write_text(CLASSES.replace("self, config: Config", "self, config: Config, more"))
    assert run(["plugins", "validate", "--plugin", "greedy.py:Quota"]) == 1
    assert "problem  plugin 'quota' refused: its constructor wants 'more'" in capsys.readouterr().out


@pytest.mark.heavy
def test_the_doctor_examines_it_and_what_cannot_be_imported_is_a_finding(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ending.py").write_text("import os\nos._exit(7)\n")
    arguments = ["--plugin", "guard.py", "--plugin", "ending.py", "--plugin", "gaurd.py"]
    assert run(["doctor", "--json", *arguments]) == 1
    document = json.loads(capsys.readouterr().out)
    findings = {one["who"]: (one["what"], one["advice"]) for one in document["findings"]}
    assert document["judging"] == "1 handler judges tool calls: guard"
    assert findings["ending.py"] == (
        "loading it ended the process (exit code 7)",
        "Correct it, or leave its --plugin out",
    )
    assert "Did you mean 'guard.py'" in findings["gaurd.py"][0]
