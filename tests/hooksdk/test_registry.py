"""How plugins are registered, checked and made into instances."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any, Self

import pluggy
import pytest
from pydantic import BaseModel, PositiveInt, model_validator

from hooksdk import Host, MemoryStore, PluginState, hooks, tool
from hooksdk._plugins.plugin import Plugin
from hooksdk._plugins.registry import Registry
from hooksdk.config import Config
from hooksdk.errors import (
    ConfigError,
    DuplicatePlugin,
    HookSDKError,
    HookUseError,
    PluginRefused,
    ToolSchemaError,
    UnknownHook,
)
from hooksdk.hooks import BeforeToolCall, Block
from tests.stage import playing

log: list[str] = []
impl = pluggy.HookimplMarker("hooksdk")


@pytest.fixture(autouse=True)
def empty_log() -> None:
    log.clear()


def host(*plugins: Any, config: Mapping[str, Any] | None = None) -> Host:
    return Host(plugins, store=MemoryStore(), config={"allow": [], **(config or {})})


def given(found: Host) -> list[Plugin]:
    return [plugin for plugin in found.plugins if plugin.origin == "code"]


class Fine:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        return None


# What is a plugin


def test_an_instance_instead_of_its_class_is_refused_with_advice() -> None:
    with pytest.raises(
        PluginRefused,
        match=r"plugin 'fine' refused: it is an instance of Fine, not a module or class\. Give the class itself \(Fine, not Fine\(\)\)",
    ):
        host(Fine())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Fine.judge, "it is a function, not a module or class. Give the module that it is in"),
        ("plugins.py", "'plugins.py' is text, not a module or class. Import it"),
    ],
)
def test_what_is_no_plugin_at_all_is_refused_with_what_to_give(given: Any, told: str) -> None:
    with pytest.raises(PluginRefused) as caught:
        host(given)
    assert told in str(caught.value)


@pytest.mark.parametrize("given", [Fine, types, "fine"])
def test_one_plugin_instead_of_a_list_of_them_is_a_clear_error(given: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a list of modules and classes, got .* plugins=\["):
        Host(given, store=MemoryStore(), config={"allow": []})


def test_a_forgotten_decorator_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class Forgot:
        def before_tool_call(self, event: BeforeToolCall) -> Block | None:
            return Block("no")

        @tool
        def look(self) -> str:
            """Look."""
            return ""

    class Helps:
        def trace(self, message: str) -> None: ...

        @tool
        def before_compaction(self, event: str) -> str:
            """Look."""
            return event

        @hooks.before_tool_call
        def agent_end(self, event: BeforeToolCall) -> None: ...

    host(Forgot)
    assert "Forgot.before_tool_call (" in caplog.text
    assert (
        "has the name of a hook but no decorator, so it is never called. Write @hooks.before_tool_call" in caplog.text
    )
    caplog.clear()
    host(Helps)
    assert not caplog.records


def test_a_tool_without_a_description_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class Quiet:
        @tool
        def ring(self) -> str:
            return "ding"

        @tool
        def shout(self) -> str:
            """Say it loudly."""
            return "HO"

    host(Quiet)
    (record,) = caplog.records
    assert "plugin 'quiet': its tool ring has no description" in record.getMessage()
    assert "Give its function a docstring" in record.getMessage()


def test_two_plugins_of_one_id_are_refused_and_say_who_they_are() -> None:
    class Other:
        plugin_id = "FINE"

    with pytest.raises(
        DuplicatePlugin, match=r"two plugins are called 'FINE': .*Fine \(code\) and .*Other \(code\)\. Rename one"
    ):
        host(Fine, Other)
    with pytest.raises(DuplicatePlugin):
        host(Fine, Fine)


def test_an_id_is_the_class_or_module_name_or_what_it_says() -> None:
    class CallBudget(Fine): ...

    class Named(Fine):
        plugin_id = "my-plugin"

    part = types.ModuleType("pack.part")
    exec("from hooksdk import hooks\n@hooks.agent_end\ndef end(event): ...\n", part.__dict__)
    assert [plugin.id for plugin in given(host(CallBudget, Named, part))] == [
        "call_budget",
        "my-plugin",
        "part",
    ]


def test_a_modules_handlers_are_those_defined_in_it() -> None:
    source = types.ModuleType("source")
    exec("from hooksdk import hooks\n@hooks.before_tool_call\ndef judge(event): ...\n", source.__dict__)
    borrower = types.ModuleType("borrower")
    borrower.__dict__["judge"] = source.judge
    exec("from hooksdk import hooks, tool\n@hooks.agent_end\ndef end(event): ...\n", borrower.__dict__)
    found = given(host(source, borrower))
    assert [plugin.hooks for plugin in found] == [["before_tool_call"], ["agent_end"]]


def test_inherited_handlers_count_and_overridden_ones_are_replaced() -> None:
    class Child(Fine):
        plugin_id = "child"

        @hooks.agent_end
        def end(self, event: hooks.AgentEnd) -> None:
            return None

    class Muted(Fine):
        plugin_id = "muted"

        judge = None  # pyright: ignore[reportAssignmentType]

        @hooks.session_end
        def leave(self, event: hooks.SessionEnd) -> None: ...

    found = [plugin.hooks for plugin in given(host(Child, Muted))]
    assert found == [["before_tool_call", "agent_end"], ["session_end"]]


def test_registering_runs_no_property_and_no_constructor() -> None:
    class Careful:
        def __init__(self) -> None:
            raise AssertionError

        @property
        def before_tool_call(self) -> None:
            raise AssertionError

        @tool
        def look(self) -> str:
            """Look."""
            return ""

    (plugin,) = given(host(Careful))
    assert (plugin.hooks, plugin.tools) == ([], ["look"])


def test_a_class_of_which_no_instance_can_be_made_is_refused() -> None:
    import abc

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def missing(self) -> None: ...

    with pytest.raises(PluginRefused, match="no instance of it can be made"):
        host(Abstract)


# Plain pluggy impls


def raw(code: str) -> types.ModuleType:
    module = types.ModuleType("raw")
    module.__dict__["impl"] = impl
    exec(compile(code, "raw.py", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("@impl\ndef before_toolcall(event): ...", UnknownHook, "raw.before_toolcall (raw.py:1) is marked as a handler of 'before_toolcall', which is not a hook. Did you mean 'before_tool_call'"),
        ("@impl(specname='agent_ends')\ndef f(event): ...", UnknownHook, "'agent_ends', which is not a hook. Did you mean 'agent_end'"),
        ("@impl\ndef zzz(event): ...", UnknownHook, "See hooksdk.hooks for the list"),
        ("@impl(wrapper=True)\ndef before_tool_call(event): yield", HookUseError, "wrapper handlers are not called: each hook decides by its answers. Use two handlers"),
        ("@impl(hookwrapper=True)\ndef before_tool_call(event): yield", HookUseError, "wrapper handlers are not called"),
        ("@impl\ndef before_tool_call(event): yield", HookUseError, "a generator cannot be a handler"),
        ("@impl\ndef before_tool_call(evt): ...", HookUseError, "plugin 'raw', raw.before_tool_call (raw.py:1): its parameters are (evt). Write def before_tool_call(event)"),
        ("@impl\ndef before_tool_call(): ...", HookUseError, "its parameters are (). Write def before_tool_call(event)"),
        ("@impl\ndef before_tool_call(event, run): ...", HookUseError, "its parameters are (event, run)"),
    ],
)  # fmt: skip
def test_a_plain_impl_with_a_mistake_is_refused_with_words_that_help(
    code: str, error: type[HookSDKError], words: str
) -> None:
    with pytest.raises(error) as caught:
        host(raw(code))
    assert words in str(caught.value)
    assert "plugin 'raw'" in str(caught.value)


def nothing(event: Any) -> None:
    return None


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_static_and_class_methods_are_no_handlers(kind: Any) -> None:
    class Odd:
        before_tool_call = kind(impl(nothing))

    with pytest.raises(HookUseError, match=f"a {kind.__name__} cannot be a handler"):
        host(Odd)


@pytest.mark.anyio
async def test_methods_marked_with_plain_pluggy_are_bound_to_the_sessions_instance() -> None:
    class Plain:
        def __init__(self) -> None:
            self.seen = 0

        @impl(tryfirst=True)
        def before_tool_call(self, event: BeforeToolCall) -> Block | None:
            self.seen += 1
            return Block("plainly") if self.seen > 1 else None

    async with playing(Plain) as stage:
        assert [(await stage.call()).text for _ in range(2)] == ["done", "Blocked by plain: plainly"]


# Nothing stays half-registered


def test_a_refused_plugin_leaves_nothing_behind() -> None:
    class Bad:
        plugin_id = "bad"

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return None

        @impl
        def before_toolcall(self, event: Any) -> None: ...

    registry = Registry(Config())
    with pytest.raises(UnknownHook):
        registry.add(Plugin(id="bad", origin="code", holder=Bad))
    assert registry.plugins == []
    assert registry.plans({}) == {}
    assert registry._manager.get_plugins() == set()  # pyright: ignore[reportPrivateUsage]
    del Bad.before_toolcall
    registry.add(Plugin(id="bad", origin="code", holder=Bad))
    assert list(registry.plans({"bad": Bad()})) == ["before_tool_call"]


def test_two_hosts_share_nothing() -> None:
    one, other = host(Fine), host(Fine)
    assert one.plugins[0] is not other.plugins[0]


# Constructors and configuration


class Settings(BaseModel):
    calls: PositiveInt = 50


class Budget(Fine):
    Config = Settings

    def __init__(self, config: Settings, state: PluginState, shared: object = None) -> None:
        self.left = config.calls
        self.state = state


@pytest.mark.anyio
async def test_a_class_gets_its_checked_configuration_and_state() -> None:
    async with playing(Budget, config={"plugins": {"budget": {"config": {"calls": 3}}}}) as stage:
        budget: Budget = stage.session.plugin("budget")
        assert budget.left == 3
        assert dict(budget.state) == {}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"calls": 0}, "[plugins.budget.config]: 'calls': Input should be greater than 0"),
        ({"cals": 3}, "[plugins.budget.config]: 'cals' is not a setting. Did you mean 'calls'?"),
        ({"x": 3}, "[plugins.budget.config]: 'x' is not a setting. Known: calls."),
    ],
)
def test_a_wrong_plugin_configuration_is_named(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        host(Budget, config={"plugins": {"budget": {"config": config}}})
    assert str(caught.value) == words or words in str(caught.value)


def test_a_problem_of_the_whole_configuration_has_no_empty_place() -> None:
    class Whole:
        class Config(BaseModel):
            @model_validator(mode="after")
            def check(self) -> Self:
                raise ValueError("two of these at least")

    with pytest.raises(ConfigError) as caught:
        host(Whole)
    assert str(caught.value) == "[plugins.whole.config]: two of these at least"


def test_a_config_that_is_no_pydantic_model_is_refused() -> None:
    class Plain:
        class Config:
            calls = 3

    with pytest.raises(
        PluginRefused, match=r"its Config is not a pydantic model\. Write class Config\(pydantic\.BaseModel\)"
    ):
        host(Plain)


@pytest.mark.parametrize("body", ["def f(x: int) -> int: return x", "def f() -> int: return 1"])
def test_a_tool_without_self_is_refused_with_the_line_to_write(body: str) -> None:
    names: dict[str, Any] = {"tool": tool}
    exec(f"class Lost:\n  @tool\n  {body}", names)
    with pytest.raises(ToolSchemaError, match=r"Lost\.f .*: its parameters are \(.*\)\. Write def f\(self(, x)?\)$"):
        host(names["Lost"])


def test_configuration_for_a_plugin_that_takes_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="plugin 'fine' takes no configuration"):
        host(Fine, config={"plugins": {"fine": {"config": {"a": 1}}}})


def test_a_constructor_that_wants_something_else_is_refused_early() -> None:
    class Greedy:
        def __init__(self, config: Any, database: Any) -> None: ...

    with pytest.raises(
        PluginRefused,
        match=r"its constructor wants 'database'\. A plugin class may take config, .*; give anything else a default",
    ):
        host(Greedy)


@pytest.mark.anyio
async def test_each_session_has_an_instance_of_its_own() -> None:
    async with host(Fine) as opened, opened.session("a") as a, opened.session("b") as b:
        assert a.plugin("fine") is not b.plugin("fine")


@pytest.mark.heavy
@pytest.mark.parametrize("sections", [False, True])
def test_the_work_of_making_a_host_grows_with_the_number_of_its_plugins_and_not_with_its_square(
    sections: bool,
) -> None:
    def policy(number: int) -> type:
        class Policy:
            plugin_id = f"policy_{number}"

            @hooks.before_tool_call
            def judge(self, event: BeforeToolCall) -> None: ...

        return Policy

    def work(count: int) -> int:
        """How many functions are called for a host of so many."""
        classes = [policy(number) for number in range(count)]
        config = {"plugins": {f"policy_{n}": {"timeouts": {"before_tool_call": 1.0}} for n in range(count * sections)}}
        calls = 0

        def counting(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(counting)
        try:
            host(*classes, config=config)
        finally:
            sys.setprofile(before)
        return calls

    least = work(1)
    assert work(401) - least < 2.1 * (work(201) - least)
