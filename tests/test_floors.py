"""The layout: who imports whom, how long a file is, and what importing hooksdk loads."""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 400
LONGEST_STORY = 800
STORIES = {
    "hooksdk.hooks", "hooksdk.run", "hooksdk.session", "hooksdk._run.call", "hooksdk._transcript.facts",
}  # fmt: skip
"""Files that tell one thing from top to bottom: every hook, a run, the way of a call. Cut in two they would read worse."""

ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
TOP_LEVEL_FILES = 20

BUILT_INS_MAY_NOT = {"run", "session", "host", "agent", "cli", "testing"}
HEAVY = [
    "numpy", "mcp", "sqlalchemy", "jsonschema", "typer", "rich", "Stemmer", "referencing",
    "pydantic_monty", "opentelemetry", "trio", "rank_bm25", "httpx", "builtin_plugins", "sqlite3", "hooksdk.desk", "hooksdk.gateway",
]  # fmt: skip


def files_of(package: str) -> list[Path]:
    """Every Python file of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def module_of(path: Path) -> str:
    """Its dotted name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def floor_name(path: Path) -> str:
    """The word that stands for it in the list: its name, or its folder with a slash."""
    parts = path.relative_to(ROOT / "hooksdk").with_suffix("").parts
    return parts[0] if len(parts) == 1 else f"{parts[0]}/"


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """What a file says, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports_of(path: Path) -> frozenset[str]:
    """The full names of everything that a file imports, in functions and for the type checker too."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            assert node.module is not None
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


@functools.cache
def floors() -> dict[str, int]:
    """Each word of the architecture's list with its floor: lowest first, a folder is one floor."""
    listing = ARCHITECTURE.read_text(encoding="utf-8").partition("## Floors")[2].split("```text")[1].split("```")[0]
    return {word: floor for floor, line in enumerate(listing.strip().splitlines()) for word in line.split()}


@functools.cache
def own_modules() -> dict[str, str]:
    """Each of hooksdk's modules with its word in the list."""
    return {module_of(path): floor_name(path) for path in files_of("hooksdk")}


def imported_modules(path: Path) -> set[str]:
    """The modules of hooksdk that a file imports."""
    known = own_modules()
    found: set[str] = set()
    for name in imports_of(path):
        if name.partition(".")[0] == "hooksdk":
            parts = name.split(".")
            found.add(next(".".join(parts[:end]) for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in known))
    return found


def imported_words(path: Path) -> set[str]:
    """The words of the list that a file of hooksdk imports."""
    return {own_modules()[name] for name in imported_modules(path)}


def test_every_file_has_its_floor_and_the_list_names_no_file_that_is_not_there() -> None:
    assert set(own_modules().values()) == set(floors())


def test_a_file_imports_only_from_floors_below_its_own() -> None:
    above = {
        (module_of(path), word)
        for path in files_of("hooksdk")
        for word in imported_words(path)
        if floors()[word] >= floors()[own := floor_name(path)]
        # The files of a folder may know each other, but not the package that gathers them.
        and not (word == own and own.endswith("/"))
    }
    assert above == set()


def test_files_of_a_folder_form_no_circle() -> None:
    below = {module_of(path): imported_modules(path) for path in files_of("hooksdk")}
    settled: set[str] = set()
    while len(settled) < len(below):
        free = {name for name in below if name not in settled and below[name] - {name} <= settled}
        assert free, f"these import each other: {sorted(set(below) - settled)}"
        settled |= free


def room_of(name: str) -> str:
    """Which room a dotted name is in: a folder of hooksdk, a built-in plugin, or the core."""
    parts = name.split(".")
    if parts[0] != "hooksdk":
        return ".".join(parts[:2])
    is_room = len(parts) > 1 and not parts[1].startswith("_") and (ROOT / "hooksdk" / parts[1]).is_dir()
    return f"hooksdk.{parts[1]}" if is_room else "hooksdk"


EVERY_FILE = [*files_of("hooksdk"), *files_of("builtin_plugins"), ROOT / "pytest_hooksdk.py"]


