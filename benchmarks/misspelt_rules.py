"""What becomes of a call that a rule denies when the rule is misspelt, in hooksdk and in others, each at its pinned version.

    python benchmarks/misspelt_rules.py [--only NAME]... [--json] [--write] [--cache FOLDER]

The rivals are installed as by `policy_failures.py`. Prints the table of docs/comparison.md; `--write` puts what was measured
into `_rivals/misspelt_rules.json`, against which the page is tested.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path

from policy_failures import FOLDER, Column, NotMeasured, Rival, cell, measure, progress, python_of
from rule_cases import CASES

RESULTS = FOLDER / "misspelt_rules.json"
RIVALS = (
    Rival("hooksdk", ""),
    Rival("agent-governance-toolkit", "agent-governance-toolkit-core==5.0.0"),
    Rival("agent-governance-toolkit 4", "agent-governance-toolkit-core==4.1.0"),
    Rival("pydantic-ai-harness", "pydantic-ai-harness==0.62.0"),
)
HIDDEN = "agent-governance-toolkit 4"
"""It has no column of its own: each outcome is that of the newer one."""


def file_of(rival: Rival) -> Path:
    return FOLDER / f"{rival.name.split()[0].replace('-', '_')}_rules.py"


def table(columns: Sequence[Column]) -> str:
    shown = [column for column in columns if column["name"] != HIDDEN]
    rows = [["a rule that", *(column["name"] for column in shown)], ["---"] * (len(shown) + 1)]
    rows += [[said, *(cell(case, column["outcomes"][case]) for column in shown)] for case, said in CASES.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def stored() -> list[Column]:
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []


def write(columns: Sequence[Column]) -> None:
    """Measured columns take the place of those of the same rivals."""
    by_name = {column["name"]: column for column in [*stored(), *columns]}
    every = [by_name[rival.name] for rival in RIVALS if rival.name in by_name]
    RESULTS.write_text(json.dumps(every, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=[rival.name for rival in RIVALS], metavar="NAME")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument("--write", action="store_true", help=f"store what was measured in {RESULTS.name}")
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "hooksdk-rivals", help="where they are installed"
    )
    options = parser.parse_args()
    columns: list[Column] = []
    for rival in RIVALS:
        if options.only and rival.name not in options.only:
            continue
        try:
            column = measure(rival.name, python_of(rival, options.cache), file_of(rival), cases=CASES)
        except NotMeasured as why:
            progress(f"{rival.name} is left out: it {why}")
            continue
        columns.append(column | {"package": rival.package, "measured": dt.datetime.now(dt.UTC).date().isoformat()})
    if options.write:
        write(columns)
    print(json.dumps(columns, indent=1) if options.json else table(columns))


if __name__ == "__main__":
    main()
