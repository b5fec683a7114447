"""How long one waits for the first line of a command, and what importing hooksdk costs.

    python benchmarks/first_output.py [--llm LLM] [--rounds N] [--json]

`--llm` is the `llm` of an environment of its own (`pip install llm`). All commands take turns; the figures are medians. On a
busy machine trust the ratios of one run: the seconds are those of the clock, the imports those of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BESIDE = Path(sys.executable).parent
IMPORTS = {
    "nothing": "pass",
    "pluggy, anyio, pydantic": "import pluggy, anyio, pydantic; pydantic.BaseModel",
    "hooksdk": "import hooksdk",
    "hooksdk, with Host, hooks and tool": "from hooksdk import Host, hooks, tool",
}


def wait_for(command: list[str]) -> tuple[float, float]:
    """Seconds until the first byte on stdout, and until the end."""
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        first = time.perf_counter() - begun
        process.stdout.read()
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    return first, time.perf_counter() - begun


def import_cost(code: str) -> float:
    """Seconds of the processor of a Python that runs this."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", help="the path of the command llm")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    commands = {
        "hooksdk demo": [str(BESIDE / "hooksdk"), "demo"],
        "hooksdk --help": [str(BESIDE / "hooksdk"), "--help"],
        "pytest --version": [str(BESIDE / "pytest"), "--version"],
    }
    if options.llm:
        commands["llm --help"] = [options.llm, "--help"]
    waits: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    costs: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(options.rounds):
        for name, command in commands.items():
            waits[name].append(wait_for(command))
        for name, code in IMPORTS.items():
            costs[name].append(import_cost(code))
    first = {name: statistics.median(one for one, _ in each) for name, each in waits.items()}
    whole = {name: statistics.median(one for _, one in each) for name, each in waits.items()}
    cost = {name: statistics.median(each) for name, each in costs.items()}
    if options.json:
        print(json.dumps({"first": first, "whole": whole, "import": cost}, indent=2))
        return
    print("| command | first output | end |\n|---|---|---|")
    for name in commands:
        print(f"| `{name}` | {first[name]:.2f} s | {whole[name]:.2f} s |")
    base = cost["pluggy, anyio, pydantic"]
    print("\n| import | processor | |\n|---|---|---|")
    for name, seconds in cost.items():
        print(f"| {name} | {seconds:.2f} s | {seconds / base:.1f}x |")


if __name__ == "__main__":
    main()
