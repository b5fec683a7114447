"""Where plugins come from, and which are loaded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooksdk import Host, MemoryStore, hooks
from hooksdk.errors import ConfigError, DuplicatePlugin, MissingGrant, PluginRefused
from hooksdk.hooks import GRANTS, BeforeToolCall, Block

CODE = """
from hooksdk import hooks, tool
from hooksdk.hooks import Block

class Guard:
    "Blocks everything."
    @hooks.before_tool_call
    def judge(self, event):
        return Block("installed")
"""
Install = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_built_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test installs is there."""
    from importlib.metadata import distributions

    from hooksdk._config import entry_points

    real = {one for one in sys.path if "site-packages" in one}

    def fakes() -> list[Any]:
        return list(distributions(path=[one for one in sys.path if one not in real]))

    monkeypatch.setattr(entry_points, "distributions", fakes)
    monkeypatch.setattr(entry_points, "read_entries", entry_points.read_entries.__wrapped__)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution on the path as pip would leave it."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def put(
        name: str, code: str | None = CODE, manifest: Any = None, *, target: str = "Guard", entry: str | None = None
    ) -> Path:
        package, info = site / f"fake_{name}", site / f"fake_{name}-1.2.dist-info"
        package.mkdir()
        info.mkdir()
        (package / "__init__.py").write_text("MARK = True\n" + (code or ""))
        if manifest is not False:
            (package / "hooksdk.plugin.json").write_text(json.dumps({"id": entry or name, **(manifest or {})}))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake-{name}\nVersion: 1.2\n")
        value = f"fake_{name}:{target}" if target else f"fake_{name}"
        (info / "entry_points.txt").write_text(f"[hooksdk.plugins]\n{entry or name} = {value}\n")
        sys.modules.pop(f"fake_{name}", None)
        return package

    return put


def host(config: dict[str, Any] | None = None, *plugins: Any, **options: Any) -> Host:
    return Host(plugins, store=MemoryStore(), config=config or {}, **options)


def enabled(*names: str, **config: Any) -> dict[str, Any]:
    """A configuration that names these plugins."""
    return {**config, "plugins": {name: {} for name in names or ["guard"]}}


def statuses(found: Host) -> dict[str, tuple[str, str]]:
    return {plugin.id: (plugin.status, plugin.reason) for plugin in found.plugins}


# Installed plugins


def test_an_installed_plugin_is_found_and_described(install: Install) -> None:
    install("guard", manifest={"description": "Guards.", "name": "Guard"})
    (told,) = host({"plugins": {"guard": {"grants": ["answer"]}}}).describe()
    assert told == {
        "id": "guard", "status": "loaded", "reason": "", "origin": "installed", "distribution": "fake-guard",
        "version": "1.2", "description": "Guards.", "permissions": [], "grants": ["answer"],
        "hooks": ["before_tool_call"], "tools": [],
    }  # fmt: skip


def test_a_module_is_a_plugin_too(install: Install) -> None:
    install("mod", "from hooksdk import hooks\n@hooks.before_tool_call\ndef judge(event): ...\n", target="")
    assert host(enabled("mod")).plugins[0].hooks == ["before_tool_call"]


@pytest.mark.parametrize(
    ("config", "status", "reason"),
    [
        ({}, "not enabled", "switch it on with: hooksdk plugins enable guard"),
        ({"plugins": {"Guard": {}}}, "loaded", ""),
        ({"allow": ["guard"]}, "loaded", ""),
        ({"allow": ["Gu-ard"]}, "not allowed", "not in the configuration's allow list"),
        ({"allow": ["GUARD"]}, "loaded", ""),
        ({"allow": []}, "not allowed", "not in the configuration's allow list"),
        (
            {"allow": [], "plugins": {"guard": {"enabled": True}}},
            "not allowed",
            "not in the configuration's allow list",
        ),
        ({"allow": ["guard"], "plugins": {"guard": {"enabled": False}}}, "off", "switched off by the configuration"),
        ({"deny": ["guard"], "allow": ["guard"], "plugins": {"guard": {}}}, "denied", "denied by the configuration"),
        ({"deny": ["guard"], "plugins": {"guard": {"enabled": False}}}, "denied", "denied by the configuration"),
    ],
)
def test_deny_beats_disabled_beats_allow_beats_default(install: Install, config: Any, status: str, reason: str) -> None:
    install("guard")
    assert statuses(host(config)) == {"guard": (status, reason)}
    assert ("fake_guard" in sys.modules) == (status == "loaded"), "what is not loaded is not imported"


