"""`hooksdk guard install` tries its hook: a denied call, and every way in which there is no answer."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from hooksdk.cli._guard.hooks import hook_command
from hooksdk.guard import AGENTS
from hooksdk.values import as_object

_TOOL = "hooksdk_self_test"
_RULES = f'[[plugins.tool_policy.config.rules]]\naction = "deny"\ntools = "{_TOOL}"\nreason = "a test of the guard"\n'
_SECONDS = 90


def self_test(agent: str, *, trial: bool) -> tuple[dict[str, bool], str]:
    """What was tried with the agent's own kind of hook, and whether the call was refused; and why the judge does not work, empty
    where it does. Nothing of the user's is touched: the judge of the test has a state and a project of its own. `trial` tries the
    hooks that refuse nothing."""
    ask = partial(_ask, agent, trial)
    with tempfile.TemporaryDirectory(prefix="guard-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        (root / "project").mkdir()
        (root / "project" / "hooksdk.toml").write_text(_RULES, "utf-8")
        answer, problem = ask(root, "judge")
        outcome = {"a denied call": answer}
        with suppress(OSError, ValueError, KeyError):
            os.kill(json.loads((root / "judge" / "judge.json").read_text("utf-8"))["pid"], signal.SIGTERM)
        with _stand_in(root / "killed") as ends:
            ends.set()
            outcome["a call whose judge is killed"] = ask(root, "killed")[0]
        with _stand_in(root / "late"):
            outcome["a call whose judge is late"] = ask(root, "late", "1")[0]
        (root / "open").mkdir(mode=0o755)
        (root / "open").chmod(0o755)
        outcome["a call without a judge"] = ask(root, "open")[0]
    return outcome, problem


def _ask(agent: str, trial: bool, root: Path, judge: str, *more: str) -> tuple[bool, str]:
    """Whether the call was refused, and why the judge did not answer."""
    event = next(name for name, kind in AGENTS[agent].events.items() if kind == "before_call")
    hook: dict[str, Any] = {
        "hook_event_name": event, "session_id": "self-test", "cwd": str(root / "project"), "tool_name": _TOOL,
        "tool_input": {}, "tool_use_id": "t1",
    }  # fmt: skip
    variables = {**os.environ, "HOOKSDK_HOME": str(root / "state"), "HOOKSDK_GUARD_DIR": str(root / judge)}
    try:
        done = subprocess.run(  # noqa: S602 - as the agents do it
            hook_command(agent, *more, trial=trial), shell=True, input=json.dumps(hook).encode(), env=variables, capture_output=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"the hook did not end within {_SECONDS} s"
    if done.returncode != 0:
        return done.returncode == 2, done.stderr.decode(errors="replace").strip()
    try:
        output = as_object(json.loads(done.stdout or b"{}"))
    except ValueError as error:
        return False, f"the hook printed no JSON: {error}"
    return _says_deny(output), str(output.get("systemMessage", ""))


def _says_deny(output: Any) -> bool:
    whole = as_object(output)
    inner = as_object(whole.get("hookSpecificOutput", whole))
    return "deny" in (inner.get("permissionDecision"), inner.get("decision"))


@contextmanager
def _stand_in(folder: Path) -> Generator[threading.Event]:
    """In the place of a judge: it takes the call, and then ends or says nothing for ever."""
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
                ends.wait(_SECONDS)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield ends
    finally:
        ends.set()
        listener.close()
        thread.join()
