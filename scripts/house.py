"""The house in figures, before and after: its size, its suppressions, and what one tool call goes through.

    python scripts/house.py --before CHECKOUT [--before-python PYTHON] [--suite SECONDS SECONDS] [--json]

Code is what is neither blank nor a comment nor a docstring (any statement that is a text alone). The figures of a call
are those of `benchmarks/call_path.py`; `--suite` adds the test suite's time before and after, measured by whoever asks.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
call_path: Any = import_module("call_path")

NOT_CORE = ("adapters/", "agent", "cli/", "formats/", "mcp/", "models/", "stores/", "testing/")
"""What hooksdk has besides its core."""
FLAT_LAYOUT = {
    "_schema/": r"_schema_\w+",
    "_firing/": r"_event|_hook|_signature|_mailbox|_dispatch",
    "_transcript/": r"_conversation|_encoding|_journal|_matching|_storage|_trims",
    "_plugins/": r"_discovery|_registry",
    "_run/": r"_call_steps|_execution|_run_state|_secrets|_stats|_text_calls",
    "_tasks/": r"_background",
    "mcp/": r"adapters/_?mcp\w*",
    "models/": "adapters/(?:_models|anthropic|openai)",
}
"""Rooms of hooksdk with the files that were theirs before there were rooms."""
SUPPRESSION = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)")
LAYOUT_TOKENS = {
    tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip

Row = tuple[str, list[float | None]]


def code_lines(text: str) -> int:
    """The lines of a file that are code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT_TOKENS:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def room_of(path: Path) -> str:
    """The room of a file of hooksdk: its folder, or its own name on the top level. `path` begins below hooksdk."""
    name = path.with_suffix("").as_posix()
    for room, files in FLAT_LAYOUT.items():
        if re.fullmatch(files, name):
            return room
    return f"{path.parts[0]}/" if len(path.parts) > 1 else name


def lines_by_room(checkout: Path) -> tuple[Counter[str], Counter[str]]:
    """Code lines by room of hooksdk, and by the other folders of the repository."""
    package = checkout / "hooksdk"
    rooms: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        rooms[room_of(path.relative_to(package))] += code_lines(path.read_text("utf-8"))
    folders: Counter[str] = Counter()
    for folder in ("builtin_plugins", "tests", "benchmarks", "examples"):
        for path in (checkout / folder).rglob("*.py"):
            folders[folder] += code_lines(path.read_text("utf-8"))
    return rooms, folders


def size(checkout: Path) -> dict[str, float]:
    """Everything that is counted by reading, by the name of its row."""
    package = checkout / "hooksdk"
    rooms, folders = lines_by_room(checkout)
    texts = [path.read_text("utf-8") for path in package.rglob("*.py")]
    suppressions = sum(len(SUPPRESSION.findall(text)) for text in texts)
    public = {room: lines for room, lines in rooms.items() if not room.endswith("/") and room not in NOT_CORE}
    return {
        "files on hooksdk's top level": len(list(package.glob("*.py"))),
        "longest file, lines": max(len(text.splitlines()) for text in texts),
        "code lines of hooksdk": rooms.total(),
        "code lines of the core": sum(lines for room, lines in rooms.items() if room not in NOT_CORE),
        "code lines of the core's top level": sum(public.values()),
        **{f"code lines of {room}": rooms[room] for room in sorted(rooms) if room.endswith("/") and rooms[room]},
        **{f"code lines of {folder}": folders[folder] for folder in folders},
        "suppressions per 1,000 code lines": round(1000 * suppressions / rooms.total(), 1),
    }


def rows_of(before: Path, before_python: str, rounds: int, suite: list[float] | None) -> list[Row]:
    """The whole table."""
    sizes = [size(before), size(ROOT)]
    names = [*sizes[0], *(name for name in sizes[1] if name not in sizes[0])]
    rows: list[Row] = [(name, [each.get(name) for each in sizes]) for name in names]
    checkouts: Mapping[Path, str] = {before: before_python, ROOT: sys.executable}
    counts = [call_path.count(checkout, python) for checkout, python in checkouts.items()]
    rows += [(f"{name} of one call with one policy", [each[name] for each in counts]) for name in call_path.COUNTS]
    times = call_path.times(checkouts, rounds)
    rows += [(f"{name}, microseconds", [round(each[name], 1) for each in times]) for name in call_path.POLICIES]
    if suite:
        rows.append(("test suite, seconds", [*suite]))
    return rows


def cell(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of hooksdk as it was")
    parser.add_argument("--before-python", default=sys.executable, help="its interpreter; by default the same")
    parser.add_argument("--rounds", type=int, default=9, help="of the times")
    parser.add_argument("--suite", type=float, nargs=2, metavar="SECONDS", help="the suite's time before and after")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = rows_of(options.before.resolve(), options.before_python, options.rounds, options.suite)
    if options.json:
        print(
            json.dumps({name: dict(zip(("before", "after"), values, strict=True)) for name, values in rows}, indent=2)
        )
        return
    print("| | before | after |\n|---|---|---|")
    for name, (before, after) in rows:
        print(f"| {name} | {cell(before)} | {cell(after)} |")


if __name__ == "__main__":
    main()
