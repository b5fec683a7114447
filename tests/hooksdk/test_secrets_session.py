"""What a call was given is masked for the life of its session, in everything that the session puts out."""

from __future__ import annotations

import base64
import gc
import json
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import MemoryStore, PluginState, Storage, Tool, ToolCall, ToolContext, ToolResult, hooks
from hooksdk.errors import PolicyFailed, RunBlocked, TranscriptChanged
from hooksdk.hooks import (
    AddContext,
    AgentEnd,
    AgentStart,
    Answer,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    NarrowTools,
    Replace,
    ResolveSecrets,
    Secrets,
    Trace,
    TransformToolResult,
)
from hooksdk.stores import SqlStore
from hooksdk.testing import open_host
from tests.hooksdk.tables import text_in
from tests.hooksdk.test_secrets import CANARIES, leaks
from tests.stage import Stage, make, playing, reply

pytestmark = pytest.mark.anyio

KEY = "hunter2-password"
PLACEHOLDER = "{{secret:KEY}}"
logger = logging.getLogger("hooksdk")
logger_of_a_part = logging.getLogger("hooksdk.part")


class Vault:
    @hooks.resolve_secrets
    def resolve(self, event: ResolveSecrets) -> Secrets:
        return Secrets({name: CANARIES.get(name, KEY) for name in event.names})


def any_tool(name: str, execute: Callable[..., Any]) -> Tool:
    return make(name, execute, properties={})


files: dict[str, str] = {}


def write_file(arguments: dict[str, Any]) -> str:
    files[arguments["path"]] = arguments["content"]
    return "written"


def read_file(arguments: dict[str, Any]) -> str:
    return files[arguments["path"]]


FILES = [any_tool("write_file", write_file), any_tool("read_file", read_file)]


async def write_secret(stage: Stage, name: str = "KEY", path: str = "f") -> None:
    """A call is given the secret, and its value is in a file from then on."""
    await stage.call("write_file", {"path": path, "content": f"{{{{secret:{name}}}}}"})


# Results of later calls


async def test_a_value_that_one_call_was_given_is_masked_in_the_result_of_another() -> None:
    async with playing(Vault, tools=FILES) as stage:
        await write_secret(stage)
        assert files["f"] == KEY
        assert (await stage.call("read_file", {"path": "f"})).text == PLACEHOLDER
        assert KEY not in str(stage.session.messages)


async def test_a_run_after_it_masks_the_value_too() -> None:
    async with open_host(Vault) as host, host.session("s") as session:
        for name in ("write_file", "read_file"):
            async with session.run() as run:
                await run.resolve_tools(FILES)
                await run.call_tool(ToolCall(name, name, {"path": "f", "content": PLACEHOLDER}))
                await run.record(reply(ToolCall(name, name, {"path": "f", "content": PLACEHOLDER})))
        assert "hunter2" not in str(session.messages)


async def test_a_sub_agents_session_masks_what_its_parent_was_given_and_the_other_way_round() -> None:
    async with playing(Vault, tools=FILES) as stage:
        await write_secret(stage)
        async with stage.session.child() as child, child.run() as run:
            await run.resolve_tools(FILES)
            assert (await run.call_tool(ToolCall("c", "read_file", {"path": "f"}))).text == PLACEHOLDER
            content = "{{secret:WORD_3}}"
            await run.call_tool(ToolCall("d", "write_file", {"path": "g", "content": content}))
        assert (await stage.call("read_file", {"path": "g"})).text == content


