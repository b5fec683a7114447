"""What a hook of the guard costs, beside a hook that does nothing; how long a judge takes to start, and what it keeps.

    python benchmarks/guard_hooks.py [--hooks N] [--calls N]

Medians of hooks that take turns in one run, so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hooksdk.guard import client

RULES = """
[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "Bash"
command = ["rm", "git push"]
"""


def call(folder: Path, command: str, number: int = 0) -> bytes:
    fields = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": f"t{number}"}
    return json.dumps({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(folder), **fields}).encode()


def milliseconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return 1_000 * (time.perf_counter() - begin)


def run(*command: str, data: bytes = b"") -> Callable[[], object]:
    return lambda: subprocess.run(command, input=data, capture_output=True, check=True)


def memory(pid: int) -> float:
    """Megabytes that a process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 1_024


def measure(folder: Path, hooks: int, calls: int) -> list[tuple[str, str]]:
    """The rows of the table."""
    (folder / "hooksdk.toml").write_text(RULES)
    hook = (sys.executable, "-I", "-S", str(client.__file__), "claude-code")
    begin = milliseconds(run(*hook, data=call(folder, "ls")))
    pid = json.loads((Path(client.guard_folder()) / "judge.json").read_text())["pid"]
    try:
        kinds = {
            "sh -c true": run("sh", "-c", "true"),
            "python -I -S -c pass": run(sys.executable, "-I", "-S", "-c", "pass"),
            "a hook that objects to nothing": run(*hook, data=call(folder, "ls -l && cat a | sort")),
            "a hook that denies": run(*hook, data=call(folder, "cd x && git push --force")),
        }
        times = {name: list[float]() for name in kinds}
        for _ in range(hooks):
            for name, work in kinds.items():
                times[name].append(milliseconds(work))
        rows = [(name, f"{statistics.median(each):.1f} ms") for name, each in times.items()]
        rows.append(("the first hook, which starts the judge", f"{begin:,.0f} ms"))
        early = 0.0
        for number in range(calls):
            client.ask("claude-code", call(folder, "ls", number))
            if number == calls // 10:
                early = memory(pid)
        rows.append(
            (f"the judge's memory after {calls // 10:,} and {calls:,} calls", f"{early:.0f} and {memory(pid):.0f} MB")
        )
    finally:
        os.kill(pid, signal.SIGTERM)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hooks", type=int, default=40)
    parser.add_argument("--calls", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="guard-") as place:
        os.environ |= {"HOOKSDK_HOME": place, "XDG_CONFIG_HOME": place}
        folder = Path(place) / "project"
        folder.mkdir()
        for line in [("what", "median"), ("---", "---"), *measure(folder, options.hooks, options.calls)]:
            print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
