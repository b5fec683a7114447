"""`hooksdk plugins ...` reads metadata and manifests only; what a plugin does when it is imported breaks none of it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import strangers
from commands import COMMAND, environment, write_user_file
from warm import CAN_FORK, Done, run

from hooksdk.cli._plugins.validation import validate

pytestmark = pytest.mark.heavy

AT_IMPORT = {
    "sleeps": "import time\ntime.sleep(600)\n",
    "exits": "import os\nos._exit(7)\n",
    "raises": "raise RuntimeError('no')\n",
    "raises BaseException": "raise BaseException('odd')\n",
    "raises GeneratorExit": "raise GeneratorExit\n",
    "raises KeyboardInterrupt": "raise KeyboardInterrupt\n",
    "raises SystemExit": "raise SystemExit(5)\n",
    "prints": "print('not JSON')\n",
    "forges the report": "import os, sys\nopen(sys.argv[3], 'w').write('[]')\nos._exit(0)\n",
    "closes stdout": "import sys\nsys.stdout.close()\n",
}
HOSTILE = "\x1b[2J\x1b]0;title\x07\u202eevil\u2066\x9b31m"
"""Escape sequences, among them one of a single character, and characters that turn words around."""


def hooksdk(*arguments: str, folder: Path, stdin: str = "", variables: Mapping[str, str] | None = None) -> Done:
    """Run the command in a folder where plugins are installed, too; its children find these as well."""
    where = {
        **environment(folder),
        **(variables or {}),
        "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])]),
    }
    return run(arguments, folder=folder, environment=where, stdin=stdin)


def entry(done: Done, plugin_id: str = "evil") -> dict[str, Any]:
    """What the list says of a plugin."""
    return next(one for one in done.json()["plugins"] if one["id"] == plugin_id)


# Nothing is imported


def test_plugins_that_misbehave_at_import_are_listed_inspected_enabled_and_switched_off(tmp_path: Path) -> None:
    for number, code in enumerate(AT_IMPORT.values()):
        strangers.install(
            tmp_path, f"evil{number}", code, distribution=f"evil-{number}", package=f"around{number}.code"
        )
    listed = hooksdk("plugins", "list", "--json", folder=tmp_path).json()["plugins"]
    assert [one["status"] for one in listed if one["origin"] == "installed"] == ["not enabled"] * len(AT_IMPORT)
    enabled = "".join(f"[plugins.evil{number}]\n" for number in range(len(AT_IMPORT)))
    write_user_file(tmp_path, enabled)
    listed = hooksdk("plugins", "list", "--json", folder=tmp_path).json()["plugins"]
    assert [one["status"] for one in listed if one["origin"] == "installed"] == ["loaded"] * len(AT_IMPORT)
    assert hooksdk("plugins", "inspect", "evil0", "--json", folder=tmp_path).json()["plugin"]["id"] == "evil0"
    assert hooksdk("plugins", "validate", "around0/code", "--json", folder=tmp_path).json()["problems"] == []
    assert hooksdk("plugins", "disable", "evil0", folder=tmp_path).out == "evil0 is off: hooksdk.toml\n"
    assert hooksdk("plugins", "enable", "evil0", folder=tmp_path).out == "evil0 is on: hooksdk.toml\n"
    assert not strangers.was_imported(tmp_path)


def test_help_and_completion_import_no_plugin(tmp_path: Path) -> None:
    strangers.install(tmp_path)
    write_user_file(tmp_path, "[plugins.evil]\n")
    assert "inspect" in hooksdk("plugins", "--help", folder=tmp_path).out
    program = str(Path(sys.executable).with_name("hooksdk"))
    complete = {"_HOOKSDK_COMPLETE": "complete_bash", "COMP_WORDS": "hooksdk plugins in", "COMP_CWORD": "2"}
    where = {**environment(tmp_path), "PYTHONPATH": str(tmp_path), **complete}
    done = subprocess.run([program], cwd=tmp_path, env=where, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["inspect"]
    assert not strangers.was_imported(tmp_path)


def test_the_project_s_plugins_file_is_listed_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "hooksdk_plugins.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n")
    done = hooksdk("plugins", "list", "--json", folder=tmp_path, variables={"HOOKSDK_PLUGINS_FILE": "true"})
    assert entry(done, "hooksdk_plugins")["status"] == "loaded"
    assert not strangers.was_imported(tmp_path)


def test_a_list_has_what_a_plugin_asks_for_what_it_has_and_who_installed_it(tmp_path: Path) -> None:
    contracts = {"hooks": ["before_model_call"], "tools": ["look"]}
    about = {"description": "Watches.", "permissions": ["conversation", "offer"], "contracts": contracts}
    strangers.install(tmp_path, manifest=about)
    write_user_file(tmp_path, '[plugins.evil]\ngrants = ["conversation", "offer"]\n')
    assert entry(hooksdk("plugins", "list", "--json", folder=tmp_path)) == {
        "id": "evil", "status": "loaded", "reason": "", "origin": "installed", "distribution": "someone-elses-dependency",
        "version": "1.0", "description": "Watches.", "permissions": ["conversation", "offer"],
        "grants": ["conversation", "offer"], "hooks": ["before_model_call"], "tools": ["look"],
    }  # fmt: skip
    table = " ".join(hooksdk("plugins", "list", folder=tmp_path).out.split())
    assert "asks for conversation, offer; granted: conversation, offer" in table


def test_hooks_that_a_manifest_does_not_list_are_unknown_and_not_none(tmp_path: Path) -> None:
    strangers.install(tmp_path)
    listed = entry(hooksdk("plugins", "list", "--json", folder=tmp_path))
    assert (listed["hooks"], listed["tools"]) == (None, None)
    assert "hooks     not said in its manifest" in hooksdk("plugins", "inspect", "evil", folder=tmp_path).out


def test_the_built_ins_manifests_name_their_hooks_and_tools(tmp_path: Path) -> None:
    from hooksdk import Config, Host

    config = Config(plugins={"tool_results": {}, "catalog_audit": {}})  # pyright: ignore[reportArgumentType]
    loaded = {plugin.id: (plugin.hooks, plugin.tools) for plugin in Host(config=config).plugins if plugin.loaded}
    done = hooksdk("plugins", "list", "--json", folder=tmp_path)
    for plugin_id, (hooks, tools) in loaded.items():
        assert set(entry(done, plugin_id)["hooks"]) == set(hooks)
        assert set(entry(done, plugin_id)["tools"]) >= set(tools)  # and those that it may offer beside them


def test_a_host_s_refusal_is_foreseen_as_far_as_the_manifest_tells(tmp_path: Path) -> None:
    settings = {"type": "object", "properties": {"limit": {"type": "integer"}}, "additionalProperties": False}
    strangers.install(tmp_path, "one", distribution="one", manifest={"configSchema": settings})
    strangers.install(tmp_path, "two", distribution="two", manifest={"contracts": {"hooks": ["agent_end"]}})
    strangers.install(tmp_path, "three", distribution="three", manifest="{")
    write_user_file(tmp_path, "[plugins.one.config]\nlimt = 1\n[plugins.two]\n[plugins.three]\n")
    done = hooksdk("plugins", "list", "--json", folder=tmp_path)
    assert done.code == 1
    assert [entry(done, plugin_id)["status"] for plugin_id in ("one", "two", "three")] == ["refused"] * 3
    assert "config.limt: there is no such property" in entry(done, "one")["reason"]
    assert "hooksdk plugins enable two --grant conversation" in entry(done, "two")["reason"]
    assert "is not JSON" in entry(done, "three")["reason"]


@pytest.mark.parametrize("command", [["list"], ["inspect", "evil"], ["list", "--json"], ["inspect", "evil", "--json"]])
def test_no_text_of_a_manifest_steers_the_terminal(tmp_path: Path, command: list[str]) -> None:
    about = {
        "name": HOSTILE,
        "description": HOSTILE,
        "permissions": [HOSTILE],
        HOSTILE: 1,
        "contracts": {"hooks": [HOSTILE]},
    }
    strangers.install(tmp_path, manifest=about)
    done = hooksdk("plugins", *command, folder=tmp_path)
    assert "evil" in done.out
    assert all(char.isprintable() or char == "\n" for char in done.out + done.err)
    if command == ["list", "--json"]:
        assert entry(done)["description"] == HOSTILE, "the document means the same"


def test_a_description_of_several_lines_cannot_look_like_a_line_of_ours(tmp_path: Path) -> None:
    strangers.install(tmp_path, manifest={"description": "Fine.\nasks for  no grants", "permissions": ["secrets"]})
    lines = hooksdk("plugins", "inspect", "evil", folder=tmp_path).out.splitlines()
    (asks,) = [line for line in lines if line.startswith("asks for")]
    assert asks.startswith("asks for  secrets: gives the values")
    assert asks.endswith("; not granted")


# Enabling and disabling


def test_enabling_a_plugin_that_asks_for_nothing_needs_no_question(tmp_path: Path) -> None:
    strangers.install(tmp_path)
    done = hooksdk("plugins", "enable", "evil", folder=tmp_path)
    assert (done.code, done.out) == (0, "evil is on: hooksdk.toml\n")


def test_where_nobody_can_be_asked_a_plugin_that_asks_stays_off_and_the_command_says_what_to_type(
    tmp_path: Path,
) -> None:
    strangers.install(tmp_path, manifest={"permissions": ["conversation"], "contracts": {"tools": ["look"]}})
    done = hooksdk("plugins", "enable", "evil", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "conversation: reads message text and tool results" in done.err
    assert "offer: puts tools of its own into the model's list" in done.err
    assert "hooksdk plugins enable evil --grant conversation --grant offer" in done.complaint
    assert not (tmp_path / "hooksdk.toml").exists()


@pytest.mark.parametrize("options", [["--yes"], ["--grant", "conversation", "--grant", "offer"]])
def test_a_script_gives_the_grants_by_an_option(tmp_path: Path, options: list[str]) -> None:
    strangers.install(tmp_path, manifest={"permissions": ["conversation"], "contracts": {"tools": ["look"]}})
    done = hooksdk("plugins", "enable", "evil", *options, folder=tmp_path)
    assert (done.code, done.out) == (0, "evil is on, with conversation, offer: hooksdk.toml\n")
    assert 'grants = ["conversation", "offer"]' in (tmp_path / "hooksdk.toml").read_text()


def test_a_grant_left_out_is_told(tmp_path: Path) -> None:
    strangers.install(tmp_path, manifest={"permissions": ["conversation", "secrets"]})
    done = hooksdk("plugins", "enable", "evil", "--grant", "secrets", folder=tmp_path)
    assert done.code == 1
    assert "it is not loaded yet (refused)" in done.complaint
    assert done.complaint.endswith("hooksdk plugins enable evil --grant conversation")


@pytest.mark.in_ci(every=3)
@pytest.mark.skipif(not CAN_FORK, reason="needs a terminal of its own")
@pytest.mark.parametrize(("answer", "enabled"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_a_person_is_asked(tmp_path: Path, answer: str, enabled: bool) -> None:
    import pty

    strangers.install(tmp_path, manifest={"permissions": ["secrets"]})
    ours, theirs = pty.openpty()
    where = {**environment(tmp_path), "PYTHONPATH": str(tmp_path)}
    process = subprocess.Popen(
        [*COMMAND, "plugins", "enable", "evil"],
        cwd=tmp_path,
        env=where,
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
    )
    os.close(theirs)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(ours, 1024)
    os.write(ours, answer.encode())
    out, _ = process.communicate()
    os.close(ours)
    assert b"secrets: gives the values for secrets that calls ask for" in seen
    assert (process.returncode == 0, (tmp_path / "hooksdk.toml").exists()) == (enabled, enabled)
    assert (b"evil is on, with secrets" in out) == enabled


def test_a_plugin_that_is_switched_off_loses_its_grants(tmp_path: Path) -> None:
    strangers.install(tmp_path, manifest={"permissions": ["secrets"]})
    hooksdk("plugins", "enable", "evil", "--yes", folder=tmp_path)
    done = hooksdk("plugins", "disable", "evil", folder=tmp_path)
    assert done.out == "evil is off, and its grants are taken back (secrets): hooksdk.toml\n"
    assert hooksdk("plugins", "enable", "evil", folder=tmp_path).code == 1, "they do not come back unasked"


def test_a_plugin_without_a_manifest_is_not_enabled(tmp_path: Path) -> None:
    (strangers.install(tmp_path) / "hooksdk.plugin.json").unlink()
    done = hooksdk("plugins", "enable", "evil", folder=tmp_path)
    assert done.code == 1
    assert "an installed plugin needs a manifest" in done.complaint
    assert not (tmp_path / "hooksdk.toml").exists()


def test_of_two_plugins_with_one_id_none_is_enabled(tmp_path: Path) -> None:
    strangers.install(tmp_path, distribution="one")
    strangers.install(tmp_path, distribution="two")
    done = hooksdk("plugins", "enable", "evil", folder=tmp_path)
    assert done.code == 1
    assert "two plugins are called 'evil': one_code:Plugin of one and two_code:Plugin of two" in done.complaint


# Importing on purpose


def runtime(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """What `inspect --runtime` reports."""
    done = hooksdk("plugins", "inspect", "evil", "--runtime", "--json", *options, folder=folder)
    return done.code, done.json()["runtime"]


def test_looking_at_runtime_reports_hooks_tools_settings_grants_and_output(tmp_path: Path) -> None:
    code = """