async def test_a_supplied_result_an_answer_and_a_changed_result_are_masked() -> None:
    class Quotes:
        @hooks.before_tool_call(tools="read_file")
        def answer(self, event: BeforeToolCall) -> Answer:
            return Answer(ToolResult(f"it is {KEY}"))

        @hooks.transform_tool_result(tools="write_file")
        def change(self, event: TransformToolResult) -> Replace:
            return Replace(f"{event.result.text}: {KEY}")

    async with playing(Vault, Quotes, tools=[*FILES, make("elsewhere", None)]) as stage:
        await write_secret(stage)
        assert (await stage.call("read_file", {"path": "f"})).text == f"it is {PLACEHOLDER}"
        assert (await stage.call("write_file", {"path": "f", "content": "x"})).text == f"written: {PLACEHOLDER}"
        judged = await stage.run.judge(stage.new("elsewhere", {"path": "f"}))
        assert (await judged.supply(f"got {KEY}")).text == f"got {PLACEHOLDER}"
        assert KEY not in str(stage.session.messages)


@pytest.mark.parametrize(
    "spelling",
    [base64.b64encode(f"{user}:{KEY}".encode()).decode() for user in ("a", "ab", "abc")]
    + [
        base64.urlsafe_b64encode(f'{{"key": "{KEY}", "n": 1}}'.encode()).decode().rstrip("="),
        base64.encodebytes(f"{'x' * 50}:{KEY}:{'y' * 50}".encode()).decode(),
        KEY.upper(),
        KEY.title(),
        KEY.encode().hex(),
        KEY.encode().hex(" ").upper(),
        "hunter2-\n    password",
        json.dumps(json.dumps(KEY + '"'))[3:-4],
    ],
)
async def test_a_value_is_found_however_it_is_written(spelling: str) -> None:
    async with playing(Vault, tools=FILES) as stage:
        await write_secret(stage)
        files["g"] = f"before {spelling} after"
        text = (await stage.call("read_file", {"path": "g"})).text
        assert PLACEHOLDER in text
        assert spelling not in text
        assert text.startswith("before ")
        assert text.endswith(" after")


async def test_what_is_masked_already_stays_as_it_is_although_a_value_is_part_of_it() -> None:
    class Odd:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets:
            return Secrets(dict.fromkeys(event.names, "secret"))

    async with playing(Odd, tools=FILES) as stage:
        await stage.call("write_file", {"path": "f", "content": "{{secret:secret-NAME}}"})
        assert (await stage.call("read_file", {"path": "f"})).text == "{{secret:secret-NAME}}"
        assert "{{secret:secret-NAME}}" in str(await stage.run.prepare_messages())
        assert "{{{{" not in str(await stage.run.prepare_messages())


async def test_a_value_in_the_clothes_of_a_placeholder_is_masked_too() -> None:
    async with playing(Vault, tools=FILES) as stage:
        await write_secret(stage)
        files["g"] = f"{{{{secret:{KEY}}}}}"
        assert KEY not in (await stage.call("read_file", {"path": "g"})).text


async def test_a_value_shorter_than_four_characters_is_masked_in_its_own_call_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Short:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets:
            return Secrets(dict.fromkeys(event.names, "123"))

    def echo(arguments: dict[str, Any]) -> str:
        return f"code {arguments['code']}"

    async with playing(Short, tools=[any_tool("echo", echo)]) as stage:
        assert (await stage.call("echo", {"code": "{{secret:CVV}}"})).text == "code {{secret:CVV}}"
        assert (await stage.call("echo", {"code": "123"})).text == "code 123"
        logger.warning("%d lines", 1234)
    assert "1234 lines" in caplog.text


async def test_a_value_of_blanks_masks_nothing() -> None:
    class Blank:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets:
            return Secrets(dict.fromkeys(event.names, " " * 20))

    async with playing(Blank, tools=FILES) as stage:
        await write_secret(stage)
        files["g"] = "a" + " " * 40 + "b"
        assert (await stage.call("read_file", {"path": "g"})).text == files["g"]


# What plugins put into the session


