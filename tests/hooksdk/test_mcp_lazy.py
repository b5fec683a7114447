"""MCP servers that are started when they are needed: from listings that were kept, and with one listing a start."""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_servers import alive, find, until, use
from scripted_servers import Make, Scripted

from hooksdk import Host, ToolCall
from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers
from hooksdk.mcp._listings import Listings

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


async def listed(*servers: Scripted) -> None:
    """Let the listings of the servers be known, and forget how that was done."""
    async with McpServers(named(*servers), lazy=True) as lazy:
        await lazy.ready()
    for one in servers:
        (one.folder / "log").unlink()


def named(*servers: Scripted) -> dict[str, Any]:
    return {one.folder.name: one.entry for one in servers}


def kept(home: Path) -> list[Path]:
    return sorted((home / "cache" / "mcp").glob("*.json"))


def names(servers: McpServers) -> list[str]:
    return [tool.name for tool in servers.tools()]


# From a listing


async def test_no_process_is_started_for_tools_that_are_known(make: Make) -> None:
    one, two = make("one", "add", "sub"), make("two", "find")
    await listed(one, two)
    async with McpServers(named(one, two), lazy=True) as servers:
        assert names(servers) == ["add", "sub", "find"]
        states = [(status.state, status.tools, status.version) for status in servers.status.values()]
        assert states == [("idle", 2, "1"), ("idle", 1, "1")]
        await servers.ready()
    assert one.asked == two.asked == []


async def test_the_first_call_starts_its_server_alone(make: Make) -> None:
    one, two = make("one", "add"), make("two", "find")
    await listed(one, two)
    async with McpServers(named(one, two), lazy=True) as servers:
        assert (await use(servers, "add")).text == f"add by {one.pids[0]}"
        assert servers.status["one"].state == "up"
    assert (one.asked, two.asked) == (["start", "initialize", "tools/list", "tools/call"], [])


@pytest.mark.parametrize("lazy", [True, False])
async def test_a_call_of_a_server_that_is_up_asks_it_nothing_else(make: Make, lazy: bool) -> None:
    one = make("one", "add")
    async with McpServers(named(one), lazy=lazy) as servers:
        await servers.ready()
        for _ in range(3):
            await use(servers, "add")
            servers.tools()
    assert one.asked == ["start", "server/discover", "initialize", "tools/list", *["tools/call"] * 3]


async def test_calls_at_the_same_time_share_one_start(make: Make) -> None:
    one = make("one", "add")
    await listed(one)
    async with McpServers(named(one), lazy=True) as servers, anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(use, servers, "add")
    assert one.asked.count("start") == 1


async def test_tools_of_unknown_servers_appear_when_they_have_answered(make: Make) -> None:
    one, changed = make("one", "add"), list[str]()
    async with McpServers(named(one), lazy=True, on_change=changed.append) as servers:
        assert names(servers) == []
        assert servers.missing == {"one": "it is being started, and its tools are not known yet"}
        await servers.ready()
        assert (names(servers), changed, dict(servers.missing)) == (["add"], ["one"], {})