import pydantic
from hooksdk import hooks, tool
print("hello from", __name__)
class Plugin:
    class Config(pydantic.BaseModel):
        limit: int = 3
    @hooks.after_tool_call
    def watch(self, event): ...
    @tool
    def look(self) -> str:
        "Look around."
"""
    strangers.install(tmp_path, code=code)
    exit_code, probe = runtime(tmp_path)
    assert exit_code == 0
    assert (probe["outcome"], probe["hooks"], probe["tools"]) == ("loaded", ["after_tool_call"], ["look"])
    assert probe["grants"] == ["conversation", "offer"]
    assert probe["config_schema"]["properties"]["limit"]["default"] == 3
    assert probe["output"] == "hello from someone_elses_dependency_code\n"


@pytest.mark.in_ci(every=3)
@pytest.mark.parametrize(
    ("kind", "outcome", "words"),
    [
        ("exits", "exit", "exit code 7"),
        ("forges the report", "exit", "exit code 0"),
        ("raises BaseException", "refused", "BaseException: odd"),
        ("raises KeyboardInterrupt", "refused", "KeyboardInterrupt"),
        ("closes stdout", "refused", "has no attribute 'Plugin'"),
    ],
)
def test_how_an_import_ends_is_told(tmp_path: Path, kind: str, outcome: str, words: str) -> None:
    strangers.install(tmp_path, code=AT_IMPORT[kind])
    exit_code, probe = runtime(tmp_path)
    assert (exit_code, probe["outcome"]) == (1, outcome)
    assert words in probe["problem"]


@pytest.mark.skipif(os.name == "nt", reason="no signals there")
def test_a_plugin_that_crashes_the_interpreter_is_told_by_its_signal(tmp_path: Path) -> None:
    strangers.install(tmp_path, code="import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert runtime(tmp_path)[1]["problem"] == "signal SIGSEGV ended the process"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_at_the_time_limit_the_import_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    code = f"""
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(tmp_path / "child")!r}).write_text(str(child.pid))
print("started", flush=True)
time.sleep(600)
"""
    strangers.install(tmp_path, code=code)
    exit_code, probe = runtime(tmp_path, "--timeout", "4")
    assert (exit_code, probe["outcome"], probe["output"]) == (1, "timeout", "started\n")
    assert probe["problem"] == "it was not imported within 4 s"
    status = Path("/proc", (tmp_path / "child").read_text(), "stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


# Validating


def test_validating_names_every_problem(tmp_path: Path) -> None:
    about = {
        "permissions": ["conversatoin"], "contracts": {"hooks": ["agent_ends"], "tools": [""]},
        "configSchema": {"type": "objekt"}, "unheard": 1,
    }  # fmt: skip
    package = strangers.install(tmp_path, manifest={"id": "other", **about})
    (tmp_path / "pyproject.toml").write_text(
        f'[project.entry-points."hooksdk.plugins"]\nevil = "{package.name}:Plugin"\n'
    )
    done = hooksdk("plugins", "validate", str(tmp_path), "--json", folder=tmp_path)
    problems = "\n".join(done.json()["problems"])
    assert done.code == 1
    for words in (
        "its id is 'other', and its entry point is called 'evil'", "Did you mean 'conversation'?", "'agent_ends' is not a hook",
        "a name is empty", "configSchema is not a JSON Schema",
    ):  # fmt: skip
        assert words in problems
    assert "'unheard' is not a key that hooksdk knows" in "\n".join(done.json()["notices"])
    assert not strangers.was_imported(tmp_path)


def test_a_manifest_a_package_a_project_a_dist_info_and_a_wheel_can_be_validated(tmp_path: Path) -> None:
    package = strangers.install(tmp_path, "evil", manifest={"id": "other"})
    info = tmp_path / "someone_elses_dependency-1.0.dist-info"
    (tmp_path / "pyproject.toml").write_text(
        f'[project.entry-points."hooksdk.plugins"]\nevil = "{package.name}:Plugin"\n'
    )
    wheel = tmp_path / "plugin-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in (*package.iterdir(), *info.iterdir()):
            archive.write(path, path.relative_to(tmp_path))
    for path in (package, tmp_path, info, wheel):
        (problem,) = validate(path).problems
        assert problem.endswith("its id is 'other', and its entry point is called 'evil'. Make them equal"), path
    assert validate(package / "hooksdk.plugin.json").problems == [], "on its own it has no entry point"
    assert not strangers.was_imported(tmp_path)


def test_a_package_of_several_plugins_is_validated_by_the_manifest_of_each(tmp_path: Path) -> None:
    package = strangers.install(tmp_path, "evil")
    (package / "worse.plugin.json").write_text('{"id": "worst", "hook": []}')
    (tmp_path / "pyproject.toml").write_text(
        f'[project.entry-points."hooksdk.plugins"]\nevil = "{package.name}:Plugin"\nworse = "{package.name}:Worse"\n'
        f'bad = "{package.name}:Bad"\n'
    )
    evil, worse, bad = package / "hooksdk.plugin.json", package / "worse.plugin.json", package / "hooksdk.plugin.json"
    validation = validate(tmp_path)
    assert validation.manifests == [str(evil), str(worse), str(bad)]
    assert validation.problems == [
        f"{worse}: its id is 'worst', and its entry point is called 'worse'. Make them equal",
        f"{bad}: its id is 'evil', and its entry point is called 'bad'. Write bad.plugin.json beside it for that one",
    ]
    evil.unlink()
    assert validate(package).problems == [
        f"{worse}: its id is 'worst', and its entry point is called 'worse'. Make them equal"
    ]
    assert not strangers.was_imported(tmp_path)


def test_a_manifest_that_is_fine_is_said_to_be(tmp_path: Path) -> None:
    package = strangers.install(tmp_path)
    done = hooksdk("plugins", "validate", package.name, folder=tmp_path)
    assert (done.code, done.out) == (0, f"fine: {package.name}/hooksdk.plugin.json\n")


@pytest.mark.parametrize("name", ["empty", "broken.whl", "hooksdk.plugin.json"])
def test_what_is_no_plugin_is_said_to_be_none(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir() if name == "empty" else path.write_text("[" * 100_000)
    assert len(validate(path).problems) == 1
