"""Done is not what the model says, but that the tests which the task names have passed since the last change: by the ledger."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from hooksdk import Host, MemoryStore, PluginState, hooks
from hooksdk.agent import run_agent
from hooksdk.testing import ScriptedModel, call


class DoneWhenTestsPass:
    def __init__(self, state: PluginState) -> None:
        self.state = state  # kept in the session, for a run that goes on after a crash

    @hooks.agent_start
    def read_task(self, event: hooks.AgentStart) -> None:
        self.state["tests"] = re.findall(r"\btest_\w+\.py\b", str(event.input)) or self.state.get("tests", [])

    @hooks.before_answer(required=True)
    def look_at_the_ledger(self, event: hooks.BeforeAnswer) -> hooks.Continue | None:
        changed = max((one.position for one in event.results.list() if one.tool == "write_file"), default=-1)
        since = [one for one in event.results.list() if one.tool == "run_test" and one.position > changed]
        for test in self.state["tests"]:
            runs = [one for one in since if test in one.arguments]
            if not runs or runs[-1].is_error:
                return hooks.Continue(f"{test} {'fails' if runs else 'has not run since the last change'}. Go on.")
        return None


def write_file(path: str, text: str) -> str:
    """Write a file."""
    return f"{Path(path).write_text(text)} characters written"


def run_test(path: str) -> str:
    """Run a test."""
    return subprocess.run([sys.executable, "-B", path], capture_output=True, check=True, text=True).stdout or "passed"


async def main() -> None:
    write_file("test_total.py", "from total import total\nassert total([1, 2]) == 3, 'total is wrong'\n")
    wrong, right = [call("write_file", path="total.py", text=text) for text in ("total = max\n", "total = sum\n")]
    test = call("run_test", path="test_total.py")
    model = ScriptedModel([wrong, "All tests pass!", test, "Done.", right, "Done now.", test, "Done, and tested."])
    async with Host([DoneWhenTestsPass], store=MemoryStore(), config={"allow": []}) as host, host.session() as session:
        outcome = await run_agent(session, model, "Make test_total.py pass.", tools=[write_file, run_test])
        print(*(message["content"] for message in session.messages if message["content"]), outcome.reason, sep="\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        anyio.run(main)
