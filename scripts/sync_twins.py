"""Write the classes of `hooksdk.sync` from the async ones: the same names, parameters, types and docstrings, without `async`.

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
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

FOLDER = Path(__file__).parents[1] / "hooksdk" / "sync"
FILES = {"_run.py": ("Results", "Storage", "JudgedCall", "Compaction", "Run"), "_session.py": ("Session", "Host")}
TWINS = {
    "Results": "hooksdk.transcript", "Storage": "hooksdk.catalog", "JudgedCall": "hooksdk.run", "Compaction": "hooksdk.run",
    "Run": "hooksdk.run", "Session": "hooksdk.session", "Host": "hooksdk.host",
}  # fmt: skip
"""Each class that has a twin, what a class hands out before itself, and its module."""
BASES = {"Host": "OpenedHost", "Session": "Opened[{}]", "Run": "Opened[{}]"}
PLAIN = {"Approver": "Approver", "Model": "PlainModel"}
"""Types that are wider in plain programs, and what they are called there."""
ATTRIBUTES = {
    "Session": {"id": ("str", "Its id."), "resumed": ("bool", "True when the session existed before.")},
    "Host": {"config": ("Config", "The merged configuration.")},
}
"""Public attributes that the constructors set, which are seen in no class."""
EXAMPLES = {
    "Host": """
        from hooksdk.sync import Host

        with Host() as host, host.session("ann") as session:
            assert host.sessions == (session,)
    """,
    "Session": """
        from hooksdk.sync import Host

        with Host() as host, host.session("ann") as session:
            with session.run() as run:
                run.record({"role": "user", "content": "Hello"})
            assert session.messages == [{"role": "user", "content": "Hello"}]
    """,
    "Run": """
        from hooksdk import Tool
        from hooksdk.sync import Host

        def greet(arguments: dict[str, str]) -> str:
            return f"Hello {arguments['name']}"

        with Host() as host, host.session("s1") as session, session.run("Greet Ada.") as run:
            run.resolve_tools([Tool(name="greet", source="host", execute=greet)])
            run.record({"role": "user", "content": "Greet Ada."})
            call = {"id": "c1", "type": "function", "function": {"name": "greet", "arguments": '{"name": "Ada"}'}}
            run.record({"role": "assistant", "content": None, "tool_calls": [call]})
            results = [run.call_tool(call) for call in run.pending]
        assert [result.text for result in results] == ["Hello Ada"]
    """,
}
HEAD = '''"""{}. Written by `scripts/sync_twins.py`: change the async classes, and run it."""

from __future__ import annotations

from hooksdk import agent as agent_side
from hooksdk import catalog as catalog_side
from hooksdk import run as run_side
from hooksdk import session as session_side
from hooksdk import transcript as transcript_side
'''
TITLES = {"_run.py": "A run and what it hands out, for plain code", "_session.py": "Hosts and sessions, for plain code"}
OWN = [
    "from hooksdk.sync._host import OpenedHost",
    "from hooksdk.sync._plain import as_async, as_model",
    "from hooksdk.sync._portal import Opened, Twin",
]
SIDES = {"hooksdk.catalog": "catalog_side", "hooksdk.run": "run_side", "hooksdk.session": "session_side",
         "hooksdk.transcript": "transcript_side", "hooksdk.host": ""}  # fmt: skip


class Writer:
    """Collects the text of the classes, and the imports that their types need."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = FILES[path.name]
        self.imports: set[str] = set()

    def module(self) -> str:
        """The whole file, formatted."""
        parts = [self.twin(name) for name in self._names]
        if "Session" in self._names:
            parts.append(self.run_agent())
        elsewhere = [f"from hooksdk.sync._run import {name}" for name in FILES["_run.py"] if name not in self._names]
        text = "\n".join([HEAD.format(TITLES[self._path.name]), *OWN, *elsewhere, *sorted(self.imports), *parts])
        return self._ruff("format", text=self._ruff("check", "--select", "I,F401", "--fix-only", "--quiet", text=text))

    def _ruff(self, *command: str, text: str) -> str:
        args = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(self._path), "-"]
        return subprocess.run(args, input=text, capture_output=True, text=True, check=True).stdout

    def twin(self, name: str) -> str:
        """The class for plain code."""
        kind = getattr(importlib.import_module(TWINS[name]), name)
        base = BASES.get(name, "Twin[{}]").format(f"{SIDES[TWINS[name]]}.{name}")
        lines = [f"class {name}({base}):", *self.class_docstring(name, kind)]
        for attribute, (hint, text) in ATTRIBUTES.get(name, {}).items():
            self.need(hint, kind)
            lines += ["    @property", f"    def {attribute}(self) -> {hint}:", f'        """{text}"""',
                      f'        return self._read("{attribute}")', ""]  # fmt: skip
        for member, value in public_members(kind):
            write = self.overloaded if getattr(value, "__module__", "") == "typing" else self.member
            lines += [*write(member, value, kind), ""]
        return "\n".join(lines)

    def class_docstring(self, name: str, kind: type) -> list[str]:
        text = plain((inspect.getdoc(kind) or "").partition("```python")[0].strip())
        if example := EXAMPLES.get(name):
            text += f"\n\n```python\n{textwrap.dedent(example).strip()}\n```"
        quoted = f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'
        return [*textwrap.indent(quoted, "    ").splitlines(), ""]

    def member(self, name: str, value: Any, kind: type) -> list[str]:
        """One property or method."""
        function: Any = inspect.unwrap(getattr(value, "fget", value))
        node = parse(function)
        answer = self.hint(node.returns, kind)
        if is_block := answer.startswith("AsyncGenerator["):
            answer = answer.removeprefix("AsyncGenerator[").removesuffix("]").partition(",")[0]
        head = f"    def {name}({self.parameters(node, kind)})"
        doc = docstring(function)
        if isinstance(value, property):
            return [
                "    @property",
                f"{head} -> {answer}:",
                *doc,
                f"        return {converted(answer, f'self._read({name!r})')}",
            ]
        if is_block:
            self.imports |= {"from collections.abc import Generator", "from contextlib import contextmanager"}
            return ["    @contextmanager", f"{head} -> Generator[{answer}, None, None]:", *doc,
                    f"        with self._block({name!r}) as value:", f"            yield {converted(answer, 'value')}"]  # fmt: skip
        way = "_call" if isinstance(node, ast.AsyncFunctionDef) else "_do"
        call = f"self.{way}({', '.join([repr(name), *arguments(node)])})"
        return [
            f"{head} -> {answer}:",
            *doc,
            f"        {call}" if answer == "None" else f"        return {converted(answer, call)}",
        ]

    def overloaded(self, name: str, _value: Any, kind: type) -> list[str]:
        """A method with several signatures, which the class's source tells."""
        self.imports |= {"from typing import Any", "from typing import overload"}
        tree = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind))))
        nodes = [node for node in tree if isinstance(node, ast.AsyncFunctionDef) and node.name == name]
        lines: list[str] = []
        for node in nodes:
            head = f"    def {name}({self.parameters(node, kind)}) -> {self.hint(node.returns, kind)}: ..."
            lines += ["    @overload", head]
        given = ", ".join([repr(name), *arguments(nodes[0])])
        whole = self.parameters(nodes[0], kind).replace(": None=None", ": Any=None")
        return [*lines, f"    def {name}({whole}) -> Any:", f"        return self._call({given})"]

    def run_agent(self) -> str:
        """The one function that takes a session."""
        agent = importlib.import_module("hooksdk.agent")
        node = parse(agent.run_agent)
        given = ", ".join(["agent_side.run_agent", "session.twin", "as_model(model)", *arguments(node)[2:]])
        head = f"def run_agent({self.parameters(node, agent.run_agent)}) -> {self.hint(node.returns, agent.run_agent)}:"
        body = f"    return session.portal.call({given})"
        return "\n".join([head, *(line.removeprefix("    ") for line in docstring(agent.run_agent)), body])

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
        return re.sub(r"\bModel\b", "PlainModel", text)

    def need(self, text: str, owner: Any) -> None:
        """Import the names in a type from where the async side has them."""
        module = sys.modules[owner.__module__]
        sources = imports_in(inspect.getsource(module))
        for name in set(re.findall(r"(?<!\.)\b[A-Za-z_]\w*", text)) - TWINS.keys():
            if name in PLAIN:
                self.imports.add(f"from hooksdk.sync._plain import {PLAIN[name]}")
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


