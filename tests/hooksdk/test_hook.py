"""Every form of the decorator, and every mistake in using it."""

from __future__ import annotations

import functools
import inspect
import pickle
import re
import textwrap
import traceback
import types
from pathlib import Path
from typing import Any

import pytest

from hooksdk import hooks
from hooksdk._firing.hook import Handler, options_of
from hooksdk.errors import HookUseError
from hooksdk.hooks import HOOKS, AgentStart, Answer, Ask, BeforeToolCall, Block, Event, Rewrite, Secrets, Withhold
from hooksdk.patterns import ToolPattern

HERE = re.escape(__file__)


def plugin(source: str, tmp_path: Path) -> types.ModuleType:
    """A plugin's module, as its author's import would run it."""
    path = tmp_path / "plug.py"
    path.write_text(textwrap.dedent(source))
    module = types.ModuleType("plug")
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


# Forms


@pytest.mark.parametrize(
    ("decorate", "order", "timeout"),
    [
        (hooks.before_tool_call, 0, None),
        (hooks.before_tool_call.first, -1, None),
        (hooks.before_tool_call.last, 1, None),
        (hooks.before_tool_call(timeout=3), 0, 3),
        (hooks.before_tool_call.first(timeout=3), -1, 3),
        (hooks.before_tool_call(timeout=0.5).last, 1, 0.5),
        (hooks.before_tool_call(timeout=float("inf")), 0, float("inf")),
        (hooks.before_tool_call(), 0, None),
    ],
)
def test_every_form_gives_the_function_its_options(decorate: Any, order: int, timeout: float | None) -> None:
    @decorate
    def judge(event: BeforeToolCall) -> Block | None:
        return None

    assert (options_of(judge).order, options_of(judge).timeout) == (order, timeout)


def test_options_do_not_stick_to_the_hook_itself() -> None:
    hooks.before_tool_call.first(timeout=3, tools="a_*", thread=True)

    @hooks.before_tool_call
    def judge(event: BeforeToolCall) -> Block | None:
        return None

    options = options_of(judge)
    assert (options.order, options.timeout, options.tools, options.thread, options.required) == (
        0,
        None,
        None,
        False,
        False,
    )


def test_tools_may_be_one_pattern_or_several() -> None:
    @hooks.before_tool_call(tools="mcp:github:*")
    def one(event: BeforeToolCall) -> Block | None:
        return None

    @hooks.before_tool_call(tools=["read_*", "write_*"])
    def several(event: BeforeToolCall) -> Block | None:
        return None

    assert options_of(one).tools == (ToolPattern("mcp:github:*"),)
    assert options_of(several).tools == (ToolPattern("read_*"), ToolPattern("write_*"))


def test_the_decorated_function_stays_the_plain_function() -> None:
    def judge(event: BeforeToolCall) -> Block | None:
        """Docs."""
        return Block("no")

    assert hooks.before_tool_call.first(timeout=3)(judge) is judge  # type: ignore[comparison-overlap]
    assert judge(None) == Block("no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert judge.__doc__ == "Docs."

    class Plugin:
        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("no")

    assert inspect.iscoroutinefunction(Plugin.judge)


def test_every_hook_takes_functions_and_methods_of_both_kinds() -> None:
    for hook in HOOKS.values():
        scope: dict[str, Any] = {"hook": hook}
        source = (
            "@hook\ndef plain(event): ...\n@hook.first\nasync def coroutine(event): ...\n"
            "class Plugin:\n    @hook.last\n    def plain(self, event): ...\n    @hook(timeout=2)\n    async def coroutine(self, event): ...\n"
        )
        exec(source, scope)
        assert options_of(scope["plain"]).order == 0
        assert options_of(scope["Plugin"].coroutine).timeout == 2


def test_a_hook_knows_its_event_answers_and_docstring() -> None:
    hook: Any = hooks.before_tool_call
    assert (hook.name, hook.event, hook.answers) == ("before_tool_call", BeforeToolCall, (Block, Ask, Answer))
    assert "Judge a call" in hook.__doc__
    assert repr(hook) == "<hook before_tool_call>"


def test_a_handlers_message_names_plugin_function_and_line() -> None:
    @hooks.before_tool_call
    def judge(event: BeforeToolCall) -> Block | None:
        return None

    line = judge.__code__.co_firstlineno  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    handler = Handler(hooks.before_tool_call, judge, judge, "plug")
    assert handler.who == f"plugin 'plug', {judge.__qualname__} ({__file__}:{line})"  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]


# Mistakes. Each message says who, where, what, and what to try.


