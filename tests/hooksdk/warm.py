"""A process that has imported all that a command needs; every command is a fork of it.

Starting the interpreter and importing the SDKs takes seconds of the processor, a fork milliseconds, and the tests run some
hundred commands. Run as a script, this is that process. `run` starts it when it is first needed; it ends with the tests.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

CAN_FORK = sys.platform == "linux"
MODULES = [
    "anthropic", "anyio._backends._asyncio", "hooksdk.mcp", "hooksdk.models.anthropic", "hooksdk.models.openai", "jsonschema",
    "mcp.client.stdio", "openai", "rich.markdown", "rich.panel", "rich.table", "typer.rich_utils",
]  # fmt: skip
PACKAGES = ["builtin_plugins", "hooksdk.cli"]
"""Every module of these is imported too: a command loads its own part when it runs."""


@dataclass
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The last line of stderr."""
        return self.err.rstrip().rpartition("\n")[2]


def run(arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], stdin: str = "") -> Done:
    """Run `hooksdk` with these arguments, in this folder and this environment, to its end."""
    if not CAN_FORK:
        done = subprocess.run(
            [sys.executable, "-m", "hooksdk", *arguments], cwd=folder, env=environment, check=False,
            input=stdin.encode(), capture_output=True,
        )  # fmt: skip
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())
    theirs, writing = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        running = start(arguments, folder=folder, environment=environment, files=[theirs, out.fileno(), err.fileno()])
        os.close(theirs)
        with open(writing, "w") as keyboard:
            keyboard.write(stdin)
        returned = running.wait()
        out.seek(0)
        err.seek(0)
        return Done(returned, out.read().decode(), err.read().decode())


class Running:
    """A command under way: a fork, so no child of this process."""

    def __init__(self, told: IO[str]) -> None:
        self._told = told
        self.pid = int(told.readline())

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        os.kill(self.pid, signal.SIGINT)

    def wait(self) -> int:
        """Its code, once it has ended; to be asked for once."""
        with self._told:
            return int(self._told.read())


def start(arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], files: Sequence[int]) -> Running:
    """Start `hooksdk` with these arguments and these files as stdin, stdout and stderr, on Linux."""
    sys.audit("tests.command", arguments)  # it is no child of this process: conftest.py could not see it
    order = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
    reading, end = os.pipe()
    socket.send_fds(_warm_process(), [json.dumps(order).encode()], [*files, end])
    os.close(end)
    return Running(open(reading))


@functools.cache
def _warm_process() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _take_orders(orders: socket.socket) -> Sequence[str] | None:
    """Fork for each order. Answers its arguments in the fork that carries it out, and None when the tests have ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        written, files, _, _ = socket.recv_fds(orders, 1 << 17, 4)
        if not written:
            return None
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    orders.close()
    command = os.fork()
    if command != 0:
        os.write(files[-1], f"{command}\n".encode())
        for file in files[:-1]:  # whoever reads from the command's end of a pipe waits for the command alone
            os.close(file)
        _, status = os.waitpid(command, 0)
        os.write(files[-1], str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    order = json.loads(written)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    # A test run in the background ignores Ctrl-C, and its children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True)  # as on a terminal, and as what reads a pipe line by line wants it
    return order["arguments"]


def _main() -> None:
    for name in MODULES:
        __import__(name)
    for name in PACKAGES:
        folders = importlib.import_module(name).__path__
        for found in pkgutil.walk_packages(folders, f"{name}."):
            importlib.import_module(found.name)
    # Whoever runs the tests may be an agent; a person types the commands in them.
    sys.modules["hooksdk.cli._config.trust"].agent_around = lambda: ""  # pyright: ignore[reportAttributeAccessIssue]
    # What is imported here lives as long as the process: without this, each fork walks and copies all of it when it ends,
    # which takes ten times as long as the command.
    gc.collect()
    gc.freeze()
    arguments = _take_orders(socket.socket(fileno=int(sys.argv[1])))
    if arguments is not None:
        sys.argv[1:] = arguments
        sys.path[0] = os.getcwd()
        from hooksdk.cli import main

        try:
            main()
        except SystemExit as ended:
            if isinstance(ended.code, int):
                _end(ended.code)
            raise


def _end(code: int) -> None:
    """What Python does when it ends, but for taking all modules apart, which takes longer than the command. Where
    something goes wrong, Python ends as it always does."""
    threading._shutdown()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()
