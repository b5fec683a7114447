"""`hooksdk doctor`: the problems of the plugins, the configuration, the servers and the store here.

Plugins are loaded for it, in a child process: one that hangs, ends the process or prints at import is a finding, and
then the others are examined without it.
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
from typing import IO, Annotated, Any, Literal

import typer

from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import View, counted, one_line
from hooksdk.cli._given_tools import OwnTools, Traces
from hooksdk.cli._mcp.files import not_trusted, servers_files
from hooksdk.cli._options import Json, Mcp, Plugins, Project
from hooksdk.config import Trust
from hooksdk.errors import ConfigError

doctor_app = typer.Typer(add_completion=False)
# The seconds until the first message of the child.
START_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """A finding that an operator should know.

    Attributes:
        who: The plugin's id, or `configuration`, `store`, `guard`, `server NAME`.
        advice: The command to type, or the setting to write.
    """

    severity: Literal["problem", "notice"]
    who: str
    what: str
    advice: str = ""


@dataclass(kw_only=True)
class Diagnosis:
    """The findings.

    Attributes:
        judging: The handlers that judge tool calls: their number, and their plugins.
    """

    findings: list[Symptom] = field(default_factory=list[Symptom])
    judging: str = ""

    @property
    def problems(self) -> int:
        """The number of findings that are problems."""
        return sum(one.severity == "problem" for one in self.findings)


@doctor_app.command()
def doctor(
    mcp: Mcp = None,
    tools: OwnTools = None,
    trace: Traces = None,
    plugin: Plugins = None,
    load_seconds: Annotated[float, typer.Option("--limit", min=0.1, metavar="SECONDS")] = 20.0,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Find what is wrong here: lost policies, missing grants, dead rules, patterns without a tool, servers, the
    store.

    Options:
        load_seconds: How long one plugin may take to be loaded.
    """
    files, unknown = dict.fromkeys(mcp or (), ""), list[Trust]()
    if not files:
        files, unknown = servers_files(project, read_config(folder=project)[0])
    known = [Symptom(severity="problem", who=one.folder.name, what=not_trusted(one, project)) for one in unknown]
    order = {
        "project": str(project.resolve()),
        "mcp": {str(path): digest for path, digest in files.items()},
        "load_seconds": load_seconds,
        "plugins": plugin or [],
        "tools": tools or [],
        "traces": list(map(str, trace or ())),
    }
    diagnosis = examine(order, known)
    findings, problems = diagnosis.findings, diagnosis.problems
    document = {"judging": diagnosis.judging, "problems": problems, "findings": [asdict(one) for one in findings]}
    view = View(document, indent=10)
    if diagnosis.judging:
        view.line("policies", diagnosis.judging, "dim")
    for one in findings:
        style = "red" if one.severity == "problem" else "yellow"
        view.markup(f"[{style}]{one.severity:9}[/] [bold]{one_line(one.who)}[/]: {one_line(one.what)}")
        if one.advice:
            view.line("", f"→ {one.advice}")
    if not (files or tools or trace):
        cure = "when there is a trusted mcp.json here, or --mcp, --tools or --trace"
        view.markup(f"[dim]Tool patterns are compared with real tools {cure}.[/]")
    view.markup(counted(problems, "problem") if problems else "no problems")
    view.show(as_json=as_json)
    raise typer.Exit(1 if problems else 0)


def examine(order: Mapping[str, Any], known: Sequence[Symptom]) -> Diagnosis:
    """Let a child process examine everything but the plugins that end it; `known` are findings of the command itself.
    The order is its JSON: the project, the plugins of the command line, the seconds in which one must be loaded, and
    the files with servers, each with the digest of the content that is trusted (empty: any). Raises `ConfigError`."""
    fatal = list(known)
    without: list[str] = []
    while True:
        diagnosis = Diagnosis()
        end = _examine_in_child({**order, "without": without}, diagnosis)
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


def _examine_in_child(order: Mapping[str, Any], diagnosis: Diagnosis) -> tuple[Symptom, str] | None:
    """Fill the diagnosis. None when the child came to its end, or else the finding that ended it, and its plugin."""
    doing: Mapping[str, Any] = {"step": "starting", "plugin": "", "seconds": START_SECONDS}
    with tempfile.TemporaryFile() as noise, _child(json.dumps(order), noise) as (process, lines):
        while True:
            step, seconds = doing["step"], float(doing["seconds"])
            try:
                line = lines.get(timeout=seconds)
            except queue.Empty:
                return _fatal(order["plugins"], doing, f"{step} is not done after {seconds:g} s")
            if line is None:
                end = f"ended the process (exit code {process.wait()}){_last_line(noise)}"
                return _fatal(order["plugins"], doing, f"{step} {end}")
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


def _fatal(named: Sequence[str], doing: Mapping[str, Any], what: str) -> tuple[Symptom, str]:
    plugin = str(doing["plugin"])
    advice = f"hooksdk plugins disable {plugin}" if plugin else ""
    if plugin in named:
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
        reader.join(1)  # a process that has inherited the pipe may hold it open
        if not reader.is_alive():
            pipe.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the child and its own children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