async def test_a_trim_leaves_no_value_in_a_results_place_from_a_tool_a_hook_or_the_end_of_the_run() -> None:
    async def trim(arguments: dict[str, Any], context: ToolContext) -> str:
        receipt = await context.results.trim("r2", f"it held {KEY}", reason=f"for {KEY}")
        return receipt.status

    class Trims:
        @hooks.before_model_call
        async def trim(self, event: BeforeModelCall) -> None:
            if len(event.results.list()) > 3:
                await event.results.trim("r3", f"it held {KEY}")

        @hooks.agent_end
        async def end(self, event: AgentEnd) -> None:
            await event.transcript.trim("r4", f"it held {KEY}")

    store = MemoryStore()
    async with open_host(Vault, Trims, store=store) as host, host.session("s") as session:
        async with session.run() as run:
            stage = Stage(host, session, run)
            await run.resolve_tools([*FILES, any_tool("trim", trim)])
            await write_secret(stage)
            files["long"] = "x" * 3000
            for _ in range(3):
                await stage.call("read_file", {"path": "long"})
            await stage.call("trim")
            await run.prepare_messages()
        async with session.run() as run:
            pass
        await session.results.trim("r4", f"it held {KEY}")
        assert str(session.view).count(f"it held {PLACEHOLDER}") == 3
    messages, journal = await (await store.open_session("s")).read()
    assert KEY not in str(messages)
    assert KEY not in str(journal)


async def test_storage_and_state_keep_no_value_in_values_or_keys(tmp_path: Path) -> None:
    class Keeps:
        def __init__(self, state: PluginState, storage: Storage) -> None:
            self.state, self.storage = state, storage

        @hooks.before_model_call
        async def keep(self, event: BeforeModelCall) -> None:
            self.state["last"] = {KEY: [KEY]}
            await self.storage.set(f"of-{KEY}", {KEY: [KEY, 1]})
            assert await self.storage.get(f"of-{KEY}") == {PLACEHOLDER: [PLACEHOLDER, 1]}
            assert await self.storage.keys() == [f"of-{PLACEHOLDER}"]

    async def keep(arguments: dict[str, Any], context: ToolContext) -> str:
        await context.storage.set("t", KEY)
        await context.storage.set(KEY, "gone")
        await context.storage.delete(KEY)
        return str(await context.storage.keys())

    async with playing(Vault, Keeps, tools=[*FILES, any_tool("keep", keep)], store=SqlStore(tmp_path)) as stage:
        await write_secret(stage)
        await stage.run.prepare_messages()
        assert (await stage.call("keep")).text == "['t']"
    stored = text_in(tmp_path)
    assert PLACEHOLDER in stored
    assert KEY not in stored


async def test_a_counter_is_called_by_the_placeholder() -> None:
    async def count(arguments: dict[str, Any], context: ToolContext) -> str:
        context.count(f"used {KEY}", 2)
        return "counted"

    async with playing(Vault, tools=[*FILES, any_tool("count", count)]) as stage:
        await write_secret(stage)
        await stage.call("count")
        assert stage.run.stats["counters"] == {f"used {PLACEHOLDER}": 2}


async def test_the_trace_holds_no_value_and_its_numbers_stay_numbers() -> None:
    seen: list[dict[str, Any]] = []

    class Traces:
        @hooks.trace
        async def record(self, event: Trace) -> None:
            seen.append(event.record.as_dict())

        @hooks.before_tool_call(tools="read_file")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block(f"{KEY} is in it, as 4929133754")

    async with playing(Vault, Traces, tools=FILES) as stage:
        await write_secret(stage)
        await write_secret(stage, "DIGITS")
        blocked = await stage.call("read_file", {"path": "f"})
    assert blocked.text == f"Blocked by traces: {PLACEHOLDER} is in it, as {{{{secret:DIGITS}}}}"
    assert KEY not in str(seen)
    assert all(isinstance(record["seconds"], float) for record in seen if "seconds" in record)


# What the model is sent, and what is stored


