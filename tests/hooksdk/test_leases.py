"""Who holds a session of `JsonlStore`: many in one process, killed processes, forked children, other versions, full tables."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk.errors import SessionBusy, StoreError
from hooksdk.stores import JsonlStore
from hooksdk.stores.locks import Lease, held_locks, is_held

pytestmark = [
    pytest.mark.anyio, pytest.mark.heavy, pytest.mark.skipif(sys.platform == "win32", reason="each has its own there")
]  # fmt: skip
NAMES = ("a", "b", "c")


@contextmanager
def running(code: str, *arguments: object) -> Generator[tuple[subprocess.Popen[str], list[str]]]:
    """A process and the words of its first line; it ends when its input does."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()


HOLDS = """
import sys
from pathlib import Path
from hooksdk.stores.locks import Lease
leases = [Lease.take(Path(sys.argv[1]) / f"{name}.lock") for name in sys.argv[2:]]
print(*(lease.token if lease else 0 for lease in leases), flush=True)
sys.stdin.read()
"""
HOLDS_AS_0_2_0 = """
import fcntl, os, sys
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, b"%020d %-12d\\n" % (int(os.read(fd, 20) or 0) + 1, os.getpid()))
        print("held", end=" ")
    except BlockingIOError:
        print("busy", end=" ")
print(flush=True)
sys.stdin.read()
"""
FORKS = """
import os, sys
from pathlib import Path
from hooksdk.errors import SessionBusy
from hooksdk.stores.locks import Lease
leases = [Lease.take(Path(sys.argv[1]) / f"{name}.lock") for name in sys.argv[2:]]
child = os.fork()
if child == 0:
    answers = []
    for lease in leases:
        try:
            lease.check("s")
            answers.append("writes")
        except SessionBusy:
            answers.append("may-not-write")
        lease.release()
    free = [Lease.take(lease.path) for lease in leases]
    print(*answers, *free, os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
os.waitpid(child, 0)
"""


FORKS_AT_WORK = """
import os, sys, anyio
from hooksdk.stores import JsonlStore, _jsonl_log, locks

async def main():
    log = await JsonlStore(sys.argv[1]).open_session("child")
    await log.append_messages([{"n": 1}])
    print((await log.read())[0], flush=True)

for _ in range(_jsonl_log.AT_WORK):
    _jsonl_log._workers.acquire()
child = os.fork()
if child == 0:
    anyio.run(main)
    os._exit(0)
os.waitpid(child, 0)
"""


def lock_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"


def take(folder: Path, name: str) -> Lease | None:
    return Lease.take(lock_of(folder, name))


def taken(folder: Path, *names: str) -> list[Lease]:
    leases = [take(folder, name) for name in names]
    assert None not in leases
    return [lease for lease in leases if lease is not None]


def held(folder: Path) -> list[str]:
    return [path.stem for path in held_locks(folder)]


MANY = """
import os, resource, sys, anyio
from hooksdk.stores import JsonlStore

resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))

async def main():
    store = JsonlStore(sys.argv[1])
    logs = [await store.open_session(f"s{number}") for number in range(int(sys.argv[3]))]
    print(len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0)
    async with anyio.create_task_group() as group:
        for number, log in enumerate(logs):
            group.start_soon(log.append_messages, [{"n": number}])
    async with anyio.create_task_group() as group:
        for log in logs:
            group.start_soon(log.close)
    stored = [(await store.read_session(f"s{number}"))[0] for number in range(len(logs))]
    assert stored == [[{"n": number}] for number in range(len(logs))]

anyio.run(main)
"""


@pytest.mark.timeout(120)
async def test_a_thousand_open_sessions_take_one_descriptor_and_are_all_written_at_once(tmp_path: Path) -> None:
    done = await anyio.run_process([sys.executable, "-c", MANY, str(tmp_path), "1024", "1000"], stderr=None)
    assert int(done.stdout) < 30
    assert held(tmp_path) == []


def test_each_session_is_held_and_let_go_by_itself(tmp_path: Path) -> None:
    leases = taken(tmp_path, *NAMES)
    assert held(tmp_path) == list(NAMES)
    assert [take(tmp_path, name) for name in NAMES] == [None] * 3
    for number, lease in enumerate(leases, 1):
        lease.release()
        assert held(tmp_path) == list(NAMES[number:])
        (again,) = taken(tmp_path, lease.path.stem)
        assert again.token > lease.token
        again.release()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.lock", "b.lock", "c.lock"]


def test_what_was_let_go_is_free_for_another_process_and_what_it_holds_is_busy_here(tmp_path: Path) -> None:
    first, second, third = taken(tmp_path, *NAMES)
    second.release()
    with running(HOLDS, tmp_path, *NAMES) as (_, tokens):
        assert [int(token) > second.token for token in tokens] == [False, True, False]
        assert take(tmp_path, "b") is None
        first.check("a")
        third.check("c")
        for lease in (first, third):
            lease.release()
        assert held(tmp_path) == ["b"]
    assert held(tmp_path) == []