def test_a_room_imports_public_names_of_others_only() -> None:
    private = {
        (module_of(path), name)
        for path in EVERY_FILE
        for name in imports_of(path)
        if name.startswith(("hooksdk.", "builtin_plugins."))
        and room_of(name) != room_of(module_of(path))
        and re.search(r"\._(?!_)", name)
    }
    assert private == set()


def loaded_by_name(path: Path) -> list[str]:
    """The modules of hooksdk that a file imports by a text."""
    loaded: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("import_module", "__import__", "resolve_name")
        ):
            loaded += [ast.unparse(argument).lstrip("f").strip("'\"") for argument in node.args[:1]]
    return [name for name in loaded if name.startswith("hooksdk")]


def test_no_file_loads_another_room_by_name() -> None:
    foreign = [
        (module_of(path), name)
        for path in EVERY_FILE
        for name in loaded_by_name(path)
        # hooksdk itself finds its public names when they are first used.
        if (room_of(name) != own if (own := room_of(module_of(path))) != "hooksdk" else path.name != "__init__.py")
    ]
    assert foreign == []


def test_built_in_plugins_use_no_other_plugin_and_not_the_hosts_side() -> None:
    for path in files_of("builtin_plugins"):
        own = ".".join(module_of(path).split(".")[:2])
        for name in imports_of(path):
            parts = name.split(".")
            if parts[0] == "builtin_plugins":
                assert name == own or name.startswith(f"{own}."), f"{path} imports {name}, another plugin's"
            if parts[0] == "hooksdk":
                assert parts[1] not in BUILT_INS_MAY_NOT, f"{path} imports {name}, the host's side"
                assert parts[1] not in {"Host", "Session", "Run"}, f"{path} imports {name}, the host's side"


def test_the_library_never_imports_a_built_in_plugin() -> None:
    importers = [
        module_of(path)
        for path in files_of("hooksdk")
        if any(name.partition(".")[0] == "builtin_plugins" for name in imports_of(path))
    ]
    assert importers == []


def texts_in(path: Path) -> list[str]:
    """The texts that a file's code goes by: docstrings are for its readers."""
    tree = tree_of(path)
    told = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [str(node.value) for node in texts if not any(node is one for one in told)]


SHOWS_PLUGINS = [
    *files_of("hooksdk/gateway"), *files_of("hooksdk/report"), ROOT / "hooksdk" / "cli" / "_run" / "timeline.py",
    ROOT / "hooksdk" / "_run" / "tools.py", ROOT / "hooksdk" / "_run" / "state.py",
]  # fmt: skip


def test_what_lists_and_shows_plugins_names_none_of_the_built_in_ones() -> None:
    manifests = [json.loads(one.read_text("utf-8")) for one in (ROOT / "builtin_plugins").glob("*/hooksdk.plugin.json")]
    names = {one["id"] for one in manifests if "_" in one["id"]}
    names |= {name for one in manifests if "search" in one.get("permissions", ()) for name in one["contracts"]["tools"]}
    assert {"tool_search", "tool_results", "tool_call"} <= names
    said = {
        (module_of(path), word)
        for path in SHOWS_PLUGINS
        for text in texts_in(path)
        for word in names.intersection(re.findall(r"\w+", text))
    }
    assert said == set()


def test_every_room_is_in_the_architectures_table() -> None:
    rooms = {word for word in floors() if word.endswith("/")}
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert {word for word in rooms if f"| `{word}` |" not in text} == set()


def test_the_top_level_holds_at_most_20_files() -> None:
    assert len(list((ROOT / "hooksdk").glob("*.py"))) <= TOP_LEVEL_FILES