@pytest.mark.parametrize("config", [{"deny": ["guard"]}, {"plugins": {"guard": {"enabled": False}}}])
def test_the_operator_can_switch_off_what_the_code_gives(config: Any) -> None:
    class Guard:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("no")

    found = host({"allow": [], **config}, Guard)
    assert [plugin.loaded for plugin in found.plugins] == [False]


def test_a_stranger_cannot_switch_itself_on(install: Install) -> None:
    install("guard", manifest={"enabledByDefault": True})
    assert statuses(host())["guard"] == ("not enabled", "switch it on with: hooksdk plugins enable guard")
    assert statuses(host(enabled()))["guard"] == ("loaded", "")


def test_a_plugin_given_in_code_goes_before_the_installed_one(install: Install) -> None:
    install("guard")

    class Guard:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return None

    found = host({}, Guard)
    assert [(plugin.origin, plugin.status) for plugin in found.plugins] == [("code", "loaded"), ("installed", "off")]
    assert "given in code" in found.plugins[1].reason


def test_installed_plugins_come_in_the_order_of_their_names_after_the_code(install: Install) -> None:
    install("b")
    install("a")

    class Zed:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return None

    assert [plugin.id for plugin in host(enabled("a", "b"), Zed).plugins] == ["zed", "a", "b"]


def test_two_installed_plugins_of_one_id_are_refused(install: Install) -> None:
    install("one", entry="same")
    install("two", entry="same")
    with pytest.raises(
        DuplicatePlugin, match="two plugins are called 'same': fake_one:Guard of fake-one and fake_two:"
    ):
        host(enabled("same"))
    assert [plugin.status for plugin in host().plugins] == ["not enabled", "not enabled"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"manifest": False}, "an installed plugin needs a manifest, and it has none. Its package needs a hooksdk.plugin.json beside fake_guard"),
        ({"manifest": {"id": "other"}}, "its manifest says id 'other', its entry point 'guard'. Make them equal"),
        ({"target": "Gard"}, "importing fake_guard:Gard raised AttributeError"),
        ({"code": "import no_such_module"}, "importing fake_guard:Guard raised ModuleNotFoundError: No module named 'no_such_module'"),
        ({"code": "raise SystemExit(3)"}, "importing fake_guard:Guard raised SystemExit: 3"),
        ({"code": "raise BaseException('odd')"}, "importing fake_guard:Guard raised BaseException: odd"),
        ({"code": "raise GeneratorExit"}, "importing fake_guard:Guard raised GeneratorExit"),
        ({"code": CODE + "\nGuard = Guard()\n"}, "it is an instance of Guard, not a module or class. Give the class itself (Guard, not Guard())"),
        ({"manifest": {"contracts": {"hooks": ["agent_end"]}}}, "its manifest does not list the hook 'before_tool_call'. List it under contracts.hooks, or remove it"),
        ({"manifest": {"contracts": {"hooks": []}}}, "its manifest does not list the hook 'before_tool_call'"),
        ({"code": CODE + "    @tool\n    def look(self) -> str: ...\n", "manifest": {"contracts": {"tools": ["see"]}}}, "its manifest does not list the tool 'look'. List it under contracts.tools"),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_refuses_the_host(install: Install, arguments: Any, words: str) -> None:
    install("guard", **arguments)
    with pytest.raises(PluginRefused) as caught:
        host({"plugins": {"guard": {"grants": ["offer"]}}})
    assert str(caught.value).startswith("plugin 'guard' refused: ")
    assert words in str(caught.value)