def public_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Its public methods and properties, in the order in which they are written."""
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("hooksdk"):
            for name, value in vars(base).items():
                if not name.startswith("_") and isinstance(value, (property, FunctionType)):
                    yield name, value


def parse(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


def docstring(function: Any) -> list[str]:
    text = plain(inspect.getdoc(function) or "")
    return textwrap.indent(f'"""{text}"""', "        ").splitlines() if text else []


def plain(text: str) -> str:
    """A docstring in the words of plain programs."""
    text = re.sub(r" When this returns True, no run begins before the\s+caller's next `await`\.", "", text)
    return text.replace("async with ", "with ").replace("`await ", "`").replace("async def", "def")


def arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The parameters, handed on."""
    given = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args) if argument.arg != "self"]
    given += [f"*{node.args.vararg.arg}"] if node.args.vararg else []
    for argument in node.args.kwonlyargs:
        value = argument.arg
        if value == "approver":
            value = "None if approver is None else as_async(approver)"
        given.append(f"{argument.arg}={value}")
    return given + ([f"**{node.args.kwarg.arg}"] if node.args.kwarg else [])


def converted(answer: str, value: str) -> str:
    """What the async side answers, as plain code gets it."""
    if answer in TWINS:
        return f"{answer}({value}, self.portal)"
    if (inner := answer.removeprefix("Sequence[").removesuffix("]")) in TWINS:
        return f"tuple({inner}(one, self.portal) for one in {value})"
    return value


def written() -> dict[Path, str]:
    """The text of each file."""
    return {FOLDER / name: Writer(FOLDER / name).module() for name in FILES}


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
