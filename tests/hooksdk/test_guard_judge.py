"""The guard as agents meet it: hooks that are processes, one judge behind a socket, and every way in which that may fail."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_servers import alive, until

from hooksdk.guard import client, serve

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform == "win32", reason="the guard needs Unix sockets"),
]
Json = dict[str, Any]
RULES = """
[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "Bash"
command = ["rm"]
"""
SLOW = """
import time
from pathlib import Path

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall

class Sleeps:
    @hooks.before_tool_call(tools="Bash", timeout=600)
    def judge(self, event: BeforeToolCall) -> None:
        if event.arguments["command"] == "sleep":
            Path("MARK").touch()
            time.sleep(600)
"""


@dataclass(frozen=True)
class Hook:
    """What a hook's process printed, and its exit code."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Place:
    """A user's state, and a project with rules."""

    root: Path
    project: Path

    @property
    def guard(self) -> Path:
        return self.root / "state" / "guard"

    @property
    def variables(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("HOOKSDK_")}
        return {**plain, "HOOKSDK_HOME": str(self.root / "state"), "XDG_CONFIG_HOME": str(self.root / "config")}

    def start(self, agent: str = "claude-code") -> subprocess.Popen[bytes]:
        """Start a hook as an agent would."""
        command = [sys.executable, "-I", "-S", str(self.root / "client.py"), agent]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.variables, stdin=pipe, stdout=pipe, stderr=pipe)

    def ask(self, payload: Json | bytes, agent: str = "claude-code") -> Hook:
        """Run one hook to its end."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        process = self.start(agent)
        out, err = process.communicate(data, timeout=250)
        return Hook(process.returncode, out.decode(), err.decode())

    def call(self, command: str, **more: Any) -> Json:
        """A call of Bash that is about to run."""
        fields = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "t1"}
        return {"hook_event_name": "PreToolUse", "session_id": "s1", "cwd": str(self.project), **fields, **more}

    @property
    def judge(self) -> int:
        """The judge's process."""
        return json.loads((self.guard / "judge.json").read_text())["pid"]

    def denies(self) -> bool:
        """True when what is denied is denied."""
        hook = self.ask(self.call("rm a"))
        return hook.code == 0 and '"permissionDecision": "deny"' in hook.out


LIMITS = f"START_SECONDS, ANSWER_SECONDS = {client.START_SECONDS}, {client.ANSWER_SECONDS}"
"""A line of the client: how long it waits."""


@pytest.fixture
def place() -> Iterator[Place]:
    # Not pytest's folder: the path of a socket is short.
    root = Path(tempfile.mkdtemp(prefix="guard-"))
    # What hooks start, with all the time that a busy machine may need for the judge.
    text = Path(client.__file__).read_text("utf-8")
    assert LIMITS in text
    (root / "client.py").write_text(text.replace(LIMITS, "START_SECONDS, ANSWER_SECONDS = 200.0, 200.0"), "utf-8")
    project = root / "project"
    project.mkdir()
    (project / "hooksdk.toml").write_text(RULES)
    place = Place(root, project)
    yield place
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        os.kill(place.judge, signal.SIGKILL)
    shutil.rmtree(root, ignore_errors=True)


def test_the_first_hook_starts_the_judge_and_the_next_ones_meet_the_same(place: Place):
    assert place.denies()
    judge = place.judge
    assert place.ask(place.call("ls")) == Hook(0, "", "")
    assert place.denies()
    assert place.judge == judge


def test_ten_hooks_at_once_start_one_judge(place: Place):
    with ThreadPoolExecutor(10) as pool:
        hooks = list(pool.map(place.ask, [place.call("rm a", session_id=f"s{number}") for number in range(10)]))
    assert all("deny" in hook.out for hook in hooks), hooks
    assert alive(place.judge)
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert sum("hooksdk guard judge" in line for line in running.splitlines()) >= 1
    lock = (place.guard / "judge.lock").stat().st_ino
    holders = [
        line for line in Path("/proc/locks").read_text().splitlines() if f":{lock} " in line and "->" not in line
    ]
    assert len(holders) == 1


