"""Commands: what they are given, what the model reads of them, and how they end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from play_cell import BOTH, is_alive, pcexec, settings, shell, stdout, use, wait_until_dead

from hooksdk.testing import call, open_session, play
from padded_cell import PaddedCell
from padded_cell._process import FLOOD, MARGIN, SHOWN, Output

pytestmark = pytest.mark.anyio


# What a command is given


async def test_the_arguments_of_a_list_arrive_as_they_are() -> None:
    odd = ["two words", "", "it's", '"', "$HOME", "*", ";", "schön 🔑", "-n", "a\nb"]
    assert stdout(await pcexec("printf", "%s|", *odd)) == "".join(f"{one}|" for one in odd)


async def test_a_string_is_split_at_its_blanks_and_no_shell_reads_it() -> None:
    event = await use("pcexec", command="printf '%s|' 'two words' $HOME `id` *")
    assert stdout(event) == "two words|$HOME|`id`|*|"


async def test_a_shell_reads_the_string_when_the_call_says_so() -> None:
    assert stdout(await shell("printf 'b\\na\\n' | sort && echo $((1 + 1))")) == "a\nb\n2\n"


async def test_the_workspace_is_the_working_directory(tmp_path: Path) -> None:
    assert stdout(await pcexec("pwd", "-P", workspace=tmp_path)) == f"{tmp_path.resolve()}\n"


async def test_the_environment_is_inherited_and_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    assert stdout(await shell('echo "$INHERITED $ADDED"', env={"ADDED": "grün"})) == "yes grün\n"


async def test_a_profile_sets_variables_below_those_of_the_call(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# ours\nexport ONE='a b' # note\nTWO=2\n\nTHREE=$HOME\n")
    config = {"openclawProfilePath": str(tmp_path)}
    assert stdout(await shell('echo "$ONE-$TWO-$THREE"', env={"TWO": "two"}, config=config)) == "a b-two-$HOME\n"


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_input_of_any_length_arrives_whole() -> None:
    assert stdout(await shell("wc -c", input="ä" * 500_000)).strip() == "1000000"


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_a_command_that_does_not_read_its_input_ends_all_the_same() -> None:
    assert (await pcexec("true", input="x" * 1_000_000)).status == "ok"


async def test_standard_input_is_empty_unless_it_is_given() -> None:
    assert stdout(await pcexec("cat")) == ""


# What keeps it from being run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"command": ["no-such-program-here"]}, "there is no program 'no-such-program-here'"),
        ({"command": ["/"]}, "'/' cannot be started: Permission denied"),
        ({"command": []}, "the command is empty"),
        ({"command": "  "}, "the command is empty"),
        ({"command": [""]}, "the command is empty"),
        ({"command": "echo 'open"}, "cannot be split: No closing quotation"),
        ({"command": "ls | wc -l"}, "'|' is for a shell. Set shell=true"),
        ({"command": ["echo", "a\0b"]}, "embedded null byte"),
        ({"command": ["true"], "env": {"A=B": "1"}}, "illegal environment variable name"),
        ({"command": ["ls"], "shell": True}, "with shell=true `command` is one string"),
    ],
)
async def test_a_command_that_cannot_be_run_says_why(arguments: dict[str, Any], words: str) -> None:
    event = await use("pcexec", **arguments)
    assert event.status == "error"
    assert event.result.text.startswith("Nothing was run: ")
    assert words in event.result.text


async def test_a_workspace_that_is_gone_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    event = await pcexec("true", workspace=tmp_path / "gone")
    assert event.result.text == f"Nothing was run: there is no workspace {tmp_path / 'gone'}."


async def test_a_profile_that_went_away_keeps_commands_from_running(tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.write_text("A=1")
    async with open_session(PaddedCell, config=settings(openclawProfilePath=str(profile))) as session:
        profile.unlink()
        played = await play(session, [call("pcexec", command=["true"]), "Oh."])
    assert f"{profile} cannot be read" in played.call("pcexec").result.text


# What the model reads


@pytest.mark.parametrize(("code", "status"), [(0, "ok"), (1, "error"), (42, "error"), (255, "error")])
async def test_the_exit_code_is_told_and_another_than_0_is_an_error(code: int, status: str) -> None:
    event = await shell(f"exit {code}")
    assert event.status == status
    assert event.result.text.startswith(f"exit code {code} after ")
    assert event.result.structured == {"exit_code": code, "stopped": None, "stdout": "", "stderr": ""}


async def test_a_command_that_a_signal_ends_says_which() -> None:
    assert (await shell("kill -SEGV $$")).result.text.startswith(f"killed by signal {signal.SIGSEGV.value} after ")


async def test_both_streams_are_told_apart() -> None:
    event = await shell("echo fine; echo careful >&2; exit 1")
    assert event.result.text.partition("\n")[2] == "--- stdout ---\nfine\n--- stderr ---\ncareful"


async def test_what_is_no_text_is_replaced() -> None:
    assert stdout(await pcexec("printf", r"a\377b\303\274")) == "a�bü"


async def test_of_a_long_output_the_beginning_and_the_end_are_shown() -> None:
    text = stdout(await pcexec("seq", "100000"))
    head, note, tail = text.partition("\n[... the middle of 588,895 bytes is left out ...]\n")
    assert note
    assert head.startswith("1\n2\n3\n")
    assert tail.endswith("99999\n100000\n")
    assert len(head) == len(tail) == SHOWN // 2


async def test_an_output_at_the_limit_is_shown_whole() -> None:
    assert stdout(await shell(f"head -c {SHOWN} /dev/zero | tr '\\0' x")) == "x" * SHOWN


def test_the_memory_of_an_output_is_bounded() -> None:
    output = Output()
    chunk = b"x" * 65536
    for _ in range(1024):
        output.add(chunk)
    assert output.total == 1024 * 65536
    assert len(output._head) + len(output._tail) < 1_000_000  # pyright: ignore[reportPrivateUsage]


# How it ends


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_a_flood_is_stopped(stream: str) -> None:
    event = await shell(f"echo $$ {stream}; yes {stream}", seconds=600)
    assert event.result.text.startswith("stopped: it wrote more than 16 MiB")
    structured = event.result.structured
    assert structured["stopped"] == "flood"
    written = structured["stderr" if stream else "stdout"]
    assert len(written) < SHOWN + 100
    await wait_until_dead(int(written.partition("\n")[0]))


def test_a_flood_is_more_than_what_is_kept_of_an_output() -> None:
    assert FLOOD > 10 * (SHOWN * 4 + MARGIN)


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_at_the_time_limit_a_command_ends_and_what_it_wrote_is_kept() -> None:
    event = await shell("trap 'echo bye; exit' TERM; echo $$; sleep 60 & wait", seconds=1)
    assert event.status == "error"
    assert event.result.text.startswith("stopped: it was not done after ")
    pid, bye, _ = stdout(event).split("\n")
    assert bye == "bye"
    await wait_until_dead(int(pid))


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_a_command_that_ignores_the_request_to_end_is_killed_with_its_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("padded_cell._process.GRACE", 0.2)
    event = await shell("trap '' TERM; echo $$; sh -c 'echo $$; sleep 60' & wait; sleep 60", seconds=1)
    assert event.result.structured["stopped"] == "time"
    pids = [int(pid) for pid in stdout(event).split()]
    assert len(pids) == 2
    for pid in pids:
        await wait_until_dead(pid)


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    child = "trap '' TERM HUP; echo $$; echo > ready; sleep 60; sleep 60"
    event = await shell('sh -c "$CHILD" & read line < ready; echo over', env={"CHILD": child}, workspace=tmp_path)
    pid, over, _ = stdout(event).split("\n")
    assert (event.status, over) == ("ok", "over")
    assert event.seconds < 40
    await wait_until_dead(int(pid))


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_a_process_that_left_the_group_does_not_hold_the_call() -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid)"
    event = await pcexec(sys.executable, "-S", "-c", code, seconds=50)
    pid = int(stdout(event))
    assert event.seconds < 40
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_a_run_that_is_cancelled_takes_its_command_with_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "began")
    command = ["sh", "-c", "echo $$ > began; trap '' HUP; sleep 60"]
    async with open_session(PaddedCell) as session:
        pid = 0

        async def read() -> None:
            nonlocal pid
            pid = int(await anyio.Path(tmp_path / "began").read_text())
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await play(session, [call("pcexec", command=command), "Done."], workspace_dir=str(tmp_path))
    assert not is_alive(pid)


async def test_a_task_that_asyncio_cancels_takes_its_command_with_it(tmp_path: Path) -> None:
    import asyncio

    os.mkfifo(tmp_path / "began")
    command = ["sh", "-c", "echo $$ > began; sleep 60"]
    async with open_session(PaddedCell) as session:
        script = [call("pcexec", command=command), "Done."]
        task = asyncio.ensure_future(play(session, script, workspace_dir=str(tmp_path)))
        pid = int(await anyio.Path(tmp_path / "began").read_text())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not is_alive(pid)


@pytest.mark.parametrize("anyio_backend", BOTH, indirect=True)
async def test_commands_run_side_by_side_and_leave_no_file_open() -> None:
    async with open_session(PaddedCell) as session:
        await play(session, [call("pcexec", command=["true"]), "Warm."])
        open_files = len(os.listdir("/dev/fd"))
        script = [[call("pcexec", command=["sh", "-c", f"cat; echo {n}"], input=str(n)) for n in range(8)], "Done."]
        played = await play(session, script)
        assert sorted(stdout(event) for event in played.calls) == [f"{n}{n}\n" for n in range(8)]
        assert len(os.listdir("/dev/fd")) <= open_files
