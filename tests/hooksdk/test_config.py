"""Where the configuration comes from, and what is said about a wrong entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hooksdk import Host
from hooksdk.config import Config, PluginConfig, fold, load_config
from hooksdk.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def load(project: Path, overrides: dict[str, Any] | None = None, **environment: str) -> Config:
    return load_config(overrides, folder=project, environment={"XDG_CONFIG_HOME": str(project.parent), **environment})


def user(project: Path, text: str) -> None:
    (project.parent / "hooksdk").mkdir(exist_ok=True)
    (project.parent / "hooksdk" / "config.toml").write_text(text)


def test_without_any_source_the_defaults_hold(project: Path) -> None:
    assert load(project) == Config()
    assert Config().on_missing_grant == "refuse"
    assert Config().plugins_file is False


def test_later_sources_win_over_earlier_ones_key_by_key_and_a_project_never_over_the_user_s_own_word(
    project: Path,
) -> None:
    user(
        project,
        'store = "jsonl:user"\ndeny = ["a"]\n[timeouts]\nbefore_tool_call = 1\nagent_end = 1\n[plugins.x.config]\na = 1\nb = 1\nc = 1\n',
    )
    (project / "hooksdk.toml").write_text(
        'store = "jsonl:project"\ndrain = "next_model_call"\n[timeouts]\nbefore_tool_call = 2\n[plugins.x.config]\nb = 2\nc = 2\n'
    )
    config = load(project, {"plugins": {"x": {"config": {"c": 4}}}}, HOOKSDK_STORE="memory", HOOKSDK_DENY="b, c")
    assert config.store == "memory"
    assert config.drain == "next_model_call"
    assert config.deny == ["b", "c"]
    assert config.timeouts == {"before_tool_call": 1, "agent_end": 1}
    assert config.plugin("x") == PluginConfig(config={"a": 1, "b": 1, "c": 4})


def test_two_spellings_of_one_plugin_in_one_file_are_told(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    (project / "hooksdk.toml").write_text(
        "[plugins.tool-search.config]\na = 1\nb = 1\n[plugins.Tool_Search.config]\nb = 2\n[plugins.other]\n"
    )
    assert load(project).plugin("tool_search") == PluginConfig(config={"a": 1, "b": 2})
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{project / 'hooksdk.toml'}: 'plugins.tool-search' and 'plugins.Tool_Search' are one plugin: of a setting that "
        "stands in both the later one counts. Write one section"
    )


def test_code_wins_over_the_environment(project: Path) -> None:
    assert load(project, {"store": "memory"}, HOOKSDK_STORE="jsonl").store == "memory"


def test_pyproject_counts_where_there_is_no_hooksdk_toml(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.hooksdk]\nstore = "memory"\n')
    assert load(project).store == "memory"
    (project / "hooksdk.toml").write_text("")
    assert load(project).store is None


@pytest.mark.parametrize("text", ["", "[tool]\n", "[project]\nname = 'x'\n", "tool = 5\n"])
def test_a_pyproject_that_says_nothing_of_hooksdk_is_left_alone(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text)
    assert load(project) == Config()


def test_a_plugins_id_may_be_written_in_several_ways_across_sources(project: Path) -> None:
    (project / "hooksdk.toml").write_text(
        "[plugins.tool-search]\nenabled = true\n[plugins.tool-search.config]\na = 1\n"
    )
    config = load(project, {"plugins": {"Tool_Search": {"enabled": False, "config": {"b": 2}}}})
    section = config.plugin("tool_search")
    assert section == PluginConfig(enabled=False, config={"a": 1, "b": 2})
    assert fold("Tool-Search") == fold("tool_search")


def test_config_keys_of_a_plugin_keep_their_spelling(project: Path) -> None:
    user(project, "[plugins.x.config]\nmax-size = 1\n")
    section = load(project, {"plugins": {"x": {"config": {"max_size": 2}}}}).plugin("x")
    assert section
    assert section.config == {"max-size": 1, "max_size": 2}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOOKSDK_STORE": "memory"}, {"store": "memory"}),
        ({"HOOKSDK_ALLOW": ""}, {"allow": []}),
        ({"HOOKSDK_ALLOW": "a,b"}, {"allow": ["a", "b"]}),
        ({"HOOKSDK_PLUGINS_FILE": "true"}, {"plugins_file": True}),
        ({"HOOKSDK_PLUGINS_FILE": "0"}, {"plugins_file": False}),
        ({"HOOKSDK_PLUGINS_FILE": "mine.py"}, {"plugins_file": "mine.py"}),
        ({"HOOKSDK_ON_MISSING_GRANT": "disable"}, {"on_missing_grant": "disable"}),
        ({"HOOKSDK_DRAIN": "next_model_call"}, {"drain": "next_model_call"}),
        ({"HOOKSDK_HOME": "/x", "HOOKSDK_DISABLE_AUTOLOAD": "1"}, {}),
        ({"OTHER_STORE": "x"}, {}),
    ],
)
def test_each_variable_of_the_environment(project: Path, environment: dict[str, str], expected: dict[str, Any]) -> None:
    assert load(project, None, **environment) == Config(**expected)


def test_the_most_particular_time_limit_counts() -> None:
    config = Config(timeouts={"agent_end": 9}, plugins={"a-b": PluginConfig(timeouts={"agent_end": 3})})
    assert config.timeout("a_b", "agent_end") == 3
    assert config.timeout("other", "agent_end") == 9
    assert config.timeout("other", "agent_start") is None


WRONG = {
    "key": ('stoer = "memory"', "'stoer' is not a setting. Did you mean 'store'?"),
    "plugin's table at the top": ("[tool_policy]\nenabled = true", "'tool_policy' is not a setting. Of a plugin, write [plugins.tool_policy]; its own settings go under [plugins.tool_policy.config]."),
    "strange key": ("xyzzy = 1", "'xyzzy' is not a setting. Known: store, plugins_file, mcp, allow"),
    "plugin key": ("[plugins.x]\nenabeld = true", "'plugins.x.enabeld' is not a setting. Did you mean 'enabled'?"),
    "plugin setting in the wrong place": ("[plugins.x]\ncalls = 3", "'plugins.x.calls' is not a setting. The plugin's own settings go under [plugins.x.config]."),
    "choice": ('on_missing_grant = "disabled"', "'on_missing_grant': Input should be 'refuse' or 'disable' (got 'disabled'). Did you mean 'disable'?"),
    "drain": ('drain = "agentend"', "Did you mean 'agent_end'?"),
    "grant": ('[plugins.x]\ngrants = ["conversations"]', "(got 'conversations'). Did you mean 'conversation'?"),
    "hook": ("[timeouts]\nbefore_toolcall = 3", "'timeouts': 'before_toolcall' is not a hook. Did you mean 'before_tool_call'"),
    "plugin's hook": ("[plugins.x.timeouts]\nagentend = 3", "'agentend' is not a hook. Did you mean 'agent_end'"),
    "seconds": ("[timeouts]\nagent_end = 0", "'timeouts.agent_end': Input should be greater than 0 (got 0)"),
    "words for seconds": ('[timeouts]\nagent_end = "soon"', "'timeouts.agent_end': Input should be a valid number"),
    "list": ('deny = "a"', "'deny': Input should be a valid list (got 'a')"),
    "price": ('[prices."a:b"]\ninptu = 3', "'prices': 'a:b': 'inptu' is not a price. Did you mean 'input'?"),
    "price without a provider": ("[prices]\nclaude = 3", "'prices': 'claude' is no model: write PROVIDER:NAME"),
    "table": ("plugins = 3", "'plugins': Input should be a valid dictionary (got 3)"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_entry_is_named_with_its_file_and_what_to_write(project: Path, name: str) -> None:
    text, words = WRONG[name]
    (project / "hooksdk.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(project)
    assert str(caught.value).startswith(str(project / "hooksdk.toml"))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ('[plugins.tool_search]\nenabled = "auto"', "such as its own 'enabled', go under [plugins.tool_search.config]"),
        ('[plugins.tool_search]\nenabled = "on"', "such as its own 'enabled', go under [plugins.tool_search.config]"),
        ("[plugins.tool_search]\nenabled = 1", "such as its own 'enabled', go under [plugins.tool_search.config]"),
        ('[plugins.tool_search]\nmode = "code"', "such as its own 'mode', go under [plugins.tool_search.config]"),
        ("[plugins.tool_search]\nprefetch = 3", "The plugin's own settings go under [plugins.tool_search.config]"),
        ("[plugins]\ntool_policy = true", "Write a table: [plugins.tool_policy] with enabled = true"),
    ],
)
def test_a_setting_that_stands_one_level_too_high_is_answered_with_its_place(
    project: Path, text: str, advice: str
) -> None:
    user(project, text)
    with pytest.raises(ConfigError) as caught:
        load(project)
    assert advice in str(caught.value)


def test_every_wrong_entry_is_named_at_once(project: Path) -> None:
    (project / "hooksdk.toml").write_text('stoer = "x"\ndeny = 5\n[timeouts]\nagent_end = -1\n')
    with pytest.raises(ConfigError) as caught:
        load(project)
    assert len(caught.value.problems) == 3


def test_each_source_is_named_in_its_own_errors(project: Path) -> None:
    with pytest.raises(ConfigError, match=r"Host\(config=\.\.\.\): 'stor' is not a setting"):
        load(project, {"stor": 1})
    with pytest.raises(
        ConfigError, match=r"environment: 'HOOKSDK_STOR' is not a setting\. Did you mean 'HOOKSDK_STORE'"
    ):
        load(project, None, HOOKSDK_STOR="x")
    user(project, "stor = 1")
    with pytest.raises(ConfigError, match=r"config\.toml: 'stor' is not a setting"):
        load(project)
    (project.parent / "hooksdk" / "config.toml").unlink()
    (project / "pyproject.toml").write_text("[tool]\nhooksdk = 3\n")
    with pytest.raises(ConfigError, match=r"\[tool\.hooksdk\]: must be a table of settings, got 3"):
        load(project)


def test_a_file_that_is_not_toml_is_named(project: Path) -> None:
    (project / "hooksdk.toml").write_text("store = ")
    with pytest.raises(ConfigError, match=r"hooksdk\.toml: is not TOML: "):
        load(project)
    (project / "hooksdk.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"hooksdk\.toml: is not TOML: "):
        load(project)


def test_an_unknown_store_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        ConfigError,
        match=r"'memry' is not a store: memory, jsonl, jsonl:DIRECTORY, sqlite:///FILE or postgresql://USER@HOST/DATABASE\. Did you mean 'memory'",
    ):
        Host(config={"allow": [], "store": "memry"})


def test_the_hosts_folder_decides_which_project_counts(project: Path) -> None:
    (project / "hooksdk.toml").write_text('store = "memory"\nallow = []\n')
    assert Host(folder=project).config.store == "memory"
    assert Host(folder=str(project), config=Config(store="jsonl", allow=[])).config.store == "jsonl"


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().store = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