def test_a_judge_that_is_killed_in_the_middle_of_a_call_blocks_it_and_the_next_call_is_judged(place: Place):
    config = place.root / "config" / "hooksdk"
    config.mkdir(parents=True)
    (config / "slow.py").write_text(SLOW.replace("MARK", str(place.root / "sleeps")))
    (config / "config.toml").write_text(f"plugins_file = '{config / 'slow.py'}'\n")
    assert place.denies()
    process = place.start()
    assert process.stdin is not None
    process.stdin.write(json.dumps(place.call("sleep", tool_use_id="t9")).encode())
    process.stdin.close()
    process.stdin = None
    anyio.run(until, lambda: (place.root / "sleeps").exists())
    first = place.judge
    os.kill(first, signal.SIGKILL)
    _, err = process.communicate(timeout=250)
    assert process.returncode == 2
    assert b"the judge ended in the middle of this call" in err
    anyio.run(
        until, lambda: not alive(first)
    )  # its threads may hold the lock for a moment, and who comes then is refused
    assert place.denies()


def test_the_socket_and_the_lock_of_a_judge_that_was_killed_are_no_obstacle(place: Place):
    assert place.denies()
    first = place.judge
    os.kill(first, signal.SIGKILL)
    anyio.run(until, lambda: not alive(first))
    assert (place.guard / "judge.sock").exists()
    assert place.denies()
    assert place.judge != first


def test_a_judge_that_nobody_asks_ends_and_leaves_no_socket(place: Place):
    place.guard.mkdir(parents=True, mode=0o700)
    command = [sys.executable, "-m", "hooksdk", "guard", "judge", "--idle", "1"]
    subprocess.run(command, env=place.variables, check=True, timeout=60)
    assert sorted(path.name for path in place.guard.iterdir()) == ["judge.lock"]


