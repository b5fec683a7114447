"""`hooksdk guard pause`, `off` and `on`: what a person at a terminal may do, and no agent."""

from __future__ import annotations

import math
import os
import sys
import time
from datetime import UTC, datetime

from hooksdk.cli._console import CommandProblem, safe, says_yes, stdout_console
from hooksdk.cli._guard.hooks import judge_folder, need_sockets
from hooksdk.guard import client
from hooksdk.stores.files import replace_file


def pause_guard(seconds: float) -> int:
    """Ask the person, and let nothing be refused for so long; infinite: until it is switched on. The exit code."""
    need_sockets()
    if not sys.stdin.isatty():
        raise CommandProblem("the guard is paused by a person at a terminal, and nobody is there to answer")
    until = time.time() + seconds
    question = f"Refuse nothing {_how_long(until)}, in all projects and agents?"
    if not says_yes(stdout_console(), safe(question)):
        print("nothing was changed")
        return 1
    folder = judge_folder()
    replace_file(folder / "paused", str(until).encode(), mode=0o600)
    with (folder / "judge.log").open("a", encoding="utf-8") as log:
        now = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        log.write(f"{now} the guard refuses nothing {_how_long(until)}: typed at {os.ttyname(sys.stdin.fileno())}\n")
    stdout_console().print(
        f"The guard refuses nothing {_how_long(until)}. In force again: hooksdk guard on", soft_wrap=True
    )
    return 0


def guard_on() -> None:
    """Have the guard in force again."""
    need_sockets()
    (judge_folder() / "paused").unlink(missing_ok=True)
    stdout_console().print("The guard is in force wherever it is installed.", soft_wrap=True)


def pause_text() -> str:
    """That the guard is paused, and until when; empty where it is in force."""
    until = client.paused_until()
    return f"a person has paused the guard: it refuses nothing {_how_long(until)}" if time.time() < until else ""


def _how_long(until: float) -> str:
    if math.isinf(until):
        return "until `hooksdk guard on`"
    return f"until {datetime.fromtimestamp(until, UTC).astimezone():%H:%M on %Y-%m-%d}"
