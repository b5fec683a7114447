"""Empty environments, each with a choice of extras, in which everything works that is promised for it: README's blocks, `--help`
of every command, and the import of every module that is not for another extra.

    python3 scripts/extras.py                    nothing, and `cli,mcp`: the least and the most that README tells to install
    python3 scripts/extras.py --readme           all that README tells to install: nothing, `cli`, and `cli,mcp`
    python3 scripts/extras.py --each PYTHON ...  each extra alone, on each of these Pythons
    python3 scripts/extras.py --within EXTRAS    the checks alone, in the environment of the Python that runs this
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"dev", "docs"}

NEEDS = {
    "": "builtin_plugins.* hooksdk.* hooksdk.cli hooksdk.gateway hooksdk.gateway._settings hooksdk.gateway.status",
    "otel": "builtin_plugins.telemetry.*",
    "google-adk": "hooksdk.adapters._adk_forms hooksdk.adapters.google_adk",
    "dbos": "hooksdk.adapters._dbos_run hooksdk.adapters._dbos_versions hooksdk.adapters.dbos",
    "fastmcp": "hooksdk.adapters._fastmcp_forms hooksdk.adapters.fastmcp",
    "openai-agents": "hooksdk.adapters._openai_finish hooksdk.adapters._openai_forms hooksdk.adapters.openai_agents",
    "claude-sdk": "hooksdk.adapters.claude_sdk",
    "langchain": "hooksdk.adapters.langchain",
    "pydantic-ai": "hooksdk.adapters.pydantic_ai",
    "strands": "hooksdk.adapters.strands",
    "cli": "hooksdk.cli.*",
    "cli,mcp": "hooksdk.cli._demo.real hooksdk.cli._edits.client_text hooksdk.cli._gateway.figures "
    "hooksdk.cli._gateway.install hooksdk.cli._gateway.places hooksdk.cli._gateway.serve hooksdk.cli._gateway.trial "
    "hooksdk.cli._gateway.uninstall hooksdk.cli._mcp.import_servers "
    "hooksdk.cli._mcp.servers hooksdk.cli._mcp.sign_in",
    "cli,prove": "hooksdk.cli._proofs.real",
    "mcp": "hooksdk.gateway.* hooksdk.mcp.*",
    "postgres": "hooksdk.stores._postgres",
    "prove": "hooksdk.rules._model hooksdk.rules.proofs",
    "testing": "pytest_hooksdk",
}
"""Of which extras modules need all to be imported; `NAME.*` is a package with all in it that has no row of its own."""


BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALLS = re.compile(r"pip install -e '\.\[([\w,-]+)\]'")


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """A command of the repository's folder, with nobody there to answer it."""
    options = {
        "cwd": ROOT,
        "stdin": subprocess.DEVNULL,
        "capture_output": True,
        "text": True,
        "timeout": 1800,
        **options,
    }
    return subprocess.run(command, check=False, **options)


def whole(extras: str) -> set[str]:
    """These extras, with those that they bring."""
    found: set[str] = set()
    for extra in filter(None, extras.split(",")):
        found.add(extra)
        for line in EXTRAS[extra]:
            if own := re.match(r"hooksdk\[([\w,-]+)\]", line):
                found |= whole(own[1])
    return found


def modules() -> Iterator[tuple[str, Path]]:
    """Every module that is installed, with its file."""
    packages = [path for package in ("builtin_plugins", "hooksdk") for path in (ROOT / package).rglob("*.py")]
    for path in sorted([*packages, ROOT / "pytest_hooksdk.py"]):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def needs(module: str) -> set[str]:
    """The extras that a module needs to be imported."""
    rows = {name: extras for extras, names in NEEDS.items() for name in names.split()}
    row, package = module, module
    while row not in rows:
        row, package = f"{package}.*", package.rpartition(".")[0]
    return whole(rows[row])


