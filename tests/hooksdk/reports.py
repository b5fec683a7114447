"""Runs for the tests of the report, and a reader of its page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder

from hooksdk import Approval, ApprovalRequest, Tool, hooks
from hooksdk.hooks import Answer, Ask, BeforeToolCall, Block, NarrowTools, Withhold
from hooksdk.report import StoredSession
from hooksdk.stores import SqlStore
from hooksdk.testing import call, open_session, play

HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>\"'`&lt;"
STEERING = "a\u202eb\x00c\ud800d\u200be\x1b[31mf\U000e0041g"
"""A bidi control, NUL, half a surrogate pair, a space of no width, a terminal's escape and a tag character."""
VOID = {"meta", "input", "br", "link", "img"}


class NoDeletes:
    """Blocks deletions."""

    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block:
        return Block(f"nothing is deleted here, not {event.arguments['path']}")


class AskWrites:
    """Asks before anything is written."""

    @hooks.before_tool_call(tools="write_*")
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("Write this?", severity="critical")


class Almanac:
    """Knows the weather without the tool."""

    @hooks.before_tool_call(tools="weather")
    def judge(self, event: BeforeToolCall) -> Answer:
        return Answer("sunny")


class Careless:
    """Fails."""

    @hooks.before_tool_call(tools="shell")
    def judge(self, event: BeforeToolCall) -> None:
        raise RuntimeError("not today")


class NoPayments:
    """Takes one tool away."""

    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold:
        return Withhold(["pay_bill"], "this agent pays nothing")


def read_file(path: str) -> str:
    """Read a file."""
    return f"a line of {path}\n" * 200


def delete_file(path: str) -> str:
    """Delete a file."""
    return "gone"


def write_file(path: str, text: str) -> str:
    """Write a file."""
    return "written"


def weather(city: str) -> str:
    """Tell the weather."""
    return "rainy"


def shell(command: str) -> str:
    """Run a command."""
    return ""


def pay_bill(amount: int) -> str:
    """Pay a bill."""
    return "paid"


def fail() -> str:
    """Fail."""
    raise ValueError("no such thing")


async def approve(request: ApprovalRequest) -> Approval:
    return Approval(True, by="ann")


PLUGINS = (NoDeletes, AskWrites, Almanac, Careless, NoPayments)
TOOLS = [
    Tool.from_function(one, source="mcp", owner="town")
    for one in (read_file, delete_file, write_file, weather, shell, pay_bill, fail)
]


async def play_runs(folder: Path) -> None:
    """Two runs of the session `test`, with `trace.jsonl` and `sessions` in the folder: all that plugins can say about a call, a
    search for tools, and a trim."""
    config = {
        "plugins": {
            "trace_file": {"config": {"path": str(folder / "trace.jsonl")}},
            "tool_search": {"config": {"enabled": "on", "pinned": ["read_file", "delete_file", "write_file"]}},
            "tool_results": {},
        }
    }
    store = SqlStore(folder / "sessions")
    names = (*PLUGINS, "trace_file", "tool_search", "tool_results")
    async with open_session(*names, tools=TOOLS, config=config, store=store, approver=approve) as session:
        hidden: list[tuple[str, dict[str, str]]] = [
            ("weather", {"city": HOSTILE}),
            ("shell", {"command": "ls"}),
            ("fail", {}),
        ]
        first = [
            call("read_file", path="a.md"),
            call("delete_file", path="b.md"),
            call("write_file", path="c.md", text=f"{HOSTILE} \u202e"),
            call("tool_search", queries=["tell the weather of a city", "run a command"]),
            *(call("tool_call", name=name, arguments=arguments) for name, arguments in hidden),
        ]
        await play(session, [first, f"Done {HOSTILE}"], "What is in a.md?")
        await play(session, [call("trim-tool-result", id="r1", replacement="200 lines", reason="it is long"), "Bye."])


async def stored_session(folder: Path) -> StoredSession:
    """The session of these runs."""
    messages, journal = await SqlStore(folder / "sessions").read_session("test")
    return StoredSession(session_id="test", messages=messages, journal=journal)


def trace_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trace.jsonl").read_text("utf-8").splitlines()]


class _Reader(HTMLParser):
    """Reads a page into a tree, and holds it to every tag being closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self._tree = TreeBuilder()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tree.start(tag, {name: value or "" for name, value in attrs})
        if tag in VOID:
            self._tree.end(tag)
        else:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._tree.end(tag)

    def handle_data(self, data: str) -> None:
        if self._open:
            self._tree.data(data)

    def root(self) -> Element:
        assert self._open == []
        return self._tree.close()


def read_page(text: str) -> Element:
    """The page as a tree."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.root()


def words(element: Element) -> str:
    """The text in it, with one blank between words."""
    return " ".join(" ".join(element.itertext()).split())


def part(page: Element, heading: str) -> Element:
    """The one section under a heading that begins so."""
    found = [one for one in page.iter("section") if words(one[0]).startswith(heading)]
    assert len(found) == 1, f"{len(found)} sections begin with {heading}"
    return found[0]


def rows(section: Element) -> list[list[str]]:
    """The cells of its tables' bodies."""
    return [[words(cell) for cell in row] for body in section.iter("tbody") for row in body]


def of_class(page: Element, name: str) -> list[Element]:
    return [one for one in page.iter() if name in one.get("class", "").split()]
