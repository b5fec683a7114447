"""The house in figures, before and after: its size, its walls, what one tool call goes through, and what the tests take.

    python scripts/house.py --before CHECKOUT [--before-python PYTHON] [--suite SECONDS SECONDS] [--marked SECONDS SECONDS] [--json]

Code is what is neither blank nor a comment nor a docstring (any statement that is a text alone). A room is a folder of hooksdk
whose name has no underscore before it, or a built-in plugin; all other files of hooksdk are the core. The figures of a call are
those of `benchmarks/call_path.py`; `--suite` and `--marked` add the time of the default tests and of those that are marked,
before and after, measured by whoever asks.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
call_path: Any = import_module("call_path")

READING_CORE = (
    "hooks.py", "host.py", "session.py", "run.py", "tools.py", "errors.py", "transcript.py",
    "_firing", "_run", "_tasks", "_transcript",
)  # fmt: skip
"""What somebody reads who wants to know how a call and a trim go their way."""
SUPPRESSION = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)")
LAYOUT_TOKENS = {
    tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
LOADED = """import json, sys
from hooksdk import Host, hooks, tool
print(json.dumps([module.__file__ for name, module in sys.modules.items() if name.partition('.')[0] == 'hooksdk']))"""

Figures = dict[str, float]


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


def lines_of(paths: Iterable[Path]) -> int:
    """The code lines of these files, and of all files below these folders."""
    files = (file for path in paths for file in ([path] if path.suffix else path.rglob("*.py")))
    return sum(code_lines(file.read_text("utf-8")) for file in files)


def room_of(module: list[str]) -> str:
    """The room of a module, or `core`; a package of its own elsewhere is one, too."""
    if module[0] == "builtin_plugins":
        return ".".join(module[:2])
    is_room = len(module) > 2 and not module[1].startswith("_")
    return module[1] if is_room and module[0] == "hooksdk" else "core" if module[0] == "hooksdk" else module[0]


def product_files(checkout: Path) -> list[Path]:
    """All that is installed."""
    folders = (checkout / "hooksdk", checkout / "builtin_plugins")
    return [*(path for folder in folders for path in folder.rglob("*.py")), checkout / "pytest_hooksdk.py"]


def imports_across_rooms(checkout: Path) -> Iterator[tuple[str, list[str]]]:
    """Every import of something in another room of this project: the room that imports, and the parts of the name."""
    modules = {path.relative_to(checkout).with_suffix("").parts for path in product_files(checkout)}
    rooms = {parts[1] for parts in modules if parts[0] == "hooksdk" and len(parts) > 2}
    for path in product_files(checkout):
        own = room_of([*path.relative_to(checkout).with_suffix("").parts])
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
                names = [ast.unparse(node.args[0]).strip("f'\"") + ".by name"]
            for name in names:
                parts = name.split(".")
                if parts[0] not in {"hooksdk", "builtin_plugins"} or path == checkout / "hooksdk" / "__init__.py":
                    continue  # what the package offers is imported when it is first used
                other = room_of([*parts, ""] if len(parts) == 2 and parts[1] in rooms else parts)
                if other != own:
                    yield own, parts


def size(checkout: Path) -> Figures:
    """Everything that is counted by reading, and by importing, by the name of its row."""
    package = checkout / "hooksdk"
    texts = [path.read_text("utf-8") for path in product_files(checkout)]
    code = sum(map(code_lines, texts))
    across = [parts for _, parts in imports_across_rooms(checkout)]
    private = [parts for parts in across if any(part.startswith("_") and part != "__init__" for part in parts)]
    suppressions = sum(len(SUPPRESSION.findall(text)) for text in texts)
    loaded: list[str] = json.loads(
        subprocess.run(
            [sys.executable, "-c", LOADED], env={**os.environ, "PYTHONPATH": str(checkout)}, cwd=checkout,
            capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    return {
        "files on hooksdk's top level": len([*package.glob("*.py")]),
        "files in the longest folder": max(
            len([*folder.glob("*.py")]) for folder in package.rglob("*") if folder.is_dir()
        ),
        "longest file, lines": max(len(text.splitlines()) for text in texts),
        "private names used across rooms": len(private),
        "modules of other rooms imported by name": sum(parts[-1] == "by name" for parts in across),
        "code lines of the product": code,
        "code lines of the reading core": lines_of(package / name for name in READING_CORE),
        "code lines that `from hooksdk import Host, hooks, tool` loads": lines_of(map(Path, loaded)),
        "modules that it loads": len(loaded),
        "code lines of the tests": lines_of([checkout / "tests"]),
        "suppressions per 1,000 code lines": round(1000 * suppressions / code, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of hooksdk as it was")
    parser.add_argument("--before-python", default=sys.executable, help="its interpreter; by default the same")
    parser.add_argument("--rounds", type=int, default=9, help="of the times")
    for name, tests in (("suite", "default tests"), ("marked", "marked tests")):
        parser.add_argument(
            f"--{name}", type=float, nargs=2, metavar="SECONDS", help=f"of the {tests}, before and after"
        )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = options.before.resolve()
    sizes = [size(before), size(ROOT)]
    rows: dict[str, list[float]] = {name: [each[name] for each in sizes] for name in sizes[0]}
    rows |= call_path.rows_of({before: options.before_python, ROOT: sys.executable}, options.rounds)
    for name, seconds in (("default tests, seconds", options.suite), ("marked tests, seconds", options.marked)):
        if seconds:
            rows[name] = seconds
    if options.json:
        print(
            json.dumps(
                {name: dict(zip(("before", "after"), values, strict=True)) for name, values in rows.items()}, indent=2
            )
        )
        return
    print("| the house | before | after |\n|---|---|---|")
    for name, values in rows.items():
        print(f"| {name} |", *(f"{value:,} |" for value in values))


if __name__ == "__main__":
    main()
