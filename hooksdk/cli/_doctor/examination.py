"""`hooksdk doctor`: what is wrong with the plugins, the configuration, the servers and the store here.

Plugins are loaded for it, in a child process: one that hangs, ends the process or prints at import is a finding, and then
the others are examined without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from hooksdk.cli._console import counted, print_json, safe, stdout_console
from hooksdk.errors import ConfigError

START_SECONDS = 60.0
"""Seconds that the child may take until it says what it does."""


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """One thing that an operator should know."""

    severity: Literal["problem", "notice"]
    who: str
    """The plugin's id, or `configuration`, `store`, `guard`, `server NAME`."""
    what: str
    advice: str = ""
    """What to type or to write."""


@dataclass(frozen=True, kw_only=True)
class Examination:
    """Where to look, and how long a plugin may take to be loaded."""

    project: Path
    mcp: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """Files with servers, each with the digest of the content that is trusted; empty: any."""
    plugins: tuple[str, ...] = ()
    """As they stand on the command line; the child imports them."""
    load_seconds: float
    known: tuple[Symptom, ...] = ()
    """What is wrong already."""


@dataclass(kw_only=True)
class Diagnosis:
    """What was found."""

    findings: list[Symptom] = field(default_factory=list[Symptom])
    judging: str = ""
    """How many handlers judge tool calls, and whose."""

    @property
    def problems(self) -> int:
        """How many findings are problems."""
        return sum(one.severity == "problem" for one in self.findings)


def run_doctor(examination: Examination, *, as_json: bool) -> int:
    """Examine and print; the code is 1 when there are problems. Raises `ConfigError`."""
    diagnosis = examine(examination)
    if as_json:
        findings = [asdict(one) for one in diagnosis.findings]
        document = {"schema": 1, "judging": diagnosis.judging, "problems": diagnosis.problems, "findings": findings}
        print_json(document)
    else:
        _print(diagnosis, with_servers=bool(examination.mcp))
    return 1 if diagnosis.problems else 0


def examine(examination: Examination) -> Diagnosis:
    """Let a child process examine everything, and leave out what it does not survive. Raises `ConfigError`."""
    fatal = list(examination.known)
    without: list[str] = []
    while True:
        diagnosis = Diagnosis()
        end = _examine_in_child(examination, without, diagnosis)
        if end is None:
            break
        finding, plugin = end
        fatal.append(finding)
        if not plugin or plugin in without:
            break
        without.append(plugin)
    diagnosis.findings[:0] = fatal
    diagnosis.findings.sort(key=lambda one: one.severity != "problem")
    return diagnosis


def _examine_in_child(
    examination: Examination, without: Sequence[str], diagnosis: Diagnosis
) -> tuple[Symptom, str] | None:
    """Fill the diagnosis. Answers None when the child came to its end, or what it did not survive and the plugin of it."""
    order = {
        "project": str(examination.project.resolve()),
        "mcp": {str(path): digest for path, digest in examination.mcp.items()},
    }
    order |= {"load_seconds": examination.load_seconds, "without": without, "plugins": examination.plugins}
    doing: Mapping[str, Any] = {"step": "starting", "plugin": "", "seconds": START_SECONDS}
    with tempfile.TemporaryFile() as noise, _child(json.dumps(order), noise) as (process, lines):
        while True:
            try:
                line = lines.get(timeout=float(doing["seconds"]))
            except queue.Empty:
                return _fatal(examination, doing, f"{doing['step']} is not done after {float(doing['seconds']):g} s")
            if line is None:
                code = process.wait()
                return _fatal(
                    examination, doing, f"{doing['step']} ended the process (exit code {code}){_last_line(noise)}"
                )
            message: dict[str, Any] = json.loads(line)
            if "step" in message:
                doing = message
            elif "finding" in message:
                diagnosis.findings.append(Symptom(**message["finding"]))
            elif "judging" in message:
                diagnosis.judging = message["judging"]
            elif "bad_configuration" in message:
                where, problems = message["bad_configuration"]
                raise ConfigError(where, tuple(problems))
            else:
                return None


def _fatal(examination: Examination, doing: Mapping[str, Any], what: str) -> tuple[Symptom, str]:
    plugin = str(doing["plugin"])
    advice = f"hooksdk plugins disable {plugin}" if plugin else ""
    if plugin in examination.plugins:
        advice = "Correct it, or leave its --plugin out"
    elif plugin.endswith(".py"):
        advice = "Set plugins_file = false"
    return Symptom(severity="problem", who=plugin or "doctor", what=what, advice=advice), plugin


def _last_line(noise: IO[bytes]) -> str:
    noise.seek(0)
    lines = noise.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1]:.300}" if lines else ""


@contextlib.contextmanager
def _child(order: str, noise: IO[bytes]) -> Generator[tuple[subprocess.Popen[bytes], queue.SimpleQueue[bytes | None]]]:
    # -P: a project's folder must not take the place of any module.
    command = [sys.executable, "-P", "-m", "hooksdk.cli._doctor.child", order]
    process = subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=noise, start_new_session=True
    )
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    pipe = process.stdout
    assert pipe is not None

    def read() -> None:
        for line in pipe:
            lines.put(line)
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield process, lines
    finally:
        _kill(process)
        process.wait()
        reader.join(1)  # whoever has inherited the pipe may hold it open
        if not reader.is_alive():
            pipe.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the child, and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _print(diagnosis: Diagnosis, *, with_servers: bool) -> None:
    console = stdout_console()
    if diagnosis.judging:
        console.print(f"[dim]policies[/]  {safe(diagnosis.judging)}", soft_wrap=True)
    for one in diagnosis.findings:
        colour = "red" if one.severity == "problem" else "yellow"
        label = f"{one.severity:9}"
        console.print(
            f"[{colour}]{label}[/] [bold]{_in_one_line(one.who)}[/]: {_in_one_line(one.what)}", soft_wrap=True
        )
        if one.advice:
            console.print(f"          → {_in_one_line(one.advice)}", soft_wrap=True)
    if not with_servers:
        console.print(
            "[dim]Tool patterns are compared with real tools when there is a trusted mcp.json here, or --mcp FILE.[/]",
            soft_wrap=True,
        )
    console.print(counted(diagnosis.problems, "problem") if diagnosis.problems else "no problems")


def _in_one_line(text: str) -> str:
    return safe(" ".join(text.split()))