def test_all_sessions_of_a_killed_process_are_free_at_once_and_for_different_holders(tmp_path: Path) -> None:
    for _ in range(3):  # the second and third time the files are shared by those of the processes killed before
        with running(HOLDS, tmp_path, *NAMES) as (process, tokens):
            assert held(tmp_path) == list(NAMES)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert held(tmp_path) == []
        (mine,) = taken(tmp_path, "b")
        assert mine.token > int(tokens[1])
        with running(HOLDS, tmp_path, *NAMES) as (_, others):
            assert [int(after) > int(before) for after, before in zip(others, tokens, strict=True)] == [
                True, False, True
            ]  # fmt: skip
            mine.check("b")
        mine.release()


AFTER_A_KILL = """
import sys
from pathlib import Path
from hooksdk.stores.locks import Lease
print("ready", flush=True)
sys.stdin.readline()
leases = []
for name in sys.argv[2:]:
    while (lease := Lease.take(Path(sys.argv[1]) / f"{name}.lock")) is None:
        pass
    leases.append(lease)
print(len(leases), flush=True)
sys.stdin.read()
"""


def test_processes_that_take_over_at_once_what_a_killed_one_had_each_hold_their_own(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(120)]
    with running(HOLDS, tmp_path, *names) as (process, _):
        process.send_signal(signal.SIGKILL)
        process.wait()
    with ExitStack() as stack:
        heirs = [stack.enter_context(running(AFTER_A_KILL, tmp_path, *names[n::3]))[0] for n in range(3)]
        for heir in heirs:
            assert heir.stdin is not None
            heir.stdin.write("go\n")
            heir.stdin.flush()
        assert [heir.stdout and heir.stdout.readline() for heir in heirs] == ["40\n"] * 3
        assert held(tmp_path) == sorted(names)


def test_a_suspended_process_holds_its_sessions(tmp_path: Path) -> None:
    with running(HOLDS, tmp_path, *NAMES) as (process, _):
        process.send_signal(signal.SIGSTOP)
        assert [take(tmp_path, name) for name in NAMES] == [None] * 3
        process.send_signal(signal.SIGCONT)


def test_a_forked_child_neither_writes_nor_frees_nor_keeps_a_session(tmp_path: Path) -> None:
    with running(FORKS, tmp_path, *NAMES) as (process, words):
        assert words[:6] == ["may-not-write"] * 3 + ["None"] * 3
        assert held(tmp_path) == list(NAMES)
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.kill(int(words[6]), 0)  # the child lives on
        for lease in taken(tmp_path, *NAMES):
            lease.release()


async def test_a_child_that_is_forked_while_all_sessions_are_at_work_opens_its_own(tmp_path: Path) -> None:
    done = await anyio.run_process([sys.executable, "-c", FORKS_AT_WORK, str(tmp_path)], stderr=None)
    assert done.stdout.decode() == "[{'n': 1}]\n"


def test_a_process_of_0_2_0_sees_what_is_held_here_and_is_seen(tmp_path: Path) -> None:
    leases = taken(tmp_path, *NAMES)
    leases[0].release()
    paths = [lock_of(tmp_path, name) for name in (*NAMES, "d")]
    with running(HOLDS_AS_0_2_0, *paths) as (_, answers):
        assert answers == ["held", "busy", "busy", "held"]
        assert (take(tmp_path, "a"), take(tmp_path, "d")) == (None, None)
    for name, before in (("a", leases[0].token), ("d", 0)):
        (lease,) = taken(tmp_path, name)
        assert lease.token > before + 1
        lease.release()
    for lease in leases[1:]:
        lease.check("s")
        lease.release()


def test_a_session_that_was_deleted_under_its_holder_is_lost_to_it_and_the_others_are_not(tmp_path: Path) -> None:
    first, second, third = taken(tmp_path, *NAMES)
    second.path.unlink()
    (taker,) = taken(tmp_path, "b")
    with pytest.raises(SessionBusy):
        second.check("b")
    second.release()
    for lease in (first, taker, third):
        lease.check("s")
    assert held(tmp_path) == list(NAMES)


def test_a_holder_all_of_whose_files_are_gone_takes_hold_of_the_next_session_all_the_same(tmp_path: Path) -> None:
    lost = taken(tmp_path, *NAMES)
    for name in NAMES:
        lock_of(tmp_path, name).unlink()
    (lease,) = taken(tmp_path, "d")
    assert held(tmp_path) == ["d"]
    for each in lost:
        each.release()
    assert held(tmp_path) == ["d"]
    lease.release()
    assert held(tmp_path) == []


