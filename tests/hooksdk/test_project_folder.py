"""From a folder below a project's: which project counts, and with whose trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import environment
from warm import Done, run

from hooksdk import Host
from hooksdk.config import load_config, project_folder


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with settings, and a folder two levels down in it, which is the current one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    below = tmp_path / "repository" / "src" / "package"
    below.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / "hooksdk.toml").write_text('store = "memory"\n')
    monkeypatch.chdir(below)
    return tmp_path / "repository"


def command(repository: Path, *arguments: str) -> Done:
    below = repository / "src" / "package"
    return run(arguments, folder=below, environment={**environment(repository.parent), "COLUMNS": "300"})


def test_a_project_counts_in_the_folders_below_it(repository: Path) -> None:
    assert project_folder(Path.cwd()) == repository
    assert load_config(environment={"XDG_CONFIG_HOME": str(repository.parent)}).store == "memory"
    assert Host().config.store == "memory"


def test_the_nearest_settings_count_and_a_pyproject_without_any_does_not_stop_the_search(repository: Path) -> None:
    (repository / "src" / "pyproject.toml").write_text('[project]\nname = "inner"\n')
    assert project_folder(Path.cwd()) == repository
    (repository / "src" / "pyproject.toml").write_text('[tool.hooksdk]\nstore = "jsonl"\n')
    assert project_folder(Path.cwd()) == repository / "src"


def test_the_search_ends_at_the_root_of_the_repository(repository: Path) -> None:
    (repository / "src" / ".git").write_text("gitdir: elsewhere\n")  # as in a submodule
    assert project_folder(Path.cwd()) == Path.cwd()


def test_the_home_folder_is_no_project_for_what_lies_in_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(repository))
    assert project_folder(Path.cwd()) == Path.cwd()
    assert project_folder(repository) == repository


def test_a_folder_that_others_may_write_is_not_looked_into(repository: Path) -> None:
    repository.chmod(0o777)
    assert project_folder(Path.cwd()) == Path.cwd()


@pytest.mark.heavy
def test_a_folder_that_is_named_is_the_one(repository: Path) -> None:
    assert Host(folder=".").config.store is None
    shown = command(repository, "config", "show", "--json", "--project", ".").json()
    assert shown["project"]["folder"] == str(Path.cwd())


@pytest.mark.heavy
def test_a_command_below_the_project_says_which_project_counts(repository: Path) -> None:
    done = command(repository, "config", "show", "--json")
    assert done.err == f"project     {repository}\n"
    assert json.loads(done.out)["project"]["folder"] == str(repository)


@pytest.mark.heavy
def test_trust_below_the_project_is_the_project_s(repository: Path) -> None:
    (repository / "hooksdk.toml").write_text("plugins_file = true\n")
    (repository / "hooksdk_plugins.py").write_text(
        "from hooksdk import hooks\n\n@hooks.agent_end\ndef see(event): ...\n"
    )
    assert f"hooksdk trust {repository}" in command(repository, "plugins", "list").err
    assert f"trusted until it changes, in {repository.parent}" in command(repository, "trust", "--yes").out
    assert "hooksdk_plugins.py" in command(repository, "plugins", "list").out


@pytest.mark.heavy
def test_what_is_enabled_below_the_project_is_written_into_its_file(repository: Path) -> None:
    assert command(repository, "plugins", "enable", "trace_file").code == 0
    assert "trace_file" in (repository / "hooksdk.toml").read_text()
    assert not (repository / "src" / "package" / "hooksdk.toml").exists()
