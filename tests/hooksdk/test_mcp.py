"""MCP servers as tools: real servers as child processes, on asyncio and on trio."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import stdio
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_servers import SERVERS, Progress, alive, find, script, until, use

from hooksdk.catalog import build_catalog
from hooksdk.mcp import McpServers, ServerStatus
from hooksdk.tools import Annotations

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="looks at process ids as POSIX does"),
    pytest.mark.in_ci(anyio_backend=["asyncio"]),
]


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's 2 seconds for a server to end by itself are too long to wait for in every test."""
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 0.3)


@pytest.fixture(scope="module")
async def shared(anyio_backend: str) -> AsyncIterator[McpServers]:
    """Servers for the tests that leave them as they are."""
    entries = {name: script(name) for name in ("plain", "noisy", "contents")}
    async with McpServers(entries) as servers:
        yield servers


# What a tool tells of itself


async def test_a_tool_keeps_what_its_server_tells_of_it(shared: McpServers) -> None:
    add = find(shared, "add")
    assert (add.id, add.source, add.owner, add.label) == ("mcp:plain:add", "mcp", "plain", "Add two numbers")
    assert add.annotations == Annotations(read_only=True, destructive=False)
    assert add.parameters is not None
    assert add.parameters["properties"]["a"]["description"] == "the first"
    assert add.output_schema is not None
    assert add.timeout == 61.0


async def test_status_tells_version_tools_and_seconds(shared: McpServers) -> None:
    status = shared.status["plain"]
    assert (status.state, status.problem, status.tools, status.version) == ("up", "", 6, "1.2.3")
    assert 0.0 < status.seconds < 300.0


async def test_the_same_tools_come_back_until_the_list_changes(shared: McpServers) -> None:
    assert all(one is two for one, two in zip(shared.tools(), shared.tools(), strict=True))


async def test_one_name_on_two_servers_is_told_apart_by_the_catalog() -> None:
    async with McpServers({"one": script("quick"), "two": script("quick")}) as servers:
        catalog = build_catalog(servers.tools())
        assert catalog.sharing("add") == ["one__add", "two__add"]
        execute = catalog[0].execute
        assert execute is not None
        assert (await execute({"a": 1, "b": 1})).structured == {"result": 2}


async def test_the_quick_server_says_what_the_one_of_the_sdk_says() -> None:
    def definitions(servers: McpServers) -> list[dict[str, Any]]:
        return [
            {field.name: getattr(one, field.name) for field in fields(one) if field.name != "execute"}
            for one in servers.tools()
        ]

    async with McpServers({"plain": script("plain")}) as servers, McpServers({"plain": script("quick")}) as quick:
        assert definitions(quick) == definitions(servers)
        assert (quick.status["plain"].version, quick.status["plain"].tools) == ("1.2.3", 6)
        for name, arguments in {"add": {"a": 2, "b": 40}, "environment": {"name": "PATH"}, "folder": {}}.items():
            given, expected = await use(quick, name, **arguments), await use(servers, name, **arguments)
            assert (given.text, given.structured, given.is_error) == (expected.text, expected.structured, False)
        assert (await use(quick, "process_id")).text.isdigit()


# Results


async def test_a_call_gives_text_and_structure(shared: McpServers) -> None:
    result = await use(shared, "add", a=2, b=40)
    assert (result.text, result.structured, result.is_error) == ("42", {"result": 42}, False)


async def test_an_image_is_kept_as_a_block_and_named_in_the_text(shared: McpServers) -> None:
    result = await use(shared, "picture")
    assert [block["type"] for block in result.blocks] == ["text", "image"]
    assert result.blocks[1]["mimeType"] == "image/png"
    assert result.text == "a pixel:\n[image, image/png, 15 bytes]"


async def test_audio_is_kept_as_a_block(shared: McpServers) -> None:
    result = await use(shared, "sound")
    assert [(block["type"], block["mimeType"]) for block in result.blocks] == [("audio", "audio/wav")]


