"""Write the stub of `hooksdk.sync`'s classes from the async ones: the same names, parameters, types and docstrings, without
`async`; and the prose of the classes' own docstrings.

python scripts/sync_twins.py
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from hooksdk.sync import _mirror, _twins

CLASSES = Path(__file__).parents[1] / "hooksdk" / "sync" / "_twins.py"
STUB = CLASSES.with_suffix(".pyi")
TWINS = {
    "Results": "hooksdk.transcript",
    "Storage": "hooksdk.catalog",
    "JudgedCall": "hooksdk.run",
    "Compaction": "hooksdk.run",
    "Run": "hooksdk.run",
    "Session": "hooksdk.session",
    "Host": "hooksdk.host",
}
"""Each class that has a twin, what a class hands out before itself, and its module."""
BASES = {"Host": "OpenedHost", "Session": "Opened[{}]", "Run": "Opened[{}]"}
PLAIN = {"Approver": "Approver", "Model": "PlainModel"}
"""Types that are wider in plain programs, and what they are called there."""
HEAD = '''"""The classes of plain code, as type checkers and editors read them. Written by `scripts/sync_twins.py`: change the async
classes, and run it."""

from hooksdk import catalog as catalog_side
from hooksdk import run as run_side
from hooksdk import session as session_side
from hooksdk import transcript as transcript_side
from hooksdk.sync._host import OpenedHost
from hooksdk.sync._mirror import Opened, Twin
'''


class Writer:
    """Collects the text of the classes, and the imports that their types need."""

    def __init__(self) -> None:
        self.imports: set[str] = {"from typing import TypeVar"}

    def module(self) -> str:
        """The whole stub, formatted."""
        parts = [*(self.twin(name) for name in TWINS), self.run_agent()]
        text = "\n".join([HEAD, *sorted(self.imports), 'T = TypeVar("T")', *parts])
        return self._ruff("format", text=self._ruff("check", "--select", "I,F401", "--fix-only", "--quiet", text=text))

    def _ruff(self, *command: str, text: str) -> str:
        args = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        return subprocess.run(args, input=text, capture_output=True, text=True, check=True).stdout

    def twin(self, name: str) -> str:
        """The class for plain code."""
        kind, plain = getattr(importlib.import_module(TWINS[name]), name), getattr(_twins, name)
        base = BASES.get(name, "Twin[{}]").format(f"{TWINS[name].rpartition('.')[2]}_side.{name}")
        lines = [f"class {name}({base}):", *quoted(inspect.getdoc(plain) or ""), ""]
        mirrored = dict(_mirror.public_members(kind))
        for member, value in vars(plain).items():
            if isinstance(value, property) and member not in mirrored:  # constructors set these: no class has them
                lines += [*self.member(member, value, plain), ""]
        for member, value in mirrored.items():
            write = self.overloaded if getattr(value, "__module__", "") == "typing" else self.member
            lines += [*write(member, value, kind), ""]
        return "\n".join(lines)

    def member(self, name: str, value: Any, kind: type) -> list[str]:
        """One property or method."""
        function: Any = inspect.unwrap(getattr(value, "fget", value))
        node = parse(function)
        mark = ["    @property"] if isinstance(value, property) else []
        answer = self.hint(node.returns, kind)
        if answer.startswith("Generator["):
            self.imports |= {"from collections.abc import Generator", "from contextlib import contextmanager"}
            mark = ["    @contextmanager"]
        head = f"    def {name}({self.parameters(node, kind)}) -> {answer}:"
        return [*mark, head, *(quoted(doc(function), 8) or ["        ..."])]

    def overloaded(self, name: str, _value: Any, kind: type) -> list[str]:
        """A method with several signatures, which the class's source tells."""
        self.imports |= {"from typing import Any", "from typing import overload"}
        tree = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind))))
        nodes = [node for node in tree if isinstance(node, ast.AsyncFunctionDef) and node.name == name]
        lines: list[str] = []
        for node in nodes:
            head = f"    def {name}({self.parameters(node, kind)}) -> {self.hint(node.returns, kind)}: ..."
            lines += ["    @overload", head]
        return lines

    def run_agent(self) -> str:
        """The one function that takes a session."""
        function = importlib.import_module("hooksdk.agent").run_agent
        node = parse(function)
        head = f"def run_agent({self.parameters(node, function)}) -> {self.hint(node.returns, function)}:"
        return "\n".join([head, *quoted(doc(function))])

    def parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: Any) -> str:
        """The parameters as they are written, with the names that plain programs have for some types."""
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg) and argument.annotation is not None:
                argument.annotation = ast.parse(self.hint(argument.annotation, owner), mode="eval").body
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.need(ast.unparse(default), owner)
        return ast.unparse(node.args)

    def hint(self, node: ast.expr | None, owner: Any) -> str:
        """A type as it is written, and what it needs imported."""
        text = ast.unparse(node) if node is not None else "None"
        self.need(text, owner)
        return _mirror.plain_type(text)

    def need(self, text: str, owner: Any) -> None:
        """Import the names in a type from where the async side has them."""
        module = sys.modules[owner.__module__]
        sources = imports_in(inspect.getsource(module))
        for name in set(re.findall(r"(?<!\.)\b[A-Za-z_]\w*", text)) - TWINS.keys() - {"T"}:
            if name in PLAIN:
                self.imports.add(f"from hooksdk.sync._mirror import {PLAIN[name]}")
            elif name in getattr(module, "__all__", ()):
                self.imports.add(f"from {module.__name__} import {name}")
            elif name in sources:
                self.imports.add(sources[name])
            elif name in vars(module):
                self.imports.add(f"from {module.__name__} import {name}")


def imports_in(source: str) -> dict[str, str]:
    """Each imported name of a module, and the line that imports it alone."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                line = ast.unparse(ast.Import([alias]))
                found[alias.asname or alias.name] = (
                    f"from {node.module} {line}" if isinstance(node, ast.ImportFrom) else line
                )
    return found


def parse(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


def doc(function: Any) -> str:
    return _mirror.in_plain_words(inspect.getdoc(function) or "")


def quoted(text: str, indent: int = 4) -> list[str]:
    """A docstring as source."""
    end = "\n" if "```" in text else ""
    return textwrap.indent(f'"""{text}{end}"""', " " * indent).splitlines() if text else []


def documented_classes() -> str:
    """The text of the plain classes with the prose of the async ones; the examples stay."""
    text = CLASSES.read_text(encoding="utf-8")
    for name, module in TWINS.items():
        kind, plain = getattr(importlib.import_module(module), name), getattr(_twins, name)
        old, new = (
            textwrap.indent((inspect.getdoc(one) or "").partition("```python")[0].strip(), "    ").lstrip()
            for one in (plain, kind)
        )
        text = text.replace(f'"""{old}', f'"""{_mirror.in_plain_words(new)}', 1)
    return text


def written() -> dict[Path, str]:
    """The text of each file."""
    return {CLASSES: documented_classes(), STUB: Writer().module()}


if __name__ == "__main__":
    text = documented_classes()
    if text != CLASSES.read_text(encoding="utf-8"):
        CLASSES.write_text(text, encoding="utf-8")
        importlib.reload(_twins)
    STUB.write_text(Writer().module(), encoding="utf-8")
