"""The Python in README.md and docs runs: per page one block after another, in one namespace and a folder of its own."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?P<skip><!-- skip: \S[^>]*-->\s*\n)?^(?P<indent> *)```python\n(?P<code>.*?)^ *```", re.MULTILINE | re.DOTALL
)


def blocks_of(page: Path) -> list[tuple[int, str]]:
    """The blocks of a page that are to run: the line where each begins, and its code."""
    text = page.read_text(encoding="utf-8")
    found: list[tuple[int, str]] = []
    for match in BLOCK.finditer(text):
        if match["skip"] is None:
            indent = len(match["indent"])
            code = "".join(line[indent:] if line.strip() else line for line in match["code"].splitlines(keepends=True))
            found.append((text.count("\n", 0, match.start("code")), code))
    return found


@pytest.fixture
def page_module() -> Iterator[types.ModuleType]:
    """A module to run a page in: handlers and pickles look their names up there."""
    module = types.ModuleType("page")
    sys.modules["page"] = module
    yield module
    del sys.modules["page"]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_python_of_a_page_runs(
    page: Path, page_module: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for line, code in blocks_of(page):
        # Empty lines before it, so that an error names the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), vars(page_module))


def test_a_block_is_skipped_only_with_a_reason() -> None:
    for page in PAGES:
        for mark in re.findall(r"<!-- skip.*", page.read_text(encoding="utf-8")):
            assert re.match(r"<!-- skip: \S.{8,} -->", mark), f"{page}: {mark}"
