"""The self-test of `hooksdk guard install`: its hooks before a denied call, and before every kind of judge without an
answer."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from hooksdk.cli._guard.hooks import hook_command
from hooksdk.cli._guard.program import SECONDS, find_program, is_refused
from hooksdk.guard import AGENTS
from hooksdk.values import as_object

_TOOL = "hooksdk_self_test"
_LINE = "touch ran"
_RULES = f"""
[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "{_TOOL}"

[[plugins.tool_policy.config.rules]]
action = "deny"
command = ["{_LINE}"]
"""


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """The outcome of the self-test's calls.

    Attributes:
        refused: Each situation, with True for a call that was refused.
        problem: The reason why the judge does not work; empty when it works.
        program: The agent's own program that made the calls; None when the recorded protocol stood in for it.
    """

    refused: Mapping[str, bool]
    problem: str
    program: str | None


def self_test(agent: str, *, trial: bool) -> SelfTest:
    """Try a denied call, and calls without a judge's answer, in the agent's own program if it is installed. Nothing of
    the user's is touched: the program has a home of its own, the judge a state and a project. `trial` tries the hooks
    that refuse nothing."""
    program = find_program(agent)
    refused: dict[str, bool] = {}
    with tempfile.TemporaryDirectory(prefix="guard-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        (root / "project").mkdir()
        (root / "project" / "hooksdk.toml").write_text(_RULES, "utf-8")
        (root / "open").mkdir(mode=0o755)
        (root / "open").chmod(0o755)

        def ask(what: str, judge: str, *more: str) -> str:
            nonlocal program
            answer = None
            if program:
                work = partial(is_refused, project=root / "project", trial=trial, more=more)
                answer = anyio.run(partial(work, variables=_variables(root, judge)), agent, program, _LINE)
            problem = ""
            if answer is None or judge == "judge":  # the program does not say why the judge does not work
                recorded, problem = _ask(agent, trial, root, judge, *more)
                program, answer = (program, answer) if answer is not None else (None, recorded)
            refused[what] = answer
            return problem

        problem = ask("a denied call", "judge")
        with suppress(OSError, ValueError, KeyError):
            os.kill(json.loads((root / "judge" / "judge.json").read_text("utf-8"))["pid"], signal.SIGTERM)
        with _stand_in(root / "killed") as ends:
            ends.set()
            ask("a call whose judge is killed", "killed")
        with _stand_in(root / "late"):
            ask("a call whose judge is late", "late", "1")
        ask("a call without a judge", "open")
    return SelfTest(refused=refused, problem=problem, program=program)


def _variables(root: Path, judge: str) -> dict[str, str]:
    return {"HOOKSDK_HOME": str(root / "state"), "HOOKSDK_GUARD_DIR": str(root / judge)}


def _ask(agent: str, trial: bool, root: Path, judge: str, *more: str) -> tuple[bool, str]:
    """True for a refused call, with the reason why the judge did not answer."""
    event = next(name for name, kind in AGENTS[agent].events.items() if kind == "before_call")
    session = {"hook_event_name": event, "session_id": "self-test", "cwd": str(root / "project")}
    hook: dict[str, Any] = {**session, "tool_name": _TOOL, "tool_input": {}, "tool_use_id": "t1"}
    try:
        done = subprocess.run(  # noqa: S602 - as the agents do it
            hook_command(agent, *more, trial=trial),
            shell=True,
            input=json.dumps(hook).encode(),
            env={**os.environ, **_variables(root, judge)},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"the hook did not end within {SECONDS} s"
    if done.returncode != 0:
        return done.returncode == 2, done.stderr.decode(errors="replace").strip()
    try:
        output = as_object(json.loads(done.stdout or b"{}"))
    except ValueError as error:
        return False, f"the hook printed no JSON: {error}"
    inner = as_object(output.get("hookSpecificOutput", output))
    is_denied = "deny" in (inner.get("permissionDecision"), inner.get("decision"))
    return is_denied, str(output.get("systemMessage", ""))


@contextmanager
def _stand_in(folder: Path) -> Generator[threading.Event]:
    """A stand-in for the judge: it takes the call, and then ends, or answers nothing for ever."""
    folder.mkdir(mode=0o700)
    ends = threading.Event()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "judge.sock"))
    listener.listen()

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                ends.wait(SECONDS)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield ends
    finally:
        ends.set()
        with suppress(OSError), socket.socket(socket.AF_UNIX) as nobody:  # an agent without hooks never came
            nobody.connect(str(folder / "judge.sock"))
        listener.close()
        thread.join()