def test_no_file_is_longer_than_its_limit() -> None:
    files = [path for folder in ("hooksdk", "builtin_plugins") for path in files_of(folder)]
    lengths = {module_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {
        name: length for name, length in lengths.items() if length > (LONGEST_STORY if name in STORIES else LONGEST)
    } == {}


@pytest.mark.heavy
def test_importing_hooksdk_loads_nothing_heavy() -> None:
    script = f"import sys, hooksdk; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split() == []


def test_only_move_changes_the_stage_of_a_call() -> None:
    changes = [
        (module_of(path), node.lineno)
        for path in files_of("hooksdk")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and target.attr == "stage"
    ]
    assert [module for module, _ in changes] == ["hooksdk._ledger.calls"]


# Rings: what all must trust, by the lines that scripts/house.py counts. A number here only falls: when a piece of work ends, to
# what was reached and 150 more. The aims are 16,000, 22,000 and 22,000.

RING_0_LINES = 14_970
RINGS_0_AND_1_LINES = 19_960
DECISION_LINES = 21_600
RINGS = ROOT / "docs" / "explanation" / "rings.md"


@functools.cache
def house() -> Any:
    """scripts/house.py."""
    sys.path.append(str(ROOT / "scripts"))
    return import_module("house")


@functools.cache
def code_lines() -> dict[str, int]:
    """The lines of each file, as they are counted for a budget."""
    return house().formatted_lines(ROOT)


@functools.cache
def rings() -> dict[str, int]:
    """The ring of each file."""
    return house().rings(ROOT)


@pytest.mark.heavy
def test_the_hook_core_stays_within_its_budget() -> None:
    assert sum(code_lines()[file] for file, ring in rings().items() if ring == 0) <= RING_0_LINES


@pytest.mark.heavy
def test_the_hook_core_and_the_gate_stay_within_their_budget() -> None:
    assert sum(code_lines()[file] for file, ring in rings().items() if ring < 2) <= RINGS_0_AND_1_LINES


@pytest.mark.heavy
def test_one_decision_of_the_guard_loads_no_more_than_its_budget() -> None:
    loaded = house().files_loaded(ROOT, house().ONE_DECISION)
    assert sum(code_lines()[file] for file in loaded) <= DECISION_LINES


# What one tool call goes through: `benchmarks/call_path.py`, a call with one policy. These numbers only fall, too; the aim of the
# functions is 110, that of the changes of file 24.

CALL_FILES = 30
CALL_FUNCTIONS = 127
CALL_CHANGES_PER_100_LINES = 27


@pytest.mark.heavy
def test_one_call_goes_through_few_files_and_functions() -> None:
    counts = house().call_path.count(ROOT)["call"]
    assert counts["files"] <= CALL_FILES
    assert counts["functions"] <= CALL_FUNCTIONS
    assert counts["changes of file per 100 lines"] <= CALL_CHANGES_PER_100_LINES


TRUSTED_ROOMS = {"formats", "stores", "trimming"}
"""Rooms with a name of their own of which one run needs a part: a message format, the store in memory."""


@pytest.mark.heavy
def test_the_hook_core_loads_no_room_of_the_outer_ring() -> None:
    rooms = {file.split("/")[1] for file, ring in rings().items() if ring == 0 and file.count("/") > 1}
    assert {room for room in rooms if not room.startswith("_")} <= TRUSTED_ROOMS


@pytest.mark.heavy
def test_the_page_lists_the_files_that_a_deny_rests_on() -> None:
    assert house().listed(rings()) in RINGS.read_text(encoding="utf-8")


def status_of(room: Path) -> str:
    """What a room's docstring says of itself: `stable`, `trial`, or nothing."""
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    found = re.search(r"^Status: (stable|trial)\.$", docstring, re.MULTILINE)
    return found[1] if found else ""


def test_every_room_has_a_status_in_its_docstring_and_in_the_docs() -> None:
    rooms = [path for path in (ROOT / "hooksdk").iterdir() if (path / "__init__.py").exists() and path.name[0] != "_"]
    plugins = [path for path in (ROOT / "builtin_plugins").iterdir() if (path / "__init__.py").exists()]
    page = ARCHITECTURE.read_text(encoding="utf-8")
    rows = {room: f"| `{room.name}/` | {status_of(room)} |" for room in rooms}
    rows |= {plugin: f"| `builtin_plugins/{plugin.name}/` | {status_of(plugin)} |" for plugin in plugins}
    assert [room.name for room, row in rows.items() if not status_of(room) or row not in page] == []
