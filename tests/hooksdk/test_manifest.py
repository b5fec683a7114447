"""What a plugin says of itself in its manifest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hooksdk.errors import ConfigError, PluginRefused
from hooksdk.manifest import find_manifest, missing_part, read_manifest

# The keys are OpenClaw's own, as its 2026 manifests use them.
OPENCLAW: dict[str, Any] = {
    "id": "web-readability",
    "name": "Web Readability",
    "description": "Reads a page as an article.",
    "version": "2026.9.6",
    "enabledByDefault": True,
    "enabledByDefaultOnPlatforms": ["darwin"],
    "activation": {"onStartup": False, "onCapabilities": ["tool"]},
    "contracts": {"tools": ["read_article"], "webContentExtractors": ["readability"]},
    "toolMetadata": {"read_article": {"replaySafe": True}},
    "uiHints": {"timeoutMs": {"label": "Timeout", "advanced": True}},
    "skills": [],
    "configSchema": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "timeoutMs": {"type": "integer", "minimum": 100, "default": 5000},
            "site": {"type": "object", "default": {}, "properties": {"lang": {"type": "string", "default": "en"}}},
            "mode": {"enum": ["text", "markdown"]},
        },
    },
}


def write(folder: Path, data: object, name: str = "hooksdk.plugin.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_an_openclaw_manifest_loads_unchanged(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, OPENCLAW, "openclaw.plugin.json"))
    assert (manifest.id, manifest.name, manifest.version) == ("web-readability", "Web Readability", "2026.9.6")
    assert manifest.contracts.tools == ["read_article"]
    assert manifest.contracts.hooks is None
    assert manifest.activation.on_startup is False
    assert manifest.enabled_by_default is True
    assert manifest.permissions == []


def test_keys_that_are_not_known_are_a_notice_each(tmp_path: Path) -> None:
    notices = read_manifest(write(tmp_path, OPENCLAW)).notices
    assert [notice.split("'")[1] for notice in notices] == [
        "enabledByDefaultOnPlatforms", "toolMetadata", "uiHints", "skills", "contracts.webContentExtractors",
    ]  # fmt: skip
    assert all("not a key that hooksdk knows" in notice for notice in notices)


def test_a_key_or_a_permission_that_looks_like_a_slip_is_told_with_what_was_meant(tmp_path: Path) -> None:
    data: dict[str, Any] = {
        "id": "x", "hooks": ["agent_end"], "permission": [], "kind": "tool", "contracts": {"tool": []},
        "permissions": ["conversations"],
    }  # fmt: skip
    manifest = read_manifest(write(tmp_path, data))
    assert [slip.partition("'")[2] for slip in manifest.slips] == [
        "hooks' is not a key that hooksdk knows; it is ignored. Did you mean 'contracts.hooks'?",
        "permission' is not a key that hooksdk knows; it is ignored. Did you mean 'permissions' or 'version'?",
        "contracts.tool' is not a key that hooksdk knows; it is ignored. Did you mean 'tools'?",
        "conversations' is not a permission. Did you mean 'conversation'? It is ignored",
    ]
    assert len(manifest.notices) == 5, "'kind' may be meant for another program"


def test_only_the_id_is_required(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, {"id": "x"}))
    assert manifest.check_config({"any": 1}, "here") == {"any": 1}
    assert manifest.notices == []


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hooksdk.plugin.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"id": "x"}).encode())
    assert read_manifest(path).id == "x"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "is wrong: Input should be"),
        ({}, "is wrong: 'id': Field required"),
        ({"id": ""}, "'id': String should have at least 1 character"),
        ({"id": "x", "contracts": {"tools": "a"}, "permissions": 3}, "'contracts.tools': Input should be a valid list; 'permissions': "),
        ({"id": "x", "configSchema": []}, "'configSchema': Input should be a valid dictionary"),
    ],
    ids=["torn", "deep", "list", "no id", "empty id", "wrong lists", "wrong schema"],
)  # fmt: skip
def test_a_manifest_that_cannot_be_read_is_refused_with_every_wrong_entry(
    tmp_path: Path, data: object, words: str
) -> None:
    path = write(tmp_path / "plug", data)
    with pytest.raises(PluginRefused) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"plugin 'plug' refused: its manifest {path} ")
    assert words in str(caught.value)


def test_a_wrong_manifest_is_told_under_the_plugin_s_id_where_that_is_known(tmp_path: Path) -> None:
    with pytest.raises(PluginRefused, match=r"plugin 'handy_norm' refused: its manifest .* is not JSON"):
        read_manifest(write(tmp_path / "norm", "{"), "handy_norm")


def test_a_manifest_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginRefused, match="cannot be read: No such file"):
        read_manifest(tmp_path / "hooksdk.plugin.json")


# Configuration


def test_the_configuration_is_checked_and_its_defaults_filled_in(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, OPENCLAW))
    assert manifest.check_config({}, "here") == {"timeoutMs": 5000, "site": {"lang": "en"}}
    assert manifest.check_config({"timeoutMs": 200, "site": {"lang": "fr"}}, "here") == {
        "timeoutMs": 200,
        "site": {"lang": "fr"},
    }


def test_defaults_are_fresh_each_time(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, OPENCLAW))
    manifest.check_config({}, "here")["site"]["lang"] = "xx"
    assert manifest.check_config({}, "here")["site"] == {"lang": "en"}


def test_the_operators_configuration_is_left_as_it_was(tmp_path: Path) -> None:
    given: dict[str, Any] = {"site": {}}
    read_manifest(write(tmp_path, OPENCLAW)).check_config(given, "here")
    assert given == {"site": {}}


def test_every_wrong_setting_is_named_with_its_path(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, OPENCLAW))
    with pytest.raises(ConfigError) as caught:
        manifest.check_config(
            {"timeoutMs": 5, "site": {"lang": 3}, "mode": "html", "tmeoutMs": 9}, "[plugins.web.config]"
        )
    text = str(caught.value)
    assert text.startswith("[plugins.web.config]:")
    assert len(caught.value.problems) == 4
    for path in ("config.timeoutMs", "config.site.lang", "config.mode", "tmeoutMs"):
        assert path in text


def test_a_config_schema_that_is_none_is_refused(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, {"id": "x", "configSchema": {"type": "objekt"}}))
    with pytest.raises(PluginRefused, match="its configSchema is not a JSON Schema"):
        manifest.check_config({}, "here")


# Found without running any code

BOOM = "raise SystemExit('the code was run')\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_a_manifest_is_found_beside_a_package_a_submodule_and_a_plain_module(site: Path) -> None:
    write(site / "plug_a", {"id": "a"})
    write(site / "plug_a" / "inner", {"id": "b"})
    for path in (
        "plug_a/__init__.py",
        "plug_a/part.py",
        "plug_a/inner/__init__.py",
        "plug_a/inner/part.py",
        "plug_single.py",
    ):
        (site / path).write_text(BOOM)
    single = write(site, {"id": "c"})
    assert find_manifest("plug_a") == site / "plug_a" / "hooksdk.plugin.json"
    assert find_manifest("plug_a.part") == site / "plug_a" / "hooksdk.plugin.json"
    assert find_manifest("plug_a.inner") == site / "plug_a" / "inner" / "hooksdk.plugin.json"
    assert find_manifest("plug_a.inner.part") == site / "plug_a" / "inner" / "hooksdk.plugin.json"
    assert find_manifest("plug_single") == single
    assert not any(name.startswith("plug_") for name in sys.modules)


@pytest.mark.parametrize("name", ["short_notes.plugin.json", "short-notes.plugin.json"])
def test_a_plugin_s_own_manifest_goes_before_that_of_its_folder(name: str, site: Path) -> None:
    own = write(site / "plug_many", {"id": "short-notes"}, name)
    shared = write(site / "plug_many", {"id": "other"})
    (site / "plug_many" / "__init__.py").write_text("")
    (site / "plug_many" / "notes.py").write_text("")
    assert find_manifest("plug_many.notes", "short-notes") == own
    assert find_manifest("plug_many.notes", "other") == find_manifest("plug_many.notes") == shared
    assert find_manifest("plug_many.notes", "../plug_many/short_notes") == shared, "an id is no path"


def test_what_of_a_module_is_missing_is_named_with_the_nearest_that_is_there(site: Path) -> None:
    (site / "plug_c" / "inner").mkdir(parents=True)
    for name in ("__init__.py", "norm.py", "inner/__init__.py"):
        (site / "plug_c" / name).write_text("raise RuntimeError('nobody imports it')\n")
    assert missing_part("plug_c.norm") == missing_part("plug_c.inner") == missing_part("plug_c") == ""
    assert missing_part("plug_c.nrom") == "'plug_c.nrom'. Did you mean 'plug_c.norm'?"
    assert missing_part("plug_c.inner.deep") == "'plug_c.inner.deep'."
    assert missing_part("plug_c.norm.deep") == "'plug_c.norm.deep'."
    assert missing_part("plug_nowhere.norm") == "'plug_nowhere'."


def test_our_name_goes_before_the_ancestors_name(site: Path) -> None:
    (site / "plug_b").mkdir()
    (site / "plug_b" / "__init__.py").write_text(BOOM)
    old = write(site / "plug_b", {"id": "old"}, "openclaw.plugin.json")
    assert find_manifest("plug_b") == old
    new = write(site / "plug_b", {"id": "new"})
    assert find_manifest("plug_b") == new


@pytest.mark.parametrize("module", ["no_such_plugin_at_all", "no_such.part", "", ".", "json.decoder"])
def test_no_manifest_is_none(module: str, site: Path) -> None:
    assert find_manifest(module) is None


def test_a_namespace_package_is_looked_into(site: Path) -> None:
    found = write(site / "plug_ns" / "real", {"id": "x"})
    (site / "plug_ns" / "real" / "__init__.py").write_text(BOOM)
    assert find_manifest("plug_ns.real") == found