async def test_a_server_that_stalls_at_its_start_holds_no_other(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooksdk.mcp._fleet._LISTED_AT_ONCE", 1)
    stalls, one = make("stalls", start="stall"), make("one", "add")
    await listed(one)
    entries = {**named(stalls), **named(one)}
    async with McpServers(entries, lazy=True) as servers:
        with anyio.fail_after(120):
            assert not (await use(servers, "add")).is_error
            await until(lambda: stalls.pids)
    assert not alive(stalls.pids[0])


async def test_a_server_that_cannot_start_is_left_out_and_told(make: Make) -> None:
    one, refuses = make("one", "add"), make("refuses", "sub", start="refuse")
    async with McpServers(named(one, refuses), lazy=True) as servers:
        await servers.ready()
        assert names(servers) == ["add"]
        assert servers.missing == {"refuses": "exited during its start; it wrote: no licence"}


async def test_a_model_that_searches_is_told_of_a_server_that_cannot_start(make: Make) -> None:
    one, refuses = make("one", "add"), make("refuses", "sub", start="refuse")
    config = {"allow": ["tool_search"], "plugins": {"tool_search": {"config": {"enabled": "on"}}}}
    async with (
        McpServers(named(one, refuses)) as servers,
        Host(config=config) as host,
        host.session() as session,
        session.run() as run,
    ):

        async def search(call_id: str) -> dict[str, Any]:
            call = ToolCall(id=call_id, name="tool_search", arguments={"queries": ["add"]})
            return json.loads((await run.call_tool(call)).text)

        await run.resolve_tools(servers.tools, missing=servers.missing)
        reason = "exited during its start; it wrote: no licence"
        assert (await search("c1"))["not_available"] == {"refuses": reason}
        assert f"'refuses' is not available: {reason}" in run.tools.diagnostics
        await run.resolve_tools(servers.tools())
        assert "not_available" not in await search("c2")


async def test_known_tools_stay_when_their_server_cannot_be_started(make: Make) -> None:
    one, changed = make("one", "add"), list[str]()
    await listed(one)
    one.write("add", start="refuse")
    async with McpServers(named(one), lazy=True, on_change=changed.append) as servers:
        assert names(servers) == ["add"]
        changed.clear()
        text = (await use(servers, "add")).text
        assert "cannot be reached at the moment (exited during its start; it wrote: no licence)" in text
        assert (names(servers), changed) == (["add"], [])


async def test_each_server_may_have_a_limit_for_its_start(make: Make) -> None:
    stalls = make("stalls", start="stall")
    async with McpServers({"stalls": {**stalls.entry, "start_timeout": 0.05}}) as servers:
        assert servers.missing == {"stalls": "did not answer within 0.05 s"}


# A server that offers something else than what is known


async def test_a_listing_that_differs_changes_the_tools_and_is_kept(make: Make, home: Path) -> None:
    one, changed = make("one", "add"), list[str]()
    await listed(one)
    one.write("add", "sub", version="2")
    async with McpServers(named(one), lazy=True, on_change=changed.append) as servers:
        assert names(servers) == ["add"]
        changed.clear()
        assert not (await use(servers, "add")).is_error
        assert (names(servers), changed) == (["add", "sub"], ["one"])
        assert servers.status["one"].version == "2"
    data = json.loads(kept(home)[0].read_text())
    assert (data["version"], [tool["name"] for tool in data["tools"]]) == ("2", ["add", "sub"])


async def test_tools_that_change_while_the_server_runs_are_kept_too(make: Make, home: Path) -> None:
    one, changed = make("one", "tell"), list[str]()
    async with McpServers(named(one), lazy=True, on_change=changed.append) as servers:
        await servers.ready()
        one.write("tell", "sub")
        await use(servers, "tell")
        await until(lambda: any("sub" in path.read_text() for path in kept(home)))
        assert (names(servers), changed) == (["tell", "sub"], ["one", "one"])


async def test_a_slow_disk_does_not_put_the_first_listing_over_a_later_one(
    make: Make, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, write = make("one", "tell"), Listings.write
    writes, later = list[str](), threading.Event()

    def slow(listings: Listings, *arguments: Any) -> None:
        writes.append("begun")
        if len(writes) == 1:
            later.wait(0.5)  # where nobody comes first, this is the first
        write(listings, *arguments)
        later.set()

    monkeypatch.setattr(Listings, "write", slow)
    async with McpServers(named(one), lazy=True) as servers:
        await servers.ready()
        one.write("tell", "sub")
        await use(servers, "tell")
        await until(lambda: len(writes) == 2)
    assert "sub" in kept(home)[0].read_text()


async def test_a_tool_that_is_gone_is_refused(make: Make) -> None:
    one = make("one", "add")
    await listed(one)
    one.write("sum")
    async with McpServers(named(one), lazy=True) as servers:
        refused = await use(servers, "add")
    assert refused.text == "The MCP server 'one' no longer has a tool 'add'. It now has: sum."
    assert "tools/call" not in one.asked


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def test_arguments_that_fit_a_changed_schema_no_more_are_refused(make: Make) -> None:
    one = make("one", "add")
    await listed(one)
    one.write({"name": "add", "inputSchema": TEXT})
    async with McpServers(named(one), lazy=True) as servers:
        refused = await use(servers, "add", number=1)
        assert refused.is_error
        assert "'add' of the MCP server 'one' has changed since it was listed and was not called" in refused.text
        assert "text" in refused.text.partition("not called")[2]
        assert "Look the tool up again" in refused.text
        assert not (await use(servers, "add", text="now it fits")).is_error


async def test_arguments_that_fit_a_changed_schema_are_passed_on(make: Make) -> None:
    one = make("one", {"name": "add", "inputSchema": TEXT})
    await listed(one)
    one.write({"name": "add", "inputSchema": {**TEXT, "description": "says more"}})
    async with McpServers(named(one), lazy=True) as servers:
        assert not (await use(servers, "add", text="fits")).is_error


async def test_a_tool_that_reads_no_more_but_writes_is_refused_once(make: Make) -> None:
    one = make("one", {"name": "add", "annotations": {"readOnlyHint": True}})
    await listed(one)
    one.write({"name": "add", "annotations": {"readOnlyHint": False}})
    async with McpServers(named(one), lazy=True) as servers:
        assert "what it does to its surroundings" in (await use(servers, "add")).text
        assert not (await use(servers, "add")).is_error


# What is kept on disk


async def test_a_listing_is_its_owners_alone_and_holds_no_secret(make: Make, home: Path) -> None:
    one = make("one", "add")
    entry = {**one.entry, "env": {"TOKEN": "s3cret-value"}}
    async with McpServers({"one": entry}, lazy=True) as servers:
        await servers.ready()
    (path,) = kept(home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "s3cret" not in path.name + path.read_text()
    async with McpServers({"one": {**entry, "env": {"TOKEN": "s3cret-other"}}}, lazy=True) as servers:
        assert names(servers) == ["add"]


@pytest.mark.parametrize(
    "difference",
    [{"args": ["--other"]}, {"env": {"KEY": "value"}}, {"cwd": "."}, {"command": "/no/such/python"}],
    ids=lambda difference: next(iter(difference)),
)
async def test_another_configuration_has_another_listing(make: Make, difference: dict[str, Any]) -> None:
    one = make("one", "add")
    await listed(one)
    entry = {**one.entry, **difference}
    async with McpServers({"one": entry}, lazy=True, start_timeout=5) as servers:
        assert names(servers) == []


DAMAGES = [
    "",
    "[]",
    "null",
    '{"format": 1}',
    '{"format": 1, "listed": 0, "program": [], "version": "1", "tools": [{}]}',
]


@pytest.mark.parametrize("damage", [*DAMAGES, "[" * 100_000])
async def test_a_damaged_listing_is_passed_over_and_made_anew(
    make: Make, home: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = make("one", "add")
    await listed(one)
    kept(home)[0].write_text(damage)
    with caplog.at_level(logging.WARNING):
        async with McpServers(named(one), lazy=True) as servers:
            assert names(servers) == []
            await servers.ready()
    assert "the listing of MCP server 'one'" in caplog.text
    assert "is not used" in caplog.text
    assert json.loads(kept(home)[0].read_text())["tools"][0]["name"] == "add"


def age(path: Path, days: int) -> None:
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "listed": data["listed"] - days * 86_400}))
    then = time.time() - days * 86_400
    os.utime(path, (then, then))


async def test_an_old_listing_serves_and_is_asked_for_anew(make: Make, home: Path) -> None:
    one = make("one", "add")
    await listed(one)
    age(kept(home)[0], days=2)
    one.write("sub")
    async with McpServers(named(one), lazy=True) as servers:
        assert names(servers) == ["add"]
        await servers.ready()
        assert names(servers) == ["sub"]


async def test_a_server_whose_program_is_another_is_asked_anew(make: Make, tmp_path: Path) -> None:
    one = make("one", "add")
    program = tmp_path / "program.py"
    program.write_text(Path(one.entry["args"][1]).read_text())
    entry = {**one.entry, "args": ["-S", str(program), str(one.folder)]}
    async with McpServers({"one": entry}, lazy=True) as servers:
        await servers.ready()
    program.write_text(program.read_text() + "\n# newer\n")
    async with McpServers({"one": entry}, lazy=True) as servers:
        assert names(servers) == ["add"]
        await servers.ready()
    assert one.asked.count("start") == 2


async def test_listings_that_nobody_uses_are_removed(make: Make, home: Path) -> None:
    one, two = make("one", "add"), make("two", "sub")
    await listed(one)
    age(kept(home)[0], days=31)
    await listed(two)
    assert [path.name.split("-")[0] for path in kept(home)] == ["two"]


async def test_a_disk_that_takes_no_listing_is_told_and_harms_nothing(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    async with McpServers(named(make("one", "add")), lazy=True, listings=tmp_path / "file" / "inside") as servers:
        await servers.ready()
        assert names(servers) == ["add"]
    assert "listings of MCP servers cannot be kept in" in caplog.text


async def test_listings_are_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOOKSDK_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert Listings().folder == tmp_path / "hooksdk" / "mcp"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Listings().folder == Path.home() / "Library" / "Caches" / "hooksdk" / "mcp"


# A server that nobody calls


async def test_an_unused_server_is_ended_and_started_by_the_next_call(make: Make) -> None:
    one = make("one", "add")
    await listed(one)
    async with McpServers(named(one), lazy=True, idle=0.05) as servers:
        await use(servers, "add")
        await until(lambda: servers.status["one"].state == "idle")
        assert not alive(one.pids[0])
        assert names(servers) == ["add"]
        assert (await use(servers, "add")).text == f"add by {one.pids[1]}"


async def test_each_server_may_have_its_own_rest(make: Make) -> None:
    one, two = make("one", "add"), make("two", "find")
    await listed(one, two)
    entries = {"one": {**one.entry, "idle": 0.05}, "two": {**two.entry, "idle": 1000}}
    async with McpServers(entries, lazy=True, idle=500) as servers:
        await use(servers, "add")
        await use(servers, "find")
        await until(lambda: servers.status["one"].state == "idle")
        assert (alive(one.pids[0]), alive(two.pids[0])) == (False, True)


async def test_a_call_that_takes_long_keeps_its_server(make: Make) -> None:
    one = make("one", "wait")
    await listed(one)
    found: list[str] = []
    async with McpServers(named(one), lazy=True, idle=0.05) as servers, anyio.create_task_group() as group:

        async def wait() -> None:
            found.append((await use(servers, "wait")).text)

        group.start_soon(wait)
        await until(lambda: "tools/call" in one.asked)
        await anyio.sleep(0.2)
        one.go()
    assert found == [f"wait by {one.pids[0]}"]


async def test_a_server_that_was_only_listed_does_not_stay(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooksdk.mcp._connection._UNCALLED_REST", 0.05)
    called, listed_only = make("called", "add"), make("listed", "sub")
    async with McpServers(named(called, listed_only), lazy=True) as servers:
        await use_when_known(servers, "add")
        await until(lambda: servers.status["listed"].state == "idle")
        assert not alive(listed_only.pids[0])
        assert servers.status["called"].state == "up"


async def use_when_known(servers: McpServers, name: str) -> None:
    await until(lambda: name in names(servers))
    assert not (await use(servers, name)).is_error


async def test_a_lazy_server_that_dies_is_started_by_the_next_call_alone(make: Make) -> None:
    one = make("one", "add", "die")
    await listed(one)
    async with McpServers(named(one), lazy=True) as servers:
        assert "may have taken effect" in (await use(servers, "die")).text
        assert names(servers) == ["add", "die"]
        assert len(one.pids) == 1
        assert (await use(servers, "add")).text == f"add by {one.pids[1]}"


@pytest.mark.parametrize("option", [{"idle": 5.0}, {"listings": "here"}, {"idle": 0, "lazy": True}])
async def test_an_option_without_effect_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))):
        McpServers({}, **option)


async def test_an_executor_of_before_knows_when_the_servers_are_closed(make: Make) -> None:
    one = make("one", "add")
    await listed(one)
    async with McpServers(named(one), lazy=True) as servers:
        add = find(servers, "add")
    assert add.execute is not None
    assert "are closed" in (await add.execute({})).text
    assert one.asked == []
