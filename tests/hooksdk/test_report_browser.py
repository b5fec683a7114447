"""The report in a real browser: light, dark, narrow, without its script, long, and made of hostile input."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from browser import Browser, running_browser
from reports import play_runs, stored_session, trace_of
from test_report import long_trace

from hooksdk.report import page

pytestmark = pytest.mark.heavy

OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true"
CONTRASTS = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const channels = color => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const part = value => (value /= 255) <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
    return .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = channels(getComputedStyle(element).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  const weak = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || element.tagName === "SCRIPT" || !element.checkVisibility()) continue;
    let opacity = 1;
    for (let one = element; one; one = one.parentElement) opacity *= getComputedStyle(one).opacity;
    const back = behind(element), color = channels(getComputedStyle(element).color);
    const seen = color.map((value, at) => value * opacity + back[at] * (1 - opacity));
    const [low, high] = [light(seen), light(back)].sort((a, b) => a - b);
    const ratio = (high + .05) / (low + .05);
    if (ratio < 4.5) weak.push(`${element.className || element.tagName}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(weak)];
})()
"""
SPILLING = """
[...document.querySelectorAll("body *")].filter(one => one.getBoundingClientRect().right > innerWidth + 1
  && one.checkVisibility() && !one.closest(".scroll, thead")).slice(0, 5).map(one => `${one.tagName}.${one.className}`)
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    with running_browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two runs, whose texts try to become markup."""
    folder = tmp_path_factory.mktemp("runs")

    async def make() -> str:
        await play_runs(folder)
        return page(trace_of(folder), [await stored_session(folder)])

    path = folder / "report.html"
    path.write_text(anyio.run(make), encoding="utf-8")
    return path


@pytest.mark.in_ci(False)
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_is_quiet_fits_and_can_be_read(browser: Browser, report: Path, width: int, dark: bool) -> None:
    browser.open(report, width=width, dark=dark)
    browser.evaluate(OPEN_ALL)
    assert browser.complaints == []
    assert browser.requests == [report.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(SPILLING) == []
    assert browser.evaluate(CONTRASTS) == []


@pytest.mark.in_ci(False)
def test_the_page_takes_the_colours_that_the_reader_prefers(browser: Browser, report: Path) -> None:
    background = (
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((all, one) => all + Number(one), 0)"
    )
    browser.open(report)
    light = browser.evaluate(background)
    browser.open(report, dark=True)
    assert light > 600
    assert browser.evaluate(background) < 150


def test_nothing_of_the_input_has_run_or_become_an_element(browser: Browser, report: Path) -> None:
    browser.open(report)
    assert browser.evaluate("window.pwned === undefined")
    assert browser.evaluate("document.scripts.length") == 1
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.body.textContent.includes('<img src=x onerror=')")


@pytest.mark.in_ci(False)
def test_what_is_put_into_the_page_afterwards_loads_and_runs_nothing(browser: Browser, report: Path) -> None:
    browser.open(report)
    attack = "<img src='http://127.0.0.1:9/x.png'><p onclick='window.pwned = 3'>"
    forbidden = browser.evaluate(f"""
        new Promise(done => {{
          const seen = [];
          document.addEventListener("securitypolicyviolation", event => {{
            seen.push(event.effectiveDirective);
            if (seen.length === 2) done(seen.sort());
          }});
          document.body.insertAdjacentHTML("beforeend", "{attack}");
        }})
    """)
    assert forbidden == ["img-src", "script-src-attr"]


@pytest.mark.in_ci(False)
def test_calls_are_filtered_by_tool_and_outcome(browser: Browser, report: Path) -> None:
    browser.open(report)
    shown = "[...document.querySelectorAll('#run1 .steps > li')].filter(one => one.checkVisibility()).map(one => one.dataset.tool)"
    choose = """
        (field => { field.value = %r; field.dispatchEvent(new Event(%r)); })(document.querySelector(%r))
    """
    browser.evaluate(choose % ("FILE", "input", ".by-tool"))
    assert browser.evaluate(shown) == ["read_file", "delete_file", "write_file"]
    browser.evaluate(choose % ("blocked", "change", ".by-outcome"))
    assert browser.evaluate(shown) == ["delete_file"]
    assert browser.evaluate("document.querySelector('.found').textContent") == "1 of 7 calls"
    browser.evaluate(choose % ("", "input", ".by-tool"))
    browser.evaluate(choose % ("", "change", ".by-outcome"))
    assert None in browser.evaluate(shown)


@pytest.mark.in_ci(False)
def test_without_a_script_everything_is_there_but_the_filter(browser: Browser, report: Path) -> None:
    browser.open(report, script=False)
    assert browser.evaluate("document.querySelector('.filter').checkVisibility()") is False
    step = "document.querySelector('[data-tool=delete_file] details')"
    assert browser.evaluate(f"{step}.querySelector('.body').checkVisibility({{contentVisibilityAuto: true}})") is False
    browser.evaluate(f"{step}.querySelector('summary').click()")
    assert browser.evaluate(f"{step}.open")


@pytest.mark.in_ci(False)
def test_a_link_to_a_message_opens_the_fold_around_it(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.evaluate("document.querySelector('[data-tool=read_file] a').click()")
    assert browser.evaluate("document.querySelector(':target').textContent.includes('a line of a.md')")
    assert browser.evaluate("document.querySelector(':target').checkVisibility()")


@pytest.mark.in_ci(False)
def test_a_page_of_100_000_records_opens(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    path.write_text(page(long_trace(20_000)), encoding="utf-8")
    browser.open(path, width=400)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    assert browser.evaluate("document.querySelectorAll('.steps > li').length") > 1_000