class BusyMachine(selectors.DefaultSelector):
    """A loop's selector, before which the machine does something else for a while."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        time.sleep(self.seconds)
        self.seconds = 0.0
        return super().select(timeout)


def test_whoever_comes_before_the_judge_ends_is_answered_however_busy_the_machine_is(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOOKSDK_GUARD_DIR", str(place.guard))
    place.guard.mkdir(parents=True, mode=0o700)
    machine, callers, unlink = BusyMachine(), list[socket.socket](), Path.unlink

    def unlink_late(path: Path, missing_ok: bool = False) -> None:
        if path.name == "judge.sock" and path.exists():
            callers.append(client.connect(str(place.guard)))
            callers[0].sendall(b"claude-code\n" + json.dumps(place.call("rm a")).encode())
            callers[0].shutdown(socket.SHUT_WR)
            machine.seconds = 0.5
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_late)
    options = {"loop_factory": lambda: asyncio.SelectorEventLoop(machine)}
    anyio.run(partial(serve, idle=0.1), backend_options=options)
    (caller,) = callers
    with caller:
        answer = caller.recv(65_536)
    assert answer.startswith(b"answer\n")
    assert b'"deny"' in answer


class Elsewhere(Place):
    @property
    def guard(self) -> Path:
        return self.root / "own"

    @property
    def variables(self) -> dict[str, str]:
        return {**super().variables, "HOOKSDK_GUARD_DIR": str(self.guard)}


def test_the_folder_of_the_socket_may_be_another(place: Place):
    other = Elsewhere(place.root, place.project)
    assert other.denies()
    assert (other.guard / "judge.sock").exists()
    os.kill(other.judge, signal.SIGKILL)


def test_nobody_else_may_use_the_folder_or_the_socket(place: Place):
    assert place.denies()
    assert (place.guard.stat().st_mode & 0o777, (place.guard / "judge.sock").stat().st_mode & 0o777) == (0o700, 0o600)
    place.guard.chmod(0o755)
    hook = place.ask(place.call("ls"))
    assert hook.code == 2
    assert f"{place.guard} may be used by others. Type: chmod 700 {place.guard}" in hook.err


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"\xff\xfe", b"[]", b"{}", b"[" * 200_000],
    ids=["empty", "torn", "bytes", "list", "object", "deep"],
)
def test_what_is_no_hook_refuses_the_call(place: Place, payload: bytes):
    hook = place.ask(payload[:200_000])
    assert (hook.code, hook.out) == (2, "")
    assert hook.err.startswith("hooksdk guard: ")
    assert "Traceback" not in hook.err


@pytest.mark.parametrize("depth", [1_500, 100_000])
def test_arguments_nested_deeper_than_anybody_reads_refuse_the_call(place: Place, depth: int):
    payload = json.dumps(place.call("ls")).replace('"ls"', "[" * depth + "]" * depth).encode()
    hook = place.ask(payload)
    assert hook.code == 2 or '"deny"' in hook.out
    assert place.denies(), "the judge lives"


def test_fifty_megabytes_are_judged(place: Place):
    assert place.ask(place.call("echo " + "x" * 50_000_000)).code == 0
    assert "deny" in place.ask(place.call("rm " + "x" * 50_000_000)).out


def test_a_broken_configuration_refuses_each_call_and_says_why(place: Place):
    (place.project / "hooksdk.toml").write_text("[plugins")
    hook = place.ask(place.call("ls"))
    assert hook.code == 2
    assert "hooksdk.toml" in hook.err


def test_a_judge_that_cannot_start_refuses_the_call(place: Place):
    place.guard.mkdir(parents=True, mode=0o700)
    (place.guard / "judge.lock").mkdir()
    hook = place.ask(place.call("ls"))
    assert hook.code == 2
    assert f"the judge does not start. {place.guard / 'judge.log'} says why" in hook.err


def test_a_judge_that_never_answers_is_late_and_the_call_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.guard.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(place.guard / "judge.sock"))
        silent.listen()
        monkeypatch.setenv("HOOKSDK_HOME", str(place.root / "state"))
        with pytest.raises(TimeoutError):
            client.ask("claude-code", b"{}", 0.2)


@pytest.mark.parametrize("name", ["Stop", "SessionEnd"])
def test_the_end_of_a_turn_is_never_refused_and_the_failure_is_shown(place: Place, name: str):
    (place.project / "hooksdk.toml").write_text("[plugins")
    hook = place.ask({"hook_event_name": name, "session_id": "s1", "cwd": str(place.project)})
    assert hook.code == 0
    assert json.loads(hook.out)["systemMessage"].startswith("hooksdk guard: ")


def test_a_hook_whose_stdout_is_closed_refuses_the_call(place: Place):
    assert place.denies()
    command = f"{sys.executable} -I -S {client.__file__} claude-code >&-"
    done = subprocess.run(
        ["sh", "-c", command], env=place.variables, input=json.dumps(place.call("rm a")).encode(), capture_output=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2


def test_the_client_imports_nothing_of_hooksdk(place: Place):
    assert place.denies()
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(client.__file__), "claude-code"]
    done = subprocess.run(command, env=place.variables, input=b"{}", capture_output=True, check=False, timeout=60)
    assert b"hooksdk" not in b"".join(line for line in done.stderr.splitlines() if b"import time:" in line)


def test_the_command_of_a_hook_and_the_status_are_printed(place: Place):
    def hooksdk(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hooksdk", "guard", *words]
        return subprocess.run(command, env=place.variables, capture_output=True, text=True, check=False, timeout=60)

    assert hooksdk("hook", "claude-code").stdout.strip().endswith("hooksdk/guard/client.py claude-code || exit 2")
    assert "knows no agent 'claud-code'. Did you mean 'claude-code'?" in hooksdk("hook", "claud-code").stderr
    assert hooksdk("status").stdout.startswith("No judge runs; the next hook of an agent starts it.\n")
    status = json.loads(hooksdk("status", "--json").stdout)
    assert Path(status.pop("folder")) == Path.cwd()
    assert status == {
        "schema": 1, "judge": None, "paused": None, "installed": [], "waiting": {}, "settings": [], "unseen": [],
        "not_read": [], "proof": None,
    }  # fmt: skip
    assert place.denies()
    assert f"process {place.judge}" in hooksdk("status").stdout
    assert json.loads(hooksdk("status", "--json").stdout)["judge"]["pid"] == place.judge