def test_listing_more_in_the_contract_than_is_registered_is_fine(install: Install) -> None:
    install(
        "guard", manifest={"contracts": {"hooks": ["before_tool_call", "agent_end", "future_hook"], "tools": ["a"]}}
    )
    assert host(enabled()).plugins[0].loaded


def test_the_configuration_is_checked_against_the_manifest_and_handed_over(install: Install) -> None:
    code = CODE + "    def __init__(self, config):\n        self.config = config\n"
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"limit": {"type": "integer", "default": 5}},
    }
    install("guard", code, {"configSchema": schema})
    assert host(enabled()).plugins[0].config == {"limit": 5}
    assert host({"plugins": {"guard": {"config": {"limit": 9}}}}).plugins[0].config == {"limit": 9}
    with pytest.raises(ConfigError, match=r"\[plugins\.guard\.config\]: config\.limit"):
        host({"plugins": {"guard": {"config": {"limit": "x"}}}})


def test_autoload_can_be_switched_off(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("guard")
    monkeypatch.setitem(os.environ, "HOOKSDK_DISABLE_AUTOLOAD", "1")
    assert host({"allow": ["guard"]}).plugins == ()


# Grants

READER = """
from hooksdk import hooks, tool, ToolContext
class Guard:
    @hooks.agent_end
    async def end(self, event): raise AssertionError
    @hooks.before_tool_call
    def judge(self, event): ...
    @hooks.before_model_call
    def read(self, event): raise AssertionError
    @tool
    async def shorten(self, context: ToolContext) -> str:
        "Shorten the first result."
        return (await context.results.trim("r1", "short")).status
"""


def test_an_installed_plugin_without_a_grant_refuses_the_host_and_prints_the_command(install: Install) -> None:
    install("guard", READER)
    with pytest.raises(MissingGrant) as caught:
        host(enabled())
    assert str(caught.value) == (
        "plugin 'guard' has no 'conversation' grant for before_model_call, agent_end and no 'offer' grant for its tools "
        "(shorten). Give it with: hooksdk plugins enable guard --grant conversation --grant offer"
    )


@pytest.mark.parametrize("word", GRANTS)
def test_a_plugin_that_only_asks_for_a_grant_needs_it_too(install: Install, word: str) -> None:
    install("guard", manifest={"permissions": [word]})
    with pytest.raises(MissingGrant, match=f"hooksdk plugins enable guard --grant {word}$"):
        host(enabled())
    assert host({"plugins": {"guard": {"grants": [word]}}}).plugins[0].loaded


def test_a_permission_that_nobody_knows_needs_no_grant(install: Install) -> None:
    install("guard", manifest={"permissions": ["root"]})
    assert host(enabled()).plugins[0].loaded


HOOKS_BY_GRANT = [
    ("rewrite_tool_call", "rewrite"), ("resolve_secrets", "secrets"), ("after_tool_call", "conversation"),
    ("transform_tool_result", "conversation"), ("assemble_tools", "offer"), ("unwrap_tool_call", "offer"),
]  # fmt: skip


@pytest.mark.parametrize(("hook", "word"), HOOKS_BY_GRANT)
def test_a_hook_that_sees_text_or_changes_something_needs_its_grant_whatever_the_manifest_says(
    install: Install, hook: str, word: str
) -> None:
    install("guard", f"from hooksdk import hooks\nclass Guard:\n    @hooks.{hook}\n    def handle(self, event): ...\n")
    with pytest.raises(MissingGrant, match=f"no '{word}' grant for {hook}. Give it with: .* --grant {word}$"):
        host(enabled())
    assert host({"plugins": {"guard": {"grants": [word]}}}).plugins[0].hooks == [hook]


@pytest.mark.parametrize("hook", [name for name, hook in hooks.HOOKS.items() if hook.grant is None])
def test_judging_narrowing_and_observing_without_text_need_no_grant(install: Install, hook: str) -> None:
    install("guard", f"from hooksdk import hooks\nclass Guard:\n    @hooks.{hook}\n    def handle(self, event): ...\n")
    assert host(enabled()).plugins[0].hooks == [hook]


def test_with_the_grants_everything_is_loaded(install: Install) -> None:
    install("guard", READER)
    (plugin,) = host({"plugins": {"guard": {"grants": ["conversation", "offer"]}}}).plugins
    assert plugin.hooks == ["before_model_call", "before_tool_call", "agent_end"]
    assert plugin.tools == ["shorten"]
    assert plugin.missing_grant is None


def test_plugins_given_in_code_need_no_grant() -> None:
    class Reads:
        @hooks.agent_end
        def end(self, event: hooks.AgentEnd) -> None:
            return None

    assert host({}, Reads).plugins[0].loaded


@pytest.mark.anyio
async def test_with_disable_those_hooks_are_left_out_and_a_queued_trim_fails_at_once(install: Install) -> None:
    install("guard", READER)
    config = {"on_missing_grant": "disable", "plugins": {"guard": {"grants": ["offer"]}}}
    async with host(config) as opened, opened.session("s") as session, session.run() as run:
        (plugin,) = opened.plugins
        assert plugin.hooks == ["before_tool_call"]
        assert "left out: before_model_call, agent_end" in plugin.reason
        assert "hooksdk plugins enable guard --grant conversation" in plugin.reason
        await run.resolve_tools([])
        await run.record({"role": "user", "content": "hi"})
        await run.prepare_messages()
        from hooksdk import ToolCall

        for call_id in ("c1", "c2"):
            function = {"name": "shorten", "arguments": "{}"}
            await run.record(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": call_id, "type": "function", "function": function}],
                }
            )
            result = await run.call_tool(ToolCall(call_id, "shorten", {}))
            assert result.is_error
        assert "has no 'conversation' grant" in result.text
        assert "hooksdk plugins enable guard --grant conversation" in result.text