async def test_resources_and_links_are_kept_and_readable_as_text(shared: McpServers) -> None:
    result = await use(shared, "files")
    assert [block["type"] for block in result.blocks] == ["resource", "resource_link"]
    assert result.text == "the notes\n[resource file:///big.bin: The big one]"


async def test_a_tools_own_error_is_an_error_result(shared: McpServers) -> None:
    result = await use(shared, "refuse")
    assert (result.text, result.is_error) == ("no such ticket: 7", True)


async def test_structure_without_text_is_told_as_json(shared: McpServers) -> None:
    result = await use(shared, "count_only")
    assert (result.text, result.structured) == ('{"count": 4}', {"count": 4})


async def test_a_result_that_misses_its_output_schema_is_left_for_the_run_to_judge(shared: McpServers) -> None:
    result = await use(shared, "miscount")
    assert (result.structured, result.is_error) == ({"count": "many"}, False)


async def test_a_protocol_error_is_an_error_result_in_the_servers_words(shared: McpServers) -> None:
    result = await use(shared, "unknown_to_itself")
    assert result.is_error
    assert result.text == "The MCP server 'contents' refused 'unknown_to_itself': Unknown tool: unknown_to_itself"


# Calls


async def test_progress_of_a_server_is_passed_on(shared: McpServers) -> None:
    context = Progress()
    await use(shared, "work", context, seconds=0.2)
    assert context.told == [("step 1", 0.25), ("step 2", 0.5), ("step 3", 0.75), ("step 4", 1.0)]


async def cancelled_so_far(servers: McpServers) -> int:
    return int((await use(servers, "cancelled_so_far")).text)


async def test_calls_on_one_connection_run_side_by_side(shared: McpServers) -> None:
    before = await cancelled_so_far(shared)
    begun = [Progress() for _ in range(10)]
    async with anyio.create_task_group() as group:
        for context in begun:
            group.start_soon(lambda context=context: use(shared, "work", context, seconds=120))
        await until(lambda: all(context.told for context in begun))
        group.cancel_scope.cancel()
    while await cancelled_so_far(shared) < before + 10:
        await anyio.sleep(0.01)


async def test_a_cancelled_call_cancels_the_work_in_the_server(shared: McpServers) -> None:
    before, context = await cancelled_so_far(shared), Progress()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: use(shared, "work", context, seconds=120))
        await until(lambda: context.told)
        group.cancel_scope.cancel()
    assert await cancelled_so_far(shared) == before + 1


