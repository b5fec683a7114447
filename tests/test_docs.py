"""The Python in README.md, docs and docstrings runs.

Of a page one block after another, in one namespace; of a docstring each block by itself. Both in a folder of their own.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import hooksdk

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?P<skip><!-- skip: \S[^>]*-->\s*\n)?^(?P<indent> *)```python\n(?P<code>.*?)^ *```", re.MULTILINE | re.DOTALL
)

SERVER = re.compile(r"\b(DurableAgent|McpServers|ScriptedServer|ThreadingHTTPServer|ToolServer)\b")


def param(*values: object, code: str, name: str) -> object:
    """One case; heavy when its code starts a server, or an engine."""
    return pytest.param(*values, id=name, marks=[pytest.mark.heavy] if SERVER.search(code) else [])


def blocks_of(text: str) -> list[tuple[int, str]]:
    """The blocks of a text that are to run: the line where each begins, and its code."""
    blocks: list[tuple[int, str]] = []
    for match in BLOCK.finditer(text):
        if match["skip"] is None:
            indent = len(match["indent"])
            code = "".join(line[indent:] if line.strip() else line for line in match["code"].splitlines(keepends=True))
            blocks.append((text.count("\n", 0, match.start("code")), code))
    return blocks


def blocks_of_page(page: Path) -> list[tuple[int, str]]:
    return blocks_of(page.read_text(encoding="utf-8"))


def blocks_of_docstrings() -> Iterator[tuple[str, Path, int, str]]:
    """Every block in a docstring of hooksdk and the built-in plugins: whose it is, its file and line, its code."""
    for path in [*(ROOT / "hooksdk").rglob("*.py"), *(ROOT / "builtin_plugins").rglob("*.py")]:
        text = path.read_text("utf-8")
        if "```python" not in text:
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{module}.{getattr(node, 'name', '')}".rstrip(".")
                line = getattr(node.body[0], "lineno", 1) - 1 if node.body else 0
                for at, code in blocks_of(inspect.cleandoc(ast.get_docstring(node) or "")):
                    yield name, path, line + at, code


DOCSTRINGS = list(blocks_of_docstrings())


@pytest.fixture
def page_module() -> Iterator[types.ModuleType]:
    """A module to run a page in: handlers and pickles look their names up there. A page may give it further names."""
    module = types.ModuleType("page")
    sys.modules["page"] = module
    yield module
    for name in [name for name, one in sys.modules.items() if one is module]:
        del sys.modules[name]


@pytest.mark.light(every=9)
@pytest.mark.parametrize(
    "page",
    [
        param(page, code="".join(code for _, code in blocks), name=str(page.relative_to(ROOT)))
        for page in PAGES
        if (blocks := blocks_of_page(page))
    ],
)
def test_the_python_of_a_page_runs(
    page: Path, page_module: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"hooksdk\.adapters\.\w+", page.read_text(encoding="utf-8")):
        pytest.importorskip(name, reason=f"the framework of {name} is not installed", exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for line, code in blocks_of_page(page):
        # Empty lines before it, so that an error names the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), vars(page_module))


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "coming-from").glob("*.md")), ids=lambda page: page.stem)
def test_what_is_ported_prints_what_its_page_says(
    page: Path, page_module: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    text, printed = page.read_text(encoding="utf-8"), ""
    for name in re.findall(r"hooksdk\.adapters\.\w+", text):
        pytest.importorskip(name, reason=f"the framework of {name} is not installed", exc_type=ImportError)
    for language, content in re.findall(r"^```(python|text)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(content, str(page), "exec"), vars(page_module))
            printed = capsys.readouterr().out
        else:
            assert printed == content


@pytest.mark.light(every=9)
@pytest.mark.parametrize(
    ("path", "line", "code"), [param(*place, code, code=code, name=name) for name, *place, code in DOCSTRINGS]
)
def test_the_example_of_a_docstring_runs(
    path: Path, line: int, code: str, page_module: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile("\n" * line + code, str(path), "exec", dont_inherit=True), vars(page_module))


def classes_with_an_example() -> list[type]:
    """The classes that `import hooksdk` shows, and those of the agent loop and of the test kit."""
    modules = [hooksdk, importlib.import_module("hooksdk.agent"), importlib.import_module("hooksdk.testing")]
    exports = [getattr(module, name) for module in modules for name in module.__all__]
    return [one for one in exports if inspect.isclass(one)]


@pytest.mark.parametrize("kind", classes_with_an_example(), ids=lambda kind: kind.__qualname__)
def test_a_public_class_shows_an_example(kind: type) -> None:
    assert blocks_of(inspect.cleandoc(vars(kind).get("__doc__") or "")), f"the docstring of {kind} has no example"


def test_a_block_is_skipped_only_with_a_reason() -> None:
    for page in PAGES:
        for mark in re.findall(r"<!-- skip.*", page.read_text(encoding="utf-8")):
            assert re.match(r"<!-- skip: \S.{8,} -->", mark), f"{page}: {mark}"