async def test_the_model_reads_the_placeholder_where_a_value_was_recorded_before_it_was_known() -> None:
    class Adds:
        @hooks.before_model_call
        def add(self, event: BeforeModelCall) -> AddContext:
            return AddContext(f"the key is {KEY}")

    async with playing(Vault, Adds, tools=FILES) as stage:
        await stage.run.record({"role": "user", "content": f"my key is {KEY}"})
        await write_secret(stage)
        messages = await stage.run.prepare_messages()
        assert f"my key is {PLACEHOLDER}" in str(messages)
        assert KEY not in str(messages)


async def test_a_message_that_is_recorded_later_is_stored_without_the_value() -> None:
    async with playing(Vault, tools=FILES) as stage:
        await write_secret(stage)
        await stage.run.record({"role": "assistant", "content": f"it is {KEY}"})
        assert stage.session.messages[-1]["content"] == f"it is {PLACEHOLDER}"


async def test_a_host_that_keeps_its_own_list_goes_on_although_values_are_masked_in_ours() -> None:
    async with open_host(Vault) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools(FILES)
        own: list[dict[str, Any]] = [{"role": "user", "content": f"my key is {KEY}"}]
        await run.prepare_messages(own)
        call = ToolCall("c1", "write_file", {"path": "f", "content": PLACEHOLDER})
        own.append(reply(call))
        await run.record(own[-1])
        result = await run.call_tool(call)
        own.append({"role": "tool", "tool_call_id": "c1", "content": result.text})
        own.append({"role": "assistant", "content": f"I used {KEY}"})
        sent = await run.prepare_messages(own)
        assert KEY not in str(sent)
        own.append({"role": "user", "content": "go on"})
        assert len(await run.prepare_messages(own)) == 5
        assert len(await run.prepare_messages([*sent, own[-1]])) == 5
        assert session.messages[0]["content"] == f"my key is {KEY}"
        assert session.messages[3]["content"] == f"I used {PLACEHOLDER}"
        with pytest.raises(TranscriptChanged):
            await run.prepare_messages([{"role": "user", "content": "another"}, *own[1:]])


async def test_a_compacted_view_begins_without_the_value_and_keeps_the_results_at_its_end() -> None:
    async with playing(Vault, tools=FILES) as stage:
        await stage.run.record({"role": "user", "content": f"my key is {KEY}"})
        await write_secret(stage)
        async with stage.run.compaction() as compaction:
            await compaction.replace([{"role": "user", "content": f"a summary: {KEY}"}, *stage.session.messages[1:]])
        assert stage.session.view[0]["content"] == f"a summary: {PLACEHOLDER}"
        assert [info.handle for info in stage.session.results.list()] == ["r1"]


# Logs and exceptions


