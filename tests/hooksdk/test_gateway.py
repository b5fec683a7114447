"""The gateway: what clients are told, that every call goes past every hook, and that what is denied runs on no way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import types

from hooksdk import Host, ToolResult, hooks
from hooksdk.config import load_config, read_config
from hooksdk.errors import ConfigError
from hooksdk.gateway import Gateway, config_problems
from hooksdk.hooks import (
    AgentEnd,
    Answer,
    Ask,
    BeforeToolCall,
    Block,
    NarrowTools,
    Replace,
    Rewrite,
    RewriteToolCall,
    TransformToolResult,
    Withhold,
)
from tests.hooksdk.gateways import ERAS, client, gateway, names, size, source, text_of

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
BRIDGE = ["tool_search", "tool_describe", "tool_call_readonly", "tool_call"]
in_both_eras = pytest.mark.parametrize("era", ERAS)


@in_both_eras
async def test_few_tools_are_listed_themselves_with_schema_and_annotations(era: str) -> None:
    async with gateway(source()) as made, client(made, era) as connected:
        read, delete, *_ = (await connected.list_tools()).tools
        assert (read.name, delete.name) == ("read_note", "delete_note")
        assert read.input_schema["required"] == ["path"]
        assert read.annotations is not None
        assert read.annotations.read_only_hint is True


@in_both_eras
@pytest.mark.parametrize("count", [65, 1860])
async def test_many_tools_cost_at_most_1500_bytes(era: str, count: int) -> None:
    async with gateway(source(count), search=True) as made, client(made, era) as connected:
        assert await names(connected) == BRIDGE
        assert await size(connected) <= 1500
        hints = {tool.name: tool.annotations for tool in (await connected.list_tools()).tools}
        reading, calling = hints["tool_call_readonly"], hints["tool_call"]
        assert reading is not None
        assert calling is not None
        assert (reading.read_only_hint, calling.destructive_hint) == (True, True)


@in_both_eras
async def test_a_tool_is_found_and_called_through_the_bridge_and_by_its_name(era: str) -> None:
    tools = source(30)
    async with gateway(tools, search=True) as made, client(made, era) as connected:
        found = text_of(await connected.call_tool("tool_search", {"queries": ["delete note"]}))
        assert "delete_note(path: string)" in found
        ways: list[tuple[str, dict[str, Any]]] = [
            ("tool_call", {"name": "delete_note", "arguments": {"path": "a"}}),
            ("delete_note", {"path": "a"}),
            ("notes__delete_note", {"path": "a"}),
        ]
        for name, arguments in ways:
            assert text_of(await connected.call_tool(name, arguments)) == 'delete_note of notes ran with {"path": "a"}'
    assert tools.executed == [("notes:delete_note", {"path": "a"})] * 3


class Withholds:
    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold:
        return Withhold(["delete_note"], "nothing is deleted here")


class Blocks:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("not today") if event.tool.own_name == "delete_note" else None


@in_both_eras
@pytest.mark.parametrize("by", ["plugin", "profile", "judge"])
@pytest.mark.parametrize("name", ["delete_note", "notes__delete_note", "mcp:notes:delete_note"])
async def test_what_is_denied_runs_on_no_way(era: str, by: str, name: str) -> None:
    tools = source(30)
    plugins = {"plugin": [Withholds], "judge": [Blocks], "profile": []}[by]
    config = (
        {"profiles": {"p": {"deny": ["delete_*"]}}, "profile": "p", "trusted_hints": ["*"]} if by == "profile" else {}
    )
    async with gateway(tools, *plugins, config=config, search=True) as made, client(made, era) as connected:
        if by != "judge":
            answer = await connected.call_tool("tool_search", {"queries": ["delete note"]})
            assert "delete_note(" not in text_of(answer)
        arguments = {"path": "a"}
        ways: list[tuple[str, dict[str, Any]]] = [
            (name, arguments),
            ("tool_call", {"name": name, "arguments": arguments}),
            ("tool_call_readonly", {"name": name, "arguments": arguments}),
            ("tool_call_readonly", {"name": "tool_call", "arguments": {"name": name, "arguments": arguments}}),
            ("tool_call", {"calls": [{"name": name, "arguments": arguments}] * 2}),
            ("tool_call_readonly", {"calls": [{"name": name, "arguments": arguments}] * 2}),
        ]
        for way, given in ways:
            assert (await connected.call_tool(way, given)).is_error
    assert tools.executed == []


@pytest.mark.parametrize(
    ("name", "arguments", "blocked"),
    [
        ("delete_note", {"path": "a"}, 1),
        ("notes__delete_note", {"path": "a"}, 1),
        ("mcp:notes:delete_note", {"path": "a"}, 1),
        ("functions.delete_note", {"path": "a"}, 1),
        ("tool_call", {"name": "notes.delete_note", "arguments": {"path": "a"}}, 1),
        ("tool_call_readonly", {"name": "delete_note", "arguments": {"path": "a"}}, 1),
        ("tool_call", {"name": "tool_call", "arguments": {"name": "delete_note", "arguments": {"path": "a"}}}, 1),
        ("tool_call_readonly", {"name": "task_1", "arguments": {"path": "a"}}, 1),
        ("read_note", {"path": "blocked"}, 1),
        ("no_such_tool", {}, 0),
        ("tool_call", {"name": 3}, 0),
        ("tool_call", {}, 0),
        ("read_note", {"path": "a"}, 0),
    ],
)
async def test_blocked_counts_what_somebody_forbids_by_whatever_name_and_no_mistakes(
    name: str, arguments: dict[str, Any], blocked: int
) -> None:
    class Judges:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("no") if event.arguments["path"] == "blocked" else None

    async with gateway(source(30), Withholds, Judges, search=True) as made, client(made) as connected:
        await connected.call_tool(name, arguments)
        assert made.counts.as_dict()["blocked"] == blocked


@pytest.mark.parametrize(
    ("trusted", "name", "runs"),
    [
        ([], "read_note", False),
        (["notes"], "read_note", True),
        (["notes"], "read_mail", False),
        (["*"], "delete_note", False),
    ],
)
async def test_only_what_is_known_to_read_runs_read_only(trusted: list[str], name: str, runs: bool) -> None:
    tools, judged = source(30), list[str]()

    class Watching:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            judged.append(event.tool.name)

    async with (
        gateway(tools, Watching, config={"trusted_hints": trusted}, search=True) as made,
        client(made) as connected,
    ):
        result = await connected.call_tool("tool_call_readonly", {"name": name, "arguments": {"path": "a"}})
    assert (not result.is_error, bool(tools.executed), judged) == (runs, runs, [name] if runs else [])
    if not runs:
        assert "Call it through tool_call" in text_of(result)


async def test_a_client_makes_its_calls_one_by_one_also_those_that_only_read() -> None:
    tools = source(30)
    async with gateway(tools, config={"trusted_hints": ["*"]}, search=True) as made, client(made) as connected:
        calls = [{"name": name, "arguments": {"path": "a"}} for name in ("read_note", "read_note")]
        refused = [await connected.call_tool(way, {"calls": calls}) for way in ("tool_call_readonly", "tool_call")]
    assert text_of(refused[0]) == "'tool_call' was not run: it may do more than read. Call it directly."
    assert "arguments.name (required): is required and missing" in text_of(refused[1])
    assert tools.executed == []


NAMES = ["tool_call", "tool_call_readonly", "tool_search", "recall-tool-result"]


@in_both_eras
@pytest.mark.parametrize("expose", ["bridge", "hybrid", "direct"])
async def test_a_server_whose_tools_are_called_as_the_gateways_takes_the_place_of_none(era: str, expose: str) -> None:
    tools, config = source(), {"expose": expose, "trusted_hints": ["*"], "profiles": {"p": {"allow": ["read_*"]}}}
    for name in NAMES:
        tools.add("gateway", name, reads=True)
    long = "x" * 100_000
    tools.add("notes", "read_long", reads=True, result=ToolResult(long))
    arguments = {"name": "delete_note", "arguments": {"path": "a"}, "path": "a", "queries": ["x"], "id": "r1"}
    async with (
        gateway(tools, config=config, search=True) as made,
        client(made, era) as plain,
        client(made, era, profile="p") as narrow,
    ):
        listed = [tool.name for tool in (await plain.list_tools()).tools]
        assert len(set(listed)) == len(listed)
        assert (await plain.call_tool("tool_call_readonly", arguments)).is_error == (expose != "direct")
        await plain.call_tool("read_long", {"path": "a"})
        assert text_of(await plain.call_tool("recall-tool-result", arguments)).startswith("xxx")
        tools.executed.clear()
        for name in NAMES:
            for spelled in (name, f"gateway__{name}", f"mcp:gateway:{name}"):
                await narrow.call_tool(spelled, arguments)
        assert [one for one in tools.executed if one[0].startswith("gateway:")] == []


@in_both_eras
async def test_a_call_goes_past_every_hook(era: str) -> None:
    class Hooked:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({**event.arguments, "path": "/safe/" + str(event.arguments["path"])})

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Answer | None:
            return Answer("known already") if event.arguments["path"] == "/safe/known" else None

        @hooks.transform_tool_result
        def transform(self, event: TransformToolResult) -> Replace:
            return Replace(event.result.with_text(event.result.text.upper()))

    tools = source()
    async with gateway(tools, Hooked) as made, client(made, era) as connected:
        assert text_of(await connected.call_tool("read_note", {"path": "a"})).startswith("READ_NOTE OF NOTES")
        assert text_of(await connected.call_tool("read_note", {"path": "known"})) == "KNOWN ALREADY"
    assert tools.executed == [("notes:read_note", {"path": "/safe/a"})]


@in_both_eras
async def test_wrong_arguments_are_refused_before_the_tool_sees_them(era: str) -> None:
    tools = source()
    async with gateway(tools) as made, client(made, era) as connected:
        wrong = await connected.call_tool("read_note", {"path": ["a", "b"]})
    assert (wrong.is_error, "path" in text_of(wrong), tools.executed) == (True, True, [])


async def test_an_approval_that_is_refused_blocks() -> None:
    class Asks:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("May it?")

    tools = source()
    async with gateway(tools, Asks, config={"approvals": {"wait": 0}}) as made, client(made) as connected:
        assert "May it?" in text_of(await connected.call_tool("read_note", {"path": "a"}))
    assert tools.executed == []


@in_both_eras
async def test_results_keep_all_their_content(era: str) -> None:
    tools = source()
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "see", "annotations": {"audience": ["user"]}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png", "_meta": {"example.org/page": 1}},
        {"type": "resource_link", "name": "n", "uri": "file:///n"},
        {"type": "resource", "resource": {"uri": "file:///m", "text": "inside"}},
    ]
    whole = ToolResult("see", is_error=True, blocks=blocks, structured={"rows": [1]}, meta={"example.org/took": 3})
    tools.add("files", "show", result=whole)
    async with gateway(tools) as made, client(made, era) as connected:
        result = await connected.call_tool("show", {"path": "a"})
    sent = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]
    assert sent == blocks
    assert (result.is_error, result.structured_content) == (True, {"rows": [1]})
    assert (result.meta or {})["example.org/took"] == 3


async def test_each_connection_has_a_session_of_its_own_and_policies_know_who_asks() -> None:
    seen: list[tuple[str, Any, Any]] = []

    class Counting:
        def __init__(self) -> None:
            self.calls = 0

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            self.calls += 1
            about = (event.info.metadata or {})["gateway"]
            seen.append((event.info.session_id, event.info.requester, about["client"]["name"]))
            return Block("one call is enough") if self.calls > 1 else None

        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            seen.append((event.info.session_id, "end", event.reason))

    config = {"profiles": {"reader": {"allow": ["read_*"], "requester": {"is_owner": True}}}}
    info = types.Implementation(name="editor", version="1")
    async with gateway(source(), Counting, config=config) as made:
        for profile in (None, "reader"):
            async with client(made, profile=profile, client_info=info) as connected:
                first = await connected.call_tool("read_note", {"path": "a", "requester": "root"})
                second = await connected.call_tool("read_note", {"path": "a"})
                assert (first.is_error, second.is_error) == (False, True)
        assert made.sessions == ()
    plain, _, end, reader, _, _ = seen
    assert (plain[1], plain[2]) == ({"id": "local", "roles": []}, "editor")
    assert end == (plain[0], "end", "completed")
    assert reader[0] != plain[0]
    assert reader[1] == {"id": "local", "roles": ["reader"], "is_owner": True}


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"servers": ["mail"]}, ["read_mail"]),
        ({"allow": ["mcp:notes:*"], "deny": ["delete_*"]}, ["read_note"]),
        ({"deny": ["*"]}, []),
        ({"deny": ["DeleteNote", "mcp:MAIL:*", "task-*"]}, ["read_note"]),
        ({"allow": ["Read_*", "mcp:Notes:*"]}, []),
    ],
)
async def test_a_profile_narrows_what_there_is(profile: dict[str, Any], expected: list[str]) -> None:
    async with gateway(source(), config={"profiles": {"p": profile}}) as made, client(made, profile="p") as connected:
        assert await names(connected) == expected


@pytest.mark.parametrize(
    ("expose", "expected"),
    [
        ("bridge", BRIDGE),
        ("hybrid", [*BRIDGE, "read_note"]),
        ("direct", ["read_note", "delete_note", "read_mail", "task_0"]),
    ],
)
async def test_what_is_listed_follows_expose(expose: str, expected: list[str]) -> None:
    config = {"expose": expose, "trusted_hints": ["notes"]}
    async with gateway(source(1), config=config, search=True) as made, client(made) as connected:
        assert await names(connected) == expected


async def test_fifty_clients_at_once_do_not_see_each_other() -> None:
    tools = source(65)

    async def use(made: Any, number: int) -> None:
        async with client(made, ERAS[number % 2]) as connected:
            for _ in range(3):
                result = await connected.call_tool("task_7", {"path": str(number)})
                assert text_of(result) == f'task_7 of bulk ran with {{"path": "{number}"}}'
            sessions.update(session.id for session in made.sessions)

    sessions: set[str] = set()
    async with gateway(tools, search=True) as made:
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(use, made, number)
        assert (len(sessions), made.sessions) == (50, ())
    assert len(tools.executed) == 150


async def test_a_change_of_the_tools_is_told_and_counts_from_the_next_call_on() -> None:
    told, tools = anyio.Event(), source()

    async def note(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.set()

    async with gateway(tools) as made, client(made, "legacy", message_handler=note) as connected:
        assert connected.server_capabilities.tools is not None
        assert connected.server_capabilities.tools.list_changed is True
        assert len(await names(connected)) == 3
        tools.add("notes", "add_note")
        assert not (await connected.call_tool("add_note", {"path": "a"})).is_error
        with anyio.fail_after(120):
            await told.wait()
        assert "add_note" in await names(connected)


async def test_sources_may_say_that_they_changed() -> None:
    told, tools = anyio.Event(), source()

    async def note(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.set()

    async with gateway(tools) as made, client(made, "legacy", message_handler=note) as connected:
        await names(connected)
        tools.add("notes", "add_note")
        made.tools_changed()
        with anyio.fail_after(120):
            await told.wait()


async def test_a_call_that_its_client_cancels_ends() -> None:
    began, ended = anyio.Event(), anyio.Event()

    class Hangs:
        @hooks.before_tool_call(timeout=100)
        async def judge(self, event: BeforeToolCall) -> None:
            began.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

    async with gateway(source(), Hangs) as made, client(made, "legacy") as connected:
        async with anyio.create_task_group() as group:
            group.start_soon(connected.call_tool, "read_note", {"path": "a"})
            await began.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(120):
            await ended.wait()


async def test_a_run_that_a_plugin_blocks_is_told_in_the_result() -> None:
    class Closed:
        @hooks.agent_start
        def begin(self, event: hooks.AgentStart) -> Block:
            return Block("closed for today")

    async with gateway(source(), Closed) as made, client(made) as connected:
        assert "closed for today" in text_of(await connected.call_tool("read_note", {"path": "a"}))
        assert made.counts.as_dict()["blocked"] == 1


async def test_a_profile_that_there_is_not_is_told_with_the_nearest() -> None:
    async with gateway(source(), config={"profiles": {"reader": {}}}) as made:
        with pytest.raises(ConfigError, match="Did you mean 'reader'"):
            made.server("raeder")


WRONG = {"gateway": {"expos": "direct", "idle": -1}}
SAID = "'gateway.expos' is not a setting. Did you mean 'gateway.expose'"


async def test_a_wrong_setting_of_the_gateway_is_found_when_the_gateway_is_made() -> None:
    async with Host(config=WRONG) as host:
        with pytest.raises(ConfigError) as caught:
            Gateway(host)
    assert caught.value.where == "configuration"
    assert any(problem.startswith(SAID) for problem in caught.value.problems)
    assert "'gateway.idle': Input should be greater than 0 (got -1)" in caught.value.problems


def test_whoever_reads_a_configuration_for_a_gateway_finds_its_wrong_settings_in_their_file(tmp_path: Path) -> None:
    file = tmp_path / "hooksdk.toml"
    file.write_text('drain = "never"\n[gateway]\nexpos = "direct"\n', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_config(folder=tmp_path, tables={"gateway": config_problems})
    assert caught.value.where == str(file)
    assert [problem[:10] for problem in caught.value.problems] == ["'drain': I", "'gateway.e"]


def test_what_is_no_table_is_refused_whoever_reads_it() -> None:
    with pytest.raises(ConfigError, match="'gateway': Input should be a valid dictionary"):
        load_config({"gateway": "direct"})
    with pytest.raises(ConfigError, match="'gateway': Input should be a valid dictionary"):
        load_config({"gateway": "direct"}, tables={"gateway": config_problems})
