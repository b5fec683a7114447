"""A rule whose condition names an argument that no tool of it has: told, and closed where no tool of it can have one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Annotations, Tool, ToolCall
from hooksdk.hooks import BeforeToolCall
from hooksdk.testing import ScriptedApprover, event
from tests.stage import Stage, echo, playing

pytestmark = pytest.mark.anyio

TEXT = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


ACT = closed(
    amount={"type": "number"}, to=TEXT, path=TEXT, url=TEXT, command=TEXT,
    message=closed(to=TEXT), lines={"type": "array", "items": closed(sku=TEXT)},
)  # fmt: skip
OPEN = {
    "type": "object",
    "properties": {
        **ACT["properties"], "message": {"type": "object", "properties": {"to": TEXT}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": TEXT}}},
    },
}  # fmt: skip
CALL: dict[str, Any] = {
    "amount": 1000, "to": "eve@elsewhere.example", "path": "/etc/.env", "url": "https://evil.example/x", "command": "rm -rf x",
    "message": {"to": "eve@elsewhere.example"}, "lines": [{"sku": "x"}],
}  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {
    "a required argument": {"arguments": {"properties": {"amunt": {"minimum": 100}}, "required": ["amunt"]}},
    "an argument under not": {"arguments": {"not": {"properties": {"amunt": {"maximum": 99}}}}},
    "one of several": {"arguments": {"anyOf": [{"required": ["amunt"]}, {"properties": {"amount": {"const": 1}}, "required": ["amount"]}]}},
    "a condition": {"arguments": {"if": {"required": ["amunt"]}, "then": True, "else": False}},
    "a reference": {"arguments": {"$defs": {"x": {"required": ["amunt"]}}, "$ref": "#/$defs/x"}},
    "an inner argument": {"arguments": {"properties": {"message": {"required": ["too"]}}, "required": ["message"]}},
    "one in a list": {"arguments": {"properties": {"lines": {"contains": {"required": ["skuu"]}}}, "required": ["lines"]}},
    "dots in a schema": {"arguments": {"required": ["message.to"]}},
    "command": {"command": {"comand": "rm"}},
    "path_name": {"path_name": {"pth": ".env"}},
    "path_name of two": {"path_name": {"path": "*.pem", "pth": ".env"}},
    "path_inside": {"path_inside": {"pth": "/etc"}},
    "path_outside": {"path_outside": {"pth": "/work"}},
    "url_host": {"url_host": {"ulr": "evil.example"}},
    "an inner argument of url_host": {"url_host": {"message.ulr": "evil.example"}},
    "values": {"values_from_elsewhere": ["too"]},
    "inner values": {"values_from_elsewhere": ["message.too"]},
    "a constant object": {"arguments": {"const": {"amunt": 1000}}},
    "one of several objects": {"arguments": {"properties": {"message": {"enum": [{"too": "eve@elsewhere.example"}, {}]}}, "required": ["message"]}},
    "one that each way asks for": {"arguments": {"anyOf": [{"required": ["amount", "sum"]}, {"required": ["to", "sum"]}]}},
    "does with a path": {"does": "write", "path_inside": {"pth": "/etc"}},
    "does with a host": {"does": "reach", "url_host": {"ulr": "evil.example"}},
}  # fmt: skip
"""Each would stop CALL if its names were written as ACT has them."""


def act(parameters: Mapping[str, Any] | None = ACT, name: str = "act", **more: Any) -> Tool:
    return Tool(name=name, source="host", owner="core", parameters=parameters, execute=echo, **more)


def settings(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    grants = ["conversation"] if any("values_from_elsewhere" in rule for rule in rules) else []
    return {"allow": ["tool_policy"], "plugins": {"tool_policy": {"grants": grants, "config": {"rules": list(rules), **more.pop("config", {})}, **more}}}  # fmt: skip


def rule(form: str, action: str = "deny", tools: str = "act") -> dict[str, Any]:
    return {"action": action, "tools": tools, **FORMS[form]}


async def ran(stage: Stage, arguments: Mapping[str, Any] = CALL, name: str = "act") -> bool:
    return (await stage.call(name, dict(arguments))).text.startswith("ran with")


def told(*rules: dict[str, Any], tools: Sequence[Tool]) -> list[str]:
    """What the doctor says of names."""
    config = ToolPolicy.Config.model_validate({"rules": list(rules)})
    return [line for line in ToolPolicy.diagnose(config, tools) if "has an argument" in line]


@pytest.mark.light(every=5)
@pytest.mark.parametrize("form", FORMS)
async def test_a_rule_that_names_what_its_tools_cannot_have_stops_their_calls(form: str) -> None:
    async with playing(tools=[act()], config=settings(rule(form))) as stage:
        refusal = (await stage.call("act", CALL)).text
    assert "no tool of this rule has an argument" in refusal
    approver = ScriptedApprover(False)
    async with playing(tools=[act()], config=settings(rule(form, "ask")), approver=approver) as stage:
        assert not await ran(stage)
    assert "no tool of this rule has an argument" in approver.requests[0].title
    assert len(told(rule(form), tools=[act()])) == 1


@pytest.mark.parametrize(
    "condition",
    [
        {"values_from_elsewhere": ["to", "recipient"]}, {"path_name": {"path": "*.pem", "source": ".env"}},
        {"values_from_elsewhere": ["To"]}, {"path_name": {"PATH": "*.pem"}}, {"url_host": {"Message.To": "evil.example"}},
    ],
)  # fmt: skip
async def test_names_for_other_tools_and_other_spellings_of_a_name_are_no_slips(condition: dict[str, Any]) -> None:
    rule: dict[str, Any] = {"action": "deny", "tools": "act", **condition}
    harmless: dict[str, Any] = {**CALL, "to": "ann", "path": "notes", "message": {}, "url": "https://good.example"}
    async with playing(tools=[act()], config=settings(rule)) as stage:
        text = (await stage.call("act", harmless)).text
    assert "no tool of this rule" not in text
    assert told(rule, tools=[act()]) == []


@pytest.mark.light(every=5)
@pytest.mark.parametrize("form", FORMS)
async def test_where_tools_may_take_more_the_call_runs_and_the_log_says_so(
    form: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with playing(tools=[act(OPEN)], config=settings(rule(form))) as stage:
        (line,) = [one.getMessage() for one in caplog.records if "has an argument" in one.getMessage()]
        assert await ran(stage)
    assert line.endswith("Their schemas are open, so calls run that the rule may be meant for")
    (problem,) = told(rule(form), tools=[act(OPEN)])
    assert problem.partition(": ")[2] in line


# Where nothing is misspelt

AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}}
NO_ALARM: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "one of many tools has it": ({"tools": "*", **FORMS["a required argument"]}, [closed(city=TEXT), closed(amunt=TEXT)]),
    "one of many may have it": ({"tools": "*", **FORMS["a required argument"]}, [closed(city=TEXT), None]),
    "no schema": (FORMS["path_name"], [None]),
    "a schema without names": (FORMS["path_name"], [{"type": "object"}]),
    "anything": (FORMS["path_name"], [{"type": "object", "additionalProperties": True}]),
    "a schema of what is further": (FORMS["path_name"], [{**ACT, "additionalProperties": TEXT}]),
    "a pattern of names": (FORMS["path_name"], [{**ACT, "patternProperties": {"^p": TEXT}}]),
    "what is left": (FORMS["path_name"], [{"type": "object", "properties": {}, "unevaluatedProperties": TEXT}]),
    "a reference": (FORMS["path_name"], [{"$ref": "#/$defs/x", "$defs": {"x": closed(pth=TEXT)}}]),
    "a reference to elsewhere": (FORMS["path_name"], [{"$ref": "https://x.invalid/schema"}]),
    "a reference to itself": (FORMS["path_name"], [{"$ref": "#"}]),
    "together": (FORMS["path_name"], [{"allOf": [AMOUNT, {"properties": {"pth": TEXT}}], "unevaluatedProperties": False}]),
    "one of several forms": (FORMS["path_name"], [{"anyOf": [closed(path=TEXT), closed(pth=TEXT)]}]),
    "by another argument": (FORMS["path_name"], [{"if": {"required": ["a"]}, "then": closed(a=TEXT, pth=TEXT), "else": closed(b=TEXT)}]),
    "a dependent schema": (FORMS["path_name"], [{**AMOUNT, "dependentSchemas": {"amount": {"properties": {"pth": TEXT}}}}]),
    "a dot in the name": ({"path_name": {"file.path": ".env"}}, [closed(**{"file.path": TEXT})]),
    "a dot for what is inside": ({"path_name": {"file.path": ".env"}}, [closed(file=closed(path=TEXT))]),
    "a dot in an inner name": ({"path_name": {"a.b.c": ".env"}}, [closed(a=closed(**{"b.c": TEXT}))]),
    "an object of anything": ({"path_name": {"file.path": ".env"}}, [closed(file={"type": "object"})]),
    "inside a list": ({"path_name": {"files.path": ".env"}}, [closed(files={"type": "array", "items": closed(path=TEXT)})]),
    "an optional object": ({"path_name": {"file.path": ".env"}}, [closed(file={"anyOf": [closed(path=TEXT), {"type": "null"}]})]),
    "other names of the same": ({"url_host": dict.fromkeys(("url", "uri", "urls", "Link"), "evil.example")}, [closed(url=TEXT)]),
    "other names of the same value": ({"values_from_elsewhere": ["to", "too", "recipient"]}, [closed(to=TEXT)]),
    "other names inside": ({"path_name": dict.fromkeys(("file.path", "file.source"), ".env")}, [closed(file=closed(path=TEXT))]),
    "another way": ({"arguments": {"anyOf": [{"required": ["amount"]}, {"required": ["total", "currency"]}]}}, [closed(amount=TEXT)]),
    "another way inside": ({"arguments": {"properties": {"order": {"oneOf": [{"required": ["amount"]}, {"required": ["total"]}]}}, "required": ["order"]}}, [closed(order=closed(total=TEXT))]),
    "JSON text": ({"path_name": {"body.file.path": ".env"}}, [closed(body={"type": ["string", "null"]})]),
    "another spelling of what is inside": ({"path_name": {"file[path]": ".env", "/file/path": ".env"}}, [closed(file=closed(path=TEXT))]),
    "places in a list": ({"path_name": {"files.0.path": ".env"}}, [closed(files={"type": "array", "items": closed(path=TEXT)})]),
    "every argument": ({"path_name": ".env", "command": "rm", "url_host": "evil.example"}, [closed(city=TEXT)]),
    "all addresses": ({"values_from_elsewhere": ["**addresses"]}, [closed(city=TEXT)]),
    "tools that do not do it": ({"tools": "*", "does": "run", "command": {"command": "rm"}}, [closed(city=TEXT)]),
}  # fmt: skip


@pytest.mark.light(every=5)
@pytest.mark.parametrize("case", NO_ALARM)
async def test_no_rule_is_called_misspelt_whose_tools_may_have_the_argument(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    more, schemas = NO_ALARM[case]
    tools = [act(one, f"act_{at}", annotations=Annotations(read_only=True)) for at, one in enumerate(schemas)]
    denied = {"action": "deny", "tools": "act_*", **more}
    async with playing(tools=tools, config=settings(denied)) as stage:
        assert "no tool of this rule" not in (await stage.call("act_0", {})).text
    assert not [one for one in caplog.records if "has an argument" in one.getMessage()]
    assert not told(denied, tools=tools)


CLOSED: list[dict[str, Any]] = [
    closed(path=TEXT),
    closed(),
    {"type": "object", "properties": {"path": TEXT}, "unevaluatedProperties": False},
    {"$ref": "#/$defs/x", "$defs": {"x": closed(path=TEXT)}},
    {"allOf": [closed(path=TEXT), {"properties": {"pth": TEXT}}]},
    {"anyOf": [closed(path=TEXT), closed(file=TEXT)]},
    {**closed(path=TEXT), "patternProperties": {"^x-": TEXT}},
    {"type": "object", "propertyNames": {"enum": ["path", "file"]}, "additionalProperties": TEXT},
    {"type": "object", "properties": {"path": TEXT, "pth": False}},
]


@pytest.mark.parametrize("parameters", CLOSED)
async def test_a_schema_is_closed_in_whatever_way_it_says_so(parameters: dict[str, Any]) -> None:
    async with playing(tools=[act(parameters)], config=settings(rule("path_name"))) as stage:
        assert "no tool of this rule has an argument 'pth'" in (await stage.call("act", {})).text


def test_a_hostile_schema_takes_no_time_and_says_nothing() -> None:
    doubling = {
        f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}, {"$ref": f"#/$defs/d{at + 1}"}]} for at in range(60)
    }
    deep: dict[str, Any] = {}
    for _ in range(3000):
        deep = {"allOf": [deep]}
    for parameters in ({"$ref": "#/$defs/d0", "$defs": doubling}, deep):
        assert not told(rule("path_name"), tools=[act(parameters)])
    many = {"action": "deny", "tools": "act", "path_name": {".".join("abcdefghijklmnopqrstuvwxyz"): ".env"}}
    assert told(many, tools=[act()])


# In time, and among agents


async def test_a_tool_that_comes_later_ends_the_doubt() -> None:
    denied = rule("a required argument", tools="*")
    async with playing(tools=[act()], config=settings(denied)) as stage:
        assert not await ran(stage)
        await stage.run.resolve_tools([act(), act(closed(amunt=TEXT), "other")])
        assert await ran(stage)
        await stage.run.resolve_tools([act(), act(closed(amount=TEXT), "other")])
        assert not await ran(stage)


async def test_a_sub_agent_with_some_of_the_tools_is_judged_by_the_names_that_all_have() -> None:
    denied = {"action": "deny", "tools": ["pay", "refund"], "arguments": {"properties": {"amount": {"minimum": 100}}, "required": ["amount"]}}  # fmt: skip
    pay, refund = act(closed(amount={"type": "number"}), "pay"), act(closed(id=TEXT), "refund")
    async with playing(tools=[pay, refund], config=settings(denied)) as stage:
        async with stage.session.child() as child, child.run() as run:
            await run.resolve_tools([refund])
            assert (await run.call_tool(ToolCall("a", "refund", {"id": "1"}))).text.startswith("ran with")
        assert not await ran(stage, {"amount": 100}, "pay")


async def test_a_sub_agent_is_held_to_a_misspelt_rule_and_told_of_it_as_well() -> None:
    async with (
        playing(tools=[act()], config=settings(rule("path_name"))) as stage,
        stage.session.child() as child,
        child.run() as run,
    ):
        await run.resolve_tools([act()])
        assert "no tool of this rule" in (await run.call_tool(ToolCall("a", "act", {"path": "/etc/.env"}))).text


async def test_the_log_says_it_once_in_a_session(caplog: pytest.LogCaptureFixture) -> None:
    async with playing(tools=[act()], config=settings(rule("path_name"))) as stage:
        for _ in range(2):
            await stage.run.resolve_tools([act(), act(name="other")])
            await ran(stage)
    assert len([one for one in caplog.records if "has an argument" in one.getMessage()]) == 1


# What doubt does not do


@pytest.mark.parametrize(
    ("default", "more", "outcome"),
    [
        ("deny", [], "no rule of the tool policy allows it"),
        ("deny", [{"action": "allow", "tools": "act"}], "asked"),
        ("allow", [{"action": "deny", "tools": "act", "path_name": ".env", "reason": "never"}], "never"),
        ("allow", [], "asked"),
    ],
)
async def test_a_doubt_loosens_nothing(default: str, more: list[dict[str, Any]], outcome: str) -> None:
    approver = ScriptedApprover(False)
    rules = [rule("a required argument", "ask"), *more]
    async with playing(tools=[act()], config=settings(*rules, config={"default": default}), approver=approver) as stage:
        text = (await stage.call("act", CALL)).text
        call = event(BeforeToolCall, tool=act(), arguments=CALL)
        said = stage.session.plugin("tool_policy").explain(call).action
    assert outcome == "asked" if approver.requests else outcome in text
    assert said == ("ask" if approver.requests else "deny")


async def test_what_else_a_rule_asks_for_must_still_be_so() -> None:
    both = {"action": "deny", "tools": "act", "path_name": {"pth": ".env"}, "url_host": "evil.example"}
    async with playing(tools=[act()], config=settings(both)) as stage:
        assert not await ran(stage, {"url": "https://evil.example/"})
        assert await ran(stage, {"url": "https://good.example/"})


async def test_a_limit_with_a_misspelt_condition_counts_every_call() -> None:
    async with playing(tools=[act()], config=settings({**rule("path_name"), "limit": {"calls": 1}})) as stage:
        assert [await ran(stage), await ran(stage)] == [True, False]


async def test_in_shadow_mode_it_stops_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with playing(tools=[act()], config=settings(rule("path_name"), mode="shadow")) as stage:
        assert await ran(stage)
    assert [one for one in caplog.records if "no tool of this rule has an argument 'pth'" in one.getMessage()]


async def test_an_allow_that_names_what_there_is_not_is_told_and_allows_nothing() -> None:
    allowed = {"action": "allow", "tools": "act", "path_inside": {"pth": "/etc"}}
    async with playing(tools=[act()], config=settings(allowed, config={"default": "deny"})) as stage:
        assert not await ran(stage)
    assert told(allowed, tools=[act()])[0].endswith("'path'? So nothing is allowed that depends on it")
