"""Plain programs as processes of their own: Ctrl-C, and what is forgotten; and a notebook with a real kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk.stores import SqlStore
from hooksdk.trimming import repair

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
PROGRAM = """
import sys, time, anyio
from pathlib import Path
from hooksdk import Tool, ToolContext
from hooksdk.stores import SqlStore
from hooksdk.sync import Host, run_agent
from hooksdk.testing import ScriptedModel, call

async def async_tool() -> str:
    "Never return."
    print("begun", flush=True)
    await anyio.sleep_forever()

def plain_tool(context: ToolContext) -> str:
    "Return when nobody waits any more."
    print("begun", flush=True)
    while not context.cancelled:
        time.sleep(0.01)

def model(messages, tools):
    if len(messages) > 1:
        return "never"
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": sys.argv[1], "arguments": "{}"}}]}

tools = [Tool.from_function(function, source="host") for function in (async_tool, plain_tool)]
try:
    with Host(store=SqlStore(Path("kept"))) as host, host.session("ann") as session:
        run_agent(session, model, "Go.", tools=tools)
finally:
    print("host open:", host.portal.is_open, flush=True)
"""


def start(program: str, *arguments: str, folder: Path) -> subprocess.Popen[str]:
    path = folder / "program.py"
    path.write_text(program)
    return subprocess.Popen(
        [sys.executable, str(path), *arguments], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        # A test run in the background ignores Ctrl-C, and its children inherit that.
        preexec_fn=None if os.name == "nt" else lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


async def stored(folder: Path) -> list[dict[str, Any]]:
    messages, _ = await SqlStore(folder / "kept").read_session("ann")
    return messages


@pytest.mark.in_ci(tool=["plain_tool"])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("tool", ["async_tool", "plain_tool"])
def test_ctrl_c_ends_a_program_and_leaves_a_session_that_can_be_sent(tool: str, tmp_path: Path):
    with start(PROGRAM, tool, folder=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert out == "host open: False\n"
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode in {-signal.SIGINT, 130}
    messages = anyio.run(stored, tmp_path)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert repair(messages, "openai-chat") == messages


def test_a_host_that_is_never_closed_does_not_keep_the_program_from_ending(tmp_path: Path):
    program = """
from pathlib import Path

from hooksdk.stores import SqlStore
from hooksdk.sync import Host

host = Host(store=SqlStore(Path("kept"))).__enter__()
session = host.session("ann").__enter__()
with session.run() as run:
    run.record({"role": "user", "content": "Hello"})
print("done")
"""
    with start(program, folder=tmp_path) as process:
        out, err = process.communicate(timeout=120)
    assert (out, process.returncode) == ("done\n", 0)
    assert "was not left: use it as `with Host(...) as host`" in err
    assert anyio.run(stored, tmp_path) == [{"role": "user", "content": "Hello"}]


def texts_of(notebook: dict[str, Any]) -> str:
    """Everything that the cells have put out."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    parts = [part for output in outputs for part in (output.get("text", ""), *output.get("data", {}).values())]
    return "\n".join("".join(part) for part in parts)


def test_the_example_notebook_runs_in_a_real_kernel(tmp_path: Path):
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    run_it = (
        "import sys, nbformat, nbclient\n"
        "book = nbformat.read(sys.argv[1], 4)\n"
        "nbclient.NotebookClient(book, timeout=120, kernel_name='python3').execute()\n"
        "nbformat.write(book, sys.argv[2])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", run_it, str(NOTEBOOK), str(tmp_path / "run.ipynb")], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1"}, capture_output=True, text=True,
        timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    text = texts_of(json.loads((tmp_path / "run.ipynb").read_text("utf-8")))
    for promised in (
        "The order is paid.",
        "blocked",
        "<table>",
        "<td>refund</td>",
        "host is not open",
        "await works too",
    ):
        assert promised in text


def test_the_example_notebook_is_stored_without_outputs():
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"] == [] and cell["execution_count"] is None)


FORKING = """
import os, sys
from hooksdk.sync import Host

with Host() as host:
    with host.session("ann") as session:
        child = os.fork()
        if child == 0:
            try:
                session.messages
            except Exception as error:
                print("child:", type(error).__name__, flush=True)
        else:
            assert os.waitpid(child, 0)[1] == 0
            print("parent:", len(session.messages), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_has_no_host_and_can_end(tmp_path: Path) -> None:
    program = start(FORKING, folder=tmp_path)
    try:
        assert program.communicate(timeout=60)[0].splitlines() == ["child: SessionClosed", "parent: 0"]
    finally:
        program.kill()
    assert program.returncode == 0
