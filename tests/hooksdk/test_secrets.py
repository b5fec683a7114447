"""A secret's value reaches the tool and nothing else (R17)."""

from __future__ import annotations

import base64
import functools
import html
import json
import logging
import textwrap
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from hooksdk import Tool, ToolContext, ToolError, ToolResult, hooks
from hooksdk.errors import ConfigError, PolicyFailed
from hooksdk.hooks import (
    AfterToolCall,
    BeforeToolCall,
    ResolveSecrets,
    RewriteToolCall,
    Secrets,
    Trace,
    TransformToolResult,
)
from tests.stage import Stage, playing

pytestmark = pytest.mark.anyio

CANARIES = {
    **{f"PLAIN_{n}": f"canary-{n:02}-d41d8cd98f00b204" for n in range(10)},
    **{f"SPACED_{n}": f"canary {n:02}  two blanks" for n in range(3)},
    **{f"LINES_{n}": f"-----BEGIN KEY-----\ncanary{n:02}MIIEvQIBADANBg\n-----END KEY-----\n" for n in range(3)},
    **{f"QUOTED_{n}": f"canary\"{n:02}'back\\slash" for n in range(3)},
    **{f"UNICODE_{n}": f"cänary{n:02}-ключ-🔑" for n in range(3)},
    **{f"URL_{n}": f"canary{n:02}&a=b/c?d=é" for n in range(3)},
    **{f"NAMED.{n}-x": f"canary.{n:02}.[a-z]+(x|y)*" for n in range(3)},
    **{f"WORD_{n}": word for n, word in enumerate(["k7Qz", "Zx9!", "p@ss", "hunter2", "0xBADF00D", "tr0ub4dor&3"])},
    **{f"BASE64_{n}": f"Y2FuYXJ5{n}ZGVhZGJlZWY" + "=" * n for n in range(3)},
    **{f"REGEX_{n}": f"({n}canary|^$)[^x]{{2,}}\\d+?" for n in range(6)},
    **{f"EDGES_{n}": f"  canary{n:02} at the edges\t\n" for n in range(4)},
    **{f"BRACES_{n}": f"{{{{canary{n:02}}}}}%s%(name)s{{0}}" for n in range(4)},
    **{f"MARKUP_{n}": f"<canary{n:02} a='1'>&amp;</canary>" for n in range(4)},
    **{f"WIDE_{n}": f"канарейка{n:02}-İstanbul-ﬁ-é" for n in range(2)},
    "DIGITS": "4929133754",
    "LONG": "canary" + "x1" * 900,
    "PREFIX": "canary-00-d41d8cd98f00b204-and-more",
}
SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}


@functools.cache
def forms(value: str) -> set[str]:
    """What nobody may see: the value as it is, and as it is commonly written."""
    raw = value.encode()
    spelt = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    spelt |= {
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        base64.b64encode(raw).decode(),
        " ".join(value.split()),
    }
    spelt |= {raw.hex(), raw.hex().upper(), html.escape(value)}
    if len(value) >= 8:  # a shorter one is looked for as it is written: in any case it would be found everywhere
        spelt |= {value.upper(), value.lower(), "\n".join(textwrap.wrap(value, 5))}
    if len(raw) >= 6:
        spelt |= {b64encode(f"{user}:{value}") for user in ("a", "ab", "abc")}
        spelt.add(base64.encodebytes(f"user:{value}".encode()).decode().strip())
    return spelt


def b64encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def leaks(text: str) -> list[str]:
    return [name for name, value in CANARIES.items() if any(form in text for form in forms(value))]


class Vault:
    @hooks.resolve_secrets
    async def resolve(self, event: ResolveSecrets) -> Secrets | None:
        return Secrets({name: CANARIES[name] for name in event.names if name in CANARIES})