def refused(source: str, tmp_path: Path) -> str:
    with pytest.raises(HookUseError) as caught:
        plugin("from hooksdk import hooks\nfrom hooksdk.hooks import *\n" + textwrap.dedent(source), tmp_path)
    assert isinstance(caught.value, TypeError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    message = str(caught.value)
    assert message.startswith("@hooks.")
    assert "plug.py:" in message, "the message says file and line"
    return message


MISTAKES = {
    "wrong event": ("@hooks.before_tool_call\ndef f(event: AgentStart): ...", "f (", "its event is declared as AgentStart", "before_tool_call is fired with BeforeToolCall"),
    "wrong event in quotes": ("@hooks.before_tool_call\ndef f(event: 'hooks.AgentStart'): ...", "f (", "its event is declared as AgentStart", "fired with BeforeToolCall"),
    "wrong event of a method": ("class P:\n    @hooks.agent_end\n    async def f(self, event: AgentStart): ...", "P.f (", "declared as AgentStart", "agent_end is fired with AgentEnd"),
    "parameter name": ("@hooks.before_tool_call\ndef f(evt): ...", "f (", "its parameters are (evt)", "Write def f(event)"),
    "no parameter": ("@hooks.before_tool_call\ndef f(): ...", "f (", "its parameters are ()", "Write def f(event)"),
    "two parameters": ("@hooks.before_tool_call\ndef f(event, run): ...", "f (", "its parameters are (event, run)", "Write def f(event)"),
    "no self": ("class P:\n    @hooks.before_tool_call\n    def f(event): ...", "P.f (", "its parameters are (event)", "Write def f(self, event)"),
    "self of a function": ("@hooks.before_tool_call\ndef f(self, event): ...", "f (", "its parameters are (self, event)", "Write def f(event)"),
    "keyword only": ("@hooks.before_tool_call\ndef f(*, event): ...", "f (", "its parameters are (*, event)", "Write def f(event)"),
    "star": ("@hooks.before_tool_call\ndef f(*event): ...", "f (", "its parameters are (*event)", "Write def f(event)"),
    "generator": ("@hooks.before_tool_call\ndef f(event): yield", "f (", "a generator cannot be a handler", "Return the answer"),
    "async generator": ("@hooks.before_tool_call\nasync def f(event): yield", "f (", "a generator cannot be a handler", "Return the answer"),
    "class": ("@hooks.before_tool_call\nclass P: ...", "plug.py:", "not a function", "Decorate a `def`"),
    "staticmethod": ("class P:\n    @hooks.before_tool_call\n    @staticmethod\n    def f(event): ...", "plug.py:", "not a function", "Decorate a `def`"),
    "positional option": ("@hooks.before_tool_call(3)\ndef f(event): ...", "3 (", "not a function", "name the options"),
    "two hooks": ("@hooks.agent_start\n@hooks.before_tool_call\ndef f(event): ...", "f (", "already handles another hook", "one function for each hook"),
    "thread of a coroutine": ("@hooks.before_tool_call(thread=True)\nasync def f(event): ...", "f (", "thread=True is for a plain `def`", "Leave it out"),
    "unknown option": ("@hooks.before_tool_call(timout=3)\ndef f(event): ...", "its options (", "no option 'timout'", "Did you mean 'timeout'?"),
    "option of another hook": ("@hooks.agent_start(tools='a')\ndef f(event): ...", "its options (", "no option 'tools'", "It takes thread, timeout"),
    "required policy": ("@hooks.before_tool_call(required=True)\ndef f(event): ...", "its options (", "no option 'required'", "It takes thread, timeout, tools"),
    "zero seconds": ("@hooks.before_tool_call(timeout=0)\ndef f(event): ...", "its options (", "timeout=0 is not a number of seconds above 0", "Write such as timeout=3"),
    "seconds in words": ("@hooks.before_tool_call(timeout='3')\ndef f(event): ...", "its options (", "timeout='3' is not", "Write such as"),
    "true seconds": ("@hooks.before_tool_call(timeout=True)\ndef f(event): ...", "its options (", "timeout=True is not", "Write such as"),
    "nan seconds": ("@hooks.before_tool_call(timeout=float('nan'))\ndef f(event): ...", "its options (", "timeout=nan is not", "Write such as"),
    "thread in words": ("@hooks.before_tool_call(thread='yes')\ndef f(event): ...", "its options (", "thread='yes' is not True or False", "Write thread=True"),
    "empty pattern": ("@hooks.before_tool_call(tools='')\ndef f(event): ...", "its options (", "'' is not a tool pattern", "Correct the pattern"),
    "half an id": ("@hooks.before_tool_call(tools='mcp:github')\ndef f(event): ...", "its options (", "has two parts", "'mcp:github:*'"),
    "unknown source": ("@hooks.before_tool_call(tools=['a', 'mpc:github:*'])\ndef f(event): ...", "its options (", "no tool has the source 'mpc'", "Did you mean 'mcp'?"),
    "no pattern": ("@hooks.before_tool_call(tools=[])\ndef f(event): ...", "its options (", "tools is empty", "Leave tools out"),
    "number as pattern": ("@hooks.before_tool_call(tools=5)\ndef f(event): ...", "its options (", "tools:", "Correct the pattern"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_at_import_with_words_that_help(name: str, tmp_path: Path) -> None:
    source, *parts = MISTAKES[name]
    message = refused(source, tmp_path)
    for part in parts:
        assert part in message


def test_a_misspelt_hook_is_an_attribute_error_that_names_the_right_one() -> None:
    with pytest.raises(
        AttributeError, match=r"no hook or event called 'before_toolcall'.* Did you mean 'before_tool_call'"
    ) as caught:
        hooks.before_toolcall  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    assert "".join(traceback.format_exception(caught.value)).count("Did you mean") == 1, "Python adds none of its own"
    with pytest.raises(AttributeError, match=r"called 'BeforeToolCal'\. Did you mean 'BeforeToolCall'"):
        hooks.BeforeToolCal  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    with pytest.raises(AttributeError, match=r"See docs/reference/hooks.md"):
        hooks.zzz  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018


# Annotations never get in the way


CHECKER_ONLY = """
from __future__ import annotations
from typing import TYPE_CHECKING
from hooksdk import hooks
if TYPE_CHECKING:
    from hooksdk import hooks as h
    from hooksdk.hooks import BeforeToolCall, Block
    from hooksdk.hooks import BeforeToolCall as Call
"""
AT_RUN_TIME = """
from typing import Any
from hooksdk import hooks
from hooksdk.hooks import AfterToolCall, BeforeToolCall, Event
from hooksdk.hooks import BeforeToolCall as Call
"""


@pytest.mark.parametrize(
    ("head", "event"),
    [
        *(
            (CHECKER_ONLY, event)
            for event in ("BeforeToolCall", "h.BeforeToolCall", "Call", "h.Event", "Nowhere", "Any")
        ),
        *(
            (AT_RUN_TIME, event)
            for event in ("BeforeToolCall", "Call", "Event", "object", "Any", "hooks.BeforeToolCall")
        ),
        *((AT_RUN_TIME, event) for event in ("'BeforeToolCall'", "'Nowhere | Else'", "'not even python ('", "'Call'")),
        (AT_RUN_TIME, "BeforeToolCall | AfterToolCall"),
        ("from __future__ import annotations\n" + AT_RUN_TIME, "Call"),
    ],
)
def test_an_annotation_that_may_be_right_is_let_through(head: str, event: str, tmp_path: Path) -> None:
    source = f"{head}\n@hooks.before_tool_call\ndef f(event: {event}): ...\n"
    plugin(f"{source}class P:\n    @hooks.before_tool_call\n    async def f(self, event: {event}): ...\n", tmp_path)


def test_a_wrong_event_is_caught_under_type_checking_imports_too(tmp_path: Path) -> None:
    source = (
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nfrom hooksdk import hooks\n"
        "if TYPE_CHECKING:\n    from hooksdk.hooks import AgentStart\n"
        "@hooks.before_tool_call\ndef f(event: AgentStart): ..."
    )
    with pytest.raises(HookUseError, match="declared as AgentStart"):
        plugin(source, tmp_path)


# Answers and events


NONSENSE: list[tuple[Any, tuple[Any, ...]]] = [
    (Block, (None,)),
    (Block, (5,)),
    (Answer, (5,)),
    (Ask, ("a", "", "info", "soon")),
    (Ask, ("a", "", "info", float("nan"))),
    (Ask, (None,)),
    (Rewrite, ("{}",)),
    (Withhold, (5, "x")),
    (Secrets, (["a"],)),
]


@pytest.mark.parametrize(("kind", "arguments"), NONSENSE)
def test_an_answer_that_the_run_cannot_use_is_refused_where_it_is_made(kind: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        kind(*arguments)


def test_a_plugins_own_answer_type_may_have_annotations_for_the_checker_only() -> None:
    class Firm(Block):
        note: Nowhere  # type: ignore[name-defined]  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType, reportUninitializedInstanceVariable]  # noqa: F821

    assert Firm("no").reason == "no"


def test_events_are_frozen_and_hand_out_copies() -> None:
    event = AgentStart(input={"a": [1]})
    with pytest.raises(AttributeError):
        event.__setattr__("input", 5)
    given: Any = event.input
    given["a"].append(2)
    assert event.input == {"a": [1]}
    assert not any(isinstance(value, dict) for value in list[Any](vars(event).values()))
    assert isinstance(event, Event)
    assert (event.session_id, event.run_id, event.attempt, event.agent_id, dict(event.metadata)) == (
        "",
        "",
        0,
        "main",
        {},
    )


def test_a_wrapper_that_says_what_it_wraps_keeps_the_handlers_place() -> None:
    def noted(function: Any) -> Any:
        @functools.wraps(function)
        def inner(event: Any) -> Any:
            return function(event)

        return inner

    @noted
    @hooks.after_tool_call
    async def see(event: hooks.AfterToolCall) -> None:
        return None

    handler = Handler(hooks.after_tool_call, see, see, "plug")
    assert handler.source.endswith(f"test_hook.py:{inspect.unwrap(see).__code__.co_firstlineno}")
    assert not handler.threaded
