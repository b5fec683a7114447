"""`hooksdk plugins new` and `hooksdk plugins manifest`: packages to begin with, and manifests made of code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hooksdk.cli._app import run
from hooksdk.cli._plugins.authoring import EXAMPLE, drafts
from hooksdk.cli._plugins.validation import validate
from hooksdk.errors import PluginRefused


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, which is empty; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield tmp_path
    for name in [name for name in sys.modules if name not in before]:
        del sys.modules[name]


def forget(*packages: str) -> None:
    """Forget what was imported of packages whose code changes."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["call-budget", "Call Budget", "call_budget", "CallBudget", " call.budget "])
def test_a_name_is_written_as_each_place_wants_it(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "new", name, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["folder"], made["plugins"]) == ("call-budget", ["call_budget"])
    assert "class CallBudget:" in (folder / "call-budget/src/call_budget/__init__.py").read_text()
    assert made["files"] == sorted(
        str(path.relative_to("call-budget"))
        for path in Path("call-budget").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def test_the_person_reads_what_was_made_and_what_to_type_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "new", "budget"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "made    budget: budget/src/budget/__init__.py",
        "next    cd budget",
        "        pip install -e '.[dev]'",
        "        pytest",
        "        hooksdk plugins enable budget    # in the project that is to use it",
    ]


def test_the_prefix_of_a_package_is_not_in_its_plugin_s_id(folder: Path) -> None:
    run(["plugins", "new", "hooksdk-budget"])
    manifest = json.loads((folder / "hooksdk-budget/src/hooksdk_budget/hooksdk.plugin.json").read_text())
    assert manifest["id"] == "budget"


def test_several_plugins_are_a_module_and_a_manifest_each(folder: Path) -> None:
    run(["plugins", "new", "handy", "--plugin", "notes", "--plugin", "Short Names"])
    source = folder / "handy/src/handy"
    assert sorted(path.name for path in source.iterdir() if path.is_file()) == [
        "__init__.py", "notes.plugin.json", "notes.py", "py.typed", "short_names.plugin.json", "short_names.py",
    ]  # fmt: skip
    assert sorted(path.name for path in (folder / "handy/tests").iterdir()) == ["test_notes.py", "test_short_names.py"]


