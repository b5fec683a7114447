"""The trace as lines of JSON."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from builtin_plugins.trace_file._writer import LineFile, encode
from hooksdk import Host, MemoryStore, Tool, ToolCall, ToolContext, hooks, tool
from hooksdk.errors import ConfigError, PluginRefused
from hooksdk.hooks import BeforeToolCall, Block
from tests.stage import reply

pytestmark = pytest.mark.anyio


class NoDeletes:
    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block:
        return Block("nothing is deleted here")


class Odd:
    """Tells the trace what is no JSON."""

    @tool
    async def odd(self, context: ToolContext) -> str:
        """Progress without a number."""
        await context.progress("half \ud800 \u2028 way", float("nan"))
        return "done"


def read_file(arguments: dict[str, Any]) -> str:
    return "x" * 10


ANY = {"type": "object"}
READ = Tool(name="read_file", parameters=ANY, source="host", owner="core", execute=read_file)
DELETE = Tool(name="delete_file", parameters=ANY, source="host", owner="core", execute=read_file)


def settings(**config: Any) -> dict[str, Any]:
    return {"allow": ["trace_file"], "plugins": {"trace_file": {"config": config}}}


def a_host(*plugins: Any, **config: Any) -> Host:
    return Host(plugins=plugins, store=MemoryStore(), config=settings(**config))


async def play(host: Host, *names: str, session_id: str = "s") -> None:
    """One run with a call of each of these tools."""
    async with host.session(session_id) as session, session.run(agent_id="worker") as run:
        await run.resolve_tools([READ, DELETE])
        await run.record({"role": "user", "content": "Go on, my password is hunter2."})
        for number, name in enumerate(names):
            call = ToolCall(f"c{number}", name, {} if name == "odd" else {"key": "hunter2"})
            await run.record(reply(call))
            await run.call_tool(call)


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_bytes()
    assert not text or text.endswith(b"\n")
    return [json.loads(line) for line in text.split(b"\n")[:-1]]


def kinds(path: Path) -> list[str]:
    return [line["kind"] for line in lines(path)]


async def test_it_writes_the_runs_records_in_order_to_the_default_file(home: Path):
    async with a_host(NoDeletes) as host:
        await play(host, "read_file", "delete_file")
    found = [kind for kind in kinds(home / "trace.jsonl") if kind not in {"hook", "decision", "model_replied"}]
    assert found == [
        "session_started", "run_started", "tools_resolved", "call_started", "call_finished", "call_started",
        "call_finished", "run_ended", "session_ended",
    ]  # fmt: skip


async def test_without_a_home_of_its_own_the_file_is_in_the_users_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("HOOKSDK_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with a_host() as host:
        await play(host)
    assert kinds(tmp_path / "hooksdk" / "trace.jsonl")


async def test_every_record_says_what_when_and_where(tmp_path: Path):
    async with a_host(path=str(tmp_path / "t.jsonl")) as host:
        await play(host, "read_file", session_id="one")
    (record,) = [line for line in lines(tmp_path / "t.jsonl") if line["kind"] == "call_finished"]
    assert list(record)[:7] == ["schema", "time", "kind", "session_id", "run_id", "attempt", "agent_id"]
    assert (record["schema"], record["session_id"], record["attempt"], record["agent_id"]) == (1, "one", 1, "worker")
    assert (record["tool"], record["status"], record["characters"]) == ("host:core:read_file", "ok", 10)


async def test_decisions_are_told_with_whose_they_are(tmp_path: Path):
    async with a_host(NoDeletes, path=str(tmp_path / "t.jsonl")) as host:
        await play(host, "delete_file")
    (record,) = [line for line in lines(tmp_path / "t.jsonl") if line["kind"] == "decision"]
    assert (record["plugin"], record["handler"], record["decision"]) == ("no_deletes", "NoDeletes.judge", "Block")


async def test_no_argument_and_no_message_is_written(tmp_path: Path):
    async with a_host(NoDeletes, path=str(tmp_path / "t.jsonl")) as host:
        await play(host, "read_file", "delete_file")
    assert "hunter2" not in (tmp_path / "t.jsonl").read_text()


async def test_a_folder_gets_a_file_of_its_own(tmp_path: Path):
    async with a_host(path=str(tmp_path)) as host:
        await play(host)
    async with a_host(path=f"{tmp_path}/new/") as host:
        await play(host)
    assert kinds(tmp_path / "trace.jsonl")
    assert kinds(tmp_path / "new" / "trace.jsonl")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes")
async def test_only_the_user_can_read_it(tmp_path: Path):
    async with a_host(path=str(tmp_path / "new" / "t.jsonl")) as host:
        await play(host)
    assert stat.S_IMODE((tmp_path / "new" / "t.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


async def test_a_line_is_there_while_the_run_goes_on(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    async with a_host(path=str(path)) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([READ])
        with anyio.fail_after(120):
            while not path.exists() or "tools_resolved" not in kinds(path):
                await anyio.sleep(0.01)


async def test_what_was_there_is_kept(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    for _ in range(2):
        async with a_host(path=str(path)) as host:
            await play(host)
    assert kinds(path).count("session_started") == 2


async def test_a_line_that_a_dead_writer_left_torn_is_ended_first(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"schema": 1}\n{"sche')
    async with a_host(path=str(path)) as host:
        await play(host)
    written = path.read_text().split("\n")
    assert written[1] == '{"sche'
    assert all(json.loads(line) for line in written[2:-1])


async def test_sessions_of_one_host_share_the_file(tmp_path: Path):
    async with a_host(path=str(tmp_path / "t.jsonl")) as host, anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(lambda number: play(host, *["read_file"] * 20, session_id=f"s{number}"), number)
    for number in range(8):
        of_session = [line for line in lines(tmp_path / "t.jsonl") if line["session_id"] == f"s{number}"]
        assert [line["kind"] for line in of_session].count("call_finished") == 20
        assert of_session[0]["kind"] == "session_started"
        assert of_session[-1]["kind"] == "session_ended"
        assert [line["time"] for line in of_session] == sorted(line["time"] for line in of_session)


async def test_what_is_no_json_and_what_looks_like_a_line_end_still_makes_one_line(tmp_path: Path):
    async with a_host(Odd, path=str(tmp_path / "t.jsonl")) as host:
        await play(host, "odd")
    assert "progress" in kinds(tmp_path / "t.jsonl")
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == len(lines(tmp_path / "t.jsonl"))


# Several processes, and rotation


def _append_many(path: str, name: str, count: int, max_bytes: int | None) -> None:
    file = LineFile(Path(path), max_bytes, 1000)
    file.open()
    for number in range(count):
        file.append(encode({"name": name, "number": number, "filling": "x" * 500}))
    file.close()


def _append_from_three_processes(path: Path, count: int, max_bytes: int | None) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_many, args=(str(path), str(n), count, max_bytes)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(280)
        assert writer.exitcode == 0


@pytest.mark.in_ci(max_bytes=[20_000])
@pytest.mark.heavy
@pytest.mark.parametrize("max_bytes", [None, 20_000])
def test_processes_that_append_at_once_lose_and_mix_nothing(tmp_path: Path, max_bytes: int | None):
    _append_from_three_processes(tmp_path / "t.jsonl", 400, max_bytes)
    files = list(tmp_path.iterdir())
    every = [line for file in files for line in lines(file)]
    assert sorted((line["name"], line["number"]) for line in every) == sorted(
        (str(n), number) for n in range(3) for number in range(400)
    )
    if max_bytes:
        assert len(files) > 10
        assert max(file.stat().st_size for file in files) < 2 * max_bytes


async def test_a_full_file_is_put_aside_and_only_so_many_are_kept(tmp_path: Path):
    async with a_host(path=str(tmp_path / "t.jsonl"), max_bytes=1_000, keep=2) as host:
        for number in range(5):
            await play(host, "read_file", session_id=f"s{number}")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.jsonl", "t.jsonl.1", "t.jsonl.2"]
    order = [line["time"] for name in ("t.jsonl.2", "t.jsonl.1", "t.jsonl") for line in lines(tmp_path / name)]
    assert order == sorted(order)
    assert lines(tmp_path / "t.jsonl")[-1]["session_id"] == "s4"


async def test_it_follows_its_path_when_somebody_moves_the_file(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    async with a_host(path=str(path)) as host:
        await play(host, session_id="one")
        path.rename(tmp_path / "moved")
        await play(host, session_id="two")
    assert {line["session_id"] for line in lines(tmp_path / "moved")} == {"one"}
    assert {line["session_id"] for line in lines(path)} == {"two"}


# Trouble


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
async def test_a_full_disk_is_reported_once_and_hurts_no_run(caplog: pytest.LogCaptureFixture):
    async with a_host(path="/dev/full") as host:
        await play(host, "read_file", "read_file")
        await play(host, "read_file", session_id="two")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "/dev/full cannot be written, so trace records are lost until it can: No space left on device"
    ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
async def test_when_there_is_room_again_it_says_how_many_records_are_lost(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.symlink_to("/dev/full")
    async with a_host(path=str(path)) as host:
        await play(host, session_id="one")
        path.unlink()
        await play(host, session_id="two")
    first, *others = lines(path)
    assert (first["schema"], first["kind"]) == (1, "records_lost")
    assert first["records"] >= 5
    assert {line["session_id"] for line in others} == {"two"}


@pytest.mark.heavy
def test_a_record_of_which_only_a_part_fits_does_not_spoil_the_next(tmp_path: Path):
    """In a process of its own, whose files may not grow over 1,000 bytes for a while."""
    pytest.importorskip("resource")
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=_run_out_of_room, args=(str(tmp_path / "t.jsonl"),))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    good, torn, lost, last = (tmp_path / "t.jsonl").read_text().splitlines()
    assert json.loads(good)["number"] == 1
    assert torn.startswith('{"number":2')
    assert len(good) + 1 + len(torn) == 1_000
    assert json.loads(lost)["records"] == 2
    assert json.loads(last)["number"] == 4


def _run_out_of_room(path: str) -> None:
    import resource

    file = LineFile(Path(path), None, 1)
    file.open()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
    for number in (1, 2, 3):
        file.append(encode({"number": number, "filling": "x" * 600}))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    file.append(encode({"number": 4}))
    file.close()


async def test_a_path_that_cannot_be_written_is_refused_when_the_host_starts(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PluginRefused, match="trace_file"):
        async with a_host(path=str(tmp_path / "file" / "t.jsonl")):
            pass


@pytest.mark.parametrize("config", [{"max_bytes": 0}, {"keep": 0}, {"file": "x"}, {"path": 3}])
async def test_wrong_settings_are_refused(config: dict[str, Any]):
    with pytest.raises(ConfigError):
        a_host(**config)


async def test_it_is_off_unless_configured():
    async with Host(store=MemoryStore()) as host:
        assert [one.status for one in host.plugins if one.id == "trace_file"] == ["off"]
