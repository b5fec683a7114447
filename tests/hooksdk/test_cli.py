"""The command: what a person types, and what they read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import write_user_file
from warm import Done, run

pytestmark = pytest.mark.heavy

BASE = {name: value for name, value in os.environ.items() if not name.startswith("HOOKSDK_")}


def hooksdk(*arguments: str, folder: Path, **environment: str) -> Done:
    """Run the command in a folder of its own, with the user's configuration out of the way."""
    own = {"XDG_CONFIG_HOME": str(folder / "none"), "COLUMNS": "200"}
    return run(arguments, folder=folder, environment={**BASE, **own, **environment})


def test_plugins_list_names_every_built_in_with_its_status(tmp_path: Path) -> None:
    done = hooksdk("plugins", "list", "--json", folder=tmp_path)
    listed = {plugin["id"]: plugin["status"] for plugin in done.json()["plugins"]}
    assert done.code == 0
    assert listed == {
        "audit": "off",
        "catalog_audit": "off",
        "clear_tool_results": "off",
        "no_repeats": "off",
        "secrets": "off",
        "tool_policy": "off",
        "tool_results": "off",
        "tool_search": "loaded",
        "telemetry": "off",
        "trace_file": "off",
    }


def test_plugins_list_shows_a_table_with_reasons(tmp_path: Path) -> None:
    done = hooksdk("plugins", "list", folder=tmp_path)
    assert "tool_search" in done.out
    assert "`hooksdk plugins enable ID` switches one on" in done.out
    assert "hooks: " not in done.out  # of a built-in plugin `plugins inspect` says it


def test_plugins_list_begins_with_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from hooksdk import hooks\n@hooks.trace\ndef trace(event): ...\n")
    done = hooksdk("plugins", "list", "--plugin", "own.py", folder=tmp_path)
    assert done.out.splitlines()[1].split()[:3] == ["own", "loaded", "code"]
    assert "hooks: trace" in done.out
    assert len(done.out.splitlines()) < 80


def test_the_help_has_the_commands_in_groups_guard_and_gateway_in_the_first_and_the_docs_address(
    tmp_path: Path,
) -> None:
    from hooksdk.cli._groups import _MODULES, _PANELS  # pyright: ignore[reportPrivateUsage] - no command is in no group

    done = hooksdk("--help", folder=tmp_path)
    first, second = done.out.index("Start here"), done.out.index("Rules and approvals")
    assert first < done.out.index("guard ") < second
    assert first < done.out.index("gateway ") < second
    assert "Documentation: https://hooksdk.readthedocs.io" in done.out
    assert {name for names in _PANELS.values() for name in names} == {"demo", *_MODULES}
    assert hooksdk("-V", folder=tmp_path).out == hooksdk("--version", folder=tmp_path).out


def test_a_denied_plugin_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('deny = ["tool_search"]\n')
    done = hooksdk("plugins", "list", "--json", folder=tmp_path)
    plugin = next(one for one in done.json()["plugins"] if one["id"] == "tool_search")
    assert (plugin["status"], plugin["reason"]) == ("denied", "denied by the configuration")


