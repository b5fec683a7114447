"""The house in figures, before and after: its size, its walls, what one tool call goes through, and what the tests take.

    python scripts/house.py --before CHECKOUT [--before-python PYTHON] [--suite SECONDS SECONDS] [--marked SECONDS SECONDS] [--json]

Code is what is neither blank nor a comment nor a docstring of a module, class or function, after `ruff format` without
`fmt: skip`. A room is a folder of hooksdk whose name has no underscore before it, or a built-in plugin; all other files of
hooksdk are the core. Ring 0 is what one run in memory loads, ring 1 what else a deny rests on, ring 2 everything else. The
figures of a call are those of `benchmarks/call_path.py`; `--suite` and `--marked` add the time of the default tests and of
those that are marked, before and after, measured by whoever asks.
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
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
call_path: Any = import_module("call_path")

RING_1 = ("hooksdk/rules", "hooksdk/guard", "builtin_plugins/tool_policy")
"""What a deny rests on beside the hook core: the rules, the policy plugin that reads them, the judge of coding agents' calls."""
FORMAT_SKIP = re.compile(r" *# fmt: skip")
SUPPRESSION = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)")
LAYOUT_TOKENS = {
    tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
FILES = """
import json, sys
names = [module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] in {"hooksdk", "builtin_plugins"}]
print(json.dumps([name for name in names if name]))
"""
IMPORT = "from hooksdk import Host, hooks, tool"
CODE = "code lines of"
"""What the figures begin with that have a table of their own."""
BUILT_INS = (
    "audit", "catalog_audit", "clear_tool_results", "no_repeats", "secrets", "telemetry", "tool_policy", "tool_results",
    "tool_search", "trace_file",
)  # fmt: skip
ONE_RUN = f"""
import anyio
from hooksdk import Host, MemoryStore, Tool, hooks, tool

class Policy:
    @hooks.before_tool_call
    def judge(self, event: hooks.BeforeToolCall) -> None: ...

async def execute(arguments: dict) -> str:
    return "done"

async def main() -> None:
    call = {{"id": "c1", "type": "function", "function": {{"name": "t", "arguments": "{{}}"}}}}
    host = Host([Policy], store=MemoryStore(), config={{"deny": {BUILT_INS!r}}})
    async with host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([Tool(name="t", source="host", execute=execute)])
        await run.record({{"role": "assistant", "content": None, "tool_calls": [call]}})
        assert (await run.call_tool(run.pending[0])).text == "done"
        await run.prepare_messages()

anyio.run(main)
"""
"""One run in memory with one tool and one policy. The built-in plugins are left out: a host chooses them."""
ONE_DECISION = """
import os, tempfile
from pathlib import Path
import anyio

async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = folder
        from hooksdk.guard import Judge, starter_policy
        project = Path(folder, "project")
        (project / ".hooksdk").mkdir(parents=True)
        (project / ".git").mkdir()
        (project / "hooksdk.toml").write_text(starter_policy(project), encoding="utf-8")
        hook = {"hook_event_name": "PreToolUse", "session_id": "s1", "cwd": str(project), "tool_name": "Bash"}
        async with Judge() as judge:
            output = await judge.answer(
                "claude-code", {**hook, "tool_input": {"command": "git push --force"}, "tool_use_id": "t1"}
            )
        assert output, "the starter policy has nothing to say"

anyio.run(main)
"""
"""One decision of the guard: a judge in this process, the starter policy, `git push --force`."""

Figures = dict[str, float]


def code_lines(text: str) -> int:
    """The lines of a file that are code. The docstrings of a module, a class and a function are none; a text after an
    attribute is counted."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT_TOKENS:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def formatted_lines(checkout: Path) -> dict[str, int]:
    """The code lines of each file of the product, by its path in the checkout, as the formatter writes it without any
    `fmt: skip`: so no line can be made longer to have fewer of them."""
    with TemporaryDirectory() as folder:
        copies = {path: Path(folder, path.relative_to(checkout)) for path in product_files(checkout)}
        for path, copy in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(FORMAT_SKIP.sub("", path.read_text("utf-8")), encoding="utf-8")
        Path(folder, "ruff.toml").write_text("line-length = 120\n", encoding="utf-8")
        ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--no-cache", folder]
        subprocess.run(ruff, check=True)
        return {
            path.relative_to(checkout).as_posix(): code_lines(copy.read_text("utf-8")) for path, copy in copies.items()
        }


def files_loaded(checkout: Path, program: str, python: str = sys.executable) -> list[str]:
    """The files of the product, by their paths in the checkout, that a program has loaded when it ends."""
    with TemporaryDirectory() as folder:
        output = subprocess.run(
            [python, "-c", program + FILES], env={**os.environ, "PYTHONPATH": str(checkout)}, cwd=folder,
            stdout=subprocess.PIPE, check=True, text=True,
        ).stdout  # fmt: skip
    paths = [Path(name) for name in json.loads(output.splitlines()[-1])]
    return sorted(path.relative_to(checkout).as_posix() for path in paths if path.is_relative_to(checkout))


def rings(checkout: Path, python: str = sys.executable) -> dict[str, int]:
    """The ring of each file of the product: 0, the hook core, where one run loads it; 1, the gate, where it is in one of its
    rooms and one decision of the guard loads it; 2 for everything else."""
    hook_core = {*files_loaded(checkout, ONE_RUN, python)}
    gate = {file for file in files_loaded(checkout, ONE_DECISION, python) if file.startswith(RING_1)} - hook_core
    files = [path.relative_to(checkout).as_posix() for path in product_files(checkout)]
    return {file: 0 if file in hook_core else 1 if file in gate else 2 for file in sorted(files)}


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


def parts_of_a_call(checkout: Path) -> Figures:
    """The fields of the class that follows a call through the run, how many of them are booleans, and its stages."""
    figures: Figures = {}
    for path in (checkout / "hooksdk").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name == "CallInProgress":
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                booleans = [each for each in fields if ast.unparse(each.annotation) == "bool"]
                figures |= {"fields of a call": len(fields), "booleans among them": len(booleans)}
            elif isinstance(node, ast.ClassDef) and node.name == "Stage":
                figures["stages of a call"] = sum(isinstance(each, ast.Assign) for each in node.body)
    return figures


def size(checkout: Path, python: str = sys.executable) -> Figures:
    """Everything that is counted by reading, and by loading, by the name of its row."""
    package = checkout / "hooksdk"
    texts = [path.read_text("utf-8") for path in product_files(checkout)]
    lines = formatted_lines(checkout)
    code = sum(lines.values())
    across = [parts for _, parts in imports_across_rooms(checkout)]
    private = [parts for parts in across if any(part.startswith("_") and part != "__init__" for part in parts)]
    suppressions = sum(len(SUPPRESSION.findall(text)) for text in texts)
    programs = {
        "`from hooksdk import Host, hooks, tool`": IMPORT,
        "one run (ring 0)": ONE_RUN,
        "one guard decision": ONE_DECISION,
    }
    loaded = {name: files_loaded(checkout, program, python) for name, program in programs.items()}
    in_ring: dict[int, int] = {0: 0, 1: 0, 2: 0}
    ring_of = rings(checkout, python)
    rooms: Figures = {}
    for file, count in lines.items():
        in_ring[ring_of[file]] += count
        room = room_of([*Path(file).with_suffix("").parts])
        rooms[f"code lines of {room}"] = rooms.get(f"code lines of {room}", 0) + count
    return {
        "code lines of the product, formatted": code,
        **{f"code lines of ring {ring}": count for ring, count in in_ring.items()},
        **{f"code lines that {name} loads": sum(lines[file] for file in files) for name, files in loaded.items()},
        **{f"files that {name} loads": len(files) for name, files in loaded.items()},
        **dict(sorted(rooms.items())),
        **parts_of_a_call(checkout),
        "`fmt: skip` in the product": sum(len(FORMAT_SKIP.findall(text)) for text in texts),
        "words in `docs/`": sum(len(path.read_text("utf-8").split()) for path in (checkout / "docs").rglob("*.md")),
        "files on hooksdk's top level": len([*package.glob("*.py")]),
        "files of the product": len(texts),
        "longest file, lines": max(len(text.splitlines()) for text in texts),
        "private names used across rooms": len(private),
        "modules of other rooms imported by name": sum(parts[-1] == "by name" for parts in across),
        "suppressions per 1,000 code lines": round(1000 * suppressions / code, 1),
    }


def listed(ring_of: Mapping[str, int]) -> str:
    """The files of rings 0 and 1 as Markdown: a line for each folder."""
    lines: list[str] = []
    for ring, title in ((0, "Ring 0, the hook core"), (1, "Ring 1, the gate")):
        files = [Path(file) for file, own in ring_of.items() if own == ring]
        lines += [f"## {title}", "", "| folder | files |", "|---|---|"]
        for folder in sorted({file.parent for file in files}):
            names = ", ".join(f"`{file.name}`" for file in files if file.parent == folder)
            lines.append(f"| `{folder.as_posix()}/` | {names} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of hooksdk as it was")
    parser.add_argument(
        "--rings", action="store_true", help="list the files of rings 0 and 1, as docs/explanation/rings.md has them"
    )
    parser.add_argument("--before-python", default=sys.executable, help="its interpreter; by default the same")
    parser.add_argument("--rounds", type=int, default=9, help="of the times")
    for name, tests in (("suite", "default tests"), ("marked", "marked tests")):
        parser.add_argument(
            f"--{name}", type=float, nargs=2, metavar="SECONDS", help=f"of the {tests}, before and after"
        )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rings:
        print(listed(rings(ROOT)))
        return
    if options.before is None:
        parser.error("name a checkout to compare with (--before), or list the trusted files (--rings)")
    before = options.before.resolve()
    sizes = [size(before, options.before_python), size(ROOT)]
    sizes = [{name: each.get(name, 0) for name in {**sizes[0], **sizes[1]}} for each in sizes]
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
    ways = [f"{way}: " for way in call_path.WAYS]
    for head, own in (("the house", ""), (CODE, f"{CODE} ")):
        print(f"| {head} | before | after |\n|---|---|---|")
        for name, values in rows.items():
            if name.startswith(f"{CODE} ") == bool(own) and not name.startswith((*ways,)):
                print(f"| {name.removeprefix(own)} |", *(f"{value:,} |" for value in values))
        print()
    print("| before, after |", *(f"{way} |" for way in call_path.WAYS), f"\n|---|{'---|' * len(ways)}")
    for name in (name.removeprefix(ways[0]) for name in rows if name.startswith(ways[0])):
        print(f"| {name} |", *(f"{rows[way + name][0]:,}, {rows[way + name][1]:,} |" for way in ways))


if __name__ == "__main__":
    main()