@pytest.mark.parametrize("arguments", [["budget"], ["handy", "--plugin", "notes", "--plugin", "names"]])
def test_what_is_made_is_valid_and_its_manifests_are_as_its_code_says(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["plugins", "new", *arguments])
    validation = validate(folder / arguments[0])
    assert (validation.problems, validation.notices) == ([], [])
    capsys.readouterr()
    assert run(["plugins", "manifest", arguments[0]]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {"fine"}


def test_a_folder_that_is_there_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "budget").mkdir()
    assert run(["plugins", "new", "budget"]) == 1
    assert capsys.readouterr().err == "hooksdk: budget exists already: choose another name, or move it away\n"
    assert list((folder / "budget").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["3 things"], "'3 things' cannot be a Python module"),
        (["größe"], "'größe' cannot be a Python module"),
        (["class"], "'class' cannot be a Python module"),
        (["../away"], "'../away' cannot be a Python module"),
        (["x" * 41], "at most 40"),
        (["json"], "there is a module 'json' already"),
        (["pydantic"], "there is a module 'pydantic' already"),
        (["tool-search"], "'tool_search' is a built-in plugin's id"),
        (["mine", "--plugin", "secrets"], "'secrets' is a built-in plugin's id"),
        (["mine", "--plugin", "a b", "--plugin", "a-b"], "two plugins of one id"),
    ],
)
def test_a_name_that_would_not_work_is_refused_before_anything_is_made(
    arguments: list[str], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plugins", "new", *arguments]) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert len(captured.err.splitlines()) == 1
    assert list(folder.iterdir()) == []


# Manifests


CODE = """
from pydantic import BaseModel
from hooksdk import hooks, tool
from hooksdk.hooks import AfterToolCall, Answer, BeforeToolCall, Block

class Guard:
    "Guards what is dear."

    class Config(BaseModel):
        dear: list[str] = []

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | Answer | None: ...

    @hooks.after_tool_call
    def look(self, event: AfterToolCall) -> None: ...

    @tool
    def guarded(self) -> int:
        "How many."
        return 0
"""


def project(folder: Path, code: str = CODE, known: dict[str, Any] | None = None, **entries: str) -> Path:
    """A project of one package, `dear`, with these entry points."""
    package = folder / "src" / "dear"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(code)
    lines = [f'{name} = "{value}"' for name, value in (entries or {"guard": "dear:Guard"}).items()]
    (folder / "pyproject.toml").write_text('[project.entry-points."hooksdk.plugins"]\n' + "\n".join(lines))
    if known is not None:
        (package / "hooksdk.plugin.json").write_text(json.dumps(known))
    return package


def test_a_manifest_has_the_hooks_the_tools_the_grants_and_the_settings_of_the_code(folder: Path) -> None:
    package = project(folder)
    (draft,) = drafts(folder)
    assert draft.path == package / "hooksdk.plugin.json"
    schema = draft.document["configSchema"]
    assert dict(draft.document, configSchema=None) == {
        "id": "guard", "name": "Guard", "description": "Guards what is dear.",
        "contracts": {"hooks": ["before_tool_call", "after_tool_call"], "tools": ["guarded"]},
        "permissions": ["conversation", "answer", "offer"], "configSchema": None,
    }  # fmt: skip
    assert (list(schema["properties"]), schema["additionalProperties"]) == (["dear"], False)


def test_what_only_the_author_knows_stays_and_what_the_code_tells_is_written_anew(folder: Path) -> None:
    known = {
        "id": "old", "name": "The guard", "description": "Mine.", "version": "7", "activation": {"onStartup": True},
        "contracts": {"hooks": ["agent_end"], "tools": ["gone"]}, "permissions": ["rewrite", "conversation"],
    }  # fmt: skip
    project(
        folder,
        CODE.replace("@hooks.after_tool_call", "@hooks.session_end").replace("AfterToolCall", "SessionEnd"),
        known,
    )
    (draft,) = drafts(folder)
    kept = {key: draft.document[key] for key in ("id", "name", "description", "version", "activation")}
    assert kept == {**{key: known[key] for key in kept}, "id": "guard"}
    assert draft.document["contracts"] == {"hooks": ["before_tool_call", "session_end"], "tools": ["guarded"]}
    assert draft.document["permissions"] == ["conversation", "answer", "offer"], "no hook rewrites; a tool may read"
    assert draft.differing == ["id", "contracts", "permissions", "configSchema"]


def test_tools_that_are_offered_at_run_time_stay_in_the_contract(folder: Path) -> None:
    code = (
        "from hooksdk import hooks\n\n"
        "class Guard:\n    @hooks.assemble_tools\n    def offer(self, event: hooks.AssembleTools) -> None: ...\n"
    )
    project(folder, code, {"id": "guard", "contracts": {"tools": ["later"]}})
    (draft,) = drafts(folder)
    assert draft.document["contracts"]["tools"] == ["later"]


def test_a_manifest_that_differs_is_told_and_written_on_request(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = project(folder, known={"id": "guard"})
    assert run(["plugins", "manifest"]) == 1
    told = "differs  src/dear/hooksdk.plugin.json: name, description, contracts, permissions, configSchema"
    assert capsys.readouterr().out.splitlines()[0] == told
    assert json.loads((package / "hooksdk.plugin.json").read_text()) == {"id": "guard"}
    forget("dear")
    assert run(["plugins", "manifest", "--write"]) == 0
    assert capsys.readouterr().out.startswith("written  src/dear/hooksdk.plugin.json: name, ")
    forget("dear")
    assert run(["plugins", "manifest", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)["manifests"]
    assert (document["plugin"], document["differing"]) == ("guard", [])


def test_a_second_plugin_of_the_same_folder_gets_a_manifest_of_its_own(folder: Path) -> None:
    package = project(folder, known={"id": "guard"}, guard="dear:Guard", watch="dear.watch:Watch")
    (package / "watch.py").write_text(CODE.replace("class Guard", "class Watch"))
    assert [draft.path.name for draft in drafts(folder)] == ["hooksdk.plugin.json", "watch.plugin.json"]


def test_two_classes_of_one_module_get_a_manifest_each(folder: Path) -> None:
    project(folder, CODE + "\nclass Other(Guard): ...\n", guard="dear:Guard", other="dear:Other")
    assert [draft.path.name for draft in drafts(folder)] == ["guard.plugin.json", "other.plugin.json"]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"guard": "dear.away:Guard"}, "its entry point names the module 'dear.away', which is not there"),
        ({"guard": "dear:Gaurd"}, "there is no 'Gaurd' in "),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_told(entries: dict[str, str], told: str, folder: Path) -> None:
    project(folder, CODE, None, **entries)
    with pytest.raises(PluginRefused, match="plugin 'guard' refused: ") as caught:
        drafts(folder)
    assert told in str(caught.value)


def test_a_project_without_plugins_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "manifest"]) == 1
    assert "pyproject.toml cannot be read" in capsys.readouterr().err
    (folder / "pyproject.toml").write_text("[project]\n")
    assert run(["plugins", "manifest"]) == 1
    assert 'no plugin under [project.entry-points."hooksdk.plugins"]' in capsys.readouterr().err


def test_the_description_of_the_example_gives_way_to_the_docstring_and_one_by_hand_stays(folder: Path) -> None:
    assert run(["plugins", "new", "ask-first"]) == 0
    project = folder / "ask-first"
    path = project / "src/ask_first/__init__.py"
    path.write_text(path.read_text().replace(EXAMPLE, "Asks before anything is deleted.\n\n    More of it."))
    manifest = project / "src/ask_first/hooksdk.plugin.json"
    assert EXAMPLE not in (path.parents[2] / "README.md").read_text()
    for described, expected in ((EXAMPLE, "Asks before anything is deleted."), ("By hand.", "By hand.")):
        known = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**known, "description": described}))
        forget("ask_first")
        (draft,) = drafts(project)
        assert draft.document["description"] == expected
