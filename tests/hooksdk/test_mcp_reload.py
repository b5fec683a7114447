"""MCP servers whose files change while they run: what is added, stopped, replaced, and what stays."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_servers import alive, find, until, use
from scripted_servers import Make, Scripted

from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers, Reload, ServerInput, ServerStatus

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.both_loops,
    pytest.mark.skipif(sys.platform == "win32", reason="looks at process ids as POSIX does"),
]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def one(name: str, *tools: str | dict[str, Any], **script: Any) -> Scripted:
        return Scripted(tmp_path / name, *tools, **script)

    return one


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mcp.json"


def write(file: Path, *servers: Scripted, **more: Any) -> None:
    """Replace the file as editors do, so that its inode is another even when nothing else is."""
    entries = {**{one.folder.name: one.entry for one in servers}, **more}
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    beside.replace(file)


def names(servers: McpServers) -> list[str]:
    return [tool.name for tool in servers.tools()]


def digest(file: Path) -> str:
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


both = pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "eager"])


@both
async def test_a_changed_file_adds_stops_and_replaces_servers(make: Make, file: Path, lazy: bool) -> None:
    stays, goes, moves, comes = make("stays", "a"), make("goes", "b"), make("moves", "c"), make("comes", "d")
    write(file, stays, goes, moves)
    changed: list[str] = []
    async with McpServers.from_file(file, lazy=lazy, on_change=changed.append) as servers:
        await servers.ready()
        assert await servers.catch_up() is None
        changed.clear()
        write(file, stays, comes, moves={**moves.entry, "env": {"NEW": "1"}})
        assert await servers.catch_up() == Reload(added=("comes",), changed=("moves",), removed=("goes",))
        assert await servers.catch_up() is None
        assert set(changed[:3]) == {"comes", "goes", "moves"}
        await servers.ready()
        assert names(servers) == ["a", "d", "c"]
        assert list(servers.status) == ["stays", "comes", "moves"]
        await until(lambda: not alive(goes.pids[0]) and not alive(moves.pids[0]))
        assert (len(stays.pids), len(moves.pids), alive(stays.pids[0])) == (1, 2, True)


async def test_a_running_call_ends_under_the_old_entry_and_the_next_one_is_of_the_new(make: Make, file: Path) -> None:
    one = make("one", "wait", "add")
    write(file, one)
    async with McpServers.from_file(file) as servers, anyio.create_task_group() as group:
        add, found = find(servers, "add"), list[str]()

        async def wait() -> None:
            found.append((await use(servers, "wait")).text)

        group.start_soon(wait)
        await until(lambda: "tools/call" in one.asked)
        write(file, one={**one.entry, "env": {"NEW": "1"}})
        await servers.catch_up()
        assert add.execute is not None
        assert (await add.execute({})).text == f"add by {one.pids[1]}"
        assert alive(one.pids[0])
        one.go()
        await until(lambda: found)
        assert found == [f"wait by {one.pids[0]}"]
        await until(lambda: not alive(one.pids[0]))


async def test_a_running_call_of_a_removed_server_ends_and_a_later_one_is_refused(make: Make, file: Path) -> None:
    one = make("one", "wait")
    write(file, one)
    async with McpServers.from_file(file) as servers, anyio.create_task_group() as group:
        wait, found = find(servers, "wait"), list[str]()
        assert wait.execute is not None
        execute = wait.execute

        async def call() -> None:
            found.append((await execute({})).text)

        group.start_soon(call)
        await until(lambda: "tools/call" in one.asked)
        write(file)
        await servers.catch_up()
        assert names(servers) == []
        assert "'one' is not in the configuration any more" in (await execute({})).text
        one.go()
        await until(lambda: found)
        assert found == [f"wait by {one.pids[0]}"]
        await until(lambda: not alive(one.pids[0]))


async def test_a_server_that_is_removed_at_its_start_does_not_hold_anybody(make: Make, file: Path) -> None:
    stalls = make("stalls", start="stall")
    write(file, stalls)
    async with McpServers.from_file(file, lazy=True) as servers:
        await until(lambda: stalls.pids)
        write(file)
        await servers.catch_up()
        await until(lambda: not alive(stalls.pids[0]))


@both
async def test_a_replaced_server_keeps_its_tools_until_the_new_one_tells_its_own(
    make: Make, file: Path, lazy: bool
) -> None:
    one = make("one", "add")
    write(file, one)
    async with McpServers.from_file(file, lazy=lazy) as servers:
        await servers.ready()
        one.write("sum")
        write(file, one={**one.entry, "env": {"NEW": "1"}})
        await servers.catch_up()
        assert names(servers) == ["add"]
        await servers.ready()
        assert names(servers) == ["sum"]


async def test_a_disabled_server_ends_and_comes_back(make: Make, file: Path) -> None:
    one = make("one", "add")
    write(file, one)
    async with McpServers.from_file(file) as servers:
        add = find(servers, "add")
        write(file, one={**one.entry, "disabled": True})
        await servers.catch_up()
        assert (names(servers), servers.status["one"].state) == ([], "disabled")
        assert add.execute is not None
        assert "'one' is disabled in its file" in (await add.execute({})).text
        write(file, one)
        await servers.catch_up()
        assert (await add.execute({})).text == f"add by {one.pids[-1]}"


# What is broken


BROKEN = {
    "no JSON": '{"mcpServers": ',
    "no servers": '{"theme": "dark"}',
    "empty": "",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_file_changes_nothing_and_is_told(
    make: Make, file: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = make("one", "add")
    write(file, one)
    async with McpServers.from_file(file) as servers:
        file.write_text(content)
        with caplog.at_level(logging.WARNING):
            reload = await servers.catch_up()
        assert reload is not None
        assert (reload.added, reload.changed, reload.removed) == ((), (), ())
        assert str(file) in reload.problems[0]
        assert f"{reload.problems[0]}; the servers that it had before stay" in caplog.text
        assert not (await use(servers, "add")).is_error
        assert await servers.catch_up() is None
        write(file)
        assert await servers.catch_up() == Reload(removed=("one",))


async def test_a_file_that_is_removed_keeps_its_servers(make: Make, file: Path) -> None:
    one = make("one", "add")
    write(file, one)
    async with McpServers.from_file(file) as servers:
        file.unlink()
        reload = await servers.catch_up()
        assert reload is not None
        assert "cannot be read" in reload.problems[0]
        assert not (await use(servers, "add")).is_error


async def test_a_wrong_entry_keeps_its_server_and_the_others_change(make: Make, file: Path) -> None:
    one, two, three = make("one", "a"), make("two", "b"), make("three", "c")
    write(file, one, two)
    told: list[ServerStatus] = []
    async with McpServers.from_file(file, on_status=told.append) as servers:
        write(file, three, one={"comand": "x"}, four={"command": 4})
        reload = await servers.catch_up()
        assert reload is not None
        assert (reload.added, reload.changed, reload.removed) == (("three",), (), ("two",))
        (problem,) = reload.problems
        assert problem.startswith("server 'one': ")
        assert "needs a 'command' or a 'url'" in problem
        await servers.ready()
        assert sorted(names(servers)) == ["a", "c"]
        assert len(one.pids) == 1
        assert servers.status["four"].state == "failed"
        assert "four" in {status.name for status in told}
        assert "'command': expected text" in servers.missing["four"]


async def test_one_broken_file_of_two_leaves_the_other_to_change(make: Make, file: Path, tmp_path: Path) -> None:
    one, two, other = make("one", "a"), make("two", "b"), tmp_path / "other.json"
    write(file, one)
    write(other, two)
    async with McpServers.from_file(file, other) as servers:
        file.write_text("{")
        write(other)
        reload = await servers.catch_up()
        assert reload is not None
        assert (reload.removed, len(reload.problems)) == (("two",), 1)
        assert names(servers) == ["a"]


# Trust


async def test_a_file_that_is_not_the_trusted_one_any_more_changes_nothing(make: Make, file: Path) -> None:
    one, two = make("one", "a"), make("two", "b")
    write(file, one)
    async with McpServers.from_file(file, digests={file: digest(file)}) as servers:
        write(file, one, two)
        reload = await servers.catch_up()
        assert reload is not None
        assert "has changed since its trust was looked up" in reload.problems[0]
        assert (names(servers), two.pids) == (["a"], [])
        assert (await servers.reload()).problems
        assert await servers.reload(digests={file: digest(file)}) == Reload(added=("two",))


async def test_other_files_may_be_given(make: Make, file: Path, tmp_path: Path) -> None:
    one, two, other = make("one", "a"), make("two", "b"), tmp_path / "other.json"
    write(file, one)
    write(other, two)
    async with McpServers.from_file(file, digests={file: digest(file)}) as servers:
        assert await servers.reload(other) == Reload(added=("two",), removed=("one",))
        write(file)
        assert await servers.catch_up() is None
        write(other)
        assert await servers.catch_up() == Reload(removed=("two",))


# Servers of a mapping, and the edges


async def test_servers_given_in_code_are_replaced(make: Make) -> None:
    one, two = make("one", "a"), make("two", "b")
    async with McpServers({"one": one.entry}) as servers:
        assert await servers.replace({"one": one.entry, "two": two.entry}) == Reload(added=("two",))
        with pytest.raises(ConfigError, match="needs a 'command'"):
            await servers.replace({"two": {}})
        assert list(servers.status) == ["one", "two"]
        assert len(one.pids) == 1
        assert (await servers.reload(), await servers.catch_up()) == (Reload(), None)
        assert await servers.replace({}) == Reload(removed=("one", "two"))


async def test_a_reload_before_the_start_counts_at_the_start(make: Make, file: Path) -> None:
    one, two = make("one", "a"), make("two", "b")
    write(file, one)
    servers = McpServers.from_file(file)
    write(file, two)
    assert await servers.catch_up() == Reload(added=("two",), removed=("one",))
    async with servers:
        assert names(servers) == ["b"]
    assert one.pids == []


async def test_nobody_is_asked_twice(make: Make, file: Path) -> None:
    one, asked = make("one", "a"), list[str]()

    def ask(question: ServerInput) -> str:
        asked.append(question.id)
        return "k3y-value"

    entry = {**one.entry, "env": {"KEY": "${input:key}"}}
    write(file, one=entry)
    servers = McpServers.from_file(file, ask=ask)
    write(file, one={**entry, "args": [*entry["args"], "more"]})
    assert await servers.catch_up() == Reload(changed=("one",))
    assert asked == ["key"]


async def test_a_change_that_keeps_size_and_time_is_seen(make: Make, file: Path) -> None:
    write(file, a=make("a", "x").entry)
    before = file.stat()
    servers = McpServers.from_file(file)
    write(file, b=make("a", "x").entry)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert await servers.catch_up() == Reload(added=("b",), removed=("a",))
