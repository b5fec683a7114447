"""What it costs to take the values of secrets out of 100 kB of text, and what is taken for one that is none.

    python benchmarks/masking.py [--before CHECKOUT] [--texts FOLDER] [--values 50] [--rounds 7] [--json]

Each checkout is measured in child processes of its own, in turns, with its folder on PYTHONPATH. Times are the processor's, of
100,000 characters: of the folder's text files, or of hooksdk's own documentation. False hits are values that the text does
not hold, whatever the case and blanks, and that were masked in it all the same.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import os
import random
import statistics
import string
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SIZE = 100_000
PLAIN = string.ascii_letters + string.digits + "-_"
SIGNS = PLAIN + "/+&<>'\"=%"
LENGTHS = (16, 24, 40)
WORDS = [
    "correct",
    "horse",
    "battery",
    "staple",
    "hunter",
    "summer",
    "winter",
    "dragon",
    "monkey",
    "shadow",
    "master",
    "secret",
    "access",
    "token",
    "admin",
    "login",
]
SAMPLES = 1_000
"""Values of each kind that are looked for where they are not."""

# In the child: hooksdk is the checkout's.


def _mask(values: list[str]) -> Any:
    """The mask of these values, as this checkout makes it."""
    try:
        module = importlib.import_module("hooksdk._masking.mask")
    except ModuleNotFoundError:  # before it had a folder of its own
        module = importlib.import_module("hooksdk._run.secrets")
    return module.SecretMask((f"NAME_{number}", value) for number, value in enumerate(values))


def _random(alphabet: str, number: int, dice: random.Random) -> list[str]:
    return ["".join(dice.choices(alphabet, k=dice.choice(LENGTHS))) for _ in range(number)]


def _texts(folder: Path | None) -> dict[str, Any]:
    paths = sorted(one for one in (folder or ROOT / "docs").rglob("*.*") if one.suffix in {".jsonl", ".md", ".txt"})
    parts = [one.read_text(encoding="utf-8", errors="replace") for one in paths]
    share = -(-SIZE // len(parts))
    text = "".join(part[:share] for part in parts)
    text = (text * (SIZE // len(text) + 1))[:SIZE]
    lines = text.splitlines()
    rows = [{"id": at, "name": line[:40], "open": True} for at, line in enumerate(lines)]
    while len(json.dumps(rows)) < SIZE:
        rows += rows
    return {
        "text": text,
        "text as JSON": json.dumps(text)[:SIZE],
        "text of escapes alone": "".join(f"\\u{ord(char):04x}" for char in text)[:SIZE],
        "rows of a table": rows[: len(rows) * SIZE // len(json.dumps(rows))],
    }


def _timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def measure(folder: Path | None, number: int) -> dict[str, float]:
    """Milliseconds for each kind of text and of values, once each."""
    dice, times = random.Random(1), dict[str, float]()
    texts = _texts(folder)
    for kind, alphabet in (("letters, digits, - and _", PLAIN), ("with other signs", SIGNS)):
        values = _random(alphabet, number, dice)
        for count in (1, number):
            mask = _mask(values[:count])
            mask.text("warm, with an \\u0065scape")
            for name, text in texts.items():
                times[f"{name} | {count}, {kind}"] = _timed(lambda mask=mask, text=text: mask.value(text))
        with_one = texts["text"][: SIZE // 2] + values[0] + texts["text"][SIZE // 2 :]
        times[f"text with one of them | {number}, {kind}"] = _timed(lambda mask=mask, text=with_one: mask.text(text))
    return times


def false_hits(folder: Path | None) -> dict[str, int]:
    """Of values of each kind that no text holds, how many were masked in one."""
    dice = random.Random(2)
    paths = sorted(one for one in (folder or ROOT / "docs").rglob("*.*") if one.suffix in {".jsonl", ".md", ".txt"})
    texts = [one.read_text(encoding="utf-8", errors="replace") for one in paths]
    unbroken = "".join("\n".join(texts).lower().split())
    kinds: dict[str, Callable[[], str]] = {
        "tokens of 20": lambda: "".join(dice.choices(PLAIN, k=20)),
        "passwords of 10 with signs": lambda: "".join(dice.choices(SIGNS, k=10)),
        "two words and a number": lambda: (
            f"{dice.choice(WORDS)}{dice.choice('-_. +')}{dice.choice(WORDS)}{dice.randrange(100)}"
        ),
        "words": lambda: "".join(dice.sample(WORDS, 2)),
        "eight digits": lambda: f"{dice.randrange(10**8):08}",
        "six letters": lambda: "".join(dice.choices(string.ascii_letters, k=6)),
        "keys in base64": lambda: base64.b64encode(dice.randbytes(18)).decode(),
    }
    hits: dict[str, int] = {}
    for kind, make in kinds.items():
        values = [value for value in (make() for _ in range(SAMPLES)) if "".join(value.lower().split()) not in unbroken]
        hits[kind] = 0
        for start in range(0, len(values), 100):
            mask = _mask(values[start : start + 100])
            masked = [mask.text(text) for text in texts]
            hits[kind] += sum(
                new.count("{{secret:") - old.count("{{secret:") for new, old in zip(masked, texts, strict=True)
            )
    return hits


# The parent


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout of hooksdk, to compare with")
    parser.add_argument("--texts", type=Path, help="a folder of .jsonl, .md or .txt files")
    parser.add_argument("--values", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=["times", "hits"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(
            json.dumps(
                measure(options.texts, options.values) if options.child == "times" else false_hits(options.texts)
            )
        )
        return
    checkouts = {"before": options.before.resolve()} if options.before else {}
    checkouts["today"] = ROOT
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for _ in range(options.rounds):
        for name, checkout in checkouts.items():
            rounds[name].append(_child(checkout, "times", options))
    report = {
        "milliseconds": {name: {key: round(statistics.median(one[key] for one in all_of), 2) for key in all_of[0]} for name, all_of in rounds.items()},
        "false hits": {name: _child(checkout, "hits", options) for name, checkout in checkouts.items()},
    }  # fmt: skip
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for title, columns in report.items():
        print(f"\n| {title} |", *(f"{name} |" for name in columns))
        print("|---|", *("---|" for _ in columns))
        for key in columns["today"]:
            print(f"| {key.replace(' | ', ', values: ')} |", *(f"{column[key]} |" for column in columns.values()))


def _child(checkout: Path, what: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", what, "--values", str(options.values)]
    if options.texts:
        command += ["--texts", str(options.texts.resolve())]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)


if __name__ == "__main__":
    main()
