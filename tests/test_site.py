"""The documentation as a site: it builds without an issue, has every public name, and asks nothing of any other site."""

from __future__ import annotations

import functools
import html
import http.server
import importlib
import inspect
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
import types
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hooksdk import Host
from hooksdk.hooks import HOOKS, AfterModelCall, BeforeToolCall
from tests.hooksdk.browser import Browser, running_browser
from tests.test_contracts import public_modules

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]
API = "reference/api"
SHORT = ["Session.child", "Tool.parameter_names", "Host.storage", "Replace", "ToolResult.with_text"]
"""What people looked for in vain, once."""
PICTURES = ["", "explanation/fence/", "explanation/architecture/"]
INSTALL = re.compile(r"pip install\s+(?:-\S+\s+)*'?hooksdk\b")
PAGES = [
    "", "tutorial/", "install/", "reference/hooks/", "reference/configuration/", "reference/cli/", "explanation/architecture/",
    f"{API}/run/", f"{API}/events/", "benchmarks/",
]  # fmt: skip


SOURCES = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "builtin_plugins",
    "docs",
    "hooksdk",
    "mkdocs.yml",
    "overrides",
    "pytest_hooksdk.py",
    "scripts",
]
"""What the site is made of."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. It is built in a copy: pages that are in a cache are not looked at again."""
    project = tmp_path_factory.mktemp("project")
    for name in SOURCES:
        whole = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        whole(ROOT / name, project / name)
    built = run(project, "-m", "zensical", "build", "--strict")
    assert (built.returncode, built.stderr.strip()) == (0, "No issues found")
    mended = run(project, "scripts/docs/search.py")
    assert (mended.returncode, mended.stderr) == (0, "")
    listed = run(project, "scripts/docs/llms.py")
    assert (listed.returncode, listed.stderr) == (0, "")
    return project / "site"


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, in the folder."""
    return subprocess.run([sys.executable, *arguments], cwd=project, capture_output=True, text=True, check=False)


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


@pytest.mark.in_ci(False)
def test_every_public_name_has_an_entry(site: Path) -> None:
    entries = {identity(value) for name in documented(site) if (value := resolved(name)) is not None}
    missing: list[str] = []
    for module in public_modules():
        if module == "hooksdk.cli":  # the command: docs/reference/cli.md
            continue
        if resolved(module) is None and f"{module}.HookSDK" in documented(site):
            continue  # its framework is not installed here (scripts/frameworks)
        for name in getattr(importlib.import_module(module), "__all__", ()):
            value = getattr(importlib.import_module(module), name)
            if not isinstance(value, types.ModuleType) and identity(value) not in entries:
                missing.append(f"{module}.{name}")
    assert missing == []


@pytest.mark.in_ci(False)
def test_no_private_module_or_name_has_a_heading(site: Path) -> None:
    shown = [
        name
        for page in (site / API).rglob("index.html")
        for name in re.findall(r'<h\d id="([^"]+)" class="doc', page.read_text("utf-8"))
    ]
    assert len(shown) > 500
    assert [name for name in shown if re.search(r"(^|\.)_(?!_)", name)] == []


@pytest.mark.in_ci(False)
@pytest.mark.parametrize("event", [AfterModelCall, BeforeToolCall], ids=lambda event: event.__name__)
def test_the_signature_of_an_event_is_the_one_that_python_sees(site: Path, event: type) -> None:
    page = re.sub(r"<[^>]+>", "", (site / API / "events" / "index.html").read_text("utf-8"))
    shown = re.search(rf"{event.__name__}\(\s*([^)]*?info.*?)\n\)", page, re.DOTALL)
    assert shown is not None
    lines = [line.strip() for line in shown[1].replace("&nbsp;", " ").splitlines()]
    required = [name for name, one in inspect.signature(event).parameters.items() if one.default is one.empty]
    assert [line.partition(":")[0] for line in lines if ":" in line and " = " not in line] == required


@pytest.mark.in_ci(False)
def test_the_page_of_events_begins_with_the_first_hook_and_folds_what_every_event_has(site: Path) -> None:
    page = (site / API / "events" / "index.html").read_text("utf-8")
    headings = re.findall(r'<h\d id="hooksdk\.hooks\.([^"]+)" class="doc', page)
    assert headings[0] == next(iter(HOOKS))
    assert headings.index("Event") > max(headings.index(name) for name in HOOKS)
    event = page[page.index('id="hooksdk.hooks.SessionStart"') : page.index('id="hooksdk.hooks.agent_start"')]
    folded = re.search(r'<details class="doc-inherited".*?</details>', event, re.DOTALL)
    assert folded is not None
    assert re.findall(r'href="[./]*#hooksdk\.hooks\.Event\.(session_id|run_id|metadata)"', folded[0]) == [
        "session_id",
        "run_id",
        "metadata",
    ]


@pytest.mark.in_ci(False)
def test_the_source_of_a_function_is_beside_it(site: Path) -> None:
    page = (site / API / "host" / "index.html").read_text("utf-8")
    method = page[page.index('id="hooksdk.Host.session"') : page.index('id="hooksdk.Host.hold"')]
    assert "<code>hooksdk/host.py</code>" in method
    assert inspect.getsource(Host.session).splitlines()[0].strip() in html.unescape(re.sub("<[^>]+>", "", method))


@pytest.mark.in_ci(False)
def test_no_table_shows_the_backslash_of_its_source(site: Path) -> None:
    pages = {page: page.read_text("utf-8") for page in site.rglob("index.html")}
    assert [str(page.parent) for page, text in pages.items() if re.search(r"<td>[^\n]*<code>[^<]*\\\|", text)] == []


@pytest.mark.in_ci(False)
def test_the_search_has_what_people_look_for_and_no_source(site: Path) -> None:
    index = json.loads((site / "search.json").read_text("utf-8"))["items"]
    places = [entry["location"] for entry in index]
    assert [name for name in SHORT if not any(place.endswith(f".{name}") for place in places)] == []
    assert [entry["location"] for entry in index if "Source code in" in entry["text"]] == []


@pytest.mark.in_ci(False)
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


DRAWN = "!document.querySelector('pre.mermaid') && [...document.querySelectorAll('div.mermaid')].map(one => one.offsetHeight)"
"""The heights of a page's pictures, once all are drawn: into a closed shadow root, in place of the text. Nobody sees in, but the
room that it takes tells."""
HARMLESS = "FormEmptyIdAndNameAttributesForInputError"
"""A hint about filling in forms: the field of the search has no name."""


@pytest.mark.in_ci(False)
def test_pictures_are_drawn_and_nothing_is_loaded_from_elsewhere(browser: Browser, address: str) -> None:
    for page in PICTURES:
        browser.open(address + page)
        assert min(browser.evaluate(once(DRAWN))) > 50
        assert [url for url in browser.requests if not url.startswith((address, "data:", "blob:"))] == []
        assert [complaint for complaint in browser.complaints if HARMLESS not in complaint] == []


@pytest.mark.in_ci(False)
def test_on_a_phone_pictures_keep_their_size_and_scroll_in_their_box(browser: Browser, address: str) -> None:
    browser.open(address, width=390)
    browser.evaluate(once(DRAWN))
    boxes = "[document.querySelector('img[src$=\"demo.svg\"]').parentElement, document.querySelector('div.mermaid')]"
    for inside, box, overflow in browser.evaluate(
        f"{boxes}.map(one => [one.scrollWidth, one.clientWidth, getComputedStyle(one).overflowX])"
    ):
        assert inside >= 600
        assert box < 390
        assert overflow == "auto"


@pytest.mark.in_ci(False)
def test_the_search_finds_the_page_of_a_plugin_by_its_name(browser: Browser, address: str) -> None:
    browser.open(address)
    box = "document.activeElement.shadowRoot?.querySelector"
    browser.evaluate("document.querySelector('.md-search__button').click()")
    browser.evaluate(once(f"!!{box}('[role=combobox]')"))
    browser.send("Input.insertText", text="clear_tool_results")
    first = browser.evaluate(once(f"{box}('[role=listbox] a')?.href"))
    assert first.startswith(f"{address}reference/clear_tool_results/")
    assert [url for url in browser.requests if not url.startswith((address, "data:", "blob:"))] == []


def once(condition: str) -> str:
    """What an expression is, as soon as it is something."""
    look = f"() => {{ const now = {condition}; now ? done(now) : setTimeout(look, 50) }}"
    return f"new Promise(done => {{ const look = {look}; look(); }})"


@pytest.mark.in_ci(False)
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_its_window(browser: Browser, address: str, width: int) -> None:
    for page in PAGES:
        browser.open(address + page, width=width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, page


QUERIES = tomllib.loads((ROOT / "tests" / "search_queries.toml").read_text("utf-8"))
FOUND = "[...document.activeElement.shadowRoot.querySelectorAll('[role=listbox] a')].slice(0, 2).map(one => one.href)"
FIRST = "document.activeElement.shadowRoot.querySelector('[role=listbox] a')"
TYPED = f"{FIRST} && new URL({FIRST}.href).searchParams.get('h')"


@pytest.mark.slow
@pytest.mark.in_ci(False)
def test_of_sixty_things_that_people_type_fifty_five_lead_to_the_right_page(browser: Browser, address: str) -> None:
    asked = {**QUERIES["mended"], **QUERIES["aside"]}
    assert len(asked) == 60
    browser.open(address)
    browser.evaluate("document.querySelector('.md-search__button').click()")
    browser.evaluate(once("!!document.activeElement.shadowRoot?.querySelector('[role=combobox]')"))
    missed: dict[str, list[str]] = {}
    for query, right in asked.items():
        browser.evaluate("document.activeElement.shadowRoot.querySelector('[role=combobox]').select()")
        browser.send("Input.insertText", text=query)
        shown = answered(browser, query)
        places = [url.removeprefix(address) for url in shown]
        if not any(place.startswith(page) for place in places for page in right):
            missed[query] = places
    assert len(missed) <= 5, missed


def answered(browser: Browser, query: str) -> list[str]:
    """The first two addresses for the query; none where the search has said nothing else for a while."""
    for _ in range(50):
        if browser.evaluate(TYPED) == query:
            return browser.evaluate(FOUND)
        time.sleep(0.1)
    return []
