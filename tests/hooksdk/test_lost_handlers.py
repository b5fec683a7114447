"""A policy that is written and would never be called is told, most often by refusing its plugin."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from stage import make, playing

from hooksdk import Host, MemoryStore, hooks, tool
from hooksdk.errors import PluginRefused
from hooksdk.hooks import AgentEnd, BeforeToolCall, Block, NarrowTools, Trace, Withhold
from hooksdk.records import Record, Unmatched

POLICY = """
from hooksdk import hooks

@hooks.before_tool_call
def judge(event):
    return hooks.Block("no")
"""
WATCHER = """
from hooksdk import hooks

@hooks.agent_end
def watch(event): ...
"""
UNWRAPPED = """
def logged(function):
    def call(*arguments):
        return function(*arguments)
    return call
"""
Write = Callable[[dict[str, str]], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Write]:
    """Write files into a folder of the path; what is imported from there is forgotten after the test."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def write(files: dict[str, str]) -> Path:
        for name, code in files.items():
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(code)
        importlib.invalidate_caches()
        return tmp_path

    yield write
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def host(*plugins: Any, **config: Any) -> Host:
    return Host(plugins, store=MemoryStore(), config={"allow": [], **config})


def from_file(folder: Path) -> Host:
    return Host(store=MemoryStore(), config={"allow": [], "plugins_file": True}, folder=folder)


def given(of: Host) -> dict[str, list[str]]:
    return {plugin.id: plugin.hooks + plugin.tools for plugin in of.plugins if plugin.loaded}


def refusal(*plugins: Any) -> str:
    with pytest.raises(PluginRefused) as caught:
        host(*plugins)
    return str(caught.value)


# What counts as a module's own


def test_a_packages_handlers_and_tools_count_when_its_module_imports_them(write: Write) -> None:
    rules = POLICY + '\nfrom hooksdk import tool\n@tool\ndef look() -> str:\n    "Look."\n    return ""\n'
    write({"acme/__init__.py": "from acme.rules import judge, look\n", "acme/rules.py": rules})
    assert given(host(importlib.import_module("acme"))) == {"acme": ["before_tool_call", "look"]}


def test_a_single_modules_handlers_count_when_they_come_from_a_file_beside_it(write: Write) -> None:
    write({"gate.py": "from gate_rules import judge\n", "gate_rules.py": POLICY})
    assert given(host(importlib.import_module("gate"))) == {"gate": ["before_tool_call"]}


def test_a_handler_that_a_function_of_another_package_makes_counts(write: Write) -> None:
    maker = "from hooksdk import hooks\ndef make():\n    @hooks.before_tool_call\n    def judge(event): ...\n    return judge\n"
    write({"library/__init__.py": maker, "gate/__init__.py": "import library\njudge = library.make()\n"})
    assert given(host(importlib.import_module("gate"))) == {"gate": ["before_tool_call"]}


def test_what_is_imported_from_another_given_module_is_that_ones(write: Write) -> None:
    write({"gate.py": WATCHER + "from gate_rules import judge\n", "gate_rules.py": POLICY})
    gate, rules = importlib.import_module("gate"), importlib.import_module("gate_rules")
    assert given(host(gate, rules)) == {"gate": ["agent_end"], "gate_rules": ["before_tool_call"]}


