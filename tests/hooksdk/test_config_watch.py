"""A configuration whose files change while a host runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hooksdk import Host, MemoryStore, ToolCall
from hooksdk.cli._edits.configuration import record_trust
from hooksdk.config import Config, ConfigWatch, read_config
from hooksdk.errors import ConfigError
from tests.stage import make

pytestmark = pytest.mark.anyio


def write(path: Path, text: str) -> None:
    """Replace the file as editors do, so that its inode is another even when nothing else is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


@pytest.fixture
def user(home: Path) -> Path:
    return home / "config" / "hooksdk" / "config.toml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "hooksdk.toml"


def trust(folder: Path) -> None:
    record_trust(read_config(folder=folder)[1].trust)


def test_a_changed_file_is_another_configuration_once(user: Path, tmp_path: Path) -> None:
    watch = ConfigWatch(folder=tmp_path)
    assert (watch.catch_up(), watch.config) == (False, Config())
    write(user, 'deny = ["tool_search"]')
    assert (watch.catch_up(), watch.config.deny) == (True, ["tool_search"])
    assert watch.catch_up() is False


@pytest.mark.parametrize("name", ["hooksdk.toml", "pyproject.toml"])
def test_the_projects_files_are_watched(tmp_path: Path, name: str) -> None:
    watch = ConfigWatch(folder=tmp_path)
    table = "[tool.hooksdk]\n" if name == "pyproject.toml" else ""
    write(tmp_path / name, f'{table}deny = ["tool_search"]')
    assert (watch.catch_up(), watch.config.deny) == (True, ["tool_search"])


def test_a_file_that_says_the_same_in_other_words_is_no_change(user: Path, tmp_path: Path) -> None:
    write(user, 'deny = ["tool_search"]')
    watch = ConfigWatch(folder=tmp_path)
    write(user, '# quiet, please\ndeny = ["tool_search"]')
    assert watch.catch_up() is False


def test_the_overrides_count_after_a_change_too(user: Path, tmp_path: Path) -> None:
    watch = ConfigWatch({"drain": "next_model_call"}, folder=tmp_path)
    write(user, 'drain = "agent_end"\ndeny = ["tool_search"]')
    assert (watch.catch_up(), watch.config.drain) == (True, "next_model_call")


@pytest.mark.parametrize(
    ("text", "problem"), [("deny = ", "is not TOML"), ('denny = ["x"]', "Did you mean 'deny'?"), ("store = 1", "store")]
)
def test_a_broken_file_keeps_the_old_configuration_and_is_told_once(
    user: Path, tmp_path: Path, text: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(user, 'deny = ["tool_search"]')
    watch = ConfigWatch(folder=tmp_path)
    write(user, text)
    with caplog.at_level(logging.WARNING):
        assert [watch.catch_up(), watch.catch_up()] == [False, False]
    assert watch.config.deny == ["tool_search"]
    assert problem in watch.problem
    assert caplog.text.count("the configuration stays as it was") == 1
    write(user, "deny = []")
    assert (watch.catch_up(), watch.problem) == (True, "")


def test_what_is_wrong_at_first_is_raised(user: Path, tmp_path: Path) -> None:
    write(user, "deny = ")
    with pytest.raises(ConfigError, match="is not TOML"):
        ConfigWatch(folder=tmp_path)


def test_settings_that_a_plugin_refuses_keep_the_old_configuration(user: Path, tmp_path: Path) -> None:
    watch = ConfigWatch(folder=tmp_path, check=lambda config: Host(config=config))
    write(user, RULES.format("destroy"))
    assert (watch.catch_up(), watch.config) == (False, Config())
    assert "[plugins.tool_policy.config]" in watch.problem
    write(user, RULES.format("deny"))
    assert (watch.catch_up(), watch.problem) == (True, "")


RULES = '[[plugins.tool_policy.config.rules]]\naction = "{0}"\ntools = "echo"\n'
WIDENS = 'plugins_file = "{0}.py"\n'


def test_a_trusted_file_that_changes_keeps_the_old_configuration_until_it_is_trusted_again(
    project: Path, tmp_path: Path
) -> None:
    write(project, WIDENS.format("one"))
    trust(tmp_path)
    watch = ConfigWatch(folder=tmp_path)
    before = watch.config
    assert before.plugins_file == "one.py"
    write(project, WIDENS.format("two"))
    assert (watch.catch_up(), watch.config is before) == (False, True)
    assert "has changed since you trusted it" in watch.problem
    assert "hooksdk trust" in watch.problem
    trust(tmp_path)
    assert (watch.catch_up(), watch.problem, watch.config.plugins_file) == (True, "", "two.py")


def test_a_trusted_file_that_needs_no_trust_any_more_counts(project: Path, tmp_path: Path) -> None:
    write(project, WIDENS.format("one"))
    trust(tmp_path)
    watch = ConfigWatch(folder=tmp_path)
    write(project, "")
    assert (watch.catch_up(), watch.config) == (True, Config())


async def test_a_host_of_the_new_configuration_judges_the_next_run_of_the_same_session(
    user: Path, tmp_path: Path
) -> None:
    watch, store = ConfigWatch(folder=tmp_path), MemoryStore()
    found: list[str] = []
    for text in ("", RULES.format("deny")):
        write(user, text)
        watch.catch_up()
        async with (
            Host(config=watch.config, store=store) as host,
            host.session("ann") as session,
            session.run() as run,
        ):
            await run.resolve_tools([make("echo", properties={})])
            found.append((await run.call_tool(ToolCall(id="c1", name="echo", arguments={}))).text)
    assert "withheld" not in found[0]
    assert "withheld" in found[1]