def test_stores_of_one_process_that_spell_the_folder_otherwise_are_one_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (first,) = taken(tmp_path, "a")
    (second,) = taken(Path(), "b")
    assert first.path.stat().st_ino == second.path.stat().st_ino
    assert take(Path(), "a") is None
    first.release()
    second.release()


@pytest.mark.parametrize("fails", ["link", "replace"])
def test_where_there_are_no_hard_links_each_session_has_a_lock_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patched:
        patched.setattr(os, fails, fail)
        leases = taken(tmp_path, *NAMES)
        assert held(tmp_path) == list(NAMES)
        assert len({lease.path.stat().st_ino for lease in leases}) == 3
        leases[1].release()
        assert held(tmp_path) == ["a", "c"]
    for lease in leases:
        lease.release()
    assert held(tmp_path) == []


def test_a_session_that_a_full_disk_could_not_free_is_free_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = os.write
    first, second = taken(tmp_path, "a", "b")

    def fail(fd: int, data: Any) -> int:
        real(fd, bytes(data)[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        first.release()
    assert "a.lock is free only when this process opens or closes another session" in caplog.text
    with pytest.raises(SessionBusy):
        first.check("a")
    assert held(tmp_path) == ["a", "b"]
    (again,) = taken(tmp_path, "a")
    assert again.token > first.token
    for lease in (again, second):
        lease.check("s")
        lease.release()
    assert held(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.lock", "b.lock"]


FULL_TABLE = """
import os, resource, sys, anyio
from hooksdk.errors import StoreError
from hooksdk.stores import JsonlStore

async def main():
    store = JsonlStore(sys.argv[1])
    logs = [await store.open_session(name) for name in ("a", "b")]
    await logs[0].append_messages([{"n": 0}])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, limit[1]))
    spare = []
    try:
        while True:
            spare.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    steps = (
        lambda: logs[0].append_messages([{"n": 1}]), lambda: logs[0].append_journal([{"kind": "x"}], verify=True),
        logs[0].read, lambda: store.open_session("c"), lambda: store.read_session("a"))
    for step in steps:
        try:
            await step()
        except StoreError as error:
            print("ulimit -n" in str(error))
    await logs[1].close()
    for fd in spare:
        os.close(fd)
    await logs[0].append_messages([{"n": 2}])
    print((await logs[0].read())[0])
    again = await store.open_session("b", wait=0)

anyio.run(main)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell which descriptors are open")
async def test_a_process_without_descriptors_is_told_what_to_do_and_goes_on_once_there_are_some(tmp_path: Path) -> None:
    done = await anyio.run_process([sys.executable, "-c", FULL_TABLE, str(tmp_path)], stderr=None)
    *told, messages = done.stdout.decode().splitlines()
    assert (told, messages) == (["True"] * 5, "[{'n': 0}, {'n': 2}]")


async def test_an_open_session_whose_folder_vanishes_is_lost_and_says_so(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "sessions")
    logs = [await store.open_session(name) for name in NAMES]
    for log in logs:
        assert await log.read() == ([], [])
    store.directory.rename(tmp_path / "elsewhere")
    for log in logs:
        with pytest.raises(SessionBusy):
            await log.append_messages([{"n": 1}])
    again = await store.open_session("a", wait=0)
    await again.append_messages([{"n": 2}])
    for log in (*logs, again):
        await log.close()
    assert held(tmp_path / "elsewhere") == held(store.directory) == []


RACES = """
import sys, time
from pathlib import Path
from hooksdk.stores.locks import Lease
folder, times = Path(sys.argv[1]), int(sys.argv[2])
print("begins", flush=True)
taken = 0
while taken < times:
    for name in "abc":
        lease = Lease.take(folder / f"{name}.lock")
        if lease is None:
            continue
        lease.check(name)
        count = folder / f"{name}.count"
        number, token = map(int, count.read_text().split())
        assert lease.token > token, (lease.token, token)
        count.write_text(f"{number + 1} {lease.token}")
        taken += 1
        if taken % 3:  # each third stays held while the next is taken
            lease.release()
        else:
            keep, held = lease, globals().get("keep")
            if held is not None:
                held.release()
"""


@pytest.mark.parametrize("times", [500, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
def test_of_two_processes_that_race_for_sessions_one_at_a_time_has_each(tmp_path: Path, times: int) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.count").write_text("0 0")
    with running(RACES, tmp_path, times) as (first, _), running(RACES, tmp_path, times) as (second, _):
        assert (first.wait(), second.wait()) == (0, 0)
    counts = [int((tmp_path / f"{name}.count").read_text().split()[0]) for name in NAMES]
    assert 2 * times <= sum(counts) <= 2 * times + 4
    assert held(tmp_path) == []


def test_a_lock_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    lock_of(tmp_path, "a").mkdir()
    with pytest.raises(StoreError, match="the session cannot be taken hold of"):
        take(tmp_path, "a")
    lock_of(tmp_path, "b").touch()
    assert is_held(lock_of(tmp_path, "b")) is False
