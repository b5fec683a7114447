"""Looking at an installed plugin by importing it, in a process of its own that may hang, print and die as it likes.

Run as a script, this is that process: it gets the plugin's id, the project's folder and the file for its report.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import TypeAdapter

# What is kept of a plugin's output. One that prints without end is the user who meets it.
OUTPUT_CHARS = 10_000


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The outcome of importing a plugin.

    Attributes:
        outcome: `exit` and `signal`: the process ended before it had reported.
        grants: What its hooks and tools need.
        config_schema: Of its `Config` class.
        output: What it printed, to stdout and stderr.
    """

    outcome: Literal["loaded", "refused", "timeout", "exit", "signal"]
    problem: str = ""
    hooks: list[str] = field(default_factory=list[str])
    tools: list[str] = field(default_factory=list[str])
    grants: list[str] = field(default_factory=list[str])
    config_schema: dict[str, Any] | None = None
    output: str = ""


def probe(plugin_id: str, project: Path, seconds: float) -> Probe:
    """Import a plugin in a child process that is killed, with its group, after these seconds."""
    with tempfile.TemporaryDirectory(prefix="hooksdk-") as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-P", "-m", __name__, plugin_id, str(project), str(report)]
        process = subprocess.Popen(  # noqa: S603 - our own interpreter on our own module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None
        output: list[str] = []
        reader = threading.Thread(target=_keep_output, args=(process.stdout, output), daemon=True)
        reader.start()
        code: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(seconds)
        finally:
            _kill(process)  # what it has started goes with it, too
        reader.join(1)  # a grandchild in a group of its own may hold the pipe for ever
        printed = "".join(output)
        reported = _read(report)
    if reported is not None:
        return replace(reported, output=printed)
    if code is None:
        return Probe(outcome="timeout", problem=f"it was not imported within {seconds:g} s", output=printed)
    if code < 0:
        name = signal.Signals(-code).name if -code in {*signal.Signals} else str(-code)
        return Probe(outcome="signal", problem=f"signal {name} ended the process", output=printed)
    return Probe(outcome="exit", problem=f"it ended the process with exit code {code}", output=printed)


def _keep_output(pipe: IO[str], output: list[str]) -> None:
    room = OUTPUT_CHARS
    with contextlib.suppress(ValueError, OSError):
        while chunk := pipe.read(1024):
            output.append(chunk[:room])
            room -= len(output[-1])


def _kill(process: subprocess.Popen[str]) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _read(report: Path) -> Probe | None:
    try:
        return TypeAdapter(Probe).validate_json(report.read_bytes())
    except (OSError, ValueError):  # not there, or not ours: the plugin can write to it, too
        return None


def _import(plugin_id: str, project: Path) -> dict[str, Any]:
    from hooksdk.cli._configuration import load_config
    from hooksdk.config import fold
    from hooksdk.host import look_at, survey
    from hooksdk.manifest import needed_grants

    config = load_config(folder=project)
    same_id = [plugin for plugin in survey(config, project) if plugin.entry and fold(plugin.id) == fold(plugin_id)]
    known = next((plugin for plugin in same_id if plugin.origin == "built-in"), same_id[0])
    # As code it needs no grant, so all of it is seen.
    plugin = replace(known, origin="code", status="loaded", reason="", refusal=None, missing_grant=None)
    problem = ""
    try:
        problem = str(look_at(plugin, config).refusal or "")
    except KeyboardInterrupt:
        problem = f"importing {known.id} raised KeyboardInterrupt"
    permissions = plugin.manifest.permissions if plugin.manifest else []
    grants = needed_grants(plugin.hooks, plugin.tools, permissions)
    return {
        "outcome": "refused" if problem else "loaded",
        "problem": problem,
        "hooks": plugin.hooks,
        "tools": plugin.tools,
        "grants": list(grants),
        "config_schema": plugin.config_schema,
    }


def _main(plugin_id: str, project: str, report: str) -> None:
    outcome = _import(plugin_id, Path(project))
    Path(report).write_text(json.dumps(outcome), encoding="utf-8")
    os._exit(0)  # without waiting for threads that the plugin may have left


if __name__ == "__main__":
    _main(*sys.argv[1:])
