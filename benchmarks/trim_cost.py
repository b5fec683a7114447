"""What trims do to the bill: real transcripts, and one long session of all that are of one kind.

    python benchmarks/trim_cost.py [--folder FOLDER]

Deterministic: sizes are estimates (characters / 4), prices those of `hooksdk.costs.Prices`. No clock, no network.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from _data import data_folder

from hooksdk.cli._sessions.cost import compare
from hooksdk.costs import Bill
from hooksdk.formats import Message

FOLDER = data_folder() / "transcripts"
PAUSE = 600
"""Seconds that the person is away between two runs, in one column: longer than the cache lives."""
HEAD = [
    "policy",
    "cheapest",
    "dearest",
    "dearer than untrimmed",
    "long session",
    "with pauses",
    "its trims",
    "its drains",
]
Bills = dict[str, Bill]


def load(file: Path) -> list[Message]:
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line.strip()]


def long_session(folder: Path) -> list[Message]:
    """All conversations with customers, one after the other, under the first one's system text."""
    messages = [message for file in sorted(folder.glob("tau-*.jsonl")) for message in load(file)]
    return [message for at, message in enumerate(messages) if at == 0 or message["role"] != "system"]


def rows(short: list[Bills], long: Bills, paused: Bills) -> list[list[str]]:
    """One row for each policy: its share of the untrimmed bill, in the short sessions and in the long one."""
    table: list[list[str]] = []
    for policy, bill in long.items():
        shares = [bills[policy].price / bills["untrimmed"].price for bills in short if bills["untrimmed"].price]
        dearer = sum(share > 1 for share in shares)
        table.append([
            policy, f"{min(shares):.2f}x", f"{max(shares):.2f}x", f"{dearer} of {len(shares)}",
            f"{bill.price / long['untrimmed'].price:.2f}x", f"{paused[policy].price / paused['untrimmed'].price:.2f}x", str(bill.trims), str(bill.drains),
        ])  # fmt: skip
    return table


def measure(folder: Path = FOLDER) -> list[list[str]]:
    """The table's rows."""
    short = [compare(load(file), "openai-chat") for file in sorted(folder.glob("*.jsonl"))]
    long = long_session(folder)
    return rows(short, compare(long, "openai-chat"), compare(long, "openai-chat", pause=PAUSE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().folder
    messages = long_session(folder)
    print(f"{len(list(folder.glob('*.jsonl')))} transcripts; the long session has {len(messages)} messages\n")
    for line in [HEAD, ["---"] * len(HEAD), *measure(folder)]:
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