def failed_imports(extras: set[str]) -> Iterator[str]:
    """Import every module that needs no other extra, and say which cannot be."""
    for module, _ in modules():
        if needs(module) <= extras:
            try:
                importlib.import_module(module)
            except Exception as error:
                yield f"import {module}: {error!r}"


def failed_helps() -> Iterator[str]:
    """Ask every command for its help, and say which has none."""
    from typer.main import get_command

    from hooksdk.cli import _app

    def commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
        yield path
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            yield from commands(command.commands[name], *path, name)

    for path in commands(get_command(_app.app)):
        with redirect_stdout(StringIO()) as printed:
            code = _app.run([*path, "--help"])
        if code or "Usage: " not in printed.getvalue():
            yield f"hooksdk {' '.join([*path, '--help'])}: {code}, {printed.getvalue()}"


def failed_blocks(extras: set[str], folder: Path) -> Iterator[str]:
    """Do what README says, but for the installations, and say what does not print what it should."""
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
    printed, before, text = "", 0, (ROOT / "README.md").read_text("utf-8")
    for block in BLOCK.finditer(text):
        language, content, lead, before = block[1], block[2], text[before : block.start()], block.end()
        if language in {"python", "toml"}:
            (folder / re.findall(r"[Ss]ave this as `([^`]+)`", lead)[0]).write_text(content, "utf-8")
        elif language == "text":
            if not printed.endswith(content):
                yield f"README.md says {content!r}; it is {printed!r}"
        else:
            wanted = whole(named[1]) if (named := INSTALLS.search(content)) else {"cli"}
            for line in content.splitlines():
                if "pip install" in line or (line.startswith("hooksdk") and not wanted <= extras):
                    continue
                done = run(["bash", "-c", line], cwd=folder, env=environment)
                printed = done.stdout + done.stderr
                may_say_no = line.startswith("hooksdk policy check")  # 1 where the call does not simply run
                if done.returncode > may_say_no or "Traceback" in printed:
                    yield f"{line}: {done.returncode}, {printed}"


def check(extras: set[str]) -> list[str]:
    """All of it, in the environment of this Python."""
    with tempfile.TemporaryDirectory() as folder:
        problems = [*failed_imports(extras), *failed_blocks(extras, Path(folder))]
        if "cli" in extras:
            return [*problems, *failed_helps()]
        done = run([str(Path(sys.executable).parent / "hooksdk")])
        if done.stderr != "The hooksdk command needs typer: pip install 'hooksdk[cli]'\n":
            problems.append(f"hooksdk: {done.returncode}, {done.stdout + done.stderr}")
        return problems


def in_an_environment(python: str, extras: str) -> bool:
    """Make one, and check it; True when all holds."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = f"{folder}/bin/python"
        installing = [own, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", "-e"]
        done = run([*installing, f".[{extras}]" if extras else "."])
        began = time.monotonic()
        if not done.returncode:
            done = run([own, __file__, "--within", extras])
        good = not done.returncode
        name = extras or "nothing"
        print(f"{python}, {name}: {'good' if good else 'FAILED'}, {time.monotonic() - began:.0f} s", flush=True)
        if not good:
            print(done.stdout + done.stderr, flush=True)
        return good


def main(arguments: list[str]) -> int:
    """The exit code: 0 when all holds."""
    match arguments:
        case []:
            wanted = [(sys.executable, extras) for extras in ("", "cli,mcp")]
        case ["--readme"]:
            wanted = [(sys.executable, extras) for extras in ("", "cli", "cli,mcp")]
        case ["--each", *pythons] if pythons:
            wanted = [
                (python, extra) for python in dict.fromkeys(pythons) for extra in EXTRAS if extra not in FOR_DEVELOPERS
            ]
        case ["--within", extras]:
            problems = check(whole(extras))
            print(*problems, sep="\n")
            return len(problems) > 0
        case _:
            print(__doc__)
            return 2
    return 1 - min([in_an_environment(*one) for one in wanted])  # all of them, also after one that fails


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