def test_a_handler_imported_from_another_package_is_told(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    write({"gate/__init__.py": WATCHER + "from other import judge\n", "other/__init__.py": POLICY})
    assert given(host(importlib.import_module("gate"))) == {"gate": ["agent_end"]}
    assert "plugin 'gate': 'judge' is imported from other, which is no part of the plugin" in caplog.text


# Plugins that do nothing


def test_a_module_without_any_handler_is_refused_and_its_classes_are_named(write: Write) -> None:
    write({"empty.py": "", "shelf.py": POLICY.replace("def", "class Guard:\n  def").replace("@hooks", "#")})
    assert refusal(importlib.import_module("empty")).startswith("plugin 'empty' refused: it has no handler")
    write(
        {"shelves.py": POLICY.replace("@hooks", "class Guard:\n  @hooks").replace("def judge(", "  def judge(self, ")}
    )
    assert refusal(importlib.import_module("shelves")).endswith("give shelves.Guard")


def test_a_module_that_only_imports_foreign_handlers_is_refused_and_told_whose_they_are(write: Write) -> None:
    write({"gate/__init__.py": "from other import judge\n", "other/__init__.py": POLICY})
    assert refusal(importlib.import_module("gate")).endswith(
        "It imports 'judge' from another package: give other itself"
    )


def test_a_class_without_any_handler_or_tool_is_refused() -> None:
    class Idle:
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("no")

    assert refusal(Idle) == (
        "plugin 'idle' refused: it has no handler (@hooks.…) and no tool (@tool), so it would do nothing. "
        "Decorate its functions with @hooks.… or @tool"
    )


# Plugins files


def test_a_plugins_file_that_yields_none_is_refused(write: Write) -> None:
    for code in ("", "plugins = []\n", "def judge(event): ...\n"):
        folder = write({"hooksdk_plugins.py": code})
        with pytest.raises(PluginRefused, match="yields no plugin"):
            from_file(folder)


def test_a_plugins_file_gives_exactly_its_list_in_that_order(write: Write) -> None:
    classes = "".join(
        f"class {name}:\n    @hooks.agent_end\n    def end(self, event): ...\n" for name in ("One", "Two", "Three")
    )
    folder = write({"hooksdk_plugins.py": f"from hooksdk import hooks\n{classes}plugins = [Three, One]\n"})
    assert list(given(from_file(folder))) == ["three", "one"]


@pytest.mark.parametrize(
    ("code", "words"),
    [("plugins = {}", "plugins is dict in"), ("plugins = ['guard']", "'guard' is text, not a module or class")],
)
def test_a_list_of_anything_else_than_plugins_is_refused(write: Write, code: str, words: str) -> None:
    with pytest.raises(PluginRefused, match=words):
        from_file(write({"hooksdk_plugins.py": code}))


def test_handlers_that_the_list_leaves_out_are_told(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    guard = "class Guard:\n    @hooks.agent_end\n    def end(self, event): ...\nclass Left(Guard): ...\n"
    other = "class Other:\n    @hooks.agent_end\n    def end(self, event): ...\n"
    from_file(write({"hooksdk_plugins.py": f"{POLICY}{guard}{other}plugins = [Left]\n"}))
    assert "its own handlers and tools are not called, since its plugins = [...] does not list them" in caplog.text
    assert "the class Other in it has handlers and is no plugin of this host" in caplog.text
    assert "the class Guard" not in caplog.text, "the one that is listed is derived from it"


def test_a_plugins_file_imports_its_neighbours_also_later(write: Write) -> None:
    folder = write({"hooksdk_plugins.py": "from my_rules import judge\n", "my_rules.py": POLICY})
    sys.path.remove(str(folder))
    assert given(from_file(folder)) == {"hooksdk_plugins": ["before_tool_call"]}
    write({"my_later.py": "ANSWER = 42\n"})
    assert importlib.import_module("my_later").ANSWER == 42
    assert sys.path[-1] == str(folder), "last, so that it takes no other module's place"


def test_a_plugins_file_gives_the_classes_that_it_imports_from_its_neighbours(write: Write) -> None:
    guard = "from hooksdk import hooks\nclass Base:\n    @hooks.agent_end\n    def end(self, event): ...\nclass Guard(Base): ...\n"
    code = "from my_guard import Base, Guard\nclass Derived(Base): ...\n"
    folder = write({"hooksdk_plugins.py": code, "my_guard.py": guard})
    assert given(from_file(folder)) == {"guard": ["agent_end"], "derived": ["agent_end"]}


# Marked functions that no name leads to


@pytest.mark.parametrize(
    "code",
    [
        UNWRAPPED + POLICY.replace("@hooks", "@logged\n@hooks") + WATCHER,
        POLICY + POLICY,
        POLICY + "judge = None\n" + WATCHER,
        POLICY + "del judge\n" + WATCHER,
    ],
    ids=["a decorator above without functools.wraps", "a name used twice", "replaced", "deleted"],
)
def test_a_lost_policy_of_a_module_refuses_it(write: Write, code: str) -> None:
    write({"lost.py": code})
    text = refusal(importlib.import_module("lost"))
    assert text.startswith("plugin 'lost' refused: lost.judge (")
    assert "is marked and would never be called" in text


def test_a_lost_policy_of_a_class_refuses_it() -> None:
    def logged(function: Any) -> Any:
        def call(self: Any, event: BeforeToolCall) -> Any:
            return function(self, event)

        return call

    class Unwrapped:
        @tool
        def look(self) -> str:
            """Look."""
            return ""

        @logged
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("no")

    class Twice:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block:  # pyright: ignore[reportRedeclaration]
            return Block("no")

        @hooks.narrow_tools
        def judge(self, event: NarrowTools) -> None: ...  # noqa: F811

    assert "must use functools.wraps" in refusal(Unwrapped)
    assert "'judge' is used again by" in refusal(Twice)


def test_a_policy_that_a_subclass_replaces_without_decorator_refuses_it_unless_it_is_none() -> None:
    class Guard:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("no")

        @hooks.agent_end
        def end(self, event: AgentEnd) -> None: ...

    class Softer(Guard):
        def judge(self, event: BeforeToolCall) -> Block | None:
            return None

    class Silent(Guard):
        judge = None  # pyright: ignore[reportAssignmentType]

    assert "stands in its place and has no decorator" in refusal(Softer)
    assert given(host(Silent)) == {"silent": ["agent_end"]}


def test_a_lost_observer_is_a_warning(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    write({"lost.py": WATCHER + WATCHER})
    assert given(host(importlib.import_module("lost"))) == {"lost": ["agent_end"]}
    assert "plugin 'lost': lost.watch (" in caplog.text
    assert "is marked and is never called: 'watch' is used again by" in caplog.text


def test_what_is_marked_and_called_is_not_reported(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    wrapped = UNWRAPPED.replace("    def call", "    import functools\n    @functools.wraps(function)\n    def call")
    code = (
        wrapped + POLICY.replace("@hooks", "@logged\n@hooks") + "also = judge\n"
        "def inside():\n    @hooks.before_tool_call\n    def unused(event): ...\n    return 1\ninside()\n"
        "for name in ('one', 'two'):\n    @hooks.agent_end\n    def each(event): ...\n    globals()[name] = each\n"
    )
    write({"fine.py": code})
    assert "before_tool_call" in host(importlib.import_module("fine")).plugins[0].hooks
    assert not caplog.records


def test_a_reloaded_module_has_lost_nothing(write: Write) -> None:
    write({"fine.py": POLICY})
    module = importlib.import_module("fine")
    write({"fine.py": "# moved by a line\n" + POLICY})
    assert given(host(importlib.reload(module))) == {"fine": ["before_tool_call"]}


def test_a_class_in_a_given_module_that_is_no_plugin_is_told(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    guard = "class Guard:\n    @hooks.before_tool_call\n    def judge(self, event): ...\n"
    write({"shelf.py": WATCHER + guard})
    module = importlib.import_module("shelf")
    host(module, module.Guard)
    assert not caplog.records
    host(module)
    assert "plugin 'shelf': the class Guard in it has handlers and is no plugin of this host" in caplog.text


# Patterns and names that meet no tool


class Watch:
    def __init__(self) -> None:
        self.records: list[Record] = []

    @hooks.trace
    def take(self, event: Trace) -> None:
        if isinstance(event.record, Unmatched):
            self.records.append(event.record)


class Patterns:
    plugin_id = "guard"

    @hooks.before_tool_call(tools=["atc", "mcp:srvv:*", "Read-*"])
    def judge(self, event: BeforeToolCall) -> Block:
        return Block("no")


@pytest.mark.anyio
async def test_patterns_that_match_no_tool_are_told_once_in_a_session(caplog: pytest.LogCaptureFixture) -> None:
    async with playing(Patterns, Watch) as stage:
        await stage.run.retry()
        await stage.run.resolve_tools([make("act")])
        await stage.dispatcher.flush_trace(60)
        (record,) = stage.session.plugin("watch").records
    assert record == Unmatched(plugin="guard", where="tools", names=("atc", "mcp:srvv:*"))
    (line,) = [one.getMessage() for one in caplog.records]
    assert line == (
        "handlers that are for tools which this session does not have: plugin 'guard': tools='atc'. Did you mean 'act'?, "
        "tools='mcp:srvv:*'."
    )


@pytest.mark.anyio
async def test_no_pattern_is_told_before_there_are_tools_nor_in_a_sub_agent(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        Host([Patterns], store=MemoryStore(), config={"allow": []}) as opened,
        opened.session("s") as session,
        session.run() as run,
    ):
        await run.resolve_tools([])
        async with session.child() as child, child.run() as inner:
            await inner.resolve_tools([make("act")])
        assert not caplog.records
        await run.resolve_tools([make("act")])
        assert len(caplog.records) == 1


def withholding(*names: str) -> type:
    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold(names, "not today")

    return Narrow


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "level", "hint"),
    [
        ("Act", logging.WARNING, " Did you mean 'act'?"),
        ("act*", logging.WARNING, " It takes names and ids, no patterns: withhold the names of event.tools that match"),
        ("host:cor:act", logging.WARNING, " Did you mean 'host:core:act'?"),
        ("send_mail", logging.INFO, ""),
    ],
)
async def test_a_withheld_name_that_names_nothing_is_told_once(
    caplog: pytest.LogCaptureFixture, name: str, level: int, hint: str
) -> None:
    with caplog.at_level(logging.INFO):
        async with playing(withholding(name, "read_file"), Watch) as stage:
            await stage.run.retry()
            await stage.run.resolve_tools([make("act"), make()])
            await stage.dispatcher.flush_trace(60)
            (record,) = stage.session.plugin("watch").records
    assert record == Unmatched(plugin="narrow", where="Withhold", names=(name,))
    (line,) = [one for one in caplog.records if "Withhold" in one.getMessage()]
    assert line.levelno == level
    assert line.getMessage() == f"plugin 'narrow': Withhold names '{name}', and there is no such tool.{hint}"


@pytest.mark.anyio
async def test_a_name_that_two_plugins_withhold_is_known_to_both(caplog: pytest.LogCaptureFixture) -> None:
    first, second = withholding("act"), withholding("host:core:act", "act")
    second.__name__ = "Second"
    with caplog.at_level(logging.INFO):
        async with playing(first, second):
            pass
    assert "no such tool" not in caplog.text


# Who is in force


def lines(caplog: pytest.LogCaptureFixture) -> Iterable[str]:
    return [one.getMessage() for one in caplog.records if "tool calls" in one.getMessage()]


@pytest.mark.anyio
async def test_a_starting_host_says_how_many_handlers_judge_calls_and_whose(caplog: pytest.LogCaptureFixture) -> None:
    class Budget:
        @hooks.before_tool_call
        def count(self, event: BeforeToolCall) -> None: ...

        @hooks.before_tool_call
        def stop(self, event: BeforeToolCall) -> None: ...

    with caplog.at_level(logging.INFO, "hooksdk"):
        async with host(Patterns, Budget, plugins={"guard": {"mode": "shadow"}}):
            assert list(lines(caplog)) == ["3 handlers judge tool calls: guard (shadow), budget"]
        async with host(Patterns):
            assert list(lines(caplog))[1:] == ["1 handler judges tool calls: guard"]
        async with host():
            assert list(lines(caplog))[2:] == ["no handler judges tool calls"]