@pytest.mark.parametrize("answer", [{"KEY": KEY}, KEY, [KEY]])
async def test_a_wrong_answer_of_a_resolver_is_not_quoted(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Wrong:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Any:
            return answer

    async with playing(Wrong, tools=FILES) as stage:
        await write_secret(stage)
    assert f"it answered a value of type {type(answer).__name__}; expected Secrets or None" in caplog.text
    assert "hunter2" not in caplog.text


async def test_no_line_of_the_log_quotes_a_known_value(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    class Fails:
        @hooks.before_tool_call(tools="read_file")
        def judge(self, event: BeforeToolCall) -> Any:
            raise ValueError(f"{KEY} is wrong")

        @hooks.transform_tool_result(tools="write_file")
        def change(self, event: TransformToolResult) -> Any:
            return f"it was {KEY}"

    async with playing(Vault, Fails, tools=FILES) as stage:
        await write_secret(stage)
        await stage.call("read_file", {"path": "f"})
        logger.warning("a plugin's own words: %s", KEY)
        logger_of_a_part.warning("another's: %(key)s", {"key": KEY})
        try:
            raise ValueError(KEY)
        except ValueError:
            logger.exception("it failed")
    assert caplog.text.count(PLACEHOLDER) >= 5
    assert KEY not in caplog.text
    assert KEY not in str([record.__dict__ for record in caplog.records])


async def test_a_value_of_one_session_that_is_part_of_anothers_does_not_cut_it_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_host(Vault) as host, host.session("a") as first, host.session("b") as second:
        for session, name in ((first, "WORD_3"), (second, "KEY")):
            async with session.run() as run:
                await run.resolve_tools(FILES)
                content = f"{{{{secret:{name}}}}}"
                await run.call_tool(ToolCall("c", "write_file", {"path": "f", "content": content}))
        assert KEY.startswith(CANARIES["WORD_3"])
        logger.warning("it is %s", KEY)
    assert f"it is {PLACEHOLDER}" in caplog.text


async def test_once_the_session_is_gone_the_log_is_written_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async with playing(Vault, tools=FILES) as stage:
        await write_secret(stage)
        del stage
    gc.collect()
    logger.warning("%s is a usual word elsewhere", KEY)
    assert f"{KEY} is a usual word elsewhere" in caplog.text


@pytest.mark.parametrize("in_group", [False, True])
async def test_an_interrupt_that_leaves_the_session_carries_no_value(in_group: bool) -> None:
    def interrupt(arguments: dict[str, Any]) -> str:
        error = KeyboardInterrupt(f"while {arguments['key']} was used", 7)
        error.add_note(f"with {arguments['key']}")
        error.__cause__ = OSError(2, "no file", f"/tmp/{arguments['key']}")
        error.__cause__.__cause__ = error
        raise BaseExceptionGroup(f"of {arguments['key']}", [error]) if in_group else error

    async def interrupts(arguments: dict[str, Any]) -> str:
        return interrupt(arguments)

    async with playing(Vault, tools=[any_tool("interrupts", interrupts)]) as stage:
        with pytest.raises(BaseException) as caught:
            await stage.call("interrupts", {"key": PLACEHOLDER})
        raised: Any = caught.value
        error = raised.exceptions[0] if in_group else raised
        assert error.args == (f"while {PLACEHOLDER} was used", 7)
        everything = [repr(raised), str(raised), error.__notes__, error.__cause__, str(error.__cause__)]
        assert KEY not in str(everything)
        assert KEY not in "".join(traceback.format_exception(raised))
        assert not in_group or KEY not in repr(raised.__context__)
        assert KEY not in str(stage.session.messages)


async def test_an_exception_whose_text_cannot_be_changed_is_replaced_by_one_of_its_kind() -> None:
    @dataclass(frozen=True)
    class Stopped(KeyboardInterrupt):
        words: str

        def __str__(self) -> str:
            return f"stopped: {self.words}"

    async def stops(arguments: dict[str, Any]) -> str:
        raise Stopped(arguments["key"]) from UnicodeDecodeError(
            "utf-8", arguments["key"].encode(), 0, 1, arguments["key"]
        )

    async with playing(Vault, tools=[any_tool("stops", stops)]) as stage:
        with pytest.raises(KeyboardInterrupt) as caught:
            await stage.call("stops", {"key": PLACEHOLDER})
        assert str(caught.value) == f"stopped: {PLACEHOLDER}"
        assert isinstance(caught.value.__cause__, ValueError)
        assert KEY not in "".join(traceback.format_exception(caught.value))
        assert KEY not in str(stage.session.messages)


@pytest.mark.both_loops
async def test_a_cancelled_call_ends_as_ever_once_a_value_is_known() -> None:
    async def waits(_arguments: dict[str, Any]) -> None:
        running.set()
        await anyio.sleep_forever()

    running = anyio.Event()
    async with playing(Vault, tools=[*FILES, any_tool("waits", waits)]) as stage:
        await write_secret(stage)
        async with anyio.create_task_group() as group:
            group.start_soon(stage.call, "waits")
            await running.wait()
            group.cancel_scope.cancel()
        assert "was cancelled while it ran" in stage.results[-1][1]


async def test_what_a_run_is_refused_with_quotes_no_value() -> None:
    class Refuses:
        @hooks.agent_start
        def start(self, event: AgentStart) -> Block | None:
            return Block(f"{KEY} is used up") if event.input == "block" else None

        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> None:
            if event.trigger == "other":
                raise ValueError(f"{KEY} is unknown")

    async with open_host(Vault, Refuses) as host, host.session("s") as session:
        async with session.run() as run:
            await run.resolve_tools(FILES)
            await run.call_tool(ToolCall("c", "write_file", {"path": "f", "content": PLACEHOLDER}))
        with pytest.raises(RunBlocked, match="used up") as blocked:
            await session.run("block").__aenter__()
        assert PLACEHOLDER in str(blocked.value)
        async with session.run(trigger="other") as run:
            with pytest.raises(PolicyFailed, match="is unknown") as failed:
                await run.resolve_tools(FILES)
        assert PLACEHOLDER in str(failed.value)


async def test_a_run_that_ends_with_an_error_says_so_without_the_value() -> None:
    errors: list[str | None] = []

    class Ends:
        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            errors.append(event.error)

    async def fail() -> None:
        async with playing(Vault, Ends, tools=FILES) as stage:
            await write_secret(stage)
            raise RuntimeError(f"bad key {KEY}")

    with pytest.raises(RuntimeError):
        await fail()
    assert errors == [f"RuntimeError: bad key {PLACEHOLDER}"]


# Everything at once


class Outlets:
    """Puts what it reads wherever a plugin can put something."""

    def __init__(self, state: PluginState, storage: Storage) -> None:
        self.state, self.storage, self.seen = state, storage, list[str]()

    @hooks.trace
    async def record(self, event: Trace) -> None:
        self.seen.append(str(event.record.as_dict()))

    @hooks.transform_tool_result(tools="read_file")
    async def put(self, event: TransformToolResult) -> Replace:
        value = files[event.arguments["path"]]
        self.state[value] = value
        await self.storage.set(value, {value: value})
        event.count(value, 1)
        logger.warning("read %s", value)
        return Replace(ToolResult(value, structured={value: [value]}))


@pytest.mark.heavy
async def test_no_canary_comes_out_of_the_session_later_by_any_outlet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def interrupts(arguments: dict[str, Any], context: ToolContext) -> str:
        value = files[arguments["path"]]
        await context.progress(value)
        context.count(value)
        await context.storage.set(value, value)
        await context.results.trim("r1", value, reason=value)
        raise KeyboardInterrupt(value)

    folder, trace = tmp_path / "sessions", tmp_path / "trace.jsonl"
    config = {"plugins": {"trace_file": {"config": {"path": str(trace)}}}}
    tools = [*FILES, any_tool("interrupts", interrupts)]
    came_out: list[str] = []
    async with playing(Vault, Outlets, "trace_file", tools=tools, config=config, store=SqlStore(folder)) as stage:
        for name in CANARIES:
            await write_secret(stage, name, name)
        for name, value in CANARIES.items():
            assert files[name] == value
            result = await stage.call("read_file", {"path": name})
            came_out += result.text, str(result.structured)
            with pytest.raises(KeyboardInterrupt) as caught:
                await stage.call("interrupts", {"path": name})
            came_out += repr(caught.value), str(caught.value)
        await stage.run.record({"role": "assistant", "content": "\n".join(files[name] for name in CANARIES)})
        came_out += json.dumps(await stage.run.prepare_messages(), ensure_ascii=False), str(stage.run.stats)
        seen = stage.session.plugin("outlets").seen
    stored = {path: path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()}
    assert {trace, folder / "hooksdk.db"} <= set(stored)
    assert leaks("\n".join(came_out)) == []
    assert leaks("\n".join(seen)) == []
    assert leaks(caplog.text + str([record.__dict__ for record in caplog.records])) == []
    assert {path.name: leaks(text) for path, text in stored.items() if leaks(text)} == {}
