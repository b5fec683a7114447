"""A restart waits for everybody, stores everything, happens once, and tells what became of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from play_cell import BOTH, PLUGIN, settings

from hooksdk import Host, PluginState, Session, hooks
from hooksdk.agent import run_agent
from hooksdk.errors import RunBlocked
from hooksdk.hooks import AfterToolCall
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedModel, call, open_host, play
from padded_cell import PaddedCell

pytestmark = pytest.mark.anyio
both_loops = pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)


async def restart(session: Session, **arguments: Any) -> AfterToolCall:
    """One run of the session in which the model asks for a restart."""
    played = await play(session, [call("safe_restart", **arguments), "I asked for it."])
    return played.call("safe_restart")


async def final_report(host: Host, session: Session) -> Mapping[str, Any]:
    """The report of a restart, once it is over."""
    await session.plugin(PLUGIN)._restarter.settle()
    return await host.storage(PLUGIN).get("last_restart")


@both_loops
async def test_it_happens_after_the_last_run_has_ended(tmp_path: Path) -> None:
    mark = tmp_path / "restarted"
    async with open_host(PaddedCell) as host, host.session("a") as one, host.session("b") as two:
        async with two.run():
            event = await restart(one, command=["touch", str(mark)], reason="new settings")
            assert json.loads(event.result.text)["waits_for"] == ["a", "b"]
            await anyio.wait_all_tasks_blocked()
            assert not one.running
            assert not mark.exists()
        report = await final_report(host, one)
    assert mark.exists()
    assert (report["status"], report["exit_code"], report["reason"]) == ("restarted", 0, "new settings")
    assert (report["asked_by"], sorted(report["waited_for"])) == ("a", ["a", "b"])


@both_loops
async def test_whoever_is_still_at_work_at_the_limit_is_named_and_nothing_is_restarted(tmp_path: Path) -> None:
    mark = tmp_path / "restarted"
    async with open_host(PaddedCell) as host, host.session("a") as one, host.session("b") as two:
        async with two.run():
            await restart(one, command=["touch", str(mark)], wait=0.05)
            report = await final_report(host, one)
        assert (report["status"], report["problem"]) == ("not restarted", "still at work: b")
    assert not mark.exists()


class Keeps:
    """Keeps something that no run has stored yet."""

    def __init__(self, state: PluginState) -> None:
        self.state = state

    @hooks.session_end
    def end(self, event: hooks.SessionEnd) -> None: ...


async def test_what_plugins_keep_is_on_disk_before_the_command_runs(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "sessions")
    command = ["grep", "-rq", "note-4711", str(tmp_path / "sessions")]
    async with (
        open_host(PaddedCell, Keeps, store=store) as host,
        host.session("a") as one,
        host.session("b") as two,
    ):
        async with two.run():
            await restart(one, command=command)
        two.plugin("keeps").state["late"] = "note-4711"
        assert (await final_report(host, one))["status"] == "restarted"


@both_loops
async def test_the_program_around_the_host_is_asked_and_nobody_may_begin_meanwhile() -> None:
    reasons: list[str] = []

    async def ask(reason: str) -> None:
        reasons.append(reason)
        with pytest.raises(RunBlocked, match="being restarted; try again"):
            await session.run().__aenter__()

    host = Host([PaddedCell], config={"allow": []}, restart=ask)
    async with host, host.session("a") as session:
        async with session.run() as run:
            await run.resolve_tools()
            await run.record({"role": "user", "content": "Restart."})
            function = {"name": "safe_restart", "arguments": '{"reason": "update"}'}
            await run.record(
                {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
            )
            (asked,) = run.pending
            assert not (await run.call_tool(asked)).is_error
        assert (await final_report(host, session))["status"] == "the host was told"
        async with session.run():
            pass
    assert reasons == ["update"]


@both_loops
async def test_a_callback_that_fails_is_reported_and_the_host_goes_on() -> None:
    async def ask(reason: str) -> None:
        raise OSError("no permission")

    async with Host([PaddedCell], config={"allow": []}, restart=ask) as host, host.session("a") as session:
        await run_agent(session, ScriptedModel([call("safe_restart"), "Asked."]), "Restart.")
        report = await final_report(host, session)
        assert (report["status"], report["problem"]) == ("failed", "OSError: no permission")
        async with session.run():
            pass


async def test_without_a_command_the_host_must_know_how() -> None:
    async with open_host(PaddedCell) as host, host.session("a") as session:
        event = await restart(session)
    assert event.result.text.startswith("This host does not know how to restart itself. Give `command`")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            ["sh", "-c", "echo no such unit >&2; exit 5"],
            {"status": "failed", "exit_code": 5, "output": "no such unit\n"},
        ),
        ("sh -c 'exit 0'", {"status": "restarted", "exit_code": 0, "output": ""}),
        (["no-such-program-here"], {"status": "failed"}),
    ],
)
async def test_the_report_says_what_became_of_the_command(command: Any, expected: Mapping[str, Any]) -> None:
    async with open_host(PaddedCell) as host, host.session("a") as session:
        await restart(session, command=command)
        await final_report(host, session)
        event = await restart(session, action="status")
    report = json.loads(event.result.text)
    assert expected.items() <= report.items()


@both_loops
async def test_a_command_that_goes_on_is_left_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr("padded_cell._restart.WATCHED", 0.05)
    monkeypatch.setattr("padded_cell._restart._running", running)
    command = ["sh", "-c", f"read line < {tmp_path}/go; echo $line > {tmp_path}/went"]
    subprocess.run(["mkfifo", str(tmp_path / "go")], check=True)
    async with open_host(PaddedCell) as host, host.session("a") as session:
        await restart(session, command=command)
        assert (await final_report(host, session))["status"] == "started"
    (tmp_path / "go").write_text("on\n")
    with anyio.fail_after(120):
        while not (tmp_path / "went").exists() or (tmp_path / "went").read_text() != "on\n":
            await anyio.sleep(0.005)
    (process,) = running
    assert process.wait(30) == 0


# Never twice at once


@both_loops
async def test_a_second_one_is_refused_in_every_session_of_the_host() -> None:
    async with open_host(PaddedCell) as host, host.session("a") as one, host.session("b") as two:
        async with two.run():
            await restart(one, command=["true"], reason="first")
            event = await restart(one, command=["true"])
            assert event.status == "error"
            assert event.result.text.startswith("Nothing was begun: a restart is under way already. ")
            assert '"session": "a"' in event.result.text
            assert '"reason": "first"' in event.result.text
        await final_report(host, one)
        event = await restart(two, command=["true"], reason="next")
        assert event.status == "ok"
        assert (await final_report(host, two))["reason"] == "next"


async def test_it_is_refused_in_every_process_of_the_user(tmp_path: Path) -> None:
    code = (
        "import os, sys, fcntl; file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); fcntl.flock(file, fcntl.LOCK_EX);"
        "os.write(file, b'another process'); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-S", "-c", code, str(tmp_path / f"padded-cell-{os.getuid()}.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        async with open_host(PaddedCell) as host, host.session("a") as session:
            event = await restart(session, command=["true"])
            assert event.result.text == "Nothing was begun: a restart is under way already. another process"
            other.kill()
            other.wait()
            assert (await restart(session, command=["true"])).status == "ok"


async def test_a_lock_file_that_cannot_be_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    async with open_host(PaddedCell) as host, host.session("a") as session:
        event = await restart(session, command=["true"])
    assert event.result.text.startswith(f"Nothing was begun: the lock file {tmp_path / 'gone'}/padded-cell-")


# Ends


@both_loops
async def test_a_host_that_closes_restarts_on_its_way(tmp_path: Path) -> None:
    mark, store = tmp_path / "restarted", SqlStore(tmp_path / "sessions")
    async with open_host(PaddedCell, store=store) as host, host.session("a") as session:
        await restart(session, command=["touch", str(mark)])
    assert mark.exists()
    async with open_host(PaddedCell, store=store) as host, host.session("a") as session:
        report = json.loads((await restart(session, action="status")).result.text)
    assert (report["status"], report["exit_code"]) == ("restarted", 0)


async def test_the_next_process_tells_of_a_restart_that_ended_the_last_one(tmp_path: Path) -> None:
    script = f"""
        from pathlib import Path
        import anyio
        from hooksdk.stores import SqlStore
        from hooksdk.testing import call, open_host, play
        from padded_cell import PaddedCell

        async def main():
            async with open_host(PaddedCell, store=SqlStore(Path({str(tmp_path / "sessions")!r}))) as host:
                async with host.session("a") as session:
                    await play(session, [call("safe_restart", command=["sh", "-c", "kill -KILL $PPID"]), "Bye."])
                    await anyio.sleep_forever()

        anyio.run(main)
    """
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = await anyio.run_process([sys.executable, "-c", textwrap.dedent(script)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    async with open_host(PaddedCell, store=SqlStore(tmp_path / "sessions")) as host, host.session("b") as session:
        report = json.loads((await restart(session, action="status")).result.text)
    assert (report["status"], report["asked_by"]) == ("restarted", "a")
    assert report["note"] == "the process that restarted it has ended, as it was to"


async def test_before_the_first_restart_the_status_says_so() -> None:
    async with open_host(PaddedCell) as host, host.session("a") as session:
        event = await restart(session, action="status")
    assert json.loads(event.result.text) == {"status": "nothing was restarted yet"}


async def test_a_secret_in_its_arguments_is_refused(manager: Path) -> None:
    config = settings(secretMgrPath=str(manager))
    async with open_host(PaddedCell, config=config) as host, host.session("a") as session:
        event = await restart(session, command=["echo", "{{secret:TOKEN}}"])
    assert event.status == "blocked"
    assert "safe_restart takes no secrets, since its report is kept" in event.result.text
