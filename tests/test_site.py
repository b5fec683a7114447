"""The documentation as a site: it builds without a warning, has every public name, and asks nothing of any other site."""

from __future__ import annotations

import functools
import http.server
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import threading
import types
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hooksdk.hooks import AfterModelCall
from tests.hooksdk.browser import Browser, running_browser
from tests.test_contracts import public_modules

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]
API = "reference/api"
SHORT = ["Session.child", "Tool.parameter_names", "Host.storage", "Replace", "ToolResult.with_text"]
"""What people looked for in vain, once."""
PICTURES = ["", "explanation/fence/", "explanation/architecture/"]
INSTALL = re.compile(r"pip install\s+(?:-\S+\s+)*'?hooksdk\b")
PAGES = ["", "tutorial/", "install/", "reference/hooks/", "reference/configuration/", f"{API}/run/", "benchmarks/"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def documented(site: Path) -> set[str]:
    """The names of everything on the pages of the API, under each path that leads there."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines() if " py:" in line}


def identity(value: Any) -> object:
    """What is the same for one thing under two names."""
    return (value.__module__, value.__qualname__) if isinstance(value, type | types.FunctionType) else id(value)


def resolved(name: str) -> Any:
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return None


def test_every_public_name_has_an_entry(site: Path) -> None:
    entries = {identity(value) for name in documented(site) if (value := resolved(name)) is not None}
    missing: list[str] = []
    for module in public_modules():
        if module == "hooksdk.cli":  # the command: docs/reference/cli.md
            continue
        for name in getattr(importlib.import_module(module), "__all__", ()):
            value = getattr(importlib.import_module(module), name)
            if not isinstance(value, types.ModuleType) and identity(value) not in entries:
                missing.append(f"{module}.{name}")
    assert missing == []


def test_no_private_module_or_name_has_a_heading(site: Path) -> None:
    shown = [
        name
        for page in (site / API).rglob("index.html")
        for name in re.findall(r'<h\d id="([^"]+)" class="doc', page.read_text("utf-8"))
    ]
    assert len(shown) > 500
    assert [name for name in shown if re.search(r"(^|\.)_(?!_)", name)] == []


def test_the_signature_of_an_event_is_the_one_that_python_sees(site: Path) -> None:
    page = re.sub(r"<[^>]+>", "", (site / API / "events" / "index.html").read_text("utf-8"))
    shown = re.search(r"AfterModelCall\(\s*([^)]*?info.*?)\n\)", page, re.DOTALL)
    assert shown is not None
    lines = [line.strip() for line in shown[1].replace("&nbsp;", " ").splitlines()]
    required = [name for name, one in inspect.signature(AfterModelCall).parameters.items() if one.default is one.empty]
    assert [line.partition(":")[0] for line in lines if ":" in line and " = " not in line] == required


def test_the_search_finds_what_people_look_for(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    places = [entry["location"] for entry in index]
    assert [name for name in SHORT if not any(place.endswith(f".{name}") for place in places)] == []


def test_llms_txt_names_every_page_and_each_markdown_is_there(site: Path) -> None:
    listed = re.findall(
        r"\]\(https://hooksdk\.readthedocs\.io/en/latest/([^)]*)\)", (site / "llms.txt").read_text("utf-8")
    )
    pages = [str(page.relative_to(site).parent) for page in site.rglob("index.html")]
    assert sorted(listed_page.removesuffix("index.md").rstrip("/") or "." for listed_page in listed) == sorted(pages)
    for page in listed:
        assert (site / page).exists()
    assert (site / "tutorial" / "index.md").read_text("utf-8").startswith("# Your first plugin")


def test_only_one_page_says_how_to_install_hooksdk_from_an_index() -> None:
    saying = [
        str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md") if INSTALL.search(page.read_text("utf-8"))
    ]
    assert saying == ["docs/install.md"]
    assert not INSTALL.search((ROOT / "README.md").read_text("utf-8"))


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on loopback."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


def test_pictures_are_drawn_and_nothing_is_loaded_from_elsewhere(browser: Browser, address: str) -> None:
    for page in PICTURES:
        browser.open(address + page)
        # Material draws into a closed shadow root, in place of the text: nobody sees in, but the room that it takes tells.
        drawn = "!document.querySelector('pre.mermaid') && [...document.querySelectorAll('div.mermaid')].map(one => one.offsetHeight)"
        wait = f"new Promise(done => {{ const look = () => {drawn} ? done({drawn}) : setTimeout(look, 50); look(); }})"
        assert min(browser.evaluate(wait)) > 50
        assert [url for url in browser.requests if not url.startswith((address, "data:", "blob:"))] == []
        assert browser.complaints == []


@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_is_wider_than_its_window(browser: Browser, address: str, width: int) -> None:
    for page in PAGES:
        browser.open(address + page, width=width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, page