async def test_noise_on_stdout_stays_quiet_and_harms_nothing(
    shared: McpServers, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert (await use(shared, "greet", name="Ada")).text == "hello Ada"
    assert not caplog.records


async def test_noise_of_other_mcp_clients_in_the_process_is_still_logged(
    shared: McpServers, caplog: pytest.LogCaptureFixture
) -> None:
    parameters = StdioServerParameters(command=sys.executable, args=[str(SERVERS / "noisy.py")], encoding="latin-1")
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
    assert any("Failed to parse" in record.message for record in caplog.records)


async def test_environment_and_folder_of_the_entry_reach_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHO", "world")
    entry = script("quick", env={"GREETING": "hello ${WHO} ${REST:-and all}"}, cwd=str(tmp_path))
    async with McpServers({"plain": entry}) as servers:
        assert (await use(servers, "environment", name="GREETING")).text == "hello world and all"
        assert (await use(servers, "folder")).text == str(tmp_path.resolve())


# Starting and leaving


async def test_a_server_that_fails_is_reported_and_the_others_come_up(tmp_path: Path) -> None:
    told: list[ServerStatus] = []
    (tmp_path / "used-up").touch()
    servers = McpServers(
        {
            "plain": script("quick"),
            "missing": {"command": "no-such-command-anywhere"},
            "lost": script("quick", cwd=str(tmp_path / "nowhere")),
            "crashing": script("dying", str(tmp_path / "used-up"), env={"TOKEN": "s3cret-token"}),
            "refused": {"url": "http://127.0.0.1:9/mcp?key=s3cret-token", "headers": {"X-Key": "s3cret-token"}},
            "off": script("quick", disabled=True),
        },
        on_status=told.append,
    )
    async with servers:
        states = {name: status.state for name, status in servers.status.items()}
        problems = {name: status.problem for name, status in servers.status.items()}
        owners = {tool.owner for tool in servers.tools()}
    failed = dict.fromkeys(("missing", "lost", "crashing", "refused"), "failed")
    assert states == {"plain": "up", "off": "disabled", **failed}
    assert owners == {"plain"}
    assert "'no-such-command-anywhere' was not found" in problems["missing"]
    assert "nowhere" in problems["lost"]
    assert "the licence is used up, token ***" in problems["crashing"]
    assert "http://127.0.0.1:9/mcp cannot be reached" in problems["refused"]
    assert "s3cret" not in "".join(problems.values())
    assert [status.state for status in told if status.name == "plain"][:2] == ["starting", "up"]


async def test_a_server_that_fails_is_logged_where_nobody_asked_for_the_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with McpServers({"missing": {"command": "no-such-command-anywhere"}}):
        pass
    assert "the MCP server 'missing' failed: the command 'no-such-command-anywhere' was not found" in caplog.text


async def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    # A shell has written in a moment; Python may start longer on a busy machine.
    entry = {
        "command": "sh",
        "args": [
            "-c",
            "printf '\\033[33mwaiting for the database\\033[0m\\n' >&2; echo $$ >\"$0\"; exec sleep 600",
            str(note),
        ],
    }
    async with McpServers({"silent": entry}, start_timeout=4.0) as servers:
        status = servers.status["silent"]
        assert status.state == "failed"
        assert status.problem == "did not answer within 4 s; it wrote: waiting for the database"
    assert not alive(int(note.read_text()))


async def test_leaving_ends_the_servers_and_further_calls_say_so() -> None:
    async with McpServers({"plain": script("quick")}) as servers:
        pid = int((await use(servers, "process_id")).text)
        tool = find(servers, "add")
        assert alive(pid)
    assert not alive(pid)
    assert tool.execute is not None
    assert "are closed" in (await tool.execute({"a": 1, "b": 2})).text
    assert servers.status["plain"].state == "down"


async def test_an_error_in_the_body_comes_out_as_itself_and_ends_the_servers() -> None:
    pids: list[int] = []

    async def fail() -> None:
        async with McpServers({"plain": script("quick")}) as servers:
            pids.append(int((await use(servers, "process_id")).text))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not alive(pids[0])


async def test_a_cancellation_during_the_start_leaves_no_process_behind(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    async def start() -> None:
        async with McpServers({"silent": script("silent", str(note))}):
            raise AssertionError("never comes up")

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        await until(lambda: note.exists() and note.read_text())
        group.cancel_scope.cancel()
    assert not alive(int(note.read_text()))


async def test_a_cancellation_during_a_call_leaves_no_process_behind() -> None:
    pid = 0
    with anyio.move_on_after(300) as scope:
        async with McpServers({"stalling": script("stalling")}) as servers:
            pid = int((await use(servers, "process_id")).text)
            scope.deadline = anyio.current_time() + 0.2
            await use(servers, "stall")
    assert scope.cancelled_caught
    assert not alive(pid)


def heed_interrupts() -> None:
    """A test run in the background ignores Ctrl-C, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_leaves_no_process_behind(anyio_backend: str) -> None:
    command = [sys.executable, str(SERVERS / "host_until_interrupted.py"), anyio_backend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        assert alive(pid)
        host.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in host.stdout.readline() or anyio_backend == "trio"
        host.wait(120)
    assert not alive(pid)
