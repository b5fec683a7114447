"""Plugins that are named in words: a file, a package's folder, `module:Class`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from hooksdk.errors import HookUseError, PluginRefused
from hooksdk.host import plugins_at

POLICY = """
from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall


class Watches:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> None: ...
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = {**sys.modules}
    yield tmp_path
    for name in set(sys.modules) - set(known):
        del sys.modules[name]


def test_a_file_gives_its_classes_and_may_import_its_neighbours(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "given_words.py").write_text("WORD = 1\n")
    (folder / "elsewhere" / "given_one.py").write_text(POLICY + "\nfrom given_words import WORD\n")
    (plugin,) = plugins_at("elsewhere/given_one.py")
    assert plugin.__name__ == "Watches"


def test_a_file_with_handlers_of_its_own_is_a_plugin_too(folder: Path) -> None:
    own = "\n\n@hooks.before_tool_call\ndef judge(event: BeforeToolCall) -> None: ...\n"
    (folder / "given_two.py").write_text(POLICY + own)
    module, plugin = plugins_at(folder / "given_two.py")
    assert isinstance(module, ModuleType)
    assert (module.__name__, plugin.__name__) == ("given_two", "Watches")


def test_a_list_in_the_file_says_which_plugins_are_meant(folder: Path) -> None:
    (folder / "given_three.py").write_text(POLICY + "\nclass Twin(Watches): ...\n\n\nplugins = [Twin]\n")
    assert [one.__name__ for one in plugins_at("given_three.py")] == ["Twin"]


def test_a_packages_folder_is_its_module(folder: Path) -> None:
    (folder / "given_pack").mkdir()
    (folder / "given_pack" / "__init__.py").write_text(POLICY)
    assert [one.__name__ for one in plugins_at(folder / "given_pack")] == ["Watches"]


def test_a_file_does_not_take_the_place_of_a_module_of_its_name(folder: Path) -> None:
    import json

    (folder / "json.py").write_text(POLICY)
    assert [one.__name__ for one in plugins_at("json.py")] == ["Watches"]
    assert sys.modules["json"] is json


def test_a_class_is_named_with_its_module_and_a_module_alone(folder: Path) -> None:
    (folder / "given_four.py").write_text(POLICY)
    assert plugins_at("given_four:Watches")[0].__name__ == "Watches"
    assert isinstance(plugins_at("given_four:")[0], ModuleType)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("given_fiv.py", "given_fiv.py. Did you mean 'given_five.py'?"),
        ("given_five:Watch", "given_five.py. Did you mean 'Watches'?"),
        ("given_nothing:Watches", "there is no module 'given_nothing'. Did you mean 'given_five'?"),
        ("broken.py", "raised ZeroDivisionError"),
        ("ends.py", "raised SystemExit"),
        ("empty.py", "yields no plugin"),
        ("notes.txt/", "there is no file "),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_the_cause(folder: Path, place: str, message: str) -> None:
    (folder / "given_five.py").write_text(POLICY)
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "ends.py").write_text("raise SystemExit\n")
    (folder / "empty.py").write_text("")
    with pytest.raises(PluginRefused) as error:
        plugins_at(place)
    assert message in str(error.value)
    assert "broken" not in sys.modules


def test_a_misused_decorator_stays_the_error_that_it_is(folder: Path) -> None:
    (folder / "misused.py").write_text(POLICY.replace("self, event: BeforeToolCall", "self, call"))
    with pytest.raises(HookUseError):
        plugins_at("misused.py")