class Sees:
    """Everything that a plugin is shown of a call."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def keep(self, *things: Any) -> None:
        self.seen.extend(repr(thing) for thing in things)

    @hooks.rewrite_tool_call
    def rewrite(self, event: RewriteToolCall) -> None:
        self.keep(event, event.arguments)

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> None:
        self.keep(event, event.arguments)

    @hooks.transform_tool_result
    def transform(self, event: TransformToolResult) -> None:
        self.keep(event, event.arguments, event.result.blocks, event.result.structured, event.result.text)

    @hooks.after_tool_call
    async def after(self, event: AfterToolCall) -> None:
        self.keep(event, event.arguments, event.result.blocks, event.result.structured, event.result.text)

    @hooks.trace
    async def record(self, event: Trace) -> None:
        self.keep(event, event.record.as_dict())


got: list[str] = []


async def echo(arguments: dict[str, Any]) -> ToolResult:
    got.append(arguments["key"])
    key = arguments["key"]
    return ToolResult(f"your key is {key}", structured={key: [key, {"deep": key}]})


async def blocks(arguments: dict[str, Any]) -> ToolResult:
    key = arguments["key"]
    got.append(key)
    return ToolResult(
        blocks=[{"type": "text", "text": key}, {"type": "resource", "resource": {"uri": f"x://{quote(key)}"}}]
    )


async def written(arguments: dict[str, Any]) -> str:
    key = arguments["key"]
    got.append(key)
    return " ".join(forms(key))


async def fails(arguments: dict[str, Any]) -> str:
    got.append(arguments["key"])
    raise RuntimeError("x" * 1990 + arguments["key"])


async def fails_by_key(arguments: dict[str, Any]) -> str:
    got.append(arguments["key"])
    return dict[str, str]()[arguments["key"]]


async def refuses(arguments: dict[str, Any]) -> str:
    got.append(arguments["key"])
    raise ToolError(f"the key {arguments['key']} is worn out")


async def tells(arguments: dict[str, Any], context: ToolContext) -> str:
    got.append(arguments["key"])
    await context.progress(f"using {arguments['key']}", 0.5)
    return "told"


async def passes_on(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return await context.call_tool("echo", {"key": arguments["key"]})


async def mismatches(arguments: dict[str, Any]) -> ToolResult:
    got.append(arguments["key"])
    return ToolResult(json.dumps({"n": arguments["key"]}))


EXECUTORS = [echo, blocks, written, fails, fails_by_key, refuses, tells, passes_on, mismatches]


def make(execute: Any, parameters: dict[str, Any] = SCHEMA) -> Tool:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}} if execute is mismatches else None
    return Tool(
        name=execute.__name__, source="host", owner="core", parameters=parameters, execute=execute, output_schema=output
    )


async def everything(stage: Stage, text: str, caplog: pytest.LogCaptureFixture) -> str:
    sees: Sees = stage.session.plugin("sees")
    stored = json.dumps(stage.session.messages, ensure_ascii=False)
    return "\n".join(
        [text, stored, str(stage.run.stats), *sees.seen, caplog.text, *(str(r.__dict__) for r in caplog.records)]
    )


@pytest.mark.heavy
@pytest.mark.parametrize("execute", EXECUTORS)
async def test_no_canary_gets_out_of_a_tool_in_any_way(execute: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert len(CANARIES) == 60
    told: list[str] = []
    async with playing(Vault, Sees, tools=[make(one) for one in {execute, echo}]) as stage:
        for name, value in CANARIES.items():
            got.clear()
            result = await stage.call(execute.__name__, {"key": f"{{{{secret:{name}}}}}"})
            assert got == [value]
            told.append(f"{execute.__name__} {name} {result.text} {result.blocks} {result.structured}")
            assert leaks(told[-1]) == []
        await stage.session._dispatcher.flush(10)  # type: ignore[union-attr]  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
        text = await everything(stage, "\n".join(told), caplog)
    assert leaks(text) == []
    assert leaks(caplog.text) == []


async def test_the_echo_reads_as_the_placeholder() -> None:
    async with playing(Vault, tools=[make(echo)]) as stage:
        result = await stage.call("echo", {"key": "{{ secret:PLAIN_1 }}"})
        assert result.text == "your key is {{secret:PLAIN_1}}"
        assert result.structured == {"{{secret:PLAIN_1}}": ["{{secret:PLAIN_1}}", {"deep": "{{secret:PLAIN_1}}"}]}


@pytest.mark.parametrize(
    "rule",
    [
        {"enum": ["a", "canary-02"]},
        {"pattern": "^x"},
        {"maxLength": 3},
        {"const": "b"},
        {"not": {"minLength": 1}},
        {"type": "string", "minLength": 9000},
    ],
)
async def test_a_filled_value_that_the_schema_refuses_is_not_quoted(
    rule: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    parameters = {"type": "object", "properties": {"key": {"anyOf": [{"pattern": r"^\{\{"}, rule]}}}
    lenient = make(echo, parameters)
    strict = make(fails, {"type": "object", "properties": {"key": rule}})
    caplog.set_level(logging.DEBUG)
    async with playing(Vault, Sees, tools=[lenient, strict]) as stage:
        result = await stage.call("echo", {"key": "{{secret:PLAIN_2}}"})
        assert result.is_error
        await stage.call("fails", {"key": "{{secret:PLAIN_2}}"})
        text = await everything(stage, result.text, caplog)
    assert leaks(text) == []
    assert CANARIES["PLAIN_2"][:16] not in text.replace("canary-02'", "")


async def test_a_name_that_no_provider_knows_blocks_the_call() -> None:
    async with playing(Vault, tools=[make(echo)]) as stage:
        got.clear()
        result = await stage.call("echo", {"key": "{{secret:PLAIN_1}} {{secret:NOBODY}}"})
        assert result.text == "Blocked: no plugin gives a value for NOBODY"
        assert got == []


async def test_a_value_that_is_no_text_counts_as_none() -> None:
    class Odd:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets | None:
            return Secrets({"A": None})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]

    async with playing(Odd, tools=[make(echo)]) as stage:
        result = await stage.call("echo", {"key": "{{secret:A}}"})
        assert result.text == "Blocked: no plugin gives a value for A"


async def test_a_failing_provider_blocks_and_its_error_quotes_nothing_to_the_model() -> None:
    class Broken:
        @hooks.resolve_secrets
        async def resolve(self, event: ResolveSecrets) -> Secrets | None:
            raise RuntimeError("vault sealed")

    async with playing(Broken, tools=[make(echo)]) as stage:
        result = await stage.call("echo", {"key": "{{secret:A}}"})
        assert result.text == "Blocked: plugin 'broken' failed while it judged this call, so it was not run."


async def test_without_any_provider_the_text_stays_as_it_is_written() -> None:
    async with playing(tools=[make(echo)]) as stage:
        assert (await stage.call("echo", {"key": "{{secret:A}}"})).text == "your key is {{secret:A}}"


async def test_policies_judge_the_placeholder_and_a_blocked_call_asks_for_no_secret() -> None:
    asked: list[Any] = []

    class Judges:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> hooks.Block | None:
            asked.append(event.arguments)
            return hooks.Block("no")

        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets | None:
            raise AssertionError

    async with playing(Judges, tools=[make(echo)]) as stage:
        assert (await stage.call("echo", {"key": "{{secret:A}}"})).text == "Blocked by judges: no"
    assert asked == [{"key": "{{secret:A}}"}]


async def test_the_secrets_answer_does_not_show_its_values() -> None:
    assert "canary" not in repr(Secrets({"A": "canary"}))


async def test_a_provider_may_be_limited_to_some_tools() -> None:
    class Limited:
        @hooks.resolve_secrets(tools="mcp:*:*")
        def resolve(self, event: ResolveSecrets) -> Secrets | None:
            return Secrets({"A": "canary"})

    async with playing(Limited, tools=[make(echo)]) as stage:
        assert (await stage.call("echo", {"key": "{{secret:A}}"})).text.startswith("Blocked: no plugin gives")


async def test_its_patterns_count_as_they_are_written() -> None:
    class Near:
        @hooks.resolve_secrets(tools=["Echo", "host:Core:*", "host__core__echo"])
        def resolve(self, event: ResolveSecrets) -> Secrets | None:
            return Secrets({"A": "canary"})

    async with playing(Near, tools=[make(echo)]) as stage:
        assert (await stage.call("echo", {"key": "{{secret:A}}"})).text.startswith("Blocked: no plugin gives")


async def test_a_secret_that_comes_back_as_a_number_is_taken_out_too() -> None:
    class Pin:
        @hooks.resolve_secrets
        def give(self, event: ResolveSecrets) -> Secrets | None:
            return Secrets({"PIN": "1234567"})

    async def number(arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(structured={"pin": int(arguments["key"]), "ok": True, "n": 7})

    async with playing(Pin, tools=[make(number)]) as stage:
        result = await stage.call("number", {"key": "{{secret:PIN}}"})
        assert result.structured == {"pin": "{{secret:PIN}}", "ok": True, "n": 7}
        assert "1234567" not in str(stage.session.messages)


async def test_a_vault_whose_values_cannot_be_read_blocks_the_call() -> None:
    class Away(dict[str, str]):
        def get(self, *_: object) -> Any:
            raise ConnectionError("the vault is away")

    class Remote:
        @hooks.resolve_secrets
        def values(self, event: ResolveSecrets) -> Secrets:
            return Secrets(Away())

    async with playing(Remote) as stage:
        result = await stage.call(arguments={"key": "{{secret:KEY}}"})
        assert result.text == "Blocked: plugin 'remote' failed while it judged this call, so it was not run."
        assert stage.executed == []


# Where others read the arguments


class OneValue:
    """Knows one value."""

    def __init__(self) -> None:
        self.asked = 0

    @hooks.resolve_secrets
    def values(self, event: ResolveSecrets) -> Secrets:
        self.asked += 1
        return Secrets({"TOKEN": "canary-d41d8cd98f00b204"})


async def test_a_tool_whose_arguments_others_read_gets_no_secret_and_does_not_run() -> None:
    async def never(arguments: dict[str, Any]) -> str:
        raise AssertionError(f"ran with {arguments}")

    tool = Tool(name="login", source="host", parameters=SCHEMA, execute=never, keeps_secrets=False)
    async with playing(OneValue, tools=[tool]) as stage:
        result = await stage.call("login", {"key": "{{secret:TOKEN}}"})
        assert result.is_error
        assert result.text == (
            "Blocked: 'login' runs where others read its arguments, so no secret is filled in. Call it without one"
        )
        assert stage.session.plugin("one-value").asked == 0


async def test_it_runs_without_one() -> None:
    async def login(arguments: dict[str, Any]) -> str:
        return "in as " + arguments["key"]

    tool = Tool(name="login", source="host", parameters=SCHEMA, execute=login, keeps_secrets=False)
    async with playing(OneValue, tools=[tool]) as stage:
        assert (await stage.call("login", {"key": "ann"})).text == "in as ann"


async def test_a_tool_that_it_calls_gets_its_own() -> None:
    seen: list[str] = []

    async def inner(arguments: dict[str, Any]) -> str:
        seen.append(arguments["key"])
        return "in"

    async def outer(arguments: dict[str, Any], context: ToolContext) -> str:
        return (await context.call_tool("inner", {"key": "{{secret:TOKEN}}"})).text

    tools = [
        Tool(name="outer", source="host", execute=outer, keeps_secrets=False),
        Tool(name="inner", source="host", parameters=SCHEMA, execute=inner),
    ]
    async with playing(OneValue, tools=tools) as stage:
        assert (await stage.call("outer", {})).text == "in"
    assert seen == ["canary-d41d8cd98f00b204"]


# What is started before any call


ENTRY = {"env": {"KEY": "Bearer {{secret:LONG}}"}, "more": ["{{ secret:WORD_0 }}", 1]}
STARTS = Tool(name="start", source="mcp", owner="github")


async def test_what_a_tool_is_started_with_is_filled_as_for_its_calls_and_masked_from_then_on() -> None:
    async with playing(Vault, requester={"id": "ann"}) as stage:
        assert await stage.run.fill_secrets(STARTS, ENTRY) == {
            "env": {"KEY": f"Bearer {CANARIES['LONG']}"}, "more": [CANARIES["WORD_0"], 1],
        }  # fmt: skip
        assert (await stage.call("act", {"text": CANARIES["LONG"]})).text == "done"
        assert leaks(json.dumps(stage.session.messages)) == []


async def test_plugins_are_told_who_asks_unless_others_use_it_as_well() -> None:
    told: list[Any] = []

    class Notes:
        @hooks.resolve_secrets(tools="mcp:github:*")
        async def resolve(self, event: ResolveSecrets) -> Secrets:
            told.append((event.tool.id, event.requester, list(event.names)))
            return Secrets(CANARIES)

    async with playing(Notes, requester={"id": "ann"}) as stage:
        for shared in (False, True):
            await stage.run.fill_secrets(STARTS, ENTRY, shared=shared)
        assert await stage.run.fill_secrets(STARTS, {"env": {}}) == {"env": {}}
    names = ["LONG", "WORD_0"]
    assert told == [("mcp:github:start", {"id": "ann"}, names), ("mcp:github:start", None, names)]


async def test_where_a_secret_has_no_value_nothing_is_filled_and_a_plugin_that_fails_says_so() -> None:
    class Fails:
        @hooks.resolve_secrets
        async def resolve(self, event: ResolveSecrets) -> Secrets:
            raise OSError("no vault")

    async with playing(Vault) as stage:
        with pytest.raises(ConfigError, match="no plugin gives a value for NOBODYS"):
            await stage.run.fill_secrets(STARTS, "{{secret:NOBODYS}} {{secret:LONG}}")
    async with playing(Fails) as stage:
        with pytest.raises(PolicyFailed, match="no vault"):
            await stage.run.fill_secrets(STARTS, "{{secret:LONG}}")