# Several plugins in one package


def several(site: Path, **entries: str) -> Path:
    """A distribution with a module `norm` and these entry points."""
    package, info = site / "fake_handy", site / "fake_handy-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "norm.py").write_text(CODE + "\nclass Other(Guard): ...\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-handy\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[hooksdk.plugins]\n{lines}\n")
    for name in ("fake_handy", "fake_handy.norm"):
        sys.modules.pop(name, None)
    return package


@pytest.fixture
def package(install: Install, tmp_path: Path) -> Path:
    return several(tmp_path / "site", handy_norm="fake_handy.norm:Guard", handy_other="fake_handy.norm:Other")


def test_plugins_of_one_module_have_a_manifest_each(package: Path) -> None:
    for name in ("handy_norm", "handy_other"):
        (package / f"{name}.plugin.json").write_text(json.dumps({"id": name, "description": f"This is {name}."}))
    found = host(enabled("handy_norm", "handy_other"))
    assert [plugin["description"] for plugin in found.describe()] == ["This is handy_norm.", "This is handy_other."]


def test_one_manifest_for_two_plugins_is_told_with_the_file_that_is_missing(package: Path) -> None:
    (package / "hooksdk.plugin.json").write_text('{"id": "handy-norm"}')
    with pytest.raises(PluginRefused) as caught:
        host(enabled("handy_norm", "handy_other"))
    assert str(caught.value) == (
        "plugin 'handy_other' refused: its manifest says id 'handy-norm', its entry point 'handy_other'. That is another "
        "plugin's: this one needs a handy_other.plugin.json beside it (hooksdk plugins manifest --write)"
    )


def test_a_broken_manifest_is_told_under_the_plugin_s_id(package: Path) -> None:
    (package / "hooksdk.plugin.json").write_text("{")
    with pytest.raises(PluginRefused, match=r"plugin 'handy_norm' refused: its manifest .* is not JSON"):
        host(enabled("handy_norm"))


