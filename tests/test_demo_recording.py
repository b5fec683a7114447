"""The recording of the demo in docs/demo.svg is what the demo prints today."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_recording", ROOT / "scripts" / "demo_recording.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorded(script: ModuleType) -> tuple[str, str]:
    return script.record()


def words_of(svg: str) -> str:
    """All text of an SVG, without its layout, which is rich's."""
    return "".join(html.unescape("".join(re.findall(r"<text[^>]*>(.*?)</text>", svg))).split())


def test_the_picture_shows_the_demo_of_today_and_is_light(script: ModuleType, recorded: tuple[str, str]) -> None:
    svg = script.SVG.read_text("utf-8")
    assert words_of(svg) == words_of(recorded[1]), "run scripts/demo_recording.py"
    assert "".join(recorded[0].split()) in words_of(svg)
    assert len(svg.encode()) < 60_000


def test_the_picture_loads_nothing_from_elsewhere(script: ModuleType) -> None:
    svg = script.SVG.read_text("utf-8")
    assert set(re.findall(r"https?://[^\"\s]+", svg)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "@font-face" not in svg


def test_nothing_in_it_depends_on_the_machine_or_the_clock(script: ModuleType, recorded: tuple[str, str]) -> None:
    assert script.record() == recorded


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_pages_show_the_picture(page: str) -> None:
    path = ROOT / page
    (place,) = re.findall(r"!\[hooksdk demo: [^\]]+\]\(([^)]+)\)", path.read_text("utf-8"))
    assert (path.parent / place).is_file() or place.endswith("docs/demo.svg")
