"""The arguments of an event refuse every change, and are a plain JSON value for everything else."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from stage import make, playing

from hooksdk import ToolCall, hooks
from hooksdk.errors import PluginError, ReadOnlyArguments
from hooksdk.hooks import AfterToolCall, BeforeToolCall, Rewrite, RewriteToolCall

pytestmark = pytest.mark.anyio

VALUE = {"path": "a", "deep": {"list": [1, {"two": 2}], "none": None}}


def arguments(value: dict[str, Any] | None = None) -> Any:
    """What a handler reads of an event."""
    call = ToolCall("c1", "act")
    return BeforeToolCall(call=call, tool=make("act"), arguments=VALUE if value is None else value).arguments


CHANGES: dict[str, Callable[[Any], object]] = {
    "an assignment": lambda given: given.__setitem__("path", "b"),
    "a deletion": lambda given: given.__delitem__("path"),
    "update": lambda given: given.update(path="b"),
    "pop": lambda given: given.pop("path"),
    "popitem": lambda given: given.popitem(),
    "clear": lambda given: given.clear(),
    "setdefault": lambda given: given.setdefault("new", 1),
    "|=": lambda given: given.__ior__({"path": "b"}),
    "an assignment deeper in": lambda given: given["deep"].__setitem__("new", 1),
    "append": lambda given: given["deep"]["list"].append(3),
    "extend": lambda given: given["deep"]["list"].extend([3]),
    "an item of a list": lambda given: given["deep"]["list"].__setitem__(0, 3),
    "sort": lambda given: given["deep"]["list"].sort(),
    "+=": lambda given: given["deep"]["list"].__iadd__([3]),
    "an object in a list": lambda given: given["deep"]["list"][1].update(two=3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_refused_with_the_answer_to_give(change: Callable[[Any], object]) -> None:
    given = arguments()
    with pytest.raises(
        ReadOnlyArguments, match=r"Answer hooks\.Rewrite\(\{\.\.\.\}\) from rewrite_tool_call"
    ) as raised:
        change(given)
    assert isinstance(raised.value, (PluginError, TypeError))
    assert given == VALUE


READINGS: dict[str, Callable[[Any], object]] = {
    "JSON": lambda given: json.loads(json.dumps(given, indent=1)),
    "a deep copy": copy.deepcopy,
    "a shallow copy": copy.copy,
    "its own copy": lambda given: given.copy(),
    "a pickle": lambda given: pickle.loads(pickle.dumps(given)),
    "unpacking": lambda given: {**given},
    "dict()": dict,
    "a union": lambda given: given | {},
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_a_copy_is_equal_plain_and_free(reading: Callable[[Any], Any]) -> None:
    made = reading(arguments())
    assert made == VALUE
    assert type(made) is dict
    made["path"] = "b"
    assert arguments() == VALUE


@pytest.mark.parametrize("reading", ["a deep copy", "a pickle"])
def test_a_deep_copy_is_free_all_the_way_down(reading: str) -> None:
    made: Any = READINGS[reading](arguments())
    made["deep"]["list"][1]["two"] = 3
    assert (type(made["deep"]), type(made["deep"]["list"])) == (dict, list)


def test_arguments_are_a_dict_for_isinstance_pydantic_and_equality() -> None:
    class Deep(pydantic.BaseModel):
        list: list[Any]
        none: None

    class Arguments(pydantic.BaseModel):
        path: str
        deep: Deep

    given = arguments()
    assert isinstance(given, dict)
    assert isinstance(given["deep"]["list"], list)
    assert given == VALUE
    assert Arguments.model_validate(given, strict=True).deep.list == [1, {"two": 2}]
    assert str(arguments()) == str(VALUE)


def test_each_access_is_a_copy_of_its_own() -> None:
    event = BeforeToolCall(call=ToolCall("c1", "act"), tool=make("act"), arguments={"path": "a"})
    vars(dict)["__setitem__"](event.arguments, "path", "b")
    assert event.arguments == {"path": "a"}


async def test_a_policy_that_writes_into_its_event_blocks_the_call_and_the_log_says_what_to_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Redacts:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            event.arguments["path"] = "***"

    async with playing(Redacts) as stage:
        assert "was not run" in (await stage.call("act", {"path": "a"})).text
        assert stage.executed == []
    assert any(
        "Answer hooks.Rewrite" in record.message for record in caplog.records if record.levelno >= logging.WARNING
    )


async def test_a_rewrite_made_of_the_arguments_and_what_they_hold_reaches_the_tool_as_plain_values() -> None:
    class Stamps:
        @hooks.rewrite_tool_call
        def stamp(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({**event.arguments, "again": event.arguments["deep"]})

    kinds: list[type] = []

    def look(arguments: dict[str, Any]) -> str:
        kinds.extend(map(type, (arguments, arguments["again"], arguments["again"]["list"])))
        return "seen"

    tools = [make("look", look, properties={})]
    async with playing(Stamps, tools=tools) as stage:
        assert (await stage.call("look", VALUE)).text == "seen"
    assert kinds == [dict, dict, list]


async def test_an_observer_reads_them_frozen_too() -> None:
    problems: list[type] = []

    class Watches:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            try:
                event.arguments["path"] = "b"
            except ReadOnlyArguments as error:
                problems.append(type(error))

    async with playing(Watches) as stage:
        await stage.call("act", {"path": "a"})
        await stage.observed()
    assert problems == [ReadOnlyArguments]