@pytest.mark.parametrize("manifest", ["", '{"id": "handy"}'])
def test_an_entry_point_with_a_misspelt_module_says_that_there_is_none(
    manifest: str, install: Install, tmp_path: Path
) -> None:
    package = several(tmp_path / "site", handy_norm="fake_handy.nrom:Guard")
    if manifest:
        (package / "hooksdk.plugin.json").write_text(manifest)
    with pytest.raises(PluginRefused) as caught:
        host(enabled("handy_norm"))
    assert str(caught.value) == (
        "plugin 'handy_norm' refused: its entry point names 'fake_handy.nrom', and there is no module 'fake_handy.nrom'. "
        "Did you mean 'fake_handy.norm'?"
    )


def test_a_slip_in_a_manifest_is_logged_when_its_plugin_is_loaded(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("guard", manifest={"hooks": [], "skills": [], "permissions": ["offers"]})
    host(enabled())
    assert [record.getMessage() for record in caplog.records] == [
        "plugin 'guard': its manifest: 'hooks' is not a key that hooksdk knows; it is ignored. Did you mean 'contracts.hooks'?",
        "plugin 'guard': its manifest: permissions: 'offers' is not a permission. Did you mean 'offer'? It is ignored",
    ]
    caplog.clear()
    host()
    assert "its manifest" not in caplog.text, "nobody has enabled it"


def test_an_installed_plugin_that_nobody_named_stops_no_host_whatever_it_needs(install: Install) -> None:
    install("guard", CODE + "    @hooks.transform_tool_result\n    def look(self, event): ...\n")
    assert statuses(host())["guard"][0] == "not enabled"


# The plugins file


def test_a_projects_plugins_file_is_loaded_only_when_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "hooksdk_plugins.py").write_text(
        "from hooksdk import hooks\nfrom collections import OrderedDict\n"
        "@hooks.before_tool_call\ndef judge(event): ...\n"
        "class Budget:\n    @hooks.agent_end\n    def end(self, event): ...\n"
        "class Helper: ...\n"
    )
    assert host(folder=tmp_path).plugins == ()
    found = host({"plugins_file": True}, folder=tmp_path).plugins
    assert [(plugin.id, plugin.hooks) for plugin in found] == [
        ("hooksdk_plugins", ["before_tool_call"]), ("budget", ["agent_end"]),
    ]  # fmt: skip
    assert found[0].origin == str(tmp_path / "hooksdk_plugins.py")


def test_a_plugins_file_of_any_name_has_its_neighbours_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "budgets_beside.py").write_text(
        "from hooksdk import hooks\nclass Budget:\n    @hooks.agent_end\n    def end(self, event): ...\n"
    )
    (tmp_path / "mine.py").write_text("from budgets_beside import Budget\n")
    assert [plugin.id for plugin in host({"plugins_file": "mine.py"}, folder=tmp_path).plugins] == ["budget"]
    del sys.modules["budgets_beside"]


def test_a_plugins_file_takes_no_importable_modules_place(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("from hooksdk import hooks\n@hooks.before_tool_call\ndef judge(event): ...\n")
    (plugin,) = host({"plugins_file": "json.py"}, folder=tmp_path).plugins
    assert plugin.id == "json"
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "does not exist"),
        ("1 / 0", "raised ZeroDivisionError"),
        ("raise SystemExit", "raised SystemExit"),
        ("def (", "raised SyntaxError"),
    ],
)
def test_a_plugins_file_that_fails_refuses_the_host(tmp_path: Path, code: str | None, words: str) -> None:
    sys.modules.pop("hooksdk_plugins", None)
    if code is not None:
        (tmp_path / "hooksdk_plugins.py").write_text(code)
    with pytest.raises(PluginRefused, match=words):
        host({"plugins_file": True}, folder=tmp_path)
    assert "hooksdk_plugins" not in sys.modules