def test_enabling_writes_the_section_and_keeps_every_comment(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('# ours\nstore = "memory"  # for now\n')
    done = hooksdk("plugins", "enable", "tool-results", folder=tmp_path)
    written = (tmp_path / "hooksdk.toml").read_text()
    assert done.code == 0
    assert "# ours" in written
    assert "# for now" in written
    listed = hooksdk("plugins", "list", "--json", folder=tmp_path).json()["plugins"]
    assert next(one for one in listed if one["id"] == "tool_results")["status"] == "loaded"


def test_disabling_switches_a_plugin_off(tmp_path: Path) -> None:
    assert hooksdk("plugins", "disable", "tool_search", folder=tmp_path).code == 0
    listed = hooksdk("plugins", "list", "--json", folder=tmp_path).json()["plugins"]
    assert next(one for one in listed if one["id"] == "tool_search")["status"] == "off"


def test_enabling_in_a_project_that_configures_in_pyproject_writes_there(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.hooksdk]\nstore = "memory"\n')
    assert hooksdk("plugins", "enable", "tool_results", folder=tmp_path).code == 0
    assert "[tool.hooksdk.plugins.tool_results]" in (tmp_path / "pyproject.toml").read_text()
    assert not (tmp_path / "hooksdk.toml").exists()


def test_enabling_a_plugin_that_is_not_loaded_even_so_says_why(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('deny = ["tool_results"]\n')
    done = hooksdk("plugins", "enable", "tool_results", folder=tmp_path)
    assert (done.code, done.out) == (1, "tool_results is on: hooksdk.toml\n")
    assert "it is not loaded yet (denied): denied by the configuration" in done.err


def test_enabling_a_built_in_that_needs_settings_says_which_and_what_to_write(tmp_path: Path) -> None:
    done = hooksdk("plugins", "enable", "tool_policy", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "every host here would refuse to start, so nothing was written" in done.err
    assert "[plugins.tool_policy.config]: there are no rules; write one, such as {action = " in done.err
    assert not (tmp_path / "hooksdk.toml").exists()
    rules = '[plugins.tool_policy]\nconfig = { rules = [{ action = "deny", tools = "delete_*" }] }\n'
    (tmp_path / "hooksdk.toml").write_text(rules)
    assert hooksdk("plugins", "enable", "tool_policy", folder=tmp_path).code == 0


def test_two_spellings_of_one_plugin_are_told_by_config_show(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("[plugins.tool-search]\n[plugins.tool_search]\nenabled = false\n")
    done = hooksdk("config", "show", folder=tmp_path)
    assert "'plugins.tool-search' and 'plugins.tool_search' are one plugin" in done.err


@pytest.mark.skipif(os.name == "nt", reason="no modes there")
def test_the_project_s_file_can_be_read_by_all_and_keeps_its_mode(tmp_path: Path) -> None:
    hooksdk("plugins", "enable", "tool_results", folder=tmp_path)
    assert (tmp_path / "hooksdk.toml").stat().st_mode & 0o777 == 0o644
    (tmp_path / "hooksdk.toml").chmod(0o660)
    hooksdk("plugins", "disable", "tool_results", folder=tmp_path)
    assert (tmp_path / "hooksdk.toml").stat().st_mode & 0o777 == 0o660


def test_a_section_for_no_plugin_is_told_with_the_list(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("[plugins.tool_serch]\n")
    done = hooksdk("plugins", "list", folder=tmp_path)
    assert "[plugins.tool_serch] is for a plugin that is not installed here. Did you mean 'tool_search'?" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("plugins", "enable", "tool_serch"), 1, "Did you mean 'tool_search'?"),
        (
            ("plugins", "enable", "tool_search", "--grant", "conversaton"),
            2,
            "'conversaton' is not a grant. Did you mean 'conversation'?",
        ),
        (("plugins", "lst"), 2, "Did you mean 'list'?"),
        (("plugins", "list", "--jsn"), 2, "--json"),
        (("demo", "--json", "--interactive"), 2, "leave --interactive out"),
        (("dmo",), 2, "Did you mean 'demo'?"),
    ],
)
def test_a_slip_is_one_line_with_what_was_meant(
    arguments: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    done = hooksdk(*arguments, folder=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "hooksdk.toml").exists()


def test_a_misspelt_setting_names_file_and_setting_and_suggests(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("[plugins.tool_search]\nenabeld = true\n")
    done = hooksdk("plugins", "list", folder=tmp_path)
    assert done.code == 3
    assert "hooksdk.toml: 'plugins.tool_search.enabeld' is not a setting. Did you mean 'enabled'?" in done.err


def test_a_plugin_that_is_configured_wrongly_is_told_when_it_is_looked_at_at_runtime(tmp_path: Path) -> None:
    write_user_file(tmp_path, "[plugins.tool_search.config]\nthreshold = 5\n")
    done = hooksdk("plugins", "inspect", "tool_search", "--runtime", "--json", folder=tmp_path)
    runtime = done.json()["runtime"]
    assert done.code == 1
    assert runtime["outcome"] == "refused"
    assert "'threshold' is not a setting. Did you mean 'threshold_pct'?" in runtime["problem"]
    assert runtime["hooks"] == [
        "assemble_tools", "before_model_call", "unwrap_tool_call", "transform_tool_result", "after_tool_call",
    ]  # fmt: skip


def test_the_version_is_told(tmp_path: Path) -> None:
    assert hooksdk("--version", folder=tmp_path).out.startswith("hooksdk 0.")


def test_nothing_asked_shows_the_help(tmp_path: Path) -> None:
    done = hooksdk(folder=tmp_path)
    assert "demo" in done.out
    assert "plugins" in done.out


@pytest.mark.parametrize("command", [(), ("tools", "list"), ("plugins",)])
def test_the_short_option_for_help_is_the_long_one(command: tuple[str, ...], tmp_path: Path) -> None:
    short, long = (hooksdk(*command, option, folder=tmp_path) for option in ("-h", "--help"))
    assert (short.code, short.out) == (0, long.out)
    assert "Usage" in short.out
    assert "bool" not in short.out
